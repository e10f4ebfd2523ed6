"""The command `airtcp`.

Standard output carries results only; everything else goes to standard error. Exit codes: 0 done, 2 bad input (scenario,
option, unreadable file), 1 any other failure, 130 interrupted with what was finished kept.
"""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final, ParamSpec

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from airtcp import _airtcp
from airtcp.errors import NotOursError, ResultsError, ScenarioError
from airtcp.results import Folder, Results, to_json
from airtcp.runner import SNAPLEN, Execution
from airtcp.show import comparison, overview

OK: Final = 0
FAILURE: Final = 1
BAD_INPUT: Final = 2

PROGRESS_AFTER_S: Final = 1.0
"""Runs shorter than this show no progress bar."""

app = typer.Typer(
    name="airtcp",
    help="A laboratory for TCP: simulates networks packet by packet, from a scenario file to tables and plots.",
    epilog="Start with: airtcp run examples/pacing-buffers-reno.toml",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
errors = Console(stderr=True, soft_wrap=True, highlight=False)

P = ParamSpec("P")


class _StopError(Exception):
    """Ends a command with a message and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def _command(body: Callable[P, int]) -> Callable[P, None]:
    """Turns what a command raises into a message and the exit code that belongs to it."""

    @functools.wraps(body)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = body(*args, **kwargs)
        except _StopError as stop:
            code = _fail(str(stop), stop.code)
        except (ScenarioError, NotOursError) as error:
            code = _fail(str(error), BAD_INPUT)
        except ResultsError as error:
            code = _fail(str(error), FAILURE)
        except MemoryError:
            code = _fail("out of memory: make the scenario smaller, or record less (`record` in the scenario)", FAILURE)
        except KeyboardInterrupt:
            code = _fail("interrupted", 128 + signal.SIGINT)
        except BaseException as error:
            # PyO3's exception for a panic is no Exception and has no name to import.
            if type(error).__name__ != "PanicException":
                raise
            code = _fail(f"a bug in airtcp: {error}. Please report it with the scenario.", FAILURE)
        raise typer.Exit(code)

    return wrapped


def _fail(message: str, code: int) -> int:
    errors.print(f"[bold red]error:[/] {escape(message)}")
    return code


def _write_out(text: str) -> int:
    """Standard output, all of it or a clear failure: a reader that went away, a full disk."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered would fail once more, and loudly, when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise _StopError(f"cannot write to standard output: {error.strerror}", FAILURE) from error
    return OK


def _render(*parts: object) -> None:
    console = Console(file=sys.stdout, highlight=False)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    _write_out(capture.get())


MAX_STDIN_BYTES: Final = 64 << 20


def _checked(file: str, seed: int | None, changes: list[str] | None, duration: str | None) -> _airtcp.Checked:
    parsed = [_airtcp.parse_set(change) for change in changes or []]
    if duration is not None:
        parsed.append((f"--duration {duration}", "duration", duration))
    if seed is not None:
        parsed.append((f"--seed {seed}", "seed", str(seed)))
    if file != "-":
        return _airtcp.Checked.load(file, parsed)
    text = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(text) > MAX_STDIN_BYTES:
        raise _StopError(f"standard input: more than {MAX_STDIN_BYTES >> 20} MiB: not a scenario", BAD_INPUT)
    return _airtcp.Checked.from_toml(text, "stdin", parsed)


def _default_folder(scenario: dict[str, Any]) -> Path:
    # A name is free text; a folder stays below runs/.
    name = re.sub(r"[^\w.-]+", "-", scenario["name"]).strip("-.") or "run"
    return Path("runs") / f"{name}-seed{scenario['seed']}"


class _Interrupts:
    """While active, the first SIGINT or SIGTERM is only noted, so that what is finished can be kept.

    The second one breaks off.
    """

    def __init__(self) -> None:
        self.caught: int | None = None

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.caught is not None:
            raise KeyboardInterrupt
        self.caught = number

    @contextmanager
    def active(self) -> Iterator[_Interrupts]:
        before = {s: signal.signal(s, self._note) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _progress(name: str, duration_s: float, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error, if that is a terminal and the run takes long enough."""
    begin = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:.1f} of {task.total:.1f} s simulated, left:"),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
    )
    task = bar.add_task(escape(name), total=duration_s)
    wanted = errors.is_terminal and not quiet

    def update(now_s: float) -> None:
        bar.update(task, completed=now_s)
        if wanted and not bar.live.is_started and time.monotonic() - begin > PROGRESS_AFTER_S:
            bar.start()

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()


def _version(wanted: bool) -> None:
    if wanted:
        _command(lambda: _write_out(f"airtcp {_airtcp.__version__}\n"))()


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


File = Annotated[str, typer.Argument(metavar="FILE", help="Scenario file (TOML); - reads standard input.")]
Seed = Annotated[int | None, typer.Option(help="Seed, instead of the scenario's.", metavar="N", min=0)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change one value of the scenario; can be repeated.", metavar="KEY=VALUE"),
]
Duration = Annotated[str | None, typer.Option(help="Simulated time, instead of the scenario's.", metavar="T")]


@app.command(
    epilog="""[bold]Examples[/]

airtcp run examples/pacing-buffers-reno.toml

airtcp run examples/pacing-buffers-reno.toml --seed 7 --duration 30s --set links.bottleneck.rate=50Mbit/s

airtcp run - --json < scenario.toml | jq .links

[bold]Exit codes[/]

0 done; 2 bad input; 1 other failure; 130 interrupted (the results so far are kept, marked as such)"""
)
@_command
def run(
    file: File,
    seed: Seed = None,
    changes: Set = None,
    duration: Duration = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results. Default: runs/NAME-seedN.", metavar="DIR")
    ] = None,
    no_save: Annotated[bool, typer.Option("--no-save", help="Write no folder.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as one JSON object and nothing else.")
    ] = False,
    snaplen: Annotated[
        int, typer.Option(help="Bytes a capture keeps of each packet; 0: all.", metavar="BYTES", min=0, max=2**32 - 1)
    ] = SNAPLEN,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no tables.")] = False,
) -> int:
    """Run a scenario; print a summary and write a folder of results."""
    if out is not None and no_save:
        raise _StopError("--out and --no-save contradict each other", BAD_INPUT)
    checked = _checked(file, seed, changes, duration)
    with _Interrupts().active() as interrupts:
        if no_save:
            results = _advance(Execution(checked), interrupts, quiet=quiet).results()
        else:
            out = out or _default_folder(json.loads(checked.to_json()))
            # Made before the run: a place that cannot be written to should not cost the time of a run.
            with Folder(out) as folder:
                results = _advance(Execution(checked, folder, snaplen), interrupts, quiet=quiet).results()
                folder.commit(results)
    if as_json:
        _write_out(to_json(results.summary) + "\n")
    elif not quiet:
        _render(*overview(results))
    if not quiet:
        until = f", interrupted at {results.manifest['simulated_s']:g} s" if results.interrupted else ""
        errors.print(f"{escape(results.name)}{until}: {'not saved' if no_save else f'results in {escape(str(out))}'}")
    if results.interrupted:
        return 128 + (interrupts.caught or signal.SIGINT)
    return OK


def _advance(execution: Execution, interrupts: _Interrupts, *, quiet: bool) -> Execution:
    with _progress(execution.scenario["name"], execution.end_s, quiet=quiet) as update:
        while not execution.is_over and interrupts.caught is None:
            execution.advance()
            update(execution.now_s)
    return execution


@app.command(epilog="airtcp check examples/pacing-buffers-reno.toml")
@_command
def check(
    file: File,
    seed: Seed = None,
    changes: Set = None,
    duration: Duration = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the scenario with every default filled in, as JSON.")
    ] = False,
) -> int:
    """Validate a scenario without running it."""
    checked = _checked(file, seed, changes, duration)
    scenario = json.loads(checked.to_json())
    if as_json:
        _write_out(to_json(scenario) + "\n")
    else:
        nodes, links, flows = checked.counts()
        size = f"{nodes} nodes, {links} links (each direction), {flows} flows, {scenario['duration']}"
        _write_out(f"{file}: valid: {scenario['name']!r}, {size}\n")
    return OK


@app.command(epilog="airtcp schema --out scenario.schema.json")
@_command
def schema(
    out: Annotated[Path | None, typer.Option(help="File to write; default: standard output.", metavar="FILE")] = None,
) -> int:
    """Print the JSON Schema of scenario files, for editors and validators."""
    text = _airtcp.schema().rstrip("\n") + "\n"
    if out is None:
        return _write_out(text)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _StopError(f"cannot write {out}: {error.strerror}", FAILURE) from error
    return OK


@app.command("list", epilog="airtcp list queues")
@_command
def list_names(
    what: Annotated[str | None, typer.Argument(help="Only these, one name per line.", metavar="[WHAT]")] = None,
) -> int:
    """List what scenarios can name: host profiles, congestion controls, loss policies, queues."""
    names = _airtcp.names()
    if what is None:
        return _write_out("".join(f"{kind}: {', '.join(entries)}\n" for kind, entries in names.items()))
    if what not in names:
        raise _StopError(f"nothing is called {what!r}; there are: {', '.join(names)}", BAD_INPUT)
    return _write_out("".join(f"{entry}\n" for entry in names[what]))


Folders = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Result folders of airtcp run.", show_default=False)
]


def _load(folders: list[Path]) -> list[Results]:
    try:
        return [Results.load(folder) for folder in folders]
    except ResultsError as error:
        raise _StopError(str(error), BAD_INPUT) from error


@app.command(epilog="airtcp plot runs/reno-seed1 runs/paced-seed1 --out figure.svg")
@_command
def plot(
    folders: Folders,
    out: Annotated[Path, typer.Option(help="Picture to write: .png, .svg or .pdf.", metavar="FILE")] = Path("plot.png"),
    link: Annotated[
        str | None, typer.Option(help="Link to show. Default: the one with the most drops.", metavar="NAME")
    ] = None,
) -> int:
    """Draw utilisation, loss, queue and cwnd over time; several runs share the axes."""
    from airtcp.plots import FORMATS, PlotError, over_time  # Matplotlib takes a while to load

    if out.suffix.lower() not in FORMATS:
        raise _StopError(f"cannot write {out}: the name must end in one of {', '.join(FORMATS)}", BAD_INPUT)
    try:
        figure = over_time(_load(folders), link=link)
    except PlotError as error:
        raise _StopError(str(error), BAD_INPUT) from error
    try:
        figure.savefig(out)
    except OSError as error:
        raise _StopError(f"cannot write {out}: {error.strerror}", FAILURE) from error
    return OK


@app.command(epilog="airtcp compare runs/reno-seed1 runs/paced-seed1")
@_command
def compare(
    folders: Folders,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summaries as one JSON list.")] = False,
) -> int:
    """Show the summaries of several runs side by side."""
    runs = _load(folders)
    if as_json:
        _write_out(to_json([results.summary for results in runs]) + "\n")
    else:
        _render(comparison(runs))
    return OK


def main() -> None:
    """Entry point of the command."""
    app()


if __name__ == "__main__":
    main()
