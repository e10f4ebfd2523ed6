"""What `airtcp analyze` says of the kernel's own TCP, against what was lost and what the kernel counted.

The path drops and delays by script, so the truth is known packet by packet; it is captured at the sender, half-way and
at the receiver at once.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import airtcp
import kernel_path
from kernel_path import PLACES, Outcome, Rule, Spec

WHY_NOT = kernel_path.missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=f"the kernel's TCP in namespaces: {WHY_NOT}")

NO_PROBE = {"tcp_early_retrans": "0"}
# The receive window grows to its limit and stays there: an ACK with another window is no duplicate.
NO_SACK = {"tcp_sack": "0", "tcp_moderate_rcvbuf": "0"}


def drop(*segments: int, transmission: int = 1) -> list[Rule]:
    return [Rule(segment, transmission, drop=True) for segment in segments]


def hold(*segments: int, ms: float) -> list[Rule]:
    return [Rule(segment, delay_ms=ms) for segment in segments]


@dataclasses.dataclass(frozen=True)
class Case:
    spec: Spec
    counted: dict[str, int]
    """What the kernel must have counted for the case to have been the one that is meant."""


def fast_retransmits(count: int) -> dict[str, int]:
    """Nothing but fast retransmits: a stall of the machine may add a timeout, of the SYN for example."""
    return {"TCPFastRetrans": count, "TCPTimeouts": 0}


CASES = {
    "fast": Case(Spec([(0, 30)], drop(5)), fast_retransmits(1)),
    "two_losses": Case(Spec([(0, 10), (100, 30)], drop(15, 19)), fast_retransmits(2)),
    # Of a single segment in flight the probe is due no sooner than the timeout would be: two.
    "tail": Case(Spec([(0, 10)], drop(8, 9)), {"TCPLossProbes": 1, "RetransSegs": 2}),
    "probe_lost": Case(
        Spec([(0, 10)], drop(4, 5, 6, 7, 8, 9) + drop(9, transmission=2)), {"TCPLossProbes": 1, "TCPTimeouts": 1}
    ),
    "whole_flight": Case(
        Spec([(0, 10), (100, 10)], drop(*range(10, 20)), sysctls=NO_PROBE), {"TCPTimeouts": 1, "RetransSegs": 10}
    ),
    "one_duplicate": Case(
        Spec([(0, 40), (150, 2)], drop(40), sysctls=NO_SACK | NO_PROBE), {"TCPTimeouts": 1, "RetransSegs": 1}
    ),
    # The first timeout leaves a small window for the second. The segment between is acknowledged after the receiver has
    # read all, so that its window is that of the duplicates.
    "two_duplicates": Case(
        Spec([(0, 40), (150, 3), (600, 1), (800, 3)], drop(40, 44), sysctls=NO_SACK | NO_PROBE),
        {"TCPTimeouts": 2, "RetransSegs": 2},
    ),
    "reordered": Case(Spec([(0, 10), (100, 40)], hold(20, ms=3)), {"RetransSegs": 0}),
    "needless": Case(
        Spec([(0, 10), (100, 40)], hold(20, ms=60), close_after_ms=120),
        {"TCPFastRetrans": 1, "TCPDSACKRecv": 1, "RetransSegs": 1},
    ),
    "needless_timeout": Case(
        Spec([(0, 10), (100, 10)], hold(*range(10, 20), ms=400), close_after_ms=500, sysctls=NO_PROBE),
        {"TCPTimeouts": 1},
    ),
    "ipv6": Case(Spec([(0, 30)], drop(5), ip=6), fast_retransmits(1)),
    "no_timestamps": Case(Spec([(0, 30)], drop(5), sysctls={"tcp_timestamps": "0"}), fast_retransmits(1)),
    "snapped": Case(Spec([(0, 30)], drop(5, 9, 14), snaplen=96), fast_retransmits(3)),
    "lost_after_the_middle": Case(Spec([(0, 30)], drop(5), drop_after=True), fast_retransmits(1)),
    "lossy": Case(Spec([(0, 400)], loss=0.03, rate_mbit=20, seed=3), {}),
}

ATTEMPTS = 8
"""A machine that stalls for milliseconds can turn a case into another one."""


@dataclasses.dataclass(frozen=True)
class Done:
    case: Case
    truth: Outcome
    seen: dict[str, airtcp.Analysis]

    def flow(self, place: str) -> dict[str, Any]:
        """The flow with the data."""
        rows = self.seen[place].flows.filter(pl.col("payload_bytes") > 0).collect().to_dicts()
        assert len(rows) == 1
        return rows[0]

    def resent(self, place: str) -> list[dict[str, Any]]:
        return self.seen[place].retransmissions.sort("packet").collect().to_dicts()

    def classes(self, place: str) -> Counter[str]:
        return Counter(row["class"] for row in self.resent(place))

    def needless(self) -> list[dict[str, Any]]:
        """Retransmissions of what arrived, sooner or later."""
        arrived: dict[int, bool] = {}
        found = []
        for packet in self.truth.sent:
            if packet["transmission"] > 1 and arrived.get(packet["seq"]):
                found.append(packet)
            arrived[packet["seq"]] = arrived.get(packet["seq"], False) or not packet["dropped"]
        return found


_DONE: dict[str, Done] = {}


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Done:
    name = request.param
    if name not in _DONE:
        case = CASES[name]
        for attempt in range(ATTEMPTS):
            folder = tmp_path_factory.mktemp(f"{name}-{attempt}")
            truth = kernel_path.run(case.spec, folder)
            counted = {key: truth.counters[key] for key in case.counted}
            if counted == case.counted:
                break
        else:
            pytest.skip(
                f"{name}: this machine stalls; the kernel counted {counted}, not {case.counted}, {ATTEMPTS} times"
            )
        seen = {place: airtcp.analyze(folder / f"{place}.pcap") for place in PLACES}
        _DONE[name] = Done(case, truth, seen)
    return _DONE[name]


def every(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("run", names or list(CASES), indirect=True)


@every()
def test_at_the_sender_every_retransmission_is_found(run: Done) -> None:
    found = [(row["seq"], row["bytes"]) for row in run.resent("sender")]
    assert found == [(packet["seq"] + 1, packet["bytes"]) for packet in run.truth.retransmitted]
    assert len(found) == run.truth.counters["RetransSegs"] == run.truth.total_retrans


@every()
def test_at_the_sender_times_are_those_of_the_path(run: Done) -> None:
    for row, packet in zip(run.resent("sender"), run.truth.retransmitted, strict=True):
        # The path's first packet is the capture's; both clocks are read for each packet, a few instructions apart.
        assert row["time_s"] == pytest.approx(packet["time_s"], abs=1e-6)


@every()
def test_at_the_sender_classes_are_what_the_kernel_counted(run: Done) -> None:
    counters, classes = run.truth.counters, run.classes("sender")
    found = [classes["fast"] + classes["recovery"], classes["timeout"], classes["repair"]]
    counted = [counters[name] for name in ("TCPFastRetrans", "TCPTimeouts", "TCPSlowStartRetrans")]
    # Where losses come at random a report can fall together with a timer; crates/analyze/tests compares those packet by
    # packet with what the senders of airtcp say.
    if run.case.spec.loss == 0:
        assert found == counted
        # A probe may be new data.
        assert classes["probe"] <= counters["TCPLossProbes"]
        assert classes["unknown"] == 0
    assert sum(classes.values()) == counters["RetransSegs"]


@every()
def test_at_the_sender_what_is_needless_is_what_had_arrived(run: Done) -> None:
    found = [row["seq"] for row in run.resent("sender") if row["spurious"]]
    assert found == [packet["seq"] + 1 for packet in run.needless()]
    assert run.flow("sender")["spurious_retransmissions"] == len(found)


@every()
@pytest.mark.parametrize("place", PLACES)
def test_the_place_is_told_from_the_round_trips(run: Done, place: str) -> None:
    assert run.flow(place)["vantage"] == place


@every()
@pytest.mark.parametrize("place", PLACES)
def test_counts_of_the_flow(run: Done, place: str) -> None:
    flow, truth = run.flow(place), run.truth
    before = place == "receiver" or (place == "between" and not run.case.spec.drop_after)
    passed = [packet for packet in truth.sent if not (packet["dropped"] and before)]
    assert flow["data_packets"] == len(passed)
    assert flow["payload_bytes"] == sum(packet["bytes"] for packet in passed)
    assert flow["unique_bytes"] == sum(segments for _, segments in run.case.spec.writes) * truth.mss
    assert flow["complete"]
    assert flow["ip_version"] == run.case.spec.ip
    assert flow["mss_bytes"] == truth.mss
    assert flow["sack_permitted"] == (run.case.spec.sysctls.get("tcp_sack") != "0")
    assert flow["timestamps"] == (run.case.spec.sysctls.get("tcp_timestamps") != "0")
    assert flow["lost_before_capture"] == 0


@every("fast", "two_losses", "ipv6", "no_timestamps", "snapped", "lost_after_the_middle")
@pytest.mark.parametrize("place", ["between", "receiver"])
def test_away_from_the_sender_losses_are_inferred(run: Done, place: str) -> None:
    """What was lost before the capture shows by the hole that its repetition fills."""
    found = sorted(row["seq"] for row in run.resent(place))
    assert found == sorted(packet["seq"] + 1 for packet in run.truth.retransmitted if not packet["dropped"])
    # None, unless this machine stalls.
    assert run.flow(place)["spurious_retransmissions"] == len(run.needless())


@every("reordered")
def test_reordering_is_no_loss(run: Done) -> None:
    for place, overtaken in (("sender", 0), ("between", 1), ("receiver", 1)):
        assert not run.resent(place)
        assert run.flow(place)["out_of_order"] == overtaken


@every("whole_flight")
def test_away_from_the_sender_a_loss_at_the_end_does_not_show(run: Done) -> None:
    """Nothing came behind what was lost: no hole, and the repetition looks like the first copy."""
    assert not run.resent("receiver")
    assert len(run.resent("sender")) == run.truth.counters["RetransSegs"]


@pytest.mark.parametrize(
    ("run", "held", "efr", "early_retransmit"),
    [
        ("whole_flight", [0], [False], [False]),
        ("needless_timeout", [0], [False], [False]),
        # EFR: threshold 3 after a window of 40; Early Retransmit: two outstanding, one is enough.
        ("one_duplicate", [1], [False], [True]),
        # EFR: the second time the window is 3, less 2 is 1.
        ("two_duplicates", [2, 2], [False, True], [True, True]),
    ],
    indirect=["run"],
)
def test_duplicate_acks_in_hand_at_a_timeout(
    run: Done, held: list[int], efr: list[bool], early_retransmit: list[bool]
) -> None:
    """Figure 13's statistic, and which policy would have acted on so many."""
    timeouts = run.seen["sender"].timeouts.sort("packet").collect()
    assert timeouts["dup_acks"].to_list() == held
    assert timeouts["efr_at_s"].is_not_null().to_list() == efr
    assert timeouts["early_retransmit_at_s"].is_not_null().to_list() == early_retransmit
    flow = run.flow("sender")
    assert [flow[f"timeouts_dup_{n}"] for n in ("0", "1", "2", "3_or_more")] == [held.count(n) for n in range(4)]
    assert [flow["avoided_efr"], flow["avoided_early_retransmit"]] == [sum(efr), sum(early_retransmit)]
    for timeout in timeouts.to_dicts():
        sent = next(packet for packet in run.truth.retransmitted if abs(packet["time_s"] - timeout["time_s"]) < 1e-5)
        first = next(packet for packet in run.truth.sent if packet["seq"] == sent["seq"])
        assert timeout["waited_s"] == pytest.approx(sent["time_s"] - first["time_s"], abs=1e-5)
        for policy in ("efr", "early_retransmit", "rack"):
            if (at := timeout[f"{policy}_at_s"]) is not None:
                assert first["time_s"] < at < timeout["time_s"]


@every()
def test_the_first_flight(run: Done) -> None:
    assert run.flow("sender")["initial_window_segments"] == 10


@every()
def test_round_trips_are_those_of_the_path(run: Done) -> None:
    """Never less than the path's delay; the least of them near it, as far as the machine let it."""
    least = 2 * run.case.spec.one_way_ms
    sender, receiver = run.flow("sender"), run.flow("receiver")
    assert least - 0.01 <= sender["rtt_min_ms"] <= least + run.truth.late_max_ms + 15
    assert receiver["rtt_min_ms"] < least


def test_the_cases_run_on_one_machine_at_a_time(tmp_path: Path) -> None:
    """Nothing of a run stays: no namespace, no device."""
    before = set(Path("/sys/class/net").iterdir())
    kernel_path.run(Spec([(0, 2)]), tmp_path)
    assert set(Path("/sys/class/net").iterdir()) == before
