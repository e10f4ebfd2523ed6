"""Studies: checks and verdicts on made-up results, files and their faults, the command from end to end."""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from airtcp import cli, documents
from airtcp.errors import StudyError
from airtcp.executors import local
from airtcp.stats import student_t_quantile
from airtcp.study import files, find, prepare, run
from airtcp.study.files import Finding, Plot
from airtcp.study.findings import Judged, account, judge, judge_check, verdict, verdict_text
from airtcp.study.plots import Drawing
from airtcp.study.samples import CheckError, Data, Meaning, Measure, Point
from airtcp.study.settle import Budget
from airtcp.study.soundness import examine
from airtcp.sweeps.task import Outcome, Task, perform
from conftest import AIRTCP, ROOT, Command

TINY = ROOT / "tests/data/tiny"
WORDS = ("reproduced", "mixed", "not", "open")


# --- checks on made-up results ----------------------------------------------------------------------------------------


def made_up(seeds: int = 5, noise: float = 0.05) -> Data:
    """Loss of two arms over n and scale; rows by size. Reno loses n / 1000 / scale percent, pacing half of it."""
    points = [
        Point(arm, {"n": n, "scale": scale, "D_ms": 90})
        for arm in ("Reno", "Paced")
        for n in (500, 1500)
        for scale in (0.25, 0.5, 1)
    ]
    points.append(Point("Goal", {"n": 500, "scale": 1, "D_ms": 90}))
    rng = np.random.default_rng(1)
    shared = rng.normal(0, noise, seeds)  # what arms have in common in a seed

    def loss(point: Point) -> float:
        p = point.parameters
        part = {"Reno": 1, "Paced": 0.5, "Goal": 1.5}[str(point.arm)]
        return part * float(p["n"]) / 1000 / float(p["scale"])

    rows = {
        (i, s): [{"size": size, "t": size / 10 * (1 + s / 10), "name": "x"} for size in (10, 20, 30)]
        for i in range(len(points))
        for s in range(seeds)
    }
    return Data(
        points,
        list(range(1, seeds + 1)),
        {
            "loss": Measure("loss", Meaning("Loss", "%")),
            "by": Measure(
                "by", Meaning(), {"size": Meaning("Size", "kB"), "t": Meaning("Time", "s"), "name": Meaning()}
            ),
        },
        {"loss": np.array([[loss(p) + e for e in shared] for p in points])},
        {"by": rows},
        where="--quick",
    )


DATA = made_up()


def checked(text: str, data: Data = DATA, **case: Any) -> Judged:
    return judge_check(text, case, data)


def finding(*checks: str, note: str = "", **each: list[Any]) -> Finding:
    return Finding(
        id="f", claim="claim", published="published", source="source", each=each, checks=checks, note=note, kind="paper"
    )


def test_a_difference_is_paired_by_seed() -> None:
    noisy = made_up(noise=3)
    one = checked("loss('Paced', n=500, scale=1) < loss('Reno', n=500, scale=1)", noisy)
    assert one.measured == pytest.approx(-0.25)
    assert one.interval == pytest.approx((-0.25, -0.25)), "the noise is the same in both arms"
    assert one.holds
    assert one.settled
    alone = checked("loss('Paced', n=500, scale=1) < 0.3", noisy)
    assert not alone.settled, "by itself the arm is all noise"


def test_against_a_number_the_measured_side_is_shown() -> None:
    one = checked("loss('Reno', n=1500, scale=1) > 1")
    assert one.measured == pytest.approx(1.5, abs=0.05)
    assert one.interval is not None
    assert one.interval[0] < 1.5 < one.interval[1]
    other = checked("1 < loss('Reno', n=1500, scale=1)")
    assert (other.measured, other.interval, other.holds) == (one.measured, one.interval, one.holds)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mean(loss('Reno', n=500, scale=[0.5, 1])) > 0", 0.75),
        ("min(loss('Reno', n=500, scale=between(0.4, 1))) > 0", 0.5),
        ("max(loss('Reno', n=[500, 1500], scale=1)) > 0", 1.5),
        ("max(loss('Reno', n=500, scale=1), loss('Reno', n=1500, scale=1)) > 0", 1.5),
        ("loss('Reno', n=500, scale=1) / loss('Paced', n=500, scale=1) > 0", 2),
        ("mean(loss('Reno', n=[500, 1500], scale=1) / loss('Paced', n=[500, 1500], scale=1)) > 0", 2),
        ("2 * loss('Reno', n=500, scale=1) + 1 - abs(-1) > 0", 1),
        ("loss('Goal') > 0", 0.75),
        ("crossing(loss, 'Reno', 1.5, over='scale', n=500) > 0", 0.25 + 0.25 * 0.5),
        ("crossing(loss, 'Reno', 'Goal', over='scale', n=500) > 0", 0.5 + 0.5 * 0.5),
        ("crossing(loss, 'Paced', 2, over='scale', n=500) > 0", 0.25),
        ("mean(by.t('Reno', n=500, scale=1, size=between(10, 20))) > 0", 1.5 * 1.2),
        ("by.t('Reno', n=500, scale=1, size=30) > 0", 3 * 1.2),
        ("max(loss('Reno', n=[500, 1500], scale=1, loss=between(0, 1))) > 0", 0.5),
        ("mean(by.t('Reno', n=[500, 1500], scale=1, size=30, loss=between(0, 1))) > 0", 3 * 1.2),
        ("slope(2 * loss('Reno', n=[500, 1500], scale=1), loss('Reno', n=[500, 1500], scale=1)) > 0", 2),
        ("slope(loss('Reno', n=[500, 1500], scale=1) + 1, loss('Reno', n=[500, 1500], scale=1)) > 0", 1 + 2 / 2.5),
        (
            "mean(by.t('Reno', n=500, scale=1, size=between(9, 30)) / by.t('Paced', n=500, scale=1, size=[10, 20, 30]))"
            " > 0",
            1,
        ),
    ],
)
def test_what_checks_can_say(text: str, value: float) -> None:
    quiet = made_up(noise=0)
    assert checked(text, quiet).measured == pytest.approx(value)
    # Whatever can be evaluated afterwards is accepted beforehand.
    checked(text, replace(quiet, scalars={}, rows={}, stand_in=True))


def test_a_curve_that_never_falls_that_far_is_said_and_leaves_the_finding_open() -> None:
    text = "crossing(loss, 'Reno', 'Paced', over='scale', n=500) <= 1"
    never = checked(text)
    assert (never.measured, never.interval, never.holds, never.settled) == (None, None, None, False)
    assert account(never) == "no value (no crossing in 5 of 5 seeds)"
    json.dumps(never.to_dict(), allow_nan=False)
    outcome = judge(finding(text), DATA)
    assert outcome.verdict == "open", "it ran, so that this is no missing result"
    assert outcome.note == "no crossing in 5 of 5 seeds. Open: how many more seeds would settle it cannot be told."


def test_one_seed_without_a_crossing_is_not_dropped() -> None:
    loss = DATA.scalars["loss"].copy()
    loss[:3, 1] += 5  # in the second seed the curve stays above
    data = replace(DATA, scalars={"loss": loss})
    text = "crossing(loss, 'Reno', 1.2, over='scale', n=500) < 2"
    one = checked(text, data)
    assert (one.holds, one.settled, one.lacking) == (True, False, (2,))
    assert account(one).endswith(" (no crossing in 1 of 5 seeds)")
    asked = finding(text)
    outcome = judge(asked, data)
    assert (outcome.verdict, outcome.more_seeds) == ("open", None)
    assert "no crossing in 1 of 5 seeds" in outcome.note
    assert judge(changed(asked, enough_seeds=5), data).verdict == "open"
    told = judge(changed(asked, enough_seeds=4), data)
    assert told.verdict == "reproduced", "the finding says that four are enough"
    assert "no crossing in 1 of 5 seeds" in told.note


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("loss('Renno', n=500, scale=1) < 1", ["arm", "'Renno'", "did you mean `Reno`"]),
        ("loss(n=500, scale=1) < 1", ["which arm", "'Reno'", "'Paced'"]),
        ("loss(500) < 1", ["arm is a name in quotes"]),
        ("los('Reno') < 1", ["`los`", "did you mean `loss`"]),
        ("loss('Reno', m=500) < 1", ["coordinate", "'m'", "n, scale"]),
        ("loss('Reno', n=700, scale=1) < 1", ["n = 700 is not run with --quick", "500, 1500"]),
        ("mean(loss('Reno', n=[500, 700], scale=1)) < 1", ["n = 700 is not run with --quick"]),
        ("loss('Reno', n=between(600, 700), scale=1) < 1", ["between(600, 700) is not run"]),
        ("loss('Reno', scale=1) < 1", ["n is missing", "500, 1500"]),
        ("loss('Reno', n=[500, 1500], scale=1) < 1", ["2 values", "mean()"]),
        ("loss('Reno', n=500, scale=1)", ["not a check", "about"]),
        ("loss('Reno', n=500, scale=1) == 1", ["about"]),
        ("0 < loss('Reno', n=500, scale=1) < 1", ["one comparison"]),
        ("loss < 1", ["loss", "brackets"]),
        ("1 < 2", ["no measure"]),
        ("by('Reno') < 1", ["`by`", "by.t"]),
        ("by.x('Reno') < 1", ["by.x", "by.t"]),
        ("about(loss('Goal'), 1)", ["one tolerance"]),
        ("about(loss('Goal'), 1, abs=1, rel=1)", ["one tolerance"]),
        ("about(loss('Goal'), 1, abs=-1)", ["negative"]),
        ("crossing('loss', 'Reno', 1, over='scale', n=500) < 1", ["crossing()", "without brackets"]),
        ("crossing(loss, 'Reno', 1, n=500) < 1", ["over="]),
        ("crossing(loss, 'Reno', 1, over='x', n=500) < 1", ["coordinate", "'x'"]),
        ("crossing(loss, 'Reno', 1, over='scale') < 1", ["n is missing"]),
        ("loss('Reno', n=500, scale=1, loss=1) < 1", ["loss is measured", "between(low, high)"]),
        ("slope(loss('Goal'), 2) < 1", ["slope()", "two measures"]),
        ("between(2, 1) < loss('Goal')", ["between(2, 1)"]),
        ("__import__('os') < 1", ["__import__"]),
    ],
)
@pytest.mark.parametrize("before", [True, False], ids=["before the runs", "after them"])
def test_a_wrong_check_says_why(text: str, words: list[str], *, before: bool) -> None:
    data = replace(DATA, scalars={}, rows={}, stand_in=True) if before else DATA
    with pytest.raises(CheckError) as error:
        checked(text, data)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("by.t('Reno', n=500, scale=1) < 1", ["several rows", "size"]),
        ("by.name('Reno', n=500, scale=1, size=10) < 1", ["holds text"]),
    ],
)
def test_what_only_results_can_tell(text: str, words: list[str]) -> None:
    with pytest.raises(CheckError) as error:
        checked(text)
    for word in words:
        assert word in str(error.value)


def without(data: Data, *runs: tuple[int, int]) -> Data:
    loss = data.scalars["loss"].copy()
    for run_ in runs:
        loss[run_] = math.nan
    rows = {key: rows for key, rows in data.rows["by"].items() if key not in runs}
    return replace(data, scalars={"loss": loss}, rows={"by": rows})


def test_missing_runs_leave_a_finding_open_and_the_note_says_so() -> None:
    outcome = judge(finding("loss('Reno', n=500, scale=0.25) > 1", note="Why."), without(DATA, (0, 2)))
    assert outcome.verdict == "open", "what was run holds, but one seed is missing"
    assert outcome.checks[0].lacking == (3,)
    assert outcome.note.startswith("Why. ")
    assert "a run is missing or has no value in 1 of 5 seeds" in outcome.note


@pytest.mark.parametrize(
    "check",
    [
        "loss('Reno', n=500, scale=0.25) > 1",
        "mean(loss('Reno', n=500, scale=[0.25, 1])) > 1",
        "crossing(loss, 'Reno', 'Goal', over='scale', n=500) < 2",
        "by.t('Reno', n=500, scale=0.25, size=10) > 0",
        "mean(by.t('Reno', n=500, scale=0.25, size=between(0, 20))) > 0",
    ],
)
def test_without_any_run_there_is_no_verdict(check: str) -> None:
    gone = without(DATA, *((0, s) for s in range(5)))
    outcome = judge(finding(check, "loss('Goal') > 0"), gone)
    assert outcome.verdict is None
    assert "No verdict" in outcome.note
    assert outcome.to_dict()["checks"][0]["holds"] is None
    assert outcome.to_dict()["checks"][1]["holds"] is True


def test_rows_that_a_run_does_not_have_are_passed_over() -> None:
    rows = {key: [r for r in found if not (key[1] == 0 and r["size"] == 20)] for key, found in DATA.rows["by"].items()}
    data = replace(made_up(), rows={"by": rows})
    one = checked("mean(by.t('Reno', n=500, scale=1, size=between(0, 20))) > 0", data)
    per_seed = [1.0, *(1.5 * (1 + s / 10) for s in range(1, 5))]
    assert one.lacking == ()
    assert one.measured == pytest.approx(np.mean(per_seed))


def test_a_band_of_another_measure_is_looked_at_seed_by_seed() -> None:
    data = made_up(seeds=2, noise=0)
    at = [i for i, p in enumerate(data.points) if p.arm == "Reno" and p.parameters["scale"] == 1]
    rate = np.full((len(data.points), 2), np.nan)
    rate[at] = [[10, 30], [50, 20]]
    rated = replace(data, measures={**data.measures, "rate": Measure("rate")}, scalars={**data.scalars, "rate": rate})
    low = "loss('Reno', n=[500, 1500], scale=1, rate=between(0, {}))"
    one = checked(f"max({low.format(40)}) > 0", rated)
    assert one.measured == pytest.approx((0.5 + 1.5) / 2), "n = 500 with the first seed, both with the second"
    assert one.lacking == ()
    gap = checked(f"max({low.format(15)}) > 0", rated)
    assert gap.lacking == (2,), "the second seed has nothing so low"
    assert (gap.holds, gap.settled) == (True, False)
    assert account(gap) == "0.500 % (nothing in the range that was asked for in 1 of 2 seeds)"
    none = checked(f"max({low.format(1)}) > 0", rated)
    assert (none.holds, none.error) == (None, None)
    assert account(none) == "no value (nothing in the range that was asked for in 2 of 2 seeds)"
    assert checked(f"slope({low.format(40)}, {low.format(40)}) > 0", rated).measured == pytest.approx(1)
    with pytest.raises(CheckError, match="2 values"):
        checked(f"{low.format(40)} > 0", rated)


def test_one_seed_settles_nothing() -> None:
    outcome = judge(finding("loss('Reno', n=500, scale=1) < 100"), made_up(seeds=1))
    assert (outcome.verdict, outcome.more_seeds) == ("open", None)
    assert outcome.to_dict()["ci95"] is None
    assert "One seed" in outcome.note
    assert "cannot be told" in outcome.note
    assert judge(finding("loss('Reno', n=500, scale=1) > 100"), made_up(seeds=1)).verdict == "open"


def test_a_check_is_repeated_for_the_names_it_uses() -> None:
    outcome = judge(
        finding("loss(who, n=n, scale=1) > 0", "loss('Goal') > 0", n=[500, 1500], who=["Reno", "Paced"]), DATA
    )
    assert [dict(check.case) for check in outcome.checks] == [
        {"n": 500, "who": "Reno"},
        {},
        {"n": 500, "who": "Paced"},
        {"n": 1500, "who": "Reno"},
        {"n": 1500, "who": "Paced"},
    ]
    assert outcome.verdict == "reproduced"
    with pytest.raises(CheckError, match=r"for\.n: no check uses n"):
        judge(finding("loss('Goal') > 0", n=[1]), DATA)
    with pytest.raises(CheckError, match=r"for\.loss: loss is a measure already"):
        judge(finding("loss('Goal') > loss", loss=[1]), DATA)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (Judged("", {}, 99.21, 100, 99.21, (98.9, 99.52), True, True, "%"), "99.21 % [98.90, 99.52]"),
        (Judged("", {}, 99.2, 100, 99.2, (96.1, 102.3), True, True, "%"), "99.2 % [96.1, 102.3]"),
        (
            Judged("", {}, 3.21, 4.12, -0.91, (-1.12, -0.7), True, True, "%", is_difference=True),
            "3.21 vs 4.12 %: -0.91 [-1.12, -0.70]",
        ),
        (Judged("", {}, 1234.5, 0, 1234.5, (1200, 1269), True, True, "packets"), "1,234 packets [1,200, 1,269]"),
        (Judged("", {}, 0.0, 0, 0.0, (0.0, 0.0), True, True, "%"), "0 % [0, 0]"),
        (Judged("", {}, 0.5, 1, 0.5, None, True, False), "0.500"),
        (Judged("", {}, 99.2, 99.2003, -0.0003, None, True, False, is_difference=True), "99.2000 vs 99.2003: -0.0003"),
        (Judged("", {}, error="no"), "no value"),
    ],
)
def test_what_was_measured_reads_well(check: Judged, text: str) -> None:
    assert account(check) == text


def test_the_account_of_several_checks() -> None:
    f = finding("loss('Reno', n=n, scale=1) > 1", "loss('Reno', n=n, scale=1) < 9", n=[500, 1500])
    quiet = made_up(noise=0)
    text = judge(f, quiet).text
    assert text == (
        "n=500: 0.500 % [0.500, 0.500] (against), 0.500 % [0.500, 0.500]; "
        "n=1500: 1.50 % [1.50, 1.50], 1.50 % [1.50, 1.50]"
    )


# --- properties -------------------------------------------------------------------------------------------------------

VALUES = st.floats(-1000, 1000, allow_nan=False).map(lambda x: round(x, 3))


def pair(a: list[float], b: list[float]) -> Data:
    return Data(
        [Point("A", {}), Point("B", {})],
        list(range(len(a))),
        {"x": Measure("x")},
        {"x": np.array([a, b], dtype=float)},
    )


PAIRS = st.integers(1, 6).flatmap(
    lambda n: st.tuples(st.lists(VALUES, min_size=n, max_size=n), st.lists(VALUES, min_size=n, max_size=n))
)


@given(PAIRS)
def test_less_and_greater_mirror_each_other(values: tuple[list[float], list[float]]) -> None:
    data = pair(*values)
    less, greater = checked("x('A') < x('B')", data), checked("x('B') > x('A')", data)
    assert (less.holds, less.settled) == (greater.holds, greater.settled)
    assert less.measured == pytest.approx(-(greater.measured or 0), abs=1e-9)
    assert not (less.holds and checked("x('B') < x('A')", data).holds), "never both"
    assert not (less.holds and checked("x('A') >= x('B')", data).holds)
    assert less.holds or checked("x('A') >= x('B')", data).holds


@given(PAIRS, st.floats(0, 2000))
def test_about_has_no_direction(values: tuple[list[float], list[float]], tolerance: float) -> None:
    data = pair(*values)
    there = checked(f"about(x('A'), x('B'), abs={tolerance:.6f})", data)
    back = checked(f"about(x('B'), x('A'), abs={tolerance:.6f})", data)
    assert (there.holds, there.settled) == (back.holds, back.settled)


@given(PAIRS, st.floats(0, 500), st.floats(0, 500))
def test_a_wider_tolerance_is_never_harder(values: tuple[list[float], list[float]], one: float, more: float) -> None:
    data = pair(*values)
    tight = checked(f"about(x('A'), x('B'), abs={one:.6f})", data)
    wide = checked(f"about(x('A'), x('B'), abs={one + more + 1e-6:.6f})", data)
    order = [(False, True), (False, False), (True, False), (True, True)]
    assert order.index((bool(tight.holds), tight.settled)) <= order.index((bool(wide.holds), wide.settled))


@given(PAIRS)
def test_settled_is_either_way_and_needs_two_seeds(values: tuple[list[float], list[float]]) -> None:
    data = pair(*values)
    for sign, opposite in (("<", ">="), ("<=", ">"), (">", "<="), (">=", "<")):
        one, other = checked(f"x('A') {sign} x('B')", data), checked(f"x('A') {opposite} x('B')", data)
        assert one.settled is other.settled, "what settles a check settles its opposite"
        assert one.holds is not other.holds
        assert one.settled is False or len(values[0]) > 1
        assert one.interval is not None or not one.settled


@given(PAIRS, st.floats(0, 500), st.floats(0, 500))
def test_between_is_both_of_its_halves(values: tuple[list[float], list[float]], low: float, more: float) -> None:
    data = pair(*values)
    one = checked(f"between(x('A') - x('B'), {low:.6f}, {low + more:.6f})", data)
    halves = [checked(f"x('A') - x('B') {sign}", data) for sign in (f">= {low:.6f}", f"<= {low + more:.6f}")]
    assert one.holds is all(half.holds for half in halves)
    if one.settled:
        assert (
            all(half.settled for half in halves)
            if one.holds
            else any(not half.holds and half.settled for half in halves)
        )
    else:
        assert not all(half.holds and half.settled for half in halves)
        assert not any(not half.holds and half.settled for half in halves)


@given(PAIRS)
def test_the_seeds_that_would_settle_it_do_if_nothing_changes(values: tuple[list[float], list[float]]) -> None:
    a, b = np.array(values[0]), np.array(values[1])
    one = checked("x('A') < x('B')", pair(*values))
    needs = one.needs
    if one.settled or needs is None or needs > 500:
        return
    assert needs > len(a)
    # So many values of the same mean and spread: half of them above, half below.
    spread = float((a - b).std(ddof=1))
    for count, expected in ((needs, True), (needs - 1, False)):
        t = student_t_quantile(0.975, count - 1) if count > 1 else math.inf
        assert (t * spread / math.sqrt(count) < abs(float((a - b).mean()))) is expected


FOR, AGAINST, UNSETTLED, LEANING = (True, True), (False, True), (False, False), (True, False)
CHECKS = st.lists(st.sampled_from([FOR, AGAINST, UNSETTLED, LEANING]), min_size=1, max_size=6)


@given(CHECKS, st.data())
def test_evidence_never_takes_back_a_verdict(checks: list[tuple[bool, bool]], data: st.DataObject) -> None:
    before = verdict(checks)
    open_ones = [i for i, (_, settled) in enumerate(checks) if not settled]
    if not open_ones:
        assert before != "open", "settled is settled"
        return
    at = data.draw(st.sampled_from(open_ones))
    after = verdict([*checks[:at], data.draw(st.sampled_from([FOR, AGAINST])), *checks[at + 1 :]])
    assert before in ("open", "mixed")
    assert after in WORDS
    assert before == "open" or after == "mixed"


@given(CHECKS)
def test_a_lean_decides_nothing(checks: list[tuple[bool, bool]]) -> None:
    other = [(not holds if not settled else holds, settled) for holds, settled in checks]
    assert verdict(checks) == verdict(other)


@pytest.mark.parametrize(
    ("checks", "expected", "words"),
    [
        ([FOR, FOR], "reproduced", "reproduced"),
        ([AGAINST, AGAINST], "not", "not"),
        ([FOR, AGAINST], "mixed", "mixed 1 of 2"),
        ([FOR, AGAINST, LEANING], "mixed", "mixed 1 of 3 (1 unsettled)"),
        ([FOR, LEANING], "open", "open"),
        ([AGAINST, UNSETTLED], "open", "open"),
        ([LEANING], "open", "open"),
        ([UNSETTLED], "open", "open"),
        ([(None, False), FOR], "open", "open"),
    ],
)
def test_the_verdict_rule(checks: list[tuple[bool | None, bool]], expected: str, words: str) -> None:
    assert verdict(checks) == expected
    assert verdict_text(expected, checks, None) == words
    assert verdict(checks, "calibration") == "calibration"
    assert verdict(checks, "sensitivity") == expected


def test_a_ratio_of_one_is_not_about_twenty() -> None:
    data = pair([1.0, 1.1, 0.9, 1.05], [1.0, 1.0, 1.0, 1.0])
    for text in ("between(x('A') / x('B'), 10, 40)", "about(x('A') / x('B'), 20, rel=0.5)"):
        assert judge(finding(text), data).verdict == "not"
    halves = judge(finding("x('A') / x('B') > 10", "x('A') / x('B') < 40"), data)
    assert halves.verdict == "mixed", "as halves it could never be: `study check` refuses them"


def test_an_interval_that_contains_the_claim_is_open() -> None:
    data = pair([1.0, 3.0, 2.0], [2.1, 2.1, 2.1])
    outcome = judge(finding("x('A') > x('B')"), data)
    assert (outcome.checks[0].holds, outcome.verdict) == (False, "open")
    # Mean -0.1, deviation 1: (1.96 / 0.1)^2 and a little more for Student's t.
    assert outcome.more_seeds is not None
    assert 384 <= outcome.more_seeds + 3 <= 390
    assert outcome.verdict_text == f"open, about {outcome.more_seeds} more seeds"


def test_a_mean_on_its_bound_cannot_be_told() -> None:
    outcome = judge(finding("x('A') > x('B')"), pair([1.0, 3.0], [2.0, 2.0]))
    assert (outcome.verdict, outcome.more_seeds) == ("open", None)
    assert "cannot be told" in outcome.note


def test_between_of_several_values_is_about_each() -> None:
    data = made_up(noise=0)
    inside = checked("between(loss('Reno', n=[500, 1500], scale=1), 0.4, 1.6)", data)
    assert (inside.holds, inside.settled) == (True, True)
    assert account(inside) == "0.500 [0.500, 0.500] to 1.500 % [1.500, 1.500]"
    assert [bound.mean for bound in inside.bounds] == pytest.approx([0.1, -0.1])
    outside = checked("between(loss('Reno', n=[500, 1500], scale=1), 0.6, 1.6)", data)
    assert (outside.holds, outside.settled) == (False, True)


def test_both_sides_the_same_in_every_seed_is_said() -> None:
    for text in ("about(x('A'), x('B'), abs=1)", "x('A') > 0.9 * x('B')", "x('A') > x('B') - 0.05"):
        outcome = judge(finding(text), pair([1.0, 1.1, 1.2], [1.0, 1.1, 1.2]))
        assert outcome.verdict == "reproduced"
        assert outcome.note == "Both sides are the same in every seed, or a constant apart."
    for other in ([1.0, 1.1, 1.21], [0.0, 0.0, 0.0]):
        assert "same" not in judge(finding("x('A') < 1.2 * x('B')"), pair(other, [1.0, 1.1, 1.2])).note
    asked = changed(finding("about(x('A'), x('B'), abs=1)"), kind="identity")
    outcome = judge(asked, pair([1.0, 2.0], [1.0, 2.0]))
    assert (outcome.verdict, outcome.note) == ("identity", "")


@pytest.mark.parametrize(
    ("checks", "write"),
    [
        (["loss('Reno', n=500, scale=1) >= 1", "loss('Reno', n=500, scale=1) <= 2"],
         "between(loss('Reno', n=500, scale=1), 1, 2)"),
        (["2 > loss('Goal')", "1 <= loss('Goal')"], "between(loss('Goal'), 1, 2)"),
        (["min(loss('Reno', n=[500, 1500], scale=1)) > 1", "max(loss('Reno', n=[500, 1500], scale=1)) < 2"],
         "between(loss('Reno', n=[500, 1500], scale=1), 1, 2)"),
        (["loss('Goal') > 0.5 * loss('Reno', n=500, scale=1)", "loss('Goal') < 2 * loss('Reno', n=500, scale=1)"],
         "between(loss('Goal'), 0.5 * loss('Reno', n=500, scale=1), 2 * loss('Reno', n=500, scale=1))"),
    ],
)  # fmt: skip
def test_halves_of_one_check_are_refused(checks: list[str], write: str) -> None:
    with pytest.raises(CheckError, match="halves of one check") as error:
        examine(finding(*checks), DATA)
    assert f"`{write}`" in str(error.value)
    checked(write)
    examine(finding(write), DATA)


@pytest.mark.parametrize(
    "checks",
    [
        ["loss('Reno', n=500, scale=1) > loss('Goal')", "loss('Goal') > loss('Paced', n=500, scale=1)"],
        ["loss('Reno', n=500, scale=1) > 1", "loss('Reno', n=1500, scale=1) < 2"],
        ["loss('Goal') > 1", "loss('Goal') > loss('Paced', n=500, scale=1)"],
        ["max(loss('Goal')) > 1", "min(loss('Goal')) < 2"],
    ],
    ids=["an order", "two points", "both from below", "least below, greatest above"],
)
def test_other_pairs_are_not_halves(checks: list[str]) -> None:
    examine(finding(*checks), DATA)


@pytest.mark.parametrize(
    ("check", "each"),
    [
        ("loss('Goal') < 1.1 * loss('Goal')", {}),
        ("about(loss(who, n=500, scale=1), loss('Reno', n=500, scale=1), rel=0.1)", {"who": ["Paced", "Reno"]}),
        ("about(by.t('Reno', n=500, scale=1, size=10), by.t('Twin', size=10), rel=0.1)", {}),
    ],
)
def test_an_arm_against_itself_is_refused(check: str, each: dict[str, list[Any]]) -> None:
    at = next(
        i for i, p in enumerate(DATA.points) if (p.arm, p.parameters["n"], p.parameters["scale"]) == ("Reno", 500, 1)
    )
    points = [*DATA.points, Point("Twin", {"n": 500, "scale": 1, "D_ms": 90})]
    data = replace(DATA, points=points, stand_in=True, alike=[*range(len(points) - 1), at])
    asked = changed(finding(check), each=each)
    with pytest.raises(CheckError, match="both sides are the same runs"):
        examine(asked, data)
    examine(changed(asked, kind="identity"), data)
    if each:
        examine(finding(check, who=["Paced"]), data)


# --- plots ------------------------------------------------------------------------------------------------------------


def plot(**keys: Any) -> Plot:
    base: dict[str, Any] = {
        "id": "p", "title": "P", "figure": None, "x": "n", "y": "loss", "series": ("arm",), "where": {"scale": 1},
        "kind": "line", "x_label": None, "x_unit": None, "x_scale": "linear", "y_label": None, "y_unit": None,
        "y_scale": "linear", "y_range": None, "caption": "", "place": "place",
    }  # fmt: skip
    return Plot(**{**base, **keys})


def test_a_line_is_a_mean_with_its_interval() -> None:
    drawn = Drawing(plot(where={"scale": 1, "arm": ["Reno", "Paced"]}), DATA).to_dict()
    assert [s["name"] for s in drawn["series"]] == ["Reno", "Paced"]
    reno = drawn["series"][0]
    values = DATA.scalars["loss"][[2, 5]]
    assert reno["x"] == [500, 1500]
    assert reno["y"] == pytest.approx(values.mean(axis=1))
    half = 2.7764451 * values.std(axis=1, ddof=1) / math.sqrt(5)
    assert reno["hi"] == pytest.approx(values.mean(axis=1) + half)
    assert reno["n"] == [5, 5]
    assert (drawn["y"]["label"], drawn["y"]["unit"]) == ("Loss", "%")
    assert drawn["x"]["label"] == "n"


def test_series_are_told_apart_by_what_differs() -> None:
    drawn = Drawing(plot(x="scale", series=("arm", "n", "D_ms"), where={"arm": ["Reno", "Paced"]}), DATA).to_dict()
    assert [s["name"] for s in drawn["series"]] == [
        "Reno, n = 500",
        "Reno, n = 1500",
        "Paced, n = 500",
        "Paced, n = 1500",
    ]


def test_rows_over_a_column() -> None:
    where = {"arm": "Reno", "n": 500, "scale": 1, "size": [10, 30]}
    (series,) = Drawing(plot(x="by.size", y="by.t", where=where), DATA).to_dict()["series"]
    assert series["x"] == [10, 30]
    assert series["y"] == pytest.approx([1.2, 3.6])
    assert series["n"] == [5, 5]
    (dots,) = Drawing(plot(x="by.size", y="by.t", where=where, kind="scatter"), DATA).to_dict()["series"]
    assert (dots["x"], dots["y"]) == ([10, 30], [1, 3]), "of the first seed"


def test_a_column_tells_curves_apart() -> None:
    where = {"arm": "Reno", "n": 500, "scale": 1, "size": [10, 30]}
    drawn = Drawing(plot(x="n", y="by.t", series=("arm", "size"), where=where), DATA).to_dict()
    assert [s["name"] for s in drawn["series"]] == ["Reno, size = 10", "Reno, size = 30"]
    assert [s["x"] for s in drawn["series"]] == [[500], [500]]
    assert [s["y"] for s in drawn["series"]] == [pytest.approx([1.2]), pytest.approx([3.6])]
    dots = Drawing(plot(x="n", y="by.t", series=("size",), where=where, kind="scatter"), DATA).to_dict()["series"]
    assert [(s["name"], s["y"]) for s in dots] == [("size = 10", [1]), ("size = 30", [3])]


def test_bars_over_arms() -> None:
    drawn = Drawing(plot(x="arm", where={"n": 500, "scale": 1}, kind="bar"), DATA).to_dict()
    assert [series["x"] for series in drawn["series"]] == [["Reno"], ["Paced"], ["Goal"]]


def test_one_seed_has_no_band() -> None:
    (series,) = Drawing(plot(where={"scale": 1, "arm": "Reno"}), made_up(seeds=1)).to_dict()["series"]
    assert series["lo"] == series["hi"] == [None, None]
    assert series["n"] == [1, 1]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"x": "m"}, ["x:", "'m'", "n"]),
        ({"x": "loss"}, ["x = 'loss'", "parameter"]),
        ({"y": "los"}, ["y:", "'los'", "did you mean `loss`"]),
        ({"y": "by"}, ["by has rows", "by.size"]),
        ({"y": "loss.x"}, ["one number per run"]),
        ({"x": "by.x", "y": "by.t"}, ["column", "'x'"]),
        ({"series": ("m",)}, ["series:", "'m'"]),
        ({"where": {"m": 1}}, ["where:", "'m'"]),
        ({"where": {"scale": 2}}, ["scale = 2 is not run with --quick", "0.25"]),
        ({"where": {"arm": "X"}}, ["arm = 'X'", "'Reno'"]),
        ({"where": {}}, ["scale varies", "series", "where"]),
        ({"series": (), "where": {"scale": 1}}, ["arm varies"]),
        ({"x": "arm", "where": {"scale": 1, "n": 500}}, ["'Reno' is not a number", "bar"]),
    ],
)
def test_a_wrong_plot_says_why(keys: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(CheckError) as error:
        Drawing(plot(**keys), DATA)
    for word in words:
        assert word in str(error.value)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return Path(shutil.copytree(TINY, tmp_path / "tiny"))


STUDY, BUFFER = "study.toml", "experiments/01-buffer.toml"
LOSS_CHECK = "loss('Reno', n=4, limit=32) < loss('Reno', n=4, limit=4)"


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (STUDY, 'id = "tiny"', 'id = "a b"', ['study.toml:1: id = "a b": must be text in quotes: letters']),
        (STUDY, 'id = "tiny"', "id = 3", ["study.toml:1: id = 3: must be text"]),
        (STUDY, "question =", "questoin =", ["questoin", "unknown key; did you mean `question`", "question: missing"]),
        (STUDY, "summary =", "sumary =", ["sumary", "unknown key", "did you mean `summary`"]),
        (STUDY, "quick_s = 1", "quick_s = -1", ["cost.quick_s = -1: must be a number of at least 0"]),
        (STUDY, "year = 2026", 'year = "x"', ['paper.year = "x": must be a whole number']),
        (STUDY, 'experiment = "buffer"', 'experiment = "bufer"', ["bufer", "did you mean `buffer`"]),
        (STUDY, 'why = "', 'because = "', ["assumptions[0].why: missing", "assumptions[0].because", "unknown key"]),
        (STUDY, "[[assumptions]]", "[[assumptions]", ["study.toml:", "not TOML"]),
        (BUFFER, 'id = "buffer"', 'id = "flows"', ['id = "flows": taken by']),
        (BUFFER, 'id = "fig1b"', 'id = "fig2"', ["plots[", 'id = "fig2": taken by']),
        (BUFFER, 'id = "1b-goodput"', 'id = "2-more-flows-more-loss"', ["findings[", "taken by"]),
        (BUFFER, 'published = "less"', 'published = ""', ['findings[0].published = "": must be text']),
        (BUFFER, "title = ", "titel = ", ["titel", "unknown key; did you mean `title`", "title: missing"]),
        (BUFFER, "[quick]", "[quik]", ["unknown key", "did you mean `quick`"]),
        (BUFFER, 'figures = ["1a", "1b"]', 'figures = ["1a", "1b", "1c"]', ['figures[2] = "1c": no plot']),
        (BUFFER, 'figures = ["1a", "1b"]', 'figures = "1a"', ['figures = "1a": must be a list']),
        (BUFFER, 'kind = "bar"', 'kind = "pie"', ['plots[1].kind = "pie": unknown name; accepted: bar, line, scatter']),
        (BUFFER, 'figure = "1b"', 'figure = "9"', ['figure = "9"', "'1a', '1b'"]),
        (BUFFER, "y_range = [0, 100]", "y_range = [100, 0]", ["y_range", "lower end"]),
        (BUFFER, 'x = "limit"', 'x = "limmit"', ["plots[0]", "'limmit'", "did you mean `limit`"]),
        (BUFFER, 'y = "loss"', 'y = "losses"', ["plots[0]", "'losses'", "did you mean `loss`"]),
        (BUFFER, "where = { n = 4 }\nx_label", "where = { n = 5 }\nx_label", ["n = 5 is not run with --quick", "4"]),
        (BUFFER, "where = { n = 4 }\nx_label", "x_label", ["plots[0]", "n varies"]),
        (BUFFER, LOSS_CHECK, "loss('Reno', n=2, limit=32) < 5", ["findings[0]", "n = 2 is not run with --quick"]),
        (BUFFER, LOSS_CHECK, "loss('Renno', n=4, limit=32) < 5", ["findings[0]", "'Renno'", "did you mean `Reno`"]),
        (BUFFER, LOSS_CHECK, "lost('Reno', n=4, limit=32) < 5", ["findings[0]", "`lost`", "did you mean `loss`"]),
        (BUFFER, LOSS_CHECK, "loss('Reno', n=4, limt=32) < 5", ["findings[0]", "'limt'", "did you mean `limit`"]),
        (BUFFER, LOSS_CHECK, "loss('Reno', n=4, limit=32) <", ["findings[0]", "not an expression"]),
        (BUFFER, f'checks = ["{LOSS_CHECK}"]', "checks = []", ["findings[0].checks: has 0 entries"]),
        (BUFFER, f'checks = ["{LOSS_CHECK}"]', "checks = [1]", ["findings[0].checks[0] = 1: must be text"]),
        (BUFFER, 'for = { limit = [4, 8] }', "for = { limit = 4 }", ["findings[1].for.limit = 4", "must be a list"]),
        (BUFFER, 'for = { limit = [4, 8] }', "for = { limt = [4, 8] }", ["findings[1]", "limt"]),
        (BUFFER, 'published = "less"', 'published = "less"\nkind = "pepar"', ['"pepar": unknown name', "identity"]),
        (BUFFER, 'published = "less"', 'published = "less"\nenough_seeds = 1', ["enough_seeds = 1", "at least 2"]),
        (BUFFER, 'scenario = "../line.toml"', 'scenario = "../lion.toml"', ["lion.toml"]),
        (BUFFER, "links.bottleneck.queue.limit_packets", "links.bottleneck.queue.limit", ["limit"]),
        (BUFFER, "links.bottleneck.loss_ratio", "links.bottleneck.lost", ["measures.loss", "lost"]),
        (BUFFER, "goodput_bps AS goodput", "goodputs AS goodput", ["measures.by_flow", "goodputs"]),
        (BUFFER, "SELECT flow AS number", "SELECT flow AS n", ["by_flow", "`n`", "parameter"]),
    ],
)  # fmt: skip
def test_a_fault_in_the_files_is_found_before_any_run(
    tiny: Path, file: str, old: str, new: str, words: list[str]
) -> None:
    text = (tiny / file).read_text()
    assert old in text, "the test is out of date"
    (tiny / file).write_text(text.replace(old, new, 1))
    with pytest.raises(StudyError) as error:
        prepare.check(files.read(tiny))
    for word in (*words, ".toml"):
        assert word in str(error.value)
    assert "Traceback" not in str(error.value)


def test_every_experiment_with_a_fault_is_named(tiny: Path) -> None:
    for file in sorted((tiny / "experiments").iterdir()):
        file.write_text(file.read_text().replace('y = "loss"', 'y = "lost"'))
    with pytest.raises(StudyError) as error:
        prepare.check(files.read(tiny))
    assert str(error.value).count("'lost'") == 2


def test_experiments_are_in_the_order_of_their_numbers(tiny: Path) -> None:
    flows = (tiny / "experiments/02-flows.toml").rename(tiny / "experiments/010-flows.toml")
    (tiny / BUFFER).rename(tiny / "experiments/20-buffer.toml")
    assert [e.id for e in files.read(tiny).experiments] == ["buffer", "flows"], "what repeats the source comes first"
    flows.write_text(flows.read_text().replace('kind = "sensitivity"', ""))
    assert [e.id for e in files.read(tiny).experiments] == ["flows", "buffer"]
    flows.rename(tiny / "experiments/100-flows.toml")
    assert [e.id for e in files.read(tiny).experiments] == ["buffer", "flows"]


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"", b"[" * 5000], ids=["missing", "not text", "empty", "deep"])
def test_unusable_study_files(tiny: Path, content: bytes | None) -> None:
    if content is None:
        (tiny / STUDY).unlink()
    else:
        (tiny / STUDY).write_bytes(content)
    with pytest.raises(StudyError, match=re.escape(str(tiny))):
        files.read(tiny)


def test_all_faults_of_all_experiments_are_told_at_once(tiny: Path) -> None:
    for file in sorted((tiny / "experiments").iterdir()):
        text = file.read_text()
        file.write_text(text.replace("title =", "titel =", 1).replace('x = "', "x = 5 #", 1))
    with pytest.raises(StudyError) as error:
        files.read(tiny)
    told = str(error.value)
    for words in ("titel", "title: missing", "plots[0].x = 5: must be text"):
        assert told.count(words) >= 2, words
    assert len(error.value.faults) == 6


def test_only_some_figures(tiny: Path) -> None:
    study = files.read(tiny)
    assert study.figures == ["1a", "1b", "2"]
    one = study.only(["1"])
    assert [e.id for e in one.experiments] == ["buffer"]
    assert len(one.experiments[0].findings) == 3
    panel = study.only(["1b"]).experiments[0]
    assert [p.id for p in panel.plots] == ["fig1b"]
    assert [f.id for f in panel.findings] == ["1b-goodput"]
    assert [e.id for e in study.only(["2"], ["buffer"]).experiments] == ["buffer", "flows"]
    with pytest.raises(StudyError, match=r"--figure 12: .*1a, 1b, 2"):
        study.only(["12"])
    with pytest.raises(StudyError, match=r"--experiment bufer: .*did you mean `buffer`"):
        study.only([], ["bufer"])


def test_where_studies_are_found(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    monkeypatch.setenv(find.VARIABLE, f"/nowhere:{tiny.parent}")
    assert find.find("tiny") == tiny
    assert ("tiny", tiny) in list(find.everything())
    here = Path(shutil.copytree(tiny, empty / "studies/other-folder"))
    assert find.find("tiny").resolve() == here, "./studies comes first"
    assert find.find(str(tiny)) == tiny
    assert find.find(str(tiny / STUDY)) == tiny
    with pytest.raises(StudyError, match="did you mean `tiny`"):
        find.find("tinny")


@pytest.mark.parametrize(
    "folder", sorted(path.parent for path in (ROOT / "studies").glob("*/study.toml")), ids=lambda p: p.name
)
def test_the_studies_here_are_sound(folder: Path) -> None:
    study = files.read(folder)
    assert study.id == folder.name
    assert set(study.cost) == {"quick_s", "full_s"}
    prepare.check(study)


def test_the_package_holds_the_studies(tmp_path: Path) -> None:
    assert find.SHIPPED.resolve() == ROOT / "studies"
    maturin = Path(sys.executable).with_name("maturin")
    subprocess.run([maturin, "sdist", "--out", tmp_path], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    expected = {f"python/airtcp/{path.relative_to(ROOT)}" for path in (ROOT / "studies").rglob("*.toml")}
    assert expected
    assert expected <= names


# --- running ----------------------------------------------------------------------------------------------------------


def lines_of(folder: Path) -> list[str]:
    return (folder / "runs.jsonl").read_text().splitlines()[1:]


def go(study_dir: Path, out: Path, **more: Any) -> dict[str, Any]:
    study = files.read(study_dir)
    asked = run.Asked("tiny", "quick")
    return run.run(study, prepare.prepare(study, "quick"), out, asked, **more)


def test_equal_runs_of_experiments_are_made_once(tmp_path: Path) -> None:
    document = go(TINY, tmp_path / "out")
    assert [e["runs"] for e in document["experiments"]] == [18, 6]
    assert document["runs"] == document["finished"] == len(lines_of(tmp_path / "out")) == 21
    flows = pl.read_parquet(tmp_path / "out/flows.parquet")
    buffer = pl.read_parquet(tmp_path / "out/buffer.parquet")
    shared = buffer.join(flows.filter(pl.col("n") == 4), on="key")
    assert shared.height == 3
    assert (shared["loss"] == shared["loss_right"]).all()


def test_study_json(tmp_path: Path) -> None:
    document = go(TINY, tmp_path / "out")
    assert json.loads((tmp_path / "out/study.json").read_text()) == document
    assert (document["format"], document["format_version"]) == ("airtcp-study", 2)
    assert (document["study"], document["mode"], document["status"]) == ("tiny", "quick", "complete")
    assert document["seeds"] == "1 to 3"
    assert document["command"] == "airtcp study run tiny --quick"
    assert document["assumptions"][0]["experiment"] == "buffer"
    found = {f["id"]: f for f in document["findings"]}
    assert list(found) == [name for e in document["experiments"] for name in e["findings"]]
    # Against the tables themselves.
    runs = pl.read_parquet(tmp_path / "out/buffer.parquet")
    loss = {
        (arm, limit): values
        for (arm, limit), values in (
            ((arm, limit), runs.filter(arm=arm, n=4, limit=limit).sort("seed")["loss"].to_numpy())
            for arm in ("Reno", "Paced")
            for limit in (4, 8, 32)
        )
    }
    first = found["1a-longer-loses-less"]
    difference = loss["Reno", 32] - loss["Reno", 4]
    assert first["measured"] == pytest.approx(difference.mean())
    half = 4.3026527 * difference.std(ddof=1) / math.sqrt(3)
    assert first["ci95"] == pytest.approx([difference.mean() - half, difference.mean() + half])
    assert (first["verdict"], first["unit"], first["figure"]) == ("reproduced", "%", "1a")
    assert first["source"] == "A. Author, B. Author, A paper that nobody wrote, Nowhere 2026"
    assert found["1a-all-lost"]["verdict"] == "not"
    assert [c["for"] for c in found["1a-all-lost"]["checks"]] == [{"limit": 4}, {"limit": 8}]
    plots = {p["id"]: p for e in document["experiments"] for p in e["plots"]}
    reno = plots["fig1a"]["series"][0]
    assert (reno["name"], reno["x"]) == ("Reno", [4, 8, 32])
    assert reno["y"] == pytest.approx([loss["Reno", limit].mean() for limit in (4, 8, 32)])
    assert plots["fig1a"]["y"] == {"label": "Loss", "unit": "%", "scale": "linear", "range": [0, 100]}
    assert plots["fig1a"]["x"] == {"label": "Queue", "unit": "packets", "scale": "linear"}
    rows = pl.read_parquet(tmp_path / "out/buffer.by_flow.parquet")
    bars = next(s for s in plots["fig1b"]["series"] if s["name"] == "Paced, limit = 32")
    wanted = rows.filter(arm="Paced", n=4, limit=32).group_by("number").agg(pl.col("goodput").mean()).sort("number")
    assert bars["x"] == wanted["number"].to_list() == [0, 1, 2, 3]
    assert bars["y"] == pytest.approx(wanted["goodput"].to_list())


class OneByOne:
    """An executor that looks after each run whether it should stop, and in which some runs fail."""

    slots = 1

    def __init__(self, fails: Callable[[Task], bool] = lambda task: False) -> None:
        self.fails = fails
        self.done = 0

    def run(self, next_task: Callable[[], Task | None], is_stopped: Callable[[], bool]) -> Iterator[list[Outcome]]:
        while not is_stopped() and (task := next_task()) is not None:
            outcome = Outcome(task.key, "failed", error="it broke") if self.fails(task) else perform(task)
            assert outcome is not None
            self.done += 1
            yield [outcome]


def test_it_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    whole = go(TINY, tmp_path / "whole")
    out = tmp_path / "out"
    one_by_one = OneByOne()
    part = go(TINY, out, executor=one_by_one, is_stopped=lambda: one_by_one.done == 5)
    assert part["status"] == "interrupted"
    assert (part["finished"], part["runs"]) == (5, 21)
    assert len(lines_of(out)) == 5
    before = {f["id"]: f["verdict"] for f in part["findings"]}
    assert None in before.values(), "findings without runs have no verdict"
    assert any("No verdict" in f["note"] for f in part["findings"])
    again = go(TINY, out)
    assert again["status"] == "complete"
    keys = [json.loads(line)["key"] for line in lines_of(out)]
    assert len(keys) == len(set(keys)) == 21, "nothing ran twice"
    assert again["findings"] == whole["findings"]
    assert again["experiments"] == whole["experiments"]
    assert again["started"] == part["started"]
    assert again["wall_s"] >= part["wall_s"]


@pytest.mark.parametrize("done", [0, 1, 3])
def test_it_may_be_stopped_before_an_experiment_has_any_run(tmp_path: Path, done: int) -> None:
    one_by_one = OneByOne()
    part = go(TINY, tmp_path / "out", executor=one_by_one, is_stopped=lambda: one_by_one.done == done)
    assert (part["status"], part["finished"]) == ("interrupted", done)
    assert None in {f["verdict"] for f in part["findings"]}


def test_failed_runs_are_listed_and_the_rest_is_evaluated(tmp_path: Path) -> None:
    document = go(
        TINY, tmp_path / "out", executor=OneByOne(lambda task: "seed 2" in task.where and "limit = 4" in task.where)
    )
    assert [f["error"] for f in document["failed"]] == ["it broke", "it broke"]
    assert document["failed"][0] == {
        "experiment": "buffer",
        "what": "arm = Reno, limit = 4, seed = 2",
        "error": "it broke",
    }
    assert document["status"] == "complete"
    first = next(f for f in document["findings"] if f["id"] == "1a-longer-loses-less")
    assert first["verdict"] is not None
    assert "a run is missing or has no value in 1 of 3 seeds" in first["note"]
    assert go(TINY, tmp_path / "out")["failed"] == [], "the next start tries them again"


def test_a_check_that_the_results_do_not_fit_spoils_nothing_else(tiny: Path, tmp_path: Path) -> None:
    text = (tiny / BUFFER).read_text()
    (tiny / BUFFER).write_text(text.replace(", number=between(0, 3)), 0.001", "), 0.001"))
    document = go(tiny, tmp_path / "out")
    assert [f["what"] for f in document["failed"]] == ["finding 1b-goodput"]
    assert "several rows" in document["failed"][0]["error"]
    verdicts = {f["id"]: f["verdict"] for f in document["findings"]}
    assert verdicts["1b-goodput"] is None
    assert verdicts["1a-longer-loses-less"] == "reproduced"


@pytest.mark.parametrize(
    "content", [{"study.json": '{"study": "other"}'}, {"sweep.json": "{}"}, {"letter.txt": "hello"}]
)
def test_other_content_is_left_alone(airtcp: Command, tmp_path: Path, content: dict[str, str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name, text in content.items():
        (out / name).write_text(text)
    done = airtcp("study", "run", TINY, "--out", out)
    assert done.returncode == 2
    assert "not touched" in done.stderr
    assert {path.name: path.read_text() for path in out.iterdir() if path.name != ".lock"} == content


# --- more seeds for open findings -------------------------------------------------------------------------------------


def with_check(folder: Path, check: str) -> Path:
    """The claim of the first finding changed: that with a queue of 8 packets less than so much is lost."""
    path = folder / BUFFER
    path.write_text(path.read_text().replace(LOSS_CHECK, check))
    return folder


NEAR = "loss('Reno', n=4, limit=8) < 3.2"
"""With three seeds the interval holds the bound."""


def settled(folder: Path, out: Path, budget: str, **more: Any) -> dict[str, Any]:
    study = files.read(folder)
    asked = run.Asked("tiny", "quick", settle=Budget.read(budget))
    return run.run(study, prepare.prepare(study, "quick"), out, asked, **more)


def test_settle_runs_more_seeds_where_a_finding_is_open(tiny: Path, tmp_path: Path) -> None:
    with_check(tiny, NEAR)
    before = go(tiny, tmp_path / "before")
    (first, *others) = before["findings"]
    assert first["verdict"] == "open"
    assert first["more_seeds"] >= 1
    assert "open" not in [f["verdict"] for f in others if f["experiment"] != "buffer"]
    document = settled(tiny, tmp_path / "out", "600")
    (first, *_) = document["findings"]
    assert first["verdict"] in ("reproduced", "not"), first
    by_id = {e["id"]: e for e in document["experiments"]}
    assert by_id["flows"]["seeds"] == "1 to 3", "nothing is open there"
    (_, last) = by_id["buffer"]["seeds"].split(" to ")
    assert int(last) == first["checks"][0]["seeds"] > 3
    assert document["settle"]["runs"] == document["runs"] - before["runs"] <= 600
    assert document["settle"]["steps"] >= 1
    assert document["command"] == "airtcp study run tiny --quick --settle --settle-budget 600"
    runs = pl.read_parquet(tmp_path / "out/buffer.parquet")
    assert sorted(runs["seed"].unique()) == list(range(1, int(last) + 1)), "the sequence goes on"


def test_settle_keeps_to_its_budget(tiny: Path, tmp_path: Path) -> None:
    with_check(tiny, NEAR)
    document = settled(tiny, tmp_path / "out", "7")
    assert document["runs"] == 21 + 6, "one more seed of six points is what seven runs pay for"
    assert document["settle"] == {"budget": "7", "steps": 1, "runs": 6}
    assert settled(tiny, tmp_path / "out", "5")["settle"]["runs"] == 0


def test_settle_goes_on_where_it_was_stopped(tiny: Path, tmp_path: Path) -> None:
    with_check(tiny, NEAR)
    whole = settled(tiny, tmp_path / "whole", "60")
    assert whole["settle"]["runs"] > 4
    one_by_one = OneByOne()
    part = settled(tiny, tmp_path / "out", "60", executor=one_by_one, is_stopped=lambda: one_by_one.done >= 25)
    assert part["status"] == "interrupted"
    assert part["findings"] == go(tiny, tmp_path / "before")["findings"], "half a step is not evaluated"
    again = settled(tiny, tmp_path / "out", "60")
    keys = [json.loads(line)["key"] for line in lines_of(tmp_path / "out")]
    assert len(keys) == len(set(keys)) == whole["runs"], "nothing ran twice"
    assert again["findings"] == whole["findings"]


def test_settle_has_a_time_as_well(tiny: Path, tmp_path: Path) -> None:
    with_check(tiny, NEAR)
    assert settled(tiny, tmp_path / "out", "1h")["findings"][0]["verdict"] != "open"
    assert settled(tiny, tmp_path / "none", "0.000001s")["settle"] == {"budget": "1e-06s", "steps": 0, "runs": 0}


@pytest.mark.parametrize("text", ["", "x", "0", "-3", "1.5", "3 days", "0s"])
def test_a_wrong_budget_says_what_would_do(text: str) -> None:
    with pytest.raises(StudyError, match="number of runs such as 500, or a time such as 30min"):
        Budget.read(text)


def test_a_mean_on_its_bound_gets_no_more_seeds(tiny: Path, tmp_path: Path) -> None:
    with_check(tiny, "loss('Reno', n=4, limit=8, loss=between(0, 0.001)) < 3")
    document = settled(tiny, tmp_path / "out", "600")
    assert document["findings"][0]["verdict"] == "open"
    assert document["settle"]["runs"] == 0


# --- the command ------------------------------------------------------------------------------------------------------


def test_help_of_each_command(airtcp: Command) -> None:
    for name in ("list", "show", "run", "check"):
        done = airtcp("study", name, "--help")
        assert done.returncode == 0
        assert f"  airtcp study {name}" in done.stdout.split("example", 1)[1]
    assert airtcp("study").returncode == 2


def test_list_and_show(airtcp: Command, tmp_path: Path) -> None:
    shutil.copytree(TINY, tmp_path / "cwd/studies/tiny")
    listed = airtcp("study", "list")
    assert listed.returncode == 0
    assert "tiny" in listed.stdout
    assert "Does a longer queue lose less?" in " ".join(listed.stdout.split())
    shown = airtcp("study", "show", "tiny")
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    for words in (
        "Does a longer queue lose less?",
        "A paper that nobody wrote, Nowhere 2026",
        "Question: What do the length",
        "--quick 21 1 s",
        "--full 36 2 s",
        "A longer queue loses less",
        "Delayed acknowledgements off",
    ):
        assert words in text


def test_a_faulty_study_is_listed_as_such(airtcp: Command, tmp_path: Path) -> None:
    folder = tmp_path / "cwd/studies/broken"
    folder.mkdir(parents=True)
    (folder / STUDY).write_text("id = [")
    listed = airtcp("study", "list")
    assert listed.returncode == 0
    assert "broken" in listed.stdout
    assert "has mistakes: airtcp study check" in " ".join(listed.stdout.split())
    checked_ = airtcp("study", "check", "broken")
    assert checked_.returncode == 2
    assert "not TOML" in checked_.stderr


def test_check(airtcp: Command, tiny: Path, tmp_path: Path) -> None:
    done = airtcp("study", "check", tiny)
    assert done.returncode == 0, done.stderr
    assert "2 experiments, 3 plots, 4 findings; quick: 21 runs, full: 36 runs" in done.stdout
    (tiny / BUFFER).write_text((tiny / BUFFER).read_text().replace("loss('Reno'", "loss('Renno'"))
    for args in (("check", tiny), ("show", tiny), ("run", tiny)):
        done = airtcp("study", *args)
        assert done.returncode == 2
        assert done.stdout == ""
        assert f"{tiny / BUFFER}:" in done.stderr
        assert "'Renno'; did you mean `Reno`" in done.stderr
    assert list((tmp_path / "cwd").iterdir()) == []


def test_run_prints_verdicts_and_writes_its_folder(airtcp: Command, tmp_path: Path) -> None:
    done = airtcp("study", "run", TINY)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "cwd/runs/study-tiny-quick"
    verdicts = [f["verdict"] for f in json.loads((out / "study.json").read_text())["findings"]]
    counts = {word: verdicts.count(word) for word in WORDS}
    assert (
        f"4 findings: {counts['reproduced']} reproduced, {counts['mixed']} mixed, {counts['not']} not reproduced, "
        f"{counts['open']} open" in done.stdout
    )
    assert {"study.json", "runs.jsonl", "buffer.parquet", "buffer.by_flow.parquet", "flows.parquet"} <= {
        path.name for path in out.iterdir()
    }
    assert "results in runs/study-tiny-quick" in done.stderr


def test_json_is_one_object_and_nothing_else(airtcp: Command, tmp_path: Path) -> None:
    done = airtcp("study", "run", TINY, "--full", "--figure", "2", "--seeds", 4, "--json", "-q")
    assert done.returncode == 0
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert (told["study"], told["mode"], told["runs"]) == ("tiny", "full", 8)
    (finding_,) = told["findings"]
    assert finding_.keys() >= {"id", "figure", "claim", "published", "measured", "ci95", "verdict", "checks"}
    assert finding_["id"] == "2-more-flows-more-loss"
    document = json.loads((tmp_path / "cwd/runs/study-tiny-full/study.json").read_text())
    assert document["command"] == f"airtcp study run {shlex.quote(str(TINY))} --full --figure 2 --seeds 4"
    assert [e["id"] for e in document["experiments"]] == ["flows"]
    # The rest is added in the same folder, without what is there.
    more = airtcp("study", "run", TINY, "--full", "--seeds", 4, "--json")
    assert json.loads(more.stdout)["runs"] == 48
    # Eight of them again, because the second experiment asks more of them.
    keys = [json.loads(line)["key"] for line in lines_of(tmp_path / "cwd/runs/study-tiny-full")]
    assert (len(set(keys)), len(keys)) == (48, 56)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "nothing"], ["no study is called 'nothing'"]),
        (["show", "./nothing"], ["not a study", "study.toml"]),
        (["run", TINY, "--figure", "7"], ["--figure 7", "1a, 1b, 2"]),
        (["run", TINY, "--experiment", "x"], ["--experiment x", "buffer, flows"]),
        (["run", TINY, "--seeds", "0"], ["--seeds"]),
        (["run", TINY, "--quick", "--full"], ["not allowed with"]),
        (["run", TINY, "--settle-budget", "9"], ["--settle-budget", "give --settle as well"]),
        (["run", TINY, "--settle", "--settle-budget", "x"], ["--settle-budget x", "30min"]),
        (["run", TINY, "--jobs", "2", "--executor", "dask://x:1"], ["--jobs"]),
    ],
)
def test_bad_arguments_are_2(airtcp: Command, tmp_path: Path, args: list[object], words: list[str]) -> None:
    done = airtcp("study", *args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert list((tmp_path / "cwd").iterdir()) == []


def test_failed_runs_are_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(task: Task, is_stopped: Callable[[], bool]) -> Outcome | None:
        if "seed 2" in task.where:
            return Outcome(task.key, "failed", error="it broke")
        return perform(task, is_stopped)

    monkeypatch.setattr(local, "perform", broken)
    assert cli.main(["study", "run", str(TINY), "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr()
    assert "error: 7 failed" in told.err
    assert "buffer: arm = Reno, limit = 4, seed = 2: it broke" in told.err
    assert "4 findings" in told.out, "what there is, is evaluated"
    assert cli.main(["study", "run", str(TINY), "--out", str(tmp_path / "out"), "-q"]) == 1
    monkeypatch.undo()
    assert cli.main(["study", "run", str(TINY), "--out", str(tmp_path / "out"), "-q"]) == 0


def test_interrupted_is_130_and_keeps_what_is_finished(tiny: Path, tmp_path: Path) -> None:
    # Runs of a few seconds each: what is asked for takes minutes, so that the signal comes in the middle.
    scenario = tiny / "line.toml"
    scenario.write_text(scenario.read_text().replace('duration = "6s"', 'duration = "10000s"'))
    out = tmp_path / "out"
    command = [str(AIRTCP), "study", "run", str(tiny), "--seeds", "20", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        begin = time.monotonic()
        while not (out / "runs.jsonl").exists() or len(lines_of(out)) < 2:
            assert process.poll() is None
            assert time.monotonic() - begin < 100
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted" in errors
    document = json.loads((out / "study.json").read_text())
    assert document["status"] == "interrupted"
    assert 2 <= document["finished"] == len(lines_of(out)) < document["runs"] == 140
    assert pl.read_parquet(out / "buffer.parquet").filter(status="ok").height > 0


# --- the page ---------------------------------------------------------------------------------------------------------


def test_a_study_written_from_the_page_alone(airtcp: Command, tmp_path: Path) -> None:
    page = (ROOT / "docs/studies.md").read_text()
    example = page.split("### A worked example")[1].split("\n### ")[0]
    blocks = re.findall(r"^`(codel-delay/[\w/.-]+)`.*?\n\n```toml\n(.*?)^```$", example, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in blocks] == [
        f"codel-delay/{n}" for n in ("line.toml", "study.toml", "experiments/flows.toml")
    ]
    cwd = tmp_path / "cwd"
    for name, text in blocks:
        path = cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    commands = re.findall(r"^airtcp (study .*?)(?: \| .*)?$", example, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        done = airtcp(*command.split())
        assert done.returncode == 0, done.stderr
    told = "".join(f"{f['id']} {f['verdict']}\n" for f in json.loads(done.stdout)["findings"])
    (printed,) = re.findall(r"^```text\n(.*?)^```$", example, re.MULTILINE | re.DOTALL)
    assert told == printed
    assert (cwd / "runs/study-codel-delay-full/study.json").exists()


def test_the_page_names_every_key() -> None:
    page = (ROOT / "docs/studies.md").read_text()
    schemas = [documents.schema(kind) for kind in (files.StudyFile, files.ExperimentFile)]
    parts = [part for schema in schemas for part in (schema, *schema["$defs"].values())]
    keys = {key for part in parts for key in part["properties"]}
    assert len(keys) > 60
    named = set(re.findall(r"`\[*([\w]+)\]*`", page))
    assert keys - named == set()
