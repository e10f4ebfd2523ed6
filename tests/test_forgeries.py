"""Results that were made up and signed anew: `airtcp verify` finds them, or says by name that it did not look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airtcp.verified import Verified
from airtcp.verify import verify
from conftest import SMALL
from forgeries import FORGERIES, Forgery
from forging import Copy, make, make_run

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
