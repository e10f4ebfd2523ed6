"""`airtcp shell --virtual`: kernels in virtual time. Skipped without a kernel that `tools/uml/build.py` has built."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pty
import random
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airtcp import realtime, results
from airtcp.errors import RunError
from conftest import AIRTCP

SHELL = [str(AIRTCP), "shell", "--virtual", "--line", "20Mbit/s,25ms,fifo=100"]


def missing() -> str | None:
    """Why kernels cannot run here; None: they can."""
    try:
        realtime.program()
        realtime.kernel("6.12")
    except RunError as error:
        return str(error)
    return None


needs_kernel = pytest.mark.skipif(missing() is not None, reason=f"virtual time: {missing()}")


def test_a_kernel_that_is_not_built_is_named() -> None:
    with pytest.raises(RunError, match=r"no kernel 0\.99 is built yet: tools/uml/build\.py 0\.99"):
        realtime.kernel("0.99")
    with pytest.raises(RunError, match="there is no such file"):
        realtime.kernel("./nowhere/linux")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--internet", "server", "--", "true"], "not in virtual time"),
        (["--gate", "laptop", "--", "true"], "small queues are the kernels' own"),
    ],
)
def test_what_virtual_time_has_not_is_refused(more: list[str], message: str) -> None:
    done = subprocess.run([*SHELL, *more], capture_output=True, text=True, check=False)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


@needs_kernel
def test_two_runs_are_equal_and_exact(tmp_path: Path) -> None:
    sums = []
    for name in ("one", "two"):
        out = tmp_path / name
        command = [
            *SHELL,
            "--out",
            str(out),
            "laptop",
            "--",
            "ping",
            "-c2",
            "10.0.0.2",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, (done.stdout, done.stderr)
        # Twice 25 ms, and 84 bytes at 20 Mbit/s: 50.0672 ms.
        assert "min/avg/max/mdev = 50.067/50.067/50.06" in done.stdout
        sums.append(hashlib.sha256((out / "capture.pcapng").read_bytes()).hexdigest())
        assert json.loads((out / "emu.json").read_text())["validity"] == "virtual"
    assert sums[0] == sums[1]


@needs_kernel
def test_the_exit_code_is_the_command_s() -> None:
    command = [
        *SHELL,
        "laptop",
        "--",
        sys.executable,
        "-c",
        "raise SystemExit(7)",
    ]
    assert subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == 7


TALK = """import socket, sys, time
if sys.argv[1] == "hear":
    c, _ = socket.create_server(("", 5001)).accept()
    while c.recv(1 << 20):
        pass
else:
    time.sleep(0.001)
    s = socket.create_connection(("10.0.0.2", 5001))
    for _ in range(4):
        s.sendall(bytes(40000))
        time.sleep(0.08)
"""


@needs_kernel
def test_the_kernels_connections_become_tables(tmp_path: Path) -> None:
    program = tmp_path / "talk.py"
    program.write_text(TALK)
    talk = shlex.join([sys.executable, str(program)])
    command = [*SHELL, "--out", str(tmp_path / "run"), "--on", f"server={talk} hear", "--on", f"laptop={talk} say"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, (done.stdout, done.stderr)
    run = results.Results.load(tmp_path / "run")
    rows = run.tables["connections"].collect().sort("host").to_dicts()
    # The sender has closed when its last byte is on its way, and the receiver when it has come.
    assert [(row["host"], row["cc"], row["bytes_sent"]) for row in rows] == [
        ("laptop", "cubic", 160_000),
        ("server", "cubic", 0),
    ]
    assert rows[0]["connection"].endswith("10.0.0.2:5001")
    assert 50 < rows[0]["rtt_min_ms"] < 52
    series = run.tables["connection_series"].collect()
    # The last look is at the end, and the others are at each tenth of a second.
    times: list[float] = series["time_s"].to_list()
    looks = [at for at in times if at < max(times) - 0.01]
    assert looks
    assert all(abs(at * 10 - round(at * 10)) < 0.001 for at in looks)
    assert max(series["bytes_acked"].to_list()) > 40_000


def children(pid: int) -> list[int]:
    """Processes below one, from the system's list: those of another namespace, too."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]


def wait_until(what: str, is_so: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def network(*more: str) -> tuple[subprocess.Popen[str], int]:
    """A network that goes on for a while, and its controller."""
    command = [*SHELL, "--quiet", *more, "laptop", "--", "ping", "-q", "-i", "0.01", "-c", "1000000", "10.0.0.2"]
    shell = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    wait_until("the controller never started", lambda: children(shell.pid))
    return shell, children(shell.pid)[0]


@needs_kernel
def test_a_command_into_a_running_network() -> None:
    shell, controller = network()
    try:

        def ask(*argv: str) -> subprocess.CompletedProcess[str]:
            command = [str(AIRTCP), "exec", "--network", str(controller), "server", *argv]
            return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

        def is_shown() -> bool:
            # Where another network runs, it is told what those have that are known.
            errors = ask("--", "true").stderr
            return "no network of yours" not in errors and "no running network has" not in errors

        wait_until("the network is never shown", is_shown)
        done = ask("--", "sh", "-c", "hostname; exit 5")
        assert (done.returncode, done.stdout) == (5, "server\n"), done.stderr
        done = ask("--", "ping", "-6", "-c1", "laptop")
        assert (done.returncode, "time=50.1 ms" in done.stdout) == (0, True), done.stdout
        done = ask("--", "/nowhere")
        assert (done.returncode, "No such file" in done.stdout) == (127, True)
        # Without a terminal a shell reads what there is.
        command = [str(AIRTCP), "exec", "--network", str(controller), "server"]
        done = subprocess.run(
            command, input="echo on $(hostname)\nexit 6\n", capture_output=True, text=True, check=False, timeout=300
        )
        assert (done.returncode, done.stdout) == (6, "on server\n"), done.stderr
    finally:
        shell.send_signal(signal.SIGTERM)
        shell.wait()


SCRIPT = "hostname; ping -c1 -4 10.0.0.2 | grep -o time=.*; tty; exit 3\n"


@needs_kernel
def test_a_script_for_a_shell_is_read_before_time_begins(tmp_path: Path) -> None:
    said = []
    for name in ("one", "two"):
        command = [*SHELL, "--quiet", "--out", str(tmp_path / name), "laptop"]
        done = subprocess.run(command, input=SCRIPT, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 3, done.stderr
        capture = (tmp_path / name / "capture.pcapng").read_bytes()
        assert json.loads((tmp_path / name / "emu.json").read_text())["repeatable"] is True
        said.append((done.stdout, hashlib.sha256(capture).hexdigest()))
    assert said[0][0] == "laptop\ntime=50.1 ms\nnot a tty\n"
    assert said[0] == said[1]


class Typist:
    """A terminal with a command on it, and what it shows."""

    def __init__(self, command: list[str]) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 31, 97, 0, 0))
        self.before = termios.tcgetattr(slave)
        environment = {**os.environ, "TERM": "vt100", "PS1": "> ", "SHELL": "/bin/sh"}
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=environment
        )
        self.slave = slave
        self.shown = ""

    def sees(self, text: str, seconds: float = 120) -> str:
        """What was shown up to a text, which is shown within some time."""
        end = time.monotonic() + seconds
        while text not in self.shown:
            left = max(end - time.monotonic(), 0)
            assert select.select([self.master], [], [], left)[0], (text, self.shown)
            self.shown += os.read(self.master, 4096).decode(errors="replace")
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def types(self, text: str) -> None:
        os.write(self.master, text.encode())


@needs_kernel
def test_a_terminal_in_virtual_time(tmp_path: Path) -> None:
    typist = Typist([*SHELL, "--out", str(tmp_path / "run"), "laptop"])
    try:
        typist.types("echo at $((6*7)) on $(hostname) with $TERM; stty size\r")
        typist.sees("at 42 on laptop with vt100")
        typist.sees("31 97")
        # The guest's time goes no faster than the machine's.
        begin = time.monotonic()
        typist.types("ping -4 -c 3 -i 0.5 server\r")
        assert "time=50.1 ms" in typist.sees("3 received")
        assert time.monotonic() - begin > 1
        # Ctrl-C reaches the program, and not airtcp.
        typist.types("sleep 1000; echo slept $?\r")
        typist.sees("slept $?")
        time.sleep(0.3)
        typist.types("\x03")
        typist.types("echo still $((40+2)) here\r")
        typist.sees("still 42 here")
        # Its size follows.
        fcntl.ioctl(typist.slave, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
        typist.types("stty size\r")
        typist.sees("40 120")
        typist.types("exit 9\r")
        typist.sees("results in")
        assert typist.process.wait(60) == 9
        assert termios.tcgetattr(typist.slave) == typist.before
        emu = json.loads((tmp_path / "run" / "emu.json").read_text())
        assert (emu["validity"], emu["repeatable"]) == ("virtual", False)
    finally:
        typist.process.kill()
        typist.process.wait()


@needs_kernel
def test_a_second_terminal_and_the_key_that_leaves() -> None:
    first = Typist([*SHELL, "laptop"])
    try:
        first.types("echo begun $((1+1))\r")
        first.sees("begun 2")
        (controller,) = [child for child in children(first.process.pid) if "airtcp-emu" in name_of(child)][:1]
        second = Typist([str(AIRTCP), "exec", "--network", str(controller), "server"])
        try:
            second.types("ping -c1 -4 laptop; hostname; exit 4\r")
            assert "time=50.1 ms" in second.sees("1 received")
            second.sees("server")
            assert second.process.wait(60) == 4
        finally:
            second.process.kill()
            second.process.wait()
        first.types("\x1d")
        assert first.process.wait(60) == 128 + signal.SIGINT
        assert termios.tcgetattr(first.slave) == first.before
    finally:
        first.process.kill()
        first.process.wait()


def name_of(pid: int) -> str:
    return Path("/proc", str(pid), "comm").read_text()


# By hand: AIRTCP_KILLS=20 pytest tests/test_virtual_time.py -k kill
@needs_kernel
@pytest.mark.parametrize("seed", range(int(os.environ.get("AIRTCP_KILLS", "2"))))
def test_kill_9_of_the_controller_leaves_nothing(seed: int) -> None:
    shell, controller = network()
    time.sleep(random.Random(seed).uniform(0, 1.5))
    below = {controller, *children(controller)}
    os.kill(controller, signal.SIGKILL)
    shell.wait()
    wait_until(f"processes are left of {below}", lambda: not any(Path("/proc", str(pid)).exists() for pid in below), 30)


HOSTILE = r"""
mount -o remount,rw / 2>/dev/null
mkdir /run/h && mount -t hostfs none /run/h
for at in "$1" / /etc /run /dev /sys /proc /tmp /run/h/"$1" /run/h/etc /run/h/run /run/h/dev /run/h/sys /run/h/tmp; do
    { touch "$at/airtcp-was-here" && echo "wrote $at"; } 2>/dev/null
done
chmod 777 "/run/h/$1" 2>/dev/null && echo "changed $1"
mv "$1/kept" "$1/gone" 2>/dev/null && echo "moved"
rm -f "/run/h/$1/kept" 2>/dev/null && echo "removed"
ls /run/h/dev/ | tr "\n" " "; echo
ls /run/h/run/
grep -c : /run/h/proc/net/dev
cat "$1/kept"
"""


@needs_kernel
def test_root_of_a_guest_cannot_write_outside_of_it(tmp_path: Path) -> None:
    """It can mount the machine's files anew, and a kernel that lies needs not even that."""
    script = tmp_path / "hostile.sh"
    script.write_text(HOSTILE)
    (tmp_path / "kept").write_text("kept\n")
    command = [*SHELL, "--quiet", "laptop", "--", "sh", str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    said = done.stdout.splitlines()
    # What is the guest's own it may write: no more than that.
    own = {"wrote /run", "wrote /dev", "wrote /proc", "wrote /sys"}
    assert [
        line for line in said if line.startswith(("wrote", "changed", "moved", "removed")) and line not in own
    ] == []
    assert "full null random shm urandom zero " in said, said
    assert said[-1] == "kept", said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hostile.sh", "kept"]
    assert not any(Path(at, "airtcp-was-here").exists() for at in ("/", "/etc", "/run", "/dev", "/tmp"))


def kernels(pid: int) -> list[Path]:
    """The guests' own processes."""
    return [Path("/proc", str(child)) for child in children(pid) if "umid=host" in command_of(child)]


def command_of(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "cmdline").read_text()
    except OSError:
        return ""


@needs_kernel
def test_a_guest_s_process_has_no_rights_no_network_and_no_foreign_descriptors() -> None:
    shell, controller = network()
    try:
        wait_until("no guest was started", lambda: len(kernels(controller)) >= 2)
        for guest in kernels(controller):
            status = dict(line.split(":\t", 1) for line in (guest / "status").read_text().splitlines() if ":\t" in line)
            # CAP_DAC_READ_SEARCH.
            assert {int(status[key], 16) & ~4 for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
            assert status["NoNewPrivs"] == "1"
            for space in ("net", "mnt", "pid", "ipc"):
                assert (guest / "ns" / space).readlink() != Path("/proc/self/ns", space).readlink(), space
            assert [line.split(":")[0].strip() for line in (guest / "net/dev").read_text().splitlines()[2:]] == ["lo"]
            open_files = [str(fd.readlink()) for fd in (guest / "fd").iterdir() if fd.is_symlink()]
            assert not [name for name in open_files if name.startswith(("net:", "mnt:", "/memfd:airtcp"))], open_files
            writable = {
                line.split()[4]
                for line in (guest / "mountinfo").read_text().splitlines()
                if "rw" in line.split()[5].split(",")
            }
            (work,) = writable - {"/dev/shm"}
            assert work in {"/media", "/mnt", "/srv"}
    finally:
        shell.send_signal(signal.SIGTERM)
        shell.wait()


PLANTED = """
cd /run/airtcp
ln -s /dev/zero command0.status; mkfifo command1.out command1.status 1.connections 1.ready.part
rm -f 0.ready 0.log; ln -s /dev/zero 0.ready; ln -s /dev/zero 0.log; ln -s /dev/zero 0.connections
sleep 0.3
"""


@needs_kernel
def test_what_a_guest_plants_in_the_shared_folder_stops_nothing(tmp_path: Path) -> None:
    script = tmp_path / "plant.sh"
    script.write_text(PLANTED)
    more = ["--out", str(tmp_path / "run"), "--on", f"laptop=sh {script}", "--on", "server=sleep 1", "--for", "2s"]
    done = subprocess.run([*SHELL, *more], capture_output=True, text=True, check=False, timeout=100)
    # It has taken away what says that it was ready.
    assert (done.returncode, 'host "laptop" was not ready' in done.stderr) == (1, True), done.stderr


@needs_kernel
def test_output_without_room_is_an_error_and_standard_error_without_room_is_none() -> None:
    command = [*SHELL, "--on", "laptop=sh -c 'echo out; exit 5'"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
        assert done.returncode == 1, done
        assert done.stderr.endswith("error: cannot write to standard output: No space left on device (os error 28)\n")
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (5, "laptop: out\n")


@needs_kernel
def test_a_file_of_a_guest_that_only_says_it_is_long_is_not_shown_without_end() -> None:
    lengthen = "import os; os.ftruncate(os.open('/run/airtcp/command0.out', os.O_RDWR), 1 << 40)"
    command = [*SHELL, "--on", f"laptop=python3 -c {shlex.quote(lengthen)}"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert (done.returncode, len(done.stdout) < 1 << 20) == (0, True), done.stderr


@needs_kernel
@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM)\nwhile True: s.sendto(bytes(9), ('10.0.0.2', 9))",
    ],
    ids=["says nothing", "sends at one instant"],
)
def test_a_guest_that_never_waits_is_interrupted_at_once(tmp_path: Path, program: str) -> None:
    script = tmp_path / "spin.py"
    script.write_text(f"print('begun', flush=True)\n{program}\n")
    command = [*SHELL, "--quiet", "laptop", "--", sys.executable, str(script)]
    shell = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(5)
        assert shell.poll() is None
        begun = time.monotonic()
        shell.send_signal(signal.SIGINT)
        assert shell.wait(20) == 128 + signal.SIGINT, shell.communicate()
        assert time.monotonic() - begun < 10
    finally:
        shell.kill()
        shell.communicate()
