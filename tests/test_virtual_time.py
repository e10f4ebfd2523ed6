"""`airtcp shell --virtual`: kernels in virtual time. Skipped without a kernel that `tools/uml/build.py` has built."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from airtcp import realtime
from airtcp.errors import RunError
from conftest import AIRTCP

SHELL = [str(AIRTCP), "shell", "--virtual", "--line", "20Mbit/s,25ms,fifo=100"]


def missing() -> str | None:
    """Why kernels cannot run here; None: they can."""
    try:
        realtime.program()
        realtime.kernel("6.12")
    except RunError as error:
        return str(error)
    return None


needs_kernel = pytest.mark.skipif(missing() is not None, reason=f"virtual time: {missing()}")


def test_a_kernel_that_is_not_built_is_named() -> None:
    with pytest.raises(RunError, match=r"no kernel 0\.99 is built yet: tools/uml/build\.py 0\.99"):
        realtime.kernel("0.99")
    with pytest.raises(RunError, match="there is no such file"):
        realtime.kernel("./nowhere/linux")


@pytest.mark.parametrize(
    ("more", "message"),
    [(["--internet", "server", "--", "true"], "not in virtual time"), (["laptop"], "would wait for keys")],
)
def test_what_virtual_time_has_not_is_refused(more: list[str], message: str) -> None:
    done = subprocess.run([*SHELL, *more], capture_output=True, text=True, check=False)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


@needs_kernel
def test_two_runs_are_equal_and_exact(tmp_path: Path) -> None:
    sums = []
    for name in ("one", "two"):
        out = tmp_path / name
        command = [
            *SHELL,
            "--out",
            str(out),
            "laptop",
            "--",
            "ping",
            "-c2",
            "10.0.0.2",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, (done.stdout, done.stderr)
        # Twice 25 ms, and 84 bytes at 20 Mbit/s: 50.0672 ms.
        assert "min/avg/max/mdev = 50.067/50.067/50.06" in done.stdout
        sums.append(hashlib.sha256((out / "capture.pcapng").read_bytes()).hexdigest())
        assert json.loads((out / "emu.json").read_text())["validity"] == "virtual"
    assert sums[0] == sums[1]


@needs_kernel
def test_the_exit_code_is_the_command_s() -> None:
    command = [
        *SHELL,
        "laptop",
        "--",
        sys.executable,
        "-c",
        "raise SystemExit(7)",
    ]
    assert subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == 7
