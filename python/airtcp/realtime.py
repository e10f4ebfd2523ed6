"""Runs of real programs: what the program `airtcp-emu` is told, how it is waited for, and what it leaves."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import sysconfig
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Literal

from airtcp import _airtcp
from airtcp._files import OutsideError, within
from airtcp.errors import ResultsError, RunError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

    import polars as pl

    from airtcp.results import Folder, Results

PROGRAM: Final = "airtcp-emu"
"""The program that holds the network. It comes with the package."""

VARIABLE: Final = "AIRTCP_EMU"
"""Environment variable: another place of that program."""

VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.-]*")
"""Names of kernels that `tools/uml/build.py` gives."""

WIFI: Final = "6.12-wifi"
"""The kernel with simulated radios that `airtcp lab` needs."""

EMU: Final = "emu.json"
"""In a folder of results: how well time was kept, and what ran."""


@dataclass(frozen=True)
class Command:
    """A command on a host."""

    host: str
    argv: list[str]
    in_front: bool = False
    """It has the terminal, and its end is the network's."""
    reads: bool = False
    """It reads standard input in virtual time, too: a shell."""


@dataclass(frozen=True)
class Guests:
    """Kernels in virtual time."""

    kernel: Path
    """A kernel that runs as a program."""
    name: str
    memory: str = "256M"


def kernel(named: str) -> Guests:
    """The kernel that `--kernel` names: a version that `tools/uml/build.py` has built, or a file.

    Raises:
        RunError: it is not there.
    """
    if "/" not in named:
        return built(named)
    place = Path(named)
    if not place.is_file():
        raise RunError(f"--kernel {named}: there is no such file")
    return Guests(place.resolve(), place.resolve().parent.name)


def built(version: str) -> Guests:
    """A kernel that `tools/uml/build.py` has built. Files of strangers name versions: nothing else is found.

    Raises:
        RunError: it is not there, or others can have put it there.
    """
    if not VERSION.fullmatch(version):
        raise RunError(f"kernel {version!r}: must be a version, such as 6.12; `--kernel` takes files, too")
    # As XDG says, a relative one does not count: it would be looked up wherever the command was given.
    home = os.environ.get("XDG_CACHE_HOME", "")
    kept = (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "airtcp" / "uml"
    if not kept.is_absolute():
        raise RunError(f"kernel {version}: {kept}: is no absolute path: set HOME or XDG_CACHE_HOME to one")
    try:
        place = within(kept, kept, f"{version}/linux")
    except OutsideError as error:
        raise RunError(f"kernel {version}: {error.filename} {error.strerror}") from None
    if not place.is_file():
        how = version.replace("-wifi", " --wifi")
        raise RunError(f"no kernel {version} is built yet: tools/uml/build.py {how} does it, in some minutes")
    for part in (kept, place.parent, place):
        found = part.stat()
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & stat.S_IWOTH:
            raise RunError(
                f"kernel {version}: {part}: must be yours, and not writable by others; or name the file: --kernel PATH"
            )
    return Guests(place, place.parent.name)


@dataclass(frozen=True)
class Lab:
    """Real Wi-Fi stacks on the simulated air."""

    security: Literal["open", "wpa2", "wpa3"] = "open"


@dataclass(frozen=True)
class SessionPlan:
    """A network with real hosts."""

    checked: _airtcp.Checked
    file: str
    """The scenario's name in messages."""
    commands: list[Command]
    hosts: list[str] = field(default_factory=list)
    """Further real hosts."""
    for_s: float | None = None
    internet: str | None = None
    gates: list[str] = field(default_factory=list)
    """Hosts with a gate in place of TCP small queues."""
    quiet: bool = False
    capture: bool = True
    snaplen: int = 192
    guests: Guests | None = None
    """Hosts are kernels of their own, in virtual time."""
    lab: Lab | None = None
    """With `guests`: radios are theirs, too."""


@dataclass(frozen=True)
class Medium:
    """A medium for the simulated radios of this kernel."""

    file: str
    """Its name in messages."""
    checked: _airtcp.Checked | None = None
    """A scenario, or else `wmediumd`."""
    wmediumd: str | None = None
    """The text of wmediumd's configuration."""
    seed: int = 1
    """Names the random numbers with `wmediumd`; a scenario has a seed of its own."""
    radios: list[tuple[str, str]] = field(default_factory=list)
    """Radios of the scenario that have other addresses than the module gives them: name and address."""
    for_s: float | None = None
    quiet: bool = False


def program() -> Path:
    """Where the program is.

    Raises:
        RunError: it is not there.
    """
    named = os.environ.get(VARIABLE)
    places = (
        [Path(named)] if named else [Path(__file__).parent / PROGRAM, Path(sysconfig.get_path("scripts")) / PROGRAM]
    )
    for place in places:
        if place.is_file():
            if not os.access(place, os.X_OK):
                # Installers of wheels may forget that it is a program.
                with suppress(OSError):
                    place.chmod(0o755)
            if os.access(place, os.X_OK):
                return place
    where = " and not at ".join(str(place) for place in places)
    raise RunError(f"the program {PROGRAM} is not at {where}: build it with `make build`, on Linux")


class Session:
    """The running network: it ends with this process, whatever happens to that."""

    def __init__(self, plan: SessionPlan, folder: Folder | None = None) -> None:
        """Starts it.

        Args:
            plan: what runs.
            folder: where results go.

        Raises:
            ResultsError: there is no room for them.
            RunError: the program is missing.
        """
        self._plan: Final = plan
        self._folder: Final = folder
        self._work: Path | None = None
        record: dict[str, Any] | None = None
        if folder is not None:
            self._work = _raw(folder)
            capture = str(folder.capture) if plan.capture else None
            record = {"folder": str(self._work), "capture": capture, "snaplen": plan.snaplen}
        self._started = time.time()
        self._child = begin(plan, record)

    def wait(self) -> int:
        """Waits for its end and returns its exit code. Signals to this process go to it."""
        import termios

        terminal = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None
        try:
            code = _wait(self._child)
        finally:
            self._child.kill()
            _take_terminal()
            if terminal is not None:
                # A guest's shell had its keys as they are, and may have been killed. The terminal may have gone.
                with suppress(termios.error):
                    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, terminal)
        return code

    def commit(self) -> Results | None:
        """Turns what it left into results in the folder; `None`: it did not get so far.

        Raises:
            ResultsError: they cannot be written.
        """
        if self._folder is None or self._work is None or not (self._work / "output.json").exists():
            return None
        scenario = json.loads(self._plan.checked.to_json())
        return _commit(
            self._folder, self._work, scenario, self._started, self._plan.snaplen if self._plan.capture else None
        )


def frames(work: Path) -> dict[str, pl.DataFrame]:
    """The tables in a folder, of which the engine hands over one lot after the other."""
    import numpy as np
    import polars as pl

    from airtcp.results import frame

    data = (work / "columns.bin").read_bytes()
    lots: dict[str, list[pl.DataFrame]] = {}
    with (work / "lots.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            lot = json.loads(line)
            columns: dict[str, Any] = {}
            for column in lot["columns"]:
                part = data[column["at"] : column["at"] + column["bytes"]]
                is_text = column["kind"] == "str"
                columns[column["name"]] = json.loads(part) if is_text else np.frombuffer(part, column["kind"])
            lots.setdefault(lot["table"], []).append(frame(columns))
    return {name: pl.concat(parts) for name, parts in lots.items()}


def execute(network: str, host: str, argv: list[str]) -> int:
    """Runs a command in a running network and returns its exit code.

    Raises:
        RunError: the program is missing.
    """
    place = program()
    # The terminal's signals are for the command.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = subprocess.run([place, "exec", network, host, *argv], check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def check() -> int:
    """Says what this machine allows; returns 0 if networks can be run.

    Raises:
        RunError: the program is missing.
    """
    return subprocess.run([program(), "check"], check=False).returncode


def begin(
    plan: SessionPlan,
    record: Mapping[str, Any] | None,
    stdout: IO[bytes] | None = None,
    stderr: IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a network.

    Args:
        plan: what runs.
        record: `folder` for tables, `capture` (a file, or `None`), and its `snaplen`; `None`: nothing is kept.
        stdout: where programs write; by default as this process does.
        stderr: where the network writes.

    Raises:
        RunError: the program is missing.
    """
    text = {
        "scenario": plan.checked.to_json(),
        "file": plan.file,
        "hosts": plan.hosts,
        "commands": [{"host": c.host, "argv": c.argv, "in_front": c.in_front, "reads": c.reads} for c in plan.commands],
        "for_s": plan.for_s,
        "record": record,
        "internet": plan.internet,
        "gates": plan.gates,
        "quiet": plan.quiet,
        "guests": None
        if plan.guests is None
        else {
            "kernel": str(plan.guests.kernel),
            "name": plan.guests.name,
            "memory": plan.guests.memory,
        },
        "lab": None if plan.lab is None else {"security": plan.lab.security},
        "parent": os.getpid(),
    }
    return _begin("run", text, stdout, stderr)


def medium(wanted: Medium, folder: Folder | None = None) -> tuple[int, Results | None]:
    """Is the medium of this kernel's simulated radios until a signal comes or its time is over.

    Args:
        wanted: the medium.
        folder: where results go; `None`: nowhere.

    Returns:
        The exit code, and what is kept: `None` if it did not get so far.

    Raises:
        ResultsError: results cannot be written.
        RunError: the program is missing.
    """
    raw = None if folder is None else _raw(folder)
    started = time.time()
    text = {
        "scenario": None if wanted.checked is None else wanted.checked.to_json(),
        "wmediumd": wanted.wmediumd,
        "file": wanted.file,
        "seed": wanted.seed,
        "radios": wanted.radios,
        "for_s": wanted.for_s,
        "record": None if raw is None else str(raw),
        "quiet": wanted.quiet,
        "parent": os.getpid(),
    }
    child = _begin("hwsim", text)

    try:
        code = _wait(child)
    finally:
        child.kill()
    if folder is None or raw is None or not (raw / "output.json").exists():
        return code, None
    if wanted.checked is not None:
        scenario = json.loads(wanted.checked.to_json())
    else:
        scenario = {"name": Path(wanted.file).stem, "seed": wanted.seed, "wmediumd": wanted.wmediumd}
    return code, _commit(folder, raw, scenario, started)


@contextmanager
def past_hangup() -> Iterator[None]:
    """Results are kept, also if the terminal closes.

    Its end is told more than once: by the kernel, and by the shell. The first time ends the network.
    """
    # Not SIG_IGN, which programs would inherit.
    before = signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _wait(child: subprocess.Popen[bytes]) -> int:
    """Waits for the program's end and returns its exit code. Signals to this process go to it."""

    def hand_on(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            child.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _raw(folder: Folder) -> Path:
    """Where the program leaves what it has, in a folder of results."""
    raw = folder.work / "raw"
    try:
        raw.mkdir()
    except OSError as error:
        raise ResultsError(f"cannot write results to {folder.path}: {error.strerror}") from error
    return raw


def _commit(folder: Folder, raw: Path, scenario: dict[str, Any], started: float, snaplen: int | None = None) -> Results:
    """Turns what the program has left into results in the folder.

    Args:
        folder: of the results.
        raw: what it has left; it is removed.
        scenario: what ran, with its name and seed.
        started: when, seconds since 1970.
        snaplen: bytes of each packet that its capture keeps; `None`: it has none.
    """
    from airtcp import results
    from airtcp.execution import manifest_of

    output = json.loads((raw / "output.json").read_bytes())
    emu: dict[str, Any] = output["emu"]
    tables = frames(raw)
    meanings = {name: about["columns"] for name, about in output["meanings"].items() if name in tables}
    head = {
        "name": scenario["name"],
        "seed": scenario["seed"],
        "airtcp_version": _airtcp.__version__,
        "status": "complete",
        "duration_s": output["simulated_s"],
    }
    manifest = manifest_of(
        head=head,
        scenario=scenario,
        snaplen=snaplen,
        simulated_s=output["simulated_s"],
        started=started,
        wall_s=emu["driver"]["wall_s"],
        counted={"events": output["events"], "packets_delivered": output["packets_delivered"]},
        frames=tables,
        meanings=meanings,
    )
    manifest["real_time"] = {"validity": emu["validity"], "hosts": sorted(emu["hosts"])}
    summary = {**head, **output["summary"]}
    made = results.Results(manifest, summary, {name: table.lazy() for name, table in tables.items()})
    try:
        shutil.rmtree(raw)
        (folder.work / EMU).write_text(json.dumps(emu, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise ResultsError(f"cannot write results to {folder.path}: {error.strerror}") from error
    folder.commit(made)
    return made


def _begin(
    what: str, text: Mapping[str, Any], stdout: IO[bytes] | None = None, stderr: IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    """Starts the program with a plan."""
    place = program()
    if sys.platform != "linux":
        raise RunError("real programs need Linux: network namespaces and TUN devices")
    handle = os.memfd_create("airtcp-plan")
    try:
        os.write(handle, json.dumps(text).encode())
        os.lseek(handle, 0, os.SEEK_SET)
        try:
            return subprocess.Popen([place, what, str(handle)], pass_fds=[handle], stdout=stdout, stderr=stderr)
        except OSError as error:
            raise RunError(f"{place}: {error.strerror}") from error
    finally:
        os.close(handle)


def _take_terminal() -> None:
    """The command in front had the terminal's foreground."""
    if not sys.stdin.isatty():
        return
    # Not from the foreground yet.
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with suppress(OSError):
            os.tcsetpgrp(sys.stdin.fileno(), os.getpgrp())
    finally:
        signal.signal(signal.SIGTTOU, before)
