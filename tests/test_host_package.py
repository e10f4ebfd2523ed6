"""The Debian package of airtcp-host: what it holds, and that the same sources give the same bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(
    shutil.which("dpkg-deb") is None, reason="dpkg-deb is missing; it comes with Debian and Ubuntu"
)


def package(binary: Path, out: Path) -> Path:
    made = subprocess.run(
        [ROOT / "tools" / "host_package.sh", binary, out], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    return next(out.glob("*.deb"))


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    """Some program of this machine: the package takes it as it is."""
    copy = tmp_path / "airtcp-host"
    shutil.copy(Path(sys.executable).resolve(), copy)
    return copy


def test_it_holds_the_program_its_units_and_their_settings(binary: Path, tmp_path: Path) -> None:
    deb = package(binary, tmp_path / "out")
    assert re.fullmatch(r"airtcp-host_\d+\.\d+\.\d+_(amd64|variant64)\.deb", deb.name)
    root = tmp_path / "root"
    subprocess.run(["dpkg-deb", "--extract", deb, root], check=True)
    subprocess.run(["dpkg-deb", "--control", deb, tmp_path / "control"], check=True)
    assert (root / "usr/bin/airtcp-host").read_bytes() == binary.read_bytes()
    units = sorted(path.name for path in (root / "usr/lib/systemd/system").iterdir())
    assert units == ["airtcp-av.service", "airtcp-coop@.service", "airtcp-proxy.service"]
    named = (tmp_path / "control" / "conffiles").read_text().split()
    assert all((root / name.lstrip("/")).is_file() for name in named)
    for unit in (root / "usr/lib/systemd/system").iterdir():
        text = unit.read_text()
        assert "ExecStart=/usr/bin/airtcp-host " in text
        for setting in re.findall(r"^EnvironmentFile=(/\S+)", text, re.MULTILINE):
            assert setting in named
    control = (tmp_path / "control" / "control").read_text()
    assert "Depends:" not in control.replace("Pre-Depends:", "Depends:"), "a static program needs nothing"
    owners = subprocess.run(["dpkg-deb", "--contents", deb], capture_output=True, text=True, check=True).stdout
    assert all(line.split()[1] == "root/root" for line in owners.splitlines())
    assert {line.split()[0] for line in owners.splitlines() if line.startswith("d")} == {"drwxr-xr-x"}


def test_the_same_sources_give_the_same_package(binary: Path, tmp_path: Path) -> None:
    first, second = (package(binary, tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_another_file_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n" + "#" * 100)
    script.chmod(0o755)
    made = subprocess.run(
        [ROOT / "tools" / "host_package.sh", script, tmp_path], capture_output=True, text=True, check=False
    )
    assert made.returncode == 1
    assert "neither of x86-64 nor of aarch64" in made.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    for unit in (ROOT / "crates" / "host" / "systemd").glob("*.service"):
        # Its program need not be installed here.
        text = unit.read_text().replace("/usr/bin/airtcp-host", "/bin/true")
        copy = tmp_path / unit.name.replace("@", "@lo")
        copy.write_text(text)
        out = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, check=False
        )
        wrong = [line for line in out.stderr.splitlines() if str(copy) in line or unit.name in line]
        assert not wrong, wrong


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_units_have_few_rights() -> None:
    """What systemd counts as exposure, from 0 to 10: below 2.5."""
    for unit in (ROOT / "crates" / "host" / "systemd").glob("*.service"):
        command: list[str | Path] = [
            "systemd-analyze",
            "security",
            "--offline=yes",
            "--no-pager",
            "--threshold=25",
            unit,
        ]
        out = subprocess.run(command, capture_output=True, text=True, check=False)
        if "unrecognized option" in out.stderr:
            pytest.skip("systemd-analyze does not judge files here")
        assert out.returncode == 0, f"{unit.name}: {out.stdout[-200:]}{out.stderr}"
