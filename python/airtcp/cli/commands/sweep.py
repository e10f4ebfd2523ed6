"""`airtcp sweep`: runs a scenario many times with varied parameters."""

from __future__ import annotations

import re
from contextlib import ExitStack

from airtcp import completion
from airtcp._terminal import BAD_INPUT, FAILURE, OK, Interrupts, StopError, render, say, write_out
from airtcp._text import on_one_line
from airtcp.cli.options import (
    ap_option,
    check_kernel,
    check_local,
    executor_option,
    kernel_option,
    local_options,
    positive,
    set_option,
)
from airtcp.cli.progress import bar_of_runs, tell_of_planning
from airtcp.cli.scenario_input import set_arguments_with_ap

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any, Final

    from airtcp.sweeps.results import SweepResults

FAILURES_SHOWN: Final = 10
ROWS_SHOWN: Final = 60
VARY_SEEDS: Final = 3
"""Seeds of a sweep without a file."""


def sweep(args: argparse.Namespace) -> int:
    """Run every combination of a sweep file's parameters, variants and seeds; resumes an interrupted sweep."""
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
        asked = varying(args.file, args.vary, set_arguments_with_ap(args, args.file))
        options: dict[str, Any] = {"seeds": args.seeds or VARY_SEEDS}
    else:
        if args.ap is not None:
            raise StopError("--ap is for scenarios: use it with --vary, or set ap_radio in the sweep file", BAD_INPUT)
        asked = args.file
        options = {"quick": args.quick, "seeds": args.seeds, "set": changes_of(args.changes), "kernel": args.kernel}
    with Interrupts().active() as interrupts, ExitStack() as stack:
        planned = plan(asked, **options, progress=tell_of_planning(args.file, interrupts, quiet=args.quiet))
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
        with bar_of_runs(name, quiet=args.quiet) as update:
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
    names = [*(["variant"] if "variant" in failed.columns else []), *results.manifest["varied"], "seed"]
    for row in failed.head(FAILURES_SHOWN).iter_rows(named=True):
        at = ", ".join(f"{name} = {row[name]}" for name in names if row[name] is not None)
        say(f"  {on_one_line(at)}: {row['error']}")
    if failed.height > FAILURES_SHOWN:
        say(f"  and {failed.height - FAILURES_SHOWN} more: see the column `error` of {out}/runs.parquet")


def default_folder(name: str) -> str:
    """Default folder for a sweep's results. It stays below runs/, whatever the sweep's name."""
    folder = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "unnamed"
    return f"runs/{folder}-sweep"


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
    executor_option(sub)
    sub.add_argument("--json", action="store_true", help="print manifest and runs as one JSON object and nothing else")
    sub.add_argument("-q", "--quiet", action="store_true", help="no progress and no tables")
