"""Turns the folder of one run into a page: latency and goodput first, then the queues by waiting time, then the air.

Things have the names of the scenario. A host has one colour on the whole page: its flows, its queue, its frames.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import polars as pl

from airtcp import show, soundness
from airtcp.report.model import Axis, Experiment, Plot, Series, Study, TextTable
from airtcp.results import Results
from airtcp.scenario_json import stations_of

POINTS: Final = 60
"""Most points of a line: each is the mean of its part of the run."""
SERIES: Final = 6
"""Most lines of a plot. More flows are shown by group, of more links those with the most waiting."""
PER_FLOW: Final = 6
"""Up to so many flows of a kind have a line each."""

Row = dict[str, Any]


def read(folder: Path) -> Study:
    """The results of a run.

    Raises:
        ResultsError: they cannot be read.
    """
    return page(Results.load(folder))


def page(results: Results) -> Study:
    """The content of the page.

    Raises:
        ResultsError: a table is missing, as in what kernels leave.
    """
    results.check_tables("flows", "flow_series", "pings", "datagrams", "links", "link_series")
    manifest = results.manifest
    plots = [plot for plot in (_latency(results), _goodput(results), *_queues(results)) if plot is not None]
    air = list(_air(results))
    windows = [plot for plot in (_windows(results),) if plot is not None]
    experiments = [
        Experiment(id=name, title=title, plots=some, text=text)
        for name, title, some, text in (
            ("traffic", "Latency, goodput and queues", plots, None),
            ("air", "On the air", air, None),
            ("senders", "Senders", windows, None),
        )
        if some
    ]
    return Study(
        study=results.name,
        title=results.name,
        kind="run",
        question=str(manifest["scenario"].get("description") or "") or None,
        summary="\n\n".join(sentences(results)),
        warnings=soundness.warnings(results),
        seeds=results.seed,
        airtcp_version=manifest["airtcp_version"],
        engine=manifest["engine"],
        started=manifest["timing"].get("started"),
        wall_s=manifest["timing"].get("wall_s"),
        host=manifest["host"],
        status="interrupted" if results.interrupted else "complete",
        tables=tables(results),
        experiments=experiments,
    )


# --- words and tables -----------------------------------------------------------------------------------------------


def sentences(results: Results) -> list[str]:
    """Latency, goodput and the queue that packets waited in longest, a sentence each."""
    said = []
    for row in _delays(results)[:2]:
        said.append(
            f"Latency of `{row['name']}` ({row['what']}): half below {row['p50']:.3g} ms, "
            f"95 % below {row['p95']:.3g} ms, least {row['least']:.3g} ms."
        )
    for row in results.summary["groups"]:
        if row["kind"] == "tcp" and not row.get("transfers") and row["goodput_bps"]:
            fair = f", Jain's index {row['jain']:.3f}" if row["flow_count"] > 1 and row.get("jain") is not None else ""
            flows = f"{row['flow_count']} flows" if row["flow_count"] > 1 else "1 flow"
            said.append(f"Goodput of `{row['group']}`: {row['goodput_bps'] / 1e6:.4g} Mbit/s, {flows}{fair}.")
    longest = next(iter(show.by_waiting(results.links.collect().to_dicts())), None)
    if longest is not None and longest["queue_delay_mean_ms"]:
        dropped = longest["dropped_overflow"] + longest["dropped_early"]
        said.append(
            f"Packets waited longest in the queue of `{longest['name']}`: "
            f"{longest['queue_delay_mean_ms']:.3g} ms each, "
            f"{longest['queue_mean_packets']:.3g} packets on average and {longest['queue_max_packets']} at most. "
            + ("None was dropped there." if not dropped else f"{dropped} were dropped there.")
        )
    return said


def tables(results: Results) -> list[TextTable]:
    """The tables of the terminal, links by waiting time."""
    found = []
    for table in show.overview(results):
        rows = [[_plain(cell) for cell in column.cells] for column in table.columns]
        found.append(
            TextTable(
                title=str(table.title),
                head=[" ".join(str(column.header).split("\n")).strip() for column in table.columns],
                rows=[list(row) for row in zip(*rows, strict=True)],
            )
        )
    return found


def _plain(cell: object) -> str:
    return re.sub(r"\\(\[)", r"\1", str(cell))


# --- series ---------------------------------------------------------------------------------------------------------


def _bin_s(results: Results) -> float:
    return max(float(results.manifest["simulated_s"]) / POINTS, 1e-9)


def _binned(table: pl.LazyFrame, results: Results, by: str, value: pl.Expr, time: str = "time_s") -> pl.DataFrame:
    """Columns `at`, `by`, `y`: the mean of the value in each part of the run."""
    width = _bin_s(results)
    at = ((pl.col(time) / width).ceil() - 0.5) * width
    # A sample at the end of a part belongs to it: it tells of the time before.
    return (
        table.with_columns(at=at, y=value)
        .filter(pl.col("y").is_not_null() & pl.col("y").is_finite())
        .group_by(by, "at")
        .agg(pl.col("y").mean())
        .sort(by, "at")
        .collect()
    )


def _lines(table: pl.DataFrame, by: str, order: Iterable[str], host: Callable[[str], str]) -> list[Series]:
    found = []
    for name in order:
        rows = table.filter(pl.col(by) == name)
        if rows.height:
            xs = [float(f"{x:.5g}") for x in rows["at"]]
            found.append(Series(name=name, x=list(xs), y=[float(f"{y:.5g}") for y in rows["y"]], of=host(name)))
    return found


def _over_time(name: str, title: str, label: str, unit: str | None, series: list[Series], caption: str) -> Plot | None:
    if not series:
        return None
    return Plot(
        id=name,
        title=title,
        x=Axis(label="simulated time", unit="s"),
        y=Axis(label=label, unit=unit),
        series=series,
        caption=caption,
        is_dense=True,
    )


def _host_of(results: Results) -> Callable[[str], str]:
    """The host that a flow, a group of flows or a direction of a link belongs to.

    A flow belongs to its source, a server's to its destination: to the end that is not shared. A direction of a link
    belongs to the host at one of its ends, and to its sender between two routers.
    """
    scenario = results.manifest["scenario"]
    hosts = {node["name"] for node in scenario.get("nodes", []) if node.get("kind") == "host"}
    ends: dict[str, tuple[str, str]] = {flow["name"]: (flow["from"], flow["to"]) for flow in scenario.get("flows", [])}
    stations = stations_of(scenario)
    groups = {node["name"] for node in scenario.get("nodes", []) if node.get("count", 1) > 1}

    def of_flow(name: str) -> str:
        group, _, index = name.partition("[")
        if group not in ends:
            return name
        source, destination = ends[group]
        end = destination if destination.split("[")[0] in stations | groups and source not in stations else source
        return f"{end}[{index}" if index and end in groups else end

    def of_link(name: str) -> str:
        source, _, destination = name.partition("->")
        for end in (source, destination):
            if end.split("[")[0] in stations:
                return end
        return destination if source.split("[")[0] not in hosts and destination.split("[")[0] in hosts else source

    return lambda name: of_link(name) if "->" in name else of_flow(name)


def _named(results: Results, flows: pl.LazyFrame) -> tuple[pl.LazyFrame, list[str]]:
    """The flows with a column `line`: their name, or their group's if they are many; and all lines in order."""
    few = flows.select(pl.len()).collect().item() <= PER_FLOW
    named = flows.with_columns(line=pl.col("name" if few else "group"))
    return named, named.select(pl.col("line").unique(maintain_order=True)).collect()["line"].to_list()[:SERIES]


def _delays(results: Results) -> list[Row]:
    """Latency by group: pings first, then calls, then the smoothed round trips of TCP."""
    warm = results.summary["warmup_s"]
    flows = results.flows.select("flow", "group", "kind")
    sources = (
        ("pings", "sent_s", pl.col("rtt_ms"), "round trips of pings"),
        ("datagrams", "sent_s", 1e3 * (pl.col("received_s") - pl.col("sent_s")), "one way, of datagrams"),
        ("flow_series", "time_s", pl.col("srtt_ms"), "smoothed round trip of TCP"),
    )
    rows = []
    for table, time, value, what in sources:
        found = (
            results[table]
            .filter(pl.col(time) >= warm)
            .with_columns(y=value)
            .drop_nulls("y")
            .join(flows, on="flow", maintain_order="left")
            .group_by("group", maintain_order=True)
            .agg(
                p50=pl.col("y").quantile(0.5),
                p95=pl.col("y").quantile(0.95),
                least=pl.col("y").min(),
            )
            .collect()
        )
        rows += [{"name": row["group"], "what": what, **row} for row in found.to_dicts()]
    return rows


def _latency(results: Results) -> Plot | None:
    host = _host_of(results)
    lines: list[Series] = []
    for table, time, value, what in (
        ("pings", "sent_s", pl.col("rtt_ms"), "pings"),
        ("datagrams", "sent_s", 1e3 * (pl.col("received_s") - pl.col("sent_s")), "datagrams"),
        ("flow_series", "time_s", pl.col("srtt_ms"), "TCP"),
    ):
        there = results[table].select(pl.col("flow").unique()).collect()["flow"].implode()
        named, order = _named(results, results.flows.filter(pl.col("flow").is_in(there)))
        samples = results[table].join(named.select("flow", "line"), on="flow", maintain_order="left")
        series = _lines(_binned(samples, results, "line", value, time), "line", order, host)
        if what != "TCP" or not lines:
            lines += series
    caption = f"Means over {_bin_s(results):.3g} s. Pings: round trip. Datagrams: one way. TCP: smoothed round trip."
    return _over_time("latency", "Latency", "delay", "ms", lines[:SERIES], caption)


def _goodput(results: Results) -> Plot | None:
    host = _host_of(results)
    recorded = results.flow_series.select(pl.col("flow").unique()).collect()["flow"].implode()
    flows, order = _named(results, results.flows.filter(pl.col("flow").is_in(recorded)))
    width = _bin_s(results)
    bits = (
        results.flow_series.join(flows.select("flow", "line"), on="flow", maintain_order="left")
        .sort("flow", "time_s")
        .with_columns(new=pl.col("bytes_acked").cast(pl.Int64).diff().over("flow").fill_null(pl.col("bytes_acked")))
        .with_columns(at=((pl.col("time_s") / width).ceil() - 0.5) * width)
        .group_by("line", "at")
        .agg(y=pl.col("new").clip(lower_bound=0).sum() * 8e-6 / width)
        .sort("line", "at")
        .collect()
    )
    tcp = results.flows.filter(pl.col("kind") == "tcp").select(pl.len()).collect().item()
    n = flows.select(pl.len()).collect().item()
    part = "" if n == tcp else f" Of {tcp} TCP flows {n} were recorded."
    caption = f"Payload acknowledged, over {width:.3g} s.{part}"
    return _over_time("goodput", "Goodput of TCP", "goodput", "Mbit/s", _lines(bits, "line", order, host), caption)


def _windows(results: Results) -> Plot | None:
    host = _host_of(results)
    recorded = results.flow_series.select(pl.col("flow").unique()).collect()["flow"].implode()
    flows, order = _named(results, results.flows.filter(pl.col("flow").is_in(recorded)))
    samples = results.flow_series.join(flows.select("flow", "line"), on="flow", maintain_order="left")
    lines = _lines(_binned(samples, results, "line", pl.col("cwnd_segments")), "line", order, host)
    caption = "Mean of the flows of a line."
    return _over_time("cwnd", "Congestion window", "window", "segments", lines, caption)


def _queues(results: Results) -> list[Plot]:
    host = _host_of(results)
    recorded = results.link_series.select(pl.col("link").unique()).collect()["link"].implode()
    rows = results.links.filter(pl.col("link").is_in(recorded)).collect().to_dicts()
    order = [row["name"] for row in show.by_waiting(rows) if row["queue_max_packets"]][:SERIES]
    names = results.links.select("link", line="name").filter(pl.col("line").is_in(order))
    width = _bin_s(results)
    per_s = (
        results.link_series.join(names, on="link", maintain_order="left")
        .with_columns(at=((pl.col("time_s") / width).ceil() - 0.5) * width)
        .group_by("line", "at")
        .agg(
            queue=pl.col("queue_mean_packets").mean(),
            forwarded=pl.col("forwarded_packets").sum(),
        )
        .sort("line", "at")
        .collect()
    )
    # Little's law: packets that wait are the rate of packets times their wait.
    waits = per_s.filter(pl.col("forwarded") > 0).with_columns(y=1e3 * pl.col("queue") / (pl.col("forwarded") / width))
    left = len([row for row in rows if row["queue_max_packets"]]) - len(order)
    more = f" {left} links with shorter queues are left out." if left > 0 else ""
    plots = (
        _over_time(
            "waiting",
            "Waiting in queues",
            "wait of a packet",
            "ms",
            _lines(waits, "line", order, host),
            f"Mean wait of the packets sent in {width:.3g} s (Little's law).{more}",
        ),
        _over_time(
            "queue",
            "Packets waiting",
            "queue",
            "packets",
            _lines(per_s.with_columns(y=pl.col("queue")), "line", order, host),
            f"Mean over {width:.3g} s.{more}",
        ),
    )
    return [plot for plot in plots if plot is not None]


def _air(results: Results) -> list[Plot]:
    if "air_series" not in results.tables or not results.summary.get("air"):
        return []
    host = _host_of(results)
    rows = results.air.sort("airtime", descending=True).collect().to_dicts()
    order = [row["name"] for row in rows if row["ppdus"]][:SERIES]
    most = sorted((row for row in rows if row["held_mean_packets"]), key=lambda row: -row["held_mean_packets"])[:SERIES]
    # The order of the other figures: of the lines of one host the first one is drawn through in all of them.
    held = [row["name"] for row in rows if row in most]
    samples = results.air_series.join(results.air.select("link", line="name"), on="link", maintain_order="left")
    left = len([row for row in rows if row["ppdus"]]) - len(order)
    more = f" {left} links that used less are left out." if left > 0 else ""
    found = []
    for name, title, label, unit, value, lines_of in (
        ("held", "Packets waiting for the air", "held by the sender", "packets", pl.col("held_mean_packets"), held),
        ("airtime", "Who used the air", "airtime", "%", 100 * pl.col("airtime"), order),
        ("mac-rate", "Data rate on the air", "rate", "Mbit/s", 1e-6 * pl.col("mac_rate_mean_bps"), order),
        ("errors", "MPDUs that were not acknowledged", "part", "%", 100 * pl.col("mpdu_error_rate"), order),
    ):
        lines = _lines(_binned(samples, results, "line", value), "line", lines_of, host)
        found.append(_over_time(name, title, label, unit, lines, f"Means over {_bin_s(results):.3g} s.{more}"))
    return [plot for plot in found if plot is not None]
