"""Figures for papers: PNG and SVG, one column of a two-column page wide, readable in grey."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from airtcp.plots.style import COLOURS, COLUMN_WIDTH_IN, HATCHES, LINES, MARKERS, shaded, style
from airtcp.report.look import (
    Look,
    axis_values,
    categories,
    is_category,
    log_ticks,
    needs_legend,
    number,
    stand_alone,
    stretches,
    y_range,
)
from airtcp.report.model import Plot, Series

HEIGHT_IN: Final = 2.2
DPI: Final = 300
LEGEND_CHARACTERS: Final = 62
"""What fits beside each other in one column, with the lines before the names counted."""
MANY_POINTS: Final = 2000
"""More points than this are an image within the SVG: nobody edits them one by one."""

# Names in other scripts: whichever of these is installed takes over where the first font has no glyph.
_FALLBACKS: Final = ("Noto Sans CJK JP", "Noto Sans JP", "IPAGothic", "Hiragino Sans", "Yu Gothic", "Arial Unicode MS")


def draw(plot: Plot, looks: Mapping[str, Look]) -> dict[str, bytes]:
    """The figure as file contents by ending: `png` (300 dpi) and `svg` (text stays text)."""
    families = {font.name for font in fontManager.ttflist}
    import matplotlib as mpl

    with style(column=True), mpl.rc_context(), warnings.catch_warnings():
        mpl.rcParams["font.family"] = ["DejaVu Sans", *(name for name in _FALLBACKS if name in families)]
        # Without any of the fonts above a box stands for the character; the page itself has the browser's fonts.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        figure = _figure(plot, looks)
        # Laid out once; `savefig` would do so twice more for each file.
        figure.draw_without_rendering()
        png, svg = io.BytesIO(), io.BytesIO()
        FigureCanvasAgg(figure).print_png(png, metadata={"Software": None})  # type: ignore[no-untyped-call]
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    return {"png": png.getvalue(), "svg": svg.getvalue()}


def _figure(plot: Plot, looks: Mapping[str, Look]) -> Figure:
    columns, rows = _legend_shape([series.name for series in plot.series] if needs_legend(plot) else [])
    # The axes keep their height, whatever the legend takes.
    figure = Figure(figsize=(COLUMN_WIDTH_IN, HEIGHT_IN + 0.125 * rows), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    if plot.kind == "bar":
        _bars(axes, plot, looks)
    else:
        for i, series in enumerate(plot.series):
            (_cloud if plot.kind == "scatter" else _line)(axes, plot, series, looks[series.name], i)
    _axes(axes, plot)
    handles, labels = axes.get_legend_handles_labels()
    if needs_legend(plot) and handles:
        legend = figure.legend(handles, labels, loc="outside upper left", ncols=columns, borderpad=0, borderaxespad=0.2)
        if plot.kind == "scatter":
            # Dots as small as in the cloud would not be seen.
            for handle in legend.legend_handles:
                if isinstance(handle, Line2D):
                    handle.set_alpha(1)
                    handle.set_markersize(4)
    if not handles:
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color="#666666")
    return figure


def _legend_shape(names: list[str]) -> tuple[int, int]:
    if len(names) < 2:
        return 1, 0
    widest = max(len(line) for name in names for line in _wrap(name).split("\n")) + 8
    columns = max(1, min(len(names), LEGEND_CHARACTERS // widest))
    rows = math.ceil(len(names) / columns)
    lines = max(_wrap(name).count("\n") + 1 for name in names)
    return columns, rows * lines


def _wrap(name: str) -> str:
    return "\n".join(textwrap.wrap(name, LEGEND_CHARACTERS - 10)) or name


def _plain(text: str) -> str:
    """Text with nothing in it for Matplotlib to take as mathematics; a name that begins with _ would have no legend."""
    text = text.replace("$", r"\$")
    return f"\N{ZERO WIDTH SPACE}{text}" if text.startswith("_") else text


def _xy(plot: Plot, series: Series) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    names = categories(plot) if is_category(plot) else None
    x = [
        np.nan if value is None else float(names.index(number(value))) if names is not None else float(value)
        for value in series.x
    ]
    y = [np.nan if value is None else value for value in series.y]
    return np.array(x, dtype=float), np.array(y, dtype=float)


def _line(axes: Axes, plot: Plot, series: Series, look: Look, order: int) -> None:
    x, y = _xy(plot, series)
    colour = shaded(COLOURS[look.colour], look.shade)
    axes.plot(
        x,
        y,
        color=colour,
        ls=LINES[look.line],
        marker=MARKERS[look.marker],
        markeredgecolor="white",
        markeredgewidth=0.3,
        label=_plain(_wrap(series.name)),
        zorder=3 + 0.01 * order,
    )
    for stretch in stretches(series):
        bounds = np.array([series.interval(i) for i in stretch], dtype=float)
        if len(stretch) > 1 and not is_category(plot):
            axes.fill_between(x[stretch], bounds[:, 0], bounds[:, 1], color=colour, alpha=0.16, lw=0, zorder=2)
        else:
            axes.vlines(x[stretch], bounds[:, 0], bounds[:, 1], color=colour, lw=0.8, zorder=2.5)


def _cloud(axes: Axes, plot: Plot, series: Series, look: Look, order: int) -> None:
    x, y = _xy(plot, series)
    many = len(x) > MANY_POINTS
    axes.plot(
        x,
        y,
        ls="none",
        marker="," if len(x) > 50 * MANY_POINTS else MARKERS[look.marker],
        ms=0.8 if many else 2.2,
        markeredgewidth=0,
        color=shaded(COLOURS[look.colour], look.shade),
        alpha=0.6 if many else 0.8,
        rasterized=many,
        label=_plain(_wrap(series.name)),
        zorder=3 + 0.01 * order,
    )


def _bars(axes: Axes, plot: Plot, looks: Mapping[str, Look]) -> None:
    is_alone = stand_alone(plot)
    width = 0.55 if is_alone else 0.8 / max(1, len(plot.series))
    for i, series in enumerate(plot.series):
        x, y = _xy(plot, series)
        look = looks[series.name]
        place = x if is_alone else x + (i - (len(plot.series) - 1) / 2) * width
        axes.bar(
            place,
            np.nan_to_num(y),
            width * 0.92,
            color=shaded(COLOURS[look.colour], look.shade),
            hatch=HATCHES[look.hatch],
            edgecolor="white",
            lw=0,
            label=_plain(_wrap(series.name)),
        )
        for j in range(len(x)):
            bounds = series.interval(j)
            if bounds is not None and series.y[j] is not None:
                error = [[max(0.0, y[j] - bounds[0])], [max(0.0, bounds[1] - y[j])]]
                axes.errorbar(place[j], y[j], yerr=error, fmt="none", ecolor="#222222", elinewidth=0.7)


def _axes(axes: Axes, plot: Plot) -> None:
    axes.set_xlabel(_plain(plot.x.title))
    axes.set_ylabel(_plain("\n".join(textwrap.wrap(plot.y.title, 34))))
    if is_category(plot):
        names = categories(plot)
        long = sum(map(len, names)) > 44
        axes.set_xticks(range(len(names)), [_plain(name) for name in names], rotation=30 if long else 0)
        if long:
            for label in axes.get_xticklabels():
                label.set_horizontalalignment("right")
                label.set_rotation_mode("anchor")
        axes.set_xlim(-0.5, max(1, len(names)) - 0.5)
        axes.grid(visible=False, axis="x")
    else:
        _scale(axes, plot, "x")
    _scale(axes, plot, "y")
    lo, hi = y_range(plot)
    axes.set_ylim(lo, hi)


def _scale(axes: Axes, plot: Plot, which: str) -> None:
    is_log = (plot.x if which == "x" else plot.y).is_log
    axis = axes.xaxis if which == "x" else axes.yaxis
    ticks = log_ticks(axis_values(plot, which)) if is_log else []
    if not ticks:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value, 12))))
        return
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    limits = axes.get_xlim() if which == "x" else axes.get_ylim()
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([number(tick) for tick in ticks]))
    axis.set_minor_locator(NullLocator())
    (axes.set_xlim if which == "x" else axes.set_ylim)(limits)
