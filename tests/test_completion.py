"""What the shell is offered at Tab."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import airtcp
from airtcp import cli, completion
from airtcp.cli.parser import command_line
from conftest import AIRTCP, SMALL


def offered(line: str, cwd: Path) -> list[str]:
    """The answer to Tab at the end of a line, as argcomplete gives it to bash."""
    out = cwd / ".offered"
    out.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(out),
        "_ARGCOMPLETE_COMP_WORDBREAKS": " ",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run([str(AIRTCP)], env=environment, cwd=cwd, check=True, timeout=120, capture_output=True)
    return [word.rstrip() for word in out.read_text().split("\013")]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "net.toml").write_text(SMALL)
    (tmp_path / "notes.txt").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("airtcp ana", ["analyze"]),
        ("airtcp run ne", ["net.toml"]),
        ("airtcp explain fq_c", ["fq_codel"]),
        ("airtcp list que", ["queue"]),
        ("airtcp study show ef", ["efr"]),
        ("airtcp schema st", ["study"]),
        ("airtcp run net.toml --set links.bottleneck.ra", ["links.bottleneck.rate="]),
        ("airtcp run net.toml --set links.bottleneck.queue.name=fq", ["links.bottleneck.queue.name=fq_codel"]),
        ("airtcp check net.toml --set flows.bulk.tcp.cc=b", ["flows.bulk.tcp.cc=bbr"]),
        ("airtcp run none.toml --set x", []),
        ("airtcp sweep net.toml --vary links.bottleneck.ra", ["links.bottleneck.rate="]),
        ("airtcp sweep net.toml --vary flows.bulk.tcp.cc=cubic,b", ["flows.bulk.tcp.cc=cubic,bbr"]),
        ("airtcp advise ca", ["cafe", "cable"]),
        ("airtcp advise cafe --set nodes.guests.cou", ["nodes.guests.count="]),
        ("airtcp advise cafe --with tod", ["today"]),
        ("airtcp example wa", ["walk"]),
        ("airtcp completion z", ["zsh"]),
    ],
)
def test_tab(line: str, some: list[str], place: Path) -> None:
    found = offered(line, place)
    assert set(some) <= set(found), found
    assert "notes.txt" not in found


def test_folders_of_results_and_their_links(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    airtcp.run("net.toml", out="runs/one")
    (place / "runs/two").mkdir()
    assert completion.results("runs/") == ["runs/one", "runs/two/"]
    args = command_line().parse_args(["plot", "runs/one"])
    assert set(completion.links("", args)) == {row["name"] for row in airtcp.Results.load("runs/one").summary["links"]}


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_code_is_the_shells_own(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "airtcp" in text
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed: its code is printed and not read")
    (tmp_path / "code").write_text(text)
    subprocess.run([program, "-n", str(tmp_path / "code")], check=True, timeout=60)
