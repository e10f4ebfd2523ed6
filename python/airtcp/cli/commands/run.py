"""`airtcp run`: one run of a scenario, or a run for each of several seeds."""

from __future__ import annotations

import re
import time

from airtcp._terminal import BAD_INPUT, OK, Interrupts, StopError, render, say, write_out
from airtcp._text import is_link, on_one_line, to_json
from airtcp.cli.options import scenario_options, seeds, snaplen_option, threads
from airtcp.cli.progress import bar_of_run
from airtcp.cli.scenario_input import checked_scenario, file_of
from airtcp.execution import SNAPLEN, Execution

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any

    from airtcp import _airtcp


def run(args: argparse.Namespace) -> int:
    """Run a scenario, print a summary and write a folder of results."""
    if args.out is not None and args.no_save:
        raise StopError("use either --out or --no-save, not both", BAD_INPUT)
    if args.seeds is not None:
        if args.threads is not None:
            raise StopError("use either --seeds or --threads, not both: seeds run one on each core", BAD_INPUT)
        return _run_seeds(args)
    # With --json a folder is written only if --out names one.
    save = not args.no_save and not (args.json and args.out is None)
    checked = checked_scenario(args)
    with Interrupts().active() as interrupts:
        if not save:
            execution = _advance(
                Execution(checked, audit=args.audit, threads=args.threads or 0), interrupts, quiet=args.quiet
            )
            if args.json:
                write_out(to_json(execution.summary()) + "\n")
                where = f"not saved, hash {execution.hash()}" if is_link(args.file) else "not saved"
                return _end(execution, interrupts, where, quiet=args.quiet)
            results, where = execution.results(), "not saved"
        else:
            from pathlib import Path

            from airtcp.results import Folder

            out = args.out or default_folder(checked)
            # Made before the run: a place that cannot be written to should not cost the time of a run.
            with Folder(Path(out), tell=say) as folder:
                execution = Execution(checked, folder, args.snaplen, audit=args.audit, threads=args.threads or 0)
                execution = _advance(execution, interrupts, quiet=args.quiet)
                results, where = execution.results(), f"results in {out}"
                folder.commit(results)
    if args.json:
        write_out(to_json(results.summary) + "\n")
    elif not args.quiet:
        from airtcp.show import overview
        from airtcp.soundness import warnings
        from airtcp.traps import notes

        render(*overview(results))
        for sentence in [*notes(results.manifest["scenario"]), *warnings(results)]:
            say(f"note: {sentence}")
    if is_link(args.file):
        # What the page shows of the same run.
        where += f", hash {execution.hash()}"
    return _end(execution, interrupts, where, quiet=args.quiet)


def _run_seeds(args: argparse.Namespace) -> int:
    """Runs several seeds and prints the means with their intervals."""
    from airtcp.cli.progress import bar_of_runs
    from airtcp.replications import is_certain, means, summaries, tables
    from airtcp.sweeps.running import Progress

    if args.out is not None or args.snaplen != SNAPLEN:
        raise StopError("--seeds writes no folder: use it without --out and --snaplen, or a sweep", BAD_INPUT)
    if file_of(args) == "-":
        raise StopError("--seeds needs a FILE: it is read once for each seed", BAD_INPUT)
    first = args.seed if args.seed is not None else 1
    args.seed = None
    checked = checked_scenario(args)
    wanted = range(first, first + args.seeds)
    begin = time.monotonic()
    with Interrupts().active() as interrupts, bar_of_runs(str(args.file), quiet=args.quiet) as update:

        def progress(done: int, total: int) -> None:
            took = time.monotonic() - begin
            update(Progress(total, 0, done, 0, took, took / done * (total - done)))

        found = summaries(checked, wanted, audit=args.audit, progress=progress, is_stopped=interrupts.is_stopped)
    if not found:
        raise StopError("interrupted before a seed had finished", interrupts.code)
    summary = means(found)
    if args.json:
        write_out(to_json(summary) + "\n")
    elif not args.quiet:
        render(*tables(summary))
    if not args.quiet:
        if len(found) > 1 and is_certain(found):
            say("note: all seeds give the same result, since nothing in this scenario is left to chance")
        say(f"{on_one_line(summary['name'])}: {len(found)} of {args.seeds} seeds, from {first} on; not saved")
    return OK if len(found) == args.seeds else interrupts.code


def default_folder(checked: _airtcp.Checked) -> str:
    """Default folder for the results of a run."""
    import json

    scenario = json.loads(checked.to_json())
    # The folder stays below runs/, whatever the scenario's name.
    name = re.sub(r"[^\w.-]+", "-", scenario["name"]).strip("-.") or "run"
    return f"runs/{name}-seed{scenario['seed']}"


def _advance(execution: Execution, interrupts: Interrupts, *, quiet: bool) -> Execution:
    with bar_of_run(execution.scenario["name"], execution.end_s, quiet=quiet) as update:
        while not execution.is_over and not interrupts.is_stopped():
            execution.advance()
            update(execution.now_s)
    return execution


def _end(execution: Execution, interrupts: Interrupts, where: str, *, quiet: bool) -> int:
    if not quiet:
        until = "" if execution.is_over else f", interrupted at {execution.now_s:g} s"
        say(f"{on_one_line(execution.scenario['name'])}{until}: {where}")
    return OK if execution.is_over else interrupts.code


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command(
        "run",
        run,
        "airtcp run examples/pacing-buffers-reno.toml",
        "airtcp run examples/pacing-buffers-reno.toml --seed 7 --duration 40s --set links.bottleneck.rate=50Mbit/s",
        "airtcp run examples/wifi-upload.toml --seeds 10 --ap ath10k",
        "airtcp run - --json < scenario.toml | jq .links",
        "airtcp run '#s=LINK'",
        more="\nexit codes:\n  0 done; 2 bad input; 1 other failure; 130 interrupted "
        "(the finished part is kept and marked)\n",
    )
    scenario_options(sub)
    sub.add_argument(
        "--out", metavar="DIR", help="folder for the results; default: runs/NAME-seedN, with --json: none is written"
    )
    sub.add_argument("--no-save", action="store_true", help="write no folder")
    sub.add_argument("--json", action="store_true", help="print the summary as one JSON object and nothing else")
    snaplen_option(sub, "a capture")
    sub.add_argument(
        "--seeds",
        type=seeds,
        metavar="N",
        help="run N seeds, from --seed or 1 on, and print means with 95 %% intervals; writes no folder",
    )
    sub.add_argument(
        "--audit", action="store_true", help="check at every sample that nothing was lost or counted twice"
    )
    sub.add_argument(
        "--threads",
        type=threads,
        metavar="N",
        help="cores that the run takes at most; the results are the same for any number (default: as many as pay)",
    )
    sub.add_argument("-q", "--quiet", action="store_true", help="no progress and no tables")
