"""A stranger's file runs nothing: no key of any file names a program, a device or a path outside its folder.

`strangers.py` writes into every key of every kind of file what names such a thing, and does what the commands do. Here
its system calls are looked through. Skipped where strace is missing; it needs the right to trace, which root has.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import airtcp
import strangers
from airtcp import documents, realtime
from airtcp.errors import RunError

STRACE = shutil.which("strace")
CALLS = "execve,execveat,open,openat,openat2,creat,connect,sendto,sendmsg,ptrace"

LINE = re.compile(r"^(?P<pid>\d+) +(?P<call>\w+)\((?P<rest>.*)$")
"""A call, or its beginning: what is resumed later repeats no argument."""
OPENED = re.compile(r'(?:AT_FDCWD(?:<(?P<cwd>[^>]*)>)?|\d+<(?P<at>[^>]*)>), "(?P<name>(?:[^"\\]|\\.)*)"')
NAMED = re.compile(r'^"(?P<name>(?:[^"\\]|\\.)*)"')
RESULT = re.compile(r"= \d+<(?P<path>[^>]*)>$")


def test_the_keys_of_all_kinds_of_files_are_covered() -> None:
    def below(kind: type[documents.Table]) -> set[type[documents.Table]]:
        return {kind}.union(*(below(one) for one in kind.__subclasses__()))

    files = {
        kind
        for kind in below(documents.Table)
        if kind.__module__.startswith("airtcp.") and kind.__name__.endswith("File")
    }
    assert files == set(strangers.FILES.values()), "a new kind of file: strangers.py needs an innocent one"


class Seen:
    """System calls, by what was going on."""

    def __init__(self, log: Path, work: Path, emulator: Path | None) -> None:
        self.work, self.emulator = work, emulator
        self.faults: list[str] = []
        self.innocent: set[str] = set()
        self.programs: set[str] = set()
        """What innocent files start."""
        self.phases: list[str] = []
        package = Path(airtcp.__file__).resolve().parent
        paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
        paths |= {sys.prefix, sys.base_prefix + "/lib", str(package), str(package.parent), str(Path(__file__).parent)}
        paths |= {os.path.realpath(path) for path in paths}
        self.libraries = (*(f"{path}/" for path in paths), "/usr/lib/", "/lib/", "/usr/share/zoneinfo/")
        phase = "begin"
        for line in log.read_text(errors="replace").splitlines():
            if f'"{strangers.PHASE}/' in line:
                phase = line.partition(f'"{strangers.PHASE}/')[2].partition('"')[0]
                self.phases.append(phase)
            elif (found := LINE.match(line)) is not None and found["call"] in CALLS.split(","):
                self._look(phase, found["call"], found["rest"], line)

    def _look(self, phase: str, call: str, rest: str, line: str) -> None:
        is_attack = phase.startswith(("attack", "act"))
        if call in ("connect", "sendto", "sendmsg"):
            # Sockets of the process itself: pairs without an address, and netlink of the emulator.
            if re.search(r"sa_family=AF_(INET|INET6|UNIX)", rest):
                self.faults.append(f"{phase}: {line}")
        elif call.startswith("exec"):
            name = NAMED.match(rest)
            program = name["name"] if name is not None else ""
            if not is_attack:
                self.programs.add(program)
            elif program not in self.programs and not self._is_own_program(program):
                self.faults.append(f"{phase}: {line}")
        elif call in ("open", "openat", "openat2", "creat"):
            for path in self._paths(rest):
                if not self._is_inside(path):
                    if not is_attack:
                        self.innocent.add(path)
                    elif path not in self.innocent:
                        self.faults.append(f"{phase}: {line}")
        else:
            self.faults.append(f"{phase}: {line}")

    def _paths(self, rest: str) -> set[str]:
        paths = set()
        if (found := OPENED.search(rest)) is not None:
            paths.add(os.path.normpath(Path(found["cwd"] or found["at"] or "/") / found["name"]))
        elif (named := NAMED.match(rest)) is not None:
            paths.add(os.path.normpath(named["name"]))
        if (result := RESULT.search(rest)) is not None:
            # Where it led, links followed.
            paths.add(result["path"].removesuffix(" (deleted)"))
        return {re.sub(r"^/proc/\d+/", "/proc/self/", path) for path in paths}

    def _is_inside(self, path: str) -> bool:
        own = tuple(f"{self.work}/{name}/" for name in ("box", "out", "tmp", "cache"))
        if f"{path}/".startswith(own):
            # A device is nowhere inside, and a pipe is opened by nobody.
            return not path.endswith(("/pipe", "/device"))
        return path.startswith(self.libraries)

    def _is_own_program(self, name: str) -> bool:
        # The emulator starts itself again.
        own = {
            "/proc/self/exe",
            sys.executable,
            os.path.realpath(sys.executable),
            str(self.work / "cache/airtcp/uml/6.12/linux"),
        }
        return name in own or name == str(self.emulator)


def emulator() -> Path | None:
    try:
        return realtime.program()
    except RunError:
        return None


def _heard(listener: socket.socket) -> bool:
    with listener:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Seen, dict[str, dict[str, int]], Path]:
    if STRACE is None:
        pytest.skip("strace is missing: nothing shows what a stranger's file would run")
    work = tmp_path_factory.mktemp("stranger").resolve()
    for name in ("box", "outside", "tmp", "out", "cache/airtcp/uml/6.12"):
        (work / name).mkdir(parents=True)
    for evil in (work / "box/evil", work / "outside/evil", work / "cache/airtcp/uml/6.12/linux"):
        evil.write_text(f"#!/bin/sh\necho {evil} >> {work}/outside/ran\nexit 1\n")
        evil.chmod(0o755)
    (work / "cache/airtcp/uml/6.12/linux").write_text("#!/bin/sh\nexit 1\n")
    (work / "outside/secret.toml").write_text('[[variants]]\nname = "secret"\n')
    box = work / "box"
    for folder in (box, box / "study", box / "study/experiments"):
        folder.mkdir(exist_ok=True)
        os.mkfifo(folder / "pipe")
        up = "../" * len(folder.relative_to(work).parts)
        (folder / "link").symlink_to(f"{up}outside/secret.toml")
        (folder / "device").symlink_to("/dev/zero")
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    port = listener.getsockname()[1]
    log = work / "calls"
    ran = subprocess.run(
        [STRACE, "-f", "--seccomp-bpf", "-y", "-s", "400", "-o",
         str(log), "-e", f"trace={CALLS}", sys.executable,
         str(Path(strangers.__file__)), str(work), str(port)],
        env={
            **{key: value for key, value in os.environ.items() if key not in ("AIRTCP_STUDIES", "AIRTCP_AUDIT")},
            "XDG_CACHE_HOME": str(work / "cache"),
            "TMPDIR": str(work / "tmp"),
            "MPLCONFIGDIR": str(work / "tmp"),
            "POLARS_MAX_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )  # fmt: skip
    if "ptrace(PTRACE_TRACEME" in ran.stderr or "Operation not permitted" in ran.stderr:
        pytest.skip(f"strace may not trace here: {ran.stderr.strip()[:200]}")
    listener_heard = _heard(listener)
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert not listener_heard
    told = json.loads(ran.stdout.splitlines()[-1])
    return Seen(log, work, emulator()), told, work


def test_nothing_runs_and_nothing_outside_is_opened(seen: tuple[Seen, dict[str, dict[str, int]], Path]) -> None:
    calls, told, work = seen
    assert calls.phases[-1] == "end"
    ran = work / "outside/ran"
    assert not ran.exists(), ran.read_text()
    assert not calls.faults, "\n".join([f"{len(calls.faults)} calls", *calls.faults[:20]])
    # matplotlib asks fontconfig for its fonts once.
    started = {Path(name).name for name in calls.programs} - {Path(sys.executable).resolve().name}
    assert started <= {"python", "python3", "exe", "fc-list", "linux", realtime.PROGRAM}
    # Every kind of file has keys, and a scenario most.
    assert all(count for name, count in told["keys"].items() if name != "wmediumd")
    # A hostile value gets a message that users understand, no error of Python's.
    assert not told["crashes"], told["crashes"]
