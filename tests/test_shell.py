"""`airtcp shell` and `airtcp exec`: the command line, and real programs through simulated networks.

Times are judged only where a loaded machine cannot spoil them: from below, or as "airtcp says so itself".
"""

from __future__ import annotations

import json
import os
import random
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import airtcp
from airtcp import _airtcp, realtime
from airtcp._terminal import BAD_INPUT, StopError
from airtcp.cli.commands import shell
from airtcp.errors import RunError
from conftest import AIRTCP, ROOT

PROGRAMS = [sys.executable, str(Path(__file__).parent / "real_programs.py")]
LINE = "20Mbit/s,25ms,fifo=100"
INVALID = 3
NOBODY = 65534


def missing() -> str | None:
    """Why real programs cannot run here; None: they can."""
    try:
        done = subprocess.run([realtime.program(), "check"], capture_output=True, text=True, check=False)
    except RunError as error:
        return str(error)
    return None if done.returncode == 0 else " and ".join(re.findall(r".*: NO: .*", done.stdout))


WHY_NOT = missing()
needs_network = pytest.mark.skipif(WHY_NOT is not None, reason=f"real programs: {WHY_NOT}")


def run(*arguments: object, status: int = 0, timeout: float = 60, **more: Any) -> subprocess.CompletedProcess[str]:
    """The command; a run that a loaded machine made invalid counts as one that ended well."""
    done = subprocess.run(
        [AIRTCP, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=timeout, **more
    )
    code = 0 if done.returncode == INVALID and "INVALID" in done.stderr else done.returncode
    assert code == status, (done.returncode, done.stdout, done.stderr)
    return done


def said(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The objects that programs printed, whosever lines they are."""
    return [json.loads(found) for found in re.findall(r"\{.*\}", done.stdout)]


# --- the command line, on any machine --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["100Mbit/s,10ms", "20Mbit/s,25ms,fifo=100", "1Gbit/s,1ms,queue=fq_codel,loss=0.001", "1Mbit/s,100ms,queue=codel"],
)
def test_a_line_is_a_scenario(text: str) -> None:
    scenario = json.loads(_airtcp.Checked.from_toml(shell.line(text).encode(), "--line", []).to_json())
    assert [node["name"] for node in scenario["nodes"]] == ["laptop", "server"]
    rate, delay = text.split(",")[:2]
    assert (scenario["links"][0]["rate"], scenario["links"][0]["delay"]) == (rate, delay)


@pytest.mark.parametrize("text", ["n", "n,snr=15,others=5", "g,snr=20", "ac,snr=30,streams=2,width=80,delay=10ms"])
def test_a_wlan_is_a_scenario(text: str) -> None:
    checked = _airtcp.Checked.from_toml(shell.wifi(text).encode(), "--wifi", [])
    scenario = json.loads(checked.to_json())
    others = 5 if "others" in text else 0
    assert checked.counts()[0] == 3 + others
    assert scenario["wlans"][0]["phy"]["standard"] == text.split(",")[0]


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--line", "20Mbit/s", "DELAY is missing"),
        ("--line", "20Mbit/s,25ms,fifos=3", "'fifos=3' is not understood"),
        ("--line", "20Mbit/s,25ms,7", "'7' is not understood"),
        ("--line", "20Mbit/s,25ms,fifo=x", "must be a number"),
        ("--line", "20Mbit/s,25ms,fifo=3,queue=codel", "not both"),
        ("--wifi", "n,others=-1", "must be a number from 0"),
        ("--wifi", "snr=15", "STANDARD is missing"),
    ],
)
def test_what_is_wrong_with_a_short_form_is_said(option: str, text: str, message: str) -> None:
    with pytest.raises(StopError, match=re.escape(message)) as stop:
        (shell.line if option == "--line" else shell.wifi)(text)
    assert stop.value.code == BAD_INPUT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shell"], "a scenario FILE is missing"),
        (["shell", "nowhere.toml", "laptop"], "nowhere.toml"),
        (["shell", "--line", LINE, "--wifi", "n"], "use either --line or --wifi"),
        (["shell", "--line", LINE, "laptop", "more"], "only HOST may follow"),
        (["shell", "--line", LINE, "--on", "server"], "must be HOST='COMMAND'"),
        (["shell", "--line", LINE, "--on", "laptop=true", "--", "true"], "choose another host"),
        (["shell", "--line", LINE, "--"], "a command is missing behind --"),
        (["shell", "--line", LINE, "--for", "soon", "--", "true"], "must be a time such as 30s"),
        (["shell", "--line", LINE, "--internet", "laptop", "--", "true"], "choose another"),
        (["shell", "--line", "20Mbit/s,25", "--", "true"], "links"),
        (["shell", "--line", LINE, "phone", "--", "true"], "phone: unknown node; accepted: laptop, server"),
        (["shell", "--line", LINE, "--gate", "laptop", "--", "true"], "it sends by a wire"),
        (["shell", "--line", LINE, "--virtual", "--gate", "laptop", "--", "true"], "the kernels' own"),
        (["shell", "--line", LINE, "--gatee", "laptop", "--", "true"], "did you mean `--gate`?"),
    ],
)
def test_bad_words_are_refused(arguments: list[str], message: str) -> None:
    done = run(*arguments, status=BAD_INPUT)
    assert message in done.stderr
    assert done.stdout == ""


@needs_network
def test_a_network_that_does_not_run_is_told() -> None:
    done = run("exec", "nobody", "--network", "1", "--", "true", status=BAD_INPUT)
    # What is said depends on whether another network runs.
    assert re.search(r'no network of yours is running|no running network has a real host "nobody"', done.stderr)


def test_what_stands_behind_is_the_commands_own() -> None:
    assert shell.split(["shell", "f", "h", "--", "ls", "--", "-l"]) == (["shell", "f", "h"], ["ls", "--", "-l"])
    assert shell.split(["exec", "h"]) == (["exec", "h"], None)
    assert shell.split(["run", "--", "f"]) == (["run", "--", "f"], None)


def test_a_host_that_is_real_alone_gets_company() -> None:
    scenario: dict[str, Any] = {
        "nodes": [{"name": "a"}, {"name": "b"}, {"name": "crowd", "count": 3}],
        "flows": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}, {"from": "crowd", "to": "a"}],
    }
    assert shell._peers(scenario, ["a"]) == ["b"]
    assert shell._peers(scenario, ["crowd[1]"]) == ["a"]
    assert shell._peers(scenario, ["a", "crowd[1]"]) == []
    # That it is unknown is said elsewhere.
    assert shell._peers(scenario, ["c"]) == []
    with pytest.raises(StopError, match="the only real host"):
        shell._peers({**scenario, "flows": []}, ["a"])


def test_a_prediction_has_no_small_queues_where_hosts_are_real() -> None:
    scenario = json.loads(_airtcp.Checked.from_toml(shell.wifi("n,others=2").encode(), "--wifi", []).to_json())
    again = json.loads(shell.prediction(scenario, ["server", "other[1]"], 12.5).to_json())
    assert again["flows"][0]["tcp"]["tsq"] == "off"
    assert again["duration"] == "12500ms"
    # A gate stands for small queues.
    gated = json.loads(shell.prediction(scenario, ["server", "other[1]"], 12.5, ["other[1]", "other"]).to_json())
    assert (gated["flows"][0].get("tcp") or {}).get("tsq") != "off"
    with pytest.raises(StopError, match="no flow of the scenario sends TCP"):
        shell.prediction(scenario, ["laptop", "server"], 12.5)


def test_a_program_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(realtime.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(RunError, match="build it with `make build`"):
        realtime.program()
    (tmp_path / "none").write_text("#!/bin/sh\n")
    assert os.access(realtime.program(), os.X_OK)


# --- real programs ---------------------------------------------------------------------------------------------------


@needs_network
def test_a_ping_takes_the_lines_time() -> None:
    done = run("shell", "--line", LINE, "--", *PROGRAMS, "ping", "server", 40, 0.02)
    (found,) = said(done)
    assert len(found["ms"]) == 40
    # 84 bytes on 20 Mbit/s, twice, and 50 ms.
    least = 50 + 2 * 84 * 8 / 20e3
    assert least <= found["ms"][0] < least + 5
    assert "tcp_congestion_control=cubic" in done.stderr


@needs_network
@pytest.mark.parametrize(("command", "status"), [("exit 7", 7), ("kill -KILL $$", 128 + 9), ("true", 0)])
def test_the_commands_status_is_airtcps(command: str, status: int) -> None:
    run("shell", "--line", LINE, "-q", "--", "sh", "-c", command, status=status)


@needs_network
def test_the_last_lines_come_however_slowly_they_are_read() -> None:
    command = [str(AIRTCP), "shell", "-q", "--line", LINE, "--on", "laptop=seq 30000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as network:
        assert network.stdout is not None
        # Pipe after pipe is full, and the program ends while the first one is.
        time.sleep(1)
        lines = network.stdout.read().splitlines()
        assert network.wait(30) in (0, INVALID)
    assert lines == [f"laptop: {k}" for k in range(1, 30001)]


@needs_network
def test_a_command_that_is_not_there() -> None:
    done = run("shell", "--line", LINE, "--", "no-such-program", status=127)
    assert 'host "laptop": cannot run "no-such-program"' in done.stderr


@needs_network
def test_unknown_and_repeated_hosts(tmp_path: Path) -> None:
    assert (
        "phone: unknown node; accepted: laptop, server"
        in run("shell", "--line", LINE, "phone", status=BAD_INPUT).stderr
    )
    file = tmp_path / "s.toml"
    file.write_text(shell.wifi("n,others=2"))
    done = run("shell", file, "--on", "other=true", "--real", "server", status=BAD_INPUT)
    assert "stands for several hosts" in done.stderr


@needs_network
def test_options_may_stand_between_file_and_host(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(shell.line(LINE))
    done = run("shell", "-q", file, "--on", "server=true", "laptop", "--", "sh", "-c", "echo on $AIRTCP_HOST")
    assert done.stdout == "on laptop\n"
    done = run("shell", file, "laptop", "--on", "server=true", "more", "--", "true", status=BAD_INPUT)
    assert "'more': a command stands behind --" in done.stderr


@needs_network
def test_a_gate_holds_back_what_small_queues_would(tmp_path: Path) -> None:
    sink, source = (shlex.join([*PROGRAMS, *words]) for words in (["sink"], ["source", "server", "2"]))
    out = tmp_path / "gated"
    done = run(
        *("shell", "--wifi", "n,snr=35", "--gate", "laptop", "--out", out, "--no-capture"),
        *("--on", f"server={sink}", "--on", f"laptop={source}", "--for", "30s"),
    )
    received, sent = sorted(said(done), key=lambda found: "mbps" not in found)
    assert received["bytes"] == sent["bytes"] > 1e6
    assert "in place of TCP small queues" in done.stderr
    hosts = json.loads((out / realtime.EMU).read_bytes())["hosts"]
    assert hosts["server"]["gate"] is None
    gate = hosts["laptop"]["gate"]
    assert gate["dropped"] == 0
    assert gate["waited"] > 100


@needs_network
def test_programs_find_each_other_and_their_own_processes() -> None:
    script = "cat /etc/hosts; echo host $AIRTCP_HOST at $AIRTCP_SERVER; hostname; ls /proc; cat /proc/net/dev"
    out = run("shell", "--line", LINE, "-q", "--", "sh", "-c", script).stdout
    assert "10.0.0.2 server\nfd00::2 server\n" in out
    assert "host laptop at 10.0.0.2\nlaptop\n1\n" in out  # of processes, init is the first
    assert re.search(r"^ *eth0:", out, re.MULTILINE)
    assert not any(line.isdigit() and int(line) > 50 for line in out.split())


@needs_network
def test_programs_leave_the_network_a_processor() -> None:
    script = "import os; print(len(os.sched_getaffinity(0)))"
    done = run("shell", "-q", "--line", LINE, "--", sys.executable, "-c", script)
    assert int(done.stdout) == max(1, len(os.sched_getaffinity(0)) - 1)


@needs_network
def test_packets_too_small_for_ipv6() -> None:
    file = ROOT / "examples/ns2-dumbbell.toml"
    done = run("shell", file, "--real", "right[0]", "left[0]", "--", "sh", "-c", "ping -c1 right0; cat /etc/hosts")
    assert " 0% packet loss" in done.stdout
    # Neither a name nor a device has an address of IPv6, and nobody says so.
    assert "fd00::" not in done.stdout + done.stderr
    assert re.search(r"\n10\.0\.0\.\d+ right0 right\[0\]\n", done.stdout)


@needs_network
def test_all_hosts_of_a_large_network_have_names() -> None:
    script = "wc -l < /etc/hosts; env | grep -c -e AIRTCP_LEFT -e AIRTCP_RIGHT; ping -c1 right0"
    file = ROOT / "examples/backbone.toml"
    done = run("shell", file, "--real", "right[0]", "left[0]", "--", "sh", "-c", script)
    names, variables = done.stdout.split()[:2]
    assert int(names) > 20_000
    # The addresses of both real hosts, and of no others.
    assert int(variables) == 2
    assert " 0% packet loss" in done.stdout
    assert "stays the machine's" not in done.stderr


@needs_network
@pytest.mark.skipif(
    not Path("/proc/sys/net/ipv4/tcp_child_ehash_entries").exists(), reason="hosts share a table before Linux 6.1"
)
def test_a_host_has_a_table_of_connections_of_its_own() -> None:
    """The machine's has so many buckets that asking for a host's connections takes milliseconds."""
    done = run("shell", "-q", "--line", LINE, "--", "cat", "/proc/sys/net/ipv4/tcp_ehash_entries")
    assert done.stdout == "1024\n"


@needs_network
def test_a_transfer_with_results(tmp_path: Path) -> None:
    out = tmp_path / "real"
    sink, source = (shlex.join([*PROGRAMS, *words]) for words in (["sink"], ["source", "server", "3"]))
    done = run(
        "shell", "--line", LINE, "--on", f"server={sink}", "--on", f"laptop={source}", "--for", "30s", "--out", out
    )
    received, sent = sorted(said(done), key=lambda found: "mbps" not in found)
    assert received["bytes"] == sent["bytes"] > 1e6
    assert sent["control"] == "cubic"
    # 20 Mbit/s with 1448 bytes of payload in 1500; the buffer drains for 60 ms after the sender has stopped.
    assert received["mbps"] < 20 * 1448 / 1500 * 1.05
    results = airtcp.Results.load(out)
    emu = json.loads((out / realtime.EMU).read_bytes())
    assert results.manifest["real_time"]["validity"] == emu["validity"]
    assert emu["validity"] == ("invalid" if done.returncode == INVALID else emu["validity"])
    assert [command["status"] for command in emu["commands"]] == [0, 0]
    assert not emu["tcp_small_queues"]
    connections = results["connections"].collect()
    ours = connections.filter((connections["host"] == "laptop") & (connections["bytes_acked"] > 0.9 * sent["bytes"]))
    assert ours.height == 1
    assert ours["cc"][0] == "cubic"
    assert ours["rtt_min_ms"][0] >= 50
    assert results.links.collect().height == 2
    seen = emu["hosts"]["laptop"]["traffic"]
    assert seen["sent_bytes"] > sent["bytes"]
    # The kernel hands over many segments at once; the network sees single packets.
    assert seen["sent_packets"] >= sent["bytes"] / 1448
    # The capture is read by whoever reads captures.
    analysis = airtcp.analyze(out / "capture.pcapng")
    assert analysis.flows.collect().height > 0
    assert "real programs ran in it" in run("verify", out, status=3).stdout
    assert run("compare", out).stdout


@needs_network
def test_simulated_flows_go_on_beside_real_hosts(tmp_path: Path) -> None:
    out = tmp_path / "real"
    run(
        "shell", "--wifi", "n,snr=25,others=3", "--out", out, "--no-capture", "--", *PROGRAMS, "ping", "server", 20, 0.1
    )
    flows = airtcp.Results.load(out).flows.collect()
    others = flows.filter(flows["group"] == "others")
    assert others.height == 3
    assert not (out / "capture.pcapng").exists()


@needs_network
def test_broadcasts_of_a_station_reach_the_others_of_its_cell() -> None:
    def hear(host: str) -> tuple[str, str]:
        return "--on", f"{host}={shlex.join([*PROGRAMS, 'hear', host])}"

    done = run(
        *("shell", "--wifi", "n,snr=35,others=2", *hear("other[0]"), *hear("other[1]"), *hear("server")),
        *("--on", f"laptop={shlex.join([*PROGRAMS, 'call'])}", "--for", "20s"),
    )
    heard = {str(found["host"]): found["heard"] for found in said(done)}
    all_of_it = ["all nodes from fd00::1", "limited from ::ffff:10.0.0.1", "subnet from ::ffff:10.0.0.1"]
    assert heard == {"other[0]": all_of_it, "other[1]": all_of_it, "server": []}


@contextmanager
def begun(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """The command, once its programs run: the one in front says so."""
    command = [str(AIRTCP), *map(str, arguments), "--", "sh", "-c", "echo ready; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as network:
        assert network.stdout is not None
        assert select.select([network.stdout], [], [], 30)[0], "nothing has begun within 30 s"
        assert network.stdout.readline() == "ready\n"
        try:
            yield network
        finally:
            network.terminate()


@needs_network
def test_a_second_terminal() -> None:
    with begun("shell", "--line", LINE) as network:
        # Another network may have hosts of the same names.
        of_this = ("--network", driver_of(network.pid), "--")
        out = run("exec", "server", *of_this, "sh", "-c", "hostname; echo $AIRTCP_LAPTOP; exit 5", status=5).stdout
        assert out == "server\n10.0.0.1\n"
        (found,) = said(run("exec", "server", *of_this, *PROGRAMS, "ping", "laptop", 3, 0.01))
        assert found["ms"][0] >= 50
        assert "laptop; server" in run("exec", "phone", *of_this, "true", status=BAD_INPUT).stderr
        assert "cannot run" in run("exec", "server", *of_this, "no-such-program", status=127).stderr
        network.terminate()
        assert network.wait(30) == 128 + signal.SIGTERM


@needs_network
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_the_output_is_kept(number: signal.Signals, tmp_path: Path) -> None:
    with begun("shell", "--line", LINE, "--out", tmp_path / "kept") as network:
        network.send_signal(number)
        assert network.wait(30) == 128 + number
    assert airtcp.Results.load(tmp_path / "kept").name == "line"


def driver_of(shell: int) -> str:
    """The process of a network that the command `airtcp shell` has started."""
    (driver,) = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
    return driver


def of(marker: str) -> list[int]:
    """Processes whose command line has a marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker in (entry / "cmdline").read_bytes().decode(errors="replace"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def is_gone(marker: str, within: float = 20) -> bool:
    """A dying namespace takes the kernel a moment."""
    end = time.monotonic() + within
    while of(marker):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


# By hand: AIRTCP_KILLS=50 pytest tests/test_shell.py -k kill
@needs_network
@pytest.mark.parametrize("victim", ["airtcp", realtime.PROGRAM])
def test_a_kill_at_any_moment_leaves_nothing(victim: str) -> None:
    interfaces = sorted(Path("/sys/class/net").iterdir())
    rng = random.Random(victim)
    for k in range(int(os.environ.get("AIRTCP_KILLS", "5"))):
        marker = f"31{os.getpid()}.{k}"
        command = ["sh", "-c", f"setsid sleep {marker} & sleep {marker}"]
        network = subprocess.Popen(
            [AIRTCP, "shell", "--line", LINE, "-q", "--on", f"server=sleep {marker}", "--", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Before, while and after everything begins.
        time.sleep(0.1 + 0.15 * k if k < 5 else rng.uniform(0, 1))
        if victim == "airtcp":
            network.kill()
        else:
            children = Path(f"/proc/{network.pid}/task/{network.pid}/children")
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGKILL)
            if not children.read_text().split():
                network.kill()
        network.wait(30)
        assert is_gone(marker)
    assert sorted(Path("/sys/class/net").iterdir()) == interfaces


def packets_of(shell: int, host: str) -> int:
    """What the host has received so far. `shell`: the command that holds its network."""
    seen = run("exec", "--network", driver_of(shell), host, "--", "cat", "/proc/net/dev").stdout
    found = re.search(r"^ *eth0: *\d+ +(\d+)", seen, re.MULTILINE)
    assert found is not None, seen
    return int(found[1])


@needs_network
def test_output_without_room_is_an_error_and_standard_error_without_room_is_none() -> None:
    command = [str(AIRTCP), "shell", "--line", LINE, "--on", "laptop=sh -c 'echo out; exit 5'"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
        assert done.returncode == 1, done
        assert done.stderr.endswith("error: cannot write to standard output: No space left on device (os error 28)\n")
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (5, "laptop: out\n")


@needs_network
def test_a_pause_of_airtcp_makes_the_run_invalid() -> None:
    ping = f"server={shlex.join(PROGRAMS)} ping laptop 100000 0.01"
    with begun("shell", "--line", "20Mbit/s,5ms", "--on", ping) as network:
        driver = driver_of(network.pid)
        end = time.monotonic() + 30
        while packets_of(network.pid, "laptop") < 20:
            assert time.monotonic() < end, "no ping has come within 30 s"
            time.sleep(0.1)
        os.kill(int(driver), signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(int(driver), signal.SIGCONT)
        time.sleep(1.0)
        network.terminate()
        _, errors = network.communicate(timeout=30)
    assert "INVALID" in errors
    assert re.search(r"packet came \d+ ms late; 100 are allowed", errors)


@needs_network
@pytest.mark.skipif(shutil.which("pasta") is None, reason="needs pasta (package passt)")
def test_a_host_is_the_way_to_the_machines_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as machine:
        port = machine.getsockname()[1]

        def answer() -> None:
            with machine.accept()[0] as client:
                client.sendall(b"through the line")

        thread = threading.Thread(target=answer)
        thread.start()
        script = (
            "import os, socket, time; begin = time.monotonic()\n"
            f"s = socket.create_connection((os.environ['AIRTCP_MACHINE'], {port}), timeout=20)\n"
            "print(s.recv(99).decode(), 'late' if time.monotonic() - begin >= 0.1 else 'early')"
        )
        done = run("shell", "--line", LINE, "--internet", "server", "--", sys.executable, "-c", script)
        thread.join(20)
    # A handshake and the answer: two round trips of the line.
    assert done.stdout == "through the line late\n", done.stderr


@needs_network
@pytest.mark.skipif(shutil.which("pasta") is None, reason="needs pasta (package passt)")
def test_networks_nest() -> None:
    """The inner one's way to the machine leads through the outer one, whose round trip comes on top."""
    connect = (
        "import os, socket, time; time.sleep(0.2); begin = time.monotonic()\n"
        "socket.create_connection((os.environ['OUTSIDE'], int(os.environ['PORT'])), timeout=20)\n"
        "print((time.monotonic() - begin) * 1e3)"
    )
    inner = ["shell", "-q", "--line", "20Mbit/s,15ms", "--internet", "server", "--", sys.executable, "-c", connect]
    with socket.create_server(("0.0.0.0", 0)) as machine, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        # An address of this machine that is not its loopback's: which one, the route to somewhere says.
        try:
            way.connect(("203.0.113.1", 9))
        except OSError:
            pytest.skip("this machine has no route to anywhere")
        outside = {"OUTSIDE": way.getsockname()[0], "PORT": str(machine.getsockname()[1])}
        if outside["OUTSIDE"].startswith("10."):
            pytest.skip("this machine's address is one of the simulated network's")
        done = run(
            *("shell", "-q", "--line", "20Mbit/s,25ms", "--internet", "server", "--", AIRTCP, *inner),
            env={**os.environ, **outside},
        )
    assert float(done.stdout) >= 2 * (15 + 25)


@needs_network
def test_a_disk_that_is_full() -> None:
    done = subprocess.run(
        [
            "sh",
            "-c",
            f"ulimit -f 8; exec {shlex.quote(str(AIRTCP))} shell --line 100Mbit/s,1ms "
            f"--out /tmp/airtcp-full-{os.getpid()} -- true",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert not Path(f"/tmp/airtcp-full-{os.getpid()}").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv of util-linux")
@needs_network
def test_an_ordinary_user(tmp_path: Path) -> None:
    program = tmp_path / realtime.PROGRAM
    shutil.copy(realtime.program(), program)
    for path in [tmp_path, *list(tmp_path.parents)[:-2]]:
        path.chmod(path.stat().st_mode | 0o055)
    program.chmod(0o755)
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    allowed = subprocess.run([*become, program, "check"], capture_output=True, text=True, check=False)
    if allowed.returncode:
        pytest.skip(f"an ordinary user may not: {re.findall('.*: NO: .*', allowed.stdout)}")
    plan = {
        "scenario": _airtcp.Checked.from_toml(shell.line(LINE).encode(), "--line", []).to_json(),
        "file": "--line",
        "hosts": ["server"],
        "commands": [{"host": "laptop", "argv": ["sh", "-c", "cat /etc/hosts; ls /proc; exit 4"], "in_front": True}],
        "for_s": None,
        "record": None,
        "internet": None,
        "quiet": False,
        "parent": os.getpid(),
    }
    handle = os.memfd_create("plan")
    os.write(handle, json.dumps(plan).encode())
    os.lseek(handle, 0, os.SEEK_SET)
    done = subprocess.run(
        [*become, program, "run", str(handle)],
        pass_fds=[handle],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(handle)
    assert done.returncode == 4, done.stderr
    assert "10.0.0.2 server" in done.stdout


def test_the_page_names_every_option() -> None:
    page = (ROOT / "docs/emulator.md").read_text()
    text = subprocess.run([AIRTCP, "shell", "--help"], capture_output=True, text=True, check=True).stdout
    options = set(re.findall(r"(--[a-z][a-z-]+)", text)) - {"--help"}
    assert sorted(option for option in options if option not in page) == []
