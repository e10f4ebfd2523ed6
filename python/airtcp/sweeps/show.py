"""A sweep as a table in the terminal."""

from __future__ import annotations

import polars as pl
from rich import box
from rich.table import Table

from airtcp.sweeps.results import SweepResults


def overview(results: SweepResults, most: int) -> list[Table | str]:
    """Each point with the means of its measures over the seeds; at most so many rows."""
    manifest = results.manifest
    keys = [*(["variant"] if manifest["variants"] else []), *manifest["varied"]]
    measures = {name: m for name, m in manifest["measures"].items() if name in results.runs.columns}
    numbers = [name for name in measures if results.runs.schema[name].is_numeric()]
    finished = results.runs.filter(pl.col("status") == "ok")
    if not numbers or finished.is_empty():
        return []
    means = [pl.col(name).cast(pl.Float64).mean() for name in numbers]
    rows = finished.group_by(keys, maintain_order=True).agg(*means) if keys else finished.select(means)
    seeds = len(manifest["seeds"])
    title = results.name + (f": means of {seeds} seeds" if seeds > 1 else "")
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for key in keys:
        table.add_column(key, overflow="fold")
    for name in numbers:
        table.add_column(f"{measures[name]['label'] or name}\n{measures[name]['unit']}", justify="right")
    for row in rows.head(most).iter_rows(named=True):
        table.add_row(*(_text(row[key]) for key in keys), *(_number(row[name]) for name in numbers))
    more = rows.height - most
    return [table, f"{more} more in the results"] if more > 0 else [table]


def _text(value: object) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.5g}" if abs(value) < 1e6 else f"{value:,.0f}"
