"""Real hosts under `airtcp shell`, for benches: their programs and runs, and their figures beside simulated ones."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import page

from airtcp import _airtcp, stats
from airtcp.cli.commands import host as host_command

Json = dict[str, Any]
Measured = TypeVar("Measured")
Words = list[str | Path]

AIRTCP: Final = Path(sys.executable).with_name("airtcp")
INVALID: Final = 3
"""Exit code of a network in which time was not kept well."""
TRIES: Final = 4
"""A run that airtcp does not call valid is made again, so many times in all. The last one counts, whatever it is."""

# --- programs ---------------------------------------------------------------------------------------------------------

SENDING: Final = """import json, os, select, socket, struct, sys, time

def connected(address, port=5001):
    # Whoever listens may begin a little later.
    for _ in range(100):
        s = socket.socket()
        try:
            s.connect((address, port))
            return s
        except ConnectionRefusedError:
            time.sleep(0.02)
    sys.exit("nobody listens at " + address)

def write(sockets, until, data=bytes(65536)):
    # As fast as they take it; they do not block.
    while (left := until - time.monotonic()) > 0:
        for s in select.select([], sockets, [], left)[1]:
            try:
                while s.send(data):
                    pass
            except BlockingIOError:
                pass

PLACES = {"srtt_us": ("I", 68), "cwnd": ("I", 80), "again": ("I", 100), "acked": ("Q", 120), "sent": ("I", 136),
    "snd_wnd": ("I", 228), "timeouts": ("H", 240)}

def known(s):
    # What the kernel knows of a connection, TCP_INFO.
    info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return {name: struct.unpack_from("<" + kind, info, at)[0] for name, (kind, at) in PLACES.items()}

"""
"""What programs that write and look at their connection begin with."""

BLOCKING: Final = """import socket, sys, time
peer, control, last = sys.argv[1], sys.argv[2], float(sys.argv[3])
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
s.connect((socket.gethostbyname(peer), 5001))
end = time.monotonic() + last
while time.monotonic() < end:
    s.sendall(bytes(65536))
"""
"""PEER CONTROL SECONDS: writes for so long, and waits when the socket is full."""

SINK: Final = """import selectors, socket
server, wait = socket.create_server(("", 5001), backlog=100), selectors.DefaultSelector()
wait.register(server, selectors.EVENT_READ)
while True:
    for key, _ in wait.select():
        if key.fileobj is server:
            s = server.accept()[0]
            s.setblocking(False)
            wait.register(s, selectors.EVENT_READ)
        elif not key.fileobj.recv(1 << 20):
            wait.unregister(key.fileobj)
"""
"""Reads what any number of connections bring."""

RATE: Final = """import socket, sys, time
warm = float(sys.argv[1])
c, _ = socket.create_server(("", 5001)).accept()
came, total, begin = [], 0, None
while data := c.recv(1 << 20):
    now = time.monotonic()
    begin = begin or now
    total += len(data)
    if now - begin >= warm:
        came.append((now, total))
print("bps", (came[-1][1] - came[0][1]) * 8 / (came[-1][0] - came[0][0]))
"""
"""SECONDS: reads one connection to its end, and prints its bits per second from so long after its first byte on."""


def programs(folder: Path, **texts: str) -> dict[str, str]:
    """Stores programs; for each the words of a shell that start it."""
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return {name: shlex.join([sys.executable, str(folder / f"{name}.py")]) for name in texts}


def binary() -> str:
    """The program `airtcp-host`."""
    return os.environ.get("AIRTCP_HOST") or shutil.which("airtcp-host") or str(host_command.BUILT)


# --- runs -------------------------------------------------------------------------------------------------------------


def toml(scenario: Json, folder: Path, name: str) -> Path:
    """Stores a scenario."""
    path = folder / f"{name}.toml"
    path.write_text(_airtcp.Checked.from_json(json.dumps(scenario), name, []).to_toml())
    return path


def shell(what: str, words: Words, *, codes: tuple[int, ...] = (0,), **wanted: str) -> tuple[str, dict[str, list[Any]]]:
    """Runs `airtcp shell` to its end.

    Args:
        what: begins the message if it fails.
        words: arguments.
        codes: exit codes that are no failure.
        wanted: by name, patterns of which the output has at least one.

    Returns:
        Its output, and what was found of each pattern.
    """
    done = subprocess.run([AIRTCP, "shell", *words], capture_output=True, text=True, check=False)
    found = {name: re.findall(pattern, done.stdout) for name, pattern in wanted.items()}
    if done.returncode not in codes or not all(found.values()):
        raise SystemExit(f"{what}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, found


def on(host: str, command: str) -> Words:
    """The option that starts a command on a host."""
    return ["--on", f"{host}={command}"]


PING_MEAN: Final = r"min/avg/max/mdev = [\d.]+/([\d.]+)/"
"""In what `ping` prints at its end."""


def valid(measure: Callable[[], Measured], validity: Callable[[Measured], str], given_up: list[str]) -> Measured:
    """Measures until airtcp itself calls the run valid, a few times at most: the machine may have had other work.

    What it called the others is put into `given_up`.
    """
    for _ in range(TRIES - 1):
        if validity(run := measure()) == "valid":
            return run
        given_up.append(validity(run))
    return measure()


# --- figures ----------------------------------------------------------------------------------------------------------


def interval(simulations: list[float], runs: int) -> tuple[float, float, float]:
    """Mean of the simulated runs, and where the mean of so many more lies with a probability of 95 %."""
    n = len(simulations)
    mean = math.fsum(simulations) / n
    variance = math.fsum((value - mean) ** 2 for value in simulations) / (n - 1)
    half = stats.student_t_quantile(0.975, n - 1) * math.sqrt(variance * (1 / n + 1 / runs))
    return mean, mean - half, mean + half


def inside(
    one: Json,
    figure: str,
    telling: Callable[[list[float], float], str],
    digits: int,
    at_least: float = -math.inf,
) -> tuple[list[str], bool]:
    """Two cells of a table, of real and simulated runs, and whether the mean of the real ones is inside.

    Args:
        one: the row's runs.
        figure: that is told.
        telling: the text of the real runs and their mean.
        digits: of the interval.
        at_least: where its lower end is told at the lowest.
    """
    seen = [run[figure] for run in one["real"]]
    _, low, high = interval([run[figure] for run in one["simulated"]], len(seen))
    mean = math.fsum(seen) / len(seen)
    is_inside = low <= mean <= high
    told = telling(seen, mean)
    return [told if is_inside else f"**{told}**", f"{max(low, at_least):.{digits}f} to {high:.{digits}f}"], is_inside


def counted(
    lines: list[str], rows: Iterable[Json], row: Callable[[Json], tuple[str, int, int]], more: list[str] | None = None
) -> tuple[list[str], str]:
    """The rows of a table below its head, what follows, and how many figures are inside."""
    good = of = 0
    for one in rows:
        text, inside_of_it, all_of_it = row(one)
        lines.append(text)
        good, of = good + inside_of_it, of + all_of_it
    return [*lines, *(more or []), ""], f"{good} of {of} are inside."


def made_of(data: Json) -> str:
    """How many runs the table is of, and where."""
    runs, seeds = len(data["rows"][0]["real"]), len(data["rows"][0]["simulated"])
    return f"{runs} runs each, {seeds} simulated ({data['machine']})."


# --- the command line -------------------------------------------------------------------------------------------------

BEGUN: Final = time.monotonic()


def options(text: str | None, only: str, runs: int, seeds: int | None = None) -> argparse.ArgumentParser:
    """A parser with the options that such benches share.

    Args:
        text: description.
        only: what --only names.
        runs: real runs of each row, by default.
        seeds: simulated runs of each row, by default; without it there is no such option.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"{only}; default: all")
    parser.add_argument("--runs", type=int, default=runs, metavar="N", help=f"runs of each row (default: {runs})")
    if seeds is not None:
        help_ = f"simulated runs of each row (default: {seeds})"
        parser.add_argument("--seeds", type=int, default=seeds, metavar="N", help=help_)
    parser.add_argument("--page", action="store_true", help="put figures and table where the documentation has them")
    parser.add_argument("--simulated", action="store_true", help=SIMULATED)
    return parser


SIMULATED: Final = (
    "keep the real runs that the documentation has, and only simulate again: after a change of the engine"
)


def simulated_again(
    file: Path,
    what: str,
    wanted: Callable[[Json], bool],
    simulate: Callable[[Json], list[Any]],
    row: Callable[[Json], str],
    *,
    key: str = "simulated",
) -> Json:
    """The figures of a page, with rows whose simulated runs are made again. Real ones stay.

    Args:
        file: figures of the page.
        what: begins the message if there is no such row.
        wanted: whether a row is simulated again.
        simulate: its simulated runs.
        row: its text.
        key: where a row has them.
    """
    data: Json = json.loads(file.read_text())
    rows = [one for one in data["rows"] if wanted(one)]
    if not rows:
        raise SystemExit(f"--simulated: {file.name} has no row of {what}")
    for one in rows:
        one |= {key: simulate(one), "engine": _airtcp.engine()}
        print(row(one), flush=True)
    return data


def chosen(only: list[str] | None, known: Iterable[str]) -> list[str]:
    """The names that --only gives, or all.

    Raises:
        SystemExit: one of them is unknown.
    """
    names = list(known)
    if unknown := [name for name in only or [] if name not in names]:
        raise SystemExit(f"--only {unknown[0]}: accepted are {'; '.join(names)}")
    return only or names


def finish(data: Json, text: str, lines: int, place: tuple[Path, Path, str] | None) -> None:
    """Prints the end of a table, and puts figures and table where the documentation has them.

    Args:
        data: figures.
        text: their table.
        lines: how many of its last lines are printed.
        place: file of the figures, page, and part of the page.
    """
    print("\n".join(text.splitlines()[-lines:]))
    print(f"{time.monotonic() - BEGUN:.0f} s; load {os.getloadavg()[0]:.1f}")
    if place is not None:
        file, of_page, part = place
        file.write_text(json.dumps(data, indent=1) + "\n")
        of_page.write_text(page.with_part(of_page.read_text(), part, text))
