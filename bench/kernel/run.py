#!/usr/bin/env python3
"""Runs the kernel's own TCP over a bottleneck in user space and records what it did.

    sudo bench/kernel/run.py cell --cc cubic --rate 40 --rtt 80 --buffer 1 --loss 0.001 --flows 4
    sudo bench/kernel/run.py grid                     # writes tests/reference/kernel/grid.json
    sudo bench/kernel/run.py trace --cc reno --out DIR  # packet trace and TCP_INFO series of one flow

Makes two network namespaces of its own, each with a TUN device that bench/kernel/pathemu connects; nothing outside them
is touched, and they are removed at the end, on errors and on signals too. Needs root, /dev/net/tun, iproute2 and cargo;
standard library only. Every run is bounded in time.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import platform
import random
import selectors
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = ROOT / "tests/reference/kernel/grid.json"

PORT = 5001
ADDRESS = {"a": "192.0.2.1", "b": "192.0.2.2"}
PACKET_BYTES = 1500
CHUNK = b"\0" * 262144

Json = dict[str, Any]

# In both namespaces. Only memory limits differ from the defaults: the reference is not to be limited by buffers.
SYSCTLS = {
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_wmem": "4096 16384 33554432",
    "net.ipv4.tcp_rmem": "4096 131072 33554432",
    "net.ipv6.conf.all.disable_ipv6": "1",
}
# What a result depends on, recorded with it.
RECORDED = (
    "tcp_recovery",
    "tcp_early_retrans",
    "tcp_reordering",
    "tcp_sack",
    "tcp_dsack",
    "tcp_timestamps",
    "tcp_ecn",
    "tcp_slow_start_after_idle",
    "tcp_rto_min_us",
    "tcp_rto_max_ms",
    "tcp_pacing_ss_ratio",
    "tcp_pacing_ca_ratio",
    "tcp_limit_output_bytes",
    "tcp_moderate_rcvbuf",
    "tcp_min_tso_segs",
    "tcp_tso_win_divisor",
    "tcp_comp_sack_nr",
    "tcp_comp_sack_delay_ns",
    "tcp_frto",
    "tcp_retries2",
    "tcp_notsent_lowat",
)

# struct tcp_info (include/uapi/linux/tcp.h): offsets of the fields used.
INFO = {
    "ca_state": ("B", 1), "rto_us": ("I", 8), "unacked": ("I", 24), "sacked": ("I", 28), "lost": ("I", 32),
    "retrans": ("I", 36),
    "rtt_us": ("I", 68), "rttvar_us": ("I", 72), "ssthresh": ("I", 76), "cwnd": ("I", 80),
    "reordering": ("I", 88), "total_retrans": ("I", 100),
    "pacing_rate": ("Q", 104), "bytes_acked": ("Q", 120), "min_rtt_us": ("I", 148), "segs_out": ("I", 136),
    "delivery_rate": ("Q", 160), "busy_us": ("Q", 168), "rwnd_limited_us": ("Q", 176), "sndbuf_limited_us": ("Q", 184),
    "delivered": ("I", 192), "bytes_sent": ("Q", 200), "bytes_retrans": ("Q", 208), "snd_wnd": ("I", 228),
}  # fmt: skip


def tcp_info(sock: socket.socket) -> dict[str, int]:
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256).ljust(256, b"\0")
    return {name: struct.unpack_from(kind, raw, at)[0] for name, (kind, at) in INFO.items()}


def receive(flows: int, seconds: float) -> None:
    """Reads everything; ends when all connections are closed or the time is over."""
    end = time.monotonic() + seconds
    listener = socket.create_server((ADDRESS["b"], PORT), backlog=flows)
    print("ready", flush=True)
    poll = selectors.DefaultSelector()
    poll.register(listener, selectors.EVENT_READ)
    listener.setblocking(False)
    into = bytearray(1 << 20)
    opened = closed = 0
    while closed < flows and time.monotonic() < end:
        for key, _ in poll.select(0.2):
            if key.fileobj is listener:
                conn, _ = listener.accept()
                conn.setblocking(False)
                poll.register(conn, selectors.EVENT_READ)
                opened += 1
            else:
                with contextlib.suppress(BlockingIOError):
                    try:
                        n = key.fileobj.recv_into(into)
                    except ConnectionResetError:
                        n = 0
                    if n == 0:
                        poll.unregister(key.fileobj)
                        key.fileobj.close()
                        closed += 1


def send(cc: str, flows: int, seconds: float, spread: float, seed: int, sample_seconds: float) -> None:
    """Opens the connections at random times within `spread`, keeps them full, samples TCP_INFO; prints JSON."""
    starts = random.Random(seed)
    begin = time.monotonic()
    end = begin + seconds
    waiting = sorted(begin + starts.uniform(0, spread) for _ in range(flows))
    poll = selectors.DefaultSelector()
    socks: list[socket.socket] = []
    series: list[list[dict[str, int]]] = []
    next_sample = begin
    while True:
        now = time.monotonic()
        if now >= end:
            break
        while waiting and waiting[0] <= now:
            waiting.pop(0)
            s = socket.socket()
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
            s.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                s.connect((ADDRESS["b"], PORT))
            poll.register(s, selectors.EVENT_WRITE)
            socks.append(s)
            series.append([])
        if now >= next_sample:
            at = time.monotonic_ns()
            for s, rows in zip(socks, series, strict=True):
                rows.append({"time_ns": at, **tcp_info(s)})
            next_sample += sample_seconds
        until = min([next_sample, end, *waiting[:1]])
        timeout = max(0.0, until - time.monotonic())
        if socks:
            for key, _ in poll.select(timeout):
                with contextlib.suppress(BlockingIOError):
                    key.fileobj.send(CHUNK)
        else:
            time.sleep(timeout)
    name = socks[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
    for s in socks:
        # Do not drain what is still in the send buffer.
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    json.dump({"cc": name, "begin_ns": round(begin * 1e9), "series": series}, sys.stdout)


def ip(*args: str) -> None:
    subprocess.run(["ip", *args], check=True, capture_output=True, text=True)


@contextlib.contextmanager
def namespaces() -> Iterator[dict[str, str]]:
    names = {side: f"airtcp-ref-{os.getpid()}-{side}" for side in "ab"}
    made = []
    try:
        for name in names.values():
            ip("netns", "add", name)
            made.append(name)
            for key, value in SYSCTLS.items():
                subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", f"{key}={value}"], check=True)
        yield names
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False)


@contextlib.contextmanager
def child(command: list[str], **pipes: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, text=True, **pipes)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def ready(process: subprocess.Popen[str], what: str) -> None:
    line = process.stdout.readline()
    if line.strip() != "ready":
        sys.exit(f"{what} did not start: {line.strip()} {process.stderr.read() if process.stderr else ''}")


def build_pathemu(target: pathlib.Path) -> pathlib.Path:
    command = ["cargo", "build", "--release", "--quiet", "--target-dir", str(target)]
    command += ["--manifest-path", str(HERE / "pathemu/Cargo.toml")]
    subprocess.run(command, check=True)
    return target / "release/pathemu"


def bdp_packets(rate_mbit: float, rtt_ms: float) -> float:
    return rate_mbit * 1e6 * rtt_ms / 1e3 / 8 / PACKET_BYTES


def endpoint(names: dict[str, str], side: str, *args: object) -> list[str]:
    return ["ip", "netns", "exec", names[side], sys.executable, str(pathlib.Path(__file__).resolve()), *map(str, args)]


def device_drops(name: str) -> int:
    """Packets the kernel dropped on the way to the emulator (device ring, queueing discipline)."""

    def told(*command: str) -> list[Json]:
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    stats = told("ip", "-n", name, "-s", "-j", "link", "show", "path0")[0]["stats64"]
    qdiscs = told("tc", "-n", name, "-s", "-j", "qdisc", "show", "dev", "path0")
    return stats["tx"]["dropped"] + stats["rx"]["dropped"] + sum(q.get("drops", 0) for q in qdiscs)


def run_cell(
    pathemu: pathlib.Path, cell: Json, trace: pathlib.Path | None = None, sample_ms: float = 100
) -> tuple[Json, Json, int]:
    """One run; returns what pathemu and the sender recorded, and packets lost outside the bottleneck."""
    with namespaces() as names:
        command = [
            str(pathemu), "--from", names["a"], "--to", names["b"], "--rate", str(round(cell["rate_mbit"] * 1e6)),
            "--delay-us", str(round(cell["rtt_ms"] * 500)), "--limit-packets", str(cell["buffer_packets"]),
            "--loss", str(cell["loss"]), "--seed", str(cell["seed"]), "--seconds", str(cell["seconds"] + 20),
        ]  # fmt: skip
        if trace:
            command += ["--trace", str(trace)]
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with child(command, **pipe) as emulator:
            ready(emulator, "pathemu")
            for side, name in names.items():
                ip("-n", name, "link", "set", "path0", "mtu", str(PACKET_BYTES), "txqueuelen", "20000")
                ip("-n", name, "addr", "add", f"{ADDRESS[side]}/24", "dev", "path0")
                ip("-n", name, "link", "set", "path0", "up")
                ip("-n", name, "link", "set", "lo", "up")
            listen = endpoint(names, "b", "receive", cell["flows"], cell["seconds"] + 15)
            talk = endpoint(
                names,
                "a",
                "send",
                cell["cc"],
                cell["flows"],
                cell["seconds"],
                cell["spread"],
                cell["seed"],
                sample_ms / 1e3,
            )
            with child(listen, stdout=subprocess.PIPE) as receiver:
                ready(receiver, "receiver")
                sender = subprocess.run(talk, capture_output=True, text=True, timeout=cell["seconds"] + 15)
                if sender.returncode:
                    sys.exit(f"sender: {sender.stderr.strip()}")
            hidden = sum(device_drops(n) for n in names.values())
            out, err = emulator.communicate(timeout=30)
            if emulator.returncode:
                sys.exit(f"pathemu: {err.strip()}")
    return json.loads(out), json.loads(sender.stdout), hidden


def at_time(rows: list[Json], time_ns: int) -> Json:
    """Last row at or before that time."""
    best = rows[0]
    for row in rows:
        if row["time_ns"] > time_ns:
            break
        best = row
    return best


def summarise(cell: Json, path: Json, sender: Json, hidden: int) -> Json:
    """Figures over [warmup, seconds] of the sender's clock."""
    columns = path["series_columns"]
    series = [dict(zip(columns, row, strict=True)) for row in path["series"]]
    first_ns = sender["begin_ns"] + round(cell["warmup"] * 1e9)
    last_ns = sender["begin_ns"] + round(cell["seconds"] * 1e9) - 100_000_000
    a, b = at_time(series, first_ns), at_time(series, last_ns)
    span = (b["time_ns"] - a["time_ns"]) / 1e9
    d = {k: b[k] - a[k] for k in columns}
    flows = []
    for rows in sender["series"]:
        inside = [r for r in rows if first_ns <= r["time_ns"] <= last_ns]
        fa, fb = inside[0], inside[-1]
        seconds = (fb["time_ns"] - fa["time_ns"]) / 1e9
        flows.append({
            "goodput": (fb["bytes_acked"] - fa["bytes_acked"]) * 8 / seconds,
            "retransmitted": fb["total_retrans"] - fa["total_retrans"],
            "cwnd": statistics.fmean(r["cwnd"] for r in inside),
            "srtt": statistics.fmean(r["rtt_us"] for r in inside) / 1e6,
            "min_rtt": min(r["min_rtt_us"] for r in inside) / 1e6,
            "rwnd_limited": (fb["rwnd_limited_us"] - fa["rwnd_limited_us"]) / 1e6 / seconds,
            "sndbuf_limited": (fb["sndbuf_limited_us"] - fa["sndbuf_limited_us"]) / 1e6 / seconds,
        })  # fmt: skip
    goodputs = [f["goodput"] for f in flows]
    late = path["late_over_5ms"] / max(1, path["delivered"])
    problems = []
    if late > 0.001:
        problems.append(f"{late:.2%} of deliveries more than 5 ms late")
    if hidden or path["write_errors"]:
        problems.append(f"{hidden} packets lost outside the bottleneck, {path['write_errors']} write errors")
    if path["largest_packet"] > PACKET_BYTES:
        problems.append(f"a packet of {path['largest_packet']} bytes")
    if sender["cc"] != cell["cc"]:
        problems.append(f"ran with {sender['cc']}")
    return {
        "utilisation": round(d["sent_bytes"] * 8 / (cell["rate_mbit"] * 1e6 * span), 5),
        "goodput_bit_per_second": [round(g) for g in goodputs],
        "jain": round(sum(goodputs) ** 2 / (len(goodputs) * sum(g * g for g in goodputs)), 4),
        "queue_loss": round(d["dropped"] / max(1, d["arrived"]), 7),
        "line_loss": round(d["lost"] / max(1, d["sent"]), 7),
        "arrived": d["arrived"], "dropped": d["dropped"], "lost": d["lost"],
        "mean_queue_packets": round(d["waited_ns"] / 1e9 / span, 3),
        "mean_rtt_seconds": round(statistics.fmean(f["srtt"] for f in flows), 5),
        "min_rtt_seconds": round(min(f["min_rtt"] for f in flows), 5),
        "mean_cwnd_packets": round(statistics.fmean(f["cwnd"] for f in flows), 2),
        "retransmitted": sum(f["retransmitted"] for f in flows),
        "rwnd_limited": round(max(f["rwnd_limited"] for f in flows), 4),
        "sndbuf_limited": round(max(f["sndbuf_limited"] for f in flows), 4),
        "late_max_ms": round(path["late_max_us"] / 1e3, 3), "late_mean_ms": round(path["late_mean_us"] / 1e3, 4),
        "late_over_5ms": late, "problems": problems,
    }  # fmt: skip


def make_cell(
    cc: str, rate: float, rtt: float, buffer: float, loss: float, flows: int, seconds: float, warmup: float, seed: int
) -> Json:
    return {
        "cc": cc, "flows": flows, "rate_mbit": rate, "rtt_ms": rtt, "buffer_bdp": buffer,
        "buffer_packets": max(1, round(buffer * bdp_packets(rate, rtt))), "loss": loss, "seconds": seconds,
        "warmup": warmup, "spread": 1.0 if flows > 1 else 0.0, "seed": seed,
    }  # fmt: skip


def grid_cells() -> Iterator[Json]:
    """Buffers without loss for one and four flows; random loss at one BDP. Short paths at both rates."""
    for cc in ("reno", "cubic", "bbr"):
        for (rate, rtt), buffer in itertools.product(((10, 20), (10, 80), (40, 80)), (0.25, 1, 4)):
            yield make_cell(cc, rate, rtt, buffer, 0.0, 1, 30, 8, 1)
        for buffer in (0.25, 1, 4):
            yield make_cell(cc, 40, 20, buffer, 0.0, 4, 30, 8, 1)
        for (rate, rtt), loss, seed in itertools.product(((10, 80), (40, 20)), (0.001, 0.01), (1, 2)):
            yield make_cell(cc, rate, rtt, 1, loss, 1, 30, 4, seed)


def head() -> Json:
    def setting(key: str) -> str:
        return subprocess.run(["sysctl", "-n", f"net.ipv4.{key}"], capture_output=True, text=True).stdout.strip()

    return {
        "peer": f"Linux {platform.release()}",
        "script": "bench/kernel/run.py",
        "path": "pathemu: drop-tail by waiting packets, rate over IP bytes, half the RTT each way, loss after the line",
        "bdp": "rate x rtt / 8 / 1500 bytes",
        "window": "figures over [warmup, seconds] after the first connection may start; starts over [0, spread]",
        "means": "queue over time, waiting only; rtt (tcpi_rtt, smoothed) and cwnd over samples every 0.1 s",
        "set": SYSCTLS,
        "found": {key: setting(key) for key in RECORDED},
    }


ATTEMPTS = 3
"""A run that the machine spoiled is repeated this often in all."""


def grid(out: pathlib.Path, pathemu: pathlib.Path) -> None:
    started = time.monotonic()
    cells = []
    for cell in grid_cells():
        attempts = 0
        while True:
            attempts += 1
            result = summarise(cell, *run_cell(pathemu, cell))
            if not result["problems"] or attempts == ATTEMPTS:
                break
        cells.append({**cell, "attempts": attempts, "result": result})
        r = result
        print(
            f"{time.monotonic() - started:6.0f} s  {cell['cc']:6}{cell['flows']} x {cell['rate_mbit']} Mbit/s",
            f"{cell['rtt_ms']} ms {cell['buffer_bdp']} BDP loss {cell['loss']}: utilisation {r['utilisation']:.3f}",
            f"drops {r['queue_loss']:.5f} rtt {r['mean_rtt_seconds'] * 1e3:.1f} ms cwnd {r['mean_cwnd_packets']}",
            f"late {r['late_max_ms']} ms",
            "; ".join(r["problems"]),
            flush=True,
        )
        lines = ",\n".join(json.dumps(c) for c in cells)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(head(), indent=1)[:-2] + ',\n "cells": [\n' + lines + "\n]}\n")


def main() -> None:
    if sys.argv[1:2] == ["receive"]:
        return receive(int(sys.argv[2]), float(sys.argv[3]))
    if sys.argv[1:2] == ["send"]:
        cc, flows, seconds, spread, seed, sample = sys.argv[2:]
        return send(cc, int(flows), float(seconds), float(spread), int(seed), float(sample))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = ROOT / "target/pathemu"
    parser.add_argument("--target", type=pathlib.Path, default=target, help="where cargo builds the emulator")
    sub = parser.add_subparsers(dest="what", required=True)
    g = sub.add_parser("grid")
    g.add_argument("--out", type=pathlib.Path, default=OUT)
    for what in ("cell", "trace"):
        c = sub.add_parser(what)
        c.add_argument("--cc", default="cubic")
        c.add_argument("--rate", type=float, default=40, help="Mbit/s")
        c.add_argument("--rtt", type=float, default=80, help="ms, two-way propagation")
        c.add_argument("--buffer", type=float, default=1, help="in bandwidth-delay products")
        c.add_argument("--loss", type=float, default=0)
        c.add_argument("--flows", type=int, default=1)
        c.add_argument("--seconds", type=float, default=20)
        c.add_argument("--warmup", type=float, default=4)
        c.add_argument("--seed", type=int, default=1)
        c.add_argument("--sample-ms", type=float, default=100)
        if what == "trace":
            c.add_argument("--out", type=pathlib.Path, required=True, help="folder for packets.csv and info.json")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("needs root: it makes network namespaces and TUN devices")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    pathemu = build_pathemu(args.target)
    if args.what == "grid":
        return grid(args.out, pathemu)
    a = args
    cell = make_cell(a.cc, a.rate, a.rtt, a.buffer, a.loss, a.flows, a.seconds, a.warmup, a.seed)
    trace = None
    if args.what == "trace":
        args.out.mkdir(parents=True, exist_ok=True)
        trace = args.out / "packets.csv"
    path, sender, hidden = run_cell(pathemu, cell, trace, args.sample_ms)
    if trace:
        (args.out / "info.json").write_text(json.dumps(sender))
    print(json.dumps({**cell, "result": summarise(cell, path, sender, hidden)}, indent=1))


if __name__ == "__main__":
    main()
