"""Networks of `twins.py` whose TCP is a real kernel's: their captures, and remedies applied to them.

`airtcp shell` gives each host a namespace of this machine's kernel in real time, or a kernel of its own in virtual
time. The bottleneck, its queue and cross traffic are emulated. The capture has what the sender's device sent and
received, and nothing else.
"""

from __future__ import annotations

import json
import re
import shlex
import struct
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import hosts
import numpy as np
import polars as pl

from airtcp import _airtcp
from airtcp.advice.measures import LATE_S, LATENCY_QUANTILE, RunMeasures
from airtcp.advice.network import Network
from airtcp.advice.ranking import catalogue
from airtcp.scenario_json import name_of, seconds

Json = dict[str, Any]

HERE = "here"
INTERFACE, PACKET = 1, 6
"""Blocks of pcapng."""
NAME = 2
"""Option of an interface."""
CONTROLS = ("reno", "cubic", "bbr")
"""Congestion controls that kernels have."""
PING_S = 0.1
PORT = 5001
"""Of the first flow; each has its own."""

# The end that sends until the network ends, and the one that says what it got since its first byte.
SAY = """import socket, sys, time
peer, port, control, start = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
time.sleep(start)
for _ in range(250):
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    try:
        s.connect((socket.gethostbyname(peer), port))
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
while True:
    s.send(bytes(65536))
"""
HEAR = """import socket, sys, time
peer, _ = socket.create_server(("", int(sys.argv[1]))).accept()
end, total, first = time.monotonic() + float(sys.argv[2]), 0, None
while (left := end - time.monotonic()) > 0:
    peer.settimeout(left)
    try:
        total += len(peer.recv(1 << 20))
    except TimeoutError:
        break
    first = first or time.monotonic()
    last = time.monotonic()
print("bps", total * 8 / (last - first), flush=True)
peer.settimeout(None)
while peer.recv(1 << 20):
    pass
"""
SPARE_S = 1.5
"""The receiving end says what it got so long before the network ends."""


def network(document: Json, kernel: str, *, sender: str | None = None, path: Path | None = None) -> Json:
    """Runs a network of real hosts to its end.

    Args:
        document: the scenario. Flows without an end and pings are programs; all others are simulated.
        kernel: a version that tools/uml/build.py has built, in virtual time; `HERE`: this machine's, in real time.
        sender: the host whose packets are wanted.
        path: where they go.

    Returns:
        The verdict on its time, rows of the table `links`, each program's goodput, and each ping's answers.
    """
    lasts = seconds(document["duration"])
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        scenario, out = folder / "scenario.toml", folder / "out"
        kept = {key: value for key, value in document.items() if key != "record"}
        scenario.write_text(_airtcp.Checked.from_json(json.dumps(kept), "network", []).to_toml())
        (folder / "say.py").write_text(SAY)
        (folder / "hear.py").write_text(HEAR)
        command: list[str | Path] = [hosts.AIRTCP, "shell", scenario, "--quiet", "--for", f"{lasts:g}s", "--out", out]
        command += [] if kernel == HERE else ["--virtual", "--kernel", kernel]
        command += ["--snaplen", "128"] if path is not None else ["--no-capture"]
        for number, flow in enumerate(document["flows"]):
            for host, words in _programs(document, number, flow, folder, lasts):
                command += ["--on", f"{host}={shlex.join(words)}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, hosts.INVALID) or not (out / "emu.json").exists():
            raise SystemExit(f"a network of real hosts: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        if path is not None:
            assert sender is not None
            path.write_bytes(b"".join(of_host((out / "capture.pcapng").read_bytes(), sender)))
        emu = json.loads((out / "emu.json").read_text())
        return {
            "validity": emu["validity"],
            "late_p99_us": (emu.get("lateness") or {}).get("p99_us"),
            "links": pl.read_parquet(out / "links.parquet").to_dicts(),
            "bps": [float(bps) for bps in re.findall(r"\bbps ([\d.]+)", done.stdout)],
            "pings": _pings(done.stdout),
        }


def _pings(text: str) -> dict[str, dict[int, float]]:
    """By address: the answers' numbers, and their round trips in ms."""
    found: dict[str, dict[int, float]] = {}
    for address, number, ms in re.findall(r"from ([\d.]+): icmp_seq=(\d+).*?time=([\d.]+)", text):
        found.setdefault(address, {})[int(number)] = float(ms)
    return found


def _programs(document: Json, number: int, flow: Json, folder: Path, lasts: float) -> Iterator[tuple[str, list[str]]]:
    """Hosts and the programs there that make a flow."""
    kind, here, there = flow.get("traffic", {"kind": "unlimited"})["kind"], flow["from"], flow["to"]
    if kind == "ping":
        ping = shlex.join(["ping", "-4", "-n", "-i", str(PING_S), there])
        yield here, ["sh", "-c", f"sleep {_start_s(flow, document['seed'], number):.4f}; exec {ping}"]
    elif kind == "unlimited":
        start = flow.get("start", "0s")
        control = name_of((flow.get("tcp") or {}).get("cc") or _default_control(document, here))
        port = str(PORT + number)
        yield there, [sys.executable, str(folder / "hear.py"), port, f"{lasts - SPARE_S - seconds(start):g}"]
        yield here, [sys.executable, str(folder / "say.py"), there, port, control, f"{seconds(start):g}"]


def _start_s(flow: Json, seed: int, number: int) -> float:
    """When a ping begins: somewhere in its range, by the seed. What meets a full queue depends on it."""
    start = flow.get("start", "0s")
    if not isinstance(start, dict):
        return seconds(start)
    low, high = seconds(start["from"]), seconds(start["to"])
    return float(np.random.default_rng([seed, number]).uniform(low, high))


def _default_control(document: Json, host: str) -> Any:  # noqa: ANN401
    (node,) = [node for node in document["nodes"] if node["name"] == host]
    return Network(document).value(node.get("profile", "linux-6"), ["cc"])


def of_host(data: bytes, host: str) -> Iterator[bytes]:
    """The blocks of a capture that hold packets of one host's device, with all blocks that describe devices."""
    return of_devices(data, [host])


def of_devices(data: bytes, devices: Collection[str]) -> Iterator[bytes]:
    """The blocks of a capture that hold packets of some devices, with all blocks that describe devices."""
    names: list[str] = []
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        block = data[at : at + length]
        if kind == INTERFACE:
            names.append(_name(block))
        if kind != PACKET or names[struct.unpack_from("<I", block, 8)[0]] in devices:
            yield block
        at += length


def _name(block: bytes) -> str:
    """The name of an interface description's device."""
    at = 16
    while at + 4 <= len(block) - 4:
        code, length = struct.unpack_from("<HH", block, at)
        if code == NAME:
            return block[at + 4 : at + 4 + length].decode()
        at += 4 + (length + 3) // 4 * 4
    return ""


def capture(scenario: Json, path: Path, kernel: str) -> Json:
    """Runs the true network, captures at the host that sends, and returns the verdict on its time."""
    (sender,) = {flow["from"] for flow in scenario["flows"] if flow["name"].startswith("flow-")}
    found = network(scenario, kernel, sender=sender, path=path)
    return {"validity": found["validity"], "late_p99_us": found["late_p99_us"]}


def sample(truth: Network, seed: int, kernel: str) -> RunMeasures:
    """The numbers of a run, as `airtcp.advice.measures.sample` has them of a simulated one."""
    document = {**truth.document, "seed": seed}
    found = network(document, kernel)
    if not found["pings"] or not found["bps"]:
        raise SystemExit("a network of real hosts: its programs said nothing")
    due = answered = 0
    delays = {}
    for address, rtts in found["pings"].items():
        last = min(max(rtts), round((seconds(document["duration"]) - LATE_S) / PING_S))
        due += last
        answered += sum(number <= last for number in rtts)
        times = list(rtts.values())
        delays[address] = (min(times), float(np.percentile(times, LATENCY_QUANTILE)))
    return RunMeasures(
        delays,
        {"goodput": sum(found["bps"]) / 1e6, "loss": 100 * (1 - answered / due)},
        found["links"],
        float(np.mean([low for low, _ in delays.values()])),
    )


def can_have(name: str) -> bool:
    """Whether such a network can have a remedy: of the line, and of TCP what the kernel's sysctls set."""
    return all(
        place.endswith(".ecn") or (place.endswith(".cc") and value in CONTROLS)
        for one in catalogue().alone(name)
        for place, value in one.set.items()
    )


TRIED = ["FQ-CoDel at the router", "PIE at the router", "SQM", "BBR"]
"""Remedies that are tried on a true network where none is advised: all of them would take too long."""
