"""The tutorials, followed as a newcomer would: each block of commands is typed in an empty folder, in its order.

Some commands take minutes on purpose (advice, a study): `make test-all`, which sets `AIRTCP_TEST_TUTORIALS`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import AIRTCP, ROOT
from test_twin import TWINS

TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.md"))
CAPTURES = ROOT / "tests/data/captures"


def blocks(tutorial: Path) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", tutorial.read_text(), re.MULTILINE | re.DOTALL)


def captured(folder: Path) -> None:
    """The files that the tutorial on captures has from the reader: a slow transfer, and one of both ends."""
    TWINS.capture(TWINS.wired(10, 30, packets=200, duration=16), folder / "slow.pcap")
    for name, end in (("client", "receiver"), ("server", "sender")):
        shutil.copy(CAPTURES / f"two_losses-{end}.pcap", folder / f"{name}.pcap")


def typed(commands: str, folder: Path) -> str:
    done = subprocess.run(
        ["sh", "-ec", commands],
        cwd=folder,
        env={**os.environ, "PATH": f"{AIRTCP.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_can_be_followed(tutorial: Path, tmp_path: Path) -> None:
    if not os.environ.get("AIRTCP_TEST_TUTORIALS"):
        pytest.skip("the tutorials take minutes: `make test-all`, or set AIRTCP_TEST_TUTORIALS")
    commands = "".join(blocks(tutorial))
    if tutorial.stem == "capture":
        captured(tmp_path)
        # The reader's own, as root on a network that is slow.
        first, _, commands = commands.partition("\n")
        assert first.startswith("tcpdump ")
        assert "slow.pcap" in first
    typed(commands, tmp_path)
    # Files that the text promises.
    for name in re.findall(r"`(runs/[\w./-]+\.html)`", tutorial.read_text()):
        assert (tmp_path / name).is_file(), name


def test_the_numbers_of_the_first_tutorial_are_those_of_its_commands(tmp_path: Path) -> None:
    """The text says which goodput, round trips and waits the reader will see."""
    text = (ROOT / "docs/tutorials/first-network.md").read_text()
    first, _, third, _ = blocks(ROOT / "docs/tutorials/first-network.md")
    shown = typed(first, tmp_path)
    goodput, ping, path, packets, wait = re.search(
        r"some (\d+) Mbit/s\..* about (\d+) ms, on a path of (\d+) ms\..* More than (\d+) packets .* waits (\d+) ms\.",
        text.replace("\n", " "),
    ).groups()  # type: ignore[union-attr]  # a text without them fails here
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line.strip()}
    assert float(rows["download"][2]) == pytest.approx(float(goodput), abs=0.5)
    assert float(rows["ping"][3]) == pytest.approx(float(ping), abs=1)
    assert float(rows["server->laptop"][3]) > float(packets)
    assert float(rows["server->laptop"][5]) == pytest.approx(float(wait), abs=1)
    assert float(rows["ping"][3]) - float(rows["server->laptop"][5]) == pytest.approx(float(path), abs=1)

    shown = typed(third, tmp_path)
    after, less = re.search(r"falls to about (\d+) ms and the goodput by (\d+) %", text).groups()  # type: ignore[union-attr]
    compared = [line.split() for line in shown.splitlines() if "goodput, Mbit/s" in line or "mean RTT, ms" in line]
    (_, _, before_mbps, after_mbps), *_, (_, _, _, _, after_ms) = compared
    assert float(after_ms) == pytest.approx(float(after), abs=1)
    assert 100 * (1 - float(after_mbps) / float(before_mbps)) == pytest.approx(float(less), abs=0.5)
