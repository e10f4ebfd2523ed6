"""A real sender with TCP-AV on the walk of the study tcp-av-handover, beside the simulation: a table.

Usage: walk.py [--kernel VERSION|FILE] [--only NAME ...] [--runs N] [--seeds N] [--together] [--simulated] [--page]

Needs root, /dev/net/tun, a kernel that `airtcp host av` works on, and the binary of `make host`. A walk takes 45 s.
Time has to be kept: `chrt --rr 1` before the command, or a machine that does nothing else. With --together the
controls of a row walk at the same time, each in a network of its own; that takes a processor for each. With --page the
figures go to evidence/figures/, and the table to evidence/hosts.md. With --simulated the real runs of that file stay,
and only the simulated ones are made again.

The scene is that of the study's Figure 4 (experiment fig04-handover). A laptop walks from an access point with two
uploading laptops to one with six, and changes over in second 20. Under `airtcp shell` it is a namespace whose program
writes to TCP of this machine's kernel: plain Reno, plain CUBIC, or TCP-AV on Reno by `airtcp host av --target
12Mbit/s`, which hears of the handover by an address that comes. With `floor` a timeout keeps the window, and what it
lets leave waits for an ACK; otherwise new data leaves at once. Its receiver is a second wired host, and real too.
The others and their receiver are simulated, as in the study. Windows are at most 44 segments, or grow.

With --kernel both programs run in Linux guests in virtual time (tools/uml/build.py makes one), where nothing is late
and nothing else has to stand still. Guests have small queues and FQ-CoDel, and so has the simulated laptop then. They
have no BPF trampolines, so TCP-AV is left out. Figures and table are apart from those of this machine's kernel.

The simulation has flows in the place of both programs: of `linux-6`, without small queues, and hosts that read what
comes at once. Throughputs count until second 10, before the walk, and from second 22 to 40, after the handover. A
figure is *inside* if the mean of the real runs lies within the 95 % prediction interval for a mean of as many simulated
runs. A ratio is that of means, with a 95 % interval by the bootstrap over runs.
"""

from __future__ import annotations

import copy
import json
import math
import random
import shlex
import shutil
import tempfile
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import hosts
import numpy as np
import page
import polars as pl
import virtual

import airtcp

Json = dict[str, Any]

LAST_S, TARGET = 40.0, "12Mbit/s"
BEFORE_S, AFTER_S = (2.0, 10.0), (22.0, 40.0)
HANDOVER_S = 20.0
WINDOWS: dict[str, int | None] = {"44 segments": 44, "windows that grow": None}
"""What the receivers offer, segments. None: what their Linux lets grow."""

TCP_AV: Json = {"name": "tcp_av", "target": TARGET, "rtt_min": "path"}
CONTROLS: dict[str, tuple[Any, str]] = {
    "Reno": ("reno", "reno"),
    "CUBIC": (None, "cubic"),
    "TCP-AV": ({**TCP_AV, "after_timeout": "new_data"}, "airtcp_av"),
    "TCP-AV, floor": ({**TCP_AV, "after_timeout": "floor"}, "airtcp_av"),
}
"""Of scenarios (None: the profile's own), and of the kernel."""

FIGURES = {"before": "before", "after": "after", "rivals": "each of the six", "timeouts": "timeouts"}
"""What each is called. Throughputs are in Mbit/s."""

STUDY = page.ROOT / "studies/tcp-av-handover/walk.toml"
GROWN = 2172
"""The study's receiver with windows that grow, segments."""

# Writes until it is ended, and prints each second what it knows of its connection (TCP_INFO).
SEND = f"""{hosts.SENDING}begin = time.monotonic()
start, end = map(float, sys.argv[1:3])
time.sleep(start)
s = connected(socket.gethostbyname("peer"))
for _ in range(500):
    try:
        # Not before: where the profile's control is a property of the route, connecting sets it.
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[3].encode())
        break
    except FileNotFoundError:
        time.sleep(0.02)
s.setblocking(False)
look, rows = 1.0, []
while look <= end:
    write([s], begin + look)
    rows.append({{"at": time.monotonic() - begin, **known(s)}})
    look += 1
control = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(bytes(1)).decode()
print("walked", json.dumps({{"control": control, "rows": rows}}), flush=True)
"""


def scenario(window: int | None, control: str, seed: int, *, guests: bool = False) -> Json:
    """The walk, as it is simulated: with the queues of a kernel behind a TUN device, or with those of guests."""
    walk = copy.deepcopy(tomllib.loads(STUDY.read_text()))
    walk |= {"name": "hosts-walk", "seed": seed, "duration": f"{LAST_S}s"}
    offered = f"{(window or GROWN) * 1448}B"
    walk["profiles"]["receiver"] |= {"receive_buffer": offered, "receive_buffer_max": offered}
    like: Json = {"kind": "host", "profile": "linux-6", "receive_offload": "napi"}
    peer = {**like, "name": "peer"}
    if window is not None:
        walk["profiles"]["peer"] = {"base": "linux-6", "receive_buffer": offered, "receive_buffer_max": offered}
        peer["profile"] = "peer"
    walk["nodes"] = [{**node, **like} if node["name"] == "mobile" else node for node in walk["nodes"]]
    walk["nodes"].append(peer)
    wire = {"name": "wire3", "from": "switch", "to": "peer", "rate": "1Gbit/s", "delay": "0.05ms"}
    walk["links"].append(wire)
    cc, _ = CONTROLS[control]
    mobile = walk["flows"][-1]
    tsq = {} if guests else {"tsq": "off"}
    mobile |= {"to": "peer", "tcp": tsq | ({} if cc is None else {"cc": cc})}
    if guests:
        station = {"node": "mobile", "radio": {"transmit": virtual.TRANSMIT}}
        for wlan in walk["wlans"]:
            wlan["stations"] = [station if one == "mobile" else one for one in wlan["stations"]]
    return walk


def between(rows: list[tuple[float, float]], span: tuple[float, float]) -> float:
    """Mbit/s over a span, of readings of the bytes that have been acknowledged."""
    first, last = (min(rows, key=lambda row: abs(row[0] - at)) for at in span)
    return 8e-6 * (last[1] - first[1]) / (last[0] - first[0])


def rivals(results: airtcp.Results) -> float:
    """Mean throughput of the six at the second access point, after the handover."""
    flows = results.flows.filter(pl.col("group") == "bg2").select("flow")
    seen = results.flow_series.join(flows, on="flow", maintain_order="left").collect()
    each = [
        between(list(rows.select("time_s", "bytes_acked").iter_rows()), AFTER_S)
        for rows in seen.partition_by("flow", maintain_order=True)
    ]
    return math.fsum(each) / len(each)


def dropped(results: airtcp.Results) -> list[int]:
    """Packets that the handover took: of the station's queue, and of the access point's for it."""
    [one] = results.handovers.select("dropped_station", "dropped_ap").collect().rows()
    return [int(packets) for packets in one]


def simulated(window: int | None, control: str, seed: int, folder: Path, *, guests: bool = False) -> Json:
    """One simulated run."""
    results = airtcp.run(hosts.toml(scenario(window, control, seed, guests=guests), folder, "simulated"))
    flow = results.flows.filter(pl.col("group") == "mobile").select("flow", "timeouts").collect()
    seen = results.flow_series.join(flow.lazy().select("flow"), on="flow", maintain_order="left").collect()
    rows = list(seen.select("time_s", "bytes_acked").iter_rows())
    return {
        "before": between(rows, BEFORE_S),
        "after": between(rows, AFTER_S),
        "rivals": rivals(results),
        "timeouts": flow["timeouts"][0],
        "dropped": dropped(results),
    }


def measured(window: int | None, control: str, seed: int, folder: Path, image: str | None = None) -> Json:
    """One run of a real sender: of this machine's kernel, or of a guest's in virtual time."""
    folder = folder / control
    folder.mkdir(exist_ok=True)
    programs = hosts.programs(folder, send=SEND, receive=hosts.SINK)
    out = folder / "real"
    shutil.rmtree(out, ignore_errors=True)
    walk = scenario(window, control, seed, guests=image is not None)
    path = hosts.toml({**walk, "duration": f"{LAST_S + 5}s"}, folder, "real")
    begins, (_, kernel) = f"{random.Random(seed).uniform(0, 1):.3f}", CONTROLS[control]
    words: hosts.Words = [path, "--for", f"{LAST_S + 2}s", "--out", out, "--no-capture"]
    if image is not None:
        words += ["--virtual", "--kernel", image]
    words += hosts.on("peer", f"exec {programs['receive']}")
    words += hosts.on("mobile", f"exec {programs['send']} {begins} {LAST_S} {kernel}")
    if kernel == "airtcp_av":
        after: str = CONTROLS[control][0]["after_timeout"]
        daemon = [hosts.binary(), "av", "--target", TARGET, "--after-timeout", after]
        words += hosts.on("mobile", f"exec timeout {LAST_S + 1} {shlex.join(daemon)}")
        # The station is associated again 0.3 s after the handover.
        comes = "ip address add 198.51.100.1/32 dev wlan0"
        words += hosts.on("mobile", f"sleep {HANDOVER_S + 0.3}; {comes}; sleep 30")
    text, found = hosts.shell("a walk", words, codes=(0, hosts.INVALID), walked=r"walked (\{.*\})")
    walked = json.loads(found["walked"][0])
    if walked["control"] != kernel:
        raise SystemExit(f"the connection is on {walked['control']}, not on {kernel}\n{text}")
    if kernel == "airtcp_av" and "the path has changed" not in text:
        raise SystemExit(f"airtcp host av has not heard of the handover\n{text}")
    emu = json.loads((out / "emu.json").read_text())
    results = airtcp.Results.load(out)
    rows = [(row["at"], row["acked"]) for row in walked["rows"]]
    return {
        "before": between(rows, BEFORE_S),
        "after": between(rows, AFTER_S),
        "rivals": rivals(results),
        "timeouts": walked["rows"][-1]["timeouts"],
        "dropped": dropped(results),
        "most_offered": max(row["snd_wnd"] for row in walked["rows"]),
        "by_second": [round(8e-6 * (later[1] - row[1]), 3) for row, later in pairwise(rows)],
        "cwnd": [row["cwnd"] for row in walked["rows"]],
        "again": [row["again"] for row in walked["rows"]],
        "validity": emu["validity"],
        "late_p99_us": emu["lateness"]["p99_us"] if image is None else 0,
    }


def valid(measure: Callable[[], Json]) -> Json:
    """A run that airtcp calls valid, if one of a few is, with what it called those before."""
    given_up: list[str] = []
    return {**hosts.valid(measure, lambda run: str(run["validity"]), given_up), "given_up": given_up}


def ratio(over: list[float], under: list[float]) -> tuple[float, float, float]:
    """Of means, with a 95 % interval by the bootstrap over runs."""
    draw = np.random.default_rng(1)
    means = [draw.choice(values, (10_000, len(values))).mean(axis=1) for values in (over, under)]
    with np.errstate(divide="ignore"):
        low, high = np.percentile(means[0] / means[1], (2.5, 97.5), method="nearest")
    return math.fsum(over) / math.fsum(under), float(low), float(high)


def row(one: Json) -> tuple[str, int, int]:
    """A row of the table, and how many figures are inside of how many."""
    cells, inside = [one["window"], one["control"]], 0
    for figure in FIGURES:
        is_count = figure == "timeouts"
        digits = 1 if is_count else 2

        def told(seen: list[float], mean: float, digits: int = digits, *, is_count: bool = is_count) -> str:
            least, most = (f"{value:.{0 if is_count else 2}f}" for value in (min(seen), max(seen)))
            return f"{mean:.{digits}f} ({least} to {most})"

        two, is_inside = hosts.inside(one, figure, told, digits, at_least=0)
        cells += two
        inside += is_inside
    validity = [run["validity"] for run in one["real"]]
    if "virtual" not in validity:
        cells.append(f"{validity.count('valid')} of {len(validity)} valid")
    return f"| {' | '.join(cells)} |", inside, len(FIGURES)


def ratios(rows: list[Json]) -> list[str]:
    """Lines of the second table: TCP-AV over plain TCP, after the handover."""
    lines = ["", "| after the handover | real | simulated |", "|---|---|---|"]
    for window in WINDOWS:
        of = {one["control"]: one for one in rows if one["window"] == window}
        for plain in ("Reno", "CUBIC"):
            if "TCP-AV" not in of or plain not in of:
                continue
            cells = [f"TCP-AV over {plain}, {window}"]
            for which in ("real", "simulated"):
                over, under = ([run["after"] for run in of[name][which]] for name in ("TCP-AV", plain))
                value, low, high = ratio(over, under)
                # Where plain TCP may have got nothing at all, there is no upper end.
                cells.append(f"{value:.2f} ({low:.2f} {f'to {high:.2f}' if math.isfinite(high) else 'and more'})")
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def table(data: Json) -> str:
    """The tables, of their figures."""
    is_real = any(one["control"].startswith("TCP-AV") for one in data["rows"])
    which, last = ("real", " |") if is_real else ("kernel", "")
    head = " | ".join(f"{words}: {which} | simulated" for words in FIGURES.values())
    lines = [f"| | | {head} |{last}", "|---" * (2 * len(FIGURES) + (3 if is_real else 2)) + "|"]
    lines, end = hosts.counted(lines, data["rows"], row, ratios(data["rows"]) if is_real else None)
    return "\n".join([*lines, f"{end} {hosts.made_of(data)}"])


def main() -> None:
    parser = hosts.options(__doc__, "windows or controls", 6, 40)
    parser.add_argument("--together", action="store_true", help="let the controls walk at the same time")
    parser.add_argument("--kernel", metavar="VERSION|FILE", help="guests of this kernel in virtual time")
    arguments = parser.parse_args()
    image: str | None = arguments.kernel
    guests = image is not None
    known = [name for name in CONTROLS if not (guests and name.startswith("TCP-AV"))]
    only = hosts.chosen(arguments.only, [*WINDOWS, *known])
    windows = [name for name in WINDOWS if name in only] or [*WINDOWS]
    controls = [name for name in known if name in only] or known
    file, part = (GUESTS_FILE, GUESTS_PART) if guests else (FIGURES_FILE, PART)
    place = (file, PAGE, part) if arguments.page else None
    if arguments.simulated:

        def simulate(one: Json) -> list[Json]:
            with tempfile.TemporaryDirectory() as folder:
                seeds = range(1, len(one["simulated"]) + 1)
                window, control = WINDOWS[one["window"]], one["control"]
                return [simulated(window, control, seed, Path(folder), guests=guests) for seed in seeds]

        data = hosts.simulated_again(
            file,
            "; ".join(only),
            lambda one: one["window"] in windows and one["control"] in controls,
            simulate,
            lambda one: row(one)[0],
        )
        return hosts.finish(data, table(data), 8, place)
    rows: list[Json] = []
    for name in windows:
        window = WINDOWS[name]
        done: dict[str, list[Json]] = {control: [] for control in controls}
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for seed in range(1, arguments.runs + 1):
                with ThreadPoolExecutor(len(controls) if arguments.together else 1) as pool:
                    each = [partial(measured, window, control, seed, folder, image) for control in controls]
                    made = pool.map((lambda measure: measure()) if guests else valid, each)
                    for control, run in zip(controls, made, strict=True):
                        done[control].append(run)
            for control in controls:
                seeds = range(1, arguments.seeds + 1)
                simulations = [simulated(window, control, seed, folder, guests=guests) for seed in seeds]
                rows.append({"window": name, "control": control, "real": done[control], "simulated": simulations})
                print(row(rows[-1])[0], flush=True)
    data = {"machine": f"Linux {image} in virtual time" if guests else page.machine(), "rows": rows}
    return hosts.finish(data, table(data), 8, place)


PAGE, FIGURES_FILE = page.ROOT / "evidence/hosts.md", page.DATA / "hosts-walk.json"
PART = "a walk with a real sender"
GUESTS_FILE, GUESTS_PART = page.DATA / "hosts-walk-virtual.json", "a walk with a guest's kernel"

if __name__ == "__main__":
    main()
