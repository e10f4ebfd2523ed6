"""`airtcp lab`: a wireless scenario in real Wi-Fi stacks, each in a Linux kernel of its own, in virtual time."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airtcp._terminal import BAD_INPUT, StopError
from airtcp.cli.options import seed, single_set_option
from airtcp.cli.real_hosts import carry_out
from airtcp.cli.scenario_input import changes_of, load_file


def lab(args: argparse.Namespace) -> int:
    """Run a wireless scenario in real Wi-Fi stacks: Linux kernels on the simulated air, in virtual time."""
    from airtcp import realtime
    from airtcp.errors import RunError

    checked = load_file(args.file, changes_of(args))
    try:
        guests = replace(realtime.kernel(args.kernel), memory="128M")
    except RunError as error:
        raise StopError(str(error), BAD_INPUT) from None
    plan = realtime.SessionPlan(
        checked=checked,
        file=args.file,
        commands=[],
        quiet=args.quiet,
        capture=False,
        guests=guests,
        lab=realtime.Lab(security="wpa3" if args.wpa3 else "wpa2" if args.wpa2 else "open"),
    )
    return carry_out(plan, args.out)


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    from airtcp.realtime import WIFI

    sub = command(
        "lab",
        lab,
        "airtcp lab examples/lab-upload.toml",
        "airtcp lab examples/lab-upload.toml --out runs/lab --set duration=10s",
        "airtcp lab examples/lab-upload.toml --set 'wlans.wlan.ap_radio.reorder_buffer={ retry_out = \"stepped\" }'",
        "airtcp lab examples/lab-upload.toml --wpa2",
        more="\nexit codes:\n  0 the run is over; 2 bad input, or a kernel or a program is missing; 1 a stack failed;\n"
        "  130 interrupted\n",
    )
    sub.add_argument("file", metavar="FILE", help="scenario file (TOML) with one WLAN")
    sub.add_argument("--out", metavar="DIR", help="folder for tables and emu.json; default: none is written")
    cipher = sub.add_mutually_exclusive_group()
    cipher.add_argument("--wpa2", action="store_true", help="encrypt the network: WPA2 with CCMP; default: open")
    cipher.add_argument("--wpa3", action="store_true", help="encrypt the network: WPA3 (SAE) with CCMP and PMF")
    sub.add_argument(
        "--kernel",
        default=WIFI,
        metavar="VERSION",
        help="one that tools/uml/build.py --wifi has built, or a file (default: %(default)s)",
    )
    sub.add_argument("--seed", type=seed, metavar="N", help="seed of medium and kernels; default: the scenario's")
    single_set_option(sub, "change a value of the scenario")
    sub.add_argument("-q", "--quiet", action="store_true", help="say only what should worry")
