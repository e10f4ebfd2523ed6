"""From checks to verdicts.

A check compares two sides per seed. With d = left - right for each seed, it measures the mean of d with a 95 % interval
of Student's t over the seeds. If the right side is a plain number, it measures the left side alone. It *holds* if the
mean satisfies the relation. It is *settled* if the whole interval agrees. It is settled for if every value in the
interval satisfies the relation, and settled against if none does. A finding is

- reproduced, if every check is settled for;
- not reproduced, if every check is settled against;
- mixed, if some are settled for and some against, whatever the others are;
- open otherwise: no settled check contradicts another, and some are not settled;
- without a verdict, if a check has no value at all because runs are missing.

With one seed there is no interval and nothing is settled: such a finding is open. Nor is a check settled if a
seed has no value, such as a curve that does not cross or a band without a dot. The finding may say how many seeds are
enough. A finding that tests nothing, a calibration or an identity, has its kind in place of a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airtcp import expressions, stats
from airtcp.expressions import ExpressionError, Value
from airtcp.study.files import KINDS, Finding
from airtcp.study.samples import (
    NO_CROSSING,
    Array,
    Between,
    CheckError,
    Data,
    MeasureFunction,
    NoValueError,
    Reasons,
    Sample,
    as_number,
    functions,
)

REPRODUCED: Final = "reproduced"
MIXED: Final = "mixed"
NOT: Final = "not"
OPEN: Final = "open"
VERDICTS: Final = (REPRODUCED, MIXED, NOT, OPEN)

MOST_SEEDS: Final = 10_000
"""A mean that would need more seeds than this counts as lying on its bound."""

TEXTS_SHOWN: Final = 4
"""Checks that the one-line account of a finding lists."""


@dataclass(frozen=True)
class Bound:
    """One bound of a relation: the mean distance to it, which must be `sign` 0."""

    sign: str
    mean: float | None
    interval: tuple[float, float] | None

    @property
    def holds(self) -> bool:
        """Whether the mean satisfies the relation."""
        return self.mean is not None and RELATIONS[self.sign](self.mean, 0.0)

    def settled(self, *, to: bool) -> bool:
        """Whether every value of the interval satisfies the relation, or, if `to` is false, none does."""
        return self.interval is not None and all(RELATIONS[self.sign](end, 0.0) is to for end in self.interval)

    def to_dict(self) -> dict[str, Any]:
        """As `study.json` has it."""
        return {"sign": self.sign, "mean": self.mean, "ci95": None if self.interval is None else list(self.interval)}


def state(bounds: Sequence[Bound]) -> tuple[bool, bool]:
    """Whether a check with these bounds holds, and whether that is settled."""
    if all(bound.settled(to=True) for bound in bounds):
        return True, True
    if any(bound.settled(to=False) for bound in bounds):
        return False, True
    return all(bound.holds for bound in bounds), False


@dataclass(frozen=True)
class Claim:
    """A check before it is judged: every distance must have its sign."""

    distances: tuple[tuple[Sample | float, str], ...]
    left: Sample | float
    right: Sample | float | None
    """`None`: `left` is compared with two bounds."""


@dataclass(frozen=True)
class Judged:
    """The result of a check for one case of its finding."""

    text: str
    case: Mapping[str, Value]
    left: float | None = None
    right: float | None = None
    measured: float | None = None
    interval: tuple[float, float] | None = None
    holds: bool | None = None
    """`None`: it has no value."""
    settled: bool = False
    """Whether the whole interval agrees with `holds`."""
    unit: str = ""
    is_difference: bool = False
    """Whether `measured` is left - right."""
    lacking: tuple[int, ...] = ()
    """Number of seeds that have no value."""
    error: str | None = None
    """Reason why the check has no value."""
    bounds: tuple[Bound, ...] = ()
    upper: tuple[float | None, tuple[float, float] | None] | None = None
    """The greatest of several values that are compared with two bounds. `measured` is the least."""
    seeds: int = 0
    """Number of seeds that have a value."""
    needs: int | None = None
    """Number of seeds that would settle it. `None`: that cannot be told, or it is settled."""
    gaps: tuple[str, ...] = ()
    """Reasons why seeds have no value, such as "no crossing in 3 of 10 seeds"."""
    is_same: bool = False
    """Whether both sides are measured, and are equal or a constant apart in every seed."""

    def to_dict(self) -> dict[str, Any]:
        """As `study.json` has it."""
        return {
            "text": self.text,
            "for": dict(self.case),
            "left": self.left,
            "right": self.right,
            "measured": self.measured,
            "ci95": None if self.interval is None else list(self.interval),
            **(
                {"to": {"measured": self.upper[0], "ci95": self.upper[1] and list(self.upper[1])}} if self.upper else {}
            ),
            "bounds": [bound.to_dict() for bound in self.bounds],
            "holds": self.holds,
            "settled": self.settled,
            "seeds": self.seeds,
            "needs": self.needs,
            "unit": self.unit,
            "difference": self.is_difference,
            **({"same": True} if self.is_same else {}),
            **({"gaps": list(self.gaps)} if self.gaps else {}),
            **({"error": self.error} if self.error else {}),
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], enough: int | None = None) -> Judged:
        """The check that `to_dict` wrote. Everything that follows from the bounds is computed again, not read.

        Args:
            found: as `to_dict` gives it.
            enough: as the finding says.
        """
        bounds = tuple(Bound(b["sign"], b["mean"], _pair(b["ci95"])) for b in found["bounds"])
        gaps = tuple(found.get("gaps", ()))
        holds, settled, needs = None, False, None
        if bounds:
            is_enough = not gaps or (enough is not None and found["seeds"] >= enough)
            holds, settled, needs = decided(bounds, found["seeds"], is_enough=is_enough)
        to = found.get("to")
        return cls(
            text=found["text"],
            case=found["for"],
            left=found["left"],
            right=found["right"],
            measured=found["measured"],
            interval=_pair(found["ci95"]),
            holds=holds,
            settled=settled,
            unit=found["unit"],
            is_difference=found["difference"],
            error=found.get("error"),
            bounds=bounds,
            upper=None if to is None else (to["measured"], _pair(to["ci95"])),
            seeds=found["seeds"],
            needs=needs,
            gaps=gaps,
            is_same=found.get("same", False),
        )


def _pair(ends: Sequence[float] | None) -> tuple[float, float] | None:
    return None if ends is None else (ends[0], ends[1])


@dataclass(frozen=True)
class FindingOutcome:
    """A finding and its verdict."""

    finding: Finding
    checks: tuple[Judged, ...]
    verdict: str | None
    """`None`: a check has no value."""
    note: str
    more_seeds: int | None = None
    """Number of further seeds that would settle an open finding. `None`: that cannot be told, or it is not open."""

    def to_dict(self) -> dict[str, Any]:
        """As `study.json` and `--json` have it, without the experiment."""
        first = self.checks[0]
        return {
            "id": self.finding.id,
            "kind": self.finding.kind,
            "figure": self.finding.figure,
            "claim": self.finding.claim,
            "published": self.finding.published,
            "source": self.finding.source,
            "measured": first.measured,
            "measured_text": self.text,
            "ci95": None if first.interval is None else list(first.interval),
            "unit": first.unit,
            "verdict": self.verdict,
            "verdict_text": self.verdict_text,
            "more_seeds": self.more_seeds,
            "note": self.note,
            "checks": [check.to_dict() for check in self.checks],
        }

    @property
    def verdict_text(self) -> str:
        """The verdict with its counts, such as "mixed 2 of 3"."""
        return verdict_text(self.verdict, [(c.holds, c.settled) for c in self.checks], self.more_seeds)

    @property
    def text(self) -> str:
        """The measured values in words."""
        shown = self.checks[:TEXTS_SHOWN]
        if len(self.checks) == 1:
            return account(shown[0])
        parts: list[str] = []
        case: Mapping[str, Value] | None = None
        for check in shown:
            if parts and check.case == case:
                parts[-1] += f", {account(check)}{_mark(check)}"
            else:
                parts.append(f"{case_text(check.case)}{account(check)}{_mark(check)}")
            case = check.case
        if len(self.checks) > len(shown):
            parts.append(f"{len(self.checks) - len(shown)} more")
        return "; ".join(parts)


def _mark(check: Judged) -> str:
    if check.error:
        return ""
    if not check.settled:
        return " (unsettled)"
    return "" if check.holds else " (against)"


def verdict(checks: Sequence[tuple[bool | None, bool]], kind: str = "paper") -> str:
    """The verdict from what holds and what is settled, check by check."""
    if kind not in KINDS:
        return kind
    won = sum(bool(holds) and settled for holds, settled in checks)
    lost = sum(holds is False and settled for holds, settled in checks)
    if won == len(checks):
        return REPRODUCED
    if lost == len(checks):
        return NOT
    return MIXED if won and lost else OPEN


def verdict_text(word: str | None, checks: Sequence[tuple[bool | None, bool]], more_seeds: int | None) -> str:
    """A verdict with its counts: `mixed 2 of 3`, `open, about 7 more seeds`."""
    if word == MIXED:
        won = sum(bool(holds) and settled for holds, settled in checks)
        unsettled = sum(not settled for _, settled in checks)
        return f"mixed {won} of {len(checks)}" + (f" ({unsettled} unsettled)" if unsettled else "")
    if word == OPEN:
        if more_seeds is None:
            return "open"
        return f"open, about {more_seeds} more seed{'s' if more_seeds != 1 else ''}"
    return word or "no verdict"


def seeds_to_settle(bound: Bound, seeds: int) -> int | None:
    """Number of seeds that would keep the interval away from the bound if mean and spread stayed as they are.

    `None` where that cannot be told: one seed, or a mean that sits on the bound.
    """
    if bound.mean is None or bound.interval is None:
        return None
    level = (1 + stats.LEVEL) / 2
    half = (bound.interval[1] - bound.interval[0]) / 2
    centre, spread = abs(bound.mean), half * math.sqrt(seeds) / stats.student_t_quantile(level, seeds - 1)
    if centre == 0 or (1.96 * spread / centre) ** 2 > MOST_SEEDS:
        return None
    # Student's t is wider than the normal distribution: the count is found upwards from that of the latter.
    count = max(2, math.ceil((1.959 * spread / centre) ** 2))
    while stats.student_t_quantile(level, count - 1) * spread >= centre * math.sqrt(count):
        count += 1
    return count


def decided(bounds: Sequence[Bound], seeds: int, *, is_enough: bool) -> tuple[bool, bool, int | None]:
    """Whether a check with these bounds holds, whether that is settled, and if not how many seeds would settle it."""
    holds, settled = state(bounds)
    if settled or not is_enough:
        return holds, settled and is_enough, None
    counts = [seeds_to_settle(bound, seeds) for bound in bounds if bound.holds is holds]
    told = [count for count in counts if count is not None]
    if holds:
        return holds, False, max(told) if len(told) == len(counts) else None
    return holds, False, min(told, default=None)


def judge(finding: Finding, data: Data) -> FindingOutcome:
    """Evaluates a finding.

    Raises:
        CheckError: a check is wrong, whatever the runs gave: it names what does not exist, for example.
    """
    checks = tuple(judge_check(text, case, data, finding.enough_seeds) for text, case in each_check(finding))
    if data.stand_in:
        checks = tuple(replace(check, is_same=False) for check in checks)
    return conclude(finding, checks)


def conclude(finding: Finding, checks: tuple[Judged, ...]) -> FindingOutcome:
    """The verdict on a finding, and remarks about it, from the results of its checks."""
    notes = [finding.note] if finding.note else []
    if any(check.seeds == 1 and not check.gaps for check in checks):
        notes.append("One seed: no interval, so nothing is settled.")
    notes += [f"{text}." for text in dict.fromkeys(gap for check in checks for gap in check.gaps)]
    if same := sum(check.is_same for check in checks if finding.kind in KINDS):
        which = "Both sides" if len(checks) == 1 else f"Both sides of {same} of {len(checks)} checks"
        notes.append(f"{which} are the same in every seed, or a constant apart.")
    without = list(dict.fromkeys(check.error for check in checks if check.error))
    if without:
        notes.append(f"No verdict: {'; '.join(without)}.")
        return FindingOutcome(finding, checks, None, " ".join(notes))
    word = verdict([(check.holds, check.settled) for check in checks], finding.kind or "paper")
    more: int | None = None
    if word == OPEN:
        unsettled = [check for check in checks if not check.settled]
        if all(check.needs is not None for check in unsettled):
            more = max(1, *((check.needs or 0) - check.seeds for check in unsettled))
        else:
            on_bound = "the number of seeds that would settle it cannot be told"
            notes.append(f"Open: {on_bound}.")
    return FindingOutcome(finding, checks, word, " ".join(notes), more)


def each_check(finding: Finding) -> list[tuple[str, dict[str, Value]]]:
    """Pairs of check and case. A check that does not use a name of `for` is not repeated for its values."""
    out: list[tuple[str, dict[str, Value]]] = []
    used = {text: _names(text) for text in finding.checks}
    for name in finding.each:
        if not any(name in names for names in used.values()):
            raise CheckError(f"for.{name}: no check uses {name}: use it in a check, or remove it")
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


def judge_check(text: str, case: Mapping[str, Value], data: Data, enough: int | None = None) -> Judged:
    """Evaluates one check.

    Args:
        text: as written.
        case: values of the names of `for`.
        data: the runs.
        enough: how many seeds must have a value for it to be settled; `None`: all.

    Raises:
        CheckError: it is wrong, whatever the runs gave.
    """
    try:
        return _judged(text, case, data, _claim(text, case, data), enough)
    except NoValueError as error:
        return Judged(text, case, error=str(error))


Relation = Callable[[float, float], bool]
RELATIONS: Final[Mapping[str, Relation]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _claim(text: str, case: Mapping[str, Value], data: Data) -> Claim:
    names, calls = environment(case, data)
    try:
        expression = expressions.parse(text)
        parts = expression.comparison
        if parts is None:
            value = expression.evaluate(names, calls)
            if not isinstance(value, Claim):
                raise CheckError(
                    f"`{text}`: not a check: compare with <, <=, > or >=, or use about(a, b, abs=...) or "
                    "between(x, low, high)"
                )
            return value
        left, sign, right = parts
        if sign not in RELATIONS:
            raise CheckError(f"`{text}`: {sign} never holds exactly: use about(a, b, abs=...) or about(a, b, rel=...)")
        a = _side(left.evaluate(names, calls), f"`{text}`")
        b = _side(right.evaluate(names, calls), f"`{text}`")
        return Claim(((_minus(a, b), sign),), a, b)
    except ExpressionError as error:
        # Keep the error of our own function: the evaluator has added the place.
        if isinstance(error.__cause__, NoValueError):
            raise error.__cause__ from None
        reason = str(error.__cause__) if isinstance(error.__cause__, CheckError) else error.reason
        raise CheckError(f"`{text}`: {reason}") from None


def _minus(a: Sample | float, b: Sample | float) -> Sample | float:
    return a - b


def environment(case: Mapping[str, Value], data: Data) -> tuple[dict[str, object], dict[str, Callable[..., object]]]:
    """Names and functions of checks: what `for` sets, measures, and the functions of `airtcp.study.samples`.

    Raises:
        CheckError: a name stands for two things.
    """
    calls: dict[str, Callable[..., object]] = {**functions(), "about": _about, "between": _between}
    names: dict[str, object] = {"true": True, "false": False}
    for measure in data.measures.values():
        series = (
            [MeasureFunction(data, measure)]
            if measure.columns is None
            else [MeasureFunction(data, measure, column) for column in measure.columns]
        )
        for one in series:
            if one.name in functions() or one.name == "about":
                raise CheckError(f"measures.{one.name}: checks have a function of this name: rename the measure")
            calls[one.name] = one
            names[one.name] = one
    for name, value in case.items():
        if name in names:
            already = "a value" if isinstance(names[name], bool) else "a measure"
            raise CheckError(f"for.{name}: {name} is already {already}: choose another name")
        names[name] = value
    return names, calls


def _about(left: object, right: object, *, abs: object = None, rel: object = None) -> Claim:  # noqa: A002
    if (abs is None) == (rel is None):
        raise CheckError("about(a, b, ...): must have one tolerance, abs=... or rel=...")
    tolerance = as_number(abs if rel is None else rel, "about()")
    if tolerance < 0:
        raise CheckError(f"about(): the tolerance {tolerance:g} must be 0 or more")
    a, b = _side(left, "about()"), _side(right, "about()")
    gap = _minus(a, b)
    room: Sample | float = tolerance
    if rel is not None:
        room = tolerance * (_call("abs", b) if isinstance(b, Sample) else math.fabs(b))
    return Claim(((gap - room, "<="), (gap + room, ">=")), a, b)


def _between(first: object, *bounds: object) -> Claim | Between:
    """A range of a coordinate, `between(low, high)`, or a check: `between(x, low, high)`."""
    if len(bounds) == 1:
        made = functions()["between"](first, *bounds)
        assert isinstance(made, Between)
        return made
    if len(bounds) != 2 or not isinstance(first, Sample):
        raise CheckError("between(): a range is between(low, high), a check is between(x, low, high), x measured")
    low, high = (_side(bound, "between()") for bound in bounds)
    if not isinstance(low, Sample) and not isinstance(high, Sample) and low > high:
        raise CheckError(f"between(x, {low:g}, {high:g}): the lower bound must come first")
    least, greatest = (first, first) if len(first.cells) == 1 else (_call("min", first), _call("max", first))
    return Claim(((least - low, ">="), (greatest - high, "<=")), first, None)


def _call(name: str, sample: Sample) -> Sample:
    out = functions()[name](sample)
    assert isinstance(out, Sample)
    return out


def _side(value: object, where: str) -> Sample | float:
    if isinstance(value, Sample):
        try:
            value.one()
        except CheckError as error:
            raise CheckError(f"{where}: {error}") from None
        return value
    return as_number(value, where)


def _judged(text: str, case: Mapping[str, Value], data: Data, claim: Claim, enough: int | None) -> Judged:
    left, right = claim.left, claim.right
    if not isinstance(left, Sample) and not isinstance(right, Sample):
        raise CheckError(f"`{text}`: must use at least one measure")
    seeds = len(data.seeds)
    distances = [_per_seed(distance, seeds) for distance, _ in claim.distances]
    there: NDArray[np.bool_] = np.asarray(np.isfinite(np.stack(distances)).all(axis=0))
    lacking = tuple(seed for seed, ok in zip(data.seeds, there, strict=True) if not ok)
    is_missing: NDArray[np.bool_] = np.asarray(np.isnan(np.stack(distances)).any(axis=0))
    infinite = ~there & ~is_missing
    gaps, did_run = _gaps(claim, there, infinite)
    unit = next((side.unit for side in (left, right) if isinstance(side, Sample) and side.unit), "")
    if not there.any():
        if not did_run.all():
            raise NoValueError(f"`{text}`{_with(case)} has no value: its runs are missing or have no such value")
        return Judged(text, case, unit=unit, lacking=lacking, gaps=gaps)
    distances = [distance[there] for distance in distances]
    bounds = []
    for distance, (_, sign) in zip(distances, claim.distances, strict=True):
        mean = stats.mean(distance)
        bounds.append(Bound(sign, _finite(mean.value), mean.interval))
    is_enough = not gaps or (enough is not None and int(there.sum()) >= enough)
    holds, settled, needs = decided(bounds, int(there.sum()), is_enough=is_enough)
    # Show the difference of two measured sides, or the one side that is measured.
    is_difference = isinstance(left, Sample) and isinstance(right, Sample)
    upper = None
    if right is None and isinstance(left, Sample) and len(left.cells) > 1:
        low, high = (stats.mean(_call(name, left).one()[there]) for name in ("min", "max"))
        shown, upper = low, (_finite(high.value), high.interval)
        a, b = _call("min", left).one()[there], None
    else:
        a = _per_seed(left, seeds)[there]
        b = None if right is None else _per_seed(right, seeds)[there]
        shown = stats.mean(
            a - b if is_difference and b is not None else a if isinstance(left, Sample) or b is None else b
        )
    return Judged(
        text=text,
        case=case,
        left=_finite(float(a.mean())),
        right=None if b is None else _finite(float(b.mean())),
        measured=_finite(shown.value),
        interval=shown.interval,
        holds=holds,
        settled=settled,
        unit=unit,
        is_difference=is_difference,
        lacking=lacking,
        bounds=tuple(bounds),
        upper=upper,
        seeds=int(there.sum()),
        needs=needs,
        gaps=gaps,
        is_same=is_difference and b is not None and _is_same(a, b),
    )


def _is_same(a: Array, b: Array) -> bool:
    """Whether the seeds differ, but the two sides are equal or differ by a constant or a constant factor."""
    if np.array_equal(a, b):
        return True
    if len(a) < 2 or np.ptp(b) == 0:
        return False
    scale = float(np.abs(b).max())
    return bool(
        np.ptp(a - b) <= 1e-12 * scale or (a.all() and b.all() and np.ptp(a / b) <= 1e-12 * abs(float((a / b)[0])))
    )


def _gaps(
    claim: Claim, there: NDArray[np.bool_], infinite: NDArray[np.bool_]
) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    """Reasons why seeds have no value, in words; and which seeds ran."""
    reasons: Reasons = np.zeros(len(there), dtype=np.uint8)
    for distance, _ in claim.distances:
        if isinstance(distance, Sample):
            reasons |= distance.reasons()
    reasons[there] = 0
    did_run = there | infinite | (reasons > 0)
    crossing = (reasons & NO_CROSSING) > 0
    dot = (reasons > 0) & ~crossing
    words = (
        ("no crossing", crossing),
        ("no value in the range asked for", dot),
        ("no finite value", infinite & (reasons == 0)),
        ("a run is missing or has no value", ~did_run),
    )
    return tuple(f"{what} in {int(which.sum())} of {len(there)} seeds" for what, which in words if which.any()), did_run


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
    gaps = f" ({', '.join(check.gaps)})" if check.gaps else ""
    if check.holds is None:
        return f"no value{gaps}"
    assert check.measured is not None
    decimals = _decimals(check)
    unit = f" {check.unit}" if check.unit else ""
    low_high = _interval(check.interval, decimals)
    if check.upper is not None and check.upper[0] is not None:
        to = f"{_number(check.upper[0], decimals)}{unit}{_interval(check.upper[1], decimals)}"
        return f"{_number(check.measured, decimals)}{low_high} to {to}{gaps}"
    if not check.is_difference:
        return f"{_number(check.measured, decimals)}{unit}{low_high}{gaps}"
    assert check.left is not None
    assert check.right is not None
    sides = f"{_number(check.left, decimals)} vs {_number(check.right, decimals)}{unit}"
    return f"{sides}: {_number(check.measured, decimals)}{low_high}{gaps}"


def _interval(ends: tuple[float, float] | None, decimals: int) -> str:
    return "" if ends is None else f" [{_number(ends[0], decimals)}, {_number(ends[1], decimals)}]"


def _decimals(check: Judged) -> int:
    """Decimals that show two digits of the interval's half width, and at most four digits of the numbers.

    Without an interval, three digits are shown.
    """
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
    # A small difference must not become 0.00.
    least = -math.floor(math.log10(abs(check.measured))) if check.measured else 0
    return min(max(min(digits - 1 - math.floor(math.log10(size)), most), least, 0), 6)


def _number(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    # Rounding makes -0.0 of small negative numbers.
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


def stand_in_of(data: Data) -> Data:
    """The same cells before anything has run."""
    return replace(data, scalars={}, rows={}, stand_in=True)
