"""From a study's files to what can be run: the plan of each experiment, with every plot and finding tried out on it.

Nothing runs here. Names in findings and plots are looked up in the cells of the plan. So a misspelt variant, or a
coordinate that a quick run leaves out, is found before the first run.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from airtcp import _airtcp
from airtcp.errors import StudyError, SweepError
from airtcp.expressions import Value
from airtcp.study.files import Experiment, Study
from airtcp.study.findings import judge
from airtcp.study.matrix import PreparedMatrix, needs
from airtcp.study.plots import Drawing
from airtcp.study.samples import Array, CheckError, Data, Meaning, MeasureValues, Point, Row
from airtcp.study.soundness import examine
from airtcp.sweeps.definition import IDENTITY
from airtcp.sweeps.planning import Plan, plan
from airtcp.sweeps.results import SweepResults
from airtcp.tasks import measures as sweep_measures

Mode = Literal["quick", "full"]
MODES: Final[tuple[Mode, ...]] = ("quick", "full")


@dataclass(frozen=True)
class Prepared:
    """An experiment that is ready to run."""

    experiment: Experiment
    plan: Plan
    cells: Data
    """Cells of the plan, without results."""

    @property
    def keys(self) -> frozenset[str]:
        """Identities of the runs. Experiments may share runs."""
        return frozenset(point.key for point in self.plan.points)

    def with_results(self, results: SweepResults) -> Data:
        """The cells with the measured values."""
        at = _places(self.plan, self.cells)
        is_ok = [status == "ok" for status in results.runs["status"]]
        scalars: dict[str, Array] = {}
        rows: dict[str, dict[tuple[int, int], Iterable[Row]]] = {}
        for measure in self.cells.measures.values():
            if measure.columns is not None:
                rows[measure.name] = self._rows(measure, results, at, is_ok)
                continue
            if measure.name not in results.runs.columns:
                raise StudyError(
                    f"{self.experiment.place}: measures.{measure.name}: the query gives one row for some runs and "
                    "several for others: add a column that tells the rows apart"
                )
            values = np.full((len(self.cells.points), len(self.cells.seeds)), np.nan)
            for place, ok, value in zip(at, is_ok, results.runs[measure.name], strict=True):
                if ok and value is not None:
                    values[place] = _number(value, measure.name, self.experiment)
            scalars[measure.name] = values
        return replace(self.cells, stand_in=False, scalars=scalars, rows=rows)

    def _rows(
        self, measure: MeasureValues, results: SweepResults, at: Sequence[tuple[int, int]], is_ok: Sequence[bool]
    ) -> dict[tuple[int, int], Iterable[Row]]:
        columns = list(measure.columns or {})
        if measure.name in results.runs.columns:
            if len(columns) != 1:
                return {}  # no run has an answer yet, so that the sweep has nothing to show that it is no scalar
            # One column and never more than a row: the sweep takes it for a scalar.
            (column,) = columns
            found = results.runs[measure.name]
            return {
                place: [] if value is None else [{column: value}]
                for place, ok, value in zip(at, is_ok, found, strict=True)
                if ok
            }
        by_key = {
            str(key): part.select(columns)
            for (key,), part in results.rows(measure.name).partition_by("key", as_dict=True).items()
        }
        keys = [point.key for point in self.plan.points]
        times = Counter(keys)
        return {
            # Equal runs under several names are in the table once for each name.
            place: _Rows(by_key[key][: by_key[key].height // times[key]]) if key in by_key else ()
            for place, ok, key in zip(at, is_ok, keys, strict=True)
            if ok
        }


@dataclass(frozen=True)
class _Rows:
    """The rows of a run, made one by one: a table takes a tenth of the memory."""

    table: pl.DataFrame

    def __iter__(self) -> Iterator[Row]:
        return self.table.iter_rows(named=True)


OVERRIDE: Final = ": override "
"""In faults of `--set`, which changes every experiment alike."""


def _once(faults: Sequence[str]) -> list[str]:
    """Faults of experiments. What is wrong in several, as an override is, is told once, with the first of them."""
    alike: dict[str, list[str]] = {}
    for fault in faults:
        _, _, what = fault.partition(".toml: ")
        alike.setdefault(re.sub(r" \(at [^()]*\)$", "", what or fault), []).append(fault)
    return [
        same[0] if len(same) == 1 else f"{same[0]}; and {len(same) - 1} more experiment{'s' if len(same) > 2 else ''}"
        for same in alike.values()
    ]


def prepare(
    study: Study,
    mode: Mode,
    seeds: int | None = None,
    changes: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    kernel: str | None = None,
) -> list[Prepared]:
    """Plans the experiments of a study, and checks plots and findings against the plans.

    Args:
        study: as read.
        mode: quick or full.
        seeds: number of seeds for each point, instead of the experiments' own.
        changes: other values of parameters, or of places of the scenarios.
        progress: called before each point, plot and finding, with the number of points planned and of all of the
            experiment. An exception that it raises ends the planning.
        kernel: version or file, in place of the kernels that variants name.

    Raises:
        StudyError: a scenario, a sweep, a plot or a finding is wrong. The first fault of each experiment is reported.
    """
    out = []
    faults = []
    for experiment in study.experiments:
        try:
            out.append(prepare_experiment(experiment, mode, seeds, changes, progress, kernel))
        except StudyError as error:
            lines = str(error).splitlines()
            faults += lines if all(OVERRIDE in line for line in lines) else [str(error)]
    if faults:
        raise StudyError("\n".join(_once(faults)))
    cells = {one.experiment.id: one.cells for one in out}
    for matrix in study.matrices:
        progress(0, 0)
        try:
            PreparedMatrix(matrix, {name: cells[name] for name in needs(matrix)})
        except CheckError as error:
            raise StudyError(f"{matrix.place}: {error}") from error
    return out


def prepare_experiment(
    experiment: Experiment,
    mode: Mode,
    seeds: int | Sequence[int] | None,
    changes: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    kernel: str | None = None,
) -> Prepared:
    """Plans one experiment, and checks its plots and findings against the plan.

    Raises:
        StudyError: something in it is wrong.
    """
    try:
        planned = plan(
            experiment.sweep,
            quick=mode == "quick",
            full=mode == "full",
            seeds=seeds,
            set=changes,
            progress=progress,
            kernel=kernel,
        )
    except SweepError as error:
        raise StudyError(str(error)) from error
    return prepare_plan(experiment, planned, mode, progress)


def prepare_plan(
    experiment: Experiment,
    planned: Plan,
    mode: Mode,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Prepared:
    """Checks an experiment's plots and findings against its plan.

    Raises:
        StudyError: something in it is wrong.
    """
    if not planned.points:
        raise StudyError(f"{experiment.place}: no run is left with --{mode}: change `only` of the variants")
    cells = _cells(planned, f"--{mode}", experiment)
    for plot in experiment.plots:
        progress(0, 0)
        try:
            Drawing(plot, cells)
        except CheckError as error:
            raise StudyError(f"{plot.place}: {error}") from error
    for finding in experiment.findings:
        progress(0, 0)
        try:
            judge(finding, cells)
            examine(finding, cells)
        except CheckError as error:
            raise StudyError(f"{finding.place}: {finding.id}: {error}") from error
    return Prepared(experiment, planned, cells)


def check(
    study: Study, progress: Callable[[int, int], object] = lambda done, total: None
) -> dict[Mode, list[Prepared]]:
    """Prepares both quick and full.

    Raises:
        StudyError: something is wrong in either; nothing has run.
    """
    return {mode: prepare(study, mode, progress=progress) for mode in MODES}


def distinct_runs(prepared: Sequence[Prepared]) -> int:
    """Number of runs. Runs that experiments share count once."""
    return len(frozenset[str]().union(*(one.keys for one in prepared)))


def _identity(variant: str | None, parameters: Mapping[str, Value]) -> tuple[object, ...]:
    """The values that tell a cell from others."""
    return (variant, *((name, type(value), value) for name, value in parameters.items()))


def _cells(planned: Plan, where: str, experiment: Experiment) -> Data:
    points: dict[tuple[object, ...], Point] = {}
    alike: list[int] = []
    first: dict[tuple[str, str], int] = {}
    for at in planned.points:
        which = _identity(at.variant, at.parameters)
        if which not in points:
            points[which] = Point(at.variant, at.parameters)
            alike.append(first.setdefault((at.task.cell, repr(at.extracts)), len(alike)))
    measures = {measure.name: _measure(measure, planned) for measure in planned.measures}
    for measure in measures.values():
        for name in measure.columns or {}:
            if name in planned.parameters or name in IDENTITY:
                raise StudyError(
                    f"{experiment.place}: measures.{measure.name}: the query's column `{name}` has the name of a "
                    f"parameter or of a column of every table: rename it, as in `... AS {name}_`"
                )
    seeds = list(dict.fromkeys(at.seed for at in planned.points))
    return Data(tuple(points.values()), seeds, measures, stand_in=True, where=where, alike=alike)


def _places(planned: Plan, cells: Data) -> list[tuple[int, int]]:
    """The cell and the seed of each run of the plan."""
    points = {_identity(point.variant, point.parameters): i for i, point in enumerate(cells.points)}
    seeds = {seed: i for i, seed in enumerate(cells.seeds)}
    return [(points[_identity(at.variant, at.parameters)], seeds[at.seed]) for at in planned.points]


def _measure(measure: sweep_measures.Measure, planned: Plan) -> MeasureValues:
    meaning = _meaning(measure.column)
    if measure.kind == "value":
        return MeasureValues(measure.name, meaning)
    # A run of no time shows which columns a query gives.
    task = planned.points[0].task
    (extract,) = (one for one in task.extracts if one.name == measure.name)
    checked = _airtcp.Checked.from_json(task.scenario, "scenario", [])
    answer = sweep_measures.take([extract], _airtcp.Run(checked, None).finish(), {"links": []})[extract.id]["columns"]
    if len(answer) == 1 and [len(values) for values in answer.values()] == [1]:
        return MeasureValues(measure.name, meaning)
    return MeasureValues(
        measure.name,
        meaning,
        {name: _meaning(measure.columns[name]) if name in measure.columns else Meaning() for name in answer},
    )


def _meaning(column: sweep_measures.Column) -> Meaning:
    return Meaning(column.label, column.unit)


def _number(value: Any, name: str, experiment: Experiment) -> float:  # noqa: ANN401
    if isinstance(value, str):
        raise StudyError(f"{experiment.place}: measures.{name}: gives the text {value!r}: must give numbers")
    number = float(value)
    return number if math.isfinite(number) else math.nan
