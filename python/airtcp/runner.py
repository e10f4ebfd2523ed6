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
from airtcp.results import FORMAT, FORMAT_VERSION, Folder, Results
from airtcp.scenario import Scenario

SLICE_WALL_S: Final = 0.1
"""The engine is asked back this often: for progress, Ctrl-C and the other Python threads."""


def to_override(key: str, value: object) -> str:
    """`key=value` as `--set` takes it."""
    if isinstance(value, bool):
        return f"{key}={str(value).lower()}"
    if isinstance(value, (int, float, str)):
        return f"{key}={value}"
    import tomli_w

    return tomli_w.dumps({"value": value}).replace("value = ", f"{key}=", 1).strip()


@dataclass(frozen=True)
class Job:
    """A scenario as text, where it came from and what to change in it."""

    text: str
    file_name: str
    """Named in errors; gives the scenario its name if it has none."""
    overrides: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        scenario: Scenario | str | os.PathLike[str],
        *,
        seed: int | None = None,
        duration: str | None = None,
        set: Mapping[str, object] | None = None,
    ) -> Job:
        """Reads a scenario file, or takes a `Scenario`.

        Raises:
            OSError: the file cannot be read.
            UnicodeDecodeError: it is not UTF-8.
        """
        overrides = [to_override(key, value) for key, value in (set or {}).items()]
        if duration is not None:
            overrides.append(f"duration={duration}")
        if seed is not None:
            overrides.append(f"seed={seed}")
        if isinstance(scenario, Scenario):
            return cls(scenario.to_toml(), "scenario", overrides)
        path = Path(scenario)
        return cls(path.read_text(encoding="utf-8"), str(path), overrides)

    def check(self) -> dict[str, Any]:
        """The scenario with every default filled in.

        Raises:
            ScenarioError: it is wrong.
        """
        resolved: dict[str, Any] = json.loads(_airtcp.check(self.text, self.file_name, self.overrides))
        return resolved


class Execution:
    """One run under way. Construct it, `advance` it as far as it should go, then take its `results`."""

    def __init__(self, job: Job) -> None:
        self.job: Final = job
        self.scenario: Final = job.check()
        self._started = datetime.now(UTC)
        self._clock = time.perf_counter()
        self._run: Final = _airtcp.Run(job.text, job.file_name, job.overrides)
        # Begins small, because nobody knows yet how long a second of this network takes.
        self._slice_s = self._run.duration_s / 10_000

    @property
    def now_s(self) -> float:
        """Simulated time reached, seconds."""
        return self._run.now_s

    @property
    def duration_s(self) -> float:
        """Simulated time at the end of the run, seconds."""
        return self._run.duration_s

    @property
    def is_over(self) -> bool:
        """True at the end of the run."""
        return self.now_s >= self.duration_s

    def advance(self) -> None:
        """Runs on for about `SLICE_WALL_S` of wall time. Where the cuts fall does not change the results."""
        begin = time.perf_counter()
        self._run.advance(min(self.now_s + self._slice_s, self.duration_s))
        took = max(time.perf_counter() - begin, 1e-9)
        self._slice_s *= min(max(SLICE_WALL_S / took, 0.1), 4.0)

    def results(self) -> Results:
        """Ends the run where it is and hands out what it recorded."""
        complete, simulated_s = self.is_over, self.now_s
        output = self._run.finish()
        wall_s = time.perf_counter() - self._clock
        frames = {name: results.frame(columns) for name, columns in output.tables.items()}
        head = {
            "name": self.scenario["name"],
            "seed": self.scenario["seed"],
            "airtcp_version": _airtcp.__version__,
            "status": "complete" if complete else "interrupted",
            "duration_s": self.duration_s,
            "simulated_s": simulated_s,
        }
        manifest = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **head,
            "host": results.host(),
            "timing": {
                "started": self._started.isoformat(timespec="seconds"),
                "wall_s": round(wall_s, 6),
                **output.stats,
                **{f"{name}_per_s": round(n / wall_s) for name, n in output.stats.items() if name in RATES},
            },
            "source": {"file": self.job.file_name, "overrides": self.job.overrides},
            "scenario": self.scenario,
            "tables": {
                name: {"rows": frames[name].height, "columns": columns} for name, columns in output.meanings.items()
            },
        }
        summary = {**head, **json.loads(output.summary)}
        return Results(manifest, summary, {name: table.lazy() for name, table in frames.items()})


RATES: Final = ("events", "packets")
"""Counters of the engine that are also reported per second of wall time."""


def run(
    scenario: Scenario | str | os.PathLike[str],
    *,
    seed: int | None = None,
    duration: str | None = None,
    set: Mapping[str, object] | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Results:
    """Runs one scenario to its end.

    Args:
        scenario: a scenario file, or a `Scenario` made in Python.
        seed: instead of the scenario's.
        duration: simulated time instead of the scenario's, such as `"30s"`.
        set: other values to change, by their place: `{"links.bottleneck.rate": "50Mbit/s"}`.
        out: folder to save the results to; without it they stay in memory.
        progress: called about ten times a second with the simulated time reached and its end, seconds.

    Raises:
        ScenarioError: the scenario or a changed value is wrong; the message says where and what is accepted.
        ResultsError: the results cannot be written to `out`.
        OSError: the scenario file cannot be read.
    """
    execution = Execution(Job.of(scenario, seed=seed, duration=duration, set=set))
    if out is None:
        return _to_end(execution, progress).results()
    with Folder(Path(out)) as folder:
        folder.commit(_to_end(execution, progress).results())
    return Results.load(out)


def run_many(
    jobs: Iterable[Job | Scenario | str | os.PathLike[str]],
    *,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> list[Results]:
    """Runs independent scenarios side by side; results in the order of the jobs, the same for any number of threads.

    Every scenario is checked before the first one runs. For several seeds of one file:
    `[Job.of(file, seed=s) for s in range(10)]`.

    Args:
        jobs: files, `Scenario` objects, or `Job.of(...)` of either with changes.
        threads: runs at a time; by default one per core.
        progress: called after each finished run with the number of finished runs and of all.

    Raises:
        ScenarioError, OSError: as `run`, for the first job that is wrong.
    """
    todo = [job if isinstance(job, Job) else Job.of(job) for job in jobs]
    for job in todo:
        job.check()
    stop = threading.Event()

    def work(job: Job) -> Results:
        return _to_end(Execution(job), None, stop).results()

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
            progress(execution.now_s, execution.duration_s)
    return execution
