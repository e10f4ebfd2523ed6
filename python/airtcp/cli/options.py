"""Types of the options, and options that several commands have."""

from __future__ import annotations

import argparse
import os
import re

from airtcp import completion
from airtcp._terminal import BAD_INPUT, StopError, say
from airtcp.execution import AUDIT, SNAPLEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Final

    from airtcp.sweeps.planning import Plan

# --- types ----------------------------------------------------------------------------------------------------------


def whole(least: int, most: int, what: str = "whole number", most_text: str = "") -> Callable[[str], int]:
    """A type of options: a whole number in a range.

    Args:
        least: the least number that is accepted.
        most: the greatest one.
        what: the thing that the number is, for the message.
        most_text: the greatest number as the message has it.
    """

    def read(text: str) -> int:
        # Python refuses to convert thousands of digits, which leading zeros may be.
        digits = text.lstrip("0") or text[-1:]
        is_number = digits.isascii() and digits.isdigit() and len(digits) <= len(str(most))
        if not is_number or not least <= int(digits) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a {what} from {least} to {most_text or most}")
        return int(digits)

    return read


seed: Final = whole(0, (1 << 63) - 1, most_text="2^63 - 1")
seeds: Final = whole(1, 10_000)
"""A number of seeds that one process runs."""
threads: Final = whole(1, 10_000)
positive: Final = whole(1, 1_000_000)
snaplen: Final = whole(0, (1 << 32) - 1, "number of bytes", "2^32 - 1")
port: Final = whole(0, 65535, "port")
flow_number: Final = whole(0, (1 << 32) - 1)


def all_or_number(text: str) -> int | None:
    """A number of runs, or `all`, which is `None`."""
    return None if text == "all" else 0 if text == "0" else positive(text)


MIN_MEMORY_BYTES: Final = 64 << 20
"""Less does not even load airtcp."""

_SIZE_UNITS: Final = {
    "B": 1,
    **{f"{prefix}B": 1000**n for n, prefix in enumerate("kMGT", 1)},
    **{f"{prefix}iB": 1024**n for n, prefix in enumerate("KMGT", 1)},
}


def size(text: str) -> int:
    """A number of bytes, such as `500MB` or `2GiB`."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(kB|MB|GB|TB|KiB|MiB|GiB|TiB|B)", text.strip())
    if found is None or (value := float(found[1]) * _SIZE_UNITS[found[2]]) < MIN_MEMORY_BYTES:
        least = f"{MIN_MEMORY_BYTES >> 20} MiB"
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from {least}, such as 500MB or 2GiB")
    return int(value)


def seconds(text: str) -> float:
    """A number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and up to 1e9")
    return value


_TIME_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def time_with_unit(option: str, text: str) -> float:
    """The seconds of a time such as `30s` or `5min`.

    Raises:
        StopError: the text is no such time; the message names the option.
    """
    found = re.match(r"(\d+(?:\.\d+)?)(ns|us|ms|s|min|h)\Z", text.strip())
    if found is None or float(found[1]) == 0:
        raise StopError(f"{option} {text}: must be a time such as 30s or 5min", BAD_INPUT)
    return float(found[1]) * _TIME_UNITS[found[2]]


# --- options --------------------------------------------------------------------------------------------------------


class ApOption(argparse.Action):
    """`--ap NAME`. Its help names all access points; their file is read only when the help is shown."""

    def __call__(self, _parser: object, args: argparse.Namespace, value: object, _option: object = None) -> None:
        """Keeps the name."""
        setattr(args, self.dest, value)

    def _help(self) -> str:
        from airtcp.access_points import access_points

        return f"radio of all access points: {', '.join(access_points())} (docs/wifi.md)"

    # argparse itself sets a help, too; that is dropped.
    help = property(_help, lambda _self, _text: None)


def ap_option(sub: Any) -> None:  # noqa: ANN401
    """`--ap`: the radio of all access points."""
    sub.add_argument("--ap", metavar="NAME", action=ApOption).completer = completion.radios


def set_option(sub: Any, text: str) -> None:  # noqa: ANN401
    """`--set`, with as many values as are given and as often as it is given."""
    what = {"dest": "changes", "metavar": "KEY=VALUE", "help": text}
    sub.add_argument("--set", action="extend", nargs="+", default=[], **what).completer = completion.changes


def single_set_option(sub: Any, text: str) -> None:  # noqa: ANN401
    """`--set` with one value each time, where other words may follow it."""
    sub.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE", help=text)


def snaplen_option(sub: Any, what: str) -> None:  # noqa: ANN401
    """`--snaplen`, of the capture that a run writes."""
    text = f"bytes of each packet that {what} keeps; 0: all (default: %(default)s)"
    sub.add_argument("--snaplen", type=snaplen, default=SNAPLEN, metavar="BYTES", help=text)


def scenario_options(sub: Any) -> None:  # noqa: ANN401
    """A scenario and its changes, see `airtcp.cli.scenario_input`."""
    # Optional for argparse only, because `--set` may have taken it.
    text = "scenario file (TOML), - for standard input, or a link of airtcp play"
    sub.add_argument("file", metavar="FILE", nargs="?", help=text).completer = completion.scenarios
    sub.add_argument("--seed", type=seed, metavar="N", help="seed of the run; default: the scenario's")
    set_option(sub, "change values of the scenario; can be repeated")
    ap_option(sub)
    sub.add_argument("--duration", metavar="T", help="simulated time, such as 30s; default: the scenario's")


def local_options(sub: Any) -> None:  # noqa: ANN401
    """Options of runs on this machine."""
    sub.add_argument("--jobs", type=positive, metavar="N", help="runs at a time; default: one per core")
    sub.add_argument(
        "--memory-limit", type=size, metavar="SIZE", help="memory of a run, such as 2GB; default: what the machine has"
    )
    sub.add_argument("--retry-died", action="store_true", help="try runs again that died (no memory, a crash)")
    sub.add_argument("--audit", action="store_true", help="check in every run that nothing was lost or counted twice")


def executor_option(sub: Any) -> None:  # noqa: ANN401
    """`--executor`: a cluster in place of this machine."""
    text = (
        "run on a Dask cluster: dask://HOST:PORT, dask+tls://HOST:PORT, or dask:// and a scheduler file (needs "
        "airtcp[cluster]); whoever controls the cluster can run programs as you: use one that you trust"
    )
    sub.add_argument("--executor", metavar="ADDRESS", help=text)


def check_local(args: argparse.Namespace) -> None:
    """Refuses what a cluster decides itself.

    Raises:
        StopError: with the option.
    """
    if args.executor is None:
        if args.audit:
            # Worker processes inherit it.
            os.environ[AUDIT] = "1"
        return
    if args.audit:
        raise StopError(f"--audit is not for {args.executor}: set {AUDIT}=1 for its workers", BAD_INPUT)
    if args.jobs is not None:
        raise StopError(
            "use either --jobs or --executor, not both: a cluster runs as many at a time as its workers have threads",
            BAD_INPUT,
        )
    if args.memory_limit is not None:
        raise StopError(
            "use either --memory-limit or --executor, not both: workers of a cluster have limits of their own",
            BAD_INPUT,
        )
    from airtcp.executors import unprotected

    if (warning := unprotected(args.executor)) is not None:
        say(f"warning: {warning}")


def kernel_option(sub: Any) -> None:  # noqa: ANN401
    """`--kernel`: files name versions only, because they may come from a stranger."""
    text = 'kernel of all variants with engine = "kernel": a version that tools/uml/build.py has built, or a file'
    sub.add_argument("--kernel", metavar="VERSION|PATH", help=text)


def check_kernel(args: argparse.Namespace, plans: Iterable[Plan]) -> None:
    """Refuses `--kernel` where it changes nothing.

    Raises:
        StopError: no variant has a kernel.
    """
    if args.kernel is not None and not any(variant.kernel for one in plans for variant in one.sweep.variant_list):
        raise StopError('--kernel: no variant has engine = "kernel"', BAD_INPUT)
