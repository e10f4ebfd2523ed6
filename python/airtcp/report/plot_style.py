"""Decisions that the page's plots and the print figures share: colours, ranges, ticks, intervals.

A variant keeps its colour, line and marker in every figure of a study.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from airtcp.figure_style import COLOURS, HATCHES, LINES, MARKERS, SHADES, STRONG
from airtcp.report.model import Coordinate, Plot, Series, Study
from airtcp.study.files import PARAMETERS


@dataclass(frozen=True)
class SeriesStyle:
    """Indices into the tables of `airtcp.figure_style`."""

    colour: int
    shade: int
    line: int
    marker: int
    hatch: int


def series_styles(study: Study) -> dict[str, SeriesStyle]:
    """A style for every series name. The variant decides the colour, the rest of the name (`, n = 500`) its shade and
    its line. Two variants in one figure share a colour only where colours run out, and then differ in line and marker.
    """
    variants: dict[str, set[str]] = {}
    rests: dict[str, int] = {}
    names: dict[str, tuple[str, str]] = {}
    turns: dict[str, int] = {}
    for figure in (plot for experiment in study.experiments for plot in experiment.plots):
        here = set()
        for series in figure.series:
            variant = PARAMETERS.sub("", series.name) if series.of is None else series.of
            rest = series.name[len(variant) :]
            if series.of is not None:
                # What one thing has beside its first line in a figure.
                beside = sum(other.of == variant for other in figure.series[: figure.series.index(series)])
                turns[series.name] = max(turns.get(series.name, 0), beside)
                rest = f"#{turns[series.name]}" if turns[series.name] else ""
            names[series.name] = variant, rest
            here.add(variant)
            if rest:
                rests.setdefault(rest, len(rests))
        for name in (names[series.name][0] for series in figure.series):
            variants.setdefault(name, set()).update(here)
    colours: dict[str, tuple[int, int]] = {}
    used: Counter[int] = Counter()
    for variant, others in variants.items():
        taken = Counter(colours[other][0] for other in others if other in colours)
        # The last colours are faint on white: use them only where the others are taken.
        colour = min(range(len(COLOURS)), key=lambda c: (taken[c], c >= STRONG, used[c], c))
        colours[variant] = colour, used[colour]
        used[colour] += 1
    chosen = {}
    for name, (variant, rest) in names.items():
        colour, turn = colours[variant]
        place = 0 if not rest else turns[name] if name in turns else rests[rest]
        # Neighbours differ in every sign, for print in grey. A variant keeps its line in every variant.
        turn += colour
        chosen[name] = SeriesStyle(
            colour,
            place % SHADES,
            (place if rest else 0 if name in turns else turn) % len(LINES),
            (turn + place) % len(MARKERS),
            (turn + place) % len(HATCHES),
        )
    return chosen


def is_category(plot: Plot) -> bool:
    """Whether the x axis has names instead of numbers. Bars always stand side by side."""
    return plot.kind == "bar" or any(isinstance(x, (str, bool)) for series in plot.series for x in series.x)


MANY_VARIANTS: Final = 12
"""Most variants whose values are bars. Of more, the values are dots in order."""


def is_ranking(plot: Plot) -> bool:
    """Whether to draw dots in order of their values, a row for each name, instead of bars: there are many names."""
    names = {x for series in plot.series for x in series.x if x is not None}
    return plot.kind == "bar" and len(names) > MANY_VARIANTS and any(isinstance(x, str) for x in names)


PLAIN: Final = SeriesStyle(colour=0, shade=0, line=0, marker=0, hatch=0)
"""Look of the dots of a ranking whose rows are named at their side."""


def ranked(plot: Plot) -> list[str]:
    """The names of a ranking, the one with the greatest value first. Of several series the first one decides, and the
    next where it has no value.
    """
    values: dict[str, float] = {}
    for series in plot.series:
        for x, y in zip(series.x, series.y, strict=True):
            if x is not None and y is not None:
                values.setdefault(category(plot, x), y)
    return sorted(categories(plot), key=lambda name: -values.get(name, -math.inf))


def stand_alone(plot: Plot) -> bool:
    """Whether no two bars share an x value, so that each stands at its middle."""
    places = [number(x) for series in plot.series for x, y in zip(series.x, series.y, strict=True) if y is not None]
    return len(places) == len(set(places))


def needs_legend(plot: Plot) -> bool:
    """Whether a legend is needed: not for one series, nor for bars whose names are along x."""
    named = plot.kind == "bar" and all({number(x) for x in s.x} <= {s.name} for s in plot.series)
    return len(plot.series) > 1 and not named


def categories(plot: Plot) -> list[str]:
    """The names along x, with numbers first and in order."""
    values = dict.fromkeys(x for series in plot.series for x in series.x if x is not None)
    if all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in values):
        return [number(x) for x in sorted(values, key=float)]
    return [category(plot, x) for x in values]


def category(plot: Plot, x: Coordinate) -> str:
    """A place along x as text."""
    return number(plot.x.shown(x))


def number(value: object, digits: int = 4) -> str:
    """A value as text: four significant digits, separated thousands, a true minus; a dash for none."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        text = f"{int(value):,}"
    elif 1e-4 <= abs(value) < 1e6:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    else:
        text = f"{value:.{digits - 1}e}"
    # A narrow no-break space separates thousands and cannot be read as a decimal sign.
    return text.replace("-", "\N{MINUS SIGN}").replace(",", "\N{NARROW NO-BREAK SPACE}")


def with_unit(text: str, unit: str | None) -> str:
    """A number and its unit, which stay on one line."""
    return f"{text}\N{NO-BREAK SPACE}{unit}" if unit else text


def interval_text(interval: Sequence[float | None] | None, unit: str | None = None) -> str:
    """`lo to hi`, or an empty text."""
    if interval is None or any(bound is None for bound in interval):
        return ""
    lo, hi = interval
    return with_unit(f"{number(lo)} to {number(hi)}", unit)


def stretches(series: Series) -> Iterator[list[int]]:
    """Ranges of neighbouring points that all have a value and an interval, so that a band can cover them."""
    stretch: list[int] = []
    for i in range(len(series.x)):
        if series.y[i] is not None and series.x[i] is not None and series.interval(i) is not None:
            stretch.append(i)
            continue
        if stretch:
            yield stretch
        stretch = []
    if stretch:
        yield stretch


def y_range(plot: Plot) -> tuple[float | None, float | None]:
    """The ends of the axis of values; None leaves an end to the data. It starts at zero if the values come near it."""
    if plot.y.range is not None:
        return plot.y.range
    values = list(_values(plot))
    if plot.y.is_log or not values or plot.kind == "scatter":
        return None, None
    lo, hi = min(values), max(values)
    if lo >= 0 and (lo < hi / 2 or (plot.kind == "bar" and not is_ranking(plot))):
        return 0.0, (hi * 1.06 if hi > 0 else 1.0)
    return None, None


def _values(plot: Plot) -> Iterator[float]:
    for series in plot.series:
        for i, y in enumerate(series.y):
            if y is not None:
                yield y
                yield from series.interval(i) or ()


def log_ticks(values: Sequence[float]) -> list[float]:
    """Ticks at 1, 2 and 5 times powers of ten, or at the powers only if that is enough."""
    positive = [value for value in values if value > 0]
    if not positive:
        return []
    lo, hi = math.log10(min(positive)), math.log10(max(positive))
    decades = range(math.floor(lo), math.ceil(hi) + 1)
    steps = (1, 2, 5) if hi - lo <= 2 else (1,)
    return [step * 10.0**decade for decade in decades for step in steps]


def axis_values(plot: Plot, axis: str) -> list[float]:
    """All numbers along `x` or `y`."""
    if axis == "y":
        return list(_values(plot))
    return [
        float(x) for series in plot.series for x in series.x if isinstance(x, (int, float)) and not isinstance(x, bool)
    ]
