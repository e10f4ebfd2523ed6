"""Twins of captures that were not taken at the sender, or that show no path: estimates, and reasons that are true."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import airtcp
import kernel_path
from airtcp import _airtcp
from airtcp.advice import fit as search
from airtcp.advice.fit import Proof, fit, prove
from airtcp.advice.observed import NoTwinError, Observed, observe
from airtcp.advice.twin import Path as NetworkPath
from airtcp.advice.twin import scenario
from conftest import Command
from made_capture import MSS, Packet, transfer, write
from test_twin import TWINS

Json = dict[str, Any]


def seen(path: Path) -> Observed:
    return observe(airtcp.analyze(path, points=1_000_000))


def at_receiver(network: Json, folder: Path, *, timestamps: bool, **options: Any) -> Path:
    """The network's capture at the receiver."""
    network = TWINS.at_receiver(network, timestamps=timestamps)
    for flow in network["scenario"]["flows"]:
        flow["receiver"] = options
    TWINS.capture(network, folder / "receiver.pcapng")
    return folder / "receiver.pcapng"


# --- downloads, captured at their receiver ----------------------------------------------------------------------------


@pytest.mark.parametrize("timestamps", [True, False], ids=["timestamps", "losses"])
@pytest.mark.parametrize(
    ("rate", "rtt", "packets", "cc"), [(20, 40, 100, "cubic"), (5, 20, 40, "reno")], ids=["20 Mbit/s", "5 Mbit/s"]
)
def test_a_download_has_the_rate_the_round_trip_and_the_buffer(
    tmp_path: Path, rate: float, rtt: float, packets: int, cc: str, timestamps: bool
) -> None:
    network = TWINS.wired(rate, rtt, packets=packets, cc=cc, duration=20)
    found = seen(at_receiver(network, tmp_path, timestamps=timestamps))
    assert found.is_at_losses is not timestamps
    assert found.is_saturated
    assert not found.is_bursty
    assert found.rate_bps == pytest.approx(rate * 1e6, rel=0.025)
    assert found.buffer_packets == pytest.approx(packets, rel=0.1)
    (flow,) = found.flows
    assert flow.rtt_min_ms - 12e6 / found.rate_bps == pytest.approx(rtt, abs=1)
    twin = fit(found)
    assert (twin.path.queue, twin.path.cc) == ("fifo", cc)
    assert twin.path.buffer_packets == pytest.approx(packets, rel=0.1)
    assert twin.proof.holds
    assert twin.proof.goodput_error < 0.05
    assert twin.proof.rtt_error < 0.1


def test_the_smoothed_round_trips_of_a_download_are_those_at_the_sender(tmp_path: Path) -> None:
    import numpy as np

    network = TWINS.wired(20, 40, packets=100, duration=16)
    TWINS.capture(network, tmp_path / "sender.pcapng")
    there = seen(tmp_path / "sender.pcapng").flows[0].trace.srtt_ms
    here = seen(at_receiver(network, tmp_path, timestamps=True)).flows[0].trace.srtt_ms
    quantiles = [5, 50, 95]
    assert np.nanpercentile(here, quantiles) == pytest.approx(np.nanpercentile(there, quantiles), rel=0.03)


def test_a_line_that_falls_silent_has_no_queue(tmp_path: Path) -> None:
    """A receive window of 20 packets on a path that holds ten times as many."""
    network = TWINS.wired(100, 30, duration=10)
    window = {"receive_buffer": "29000B", "receive_buffer_max": "29000B"}
    found = seen(at_receiver(network, tmp_path, timestamps=False, **window))
    (flow,) = found.flows
    assert not found.is_saturated
    assert flow.rtt_min_ms == pytest.approx(30, abs=1)
    assert flow.window_bytes is not None
    assert fit(found).proof.holds


def test_a_download_without_timestamps_and_losses_is_not_guessed(tmp_path: Path) -> None:
    """BBR keeps a queue and loses nothing: its round trips do not show at the receiver."""
    file = at_receiver(TWINS.wired(20, 40, packets=150, cc="bbr", duration=10), tmp_path, timestamps=False)
    with pytest.raises(NoTwinError, match=r"neither.*capture at the sender.*tcp_timestamps=1"):
        seen(file)


def test_flows_that_share_a_line_come_in_bunches_and_still_wait(tmp_path: Path) -> None:
    """One flow of three leaves gaps at the receiver, in which the others' data comes: no line falls silent."""
    network = TWINS.at_receiver(TWINS.wired(40, 30, packets=250, senders=(0, 0, 40)), timestamps=False)
    TWINS.capture(network, tmp_path / "receiver.pcapng")
    found = seen(tmp_path / "receiver.pcapng")
    assert found.is_at_losses
    assert len(found.flows) == 3
    assert found.rate_bps == pytest.approx(40e6, rel=0.03)
    assert not found.left_out


WHY_NOT = kernel_path.missing()


@pytest.mark.skipif(WHY_NOT is not None, reason=f"a real network: {WHY_NOT}")
@pytest.mark.parametrize("timestamps", ["1", "0"])
def test_real_kernels_at_the_receiver_and_half_way(tmp_path: Path, timestamps: str) -> None:
    """The path is a program that a loaded machine delays: the bounds are wide."""
    spec = kernel_path.Spec(
        [(0, 6000)],
        rate_mbit=8,
        queue=40,
        one_way_ms=20,
        seconds=24,
        cc="cubic",
        sysctls={"tcp_timestamps": timestamps},
    )
    kernel_path.run(spec, tmp_path)
    for place in ("receiver", "between"):
        twin = fit(seen(tmp_path / f"{place}.pcap"))
        assert twin.observed.is_at_losses is (timestamps == "0")
        assert twin.path.rate_bps == pytest.approx(8e6, rel=0.05)
        assert twin.path_rtt_ms == pytest.approx(40, abs=8)
        assert twin.path.buffer_packets == pytest.approx(40, rel=0.25)


# --- the part of the capture that is modelled -------------------------------------------------------------------------

LONG = transfer(packets=1200, rate_bps=2e6)
"""Seven seconds."""
PLAIN = transfer(packets=1200, rate_bps=2e6, has_stamps=False)


@pytest.mark.parametrize(
    "later",
    [
        [replace(LONG[-1], time_s=500.0, is_data=True, seq=LONG[-2].seq + MSS, payload=0, flags=17)],
        transfer(packets=90, start_s=3e8, port=40_001),
        transfer(packets=200, start_s=100, port=40_001),
    ],
    ids=["a FIN after eight minutes", "another file years later", "another page"],
)
def test_idle_time_is_no_part_of_the_transfer(tmp_path: Path, later: list[Packet]) -> None:
    alone = seen(write(tmp_path / "alone.pcap", LONG))
    both = seen(write(tmp_path / "both.pcap", [*LONG, *later]))
    assert both.duration_s == pytest.approx(alone.duration_s, abs=1)
    assert both.rate_bps == pytest.approx(alone.rate_bps, rel=1e-3)


def paused(packets: list[Packet], every: int, pause_s: float) -> list[Packet]:
    """The packets with a pause after every so many ACKs: all data is acknowledged then."""
    acks, out = 0, []
    for one in packets:
        out.append(replace(one, time_s=one.time_s + acks // every * pause_s))
        acks += not one.is_data
    return out


def coarse(packets: list[Packet], step_s: float) -> list[Packet]:
    """The packets by a clock with steps."""
    return [replace(one, time_s=one.time_s // step_s * step_s) for one in packets]


@pytest.mark.parametrize(
    ("packets", "says"),
    [
        ([], "no TCP connection with data"),
        (transfer(packets=20), "the largest has 29 kB: capture a longer"),
        ([one for one in LONG if one.is_data], "no ACKs of its largest flow"),
        ([one for i, one in enumerate(LONG) if i % 5 or not one.payload], "the capture missed 2. % of the packets"),
        (transfer(packets=400, rate_bps=4e6), r"has 579 kB in 1.2 s: a twin needs 4 s or more"),
        (paused(PLAIN, 50, 0.9), "of the time nothing is on its way, since the application pauses"),
        (paused(PLAIN, 40, 5.0), "largest transfer without a pause has"),
        (coarse(transfer(packets=1200, rate_bps=2e6, near_ms=0, far_ms=8), 0.01), "in steps of 10 ms, too coarse"),
        ([one for i, one in enumerate(LONG) if one.payload or i < 3 or i % 100 == 0], "ACKs, and shows"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_reason_is_true(tmp_path: Path, packets: list[Packet], says: str) -> None:
    with pytest.raises(NoTwinError, match=says):
        seen(write(tmp_path / "capture.pcap", packets))


def test_the_command_names_the_reason(airtcp: Command, tmp_path: Path) -> None:
    file = write(tmp_path / "page.pcap", transfer(packets=400, rate_bps=4e6))
    done = airtcp("advise", file)
    assert done.returncode == 2
    assert "no twin: its largest transfer without a pause has 579 kB" in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_to_hold_a_twin_against_is_told(tmp_path: Path) -> None:
    found = seen(write(tmp_path / "capture.pcap", LONG))
    flow = found.flows[0]
    half = flow.trace.acked.size // 2
    acked = flow.trace.acked.copy()
    acked[half - 1 :] = acked[half - 1]
    stopped = replace(found, flows=(replace(flow, trace=replace(flow.trace, acked=acked)),))
    with pytest.raises(NoTwinError, match="second half"):
        prove(stopped, NetworkPath(found.rate_bps, 20, "fifo", "cubic"), found.duration_s / 2)


def test_a_proof_without_numbers_is_json() -> None:
    nothing = float("nan")
    proof = Proof((1.0, 0.0), 0.0, {5: (nothing, nothing), 50: (1, 1), 95: (1.0, 0.0)}, (0, 0))
    assert not proof.holds
    told = json.loads(json.dumps(proof.to_dict(), allow_nan=False))
    assert told["goodput_error"] is None
    assert told["rtt_ms"]["p5"] == {"predicted": None, "seen": None}


# --- captures of all kinds --------------------------------------------------------------------------------------------


def dropped(packets: list[Packet], rng: random.Random) -> list[Packet]:
    share = rng.choice([0.01, 0.1, 0.5])
    return [one for one in packets if rng.random() > share]


def twice(packets: list[Packet], rng: random.Random) -> list[Packet]:
    return [copy for one in packets for copy in ([one, one] if rng.random() < 0.1 else [one])]


def reordered(packets: list[Packet], rng: random.Random) -> list[Packet]:
    return sorted(packets, key=lambda one: one.time_s + rng.uniform(0, 0.1))


def with_pauses(packets: list[Packet], rng: random.Random) -> list[Packet]:
    return paused(packets, rng.choice([3, 20, 100]), 10 ** rng.uniform(-2, 4))


def with_a_jump(packets: list[Packet], rng: random.Random) -> list[Packet]:
    at, by_s = rng.randrange(len(packets)), rng.choice([-50, -1e-3, 1e5])
    return [*packets[:at], *(replace(one, time_s=max(0.0, one.time_s + by_s)) for one in packets[at:])]


def with_any_window(packets: list[Packet], rng: random.Random) -> list[Packet]:
    return [replace(one, window=rng.choice([0, 1, 100, 65_535])) for one in packets]


def resent(packets: list[Packet], rng: random.Random) -> list[Packet]:
    share = rng.choice([0.02, 0.3])
    again = [
        replace(one, time_s=one.time_s + rng.choice([0.05, 0.3, 3, 30]))
        for one in packets
        if one.payload and rng.random() < share
    ]
    return sorted([*packets, *again], key=lambda one: one.time_s)


def with_any_stamps(packets: list[Packet], rng: random.Random) -> list[Packet]:
    return [replace(one, stamps=(rng.randrange(2**32), rng.randrange(2**32))) for one in packets]


def at_one_time(packets: list[Packet], rng: random.Random) -> list[Packet]:
    return coarse(packets, rng.choice([0.001, 0.01, 1, 100, 1e9]))


HARMS: list[Callable[[list[Packet], random.Random], list[Packet]]] = [
    *(lambda packets, rng: packets, dropped, twice, reordered, with_pauses, with_a_jump, with_any_window),
    *(resent, with_any_stamps, at_one_time),
]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    harms=st.lists(st.sampled_from(HARMS), min_size=1, max_size=3),
    rate=st.floats(3, 9.5),
    near_ms=st.sampled_from([0.0, 0.01, 1.0, 40.0, 800.0, 9000.0]),
    far_ms=st.sampled_from([0.0, 0.02, 30.0, 500.0]),
    has_stamps=st.booleans(),
)
def test_any_capture_gets_a_twin_or_a_reason(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    harms: list[Callable[[list[Packet], random.Random], list[Packet]]],
    rate: float,
    near_ms: float,
    far_ms: float,
    has_stamps: bool,
) -> None:
    rng = random.Random(seed)
    packets: list[Packet] = []
    for port, harm in enumerate(harms):
        more = transfer(
            packets=rng.choice([80, 400, 900]),
            rate_bps=10**rate,
            near_ms=near_ms,
            far_ms=far_ms,
            start_s=rng.choice([0.0, 0.0, 1.0, 1e3, 1e8]),
            has_stamps=has_stamps,
            port=40_000 + port,
        )
        packets += harm(more[rng.choice([0, 0, 3]) :], rng)
    packets.sort(key=lambda one: one.time_s)
    file = write(tmp_path_factory.mktemp("any") / "any.pcap", packets)
    try:
        found = seen(file)
    except NoTwinError as error:
        assert str(error)
        return
    assert found.rate_bps > 0
    for path in search._starts(found)[:3]:
        _airtcp.Checked.from_json(json.dumps(scenario(found, path), allow_nan=False), "twin", [])
    path = search._starts(found)[0]
    if found.duration_s < 30:
        json.dumps(prove(found, path, found.duration_s / 2).to_dict(), allow_nan=False)
