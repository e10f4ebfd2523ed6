"""Sweeps: running, what survives a kill, the journal."""

from __future__ import annotations

import json
import math
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import airtcp
from airtcp import NotOursError, ResultsError, SweepResults
from airtcp.execution import Execution
from airtcp.executors.local import LocalExecutor
from airtcp.sweeps.planning import plan
from airtcp.sweeps.running import Progress, count, execute
from airtcp.sweeps.store import JOURNAL, Store
from airtcp.tasks.task import Outcome, Task, perform
from sample_sweep import FAILS, FILE, UTILISATION, tiny

# --- running ----------------------------------------------------------------------------------------------------------


class Counting(LocalExecutor):
    """Counts the runs."""

    def __init__(self) -> None:
        super().__init__(2)
        self.tasks: list[Task] = []

    def run(self, next_task: Callable[[], Task | None], is_stopped: Callable[[], bool]) -> Any:
        def counted() -> Task | None:
            task = next_task()
            if task is not None:
                self.tasks.append(task)
            return task

        return super().run(counted, is_stopped)


def test_finished_runs_are_not_repeated(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first, again, more = Counting(), Counting(), Counting()
    a = airtcp.sweep(file, out=out, executor=first)
    b = airtcp.sweep(file, out=out, executor=again)
    assert (len(first.tasks), len(again.tasks)) == (12, 0)
    assert a.runs.equals(b.runs)
    airtcp.sweep(file, out=out, executor=more, seeds=3)
    assert {json.loads(task.scenario)["seed"] for task in more.tasks} == {3}
    assert len(more.tasks) == 6


def test_a_changed_file_keeps_what_still_belongs(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    airtcp.sweep(file, out=out)
    file.write_text(FILE.replace("[2, 5]", "[5, 7]"))
    executor = Counting()
    results = airtcp.sweep(file, out=out, executor=executor)
    assert len(executor.tasks) == 6
    assert sorted(results.runs["rate"].unique()) == [5, 7]
    assert len((out / JOURNAL).read_text().splitlines()) == 1 + 12 + 6


def test_a_new_measure_runs_again_and_a_new_name_does_not(tmp_path: Path) -> None:
    out = tmp_path / "out"
    airtcp.sweep(tiny(), out=out)
    renamed, new = Counting(), Counting()
    airtcp.sweep(tiny(measures={"u": {"value": "links.line.utilisation", "scale": 2}}), out=out, executor=renamed)
    assert renamed.tasks == []
    both = {**UTILISATION, "loss": "links.line.loss_ratio"}
    results = airtcp.sweep(tiny(measures=both), out=out, executor=new)
    assert len(new.tasks) == 1
    old = Counting()
    assert airtcp.sweep(tiny(), out=out, executor=old).runs["utilisation"].equals(results.runs["utilisation"])
    assert old.tasks == []


def test_equal_runs_of_several_sweeps_run_once() -> None:
    one = plan(tiny(parameters={"q": [5, 6]}, set={"links.line.queue.limit_packets": "{q}"}))
    two = plan(
        tiny(
            name="other",
            parameters={"links.line.queue.limit_packets": [6, 7]},
            measures={"u": "links.line.utilisation", "loss": "links.line.loss_ratio"},
        )
    )
    executor = Counting()
    with Store(None) as store:
        assert count([one, two], store) == (3, 0)
        a, b = execute([one, two], store, executor)
        assert count([one, two], store) == (3, 3)
    assert len(executor.tasks) == 3
    assert a.runs["utilisation"][1] == b.runs["u"][0]
    assert b.runs["loss"].null_count() == 0


def test_seeds_come_in_turn_and_the_longest_first() -> None:
    executor = Counting()
    executor.slots = 1  # type: ignore[misc]
    durations = ["100ms", "5min", "200ms"]
    airtcp.sweep(tiny(parameters={"duration": durations}, seeds=2), executor=executor)
    order = [(s["seed"], s["duration"]) for s in (json.loads(task.scenario) for task in executor.tasks)]
    assert order[:3] == [(1, duration) for duration in durations]
    assert order[3] == (2, "5min")


def test_progress() -> None:
    seen: list[Progress] = []
    airtcp.sweep(tiny(seeds=6), progress=seen.append, jobs=2)
    assert (seen[0].done, seen[0].total, seen[0].eta_s) == (0, 6, None)
    assert seen[-1].done == 6
    assert seen[-1].eta_s == 0
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert all(p.eta_s is not None and p.eta_s >= 0 for p in seen if p.done)


def test_a_failed_run_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    sweep = tiny(
        parameters={"duration": ["1ms", "300ms"]}, measures={**UTILISATION, "n": {"sql": FAILS}}, seeds=2, name="fails"
    )
    out = tmp_path / "out"
    results = airtcp.sweep(sweep, out=out)
    assert results.runs["status"].to_list() == ["ok", "ok", "failed", "failed"]
    assert "measure `n`" in results.failed["error"][0]
    assert results.manifest["runs"] == {"total": 4, "ok": 2, "failed": 2}
    assert results.failed["utilisation"].null_count() == 2
    again = Counting()
    airtcp.sweep(sweep, out=out, executor=again)
    assert [json.loads(task.scenario)["duration"] for task in again.tasks] == ["300ms", "300ms"]


class PanicException(BaseException):
    """What PyO3 makes of a panic is no `Exception` either."""


@pytest.mark.parametrize(
    ("error", "words"),
    [(PanicException("index out of bounds"), "PanicException: index out of bounds"), (MemoryError(), "out of memory")],
    ids=["panic", "memory"],
)
def test_a_panic_is_a_failed_run(monkeypatch: pytest.MonkeyPatch, error: BaseException, words: str) -> None:
    real = Execution

    def execution(checked: Any) -> Any:
        if json.loads(checked.to_json())["seed"] == 2:
            raise error
        return real(checked)

    monkeypatch.setattr("airtcp.tasks.task.Execution", execution)
    results = airtcp.sweep(tiny(seeds=3), executor="threads")
    assert results.runs["status"].to_list() == ["ok", "failed", "ok"]
    assert results.failed["error"].to_list() == [words]


def test_a_stopped_run_has_no_outcome() -> None:
    (point,) = plan(tiny()).points
    assert perform(point.task, lambda: True) is None
    outcome = perform(point.task)
    assert outcome is not None
    assert outcome.status == "ok"


def test_stopping_keeps_what_is_finished() -> None:
    planned = plan(tiny(seeds=20))
    with Store(None) as store:
        (results,) = execute([planned], store, jobs=1, is_stopped=lambda: len(store) >= 3)
        assert 3 <= len(store) < 20
    assert not results.is_complete
    assert results.runs["status"].value_counts().to_dicts() != []
    assert results.runs.filter(status="ok").height == len(store)
    assert results.runs.filter(status="missing")["utilisation"].null_count() == 20 - len(store)


def test_an_error_in_progress_ends_all_threads() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        airtcp.sweep(tiny(seeds=50), jobs=2, progress=interrupt)
    assert not [t for t in threading.enumerate() if t.name.startswith("airtcp")]


# --- the journal ------------------------------------------------------------------------------------------------------


def outcome(i: int, **more: Any) -> Outcome:
    return Outcome(f"key{i}", "ok", {"x": i, "s": "é\n"}, None, 0.1, "e", **more)


@pytest.mark.parametrize("cut", [*range(0, 60, 7), *range(150, 400, 5)])
def test_a_torn_journal_keeps_every_whole_line(tmp_path: Path, cut: int) -> None:
    out = tmp_path / "out"
    with Store(out) as store:
        store.add([outcome(i) for i in range(4)])
    data = (out / JOURNAL).read_bytes()
    (out / JOURNAL).write_bytes(data[:cut])
    whole = max(data[:cut].count(b"\n") - 1, 0)
    with Store(out) as store:
        assert len(store) == whole
        assert store.damaged == 0
        store.add([outcome(9)])
    with Store(out) as store:
        assert len(store) == whole + 1
        assert store.get("key9") == outcome(9)
    lines = (out / JOURNAL).read_text().splitlines()
    assert len(lines) == 1 + whole + 1
    assert all(json.loads(line) for line in lines)


def test_a_damaged_line_costs_one_run(tmp_path: Path) -> None:
    with Store(tmp_path / "out") as store:
        store.add([outcome(i) for i in range(3)])
    path = tmp_path / "out" / JOURNAL
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1] + b"\0" * 30 + b"\n" + lines[3])
    with Store(tmp_path / "out") as store:
        assert (len(store), store.damaged) == (2, 1)
        assert store.get("key1") is None


def test_not_a_number_is_null_in_the_journal(tmp_path: Path) -> None:
    with Store(tmp_path / "out") as store:
        store.add([Outcome("k", "ok", {"x": math.nan, "y": math.inf, "z": 1.5})])
    with Store(tmp_path / "out") as store:
        found = store.get("k")
    assert found is not None
    assert found.measures == {"x": None, "y": None, "z": 1.5}


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with (
        Store(tmp_path / "out"),
        pytest.raises(ResultsError, match=rf"is writing there \(process {os.getpid()} on"),
    ):
        Store(tmp_path / "out")
    with Store(tmp_path / "out"):
        pass


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / JOURNAL).write_text('{"a": 1}\n')
    for path in (tmp_path, tmp_path / "other", tmp_path / "note.txt"):
        with pytest.raises(NotOursError, match="it was not touched"):
            Store(path)
    assert (tmp_path / "other" / JOURNAL).read_text() == '{"a": 1}\n'
    (tmp_path / "other" / JOURNAL).write_text('{"format": "airtcp-runs", "format_version": 99}\n')
    with pytest.raises(ResultsError, match="update it"):
        Store(tmp_path / "other")


def test_results_can_be_moved_and_loaded(file: Path, tmp_path: Path) -> None:
    results = airtcp.sweep(file, out=tmp_path / "out")
    for path in filter(Path.is_file, (tmp_path / "out").rglob("*")):
        assert str(tmp_path).encode() not in path.read_bytes(), f"{path} has an absolute path inside"
    shutil.move(tmp_path / "out", tmp_path / "moved")
    assert SweepResults.load(tmp_path / "moved").runs.equals(results.runs)
    executor = Counting()
    airtcp.sweep(file, out=tmp_path / "moved", executor=executor)
    assert executor.tasks == []


def test_a_folder_without_results_is_refused(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ResultsError, match="it has no sweep"):
        SweepResults.load(tmp_path)
    airtcp.sweep(file, out=tmp_path / "out")
    (tmp_path / "out/windows.parquet").unlink()
    with pytest.raises(ResultsError, match="damaged"):
        SweepResults.load(tmp_path / "out")
    (tmp_path / "out/sweep.json").write_text("{}")
    (tmp_path / "out/airtcp.json").unlink()
    with pytest.raises(ResultsError, match="not a manifest of airtcp sweep"):
        SweepResults.load(tmp_path / "out")
