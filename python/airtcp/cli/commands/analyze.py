"""`airtcp analyze`: explains the TCP connections in a real capture."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from airtcp._terminal import BAD_INPUT, FAILURE, OK, Interrupts, StopError, progress, render, say, write_out
from airtcp._text import on_one_line
from airtcp.cli.options import flow_number, port, seconds, whole
from airtcp.cli.progress import LINE_EVERY_S, PROGRESS_AFTER_S

if TYPE_CHECKING:
    from airtcp.analysis.json_output import JsonOutput
    from airtcp.analysis.reading import Keep, Reading
    from airtcp.analysis.results import Analysis


def analyze(args: argparse.Namespace) -> int:
    """Explain the retransmissions and timeouts in a capture, and say which policy would have avoided them."""
    if args.out is not None and args.no_save:
        raise StopError("use either --out or --no-save, not both", BAD_INPUT)
    if args.json and args.json_lines:
        raise StopError("use either --json or --json-lines, not both", BAD_INPUT)
    if args.json_lines and len(args.files) > 1 and not args.rotated:
        # One flow of them is taken out of several places once all are read.
        raise StopError("--json-lines prints while it reads, which several places do not allow: use --json", BAD_INPUT)
    is_saved = not args.no_save and not ((args.json or args.json_lines) and args.out is None)
    if args.html and not is_saved:
        raise StopError("--html needs a folder for the page: give --out DIR", BAD_INPUT)

    from pathlib import Path

    from airtcp._interruptible_pipe import interruptible
    from airtcp.analysis.json_output import JsonOutput
    from airtcp.analysis.reading import Keep
    from airtcp.analysis.results import FORMAT, Analysis
    from airtcp.captures import save
    from airtcp.results import Folder

    try:
        keep = Keep(args.flow, args.host, args.port)
    except ValueError as error:
        raise StopError(f"--host: {error}", BAD_INPUT) from error
    args.files = ["/dev/stdin" if file == "-" else file for file in args.files]
    args.file = ", ".join(args.files)
    out = args.out or default_folder(args.files[0])
    with Interrupts().active() as interrupts, ExitStack() as stack:
        inlet = stack.enter_context(interruptible(0)) if "/dev/stdin" in args.files else None
        # Open the capture first, so that a file that is not a capture leaves no folder.
        try:
            reading = _open(args, keep)
        except StopError:
            interrupts.check("nothing was read")
            raise
        folder = stack.enter_context(Folder(Path(out), FORMAT, say)) if is_saved else None
        if folder is not None:
            reading.write_to(folder.work)
        else:
            import tempfile

            reading.write_to(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="airtcp-analyze-"))))
        printed = JsonOutput(args.rows or None, args.rows_per_flow or None)
        if args.json_lines:
            reading.on_rows = lambda tables: _write(printed.lines(tables))
        _advance(reading, interrupts, quiet=args.quiet)
        analysis = reading.finish(is_cut=inlet is not None and inlet.is_cut)
        if folder is not None:
            save(analysis, folder, report=args.html is not False, details=args.details)
            analysis = Analysis.load(out)
        # The folder is complete. A second interrupt ends the output to the screen.
        with Interrupts().at_once():
            _show(args, analysis, printed)
            # The tables of a result that is not saved go with the folder.
            why = nothing_in(analysis)
    _tell_left_out(args, analysis, printed)
    return _end(analysis, interrupts, out if is_saved else None, why, quiet=args.quiet)


def _open(args: argparse.Namespace, keep: Keep) -> Reading:
    from pathlib import Path

    from airtcp.analysis.reading import Reading
    from airtcp.errors import CaptureError

    for file in args.files:
        if Path(file).is_dir():
            raise StopError(f"{file}: is a folder: give a pcap or pcapng file", BAD_INPUT)
        # Those that the system has open already, as standard input, have somebody who writes.
        if Path(file).is_fifo() and not str(Path(file).absolute()).startswith(("/dev/", "/proc/")):
            raise StopError(
                f"{file}: is not a regular file, and a pipe may be waited for without end: "
                "give a file, or - for standard input",
                BAD_INPUT,
            )
    if args.rotated and "/dev/stdin" in args.files:
        raise StopError("--rotated needs files: standard input cannot be put in order", BAD_INPUT)
    if len(set(args.files)) < len(args.files):
        raise StopError("the same FILE is given twice; each is read once", BAD_INPUT)
    try:
        return Reading(
            args.files,
            rotated=args.rotated,
            keep=keep,
            points=args.points,
            idle_timeout_s=args.idle_timeout,
            max_connections=args.max_connections,
        )
    except CaptureError as error:
        raise StopError(str(error), BAD_INPUT) from error
    except OSError as error:
        raise StopError(
            f"{error.filename or args.file}: {error.strerror}" if error.strerror else str(error), BAD_INPUT
        ) from error


def _show(args: argparse.Namespace, analysis: Analysis, printed: JsonOutput) -> None:
    if args.json:
        _write(printed.as_json(analysis))
    elif args.json_lines:
        write_out(printed.last_line(analysis))
    elif not args.quiet:
        from airtcp.analysis.show import overview

        render(*overview(analysis))


def _write(pieces: Iterable[str]) -> None:
    for piece in pieces:
        write_out(piece)


def _tell_left_out(args: argparse.Namespace, analysis: Analysis, printed: JsonOutput) -> None:
    if args.json or args.json_lines:
        for name, (count, of_flow) in printed.left_out(analysis).items():
            rows = analysis.manifest["tables"][name]["rows"]
            options = [*(["--rows-per-flow"] if of_flow else []), *(["--rows"] if count > of_flow else [])]
            print_more = f"{' and '.join(options)} {'print' if options[1:] else 'prints'} more, and 0 all"
            say(f"{on_one_line(analysis.file)}: {count} of {rows} rows of `{name}` are left out: {print_more}")


def _end(analysis: Analysis, interrupts: Interrupts, out: str | None, why: str | None, *, quiet: bool) -> int:
    read = f"{analysis.capture['packets']} packets"
    kept = f"kept in {out}" if out is not None else "shown"
    if not quiet:
        for note in analysis.notes:
            say(f"{on_one_line(analysis.file)}: {note}")
    if analysis.damage is not None:
        say(f"error: {analysis.damage}")
        say(f"everything before the damage is analysed ({read}); the results are {kept}")
        return FAILURE
    if analysis.interrupted:
        say(f"{on_one_line(analysis.file)}: interrupted after {read}; the results are {kept}")
        return interrupts.code
    if why is not None:
        say(f"error: {on_one_line(analysis.file)}: {why}; the results are {kept}")
        return FAILURE
    if not quiet:
        say(f"{on_one_line(analysis.file)}: {f'results in {out}' if out is not None else 'not saved'}")
    return OK


def nothing_in(analysis: Analysis) -> str | None:
    """Why there is nothing to tell of, neither flow, station, QUIC nor failure; `None`: there is."""
    packets, tcp = (int(analysis.capture[name]) for name in ("packets", "tcp_packets"))
    if any(analysis.totals[name] for name in ("flows", "stations", "quic", "findings")):
        return None
    if not packets:
        return "no packet in it"
    if tcp and any(analysis.manifest["kept"].values()):
        return f"no flow in it fits --flow, --host and --port: its {tcp} TCP packets belong to others"
    if tcp:
        return f"none of its {tcp} TCP packets begins a connection or carries data"
    return f"none of its {packets} packets is TCP that airtcp can read (docs/analyze.md lists what it reads)"


def default_folder(file: str) -> str:
    """Default folder for the results of a capture. It stays below runs/, whatever the capture's name."""
    name = re.split(r"[/\\]", file)[-1]
    name = re.sub(r"(\.(pcapng|pcap|cap|dmp))?(\.gz)?$", "", name)
    name = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "capture"
    return f"runs/{name}-analysis"


# --- progress -------------------------------------------------------------------------------------------------------


def _advance(reading: Reading, interrupts: Interrupts, *, quiet: bool) -> None:
    with _progress(reading.file, quiet=quiet) as update:
        while not reading.is_over and not interrupts.is_stopped():
            reading.advance()
            update(reading)


@contextmanager
def _progress(name: str, *, quiet: bool) -> Iterator[Callable[[Reading], None]]:
    """Progress on standard error: a bar on a terminal, else lines; nothing for short files."""
    begin = told_at = time.monotonic()
    is_terminal = sys.stderr.isatty()
    bar: Any = None

    def update(reading: Reading) -> None:
        nonlocal bar, told_at
        now = time.monotonic()
        done, size = reading.progress
        if quiet or now - begin < PROGRESS_AFTER_S:
            return
        if not is_terminal:
            if now - told_at >= LINE_EVERY_S:
                told_at = now
                share = f"{100 * done / size:.0f} % of the file, " if size else ""
                say(f"{name}: {share}{reading.packets} packets read")
            return
        if bar is None:
            from rich.progress import DownloadColumn, TimeRemainingColumn

            bar = progress(DownloadColumn(), "{task.fields[packets]} packets, left:", TimeRemainingColumn())
            bar.add_task(on_one_line(name), total=size or None, packets="0")
            bar.start()
        bar.update(bar.task_ids[0], completed=done, packets=f"{reading.packets:,}")

    try:
        yield update
    finally:
        if bar is not None:
            bar.stop()


# --- the command line -----------------------------------------------------------------------------------------------


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command(
        "analyze",
        analyze,
        "airtcp analyze capture.pcapng",
        "airtcp analyze capture.pcap.gz --port 443 --out runs/https",
        "airtcp analyze capture.pcap --json | jq '.flows[] | select(.timeouts > 0)'",
        "airtcp analyze client.pcap server.pcap",
        "airtcp analyze --rotated dump.pcap*",
        "ssh router tcpdump -U -s 128 -w - | airtcp analyze -",
        more="\nreads pcap, pcapng, snoop and ERF, plain or packed by gzip or zstd;\n"
        "docs/analyze.md lists the link types\n"
        "\nexit codes:\n  0 done; 1 the file is damaged (the part before is kept), or nothing in it is to be told of,\n"
        "  or another failure; 2 bad input;\n"
        "  130 interrupted (the part read is kept)\n",
    )
    sub.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="capture: pcap, pcapng, snoop or ERF, plain or packed; - is standard input; several: several places",
    )
    sub.add_argument("--rotated", action="store_true", help="the files are pieces of one capture, in any order")
    sub.add_argument(
        "--out", metavar="DIR", help="folder for the results; default: runs/NAME-analysis, with --json: none is written"
    )
    sub.add_argument("--no-save", action="store_true", help="write no results")
    sub.add_argument("--json", action="store_true", help="print everything but the points over time as one JSON object")
    sub.add_argument(
        "--json-lines",
        action="store_true",
        help="print the same while reading: a line for each row, with its `table`; the last is of `capture`",
    )
    sub.add_argument(
        "--rows",
        type=whole(0, (1 << 31) - 1),
        default=10_000,
        metavar="N",
        help="most rows of a table that JSON shows; 0: all (default: %(default)s)",
    )
    sub.add_argument(
        "--rows-per-flow",
        type=whole(0, (1 << 31) - 1),
        default=1000,
        metavar="N",
        help="of these, most that belong to one flow; 0: all (default: %(default)s)",
    )
    sub.add_argument(
        "--html", action=argparse.BooleanOptionalAction, help="write report.html into the folder; default: yes"
    )
    sub.add_argument(
        "--details",
        type=whole(0, 1000),
        default=12,
        metavar="N",
        help="number of flows with plots of their own in the report (default: %(default)s)",
    )
    sub.add_argument(
        "--flow",
        type=flow_number,
        action="extend",
        nargs="+",
        default=[],
        metavar="N",
        help="only flows of these numbers",
    )
    sub.add_argument(
        "--host", action="extend", nargs="+", default=[], metavar="ADDRESS", help="only flows from or to an address"
    )
    sub.add_argument(
        "--port",
        type=port,
        action="extend",
        nargs="+",
        default=[],
        metavar="N",
        help="only flows from or to a port",
    )
    sub.add_argument(
        "--points",
        type=whole(2, 10_000_000),
        default=4000,
        metavar="N",
        help="most points of a flow in each table over time (default: %(default)s)",
    )
    sub.add_argument(
        "--idle-timeout",
        type=seconds,
        default=300.0,
        metavar="S",
        help="seconds without packets that end a connection (default: %(default)g)",
    )
    sub.add_argument(
        "--max-connections",
        type=whole(1, 1 << 31),
        default=100_000,
        metavar="N",
        help="most connections followed at a time; bounds the memory (default: %(default)s)",
    )
    sub.add_argument("-q", "--quiet", action="store_true", help="no progress and no tables")
