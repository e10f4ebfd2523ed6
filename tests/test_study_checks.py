"""Studies: checks, verdicts and plots on made-up results."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from airtcp.stats import student_t_quantile
from airtcp.study.files import Finding, Plot
from airtcp.study.findings import Judged, account, judge, judge_check, verdict, verdict_text
from airtcp.study.plots import Drawing
from airtcp.study.samples import CheckError, Data, Meaning, MeasureValues, Point
from airtcp.study.soundness import examine
from conftest import ROOT

TINY = ROOT / "tests/data/tiny"
WORDS = ("reproduced", "mixed", "not", "open")


# --- checks on made-up results ----------------------------------------------------------------------------------------


def made_up(seeds: int = 5, noise: float = 0.05) -> Data:
    """Loss of two variants over n and scale; rows by size. Reno loses n / 1000 / scale percent, pacing half of it."""
    points = [
        Point(variant, {"n": n, "scale": scale, "D_ms": 90})
        for variant in ("Reno", "Paced")
        for n in (500, 1500)
        for scale in (0.25, 0.5, 1)
    ]
    points.append(Point("Goal", {"n": 500, "scale": 1, "D_ms": 90}))
    rng = np.random.default_rng(1)
    shared = rng.normal(0, noise, seeds)  # what variants have in common in a seed

    def loss(point: Point) -> float:
        p = point.parameters
        part = {"Reno": 1, "Paced": 0.5, "Goal": 1.5}[str(point.variant)]
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
            "loss": MeasureValues("loss", Meaning("Loss", "%")),
            "by": MeasureValues(
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
    assert one.interval == pytest.approx((-0.25, -0.25)), "the noise is the same in both variants"
    assert one.holds
    assert one.settled
    alone = checked("loss('Paced', n=500, scale=1) < 0.3", noisy)
    assert not alone.settled, "by itself the variant is all noise"


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
    assert outcome.note == "no crossing in 5 of 5 seeds. Open: the number of seeds that would settle it cannot be told."


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
        ("loss('Renno', n=500, scale=1) < 1", ["variant", "'Renno'", "did you mean `Reno`"]),
        ("loss(n=500, scale=1) < 1", ["the variant is missing", "'Reno'", "'Paced'"]),
        ("loss(500) < 1", ["variant must be a name in quotes"]),
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
        ("1 < 2", ["at least one measure"]),
        ("by('Reno') < 1", ["`by`", "by.t"]),
        ("by.x('Reno') < 1", ["by.x", "by.t"]),
        ("about(loss('Goal'), 1)", ["one tolerance"]),
        ("about(loss('Goal'), 1, abs=1, rel=1)", ["one tolerance"]),
        ("about(loss('Goal'), 1, abs=-1)", ["must be 0 or more"]),
        ("crossing('loss', 'Reno', 1, over='scale', n=500) < 1", ["crossing()", "without brackets"]),
        ("crossing(loss, 'Reno', 1, n=500) < 1", ["over="]),
        ("crossing(loss, 'Reno', 1, over='x', n=500) < 1", ["coordinate", "'x'"]),
        ("crossing(loss, 'Reno', 1, over='scale') < 1", ["n is missing"]),
        ("loss('Reno', n=500, scale=1, loss=1) < 1", ["loss is a measure", "between(low, high)"]),
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
        ("by.name('Reno', n=500, scale=1, size=10) < 1", ["holds the text"]),
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
    at = [i for i, p in enumerate(data.points) if p.variant == "Reno" and p.parameters["scale"] == 1]
    rate = np.full((len(data.points), 2), np.nan)
    rate[at] = [[10, 30], [50, 20]]
    rated = replace(
        data, measures={**data.measures, "rate": MeasureValues("rate")}, scalars={**data.scalars, "rate": rate}
    )
    low = "loss('Reno', n=[500, 1500], scale=1, rate=between(0, {}))"
    one = checked(f"max({low.format(40)}) > 0", rated)
    assert one.measured == pytest.approx((0.5 + 1.5) / 2), "n = 500 with the first seed, both with the second"
    assert one.lacking == ()
    gap = checked(f"max({low.format(15)}) > 0", rated)
    assert gap.lacking == (2,), "the second seed has nothing so low"
    assert (gap.holds, gap.settled) == (True, False)
    assert account(gap) == "0.500 % (no value in the range asked for in 1 of 2 seeds)"
    none = checked(f"max({low.format(1)}) > 0", rated)
    assert (none.holds, none.error) == (None, None)
    assert account(none) == "no value (no value in the range asked for in 2 of 2 seeds)"
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
    with pytest.raises(CheckError, match=r"for\.loss: loss is already a measure"):
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
        {"x": MeasureValues("x")},
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
def test_a_variant_against_itself_is_refused(check: str, each: dict[str, list[Any]]) -> None:
    at = next(
        i
        for i, p in enumerate(DATA.points)
        if (p.variant, p.parameters["n"], p.parameters["scale"]) == ("Reno", 500, 1)
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
        "id": "p", "title": "P", "figure": None, "x": "n", "y": "loss", "series": ("variant",), "where": {"scale": 1},
        "kind": "line", "x_label": None, "x_unit": None, "x_scale": "linear", "y_label": None, "y_unit": None,
        "y_scale": "linear", "y_range": None, "caption": "", "place": "place",
    }  # fmt: skip
    return Plot(**{**base, **keys})


def test_a_line_is_a_mean_with_its_interval() -> None:
    drawn = Drawing(plot(where={"scale": 1, "variant": ["Reno", "Paced"]}), DATA).to_dict()
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
    drawn = Drawing(
        plot(x="scale", series=("variant", "n", "D_ms"), where={"variant": ["Reno", "Paced"]}), DATA
    ).to_dict()
    assert [s["name"] for s in drawn["series"]] == [
        "Reno, n = 500",
        "Reno, n = 1500",
        "Paced, n = 500",
        "Paced, n = 1500",
    ]


def test_rows_over_a_column() -> None:
    where = {"variant": "Reno", "n": 500, "scale": 1, "size": [10, 30]}
    (series,) = Drawing(plot(x="by.size", y="by.t", where=where), DATA).to_dict()["series"]
    assert series["x"] == [10, 30]
    assert series["y"] == pytest.approx([1.2, 3.6])
    assert series["n"] == [5, 5]
    (dots,) = Drawing(plot(x="by.size", y="by.t", where=where, kind="scatter"), DATA).to_dict()["series"]
    assert (dots["x"], dots["y"]) == ([10, 30], [1, 3]), "of the first seed"


def test_a_column_tells_curves_apart() -> None:
    where = {"variant": "Reno", "n": 500, "scale": 1, "size": [10, 30]}
    drawn = Drawing(plot(x="n", y="by.t", series=("variant", "size"), where=where), DATA).to_dict()
    assert [s["name"] for s in drawn["series"]] == ["Reno, size = 10", "Reno, size = 30"]
    assert [s["x"] for s in drawn["series"]] == [[500], [500]]
    assert [s["y"] for s in drawn["series"]] == [pytest.approx([1.2]), pytest.approx([3.6])]
    dots = Drawing(plot(x="n", y="by.t", series=("size",), where=where, kind="scatter"), DATA).to_dict()["series"]
    assert [(s["name"], s["y"]) for s in dots] == [("size = 10", [1]), ("size = 30", [3])]


def test_bars_over_variants() -> None:
    drawn = Drawing(plot(x="variant", where={"n": 500, "scale": 1}, kind="bar"), DATA).to_dict()
    assert [series["x"] for series in drawn["series"]] == [["Reno"], ["Paced"], ["Goal"]]


def test_one_seed_has_no_band() -> None:
    (series,) = Drawing(plot(where={"scale": 1, "variant": "Reno"}), made_up(seeds=1)).to_dict()["series"]
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
        ({"where": {"variant": "X"}}, ["variant = 'X'", "'Reno'"]),
        ({"where": {}}, ["scale varies", "series", "where"]),
        ({"series": (), "where": {"scale": 1}}, ["variant varies"]),
        ({"x": "variant", "where": {"scale": 1, "n": 500}}, ["'Reno' is not a number", "bar"]),
    ],
)
def test_a_wrong_plot_says_why(keys: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(CheckError) as error:
        Drawing(plot(**keys), DATA)
    for word in words:
        assert word in str(error.value)
