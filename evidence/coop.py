"""Ten real hosts in one simulated cell, with and without the cooperative daemon, beside the simulation: a table.

Usage: coop.py [--only NAME ...] [--runs N] [--seeds N] [--simulated] [--page]

Needs root, /dev/net/tun, `ping`, a kernel that `airtcp host coop` works on, and the binary of `make host`. With three
runs it takes about ten minutes. Time has to be kept: `chrt --rr 1` before the command, or a machine that does nothing
else. With --page the figures go to evidence/figures/, and the table to evidence/hosts.md. With --simulated the real
runs of that file stay, and only the simulated ones are made again.

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

import json
import math
import random
import re
import shlex
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import hosts
import page
import polars as pl

import airtcp
from airtcp import stats

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
"""The variants, and the parameters of their daemons as scenarios and `airtcp host coop` take them."""

FIGURES = {"goodput": ("goodput, Mbit/s", 2), "jain": ("Jain", 3), "ping": ("ping, ms", 0), "rtt": ("RTT, ms", 0)}
"""What each is called, and its digits."""

# Writes until it is ended. Prints its mean smoothed round trip (tcpi_rtt of TCP_INFO) between two times, and how many
# times the least the longest is before that.
SEND = f"""{hosts.SENDING}begin = time.monotonic()
start, warm, end = map(float, sys.argv[1:])
time.sleep(start)
s = connected(socket.gethostbyname("server"))
s.setblocking(False)
look, rtts, before = start + 0.1, [], []
while time.monotonic() - begin < end:
    write([s], begin + min(look, end))
    if (now := time.monotonic() - begin) >= look:
        (rtts if now >= warm else before).append(known(s)["srtt_us"] / 1000)
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
    results = airtcp.run(hosts.toml(scenario(daemon, seed), folder, "simulated"))
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
    programs = hosts.programs(folder, send=SEND, receive=RECEIVE)
    out = folder / "real"
    shutil.rmtree(out, ignore_errors=True)
    path = hosts.toml({**scenario(None, seed), "duration": f"{LAST_S + 5}s"}, folder, "real")
    starts = random.Random(seed)
    words: hosts.Words = [path, "--for", f"{LAST_S + 2}s", "--out", out, "--no-capture"]
    words += hosts.on("server", f"exec {programs['receive']} {WARMUP_S} {LAST_S}")
    for i in range(PHONES):
        begins = f"{starts.uniform(0, 1):.3f}"
        words += hosts.on(f"phone[{i}]", f"exec {programs['send']} {begins} {WARMUP_S} {LAST_S}")
        if daemon is not None:
            words += hosts.on(f"phone[{i}]", coop(daemon))
    # It ends by the clock: a reply that is lost must not keep it.
    ping = f"exec ping -4 -q -i {PING_S} -w {LAST_S - WARMUP_S:.0f} server"
    words += hosts.on("phone[0]", f"sleep {WARMUP_S}; {ping}")
    text, found = hosts.shell(
        "ten hosts",
        words,
        codes=(0, hosts.INVALID),
        came=r"came (\[.*\])",
        told=r"rtt ([\d.]+) ([\d.]+)\n",
        ping=hosts.PING_MEAN,
    )
    rtts, ratios = ([float(told[column]) for told in found["told"]] for column in (0, 1))
    if len(rtts) != PHONES:
        raise SystemExit(f"{len(rtts)} of {PHONES} senders said what they saw\n{text}")
    heard = [int(number) for number in re.findall(r"(\d+) terminals send", text)]
    emu = json.loads((out / "emu.json").read_text())
    rates = [8e-6 * count / (LAST_S - WARMUP_S) for count in json.loads(found["came"][0])]
    return {
        "goodput": math.fsum(rates),
        "jain": stats.jain(rates),
        "ping": float(found["ping"][0]),
        "rtt": math.fsum(rtts) / PHONES,
        "ratios": sorted(ratios),
        "most_heard": max(heard, default=0),
        "validity": emu["validity"],
        "late_p99_us": emu["lateness"]["p99_us"],
    }


def coop(daemon: Json) -> str:
    """The daemon's command. It ends when the network does."""
    words = [hosts.binary(), "coop", "--interface", "wlan0", "--bw-max", daemon["bw_max"]]
    # What a real host has otherwise than the simulated daemons beside it.
    words += ["--set", "stop_cap=1", "--set", "min_cap=2"]
    for key, value in daemon.items():
        words += [] if key == "bw_max" else ["--set", f"{key}={json.dumps(value)}"]
    return f"exec timeout {LAST_S + 1} {shlex.join(words)}"


def row(variant: Json) -> tuple[str, int, int]:
    """A row of the table, and how many figures are inside of how many."""
    cells, inside = [variant["variant"]], 0
    for figure, (_, digits) in FIGURES.items():

        def each(seen: list[float], _mean: float, digits: int = digits) -> str:
            return ", ".join(f"{value:.{digits}f}" for value in seen)

        two, is_inside = hosts.inside(variant, figure, each, digits)
        cells += two
        inside += is_inside
    validity = [run["validity"] for run in variant["real"]]
    cells.append(", ".join(word if word == "valid" else f"**{word}**" for word in validity))
    return f"| {' | '.join(cells)} |", inside, len(FIGURES)


def table(data: Json) -> str:
    """The table, of its figures."""
    head = " | ".join(f"{words}: real | simulated" for words, _ in FIGURES.values())
    lines = [f"| | {head} | |", "|---" * (2 * len(FIGURES) + 2) + "|"]
    lines, end = hosts.counted(lines, data["rows"], row)
    beyond = ""
    if (plain := data["rows"][0])["variant"] == "without the daemon" and "ratios" in plain["real"][0]:
        real_ones, simulated_ones = (
            [float(sum(ratio >= CORRECT_AT for ratio in run["ratios"])) for run in plain[which]]
            for which in ("real", "simulated")
        )
        _, low, high = hosts.interval(simulated_ones, len(real_ones))
        mean = math.fsum(real_ones) / len(real_ones)
        beyond = (
            f"Without the daemon {mean:.1f} of ten real senders have a round trip of {CORRECT_AT:g} times the least "
            f"before second {WARMUP_S:g}, simulated {low:.1f} to {high:.1f}. "
        )
    heard = sorted({run["most_heard"] for variant in data["rows"] for run in variant["real"] if run["most_heard"]})
    told = f"Daemons counted {' to '.join(map(str, heard))} terminals at most. " if heard else ""
    return "\n".join([*lines, f"{end} {told}{beyond}{hosts.made_of(data)}"])


def main() -> None:
    arguments = hosts.options(__doc__, "rows of the table", 3, 20).parse_args()
    names = hosts.chosen(arguments.only, DAEMONS)
    place = (FIGURES_FILE, PAGE, PART) if arguments.page else None
    if arguments.simulated:

        def simulate(variant: Json) -> list[Json]:
            with tempfile.TemporaryDirectory() as folder:
                seeds = range(1, len(variant["simulated"]) + 1)
                return [simulated(DAEMONS[variant["variant"]], seed, Path(folder)) for seed in seeds]

        data = hosts.simulated_again(
            FIGURES_FILE,
            "; ".join(names),
            lambda variant: variant["variant"] in names,
            simulate,
            lambda variant: row(variant)[0],
        )
        return hosts.finish(data, table(data), 1, place)
    rows: list[Json] = []
    for name in names:
        daemon = DAEMONS[name]
        given_up: list[str] = []
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            simulations = [simulated(daemon, seed, folder) for seed in range(1, arguments.seeds + 1)]
            done = [
                hosts.valid(partial(measured, daemon, seed, folder), lambda run: str(run["validity"]), given_up)
                for seed in range(1, arguments.runs + 1)
            ]
        rows.append({"variant": name, "real": done, "simulated": simulations, "given_up": given_up})
        print(row(rows[-1])[0], flush=True)
    data = {"machine": page.machine(), "rows": rows}
    return hosts.finish(data, table(data), 1, place)


PAGE, FIGURES_FILE, PART = page.ROOT / "evidence/hosts.md", page.DATA / "hosts-coop.json", "ten hosts in a cell"

if __name__ == "__main__":
    main()
