"""airtcp: TCP over Wi-Fi, simulated packet by packet.

import airtcp

results = airtcp.run("examples/pacing-buffers-reno.toml", seed=1, set={"links.bottleneck.rate": "50Mbit/s"})
print(results.links.collect())

`run` and `run_many` take scenario files or `Scenario` objects and return `Results`: lazy Polars frames, a manifest and
a summary. `sweep` takes a sweep file or a `Sweep` and gives `SweepResults`: one row per run. `analyze` takes a real
capture and gives an `Analysis`: what happened to the TCP connections in it. `advise` takes a scenario and gives an
`Advice`: which remedy helps there. The command line is `airtcp`
(`airtcp.cli`), figures are in `airtcp.plots`.
"""

from __future__ import annotations

from airtcp._airtcp import __version__
from airtcp.errors import CaptureError, ExecutorError, NotOursError, ResultsError, RunError, ScenarioError, SweepError

TYPE_CHECKING = False  # see airtcp.cli
if TYPE_CHECKING:
    from airtcp import scenario, stats
    from airtcp.access_points import access_point
    from airtcp.advice.ranking import Advice, advise
    from airtcp.analysis.results import Analysis
    from airtcp.captures import analyze
    from airtcp.results import Results
    from airtcp.runner import Job, run, run_many
    from airtcp.scenario import (
        Aggregation,
        Flow,
        Link,
        Mac80211,
        MinstrelHt,
        Node,
        PhyConfig,
        RadioOptions,
        Record,
        Retries,
        Roaming,
        Scenario,
        Snr,
        Station,
        TcpOptions,
        Walk,
        Wlan,
    )
    from airtcp.schemas import schema
    from airtcp.sweeps.definition import Sweep
    from airtcp.sweeps.results import SweepResults
    from airtcp.sweeps.running import Progress, sweep

__all__ = [
    "Advice",
    "Aggregation",
    "Analysis",
    "CaptureError",
    "ExecutorError",
    "Flow",
    "Job",
    "Link",
    "Mac80211",
    "MinstrelHt",
    "Node",
    "NotOursError",
    "PhyConfig",
    "Progress",
    "RadioOptions",
    "Record",
    "Results",
    "ResultsError",
    "Retries",
    "Roaming",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Snr",
    "Station",
    "Sweep",
    "SweepError",
    "SweepResults",
    "TcpOptions",
    "Walk",
    "Wlan",
    "__version__",
    "access_point",
    "advise",
    "analyze",
    "run",
    "run_many",
    "scenario",
    "schema",
    "stats",
    "sweep",
]

# Modules that load slowly (Polars, the generated types) are imported at their first use.
_HOME = {
    "Advice": "advice.ranking",
    "access_point": "access_points",
    "advise": "advice.ranking",
    "Analysis": "analysis.results",
    "analyze": "captures",
    "Results": "results",
    "Job": "runner",
    "run": "runner",
    "run_many": "runner",
    "Aggregation": "scenario",
    "Mac80211": "scenario",
    "MinstrelHt": "scenario",
    "PhyConfig": "scenario",
    "RadioOptions": "scenario",
    "Retries": "scenario",
    "Roaming": "scenario",
    "Snr": "scenario",
    "Station": "scenario",
    "Walk": "scenario",
    "Wlan": "scenario",
    "Flow": "scenario",
    "Link": "scenario",
    "Node": "scenario",
    "Record": "scenario",
    "Scenario": "scenario",
    "TcpOptions": "scenario",
    "schema": "schemas",
    "Sweep": "sweeps.definition",
    "SweepResults": "sweeps.results",
    "Progress": "sweeps.running",
    "sweep": "sweeps.running",
}


def __getattr__(name: str) -> object:
    is_module = name in ("scenario", "stats")
    if not is_module and name not in _HOME:
        raise AttributeError(f"module 'airtcp' has no attribute {name!r}")
    from importlib import import_module

    if is_module:
        return import_module(f"airtcp.{name}")
    value = getattr(import_module(f"airtcp.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
