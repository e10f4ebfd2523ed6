"""`airtcp study`: experiments, figures and findings about one question."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from airtcp._terminal import BAD_INPUT, FAILURE, OK, Interrupted, Interrupts, StopError, render, say, write_out
from airtcp._text import duration
from airtcp.cli.options import (
    check_kernel,
    check_local,
    executor_option,
    kernel_option,
    local_options,
    positive,
    set_option,
)
from airtcp.cli.progress import bar_of_runs, tell_of_planning

if TYPE_CHECKING:
    from pathlib import Path

    from airtcp.study.files import Study
    from airtcp.study.prepare import Mode, Prepared
    from airtcp.study.settle import Budget

FAILURES_SHOWN: Final = 10


def study(args: argparse.Namespace) -> int:
    """Repeat the experiments of a publication and check its findings: figures, verdicts, a report."""
    args.help()
    return BAD_INPUT


def list_studies(_args: argparse.Namespace) -> int:
    """List the studies that can be run by id."""
    from airtcp import _airtcp
    from airtcp.errors import StudyError
    from airtcp.study import published
    from airtcp.study.files import read
    from airtcp.study.find import everything, places
    from airtcp.study.show import listing, published_text

    rows = []
    for study_id, folder in everything():
        try:
            title = read(folder).title
        except StudyError:
            rows.append(
                (study_id, f"has mistakes: airtcp study check {shlex.quote(str(folder))} shows them", "", folder)
            )
            continue
        try:
            found = published.read(folder)
            verdicts = "" if found is None else published_text(found, _airtcp.engine())
        except StudyError as error:
            verdicts = f"faulty: {error}"
        rows.append((study_id, title, verdicts, folder))
    if not rows:
        say(f"no study in {', '.join(map(str, places()))}; docs/studies.md says how to write one")
        return OK
    render(listing(rows))
    return OK


def show(args: argparse.Namespace) -> int:
    """Show the question, claims, assumptions and cost of a study."""
    from airtcp.study import published
    from airtcp.study.prepare import check
    from airtcp.study.show import overview

    found = _read(args.id)
    with Interrupts().active() as interrupts:
        prepared = check(found, tell_of_planning(args.id, interrupts, quiet=False))
    render(*overview(found, prepared, published.read(found.folder)))
    return OK


def check(args: argparse.Namespace) -> int:
    """Check the files of a study, quick and full, without running anything."""
    from airtcp.study.prepare import check as check_study
    from airtcp.study.prepare import distinct_runs

    found = _read(args.folder)
    with Interrupts().active() as interrupts:
        prepared = check_study(found, tell_of_planning(args.folder, interrupts, quiet=False))
    plots = sum(len(e.plots) for e in found.experiments)
    findings = sum(len(e.findings) for e in found.experiments)
    runs = ", ".join(f"{mode}: {distinct_runs(ready)} runs" for mode, ready in prepared.items())
    write_out(
        f"{found.folder}: valid: {found.title!r}, {len(found.experiments)} experiments, {plots} plots, "
        f"{findings} findings; {runs}\n"
    )
    return OK


def run(args: argparse.Namespace) -> int:
    """Run a study, print its main verdicts and write tables, figures and a report; resumes an interrupted run."""
    check_local(args)
    from pathlib import Path

    from airtcp.study.prepare import prepare
    from airtcp.study.run import check_folder, default_folder
    from airtcp.study.run import run as run_study
    from airtcp.study.run_options import RunOptions
    from airtcp.sweeps.definition import changes_of

    mode: Mode = "full" if args.full else "quick"
    args.id = _id_of(args)
    whole = _read(args.id)
    wanted = whole.only(args.figure, args.experiment)
    if args.changes and args.settle:
        raise StopError("use either --set or --settle, not both", BAD_INPUT)
    folder = Path(args.out) if args.out is not None else default_folder(whole, mode)
    if args.changes and args.out is None:
        # Runs with other values do not belong among the study's own.
        folder = folder.with_name(f"{folder.name}-set")
    check_folder(folder, whole)
    figures, experiments, changes = tuple(args.figure), tuple(args.experiment), tuple(args.changes)
    with Interrupts().active() as interrupts, bar_of_runs(whole.id, quiet=args.quiet) as update:
        ask = tell_of_planning(whole.id, interrupts, quiet=args.quiet)
        prepared = prepare(wanted, mode, args.seeds, changes_of(args.changes), ask, args.kernel)
        check_kernel(args, [one.plan for one in prepared])
        budget = _budget(args, prepared)
        options = RunOptions(args.id, mode, args.seeds, figures, experiments, changes, args.kernel, budget)
        document = run_study(
            wanted,
            prepared,
            folder,
            options,
            executor=args.executor,
            jobs=args.jobs,
            memory_limit=args.memory_limit,
            retry_died=args.retry_died,
            progress=update,
            tell=(lambda message: None) if args.quiet else say,
            is_stopped=interrupts.is_stopped,
        )
    # Figures take longer than anybody waits who has just pressed Ctrl-C.
    report = _report(folder, quiet=args.quiet) if document["status"] == "complete" else None
    if args.json:
        from airtcp._text import to_json

        keys = ("study", "mode", "seeds", "status", "runs", "finished", "failed", "wall_s", "engine", "findings")
        write_out(to_json({key: document[key] for key in keys}) + "\n")
    elif not args.quiet:
        from airtcp.study.show import answer, verdicts

        is_part = args.figure or args.experiment
        render(*(verdicts if args.findings or is_part else answer)(document))
    return _end(document, str(folder), report, interrupts, quiet=args.quiet)


def _budget(args: argparse.Namespace, prepared: Sequence[Prepared]) -> Budget | None:
    """Runs or time that `--settle` may add. Default: as many runs as the study has."""
    from airtcp.study.prepare import distinct_runs
    from airtcp.study.settle import Budget

    if not args.settle:
        if args.settle_budget is not None:
            raise StopError("--settle-budget needs --settle", BAD_INPUT)
        return None
    return Budget(runs=distinct_runs(prepared)) if args.settle_budget is None else Budget.read(args.settle_budget)


def _id_of(args: argparse.Namespace) -> str:
    """Finds the ID of the study if `--figure N ...` or `--experiment ID ...` took it as one more value."""
    if args.id is None:
        for taken in (args.figure, args.experiment, args.changes):
            if len(taken) > 1 and "=" not in taken[-1]:
                return str(taken.pop())
        raise StopError("the ID of a study is missing; airtcp study list shows all", BAD_INPUT)
    return str(args.id)


def _read(name: str) -> Study:
    from airtcp.study.files import read
    from airtcp.study.find import find

    return read(find(name))


def _report(folder: Path, *, quiet: bool) -> str | None:
    """Writes the report and returns its path."""
    from importlib import import_module

    try:
        report = import_module("airtcp.report")
    except ModuleNotFoundError as error:
        if not quiet:
            say(f"no report is written: {error.name} is not installed")
        return None
    try:
        with Interrupts().at_once():
            report.write(folder)
    except Interrupted as interrupt:
        where = f"the results are kept in {folder}, and `airtcp report {shlex.quote(str(folder))}` writes their report"
        raise StopError(f"interrupted: {where}", interrupt.code) from None
    page = folder / "report.html"
    return str(page) if page.exists() else None


def _end(document: dict[str, Any], folder: str, report: str | None, interrupts: Interrupts, *, quiet: bool) -> int:
    failed = document["failed"]
    if failed:
        say(f"error: {len(failed)} failed; the next start tries them again, but for those that died:")
        for item in failed[:FAILURES_SHOWN]:
            say(f"  {item['experiment']}: {item['what']}: {item['error']}")
        if len(failed) > FAILURES_SHOWN:
            say(f"  and {len(failed) - FAILURES_SHOWN} more: see `failed` in {folder}/study.json")
    if document["status"] != "complete":
        say(
            f"{document['study']}: interrupted: {document['finished']} of {document['runs']} runs are finished and "
            f"kept in {folder}; the same command resumes, and `airtcp report {shlex.quote(folder)}` draws these"
        )
        return interrupts.code
    if not quiet:
        say(f"{document['study']}: {document['runs']} runs, {duration(document['wall_s'])}, results in {folder}")
        if report is not None:
            say(f"report: {report}")
    return FAILURE if failed else OK


EXIT_CODES: Final = (
    "\nexit codes:\n  0 done, whatever the verdicts; 1 some runs failed, or another failure; 2 bad input; "
    "130 interrupted\n  (finished runs are kept, and the same command resumes)\n"
)


def add(command: Callable[..., Any]) -> None:
    """Registers the command and those below it."""
    top = command("study", study, "airtcp study list", "airtcp study run pacing-buffers --quick")
    top.set_defaults(help=top.print_help)
    below = top.add_subparsers(metavar="COMMAND", title="commands")

    def sub(name: str, body: Callable[[argparse.Namespace], int], *examples: str, more: str = "") -> Any:  # noqa: ANN401
        return command(name, body, *examples, more=more, under=below)

    sub("list", list_studies, "airtcp study list")

    def ids(**_: object) -> list[str]:
        from airtcp.study.find import everything

        return [study_id for study_id, _ in everything()]

    what = {"metavar": "ID", "help": "id of a study (airtcp study list), or the path of its folder"}
    shown = sub("show", show, "airtcp study show pacing-buffers").add_argument("id", **what)
    shown.completer = ids

    one = sub(
        "run",
        run,
        "airtcp study run pacing-buffers --quick",
        "airtcp study run pacing-buffers --full --figure 3 --figure 14 --seeds 10 --out runs/more",
        "airtcp study run remedies --experiment cafe --set nodes.guests.count=20",
        "airtcp study run pacing-buffers --settle --settle-budget 30min",
        "airtcp study run ./my-study --json | jq '.findings[] | [.id, .verdict]'",
        more=EXIT_CODES,
    )
    # Optional for argparse only, because `--figure 3 4 ID` takes the ID as one more figure (see `_id_of`).
    one.add_argument("id", nargs="?", **what).completer = ids
    size = one.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="run few points and seeds (default)")
    size.add_argument("--full", action="store_true", help="run the study's whole ranges")
    one.add_argument(
        "--figure",
        action="extend",
        nargs="+",
        default=[],
        metavar="N",
        help="run only these figures of the paper, with their findings; 3 means 3a, 3b, ... as well",
    )
    one.add_argument(
        "--experiment",
        action="extend",
        nargs="+",
        default=[],
        metavar="ID",
        help="run only these experiments, completely",
    )
    one.add_argument(
        "--seeds", type=positive, metavar="N", help="number of seeds for each point; default: the experiments' own"
    )
    set_option(one, "change a parameter of the experiments, or a key of their scenarios; can be repeated")
    one.add_argument("--settle", action="store_true", help="run more seeds for open findings, up to a budget")
    one.add_argument(
        "--settle-budget",
        metavar="N|TIME",
        help="most runs or time that --settle adds, such as 500 or 30min; default: as many runs as the study has",
    )
    local_options(one)
    kernel_option(one)
    one.add_argument("--out", metavar="DIR", help="folder for the results; default: runs/study-ID-quick or -full")
    executor_option(one)
    one.add_argument(
        "--findings",
        action="store_true",
        help="print all findings; default: the main ones, if the study names some",
    )
    one.add_argument("--json", action="store_true", help="print the findings as one JSON object and nothing else")
    one.add_argument("-q", "--quiet", action="store_true", help="no progress and no tables")

    sub("check", check, "airtcp study check ./my-study").add_argument("folder", metavar="FOLDER", help=what["help"])
