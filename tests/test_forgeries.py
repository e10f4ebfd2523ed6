"""Results that were made up and signed anew: `airtcp verify` finds them, or says by name that it did not look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airtcp.verified import Verified
from airtcp.verify import verify
from conftest import ROOT, SMALL
from forgeries import FORGERIES, Forgery
from forging import DEFINITION, Copy, make, make_run

Base = Callable[[str], Path]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    """Finished folders, made once."""
    top = tmp_path_factory.mktemp("honest")
    scenario = top / "small.toml"
    scenario.write_text(SMALL + '\ncapture = ["bottleneck"]\n')

    def of(kind: str) -> Path:
        folder = top / kind
        if not folder.exists():
            if kind == "run":
                make_run(scenario, folder)
            else:
                make(kind, folder)
        return folder

    return of


def told(found: Verified) -> str:
    return "\n".join([*found.notes, *found.not_checked, *found.faults, found.closing])


@pytest.mark.parametrize("kind", ["run", "sweep", "failing", "study"])
def test_honest_results_are_verified(base: Base, kind: str) -> None:
    found = verify(base(kind), None, 1)
    assert (found.exit, found.faults, found.not_checked) == (0, [], [])
    assert found.again == found.agreed == found.of > 0
    assert found.closing.startswith("verified: ")


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda one: one.name)
def test_forgeries_are_found(base: Base, forgery: Forgery, tmp_path: Path) -> None:
    it = Copy(base(forgery.base), tmp_path / "forged")
    forgery.change(it)
    it.sign()
    found = verify(it.folder, None, 1, jobs=1)
    assert forgery.says in told(found)
    assert found.exit == forgery.exit, told(found)
    if forgery.exit:
        assert "verified: " not in found.closing


def easier(it: Copy) -> None:
    """Another claim, in every file that has it, and the page drawn anew: all agrees."""
    from airtcp.report.page import write

    for name in (DEFINITION, "study.json"):
        it.text(name, "Everything is lost", "Little is lost")
    it.sign()
    write(it.folder)


def test_a_study_that_is_known_here_must_be_that_one(
    base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = Copy(base("study"), tmp_path / "forged")
    easier(it)
    found = verify(it.folder, 1, 1)
    assert (found.exit, found.faults) == (0, [])
    assert any("held against nothing" in note for note in found.notes)
    monkeypatch.setenv("AIRTCP_STUDIES", str(ROOT / "tests/data"))
    found = verify(it.folder, 1, 1)
    assert found.exit == 3
    assert "claim is 'Little is lost', not 'Everything is lost'" in found.not_checked[0]
    assert verify(base("study"), 1, 1).exit == 0


def test_a_settled_and_changed_study_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airtcp.study.files import read
    from airtcp.study.prepare import prepare
    from airtcp.study.run import run
    from airtcp.study.run_options import RunOptions
    from airtcp.study.settle import Budget

    monkeypatch.setenv("AIRTCP_STUDIES", str(ROOT / "tests/data"))
    study = read(ROOT / "tests/data/tiny")
    part = study.only(experiments=["flows"])
    asked = RunOptions("tiny", "quick", 1, experiments=("flows",), settle=Budget(runs=10))
    run(part, prepare(part, "quick", 1), tmp_path / "settled", asked)
    found = verify(tmp_path / "settled", 2, 1)
    assert (found.exit, found.faults, found.not_checked) == (0, [], [])
    asked = RunOptions("tiny", "quick", 1, experiments=("flows",), changes=("limit=16",))
    run(part, prepare(part, "quick", 1, {"limit": 16}), tmp_path / "changed", asked)
    found = verify(tmp_path / "changed", 2, 1)
    assert (found.exit, found.faults, found.not_checked) == (0, [], [])
