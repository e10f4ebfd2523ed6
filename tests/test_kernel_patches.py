"""The patches of `kernel/` against the sources that they are for. Skipped without Debian's packages linux-source-*."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SERIES = {
    "6.12": ["mac80211-retry-out", "mac80211-hwsim", "tcp-efr"],
    "6.1": ["mac80211-retry-out-6.1", "mac80211-hwsim-6.1"],
}
MOVED = {"6.12": ("", ""), "6.1": ("drivers/net/wireless/virtual/", "drivers/net/wireless/")}
"""A folder in the patches that both versions share, and its name in that version, as check.sh has it."""


def test_each_series_is_whole() -> None:
    for series in [name for names in SERIES.values() for name in names]:
        patches = sorted((ROOT / "kernel" / series).glob("*.patch"))
        found = [re.search(r"^Subject: \[PATCH (\d+)/(\d+)\]", patch.read_text(), re.MULTILINE) for patch in patches]
        assert [(int(m[1]), int(m[2])) for m in found if m] == [(n + 1, len(patches)) for n in range(len(patches))]


@pytest.mark.parametrize("version", SERIES)
@pytest.mark.skipif(shutil.which("patch") is None, reason="kernel patches: the program patch is not there")
def test_the_patches_apply_without_fuzz(tmp_path: Path, version: str) -> None:
    source = Path(f"/usr/src/linux-source-{version}.tar.xz")
    if not source.is_file():
        pytest.skip(f"kernel patches: {source} is not there (linux-source-{version})")
    patches = [patch for series in SERIES[version] for patch in sorted((ROOT / "kernel" / series).glob("*.patch"))]
    texts = {patch.name: patch.read_text().replace(*MOVED[version]) for patch in patches}
    changed = {
        line.split("\t")[0].removeprefix("--- a/").strip()
        for text in texts.values()
        for line in text.splitlines()
        if line.startswith("--- a/")
    }
    members = [f"linux-source-{version}/{name}" for name in sorted(changed)]
    # Files that a patch of the series makes are in no archive: tar tells of them, and that is all right.
    command = ["tar", "-x", "--strip-components=1", "-f", str(source), *members]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    for name, text in texts.items():
        command = ["patch", "-p1", "--fuzz=0", "--forward"]
        done = subprocess.run(command, cwd=tmp_path, input=text.encode(), capture_output=True, check=False)
        assert done.returncode == 0, (name, done.stdout.decode())
    assert not list(tmp_path.rglob("*.rej"))
