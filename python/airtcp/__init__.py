"""airtcp: a laboratory for TCP.

    import airtcp

    results = airtcp.run("examples/pacing-buffers-reno.toml", seed=1, set={"links.bottleneck.rate": "50Mbit/s"})
    print(results.links.collect())

`run` and `run_many` take scenario files or `Scenario` objects and give `Results`: lazy Polars frames, a manifest and a
summary. The command line is `airtcp` (`airtcp.cli`), figures are in `airtcp.plots`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from airtcp._airtcp import __version__, schema
from airtcp.errors import NotOursError, ResultsError, ScenarioError

if TYPE_CHECKING:
    from airtcp import scenario
    from airtcp.results import Results
    from airtcp.runner import Job, run, run_many
    from airtcp.scenario import Flow, Link, Node, Record, Scenario, TcpOptions

__all__ = [
    "Flow",
    "Job",
    "Link",
    "Node",
    "NotOursError",
    "Record",
    "Results",
    "ResultsError",
    "Scenario",
    "ScenarioError",
    "TcpOptions",
    "__version__",
    "run",
    "run_many",
    "scenario",
    "schema",
]

# What takes long to load (Polars, the generated types) comes when it is first asked for.
_HOME = {
    "Results": "results",
    "Job": "runner",
    "run": "runner",
    "run_many": "runner",
    "Flow": "scenario",
    "Link": "scenario",
    "Node": "scenario",
    "Record": "scenario",
    "Scenario": "scenario",
    "TcpOptions": "scenario",
}


def __getattr__(name: str) -> object:
    if name == "scenario":
        return import_module("airtcp.scenario")
    if name in _HOME:
        value = getattr(import_module(f"airtcp.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'airtcp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
