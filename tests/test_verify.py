"""`airtcp verify`: one altered bit is found, and so are results that were made up with checksums to fit."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import airtcp
from airtcp import ResultsError
from airtcp._marker import MARKER, Marker, seal
from airtcp.results import Results
from airtcp.sweeps.results import TASKS
from airtcp.sweeps.store import JOURNAL, _line
from airtcp.sweeps.task import Outcome
from airtcp.verify import DIGESTS, digest, digests_of, verify, verify_study, verify_whole_study
from conftest import ROOT, Command

CAPTURED = '\ncapture = ["bottleneck"]\n'


@pytest.fixture
def one(scenario: Path, tmp_path: Path) -> Path:
    scenario.write_text(scenario.read_text() + CAPTURED)
    airtcp.run(scenario, duration="700ms", out=tmp_path / "one")
    return tmp_path / "one"


@pytest.fixture
def many(file: Path, tmp_path: Path) -> Path:
    airtcp.sweep(file, out=tmp_path / "many", seeds=1)
    return tmp_path / "many"


def test_a_run_is_made_again(airtcp: Command, one: Path) -> None:
    done = airtcp("verify", one)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 of 1 runs made again: all agree bit for bit" in done.stdout
    found = verify(one, 5, 1)
    assert found.is_good
    assert found.files == len(list(one.iterdir())) - 1
    assert found.foreign == []
    (one / "note.txt").write_text("mine")
    assert verify(one, 0, 1).foreign == ["note.txt"]


def test_a_sweep_is_made_again(airtcp: Command, many: Path) -> None:
    done = airtcp("verify", many, "--runs", 3, "--json", "-q")
    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert (told["runs"], told["again"], told["agreed"], told["is_good"]) == (6, 3, 3, True)
    assert verify(many, None, 1).agreed == 6


def every_file(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")


@pytest.mark.parametrize("which", ["one", "many"])
def test_one_altered_bit_is_found(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    folder: Path = request.getfixturevalue(which)
    rng = random.Random(1)
    for path in every_file(folder):
        data = path.read_bytes()
        for _ in range(5):
            at = rng.randrange(len(data) * 8)
            flipped = bytearray(data)
            flipped[at // 8] ^= 1 << at % 8
            path.write_bytes(flipped)
            with suppress(ResultsError):
                assert not verify(folder, 0, 1).is_good, (path.name, at)
            path.write_bytes(data)
    assert verify(folder, 0, 1).is_good


def made_up(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Alters the journal of a sweep, with checksums to fit."""
    path = folder / JOURNAL
    head, *lines = path.read_bytes().splitlines(keepends=True)
    entries = [json.loads(line) for line in lines]
    for entry in entries:
        del entry["check"]
        change(entry)
    path.write_bytes(head + b"".join(map(_line, entries)))


def test_made_up_measures_are_found(many: Path) -> None:
    def better(entry: dict[str, Any]) -> None:
        entry["measures"]["links.line.utilisation"] += 1e-12

    made_up(many, better)
    assert verify(many, 0, 1).is_good, "the checksums fit"
    found = verify(many, 2, 1)
    assert not found.is_good
    assert found.agreed == 0
    assert "runs.jsonl has another `links.line.utilisation`" in found.faults[0]


@pytest.mark.parametrize("name", ["runs", "windows"])
def test_made_up_tables_are_found(many: Path, name: str) -> None:
    path = many / f"{name}.parquet"
    table = pl.read_parquet(path)
    column = "utilisation" if name == "runs" else "cwnd_segments"
    table.with_columns(pl.col(column) * 2).write_parquet(path)
    marker = Marker.read(many)
    assert marker is not None
    seal(many, marker.kind)
    kept = Marker.read(many)
    assert kept is not None
    del kept.files[JOURNAL], kept.files[".lock"]
    kept.write(many)
    assert verify(many, 0, 1).is_good
    assert f"{name}.parquet has another" in verify(many, 2, 1).faults[0]


def test_a_scenario_of_another_run_is_found(many: Path) -> None:
    path = many / TASKS
    table = pl.read_parquet(path)
    table.with_columns(pl.col("scenario").str.replace('"seed":1', '"seed":7', literal=True)).write_parquet(path)
    marker = Marker.read(many)
    assert marker is not None
    from airtcp._marker import sha256_of

    marker.files[TASKS] = [sha256_of(path)]
    marker.write(many)
    assert "is that of another run" in verify(many, 2, 1).faults[0]


def test_a_made_up_run_is_found(one: Path) -> None:
    path = one / "flows.parquet"
    pl.read_parquet(path).with_columns(pl.col("goodput_bps") * 2).write_parquet(path)
    seal(one, "airtcp-result")
    assert "differs in flows" in verify(one, 1, 1).faults[0]


def test_without_checksums_there_is_nothing_to_verify(airtcp: Command, one: Path) -> None:
    (one / MARKER).unlink()
    done = airtcp("verify", one)
    assert done.returncode == 2
    assert "nothing to hold it against" in done.stderr


def test_the_manifest_names_what_made_it(one: Path) -> None:
    manifest = Results.load(one).manifest
    assert manifest["engine"] == airtcp._airtcp.engine()
    assert manifest["polars_version"] == pl.__version__


# --- studies ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study with published verdicts and runs."""
    from airtcp.study import published, run
    from airtcp.study.files import read
    from airtcp.study.prepare import prepare

    folder = tmp_path / "tiny"
    shutil.copytree(ROOT / "tests/data/tiny", folder)
    found = read(folder)
    out = tmp_path / "out"
    document = run.run(found, prepare(found, "quick"), out, run.Asked("tiny", "quick"))
    (folder / published.PUBLISHED).write_text(json.dumps(published.from_run(found, document, [])))
    (folder / DIGESTS).write_text(digests_of(out))
    return folder


def test_published_verdicts_are_verified(airtcp: Command, study: Path) -> None:
    done = airtcp("verify", study, "--runs", 3)
    assert done.returncode == 0, done.stderr
    assert "3 of" in done.stdout
    assert "all agree bit for bit" in done.stdout
    assert verify_whole_study(str(study)).is_good


def test_published_runs_that_were_altered_are_found(study: Path) -> None:
    lines = (study / DIGESTS).read_text().splitlines()
    (study / DIGESTS).write_text("".join(f"{line[:-1]}{'0' if line[-1] != '0' else '1'}\n" for line in lines))
    found = verify_study(str(study), 2, 1)
    assert (found.again, found.agreed) == (2, 0)


def test_who_answered_a_query_does_not_change_the_hash_of_a_run() -> None:
    def measured(first: str, second: str, value: float) -> str:
        answer = {"columns": {"rate": [value]}, "types": {"rate": "Float64"}}
        other = {"columns": {"loss": [0.5]}, "types": {"loss": "Float64"}}
        return digest(Outcome("run", "ok", {f"sql:{first}": answer, f"sql:{second}": other, "summary.x": value}))

    assert measured("0a", "0b", 1.0) == measured("1b", "1a", 1.0)
    assert measured("0a", "0b", 1.0) != measured("0a", "0b", 1.0000001)


def test_published_verdicts_that_were_altered_are_found(study: Path) -> None:
    path = study / "published.json"
    document = json.loads(path.read_text())
    check = document["findings"][0]["checks"][0]
    number = next(key for key, value in check.items() if isinstance(value, float))
    check[number] *= 1.0001
    path.write_text(json.dumps(document))
    try:
        found = verify_whole_study(str(study))
    except airtcp.errors.StudyError:
        return
    assert not found.is_good


def studies() -> list[str]:
    return sorted(path.parent.name for path in (ROOT / "studies").glob(f"*/{DIGESTS}"))


@pytest.mark.parametrize("name", studies())
def test_a_sample_of_each_published_study_agrees(name: str) -> None:
    engine = json.loads((ROOT / "studies" / name / "published.json").read_text())["engine"]
    found = verify_study(str(ROOT / "studies" / name), 1, 1)
    if engine == airtcp._airtcp.engine():
        assert found.is_good, found.faults
    else:
        assert found.again == 1
