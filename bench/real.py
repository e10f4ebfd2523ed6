"""Real programs in real time beside the prediction: goodput, pings and round trips of twelve scenarios, as a table.

Usage: real.py [--only NAME ...] [--runs N] [--out FILE]

Needs root or user namespaces, /dev/net/tun, `ping`, and a machine that does nothing else: about seven minutes with two
runs each. Under `airtcp shell` a program on one host writes to TCP of this machine's kernel for 10 s. A ping goes every
50 ms, for a second before that, and from 2 s after it has begun. Goodput, round trips and pings under load count from
then on.

The prediction is the simulation of flows in their place: without TCP small queues, which TUN ends, and without receive
offload, which TUN has not. Its figures are means of three seeds. The row with a gate is simulated with small queues.
The sender's own round trip means nothing there. Goals: goodput within 3 %, idle ping within 0.3 ms, the others within
10 %. What misses its goal is marked. A run that airtcp calls invalid is shown and marked, too.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import virtual

from airtcp import _airtcp, stats

Json = dict[str, Any]

# A sender for ten seconds that prints its mean smoothed round trip (tcpi_rtt of TCP_INFO) from 2 s on.
SEND = """import select, socket, struct, sys, time
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[2].encode())
for _ in range(100):
    try:
        s.connect((socket.gethostbyname(sys.argv[1]), 5001))
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
s.setblocking(False)
begin, look, rtts, data = time.monotonic(), 2.0, [], bytes(65536)
while (now := time.monotonic() - begin) < 10:
    select.select([], [s], [], max(look - now, 0.001))
    try:
        while s.send(data):
            pass
    except BlockingIOError:
        pass
    if time.monotonic() - begin >= look:
        info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        rtts.append(struct.unpack_from("<I", info, 68)[0] / 1000)
        look = max(look + 0.01, time.monotonic() - begin)
print("rtt", sum(rtts) / len(rtts))
"""
STARTS_S = 1.8
"""The transfer's start: pings before it are idle ones."""

IDLE_FROM_S = 0.4
LAST_S = 10.0
WARMUP_S = 2.0
FIFO_200 = virtual.fifo(200)

SCENARIOS: dict[str, Json] = {
    "line 20 Mbit/s, FIFO": virtual.line("20Mbit/s", "25ms", virtual.fifo(100)),
    "line 100 Mbit/s, FIFO": virtual.line("100Mbit/s", "10ms", FIFO_200),
    "line 20 Mbit/s, FQ-CoDel": virtual.line("20Mbit/s", "25ms", {"name": "fq_codel"}),
    "line 20 Mbit/s, BBR": virtual.line("20Mbit/s", "25ms", virtual.fifo(100), cc="bbr"),
    "802.11n up": virtual.wifi(35),
    "802.11n down": virtual.wifi(35, sender="server"),
    "802.11n up, BBR": virtual.wifi(35, cc="bbr"),
    "802.11n up beside two": virtual.wifi(30, others=2),
    "802.11n up, poor": virtual.wifi(12),
    "802.11n up, poor, retry-out": virtual.wifi(12, radio={"reorder_buffer": {"retry_out": "delay"}}),
    "802.11n up, gate": virtual.wifi(35),
    "line 1 Gbit/s, FIFO": virtual.line("1Gbit/s", "10ms", virtual.fifo(2000)),
}


@dataclass(frozen=True)
class Run:
    """What was measured, or predicted."""

    goodput: float
    """Mbit/s."""
    idle: float
    """Mean ping before the transfer, ms."""
    ping: float
    """Mean ping beside it, ms."""
    rtt: float
    """The sender's mean smoothed round trip, ms."""
    validity: str = ""
    late_p99_us: float = 0.0


GOALS = {"goodput": 0.03, "idle": 0.3, "ping": 0.1, "rtt": 0.1}
"""Of the idle ping in ms, of the others a part."""


def behind_tun(scenario: Json, *, has_gate: bool) -> Json:
    """The scenario with hosts as they are behind TUN."""
    again = copy.deepcopy(scenario)
    for node in again["nodes"]:
        if node.get("profile"):
            node["receive_offload"] = "off"
    for wlan in again.get("wlans", []):
        for station in wlan["stations"]:
            station.pop("radio", None)
    if not has_gate:
        again["flows"][0]["tcp"]["tsq"] = "off"
    return again


def toml(scenario: Json, folder: Path, name: str) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(_airtcp.Checked.from_json(json.dumps(scenario), name, []).to_toml())
    return path


def simulate(scenario: Json, folder: Path) -> dict[str, Json]:
    done = subprocess.run(
        [virtual.AIRTCP, "run", toml(scenario, folder, "simulated"), "--json", "-q"],
        check=True,
        capture_output=True,
        text=True,
    )
    return {group["group"]: group for group in json.loads(done.stdout)["groups"]}


def predicted(scenario: Json, seed: int, folder: Path) -> Run:
    transfer, ping, *others = scenario["flows"]
    ping = {**ping, "start": "0s", "traffic": {"kind": "ping", "interval": "50ms"}}
    times = {"duration": f"{LAST_S}s", "warmup": f"{WARMUP_S}s", "seed": seed}
    loaded = simulate({**scenario, **times, "flows": [transfer, ping, *others]}, folder)
    short = {"duration": "1400ms", "warmup": "400ms", "seed": seed}
    idle = simulate({**scenario, **short, "flows": [ping, *others]}, folder)
    return Run(
        loaded["transfer"]["goodput_bps"] / 1e6,
        idle["ping"]["rtt_mean_ms"],
        loaded["ping"]["rtt_mean_ms"],
        loaded["transfer"]["rtt_mean_ms"],
    )


def real(scenario: Json, seed: int, folder: Path, *, has_gate: bool) -> Run:
    transfer, *_ = scenario["flows"]
    programs = {name: folder / f"{name}.py" for name in ("send", "receive")}
    programs["send"].write_text(SEND)
    programs["receive"].write_text(virtual.RECEIVE)
    send, receive = (f"exec {sys.executable} {shlex.quote(str(programs[name]))}" for name in ("send", "receive"))
    out = folder / "real"
    path = toml({**scenario, "seed": seed, "duration": "14s"}, folder, "real")
    before, beside = int((STARTS_S - IDLE_FROM_S - 0.2) / 0.05), int((LAST_S - WARMUP_S - 0.2) / 0.05)
    pings = (
        f"sleep {IDLE_FROM_S}; ping -4 -q -i 0.05 -c {before} server; sleep {WARMUP_S + 0.3}; "
        f"echo loaded; ping -4 -q -i 0.05 -c {beside} server"
    )
    command: list[str | Path] = [virtual.AIRTCP, "shell", path, "--for", "20s", "--out", out, "--no-capture"]
    command += ["--gate", "laptop"] if has_gate else []
    command += ["--on", f"{transfer['to']}={receive}"]
    command += ["--on", f"{transfer['from']}=sleep {STARTS_S}; {send} {transfer['to']} {transfer['tcp']['cc']}"]
    command += ["--on", f"laptop={pings}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    goodput = re.search(r"bps ([\d.]+)", done.stdout)
    rtt = re.search(r"rtt ([\d.]+)\n", done.stdout)
    means = re.findall(r"min/avg/max/mdev = [\d.]+/([\d.]+)/", done.stdout)
    if done.returncode not in (0, 3) or not goodput or not rtt or len(means) != 2:
        raise SystemExit(f"{path}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    emu = json.loads((out / "emu.json").read_text())
    figures = [float(goodput[1]) / 1e6, *map(float, means), float(rtt[1])]
    return Run(*figures, emu["validity"], emu["lateness"]["p99_us"])


def row(
    name: str, runs: list[Run], predictions: list[Run], *, has_gate: bool, has_others: bool
) -> tuple[str, dict[str, bool]]:
    """A row of the table, and for each figure whether it reaches its goal."""
    cells, reached = [name], {}
    for figure, digits in (("goodput", 2), ("idle", 2), ("ping", 1), ("rtt", 1)):
        # With a gate the sender's round trip means nothing, and beside others no ping is idle.
        if (has_gate and figure == "rtt") or (has_others and figure == "idle"):
            cells += ["", "", ""]
            continue
        seen = [getattr(run, figure) for run in runs]
        mean, expected = (stats.mean([getattr(run, figure) for run in some]).value for some in (runs, predictions))
        off = mean - expected if figure == "idle" else mean / expected - 1
        reached[figure] = abs(off) <= GOALS[figure]
        told = f"{off:+.2f} ms" if figure == "idle" else f"{off:+.1%}"
        cells += [", ".join(f"{value:.{digits}f}" for value in seen), f"{expected:.{digits}f}"]
        cells.append(told if reached[figure] else f"**{told}**")
    cells.append(", ".join(f"{run.late_p99_us:.0f}" for run in runs))
    cells.append(", ".join(run.validity if run.validity == "valid" else f"**{run.validity}**" for run in runs))
    return f"| {' | '.join(cells)} |", reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--runs", type=int, default=2, metavar="N", help="runs of each scenario (default: 2)")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    arguments = parser.parse_args()
    begun = time.monotonic()
    print(
        "| scenario | goodput, Mbit/s: real | predicted | | idle ping, ms: real | predicted | "
        "| ping under load, ms: real | predicted | | round trip of TCP, ms: real | predicted | | late, 99 %, us | |\n"
        + "|---" * 15
        + "|"
    )
    rows, all_reached = [], []
    for name in arguments.only or SCENARIOS:
        has_gate = name.endswith("gate")
        scenario = behind_tun(SCENARIOS[name], has_gate=has_gate)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            runs = [real(scenario, seed, folder, has_gate=has_gate) for seed in range(1, arguments.runs + 1)]
            predictions = [predicted(scenario, seed, folder) for seed in (1, 2, 3)]
        text, reached = row(name, runs, predictions, has_gate=has_gate, has_others=len(scenario["flows"]) > 2)
        print(text, flush=True)
        all_reached.append(reached)
        rows.append({"scenario": name, "real": [*map(asdict, runs)], "predicted": [*map(asdict, predictions)]})
    for figure in GOALS:
        of = [reached[figure] for reached in all_reached if figure in reached]
        print(f"{figure}: {sum(of)} of {len(of)} within the goal")
    invalid = sum(run["validity"] == "invalid" for each in rows for run in each["real"])
    took, load = time.monotonic() - begun, os.getloadavg()[0]
    print(f"{invalid} runs invalid; {took:.0f} s; load {load:.1f}, Linux {os.uname().release}")
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
