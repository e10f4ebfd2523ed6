"""`airtcp advise`: which remedy helps on a network, by how much, and the commands that do it."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airtcp import completion
from airtcp._terminal import BAD_INPUT, OK, Interrupts, StopError, render, say, write_out
from airtcp._text import on_one_line
from airtcp.cli.options import ap_option, flow_number, positive, set_option
from airtcp.cli.progress import bar_of_runs
from airtcp.cli.scenario_input import set_arguments_with_ap
from airtcp.errors import CaptureError, ScenarioError

if TYPE_CHECKING:
    from airtcp.advice.ranking import Advice

FORMAT: Final = "airtcp-advice"
FORMAT_VERSION: Final = 1
PAGE: Final = "report.html"
ADVICE: Final = "manifest.json"
AS_IT_IS: Final = "scenario.toml"
ADVISED: Final = "advised.toml"


def advise(args: argparse.Namespace) -> int:
    """Say which remedy helps on a network or for a capture, by how much, and who must do what."""
    from airtcp.advice.capture import advise_capture, is_capture
    from airtcp.advice.observed import NoTwinError
    from airtcp.advice.ranking import MOST_SEEDS, SEEDS, AdviseError, scene, scenes
    from airtcp.advice.ranking import advise as advise_on
    from airtcp.results import Folder
    from airtcp.sweeps.definition import changes_of
    from airtcp.sweeps.running import Progress

    if args.scenes:
        write_out("".join(f"{name}\n" for name in scenes()))
        return OK
    file = _file_of(args)
    if args.out is not None and args.no_save:
        raise StopError("use either --out or --no-save, not both", BAD_INPUT)
    if scene(file) is None and not Path(file).exists():
        from airtcp.expressions import nearest

        raise StopError(f"{file}: no such file, and no built-in scene{nearest(file, scenes())}", BAD_INPUT)
    has_capture = is_capture(file)
    if not has_capture and re.search(r"\.(p?cap|pcapng)(\.gz)?$", file) and Path(file).is_file():
        raise StopError(f"{file}: no capture: expected is pcap, pcapng, or gzip of either", BAD_INPUT)
    if has_capture:
        options = {"--set": args.changes, "--ap": args.ap, "--with": args.present, "--duration": args.duration}
        for option, given in options.items():
            if given:
                raise StopError(
                    f"{option} is for scenarios, and {file} is a capture: change its twin, scenario.toml in the folder",
                    BAD_INPUT,
                )
    elif args.flow:
        raise StopError(f"--flow is for captures, and {file} is a scenario", BAD_INPUT)
    changes = {} if has_capture else changes_of(set_arguments_with_ap(args, scene(file) or Path(file)))
    if args.out is not None:
        # Whether it can be written shows before the runs, not after them.
        with Folder(Path(args.out), FORMAT, say):
            pass
    begin = time.monotonic()
    with Interrupts().at_once() as interrupts, bar_of_runs(file, quiet=args.quiet) as update:

        def progress(done: int, total: int) -> None:
            took = time.monotonic() - begin
            update(Progress(total, 0, done, 0, took, took / done * (total - done)))

        try:
            if has_capture:
                advice = advise_capture(
                    file,
                    seeds=args.seeds or SEEDS,
                    most_seeds=args.seeds or MOST_SEEDS,
                    research=args.research,
                    flows=args.flow,
                    progress=progress,
                    tell=(lambda message: None) if args.quiet else say,
                    is_stopped=interrupts.is_stopped,
                )
            else:
                advice = advise_on(
                    file,
                    set=changes,
                    present=args.present,
                    seeds=args.seeds or SEEDS,
                    most_seeds=args.seeds or MOST_SEEDS,
                    research=args.research,
                    duration=args.duration,
                    progress=progress,
                    is_stopped=interrupts.is_stopped,
                )
        except (AdviseError, ScenarioError) as error:
            raise StopError(_as_typed(str(error), changes), BAD_INPUT) from error
        except (CaptureError, NoTwinError) as error:
            raise StopError(f"{file}: no twin: {str(error).removeprefix(f'{file}: ')}", BAD_INPUT) from error
        except OSError as error:
            raise StopError(f"{file}: {error.strerror or error}", BAD_INPUT) from error
        except KeyboardInterrupt:
            say("interrupted: nothing is advised on a part of the runs")
            return interrupts.code
    return _end(args, advice)


def _as_typed(message: str, changes: Mapping[str, Any]) -> str:
    """A message about changes, with them as they were typed and not as Python has them."""
    for key, value in changes.items():
        message = message.replace(f"set={{{key!r}: {value!r}}}", f"--set {key}={value}")
    return message


def _end(args: argparse.Namespace, advice: Advice) -> int:
    from airtcp._text import to_json
    from airtcp.advice.show import overview

    out = args.out or f"runs/{advice.name}-advice"
    is_saved = not args.no_save and not (args.json and args.out is None)
    if is_saved:
        save(advice, Path(out))
    if args.json:
        write_out(to_json(advice.to_dict()) + "\n")
    elif not args.quiet:
        render(*overview(advice))
    if is_saved and not args.quiet:
        say(f"{on_one_line(advice.name)}: page and scenarios in {out}")
    return OK


def save(advice: Advice, path: Path) -> None:
    """Writes the advice, its page, the scenario, and the scenario with the advised remedy.

    Raises:
        ResultsError: the folder cannot be written.
    """
    import json

    from airtcp import _airtcp
    from airtcp.errors import ResultsError
    from airtcp.report.advice import html
    from airtcp.results import Folder

    with Folder(path, FORMAT, say) as folder:
        files = {PAGE: html(advice), AS_IT_IS: _toml(advice.scenario)}
        if advice.best is not None:
            files[ADVISED] = _toml(advice.best.scenario)
        try:
            for name, text in files.items():
                (folder.work / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ResultsError(f"cannot write the advice to {path}: {error.strerror}") from error
        head = {"format": FORMAT, "format_version": FORMAT_VERSION, "airtcp_version": _airtcp.__version__}
        folder.publish({**head, **json.loads(json.dumps(advice.to_dict()))})


def _toml(scenario: dict[str, Any]) -> str:
    import json

    from airtcp import _airtcp

    kept = {key: value for key, value in scenario.items() if key != "record"}
    return _airtcp.Checked.from_json(json.dumps(kept), scenario["name"], []).to_toml()


def _file_of(args: argparse.Namespace) -> str:
    if args.file is None and args.changes and "=" not in args.changes[-1]:
        args.file = args.changes.pop()
    if args.file is None:
        raise StopError(
            "a SCENARIO is missing: a file, a built-in scene (--scenes lists them), or a capture", BAD_INPUT
        )
    return str(args.file)


def _scenes_and_files(prefix: str, **_: object) -> list[str]:
    from argcomplete.completers import FilesCompleter

    from airtcp.advice.ranking import scenes

    return [*scenes(), *FilesCompleter()(prefix)]


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command(
        "advise",
        advise,
        "airtcp advise cafe",
        "airtcp advise cafe --set nodes.guests.count=4 --with today",
        "airtcp advise my-network.toml --json | jq '.advice[0]'",
        "airtcp advise home --ap ath10k",
        "airtcp advise capture.pcapng --out runs/mine",
        more="\nexit codes:\n  0 done, whatever the advice; 1 a failure; 2 bad input; 130 interrupted\n",
    )
    # Optional for argparse only, because `--set` may have taken it (see `_file_of`).
    named = sub.add_argument(
        "file",
        metavar="SCENARIO|CAPTURE",
        nargs="?",
        help="scenario file (TOML), name of a built-in scene, or a capture (pcap, pcapng) taken at the sender",
    )
    named.completer = _scenes_and_files
    sub.add_argument(
        "--flow",
        type=flow_number,
        action="extend",
        nargs="+",
        default=[],
        metavar="N",
        help="of a capture only flows of these numbers (airtcp analyze shows them)",
    )
    set_option(sub, "change values of the scenario; can be repeated")
    ap_option(sub)
    sub.add_argument(
        "--with",
        action="append",
        default=[],
        dest="present",
        metavar="REMEDY",
        help="a remedy that the network has already, such as today; can be repeated",
    ).completer = completion.remedies
    sub.add_argument("--research", action="store_true", help="try remedies too that no released system has")
    sub.add_argument(
        "--seeds",
        type=positive,
        metavar="N",
        help="runs of each remedy; default: 5, and up to 20 of those that 5 do not settle",
    )
    sub.add_argument("--duration", metavar="T", help="simulated time, such as 30s; default: the scenario's")
    sub.add_argument("--scenes", action="store_true", help="list the built-in scenes and end")
    sub.add_argument(
        "--out", metavar="DIR", help="folder for page and scenarios; default: runs/NAME-advice, with --json: none"
    )
    sub.add_argument("--no-save", action="store_true", help="write no folder")
    sub.add_argument("--json", action="store_true", help="print the advice as one JSON object and nothing else")
    sub.add_argument("-q", "--quiet", action="store_true", help="no progress and no tables")
