"""From a study's files to what can be run: the plan of each experiment, with every plot and finding tried out on it.

Nothing runs here. What a finding or a plot names is looked up in the cells that the plan has, so that a misspelt arm, or a
coordinate that a quick run leaves out, is found before the first run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from airtcp import _airtcp
from airtcp.errors import StudyError, SweepError
from airtcp.study.findings import judge
from airtcp.study.format import Experiment, Study
from airtcp.study.plots import Drawing
from airtcp.study.samples import CheckError, Data, Meaning, Measure, Point
from airtcp.sweeps import measures as sweep_measures
from airtcp.sweeps.planning import Plan, plan

Mode = Literal["quick", "full"]
MODES: Final[tuple[Mode, ...]] = ("quick", "full")


@dataclass(frozen=True)
class Prepared:
    """An experiment that is ready to run."""

    experiment: Experiment
    plan: Plan
    cells: Data
    """Its cells, without results."""

    @property
    def keys(self) -> frozenset[str]:
        """Identities of its runs. Experiments may share some."""
        return frozenset(point.key for point in self.plan.points)


def prepare(study: Study, mode: Mode, seeds: int | None = None) -> list[Prepared]:
    """Plans the experiments of a study, and checks plots and findings against the plans.

    Args:
        study: as read.
        mode: quick or full.
        seeds: how many, instead of those of the experiments.

    Raises:
        StudyError: a scenario, a sweep, a plot or a finding is wrong. The first fault of each experiment is reported.
    """
    out = []
    faults = []
    for experiment in study.experiments:
        try:
            out.append(_prepared(experiment, mode, seeds))
        except StudyError as error:
            faults.append(str(error))
    if faults:
        raise StudyError("\n".join(faults))
    return out


def _prepared(experiment: Experiment, mode: Mode, seeds: int | None) -> Prepared:
    try:
        planned = plan(experiment.sweep, quick=mode == "quick", full=mode == "full", seeds=seeds)
    except SweepError as error:
        raise StudyError(str(error)) from error
    if not planned.points:
        raise StudyError(f"{experiment.place}: no run is left with --{mode}: see `only` of the arms")
    cells = cells_of(planned, f"--{mode}")
    for plot in experiment.plots:
        try:
            Drawing(plot, cells)
        except CheckError as error:
            raise StudyError(f"{plot.place}: {error}") from error
    for finding in experiment.findings:
        try:
            judge(finding, cells)
        except CheckError as error:
            raise StudyError(f"{finding.place}: {finding.id}: {error}") from error
    return Prepared(experiment, planned, cells)


def check(study: Study) -> dict[Mode, list[Prepared]]:
    """Both quick and full.

    Raises:
        StudyError: something is wrong in either; nothing has run.
    """
    return {mode: prepare(study, mode) for mode in MODES}


def distinct_runs(prepared: Sequence[Prepared]) -> int:
    """How many runs there are; what experiments share counts once."""
    return len(frozenset().union(*(one.keys for one in prepared)))


def cells_of(planned: Plan, where: str) -> Data:
    """The cells of a plan, without results."""
    points: dict[tuple[object, ...], Point] = {}
    for at in planned.points:
        point = Point(at.arm, at.parameters)
        points.setdefault(identity(point), point)
    seeds = list(dict.fromkeys(at.seed for at in planned.points))
    return Data(
        tuple(points.values()),
        seeds,
        {measure.name: _measure(measure, planned) for measure in planned.measures},
        stand_in=True,
        where=where,
    )


def identity(point: Point) -> tuple[object, ...]:
    """What tells a cell from others."""
    return (point.arm, *((name, type(value), value) for name, value in point.parameters.items()))


def _measure(measure: sweep_measures.Measure, planned: Plan) -> Measure:
    meaning = _meaning(measure.column)
    if measure.kind == "value":
        return Measure(measure.name, meaning)
    # The columns that a query gives are those it gives for a run of no time.
    task = planned.points[0].task
    (extract,) = (one for one in task.extracts if one.name == measure.name)
    checked = _airtcp.Checked.from_json(task.scenario, "scenario", [])
    answer = sweep_measures.take([extract], _airtcp.Run(checked, None).finish(), {"links": []})[extract.id]["columns"]
    if len(answer) == 1 and [len(values) for values in answer.values()] == [1]:
        (column,) = answer
        return Measure(measure.name, _meaning(measure.columns[column]) if column in measure.columns else meaning)
    return Measure(
        measure.name,
        meaning,
        {name: _meaning(measure.columns[name]) if name in measure.columns else Meaning() for name in answer},
    )


def _meaning(column: sweep_measures.Column) -> Meaning:
    return Meaning(column.label, column.unit, column.scale)


def with_results(cells: Data, **results: object) -> Data:
    """The same cells after the runs."""
    return replace(cells, stand_in=False, **results)  # type: ignore[arg-type]
