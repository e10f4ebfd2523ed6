"""Figures over time: utilisation, loss and queue of one link, cwnd of the flows, WLANs. Runs can share the axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from airtcp.figure_style import COLOURS, LINES, style
from airtcp.results import Results, labels_of

FORMATS: Final = (".png", ".svg", ".pdf")

WINDOWS: Final = 30
"""Part of the run over which the thick lines are means."""


AIR_LINKS: Final = 6
"""Links of WLANs that a figure of one run shows: those with the most airtime."""


class PlotError(Exception):
    """The results lack a series that the figure needs."""


def over_time(runs: Sequence[Results], *, link: str | None = None, labels: Sequence[str] | None = None) -> Figure:
    """Draws four panels over time: utilisation, loss ratio and queue of one link, mean and sample cwnd.

    Runs with WLANs have four more: data rate, errors, airtime and packets held, of the links that used the air most.
    Several runs show one link each: the one with the most airtime in the first.

    Thin lines are the samples, thick ones their moving mean. The axes fit the time after the warm-up.

    Args:
        runs: results that share the axes.
        link: name of the link to show, such as `r1->r2`; by default the one that packets of the first run waited at
            longest.
        labels: names of the runs in the legend; by default names that tell them apart.

    Raises:
        PlotError: a run has no series of that link.
        ResultsError: it has no such tables.
    """
    for results in runs:
        results.check_tables("flows", "flow_series", "links", "link_series")
    with style():
        # Not through pyplot, which keeps every figure and needs a display.
        air = _air_links(runs)
        figure = Figure(figsize=(9, 12.4 if air else 6.2), layout="constrained")
        panels = figure.subplots(4 if air else 2, 2, sharex=True)
        (utilisation, loss), (queue, cwnd) = panels[:2]
        chosen = link if link is not None else busiest_link(runs[0])
        names = list(labels) if labels is not None else labels_of(runs)
        tops = {loss: 0.0, queue: 0.0, cwnd: 0.0}
        for i, (results, label) in enumerate(zip(runs, names, strict=True)):
            colour, line = COLOURS[i % len(COLOURS)], LINES[i // len(COLOURS) % len(LINES)]
            series = link_series(results, chosen)
            warm = results.summary["warmup_s"]
            for axes, column in ((utilisation, "utilisation"), (loss, "loss_ratio"), (queue, "queue_packets")):
                _thin(axes, series, column, colour)
                axes.plot(
                    series["time_s"].to_numpy(), series[f"{column}_mean"].to_numpy(), color=colour, ls=line, label=label
                )
                if axes in tops:
                    tops[axes] = max(tops[axes], _top(series, column, warm))
            mean, one = cwnd_series(results)
            cwnd.plot(mean["time_s"].to_numpy(), mean["cwnd"].to_numpy(), color=colour, ls=line)
            _thin(cwnd, one, "cwnd", colour)
            tops[cwnd] = max(tops[cwnd], _top(mean, "cwnd", warm), _top(one, "cwnd", warm))
        _label(utilisation, f"Utilisation of {chosen}", "part of the rate", 1.0)
        # A dropped packet may have arrived before the sample.
        _label(loss, "Loss at the queue", "dropped / arrived packets", min(tops[loss], 1.0))
        _label(queue, "Queue", "packets", tops[queue])
        _label(cwnd, "Congestion window: mean of all flows, and one", "segments", tops[cwnd])
        if air:
            _draw_air(panels[2:].flat, runs, names, air)
        warm = max(results.summary["warmup_s"] for results in runs)
        for axes in panels.flat:
            axes.set_xlim(0, max(results.manifest["duration_s"] for results in runs))
            if warm > 0:
                axes.axvspan(0, warm, color="#f2f2f2", lw=0, zorder=0)
        if warm > 0:
            utilisation.annotate("warm-up", (warm, 0), (-4, 4), textcoords="offset points", ha="right", color="#666666")
        for axes in panels[-1]:
            axes.set_xlabel("simulated time (s)")
        handles, _ = utilisation.get_legend_handles_labels()
        meaning = [
            Line2D([], [], color="#888888", lw=0.6, label="samples"),
            Line2D([], [], color="#888888", label="moving mean"),
        ]
        figure.legend(handles=[*handles, *meaning], loc="outside upper left", ncols=4)
    return figure


def _air_links(runs: Sequence[Results]) -> list[str]:
    """Links of WLANs to show: several links of one run, or one link of several runs."""
    first = next((rows for results in runs if (rows := _air_series(results)).height), None)
    if first is None:
        return []
    order = (
        first.group_by("name", maintain_order=True)
        .agg(pl.col("airtime").mean())
        .sort("airtime", descending=True, nulls_last=True, maintain_order=True)
    )
    return [str(name) for name in order["name"][: AIR_LINKS if len(runs) == 1 else 1]]


def _air_series(results: Results) -> pl.DataFrame:
    """The series of the air with the links' names; empty for results without a WLAN."""
    if "air_series" not in results.tables:
        return pl.DataFrame({"name": []})
    links = results.links.select("link", "name")
    return results.air_series.join(links, on="link", how="left", maintain_order="left").collect()


def _draw_air(panels: Iterable[Axes], runs: Sequence[Results], names: Sequence[str], links: Sequence[str]) -> None:
    """Data rate, errors, airtime and packets held of these links in each run."""
    rate, errors, airtime, held = panels
    columns = (
        (rate, "mac_rate_mean_bps", 1e-6),
        (errors, "mpdu_error_rate", 1.0),
        (airtime, "airtime", 1.0),
        (held, "held_mean_packets", 1.0),
    )
    tops = dict.fromkeys((rate, errors, airtime, held), 0.0)
    for i, (run, link) in enumerate((run, link) for run in range(len(runs)) for link in links):
        colour, line = COLOURS[i % len(COLOURS)], LINES[i // len(COLOURS) % len(LINES)]
        series = _air_series(runs[run]).filter(pl.col("name") == link)
        if series.is_empty():
            continue
        label = link if len(runs) == 1 else names[run]
        window = max(1, series.height // WINDOWS)
        warm = runs[run].summary["warmup_s"]
        for axes, column, scale in columns:
            scaled = series.select("time_s", value=pl.col(column).fill_nan(None) * scale)
            mean = scaled["value"].rolling_mean(window, min_samples=1, center=True)
            _thin(axes, scaled, "value", colour)
            axes.plot(scaled["time_s"].to_numpy(), mean.to_numpy(), color=colour, ls=line, label=label)
            tops[axes] = max(tops[axes], _top(scaled, "value", warm))
    where = "" if len(runs) == 1 else f" of {links[0]}"
    _label(rate, f"Data rate in the air{where}", "Mbit/s", tops[rate])
    _label(errors, f"MPDU errors{where}", "part of the MPDUs", tops[errors])
    _label(airtime, f"Airtime{where}", "part of the time", 1.0)
    _label(held, f"Held by the sending host{where}", "packets", tops[held])
    if len(runs) == 1:
        rate.legend(loc="best", ncols=2, fontsize="small")


def _thin(axes: Axes, series: pl.DataFrame, column: str, colour: str) -> None:
    axes.plot(series["time_s"].to_numpy(), series[column].to_numpy(), color=colour, lw=0.6, alpha=0.4, zorder=1.5)


def _top(series: pl.DataFrame, column: str, warmup_s: float) -> float:
    value = series.filter(pl.col("time_s") >= warmup_s)[column].max()
    return float(value) if isinstance(value, (int, float)) else 0.0


def _label(axes: Axes, title: str, unit: str, top: float) -> None:
    axes.set_title(title)
    axes.set_ylabel(unit)
    axes.set_ylim(0, 1.05 * top if top > 0 else 1.0)


def cwnd_series(results: Results) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Mean cwnd of all recorded flows over time, and that of one of them: columns `time_s` and `cwnd`."""
    series = results.flow_series.select("time_s", "flow", cwnd=pl.col("cwnd_segments")).collect()
    mean = series.group_by("time_s").agg(pl.col("cwnd").mean()).sort("time_s")
    flows = series["flow"].unique().sort()
    # Take one from the middle: the first and the last of a group may have extreme delays.
    one = series.filter(pl.col("flow") == flows[len(flows) // 2]) if len(flows) else series
    return mean, one


def link_series(results: Results, link: str) -> pl.DataFrame:
    """The series of one link, with its loss ratio (null where nothing arrived) and moving means.

    Raises:
        PlotError: the link has no series.
    """
    links = results.links.select("link", "name")
    named = results.link_series.join(links, on="link", how="left", maintain_order="left")
    series = named.filter(pl.col("name") == link).collect()
    if series.is_empty():
        there = named.select(pl.col("name").unique(maintain_order=True)).collect()["name"].to_list()
        raise PlotError(
            f"{results.path or results.name}: no series of link {link!r}; "
            + (f"there are: {', '.join(there)}" if there else "none was recorded (`record.links` in the scenario)")
        )
    window = max(1, series.height // WINDOWS)

    def moving_sum(column: str) -> pl.Expr:
        return pl.col(column).rolling_sum(window, min_samples=1, center=True)

    def moving_mean(column: str) -> pl.Expr:
        return pl.col(column).rolling_mean(window, min_samples=1, center=True)

    def ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
        # A queue can drop packets that arrived before the last sample.
        return pl.when(whole > 0).then(part / whole)

    return series.with_columns(
        loss_ratio=ratio(pl.col("dropped_packets"), pl.col("arrived_packets")),
        loss_ratio_mean=ratio(moving_sum("dropped_packets"), moving_sum("arrived_packets")),
        utilisation_mean=moving_mean("utilisation"),
        queue_packets_mean=moving_mean("queue_mean_packets"),
    )


def busiest_link(results: Results) -> str:
    """The link with a series that packets waited at longest, all together; if none waited, the one used the most.

    Raises:
        PlotError: no link has a series.
    """
    order = (
        results.link_series.group_by("link", maintain_order=True)
        .agg(pl.col("queue_mean_packets", "utilisation").mean())
        .sort("queue_mean_packets", "utilisation", descending=True, nulls_last=True, maintain_order=True)
        .collect()
    )
    if order.is_empty():
        raise PlotError(f"{results.path or results.name}: no link has a series (`record.links` in the scenario)")
    names = results.links.filter(pl.col("link") == order["link"][0]).collect()["name"]
    return str(names[0])
