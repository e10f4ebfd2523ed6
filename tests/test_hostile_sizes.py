"""Sizes that a stranger's file may name: each is refused, or bounded, within little memory and processor time."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from airtcp.errors import SweepError
from airtcp.sweeps import planning
from conftest import AIRTCP
from sample_sweep import tiny

MEMORY = 2 << 30
CPU_S = 20
DEEP = 100_000


def bounded(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command with little memory and little time on the processor."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))

    return subprocess.run(
        [str(AIRTCP), *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
        preexec_fn=limit,
        check=False,
    )


@pytest.mark.parametrize(
    "change",
    [
        "nodes.a.count=1000000000",
        "flows.bulk.count=1000000000",
        "duration=1000000h",
        "record.interval=1ns",
        "links.line.queue.limit_packets=1000000000000",
    ],
)
def test_a_size_is_refused_with_its_key(file: Path, change: str) -> None:
    done = bounded("run", file.with_name("tiny.toml"), "--no-save", "--set", change, cwd=file.parent)
    assert done.returncode == 2, done.stderr
    assert change.split("=")[0].split(".")[-1] in done.stderr
    assert "Traceback" not in done.stderr


def test_a_line_and_a_flow_to_each_of_many_hosts(file: Path) -> None:
    """The time for it grows with the number, not with its square."""
    done = bounded("check", file.with_name("tiny.toml"), "--set", "nodes.b.count=400000", cwd=file.parent)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["run", "check", "sweep", "advise"])
@pytest.mark.parametrize(
    "text",
    [
        f"a = {'[' * DEEP}{']' * DEEP}\n",
        f"a = {'{a=' * DEEP}1{'}' * DEEP}\n",
        f"{'.'.join(['a'] * DEEP)} = 1\n",
        f"[{'.'.join(['a'] * DEEP)}]\n",
        f'a = "{"x" * (65 << 20)}"\n',
    ],
    ids=["lists", "tables", "keys", "heads", "line"],
)
def test_deep_and_long_files(tmp_path: Path, command: str, text: str) -> None:
    (tmp_path / "deep.toml").write_text(text)
    done = bounded(command, "deep.toml", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: deep.toml")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "keys",
    [
        f"seeds = 1000000\n[parameters]\nn = {list(range(1000))}\nm = {list(range(1000))}\n",
        'seeds = 1\nmode = "random"\nsamples = 1000000000000\n[parameters]\nn = { from = 0, to = 1 }\n',
    ],
    ids=["grid", "random"],
)
def test_a_trillion_points(file: Path, keys: str) -> None:
    file.write_text(f'name = "x"\nscenario = "tiny.toml"\n{keys}[measures]\nu = "links.line.utilisation"\n')
    done = bounded("sweep", file, cwd=file.parent)
    assert done.returncode == 2
    assert "1000000" in done.stderr


def test_variants_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points are counted while they are listed: each variant may have as many as all together."""
    monkeypatch.setattr(planning, "MAX_RUNS", 100)
    listed = 0

    def progress(_done: int, _total: int) -> None:
        nonlocal listed
        listed += 1

    sweep = tiny(
        parameters={"links.line.loss": [i / 1000 for i in range(60)]},
        variants=[{"name": f"variant {i}"} for i in range(50)],
    )
    with pytest.raises(SweepError, match="more than 100 runs"):
        planning.plan(sweep, progress=progress)
    assert listed <= 101


def test_scenarios_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MAX_CHARACTERS", 20_000)
    sweep = tiny(parameters={"links.line.loss": [i / 1000 for i in range(60)]}, seeds=100)
    with pytest.raises(SweepError, match="runs have more than 20000 characters"):
        planning.plan(sweep)
