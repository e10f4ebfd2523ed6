"""A small sweep that several test files use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airtcp import Sweep, SweepResults, _airtcp
from airtcp.sweeps.planning import Plan

TINY: dict[str, Any] = {
    "name": "tiny",
    "duration": "300ms",
    "nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}],
    "links": [
        {
            "name": "line",
            "from": "a",
            "to": "b",
            "rate": "5Mbit/s",
            "delay": "5ms",
            "queue": {"name": "fifo", "limit_packets": 8},
            "loss": 0.01,
        }
    ],
    "flows": [
        {"name": "bulk", "from": "a", "to": "b"},
        {"name": "file", "from": "a", "to": "b", "traffic": {"kind": "transfer", "bytes": "10kB"}},
    ],
}
UTILISATION = {"utilisation": "links.line.utilisation"}
FILE = """\
name = "tiny"
scenario = "tiny.toml"
seeds = 2

[parameters]
rate = [2, 5]
loss = [0.0, 0.01, 0.02]

[set]
"links.line.rate" = "{rate}Mbit/s"
"links.line.loss" = "{loss}"

[measures]
utilisation = { value = "links.line.utilisation", label = "Utilisation", unit = "%", scale = 100 }
dropped = { sql = "SELECT sum(dropped_overflow) AS n FROM links" }
windows = { sql = "SELECT time_s, cwnd_segments FROM flow_series WHERE flow = 0 ORDER BY time_s LIMIT 3" }
"""


FAILS = "SELECT sum(CAST(CAST(queue_packets AS VARCHAR) || 'x' AS INT)) AS n FROM link_series WHERE time_s > 0.1"
"""A query that nothing is wrong with until there are data."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(_airtcp.Checked.from_json(json.dumps(TINY), "tiny", []).to_toml())
    path = tmp_path / "sweep.toml"
    path.write_text(FILE)
    return path


def tiny(**changes: Any) -> Sweep:
    return Sweep(**{"name": "tiny", "scenario": TINY, "measures": UTILISATION, **changes})


def scenarios(planned: Plan) -> list[dict[str, Any]]:
    return [json.loads(point.task.scenario) for point in planned.points]


def same(a: SweepResults, b: SweepResults) -> bool:
    """Everything but how long it took."""
    tables = all(a.tables[name].equals(b.tables[name]) for name in a.tables)
    return a.runs.drop("wall_s").equals(b.runs.drop("wall_s")) and a.tables.keys() == b.tables.keys() and tables
