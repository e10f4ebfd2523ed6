"""`airtcp verify`: are results what they should be?"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from airtcp._terminal import BAD_INPUT, FAILURE, OK, Interrupts, StopError, say, write_out
from airtcp.commands.sweep import positive

if TYPE_CHECKING:
    from airtcp.verify import Verified

FAULTS_SHOWN: Final = 20


@Interrupts().at_once()
def verify(args: argparse.Namespace) -> int:
    """Check every checksum of results, and make a sample of their runs again: do they give the same bits?"""
    from pathlib import Path

    from airtcp import verify as checks
    from airtcp.errors import DamagedError, ResultsError

    tell = (lambda text: None) if args.quiet else say
    try:
        if (Path(args.what) / "study.toml").is_file() or not Path(args.what).exists():
            if args.runs is None:
                found = checks.verify_whole_study(args.what, args.jobs, tell)
            else:
                found = checks.verify_study(args.what, args.runs, args.seed, args.jobs, tell)
        else:
            found = checks.verify(Path(args.what), args.runs, args.seed, args.jobs, tell)
    except DamagedError:
        raise
    except ResultsError as error:
        raise StopError(str(error), BAD_INPUT) from error
    if args.json:
        from dataclasses import asdict

        from airtcp._text import to_json

        write_out(to_json({**asdict(found), "is_good": found.is_good}) + "\n")
    else:
        write_out("".join(f"{line}\n" for line in _lines(found)))
    return OK if found.is_good else FAILURE


def _lines(found: Verified) -> list[str]:
    lines = []
    if found.files:
        lines.append(f"{found.folder}: {found.files} files fit their checksums")
    lines += [f"{found.folder}: {name}: not written by airtcp; not looked at" for name in found.foreign]
    lines += [f"{found.folder}: {note}" for note in found.notes]
    if found.again:
        agree = "all agree" if found.agreed == found.again else f"{found.agreed} agree"
        lines.append(f"{found.folder}: {found.again} of {found.runs} runs made again: {agree} bit for bit")
    lines += [f"wrong: {fault}" for fault in found.faults[:FAULTS_SHOWN]]
    if len(found.faults) > FAULTS_SHOWN:
        lines.append(f"and {len(found.faults) - FAULTS_SHOWN} more")
    return [*lines, f"{found.folder}: {'verified' if found.is_good else 'NOT verified'}"]


def _runs(text: str) -> int | None:
    return None if text == "all" else 0 if text == "0" else positive(text)


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command(
        "verify",
        verify,
        "airtcp verify runs/buffers-sweep",
        "airtcp verify runs/buffers-sweep --runs all",
        "airtcp verify efr --runs 5",
        more="\nexit codes:\n  0 everything agrees; 1 something does not, or is damaged; 2 bad input\n",
    )
    sub.add_argument("what", metavar="DIR|STUDY", help="results of airtcp run, sweep, study run or analyze; or a study")
    sub.add_argument(
        "--runs", type=_runs, default=5, metavar="N", help="runs that are drawn and made again, or all; default: 5"
    )
    sub.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the draw (default: %(default)s)")
    sub.add_argument("--jobs", type=positive, metavar="N", help="runs at a time; default: one per core")
    sub.add_argument("--json", action="store_true", help="print what was found as one JSON object")
    sub.add_argument("-q", "--quiet", action="store_true", help="no progress")
