"""The figure of one run: latency and goodput first, then the queues by waiting time, the air, the windows.

The panels, their names and their colours are those of the page (`airtcp.report.run`).
"""

from __future__ import annotations

import math
from typing import Final

from matplotlib.figure import Figure

from airtcp.figure_style import COLOURS, LINES, shaded, style
from airtcp.results import Results

COLUMNS: Final = 2


def one_run(results: Results) -> Figure:
    """Draws the panels over time. A host has one colour in all of them.

    Raises:
        PlotError: the run has no series.
        ResultsError: it has no such tables.
    """
    from airtcp.plots.over_time import PlotError
    from airtcp.report import run
    from airtcp.report.plot_style import series_styles

    study = run.page(results)
    plots = [plot for experiment in study.experiments for plot in experiment.plots]
    if not plots:
        raise PlotError(f"{results.path or results.name}: has no series to draw (`record` in the scenario)")
    look = series_styles(study)
    rows = math.ceil(len(plots) / COLUMNS)
    warm = float(results.summary["warmup_s"])
    with style():
        figure = Figure(figsize=(10, 2.9 * rows), layout="constrained")
        panels = figure.subplots(rows, COLUMNS, sharex=True, squeeze=False)
        for axes, plot in zip(panels.flat, plots, strict=False):
            for series in plot.series:
                one = look[series.name]
                axes.plot(
                    [x for x in series.x if isinstance(x, float)],
                    [math.nan if y is None else y for y in series.y],
                    color=shaded(COLOURS[one.colour], one.shade),
                    ls=LINES[one.line],
                    lw=1.2,
                    label=series.name,
                )
            axes.set_title(plot.title)
            axes.set_ylabel(plot.y.title)
            axes.set_ylim(bottom=0)
            axes.set_xlim(0, float(results.manifest["simulated_s"]))
            if warm > 0:
                axes.axvspan(0, warm, color="#f2f2f2", lw=0, zorder=0)
            if len(plot.series) > 1:
                axes.legend(loc="best", fontsize="small", ncols=2)
            else:
                axes.set_title(f"{plot.title}: {plot.series[0].name}")
        for axes in list(panels.flat)[len(plots) :]:
            axes.set_axis_off()
        for column in range(COLUMNS):
            axes = panels[(len(plots) - 1 - column) // COLUMNS][column] if len(plots) > column else panels[0][column]
            axes.set_xlabel("time (s)" if results.manifest.get("measured") else "simulated time (s)")
            axes.tick_params(labelbottom=True)
        if warm > 0:
            panels[0][0].annotate(
                "\N{LEFTWARDS ARROW} warm-up",
                (warm, 1),
                (4, -4),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="left",
                va="top",
                color="#666666",
            )
    return figure
