"""`airtcp host`: the remedies on this Linux host. The binary `airtcp-host` does it; this finds it and hands over."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from airtcp._terminal import FAILURE, StopError

COMMANDS: Final = ("check", "av", "coop", "monitor", "probe", "proxy", "pacing", "efr", "undo")
BUILT: Final = Path(__file__).parents[4] / "target/x86_64-unknown-linux-gnu/release/airtcp-host"
"""Where `make host` leaves it."""


def host(args: argparse.Namespace) -> int:
    """Put remedies on this Linux host: TCP-AV, the cooperative daemon, EFR, pacing; measure with monitor and probe."""
    if not sys.platform.startswith("linux"):
        raise StopError("airtcp host runs on Linux only", FAILURE)
    binary = _binary()
    if binary is None:
        raise StopError(
            "airtcp-host is not installed. `make host` builds it from airtcp's source (docs/hosts.md). "
            "AIRTCP_HOST may hold its path",
            FAILURE,
        )
    try:
        os.execv(binary, [binary, *args.words])
    except OSError as error:
        raise StopError(f"cannot run {binary}: {error.strerror}", FAILURE) from error


def _binary() -> str | None:
    named = os.environ.get("AIRTCP_HOST")
    if named:
        return named
    import shutil

    found = shutil.which("airtcp-host")
    if found is not None:
        return found
    return str(BUILT) if BUILT.is_file() else None


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command(
        "host",
        host,
        "airtcp host check",
        "airtcp host av --target 4Mbit/s --cgroup video.slice",
        "airtcp host coop --interface wlan0",
        "airtcp host efr --threshold 2 --prefix 192.0.2.0/24 --apply",
        "airtcp host monitor --interface wlan0 --out runs/mine",
        "airtcp host probe send 192.0.2.7",
        "airtcp host proxy rules.toml --divert",
        "airtcp host av --help",
        more="\nexit codes:\n  0 done; 1 the host refuses or fails, and the message says what is missing;\n"
        "  2 bad input; 130 interrupted\n",
    )
    sub.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="COMMAND ...",
        help=f"{', '.join(COMMANDS[:-1])} or {COMMANDS[-1]}, and its options",
    )
