"""One run of a sweep: from a scenario to what is kept of it. An executor carries it out, here or elsewhere."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from airtcp import _airtcp
from airtcp.errors import RunError, ScenarioError
from airtcp.execution import Execution
from airtcp.tasks import kernels
from airtcp.tasks.measures import Extract, MeasureError, take


@dataclass(frozen=True)
class Task:
    """One run to carry out. It is small and plain, so that it can be sent to another machine."""

    key: str
    """Identity of the run, see `key_of`."""
    scenario: str
    """The resolved scenario with its seed, as JSON."""
    extracts: tuple[Extract, ...]
    """Extracts from the run."""
    where: str = field(default="", compare=False)
    """Which run this is, for people."""
    cell: str = field(default="", compare=False)
    """Key of the cell. Runs of one cell differ in the seed and take about the same time."""
    simulated_s: float = field(default=1.0, compare=False)
    """Simulated time, seconds."""
    kernel: kernels.Kernel | None = None
    """The ends of its flows are kernels; `None`: they are simulated."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a task."""

    key: str
    status: Literal["ok", "failed"]
    measures: Mapping[str, Any] = field(default_factory=dict)
    """By the ids of the extracts."""
    error: str | None = None
    wall_s: float = 0.0
    engine: str = ""
    end: Mapping[str, Any] | None = None
    """Cause of a run's death: `signal`, and `memory_bytes` at most. The run is tried again only on request."""


def key_of(scenario: Mapping[str, Any], engine: str) -> str:
    """Identity of a run: a hash of the resolved scenario with its seed and of the engine. Name and description of the
    scenario do not matter.
    """
    essence = {key: value for key, value in scenario.items() if key not in ("name", "description")}
    text = json.dumps(essence, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(f"{engine}\n{text}".encode()).hexdigest()[:32]


def perform(task: Task, is_stopped: Callable[[], bool] = lambda: False) -> Outcome | None:
    """Carries out a task. Whatever goes wrong in it is in the outcome.

    Args:
        task: the run.
        is_stopped: asked about ten times a second; when it says so, the run is given up and there is no outcome.
    """
    begin = time.perf_counter()
    engine = kernels.engine(task.kernel)

    def outcome(status: Literal["ok", "failed"], measures: Mapping[str, Any], error: str | None = None) -> Outcome:
        return Outcome(task.key, status, measures, error, round(time.perf_counter() - begin, 6), engine)

    try:
        if task.kernel is not None:
            output = kernels.run(task.scenario, task.kernel, is_stopped)
            if output is None:
                return None
            return outcome("ok", take(task.extracts, output, json.loads(task.scenario)))
        execution = Execution(_airtcp.Checked.from_json(task.scenario, "scenario", []))
        while not execution.is_over:
            if is_stopped():
                return None
            execution.advance()
        return outcome("ok", take(task.extracts, execution.finish(), execution.scenario))
    except (ScenarioError, RunError, MeasureError) as error:
        return outcome("failed", {}, str(error))
    except MemoryError:
        failed = outcome("failed", {}, "out of memory")
        return replace(failed, end={"signal": None, "memory_bytes": peak_memory()})
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the engine is no Exception
        return outcome("failed", {}, f"{type(error).__name__}: {error}")


def peak_memory() -> int:
    """The most memory that this process had, bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def missing(task_extracts: Sequence[Extract], measures: Mapping[str, Any]) -> bool:
    """True if a record lacks something that is wanted."""
    return any(extract.id not in measures for extract in task_extracts)
