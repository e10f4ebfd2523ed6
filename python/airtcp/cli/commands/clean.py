"""`airtcp clean`: removes what killed runs have left."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from airtcp._terminal import BAD_INPUT, OK, StopError, write_out


def clean(args: argparse.Namespace) -> int:
    """Remove what killed runs have left: unfinished results and temporary files. Results stay."""
    from pathlib import Path

    from airtcp import leftovers

    total = 0
    for name in args.folders:
        try:
            found = list(leftovers.find(Path(name)))
        except FileNotFoundError:
            if name == "runs":
                continue
            raise StopError(f"{name}: no such folder", BAD_INPUT) from None
        except NotADirectoryError:
            raise StopError(f"{name}: is a file: give a folder that holds results, such as runs", BAD_INPUT) from None
        except OSError as error:
            raise StopError(f"{name}: {error.strerror}", BAD_INPUT) from error
        for left in found:
            if left.is_replaced and not (left.path.parent / left.of).exists():
                write_out(f"{left.path}: kept: the only copy of {left.of}; the next run of that name takes it back\n")
                continue
            size = left.bytes
            total += size
            if not args.dry_run:
                left.remove()
            write_out(f"{left.path}: {'would remove' if args.dry_run else 'removed'} {size / 1e6:.1f} MB\n")
    write_out(f"{total / 1e6:.1f} MB {'would be free' if args.dry_run else 'are free'}\n")
    return OK


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command(
        "clean",
        clean,
        "airtcp clean",
        "airtcp clean runs /data/runs --dry-run",
        more="\nexit codes:\n  0 done, also if nothing was there; 2 bad input\n",
    )
    sub.add_argument("folders", nargs="*", default=["runs"], metavar="DIR", help="where results are; default: runs")
    sub.add_argument("--dry-run", action="store_true", help="show what would go, and remove nothing")
