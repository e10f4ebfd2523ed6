"""airtcp: a laboratory for TCP.

    import airtcp

    results = airtcp.run("examples/pacing-buffers-reno.toml", seed=1, set={"links.bottleneck.rate": "50Mbit/s"})
    print(results.links.collect())

`run` and `run_many` take scenario files or `Scenario` objects and give `Results`: lazy Polars frames, a manifest and a
summary. The command line is `airtcp` (`airtcp.cli`), figures are in `airtcp.plots`.
"""

from airtcp import scenario
from airtcp._airtcp import __version__, schema
from airtcp.errors import NotOursError, ResultsError, ScenarioError
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
