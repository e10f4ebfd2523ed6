"""The patches of `kernel/` against the source that they are for. Skipped without Debian's package linux-source-6.12."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = Path("/usr/src/linux-source-6.12.tar.xz")
SERIES = ["mac80211-retry-out", "mac80211-hwsim"]
PATCHES = [patch for series in SERIES for patch in sorted((ROOT / "kernel" / series).glob("*.patch"))]


def test_each_series_is_whole() -> None:
    for series in SERIES:
        patches = sorted((ROOT / "kernel" / series).glob("*.patch"))
        found = [re.search(r"^Subject: \[PATCH (\d+)/(\d+)\]", patch.read_text(), re.MULTILINE) for patch in patches]
        assert [(int(m[1]), int(m[2])) for m in found if m] == [(n + 1, len(patches)) for n in range(len(patches))]


@pytest.mark.skipif(not SOURCE.is_file(), reason=f"kernel patches: {SOURCE} is not there (linux-source-6.12)")
@pytest.mark.skipif(shutil.which("patch") is None, reason="kernel patches: the program patch is not there")
def test_the_patches_apply_without_fuzz(tmp_path: Path) -> None:
    changed = {
        line.split("\t")[0].removeprefix("--- a/").strip()
        for patch in PATCHES
        for line in patch.read_text().splitlines()
        if line.startswith("--- a/")
    }
    members = [f"linux-source-6.12/{name}" for name in sorted(changed)]
    # Files that a patch of the series makes are in no archive: tar tells of them, and that is all right.
    command = ["tar", "-x", "--strip-components=1", "-f", str(SOURCE), *members]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    for patch in PATCHES:
        with patch.open("rb") as text:
            done = subprocess.run(
                ["patch", "-p1", "--fuzz=0", "--forward"], cwd=tmp_path, stdin=text, capture_output=True, check=False
            )
        assert done.returncode == 0, (patch.name, done.stdout.decode())
    assert not list(tmp_path.rglob("*.rej"))
