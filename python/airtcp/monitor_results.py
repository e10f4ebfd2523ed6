"""What `airtcp host monitor` has measured, as the results of a run: `plot`, `compare` and `report` read both."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import polars as pl

from airtcp import _files
from airtcp.errors import DamagedError, ResultsError
from airtcp.results import Results, host

MANIFEST: Final = "monitor.json"
FORMAT: Final = "airtcp-monitor"
FORMAT_VERSION: Final = 1
MOST_LINES: Final = 40
"""With more connections those to one service are one group."""
LEAST_STEP_S: Final = 0.01
MOST_ROWS: Final = 2000
"""Rows of a connection over time at most: a measurement has as many as there were ACKs."""

Json = dict[str, Any]


def is_measured(folder: Path) -> bool:
    """Holds the tables of a monitor."""
    return (folder / MANIFEST).is_file()


def load(folder: Path) -> Results:
    """The tables of a monitor with the names and columns of a run. What the kernel does not tell is missing or 0.

    Raises:
        ResultsError: they cannot be read.
    """
    about = _about(folder)
    try:
        flows = _table(folder, "flows")
        series = _table(folder, "flow_series")
        events = _table(folder, "events")
        found = _flows(flows, series)
    except OSError as error:
        raise ResultsError(f"{error.filename or folder}: {error.strerror or error}") from error
    except (pl.exceptions.PolarsError, ValueError, TypeError) as error:
        raise DamagedError(f"{folder}: damaged: not what `airtcp host monitor` writes: {error}") from error
    end = max([0.0, *flows["end_s"].to_list()])
    empty = _empty()
    tables = {name: frame.collect().clear().lazy() for name, frame in empty.items()}
    tables["flows"] = _as(empty["flows"], found).lazy()
    tables["flow_series"] = _as(empty["flow_series"], _steps(series, end, found)).lazy()
    sent_again = events.filter(pl.col("event") == "retransmission").select("time_s", "flow", "cwnd_segments")
    tables["retransmissions"] = _as(empty["retransmissions"], sent_again).lazy()
    started = datetime.fromtimestamp(about["end_unix_ns"] / 1e9, UTC) - timedelta(seconds=end)
    manifest = {
        **empty.manifest,
        "name": folder.name,
        "duration_s": end,
        "simulated_s": end,
        "measured": True,
        "engine": f"Linux {about['kernel']}, measured by {about['source']}",
        "host": {**host(), "system": f"Linux {about['kernel']}"},
        "timing": {"started": started.isoformat(timespec="seconds"), "wall_s": end, "events": about["events"]},
    }
    description = f"Measured by `airtcp host monitor` ({about['source']}); {about['lost']} events were lost."
    manifest["scenario"] = {**manifest["scenario"], "name": folder.name, "description": description}
    summary = {
        **empty.summary,
        "name": folder.name,
        "duration_s": end,
        "end_s": end,
        "warmup_s": 0.0,
        "groups": _groups(found, empty.summary["groups"][0]),
        "links": [],
    }
    return Results(manifest, summary, tables, folder)


def _about(folder: Path) -> Json:
    file = folder / MANIFEST
    try:
        about = json.loads(_files.read_bytes(_files.within(folder, folder, MANIFEST)))
        if about["format"] != FORMAT or not 1 <= int(about["format_version"]) <= FORMAT_VERSION:
            raise ResultsError(f"{file}: format {about['format']!r} {about['format_version']}: must be {FORMAT!r} 1")
        datetime.fromtimestamp(about["end_unix_ns"] / 1e9, UTC)
        return {key: about[key] for key in ("source", "kernel", "events", "lost", "end_unix_ns")}
    except OSError as error:
        raise ResultsError(f"{file}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DamagedError(f"{file}: damaged: not what `airtcp host monitor` writes: {error!r}") from error


def _table(folder: Path, name: str) -> pl.DataFrame:
    data = _files.read_bytes(_files.within(folder, folder, f"{name}.csv"), None)
    return pl.read_csv(data, infer_schema_length=None)


def _empty() -> Results:
    """A run of nothing: all tables and keys that a run has."""
    from airtcp.runner import run
    from airtcp.scenario import Flow, Link, Node, Scenario

    nodes = [Node(name="here", kind="host"), Node(name="there", kind="host")]
    link = Link(from_="here", to="there", rate="1Gbit/s", delay="1ms")
    flow = Flow(name="tcp", from_="here", to="there")
    return run(Scenario(name="measured", duration="1ms", nodes=nodes, links=[link], flows=[flow]))


def _as(like: pl.LazyFrame, frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of a table of a run: those that were measured, the others empty; numbers that count are 0."""
    schema = like.collect_schema()
    columns = []
    for name, dtype in schema.items():
        if name in frame.columns:
            columns.append(pl.col(name).cast(dtype, strict=False))
        elif dtype.is_unsigned_integer():
            columns.append(pl.lit(0, dtype).alias(name))
        else:
            columns.append(pl.lit(None, dtype).alias(name))
    return frame.select(columns) if frame.height else pl.DataFrame(schema=schema)


def _flows(flows: pl.DataFrame, series: pl.DataFrame) -> pl.DataFrame:
    """Connections that have sent, with what the rows over time tell."""
    means = series.group_by("flow").agg(
        cwnd_mean_segments=pl.col("cwnd_segments").mean(),
        srtt_mean_ms=pl.col("srtt_ms").mean(),
        segments_sent=pl.col("segments_sent").max(),
        first_s=pl.col("time_s").min(),
        last_s=pl.col("time_s").max(),
    )
    source = pl.format("{}:{}", "source", "source_port")
    destination = pl.format("{}:{}", "destination", "destination_port")
    # The service has the lower port.
    service = pl.when(pl.col("source_port").is_between(1, pl.col("destination_port") - 1)).then(source)
    span = pl.max_horizontal(pl.col("last_s") - pl.col("first_s"), pl.lit(1e-9))
    rate = pl.col("bytes_acked") * 8.0 / span
    name = pl.format("{} to {}", source, destination)
    found = flows.join(means, on="flow", maintain_order="left").sort("flow")
    few = found.height <= MOST_LINES
    return found.with_columns(
        name=name,
        group=name if few else service.otherwise(destination),
        kind=pl.lit("tcp"),
        stop_s=pl.col("end_s"),
        goodput_bps=rate,
        delivered_bps=rate,
        retransmission_ratio=pl.col("segments_retransmitted") / pl.col("segments_sent").clip(lower_bound=1),
    )


def _steps(series: pl.DataFrame, end: float, flows: pl.DataFrame) -> pl.DataFrame:
    """Rows at common times, as a run has them: each is the last that was seen by then."""
    step = max(LEAST_STEP_S, end / MOST_ROWS)
    series = series.filter(pl.col("flow").is_in(flows["flow"].implode())).sort("time_s")
    if series.is_empty():
        return series
    times = pl.DataFrame({"time_s": [n * step for n in range(1, math.ceil(end / step) + 1)]})
    alive = series.group_by("flow").agg(begin=pl.col("time_s").min(), last=pl.col("time_s").max())
    grid = times.join(alive, how="cross", maintain_order="left").filter(
        pl.col("time_s").is_between("begin", pl.col("last") + step)
    )
    grid = grid.select("time_s", "flow").sort("time_s")
    return grid.join_asof(series, on="time_s", by="flow", check_sortedness=False).sort("time_s", "flow")


def _groups(flows: pl.DataFrame, like: Json) -> list[Json]:
    """Summaries of the groups, with the keys of a run's."""
    groups = []
    for (group,), rows in flows.group_by(["group"], maintain_order=True):
        goodput = rows["goodput_bps"]
        squares = float((goodput**2).sum())
        sent, again = int(rows["segments_sent"].sum()), int(rows["segments_retransmitted"].sum())
        numbers = {key: None if value is None or isinstance(value, float) else 0 for key, value in like.items()}
        groups.append(
            {
                **numbers,
                "group": group,
                "kind": "tcp",
                "cc": None,
                "flow_count": rows.height,
                "goodput_bps": float(goodput.sum()),
                "delivered_bps": float(goodput.sum()),
                "jain": float(goodput.sum()) ** 2 / (rows.height * squares) if squares > 0 else None,
                "segments_sent": sent,
                "segments_retransmitted": again,
                "retransmission_ratio": again / max(sent, 1),
                "cwnd_mean_segments": rows["cwnd_mean_segments"].mean(),
                "srtt_mean_ms": rows["srtt_mean_ms"].mean(),
                "flows": [],
            }
        )
    return groups


__all__ = ["is_measured", "load"]
