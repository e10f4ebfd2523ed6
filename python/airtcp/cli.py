"""The command `airtcp`.

Standard output carries results only; everything else goes to standard error. Exit codes: 0 done, 2 bad input (scenario,
option, unreadable file), 1 any other failure. A signal N that ended the command gives 128 + N: 130 Ctrl-C, 143 SIGTERM,
129 SIGHUP. The finished part is kept.

The top imports only modules that every command needs. A run of a tenth of a second must not wait for tables, plots and
Parquet that it does not use. Nor must it wait for `typing`: modules that need it for types alone set `TYPE_CHECKING` by
hand.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import re
import signal
import sys
import time
from contextlib import contextmanager

from airtcp import _airtcp, completion
from airtcp._files import fault_of_input
from airtcp._terminal import (
    BAD_INPUT,
    FAILURE,
    OK,
    Interrupts,
    StopError,
    fail,
    progress,
    render,
    say,
    whole_streams,
    write_out,
)
from airtcp._text import MARK, is_link, on_one_line, to_json
from airtcp.commands.sweep import set_option
from airtcp.errors import (
    DamagedError,
    ExecutorError,
    NotOursError,
    ResultsError,
    RunError,
    ScenarioError,
    StudyError,
    SweepError,
)
from airtcp.execution import SNAPLEN, Execution
from airtcp.schemas import WHAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Any, ClassVar, Final, NoReturn

    from _typeshed import SupportsWrite

    from airtcp.results import Results

PROGRESS_AFTER_S: Final = 1.0
"""Runs shorter than this show no progress bar."""

MAX_STDIN_BYTES: Final = 64 << 20

FOLDERS: Final = "result folders of airtcp run"

MODULES: Final = {
    "shell": "shell",
    "exec": "shell",
    "lab": "lab",
    "hwsim": "hwsim",
    "sweep": "sweep",
    "study": "study",
    "report": "report",
    "analyze": "analyze",
    "advise": "advise",
    "host": "host",
    "play": "play",
    "verify": "verify",
    "clean": "clean",
    "new": "start",
    "example": "start",
}
"""Commands of other modules, and their module in `airtcp.commands`."""

GROUPS: Final = {
    "simulate": {
        "new": "airtcp new my-network.toml --kind wifi",
        "example": "airtcp example walk",
        "run": "airtcp run my-network.toml --seeds 10",
        "compare": "airtcp compare runs/reno-seed1 runs/paced-seed1",
        "plot": "airtcp plot runs/reno-seed1 --out figure.svg",
        "sweep": "airtcp sweep my-network.toml --vary links.access.rate=5Mbit/s,50Mbit/s",
        "play": "airtcp play my-network.toml",
        "check": "airtcp check my-network.toml",
        "list": "airtcp list queues",
        "explain": "airtcp explain cubic",
        "schema": "airtcp schema --out scenario.schema.json",
    },
    "diagnose": {
        "advise": "airtcp advise home",
        "analyze": "airtcp analyze capture.pcapng",
    },
    "study": {
        "study": "airtcp study run ap-retry-out",
        "report": "airtcp report runs/study-ap-retry-out-quick",
        "verify": "airtcp verify runs/study-ap-retry-out-quick",
        "clean": "airtcp clean",
    },
    "emulate": {
        "shell": "airtcp shell --wifi n,snr=15,others=5 -- ping server",
        "exec": "airtcp exec server -- ss -ti",
        "lab": "airtcp lab examples/wifi-upload.toml",
        "hwsim": "airtcp hwsim examples/wifi-upload.toml",
    },
    "deploy": {
        "host": "airtcp host check",
    },
    "set up": {
        "completion": 'eval "$(airtcp completion bash)"',
    },
}
"""The help of `airtcp`: groups of commands, each with an example."""

# What is left at the end goes with the process: looking for cycles in it takes longer than a short run.
atexit.register(gc.freeze)


# --- the commands ---------------------------------------------------------------------------------------------------


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
    checked = _checked(args)
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
            from airtcp.results import Folder

            out = args.out or _default_folder(checked)
            # Made before the run: a place that cannot be written to should not cost the time of a run.
            with Folder(_path(out), tell=say) as folder:
                execution = Execution(checked, folder, args.snaplen, audit=args.audit, threads=args.threads or 0)
                execution = _advance(execution, interrupts, quiet=args.quiet)
                results, where = execution.results(), f"results in {out}"
                folder.commit(results)
    if args.json:
        write_out(to_json(results.summary) + "\n")
    elif not args.quiet:
        from airtcp.show import overview
        from airtcp.soundness import warnings

        render(*overview(results))
        for sentence in warnings(results):
            say(f"note: {sentence}")
    if is_link(args.file):
        # What the page shows of the same run.
        where += f", hash {execution.hash()}"
    return _end(execution, interrupts, where, quiet=args.quiet)


def _run_seeds(args: argparse.Namespace) -> int:
    """Runs several seeds and prints the means with their intervals."""
    from airtcp.commands.sweep import progress_bar
    from airtcp.several import is_certain, means, summaries, tables
    from airtcp.sweeps.running import Progress

    if args.out is not None or args.snaplen != SNAPLEN:
        raise StopError("--seeds writes no folder: use it without --out and --snaplen, or a sweep", BAD_INPUT)
    if _file_of(args) == "-":
        raise StopError("--seeds needs a FILE: it is read once for each seed", BAD_INPUT)
    first = args.seed if args.seed is not None else 1
    args.seed = None
    checked = _checked(args)
    seeds = range(first, first + args.seeds)
    begin = time.monotonic()
    with Interrupts().active() as interrupts, progress_bar(str(args.file), quiet=args.quiet) as update:

        def progress(done: int, total: int) -> None:
            took = time.monotonic() - begin
            update(Progress(total, 0, done, 0, took, took / done * (total - done)))

        found = summaries(checked, seeds, audit=args.audit, progress=progress, is_stopped=interrupts.is_stopped)
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


def check(args: argparse.Namespace) -> int:
    """Validate a scenario without running it."""
    import json

    checked = _checked(args)
    scenario = json.loads(checked.to_json())
    if args.json:
        write_out(to_json(scenario) + "\n")
    else:
        nodes, links, flows = checked.counts()
        size = f"{nodes} nodes, {links} links (each direction), {flows} flows, {scenario['duration']}"
        write_out(f"{args.file}: valid: {scenario['name']!r}, {size}\n")
    return OK


def schema(args: argparse.Namespace) -> int:
    """Print the JSON Schema of scenario, sweep or study files, for editors and validators."""
    from airtcp.schemas import schema as schema_of

    text = schema_of(args.what).rstrip("\n") + "\n"
    if args.out is None:
        write_out(text)
        return OK
    try:
        _path(args.out).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StopError(f"cannot write {args.out}: {error.strerror}", FAILURE) from error
    return OK


def list_names(args: argparse.Namespace) -> int:
    """List the names for scenarios: host profiles, congestion controls, queues, rate controls and other policies."""
    names = _airtcp.names()
    if args.what is None:
        write_out("".join(f"{kind}: {', '.join(entries)}\n" for kind, entries in names.items()))
    elif args.what not in names:
        raise StopError(f"{args.what!r} is not a kind of name: use one of {', '.join(names)}", BAD_INPUT)
    else:
        write_out("".join(f"{entry}\n" for entry in names[args.what]))
    return OK


def explain(args: argparse.Namespace) -> int:
    """Print the page of a policy, a host profile or a key of scenarios: its purpose, source and parameters."""
    import json

    from airtcp import explain as texts

    pages = _airtcp.pages()
    profiles = {name: _airtcp.profile(name) or "" for name in _airtcp.names()["profiles"]}
    if not args.name:
        write_out(texts.overview(pages, list(profiles)))
        return OK
    try:
        write_out(texts.explain(args.name, pages, profiles, json.loads(_airtcp.schema())))
    except texts.UnknownNameError as error:
        raise StopError(str(error), BAD_INPUT) from error
    return OK


def complete(args: argparse.Namespace) -> int:
    """Print the code with which a shell completes commands, options, names, keys of scenarios and their values."""
    write_out(completion.script(args.shell))
    return OK


def plot(args: argparse.Namespace) -> int:
    """Draw one run: latency, goodput, queues, air, windows. Or a link of several runs, which share the axes."""
    from airtcp.plots import FORMATS, PlotError, one_run, over_time

    out = _path(args.out)
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


# --- the command line -----------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Reports errors in the command line like all other errors."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        say(f"error: {message}{self._hint(message)}")
        raise SystemExit(BAD_INPUT)

    OPTIONS: ClassVar[dict[str, list[str]]] = {}
    """Options of each command: the parser at the top reports those that no command knows."""

    def _hint(self, message: str) -> str:
        """`; did you mean ...?` for a command or an option that is not there."""
        import difflib

        chosen = re.match(r"argument .*: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if chosen is not None:
            asked, known = chosen[1], re.findall(r"[\w.-]+", chosen[2])
        elif message.startswith("unrecognized arguments: "):
            asked = message.removeprefix("unrecognized arguments: ").split()[0].split("=")[0]
            known = self.OPTIONS.get(next((word for word in self.asked if word in self.OPTIONS), ""), [])
        else:
            return ""
        close = difflib.get_close_matches(asked, known, n=1)
        return f"; did you mean `{close[0]}`?" if close else ""

    asked: Sequence[str] = ()
    """The words of the command line."""

    commands: argparse._SubParsersAction[_Parser] | None = None
    """The commands, of the parser at the top alone."""

    def format_help(self) -> str:
        """The help; that of the parser at the top has the commands in groups."""
        if self.commands is None:
            return super().format_help()
        from textwrap import wrap

        about = {action.dest: action.help or "" for action in self.commands._choices_actions}
        width = min(_columns() - 2, 100)
        lines = [f"usage: {self.prog} COMMAND [OPTION ...]", "", *wrap(self.description or "", width)]
        for group, examples in GROUPS.items():
            lines += ["", f"{group}:"]
            for name, example in examples.items():
                first, *rest = wrap(about[name], width - 14)
                lines += [f"  {name:<12}{first}", *(f"{'':14}{line}" for line in rest), f"{'':14}$ {example}"]
        options = ["  -h, --help  print this help", "  --version   print the version"]
        return "\n".join([*lines, "", "options:", *options, "", self.epilog or "", ""])

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # Help and version go to standard output. A full disk or a closed pipe there is a failure.
        if message and file in (None, sys.stdout):
            write_out(message)
        else:
            super()._print_message(message, file)


def _seed(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^63 - 1")
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 10000")
    return int(text)


def _snaplen(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 1 << 32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes from 0 to 2^32 - 1")
    return int(text)


def _columns() -> int:
    """The width of the terminal, as `shutil` tells it. That loads all that unpacks archives."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or 80
    except (OSError, ValueError):
        return 80


def _parser(given: str | None = None) -> _Parser:
    """The command line; of a `given` command alone, since the others take longer to set up than a short run takes."""
    parser = _Parser(
        prog="airtcp",
        description="Simulates TCP over Wi-Fi and wired networks packet by packet, and analyses real captures.",
        epilog="airtcp COMMAND --help prints the options of a command. Start with: airtcp advise home",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=_columns() - 2),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"airtcp {_airtcp.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    parser.commands = commands

    def command(
        name: str,
        body: Callable[[argparse.Namespace], int],
        *examples: str,
        more: str = "",
        under: argparse._SubParsersAction[_Parser] = commands,
    ) -> _Parser:
        about = (body.__doc__ or "").strip()
        heading = "example" if len(examples) == 1 else "examples"
        epilog = f"{heading}:\n" + "".join(f"  {line}\n" for line in examples) + more
        sub: _Parser = under.add_parser(
            name,
            help=about,
            description=about,
            epilog=epilog,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=_columns() - 2),
            allow_abbrev=False,
        )
        sub.set_defaults(body=body)
        return sub

    more: dict[str, tuple[Callable[[str], int], ...]]
    more = {"shell": (_seed, _snaplen), "lab": (_seed,), "hwsim": (_seed,)}

    def is_asked(name: str) -> bool:
        return given == name or not (given in OWN or given in MODULES)

    *first, last = OWN
    for name in filter(is_asked, first):
        OWN[name](command)
    for module in dict.fromkeys(MODULES[name] for name in filter(is_asked, MODULES)):
        from importlib import import_module

        import_module(f"airtcp.commands.{module}").add(command, *more.get(module, ()))
    if is_asked(last):
        OWN[last](command)
    for name, sub in commands.choices.items():
        _Parser.OPTIONS[name] = [option for action in sub._actions for option in action.option_strings]
    return parser


def _scenario_options(sub: _Parser) -> None:
    # Optional for argparse only, because `--set` may have taken it (see `_file_of`).
    what = "scenario file (TOML), - for standard input, or a link of airtcp play"
    named: Any = sub.add_argument("file", metavar="FILE", nargs="?", help=what)
    named.completer = completion.scenarios
    sub.add_argument("--seed", type=_seed, metavar="N", help="seed of the run; default: the scenario's")
    set_option(sub, "change values of the scenario; can be repeated")
    radio: Any = sub.add_argument(
        "--ap", metavar="NAME", help="radio of all access points: ath9k, ath10k, mt76, openwrt (docs/wifi.md)"
    )
    radio.completer = completion.radios
    sub.add_argument("--duration", metavar="T", help="simulated time, such as 30s; default: the scenario's")


def _add_run(command: Callable[..., _Parser]) -> None:
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
    _scenario_options(sub)
    sub.add_argument(
        "--out", metavar="DIR", help="folder for the results; default: runs/NAME-seedN, with --json: none is written"
    )
    sub.add_argument("--no-save", action="store_true", help="write no folder")
    sub.add_argument("--json", action="store_true", help="print the summary as one JSON object and nothing else")
    sub.add_argument(
        "--snaplen",
        type=_snaplen,
        default=SNAPLEN,
        metavar="BYTES",
        help="bytes of each packet that a capture keeps; 0: all (default: %(default)s)",
    )
    sub.add_argument(
        "--seeds",
        type=_count,
        metavar="N",
        help="run N seeds, from --seed or 1 on, and print means with 95 %% intervals; writes no folder",
    )
    sub.add_argument(
        "--audit", action="store_true", help="check at every sample that nothing was lost or counted twice"
    )
    sub.add_argument(
        "--threads",
        type=_count,
        metavar="N",
        help="cores that the run takes at most; the results are the same for any number (default: as many as pay)",
    )
    sub.add_argument("-q", "--quiet", action="store_true", help="no progress and no tables")


def _add_check(command: Callable[..., _Parser]) -> None:
    sub = command("check", check, "airtcp check examples/pacing-buffers-reno.toml")
    _scenario_options(sub)
    sub.add_argument("--json", action="store_true", help="print the scenario with every default filled in, as JSON")


def _add_schema(command: Callable[..., _Parser]) -> None:
    sub = command("schema", schema, "airtcp schema --out scenario.schema.json", "airtcp schema sweep")
    sub.add_argument(
        "what", nargs="?", choices=WHAT, default="scenario", help="kind of file (default: %(default)s)", metavar="KIND"
    )
    sub.add_argument("--out", metavar="FILE", help="file to write; default: standard output")


def _add_list(command: Callable[..., _Parser]) -> None:
    sub = command("list", list_names, "airtcp list queues")
    asked: Any = sub.add_argument("what", nargs="?", metavar="WHAT", help="only these, one name per line")
    asked.completer = completion.kinds


def _add_explain(command: Callable[..., _Parser]) -> None:
    sub = command("explain", explain, "airtcp explain cubic", "airtcp explain rate_control/fixed")
    asked: Any = sub.add_argument("name", nargs="?", metavar="NAME", help="NAME or AXIS/NAME; default: list all names")
    asked.completer = completion.names


def _add_plot(command: Callable[..., _Parser]) -> None:
    sub = command(
        "plot",
        plot,
        "airtcp plot runs/wifi-upload-seed1",
        "airtcp plot runs/wifi-upload-seed1 --link 'ap->server' --out line.pdf",
        "airtcp plot runs/reno-seed1 runs/paced-seed1 --out figure.svg",
    )
    asked: Any = sub.add_argument("folders", nargs="+", metavar="DIR", help=FOLDERS)
    asked.completer = completion.results
    sub.add_argument(
        "--out", metavar="FILE", default="plot.png", help="picture: .png, .svg or .pdf (default: %(default)s)"
    )
    asked = sub.add_argument(
        "--link", metavar="NAME", help="link to show; default for several runs: the one that packets waited at longest"
    )
    asked.completer = completion.links


def _add_compare(command: Callable[..., _Parser]) -> None:
    sub = command("compare", compare, "airtcp compare runs/reno-seed1 runs/paced-seed1")
    asked: Any = sub.add_argument("folders", nargs="+", metavar="DIR", help=FOLDERS)
    asked.completer = completion.results
    sub.add_argument("--json", action="store_true", help="print the summaries as one JSON list")


def _add_completion(command: Callable[..., _Parser]) -> None:
    sub = command(
        "completion",
        complete,
        'eval "$(airtcp completion bash)"',
        'eval "$(airtcp completion zsh)"',
        "airtcp completion fish > ~/.config/fish/completions/airtcp.fish",
    )
    sub.add_argument("shell", choices=completion.SHELLS, metavar="SHELL", help="bash, zsh or fish")


OWN: Final[dict[str, Callable[[Callable[..., _Parser]], None]]] = {
    "run": _add_run,
    "check": _add_check,
    "schema": _add_schema,
    "list": _add_list,
    "explain": _add_explain,
    "plot": _add_plot,
    "compare": _add_compare,
    "completion": _add_completion,
}
"""Commands of this module. The last comes after those of other modules."""


def _with_words(parser: _Parser) -> argparse.Namespace:
    """The arguments of commands that run others: words behind `--` are not airtcp's."""
    import shlex

    from airtcp.commands import shell

    given, behind = shell.split(parser.asked)
    args, left = parser.parse_known_args(given)
    if left and not shell.take_words(args, left):
        words = " ".join(left)
        where = ""
        if args.body is shell.exec_ and not words.startswith("-"):
            where = f"; a command goes behind --: airtcp exec {shlex.quote(str(args.host))} -- {shlex.join(left)}"
        parser.error(f"unrecognized arguments: {words}{where}")
    args.behind = behind
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns its exit code."""
    whole_streams()
    try:
        asked = sys.argv[1:] if argv is None else argv
        completes = "_ARGCOMPLETE" in os.environ
        parser = _parser(asked[0] if asked and not completes else None)
        if completes:
            import argcomplete

            argcomplete.autocomplete(parser, validator=completion.is_offered)
        parser.asked = asked
        if not asked:
            parser.print_help()
            return OK
        args = _with_words(parser) if MODULES.get(asked[0] if asked else "") == "shell" else parser.parse_args(asked)
        body: Callable[[argparse.Namespace], int] = args.body
        return body(args)
    except StopError as stop:
        return fail(str(stop), stop.code)
    except (ScenarioError, StudyError, SweepError, NotOursError) as error:
        return fail(str(error), BAD_INPUT)
    except (ResultsError, ExecutorError, RunError) as error:
        return fail(str(error), FAILURE)
    except MemoryError:
        return fail("out of memory: make the scenario smaller, or record less (key `record` of the scenario)", FAILURE)
    except KeyboardInterrupt as interrupt:
        if argv is None:
            # Python's own end is left: one more Ctrl-C shall end that without a word.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        return fail("interrupted", getattr(interrupt, "code", 128 + signal.SIGINT))


# --- in and out -----------------------------------------------------------------------------------------------------


def _path(text: str) -> Path:
    import pathlib

    return pathlib.Path(text)


def _file_of(args: argparse.Namespace) -> str:
    """Finds FILE if `--set KEY=VALUE ...` took it as one more change."""
    if args.file is None and args.changes and ("=" not in args.changes[-1] or args.changes[-1].startswith(MARK)):
        args.file = args.changes.pop()
    if args.file is None:
        raise StopError("a scenario FILE is missing: give a path, or - for standard input", BAD_INPUT)
    return str(args.file)


def _checked(args: argparse.Namespace) -> _airtcp.Checked:
    file = _file_of(args)
    parsed = [_airtcp.parse_set(change) for change in args.changes]
    if args.duration is not None:
        parsed.append((f"--duration {args.duration}", "duration", args.duration))
    if args.seed is not None:
        parsed.append((f"--seed {args.seed}", "seed", str(args.seed)))
    if args.ap is None:
        return _read(file, parsed)
    if file == "-":
        raise StopError("--ap needs a file: standard input can be read once only", BAD_INPUT)
    import json

    from airtcp.access_points import UnknownAccessPointError, changes

    try:
        # First, so that `--set` can change single options of it.
        radios = changes(args.ap, json.loads(_read(file, []).to_json()))
    except UnknownAccessPointError as error:
        raise StopError(f"--ap: {error}", BAD_INPUT) from None
    if not radios:
        raise StopError(f"--ap {args.ap}: {file} has no WLAN whose access point could be that", BAD_INPUT)
    return _read(file, [*radios, *parsed])


def _read(file: str, parsed: list[tuple[str, str, str]]) -> _airtcp.Checked:
    if is_link(file):
        from airtcp import links

        try:
            link = links.read(file)
        except links.LinkError as error:
            raise StopError(str(error), BAD_INPUT) from None
        return _airtcp.Checked.from_toml(link.toml.encode(), "scenario.toml", parsed)
    if file != "-":
        if (fault := fault_of_input(file)) is not None:
            raise StopError(fault, BAD_INPUT)
        try:
            return _airtcp.Checked.load(file, parsed)
        except ScenarioError as error:
            from airtcp.kinds import scenario_error

            raise scenario_error(error, _path(file)) from None
    text = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(text) > MAX_STDIN_BYTES:
        raise StopError(f"standard input: more than {MAX_STDIN_BYTES >> 20} MiB: a scenario must be smaller", BAD_INPUT)
    return _airtcp.Checked.from_toml(text, "stdin", parsed)


def _default_folder(checked: _airtcp.Checked) -> str:
    import json

    scenario = json.loads(checked.to_json())
    # The folder stays below runs/, whatever the scenario's name.
    name = re.sub(r"[^\w.-]+", "-", scenario["name"]).strip("-.") or "run"
    return f"runs/{name}-seed{scenario['seed']}"


def _load(folders: list[str]) -> list[Results]:
    from airtcp.results import Results

    try:
        return [Results.load(folder) for folder in folders]
    except DamagedError:
        raise
    except ResultsError as error:
        raise StopError(str(error), BAD_INPUT) from error


# --- progress and interruption --------------------------------------------------------------------------------------


@contextmanager
def _progress(name: str, duration_s: float, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Shows a progress bar on standard error, if it is a terminal and the run takes long enough."""
    begin = time.monotonic()
    wanted = sys.stderr.isatty() and not quiet
    bar: Any = None

    def update(now_s: float) -> None:
        nonlocal bar
        if bar is None and wanted and time.monotonic() - begin > PROGRESS_AFTER_S:
            from rich.progress import TaskProgressColumn, TimeRemainingColumn

            simulated = "{task.completed:.1f} of {task.total:.1f} s simulated, left:"
            bar = progress(TaskProgressColumn(), simulated, TimeRemainingColumn())
            bar.add_task(on_one_line(name), total=duration_s)
            bar.start()
        if bar is not None:
            bar.update(bar.task_ids[0], completed=now_s)

    try:
        yield update
    finally:
        if bar is not None:
            bar.stop()


def _advance(execution: Execution, interrupts: Interrupts, *, quiet: bool) -> Execution:
    with _progress(execution.scenario["name"], execution.end_s, quiet=quiet) as update:
        while not execution.is_over and not interrupts.is_stopped():
            execution.advance()
            update(execution.now_s)
    return execution


def _end(execution: Execution, interrupts: Interrupts, where: str, *, quiet: bool) -> int:
    if not quiet:
        until = "" if execution.is_over else f", interrupted at {execution.now_s:g} s"
        say(f"{on_one_line(execution.scenario['name'])}{until}: {where}")
    return OK if execution.is_over else interrupts.code
