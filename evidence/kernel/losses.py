#!/usr/bin/env python3
"""Runs the kernel's TCP over paths that lose and delay single packets by script, and records every packet.

    sudo evidence/kernel/losses.py                            # all cases; writes evidence/figures/kernel/losses.json.gz
    sudo evidence/kernel/losses.py --only tail_rtt_100 --settings default no_sack --show
    sudo evidence/kernel/losses.py --captures tests/data/captures

Each run has two network namespaces of its own and evidence/kernel/pathemu between them, as run.py; the cases are in
loss_cases.py. A case is run until two runs agree: the same segments in the same order, each within a step of its
timer wheel of the other's. Needs root, /dev/net/tun, iproute2 and cargo; dumpcap for --captures.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import csv
import ctypes
import json
import os
import pathlib
import platform
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import loss_cases
import run

sys.path.append(str(run.ROOT / "evidence"))
import recorded

OUT = run.ROOT / "evidence/figures/kernel/losses.json.gz"
AS_IS = OUT.with_name("losses_as_is.json.gz")
ATTEMPTS = 6
AHEAD = 4
SAME_MS = 1.0
"""Less than the time of a packet at these rates."""
JIFFY_MS = 4.0
"""CONFIG_HZ is 250; told in evidence/kernel.md."""

Json = dict[str, Any]

COUNTERS = (
    "TCPTimeouts", "TCPLossProbes", "TCPLossProbeRecovery", "TCPFastRetrans", "TCPSlowStartRetrans", "TCPSackRecovery",
    "TCPSackRecoveryFail", "TCPRenoRecovery", "TCPRenoRecoveryFail", "TCPLostRetransmit", "TCPSackFailures",
    "TCPRenoFailures", "TCPLossFailures", "TCPDSACKRecv", "TCPDSACKOfoRecv", "TCPDSACKOldSent", "TCPDSACKOfoSent",
    "TCPDSACKUndo", "TCPFullUndo", "TCPPartialUndo", "TCPLossUndo", "TCPSpuriousRTOs", "TCPSACKReorder",
    "TCPRenoReorder", "TCPTSReorder", "TCPDSACKIgnoredOld", "TCPDSACKIgnoredNoUndo", "TCPAckCompressed",
)  # fmt: skip

INFO = {
    **run.INFO,
    "dsack_dups": ("I", 216),
    "reord_seen": ("I", 220),
}
LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """The calling thread in a network namespace."""

    def enter(fd: int) -> None:
        if LIBC.setns(fd, 0x40000000):  # CLONE_NEWNET
            raise OSError(ctypes.get_errno(), "setns")

    own, other = pathlib.Path("/proc/thread-self/ns/net"), pathlib.Path(f"/run/netns/{name}")
    with own.open() as home, other.open() as there:
        enter(there.fileno())
        try:
            yield
        finally:
            enter(home.fileno())


def tcp_info(sock: socket.socket) -> dict[str, int]:
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256).ljust(256, b"\0")
    return {name: struct.unpack_from(kind, raw, at)[0] for name, (kind, at) in INFO.items()}


def counters() -> dict[str, int]:
    """What is not zero, of the calling thread's namespace, which is new."""
    lines = pathlib.Path("/proc/thread-self/net/netstat").read_text().splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith("TcpExt:"))
    found = dict(zip(names, map(int, values), strict=True))
    return {name: found[name] for name in COUNTERS if found.get(name)}


SYSCTLS = {
    **run.SYSCTLS,
    "net.ipv4.tcp_wmem": "4096 4194304 33554432",
}
"""Buffers hold all of a transfer. Nothing is switched off but what a case's setting names."""
SYSCTLS_OF_A_SMALL_WINDOW = {"tcp_rmem": "4096 131072 131072", "tcp_moderate_rcvbuf": "0"}


@contextlib.contextmanager
def namespaces(tag: str, settings: dict[str, str]) -> Iterator[dict[str, str]]:
    names = {side: f"airtcp-loss-{os.getpid()}-{tag}-{side}" for side in "ab"}
    sysctls = SYSCTLS | {f"net.ipv4.{key}": value for key, value in settings.items()}
    made = []
    try:
        for name in names.values():
            run.ip("netns", "add", name)
            made.append(name)
            with inside(name):
                for key, value in sysctls.items():
                    (pathlib.Path("/proc/sys") / key.replace(".", "/")).write_text(value)
        yield names
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False)


def mss_of(settings: dict[str, str]) -> int:
    return 1460 if settings.get("tcp_timestamps") == "0" else 1448


def counted(names: dict[str, str]) -> dict[str, int]:
    """Of both ends."""
    with inside(names["a"]):
        told = counters()
    with inside(names["b"]):
        told |= {k: v for k, v in counters().items() if k in ("TCPDSACKOldSent", "TCPDSACKOfoSent", "TCPAckCompressed")}
    return told


def late_ms(case: Json) -> float:
    """For how long the script holds a packet back at most."""
    return max([0.0, *(float(i.split("=+")[1]) for i in (case["data"] + "," + case["acks"]).split(",") if "=+" in i)])


KEPT = ("ca_state", "cwnd", "ssthresh", "reordering", "reord_seen", "rtt_us", "rto_us")


def connected(names: dict[str, str], cc: str) -> socket.socket:
    """The sender, with whoever listens at the other end."""
    with inside(names["a"]):
        sender = socket.socket()
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sender.settimeout(5)
    sender.connect((run.ADDRESS["b"], run.PORT))
    return sender


def send_alone(names: dict[str, str], case: Json, cc: str, mss: int) -> Json:
    """One connection from its first packet to its end. Its receiver is pathemu."""
    sender = connected(names, cc)
    all_of_it = case["segments"] * mss
    if sender.send(b"\0" * all_of_it) != all_of_it:
        raise OSError("the send buffer is too small")
    if case["close"]:
        sender.shutdown(socket.SHUT_WR)
    end = time.monotonic() + case["seconds"]
    while time.monotonic() < end:
        time.sleep(0.01)
        if tcp_info(sender)["unacked"] == 0:
            time.sleep((2 * case["rtt_ms"] + late_ms(case)) / 1e3 + 0.05)
            break
    info, told = tcp_info(sender), counted(names)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sender.close()
    return {"info": {k: info[k] for k in KEPT}, "counters": told}


def transfer(names: dict[str, str], case: Json, cc: str, mss: int) -> Json:
    """One connection from its first packet to its end."""
    with inside(names["b"]):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if case["receive_window"]:
            listener.setsockopt(socket.IPPROTO_TCP, 10, case["receive_window"] * mss)  # TCP_WINDOW_CLAMP
        listener.bind((run.ADDRESS["b"], run.PORT))
        listener.listen(1)
    sender = connected(names, cc)
    ahead = AHEAD if case["receive_window"] else 0
    for n in range(ahead):
        # The first segment of a connection teaches the kernel what a segment costs in memory and undoes the clamp; what
        # it has then offered is used up by the next ones.
        sender.send(b"\0" * mss)
        while tcp_info(sender)["unacked"]:
            time.sleep(0.0002)
        if n == 0:
            receiver, _ = listener.accept()
            receiver.setsockopt(socket.IPPROTO_TCP, 10, case["receive_window"] * mss)
    rest = (case["segments"] - ahead) * mss
    if sender.send(b"\0" * rest) != rest:
        raise OSError("the send buffer is too small")
    if case["close"]:
        sender.shutdown(socket.SHUT_WR)
    if not ahead:
        receiver, _ = listener.accept()
    receiver.setblocking(False)
    poll = selectors.DefaultSelector()
    poll.register(receiver, selectors.EVENT_READ)
    begin = time.monotonic()
    end = begin + case["seconds"]
    left, into = case["segments"] * mss, bytearray(1 << 20)
    info: dict[str, int] = {}
    while time.monotonic() < end:
        for _ in poll.select(0.01):
            n = receiver.recv_into(into)
            left -= n
            if n == 0:
                poll.unregister(receiver)
                receiver.shutdown(socket.SHUT_WR)
        info = tcp_info(sender)
        if left == 0 and info["unacked"] == 0:
            # What is still on its way: late originals, their duplicates' ACKs.
            end = min(end, time.monotonic() + (2 * case["rtt_ms"] + late_ms(case)) / 1e3 + 0.05)
            while time.monotonic() < end:
                time.sleep(0.02)
                with contextlib.suppress(BlockingIOError):
                    receiver.recv_into(into)
            break
    info, told = tcp_info(sender), counted(names)
    for s in (sender, receiver, listener):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    return {"info": {k: info[k] for k in KEPT}, "counters": told}


def grouped(packets: list[tuple[float, int]]) -> str:
    """`ms=first-last` for segments that left at once, in order."""
    groups: list[list[float]] = []
    for ms, segment in packets:
        if groups and segment == groups[-1][2] + 1 and ms - groups[-1][0] < 0.4:
            groups[-1][2] = segment
        else:
            groups.append([ms, segment, segment])
    return " ".join(f"{ms:.1f}={a:g}" + (f"-{b:g}" if b > a else "") for ms, a, b in groups)


def read_trace(path: pathlib.Path, mss: int) -> Json:
    """Data as it left the sender, ACKs as they left the receiver: ms since the first data; numbers in segments."""
    rows = list(csv.DictReader(path.open()))
    syn = next(r for r in rows if r["way"] == "forward" and int(r["flags"]) & 2)

    def segment(seq: str) -> int:
        offset = (int(seq) - int(syn["seq"]) - 1) % 2**32
        if offset > 2**31:
            return -1
        return offset // mss if offset % mss == 0 else -1 - offset // mss

    data = [r for r in rows if r["way"] == "forward" and int(r["payload"])]
    first = int(data[0]["time_ns"])

    def ms(r: Json) -> float:
        return (int(r["time_ns"]) - first) / 1e6

    problems = sorted({int(r["payload"]) for r in data} - {mss})
    acks = []
    before = (0.0, "")
    end = (int(syn["seq"]) + 1 + mss * (1 + max(segment(r["seq"]) for r in data))) % 2**32
    for r in rows:
        if r["way"] == "back" and not int(r["flags"]) & 6:
            ack = int(r["ack"])
            beyond_fin = ack == (end + 1) % 2**32
            cumulative = f"{segment(str(end))}f" if beyond_fin else str(segment(r["ack"]))
            # Gaps of rounded times: their sum stays within 0.05 ms.
            text = f"{round(ms(r), 1) - before[0]:.1f}=".replace(".0=", "=")
            text += "" if cumulative == before[1] else cumulative
            before = (round(ms(r), 1), cumulative)
            blocks = [tuple(segment(x) for x in b.split("-")) for b in r["sack"].split(";") if b]
            if blocks:
                text += ":" + ",".join(f"{a}-{b}" for a, b in blocks)
            acks.append(text)
    out = {"sent": [(ms(r), segment(r["seq"])) for r in data], "acks": " ".join(acks)}
    if problems:
        out["odd_payloads"] = problems
    return out


@contextlib.contextmanager
def dumping(names: dict[str, str], folder: pathlib.Path | None, snaplen: int) -> Iterator[None]:
    if folder is None:
        yield
        return
    children = []
    for side, what in (("a", "sender"), ("b", "receiver")):
        command = [
            "ip",
            "netns",
            "exec",
            names[side],
            "dumpcap",
            "-q",
            "-P",
            "-i",
            "path0",
            "-s",
            str(snaplen),
            "-w",
            str(folder / f"{what}.pcap"),
        ]
        children.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    for what in ("sender", "receiver"):
        for _ in range(100):
            if (folder / f"{what}.pcap").exists() and (folder / f"{what}.pcap").stat().st_size >= 24:
                break
            time.sleep(0.05)
    time.sleep(0.3)
    try:
        yield
    finally:
        time.sleep(0.5)
        for c in children:
            c.send_signal(signal.SIGINT)
            c.wait(10)


def run_case(
    pathemu: list[str], case: Json, settings_name: str, cc: str, tag: str,
    captures: pathlib.Path | None = None, snaplen: int = 128,
) -> Json:  # fmt: skip
    settings = loss_cases.SETTINGS[settings_name]
    mss = mss_of(settings)
    if case["receive_window"]:
        settings = settings | SYSCTLS_OF_A_SMALL_WINDOW
    with namespaces(tag, settings) as names, tempfile.TemporaryDirectory() as scratch:
        trace = pathlib.Path(scratch) / "packets.csv"
        command = [
            *pathemu, "--from", names["a"], "--to", names["b"], "--rate", str(round(case["rate_mbit"] * 1e6)),
            "--delay-us", str(round(case["rtt_ms"] * 500)), "--seconds", str(case["seconds"] + 10),
            "--mss", str(mss), "--data", case["data"], "--acks", case["acks"], "--trace", str(trace),
        ]  # fmt: skip
        # What the kernel acknowledges depends on when data is read, unless it acknowledges each segment at once.
        reads = case["delayed_acks"] and not case["receive_window"]
        command += ["--read"] * reads
        pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with run.child(command, **pipe) as emulator:
            run.ready(emulator, "pathemu")
            for side, name in names.items():
                other = run.ADDRESS["b" if side == "a" else "a"]
                route = f"route add {other} dev path0 src {run.ADDRESS[side]} initcwnd {case['window']}"
                if not case["delayed_acks"]:
                    route += " quickack 1"
                batch = "link set path0 mtu 1500 txqueuelen 20000\n"
                batch += f"addr add {run.ADDRESS[side]}/32 dev path0\nlink set path0 up\n{route}\n"
                subprocess.run(
                    ["ip", "-n", name, "-batch", "-"], input=batch, text=True, check=True, capture_output=True
                )
            with dumping(names, captures, snaplen):
                told = (send_alone if reads else transfer)(names, case, cc, mss)
            out, err = emulator.communicate(timeout=30)
            if emulator.returncode:
                sys.exit(f"pathemu: {err.strip()}")
        path = json.loads(out)
        late_us = max(path[what]["max_us"] for what in ("deliveries", "arrivals", "reads"))
        return {**read_trace(trace, mss), **told, "late_max_ms": late_us / 1e3}


def wheel_ms(waited_ms: float) -> float:
    """How late the timer wheel may be after a wait: each level is eight times coarser (kernel/time/timer.c)."""
    jiffies, step = waited_ms / JIFFY_MS, 1.0
    while jiffies >= 63:
        jiffies, step = jiffies / 8, step * 8
    return step * JIFFY_MS + 2


def spread_ms(a: Json, b: Json) -> float | None:
    """Largest difference in time between two runs, beyond that of earlier waits; None: not the same segments."""
    if [s for _, s in a["sent"]] != [s for _, s in b["sent"]] or a["counters"] != b["counters"]:
        return None
    worst = shift = 0.0
    last = 0.0
    for (t, _), (u, _) in zip(a["sent"], b["sent"], strict=True):
        off = abs(u - t - shift)
        if off > wheel_ms(t - last):
            return None
        if off > 2:
            shift = u - t
        worst, last = max(worst, off), t
    return worst


def settle(pathemu: list[str], case: Json, settings: str, cc: str, tag: str) -> Json:
    """Runs until two agree; the one of them whose packets the emulator delivered more punctually is kept."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    runs: list[Json] = []
    trouble = "the machine was too busy"
    for _ in range(ATTEMPTS):
        try:
            result = run_case(pathemu, case, settings, cc, tag)
        except (Exception, SystemExit) as e:  # one run of many: told in the result
            trouble = f"{type(e).__name__}: {e}"
            continue
        if result["late_max_ms"] > 1.5:
            continue
        for other in runs:
            spread = spread_ms(result, other)
            if spread is not None:
                best = min(result, other, key=lambda r: r["late_max_ms"])
                return {**best, "attempts": len(runs) + 1, "spread_ms": round(spread, 1)}
        runs.append(result)
    if not runs:
        return {"unstable": trouble}
    return {**runs[0], "unstable": [grouped(r["sent"]) for r in runs[1:]], "attempts": len(runs)}


def head() -> Json:
    def setting(key: str) -> str:
        return subprocess.run(["sysctl", "-n", f"net.ipv4.{key}"], capture_output=True, text=True).stdout.strip()

    return {
        "peer": f"Linux {platform.release()}",
        "hz": 250,
        "script": "evidence/kernel/losses.py",
        "path": "half the RTT each way, rate over IP bytes to the receiver, queue without end; scripts: script.rs",
        "sent": "data leaving the sender: ms since the first = segments, first-last where they left within 0.4 ms",
        "acks": "ACKs leaving the receiver: ms since the one before = cumulative segments, nothing if as before : SACK "
        "blocks as from-to; f: the FIN too",
        "same_as": "like that run, and within 1 ms: it stands for both",
        "attempts": "runs until two agreed; spread_ms: their largest difference in one step, above 2 only after timers",
        "set": SYSCTLS,
        "routes": "initcwnd: window; quickack 1 but for delayed_acks",
        "receive_window": "TCP_WINDOW_CLAMP, again after the first of "
        + str(AHEAD)
        + " segments that are sent and acknowledged alone; also "
        + str(SYSCTLS_OF_A_SMALL_WINDOW),
        "settings": loss_cases.SETTINGS,
        "found": {key: setting(key) for key in run.RECORDED},
    }


def compact(results: list[tuple[Json, str, str, Json]]) -> Iterator[Json]:
    """One entry for a case, with its runs by `setting/control`."""
    by_case: dict[str, Json] = {}
    for case, settings, cc, result in results:
        entry = by_case.setdefault(case["name"], {**case, "runs": {}})
        entry["runs"][f"{settings}/{cc}"] = result
    for entry in by_case.values():
        kept: Json = {}
        out: Json = {}
        for key, result in entry["runs"].items():
            if "sent" not in result:
                out[key] = result
                continue
            if "unstable" not in result:
                twin = next((k for k, r in kept.items() if same(r, result)), None)
                if twin is not None:
                    out[key] = {"same_as": twin}
                    continue
                kept[key] = result
            out[key] = {**result, "sent": grouped(result["sent"])}
            out[key].pop("late_max_ms")
        yield {**entry, "runs": out}


def same(a: Json, b: Json) -> bool:
    """Alike in times too: two controls may send the same segments in the same order, each by another ACK."""
    spread = spread_ms(a, b)
    info = ("ca_state", "cwnd", "ssthresh", "reordering", "reord_seen")
    return spread is not None and spread <= SAME_MS and all(a["info"][k] == b["info"][k] for k in info)


def write(out: pathlib.Path, results: list[tuple[Json, str, str, Json]]) -> None:
    """Cases that were not run stay as they are in the file."""
    entries = {entry["name"]: entry for entry in compact(results)}
    if out.exists():
        entries = {e["name"]: e for e in json.loads(recorded.read(out))["cases"]} | entries
    lines = []
    for name in (c["name"] for c in loss_cases.cases()):
        if name in entries:
            entry = dict(entries[name])
            runs = entry.pop("runs")
            body = ",\n".join(f"   {json.dumps(k)}: {json.dumps(r, separators=(',', ':'))}" for k, r in runs.items())
            lines.append(json.dumps(entry)[:-1] + ', "runs": {\n' + body + "}}")
    out.parent.mkdir(parents=True, exist_ok=True)
    recorded.write(out, json.dumps(head(), indent=1)[:-2] + ',\n "cases": [\n' + ",\n".join(lines) + "\n]}\n")


def capture(pathemu: list[str], folder: pathlib.Path) -> None:
    """Writes NAME-sender.pcap and NAME-receiver.pcap for each of CAPTURES, and prints what the kernel counted."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = {c["name"]: c for c in loss_cases.cases()}
    for name, case, key, snaplen in loss_cases.CAPTURES:
        setting, cc = key.split("/")
        with tempfile.TemporaryDirectory() as scratch:
            r = run_case(pathemu, cases[case], setting, cc, name[:12], pathlib.Path(scratch), snaplen)
            for side in ("sender", "receiver"):
                shutil.copyfile(pathlib.Path(scratch) / f"{side}.pcap", folder / f"{name}-{side}.pcap")
        print(f"{name} ({case}, {key})\n  {r['counters']}\n  {grouped(r['sent'])}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--target", type=pathlib.Path, default=run.ROOT / "target/pathemu", help="where cargo builds pathemu"
    )
    help_ = f"default: {OUT.name}, with --as-is {AS_IS.name}, in {OUT.parent}"
    parser.add_argument("--out", type=pathlib.Path, help=help_)
    parser.add_argument("--only", nargs="*", help="names of cases")
    help_ = "no `quickack 1`: ACKs are delayed and compressed as everywhere; the default settings alone"
    parser.add_argument("--as-is", action="store_true", help=help_)
    parser.add_argument("--settings", nargs="*", choices=list(loss_cases.SETTINGS), help="default: all")
    parser.add_argument("--controls", nargs="*", default=list(loss_cases.CONTROLS))
    parser.add_argument("--jobs", type=int, default=8, help="runs at the same time; they sleep most of the time")
    parser.add_argument(
        "--captures", type=pathlib.Path, help="only make the captures of loss_cases.py, into this folder"
    )
    parser.add_argument("--realtime", action="store_true", help="as run.py's")
    parser.add_argument("--show", action="store_true", help="print instead of writing")
    args = parser.parse_args()
    if reason := run.why_not():
        sys.exit(reason)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    pathemu = [str(run.build_pathemu(args.target)), *["--realtime"] * args.realtime]
    if args.captures:
        return capture(pathemu, args.captures)
    by_name = [*loss_cases.cases(), *loss_cases.compressed()]
    chosen = [c for c in by_name if c["name"] in args.only] if args.only else loss_cases.cases()
    if args.as_is:
        chosen = [{**c, "delayed_acks": True} for c in chosen]
    settings = args.settings or (["default"] if args.as_is else list(loss_cases.SETTINGS))
    out = args.out or (AS_IS if args.as_is else OUT)
    jobs = [(c, s, cc) for c in chosen for s in settings for cc in args.controls]
    started = time.monotonic()
    results: list[tuple[Json, str, str, Json]] = []
    with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
        waiting = [pool.submit(settle, pathemu, c, s, cc, str(i)) for i, (c, s, cc) in enumerate(jobs)]
        for (c, s, cc), future in zip(jobs, waiting, strict=True):
            r = future.result()
            results.append((c, s, cc, r))
            note = f"UNSTABLE {r['unstable']}" if "unstable" in r else ""
            print(f"{time.monotonic() - started:5.0f} s  {c['name']} {s}/{cc}: {r.get('counters')}", note, flush=True)
            if args.show and "sent" in r:
                print("  sent", grouped(r["sent"]), "\n  acks", r["acks"], "\n ", r["info"], "late", r["late_max_ms"])
    if not args.show:
        write(out, results)
        unstable = sum("unstable" in r for *_, r in results)
        print(f"{len(results)} runs, {unstable} not the same twice, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
