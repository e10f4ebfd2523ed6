"""Folders that airtcp writes: nothing else is touched, nothing is half, nothing damaged is believed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import airtcp
from airtcp import NotOursError, Results, ResultsError, _files, leftovers
from airtcp._marker import MARKER, Batch, Marker
from airtcp.results import Folder
from airtcp.sweeps.store import JOURNAL, LOCK, Store
from airtcp.tasks.task import Outcome
from conftest import AIRTCP, Command

TARGET = b"somebody's work\n" * 20


def outcome(i: int) -> Outcome:
    return Outcome(f"{i:032x}", "ok", {"links.line.loss_ratio": i / 7}, None, 0.25, "0.1.0+test")


# --- what is not airtcp's ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"x", b'{"format": "airtcp-runs"', TARGET, TARGET[:-1], b"\n", b'{"format": "other"}\n', b'{"a": 1}']
)
def test_a_foreign_journal_is_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / JOURNAL).write_bytes(content)
    with pytest.raises(NotOursError, match="not touched"):
        Store(tmp_path)
    assert (tmp_path / JOURNAL).read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == [JOURNAL]


@pytest.mark.parametrize("name", [JOURNAL, LOCK, MARKER])
@pytest.mark.parametrize("is_ours", [True, False])
def test_links_in_a_received_folder_are_not_followed(tmp_path: Path, name: str, *, is_ours: bool) -> None:
    target = tmp_path / "target"
    target.write_bytes(TARGET)
    out = tmp_path / "out"
    out.mkdir()
    if is_ours:
        Store(out).close()
        (out / name).unlink()
    (out / name).symlink_to(target)
    with pytest.raises(ResultsError):
        Store(out)
    assert target.read_bytes() == TARGET


def test_a_lock_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_bytes(TARGET)
    with pytest.raises(NotOursError, match="not touched"):
        Store(tmp_path)
    assert (tmp_path / LOCK).read_bytes() == TARGET


def test_a_pipe_in_place_of_a_journal_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / JOURNAL)
    with pytest.raises(ResultsError):
        Store(tmp_path)


@pytest.mark.parametrize(
    "name", [".report.html.part", ".runs.parquet.partial", ".sweep.json.partial", "report.html", "runs.parquet"]
)
def test_links_under_the_names_of_results_keep_their_targets(
    airtcp: Command, file: Path, tmp_path: Path, name: str
) -> None:
    target = tmp_path / "target"
    target.write_bytes(TARGET)
    out = tmp_path / "out"
    Store(out).close()
    (out / name).symlink_to(target)
    airtcp("sweep", file, "--seeds", 1, "--out", out, "-q")
    airtcp("report", out)
    assert target.read_bytes() == TARGET


def test_figures_do_not_go_through_a_link(airtcp: Command, file: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    out = tmp_path / "out"
    assert airtcp("sweep", file, "--seeds", 2, "--out", out, "-q").returncode == 0
    (out / "figures").symlink_to(away)
    done = airtcp("report", out)
    assert done.returncode == 2
    assert "is a link" in done.stderr
    assert not any(away.iterdir())


def test_a_file_of_somebody_else_is_not_replaced(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    Store(out).close()
    (out / "runs.parquet").write_bytes(TARGET)
    with pytest.raises(NotOursError, match=r"runs\.parquet"):
        airtcp.sweep(file, out=out, seeds=1)
    assert (out / "runs.parquet").read_bytes() == TARGET


def test_a_result_with_a_note_beside_it_is_not_replaced(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    airtcp.run(scenario, duration="700ms", out=out)
    (out / "note.txt").write_text("mine")
    with pytest.raises(NotOursError, match=r"note\.txt"):
        airtcp.run(scenario, duration="700ms", out=out)
    assert (out / "note.txt").read_text() == "mine"
    (out / "note.txt").unlink()
    airtcp.run(scenario, duration="800ms", out=out)


@pytest.mark.parametrize("command", [["run"], ["report"], ["schema"]])
def test_a_device_as_output_stays_a_device(
    airtcp: Command, scenario: Path, file: Path, tmp_path: Path, command: list[str]
) -> None:
    out = tmp_path / "out"
    if command == ["run"]:
        command = ["run", str(scenario), "--duration", "700ms"]
    elif command == ["report"]:
        assert airtcp("sweep", file, "--seeds", 1, "--out", out, "-q").returncode == 0
        command = ["report", str(out)]
    done = airtcp(*command, "--out", "/dev/full")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "error:" in done.stderr
    assert Path("/dev/full").is_char_device()


# --- half-written -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [0, 1, 40])
def test_a_failed_append_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    with Store(tmp_path) as store:
        store.add([outcome(1)])
        before = (tmp_path / JOURNAL).read_bytes()

        def full(handle: int, data: memoryview) -> None:
            os.write(handle, bytes(data[:written]))
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(_files, "write_all", full)
            with pytest.raises(ResultsError, match="No space left"):
                store.add([outcome(2)])
        assert (tmp_path / JOURNAL).read_bytes() == before
        store.add([outcome(3)])
    assert b"\0" not in (tmp_path / JOURNAL).read_bytes()
    with Store(tmp_path) as store:
        assert (len(store), store.damaged, store.torn) == (2, 0, False)


@pytest.mark.parametrize("at", ["marker", "first rename", "second rename", "last marker"])
def test_a_kill_within_a_batch_leaves_known_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    Marker("test").write(tmp_path)
    with Batch(tmp_path) as batch:
        batch.add("a", b"old a")
        batch.add("b", b"old b")
        batch.commit()

    class KillError(BaseException):
        pass

    real, calls = Path.replace, {"n": 0}
    last = {"marker": 1, "first rename": 2, "second rename": 3, "last marker": 4}[at]

    def replace(self: Path, target: Path) -> Path:
        calls["n"] += 1
        if calls["n"] == last:
            raise KillError
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(KillError), Batch(tmp_path) as batch:
        batch.add("a", b"new a")
        batch.add("b", b"new b")
        batch.commit()
    monkeypatch.undo()
    marker = Marker.read(tmp_path)
    assert marker is not None
    for name in ("a", "b"):
        marker.check(tmp_path, name)
    with Batch(tmp_path) as batch:
        batch.add("a", b"newer")
        batch.commit()
    marker = Marker.read(tmp_path)
    assert marker is not None
    marker.check(tmp_path, "a")
    assert len(marker.files["a"]) == 1


# --- what was killed --------------------------------------------------------------------------------------------------


def killed(scenario: Path, out: Path, *more: str) -> Path:
    """A run that was killed, and the folder that it left."""
    running = subprocess.Popen([AIRTCP, "run", scenario, "--duration", "2000s", "--out", out, *more])
    pattern = f".{out.name}.partial-*"
    deadline = time.monotonic() + 60
    while not (found := list(out.parent.glob(f"{pattern}/{MARKER}"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found[0].parent not in airtcp_left(out.parent)
    running.kill()
    running.wait()
    return found[0].parent


def airtcp_left(folder: Path) -> list[Path]:
    return [left.path for left in leftovers.find(folder)]


def test_the_next_run_removes_what_a_killed_one_left(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    left = killed(scenario, tmp_path / "out")
    other = killed(scenario, tmp_path / "other")
    done = airtcp("run", scenario, "--duration", "700ms", "--out", tmp_path / "out", "-q")
    assert done.returncode == 0
    assert left.name in done.stderr
    assert not left.exists()
    assert airtcp_left(tmp_path) == [other]


def test_clean_shows_and_removes(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    left = killed(scenario, tmp_path / "out")
    mine = tmp_path / ".out.partial-1-0"
    mine.mkdir()
    (mine / "thesis.tex").write_text("mine")
    shown = airtcp("clean", tmp_path, "--dry-run")
    assert shown.returncode == 0
    assert str(left) in shown.stdout
    assert left.exists()
    assert airtcp("clean", tmp_path).returncode == 0
    assert not left.exists()
    assert (mine / "thesis.tex").exists()


def test_a_kill_between_two_renames_hides_nothing(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    airtcp.run(scenario, duration="700ms", seed=1, out=out)
    # A file system that cannot exchange two names needs two renames.
    monkeypatch.setattr(_files, "exchange", lambda a, b: False)
    before = Results.load(out).manifest
    shutil.move(out, tmp_path / ".out.replaced-99999999-0")
    told: list[str] = []
    with Folder(out, tell=told.append):
        assert Results.load(out).manifest == before
    assert "is back" in told[0]


def test_an_older_result_is_replaced_in_one_step(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for seed in (1, 2):
        airtcp.run(scenario, duration="700ms", seed=seed, out=out)
    assert Results.load(out).seed == 2
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def run_folder(scenario: Path, tmp_path: Path) -> Path:
    airtcp.run(scenario, duration="700ms", out=tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("name", ["manifest.json", "summary.json", "flows.parquet", "link_series.parquet", MARKER])
def test_damage_is_told_with_the_file(airtcp: Command, run_folder: Path, name: str) -> None:
    data = bytearray((run_folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (run_folder / name).write_bytes(data)
    if name == "flows.parquet":
        # `compare` and `plot` need no flows.
        with pytest.raises(ResultsError, match=r"flows\.parquet: damaged"):
            _ = Results.load(run_folder).flows
        return
    done = airtcp("plot", run_folder) if "series" in name else airtcp("compare", run_folder, run_folder)
    assert done.returncode == 1
    assert name in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_without_marker_is_read_unchecked(run_folder: Path) -> None:
    (run_folder / MARKER).unlink()
    assert Results.load(run_folder).flows.collect().height


@pytest.mark.parametrize(
    "wrong",
    [{}, {"tables": ["flows"]}, {"tables": {"flows": 1}}, {"tables": 3}, {"tables": {"../x": {"columns": {}}}}],
)
def test_a_manifest_of_a_stranger_is_no_traceback(run_folder: Path, wrong: dict[str, Any]) -> None:
    (run_folder / MARKER).unlink()
    manifest = json.loads((run_folder / "manifest.json").read_text())
    del manifest["tables"]
    (run_folder / "manifest.json").write_text(json.dumps({**manifest, **wrong}))
    with pytest.raises(ResultsError, match=r"manifest\.json: damaged"):
        Results.load(run_folder)


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("special", ["pipe", "/dev/zero"])
@pytest.mark.parametrize(
    "what", ["run", "check", "sweep", "study check", "study run", "variants", "scenario of a sweep"]
)
def test_a_pipe_or_a_device_is_refused_at_once(
    airtcp: Command, file: Path, tmp_path: Path, what: str, special: str
) -> None:
    path = Path(special)
    if special == "pipe":
        path = tmp_path / "pipe"
        os.mkfifo(path)
    if what.startswith("study"):
        study = tmp_path / "mine"
        study.mkdir()
        (study / "study.toml").symlink_to(path)
        done = airtcp(*what.split(), study)
    elif what in ("run", "check", "sweep"):
        done = airtcp(what, path)
    else:
        text = file.read_text()
        if what == "variants":
            text = f'variants = "{path}"\n{text}'
        else:
            text = text.replace('scenario = "tiny.toml"', f'scenario = "{path}"')
        file.write_text(text)
        done = airtcp("sweep", file)
    assert done.returncode == 2
    is_named_by_user = what in ("run", "check", "sweep")
    assert ("is not a regular file" if is_named_by_user else "leads out of") in done.stderr
    assert "Traceback" not in done.stderr


def test_a_capture_that_is_a_pipe_or_a_device_is_refused_at_once(airtcp: Command, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in [(tmp_path / "pipe", "is not a regular file"), (Path("/dev/zero"), "no capture")]:
        done = airtcp("analyze", path)
        assert done.returncode == 2
        assert message in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


def test_standard_error_may_be_full(scenario: Path, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([AIRTCP, "run", scenario, "--out", tmp_path / "out"], stderr=full, check=False)
    assert done.returncode == 0
