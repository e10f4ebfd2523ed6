"""The tables of a sweep, in memory or as a folder on disk.

A folder holds, besides the journal `runs.jsonl` (`airtcp.sweeps.store`),

- `sweep.json`: what was varied and measured, labels and units, how many runs failed;
- `runs.parquet`: one row per run;
- `MEASURE.parquet`: of each measure of many rows.

They are written anew from the journal at the end of each start; their order is that of the plan, whatever finished
first.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from polars.exceptions import PanicException

from airtcp import _airtcp
from airtcp._manifest import read_manifest
from airtcp._marker import Batch, read_file
from airtcp._text import to_json
from airtcp.errors import DamagedError, ResultsError
from airtcp.expressions import nearest
from airtcp.sweeps import saved_definition
from airtcp.sweeps.planning import Plan, PlannedRun
from airtcp.sweeps.store import Store
from airtcp.tasks.measures import Column, Measure, measures_version
from airtcp.tasks.task import Outcome, missing

if TYPE_CHECKING:
    import pandas as pd

FORMAT: Final = "airtcp-sweep"
FORMAT_VERSION: Final = 2
MANIFEST: Final = "sweep.json"
RUNS: Final = "runs"
TASKS: Final = "verify/tasks.parquet"
"""Tasks that `airtcp verify` repeats."""

_TYPES: Final[dict[str, Any]] = {"Int64": pl.Int64, "Float64": pl.Float64, "String": pl.String, "Boolean": pl.Boolean}


@dataclass(frozen=True, repr=False)
class SweepResults:
    """The results of a sweep: `runs` with one row per run, and `rows(measure)` for measures of many rows."""

    manifest: Mapping[str, Any]
    """Content of `sweep.json`, see `docs/sweeps.md`."""
    runs: pl.DataFrame
    """One row per run: `variant` (if there are some), the parameters, `seed`, `key`, `status`, `error`, `wall_s`, and a
    column per scalar measure. `status` is ok, failed or, if the sweep was cut off, missing.
    """
    tables: Mapping[str, pl.DataFrame]
    """Tables of measures of many rows; see `rows`."""
    tasks: pl.DataFrame | None = None
    """Tasks that repeat each run: `table`, `key`, `scenario` and `measures` as JSON."""
    definition: Mapping[str, Any] | None = None
    """Definition that was planned, see `airtcp.sweeps.saved_definition`."""

    @classmethod
    def collect(cls, plan: Plan, store: Store) -> SweepResults:
        """Puts together what the store has of a plan."""
        found = [_of(point, store) for point in plan.points]
        identity = _identity(plan)
        runs = identity.with_columns(
            pl.Series("status", [outcome.status if outcome else "missing" for outcome in found], dtype=pl.String),
            pl.Series("error", [outcome.error if outcome else None for outcome in found], dtype=pl.String),
            pl.Series("wall_s", [outcome.wall_s if outcome else None for outcome in found], dtype=pl.Float64),
        )
        tables: dict[str, pl.DataFrame] = {}
        shapes: dict[str, dict[str, Any]] = {}
        for i, measure in enumerate(plan.measures):
            values = [
                outcome.measures.get(point.extracts[i].id) if outcome and outcome.status == "ok" else None
                for point, outcome in zip(plan.points, found, strict=True)
            ]
            if measure.kind == "value" or _is_scalar(values):
                if measure.kind == "sql":
                    values = [_single(value) for value in values]
                runs = runs.with_columns(_scaled(_series(measure.name, values), measure.column))
                shapes[measure.name] = {"rows": False, **asdict(measure.column)}
            else:
                tables[measure.name] = _long(measure, identity, values)
                columns = [c for c in tables[measure.name].columns if c not in identity.columns]
                shapes[measure.name] = {
                    "rows": True,
                    **asdict(measure.column),
                    "columns": {column: asdict(_column(measure, column)) for column in columns},
                }
        return cls(
            _manifest(plan, found, shapes), runs, tables, tasks_of(plan, shapes), saved_definition.of_sweep(plan)
        )

    def rows(self, measure: str) -> pl.DataFrame:
        """A measure of many rows: for every run its rows, with the run's variant, parameters, seed and key beside them.

        Raises:
            KeyError: there is no such measure, or it is a scalar, which `runs` has.
        """
        if measure not in self.tables:
            what = "is a scalar: see `runs`" if measure in self.manifest["measures"] else "is no measure of this sweep"
            raise KeyError(f"{measure!r} {what}{nearest(measure, self.tables)}")
        return self.tables[measure]

    def to_pandas(self, measure: str | None = None) -> pd.DataFrame:
        """`runs`, or the rows of a measure, as a pandas frame. Needs `pip install airtcp[pandas]`."""
        return (self.runs if measure is None else self.rows(measure)).to_pandas()

    @property
    def name(self) -> str:
        """Name of the sweep."""
        return str(self.manifest["name"])

    @property
    def is_complete(self) -> bool:
        """True if every run has finished, well or not."""
        return bool(self.manifest["status"] == "complete")

    @property
    def failed(self) -> pl.DataFrame:
        """The runs that failed, with their errors."""
        return self.runs.filter(pl.col("status") == "failed")

    def __repr__(self) -> str:
        counts = self.manifest["runs"]
        return f"<SweepResults {self.name!r}: {counts['ok']} of {counts['total']} runs, {counts['failed']} failed>"

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the tables and the manifest into a folder.

        Raises:
            ResultsError: it cannot be written.
        """
        path = Path(folder)
        try:
            path.mkdir(parents=True, exist_ok=True)
            with Batch(path) as batch:
                for name, table in {RUNS: self.runs, **self.tables}.items():
                    batch.add(f"{name}.parquet", parquet(table))
                # Of an earlier start, when the measure had another shape.
                batch.remove(f"{name}.parquet" for name in self.manifest["measures"] if name not in self.tables)
                if self.tasks is not None:
                    batch.add(TASKS, parquet(self.tasks))
                if self.definition is not None:
                    saved_definition.add(batch, self.definition)
                batch.add(MANIFEST, (to_json(self.manifest) + "\n").encode())
                batch.commit()
        except OSError as error:
            raise ResultsError(
                f"cannot write results to {path}: {error.strerror or error}; the runs are kept"
            ) from error

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> SweepResults:
        """Opens the folder of a sweep.

        Raises:
            ResultsError: there is none, or a newer airtcp wrote it.
        """
        path = Path(folder)
        manifest = read_manifest(path, MANIFEST, "airtcp sweep", FORMAT, FORMAT_VERSION, FORMAT_VERSION)
        try:
            names = [name for name, measure in manifest["measures"].items() if measure["rows"]]
            tables = {name: read_table(path, name) for name in names}
            return cls(manifest, read_table(path, RUNS), tables)
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedError(f"{path}: damaged result: {error}") from error


def tasks_of(plan: Plan, shapes: Mapping[str, Any], table: str = RUNS) -> pl.DataFrame:
    """The tasks that repeat each run of a plan."""
    columns: dict[str, list[str]] = {"table": [], "key": [], "scenario": [], "measures": []}
    for point in plan.points:
        measures = [
            {"name": extract.name, "kind": extract.kind, "text": extract.text, **shapes[measure.name]}
            for measure, extract in zip(plan.measures, point.extracts, strict=True)
        ]
        columns["table"].append(table)
        columns["key"].append(point.key)
        columns["scenario"].append(point.task.scenario)
        columns["measures"].append(to_json(measures, indent=None))
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def same_value(rows: pl.DataFrame, measure: Mapping[str, Any], value: Any) -> bool:  # noqa: ANN401
    """Whether the table of a measure says of a run what the run gave.

    Args:
        rows: the rows of that run.
        measure: an entry of `tasks_of`.
        value: what the run gave, as the journal has it.
    """
    name = measure["name"]
    if not measure["rows"]:
        if rows.is_empty() or name not in rows.columns:
            return False
        single = _single(value) if measure["kind"] == "sql" else value
        return all(_is_same(there, single, measure["scale"]) for there in rows[name])
    own = [column if column in rows.columns else None for column in value["columns"]]
    for column, there in zip(value["columns"], own, strict=True):
        clash = f"{name}.{column}"
        data = rows[clash if clash in rows.columns else column] if there or clash in rows.columns else None
        values = value["columns"][column]
        if data is None or data.len() != len(values):
            return False
        scale = measure["columns"].get(column, {}).get("scale", 1)
        if not all(_is_same(a, b, scale) for a, b in zip(data, values, strict=True)):
            return False
    return True


def _is_same(there: object, value: object, scale: float) -> bool:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and isinstance(there, (int, float)):
        return there == (value if scale == 1 else value * scale)
    return there == value or (isinstance(there, str) and there == to_json(value))


def parquet(table: pl.DataFrame) -> bytes:
    """A table as Parquet."""
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", compression_level=3)
    return buffer.getvalue()


def read_table(folder: Path, name: str) -> pl.DataFrame:
    """A table of a folder, as it was written.

    Raises:
        DamagedError: it cannot be read, or is damaged.
    """
    try:
        return pl.read_parquet(read_file(folder, f"{name}.parquet", None))
    except (OSError, pl.exceptions.PolarsError, PanicException) as error:
        raise DamagedError(f"{folder / name}.parquet: damaged result: {error}") from error


def _of(point: PlannedRun, store: Store) -> Outcome | None:
    outcome = store.get(point.key)
    if outcome is not None and outcome.status == "ok" and missing(point.extracts, outcome.measures):
        return None
    return outcome


def _identity(plan: Plan) -> pl.DataFrame:
    """Variant, parameters, seed and key of each run."""
    columns: list[pl.Series] = []
    if plan.variants:
        columns.append(pl.Series("variant", [point.variant for point in plan.points], dtype=pl.String))
    for name in plan.parameters:
        columns.append(_series(name, [point.parameters.get(name) for point in plan.points]))
    columns.append(pl.Series("seed", [point.seed for point in plan.points], dtype=pl.Int64))
    columns.append(pl.Series("key", [point.key for point in plan.points], dtype=pl.String))
    return pl.DataFrame(columns)


def _series(name: str, values: Sequence[Any]) -> pl.Series:
    """A column of the one type that holds all values; numbers beside text become text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int} and kinds:
        return pl.Series(name, values, dtype=pl.Int64)
    if kinds <= {int, float}:
        return pl.Series(name, [None if v is None else float(v) for v in values], dtype=pl.Float64)
    if kinds == {bool}:
        return pl.Series(name, values, dtype=pl.Boolean)
    return pl.Series(
        name, [None if v is None else v if isinstance(v, str) else to_json(v) for v in values], dtype=pl.String
    )


def _scaled(series: pl.Series, column: Column) -> pl.Series:
    return series if column.scale == 1 or not series.dtype.is_numeric() else series * column.scale


def _is_scalar(values: Sequence[Any]) -> bool:
    """One column, and never more than one row. A query without a row for some run has no value there."""
    answers = [value for value in values if value is not None]
    return all(len(a["columns"]) == 1 and len(next(iter(a["columns"].values()))) <= 1 for a in answers)


def _single(answer: Mapping[str, Any] | None) -> object:
    if answer is None:
        return None
    (column,) = answer["columns"].values()
    return column[0] if column else None


def _column(measure: Measure, name: str) -> Column:
    return measure.columns.get(name, Column())


def _long(measure: Measure, identity: pl.DataFrame, answers: Sequence[Mapping[str, Any] | None]) -> pl.DataFrame:
    types: dict[str, str] = {}
    for answer in answers:
        for name, kind in (answer or {"types": {}})["types"].items():
            # A column that is empty in one run and whole numbers in another.
            types[name] = (
                kind
                if types.get(name, kind) == kind
                else "Float64"
                if "String" not in (kind, types[name])
                else "String"
            )
    clash = [name for name in types if name in identity.columns]
    rename = {name: f"{measure.name}.{name}" for name in clash}
    index: list[int] = []
    data: dict[str, list[Any]] = {name: [] for name in types}
    for i, answer in enumerate(answers):
        if answer is None:
            continue
        height = len(next(iter(answer["columns"].values())))
        index.extend([i] * height)
        for name, column in data.items():
            column.extend(answer["columns"].get(name, [None] * height))
    columns = [
        _scaled(pl.Series(name, values, dtype=_TYPES[types[name]], strict=False), _column(measure, name)).alias(
            rename.get(name, name)
        )
        for name, values in data.items()
    ]
    return pl.DataFrame([*identity[index].get_columns(), *columns])


def _manifest(plan: Plan, found: Sequence[Outcome | None], shapes: Mapping[str, Any]) -> dict[str, Any]:
    sweep = plan.sweep
    ok = sum(outcome is not None and outcome.status == "ok" for outcome in found)
    failed = sum(outcome is not None and outcome.status == "failed" for outcome in found)
    values: dict[str, list[Any]] = {name: [] for name in plan.parameters}
    for point in plan.points:
        for name, value in point.parameters.items():
            if value not in values[name]:
                values[name].append(value)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "name": sweep.name,
        "description": sweep.description,
        "airtcp_version": _airtcp.__version__,
        "engine": _airtcp.engine(),
        "polars_version": pl.__version__,
        "measures_version": measures_version(),
        "status": "complete" if ok + failed == len(found) else "interrupted",
        "runs": {"total": len(found), "ok": ok, "failed": failed},
        "mode": sweep.mode,
        "variants": list(plan.variants),
        "parameters": values,
        "varied": list(plan.varied),
        "seeds": list(sweep.seed_list),
        "measures": dict(shapes),
    }
