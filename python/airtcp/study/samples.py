"""Operands of checks: samples with a value per seed, and measures as functions of variant and coordinates.

The same code evaluates a check on the results of runs and, before the first run, on stand-ins of the same shape. So a
wrong variant, coordinate or measure is found early.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airtcp.expressions import Value, nearest

Row = Mapping[str, Value | None]
Label = tuple[tuple[str, Value], ...]
"""Coordinates of a cell: those that have more than one value."""
Array = NDArray[np.float64]
Reasons = NDArray[np.uint8]
NO_DOT: Final = 1
"""Reason of a seed without a value: no point lies in the range asked for."""
NO_CROSSING: Final = 2
"""Reason of a seed without a value: the curves do not cross."""


class CheckError(ValueError):
    """A check or a plot cannot be evaluated, because a measure, variant or coordinate in it is wrong."""


class NoValueError(CheckError):
    """A check or a plot has no results to evaluate: runs failed or are missing."""


# --- where the values come from ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Meaning:
    """Label and unit of a number."""

    label: str = ""
    unit: str = ""


@dataclass(frozen=True)
class MeasureValues:
    """A number per run, or rows per run with named columns."""

    name: str
    meaning: Meaning = Meaning()
    """Label and unit of the number, and of columns without their own."""
    columns: Mapping[str, Meaning] | None = None
    """Columns of a measure with rows; `None`: one number per run."""


@dataclass(frozen=True)
class Point:
    """One cell of an experiment: one run for each seed."""

    variant: str | None
    parameters: Mapping[str, Value]


@dataclass(frozen=True)
class Data:
    """The cells of an experiment and their values, if they have run."""

    points: Sequence[Point]
    seeds: Sequence[int]
    measures: Mapping[str, MeasureValues]
    scalars: Mapping[str, Array] = field(default_factory=dict)
    """Values in their units, points by seeds; NaN: none."""
    rows: Mapping[str, Mapping[tuple[int, int], Iterable[Row]]] = field(default_factory=dict)
    """Rows of measures with rows, by index of point and of seed. A missing run has no key."""
    stand_in: bool = False
    """True before the runs: every scalar is 1, and a measure with rows has any row asked for."""
    where: str = ""
    """The kind of run for messages, such as "--quick"."""
    alike: Sequence[int] = ()
    """For each point the first point with the same runs; empty: not known."""

    @cached_property
    def variants(self) -> list[str]:
        """In order of appearance; empty if the experiment has none."""
        return list(dict.fromkeys(point.variant for point in self.points if point.variant is not None))

    @cached_property
    def parameters(self) -> list[str]:
        """Names of all parameters."""
        return list(dict.fromkeys(name for point in self.points for name in point.parameters))

    def values_of(self, name: str, points: Iterable[int]) -> list[Value]:
        """Different values of a parameter at these points, in order of appearance."""
        return list(dict.fromkeys(self.points[i].parameters[name] for i in points if name in self.points[i].parameters))


@dataclass(frozen=True)
class Between:
    """A range of a coordinate, both ends included."""

    low: float
    high: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"between({self.low:g}, {self.high:g})"


# --- a value per seed -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sample:
    """A value per seed (rows) and cell (columns), with its unit."""

    values: Array
    """The values. NaN: the run is missing, or the measure has no value there."""
    cells: tuple[Label, ...]
    unit: str = ""
    absent: NDArray[np.bool_] | None = None
    """True where the run exists but has no such row. Reductions skip these."""
    why: Reasons | None = None
    """For each seed the reason why it ran but has no value: `NO_DOT` or `NO_CROSSING`."""

    def one(self) -> Array:
        """The values of a sample of one cell.

        Raises:
            CheckError: it has several cells.
        """
        if len(self.cells) == 1:
            return self.values[:, 0]
        if not self.cells:
            return np.full(len(self.values), np.nan)
        raise CheckError(f"{len(self.cells)} values, but one is needed: reduce them with mean(), min() or max()")

    def reasons(self) -> Reasons:
        """For each seed the reason why it ran but has no value; 0: it has one, or did not run."""
        out = np.zeros(len(self.values), dtype=np.uint8) if self.why is None else self.why.copy()
        if self.absent is not None and self.cells:
            out[self.absent.all(axis=1)] |= NO_DOT
        return out

    def reduced(self, by: Callable[[Array], Array]) -> Sample:
        """Reduces several cells to one."""
        out = np.full(len(self.values), np.nan)
        if self.cells and (self.absent is None or not self.absent.any()):
            out = by(self.values)
        elif self.absent is not None:
            for i, (values, absent) in enumerate(zip(self.values, self.absent, strict=True)):
                if not absent.all():
                    out[i] = by(values[~absent].reshape(1, -1))[0]
        return Sample(out.reshape(-1, 1), ((),), self.unit, why=self.reasons())

    def _with(
        self, other: object, operation: Callable[[Array, Array], Array], unit: Callable[[str, str], str]
    ) -> Sample:
        if isinstance(other, (int, float)) and not isinstance(other, bool):
            with np.errstate(all="ignore"):
                return Sample(
                    operation(self.values, np.full_like(self.values, other)),
                    self.cells,
                    unit(self.unit, ""),
                    self.absent,
                    self.why,
                )
        if not isinstance(other, Sample):
            raise CheckError(f"cannot calculate with {_kind(other)}")
        a, b = _aligned(self, other)
        gone = _or(a.absent, b.absent)
        with np.errstate(all="ignore"):
            return Sample(operation(a.values, b.values), a.cells, unit(a.unit, b.unit), gone, _either(a.why, b.why))

    def __add__(self, other: object) -> Sample:
        return self._with(other, np.add, _same)

    def __radd__(self, other: object) -> Sample:
        return self._with(other, np.add, _same)

    def __sub__(self, other: object) -> Sample:
        return self._with(other, np.subtract, _same)

    def __rsub__(self, other: object) -> Sample:
        return self._with(other, lambda a, b: b - a, _same)

    def __mul__(self, other: object) -> Sample:
        return self._with(other, np.multiply, _product)

    def __rmul__(self, other: object) -> Sample:
        return self._with(other, np.multiply, _product)

    def __truediv__(self, other: object) -> Sample:
        return self._with(other, np.divide, _ratio)

    def __rtruediv__(self, other: object) -> Sample:
        return self._with(other, lambda a, b: b / a, lambda a, b: "")

    def __floordiv__(self, other: object) -> Sample:
        return self._with(other, np.floor_divide, _ratio)

    def __rfloordiv__(self, other: object) -> Sample:
        return self._with(other, lambda a, b: b // a, lambda a, b: "")

    def __mod__(self, other: object) -> Sample:
        return self._with(other, np.mod, lambda a, b: a)

    def __rmod__(self, other: object) -> Sample:
        return self._with(other, lambda a, b: b % a, lambda a, b: "")

    def __pow__(self, other: object) -> Sample:
        return self._with(other, np.power, lambda a, b: "")

    def __rpow__(self, other: object) -> Sample:
        return self._with(other, lambda a, b: b**a, lambda a, b: "")

    def __neg__(self) -> Sample:
        return Sample(-self.values, self.cells, self.unit, self.absent, self.why)

    def __pos__(self) -> Sample:
        return self


def _same(a: str, b: str) -> str:
    return a or b if a == b or not a or not b else ""


def _product(a: str, b: str) -> str:
    return a or b if not a or not b else ""


def _ratio(a: str, b: str) -> str:
    return a if not b else ""


def _or(a: NDArray[np.bool_] | None, b: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    return b if a is None else a if b is None else a | b


def _either(a: Reasons | None, b: Reasons | None) -> Reasons | None:
    return b if a is None else a if b is None else a | b


def _aligned(a: Sample, b: Sample) -> tuple[Sample, Sample]:
    """Brings both to the same cells. A single cell is paired with each cell of the other; rows pair by coordinates."""
    if a.cells == b.cells:
        return a, b
    if len(a.cells) == 1 and a.cells[0] == ():
        return _spread(a, b.cells), b
    if len(b.cells) == 1 and b.cells[0] == ():
        return a, _spread(b, a.cells)
    if {tuple(k for k, _ in cell) for cell in a.cells} != {tuple(k for k, _ in cell) for cell in b.cells}:
        raise CheckError("the two sides range over different coordinates: reduce each with mean(), min() or max()")
    cells = tuple(dict.fromkeys([*a.cells, *b.cells]))
    return _pick(a, cells), _pick(b, cells)


def _spread(sample: Sample, cells: tuple[Label, ...]) -> Sample:
    wide = np.repeat(sample.values, len(cells), axis=1)
    gone = None if sample.absent is None else np.repeat(sample.absent, len(cells), axis=1)
    return Sample(wide, cells, sample.unit, gone, sample.why)


def _pick(sample: Sample, cells: tuple[Label, ...]) -> Sample:
    at = {cell: i for i, cell in enumerate(sample.cells)}
    values = np.full((len(sample.values), len(cells)), np.nan)
    gone = np.ones(values.shape, dtype=bool)
    for j, cell in enumerate(cells):
        if cell in at:
            values[:, j] = sample.values[:, at[cell]]
            gone[:, j] = False if sample.absent is None else sample.absent[:, at[cell]]
    return Sample(values, cells, sample.unit, gone, sample.why)


# --- measures as functions --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Points of the data, with conditions on rows and on other measures."""

    points: list[int]
    wanted: Mapping[str, Callable[[object], bool]]
    bands: Mapping[str, Between]
    """Ranges of other measures."""
    several: list[str]
    """Names of coordinates that may have several values."""


@dataclass(frozen=True)
class MeasureFunction:
    """A measure, or a column of one, that checks call as a function: `loss('Reno', n=500)`."""

    data: Data
    measure: MeasureValues
    column: str | None = None

    @property
    def name(self) -> str:
        """As written in checks."""
        return self.measure.name if self.column is None else f"{self.measure.name}.{self.column}"

    @property
    def meaning(self) -> Meaning:
        """Label and unit."""
        return self.measure.meaning if self.column is None else (self.measure.columns or {})[self.column]

    @property
    def unit(self) -> str:
        """Unit of the values."""
        return self.meaning.unit

    @property
    def title(self) -> str:
        """Label of the measure for people."""
        return self.meaning.label or self.column or self.measure.name

    def __call__(self, *variants: object, **coordinates: object) -> Sample:
        """Values at these coordinates.

        Raises:
            CheckError: there is no such variant, coordinate or value, or one is missing.
        """
        data = self.data
        place = self.place(variants, coordinates)
        own = {name: test for name, test in place.wanted.items() if name in (self.measure.columns or ())}
        labels = [
            tuple(
                (name, data.points[i].parameters[name]) for name in place.several if name in data.points[i].parameters
            )
            for i in place.points
        ]
        if self.column is None:
            if own:
                raise CheckError(f"{self.name}(): {next(iter(own))} is a column, and {self.name} has none")
            return self._scalars(place.points, labels, place.bands)
        ranges = [name for name in place.several if name in own]
        if data.stand_in:
            return self._stand_in(labels, ranges)
        return self._rows(place.points, labels, own, ranges, place.bands)

    def place(self, variants: Sequence[object], coordinates: Mapping[str, object]) -> Place:
        """Indices of the points that have these coordinates.

        Raises:
            CheckError: there is no such variant, coordinate or value, or one is missing.
        """
        if len(variants) > 1:
            raise CheckError(
                f"{self.name}(): takes one variant at most; give coordinates by name, as in {self._example()}"
            )
        data = self.data
        columns = set(self.measure.columns or ())
        chosen = self._points(tuple(variants))
        wanted: dict[str, Callable[[object], bool]] = {}
        bands: dict[str, Between] = {}
        several: list[str] = []
        for name, value in coordinates.items():
            if name not in data.parameters and name not in columns:
                if name in data.measures and data.measures[name].columns is None:
                    bands[name] = _band(value, self.name, name)
                    continue
                numbers = [m.name for m in data.measures.values() if m.columns is None]
                there = [*data.parameters, *sorted(columns), *numbers]
                raise CheckError(f"{self.name}(): {unknown('coordinate', name, there)}")
            wanted[name] = _matcher(value, self.name, name)
            if isinstance(value, (list, tuple, Between)):
                several.append(name)
        for name in data.parameters:
            if name in wanted and name not in columns:
                chosen = self._narrowed(chosen, name, coordinates[name], wanted[name])
        for name in data.parameters:
            values = data.values_of(name, chosen)
            if len(values) > 1 and name not in coordinates:
                raise CheckError(f"{self.name}(): {name} is missing: give one of its values: {listed(values)}")
        return Place(chosen, wanted, bands, several)

    def _outside(self, chosen: Sequence[int], bands: Mapping[str, Between]) -> NDArray[np.bool_]:
        """Points by seeds: true for runs in which another measure lies outside its range."""
        outside = np.zeros((len(chosen), len(self.data.seeds)), dtype=bool)
        for name, band in bands.items():
            values = self.data.scalars[name][list(chosen)]
            with np.errstate(invalid="ignore"):
                outside |= (values < band.low) | (values > band.high)  # a missing run is not outside
        return outside

    def _example(self) -> str:
        variants, parameters = self.data.variants, self.data.parameters
        inside = [repr(variants[0])] if variants else []
        inside += [f"{name}={self.data.values_of(name, range(len(self.data.points)))[0]!r}" for name in parameters[:1]]
        return f"{self.name}({', '.join(inside)})"

    def _points(self, variants: tuple[object, ...]) -> list[int]:
        data = self.data
        everything = range(len(data.points))
        if not variants:
            if len(data.variants) > 1:
                raise CheckError(f"{self.name}(): the variant is missing: it must be one of {listed(data.variants)}")
            return list(everything)
        (variant,) = variants
        if not isinstance(variant, str):
            raise CheckError(
                f"{self.name}(): a variant must be a name in quotes, not {_kind(variant)}, as in {self._example()}"
            )
        if not data.variants:
            raise CheckError(f"{self.name}(): the experiment has no variants: remove {variant!r}")
        if variant not in data.variants:
            raise CheckError(f"{self.name}(): {unknown('variant', variant, data.variants)}")
        return [i for i in everything if data.points[i].variant == variant]

    def _narrowed(self, chosen: list[int], name: str, value: object, test: Callable[[object], bool]) -> list[int]:
        left = [i for i in chosen if test(self.data.points[i].parameters.get(name))]
        there = self.data.values_of(name, chosen)
        lacking = [item for item in value if not any(_equal(item, v) for v in there)] if isinstance(value, list) else []
        if lacking or not left:
            what = lacking[0] if lacking else value
            shown = str(what) if isinstance(what, Between) else f"{name} = {_text(what)}"
            where = f" with {self.data.where}" if self.data.where else ""
            raise CheckError(f"{self.name}(): {shown} is not run{where}: there {_be(there)} {listed(there)}")
        if isinstance(value, list):
            order = {
                i: next(k for k, item in enumerate(value) if _equal(item, self.data.points[i].parameters[name]))
                for i in left
            }
            left.sort(key=lambda i: order[i])
        return left

    def _scalars(self, chosen: list[int], labels: list[Label], bands: Mapping[str, Between]) -> Sample:
        if len(set(labels)) < len(labels):
            raise CheckError(f"{self.name}(): several runs have the same coordinates")
        if self.data.stand_in:
            return Sample(np.ones((len(self.data.seeds), len(chosen))), tuple(labels), self.unit)
        values = self.data.scalars[self.measure.name][chosen].T.copy()
        if not bands:
            return Sample(values, tuple(labels), self.unit)
        outside = self._outside(chosen, bands).T
        return Sample(np.where(outside, np.nan, values), tuple(labels), self.unit, outside)

    def _stand_in(self, labels: list[Label], ranges: list[str]) -> Sample:
        cells = list(labels)
        for name in ranges:
            cells = [(*cell, (name, k)) for cell in cells for k in (0, 1)]
        return Sample(np.ones((len(self.data.seeds), len(cells))), tuple(cells), self.unit)

    def _rows(
        self,
        chosen: list[int],
        labels: list[Label],
        own: Mapping[str, Callable[[object], bool]],
        ranges: list[str],
        bands: Mapping[str, Between],
    ) -> Sample:
        found: dict[Label, dict[tuple[int, int], float]] = {}
        runs = self.data.rows.get(self.measure.name, {})
        assert self.column is not None
        outside = self._outside(chosen, bands)
        for k, (i, label) in enumerate(zip(chosen, labels, strict=True)):
            for s in range(len(self.data.seeds)):
                for row in () if outside[k, s] else runs.get((i, s), ()):
                    if not all(test(row.get(name)) for name, test in own.items()):
                        continue
                    cell = (*label, *((name, _known(row[name])) for name in ranges))
                    value = row.get(self.column)
                    at = found.setdefault(cell, {})
                    if (i, s) in at:
                        columns = [c for c in self.measure.columns or () if c != self.column and c not in own]
                        raise CheckError(
                            f"{self.name}(): several rows of a run match: give one more column: {listed(columns)}"
                        )
                    if value is None:
                        continue  # treat a row without a value as a missing row
                    if isinstance(value, str):
                        raise CheckError(f"{self.name}(): the column holds the text {value!r}: use a column of numbers")
                    at[i, s] = float(value)
        cells = tuple(sorted(found, key=lambda cell: [_order(v) for _, v in cell]))
        shape = (len(self.data.seeds), len(cells))
        values, absent = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
        for j, cell in enumerate(cells):
            for (_, s), value in found[cell].items():
                values[s, j] = value
            points = [i for i, label in zip(chosen, labels, strict=True) if cell[: len(label)] == label]
            for s in range(shape[0]):
                absent[s, j] = math.isnan(values[s, j]) and all((i, s) in runs for i in points)
        why = np.zeros(shape[0], dtype=np.uint8)
        if not cells:
            # No row anywhere: runs that exist have no dot, the others are missing.
            why[[s for s in range(shape[0]) if all((i, s) in runs for i in chosen)]] = NO_DOT
        return Sample(values, cells, self.unit, absent, why)


def measure_named(data: Data, name: str) -> MeasureFunction:
    """A measure by its name in a file, `loss` or `by_size.transfer_s`.

    Raises:
        CheckError: there is none.
    """
    head, _, column = name.partition(".")
    if head not in data.measures:
        raise CheckError(unknown("measure", name, names_of(data)))
    measure = data.measures[head]
    if measure.columns is None:
        if column:
            raise CheckError(f"{head} is one number per run and has no column {column!r}")
        return MeasureFunction(data, measure)
    if not column:
        raise CheckError(f"{head} has rows: name a column, one of {listed([f'{head}.{c}' for c in measure.columns])}")
    if column not in measure.columns:
        raise CheckError(f"{head}: {unknown('column', column, measure.columns)}")
    return MeasureFunction(data, measure, column)


def names_of(data: Data) -> list[str]:
    """All measures, those with rows by their columns."""
    return [
        name
        for measure in data.measures.values()
        for name in (
            [measure.name] if measure.columns is None else [f"{measure.name}.{column}" for column in measure.columns]
        )
    ]


# --- functions of checks ----------------------------------------------------------------------------------------------


def _reduction(name: str, by: Callable[[Array], Array], pairwise: Callable[..., float] | None) -> Callable[..., object]:
    def function(*arguments: object) -> object:
        if len(arguments) == 1 and isinstance(arguments[0], Sample):
            return arguments[0].reduced(by)
        if len(arguments) == 1 and isinstance(arguments[0], list):
            arguments = tuple(arguments[0])
        if not arguments:
            raise CheckError(f"{name}() of nothing")
        if not any(isinstance(item, Sample) for item in arguments):
            numbers = [as_number(item, f"{name}()") for item in arguments]
            return (
                float(by(np.array([numbers]))[0])
                if pairwise is None
                else pairwise(*numbers)
                if len(numbers) > 1
                else numbers[0]
            )
        samples = [item for item in arguments if isinstance(item, Sample)]
        seeds = len(samples[0].values)
        columns = [
            item.one() if isinstance(item, Sample) else np.full(seeds, as_number(item, f"{name}()"))
            for item in arguments
        ]
        unit = samples[0].unit if all(s.unit == samples[0].unit for s in samples) else ""
        why = np.bitwise_or.reduce([s.reasons() for s in samples])
        return Sample(by(np.stack(columns, axis=1)).reshape(-1, 1), ((),), unit, why=why)

    return function


def _over_cells(function: Callable[..., Array]) -> Callable[[Array], Array]:
    return lambda values: function(values, axis=1)


def between(low: object, high: object) -> Between:
    """A range of a coordinate."""
    a, b = as_number(low, "between()"), as_number(high, "between()")
    if a > b:
        raise CheckError(f"between({a:g}, {b:g}): the lower bound must come first")
    return Between(a, b)


def slope(y: object, x: object) -> Sample:
    """Slope of the line through the origin that fits best, by least squares, per seed: sum(x y) / sum(x x)."""
    if not isinstance(y, Sample) or not isinstance(x, Sample):
        raise CheckError("slope(): needs two measures at several points: slope(y('A', n=[1, 2]), x('A', n=[1, 2]))")
    a, b = _aligned(y, x)
    gone = _or(a.absent, b.absent)
    there = np.ones(a.values.shape, dtype=bool) if gone is None else ~gone
    out = np.full(len(a.values), np.nan)
    for i, (ys, xs, ok) in enumerate(zip(a.values, b.values, there, strict=True)):
        squares = float(np.sum(xs[ok] ** 2))
        if ok.any() and squares != 0:
            out[i] = float(np.sum(xs[ok] * ys[ok])) / squares
    why = a.reasons() | b.reasons()
    if there.shape[1]:
        why[~there.any(axis=1)] |= NO_DOT
    return Sample(out.reshape(-1, 1), ((),), _ratio(a.unit, b.unit), why=why)


def crossing(measure: object, a: object, b: object, *, over: object = None, **coordinates: object) -> Sample:
    """The coordinate at which the curve of variant `a` first falls to that of `b`, by linear interpolation, per seed.

    It is the coordinate's first value if the curve starts there, and no value if the curves do not meet. `b`
    may also be a variant that has one value only, or a number: a constant.
    """
    if not isinstance(measure, MeasureFunction):
        raise CheckError(
            "crossing(): the first argument is a measure, without brackets: crossing(loss, 'A', 'B', over='n')"
        )
    if not isinstance(over, str):
        raise CheckError("crossing(): over='NAME' is missing: the coordinate of the curve, in quotes")
    if over in coordinates:
        raise CheckError(f"crossing(): {over} is the coordinate of the curve: remove {over}=... from the arguments")
    data = measure.data
    columns = measure.measure.columns or ()
    if over not in data.parameters and over not in columns:
        raise CheckError(f"crossing(): {unknown('coordinate', over, [*data.parameters, *columns])}")
    upper = _curve(measure, a, over, coordinates)
    if isinstance(b, str):
        lower = _curve(measure, b, over, coordinates)
    elif isinstance(b, Sample):
        lower = Sample(b.one().reshape(-1, 1), ((),), b.unit)
    else:
        lower = Sample(np.full((len(data.seeds), 1), as_number(b, "crossing()")), ((),))
    xs = [_x_of(cell, over) for cell in upper.cells]
    if len(lower.cells) == 1:
        lower = _spread(lower, upper.cells)
    else:
        shared = [cell for cell in upper.cells if cell in lower.cells]
        if len(shared) < 2:
            raise CheckError(f"crossing(): the two curves share fewer than two values of {over}: they need two or more")
        upper, lower = _pick(upper, tuple(shared)), _pick(lower, tuple(shared))
        xs = [_x_of(cell, over) for cell in shared]
    if data.stand_in:
        return Sample(np.ones((len(data.seeds), 1)), ((),))
    order = np.argsort(xs)
    gaps = (upper.values - lower.values)[:, order]
    x = np.array(xs)[order]
    falls = np.array([_first_fall(x, gap) for gap in gaps])
    why = upper.reasons() | lower.reasons()
    why[np.isinf(falls)] |= NO_CROSSING
    return Sample(np.where(np.isinf(falls), np.nan, falls).reshape(-1, 1), ((),), why=why)


def _curve(measure: MeasureFunction, variant: object, over: str, coordinates: Mapping[str, object]) -> Sample:
    data = measure.data
    if not isinstance(variant, str):
        raise CheckError("crossing(): the variants must be names in quotes")
    if over in data.parameters and over not in (measure.measure.columns or ()):
        chosen = measure._points((variant,))
        for name, value in coordinates.items():
            if name in data.parameters:
                chosen = [i for i in chosen if _matcher(value, "crossing", name)(data.points[i].parameters.get(name))]
        values = data.values_of(over, chosen)
        if values and not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            raise CheckError(f"crossing(): over={over!r} must be a coordinate with numbers, not {listed(values)}")
        return measure(variant, **coordinates, **{over: list(values)} if values else {})
    return measure(variant, **coordinates, **{over: Between(-math.inf, math.inf)})


def _x_of(cell: Label, over: str) -> float:
    if [name for name, _ in cell] != [over]:
        raise CheckError(f"crossing(): only {over} may have several values")
    return as_number(cell[0][1], "crossing()")


def _first_fall(x: Array, gap: Array) -> float:
    if np.isnan(gap).any() or not gap.size:
        return math.nan
    if gap[0] <= 0:
        return float(x[0])
    for i in range(1, len(x)):
        if gap[i] <= 0:
            part = gap[i - 1] / (gap[i - 1] - gap[i])
            return float(x[i - 1] + part * (x[i] - x[i - 1]))
    return math.inf


def functions() -> dict[str, Callable[..., object]]:
    """Functions of checks besides measures. `about` is part of their grammar."""
    return {
        "mean": _reduction("mean", _over_cells(np.mean), None),
        "min": _reduction("min", _over_cells(np.min), min),
        "max": _reduction("max", _over_cells(np.max), max),
        "abs": lambda value: (
            Sample(np.abs(value.values), value.cells, value.unit, value.absent, value.why)
            if isinstance(value, Sample)
            else abs(as_number(value, "abs()"))
        ),
        "between": between,
        "crossing": crossing,
        "slope": slope,
    }


# --- words ------------------------------------------------------------------------------------------------------------

MAX_LISTED: Final = 12


def listed(values: Iterable[object]) -> str:
    """Names or values for an error."""
    everything = list(values)
    shown = ", ".join(_text(value) for value in everything[:MAX_LISTED])
    more = len(everything) - MAX_LISTED
    return (f"{shown} and {more} more" if more > 0 else shown) or "none"


def unknown(what: str, name: str, there: Iterable[str]) -> str:
    """A message that a name does not exist, with the nearest name and all names that do."""
    return f"no {what} is called {name!r}{nearest(name, there)}"


def as_number(value: object, where: str) -> float:
    """A plain number.

    Raises:
        CheckError: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CheckError(f"{where}: a number is needed, not {_kind(value)}")
    return float(value)


def _be(values: Sequence[object]) -> str:
    return "is" if len(values) <= 1 else "are"


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value) if isinstance(value, str) else str(value)


def _kind(value: object) -> str:
    match value:
        case Sample():
            return "a value per seed"
        case MeasureFunction():
            return f"the measure {value.name} without its brackets"
        case Between():
            return "a range"
        case str():
            return f"the text {value!r}"
        case list() | tuple():
            return "a list"
    return repr(value)


def _known(value: Value | None) -> Value:
    return "" if value is None else value


def _order(value: Value) -> tuple[int, float, str]:
    return (1, 0.0, value) if isinstance(value, str) else (0, float(value), "")


def _equal(a: object, b: object) -> bool:
    if isinstance(a, str) or isinstance(b, str) or isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return type(a) is type(b) and a == b
    assert isinstance(a, (int, float))
    assert isinstance(b, (int, float))
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=0.0)


def _band(value: object, function: str, name: str) -> Between:
    if isinstance(value, Between):
        return value
    raise CheckError(f"{function}(): {name} is a measure: give a range, {name}=between(low, high), not {_kind(value)}")


def _matcher(value: object, function: str, name: str) -> Callable[[object], bool]:
    match value:
        case Between():
            return lambda there: there in value
        case bool() | int() | float() | str():
            return lambda there: _equal(value, there)
        case list() | tuple():
            if not value or not all(isinstance(item, (bool, int, float, str)) for item in value):
                raise CheckError(f"{function}(): {name} must be a list of numbers or texts")
            return lambda there: any(_equal(item, there) for item in value)
    raise CheckError(f"{function}(): {name} must be a number, a text, a list or between(low, high), not {_kind(value)}")
