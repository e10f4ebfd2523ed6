"""`airtcp hwsim`: the medium of this kernel's simulated radios, in real time, in place of wmediumd."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airtcp._terminal import BAD_INPUT, StopError, say
from airtcp.cli.options import seed, single_set_option, time_with_unit
from airtcp.cli.scenario_input import changes_of, load_file

if TYPE_CHECKING:
    from airtcp.realtime import Medium


def hwsim(args: argparse.Namespace) -> int:
    """Carry the frames of this kernel's simulated radios (mac80211_hwsim) over the air of a scenario, in real time."""
    from airtcp import realtime
    from airtcp._files import fault_of_input, read_bytes

    file = args.file or args.wmediumd
    if file is None or (args.file and args.wmediumd):
        raise StopError("airtcp hwsim needs a scenario file or --wmediumd FILE, and not both", BAD_INPUT)
    for option, given in (("--set", args.changes), ("--radio", args.radios)):
        if args.wmediumd and given:
            raise StopError(f"{option} goes with a scenario: the file of --wmediumd has all there is", BAD_INPUT)
    for_s = None if args.lasts is None else time_with_unit("--for", args.lasts)
    radios = [_radio(text) for text in args.radios]
    if args.wmediumd:
        if (fault := fault_of_input(file)) is not None:
            raise StopError(fault, BAD_INPUT)
        try:
            text = read_bytes(file).decode("utf-8")
        except OSError as error:
            raise StopError(f"{file}: {error.strerror}", BAD_INPUT) from None
        except UnicodeDecodeError as error:
            raise StopError(f"{file}: byte {error.start} is no text: must be UTF-8", BAD_INPUT) from None
        number = 1 if args.seed is None else args.seed
        return _run(args, realtime.Medium(file=file, wmediumd=text, seed=number, for_s=for_s, quiet=args.quiet))
    checked = load_file(file, changes_of(args))
    return _run(args, realtime.Medium(file=file, checked=checked, radios=radios, for_s=for_s, quiet=args.quiet))


def _run(args: argparse.Namespace, wanted: Medium) -> int:
    from pathlib import Path

    from airtcp import realtime
    from airtcp.results import Folder

    if args.out is None:
        return realtime.medium(wanted)[0]
    with realtime.past_hangup(), Folder(Path(args.out), tell=say) as folder:
        code, kept = realtime.medium(wanted, folder)
    if not args.quiet:
        say(f"results in {args.out}" if kept is not None else "no results were kept")
    return code


def _radio(text: str) -> tuple[str, str]:
    name, equals, address = text.partition("=")
    if not (name and equals and address):
        raise StopError(f"--radio {text}: must be NAME=ADDRESS, such as ap=02:00:00:00:05:00", BAD_INPUT)
    return name, address


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command(
        "hwsim",
        hwsim,
        "modprobe mac80211_hwsim radios=2; airtcp hwsim examples/lab-upload.toml",
        "airtcp hwsim examples/lab-upload.toml --radio ap=02:00:00:00:05:00 --for 5min",
        "airtcp hwsim --wmediumd diamond.cfg --out runs/air",
        more="\nThe radios of the scenario, in its order, are the module's radios 0, 1, ... It says who is who.\n"
        "Hosts, lines and flows of the scenario do nothing: programs on the machine are the traffic.\n"
        "\nexit codes:\n  0 it was told to end, or its time is over; 2 bad input, no module, no right, or another\n"
        "  medium; 1 it failed, or all of its radios vanished\n",
    )
    sub.add_argument("file", metavar="FILE", nargs="?", help="scenario file (TOML) with one channel")
    sub.add_argument(
        "--wmediumd", metavar="FILE", help="a configuration of wmediumd in place of a scenario: addresses and signals"
    )
    sub.add_argument(
        "--radio",
        action="append",
        default=[],
        dest="radios",
        metavar="NAME=ADDRESS",
        help="the radio of this host of the scenario has this address in the kernel",
    )
    sub.add_argument("--out", metavar="DIR", help="folder for tables and emu.json; default: none is written")
    sub.add_argument("--for", dest="lasts", metavar="T", help="end after this time, such as 30s")
    sub.add_argument("--seed", type=seed, metavar="N", help="seed of backoff and errors; default: the scenario's, or 1")
    single_set_option(sub, "change a value of the scenario")
    sub.add_argument("-q", "--quiet", action="store_true", help="say only what should worry; no table at the end")
