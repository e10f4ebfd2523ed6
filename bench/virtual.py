"""Real kernels in virtual time beside the simulation: goodput and ping of ten scenarios, as a table.

Usage: virtual.py [--kernel VERSION|FILE] [--beside VERSION|FILE] [--only NAME ...] [--seeds N] [--out FILE]
       virtual.py --speed [--kernel VERSION|FILE]

Each scenario runs with N seeds (3 unless said). Figures are means with 95 % intervals; the difference is that of the
means. With --beside another kernel takes the place of the simulation: does 6.1 behave as 6.12 does?

A program on one host writes to TCP as fast as it may for 7.5 s, and a ping goes every 100 ms. Both hosts are Linux
kernels under `airtcp shell --virtual` (tools/uml/build.py makes one). The simulation has flows in their place. Goodput
and pings count from 2 s on. The simulated hosts get the interface of the guests, a virtio card: it merges what one
delivery brings, and it does not ask TCP small queues for more, as a radio's driver does (`tsq_pacing_shift` 10).

With --speed it measures how fast virtual time goes, of 2 and 10 kernels, of which pairs send over one line for 2 s.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from airtcp import _airtcp, stats

Json = dict[str, Any]
AIRTCP = Path(sys.executable).with_name("airtcp")

# The two programs: a sender for so many seconds, and a receiver that prints bits per second from 2 s on.
SEND = """import socket, sys, time
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[2].encode())
s.connect((socket.gethostbyname(sys.argv[1]), 5001))
end = time.monotonic() + 7.5
while time.monotonic() < end:
    s.sendall(bytes(65536))
"""
RECEIVE = """import socket, time
c, _ = socket.create_server(("", 5001)).accept()
came, total, begin = [], 0, None
while data := c.recv(1 << 20):
    now = time.monotonic()
    begin = begin or now
    total += len(data)
    if now - begin >= 2:
        came.append((now, total))
print("bps", (came[-1][1] - came[0][1]) * 8 / (came[-1][0] - came[0][0]))
"""

HOSTS = [
    {"name": name, "kind": "host", "profile": "linux-6", "receive_offload": "napi"} for name in ("laptop", "server")
]
TRANSMIT = {"name": "mac80211", "tsq_pacing_shift": 10}


def flows(sender: str, receiver: str, cc: str) -> list[Json]:
    ping = {"kind": "ping", "interval": "100ms"}
    return [
        {"name": "transfer", "from": sender, "to": receiver, "tcp": {"cc": cc}},
        {"name": "ping", "from": "laptop", "to": "server", "start": "2.05s", "traffic": ping},
    ]


def line(rate: str, delay: str, queue: Json, *, cc: str = "cubic", loss: float = 0.0) -> Json:
    one = {"name": "line", "from": "laptop", "to": "server", "rate": rate, "delay": delay, "queue": queue, "loss": loss}
    one["reverse"] = {"loss": 0.0}
    return {"nodes": HOSTS, "links": [one], "flows": flows("laptop", "server", cc)}


def wifi(snr: float, *, sender: str = "laptop", others: int = 0, cc: str = "cubic", radio: Json | None = None) -> Json:
    receiver = "server" if sender == "laptop" else "laptop"
    names = [f"other{i}" for i in range(others)]
    station = {"node": "laptop", "signal": {"kind": "snr", "snr_db": snr}, "radio": {"transmit": TRANSMIT}}
    stations = [station, *({"node": name, "signal": {"kind": "snr", "snr_db": 30}} for name in names)]
    return {
        "nodes": [
            *HOSTS,
            {"name": "ap", "kind": "router"},
            *({"name": name, "kind": "host", "profile": "linux-6"} for name in names),
        ],
        "links": [{"name": "wire", "from": "ap", "to": "server", "rate": "1Gbit/s", "delay": "5ms"}],
        "wlans": [
            {"name": "wlan", "ap": "ap", "stations": stations, "phy": {"standard": "n"}, "ap_radio": radio or {}}
        ],
        "flows": [*flows(sender, receiver, cc), *({"name": f"up-{n}", "from": n, "to": "server"} for n in names)],
    }


def fifo(packets: int) -> Json:
    return {"name": "fifo", "limit_packets": packets}


SCENARIOS: dict[str, Json] = {
    "line 20 Mbit/s, FIFO": line("20Mbit/s", "25ms", fifo(100)),
    "line 50 Mbit/s, FIFO": line("50Mbit/s", "10ms", fifo(200)),
    "line 20 Mbit/s, FQ-CoDel": line("20Mbit/s", "25ms", {"name": "fq_codel"}),
    "line 20 Mbit/s, Reno": line("20Mbit/s", "25ms", fifo(100), cc="reno"),
    "line 20 Mbit/s, BBR": line("20Mbit/s", "25ms", fifo(100), cc="bbr"),
    "802.11n up": wifi(35),
    "802.11n down": wifi(35, sender="server"),
    "802.11n up, BBR": wifi(35, cc="bbr"),
    "802.11n up beside two": wifi(30, others=2),
    "802.11n up, poor, retry-out": wifi(12, radio={"reorder_buffer": {"retry_out": "delay"}}),
}


def simulated(path: Path) -> tuple[float, float]:
    done = subprocess.run([AIRTCP, "run", path, "--json", "-q"], check=True, capture_output=True, text=True)
    groups = {group["group"]: group for group in json.loads(done.stdout)["groups"]}
    return groups["transfer"]["goodput_bps"] / 1e6, groups["ping"]["rtt_mean_ms"]


def real(path: Path, scenario: Json, kernel: str, folder: Path) -> tuple[float, float]:
    transfer = scenario["flows"][0]
    programs = {name: folder / f"{name}.py" for name in ("send", "receive")}
    programs["send"].write_text(SEND)
    programs["receive"].write_text(RECEIVE)
    cc = transfer["tcp"]["cc"]
    send = f"sleep 0.001; {sys.executable} {shlex.quote(str(programs['send']))} {transfer['to']} {cc}"
    command = [AIRTCP, "shell", path, "--virtual", "--kernel", kernel, "--for", "9s"]
    command += ["--on", f"{transfer['to']}={sys.executable} {shlex.quote(str(programs['receive']))}"]
    command += ["--on", f"{transfer['from']}={send}", "--on", "laptop=sleep 2.05; ping -4 -q -i 0.1 -c 54 server"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    goodput = re.search(r"bps ([\d.]+)", done.stdout)
    ping = re.search(r"min/avg/max/mdev = [\d.]+/([\d.]+)/", done.stdout)
    if done.returncode or not goodput or not ping:
        raise SystemExit(f"{path}, {cc}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return float(goodput[1]) / 1e6, float(ping[1])


def cell(kernel: list[tuple[float, float]], model: list[tuple[float, float]], column: int, digits: int) -> str:
    """Three cells of the table: the kernels' mean, the simulated one, and how far they are apart."""
    means = [stats.mean([run[column] for run in runs]) for runs in (kernel, model)]

    def told(mean: stats.Estimate) -> str:
        around = "" if mean.high is None else f" ± {mean.high - mean.value:.{digits}f}"
        return f"{mean.value:.{digits}f}{around}"

    return " | ".join([*map(told, means), f"{means[1].value / means[0].value - 1:+.1%}"])


def speed(kernel: str) -> None:
    """How much virtual time goes by in a second, by number of kernels and rate of the line that they share.

    Rate 0 stands for no traffic. A network has two kernels at least, since a real host needs another.
    """
    print("| kernels | line, Mbit/s | virtual seconds for each second | load of the machine |\n|---|---|---|---|")
    for kernels, rate in ((kernels, rate) for kernels in (2, 10) for rate in (0, 20, 100, 300)):
        pairs = kernels // 2
        hosts = [{"name": f"{side}{i}", "kind": "host"} for i in range(pairs) for side in "ab"]
        routers = [{"name": "left", "kind": "router"}, {"name": "right", "kind": "router"}]
        access = [
            {"from": f"{side}{i}", "to": "left" if side == "a" else "right", "rate": "1Gbit/s", "delay": "1ms"}
            for i in range(pairs)
            for side in "ab"
        ]
        middle: Json = {"from": "left", "to": "right", "rate": f"{rate or 100}Mbit/s", "delay": "10ms"}
        middle["queue"] = fifo(2 * (rate or 100))
        scenario: Json = {"duration": "3s", "nodes": [*hosts, *routers], "links": [*access, middle]}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "scenario.toml")
            path.write_text(_airtcp.Checked.from_json(json.dumps(scenario), "speed", []).to_toml())
            program, send = Path(folder, "receive.py"), Path(folder, "send.py")
            program.write_text(RECEIVE.replace("now - begin >= 2", "True"))
            send.write_text(SEND.replace("7.5", "2"))
            command: list[str | Path] = [AIRTCP, "shell", path, "--virtual", "--kernel", kernel, "--for", "3s"]
            for i in range(pairs):
                hear = f"{sys.executable} {shlex.quote(str(program))}" if rate else "sleep 2"
                say = f"{sys.executable} {shlex.quote(str(send))} b{i} cubic" if rate else "sleep 2"
                command += ["--on", f"b{i}={hear}", "--on", f"a{i}=sleep 0.001; {say}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        took = re.search(r"([\d.]+) s of virtual time in ([\d.]+) s", done.stderr)
        if done.returncode or not took:
            raise SystemExit(f"{kernels} kernels: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        each = float(took[1]) / float(took[2])
        print(f"| {kernels} | {rate or 'no traffic'} | {each:.2f} | {os.getloadavg()[0]:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="6.12", help="version that tools/uml/build.py has built, or a file")
    parser.add_argument("--beside", metavar="KERNEL", help="another kernel, in place of the simulation")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each scenario (default: 3)")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    parser.add_argument("--speed", action="store_true", help="measure how fast virtual time goes instead")
    arguments = parser.parse_args()
    if arguments.speed:
        return speed(arguments.kernel)
    rows = []
    one, other = ("kernel", "simulated") if arguments.beside is None else (arguments.kernel, arguments.beside)
    print(f"| scenario | goodput, Mbit/s: {one} | {other} | | ping, ms: {one} | {other} | |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.only or SCENARIOS:
        kernel, model = [], []
        for seed in range(1, arguments.seeds + 1):
            scenario = {"duration": "7.5s", "warmup": "2s", "seed": seed, **SCENARIOS[name]}
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "scenario.toml")
                path.write_text(_airtcp.Checked.from_json(json.dumps(scenario), name, []).to_toml())
                kernel.append(real(path, scenario, arguments.kernel, Path(folder)))
                if arguments.beside is None:
                    model.append(simulated(path))
                else:
                    model.append(real(path, scenario, arguments.beside, Path(folder)))
        cells = [cell(kernel, model, column, digits) for column, digits in ((0, 2), (1, 1))]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        rows.append({"scenario": name, one: kernel, other: model})
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
