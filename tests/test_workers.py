"""Worker processes: a run that dies takes only itself along, and is recorded with its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import airtcp
from airtcp.executors import local
from airtcp.executors.local import LocalExecutor, machine_memory
from airtcp.executors.threads import ThreadExecutor
from airtcp.sweeps.planning import plan
from airtcp.sweeps.running import execute
from airtcp.sweeps.store import Store
from airtcp.tasks.task import Outcome, Task
from conftest import AIRTCP, Command
from sample_sweep import tiny

MIB = 1 << 20

# Its records outgrow 300 MB within a second of simulated time; the others need next to nothing.
GREEDY = {"record.interval": "1us", "duration": "10s"}
VARIANTS = [{"name": "modest"}, {"name": "greedy", "set": GREEDY}]


def children() -> list[int]:
    """Worker processes of this process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            line = (path.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z" and b"airtcp.executors.worker" in line:
            found.append(int(path.parent.name))
    return found


def test_a_run_out_of_memory_takes_only_itself_along(tmp_path: Path) -> None:
    sweep = tiny(variants=VARIANTS, seeds=3)
    results = airtcp.sweep(sweep, out=tmp_path / "out", jobs=2, memory_limit=300 * MIB)
    by_variant = dict(results.runs.group_by("variant").agg("status").iter_rows())
    assert by_variant == {"modest": ["ok"] * 3, "greedy": ["failed"] * 3}
    for error in results.failed["error"]:
        assert "memory" in error
    with Store(tmp_path / "out") as store:
        ends = [found.end for found in map(store.get, results.runs["key"]) if found is not None]
        assert [end is None for end in ends] == [True] * 3 + [False] * 3
        assert all(end["memory_bytes"] > 50 * MIB for end in ends if end is not None)


def test_a_run_that_died_is_not_tried_again_unless_asked(tmp_path: Path, file: Path, airtcp: Command) -> None:
    path = tmp_path / "greedy.toml"
    path.write_text(
        file.read_text()
        + '[[variants]]\nname = "modest"\n[[variants]]\nname = "greedy"\n'
        + 'set = { "record.interval" = "1us", duration = "10s" }\n'
    )
    args = (
        "sweep",
        path,
        "--seeds",
        1,
        "--set",
        "rate=5",
        "--set",
        "loss=0.0",
        "--memory-limit",
        "300MB",
        "--out",
        "o",
    )
    first = airtcp(*args)
    assert first.returncode == 1
    assert "memory" in first.stderr
    begin = time.monotonic()
    again = airtcp(*args)
    assert again.returncode == 1
    assert "1 runs died in an earlier start and are not tried again: --retry-died does" in again.stderr
    quick = time.monotonic() - begin
    asked = airtcp(*args, "--retry-died")
    assert asked.returncode == 1
    assert "not tried again" not in asked.stderr
    assert quick < time.monotonic() - begin


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_killed_worker_is_replaced_and_its_run_recorded(number: signal.Signals) -> None:
    sweep = tiny(seeds=2, set={"duration": "4000s"})
    planned = plan(sweep)
    hit: list[int] = []

    def shoot() -> None:
        deadline = time.monotonic() + 30
        while not hit and time.monotonic() < deadline:
            for pid in children():
                # Not while it loads: it is ready once it ignores Ctrl-C.
                status = Path(f"/proc/{pid}/status").read_text()
                if int(status.split("SigIgn:")[1].split()[0], 16) & 2:
                    # Its run must neither be still to come nor finish before the shot, however late this thread wakes.
                    time.sleep(0.05)
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(0.2)
                    os.kill(pid, number)
                    with contextlib.suppress(ProcessLookupError):  # gone already
                        os.kill(pid, signal.SIGCONT)
                    hit.append(pid)
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=shoot)
    thread.start()
    with Store(None) as store:
        (results,) = execute([planned], store, LocalExecutor(1))
    thread.join()
    assert sorted(results.runs["status"].to_list()) == ["failed", "ok"]
    (error,) = results.failed["error"]
    assert number.name in error
    assert "MB of memory at most" in error
    assert children() == []


def test_processes_and_threads_agree() -> None:
    sweep = tiny(
        seeds=3, measures={"u": "links.line.utilisation", "n": {"sql": "SELECT avg(cwnd_segments) FROM flow_series"}}
    )
    planned = plan(sweep)
    runs = []
    for executor in (LocalExecutor(2), ThreadExecutor(2)):
        with Store(None) as store:
            (results,) = execute([planned], store, executor)
        runs.append(results.runs.drop("wall_s"))
    assert runs[0].equals(runs[1])


def test_workers_go_with_their_parent(file: Path, tmp_path: Path) -> None:
    running = subprocess.Popen([AIRTCP, "sweep", file, "--set", "duration=2000s", "--out", tmp_path / "out"])
    path = Path(f"/proc/{running.pid}/task")

    def workers() -> list[int]:
        return [int(pid) for task in path.glob("*/children") for pid in task.read_text().split()]

    deadline = time.monotonic() + 30
    while not (pids := workers()) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    running.kill()
    running.wait()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_what_a_run_costs_beyond_itself() -> None:
    (point,) = plan(tiny(seeds=1, set={"duration": "501ms"})).points
    runs = 300
    spent: list[float] = []

    def tasks() -> Any:
        for _ in range(runs):
            yield point.task

    source = tasks()
    begin: float | None = None
    for batch in LocalExecutor(1).run(lambda: next(source, None), lambda: False):
        for outcome in batch:
            assert isinstance(outcome, Outcome)
            begin = begin or time.perf_counter()
            spent.append(outcome.wall_s)
    assert begin is not None
    overhead = (time.perf_counter() - begin - sum(spent[1:])) / (runs - 1)
    # 5 ms are promised. A machine with other work gets no failure for it.
    assert overhead < 0.02


def test_a_worker_that_is_killed_while_it_ends_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted run kills its workers again and again, while other threads wait for their exit codes."""
    worker = local._Worker(machine_memory())
    worker.greet()
    collect = os.wait4

    def killed_meanwhile(pid: int, options: int) -> Any:
        worker.kill()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        worker.kill()
        return collect(pid, options)

    monkeypatch.setattr(os, "wait4", killed_meanwhile)
    assert worker.end() == -signal.SIGKILL
    worker.kill()


def test_a_worker_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(airtcp.ExecutorError, match="cannot be started"):
        airtcp.sweep(tiny())


def test_the_machine_has_memory() -> None:
    assert 100 * MIB < machine_memory() < 1 << 50


@pytest.mark.parametrize("text", ["1", "-1GB", "10MB", "lots", "1XB"])
def test_a_wrong_memory_limit_says_what_would_do(airtcp: Command, file: Path, text: str) -> None:
    done = airtcp("sweep", file, f"--memory-limit={text}")
    assert done.returncode == 2
    assert "such as 500MB or 2GiB" in done.stderr


def test_tasks_are_plain(file: Path) -> None:
    import pickle

    (point, *_) = plan(file).points
    assert isinstance(pickle.loads(pickle.dumps(point.task)), Task)
