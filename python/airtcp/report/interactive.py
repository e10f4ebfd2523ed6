"""The plots of the page in Plotly's format. The page fills in colours, for its light and its dark look."""

from __future__ import annotations

import base64
import html
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from airtcp.report.model import Axis, Plot, Series
from airtcp.report.plot_style import (
    PLAIN,
    SeriesStyle,
    axis_values,
    categories,
    category,
    interval_text,
    is_category,
    is_ranking,
    log_ticks,
    needs_legend,
    number,
    ranked,
    stand_alone,
    stretches,
    with_unit,
    y_range,
)

# The same signs as `LINES`, `MARKERS` and `HATCHES` of the style, in Plotly's words.
DASHES: Final = ("solid", "9px,3px", "2.5px,2.5px", "9px,3px,2.5px,3px")
SYMBOLS: Final = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x")
PATTERNS: Final = ("", "/", ".", "\\", "x", "-")

ROW_REM: Final = (1.5, 2.2)
"""Height of a row of a ranking in the page, with names of one line and of more."""
NAME_CHARACTERS: Final = 26
"""Longest line of a name beside a ranking; a phone has room for it."""

MANY_POINTS: Final = 2000
"""A plot with more points than this is one path, because an element for each point makes the page slow."""


def figure(plot: Plot, looks: Mapping[str, SeriesStyle]) -> dict[str, Any]:
    """Traces and layout, and `clouds`, which the page draws as one path each. A trace's `meta` has its colour (see
    `tone`) and its series.
    """
    data: list[dict[str, Any]] = []
    clouds: list[dict[str, Any]] = []
    for i, series in enumerate(plot.series):
        look = looks[series.name]
        if plot.kind == "line":
            data += _bands(plot, series, look, i)
    for i, series in enumerate(plot.series):
        look = looks[series.name] if needs_legend(plot) or not is_ranking(plot) else PLAIN
        common = {"name": escape(series.shown), "showlegend": False, "meta": {"colour": tone(look), "series": i}}
        if plot.kind == "scatter" and _is_dense(plot, series):
            data.append(common | _corners(series))
            clouds.append({"meta": common["meta"], "x": _packed(series.x), "y": _packed(series.y)})
        elif plot.kind == "scatter":
            data.append(common | _dots(series, look))
        elif is_ranking(plot):
            data.append(common | _row_dots(plot, series, look))
        elif plot.kind == "bar":
            data.append(common | _bars(plot, series, look))
        else:
            data.append(common | _line(plot, series, look))
    layout: dict[str, Any] = {
        "xaxis": _axis(plot, "x"),
        "yaxis": _axis(plot, "y"),
        "margin": {"l": 8, "r": 14, "t": 10, "b": 8},
        "hovermode": "closest",
        "showlegend": False,
        "dragmode": "zoom",
        "uirevision": plot.id,
        "font": {"size": 13},
        # The same font as in the rest of the page.
        "separators": ".\N{NARROW NO-BREAK SPACE}",
    }
    if not data:
        layout["annotations"] = [
            {"text": "no values", "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
        ]
    if is_ranking(plot):
        layout["xaxis"] = _axis(plot, "y") | {"nticks": 5, "tickangle": 0}
        layout["xaxis"]["title"] |= {"text": _axis_title(plot.y, 24), "font": {"size": 12}}
        layout["yaxis"] = _row_axis(plot)
    elif plot.kind == "bar":
        layout |= {"barmode": "group", "bargap": 0.2, "bargroupgap": 0.08}
        if stand_alone(plot):
            layout |= {"barmode": "overlay", "bargap": 0.45}
    return {"data": data, "layout": layout, "clouds": clouds}


def tone(look: SeriesStyle) -> str:
    """Name of a look's colour among the page's."""
    return f"{look.colour}-{look.shade}"


def escape(text: str) -> str:
    """Text escaped for Plotly, which would read HTML, and TeX between dollars."""
    return html.escape(text, quote=False).replace("$", "&#36;")


def _line(plot: Plot, series: Series, look: SeriesStyle) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines" if plot.is_dense else "lines+markers",
        "x": _x(plot, series),
        "y": series.y,
        "line": {"dash": DASHES[look.line], "width": 1.6 if plot.is_dense else 2},
        "marker": {"symbol": SYMBOLS[look.marker], "size": 7},
        "text": _hover(plot, series),
        "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
    }
    covered = {i for stretch in stretches(series) if _is_band(plot, stretch) for i in stretch}
    return trace | _error_bars(series, covered)


def _is_band(plot: Plot, stretch: list[int]) -> bool:
    return len(stretch) > 1 and not is_category(plot)


def _bands(plot: Plot, series: Series, look: SeriesStyle, order: int) -> list[dict[str, Any]]:
    x: list[Any] = []
    y: list[float | None] = []
    for stretch in stretches(series):
        if not _is_band(plot, stretch):
            continue
        bounds = [series.interval(i) or (0.0, 0.0) for i in stretch]
        if x:
            x.append(None)
            y.append(None)
        x += [series.x[i] for i in stretch] + [series.x[i] for i in reversed(stretch)]
        y += [_drawable(plot, hi) for _, hi in bounds] + [_drawable(plot, lo) for lo, _ in reversed(bounds)]
    if not x:
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": y,
            "fill": "toself",
            "line": {"width": 0},
            "hoverinfo": "skip",
            "showlegend": False,
            "meta": {"colour": tone(look), "series": order, "band": True},
        }
    ]


def _drawable(plot: Plot, bound: float) -> float:
    """Moves a bound that a logarithmic axis cannot show to the axis's lower end."""
    if not plot.y.is_log or bound > 0:
        return bound
    return min((value for value in axis_values(plot, "y") if value > 0), default=1.0) / 10


def _error_bars(series: Series, covered: set[int]) -> dict[str, Any]:
    up: list[float] = []
    down: list[float] = []
    for i, y in enumerate(series.y):
        bounds = series.interval(i)
        has = y is not None and bounds is not None and i not in covered
        up.append(max(0.0, bounds[1] - y) if has and bounds is not None and y is not None else 0.0)
        down.append(max(0.0, y - bounds[0]) if has and bounds is not None and y is not None else 0.0)
    if not any(up) and not any(down):
        return {}
    return {
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": up,
            "arrayminus": down,
            "thickness": 1.2,
            "width": 3,
        }
    }


def _bars(plot: Plot, series: Series, look: SeriesStyle) -> dict[str, Any]:
    return {
        "type": "bar",
        "x": _x(plot, series),
        "y": series.y,
        "marker": {"pattern": {"shape": PATTERNS[look.hatch], "size": 7, "solidity": 0.25}},
        "hovertext": _hover(plot, series),
        "hovertemplate": "%{hovertext}<extra>%{fullData.name}</extra>",
    } | _error_bars(series, set())


def height_rem(plot: Plot) -> float | None:
    """Height of a plot that needs more than others."""
    if not is_ranking(plot):
        return None
    names = categories(plot)
    return 4 + ROW_REM[any(len(name) > NAME_CHARACTERS for name in names)] * len(names)


def _row_name(name: str) -> str:
    return "<br>".join(map(escape, textwrap.wrap(name, NAME_CHARACTERS))) or escape(name)


def _row_dots(plot: Plot, series: Series, look: SeriesStyle) -> dict[str, Any]:
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": series.y,
        "y": [None if x is None else _row_name(category(plot, x)) for x in series.x],
        "marker": {"symbol": SYMBOLS[look.marker], "size": 9},
        "text": _hover(plot, series),
        "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
    }
    bars = _error_bars(series, set())
    return trace | ({"error_x": bars["error_y"]} if bars else {})


def _row_axis(plot: Plot) -> dict[str, Any]:
    """Names of a ranking from top to bottom, each on a thin line."""
    names = [_row_name(name) for name in reversed(ranked(plot))]
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": names,
        "tickmode": "linear",
        "range": [-0.6, len(names) - 0.4],
        "automargin": True,
        "showgrid": True,
        "zeroline": False,
        "ticks": "",
        "tickfont": {"size": 12},
    }


def _dots(series: Series, look: SeriesStyle) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": series.x,
        "y": series.y,
        "marker": {"symbol": SYMBOLS[look.marker], "size": 5, "opacity": 0.8, "line": {"width": 0}},
        "hovertemplate": "%{x}, %{y}<extra>%{fullData.name}</extra>",
    }


def _is_dense(plot: Plot, series: Series) -> bool:
    """Whether to draw the points as one path: there are many, and they are numbers on linear axes."""
    return (
        len(series.x) > MANY_POINTS
        and not (plot.x.is_log or plot.y.is_log or is_category(plot))
        and None not in series.x
        and None not in series.y
    )


def _corners(series: Series) -> dict[str, Any]:
    """An invisible trace that makes the axes cover the cloud."""
    xs = [float(x) for x in series.x if x is not None]
    ys = [y for y in series.y if y is not None]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [min(xs), max(xs)],
        "y": [min(ys), max(ys)],
        "marker": {"opacity": 0},
        "hoverinfo": "skip",
    }


def _packed(values: Sequence[Any]) -> str:
    """Numbers as float32 in base64: a third of the size of decimals, and finer than a screen resolves."""
    return base64.b64encode(np.array(values, dtype="<f4").tobytes()).decode()


def _x(plot: Plot, series: Series) -> list[Any]:
    return [None if x is None else escape(category(plot, x)) for x in series.x] if is_category(plot) else list(series.x)


def _hover(plot: Plot, series: Series) -> list[str]:
    texts = []
    for i, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        lines = [
            f"{plot.x.label}: {with_unit(category(plot, x), plot.x.unit)}",
            f"{plot.y.label}: {with_unit(number(y), plot.y.unit)}",
        ]
        if interval := interval_text(series.interval(i)):
            lines.append(f"95 % interval: {interval}")
        if series.n and series.n[i] is not None:
            lines.append(f"seeds: {series.n[i]}")
        texts.append("<br>".join(map(escape, lines)))
    return texts


def _axis_title(axis: Axis, characters: int) -> str:
    return "<br>".join(map(escape, textwrap.wrap(axis.title, characters)))


def axis_of(title: str) -> dict[str, Any]:
    """An axis of the page's plots."""
    return {
        "title": {"text": title, "standoff": 8},
        "automargin": True,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
        "nticks": 7,
        "separatethousands": True,
        "exponentformat": "power",
    }


def _axis(plot: Plot, which: str) -> dict[str, Any]:
    axis = plot.x if which == "x" else plot.y
    result = axis_of(_axis_title(axis, 44 if which == "x" else 28))
    if which == "x" and is_category(plot):
        names = [escape(name) for name in categories(plot)]
        return result | {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": names,
            "showgrid": False,
            # Give both ends, so that Plotly does not take an axis without values for one of numbers.
            "range": [-0.5, max(1, len(names)) - 0.5],
        }
    ticks = log_ticks(axis_values(plot, which)) if axis.is_log else []
    lo, hi = y_range(plot) if which == "y" else plot.x.range or (None, None)
    if ticks:
        result |= {"type": "log", "tickmode": "array", "tickvals": ticks, "ticktext": [number(t) for t in ticks]}
        if lo is not None and hi is not None and lo > 0 and hi > 0:
            result["range"] = [float(np.log10(lo)), float(np.log10(hi))]
    else:
        result["type"] = "linear"
        if lo is not None or hi is not None:
            result["range"] = [lo, hi]
            if lo is None or hi is None:
                result["autorange"] = "min" if lo is None else "max"
    return result
