"""The hook for commit messages accepts what CONTRIBUTING.md asks for, and names what it refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

HOOK = ROOT / "tools/hooks/commit-msg"


def hook(tmp_path: Path, message: str) -> tuple[int, str]:
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text(message)
    done = subprocess.run([HOOK, file], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "message",
    [
        "Name the key in the error\n",
        "Feed the queue in order\n\nThe old order lost the first packet of a burst.\n",
        "Add a hook\n# a comment of git, of which the next line is no body\n",
        "Merge branch 'main' into docs\n",
        'Revert "The old one."\n',
        f"Add {'x' * 68}\n",
    ],
)
def test_a_message_of_the_rule_passes(tmp_path: Path, message: str) -> None:
    assert hook(tmp_path, message) == (0, "")


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("\n\nbody\n", "the first line is empty"),
        (f"Add {'x' * 69}\n", "has 73 characters: at most 72"),
        ("Add a hook.\n", "ends with a full stop"),
        ("add a hook\n", "begins with 'add'"),
        ("The hook\n", "'The' is no imperative"),
        ("Added a hook\n", "'Added' is no imperative"),
        ("Changelog: a hook\n", "'Changelog:' is no imperative"),
        ("Add a hook\nthat checks\n", "the second line is not empty"),
    ],
)
def test_any_other_message_is_refused_with_the_reason(tmp_path: Path, message: str, fault: str) -> None:
    code, said = hook(tmp_path, message)
    assert code == 1
    assert fault in said
    assert "CONTRIBUTING.md" in said
