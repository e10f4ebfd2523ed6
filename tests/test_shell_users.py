"""`airtcp exec` between users: whoever has a network decides which programs run in it, so nobody else enters."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airtcp import _airtcp, realtime
from airtcp._terminal import BAD_INPUT
from airtcp.cli.commands import shell
from test_shell import LINE, NOBODY, needs_network

pytestmark = [
    needs_network,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv of util-linux"),
]
BECOME = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
HOST = "laptop"

STRANGER = f"it belongs to user nobody ({NOBODY})"

FORGED = """
import ctypes, fcntl, json, os, sys, time
folder, wanted = sys.argv[1], json.loads(sys.argv[2])
if "users" in wanted:
    os.setgroups([])
    os.setresgid(*wanted["users"])
    os.setresuid(*wanted["users"])
if wanted.get("is_open"):
    # PR_SET_DUMPABLE: /proc shows its files as its user's, and not as root's.
    assert ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) == 0
reads, ready = os.pipe()
child = os.fork()
if child == 0:
    if wanted.get("init") == "inside":
        assert ctypes.CDLL(None).unshare(0x00020000) == 0
    os.write(ready, b"1")
    while True:
        time.sleep(60)
os.read(reads, 1)
space = os.open("/proc/self/ns/net" if wanted.get("space") != "file" else "/proc/self/status", os.O_RDONLY)
handle = os.memfd_create("airtcp-shell", os.MFD_ALLOW_SEALING)
state = {
    "name": "home",
    "init": child if wanted.get("init") != "self" else os.getpid(),
    "guests": wanted.get("guests"),
    "hosts": [{"name": "laptop", "space": space, "env": [["PATH", folder], ["LD_PRELOAD", folder + "/evil.so"]]}],
}
os.write(handle, json.dumps(state).encode())
if wanted.get("is_sealed", True):
    fcntl.fcntl(handle, fcntl.F_ADD_SEALS, 0xF)
print("ready", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder that everybody may enter, with a program that leaves a mark, and another one's `airtcp-emu`."""
    for path in [tmp_path, *list(tmp_path.parents)[:-2]]:
        path.chmod(path.stat().st_mode | 0o055)
    (tmp_path / "ss").write_text(f"#!/bin/sh\necho came > {tmp_path}/mark\n")
    (tmp_path / "ss").chmod(0o755)
    (tmp_path / "run").write_text(FORGED)
    shutil.copy(os.path.realpath(sys.executable), tmp_path / realtime.PROGRAM)
    shutil.copy(realtime.program(), tmp_path / "real")
    (tmp_path / "real").chmod(0o755)
    # The name of a process is that of its file.
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / realtime.PROGRAM).symlink_to(tmp_path / "real")
    return tmp_path


@contextmanager
def started(argv: list[str], name: str = realtime.PROGRAM, **more: Any) -> Iterator[int]:
    """A process that says when it is ready, and whose descendant of this name is the network's."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True, **more) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", argv
            yield found(process.pid, name)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            for pid in descendants(process.pid):
                os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*children, *(further for child in children for further in descendants(child))]


def found(pid: int, name: str) -> int:
    (first, *_) = [p for p in [pid, *descendants(pid)] if Path(f"/proc/{p}/comm").read_text().strip() == name]
    return first


def forged(place: Path, *before: str, **wanted: object) -> list[str]:
    """A process that claims to be a network, started by the words before it."""
    # The command line is as that of a network's process.
    return [*before, str(place / realtime.PROGRAM), "run", str(place), json.dumps(wanted)]


def python(place: Path) -> dict[str, Any]:
    """What the copied interpreter needs to find its library, and the program."""
    return {"env": {**os.environ, "PYTHONHOME": sys.base_prefix}, "cwd": place}


def entered(
    place: Path, network: int | None, *command: str, before: tuple[str, ...] = (), **more: Any
) -> subprocess.CompletedProcess[str]:
    """`airtcp exec HOST -- COMMAND`, by root unless words stand before it."""
    program = [str(place / "own" / realtime.PROGRAM)]
    words = ["exec", "" if network is None else str(network), HOST, *command]
    return subprocess.run([*before, *program, *words], capture_output=True, text=True, check=False, timeout=30, **more)


def refused(place: Path, network: int, *messages: str) -> None:
    """Root does not enter this network, and nothing of it runs."""
    done = entered(place, network, "ss")
    assert (done.returncode in (1, BAD_INPUT), done.stdout) == (True, ""), done
    assert any(message in done.stderr for message in messages), done.stderr
    assert not (place / "mark").exists()


@pytest.mark.parametrize(
    ("before", "wanted", "message"),
    [
        ([], {"users": [NOBODY] * 3, "is_open": True}, STRANGER),
        # /proc shows it as root's.
        ([], {"users": [NOBODY] * 3}, STRANGER),
        ([], {"users": [NOBODY] * 3, "is_open": True, "guests": "/etc"}, STRANGER),
        # As a program that runs with its owner's rights and was started by somebody else.
        ([], {"users": [NOBODY, 0, 0], "is_open": True}, f"{STRANGER} and root (0)"),
        ([], {"users": [0, NOBODY, 0], "is_open": True}, "it belongs to user root (0) and nobody"),
        (["setpriv", "--no-new-privs"], {}, "it is confined and you are not"),
        (["setpriv", "--bounding-set=-sys_module"], {}, "it has fewer rights than you"),
        (["unshare", "--pid", "--fork"], {}, "it runs in a container"),
        (["unshare", "--user"], {}, "no network namespace of its own"),
        ([], {"is_sealed": False}, "no running network has a real host|no network of yours is running"),
        ([], {"init": "self"}, "it is not the first one of the network's processes"),
        ([], {"init": "inside"}, "it is not the first one of the network's processes"),
        ([], {"space": "file"}, "no network namespace of its own"),
        ([], {"guests": "/etc"}, "/etc is not the folder of a network's guests"),
        ([], {"guests": "/proc/self/root"}, "/proc/self/root: "),
        ([], {"guests": "/../../dev/shm"}, "/../../dev/shm"),
    ],
)
def test_root_does_not_believe_a_process(
    place: Path, before: list[str], wanted: dict[str, object], message: str
) -> None:
    with started(forged(place, *before, **wanted), **python(place)) as network:
        refused(place, network, *message.split("|"))


def test_another_program_of_that_name_is_not_believed(place: Path) -> None:
    """Such as one with root's rights that a stranger has started by a link, and that keeps his descriptors."""
    (place / "run").write_text("open('/proc/self/comm', 'w').write('airtcp-emu')\n" + FORGED)
    with started([sys.executable, *forged(place)[1:]], cwd=place) as network:
        refused(place, network, "its program is not airtcp-emu")


def test_a_program_that_others_may_change_is_not_believed(place: Path) -> None:
    (place / realtime.PROGRAM).chmod(0o777)
    with started(forged(place), **python(place)) as network:
        refused(place, network, "others may change")
    shutil.chown(place / realtime.PROGRAM, NOBODY)
    (place / realtime.PROGRAM).chmod(0o755)
    with started(forged(place), **python(place)) as network:
        refused(place, network, "others may change")


def test_without_a_name_of_a_network_strangers_are_only_told(place: Path) -> None:
    with started(forged(place, users=[NOBODY] * 3), **python(place)) as network:
        done = entered(place, None, "ss")
        # Other networks of this machine may have such a host, and take no notice of this command.
        if done.returncode == BAD_INPUT and "several" not in done.stderr:
            assert f"network {network}: {STRANGER}" in done.stderr
            assert f"sudo -u '#{NOBODY}' airtcp exec" in done.stderr
        assert not (place / "mark").exists()


def plan(command: list[str]) -> int:
    """A descriptor with the plan of a network."""
    text = {
        "scenario": _airtcp.Checked.from_toml(shell.line(LINE).encode(), "--line", []).to_json(),
        "file": "--line",
        "hosts": ["server"],
        "commands": [{"host": HOST, "argv": command, "in_front": True}],
        "for_s": None,
        "record": None,
        "internet": None,
        "quiet": True,
        "parent": os.getpid(),
    }
    handle = os.memfd_create("plan")
    os.write(handle, json.dumps(text).encode())
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


@contextmanager
def genuine(place: Path, command: list[str]) -> Iterator[int]:
    """A real network of an ordinary user, for whom a device is made that he may open; skips where he may have none."""
    device = "mount -t tmpfs airtcp /dev/net && mknod -m 666 /dev/net/tun c 10 200"
    program = str(place / "own" / realtime.PROGRAM)
    within = ["unshare", "--mount", "sh", "-c", f'{device} && exec "$@"', "sh", *BECOME]
    allowed = subprocess.run([*within, program, "check"], capture_output=True, text=True, check=False)
    if allowed.returncode:
        pytest.skip(f"an ordinary user may not: {re.findall('.*: NO: .*', allowed.stdout)} {allowed.stderr}")
    handle = plan(command)
    try:
        with started([*within, program, "run", str(handle)], pass_fds=[handle]) as network:
            # Its programs run a moment before it is shown.
            time.sleep(0.5)
            yield network
    finally:
        os.close(handle)


def test_root_does_not_enter_the_network_of_another_user(place: Path) -> None:
    # He covers what root would run.
    (place / "true").write_text(f"#!/bin/sh\necho came > {place}/mark\n")
    (place / "true").chmod(0o755)
    place.chmod(0o777)
    program = os.path.realpath(str(shutil.which("true")))
    script = f"mount --bind {place}/true {program} && echo ready && exec sleep 60"
    with genuine(place, ["sh", "-c", script]) as network:
        refused(place, network, STRANGER)
        done = entered(place, network, program)
        assert (done.returncode, (place / "mark").exists()) == (BAD_INPUT, False), done
        # The owner does, with no more rights than he has.
        done = entered(place, network, "sh", "-c", f"{program}; hostname; echo $AIRTCP_SERVER", before=tuple(BECOME))
        assert (done.returncode, done.stdout) == (0, "laptop\n10.0.0.2\n"), done
        assert (place / "mark").stat().st_uid == NOBODY
        # Another ordinary user does not.
        other = ("setpriv", "--reuid=65533", "--regid=65533", "--clear-groups")
        done = entered(place, network, "true", before=other)
        assert (done.returncode, done.stdout) == (BAD_INPUT, ""), done
        assert STRANGER in done.stderr


def test_a_command_of_the_owner_gets_no_descriptors_but_three(place: Path) -> None:
    handle, left_open = plan(["sh", "-c", "echo ready; exec sleep 60"]), os.open("/etc/hostname", os.O_RDONLY)
    program = str(place / "own" / realtime.PROGRAM)
    try:
        with started([program, "run", str(handle)], pass_fds=[handle, left_open]) as network:
            time.sleep(0.5)
            # The fourth one is of the folder that `ls` reads.
            done = entered(place, network, "ls", "/proc/self/fd", pass_fds=[left_open])
            assert done.stdout.split() == ["0", "1", "2", "3"], done
    finally:
        os.close(handle)
        os.close(left_open)
