"""`kernel/openwrt`: what adds the remedy to a tree of OpenWrt, and the switch on a router, with stand-ins for both."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OPENWRT = ROOT / "kernel" / "openwrt"
MAKEFILE = """PKG_VERSION:={version}

ifdef CONFIG_PACKAGE_MAC80211_DEBUGFS
  config-y += \\
\tCFG80211_DEBUGFS \\
\tMAC80211_DEBUGFS
endif
"""

FUNCTIONS = """
config_load() { . "$PLACE/$1"; }
config_get() { eval "$1=\\${$2_$3-}"; }
config_get_bool() { config_get "$1" "$2" "$3"; eval "[ -n \\"\\$$1\\" ] || $1=$4"; }
logger() { shift 3; echo "$*" >> "$PLACE/said"; }
. "$SWITCH"
"$1"
"""


def add(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([OPENWRT / "add.sh", tree], capture_output=True, text=True, check=False)


def tree_of(place: Path, version: str) -> Path:
    package = place / "package/kernel/mac80211"
    package.mkdir(parents=True)
    (package / "Makefile").write_text(MAKEFILE.format(version=version))
    return package


@pytest.mark.parametrize(
    ("version", "series", "warns"),
    [("6.12.40", "mac80211-retry-out", False), ("6.1.110", "mac80211-retry-out-6.1", False), ("6.18", "", True)],
)
def test_a_tree_gets_patches_option_and_switch(tmp_path: Path, version: str, series: str, warns: bool) -> None:
    package = tree_of(tmp_path, version)
    for _ in range(2):
        done = add(tmp_path)
        assert (done.returncode, "may need a refresh" in done.stderr) == (0, warns), done.stderr
    assert (package / "Makefile").read_text() == MAKEFILE.format(version=version).replace(
        "\tMAC80211_DEBUGFS\n", "\tMAC80211_DEBUGFS \\\n\tMAC80211_RETRY_OUT\n"
    )
    added = {path.name: path for folder in ("subsys", "ath9k") for path in (package / "patches" / folder).iterdir()}
    patches = sorted((ROOT / "kernel" / (series or "mac80211-retry-out")).glob("*.patch"))
    assert sorted(added) == [f"990-retry-out-{patch.name}" for patch in patches]
    assert [path.name for path in added.values() if path.parent.name == "ath9k"] == [f"990-retry-out-{patches[5].name}"]
    assert not any("CONFIG_MAC80211" in path.read_text() for path in added.values())
    own = tmp_path / "package/network/utils/retry-out"
    assert (own / "Makefile").is_file()
    assert os.access(own / "files/etc/init.d/retry_out", os.X_OK)


def test_another_folder_is_refused(tmp_path: Path) -> None:
    done = add(tmp_path)
    assert (done.returncode, "is no tree of OpenWrt" in done.stderr) == (1, True)
    (tree_of(tmp_path, "6.12") / "Makefile").write_text("PKG_VERSION:=6.12\n")
    done = add(tmp_path)
    assert (done.returncode, "add MAC80211_RETRY_OUT by hand" in done.stderr) == (1, True)


@pytest.mark.skipif(shutil.which("patch") is None, reason="kernel patches: the program patch is not there")
def test_the_renamed_patches_apply(tmp_path: Path) -> None:
    source = Path("/usr/src/linux-source-6.12.tar.xz")
    if not source.is_file():
        pytest.skip(f"kernel patches: {source} is not there (linux-source-6.12)")
    package = tree_of(tmp_path / "openwrt", "6.12.1")
    assert add(tmp_path / "openwrt").returncode == 0
    patches = [path for folder in ("subsys", "ath9k") for path in sorted((package / "patches" / folder).iterdir())]
    changed = {line[6:].strip() for path in patches for line in path.read_text().splitlines() if line[:6] == "--- a/"}
    members = [f"linux-source-6.12/{name}" for name in sorted(changed)]
    command = ["tar", "-x", "--strip-components=1", "-f", str(source), *members]
    # A file that a patch makes is in no archive.
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    for name in changed:
        if (tmp_path / name).is_file():
            text = (tmp_path / name).read_text()
            (tmp_path / name).write_text(text.replace("CONFIG_MAC80211_", "CPTCFG_MAC80211_"))
    for path in patches:
        with path.open("rb") as patch:
            done = subprocess.run(
                ["patch", "-p1", "--fuzz=0", "--forward"], cwd=tmp_path, stdin=patch, capture_output=True, check=False
            )
        assert done.returncode == 0, (path.name, done.stdout.decode())
    assert "CPTCFG_MAC80211_RETRY_OUT" in (tmp_path / "net/mac80211/Makefile").read_text()


def test_the_switch_writes_what_uci_says(tmp_path: Path) -> None:
    for phy in ("phy0", "phy1"):
        (tmp_path / "debugfs" / phy / "retry_out").mkdir(parents=True)
    (tmp_path / "retry_out").write_text("all_enabled=1 all_table='25:2' phy1_enabled=0 phy1_from_gaps=1\n")
    (tmp_path / "run.sh").write_text(FUNCTIONS)

    def switch(what: str, debugfs: str = "debugfs") -> dict[str, str]:
        env = {
            "PATH": os.environ["PATH"],
            "PLACE": str(tmp_path),
            "SWITCH": str(OPENWRT / "retry-out/files/etc/init.d/retry_out"),
            "RETRY_OUT_DEBUGFS": str(tmp_path / debugfs),
        }
        subprocess.run(["/bin/sh", tmp_path / "run.sh", what], env=env, check=True)
        files = sorted((tmp_path / debugfs).glob("*/retry_out/*"))
        return {f"{path.parent.parent.name} {path.name}": path.read_text().strip() for path in files}

    found = switch("start")
    assert found == {
        "phy0 enabled": "1",
        "phy0 from_gaps": "0",
        "phy0 table": "25:2",
        "phy1 enabled": "0",
        "phy1 from_gaps": "1",
    }
    assert switch("stop") == {**found, "phy0 enabled": "0"}
    switch("start", "nowhere")
    assert "the patches or debugfs are missing" in (tmp_path / "said").read_text()
