"""Ten real hosts in one simulated cell, with and without the cooperative daemon, beside the simulation: a table.

Usage: coop.py [--only NAME ...] [--runs N] [--seeds N] [--page]

Needs root, /dev/net/tun, `ping`, a kernel that `airtcp host coop` works on, and the binary of `make host`. With three
runs it takes about ten minutes. Time has to be kept: `chrt --rr 1` before the command, or a machine that does nothing
else. With --page the figures go to docs/validation/, and the table to docs/hosts.md.

The cell is that of the study coop-cwnd, with Linux hosts: ten phones upload over an 802.11g access point with a queue
of 566 packets, and over a path of 256 ms. Under `airtcp shell` each phone is a namespace whose program writes to TCP of
this machine's kernel for 60 s. With the daemon, `airtcp host coop` runs on each. The first phone pings the server each
200 ms. Figures count from 20 s on: goodput of all, Jain's index of the ten, the mean ping, and the mean smoothed round
trip that the senders see.

The simulation has flows and daemons in their place. Its hosts have no small queues, and read what comes at once. A
figure is *inside* if the mean of the real runs lies within the 95 % prediction interval for a mean of as many simulated
runs. A run that airtcp does not call valid is made again, up to three times; if the last one is not valid either, it is
shown and marked.
"""

from __future__ import annotations

import argparse
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
from functools import partial
from pathlib import Path
from typing import Any

import page
import polars as pl
import real
import virtual

import airtcp
from airtcp import stats
from airtcp.commands import host as host_command

Json = dict[str, Any]

PHONES, LAST_S, WARMUP_S, PING_S = 10, 60.0, 20.0, 0.2
CORRECT_AT = 6.0
"""Of the study's daemon: how many times the least round trip brings a cap."""

DAEMONS: dict[str, Json | None] = {
    "without the daemon": None,
    "the study's daemon": {"bw_max": "15.2Mbit/s", "phases": "own"},
    "a daemon that acts at three times the least round trip": {
        "bw_max": "15.2Mbit/s",
        "rtt_in_cap": "min",
        "correct_at": 3.0,
    },
}
"""The arms, and the parameters of their daemons as scenarios and `airtcp host coop` take them."""

FIGURES = {"goodput": ("goodput, Mbit/s", 2), "jain": ("Jain", 3), "ping": ("ping, ms", 0), "rtt": ("RTT, ms", 0)}
"""What each is called, and its digits."""

# Writes until it is ended. Prints its mean smoothed round trip (tcpi_rtt of TCP_INFO) between two times, and how many
# times the least the longest is before that.
SEND = """import select, socket, struct, sys, time
begin = time.monotonic()
start, warm, end = map(float, sys.argv[1:])
time.sleep(start)
s = socket.socket()
s.connect((socket.gethostbyname("server"), 5001))
s.setblocking(False)
look, rtts, before, data = start + 0.1, [], [], bytes(65536)
while (now := time.monotonic() - begin) < end:
    select.select([], [s], [], max(min(look, end) - now, 0.001))
    try:
        while s.send(data):
            pass
    except BlockingIOError:
        pass
    if (now := time.monotonic() - begin) >= look:
        info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        (rtts if now >= warm else before).append(struct.unpack_from("<I", info, 68)[0] / 1000)
        look = now + 0.1
print("rtt", sum(rtts) / len(rtts), max(before) / min(before), flush=True)
"""

# Takes all connections, and prints what each brought between two times.
RECEIVE = """import json, selectors, socket, sys, time
begin = time.monotonic()
warm, end = map(float, sys.argv[1:])
listener, known = socket.create_server(("", 5001)), selectors.DefaultSelector()
known.register(listener, selectors.EVENT_READ)
came = {}
while (now := time.monotonic() - begin) < end:
    for key, _ in known.select(end - now):
        if key.fileobj is listener:
            connection, (address, _) = listener.accept()
            known.register(connection, selectors.EVENT_READ, address)
            came[address] = 0
            continue
        try:
            count = len(key.fileobj.recv(1 << 18))
        except OSError:
            count = 0
        if count == 0:
            known.unregister(key.fileobj)
        elif warm <= time.monotonic() - begin < end:
            came[key.data] += count
print("came", json.dumps(list(came.values())), flush=True)
# Senders whose clocks are a little behind are still writing.
time.sleep(60)
"""


def scenario(daemon: Json | None, seed: int) -> Json:
    """The cell, as it is simulated."""
    like = {"kind": "host", "profile": "linux-6", "receive_offload": "napi"}
    queue = {"name": "fifo", "limit_packets": 566}
    return {
        "name": "coop-hosts",
        "seed": seed,
        "duration": f"{LAST_S}s",
        "warmup": f"{WARMUP_S}s",
        "nodes": [
            {"name": "phone", "count": PHONES, **like},
            {"name": "ap", "kind": "router"},
            {"name": "server", **like},
        ],
        "links": [{"name": "path", "from": "ap", "to": "server", "rate": "1Gbit/s", "delay": "128ms"}],
        "wlans": [
            {
                "name": "wlan",
                "ap": "ap",
                "stations": ["phone"],
                "phy": {"standard": "g"},
                "station_radio": {"rate_control": {"name": "aarf", "down_after": 3}},
                "ap_radio": {"transmit": {"name": "qdisc", "qdisc": queue, "driver_frames": 1}},
            }
        ],
        "flows": [
            {
                "name": "upload",
                "from": "phone",
                "to": "server",
                "start": {"from": "0s", "to": "1s"},
                "tcp": {"tsq": "off"},
            },
            {
                "name": "ping",
                "from": "phone[0]",
                "to": "server",
                "start": f"{WARMUP_S}s",
                "traffic": {"kind": "ping", "interval": f"{PING_S}s"},
            },
        ],
        "record": {"interval": "100ms", "flow_series_max": PHONES + 1, "links": []},
        "coop": [] if daemon is None else [{"name": "daemons", "nodes": ["phone"], "daemon": daemon}],
    }


def simulated(daemon: Json | None, seed: int, folder: Path) -> Json:
    """One simulated run. Round trips are looked at as the senders of a real one look at theirs: by the clock."""
    results = airtcp.run(real.toml(scenario(daemon, seed), folder, "simulated"))
    groups = {group["group"]: group for group in results.summary["groups"]}
    uploads = results.flows.filter(pl.col("group") == "upload").select("flow")
    series = results.flow_series.filter(pl.col("srtt_ms") > 0).select("flow", "time_s", "srtt_ms")
    of_uploads = series.join(uploads, on="flow", maintain_order="left").collect()
    is_before, srtt = pl.col("time_s") < WARMUP_S, pl.col("srtt_ms")
    rtts = of_uploads.filter(~is_before).group_by("flow").agg(srtt.mean())["srtt_ms"]
    ratios = of_uploads.filter(is_before).group_by("flow").agg(srtt.max() / srtt.min())["srtt_ms"]
    return {
        "goodput": groups["upload"]["goodput_bps"] / 1e6,
        "jain": groups["upload"]["jain"],
        "ping": groups["ping"]["rtt_mean_ms"],
        "rtt": math.fsum(rtts) / PHONES,
        "ratios": sorted(ratios),
    }


def measured(daemon: Json | None, seed: int, folder: Path) -> Json:
    """One run of real hosts."""
    programs = {name: folder / f"{name}.py" for name in ("send", "receive")}
    programs["send"].write_text(SEND)
    programs["receive"].write_text(RECEIVE)
    send, receive = (f"exec {sys.executable} {shlex.quote(str(programs[name]))}" for name in ("send", "receive"))
    out = folder / "real"
    shutil.rmtree(out, ignore_errors=True)
    path = real.toml({**scenario(None, seed), "duration": f"{LAST_S + 5}s"}, folder, "real")
    starts = random.Random(seed)
    command: list[str | Path] = [virtual.AIRTCP, "shell", path, "--for", f"{LAST_S + 2}s", "--out", out]
    command += ["--no-capture", "--on", f"server={receive} {WARMUP_S} {LAST_S}"]
    for i in range(PHONES):
        begins = f"{starts.uniform(0, 1):.3f}"
        command += ["--on", f"phone[{i}]={send} {begins} {WARMUP_S} {LAST_S}"]
        if daemon is not None:
            command += ["--on", f"phone[{i}]={coop(daemon)}"]
    # It ends by the clock: a reply that is lost must not keep it.
    command += ["--on", f"phone[0]=sleep {WARMUP_S}; exec ping -4 -q -i {PING_S} -w {LAST_S - WARMUP_S:.0f} server"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    came = re.search(r"came (\[.*\])", done.stdout)
    told = re.findall(r"rtt ([\d.]+) ([\d.]+)\n", done.stdout)
    rtts, ratios = [float(rtt) for rtt, _ in told], [float(ratio) for _, ratio in told]
    ping = re.search(r"min/avg/max/mdev = [\d.]+/([\d.]+)/", done.stdout)
    heard = [int(found) for found in re.findall(r"(\d+) terminals send", done.stdout)]
    if done.returncode not in (0, 3) or came is None or len(rtts) != PHONES or ping is None:
        raise SystemExit(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
    emu = json.loads((out / "emu.json").read_text())
    rates = [8e-6 * count / (LAST_S - WARMUP_S) for count in json.loads(came[1])]
    return {
        "goodput": math.fsum(rates),
        "jain": stats.jain(rates),
        "ping": float(ping[1]),
        "rtt": math.fsum(rtts) / PHONES,
        "ratios": sorted(ratios),
        "most_heard": max(heard, default=0),
        "validity": emu["validity"],
        "late_p99_us": emu["lateness"]["p99_us"],
    }


def binary() -> str:
    """The program `airtcp-host`."""
    return os.environ.get("AIRTCP_HOST") or shutil.which("airtcp-host") or str(host_command.BUILT)


def coop(daemon: Json) -> str:
    """The daemon's command. It ends when the network does."""
    words = [binary(), "coop", "--interface", "wlan0", "--bw-max", daemon["bw_max"]]
    for key, value in daemon.items():
        words += [] if key == "bw_max" else ["--set", f"{key}={json.dumps(value)}"]
    return f"exec timeout {LAST_S + 1} {shlex.join(words)}"


def interval(simulations: list[float], runs: int) -> tuple[float, float, float]:
    """Mean of the simulated runs, and where the mean of so many more lies with a probability of 95 %."""
    n = len(simulations)
    mean = math.fsum(simulations) / n
    variance = math.fsum((value - mean) ** 2 for value in simulations) / (n - 1)
    half = stats.student_t_quantile(0.975, n - 1) * math.sqrt(variance * (1 / n + 1 / runs))
    return mean, mean - half, mean + half


def row(arm: Json) -> tuple[str, int, int]:
    """A row of the table, and how many figures are inside of how many."""
    cells, inside = [arm["arm"]], 0
    for figure, (_, digits) in FIGURES.items():
        seen = [run[figure] for run in arm["real"]]
        _, low, high = interval([run[figure] for run in arm["simulated"]], len(seen))
        mean = math.fsum(seen) / len(seen)
        is_inside = low <= mean <= high
        inside += is_inside
        told = ", ".join(f"{value:.{digits}f}" for value in seen)
        cells += [told if is_inside else f"**{told}**", f"{low:.{digits}f} to {high:.{digits}f}"]
    validity = [run["validity"] for run in arm["real"]]
    cells.append(", ".join(word if word == "valid" else f"**{word}**" for word in validity))
    return f"| {' | '.join(cells)} |", inside, len(FIGURES)


def table(data: Json) -> str:
    """The table, of its figures."""
    head = " | ".join(f"{words}: real | simulated" for words, _ in FIGURES.values())
    lines = [f"| | {head} | |", "|---" * (2 * len(FIGURES) + 2) + "|"]
    inside = of = 0
    for arm in data["rows"]:
        text, good, all_of_it = row(arm)
        lines.append(text)
        inside, of = inside + good, of + all_of_it
    beyond = ""
    if (plain := data["rows"][0])["arm"] == "without the daemon" and "ratios" in plain["real"][0]:
        real_ones, simulated_ones = (
            [float(sum(ratio >= CORRECT_AT for ratio in run["ratios"])) for run in plain[which]]
            for which in ("real", "simulated")
        )
        _, low, high = interval(simulated_ones, len(real_ones))
        mean = math.fsum(real_ones) / len(real_ones)
        beyond = (
            f"Without the daemon {mean:.1f} of ten real senders have a round trip of {CORRECT_AT:g} times the least "
            f"before second {WARMUP_S:g}, simulated {low:.1f} to {high:.1f}. "
        )
    runs, seeds = len(data["rows"][0]["real"]), len(data["rows"][0]["simulated"])
    heard = sorted({run["most_heard"] for arm in data["rows"] for run in arm["real"] if run["most_heard"]})
    told = f"Daemons counted {' to '.join(map(str, heard))} terminals at most. " if heard else ""
    end = f"{inside} of {of} are inside. {told}{beyond}{runs} runs each, {seeds} simulated ({data['machine']})."
    return "\n".join([*lines, "", end])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="rows of the table; default: all")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="real runs of each row (default: 3)")
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="simulated runs of each row (default: 20)")
    parser.add_argument("--page", action="store_true", help="put figures and table where the documentation has them")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.only or [] if name not in DAEMONS]:
        raise SystemExit(f"--only {unknown[0]}: accepted are {'; '.join(DAEMONS)}")
    begun, rows = time.monotonic(), []
    for name in arguments.only or DAEMONS:
        daemon = DAEMONS[name]
        given_up: list[str] = []
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            simulations = [simulated(daemon, seed, folder) for seed in range(1, arguments.seeds + 1)]
            done = [
                real.valid(partial(measured, daemon, seed, folder), lambda run: str(run["validity"]), given_up)
                for seed in range(1, arguments.runs + 1)
            ]
        rows.append({"arm": name, "real": done, "simulated": simulations, "given_up": given_up})
        print(row(rows[-1])[0], flush=True)
    data = {"machine": page.machine(), "rows": rows}
    text = table(data)
    print(text.splitlines()[-1])
    print(f"{time.monotonic() - begun:.0f} s; load {os.getloadavg()[0]:.1f}")
    if arguments.page:
        FIGURES_FILE.write_text(json.dumps(data, indent=1) + "\n")
        PAGE.write_text(page.with_part(PAGE.read_text(), "ten hosts in a cell", text))


PAGE, FIGURES_FILE = page.ROOT / "docs/hosts.md", page.DATA / "hosts-coop.json"

if __name__ == "__main__":
    main()
