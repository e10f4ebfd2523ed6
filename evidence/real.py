"""Real programs in real time beside the prediction: goodput, pings and round trips of twelve scenarios, as a table.

Usage: real.py [--only NAME ...] [--runs N] [--simulated] [--page]
       real.py --cost [--only NAME ...] [--runs N] [--page]

Needs root or user namespaces, /dev/net/tun, `ping`, and a machine that does nothing else: about eight minutes with two
runs each. Two rows, in which chance decides much, have more runs and predictions. With --page the figures go to
evidence/figures/, and the table to evidence/emulator.md; with --simulated only predictions are made again. Under
`airtcp shell` a program on one host writes to TCP of this machine's kernel for 10 s. A ping goes every 50 ms, for a
second before that, and from 2 s after it has begun. Goodput, round trips and pings under load count from then on.

The prediction is the simulation of flows in their place: without TCP small queues, which TUN ends. Its hosts read and
acknowledge once what comes at once (`receive_offload = "napi"`): the packets of an A-MPDU are in the kernel before the
program that reads them has woken. Its figures are means of three seeds or more. The row with a gate is simulated with
small queues. The sender's own round trip means nothing there. Goals: goodput within 3 %, idle ping within 0.3 ms, the
others within 10 %. What misses its goal is marked. A run that airtcp does not call valid is made again, up to three
times; if the last one is not valid either, it is shown and marked.

With --cost it measures what keeping time takes, and how well it is kept: a transfer of 10 s over fast lines, over
802.11n with 300 Mbit/s in the air, beside nine simulated uploaders, and nothing at all beside these. Goals: of the
line of 100 Mbit/s a median lateness of 10 us and 200 us for 99 %, of 802.11n at 300 Mbit/s less than 45 % of a
processor, of the cell in which nothing real is sent less than 5 %, and every run valid.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import hosts
import page
import virtual

from airtcp import stats

Json = dict[str, Any]
Measured = TypeVar("Measured")

# A sender for ten seconds that prints its mean smoothed round trip (tcpi_rtt of TCP_INFO) from 2 s on.
SEND = f"""{hosts.SENDING}s = connected(socket.gethostbyname(sys.argv[1]))
# Not before: where the profile's control is a property of the route, connecting sets it.
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[2].encode())
s.setblocking(False)
begin, look, rtts = time.monotonic(), 2.0, []
while time.monotonic() - begin < 10:
    write([s], begin + min(look, 10))
    if time.monotonic() - begin >= look:
        rtts.append(known(s)["srtt_us"] / 1000)
        look = max(look + 0.01, time.monotonic() - begin)
print("rtt", sum(rtts) / len(rtts))
# Of this host's own network: which of HyStart's two rules has ended slow start, and at which window.
keys, values = (line.split() for line in open("/proc/self/net/netstat") if line.startswith("TcpExt:"))
print("hystart", *(dict(zip(keys, values)).get("TCPHystart" + rule + "Cwnd", 0) for rule in ("Train", "Delay")))
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
    train_cwnd: int = 0
    """Segments in the window when HyStart's ACK train ended slow start; 0: it did not."""
    delay_cwnd: int = 0
    """The same of its rule of delay."""


PAGE = page.ROOT / "evidence/emulator.md"
REAL, COST = (page.DATA / name for name in ("real.json", "real-cost.json"))

COSTS: dict[str, tuple[list[str], str | None]] = {
    "line 100 Mbit/s": (["--line", "100Mbit/s,10ms,fifo=200"], "laptop"),
    "line 1 Gbit/s": (["--line", "1Gbit/s,10ms,fifo=2000"], "laptop"),
    "802.11n, 300 Mbit/s in the air, up": (["--wifi", "n,snr=45,streams=2,width=40"], "laptop"),
    "802.11n, 300 Mbit/s in the air, down": (["--wifi", "n,snr=45,streams=2,width=40"], "server"),
    "802.11n up beside nine uploaders": (["--wifi", "n,snr=25,others=9"], "laptop"),
    "nine uploaders, nothing real": (["--wifi", "n,snr=25,others=9"], None),
}
"""The network, and who sends: nobody if there is none."""

COST_GOALS: dict[str, dict[str, float]] = {
    "line 100 Mbit/s": {"p50_us": 10, "p99_us": 200},
    "802.11n, 300 Mbit/s in the air, up": {"busy": 0.45},
    "802.11n, 300 Mbit/s in the air, down": {"busy": 0.45},
    "nine uploaders, nothing real": {"busy": 0.05},
}

BY_CHANCE = {"802.11n down": (2, 10), "802.11n up beside two": (4, 20)}
"""Rows in which chance decides more than in others: how many times as many runs and predictions they take."""

FEW = 3
"""More figures than these are told as their mean and its 95 % interval, or as the largest."""

GOALS = {"goodput": 0.03, "idle": 0.3, "ping": 0.1, "rtt": 0.1}
"""Of the idle ping in ms, of the others a part."""


def behind_tun(scenario: Json, *, has_gate: bool) -> Json:
    """The scenario with hosts as they are behind TUN."""
    again = copy.deepcopy(scenario)
    for node in again["nodes"]:
        if node.get("profile"):
            node["receive_offload"] = "napi"
    for wlan in again.get("wlans", []):
        for station in wlan["stations"]:
            station.pop("radio", None)
    if not has_gate:
        again["flows"][0]["tcp"]["tsq"] = "off"
    return again


def simulate(scenario: Json, folder: Path) -> dict[str, Json]:
    done = subprocess.run(
        [hosts.AIRTCP, "run", hosts.toml(scenario, folder, "simulated"), "--json", "-q"],
        check=True,
        capture_output=True,
        text=True,
    )
    return {group["group"]: group for group in json.loads(done.stdout)["groups"]}


def predicted(scenario: Json, seed: int) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        return predicted_in(Path(folder), scenario, seed)


def predicted_in(folder: Path, scenario: Json, seed: int) -> Run:
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
    programs = hosts.programs(folder, send=SEND, receive=hosts.RATE)
    out = folder / "real"
    shutil.rmtree(out, ignore_errors=True)
    path = hosts.toml({**scenario, "seed": seed, "duration": "14s"}, folder, "real")
    before, beside = int((STARTS_S - IDLE_FROM_S - 0.2) / 0.05), int((LAST_S - WARMUP_S - 0.2) / 0.05)
    pings = (
        f"sleep {IDLE_FROM_S}; ping -4 -q -i 0.05 -c {before} server; sleep {WARMUP_S + 0.3}; "
        f"echo loaded; ping -4 -q -i 0.05 -c {beside} server"
    )
    words: hosts.Words = [
        path,
        "--for",
        "20s",
        "--out",
        out,
        "--no-capture",
        *(["--gate", "laptop"] if has_gate else []),
    ]
    words += hosts.on(transfer["to"], f"exec {programs['receive']} {WARMUP_S}")
    send = f"exec {programs['send']} {transfer['to']} {transfer['tcp']['cc']}"
    words += hosts.on(transfer["from"], f"sleep {STARTS_S}; {send}")
    words += hosts.on("laptop", pings)
    text, found = hosts.shell(
        str(path),
        words,
        codes=(0, hosts.INVALID),
        goodput=r"bps ([\d.]+)",
        rtt=r"rtt ([\d.]+)\n",
        means=hosts.PING_MEAN,
    )
    if len(found["means"]) != 2:
        raise SystemExit(f"{path}: {len(found['means'])} of 2 pings said what they saw\n{text}")
    emu = json.loads((out / "emu.json").read_text())
    figures = [float(found["goodput"][0]) / 1e6, *map(float, found["means"]), float(found["rtt"][0])]
    hystart = re.search(r"hystart (\d+) (\d+)", text)
    ends = [int(cwnd) for cwnd in hystart.groups()] if hystart else [0, 0]
    return Run(*figures, emu["validity"], emu["lateness"]["p99_us"], *ends)


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
        cells += [several(seen, digits), several([getattr(run, figure) for run in predictions], digits, is_mean=True)]
        cells.append(told if reached[figure] else f"**{told}**")
    cells.append(several([run.late_p99_us for run in runs], 0, is_most=True))
    validities = [run.validity if run.validity == "valid" else f"**{run.validity}**" for run in runs]
    if len(runs) <= FEW:
        cells.append(", ".join(validities))
    else:
        cells.append(", ".join(f"{count} {each}" for each, count in Counter(validities).items()))
    return f"| {' | '.join(cells)} |", reached


def several(figures: list[float], digits: int, *, is_mean: bool = False, is_most: bool = False) -> str:
    if len(figures) <= FEW:
        each = [stats.mean(figures).value] if is_mean else figures
        return ", ".join(f"{figure:.{digits}f}" for figure in each)
    if is_most:
        return f"at most {max(figures):.{digits}f}"
    mean = stats.mean(figures)
    around = "" if mean.high is None else f" ± {mean.high - mean.value:.{digits}f}"
    return f"{mean.value:.{digits}f}{around}"


def cost(name: str, folder: Path) -> Json:
    """One run of a row of [`COSTS`]: how late packets came, and what the driver used of a processor."""
    network, sender = COSTS[name]
    out = folder / "real"
    shutil.rmtree(out, ignore_errors=True)
    words: hosts.Words = [*network, "--out", out, "--no-capture"]
    wanted = {}
    if sender is None:
        words += ["laptop", "--", "sleep", str(LAST_S)]
    else:
        receiver = "server" if sender == "laptop" else "laptop"
        programs = hosts.programs(folder, send=SEND, receive=hosts.RATE)
        words += [*hosts.on(receiver, f"exec {programs['receive']} {WARMUP_S}"), "--for", "20s"]
        words += hosts.on(sender, f"exec {programs['send']} {receiver} cubic")
        wanted["goodput"] = r"bps ([\d.]+)"
    _, found = hosts.shell(name, words, codes=(0, hosts.INVALID), **wanted)
    emu = json.loads((out / "emu.json").read_text())
    late = emu["lateness"]
    return {
        "goodput": float(found["goodput"][0]) / 1e6 if "goodput" in found else None,
        "p50_us": late["p50_us"],
        "p99_us": late["p99_us"],
        "max_us": late["max_us"],
        # All of its time counts for the transfer, which took so long.
        "busy": emu["driver"]["busy_s"] / LAST_S,
        "lost": sum(host["lost_in_device"] for host in emu["hosts"].values()),
        "validity": emu["validity"],
        "reasons": emu["reasons"],
    }


def cost_row(name: str, runs: list[Json]) -> tuple[str, int, int]:
    """A row of the table, and how many figures reach their goals of how many."""

    def told(key: str, text: Callable[[Any], str]) -> str:
        goal = COST_GOALS.get(name, {}).get(key)
        each = [text(run[key]) for run in runs if run[key] is not None]
        missed = [goal is not None and run[key] > goal for run in runs]
        return ", ".join(f"**{one}**" if is_missed else one for one, is_missed in zip(each, missed, strict=False))

    def number(value: float) -> str:
        return f"{value:.0f}"

    cells = [
        name,
        told("goodput", lambda value: f"{value:.1f}"),
        *(told(key, number) for key in ("p50_us", "p99_us", "max_us")),
        told("busy", lambda value: f"{value:.0%}"),
        ", ".join(run["validity"] if run["validity"] == "valid" else f"**{run['validity']}**" for run in runs),
    ]
    goals = [run[key] <= goal for run in runs for key, goal in COST_GOALS.get(name, {}).items()]
    goals += [run["validity"] == "valid" for run in runs]
    return f"| {' | '.join(cells)} |", sum(goals), len(goals)


def cost_table(data: Json) -> str:
    """The table of `--cost`, of its figures."""
    lines = ["| network | goodput, Mbit/s | late, us: median | 99 % | most | of a processor | |", "|---" * 7 + "|"]
    reached = of = 0
    for row in data["rows"]:
        text, good, goals = cost_row(row["network"], row["real"])
        lines.append(text)
        reached, of = reached + good, of + goals
    again = sum(len(row.get("given_up", [])) for row in data["rows"])
    end = f"{reached} of {of} goals are reached; {again} runs were made again ({data['machine']})."
    return "\n".join([*lines, "", end])


def table(data: Json) -> str:
    """The table of programs beside their prediction, of its figures."""
    lines = [
        "| scenario | goodput, Mbit/s: real | predicted | | idle ping, ms: real | predicted | "
        "| ping under load, ms: real | predicted | | round trip of TCP, ms: real | predicted | | late, 99 %, us | |",
        "|---" * 15 + "|",
    ]
    all_reached = []
    for each in data["rows"]:
        text, reached = beside(each)
        lines.append(text)
        all_reached.append(reached)
    told = []
    for figure in GOALS:
        of = [reached[figure] for reached in all_reached if figure in reached]
        told.append(f"{figure} {sum(of)} of {len(of)}")
    invalid = sum(run["validity"] == "invalid" for each in data["rows"] for run in each["real"])
    of = sum(len(each["real"]) for each in data["rows"])
    again = sum(len(each.get("given_up", [])) for each in data["rows"])
    end = f"Within their goals: {', '.join(told)}. Runs that are invalid: {invalid} of {of}"
    end += f"; {again} more were made again because time was not kept ({data['machine']})."
    return "\n".join([*lines, "", end])


def costs(names: list[str], runs: int, kept: Path | None) -> Json:
    """Measures the rows of `--cost`."""
    rows: list[Json] = []
    for name in names:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            again: list[str] = []
            made = [hosts.valid(partial(cost, name, folder), lambda run: run["validity"], again) for _ in range(runs)]
        rows.append({"network": name, "real": made, "given_up": again})
        print(cost_row(name, rows[-1]["real"])[0], flush=True)
        keep(rows, kept)
    return {"machine": page.machine(), "rows": rows}


def all_beside(names: list[str], runs: int, kept: Path | None) -> Json:
    """Measures and predicts scenarios."""
    rows: list[Json] = []
    for name in names:
        about = {"has_gate": name.endswith("gate"), "has_others": len(SCENARIOS[name]["flows"]) > 2}
        scenario = behind_tun(SCENARIOS[name], has_gate=about["has_gate"])
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            measure = partial(real, scenario, folder=folder, has_gate=about["has_gate"])
            more_runs, more_seeds = BY_CHANCE.get(name, (1, 1))
            seeds = range(1, runs * more_runs + 1)
            again: list[str] = []
            done = [hosts.valid(partial(measure, seed), lambda run: run.validity, again) for seed in seeds]
            with ThreadPoolExecutor(os.cpu_count()) as at_once:
                predictions = [*at_once.map(partial(predicted, scenario), range(1, 3 * more_seeds + 1))]
        print(row(name, done, predictions, **about)[0], flush=True)
        each = {"real": [*map(asdict, done)], "predicted": [*map(asdict, predictions)], "given_up": again}
        rows.append({"scenario": name, **about, **each})
        keep(rows, kept)
    return {"machine": page.machine(), "rows": rows}


def predicted_again(names: list[str]) -> Json:
    """The figures of the page, with predictions of this engine."""

    def predict(each: Json) -> list[Json]:
        scenario = behind_tun(SCENARIOS[each["scenario"]], has_gate=each["has_gate"])
        with ThreadPoolExecutor(os.cpu_count()) as at_once:
            seeds = range(1, len(each["predicted"]) + 1)
            return [asdict(run) for run in at_once.map(partial(predicted, scenario), seeds)]

    return hosts.simulated_again(
        REAL,
        "; ".join(names),
        lambda each: each["scenario"] in names,
        predict,
        lambda each: beside(each)[0],
        key="predicted",
    )


def beside(each: Json) -> tuple[str, dict[str, bool]]:
    """A row of the table, of its figures, and which of its goals are reached."""
    runs, predictions = ([Run(**run) for run in each[which]] for which in ("real", "predicted"))
    return row(each["scenario"], runs, predictions, has_gate=each["has_gate"], has_others=each["has_others"])


def keep(rows: list[Json], path: Path | None) -> None:
    if path is not None:
        path.write_text(json.dumps({"machine": page.machine(), "rows": rows}, indent=1) + "\n")


def main() -> None:
    parser = hosts.options(__doc__, "rows of the table", 2)
    parser.add_argument("--cost", action="store_true", help="measure lateness and processor time instead")
    parser.add_argument("--json", type=Path, metavar="FILE", help="put the figures there, row by row")
    arguments = parser.parse_args()
    names = hosts.chosen(arguments.only, COSTS if arguments.cost else SCENARIOS)
    if arguments.simulated and arguments.cost:
        parser.error("--simulated: nothing of --cost is simulated")
    if arguments.simulated:
        data = predicted_again(names)
    else:
        data = (costs if arguments.cost else all_beside)(names, arguments.runs, arguments.json)
    text = cost_table(data) if arguments.cost else table(data)
    place = (COST, PAGE, "cost of time") if arguments.cost else (REAL, PAGE, "real beside simulated")
    hosts.finish(data, text, 1, place if arguments.page else None)


if __name__ == "__main__":
    main()
