"""Real kernels in virtual time beside the simulation: goodput and ping of ten scenarios, as a table.

Usage: virtual.py [--kernel VERSION|FILE] [--beside VERSION|FILE] [--only NAME ...] [--seeds N] [--page]
       virtual.py --simulated [--only NAME ...] [--page]
       virtual.py --speed [--kernel VERSION|FILE] [--page]

With --page the figures go to evidence/figures/, and the table to evidence/emulator.md.
Each scenario runs with N seeds (3 unless said), two of them with four times as many. Figures are means with 95 %
intervals; the difference is that of the means. With --beside another kernel takes the place of the simulation: does 6.1
behave as 6.12 does?

A program on one host writes to TCP as fast as it may for 7.5 s, and a ping goes every 100 ms. Both hosts are Linux
kernels under `airtcp shell --virtual` (tools/uml/build.py makes one). The simulation has flows in their place. Goodput
and pings count from 2 s on. The simulated hosts get the interface of the guests, a virtio card: it merges what one
delivery brings, and it does not ask TCP small queues for more, as a radio's driver does (`tsq_pacing_shift` 10).

With --speed it measures how fast virtual time goes, of 2 and 10 kernels, of which pairs send over one line for 2 s.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hosts
import page

from airtcp import stats

Json = dict[str, Any]
# The sender writes for so many seconds. The receiver says what it got from 2 s on.
SEND_S, FROM_S = 7.5, 2

GOODPUT, PING = 0.03, 0.05
"""How near both shall be, as parts."""

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


BY_CHANCE, MORE = ("802.11n down", "802.11n up beside two"), 4
"""Rows in which chance decides more than in others, and how many times as many seeds they take."""


def simulated(path: Path) -> tuple[float, float]:
    done = subprocess.run([hosts.AIRTCP, "run", path, "--json", "-q"], check=True, capture_output=True, text=True)
    groups = {group["group"]: group for group in json.loads(done.stdout)["groups"]}
    return groups["transfer"]["goodput_bps"] / 1e6, groups["ping"]["rtt_mean_ms"]


def real(path: Path, scenario: Json, kernel: str, folder: Path) -> tuple[float, float]:
    transfer = scenario["flows"][0]
    programs = hosts.programs(folder, send=hosts.BLOCKING, receive=hosts.RATE)
    cc = transfer["tcp"]["cc"]
    words: hosts.Words = [path, "--virtual", "--kernel", kernel, "--for", "9s"]
    words += hosts.on(transfer["to"], f"{programs['receive']} {FROM_S}")
    words += hosts.on(transfer["from"], f"sleep 0.001; {programs['send']} {transfer['to']} {cc} {SEND_S}")
    words += hosts.on("laptop", "sleep 2.05; ping -4 -q -i 0.1 -c 54 server")
    _, found = hosts.shell(f"{path}, {cc}", words, goodput=r"bps ([\d.]+)", ping=hosts.PING_MEAN)
    return float(found["goodput"][0]) / 1e6, float(found["ping"][0])


def cell(kernel: list[tuple[float, float]], model: list[tuple[float, float]], column: int, digits: int) -> str:
    """Three cells of the table: the kernels' mean, the simulated one, and how far they are apart."""
    means = [stats.mean([run[column] for run in runs]) for runs in (kernel, model)]

    def told(mean: stats.Estimate) -> str:
        around = "" if mean.high is None else f" ± {mean.high - mean.value:.{digits}f}"
        return f"{mean.value:.{digits}f}{around}"

    return " | ".join([*map(told, means), f"{means[1].value / means[0].value - 1:+.1%}"])


def speed(kernel: str) -> Json:
    """How much virtual time goes by in a second, by number of kernels and rate of the line that they share.

    Rate 0 stands for no traffic. A network has two kernels at least, since a real host needs another.
    """
    rows: list[Json] = []
    for kernels, rate in ((kernels, rate) for kernels in (2, 10) for rate in (0, 20, 100, 300)):
        pairs = kernels // 2
        ends = [{"name": f"{side}{i}", "kind": "host"} for i in range(pairs) for side in "ab"]
        routers = [{"name": "left", "kind": "router"}, {"name": "right", "kind": "router"}]
        access = [
            {"from": f"{side}{i}", "to": "left" if side == "a" else "right", "rate": "1Gbit/s", "delay": "1ms"}
            for i in range(pairs)
            for side in "ab"
        ]
        middle: Json = {"from": "left", "to": "right", "rate": f"{rate or 100}Mbit/s", "delay": "10ms"}
        middle["queue"] = fifo(2 * (rate or 100))
        scenario: Json = {"duration": "3s", "nodes": [*ends, *routers], "links": [*access, middle]}
        with tempfile.TemporaryDirectory() as folder:
            path = hosts.toml(scenario, Path(folder), "speed")
            programs = hosts.programs(Path(folder), send=hosts.BLOCKING, receive=hosts.RATE)
            command: hosts.Words = [hosts.AIRTCP, "shell", path, "--virtual", "--kernel", kernel, "--for", "3s"]
            for i in range(pairs):
                hear = f"{programs['receive']} 0" if rate else "sleep 2"
                say = f"{programs['send']} b{i} cubic 2" if rate else "sleep 2"
                command += [*hosts.on(f"b{i}", hear), *hosts.on(f"a{i}", f"sleep 0.001; {say}")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        took = re.search(r"([\d.]+) s of virtual time in ([\d.]+) s", done.stderr)
        if done.returncode or not took:
            raise SystemExit(f"{kernels} kernels: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        rows.append({"kernels": kernels, "rate": rate, "virtual_s": float(took[1]), "s": float(took[2])})
        print(rows[-1], flush=True)
    return {"machine": page.machine(), "kernel": kernel, "rows": rows}


def speed_table(data: Json) -> str:
    """The table of `--speed`, of its figures."""
    rates = sorted({row["rate"] for row in data["rows"]})
    head = " | ".join(f"{rate} Mbit/s" if rate else "no traffic" for rate in rates)
    lines = [f"| kernels | {head} |", "|---" * (len(rates) + 1) + "|"]
    for kernels in sorted({row["kernels"] for row in data["rows"]}):
        each = {row["rate"]: row["virtual_s"] / row["s"] for row in data["rows"] if row["kernels"] == kernels}
        lines.append(f"| {kernels} | {' | '.join(f'{each[rate]:.2f}' for rate in rates)} |")
    return "\n".join([*lines, "", f"Linux {data['kernel']} in the guests; {data['machine']}."])


def table(data: Json) -> str:
    """The table of kernels beside what they are compared with, of its figures."""
    one, other = data["one"], data["other"]
    lines = [
        f"| scenario | goodput, Mbit/s: {one} | {other} | | ping, ms: {one} | {other} | |",
        "|---" * 7 + "|",
    ]
    close = 0
    for row in data["rows"]:
        lines.append(table_row(row))
        off = [away(row, column) for column in (0, 1)]
        close += abs(off[0]) <= GOODPUT and abs(off[1]) <= PING
    seeds = sorted({len(row[which]) for row in data["rows"] for which in ("left", "right")})
    of = f"{len(data['rows'])} rows, of {' or '.join(map(str, seeds))} seeds each,"
    end = f"{close} of {of} agree within 3 % of the goodput and 5 % of the ping."
    return "\n".join([*lines, "", end])


def away(row: Json, column: int) -> float:
    left, right = (stats.mean([run[column] for run in row[which]]).value for which in ("left", "right"))
    return right / left - 1


def table_row(row: Json) -> str:
    cells = [cell(row["left"], row["right"], column, digits) for column, digits in ((0, 2), (1, 1))]
    return f"| {row['scenario']} | {' | '.join(cells)} |"


def scenario_of(name: str, seed: int) -> Json:
    return {"duration": "7.5s", "warmup": "2s", "seed": seed, **SCENARIOS[name]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="6.12", help="version that tools/uml/build.py has built, or a file")
    parser.add_argument("--beside", metavar="KERNEL", help="another kernel, in place of the simulation")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each scenario (default: 3)")
    parser.add_argument("--page", action="store_true", help="put figures and table where the documentation has them")
    parser.add_argument("--speed", action="store_true", help="measure how fast virtual time goes instead")
    parser.add_argument("--simulated", action="store_true", help=hosts.SIMULATED)
    arguments = parser.parse_args()
    names = arguments.only or [*SCENARIOS]
    if arguments.simulated:

        def simulate(row: Json) -> list[tuple[float, float]]:
            found = []
            for seed in range(1, len(row["right"]) + 1):
                with tempfile.TemporaryDirectory() as folder:
                    found.append(simulated(hosts.toml(scenario_of(row["scenario"], seed), Path(folder), "scenario")))
            return found

        file, _ = PARTS[BESIDE]
        data = hosts.simulated_again(
            file, "; ".join(names), lambda row: row["scenario"] in names, simulate, table_row, key="right"
        )
        return keep(BESIDE, data, arguments.page)
    if arguments.speed:
        return keep("speed of virtual time", speed(arguments.kernel), arguments.page)
    one, other = ("kernel", "simulated") if arguments.beside is None else (arguments.kernel, arguments.beside)
    rows: list[Json] = []
    for name in names:
        row: Json = {"scenario": name, "left": [], "right": []}
        for seed in range(1, arguments.seeds * (MORE if name in BY_CHANCE else 1) + 1):
            scenario = scenario_of(name, seed)
            with tempfile.TemporaryDirectory() as folder:
                path = hosts.toml(scenario, Path(folder), "scenario")
                row["left"].append(real(path, scenario, arguments.kernel, Path(folder)))
                if arguments.beside is None:
                    row["right"].append(simulated(path))
                else:
                    row["right"].append(real(path, scenario, arguments.beside, Path(folder)))
        rows.append(row)
        print(table_row(row), flush=True)
    what = BESIDE if arguments.beside is None else "kernels beside each other"
    return keep(what, {"one": one, "other": other, "rows": rows}, arguments.page)


def keep(name: str, data: Json, has_page: bool) -> None:
    """Prints a table, and puts it and its figures where the documentation has them."""
    path, table_of = PARTS[name]
    print(table_of(data))
    if has_page:
        path.write_text(json.dumps(data, indent=1) + "\n")
        PAGE.write_text(page.with_part(PAGE.read_text(), name, table_of(data)))


PAGE = page.ROOT / "evidence/emulator.md"
BESIDE = "kernels beside the simulation"
PARTS: dict[str, tuple[Path, Callable[[Json], str]]] = {
    BESIDE: (page.DATA / "virtual.json", table),
    "kernels beside each other": (page.DATA / "virtual-kernels.json", table),
    "speed of virtual time": (page.DATA / "virtual-speed.json", speed_table),
}


if __name__ == "__main__":
    main()
