"""From checks to verdicts.

A check compares two sides per seed. With d = left - right for each seed, what it measures is the mean of d (of the
left side alone, if the right is a plain number), with a 95 % interval of Student's t over the seeds. It *holds* if the
mean satisfies the relation, and is *settled* if the whole interval does. A finding is

- reproduced, if every check holds and is settled;
- not reproduced, if none holds;
- partly reproduced otherwise;
- without a verdict, if a check has no value at all because runs are missing.

With one seed there is no interval and nothing is settled: such a finding is partly reproduced at best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from airtcp import expressions, stats
from airtcp.expressions import ExpressionError, Value
from airtcp.study.files import Finding
from airtcp.study.samples import (
    Array,
    CheckError,
    Data,
    NoValueError,
    Sample,
    Series,
    as_number,
    functions,
)

REPRODUCED: Final = "reproduced"
PARTLY: Final = "partly"
NOT: Final = "not"

TEXTS_SHOWN: Final = 4
"""Checks that the one-line account of a finding spells out."""


@dataclass(frozen=True)
class About:
    """Two sides that should agree, and how closely."""

    left: Sample | float
    right: Sample | float
    absolute: float | None
    relative: float | None


@dataclass(frozen=True)
class Judged:
    """What a check came to for one case of its finding."""

    text: str
    case: Mapping[str, Value]
    left: float | None = None
    right: float | None = None
    measured: float | None = None
    interval: tuple[float, float] | None = None
    holds: bool | None = None
    """`None`: it has no value."""
    settled: bool = False
    unit: str = ""
    is_difference: bool = False
    """Whether `measured` is left - right."""
    lacking: tuple[int, ...] = ()
    """Seeds that have no value."""
    error: str | None = None
    """Why it has no value."""

    def to_dict(self) -> dict[str, Any]:
        """As `study.json` has it."""
        return {
            "text": self.text,
            "for": dict(self.case),
            "left": self.left,
            "right": self.right,
            "measured": self.measured,
            "ci95": None if self.interval is None else list(self.interval),
            "holds": self.holds,
            "settled": self.settled,
            **({"error": self.error} if self.error else {}),
        }


@dataclass(frozen=True)
class Outcome:
    """A finding and how it fared."""

    finding: Finding
    checks: tuple[Judged, ...]
    verdict: str | None
    """`None`: a check has no value."""
    note: str

    def to_dict(self) -> dict[str, Any]:
        """As `study.json` and `--json` have it, without the experiment."""
        first = self.checks[0]
        return {
            "id": self.finding.id,
            "figure": self.finding.figure,
            "claim": self.finding.claim,
            "published": self.finding.published,
            "source": self.finding.source,
            "measured": first.measured,
            "measured_text": self.text,
            "ci95": None if first.interval is None else list(first.interval),
            "unit": first.unit,
            "verdict": self.verdict,
            "note": self.note,
            "checks": [check.to_dict() for check in self.checks],
        }

    @property
    def text(self) -> str:
        """What was measured, for people."""
        shown = self.checks[:TEXTS_SHOWN]
        if len(self.checks) == 1:
            return account(shown[0])
        parts: list[str] = []
        case: Mapping[str, Value] | None = None
        for check in shown:
            mark = (
                ""
                if check.holds is None or (check.holds and check.settled)
                else " (unsettled)"
                if check.holds
                else " (fails)"
            )
            if parts and check.case == case:
                parts[-1] += f", {account(check)}{mark}"
            else:
                parts.append(f"{case_text(check.case)}{account(check)}{mark}")
            case = check.case
        if len(self.checks) > len(shown):
            parts.append(f"{len(self.checks) - len(shown)} more")
        return "; ".join(parts)


def verdict(checks: Sequence[tuple[bool | None, bool]]) -> str | None:
    """The verdict from what holds and what is settled, check by check."""
    if any(holds is None for holds, _ in checks):
        return None
    if all(holds and settled for holds, settled in checks):
        return REPRODUCED
    if not any(holds for holds, _ in checks):
        return NOT
    return PARTLY


def judge(finding: Finding, data: Data) -> Outcome:
    """Evaluates a finding.

    Raises:
        CheckError: a check is wrong, whatever the runs gave: it names what does not exist, for example.
    """
    checks = tuple(judge_check(text, case, data) for text, case in _each(finding))
    notes = [finding.note] if finding.note else []
    if len(data.seeds) == 1:
        notes.append("One seed: no interval, so nothing is settled.")
    lacking = sorted({seed for check in checks if check.error is None for seed in check.lacking})
    if lacking:
        names = ", ".join(map(str, lacking))
        notes.append(f"Seeds left out because a run is missing or has no value: {names}.")
    without = list(dict.fromkeys(check.error for check in checks if check.error))
    if without:
        notes.append(f"No verdict: {'; '.join(without)}.")
    return Outcome(finding, checks, verdict([(check.holds, check.settled) for check in checks]), " ".join(notes))


def _each(finding: Finding) -> list[tuple[str, dict[str, Value]]]:
    """Checks and cases; a check that does not use a name of `for` is not repeated for its values."""
    out: list[tuple[str, dict[str, Value]]] = []
    used = {text: _names(text) for text in finding.checks}
    for name in finding.each:
        if not any(name in names for names in used.values()):
            raise CheckError(f"for.{name}: no check uses {name}")
    for case in finding.cases():
        for text in finding.checks:
            one = (text, {name: value for name, value in case.items() if name in used[text]})
            if one not in out:
                out.append(one)
    return out


def _names(text: str) -> frozenset[str]:
    try:
        return expressions.parse(text).names
    except ExpressionError as error:
        raise CheckError(str(error)) from None


def judge_check(text: str, case: Mapping[str, Value], data: Data) -> Judged:
    """Evaluates one check.

    Raises:
        CheckError: it is wrong, whatever the runs gave.
    """
    try:
        return _judged(text, case, data, *_sides(text, case, data))
    except NoValueError as error:
        return Judged(text, case, error=str(error))


Relation = Callable[[float, float], bool]
_RELATIONS: Final[Mapping[str, Relation]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _sides(
    text: str, case: Mapping[str, Value], data: Data
) -> tuple[Sample | float, Sample | float, str, About | None]:
    names, calls = environment(case, data)
    try:
        expression = expressions.parse(text)
        parts = expression.comparison
        if parts is None:
            value = expression.evaluate(names, calls)
            if not isinstance(value, About):
                raise CheckError(f"`{text}`: not a check: compare with <, <=, > or >=, or use about(a, b, abs=...)")
            return value.left, value.right, "about", value
        left, sign, right = parts
        if sign not in _RELATIONS:
            raise CheckError(f"`{text}`: {sign} never holds exactly: use about(a, b, abs=...) or about(a, b, rel=...)")
        return (
            _side(left.evaluate(names, calls), f"`{text}`"),
            _side(right.evaluate(names, calls), f"`{text}`"),
            sign,
            None,
        )
    except ExpressionError as error:
        # What a function of ours says is kept as what it is; the evaluator has put the place to it.
        if isinstance(error.__cause__, NoValueError):
            raise error.__cause__ from None
        reason = str(error.__cause__) if isinstance(error.__cause__, CheckError) else error.reason
        raise CheckError(f"`{text}`: {reason}") from None


def environment(case: Mapping[str, Value], data: Data) -> tuple[dict[str, object], dict[str, Callable[..., object]]]:
    """Names and functions of checks: what `for` sets, measures, and the functions of `airtcp.study.samples`.

    Raises:
        CheckError: a name stands for two things.
    """
    calls: dict[str, Callable[..., object]] = {**functions(), "about": _about}
    names: dict[str, object] = {"true": True, "false": False}
    for measure in data.measures.values():
        series = (
            [Series(data, measure)]
            if measure.columns is None
            else [Series(data, measure, column) for column in measure.columns]
        )
        for one in series:
            if one.name in functions() or one.name == "about":
                raise CheckError(f"a measure cannot be called {one.name!r}: it is a function of checks")
            calls[one.name] = one
            names[one.name] = one
    for name, value in case.items():
        if name in names:
            already = "a value" if isinstance(names[name], bool) else "a measure"
            raise CheckError(f"for.{name}: {name} is {already} already")
        names[name] = value
    return names, calls


def _about(left: object, right: object, *, abs: object = None, rel: object = None) -> About:  # noqa: A002
    if (abs is None) == (rel is None):
        raise CheckError("about(a, b, ...): give one tolerance, abs=... or rel=...")
    tolerance = as_number(abs if rel is None else rel, "about()")
    if tolerance < 0:
        raise CheckError(f"about(): the tolerance {tolerance:g} is negative")
    return About(
        _side(left, "about()"),
        _side(right, "about()"),
        tolerance if rel is None else None,
        tolerance if abs is None else None,
    )


def _side(value: object, where: str) -> Sample | float:
    if isinstance(value, Sample):
        try:
            value.one()
        except NoValueError:
            raise
        except CheckError as error:
            raise CheckError(f"{where}: {error}") from None
        return value
    return as_number(value, where)


def _judged(
    text: str,
    case: Mapping[str, Value],
    data: Data,
    left: Sample | float,
    right: Sample | float,
    sign: str,
    about: About | None,
) -> Judged:
    if not isinstance(left, Sample) and not isinstance(right, Sample):
        raise CheckError(f"`{text}`: uses no measure")
    seeds = len(data.seeds)
    a, b = _per_seed(left, seeds), _per_seed(right, seeds)
    with np.errstate(invalid="ignore"):
        gap = a - b
    there = ~np.isnan(gap)
    lacking = tuple(seed for seed, ok in zip(data.seeds, there, strict=True) if not ok)
    if not there.any():
        raise NoValueError(f"`{text}`{_with(case)} has no value: its runs are missing or gave none")
    a, b, gap = a[there], b[there], gap[there]
    difference = stats.mean(gap)
    if about is None:
        relation = _RELATIONS[sign]
        ends = difference.interval

        def satisfied(value: float) -> bool:
            return relation(value, 0.0)
    else:
        tolerance = about.absolute if about.absolute is not None else (about.relative or 0.0) * abs(float(b.mean()))
        assert tolerance is not None

        def satisfied(value: float) -> bool:
            return abs(value) <= tolerance

        ends = difference.interval
    # What is shown: the difference of two measured sides, or the one side that is measured.
    is_difference = isinstance(left, Sample) and isinstance(right, Sample)
    shown = difference if is_difference else stats.mean(a if isinstance(left, Sample) else b)
    unit = next((side.unit for side in (left, right) if isinstance(side, Sample) and side.unit), "")
    return Judged(
        text=text,
        case=case,
        left=_finite(float(a.mean())),
        right=_finite(float(b.mean())),
        measured=_finite(shown.value),
        interval=shown.interval,
        holds=satisfied(difference.value),
        settled=ends is not None and all(map(satisfied, ends)),
        unit=unit,
        is_difference=is_difference,
        lacking=lacking,
    )


def _per_seed(side: Sample | float, seeds: int) -> Array:
    return side.one() if isinstance(side, Sample) else np.full(seeds, side)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _with(case: Mapping[str, Value]) -> str:
    return f" for {', '.join(f'{k} = {v}' for k, v in case.items())}" if case else ""


# --- words ------------------------------------------------------------------------------------------------------------


def case_text(case: Mapping[str, Value]) -> str:
    """`n=500: `, or nothing."""
    return f"{', '.join(f'{k}={v}' for k, v in case.items())}: " if case else ""


def account(check: Judged) -> str:
    """`99.2 % [98.9, 99.5]`, or `3.2 vs 4.1 %: -0.9 [-1.1, -0.7]`."""
    if check.holds is None:
        return "no value"
    if check.measured is None:
        return "never"
    decimals = _decimals(check)
    unit = f" {check.unit}" if check.unit else ""
    low_high = (
        ""
        if check.interval is None
        else f" [{_number(check.interval[0], decimals)}, {_number(check.interval[1], decimals)}]"
    )
    if not check.is_difference:
        return f"{_number(check.measured, decimals)}{unit}{low_high}"
    assert check.left is not None
    assert check.right is not None
    sides = f"{_number(check.left, decimals)} vs {_number(check.right, decimals)}{unit}"
    return f"{sides}: {_number(check.measured, decimals)}{low_high}"


def _decimals(check: Judged) -> int:
    """Two digits of the interval's half width, but no more than four of the numbers; without an interval, three."""
    assert check.measured is not None
    if check.interval is not None and check.interval[1] > check.interval[0]:
        size, digits = (check.interval[1] - check.interval[0]) / 2, 2
    else:
        size, digits = abs(check.measured), 3
    if size == 0:
        return 0 if check.measured == 0 and not check.is_difference else 2
    sides = (check.left, check.right) if check.is_difference else (check.measured,)
    largest = max((abs(side) for side in sides if side is not None), default=0.0) or size
    most = 3 - math.floor(math.log10(largest))
    least = -math.floor(math.log10(abs(check.measured))) if check.measured else 0  # a small difference is not 0.00
    return min(max(min(digits - 1 - math.floor(math.log10(size)), most), least, 0), 6)


def _number(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    # -0.0 is a rounding, not a sign.
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def stand_in_of(data: Data) -> Data:
    """The same cells before anything has run."""
    return replace(data, scalars={}, rows={}, stand_in=True)
