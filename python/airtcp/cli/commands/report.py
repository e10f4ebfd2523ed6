"""`airtcp report`: writes the results of a run, a study or a sweep as one page, and figures for papers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from airtcp import completion
from airtcp._terminal import BAD_INPUT, OK, Interrupts, StopError, say, write_out


def report(args: argparse.Namespace) -> int:
    """Write the results of a run, a study or a sweep as one page that works offline, and as figures for papers."""
    from pathlib import Path

    from airtcp.errors import DamagedError, ResultsError
    from airtcp.report.page import FIGURES, file_name, load, write

    folder = Path(args.folder)
    try:
        study = load(folder)
    except DamagedError:
        raise
    except ResultsError as error:
        raise StopError(str(error), BAD_INPUT) from error
    with Interrupts().at_once():
        page = write(folder, out=args.out, figures=not args.no_figures)
    plots = [plot.id for experiment in study.experiments for plot in experiment.plots]
    figures = [
        str(folder / FIGURES / f"{file_name(plot)}.{ending}")
        for plot in plots
        for ending in ("png", "svg")
        if not args.no_figures and study.kind != "run"
    ]
    if args.json:
        from airtcp._text import to_json

        write_out(to_json({"report": str(page), "figures": figures}) + "\n")
        return OK
    say(f"report: {page}")
    if figures:
        say(f"figures: {folder / FIGURES}")
    return OK


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command(
        "report",
        report,
        "airtcp report runs/wifi-upload-seed1",
        "airtcp report runs/pacing-buffers-quick",
        "airtcp report runs/buffers-sweep --out buffers.html --no-figures",
        more="\nexit codes:\n  0 done; 1 a file cannot be written; 2 the folder holds no run, study or sweep\n",
    )
    what = "output folder of airtcp run, airtcp study run or airtcp sweep"
    sub.add_argument("folder", metavar="DIR", help=what).completer = completion.results
    sub.add_argument(
        "--out", metavar="FILE", help="file for the page; default: DIR/report.html, for a run DIR-report.html"
    )
    sub.add_argument("--no-figures", action="store_true", help="write only the page, no DIR/figures/*.png and *.svg")
    sub.add_argument("--json", action="store_true", help="print the paths of page and figures as JSON")
