"""`airtcp plot` and `airtcp compare`: runs that `airtcp run` has saved."""

from __future__ import annotations

from airtcp import completion
from airtcp._terminal import BAD_INPUT, FAILURE, OK, StopError, render, write_out
from airtcp._text import to_json
from airtcp.errors import DamagedError, ResultsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any, Final

    from airtcp.results import Results

FOLDERS: Final = "result folders of airtcp run"


def plot(args: argparse.Namespace) -> int:
    """Draw one run: latency, goodput, queues, air, windows. Or a link of several runs, which share the axes."""
    from pathlib import Path

    from airtcp.plots import FORMATS, PlotError, one_run, over_time

    out = Path(args.out)
    if out.suffix.lower() not in FORMATS:
        raise StopError(f"cannot write {out}: the name must end in one of {', '.join(FORMATS)}", BAD_INPUT)
    try:
        runs = _load(args.folders)
        figure = one_run(runs[0]) if len(runs) == 1 and args.link is None else over_time(runs, link=args.link)
    except DamagedError:
        raise
    except (PlotError, ResultsError) as error:
        raise StopError(str(error), BAD_INPUT) from error
    try:
        figure.savefig(out)
    except OSError as error:
        raise StopError(f"cannot write {out}: {error.strerror}", FAILURE) from error
    return OK


def compare(args: argparse.Namespace) -> int:
    """Show the summaries of several runs side by side."""
    runs = _load(args.folders)
    if args.json:
        write_out(to_json([results.summary for results in runs]) + "\n")
    else:
        from airtcp.show import comparison

        render(comparison(runs))
    return OK


def _load(folders: list[str]) -> list[Results]:
    from airtcp.results import Results

    try:
        return [Results.load(folder) for folder in folders]
    except DamagedError:
        raise
    except ResultsError as error:
        raise StopError(str(error), BAD_INPUT) from error


def add(command: Callable[..., Any]) -> None:
    """Registers both commands."""
    sub = command(
        "plot",
        plot,
        "airtcp plot runs/wifi-upload-seed1",
        "airtcp plot runs/wifi-upload-seed1 --link 'ap->server' --out line.pdf",
        "airtcp plot runs/reno-seed1 runs/paced-seed1 --out figure.svg",
    )
    sub.add_argument("folders", nargs="+", metavar="DIR", help=FOLDERS).completer = completion.results
    sub.add_argument(
        "--out", metavar="FILE", default="plot.png", help="picture: .png, .svg or .pdf (default: %(default)s)"
    )
    sub.add_argument(
        "--link", metavar="NAME", help="link to show; default for several runs: the one that packets waited at longest"
    ).completer = completion.links
    sub = command("compare", compare, "airtcp compare runs/reno-seed1 runs/paced-seed1")
    sub.add_argument("folders", nargs="+", metavar="DIR", help=FOLDERS).completer = completion.results
    sub.add_argument("--json", action="store_true", help="print the summaries as one JSON list")
