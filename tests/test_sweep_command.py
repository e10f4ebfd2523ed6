"""The command `airtcp sweep`, and its guide."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import airtcp
import airtcp as airtcp_
from airtcp import ResultsError, SweepError, SweepResults
from airtcp.sweeps.planning import plan
from airtcp.sweeps.store import JOURNAL, Store
from conftest import AIRTCP, ROOT, Command
from sample_sweep import FAILS, FILE, same

# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command(airtcp: Command, file: Path, tmp_path: Path) -> None:
    done = airtcp("sweep", file)
    assert done.returncode == 0, done.stderr
    assert "tiny: 12 runs" in done.stderr
    assert "Utilisation" in done.stdout
    out = tmp_path / "cwd/runs/tiny-sweep"
    assert SweepResults.load(out).runs.height == 12
    again = airtcp("sweep", file, "--jobs", 1)
    assert "12 of 12 runs were already done" in again.stderr
    assert again.stdout == done.stdout
    more = airtcp("sweep", file, "--seeds", 3, "--json")
    assert "12 of 18 runs were already done" in more.stderr
    printed = json.loads(more.stdout)
    assert printed["runs"] == {"total": 18, "ok": 18, "failed": 0}
    assert len(printed["rows"]) == 18
    quiet = airtcp("sweep", "--quiet", "--set", "rate=3", "loss=[0, 0.5]", file, "--out", tmp_path / "q")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    assert SweepResults.load(tmp_path / "q").runs["loss"].unique().to_list() == [0, 0.5]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "a sweep FILE is missing"),
        (["FILE", "--jobs", "0"], "'0' is not a whole number from 1"),
        (["FILE", "--set", "rate"], "rate"),
        (["FILE", "--set", "nonsense=1"], "override nonsense: nonsense = 1: unknown key"),
        (["FILE", "--set", "rate=[1"], "--set rate=[1: not a value of TOML"),
        (["FILE", "--executor", "dask://x:1", "--jobs", "2"], "either --jobs or --executor"),
        (["nowhere.toml"], "nowhere.toml: cannot be read: No such file or directory"),
    ],
)
def test_bad_input_is_2(airtcp: Command, file: Path, args: list[str], words: str) -> None:
    done = airtcp("sweep", *[str(file) if arg == "FILE" else arg for arg in args])
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_failed_runs_are_1_with_a_list(airtcp: Command, file: Path, tmp_path: Path) -> None:
    file.write_text(FILE.replace("SELECT sum(dropped_overflow) AS n FROM links", FAILS))
    done = airtcp("sweep", file, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert "12 of 12 runs failed" in done.stderr
    assert "rate = 2, loss = 0.0, seed = 1: measure `dropped`" in done.stderr
    assert "and 2 more: see the column `error` of" in done.stderr
    assert SweepResults.load(tmp_path / "out").failed.height == 12


LONG = ["--set", "duration=60s", "record.interval=10s", "--seeds", "20"]
"""120 runs of some tens of milliseconds."""


def journal(out: Path) -> list[dict[str, Any]]:
    """The whole lines of the journal, but not its head."""
    path = out / JOURNAL
    text = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in text.split(b"\n")[:-1]][1:]


def started(file: Path, out: Path, after: int) -> subprocess.Popen[str]:
    command = [str(AIRTCP), "sweep", str(file), *LONG, "--out", str(out), "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(journal(out)) < after:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.002)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_sweep_goes_on(file: Path, tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    with started(file, out, 10) as process:
        process.send_signal(number)
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    kept = journal(out)
    assert 10 <= len(kept) < 120
    assert f"interrupted: {len(kept)} of 120 runs are finished and kept in {out}" in stderr
    results = SweepResults.load(out)
    assert results.manifest["status"] == "interrupted"
    assert results.runs.filter(status="ok").height == len(kept)
    with started(file, out, 11) as process:
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0
    assert f"{len(kept)} of 120 runs were already done" in stderr
    assert len({entry["key"] for entry in journal(out)}) == len(journal(out)) == 120


def test_kill_9_loses_and_repeats_nothing(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    chance = random.Random(1)
    before: list[dict[str, Any]] = []
    for _ in range(4):
        with started(file, out, len(before) + chance.randint(1, 15)) as process:
            time.sleep(chance.random() * 0.05)
            process.kill()
            process.wait()
        now = journal(out)
        assert now[: len(before)] == before
        before = now
    assert len(before) < 120, "killed too late to show anything"
    with started(file, out, 0) as process:
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert f"{len(before)} of 120 runs were already done" in stderr
    assert journal(out)[: len(before)] == before
    assert Counter(entry["key"] for entry in journal(out)).most_common(1)[0][1] == 1
    assert len(journal(out)) == 120
    never_killed = airtcp.sweep(file, seeds=20, set={"duration": "60s", "record.interval": "10s"})
    assert same(SweepResults.load(out), never_killed)
    assert stdout


def test_a_second_command_is_refused(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with started(file, out, 1) as process:
        with pytest.raises(ResultsError, match=rf"is writing there \(process {process.pid} on"):
            Store(out)
        process.kill()
    with Store(out) as store:
        assert len(store) >= 1, "the lock went with the process"


GUIDE = (ROOT / "docs/sweeps.md").read_text()


def test_the_guide_has_a_whole_file(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples/pacing-buffers-reno.toml", tmp_path)
    blocks = [block.split("```")[0] for block in GUIDE.split("```toml\n")[1:]]
    file = tmp_path / "sweep.toml"
    file.write_text(blocks[0])
    assert len(plan(file).points) == 10
    # The others are parts of such a file; those with a file of variants need that file.
    head = "\n".join(line for line in blocks[0].split("[parameters]")[0].splitlines())
    parts = [block for block in blocks[1:] if "[[variants]]" not in block and not block.startswith("variants = ")]
    other = [block for block in parts if "[measures]" not in block]
    measures = next(block for block in parts if "[measures]" in block)
    for block in other:
        text = block if "[parameters]" in block else f"[parameters]\nn = [1]\n[set]\nduration = '{{30 + n}}s'\n{block}"
        file.write_text(f"{head}\n{text}\n{measures}".replace("parameters = { n = [100] }", "parameters = { n = [2] }"))
        assert plan(file).points


def test_the_guide_in_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    whole = airtcp.sweep
    # As it stands, but for less of simulated time.
    monkeypatch.setattr(airtcp, "sweep", lambda *a, **k: whole(*a, **k, set={"duration": "21s"}))
    for block in GUIDE.split("```py\n")[1:]:
        exec(compile(block.split("```")[0], "docs/sweeps.md", "exec"), {"airtcp": airtcp})


EXAMPLES = sorted((ROOT / "examples").glob("sweep-*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_examples_run(airtcp: Command, path: Path, tmp_path: Path) -> None:
    try:
        assert plan(path).points
    except SweepError as error:
        # One example wants a Linux kernel that runs as a program.
        if "no kernel 6.12 is built yet" not in str(error):
            raise
        pytest.skip(str(error))
    done = airtcp("sweep", path, "--quick", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr


def test_each_file_is_told_which_command_takes_it(airtcp: Command, file: Path) -> None:
    folder = file.parent
    study = Path(shutil.copytree(ROOT / "tests/data/tiny", folder / "study"))
    (folder / "variants.toml").write_text('[[variants]]\nname = "a"\n')
    experiment = study / "experiments/01-buffer.toml"
    told = {
        folder / "tiny.toml": f"is a scenario: `airtcp run {folder / 'tiny.toml'}` runs it",
        file: f"is a sweep: `airtcp sweep {file}` runs it",
        study: f"is a study: `airtcp study run {study}` runs it",
        study / "study.toml": f"is a study: `airtcp study run {study}` runs it",
        experiment: f"is an experiment: `airtcp study run {study} --experiment buffer` runs it",
        folder
        / "variants.toml": 'holds variants that sweeps share: a sweep names it, as in variants = "variants.toml"',
    }
    for command, taken in (
        (["run"], [folder / "tiny.toml"]),
        (["check"], [folder / "tiny.toml"]),
        (["sweep"], [file]),
        (["study", "check"], [study, study / "study.toml"]),
    ):
        for path, message in told.items():
            if path not in taken:
                done = airtcp(*command, path)
                assert (done.returncode, done.stderr) == (2, f"error: {path}: {message}\n"), command
    for path, function in ((file, airtcp_.run), (folder / "tiny.toml", airtcp_.sweep)):
        with pytest.raises(ValueError, match=re.escape(told[path])):
            function(path)
