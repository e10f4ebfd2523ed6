"""What several test files use: a small scenario, and the command as users have it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from browsing import browser
from sample_sweep import file as file

__all__ = ["browser"]

# Every run of the tests is audited, those of commands and worker processes too.
os.environ["AIRTCP_AUDIT"] = "1"

ROOT = Path(__file__).parent.parent
AIRTCP = Path(sys.executable).with_name("airtcp")
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.toml") if not path.name.startswith("sweep-"))
"""Scenarios; the others there are sweeps of them."""

# One TCP flow that overruns a short queue, and one of each other kind of traffic: every table gets rows.
SMALL = """\
name = "small"
duration = "4s"

[[nodes]]
name = "a"
kind = "host"

[[nodes]]
name = "r"
kind = "router"

[[nodes]]
name = "b"
kind = "host"

[[links]]
from = "a"
to = "r"
rate = "100Mbit/s"
delay = "1ms"

[[links]]
name = "bottleneck"
from = "r"
to = "b"
rate = "5Mbit/s"
delay = "10ms"
queue = { name = "fifo", limit_packets = 8 }
loss = 0.002

[[flows]]
name = "bulk"
from = "a"
to = "b"

[[flows]]
name = "page"
from = "a"
to = "b"
start = "500ms"
traffic = { kind = "transfer", bytes = "64KiB" }

[[flows]]
name = "ping"
from = "a"
to = "b"
traffic = { kind = "ping", interval = "200ms" }

[[flows]]
name = "train"
from = "a"
to = "b"
traffic = { kind = "train", count = 5, every = "1s" }

[record]
interval = "50ms"
"""

# The same with two stations of the router: tables of the air get rows as well.
WIRELESS = (
    SMALL.replace('name = "small"', 'name = "wireless"').replace('interval = "50ms"', 'interval = "50ms"\nppdus = true')
    + """
[[nodes]]
name = "near"
kind = "host"

[[nodes]]
name = "far"
kind = "host"
profile = "linux-3.13"

[[wlans]]
name = "wlan"
ap = "r"
signal = { kind = "snr", snr_db = 25 }
stations = ["near", { node = "far", signal = { kind = "snr", snr_db = 8 } }]

[[flows]]
name = "up"
from = "far"
to = "b"
ac = "vi"

[[flows]]
name = "across"
from = "near"
to = "far"
stop = "2s"
"""
)

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def airtcp(tmp_path: Path) -> Command:
    """Runs the command in an empty folder."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()

    def call(*args: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(AIRTCP), *map(str, args)]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=cwd, timeout=120, check=False)

    return call
