"""Runs scenarios: one, or many side by side."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from airtcp import _airtcp
from airtcp._files import fault_of_input
from airtcp._scenario_table import to_toml_value
from airtcp.errors import ScenarioError
from airtcp.execution import SNAPLEN, Execution
from airtcp.file_kinds import scenario_error
from airtcp.results import Folder, Results
from airtcp.scenario import Scenario

Change = tuple[str, str, str]
"""A change: its name in messages, its key, its value as TOML or bare text."""


@dataclass(frozen=True)
class Job:
    """A scenario and changes to it. It is read only when it runs."""

    scenario: Scenario | str | os.PathLike[str]
    """A scenario file, or a `Scenario` made in Python."""
    seed: int | None = None
    """Seed of the run; `None`: the scenario's."""
    duration: str | None = None
    """Simulated time, such as `"30s"`; `None`: the scenario's."""
    set: Mapping[str, object] = field(default_factory=dict)
    """Other values to change, by key: `{"links.bottleneck.rate": "50Mbit/s"}`."""

    def changes(self) -> list[Change]:
        """All changes to the scenario."""
        out = [(f"set={{{key!r}: {value!r}}}", key, to_toml_value(value)) for key, value in self.set.items()]
        if self.duration is not None:
            out.append((f"duration={self.duration!r}", "duration", to_toml_value(self.duration)))
        if self.seed is not None:
            out.append((f"seed={self.seed!r}", "seed", to_toml_value(self.seed)))
        return out

    def check(self) -> _airtcp.Checked:
        """Reads the scenario and validates it, without running it.

        Raises:
            OSError: it is a pipe or a device.
            ScenarioError: it cannot be read or is wrong.
        """
        if isinstance(self.scenario, Scenario):
            return _airtcp.Checked.from_json(json.dumps(self.scenario.to_dict()), "scenario", self.changes())
        if (fault := fault_of_input(self.scenario)) is not None:
            raise OSError(errno.EINVAL, fault)
        try:
            return _airtcp.Checked.load(Path(self.scenario), self.changes())
        except ScenarioError as error:
            raise scenario_error(error, Path(self.scenario)) from None


def run(
    scenario: Scenario | str | os.PathLike[str],
    *,
    seed: int | None = None,
    duration: str | None = None,
    set: Mapping[str, object] | None = None,
    out: str | os.PathLike[str] | None = None,
    snaplen: int = SNAPLEN,
    progress: Callable[[float, float], object] | None = None,
) -> Results:
    """Runs one scenario to its end.

    Args:
        scenario: a scenario file, or a `Scenario` made in Python.
        seed: seed of the run; by default the scenario's.
        duration: simulated time, such as `"30s"`; by default the scenario's.
        set: other values to change, by key: `{"links.bottleneck.rate": "50Mbit/s"}`.
        out: folder for the results. Without it, they stay in memory, and nothing is captured.
        snaplen: bytes of each packet that a capture keeps; 0: all.
        progress: called about ten times a second with the simulated time reached and its end, seconds.

    Raises:
        ScenarioError: the scenario cannot be read, or it or a changed value is wrong; the message says where.
        ResultsError: the results cannot be written to `out`.
    """
    checked = Job(scenario, seed, duration, set or {}).check()
    if out is None:
        return _to_end(Execution(checked, threads=0), progress).results()
    with Folder(Path(out)) as folder:
        folder.commit(_to_end(Execution(checked, folder, snaplen, threads=0), progress).results())
    return Results.load(out)


def run_many(
    jobs: Iterable[Job | Scenario | str | os.PathLike[str]],
    *,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> list[Results]:
    """Runs independent scenarios in parallel, each on one core. Results are in the order of the jobs and the same for
    any number of threads. Every scenario is checked before the first one runs. Several seeds of one file:
    `run_many(Job(file, seed=s) for s in range(10))`.

    Args:
        jobs: files, `Scenario` objects, or `Job(...)` of either with changes.
        threads: runs at a time; by default one per core.
        progress: called after each finished run with the number of finished runs and of all.

    Raises:
        ScenarioError: a scenario is wrong. None has run.
    """
    todo = [job if isinstance(job, Job) else Job(job) for job in jobs]
    for job in todo:
        job.check()
    stop = threading.Event()

    def work(job: Job) -> Results:
        return _to_end(Execution(job.check()), None, stop).results()

    done: list[Results] = []
    with ThreadPoolExecutor(threads or os.cpu_count() or 1, thread_name_prefix="airtcp") as pool:
        try:
            for result in pool.map(work, todo):
                done.append(result)
                if progress is not None:
                    progress(len(done), len(todo))
        except BaseException:
            # After an error in one run, or Ctrl-C, do not finish the others.
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return done


def _to_end(
    execution: Execution, progress: Callable[[float, float], object] | None, stop: threading.Event | None = None
) -> Execution:
    while not execution.is_over and not (stop is not None and stop.is_set()):
        execution.advance()
        if progress is not None:
            progress(execution.now_s, execution.end_s)
    return execution
