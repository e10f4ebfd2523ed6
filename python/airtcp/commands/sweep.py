"""`airtcp sweep`: runs a scenario many times with varied parameters."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from contextlib import ExitStack, contextmanager

from airtcp import completion
from airtcp._terminal import BAD_INPUT, FAILURE, OK, Interrupts, StopError, render, say, write_out
from airtcp._terminal import progress as progress_on_terminal
from airtcp._text import on_one_line
from airtcp.execution import AUDIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import Any, Final

    from airtcp.sweeps.planning import Plan
    from airtcp.sweeps.results import SweepResults
    from airtcp.sweeps.running import Progress

FAILURES_SHOWN: Final = 10
ROWS_SHOWN: Final = 60
VARY_SEEDS: Final = 3
"""Seeds of a sweep without a file."""

TELL_AFTER_S: Final = 1.0
"""Planning that is shorter says nothing."""
LINE_EVERY_S: Final = 30.0
"""Seconds between lines of progress where standard error is a file, such as the log of a batch job."""


def sweep(args: argparse.Namespace) -> int:
    """Run every combination of a sweep file's parameters, arms and seeds; resumes an interrupted sweep."""
    if args.file is None and args.changes and "=" not in args.changes[-1]:
        args.file = args.changes.pop()  # FILE may follow `--set KEY=VALUE ...`
    if args.file is None and args.vary and "=" not in args.vary[-1]:
        args.file = args.vary.pop()
    if args.file is None:
        raise StopError("a sweep FILE is missing", BAD_INPUT)
    check_local(args)

    from airtcp.sweeps.definition import changes_of
    from airtcp.sweeps.planning import plan
    from airtcp.sweeps.running import count, died, execute
    from airtcp.sweeps.store import Store

    if args.vary:
        from airtcp._files import fault_of_input
        from airtcp.sweeps.vary import varying

        if (fault := fault_of_input(args.file)) is not None:
            raise StopError(fault, BAD_INPUT)
        asked = varying(args.file, args.vary, with_ap(args, args.file))
        options: dict[str, Any] = {"seeds": args.seeds or VARY_SEEDS}
    else:
        if args.ap is not None:
            raise StopError("--ap is for scenarios: use it with --vary, or set ap_radio in the sweep file", BAD_INPUT)
        asked = args.file
        options = {"quick": args.quick, "seeds": args.seeds, "set": changes_of(args.changes), "kernel": args.kernel}
    with Interrupts().active() as interrupts, ExitStack() as stack:
        planned = plan(asked, **options, progress=planning(args.file, interrupts, quiet=args.quiet))
        check_kernel(args, [planned])
        name = on_one_line(planned.sweep.name)
        out = args.out or default_folder(planned.sweep.name)
        store = stack.enter_context(Store(out))
        total, already = count([planned], store)
        if not args.quiet:
            for note in store.notes:
                say(note)
            say(f"{already} of {total} runs were already done" if already else f"{name}: {total} runs")
            if (dead := died([planned], store)) and not args.retry_died:
                say(f"{dead} runs died in an earlier start and are not tried again: --retry-died does")
        with progress_bar(name, quiet=args.quiet) as update:
            (results,) = execute(
                [planned],
                store,
                args.executor,
                update,
                jobs=args.jobs,
                is_stopped=interrupts.is_stopped,
                memory_limit=args.memory_limit,
                retry_died=args.retry_died,
            )
        results.save(out)
    if args.json:
        from airtcp._text import to_json

        write_out(to_json({**results.manifest, "rows": results.runs.to_dicts()}) + "\n")
    elif not args.quiet:
        from airtcp.sweeps.show import overview

        render(*overview(results, ROWS_SHOWN))
    return _end(results, out, interrupts, quiet=args.quiet)


def _end(results: SweepResults, out: str, interrupts: Interrupts, *, quiet: bool) -> int:
    counts = results.manifest["runs"]
    _list_failures(results, out)
    if not results.is_complete:
        done = counts["ok"] + counts["failed"]
        say(
            f"{on_one_line(results.name)}: interrupted: {done} of {counts['total']} runs are finished and kept "
            f"in {out}; the same command resumes"
        )
        return interrupts.code
    if not quiet:
        say(f"{on_one_line(results.name)}: {counts['ok']} of {counts['total']} runs, results in {out}")
    return FAILURE if counts["failed"] else OK


def _list_failures(results: SweepResults, out: str) -> None:
    failed = results.failed
    if failed.is_empty():
        return
    say(
        f"error: {failed.height} of {results.runs.height} runs failed; "
        f"the next start tries them again, but for those that died:"
    )
    names = [*(["arm"] if "arm" in failed.columns else []), *results.manifest["varied"], "seed"]
    for row in failed.head(FAILURES_SHOWN).iter_rows(named=True):
        at = ", ".join(f"{name} = {row[name]}" for name in names if row[name] is not None)
        say(f"  {on_one_line(at)}: {row['error']}")
    if failed.height > FAILURES_SHOWN:
        say(f"  and {failed.height - FAILURES_SHOWN} more: see the column `error` of {out}/runs.parquet")


def default_folder(name: str) -> str:
    """Default folder for a sweep's results. It stays below runs/, whatever the sweep's name."""
    folder = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "unnamed"
    return f"runs/{folder}-sweep"


def duration(seconds: float) -> str:
    """A duration in words: `40 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def planning(name: str, interrupts: Interrupts, *, quiet: bool) -> Callable[[int, int], None]:
    """A function that planning calls before each point: it ends if a signal has come, and tells of a long wait."""
    tell_at = time.monotonic() + TELL_AFTER_S

    def progress(done: int, total: int) -> None:
        nonlocal tell_at
        interrupts.check("the runs were being planned, and none has begun")
        if quiet or total == 0 or time.monotonic() < tell_at:
            return
        tell_at = time.monotonic() + LINE_EVERY_S
        say(f"{name}: planning: {done} of {total} points")

    return progress


@contextmanager
def progress_bar(name: str, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Progress of many runs on standard error: a bar on a terminal, else lines."""
    bar: Any = None
    told_at = time.monotonic()
    is_terminal = sys.stderr.isatty()

    def line(progress: Progress) -> str:
        failed = f", {progress.failed} failed" if progress.failed else ""
        left = f", about {duration(progress.eta_s)} left" if progress.eta_s is not None else ""
        return f"{progress.done} of {progress.total} runs{failed}{left}"

    def update(progress: Progress) -> None:
        nonlocal bar, told_at
        if quiet:
            return
        if not is_terminal:
            if time.monotonic() - told_at >= LINE_EVERY_S and progress.done < progress.total:
                told_at = time.monotonic()
                say(f"{name}: {line(progress)}")
            return
        if bar is None:
            bar = progress_on_terminal("{task.fields[line]}")
            bar.add_task(on_one_line(name), total=progress.total, line="")
            bar.start()
        bar.update(bar.task_ids[0], completed=progress.done, line=line(progress))

    try:
        yield update
    finally:
        if bar is not None:
            bar.stop()


def size(text: str) -> int:
    """An argument that is a number of bytes, such as `500MB` or `2GiB`."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(kB|MB|GB|TB|KiB|MiB|GiB|TiB|B)", text.strip())
    if found is None or (value := float(found[1]) * _UNITS[found[2]]) < MIN_MEMORY:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from {MIN_MEMORY >> 20} MiB, such as 500MB or 2GiB")
    return int(value)


MIN_MEMORY: Final = 64 << 20
"""Less does not even load airtcp."""

_UNITS: Final = {
    "B": 1,
    **{f"{prefix}B": 1000**n for n, prefix in enumerate("kMGT", 1)},
    **{f"{prefix}iB": 1024**n for n, prefix in enumerate("KMGT", 1)},
}


def set_option(sub: Any, text: str) -> None:  # noqa: ANN401
    """`--set`, with as many values as are given and as often as it is given."""
    what = {"dest": "changes", "metavar": "KEY=VALUE", "help": text}
    sub.add_argument("--set", action="extend", nargs="+", default=[], **what).completer = completion.changes


def ap_option(sub: Any) -> None:  # noqa: ANN401
    """`--ap`, as `airtcp run` has it."""
    text = "radio of all access points: ath9k, ath10k, mt76, openwrt (docs/wifi.md)"
    sub.add_argument("--ap", metavar="NAME", help=text).completer = completion.radios


def with_ap(args: argparse.Namespace, file: str | Path) -> list[str]:
    """Values of `--set`, with those of `--ap` before them."""
    if args.ap is None:
        return list(args.changes)
    import pathlib

    from airtcp.access_points import UnknownAccessPointError, with_radio
    from airtcp.errors import ScenarioError
    from airtcp.kinds import scenario_error

    try:
        return with_radio(args.ap, file, args.changes)
    except UnknownAccessPointError as error:
        raise StopError(f"--ap: {error}", BAD_INPUT) from None
    except ScenarioError as error:
        raise scenario_error(error, pathlib.Path(file)) from None


def local_options(sub: Any) -> None:  # noqa: ANN401
    """Options of runs on this machine."""
    sub.add_argument("--jobs", type=positive, metavar="N", help="runs at a time; default: one per core")
    sub.add_argument(
        "--memory-limit", type=size, metavar="SIZE", help="memory of a run, such as 2GB; default: what the machine has"
    )
    sub.add_argument("--retry-died", action="store_true", help="try runs again that died (no memory, a crash)")
    sub.add_argument("--audit", action="store_true", help="check in every run that nothing was lost or counted twice")


def kernel_option(sub: Any) -> None:  # noqa: ANN401
    """`--kernel`: files name versions only, because they may come from a stranger."""
    text = 'kernel of all arms with engine = "kernel": a version that tools/uml/build.py has built, or a file'
    sub.add_argument("--kernel", metavar="VERSION|PATH", help=text)


def check_kernel(args: argparse.Namespace, plans: Iterable[Plan]) -> None:
    """Refuses `--kernel` where it changes nothing.

    Raises:
        StopError: no arm has a kernel.
    """
    if args.kernel is not None and not any(arm.kernel for one in plans for arm in one.sweep.arm_list):
        raise StopError('--kernel: no arm has engine = "kernel"', BAD_INPUT)


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


EXECUTOR_HELP: Final = (
    "run on a Dask cluster: dask://HOST:PORT, dask+tls://HOST:PORT, or dask:// and a scheduler file (needs "
    "airtcp[cluster]); whoever controls the cluster can run programs as you: use one that you trust"
)


def positive(text: str) -> int:
    """Reads an argument that must be a whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 1000000")
    return int(text)


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command(
        "sweep",
        sweep,
        "airtcp sweep examples/sweep-buffers.toml",
        "airtcp sweep examples/sweep-buffers.toml --seeds 10 --set 'scale=[0.5, 1, 2]' --out runs/more",
        "airtcp sweep examples/wifi-upload.toml --vary wlans.wlan.phy.width_mhz=20,40 --seeds 3",
        "airtcp sweep examples/sweep-buffers.toml --executor dask://scheduler:8786",
        more="\nexit codes:\n  0 done; 1 some runs failed, or another failure; 2 bad input; 130 interrupted (finished "
        "runs are\n  kept, and the same command resumes)\n",
    )
    # Optional for argparse only, because `--set` may have taken it.
    sub.add_argument(
        "file", metavar="FILE", nargs="?", help="sweep file (TOML), see docs/sweeps.md; or a scenario with --vary"
    )
    local_options(sub)
    sub.add_argument("--out", metavar="DIR", help="folder for the results; default: runs/NAME-sweep")
    sub.add_argument("--seeds", type=positive, metavar="N", help="number of seeds for each point; default: the file's")
    sub.add_argument(
        "--vary",
        action="extend",
        nargs="+",
        default=[],
        metavar="KEY=V1,V2",
        help="without a sweep file: vary a key of a scenario and measure its flows; can be repeated",
    ).completer = completion.variations
    sub.add_argument("--quick", action="store_true", help="apply the overrides of the file's [quick]")
    kernel_option(sub)
    set_option(sub, "change a parameter, as in 'n=[1, 2]', or a key of the scenario; can be repeated")
    ap_option(sub)
    sub.add_argument(
        "--executor",
        metavar="ADDRESS",
        help=EXECUTOR_HELP,
    )
    sub.add_argument("--json", action="store_true", help="print manifest and runs as one JSON object and nothing else")
    sub.add_argument("-q", "--quiet", action="store_true", help="no progress and no tables")
