"""`airtcp verify` reads folders of strangers: links, devices, bombs and runs that never end harm nobody."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from airtcp import _airtcp
from airtcp.sweeps import store
from airtcp.sweeps.planning import plan
from airtcp.sweeps.results import SweepResults
from airtcp.sweeps.store import JOURNAL, Store
from airtcp.tasks.task import Outcome
from airtcp.verified import Limits
from airtcp.verify import verify
from conftest import Command
from forging import DEFINITION, Copy, make, variants
from sample_sweep import TINY

SOON_S = 30


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest") / "sweep"
    make("sweep", folder)
    return folder


@pytest.fixture
def it(honest: Path, tmp_path: Path) -> Copy:
    return Copy(honest, tmp_path / "hostile")


def replaced(path: Path, by: Callable[[Path], object]) -> None:
    path.unlink()
    by(path)


def to_zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("by", [to_zero, fifo])
@pytest.mark.parametrize(
    "name", ["airtcp.json", JOURNAL, ".lock", "runs.parquet", "sweep.json", DEFINITION, "verify/tasks.parquet"]
)
def test_only_regular_files_are_read(airtcp: Command, it: Copy, name: str, by: Callable[[Path], object]) -> None:
    replaced(it.folder / name, by)
    begin = time.monotonic()
    done = airtcp("verify", it.folder, "--runs", "all")
    assert time.monotonic() - begin < SOON_S
    assert done.returncode in (1, 2)
    assert name in done.stdout + done.stderr


def test_no_folder_on_the_way_is_a_link(it: Copy, tmp_path: Path) -> None:
    (it.folder / "verify").rename(tmp_path / "elsewhere")
    (it.folder / "verify").symlink_to(tmp_path / "elsewhere")
    assert any("is a link" in fault for fault in verify(it.folder, None, 1).faults)


@pytest.mark.parametrize("name", ["/dev/zero", "../hostile/sweep.json", "./sweep.json", "a//b", "a\0b", ""])
def test_the_marker_names_nothing_elsewhere(it: Copy, name: str) -> None:
    it.sign({name: ["0" * 64]})
    assert any("which is not in the folder" in fault for fault in verify(it.folder, None, 1).faults)


def test_a_table_that_unfolds_to_more_than_memory_is_not_unfolded(airtcp: Command, it: Copy) -> None:
    runs = pl.read_parquet(it.folder / "runs.parquet")
    bomb = pl.select(pl.repeat(0.0, 1 << 24).alias(name).cast(runs.schema[name], strict=False) for name in runs.columns)
    bomb.write_parquet(it.folder / "runs.parquet", compression="zstd")
    assert (it.folder / "runs.parquet").stat().st_size < 8 << 20
    it.sign()
    done = airtcp("verify", it.folder, "--memory", "512MiB", "--runs", 0)
    assert done.returncode == 1
    assert "runs.parquet: has 16777216 rows, not 8" in done.stdout


def test_a_text_that_fills_memory_ends_the_check_alone(airtcp: Command, it: Copy) -> None:
    long = "x" * (64 << 20)
    it.table("runs", lambda frame: frame.with_columns((pl.col("variant") + pl.lit(long)).alias("variant")))
    it.sign()
    assert (it.folder / "runs.parquet").stat().st_size < 8 << 20
    done = airtcp("verify", it.folder, "--memory", "256MiB", "--runs", 0)
    assert done.returncode == 1
    assert "--memory" in done.stdout or "runs.parquet" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["sweep.json", DEFINITION])
@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "{" + '"x": [' * 900 + "]" * 900 + "}", "[]"])
def test_nested_documents_are_told(it: Copy, name: str, text: str) -> None:
    (it.folder / name).write_text(text)
    it.sign()
    assert name in verify(it.folder, None, 1).faults[0]


def test_nesting_that_can_be_read_is_told_too(it: Copy) -> None:
    nested: Any = []
    for _ in range(400):
        nested = [nested]
    it.json(DEFINITION, lambda d: d["sweep"]["definition"].update(description=nested))
    it.sign()
    assert DEFINITION in verify(it.folder, None, 1).faults[0]


@pytest.mark.parametrize(
    "change", [{"scenario": "/etc/passwd"}, {"variants": "/etc/passwd"}, {"variants": {"file": "x"}}]
)
def test_a_definition_names_no_file(it: Copy, change: dict[str, Any]) -> None:
    it.json(DEFINITION, lambda d: d["sweep"]["definition"].update(change))
    it.sign()
    assert DEFINITION in verify(it.folder, None, 1).faults[0]


def test_a_definition_runs_no_kernel(it: Copy) -> None:
    program = it.folder / "evil"
    program.write_text(f"#!/bin/sh\ntouch {it.folder}/ran\n")
    program.chmod(0o755)
    kernel = {"engine": "kernel", "kernel": str(program)}
    it.json(DEFINITION, lambda d: d["sweep"]["definition"]["variants"][0].update(kernel))
    it.sign()
    assert "names a kernel" in verify(it.folder, None, 1).faults[0]
    assert not (it.folder / "ran").exists()


LONG: Any = {**TINY, "duration": "100h"}
LARGE: Any = {**TINY, "duration": "100s", "record": {"interval": "10us"}}


@pytest.mark.parametrize(
    ("scenario", "most", "says"),
    [
        (LONG, Limits(1 << 30, 2), "takes more than 2 s (--time-limit)"),
        (LARGE, Limits(160 << 20, 60), "(--memory)"),
    ],
)
def test_a_run_beyond_the_limits_is_told(tmp_path: Path, scenario: Any, most: Limits, says: str) -> None:
    """Its journal is made up: nobody waits for such a run."""
    planned = plan(
        variants(scenario, variants=[], parameters={}, set={}, seeds=1, measures={"loss": "links.line.loss_ratio"})
    )
    (point,) = planned.points
    engine = _airtcp.engine()
    with Store(tmp_path / "runs") as journal:
        journal.add([Outcome(point.key, "ok", {"links.line.loss_ratio": 0.0}, None, 1.0, engine)])
        SweepResults.collect(planned, journal).save(tmp_path / "runs")
    begin = time.monotonic()
    found = verify(tmp_path / "runs", None, 1, jobs=1, most=most)
    assert time.monotonic() - begin < SOON_S
    assert (found.exit, found.of, found.again, found.beyond) == (3, 1, 0, 1)
    assert says in found.not_checked[0]
    assert found.closing == "checksums fit; no run was made again"


def test_an_endless_line_of_the_journal_is_damage(it: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_LINE_BYTES", 1 << 16)
    path = it.folder / JOURNAL
    data = path.read_bytes()
    path.write_bytes(data + b"x" * (1 << 18) + b"\n" + data.splitlines(keepends=True)[1])
    looked = store.Store.look(it.folder)
    assert (looked.damaged, looked.torn, len(looked)) == (1, False, 8)
    assert "damaged" in verify(it.folder, 0, 1).faults[0]


def test_json_tells_all_counts_of_a_hostile_folder(airtcp: Command, it: Copy) -> None:
    replaced(it.folder / "runs.parquet", to_zero)
    told = json.loads(airtcp("verify", it.folder, "--json").stdout)
    assert told["exit"] == 1
    assert {"files", "not_checked", "again", "of", "agreed"} <= told.keys()
