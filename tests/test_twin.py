"""Twins of captures whose network is known: what is estimated, what the search finds, and what it predicts."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import airtcp
import kernel_path
from airtcp.advice.capture import NO_TWIN, advise_capture, advise_twin, is_capture, summary
from airtcp.advice.fit import Proof, Twin, _signals, fit
from airtcp.advice.observed import FlowTrace, NoTwinError, Observed, observe
from airtcp.advice.show import headline
from airtcp.advice.twin import Path as NetworkPath
from airtcp.advice.twin import distance, run, scenario
from conftest import ROOT, Command

Json = dict[str, Any]


def bench() -> ModuleType:
    sys.path.insert(0, str(ROOT / "evidence"))
    spec = importlib.util.spec_from_file_location("twins", ROOT / "evidence/twins.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TWINS = bench()


def captured(network: Json, folder: Path) -> Path:
    file = folder / "capture.pcapng"
    TWINS.capture(network, file)
    return file


def observed(network: Json, folder: Path) -> Observed:
    return observe(airtcp.analyze(captured(network, folder), points=1_000_000))


# --- estimates and the search -----------------------------------------------------------------------------------------


def test_losses_in_bursts_are_told_from_single_ones(tmp_path: Path) -> None:
    bursts = observed(TWINS.bursts(40, 25, 400, 401, 30, duration=20), tmp_path)
    assert bursts.burst_packets > 2
    assert any("packets at a time" in note for note in bursts.left_out)
    for loss in (0.005, 0.03):
        single = observed(TWINS.wired(10, 30, packets=200, loss=loss, duration=40), tmp_path)
        assert single.burst_packets == 1
        assert single.lost > single.loss > 0
        assert not single.left_out


@pytest.mark.parametrize(
    ("rate", "rtt", "packets"), [(20, 40, 100), (5, 20, 40), (10, 80, 50)], ids=lambda value: str(value)
)
def test_estimates_of_a_drop_tail_queue(tmp_path: Path, rate: float, rtt: float, packets: int) -> None:
    seen = observed(TWINS.wired(rate, rtt, packets=packets, duration=16), tmp_path)
    assert seen.is_saturated
    assert seen.rate_bps == pytest.approx(rate * 1e6, rel=0.02)
    assert seen.buffer_packets == pytest.approx(packets, rel=0.1)
    (flow,) = seen.flows
    assert flow.rtt_min_ms - 12e6 / seen.rate_bps == pytest.approx(rtt, abs=1), "without the packet's own time"
    assert flow.packets_per_ack > 1.5, "the receiver delays its ACKs"
    assert flow.window_bytes is None


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Twin:
    return fit(observed(TWINS.wired(10, 30, packets=60, cc="reno", duration=16), tmp_path_factory.mktemp("twin")))


def test_the_twin_has_the_rate_the_buffer_and_the_control(found: Twin) -> None:
    assert found.path.rate_bps == pytest.approx(10e6, rel=0.05)
    assert (found.path.queue, found.path.cc) == ("fifo", "reno")
    assert found.path.buffer_packets == pytest.approx(60, rel=0.1)
    assert found.path_rtt_ms == pytest.approx(30, abs=1)
    low, high = found.between("buffer_packets")
    assert low <= found.path.buffer_packets <= high


def test_it_predicts_what_it_has_not_seen(found: Twin) -> None:
    assert found.proof.holds
    assert found.proof.goodput_error < 0.1
    assert found.proof.rtt_error < 0.2
    assert found.proof.sentence.startswith("This twin predicts the unseen half")
    assert "10" in summary(found)


def test_random_loss_is_counted_and_predicts(tmp_path: Path) -> None:
    twin = fit(observed(TWINS.wired(20, 20, packets=300, loss=0.02, duration=40), tmp_path))
    # Some 200 losses are in the first half: one standard deviation is 7 %.
    assert twin.path.loss == pytest.approx(0.02, rel=0.2)
    assert twin.path.loss == pytest.approx(twin.observed.lost, rel=0.1), "the twin loses as much as the capture"
    assert twin.proof.goodput_error < 0.15
    assert 0 < twin.proof.chance < 0.15


def test_an_active_queue_is_told_from_drop_tail(tmp_path: Path) -> None:
    twin = fit(observed(TWINS.wired(20, 40, "fq_codel", duration=12), tmp_path))
    assert twin.path.queue in ("fq_codel", "codel")
    assert twin.discipline in ("fq_codel", "codel", "AQM")
    assert twin.proof.holds


def test_a_flow_that_never_met_an_empty_queue_has_its_round_trip(tmp_path: Path) -> None:
    seen = observed(TWINS.wired(12, 25, packets=64, senders=(0, 20), duration=16), tmp_path)
    rtts = sorted(flow.rtt_min_ms - 1 for flow in seen.flows)
    assert rtts == pytest.approx([25, 45], abs=4)


def test_the_estimates_do_not_look_at_the_unseen_half(tmp_path: Path) -> None:
    """A line that is ten times as fast from the middle on changes nothing that is estimated."""
    same = TWINS.wired(5, 20, packets=40, duration=12)
    faster = TWINS.wired(5, 20, packets=40, duration=12)
    (line,) = [link for link in faster["scenario"]["links"] if link["name"] == "line"]
    line["rate_trace"] = {"points": [[0, 5], [6.5, 50]]}
    seen, other = observed(same, tmp_path), observed(faster, tmp_path)
    # The captures end some milliseconds apart, and so do their seen halves.
    assert other.rate_bps == pytest.approx(seen.rate_bps, rel=1e-3)
    assert other.buffer_packets == pytest.approx(seen.buffer_packets, rel=1e-3)


@pytest.mark.parametrize(("loss", "rate"), [(0.02, 8), (0.005, 15), (0.0, 20)])
def test_the_smoothed_round_trip_is_that_of_the_sender(tmp_path: Path, loss: float, rate: float) -> None:
    """Delayed ACKs count in both: with small windows they are much of it."""
    quantiles, ratios = [25, 50, 95], []
    for seed in (7, 8, 9):
        network = TWINS.wired(rate, 40, packets=150, loss=loss, duration=16)
        network["scenario"]["seed"] = seed
        (flow,) = observed(network, tmp_path).flows
        truth = {key: value for key, value in network["scenario"].items() if key != "record"}
        (own,) = run(truth, 1, seed)
        theirs, ours = (np.nanpercentile(trace.srtt_ms, quantiles) for trace in (own, flow.trace))
        ratios.append(ours / theirs)
    # A single loss moves the highest quantile of so short a run.
    assert np.mean(ratios, axis=0) == pytest.approx(1, rel=0.015)


def test_a_radio_is_told_from_a_line(tmp_path: Path) -> None:
    lines = [TWINS.wired(25, 35, packets=120, duration=8), TWINS.wired(15, 30, "fq_codel", senders=(0, 10), duration=8)]
    radio = TWINS.wireless(22, 25, "fifo")
    radio["scenario"]["duration"] = "8s"
    assert [observed(network, tmp_path).is_bursty for network in (*lines, radio)] == [False, False, True]


def test_no_router_is_named_where_a_radio_holds_the_queue(found: Twin) -> None:
    from airtcp.advice.ranking import advise

    some = ["FQ-CoDel at the router", "SQM"]
    usual = advise(found.scenario(), seeds=2, most_seeds=2, only=some)
    bursty = advise(found.scenario(), seeds=2, most_seeds=2, only=some, is_bursty=True)
    assert set(some) & set(usual.tried)
    assert not set(some) & set(bursty.tried)
    assert all("as over a radio" in bursty.left_out[name] for name in some if name in usual.tried)


def test_the_first_half_does_not_decide_what_is_predicted(found: Twin) -> None:
    seen = found.observed
    flow = seen.flows[0]
    half = flow.trace.acked.size // 2
    slower = flow.trace.acked.copy()
    slower[half:] = slower[half] + (slower[half:] - slower[half]) / 3
    changed = FlowTrace(slower, flow.trace.srtt_ms, flow.trace.resent)
    from dataclasses import replace

    from airtcp.advice.fit import prove

    other = replace(seen, flows=(replace(flow, trace=changed),))
    proof = prove(other, found.path, seen.duration_s / 2)
    assert not proof.holds, "a network that changes is not predicted"
    assert proof.sentence.startswith("No advice: the twin does not predict")


# --- the kernel's own TCP ---------------------------------------------------------------------------------------------

WHY_NOT = kernel_path.missing()


@pytest.mark.skipif(WHY_NOT is not None, reason=f"a real network: {WHY_NOT}")
def test_the_rate_of_a_real_network_is_found(tmp_path: Path) -> None:
    """The path is a program that a loaded machine delays by tens of milliseconds: the rate alone stands that."""
    spec = kernel_path.Spec([(0, 5000)], rate_mbit=8, queue=60, one_way_ms=20, seconds=12, cc="cubic")
    kernel_path.run(spec, tmp_path)
    twin = fit(observe(airtcp.analyze(tmp_path / "sender.pcap", points=1_000_000)))
    assert twin.observed.is_saturated
    assert twin.path.rate_bps == pytest.approx(8e6, rel=0.05)
    assert twin.proof.goodput_bps[1] == pytest.approx(8e6 * 1448 / 1500, rel=0.1)


def test_a_capture_of_several_hosts_is_parted(tmp_path: Path) -> None:
    """Only the sender's device counts: the other end sees the ACKs first."""

    def block(kind: int, body: bytes) -> bytes:
        length = (12 + len(body)).to_bytes(4, "little")
        return kind.to_bytes(4, "little") + length + body + length

    def device(name: str) -> bytes:
        options = (2).to_bytes(2, "little") + len(name).to_bytes(2, "little") + name.encode().ljust(8, b"\0") + bytes(4)
        return block(1, bytes(8) + options)

    packets = [
        block(6, number.to_bytes(4, "little") + bytes(16) + bytes([i] * 4)) for i, number in enumerate([0, 1, 0])
    ]
    head = [block(0x0A0D0D0A, bytes(16)), device("server"), device("client")]
    split = TWINS.twin_kernels.of_host
    assert list(split(b"".join(head + packets), "server")) == [*head, packets[0], packets[2]]
    assert list(split(b"".join(head + packets), "client")) == [*head, packets[1]]


# --- the distance -----------------------------------------------------------------------------------------------------


def trace(rate: float, rtt: float, resent: float) -> FlowTrace:
    grid = np.arange(1, 101, dtype=np.float64)
    return FlowTrace(grid * np.float64(rate), np.full(100, rtt), np.floor(grid * np.float64(resent) / 100))


def test_the_distance_is_zero_to_itself_and_grows() -> None:
    one = trace(5e4, 40, 10)
    assert distance([one], [one], [1.0]) == 0
    apart = [distance([trace(5e4 * k, 40, 10)], [one], [1.0]) for k in (1.1, 1.5, 3)]
    assert 0 < apart[0] < apart[1] < apart[2]
    late = [distance([trace(5e4, 40 * k, 10)], [one], [1.0]) for k in (1.1, 2)]
    assert 0 < late[0] < late[1]
    assert distance([trace(5e4, 40, 40)], [one], [1.0]) > 0


def test_a_proof_allows_for_chance_only_within_bounds() -> None:
    def proof(seen: float, chance: float) -> Proof:
        return Proof((10.0, seen), chance, {5: (1, 1), 50: (1, 1), 95: (1, 1)}, (0, 0))

    assert proof(9.0, 0.0).holds
    assert not proof(8.0, 0.05).holds
    assert proof(8.0, 0.13).holds
    assert "chance" in proof(8.0, 0.13).sentence
    assert not proof(5.0, 0.9).holds, "a twin that says anything says nothing"


# --- what cannot be done ----------------------------------------------------------------------------------------------


def test_a_short_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoTwinError, match="needs 4 s"):
        fit(observed(TWINS.wired(20, 40, duration=2), tmp_path))


def test_a_file_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    assert is_capture(captured(TWINS.wired(1, 20, duration=1), tmp_path))
    assert not is_capture(ROOT / "examples/backbone.toml")
    assert not is_capture(tmp_path / "none")
    assert not is_capture(tmp_path)


# --- advice -----------------------------------------------------------------------------------------------------------


def test_the_advice_for_a_long_queue_holds_on_the_true_network(tmp_path: Path) -> None:
    network = TWINS.wired(20, 20, packets=300, duration=16)
    advice = advise_capture(captured(network, tmp_path))
    assert advice.outcome == "remedy"
    best = advice.best
    assert best is not None
    assert advice.twin is not None
    assert advice.twin["buffer_packets"] == pytest.approx(300, rel=0.1)
    real = {key: value for key, value in network["scenario"].items() if key != "record"}
    kept = airtcp.advise(real, only=[best.remedy.name])
    assert kept.gain(best.remedy.name).value == pytest.approx(advice.gain(best.remedy.name).value, rel=0.2)


def test_the_promise_is_as_wide_as_seeds_twins_and_the_twins_error(found: Twin) -> None:
    plain = advise_twin(replace(found, equals=found.equals[:1]), "plain", seeds=3, most_seeds=3)
    assert plain.best is not None
    best = plain.best.remedy.name
    assert plain.twin is not None
    promise, seeds = plain.twin["gain_over_twins"], plain.gain(best)
    assert promise["lo"] < (seeds.low or seeds.value) <= seeds.value <= (seeds.high or seeds.value) < promise["hi"]
    longer = found.path.changed(buffer_packets=2 * found.path.buffer_packets)
    wider = advise_twin(replace(found, equals=(found.path, longer)), "two", seeds=3, most_seeds=3)
    assert wider.twin is not None
    assert wider.twin["gain_over_twins"]["hi"] > 1.2 * promise["hi"], "with twice the queue there is more to gain"


def test_a_remedy_that_harms_on_an_equal_twin_is_not_settled(found: Twin) -> None:
    active = found.path.changed(queue="codel")
    advice = advise_twin(replace(found, equals=(found.path, active)), "two", seeds=3, most_seeds=3)
    assert advice.outcome == "open"
    assert advice.best is None
    assert "may help" in headline(advice)
    assert "2 twins" in headline(advice)


def test_wi_fi_gets_a_twin_with_a_radio(tmp_path: Path) -> None:
    network = TWINS.wireless(22, 25, "fifo")
    network["scenario"]["duration"] = "10s"
    twin = fit(observed(network, tmp_path))
    assert twin.path.radio is not None
    assert not twin.is_line_for_radio
    assert twin.path.queue == "ap_fifo"
    assert twin.path.buffer_packets == pytest.approx(300 + 123, rel=0.1), "the queue and the driver's frames"
    assert twin.proof.holds
    assert "of Wi-Fi" in summary(twin)
    assert [wlan["ap"] for wlan in twin.scenario()["wlans"]] == ["far"]


def test_a_line_stands_for_a_radio_that_is_faster_than_all_known(tmp_path: Path) -> None:
    network = TWINS.wireless(22, 25, "fifo")
    network["scenario"]["duration"] = "8s"
    seen = observed(network, tmp_path)
    assert next(iter(_signals(seen))) == "802.11n, 20 MHz"
    assert _signals(replace(seen, rate_bps=2e9)) == {}


def test_the_command_gives_advice_and_a_twin_that_runs(airtcp: Command, tmp_path: Path) -> None:
    file = captured(TWINS.wired(10, 20, packets=100, duration=12), tmp_path)
    done = airtcp("advise", file, "--seeds", "2", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    told = re.search(r"Twin: 1 flow over ([\d.]+) Mbit/s", done.stdout)
    assert told is not None
    assert float(told[1]) == pytest.approx(10, rel=0.01)
    assert "predicts the unseen half" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    told = json.loads((tmp_path / "out/manifest.json").read_text())
    assert told["twin"]["proof"]["holds"]
    again = airtcp("run", tmp_path / "out/scenario.toml", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["name"] == "capture"


@pytest.mark.parametrize("args", [["--set", "seed=2"], ["--with", "BBR"], ["--duration", "3s"]])
def test_options_of_scenarios_are_refused(airtcp: Command, tmp_path: Path, args: list[str]) -> None:
    file = captured(TWINS.wired(1, 20, duration=1), tmp_path)
    done = airtcp("advise", file, *args)
    assert done.returncode == 2
    assert args[0] in done.stderr
    assert "scenario" in done.stderr


def test_what_is_too_little_is_told(airtcp: Command, tmp_path: Path) -> None:
    file = captured(TWINS.wired(0.2, 20, duration=1), tmp_path)
    done = airtcp("advise", file)
    assert done.returncode == 2
    assert "no twin" in done.stderr
    assert "Traceback" not in done.stderr
    assert airtcp("advise", ROOT / "examples/backbone.toml", "--flow", "1").returncode == 2


def test_a_scenario_of_a_twin_is_the_network(found: Twin) -> None:
    path = NetworkPath(8e6, 50, "fifo", "cubic")
    document = scenario(found.observed, path)
    line = next(link for link in document["links"] if link["name"] == "bottleneck")
    assert (line["rate"], line["queue"]) == ("8000000bit/s", {"name": "fifo", "limit_packets": 50})
    (one,) = run(document, 1)
    assert one.acked[-1] * 8 / 16 == pytest.approx(8e6 * 1448 / 1500, rel=0.08)
    assert NO_TWIN == "no_twin"
