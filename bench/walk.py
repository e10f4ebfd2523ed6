"""A real sender with TCP-AV on the walk of the study tcp-av-handover, beside the simulation: a table.

Usage: walk.py [--only NAME ...] [--runs N] [--seeds N] [--together] [--page]

Needs root, /dev/net/tun, a kernel that `airtcp host av` works on, and the binary of `make host`. With six runs it takes
about ten minutes. Time has to be kept: `chrt --rr 1` before the command, or a machine that does nothing else. With
--together the three controls of a row walk at the same time, each in a network of its own. With --page the figures go
to docs/validation/, and the table to docs/hosts.md.

The scene is that of the study's Figure 4 (experiment fig04-handover). A laptop walks from an access point with two
uploading laptops to one with six, and changes over in second 20. Under `airtcp shell` it is a namespace whose program
writes to TCP of this machine's kernel: plain Reno, plain CUBIC, or TCP-AV on Reno by `airtcp host av --target
12Mbit/s`, which hears of the handover by an address that comes. Its receiver is a second wired host, and real too.
The others and their receiver are simulated, as in the study. Windows are at most 44 segments, or grow.

The simulation has flows in the place of both programs: of `linux-6`, without small queues, and hosts that read what
comes at once. Throughputs count until second 10, before the walk, and from second 22 to 40, after the handover. A
figure is *inside* if the mean of the real runs lies within the 95 % prediction interval for a mean of as many simulated
runs. A ratio is that of means, with a 95 % interval by the bootstrap over runs.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import coop
import numpy as np
import page
import polars as pl
import real
import virtual

import airtcp

Json = dict[str, Any]

LAST_S, TARGET = 40.0, "12Mbit/s"
BEFORE_S, AFTER_S = (2.0, 10.0), (22.0, 40.0)
HANDOVER_S = 20.0
WINDOWS: dict[str, int | None] = {"44 segments": 44, "windows that grow": None}
"""What the receivers offer, segments. None: what their Linux lets grow."""

CONTROLS: dict[str, tuple[Any, str]] = {
    "Reno": ("reno", "reno"),
    "CUBIC": (None, "cubic"),
    "TCP-AV": ({"name": "tcp_av", "target": TARGET, "rtt_min": "path"}, "airtcp_av"),
}
"""Of scenarios (None: the profile's own), and of the kernel."""

FIGURES = {"before": "before", "after": "after", "rivals": "each of the six", "timeouts": "timeouts"}
"""What each is called. Throughputs are in Mbit/s."""

STUDY = page.ROOT / "studies/tcp-av-handover/walk.toml"
GROWN = 2172
"""The study's receiver with windows that grow, segments."""

# Writes until it is ended, and prints each second what it knows of its connection (TCP_INFO).
SEND = """import json, select, socket, struct, sys, time
begin = time.monotonic()
start, end = map(float, sys.argv[1:3])
time.sleep(start)
s = socket.socket()
s.connect((socket.gethostbyname("peer"), 5001))
for _ in range(500):
    try:
        # Not before: where the profile's control is a property of the route, connecting sets it.
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[3].encode())
        break
    except FileNotFoundError:
        time.sleep(0.02)
s.setblocking(False)
look, rows, data = 1.0, [], bytes(65536)
while look <= end:
    now = time.monotonic() - begin
    select.select([], [s], [], max(look - now, 0.001))
    try:
        while s.send(data):
            if time.monotonic() - begin >= look:
                break
    except BlockingIOError:
        pass
    if (now := time.monotonic() - begin) >= look:
        info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        of = lambda kind, at: struct.unpack_from("<" + kind, info, at)[0]
        rows.append({"at": now, "acked": of("Q", 120), "cwnd": of("I", 80), "again": of("I", 100),
            "srtt_ms": of("I", 68) / 1000, "snd_wnd": of("I", 228), "timeouts": of("H", 240)})
        look += 1
control = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(bytes(1)).decode()
print("walked", json.dumps({"control": control, "rows": rows}), flush=True)
"""

RECEIVE = """import socket
c, _ = socket.create_server(("", 5001)).accept()
while c.recv(1 << 20):
    pass
"""


def scenario(window: int | None, control: str, seed: int) -> Json:
    """The walk, as it is simulated."""
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
    mobile |= {"to": "peer", "tcp": {"tsq": "off"} | ({} if cc is None else {"cc": cc})}
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


def simulated(window: int | None, control: str, seed: int, folder: Path) -> Json:
    """One simulated run."""
    results = airtcp.run(real.toml(scenario(window, control, seed), folder, "simulated"))
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


def measured(window: int | None, control: str, seed: int, folder: Path) -> Json:
    """One run of a real sender."""
    folder = folder / control
    folder.mkdir(exist_ok=True)
    programs = {name: folder / f"{name}.py" for name in ("send", "receive")}
    programs["send"].write_text(SEND)
    programs["receive"].write_text(RECEIVE)
    send, receive = (f"exec {sys.executable} {shlex.quote(str(programs[name]))}" for name in ("send", "receive"))
    out = folder / "real"
    shutil.rmtree(out, ignore_errors=True)
    path = real.toml({**scenario(window, control, seed), "duration": f"{LAST_S + 5}s"}, folder, "real")
    begins, (_, kernel) = f"{random.Random(seed).uniform(0, 1):.3f}", CONTROLS[control]
    command: list[str | Path] = [virtual.AIRTCP, "shell", path, "--for", f"{LAST_S + 2}s", "--out", out]
    command += ["--no-capture", "--on", f"peer={receive}", "--on", f"mobile={send} {begins} {LAST_S} {kernel}"]
    if kernel == "airtcp_av":
        words = [coop.binary(), "av", "--target", TARGET]
        command += ["--on", f"mobile=exec timeout {LAST_S + 1} {shlex.join(words)}"]
        # The station is associated again 0.3 s after the handover.
        command += ["--on", f"mobile=sleep {HANDOVER_S + 0.3}; ip address add 198.51.100.1/32 dev wlan0; sleep 30"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"walked (\{.*\})", done.stdout)
    if done.returncode not in (0, 3) or found is None:
        raise SystemExit(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
    walked = json.loads(found[1])
    if walked["control"] != kernel:
        raise SystemExit(f"the connection is on {walked['control']}, not on {kernel}\n{done.stdout}")
    if kernel == "airtcp_av" and "the path has changed" not in done.stdout:
        raise SystemExit(f"airtcp host av has not heard of the handover\n{done.stdout}")
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
        "late_p99_us": emu["lateness"]["p99_us"],
    }


def valid(measure: Callable[[], Json]) -> Json:
    """A run that airtcp calls valid, if one of a few is, with what it called those before."""
    given_up: list[str] = []
    return {**real.valid(measure, lambda run: str(run["validity"]), given_up), "given_up": given_up}


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
        seen = [run[figure] for run in one["real"]]
        _, low, high = coop.interval([run[figure] for run in one["simulated"]], len(seen))
        mean = math.fsum(seen) / len(seen)
        is_inside = low <= mean <= high
        inside += is_inside
        digits = 1 if figure == "timeouts" else 2
        least, most = (f"{value:.{0 if figure == 'timeouts' else 2}f}" for value in (min(seen), max(seen)))
        told = f"{mean:.{digits}f} ({least} to {most})"
        cells += [told if is_inside else f"**{told}**", f"{max(low, 0):.{digits}f} to {high:.{digits}f}"]
    validity = [run["validity"] for run in one["real"]]
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
    head = " | ".join(f"{words}: real | simulated" for words in FIGURES.values())
    lines = [f"| | | {head} | |", "|---" * (2 * len(FIGURES) + 3) + "|"]
    inside = of = 0
    for one in data["rows"]:
        text, good, all_of_it = row(one)
        lines.append(text)
        inside, of = inside + good, of + all_of_it
    runs, seeds = len(data["rows"][0]["real"]), len(data["rows"][0]["simulated"])
    lines += ratios(data["rows"])
    end = f"{inside} of {of} are inside. {runs} runs each, {seeds} simulated ({data['machine']})."
    return "\n".join([*lines, "", end])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="windows or controls; default: all")
    parser.add_argument("--runs", type=int, default=6, metavar="N", help="runs of each row (default: 6)")
    parser.add_argument("--seeds", type=int, default=40, metavar="N", help="simulated runs of each row (default: 40)")
    parser.add_argument("--together", action="store_true", help="let the controls walk at the same time")
    parser.add_argument("--page", action="store_true", help="put figures and table where the documentation has them")
    arguments = parser.parse_args()
    only = arguments.only or [*WINDOWS, *CONTROLS]
    if unknown := [name for name in only if name not in WINDOWS and name not in CONTROLS]:
        raise SystemExit(f"--only {unknown[0]}: accepted are {'; '.join([*WINDOWS, *CONTROLS])}")
    windows = [name for name in WINDOWS if name in only] or [*WINDOWS]
    controls = [name for name in CONTROLS if name in only] or [*CONTROLS]
    begun, rows = time.monotonic(), []
    for name in windows:
        window = WINDOWS[name]
        done: dict[str, list[Json]] = {control: [] for control in controls}
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for seed in range(1, arguments.runs + 1):
                with ThreadPoolExecutor(len(controls) if arguments.together else 1) as pool:
                    each = [partial(measured, window, control, seed, folder) for control in controls]
                    made = pool.map(valid, each)
                    for control, run in zip(controls, made, strict=True):
                        done[control].append(run)
            for control in controls:
                simulations = [simulated(window, control, seed, folder) for seed in range(1, arguments.seeds + 1)]
                rows.append({"window": name, "control": control, "real": done[control], "simulated": simulations})
                print(row(rows[-1])[0], flush=True)
    data = {"machine": page.machine(), "rows": rows}
    text = table(data)
    print("\n".join(text.splitlines()[-8:]))
    print(f"{time.monotonic() - begun:.0f} s; load {os.getloadavg()[0]:.1f}")
    if arguments.page:
        FIGURES_FILE.write_text(json.dumps(data, indent=1) + "\n")
        PAGE.write_text(page.with_part(PAGE.read_text(), "a walk with a real sender", text))


PAGE, FIGURES_FILE = page.ROOT / "docs/hosts.md", page.DATA / "hosts-walk.json"

if __name__ == "__main__":
    main()
