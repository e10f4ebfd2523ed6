#!/usr/bin/env python3
"""Classes of retransmissions against the kernel's own account: vantage, round trip, buffer, loss, timestamps.

    sudo .venv/bin/python evidence/analyze_kernel.py [--seeds N ...] [--only TEXT] [--wrong] [--json FILE]

Each run is one connection of the kernel's TCP between two namespaces, on the path of tests/kernel_path.py. The queue
stands half-way, and four places are captured at once. The tracepoints `tcp_retransmit_skb` and `tcp_cong_state_set` say
for each retransmission which function of the kernel sent it, and in which state of congestion the connection was.

A run counts if the kernel's account has as many retransmissions as the path carried, and if no packet was late by
more than `--late-ms`; otherwise it is repeated. Runs that never count are told. Needs root, /dev/net/tun and
tracepoints.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import dataclasses
import itertools
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import airtcp

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import kernel_path  # noqa: E402
from kernel_path import BEFORE, Outcome, Spec  # noqa: E402

Json = dict[str, Any]

PLACES = {
    "sender": "beside the sender",
    BEFORE: "half-way, before the queue",
    "between": "half-way, behind the queue",
    "receiver": "beside the receiver",
}
FILES = {"sender": "tap"}
"""Captures by place, where they are called otherwise."""
GOALS = {"sender": 0.95, BEFORE: 0.95, "between": 0.9, "receiver": 0.9}
RATE_MBIT = 10.0
MSS_BYTES = 1448
LASTS_S = 15.0
"""About as long is a run."""
LEAST_SEGMENTS = 300
ATTEMPTS = 4
LATE_S = 0.03
"""A packet passes a place at most so long after, or before, it was due there."""

CLONE_NEWNS = 0x20000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
RECOVERY, LOSS = 3, 4
"""Of `enum tcp_ca_state` (include/uapi/linux/tcp.h)."""
EVENT = re.compile(r"\s(\d+\.\d+): (tcp_retransmit_skb|tcp_cong_state_set): .*?sport=(\d+) ")


@dataclasses.dataclass(frozen=True)
class Event:
    """A line of the kernel's trace, with the functions that led to it."""

    at_s: float
    what: str
    port: int
    state: int | None
    functions: frozenset[str]


class Trace:
    """The kernel's tracepoints for connections to the path's port, in a buffer of their own."""

    def __init__(self, root: pathlib.Path) -> None:
        self.folder = root / "instances" / f"airtcp-{os.getpid()}"

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        self.folder.mkdir()
        try:
            self._set("trace_clock", "mono")
            self._set("buffer_size_kb", "32768")
            self._set("options/stacktrace", "1")
            for name in ("tcp_retransmit_skb", "tcp_cong_state_set"):
                self._set(f"events/tcp/{name}/filter", f"dport == {kernel_path.PORT}")
                self._set(f"events/tcp/{name}/enable", "1")
            yield
        finally:
            self.folder.rmdir()

    def _set(self, name: str, value: str) -> None:
        (self.folder / name).write_text(value)

    def events(self, text: str | None = None) -> list[Event]:
        """All events so far, in the order of time."""
        found: list[Event] = []
        head: re.Match[str] | None = None
        line = ""
        functions: set[str] = set()

        def end() -> None:
            if head is None:
                return
            state = re.search(r"cong_state=(\d+)", line)
            # A packet that the device refused was not sent, and one before the handshake's end holds no data.
            is_sent = head[2] != "tcp_retransmit_skb" or ("err=0" in line and "state=TCP_ESTABLISHED" in line)
            if is_sent:
                at = (float(head[1]), head[2], int(head[3]), int(state[1]) if state else None)
                found.append(Event(*at, frozenset(functions)))

        for row in (text if text is not None else (self.folder / "trace").read_text()).splitlines():
            if row.startswith(" => "):
                functions.add(row[4:].split(".")[0].strip())
            elif match := EVENT.search(row):
                end()
                head, line, functions = match, row, set()
        end()
        return sorted(found, key=lambda event: event.at_s)


def classes(events: list[Event]) -> list[str]:
    """The class of each retransmission of one connection, as the kernel has it."""
    state, is_first = 0, True
    found = []
    for event in events:
        if event.state is not None:
            state, is_first = event.state, True
        elif "tcp_send_loss_probe" in event.functions:
            found.append("probe")
        elif "tcp_retransmit_timer" in event.functions:
            found.append("timeout")
            is_first = False
        elif state == RECOVERY:
            found.append("fast" if is_first else "recovery")
            is_first = False
        else:
            found.append("repair" if state == LOSS else f"state {state}")
    return found


@contextlib.contextmanager
def tracefs() -> Iterator[pathlib.Path]:
    """The kernel's trace files, mounted for this process alone."""
    libc = ctypes.CDLL(None, use_errno=True)

    def check(done: int, what: str) -> None:
        if done:
            raise SystemExit(f"the kernel's tracepoints: {what}: {os.strerror(ctypes.get_errno())}")

    check(libc.unshare(CLONE_NEWNS), "unshare")
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount --make-rprivate")
    with tempfile.TemporaryDirectory(prefix="airtcp-trace-") as folder:
        check(libc.mount(b"none", folder.encode(), b"tracefs", 0, None), "mount tracefs")
        try:
            yield pathlib.Path(folder)
        finally:
            libc.umount2(folder.encode(), 0)


def specs(seeds: list[int]) -> Iterator[tuple[str, Spec]]:
    """A home, a long path; a small buffer, a bloated one; losses before the third place, or behind it."""
    for seed, rtt_ms, packets, loss, timestamps in itertools.product(
        seeds, (20, 160), (20, 250), (0.0, 0.01, 0.08), (True, False)
    ):
        # M. Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997.
        lossy = MSS_BYTES * 8 / (rtt_ms / 1e3) * math.sqrt(1.5 / loss) if loss else math.inf
        segments = max(LEAST_SEGMENTS, round(min(lossy, 0.9 * RATE_MBIT * 1e6) * LASTS_S / 8 / MSS_BYTES))
        spec = Spec(
            [(0, segments)],
            loss=loss,
            seed=seed,
            one_way_ms=rtt_ms / 2,
            rate_mbit=RATE_MBIT,
            queue=packets,
            drop_after=packets > 20,
            queue_half_way=True,
            segments_at_once=1,
            sysctls={"tcp_timestamps": "1" if timestamps else "0"},
            snaplen=128,
            is_tapped=True,
            seconds=90,
            close_after_ms=100,
        )
        stamps = "with" if timestamps else "without"
        yield f"seed {seed}, {rtt_ms} ms, {packets} packets, loss {loss:.0%}, {stamps} timestamps", spec


@dataclasses.dataclass
class Score:
    """Retransmissions that a capture shows: how many have the kernel's class, or none, and the others by kind."""

    right: int = 0
    unknown: int = 0
    shown: int = 0
    made_up: int = 0
    wrong: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def add(self, other: Score) -> None:
        self.right += other.right
        self.unknown += other.unknown
        self.shown += other.shown
        self.made_up += other.made_up
        self.wrong += other.wrong

    @property
    def part(self) -> float:
        return self.right / max(1, self.shown)

    def to_dict(self) -> Json:
        return {
            "shown": self.shown,
            "right": self.right,
            "unknown": self.unknown,
            "made_up": self.made_up,
            "wrong": dict(self.wrong.most_common()),
        }


def passes(place: str, packet: Json, one_way_s: float) -> float | None:
    """When a retransmission is due at a place, since the SYN passed there; `None`: it was lost before."""
    if place in ("sender", BEFORE):
        return float(packet["time_s"])
    if packet["middle_s"] is None or (place == "receiver" and packet["dropped"]):
        return None
    return float(packet["middle_s"]) - one_way_s / 2


def judge(place: str, capture: pathlib.Path, spec: Spec, truth: Outcome, told: list[str]) -> Score:
    """Holds one capture against the kernel's account."""
    due = [
        (packet, at, cause)
        for packet, cause in zip(truth.retransmitted, told, strict=True)
        if (at := passes(place, packet, spec.one_way_ms / 1e3)) is not None
    ]
    used: set[int] = set()
    score = Score()
    rows = airtcp.analyze(capture, points=1_000_000).retransmissions.sort("packet").collect().to_dicts()
    for row in rows:
        if not row["bytes"]:
            continue
        score.shown += 1
        fits = [
            (abs(at - row["time_s"]), i)
            for i, (packet, at, _) in enumerate(due)
            if i not in used and packet["seq"] <= row["seq"] - 1 < packet["seq"] + packet["bytes"]
        ]
        off_s, nearest = min(fits, default=(math.inf, 0))
        if off_s > LATE_S:
            score.made_up += 1
            continue
        used.add(nearest)
        cause = due[nearest][2]
        if row["class"] == cause:
            score.right += 1
        else:
            score.unknown += row["class"] == "unknown"
            score.wrong[f"{cause} told as {row['class']}: {row['reason']}"] += 1
    return score


def one(name: str, spec: Spec, trace: Trace, late_ms: float) -> tuple[dict[str, Score], Json] | str:
    """A run and its captures, judged; or why none counted."""
    why = ""
    for attempt in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix="airtcp-matrix-") as work:
            folder = pathlib.Path(work)
            try:
                truth = kernel_path.run(spec, folder)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                why = str(error).splitlines()[-1]
                continue
            flows = airtcp.analyze(folder / "sender.pcap").flows.sort("payload_bytes").collect()
            port = int(flows["source_port"][-1])
            since_s = truth.began_s
            told = classes([event for event in trace.events() if event.port == port and event.at_s >= since_s])
            if len(told) != len(truth.retransmitted):
                why = f"the kernel tells of {len(told)} retransmissions, the path carried {len(truth.retransmitted)}"
                continue
            if truth.late_max_ms > late_ms:
                why = f"a packet was {truth.late_max_ms:.0f} ms late"
                continue
            scores = {
                place: judge(place, folder / f"{FILES.get(place, place)}.pcap", spec, truth, told) for place in PLACES
            }
            about = {"attempts": attempt + 1, "late_max_ms": truth.late_max_ms, **collections.Counter(told)}
            return scores, about
    return why


def main() -> None:
    """Prints the matrix: the part that is right, by place and timestamps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="seeds of the losses (default: 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only runs whose name has this text")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="runs at a time (default: %(default)s)")
    parser.add_argument("--late-ms", type=float, default=30, metavar="MS", help="limit (default: %(default)s)")
    parser.add_argument("--wrong", action="store_true", help="print what is told instead of what")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="file for all figures")
    args = parser.parse_args()
    if why := kernel_path.missing():
        sys.exit(f"the kernel's TCP in namespaces: {why}")
    wanted = [(name, spec) for name, spec in specs(args.seeds) if args.only in name]
    sums = {(place, stamps): Score() for place in PLACES for stamps in ("with", "without")}
    rows: list[Json] = []
    with tracefs() as root, (trace := Trace(root)).on(), ThreadPoolExecutor(args.at_once) as pool:
        asked = [(name, spec, pool.submit(one, name, spec, trace, args.late_ms)) for name, spec in wanted]
        for name, _, done in asked:
            found = done.result()
            if isinstance(found, str):
                print(f"{name}: does not count: {found}", flush=True)
                rows.append({"run": name, "why_not": found})
                continue
            scores, about = found
            stamps = "without" if "without" in name else "with"
            for place, score in scores.items():
                sums[place, stamps].add(score)
            parts = ", ".join(f"{place} {score.right}/{score.shown}" for place, score in scores.items())
            print(f"{name}: {parts}  {about}", flush=True)
            rows.append({"run": name, **about, "places": {place: one.to_dict() for place, one in scores.items()}})
    counted = sum("places" in row for row in rows)
    print(f"\n{counted} of {len(rows)} runs count; Linux {platform.release()}")
    for (place, stamps), score in sums.items():
        mark = "" if score.part >= GOALS[place] else f", below {GOALS[place]:.0%}"
        print(
            f"{PLACES[place]}, {stamps} timestamps: {score.part:.1%} of {score.shown}; "
            f"{score.unknown} unknown, {score.made_up} that the kernel did not make{mark}"
        )
        for what, count in score.wrong.most_common(8) if args.wrong else []:
            print(f"    {count} {what}")
    if args.json:
        args.json.write_text(json.dumps({"kernel": platform.release(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
