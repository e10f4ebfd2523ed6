"""`airtcp verify`: are results what they should be?"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from airtcp._terminal import BAD_INPUT, FAILURE, OK, Interrupts, StopError, say, write_out
from airtcp.cli.options import all_or_number, positive, size

if TYPE_CHECKING:
    from airtcp.verified import Verified

SHOWN: Final = 20
"""Faults, and files that were not checked."""


@Interrupts().at_once()
def verify(args: argparse.Namespace) -> int:
    """Check every checksum of results, make runs again and all that follows from them: is it the same?"""
    from pathlib import Path

    from airtcp.errors import DamagedError, ResultsError

    if args.engine:
        return _engine(args)
    if args.what is None:
        raise StopError("verify needs DIR or STUDY; with --engine alone it takes every study", BAD_INPUT)
    try:
        found = _of_study(args) if _is_study(Path(args.what)) else _of_folder(args, Path(args.what))
    except DamagedError:
        raise
    except ResultsError as error:
        raise StopError(str(error), BAD_INPUT) from error
    if args.json:
        from airtcp._text import to_json

        write_out(to_json(found.to_dict()) + "\n")
    else:
        write_out("".join(f"{line}\n" for line in _lines(found)))
    return found.exit


def _engine(args: argparse.Namespace) -> int:
    """Do the published verdicts of studies stand on this engine, too?"""
    from dataclasses import asdict

    from airtcp._text import to_json
    from airtcp.study.carried import carry
    from airtcp.study.files import read
    from airtcp.study.find import everything, find

    folders = [find(args.what)] if args.what is not None else [folder for _, folder in everything()]
    all_carried = []
    for folder in folders:
        if not args.quiet:
            say(f"{folder}: the stated runs are made again")
        all_carried.append(carry(read(folder), jobs=args.jobs))
    if args.json:
        write_out(to_json([asdict(one) | {"is_equal": one.is_equal} for one in all_carried]) + "\n")
    else:
        write_out("".join(f"{line}\n" for one in all_carried for line in one.lines(SHOWN)))
    return OK if all(one.is_equal for one in all_carried) else FAILURE


def _is_study(what: Any) -> bool:  # noqa: ANN401
    return (what / "study.toml").is_file() or not what.exists()


def _of_study(args: argparse.Namespace) -> Verified:
    from airtcp import verify_published
    from airtcp.verified import limits

    tell = (lambda text: None) if args.quiet else say
    if args.runs is None:
        return verify_published.verify_whole_study(args.what, args.jobs, tell)
    most = limits(args.memory, args.time_limit)
    return verify_published.verify_study(args.what, args.runs, args.seed, args.jobs, tell, most)


def _of_folder(args: argparse.Namespace, folder: Any) -> Verified:  # noqa: ANN401
    from airtcp import verify_child
    from airtcp.verified import Verified, limits
    from airtcp.verify_files import check_files, open_folder

    # Here nothing is read but the marker. All else is for a process that the machine survives.
    first = Verified(str(folder))
    check_files(folder, open_folder(folder), first)
    if first.faults:
        return first
    options = {"what": str(folder), "runs": args.runs, "seed": args.seed, "jobs": args.jobs}
    return verify_child.verify(options, limits(args.memory, args.time_limit), quiet=args.quiet)


def _lines(found: Verified) -> list[str]:
    from airtcp.verified import NEVER_MADE_AGAIN

    lines = []
    if found.files:
        lines.append(f"{found.files} files fit their checksums")
    lines += [f"{name}: not written by airtcp; not looked at" for name in found.foreign[:SHOWN]]
    lines += found.notes
    if found.again:
        seed = f", drawn with --seed {found.seed}" if found.is_drawn else ""
        failed = f"; {found.failed} of them are said to have failed" if found.failed else ""
        lines.append(f"{found.again} of {found.of} runs made again{seed}{failed}: {found.agreed} agree bit for bit")
        never = NEVER_MADE_AGAIN if found.kind != "airtcp-published" else {}
        told = "; ".join(f"{name}: {', '.join(keys)}" for name, keys in never.items() if _has(found, name))
        lines += [f"never made again: {told}"] if told else []
    lines += _first("not checked", found.not_checked)
    lines += _first("wrong", found.faults)
    return [*(f"{found.folder}: {line}" for line in lines), f"{found.folder}: {found.closing}"]


def _has(found: Verified, name: str) -> bool:
    """Whether the folder has such a file."""
    from pathlib import Path

    is_run = found.kind == "airtcp-result"
    return not is_run if name == "tables" else (Path(found.folder) / name).exists()


def _first(word: str, lines: list[str]) -> list[str]:
    more = [f"{word}: and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return [*(f"{word}: {line}" for line in lines[:SHOWN]), *more]


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command(
        "verify",
        verify,
        "airtcp verify runs/buffers-sweep",
        "airtcp verify runs/buffers-sweep --runs all",
        "airtcp verify efr --runs 5",
        "airtcp verify efr --engine",
        more="\nexit codes:\n  0 all runs agree, or the drawn sample does; 1 something does not, or is damaged;\n"
        "  2 bad input; 3 nothing is wrong, but no run was made again, or something was not checked\n",
    )
    sub.add_argument(
        "what", metavar="DIR|STUDY", nargs="?", help="results of airtcp run, sweep, study run or analyze; or a study"
    )
    sub.add_argument(
        "--engine",
        action="store_true",
        help="compare the bits of this engine with the published ones, on two runs of each variant; without STUDY: all",
    )
    sub.add_argument(
        "--runs",
        type=all_or_number,
        default=5,
        metavar="N",
        help="runs that are drawn and made again, or all; default: 5",
    )
    sub.add_argument("--seed", type=int, metavar="N", help="seed of the draw; default: one that nobody knows before")
    sub.add_argument("--jobs", type=positive, metavar="N", help="runs at a time; default: one per core")
    sub.add_argument(
        "--memory", type=size, metavar="SIZE", help="memory of a run; default: 2GiB, or half of what the machine has"
    )
    sub.add_argument(
        "--time-limit", type=positive, metavar="S", help="processor time of a run in seconds; default: 600"
    )
    sub.add_argument("--json", action="store_true", help="print what was found as one JSON object")
    sub.add_argument("-q", "--quiet", action="store_true", help="no progress")
