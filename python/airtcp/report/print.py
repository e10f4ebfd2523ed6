"""Figures for papers: PNG and SVG, one column of a two-column page wide, readable in grey."""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from airtcp.figure_style import COLOURS, COLUMN_WIDTH_IN, HATCHES, LINES, MARKERS, SHADES, shaded, style
from airtcp.report.matrix import Shown, point, shown, views
from airtcp.report.model import Matrix, MatrixMap, Plot, Series
from airtcp.report.plot_style import (
    PLAIN,
    SeriesStyle,
    axis_values,
    categories,
    category,
    is_category,
    is_ranking,
    log_ticks,
    needs_legend,
    number,
    ranked,
    stand_alone,
    stretches,
    y_range,
)

HEIGHT_IN: Final = 2.2
DPI: Final = 300
LEGEND_CHARACTERS: Final = 62
"""Characters of legend names that fit beside each other in one column, line samples included."""
_CHARACTER_IN: Final = 0.055
"""Width of a character beside the axes, on average."""
MANY_POINTS: Final = 2000
"""A plot with more points than this has them as an image within the SVG."""

_CONTROLS: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that no SVG may have; a line may end."""

# Fonts for other scripts: an installed one is used where the first font has no glyph.
_FALLBACKS: Final = ("Noto Sans CJK JP", "Noto Sans JP", "IPAGothic", "Hiragino Sans", "Yu Gothic", "Arial Unicode MS")


def draw(plot: Plot, looks: Mapping[str, SeriesStyle]) -> dict[str, bytes]:
    """The figure as file contents by ending: `png` (300 dpi) and `svg` (text stays text)."""
    return _drawn(lambda: _figure(plot, looks))


def draw_matrix(matrix: Matrix, view: str) -> dict[str, bytes]:
    """The cells of a matrix as they show one measure, or the scores; files as `draw` has them."""
    return _drawn(lambda: _heat(matrix, view))


def draw_map(one: MatrixMap) -> dict[str, bytes]:
    """The advice over two parameters, a panel for each group; files as `draw` has them."""
    return _drawn(lambda: _map(one))


def _drawn(make: Callable[[], Figure]) -> dict[str, bytes]:
    families = {font.name for font in fontManager.ttflist}
    import matplotlib as mpl

    with style(column=True), mpl.rc_context(), warnings.catch_warnings():
        mpl.rcParams["font.family"] = ["DejaVu Sans", *(name for name in _FALLBACKS if name in families)]
        # Without any of the fonts above, a box replaces the character. The page uses the browser's fonts.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        # Names that leave no room for the axes: the figure is drawn all the same.
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        figure = make()
        # Lay out once, because each file would do so again.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        png, svg = io.BytesIO(), io.BytesIO()
        FigureCanvasAgg(figure).print_png(png, metadata={"Software": None})  # type: ignore[no-untyped-call]
        FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    return {"png": png.getvalue(), "svg": svg.getvalue()}


def _figure(plot: Plot, looks: Mapping[str, SeriesStyle]) -> Figure:
    columns, rows = _legend_shape([series.shown for series in plot.series] if needs_legend(plot) else [])
    if is_ranking(plot):
        return _ranking(plot, looks, columns, rows)
    # The axes keep their height; the legend and the names below them add to it.
    height_in = HEIGHT_IN + 0.125 * rows + _lean_in(plot)
    figure = Figure(figsize=(COLUMN_WIDTH_IN, height_in), dpi=DPI, layout="constrained")
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
            # Larger dots than in the cloud, to be visible.
            for handle in legend.legend_handles:
                if isinstance(handle, Line2D):
                    handle.set_alpha(1)
                    handle.set_markersize(4)
    if not handles:
        axes.text(0.5, 0.5, "no values", transform=axes.transAxes, ha="center", va="center", color="#666666")
    return figure


def _ranking(plot: Plot, looks: Mapping[str, SeriesStyle], columns: int, rows: int) -> Figure:
    """A row for each name, the greatest value above, with dots and their intervals."""
    names = ranked(plot)
    height_in = 0.55 + 0.125 * (rows + len(names))
    figure = Figure(figsize=(COLUMN_WIDTH_IN, height_in), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    for i, series in enumerate(plot.series):
        look = looks[series.name] if needs_legend(plot) else PLAIN
        colour = shaded(COLOURS[look.colour], look.shade)
        places = [np.nan if x is None else float(names.index(category(plot, x))) for x in series.x]
        for j, place in enumerate(places):
            if series.y[j] is not None and (bounds := series.interval(j)) is not None:
                axes.hlines(place, *bounds, color=colour, lw=0.8, zorder=2.5)
        axes.plot(
            np.array([np.nan if y is None else y for y in series.y]),
            np.array(places),
            ls="none",
            marker=MARKERS[look.marker],
            ms=3,
            color=colour,
            markeredgecolor="white",
            markeredgewidth=0.3,
            label=_plain(_wrap(series.shown)),
            zorder=3 + 0.01 * i,
        )
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), [_plain(_short(name)) for name in names])
    axes.grid(visible=True, axis="y", lw=0.3)
    _scale(axes, plot, "y", is_flat=True)
    axes.set_xlim(*y_range(plot))
    axes.set_xlabel(_plain("\n".join(textwrap.wrap(plot.y.title, 34))))
    handles, labels = axes.get_legend_handles_labels()
    if needs_legend(plot) and handles:
        figure.legend(handles, labels, loc="outside upper left", ncols=columns, borderpad=0, borderaxespad=0.2)
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
    """Text as Matplotlib can draw and write it: control characters, which no SVG may have, become spaces. A leading _
    is hidden, because it would suppress the legend.
    """
    text = _CONTROLS.sub(" ", text)
    return f"\N{ZERO WIDTH SPACE}{text}" if text.startswith("_") else text


def _xy(plot: Plot, series: Series) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    names = categories(plot) if is_category(plot) else None
    x = [
        np.nan if value is None else float(names.index(category(plot, value))) if names is not None else float(value)
        for value in series.x
    ]
    y = [np.nan if value is None else value for value in series.y]
    return np.array(x, dtype=float), np.array(y, dtype=float)


def _line(axes: Axes, plot: Plot, series: Series, look: SeriesStyle, order: int) -> None:
    x, y = _xy(plot, series)
    colour = shaded(COLOURS[look.colour], look.shade)
    axes.plot(
        x,
        y,
        color=colour,
        ls=LINES[look.line],
        marker="" if plot.is_dense else MARKERS[look.marker],
        lw=0.8 if plot.is_dense else None,
        markeredgecolor="white",
        markeredgewidth=0.3,
        label=_plain(_wrap(series.shown)),
        zorder=3 + 0.01 * order,
    )
    for stretch in stretches(series):
        bounds = np.array([series.interval(i) for i in stretch], dtype=float)
        if len(stretch) > 1 and not is_category(plot):
            axes.fill_between(x[stretch], bounds[:, 0], bounds[:, 1], color=colour, alpha=0.16, lw=0, zorder=2)
        else:
            axes.vlines(x[stretch], bounds[:, 0], bounds[:, 1], color=colour, lw=0.8, zorder=2.5)


def _cloud(axes: Axes, plot: Plot, series: Series, look: SeriesStyle, order: int) -> None:
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
        label=_plain(_wrap(series.shown)),
        zorder=3 + 0.01 * order,
    )


def _bars(axes: Axes, plot: Plot, looks: Mapping[str, SeriesStyle]) -> None:
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
            label=_plain(_wrap(series.shown)),
        )
        for j in range(len(x)):
            bounds = series.interval(j)
            if bounds is not None and series.y[j] is not None:
                error = [[max(0.0, y[j] - bounds[0])], [max(0.0, bounds[1] - y[j])]]
                axes.errorbar(place[j], y[j], yerr=error, fmt="none", ecolor="#222222", elinewidth=0.7)


def _lean_in(plot: Plot) -> float:
    """Height of the categories' names if they do not fit side by side and stand at 30 degrees; else 0."""
    names = categories(plot) if is_category(plot) else []
    return max(map(len, names)) * 0.5 * _CHARACTER_IN if sum(map(len, names)) > 44 else 0.0


def _axes(axes: Axes, plot: Plot) -> None:
    axes.set_xlabel(_plain(plot.x.title))
    axes.set_ylabel(_plain("\n".join(textwrap.wrap(plot.y.title, 34))))
    if is_category(plot):
        names = categories(plot)
        lean = _lean_in(plot) > 0
        axes.set_xticks(range(len(names)), [_plain(name) for name in names], rotation=30 if lean else 0)
        if lean:
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


def _scale(axes: Axes, plot: Plot, which: str, *, is_flat: bool = False) -> None:
    """Ticks for the numbers of one axis of the plot; with `is_flat` they are along the horizontal one in any case."""
    is_log = (plot.x if which == "x" else plot.y).is_log
    is_x = which == "x" or is_flat
    axis = axes.xaxis if is_x else axes.yaxis
    ticks = log_ticks(axis_values(plot, which)) if is_log else []
    if not ticks:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(round(value, 12))))
        return
    (axes.set_xscale if is_x else axes.set_yscale)("log")
    limits = axes.get_xlim() if is_x else axes.get_ylim()
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([number(tick) for tick in ticks]))
    axis.set_minor_locator(NullLocator())
    (axes.set_xlim if is_x else axes.set_ylim)(limits)


# --- matrices ---------------------------------------------------------------------------------------------------------

_ROW_IN: Final = 0.155
ROW_CHARACTERS: Final = 36
"""Most characters of a row's name."""
_WORSE, _BETTER = COLOURS[1], COLOURS[0]
_STRENGTH: Final = (0.0, 0.16, 0.34, 0.58)


def _short(text: str, most: int = ROW_CHARACTERS) -> str:
    """The text, cut to a length that leaves room for the cells."""
    return text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


_UPRIGHT_HEADS: Final = 8
"""Scenes of a matrix up to which their names stand upright above their columns."""
_LEANING_ROWS: Final = 0.28
"""Height of a character of a leaning name, in rows."""


def _heat(matrix: Matrix, view: str) -> Figure:
    """Two columns wide: a row for each variant, its group's name above, and a cell for each scene."""
    title = dict(views(matrix))[view]
    lines: list[tuple[str, list[Shown | None] | None, bool]] = []
    for group in matrix.groups:
        lines.append((group.title, None, True))
        for r, row in enumerate(group.rows):
            cells = [shown(matrix, group, r, i, view) for i in range(len(matrix.scenes))]
            lines.append((row.title, cells, r == 0))
    # Beside many others a head has no room: it leans, above the middle of its column.
    leans = len(matrix.scenes) > _UPRIGHT_HEADS
    heads = ["\n".join(textwrap.wrap(scene.title, 100 if leans else 15)) for scene in matrix.scenes]
    longest = max(map(len, heads))
    top = math.ceil(longest * _LEANING_ROWS) if leans else 1 + max(head.count("\n") for head in heads)
    figure = Figure(
        figsize=(2 * COLUMN_WIDTH_IN + 0.2, _ROW_IN * (len(lines) + top + 1.2)), dpi=DPI, layout="constrained"
    )
    axes = figure.subplots()
    axes.set_xlim(0, len(heads))
    axes.set_ylim(len(lines), -top - 0.2)
    axes.set_title(_plain(_short(f"{matrix.title} {title}", 2 * ROW_CHARACTERS)), fontsize=8)
    for i, head in enumerate(heads):
        place: dict[str, Any] = {"ha": "center", "va": "bottom"}
        if leans:
            place = {"ha": "left", "va": "bottom", "rotation": 50, "rotation_mode": "anchor"}
        axes.text(i + 0.5, -0.2, _plain(head), fontsize=6, fontweight="bold", **place)
    for y, (name, row_cells, is_bold) in enumerate(lines):
        axes.text(
            -0.06,
            y + 0.5,
            _plain(_short(name)),
            ha="right",
            va="center",
            fontsize=6,
            fontweight="bold" if is_bold else "normal",
            style="italic" if row_cells is None else "normal",
        )
        for x, cell in enumerate(row_cells or []):
            if cell is None:
                axes.text(x + 0.5, y + 0.5, number(None), ha="center", va="center", fontsize=6, color="#888888")
                continue
            colour = _BETTER if cell.level > 0 else _WORSE
            face = (colour, _STRENGTH[abs(cell.level)]) if cell.level else "#f4f5f7"
            axes.add_patch(Rectangle((x, y), 1, 1, linewidth=0, facecolor=face))
            # Use stars that the font has. A cross marks harm without colour, too.
            mark = {1: "\N{BLACK STAR} ", 2: "\N{WHITE STAR} "}.get(cell.place, "")
            text = mark + cell.text + (" \N{MULTIPLICATION X}" if cell.is_harmful else "")
            axes.text(x + 0.5, y + 0.5, _plain(text), ha="center", va="center", fontsize=6)
    axes.hlines(range(len(lines) + 1), 0, len(heads), color="white", lw=0.6)
    axes.vlines(range(len(heads) + 1), 0, len(lines), color="white", lw=0.6)
    axes.grid(visible=False)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


# --- maps -------------------------------------------------------------------------------------------------------------

_PLAIN_FACES: Final = {"none needed": "#e9edf1", "none helps": "#9aa3ad", "not settled": "#ffffff"}
"""Faces of points without a remedy."""


def _map(one: MatrixMap) -> Figure:
    """Two columns wide: a panel for each group, a coloured cell for each point, one legend for all."""
    names = list(dict.fromkeys(point(g, advice) for g in one.groups for row in g.cells for advice in row))
    remedies = [name for name in names if name not in _PLAIN_FACES and name != "not measured"]
    faces = {name: shaded(COLOURS[i % len(COLOURS)], (i // len(COLOURS)) % SHADES) for i, name in enumerate(remedies)}
    # In grey print, hatches tell apart what colours no longer do.
    hatches = {name: HATCHES[i % len(HATCHES)] * 2 for i, name in enumerate(remedies)}
    panels = len(one.groups)
    height_in = 0.2 * max(4, len(one.y.values)) + 0.75 + 0.13 * math.ceil(len(names) / 3)
    figure = Figure(figsize=(2 * COLUMN_WIDTH_IN + 0.2, height_in), dpi=DPI, layout="constrained")
    for axes, group in zip(figure.subplots(1, panels, squeeze=False, sharey=True)[0], one.groups, strict=True):
        for y, row in enumerate(group.cells):
            for x, advice in enumerate(row):
                name = point(group, advice)
                face = faces.get(name, _PLAIN_FACES.get(name, "#ffffff"))
                cell = Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=face, edgecolor="white", linewidth=0.6)
                cell.set_hatch(hatches.get(name, "//" if name == "not settled" else ""))
                if name == "not settled":
                    cell.set_edgecolor("#c3c9d0")
                axes.add_patch(cell)
        axes.set_xlim(-0.5, len(one.x.values) - 0.5)
        axes.set_ylim(-0.5, len(one.y.values) - 0.5)
        axes.set_xticks(range(len(one.x.values)), [_plain(number(v)) for v in one.x.values])
        axes.set_yticks(range(len(one.y.values)), [_plain(number(v)) for v in one.y.values])
        axes.set_xlabel(_plain(one.x.label))
        axes.set_title(_plain(_short(group.title, 2 * ROW_CHARACTERS // panels)), fontsize=7)
        axes.grid(visible=False)
    figure.axes[0].set_ylabel(_plain(one.y.label))
    handles = [
        Rectangle(
            (0, 0),
            1,
            1,
            facecolor=faces.get(name, _PLAIN_FACES.get(name, "#ffffff")),
            edgecolor="white" if name in faces else "#c3c9d0",
            hatch=hatches.get(name, "//" if name == "not settled" else ""),
        )
        for name in names
    ]
    figure.legend(handles, [_plain(name) for name in names], loc="outside lower left", ncols=3, fontsize=6)
    figure.suptitle(_plain(one.title), fontsize=8, x=0.01, ha="left")
    return figure
