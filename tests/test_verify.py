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
import forging
from airtcp import ResultsError, _airtcp
from airtcp._marker import MARKER
from airtcp.execution import Execution
from airtcp.results import Folder, Results
from airtcp.study.published_runs import DIGESTS, digest, digests_of
from airtcp.sweeps.planning import plan
from airtcp.sweeps.running import execute
from airtcp.sweeps.store import Store
from airtcp.tasks.task import Outcome
from airtcp.verify import verify, verify_study, verify_whole_study
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
    assert "1 of 1 runs made again: 1 agree bit for bit" in done.stdout
    assert done.stdout.endswith("verified: 1 of 1 run made again, and everything that follows from them, agree\n")
    assert "never made again: manifest.json: airtcp_version, engine, polars_version, host, timing" in done.stdout
    found = verify(one, 5, 1)
    assert found.is_good
    assert found.files == len(list(one.iterdir())) - 1
    assert found.foreign == []
    (one / "note.txt").write_text("mine")
    assert verify(one, 0, 1).foreign == ["note.txt"]


@pytest.mark.parametrize("which", ["one", "many"])
def test_checksums_alone_verify_nothing(airtcp: Command, which: str, request: pytest.FixtureRequest) -> None:
    done = airtcp("verify", request.getfixturevalue(which), "--runs", 0)
    assert done.returncode == 3
    assert done.stdout.endswith("checksums fit; no run was made again\n")
    assert "verified" not in done.stdout


def test_a_sample_of_a_sweep_is_no_proof(airtcp: Command, many: Path) -> None:
    done = airtcp("verify", many, "--runs", 3, "--json", "-q")
    told = json.loads(done.stdout)
    assert done.returncode == told["exit"] == 0
    counts = [told[key] for key in ("of", "again", "agreed", "failed", "missing", "kernels", "beyond", "is_good")]
    assert counts == [6, 3, 3, 0, 0, 0, 0, True]
    assert told["files"] == 5
    assert told["not_checked"] == []
    assert told["escape"] == 0.5
    assert told["closing"].startswith("sample: 3 of 6 runs agree; 3 rest on trust (one altered run escapes such a draw")
    assert "50 %" in told["closing"]
    assert told["never_made_again"]["tables"] == ["wall_s"]
    assert "verified: " not in airtcp("verify", many, "--runs", 3).stdout
    assert verify(many, None, 1).agreed == 6


def test_nobody_knows_the_draw_beforehand(many: Path) -> None:
    """A forger would leave alone the runs that a known seed draws."""
    assert verify(many, 0).seed != verify(many, 0).seed


def test_the_draw_can_be_repeated(airtcp: Command, many: Path) -> None:
    done = airtcp("verify", many, "--runs", 2)
    seed = done.stdout.partition("drawn with --seed ")[2].partition(":")[0]
    assert f"--seed {seed}" in airtcp("verify", many, "--runs", 2, "--seed", seed).stdout


def test_an_interrupted_run_is_made_again_up_to_there(scenario: Path, tmp_path: Path) -> None:
    scenario.write_text(scenario.read_text() + CAPTURED)
    with Folder(tmp_path / "part") as folder:
        execution = Execution(_airtcp.Checked.load(scenario, []), folder)
        for _ in range(3):
            execution.advance()
        folder.commit(execution.results())
    found = verify(tmp_path / "part", None, 1)
    assert Results.load(tmp_path / "part").interrupted
    assert (found.exit, found.agreed, found.not_checked) == (0, 1, [])
    assert "up to" in found.notes[0]


def test_runs_that_failed_are_made_again_and_counted(tmp_path: Path) -> None:
    forging.make("failing", tmp_path / "failing")
    found = verify(tmp_path / "failing", None, 1)
    assert (found.exit, found.of, found.again, found.agreed, found.failed) == (0, 4, 4, 4, 4)


def test_an_interrupted_sweep_is_not_verified(file: Path, tmp_path: Path) -> None:
    planned = plan(file, seeds=1)
    with Store(tmp_path / "part") as store:
        asked = iter([False] * 3)
        (results,) = execute([planned], store, "threads", jobs=1, is_stopped=lambda: next(asked, True))
        results.save(tmp_path / "part")
    found = verify(tmp_path / "part", None, 1)
    assert not results.is_complete
    assert (found.exit, found.of, found.missing) == (3, 6, 6 - found.agreed)
    assert found.again == found.agreed
    assert f"{found.missing} of 6 runs are missing: it was interrupted" in found.not_checked


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
    from airtcp.study.run_options import RunOptions

    folder = tmp_path / "tiny"
    shutil.copytree(ROOT / "tests/data/tiny", folder)
    found = read(folder)
    out = tmp_path / "out"
    document = run.run(found, prepare(found, "quick"), out, RunOptions("tiny", "quick"))
    (folder / published.PUBLISHED).write_text(json.dumps(published.from_run(found, document, [])))
    (folder / DIGESTS).write_text(digests_of(out))
    return folder


def test_published_verdicts_are_verified(airtcp: Command, study: Path) -> None:
    done = airtcp("verify", study, "--runs", 3)
    assert done.returncode == 3, done.stderr
    assert "sample: 3 of 21 runs agree" in done.stdout
    assert "not checked: published.json: numbers and tables, which --runs all makes again" in done.stdout
    whole = verify_whole_study(str(study))
    assert (whole.exit, whole.agreed) == (0, 21)


def test_published_runs_that_were_altered_are_found(study: Path) -> None:
    lines = (study / DIGESTS).read_text().splitlines()
    (study / DIGESTS).write_text("".join(f"{line[:-1]}{'0' if line[-1] != '0' else '1'}\n" for line in lines))
    found = verify_study(str(study), 2, 1)
    assert (found.again, found.agreed) == (2, 0)


FORGED_DIGESTS: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "a run removed": (lambda lines: lines[1:], "1 runs of the study's files are not in it"),
    "a run more": (lambda lines: [*lines, f"{'f' * 16} {'0' * 16}"], "1 published runs are not those"),
    "nothing left": (lambda lines: [], "21 runs of the study's files are not in it"),
}


@pytest.mark.parametrize("name", FORGED_DIGESTS)
def test_published_runs_are_all_those_of_the_study(study: Path, name: str) -> None:
    change, says = FORGED_DIGESTS[name]
    (study / DIGESTS).write_text("".join(f"{line}\n" for line in change((study / DIGESTS).read_text().splitlines())))
    assert any(says in fault for fault in verify_study(str(study), 1, 1).faults)


def _verdict(document: dict[str, Any]) -> None:
    document["findings"][1]["verdict"] = "reproduced"


def _bound(document: dict[str, Any]) -> None:
    document["findings"][0]["checks"][0]["text"] = "loss('Reno', n=4, limit=32) < 1"


def _runs(document: dict[str, Any]) -> None:
    document["runs"] = 2100


@pytest.mark.parametrize("change", [_verdict, _bound, _runs])
def test_a_sample_of_a_published_study_sees_contradictions(study: Path, change: Callable[[Any], None]) -> None:
    path = study / "published.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    assert "published.json" in verify_study(str(study), 1, 1).faults[0]


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
    found = verify_whole_study(str(study))
    assert (found.exit, found.agreed) == (1, 0)
    assert f"checks[0].{number}" in found.faults[0]


def studies() -> list[str]:
    return sorted(path.parent.name for path in (ROOT / "studies").glob(f"*/{DIGESTS}"))


@pytest.mark.parametrize("name", studies())
def test_a_sample_of_each_published_study_agrees(name: str) -> None:
    engine = json.loads((ROOT / "studies" / name / "published.json").read_text())["engine"]
    found = verify_study(str(ROOT / "studies" / name), 1, 1)
    if engine == airtcp._airtcp.engine():
        assert found.is_good, found.faults
        assert found.exit == 3
    else:
        assert found.again == 1
