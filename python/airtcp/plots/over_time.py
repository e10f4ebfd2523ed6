"""What happened over time: utilisation, loss and queue of one link, and cwnd of the flows; several runs together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from airtcp.plots.style import COLOURS, LINES, style
from airtcp.results import Results, labels_of

FORMATS: Final = (".png", ".svg", ".pdf")

SAMPLE_FLOWS: Final = 1
"""Flows per run whose cwnd is drawn beside the mean."""


class PlotError(Exception):
    """The results do not hold what the figure needs."""


def over_time(runs: Sequence[Results], *, link: str | None = None, labels: Sequence[str] | None = None) -> Figure:
    """Four panels over time: utilisation, loss ratio and queue of one link, mean and sample cwnd.

    Args:
        runs: results to lay over each other.
        link: name of the link to show, such as `r1->r2`; by default the one of the first run that dropped most.
        labels: names of the runs in the legend; by default what tells them apart.

    Raises:
        PlotError: a run has no series of that link.
    """
    with style():
        # Not through pyplot, which would keep every figure and ask for a display.
        figure = Figure(figsize=(9, 6.2), layout="constrained")
        (utilisation, loss), (queue, cwnd) = figure.subplots(2, 2, sharex=True)
        chosen = link if link is not None else busiest_link(runs[0])
        names = list(labels) if labels is not None else labels_of(runs)
        for i, (results, label) in enumerate(zip(runs, names, strict=True)):
            colour, line = COLOURS[i % len(COLOURS)], LINES[i // len(COLOURS) % len(LINES)]
            series = link_series(results, chosen)
            time = series["time_s"].to_numpy()
            for axes, column in ((utilisation, "utilisation"), (loss, "loss_ratio"), (queue, "queue_mean_packets")):
                axes.plot(time, series[column].to_numpy(), color=colour, linestyle=line, label=label)
            _draw_cwnd(cwnd, results, colour)
        _label(utilisation, f"Utilisation of {chosen}", "part of the rate")
        utilisation.set_ylim(0, 1.05)
        _label(loss, "Loss", "dropped / arrived packets")
        loss.set_ylim(bottom=0)
        _label(queue, "Queue", "packets")
        queue.set_ylim(bottom=0)
        _label(cwnd, "Congestion window: mean (thick), one flow (thin)", "segments")
        cwnd.set_ylim(bottom=0)
        for axes in (queue, cwnd):
            axes.set_xlabel("simulated time (s)")
        handles, texts = utilisation.get_legend_handles_labels()
        figure.legend(handles, texts, loc="outside upper left", ncols=min(len(runs), 4))
    return figure


def _label(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title)
    axes.set_ylabel(unit)
    axes.set_xlim(left=0)


def _draw_cwnd(axes: Axes, results: Results, colour: str) -> None:
    series = results.flow_series.select("time_s", "flow", pl.col("cwnd_segments").alias("cwnd"))
    mean = series.group_by("time_s").agg(pl.col("cwnd").mean()).sort("time_s").collect()
    axes.plot(mean["time_s"].to_numpy(), mean["cwnd"].to_numpy(), color=colour, linewidth=2)
    flows = series.select(pl.col("flow").unique(maintain_order=True)).collect()["flow"].to_list()
    if len(flows) < 2:
        return
    # From the middle: the first and the last of a group may be at an end of a range of delays.
    middle = len(flows) // 2
    for flow in flows[middle : middle + SAMPLE_FLOWS]:
        one = series.filter(pl.col("flow") == flow).collect()
        axes.plot(one["time_s"].to_numpy(), one["cwnd"].to_numpy(), color=colour, linewidth=0.7, alpha=0.8)


def link_series(results: Results, link: str) -> pl.DataFrame:
    """The series of one link, with its loss ratio (null where nothing arrived).

    Raises:
        PlotError: there is none.
    """
    links = results.links.select("link", "name")
    named = results.link_series.join(links, on="link", how="left", maintain_order="left")
    loss_ratio = pl.col("dropped_packets") / pl.col("arrived_packets")
    series = named.filter(pl.col("name") == link).with_columns(loss_ratio=loss_ratio).collect()
    if series.is_empty():
        there = named.select(pl.col("name").unique(maintain_order=True)).collect()["name"].to_list()
        raise PlotError(
            f"{results.path or results.name}: no series of link {link!r}; "
            + (f"there are: {', '.join(there)}" if there else "none was recorded (`record.links` in the scenario)")
        )
    return series


def busiest_link(results: Results) -> str:
    """The link with a series that dropped the most packets; if none did, the one used the most.

    Raises:
        PlotError: no link has a series.
    """
    order = (
        results.link_series.group_by("link", maintain_order=True)
        .agg(pl.col("dropped_packets").sum(), pl.col("utilisation").mean())
        .sort("dropped_packets", "utilisation", descending=True, nulls_last=True, maintain_order=True)
        .collect()
    )
    if order.is_empty():
        raise PlotError(f"{results.path or results.name}: no link has a series (`record.links` in the scenario)")
    names = results.links.filter(pl.col("link") == order["link"][0]).collect()["name"]
    return str(names[0])
