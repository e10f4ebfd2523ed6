"""Signals that end commands: planning asks at each point, a second one ends at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airtcp.sweeps.planning import plan
from conftest import AIRTCP
from sample_sweep import tiny

COUNTED = """
import sys
from airtcp import cli
from airtcp.sweeps import planning

one = planning._Planner._cell

def counted(self, *args):
    sys.stderr.write("point\\n")
    sys.stderr.flush()
    return one(self, *args)

planning._Planner._cell = counted
sys.exit(cli.main(sys.argv[1:]))
"""
"""The command, with a line for each point that is planned."""


def ignored(number: signal.Signals) -> Callable[[], object]:
    return lambda: signal.signal(number, signal.SIG_IGN)


@pytest.fixture
def large(file: Path) -> Path:
    """A sweep of 100 000 points."""
    delays = ", ".join(f"'{i}us'" for i in range(1, 100_001))
    text = file.read_text().replace("rate = [2, 5]\nloss = [0.0, 0.01, 0.02]", f'"links.line.delay" = [{delays}]')
    text = text.replace('"links.line.rate" = "{rate}Mbit/s"\n"links.line.loss" = "{loss}"\n', "").replace("[set]\n", "")
    file.write_text(text.replace("seeds = 2", "seeds = 1"))
    return file


# SIGINT is ignored in what a script starts with `&`. The runs obey it all the same, and so does their planning.
@pytest.mark.parametrize(
    ("number", "code", "before"),
    [
        (signal.SIGINT, 130, None),
        (signal.SIGINT, 130, ignored(signal.SIGINT)),
        (signal.SIGTERM, 143, None),
        (signal.SIGHUP, 129, None),
    ],
)
@pytest.mark.parametrize("times", [1, 2])
def test_planning_asks_at_each_point(
    large: Path, tmp_path: Path, number: signal.Signals, code: int, before: Callable[[], object] | None, times: int
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", COUNTED, "sweep", str(large), "--out", str(out)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=before
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "planning" in line:
                break
        assert "of 100000 points" in line
        for _ in range(times):
            process.send_signal(number)
        rest = process.stderr.read().splitlines()
    assert process.returncode == code
    # What was in the pipe when the signal was sent, and what was planned until it arrived.
    assert rest.count("point") < 2000
    assert "Traceback" not in "\n".join(rest)
    assert [line for line in rest if line != "point"][-1].startswith("error: interrupted")
    assert not out.exists()


def test_what_progress_raises_ends_the_planning() -> None:
    asked: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        asked.append((done, total))
        if done == 3:
            raise KeyboardInterrupt

    sweep = tiny(parameters={"links.line.loss": [i / 1000 for i in range(20)]})
    with pytest.raises(KeyboardInterrupt):
        plan(sweep, progress=progress)
    assert [one for one in asked if one[1]] == [(0, 20), (1, 20), (2, 20), (3, 20)]
    assert asked.count((0, 0)) == 20


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not condition():
        assert process.poll() is None
        time.sleep(0.01)


def test_nohup_stays_nohup(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command: list[str | Path] = [
        AIRTCP,
        "run",
        file.with_name("tiny.toml"),
        "--set",
        "duration=200h",
        "record.interval=10s",
        "--out",
        out,
        "--json",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=ignored(signal.SIGHUP)
    ) as process:
        until(lambda: bool(list(tmp_path.glob(".out.partial-*"))), process)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        stdout, errors = process.communicate(timeout=60)
    assert process.returncode == 143, errors
    assert json.loads(stdout)["status"] == "interrupted"
