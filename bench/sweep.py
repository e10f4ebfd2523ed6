"""How well a sweep uses the machine, and what a kill costs. Writes bench/sweep.json.

    .venv/bin/python bench/sweep.py [--kills 20]

- overhead: runs of next to no work, so that what is left is what a sweep adds to each run: building, measuring,
  recording, `fsync`. Measured by the summary and by SQL; what the engine alone takes is subtracted;
- scaling: runs of about half a second, with 1 and with 2 threads, measured by the summary and by SQL. Both alternate,
  and the least time of each counts. On a machine that does other things as well that says little; `busy` depends less
  on it: the part of their time in which threads computed or waited for a core, not for each other (two threads of
  nothing but Python: 0.5 to 0.9);
- kills: a sweep is killed (SIGKILL) at random moments and started again, until it is through. Counted: runs that were
  on record before a kill and are not there after it (lost), and runs that are on record twice (repeated).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import airtcp
from airtcp import Sweep, _airtcp
from airtcp.execution import Execution
from airtcp.sweeps.planning import plan
from airtcp.sweeps.running import execute
from airtcp.sweeps.store import JOURNAL, Store

HERE = Path(__file__).parent
COMMAND = Path(sys.executable).with_name("airtcp")

TINY: dict[str, Any] = {
    "duration": "10ms",
    "nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}],
    "links": [{"name": "line", "from": "a", "to": "b", "rate": "1Mbit/s", "delay": "1ms"}],
    "flows": [{"name": "bulk", "from": "a", "to": "b"}],
}
SUMMARY = {"utilisation": "links.line.utilisation"}
SQL = {"windows": {"sql": "SELECT flow, max(cwnd_segments) AS most FROM flow_series GROUP BY flow"}}
BUSY = {**TINY, "duration": "400s"}
BUSY["links"] = [{**TINY["links"][0], "rate": "50Mbit/s", "queue": {"name": "fifo", "limit_packets": 100}}]


def sweep_of(scenario: dict[str, Any], measures: dict[str, Any], seeds: int) -> Sweep:
    return Sweep(name="bench", scenario=scenario, measures=measures, seeds=seeds)


def seconds(sweep: Sweep, jobs: int, out: Path | None) -> float:
    """Wall time of running a plan, without making the plan."""
    planned = plan(sweep)
    with Store(out) as store:
        begin = time.perf_counter()
        execute([planned], store, jobs=jobs)
        return time.perf_counter() - begin


def overhead(runs: int, repeats: int, folder: Path) -> dict[str, Any]:
    checked = _airtcp.Checked.from_json(json.dumps(TINY), "tiny", [])

    def engine_alone() -> float:
        begin = time.perf_counter()
        for _ in range(runs):
            execution = Execution(checked)
            while not execution.is_over:
                execution.advance()
            execution.finish()
        return time.perf_counter() - begin

    def planning() -> float:
        begin = time.perf_counter()
        plan(sweep_of(TINY, SUMMARY, runs))
        return time.perf_counter() - begin

    seconds(sweep_of(TINY, {**SUMMARY, **SQL}, 5), 1, None)  # loads Polars
    engine = min(engine_alone() for _ in range(repeats))
    out: dict[str, Any] = {
        "runs": runs,
        "engine_alone_ms": engine / runs * 1e3,
        "planning_ms": min(planning() for _ in range(repeats)) / runs * 1e3,
    }
    for name, measures in (("summary", SUMMARY), ("sql", SQL)):
        for jobs in (1, 2):
            walls = [
                seconds(sweep_of(TINY, measures, runs), jobs, folder / f"overhead-{name}-{jobs}-{i}")
                for i in range(repeats)
            ]
            spent = [(wall - engine / jobs) / runs * 1e3 for wall in walls]
            out[f"{name}_{jobs}_jobs_ms"] = {"least": min(spent), "all": spent}
    return out


def busy(sweep: Sweep, jobs: int) -> float:
    """Part of their time in which the threads of a sweep did not wait for each other or for the disk (Linux)."""
    planned = plan(sweep)
    last: dict[int, tuple[float, int]] = {}
    first: dict[int, tuple[float, int]] = {}

    def look(_: object) -> None:
        for thread in threading.enumerate():
            if thread.name.startswith("airtcp-") and thread.native_id is not None:
                try:
                    ran, waited, _ = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()
                except OSError:
                    continue
                now = (time.perf_counter(), int(ran) + int(waited))
                first.setdefault(thread.native_id, now)
                last[thread.native_id] = now

    with Store(None) as store:
        execute([planned], store, jobs=jobs, progress=look)
    parts = [(last[i][1] - first[i][1]) / 1e9 / (last[i][0] - first[i][0]) for i in last if last[i][0] > first[i][0]]
    return sum(parts) / len(parts)


def scaling(repeats: int, folder: Path) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, measures in (("summary", SUMMARY), ("sql", SQL)):
        walls: dict[int, list[float]] = {1: [], 2: []}
        for i in range(repeats):
            for jobs, taken in walls.items():
                taken.append(seconds(sweep_of(BUSY, measures, 8), jobs, folder / f"{name}-{i}-{jobs}"))
        out[name] = {
            "speedup": min(walls[1]) / min(walls[2]),
            "busy_1_job": busy(sweep_of(BUSY, measures, 8), 1),
            "busy_2_jobs": busy(sweep_of(BUSY, measures, 8), 2),
            "seconds_1_job": walls[1],
            "seconds_2_jobs": walls[2],
        }
    return out


def journal(out: Path) -> list[str]:
    """The keys of the runs on record."""
    path = out / JOURNAL
    data = path.read_bytes() if path.exists() else b""
    return [json.loads(line)["key"] for line in data.split(b"\n")[1:-1]]


def kills(count: int, folder: Path) -> dict[str, Any]:
    chance = random.Random(7)
    out = folder / "killed"
    file = folder / "sweep.toml"
    runs = 40 * count
    scenario = _airtcp.Checked.from_json(json.dumps({**BUSY, "duration": "20s"}), "busy", []).to_toml()
    (folder / "busy.toml").write_text(scenario)
    file.write_text(f'scenario = "busy.toml"\nseeds = {runs}\n[measures]\nutilisation = "links.line.utilisation"\n')
    command = [COMMAND, "sweep", file, "--out", out, "--jobs", "2", "--quiet"]
    lost = torn = 0
    before: list[str] = []
    at = []
    while len(at) < count:
        process = subprocess.Popen(command)
        # Some right after the start; most in the midst of running and writing.
        if len(at) % 5:
            while len(journal(out)) == len(before) and process.poll() is None:
                time.sleep(0.001)
        delay = chance.random() * 0.3
        time.sleep(delay)
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
        path = out / JOURNAL
        torn += path.exists() and not path.read_bytes().endswith(b"\n")
        now = journal(out)
        lost += len(set(before) - set(now))
        at.append({"after_s": round(delay, 3), "on_record": len(now)})
        before = now
    done = subprocess.run(command, check=False)
    now = journal(out)
    return {
        "kills": len(at),
        "runs": runs,
        "torn_lines": torn,
        "lost": lost + len(set(before) - set(now)),
        "repeated": sum(n - 1 for n in Counter(now).values()),
        "missing_at_the_end": runs - len(set(now)),
        "exit_code": done.returncode,
        "moments": at,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--out", type=Path, default=HERE / "sweep.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        folder = Path(name)
        report: dict[str, Any] = {
            "airtcp": airtcp.__version__,
            "engine": _airtcp.engine(),
            "host": {
                "cpus": os.cpu_count(),
                "machine": platform.machine(),
                "load_before": round(os.getloadavg()[0], 1),
            },
            "overhead": overhead(500, args.repeats, folder),
            "scaling": scaling(args.repeats, folder),
            "kills": kills(args.kills, folder),
        }
    args.out.write_text(json.dumps(report, indent=2) + "\n")
    report["kills"].pop("moments")
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
