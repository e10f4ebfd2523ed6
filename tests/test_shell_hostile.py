"""Programs in `airtcp shell` that mean harm, and terminals that go: what is said of them, and what they cannot do."""

from __future__ import annotations

import json
import os
import pty
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import airtcp
from airtcp import realtime
from conftest import AIRTCP
from test_shell import INVALID, LINE, PROGRAMS, driver_of, needs_network, run, said

pytestmark = needs_network
HOSTILE = [sys.executable, str(Path(__file__).parent / "hostile_programs.py")]
needs_ip = pytest.mark.skipif(shutil.which("ip") is None, reason="needs ip (package iproute2)")


def told(out: Path) -> dict[str, Any]:
    """What is written of a run."""
    found: dict[str, Any] = json.loads((out / realtime.EMU).read_bytes())
    return found


@needs_ip
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("ip link del eth0", "its device was deleted while the network ran"),
        ("unshare --net sleep 30 & sleep 0.5; ip link set eth0 netns $!", "its device was moved to another namespace"),
    ],
)
def test_a_host_without_its_device_is_told(tmp_path: Path, change: str, why: str) -> None:
    out = tmp_path / "out"
    script = f"ping -c1 server; {change}; sleep 2; exit 0"
    command = [str(AIRTCP), "shell", "--line", LINE, "--out", str(out), "--", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == INVALID, done.stderr
    emu = told(out)
    assert (emu["validity"], emu["reasons"][0]) == ("invalid", f"laptop: {why}")
    assert airtcp.Results.load(out).manifest["real_time"]["validity"] == "invalid"
    assert "INVALID" in done.stderr
    # At once, not only at the end.
    assert f"airtcp: laptop: {why}; the network goes on" in done.stderr
    # A loop that spins takes all the time that there is.
    assert emu["driver"]["busy_s"] < 0.3 * emu["driver"]["wall_s"]


def test_programs_have_three_descriptors_and_no_way_out(tmp_path: Path) -> None:
    left_open = os.open("/etc/hostname", os.O_RDONLY)
    outside = {*Path("/sys/class/net").iterdir()}
    try:
        done = subprocess.run(
            [
                AIRTCP,
                "shell",
                "--line",
                LINE,
                "-q",
                "--on",
                f"server={' '.join(HOSTILE)} attacks",
                "--",
                *HOSTILE,
                "attacks",
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            pass_fds=[left_open],
        )
    finally:
        os.close(left_open)
    found = said(done)
    assert len(found) == 2, done
    for program in found:
        assert program["descriptors"] == [0, 1, 2]
        assert program["tun"] == "EBUSY"
        assert (program["way_out"], program["held"]) == ([], [])
        assert max(program["processes"]) < 50
    assert {*Path("/sys/class/net").iterdir()} == outside


# By hand: AIRTCP_MALFORMED=1000000 pytest tests/test_shell_hostile.py -k malformed
def test_malformed_packets_do_no_harm(tmp_path: Path) -> None:
    number = int(os.environ.get("AIRTCP_MALFORMED", "16000"))
    out = tmp_path / "out"
    seed = random.randrange(1 << 30)
    script = f"{' '.join(HOSTILE)} malformed {number} {seed} && {' '.join(PROGRAMS)} ping server 5 0.05"
    command = [str(AIRTCP), "shell", "--line", "100Mbit/s,2ms", "--out", str(out), "--", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode in (0, INVALID), (seed, done.stderr)
    sent, ping = said(done)
    assert (sent["sent"], len(ping["ms"])) == (number, 5), seed
    emu = told(out)
    seen = emu["hosts"]["laptop"]["traffic"]["sent_packets"] + sum(emu["refused"].values())
    # All came to airtcp, but for those that its device had no room for.
    assert seen + emu["hosts"]["laptop"]["lost_in_device"] >= number, seed
    assert emu["refused"]["unreadable"] > number / 20, seed
    # The capture of it is read as any other.
    airtcp.analyze(out / "capture.pcapng")


@needs_ip
def test_root_of_a_host_changes_its_network(tmp_path: Path) -> None:
    script = """
        ip link set eth0 mtu 65000; ping -c2 -i0.2 -W1 -s 60000 server
        ip link set eth0 mtu 68; ip link set eth0 down; sleep 0.3; ip link set eth0 up mtu 1500
        ip addr flush dev eth0; ip route flush table all; ip addr add 10.0.0.77/8 dev eth0; ping -c1 -W1 10.0.0.2
        ip addr add 10.0.0.1/8 dev eth0; ip link set eth0 name other; ping -c1 -W1 10.0.0.2; ip link set other name eth0
        ip link set eth0 txqueuelen 1; mount -t tmpfs none /etc; umount /proc; exit 0
    """
    out = tmp_path / "out"
    done = run("shell", "--line", "100Mbit/s,2ms", "--out", str(out), "--", "sh", "-c", script)
    assert "panicked" not in done.stderr
    assert told(out)["commands"][0]["status"] == 0


def test_a_flood_of_connections_takes_no_memory_for_each(tmp_path: Path) -> None:
    command = [str(AIRTCP), "shell", "--line", "100Mbit/s,2ms,fifo=100", "--", *HOSTILE, "flood", "8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as network:
        sizes = []
        for _ in range(6):
            time.sleep(1.2)
            status = Path(f"/proc/{driver_of(network.pid)}/status").read_text()
            sizes.append(int(status.split("VmRSS:")[1].split()[0]))
        out, errors = network.communicate(timeout=60)
    sent = json.loads(out)["sent"]
    assert "panicked" not in errors
    # 16 bytes for each would be allowed.
    assert sizes[-1] - sizes[1] < 4096 + sent * 16 / 1024, sizes


@pytest.mark.parametrize("times", [1, 3])
def test_a_terminal_that_closes_leaves_the_results(tmp_path: Path, times: int) -> None:
    out = tmp_path / "out"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(
            AIRTCP,
            [str(AIRTCP), "shell", "--line", LINE, "--out", str(out), "--", "sh", "-c", "echo ready; exec sleep 60"],
        )
    read = b""
    while b"ready" not in read:
        read += os.read(terminal, 4096)
    time.sleep(0.5)
    os.close(terminal)
    for _ in range(times - 1):
        time.sleep(0.05)
        os.kill(pid, signal.SIGHUP)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP
    assert airtcp.Results.load(out).name == "line"
    assert told(out)["hosts"].keys() == {"laptop", "server"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_nowhere_to_write_to_loses_no_results(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with Path("/dev/full").open("w") as full:
        command = [str(AIRTCP), "shell", "--line", LINE, "--out", str(out), "--", "sh", "-c", "exit 5"]
        done = subprocess.run(command, stdout=full, stderr=full, check=False, timeout=60)
    assert done.returncode == 5
    assert told(out)["commands"][0]["status"] == 5
