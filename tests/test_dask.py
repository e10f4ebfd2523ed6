"""Sweeps on a real Dask cluster: a scheduler and four worker processes on this machine, one of them killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import airtcp
from airtcp import ExecutorError, Sweep, SweepResults, _airtcp
from airtcp.executors import executor_of
from airtcp.sweeps.planning import plan
from airtcp.sweeps.running import execute
from airtcp.sweeps.store import JOURNAL, Store
from conftest import SMALL, Command

distributed = pytest.importorskip("distributed")

# Dask leaves some of its sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

MEASURES = {
    "utilisation": "links.bottleneck.utilisation",
    "drops": {"sql": "SELECT link, count(*) AS n FROM drops GROUP BY link ORDER BY link"},
}


def sweep_of(tmp_path: Path, **changes: Any) -> Sweep:
    (tmp_path / "small.toml").write_text(SMALL)
    given = {"name": "dask", "scenario": tmp_path / "small.toml", "measures": MEASURES, "seeds": 30}
    return Sweep(**{**given, **changes})


def cluster_of(preload: Path | None = None) -> Any:
    more = {"preload": [str(preload)]} if preload else {}
    return distributed.LocalCluster(n_workers=4, threads_per_worker=1, processes=True, dashboard_address=":0", **more)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with cluster_of() as cluster:
        yield cluster


def address_of(cluster: Any) -> str:
    return f"dask://{cluster.scheduler_address.removeprefix('tcp://')}"


def keys(out: Path) -> list[str]:
    return [json.loads(line)["key"] for line in (out / JOURNAL).read_text().splitlines()[1:]]


def test_the_same_results_as_here(cluster: Any, tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path)
    here = airtcp.sweep(sweep)
    there = airtcp.sweep(sweep, executor=address_of(cluster), out=tmp_path / "out")
    assert there.runs.drop("wall_s").equals(here.runs.drop("wall_s"))
    assert there.rows("drops").equals(here.rows("drops"))
    with distributed.Client(cluster, set_as_default=False) as client:
        assert airtcp.sweep(sweep, executor=client).runs.drop("wall_s").equals(here.runs.drop("wall_s"))
        assert client.status == "running", "a client that was given stays open"


def test_a_scheduler_file(tmp_path: Path) -> None:
    # As on a cluster of batch jobs: the scheduler says in a shared file where it is.
    path = tmp_path / "scheduler.json"
    run = [sys.executable, "-m"]
    where = ["--scheduler-file", str(path)]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    scheduler = [*run, "distributed.cli.dask_scheduler", *where, "--port", "0", "--no-dashboard"]
    worker = [*run, "distributed.cli.dask_worker", *where, "--no-dashboard", "--nworkers", "1", "--nthreads", "1"]
    processes = [subprocess.Popen(command, **quiet) for command in (scheduler, worker)]
    try:
        while not path.exists() or not path.read_text().endswith("}"):
            assert processes[0].poll() is None
            time.sleep(0.05)
        assert airtcp.sweep(sweep_of(tmp_path, seeds=3), executor=f"dask://{path}").is_complete
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


def test_the_command_on_a_cluster(cluster: Any, airtcp: Command, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    file = tmp_path / "sweep.toml"
    file.write_text('scenario = "small.toml"\nseeds = 8\n[measures]\nu = "links.bottleneck.utilisation"\n')
    done = airtcp("sweep", file, "--executor", address_of(cluster), "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert SweepResults.load(tmp_path / "out").runs["status"].to_list() == ["ok"] * 8


def test_a_worker_is_killed_and_every_run_is_there_once(cluster: Any, tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, seeds=60, set={"duration": "200s"})
    out = tmp_path / "out"
    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(4)
        pids: dict[str, int] = client.run(os.getpid)
        assert len(set(pids.values())) == 4
        killed: list[tuple[int, int]] = []

        def kill(progress: airtcp.Progress) -> None:
            if progress.done >= 8 and not killed:
                # One that is at work, so that a run has to be given to another.
                busy = [worker for worker, tasks in client.processing().items() if tasks]
                pid = pids[busy[0]]
                os.kill(pid, signal.SIGKILL)
                killed.append((pid, progress.done))

        results = airtcp.sweep(sweep, executor=client, out=out, progress=kill)
        after: dict[str, int] = client.run(os.getpid)
    (pid, done) = killed[0]
    assert done < 60
    assert pid not in after.values()
    assert results.failed["error"].to_list() == []
    assert results.runs["status"].to_list() == ["ok"] * 60
    assert Counter(keys(out)) == Counter(results.runs["key"].to_list())
    assert airtcp.sweep(sweep).runs.drop("wall_s").equals(results.runs.drop("wall_s"))


def test_another_engine_on_a_worker_is_refused(cluster: Any, tmp_path: Path) -> None:
    def become(engine: str) -> None:
        import airtcp._airtcp

        airtcp._airtcp.engine = lambda: engine

    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(4)
        worker = next(iter(client.run(os.getpid)))
        client.run(become, "0.0.1+old", workers=[worker])
        try:
            with pytest.raises(ExecutorError) as caught:
                airtcp.sweep(sweep_of(tmp_path), executor=client)
        finally:
            client.run(become, _airtcp.engine(), workers=[worker])
    for word in ["1 of 4 workers", worker, "0.0.1+old", _airtcp.engine(), "install the same build"]:
        assert word in str(caught.value)


def test_a_worker_that_comes_later_is_checked_as_well(cluster: Any, tmp_path: Path) -> None:
    def become(engine: str) -> None:
        import airtcp._airtcp

        airtcp._airtcp.engine = lambda: engine

    with distributed.Client(cluster, set_as_default=False) as client:

        def change(progress: airtcp.Progress) -> None:
            if progress.done >= 2:
                client.run(become, "0.0.1+old")

        try:
            with pytest.raises(ExecutorError, match=r"has engine 0\.0\.1\+old, here it is"):
                airtcp.sweep(sweep_of(tmp_path, set={"duration": "100s"}), executor=client, progress=change)
        finally:
            client.run(become, _airtcp.engine())


def test_stopping_frees_the_cluster(cluster: Any, tmp_path: Path) -> None:
    # Hours of simulated time: workers would be at it for minutes.
    sweep = sweep_of(tmp_path, set={"duration": "100h", "record.interval": "1h"})
    with distributed.Client(cluster, set_as_default=False) as client, Store(None) as store:
        begin = time.monotonic()
        execute([plan(sweep)], store, client, is_stopped=lambda: time.monotonic() - begin > 2)
        assert len(store) == 0
        # A worker at a time: the next run can only begin when the old ones are gone.
        airtcp.sweep(sweep_of(tmp_path, seeds=8), executor=client)
        assert time.monotonic() - begin < 60


KILLER = """
import os, signal
import airtcp.executors.dask as there
from airtcp.tasks.task import perform as real

def perform(task, is_stopped):
    if '"seed":3,' in task.scenario:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(task, is_stopped)

there.perform = perform
"""


def test_a_run_that_takes_down_workers_is_a_failed_run(tmp_path: Path) -> None:
    preload = tmp_path / "killer.py"
    preload.write_text(KILLER)
    with cluster_of(preload) as cluster:
        results = airtcp.sweep(sweep_of(tmp_path, seeds=6), executor=address_of(cluster), out=tmp_path / "out")
    assert [(row["seed"], row["error"].split(",")[0]) for row in results.failed.to_dicts()] == [
        (3, "took down several workers")
    ]
    assert results.runs.filter(status="ok").height == 5
    assert sorted(keys(tmp_path / "out")) == sorted(results.runs["key"])


def test_the_cluster_goes_away(tmp_path: Path) -> None:
    out = tmp_path / "out"
    cluster = cluster_of()
    try:
        sweep = sweep_of(tmp_path, set={"duration": "300s"})

        def close(progress: airtcp.Progress) -> None:
            if progress.done >= 4 and not closing.is_alive() and not closed:
                closed.append(progress.done)
                closing.start()

        closed: list[int] = []
        closing = threading.Thread(target=cluster.close)
        with pytest.raises(ExecutorError, match="finished runs are kept"):
            airtcp.sweep(sweep, executor=address_of(cluster), out=out, progress=close)
        closing.join()
    finally:
        cluster.close()
    assert len(keys(out)) >= closed[0]
    assert airtcp.sweep(sweep, out=out).is_complete
    assert len(set(keys(out))) == len(keys(out)) == 30


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("tcp://host:1", "must be dask://HOST:PORT"),
        ("dask://", "must be dask://HOST:PORT"),
        ("dask://no/such/file.json", "neither HOST:PORT nor a scheduler file"),
        ("dask://127.0.0.1:1", "no scheduler answers there"),
    ],
)
def test_bad_addresses(address: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airtcp.executors.dask.CONNECT_S", 1.0)
    with pytest.raises(ExecutorError, match=words):
        executor_of(address)


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['distributed'] = None; import airtcp.executors as e; e.executor_of('dask://x:1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'airtcp[cluster]'" in done.stderr
