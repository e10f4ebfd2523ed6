"""Figures as numbers: the curves of a study's plots, aggregated over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airtcp import stats
from airtcp.expressions import Value
from airtcp.study.files import Plot
from airtcp.study.samples import (
    CheckError,
    Data,
    Meaning,
    MeasureFunction,
    _equal,
    _text,
    listed,
    measure_named,
    unknown,
)

VARIANT: Final = "variant"

Json = dict[str, Any]
Key = tuple[Value | None, ...]


class Drawing:
    """A plot together with the data it draws. Made before the runs, it checks that every name in the plot exists."""

    def __init__(self, plot: Plot, data: Data, titles: Mapping[str, str] | None = None) -> None:
        """Checks the plot.

        Args:
            plot: what is drawn.
            data: its numbers.
            titles: of variants, by their names.

        Raises:
            CheckError: a name in it does not exist, or a parameter varies that the plot does not show.
        """
        self.plot: Final = plot
        self.data: Final = data
        self.titles: Final = titles or {}
        self.y: Final = _measure(data, plot.y, "y")
        self.columns: Final = self.y.measure.columns or {}
        self.x: Final = self._axis()
        self.series: Final = tuple(s for s in plot.series if s != VARIANT or data.variants)
        known = [VARIANT, *data.parameters]
        # Names of its columns that tell curves apart, in rows instead of points.
        self.by_row: Final = tuple(s for s in self.series if s in self.columns and s not in known)
        for name in self.series:
            if name not in (*known, *self.by_row):
                raise CheckError(f"series: {unknown('parameter or column', name, [*known, *self.columns])}")
        for name in plot.where:
            if name not in (*known, *self.columns):
                raise CheckError(f"where: {unknown('coordinate', name, [*known, *self.columns])}")
        self.points: Final = self._points()
        self._check_determined()
        self._check_kind()

    def _axis(self) -> str | MeasureFunction:
        """A name to group by, or a measure."""
        x, data = self.plot.x, self.data
        if x == VARIANT and data.variants:
            return VARIANT
        head, _, column = x.partition(".")
        head_of_y = self.y.measure.name
        if x in data.parameters:
            return x
        if column and head == self.y.measure.name and self.columns:
            if column not in self.columns:
                raise CheckError(f"x: {unknown('column', column, self.columns)}")
            return column
        if self.plot.kind == "scatter" and self.y.column is None and x in data.measures:
            return _measure(data, x, "x")
        if head in data.measures:
            of = f"{self.y.measure.name}." if self.columns else 'a parameter, not a measure; or set kind = "scatter"'
            raise CheckError(
                f"x = {x!r}: must be a parameter or a column of {of}" if self.columns else f"x = {x!r}: must be {of}"
            )
        raise CheckError(
            f"x: {unknown('parameter or column', x, [*data.parameters, *(f'{head_of_y}.{c}' for c in self.columns)])}"
        )

    def _value(self, point: int, name: str) -> Value | None:
        at = self.data.points[point]
        return at.variant if name == VARIANT else at.parameters.get(name)

    def _points(self) -> list[int]:
        kept = list(range(len(self.data.points)))
        for name, value in self.plot.where.items():
            if name in self.columns and name not in self.data.parameters:
                continue
            wanted = value if isinstance(value, list) else [value]
            there = list(dict.fromkeys(self._value(i, name) for i in kept))
            for item in wanted:
                if not any(_equal(item, v) for v in there):
                    run = f" with {self.data.where}" if self.data.where else ""
                    raise CheckError(f"where: {name} = {_text(item)} is not run{run}: there is {listed(there)}")
            kept = [i for i in kept if any(_equal(item, self._value(i, name)) for item in wanted)]
        return kept

    def _check_determined(self) -> None:
        """Checks that every parameter that varies is on an axis or among the series."""
        if self.plot.kind == "scatter":
            return
        used = {*self.series, self.x if isinstance(self.x, str) else ""}
        groups: dict[Key, int] = {}
        for i in self.points:
            key = tuple(self._value(i, name) for name in sorted(used) if name and name not in self.columns)
            if key in groups:
                other = groups[key]
                names = [VARIANT, *self.data.parameters]
                differ = next((n for n in names if self._value(i, n) != self._value(other, n)), "?")
                raise CheckError(
                    f"{differ} varies, but is neither x nor among the series: name it in `series`, or keep one value "
                    f"with `where = {{ {differ} = {_text(self._value(i, differ))} }}`"
                )
            groups[key] = i

    def _check_kind(self) -> None:
        """Checks that the x values of lines are numbers."""
        if self.plot.kind != "line" or not isinstance(self.x, str) or self.x in self.columns:
            return
        for i in self.points:
            value = self._value(i, self.x)
            if isinstance(value, (str, bool)):
                raise CheckError(f'x = {self.plot.x!r}: {_text(value)} is not a number: use numbers, or kind = "bar"')

    # --- numbers ------------------------------------------------------------------------------------------------------

    def head(self) -> Json:
        """As `study.json` has it, without the curves."""
        plot = self.plot
        # A column on the x axis may also have a label and a unit.
        own = self.x.meaning if isinstance(self.x, MeasureFunction) else self.columns.get(self.x, Meaning())
        x_name = self.x.title if isinstance(self.x, MeasureFunction) else self.x
        shown = [self.data.points[i].variant for i in self.points] if self.x == VARIANT else []
        titles = {variant: self.titles[variant] for variant in shown if variant is not None and variant in self.titles}
        return {
            "id": plot.id,
            "figure": plot.figure,
            "title": plot.title,
            "caption": plot.caption,
            "kind": plot.kind,
            "x": {"label": plot.x_label or own.label or x_name, "unit": plot.x_unit or own.unit, "scale": plot.x_scale}
            | ({"titles": titles} if titles else {}),
            "y": {
                "label": plot.y_label or self.y.title,
                "unit": plot.y_unit or self.y.unit,
                "scale": plot.y_scale,
                "range": None if plot.y_range is None else list(plot.y_range),
            },
        }

    def to_dict(self) -> Json:
        """As `study.json` has it."""
        curves: dict[Key, list[int]] = {}
        for i in self.points:
            for key in self._keys(i):
                curves.setdefault(key, []).append(i)
        several = [name for name in self.series if len({key[self.series.index(name)] for key in curves}) > 1]
        return {
            **self.head(),
            "series": [
                {
                    "name": self._name(key, several) or self.y.title,
                    **self._title(key, several),
                    **self._curve(points, self._of_rows(key)),
                }
                for key, points in curves.items()
            ],
        }

    def _keys(self, point: int) -> list[Key]:
        """The curves to which the point's values belong: one, or one for each combination of columns in its rows."""
        if not self.by_row:
            return [tuple(self._value(point, name) for name in self.series)]
        measured = self.data.rows.get(self.y.measure.name, {})
        rows = [row for s in range(len(self.data.seeds)) for row in measured.get((point, s), ()) if self._is_kept(row)]
        keys = (
            tuple(row.get(name) if name in self.by_row else self._value(point, name) for name in self.series)
            for row in rows
        )
        return list(dict.fromkeys(keys))

    def _of_rows(self, key: Key) -> dict[str, Value | None]:
        """Columns and their values that select the curve's rows."""
        return {name: value for name, value in zip(self.series, key, strict=True) if name in self.by_row}

    def _is_kept(self, row: Mapping[str, Any]) -> bool:
        return all(
            any(_equal(item, row.get(name)) for item in (value if isinstance(value, list) else [value]))
            for name, value in self.plot.where.items()
            if name in self.columns and name not in self.data.parameters
        )

    def _name(self, key: Key, several: Sequence[str]) -> str:
        """Name of a curve: variants and texts by name, others as `n = 500`, without values that all curves share."""
        pairs = [
            (n, v) for n, v in zip(self.series, key, strict=True) if v is not None and (n == VARIANT or n in several)
        ]
        return ", ".join(
            str(v) if n == VARIANT or (n in self.by_row and isinstance(v, str)) else f"{n} = {_text(v).strip(chr(39))}"
            for n, v in pairs
        )

    def _title(self, key: Key, several: Sequence[str]) -> Json:
        """The name of a curve with the title of its variant, if that has one."""
        variant = dict(zip(self.series, key, strict=True)).get(VARIANT)
        if variant not in self.titles:
            return {}
        titled = tuple(self.titles[str(v)] if n == VARIANT else v for n, v in zip(self.series, key, strict=True))
        return {"title": self._name(titled, several)}

    def _curve(self, points: Sequence[int], of_rows: Mapping[str, Value | None]) -> Json:
        if self.plot.kind == "scatter":
            return _scatter(self._dots(points, of_rows))
        return _averaged(self._by_x(points, of_rows), keep_order=self.plot.kind == "bar")

    def _by_x(self, points: Sequence[int], of_rows: Mapping[str, Value | None]) -> dict[Value, list[float]]:
        """For each x its values, one per seed."""
        out: dict[Value, list[float]] = {}
        assert isinstance(self.x, str)
        for i in points:
            for s in range(len(self.data.seeds)):
                if self.y.column is None:
                    pairs = [(self._value(i, self.x), float(self.data.scalars[self.y.measure.name][i, s]))]
                else:
                    pairs = self._rows_of(i, s, of_rows)
                here: dict[Value, list[float]] = {}
                for x, y in pairs:
                    if x is not None and not math.isnan(y):
                        here.setdefault(x, []).append(y)
                for x, ys in here.items():
                    out.setdefault(x, []).append(sum(ys) / len(ys))
        return out

    def _rows_of(self, point: int, seed: int, of_rows: Mapping[str, Value | None]) -> list[tuple[Value | None, float]]:
        rows = self.data.rows.get(self.y.measure.name, {}).get((point, seed), ())
        assert self.y.column is not None
        assert isinstance(self.x, str)
        from_row = self.x in self.columns
        out = []
        for row in rows:
            if not self._is_kept(row) or any(row.get(name) != value for name, value in of_rows.items()):
                continue
            y = row.get(self.y.column)
            if isinstance(y, str):
                raise CheckError(f"y = {self.plot.y!r}: the column holds text ({y!r}), not numbers")
            x = row.get(self.x) if from_row else self._value(point, self.x)
            out.append((x, math.nan if y is None else float(y)))
        return out

    def _dots(self, points: Sequence[int], of_rows: Mapping[str, Value | None]) -> list[tuple[Value, float]]:
        """Rows of the first seed, or, without rows, all runs."""
        dots: list[tuple[Value | None, float]] = []
        for i in points:
            if self.y.column is not None:
                dots += self._rows_of(i, 0, of_rows)
                continue
            for s in range(len(self.data.seeds)):
                x: Value | None
                if isinstance(self.x, MeasureFunction):
                    x = float(self.data.scalars[self.x.measure.name][i, s])
                else:
                    x = self._value(i, self.x)
                dots.append((x, float(self.data.scalars[self.y.measure.name][i, s])))
        return [(x, y) for x, y in dots if _is_there(x) and _is_there(y) and x is not None]


def _measure(data: Data, name: str, axis: str) -> MeasureFunction:
    try:
        return measure_named(data, name)
    except CheckError as error:
        raise CheckError(f"{axis}: {error}") from None


def _is_there(value: Value | None) -> bool:
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


def _drawn(value: Value | None) -> Value | None:
    """A value rounded to seven digits: more than a picture resolves, and half the size on a page with many dots."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _scatter(dots: Sequence[tuple[Value, float]]) -> Json:
    return {
        "x": [_drawn(x) for x, _ in dots],
        "y": [_drawn(y) for _, y in dots],
        "lo": [None] * len(dots),
        "hi": [None] * len(dots),
        "n": [1] * len(dots),
    }


def _averaged(by_x: Mapping[Value, Sequence[float]], *, keep_order: bool) -> Json:
    xs = list(by_x)
    if not keep_order or all(isinstance(x, (int, float)) for x in xs):
        xs.sort(key=lambda x: (1, 0.0, x) if isinstance(x, str) else (0, float(x), ""))
    estimates = [stats.mean(by_x[x]) for x in xs]
    return {
        "x": xs,
        "y": [_drawn(e.value) if math.isfinite(e.value) else None for e in estimates],
        "lo": [_drawn(e.low) for e in estimates],
        "hi": [_drawn(e.high) for e in estimates],
        "n": [e.count for e in estimates],
    }
