"""Turns a sweep's folder into a report: a plot of each scalar measure, and no findings."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, Final

import polars as pl

from airtcp import stats
from airtcp.report.model import Axis, Experiment, Failed, Plot, Series, Study
from airtcp.sweeps.results import SweepResults

MAX_SERIES: Final = 12
MAX_PANELS: Final = 12
"""Most plots of one measure. The tables have all values."""

Row = dict[str, Any]


def read(folder: Path) -> Study:
    """The results in the folder of a sweep.

    The x axis is the first varied parameter with numbers. The variants and the second varied parameter are the series;
    each value of further parameters has its own plot. In a random sweep every run is a dot. In a list, the parameters
    change together.

    Raises:
            ResultsError: it cannot be read.
    """
    results = SweepResults.load(folder)
    manifest = results.manifest
    x, series, panels = _roles(results)
    done = results.runs.filter(pl.col("status") == "ok")
    plots: list[Plot] = []
    dropped = 0
    for name, measure in manifest["measures"].items():
        if measure["rows"] or not done.schema.get(name, pl.String()).is_numeric():
            continue
        drawn, left_out = _plots(results, done, name, x, series, panels)
        plots += drawn
        dropped += left_out
    text = [str(manifest["description"] or "")]
    if dropped:
        text.append(f"{dropped} more combinations are in `runs.parquet`.")
    tables = [name for name, measure in manifest["measures"].items() if measure["rows"]]
    if tables:
        text.append(f"Measures of many rows are in {', '.join(f'`{name}.parquet`' for name in tables)}.")
    counts = manifest["runs"]
    return Study(
        study=results.name,
        title=results.name,
        kind="sweep",
        question=None,
        mode=manifest["mode"],
        seeds=manifest["seeds"],
        runs=counts["total"],
        finished=counts["ok"] + counts["failed"],
        airtcp_version=manifest["airtcp_version"],
        engine=manifest["engine"],
        wall_s=None,
        status=manifest["status"],
        failed=[
            Failed(what=_at(row, results), error=row["error"] or "") for row in results.failed.iter_rows(named=True)
        ],
        command=None,
        experiments=[
            Experiment(
                id=results.name,
                title=_varied(results),
                text="\n\n".join(part for part in text if part) or None,
                runs=counts["total"],
                seeds=manifest["seeds"],
                plots=plots,
            )
        ],
    )


def _roles(results: SweepResults) -> tuple[str | None, list[str], list[str]]:
    """The parameter of the x axis, those of the series, and those with separate plots."""
    varied: list[str] = list(results.manifest["varied"])
    variants = ["variant"] if results.manifest["variants"] else []
    numbers = [name for name in varied if results.runs.schema[name].is_numeric()]
    x = next(iter(numbers), next(iter(varied), None))
    if x is None:
        return ("variant" if variants else None), [], []
    if results.manifest["mode"] != "grid":
        return x, variants, []
    rest = [name for name in varied if name != x]
    return x, [*variants, *rest[:1]], rest[1:]


def _plots(
    results: SweepResults, done: pl.DataFrame, name: str, x: str | None, series: list[str], panels: list[str]
) -> tuple[list[Plot], int]:
    measure = results.manifest["measures"][name]
    combinations = list(product(*(results.manifest["parameters"][panel] for panel in panels)))
    plots = []
    for i, values in enumerate(combinations[:MAX_PANELS]):
        rows = done
        for panel, value in zip(panels, values, strict=True):
            rows = rows.filter(pl.col(panel) == value)
        where = ", ".join(f"{panel} = {_text(value)}" for panel, value in zip(panels, values, strict=True))
        label = measure.get("label") or name
        is_cloud = results.manifest["mode"] == "random"
        xs = [value for value in rows[x].to_list() if value is not None] if x is not None else []
        is_number = bool(xs) and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in xs)
        plots.append(
            Plot(
                id=f"{name}-{i + 1}" if len(combinations) > 1 else name,
                title=f"{label} over {x or 'all runs'}" + (f", {where}" if where else ""),
                kind="bar" if not is_number else "scatter" if is_cloud else "line",
                x=Axis(label=x or "runs", scale="log" if is_number and _spans_decades(xs) else "linear"),
                y=Axis(label=label, unit=measure.get("unit") or None),
                series=_series(rows, name, x, series, is_cloud=is_cloud and is_number)[:MAX_SERIES],
            )
        )
    return plots, len(combinations) - len(plots)


def _spans_decades(values: list[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) >= 50


def _series(rows: pl.DataFrame, name: str, x: str | None, by: list[str], *, is_cloud: bool) -> list[Series]:
    curves: dict[str, dict[Any, list[float]]] = {}
    for row in rows.iter_rows(named=True):
        if row[name] is None:
            continue
        label = ", ".join(str(row[b]) if b == "variant" else f"{b} = {_text(row[b])}" for b in by) or name
        curves.setdefault(label, {}).setdefault(row[x] if x is not None else "all", []).append(float(row[name]))
    out = []
    for label, points in curves.items():
        if is_cloud:
            pairs = [(value, y) for value, ys in points.items() for y in ys]
            out.append(Series(name=label, x=[value for value, _ in pairs], y=[y for _, y in pairs]))
            continue
        xs = list(points)
        if all(isinstance(value, (int, float)) for value in xs):
            xs.sort()
        means = [stats.mean(points[value]) for value in xs]
        out.append(
            Series(
                name=label,
                x=xs,
                y=[mean.value for mean in means],
                lo=[mean.low for mean in means],
                hi=[mean.high for mean in means],
                n=[mean.count for mean in means],
            )
        )
    return out


def _varied(results: SweepResults) -> str:
    names = [*(["variant"] if results.manifest["variants"] else []), *results.manifest["varied"]]
    return f"Varied: {', '.join(names)}" if names else "Repeated runs"


def _at(row: Row, results: SweepResults) -> str:
    names = [*(["variant"] if results.manifest["variants"] else []), *results.manifest["varied"], "seed"]
    return ", ".join(f"{name} = {_text(row[name])}" for name in names if row[name] is not None)


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
