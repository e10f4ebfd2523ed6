"""Runs the kernel's own TCP over a bottleneck in user space, records what it did, and holds airtcp against it.

    sudo evidence/kernel/run.py compare --measure        # measures the kernel, runs airtcp, prints tables; 40 minutes
    .venv/bin/python evidence/kernel/run.py compare      # airtcp against evidence/figures/kernel/paths.json
    sudo evidence/kernel/run.py cell --cc cubic --rate 40 --rtt 80 --buffer 1 --loss 0.001 --flows 4
    sudo evidence/kernel/run.py trace --cc reno --out DIR  # packet trace and TCP_INFO series of one flow

Makes two network namespaces of its own, each with a TUN device that evidence/kernel/pathemu connects; nothing outside
them is touched, and they are removed at the end, on errors and on signals too. Measuring needs root, /dev/net/tun,
iproute2 and cargo. Every run is bounded in time. A run in which time was not kept (see `problems`) is thrown away and
repeated; a cell that fails so often that nothing is left says so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import platform
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import cells

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = ROOT / "evidence/figures/kernel/paths.json"

PORT = 5001
ADDRESS = {"a": "192.0.2.1", "b": "192.0.2.2"}

Json = dict[str, Any]

# In both namespaces. A new namespace takes the host's congestion control, which may be any; each sender names its own.
# Beside it only memory limits differ from the defaults: the reference is not to be limited by buffers.
SYSCTLS = {
    "net.ipv4.tcp_congestion_control": "reno",
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


def ip(*args: str) -> None:
    done = subprocess.run(["ip", *args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ip {' '.join(args)}: {done.stderr.strip()}")


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


def device_drops(name: str) -> int:
    """Packets the kernel dropped on the way to the emulator (device ring, queueing discipline)."""

    def told(*command: str) -> list[Json]:
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    stats = told("ip", "-n", name, "-s", "-j", "link", "show", "path0")[0]["stats64"]
    qdiscs = told("tc", "-n", name, "-s", "-j", "qdisc", "show", "dev", "path0")
    return stats["tx"]["dropped"] + stats["rx"]["dropped"] + sum(q.get("drops", 0) for q in qdiscs)


def attach(name: str, side: str, cell: Json) -> None:
    """Addresses, queue and offloads of the device that pathemu has made."""
    ip("-n", name, "link", "set", "path0", "mtu", str(cells.PACKET_BYTES), "txqueuelen", "20000")
    subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", "path0", "root", "pfifo_fast"], check=True)
    if not cell["send_offload"]:
        ip("-n", name, "link", "set", "path0", "gso_max_segs", "1")
    ip("-n", name, "addr", "add", f"{ADDRESS[side]}/24", "dev", "path0")
    ip("-n", name, "link", "set", "path0", "up")
    ip("-n", name, "link", "set", "lo", "up")
    if cell["gro_flush_us"] and side == "b":
        # `ip netns exec` mounts the namespace's own sysfs.
        text = f"echo {cell['gro_flush_us'] * 1000} > /sys/class/net/path0/gro_flush_timeout"
        subprocess.run(["ip", "netns", "exec", name, "sh", "-c", text], check=True)


def run_cell(
    pathemu: pathlib.Path,
    cell: Json,
    *,
    trace: pathlib.Path | None = None,
    sample_ms: float = 10,
    realtime: bool = False,
) -> tuple[Json, int]:
    """One run; returns what pathemu recorded, and packets lost outside the bottleneck."""
    with namespaces() as names:
        command = [
            str(pathemu), "--from", names["a"], "--to", names["b"], "--rate", str(round(cell["rate_mbit"] * 1e6)),
            "--delay-us", str(round(cell["rtt_ms"] * 500)), "--limit-packets", str(cell["buffer_packets"]),
            "--loss", str(cell["loss"]), "--seed", str(cell["seed"]), "--seconds", str(cell["seconds"]),
            "--sample-ms", str(round(sample_ms)), "--warmup", str(cell["warmup"]), "--cc", cell["cc"],
            "--peer", ADDRESS["b"], "--starts-ms", ",".join(map(str, cells.starts_ms(cell))),
            "--ahead", str(round(max(1 << 20, AHEAD_SECONDS * cell["rate_mbit"] * 1e6 / 8))),
        ]  # fmt: skip
        if cell["gro_flush_us"]:
            command += ["--napi"]
        if realtime:
            command += ["--realtime"]
        if trace:
            command += ["--trace", str(trace)]
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with child(command, **pipe) as emulator:
            ready(emulator, "pathemu")
            for side, name in names.items():
                attach(name, side, cell)
            emulator.stdin.write("begin\n")
            emulator.stdin.flush()
            out = emulator.stdout.readline()
            # The devices stay until the input is closed.
            hidden = sum(device_drops(n) for n in names.values()) if out else 0
            _, err = emulator.communicate(timeout=30)
            if emulator.returncode:
                sys.exit(f"pathemu: {err.strip()}")
    return json.loads(out), hidden


AHEAD_SECONDS = 0.3
"""What the sender has written and not sent, in seconds of the line: so long may it not be run without running dry."""


def between(columns: list[str], rows: list[list[int]], first_ns: int, last_ns: int) -> list[Json]:
    at = columns.index("time_ns")
    return [dict(zip(columns, r, strict=True)) for r in rows if first_ns <= r[at] <= last_ns]


def late_share(late: Json) -> float:
    return late["over_1ms"] / max(1, late["n"])


# Stated before the first comparison. A millisecond late now and then is what a busy machine does to any program.
LATE_SHARE = 0.01
LATE_MAX_MS = 20.0


def problems(cell: Json, path: Json, flows: list[list[Json]], hidden: int) -> list[str]:
    """What makes a run worthless: time not kept in one of three places, no data to send, packets lost elsewhere."""
    found = []
    for what in ("deliveries", "arrivals", "reads"):
        late = path[what]
        if late_share(late) > LATE_SHARE:
            found.append(f"{late_share(late):.2%} of {what} more than 1 ms late")
        if late["max_us"] / 1e3 > LATE_MAX_MS:
            found.append(f"one of {what} {late['max_us'] / 1e3:.0f} ms late")
        if late["n"] == 0:
            found.append(f"no {what}")
    for i, rows in enumerate(flows):
        if not rows:
            found.append(f"flow {i} was never sampled")
        elif dry := sum(r["notsent_bytes"] == 0 for r in rows):
            found.append(f"flow {i} had nothing to send in {dry} of {len(rows)} samples")
    if path.get("given_back"):
        found.append("the emulator slept too little for its priority")
    if hidden or path["write_errors"]:
        found.append(f"{hidden} packets lost outside the bottleneck, {path['write_errors']} write errors")
    if path["largest_packet"] > cells.PACKET_BYTES:
        found.append(f"a packet of {path['largest_packet']} bytes")
    return found


def summarise(cell: Json, path: Json, hidden: int) -> Json:
    """Figures over [warmup, seconds] of the run."""
    first_ns = path["begin_ns"] + round(cell["warmup"] * 1e9)
    last_ns = path["begin_ns"] + round(cell["seconds"] * 1e9)
    line = between(path["series_columns"], path["series"], first_ns, last_ns)
    flows = [between(path["flow_columns"], rows, first_ns, last_ns) for rows in path["flows"]]
    found = problems(cell, path, flows, hidden)
    if not line or not all(flows):
        return {"problems": found}
    d = {k: line[-1][k] - line[0][k] for k in line[0]}
    span = d["time_ns"] / 1e9
    goodputs = []
    for rows in flows:
        seconds = (rows[-1]["time_ns"] - rows[0]["time_ns"]) / 1e9
        goodputs.append((rows[-1]["bytes_acked"] - rows[0]["bytes_acked"]) * 8 / seconds)
    rtts = [r["rtt_us"] / 1e3 for rows in flows for r in rows]
    return {
        "goodput_mbit": round(sum(goodputs) / 1e6, 4),
        "rtt_ms": round(statistics.fmean(rtts), 3),
        "rtt_p95_ms": round(cells.quantile(rtts, 0.95), 3),
        "queue_packets": round(d["waited_ns"] / 1e9 / span, 3),
        "cwnd": round(statistics.fmean(r["cwnd"] for rows in flows for r in rows), 3),
        "retransmitted": sum(rows[-1]["total_retrans"] - rows[0]["total_retrans"] for rows in flows),
        "acks_per_packet": round(d["acks"] / max(1, d["data"]), 4),
        "ack_gap_p10_us": path["ack_gaps"]["p10_us"],
        "ack_gap_p50_us": path["ack_gaps"]["p50_us"],
        "ack_gap_p90_us": path["ack_gaps"]["p90_us"],
        "utilisation": round(d["sent_bytes"] * 8 / (cell["rate_mbit"] * 1e6 * span), 5),
        "queue_loss": round(d["dropped"] / max(1, d["arrived"]), 7),
        "line_loss": round(d["lost"] / max(1, d["sent"]), 7),
        "goodput_bit_per_second": [round(g) for g in goodputs],
        "realtime": path["realtime"],
        "late": {what: path[what] for what in ("deliveries", "arrivals", "reads")},
        "least_unsent_bytes": min(r["notsent_bytes"] for rows in flows for r in rows),
        "problems": found,
    }  # fmt: skip


def head() -> Json:
    def setting(key: str) -> str:
        return subprocess.run(["sysctl", "-n", f"net.ipv4.{key}"], capture_output=True, text=True).stdout.strip()

    return {
        "peer": f"Linux {platform.release()}",
        "script": "evidence/kernel/run.py",
        "path": "pathemu: drop-tail by waiting packets, rate over IP bytes, half the RTT each way, loss after the line",
        "bdp": "rate x rtt / 8 / 1500 bytes",
        "window": "figures over [warmup, seconds] after the first connection may start; starts over [0, spread]",
        "means": "queue over time, waiting only; rtt (tcpi_rtt, smoothed) and cwnd over samples every 10 ms",
        "losses": "the n-th draw of the seed for the n-th packet on the line, as on airtcp's first link",
        "set": SYSCTLS,
        "found": {key: setting(key) for key in RECORDED},
    }


ATTEMPTS = 4
"""A run in which time was not kept is repeated this often in all."""


def measured(pathemu: pathlib.Path, cell: Json, realtime: bool) -> Json:
    """A cell with a run in which time was kept, or with the problems of all that were tried."""
    thrown_away = []
    for _ in range(ATTEMPTS):
        result = summarise(cell, *run_cell(pathemu, cell, realtime=realtime))
        if not result["problems"]:
            break
        thrown_away.append(result["problems"])
    return {**cell, "thrown_away": thrown_away, "result": result}


def told(cell: Json) -> str:
    r = cell["result"]
    if r["problems"]:
        return f"{cells.name(cell)}: not measured: {'; '.join(r['problems'])}"
    late = r["late"]["deliveries"]
    return (
        f"{cells.name(cell)}: {r['goodput_mbit']:.2f} Mbit/s, RTT {r['rtt_ms']:.1f} ms, queue {r['queue_packets']:.1f},"
        f" cwnd {r['cwnd']:.1f}, again {r['retransmitted']}, ACKs {r['acks_per_packet']:.3f};"
        f" late {late['mean_us']:.0f} us, at most {late['max_us'] / 1e3:.1f} ms, thrown away {len(cell['thrown_away'])}"
    )


def measure(out: pathlib.Path, pathemu: pathlib.Path, match: str, again: int, realtime: bool) -> None:
    """Measures the cells that match, every `again`-th of them twice; keeps what is recorded of the others."""
    started = time.monotonic()
    done: dict[str, list[Json]] = {}
    for cell in json.loads(out.read_text())["cells"] if out.exists() else []:
        done.setdefault(cells.name(cell), []).append(cell)
    order = [cells.name(c) for c in cells.cells()]
    for i, cell in enumerate(c for c in cells.cells() if match in cells.name(c)):
        runs = []
        for repetition in range(2 if again and i % again == 0 else 1):
            runs.append({**measured(pathemu, cell, realtime), "repetition": repetition})
            print(f"{time.monotonic() - started:6.0f} s  {told(runs[-1])}", flush=True)
        done[cells.name(cell)] = runs
        write(out, [run for name in order for run in done.get(name, [])])


def write(out: pathlib.Path, done: list[Json]) -> None:
    lines = ",\n".join(json.dumps(c) for c in done)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(head(), indent=1)[:-2] + ',\n "cells": [\n' + lines + "\n]}\n")


def why_not() -> str | None:
    """Why the kernel cannot be measured here."""
    if os.geteuid() != 0:
        return "needs root: it makes network namespaces and TUN devices"
    if not pathlib.Path("/dev/net/tun").exists():
        return "needs /dev/net/tun"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = ROOT / "target/pathemu"
    parser.add_argument("--target", type=pathlib.Path, default=target, help="where cargo builds the emulator")
    help_ = "let the emulator sleep at the lowest real-time priority: for a machine with much other work"
    parser.add_argument("--realtime", action="store_true", help=help_)
    sub = parser.add_subparsers(dest="what", required=True)
    g = sub.add_parser("compare")
    g.add_argument("--measure", action="store_true", help="measure the kernel first; else what is recorded counts")
    g.add_argument("--match", default="", help="only cells whose name contains this")
    g.add_argument("--again", type=int, default=4, help="measure every n-th cell twice; 0: none")
    g.add_argument("--reference", type=pathlib.Path, default=OUT)
    g.add_argument("--page", action="store_true", help="write the tables to evidence/kernel.md")
    g.add_argument("--out", type=pathlib.Path, help="write the comparison to this file, as JSON")
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
        c.add_argument("--seed", type=int, default=1, help="of the losses: a seed has its sequence")
        c.add_argument("--no-send-offload", action="store_true")
        c.add_argument("--gro-flush-us", type=int, default=0, help="NAPI at the receiver, with this gro_flush_timeout")
        c.add_argument("--sample-ms", type=float, default=10)
        if what == "trace":
            c.add_argument("--out", type=pathlib.Path, required=True, help="folder for packets.csv and series.json")
    args = parser.parse_args()
    if args.what != "compare" or args.measure:
        if reason := why_not():
            sys.exit(reason)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        pathemu = build_pathemu(args.target)
    if args.what == "compare":
        if args.measure:
            measure(args.reference, pathemu, args.match, args.again, args.realtime)
        import compare

        with tempfile.TemporaryDirectory(prefix="airtcp-kernel-") as work:
            reference = json.loads(args.reference.read_text())
            return compare.report(reference, args.match, pathlib.Path(work), args.out, args.page)
    a = args
    cell = cells.make(
        a.cc, a.rate, a.rtt, a.buffer, a.loss, flows=a.flows, seconds=a.seconds, warmup=a.warmup, seed=a.seed,
        send_offload=not a.no_send_offload, gro_flush_us=a.gro_flush_us,
    )  # fmt: skip
    trace = None
    if args.what == "trace":
        args.out.mkdir(parents=True, exist_ok=True)
        trace = args.out / "packets.csv"
    path, hidden = run_cell(pathemu, cell, trace=trace, sample_ms=args.sample_ms, realtime=args.realtime)
    if trace:
        (args.out / "series.json").write_text(json.dumps(path))
    print(json.dumps({**cell, "result": summarise(cell, path, hidden)}, indent=1))


if __name__ == "__main__":
    main()
