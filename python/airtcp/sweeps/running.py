"""Carries out plans: what is not in the store yet runs, and every finished run is kept at once."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airtcp.executors import executor_of
from airtcp.sweeps.definition import Sweep
from airtcp.sweeps.planning import Plan, plan
from airtcp.sweeps.store import Store
from airtcp.tasks.task import Task, missing

if TYPE_CHECKING:
    from airtcp.sweeps.results import SweepResults


@dataclass(frozen=True)
class Progress:
    """Progress of the runs. Equal runs of several plans count once."""

    total: int
    """Runs in all."""
    already: int
    """Runs that were finished before this start."""
    done: int
    """Finished, those before included."""
    failed: int
    """Runs that failed."""
    elapsed_s: float
    eta_s: float | None
    """Time that is left, as far as can be told; `None`: nothing has finished yet."""


@dataclass
class _Schedule:
    """Which run comes next, and how long all of them will take.

    First one run of each point, then the next seed of each: what is there early covers the whole sweep, and tells how
    long the other seeds will take. Those come longest first, so that no long one is left for a single core at the end.
    """

    rounds: deque[list[Task]]
    slots: int
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time of a run by its cell."""
    rate: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Wall and simulated seconds of the runs seen so far."""
    cells: dict[str, Task] = field(default_factory=dict)
    begun: dict[str, tuple[Task, float]] = field(default_factory=dict)
    """Under way, with the time at which they began."""

    @classmethod
    def of(cls, tasks: Sequence[Task], slots: int) -> _Schedule:
        rounds: list[list[Task]] = []
        seen: dict[str, int] = {}
        for task in tasks:
            turn = seen[task.cell] = seen.get(task.cell, -1) + 1
            if turn == len(rounds):
                rounds.append([])
            rounds[turn].append(task)
        # Taken from the end.
        return cls(deque(turn[::-1] for turn in rounds), slots)

    def next(self) -> Task | None:
        while self.rounds and not self.rounds[0]:
            self.rounds.popleft()
            if self.rounds:
                self.rounds[0].sort(key=lambda task: self.expected(task) or 0.0)
        if not self.rounds:
            return None
        task = self.rounds[0].pop()
        self.begun[task.key] = (task, time.monotonic())
        return task

    def learn(self, task: Task, wall_s: float) -> None:
        self.seconds[task.cell] = wall_s
        self.rate[0] += wall_s
        self.rate[1] += task.simulated_s

    def expected(self, task: Task) -> float | None:
        """Wall time of a run: of another seed of it, or by its simulated time."""
        if task.cell in self.seconds:
            return self.seconds[task.cell]
        return self.rate[0] / self.rate[1] * task.simulated_s if self.rate[1] else None

    def eta_s(self) -> float | None:
        if not self.rate[1]:
            return None
        left = sum(self.expected(task) or 0.0 for turn in tuple(self.rounds) for task in tuple(turn))
        now = time.monotonic()
        under_way = []
        for i, (task, at) in enumerate(tuple(self.begun.values())):
            # A cluster is given more than it can run at a time; what it has had longest is under way.
            gone = now - at if i < self.slots else 0.0
            under_way.append(max((self.expected(task) or 0.0) - gone, 0.0))
        return max((left + sum(under_way)) / self.slots, max(under_way, default=0.0))


def execute(
    plans: Sequence[Plan],
    store: Store,
    executor: object = None,
    progress: Callable[[Progress], object] | None = None,
    *,
    jobs: int | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    memory_limit: int | None = None,
    retry_died: bool = False,
) -> list[SweepResults]:
    """Carries out the runs of all plans that the store does not have; equal runs of several plans once.

    Runs that failed before are tried again, and so are runs whose record lacks a measure. A run that died, for lack of
    memory or in a crash, would do so again: it is tried again only if asked for.

    Args:
        plans: of `airtcp.sweeps.planning.plan`.
        store: where finished runs are, and go.
        executor: see `airtcp.executors.executor_of`; by default worker processes of this machine.
        progress: called several times a second.
        jobs: runs at a time on this machine; by default one per core.
        is_stopped: asked several times a second; when it says so, what is under way is given up and everything that was
            finished is in the results.
        memory_limit: bytes that a run may take on this machine.
        retry_died: try runs again that died.

    Returns:
        The results of each plan, in their order. They are the same for any executor and any order of finishing.

    Raises:
        ExecutorError: there is no such executor, or it breaks down.
        ResultsError: the store cannot be written.
    """
    from airtcp.sweeps.results import SweepResults

    tasks = _union(plans)
    todo = []
    failed = 0
    for task in tasks.values():
        before = store.get(task.key)
        if before is not None and before.end is not None and not retry_died:
            failed += 1
        elif before is None or before.status != "ok" or missing(task.extracts, before.measures):
            todo.append(task)
    already = len(tasks) - len(todo)
    if todo:
        runner = executor_of(executor, jobs, memory_limit)
        schedule = _Schedule.of(todo, runner.slots)
        for task in tasks.values():
            before = store.get(task.key)
            if before is not None and before.status == "ok":
                schedule.learn(task, before.wall_s)
        begin = time.monotonic()
        done = already

        def tell() -> None:
            if progress is not None:
                gone = time.monotonic() - begin
                progress(Progress(len(tasks), already, done, failed, gone, schedule.eta_s()))

        tell()
        outcomes = runner.run(schedule.next, is_stopped)
        try:
            for batch in outcomes:
                store.add(batch)
                for outcome in batch:
                    done += 1
                    failed += outcome.status != "ok"
                    schedule.begun.pop(outcome.key, None)
                    if outcome.status == "ok":
                        schedule.learn(tasks[outcome.key], outcome.wall_s)
                tell()
        finally:
            close = getattr(outcomes, "close", None)
            if close is not None:
                close()
    return [SweepResults.collect(one, store) for one in plans]


def _union(plans: Sequence[Plan]) -> dict[str, Task]:
    """The tasks of all plans by their keys; what is wanted of equal runs is taken together."""
    tasks: dict[str, Task] = {}
    for one in plans:
        for point in one.points:
            task = tasks.get(point.key)
            if task is None:
                tasks[point.key] = point.task
            elif new := [extract for extract in point.extracts if extract not in task.extracts]:
                tasks[point.key] = replace(task, extracts=(*task.extracts, *new))
    return tasks


def died(plans: Sequence[Plan], store: Store) -> int:
    """Number of runs of the plans that died in an earlier start."""
    return sum(outcome is not None and outcome.end is not None for outcome in map(store.get, _union(plans)))


def count(plans: Sequence[Plan], store: Store) -> tuple[int, int]:
    """Number of different runs in the plans, and number of them that the store already has."""
    tasks = _union(plans)
    have = (store.get(key) for key in tasks)
    done = sum(
        outcome is not None and outcome.status == "ok" and not missing(task.extracts, outcome.measures)
        for outcome, task in zip(have, tasks.values(), strict=True)
    )
    return len(tasks), done


def sweep(
    file_or_sweep: str | os.PathLike[str] | Sweep,
    *,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    seeds: int | Sequence[int] | None = None,
    executor: object = None,
    progress: Callable[[Progress], object] | None = None,
    memory_limit: int | None = None,
    retry_died: bool = False,
    quick: bool = False,
    set: Mapping[str, Any] | None = None,
    kernel: str | None = None,
) -> SweepResults:
    """Runs a sweep: every combination of its parameters, variants and seeds.

    Args:
        file_or_sweep: a sweep file, or a `Sweep` made in Python.
        out: folder for the results. A sweep that was cut off goes on there: finished runs are not repeated. Without it
            results stay in memory.
        jobs: runs at a time; by default one per core.
        seeds: instead of the sweep's: how many, or which.
        executor: `None`: worker processes of this machine; `"threads"`: threads of this process; `"dask://HOST:PORT"`
            or a `distributed.Client`: a Dask cluster.
        progress: called several times a second with a `Progress`.
        memory_limit: bytes that a run may take on this machine; by default what the machine has.
        retry_died: try runs again that died in an earlier start.
        quick: with the overrides of the sweep's `[quick]`.
        set: other values of parameters (a list is varied) or of places of the scenario.
        kernel: version or file, in place of the kernels that variants name.

    Raises:
        SweepError: the sweep is wrong, or does not fit its scenario. Nothing has run.
        ResultsError: results cannot be written to `out`.
        ExecutorError: there is no such executor.
    """
    planned = plan(file_or_sweep, quick=quick, seeds=seeds, set=set, kernel=kernel)
    with Store(Path(out) if out is not None else None) as store:
        (results,) = execute(
            [planned], store, executor, progress, jobs=jobs, memory_limit=memory_limit, retry_died=retry_died
        )
        if out is not None:
            results.save(out)
    return results
