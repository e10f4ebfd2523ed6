"""Runs scenarios: one, or many side by side."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from airtcp import _airtcp, results
from airtcp._part import to_toml_value
from airtcp.errors import ResultsError
from airtcp.results import CAPTURE, FORMAT, FORMAT_VERSION, Folder, Results
from airtcp.scenario import Scenario

SLICE_WALL_S: Final = 0.1
"""The engine is asked back this often: for progress, Ctrl-C and the other Python threads."""

SNAPLEN: Final = 128
"""Bytes that captures keep of a packet: more than all headers together. 0: the whole packet."""

Change = tuple[str, str, str]
"""How to call it in an error, its key, its value as TOML or bare text."""


@dataclass(frozen=True)
class Job:
    """A scenario and what to change in it. Nothing is read before it runs."""

    scenario: Scenario | str | os.PathLike[str]
    """A scenario file, or a `Scenario` made in Python."""
    seed: int | None = None
    """Instead of the scenario's."""
    duration: str | None = None
    """Simulated time instead of the scenario's, such as `"30s"`."""
    set: Mapping[str, object] = field(default_factory=dict)
    """Other values to change, by their place: `{"links.bottleneck.rate": "50Mbit/s"}`."""

    def changes(self) -> list[Change]:
        """Everything that differs from the scenario."""
        out = [(f"set={{{key!r}: {value!r}}}", key, to_toml_value(value)) for key, value in self.set.items()]
        if self.duration is not None:
            out.append((f"duration={self.duration!r}", "duration", to_toml_value(self.duration)))
        if self.seed is not None:
            out.append((f"seed={self.seed!r}", "seed", to_toml_value(self.seed)))
        return out

    def check(self) -> _airtcp.Checked:
        """Reads the scenario and validates it, without running it.

        Raises:
            ScenarioError: it cannot be read or is wrong.
        """
        if isinstance(self.scenario, Scenario):
            return _airtcp.Checked.from_json(json.dumps(self.scenario.to_dict()), "scenario", self.changes())
        return _airtcp.Checked.load(Path(self.scenario), self.changes())


class Execution:
    """One run under way. Construct it, `advance` it as far as it should go, then take its `results`."""

    def __init__(self, checked: _airtcp.Checked, folder: Folder | None = None, snaplen: int = SNAPLEN) -> None:
        """Builds the network. What the scenario captures goes to `folder`; without one nothing is captured."""
        self.scenario: Final[dict[str, Any]] = json.loads(checked.to_json())
        self._capture = folder.work / CAPTURE if folder is not None and self.scenario["record"]["capture"] else None
        self._started = datetime.now(UTC)
        self._clock = time.perf_counter()
        try:
            self._run: Final = _airtcp.Run(checked, (self._capture, snaplen) if self._capture else None)
        except OSError as error:
            raise ResultsError(f"cannot write the capture: {error.strerror or error}") from error
        self.end_s: Final = self._run.end_s
        """Simulated time at the end of the run."""
        # Begins small, because nobody knows yet how long a second of this network takes.
        self._slice_s = self.end_s / 10_000

    @property
    def now_s(self) -> float:
        """Simulated time reached."""
        return self._run.now_s

    @property
    def is_over(self) -> bool:
        """True at the end of the run."""
        return self.now_s >= self.end_s

    def advance(self) -> None:
        """Runs on for about `SLICE_WALL_S` of wall time. Where the cuts fall does not change the results."""
        begin = time.perf_counter()
        self._run.advance(min(self.now_s + self._slice_s, self.end_s))
        took = max(time.perf_counter() - begin, 1e-9)
        self._slice_s *= min(max(SLICE_WALL_S / took, 0.1), 4.0)

    def results(self) -> Results:
        """Ends the run where it is and hands out what it recorded.

        Raises:
            ResultsError: the capture could not be written.
        """
        status = "complete" if self.is_over else "interrupted"
        simulated_s = self.now_s
        try:
            output = self._run.finish()
        except OSError as error:
            raise ResultsError(f"cannot write the capture: {error.strerror or error}; nothing was kept") from error
        wall_s = time.perf_counter() - self._clock
        frames = {name: results.frame(columns) for name, columns in output.tables.items()}
        head = {
            "name": self.scenario["name"],
            "seed": self.scenario["seed"],
            "airtcp_version": _airtcp.__version__,
            "status": status,
            "duration_s": self.end_s,
        }
        manifest = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **head,
            "simulated_s": simulated_s,
            "host": results.host(),
            "timing": {
                "started": self._started.isoformat(timespec="seconds"),
                "wall_s": round(wall_s, 6),
                **output.stats,
                **{f"{name}_per_s": round(count / wall_s) for name, count in output.stats.items()},
            },
            "scenario": self.scenario,
            "tables": {
                name: {"rows": frames[name].height, "columns": {c: _in_tables(m) for c, m in columns.items()}}
                for name, columns in output.meanings.items()
            },
        }
        summary = {**head, **json.loads(output.summary)}
        return Results(manifest, summary, {name: table.lazy() for name, table in frames.items()})


def _in_tables(meaning: str) -> str:
    # The engine has NaN where the tables have null: see `results.frame`.
    return meaning.replace("NaN", "null")


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
        seed: instead of the scenario's.
        duration: simulated time instead of the scenario's, such as `"30s"`.
        set: other values to change, by their place: `{"links.bottleneck.rate": "50Mbit/s"}`.
        out: folder to save the results to; without it they stay in memory, and nothing is captured.
        snaplen: bytes that a capture keeps of each packet; 0: all.
        progress: called about ten times a second with the simulated time reached and its end, seconds.

    Raises:
        ScenarioError: the scenario cannot be read, or it or a changed value is wrong; the message says where.
        ResultsError: the results cannot be written to `out`.
    """
    checked = Job(scenario, seed, duration, set or {}).check()
    if out is None:
        return _to_end(Execution(checked), progress).results()
    with Folder(Path(out)) as folder:
        folder.commit(_to_end(Execution(checked, folder, snaplen), progress).results())
    return Results.load(out)


def run_many(
    jobs: Iterable[Job | Scenario | str | os.PathLike[str]],
    *,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> list[Results]:
    """Runs independent scenarios side by side, each on one core.

    Results are in the order of the jobs and the same for any number of threads. Every scenario is checked before the
    first one runs. Several seeds of one file: `run_many(Job(file, seed=s) for s in range(10))`.

    Args:
        jobs: files, `Scenario` objects, or `Job(...)` of either with changes.
        threads: runs at a time; by default one per core.
        progress: called after each finished run with the number of finished runs and of all.

    Raises:
        ScenarioError: a scenario is wrong; none has run.
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
            # An error in one run, or Ctrl-C: the others need not finish.
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
