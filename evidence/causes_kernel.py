"""The confusion matrix of `airtcp analyze` on recordings of the kernel's own TCP: causes.py with real connections.

Usage: causes_kernel.py [--rows FILE] [--connections N] [--from N] [--page evidence/causes.md]

Each run is one connection of this machine's TCP between two namespaces, on the path of tests/kernel_path.py. The queue
stands half-way. The captures are those at the sender, behind the queue and at the receiver. A run counts if the path's
own account and the kernel's (TCP_INFO) show its cause, and if no packet was late by more than `LATE_MS`. Otherwise it
is run again, a few times; runs that never count are told. Needs root and /dev/net/tun. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from causes import CANNOT_TELL, CAUSES, REACHED, judged, matrix, shares
from page import with_part

import airtcp

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import kernel_path
from kernel_path import Outcome, Spec

Json = dict[str, Any]

PLACES = {"sender": "sender", "behind the queue": "between", "receiver": "receiver"}
NAMES = (
    "full line",
    "receive window",
    "slow receiver",
    "slow application",
    "losses",
    "outage",
    "short",
)
SECONDS = 4.0
SEGMENT_BITS = 8 * 1448
WINDOW_PART = 0.5
"""Part of its busy time in which the kernel says that the receive window held it back."""
LATE_MS = 30.0
TRIES = 3


def connection(number: int) -> tuple[str, Spec, Callable[[Outcome], bool]]:
    """The cause, the path, and whether the account of a run shows the cause."""
    rng = random.Random(7000 + number)
    name = NAMES[number % len(NAMES)]
    one_way_ms = rng.choice([5.0, 10.0, 20.0, 40.0])
    rate = rng.choice([2.0, 5.0, 10.0, 20.0])
    product = max(4.0, rate * 1e6 * one_way_ms / 4e3 / 1500)
    controls = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    spec = Spec(
        [(0, round(rate * 1e6 * SECONDS / SEGMENT_BITS))],
        one_way_ms=one_way_ms,
        rate_mbit=rate,
        queue=round(product) + 10,
        queue_half_way=True,
        cc=rng.choice(controls),
        snaplen=192,
        seconds=4 * SECONDS,
    )

    def has(least_bps: float) -> Callable[[Outcome], bool]:
        return lambda truth: passed_bps(truth) >= least_bps

    def is_window(truth: Outcome) -> bool:
        return bool(truth.rwnd_limited_s >= WINDOW_PART * truth.busy_s)

    match name:
        case "full line":
            spec.queue = round(rng.uniform(1, 4) * product) + 10
            return name, spec, has(REACHED * rate * 1e6)
        case "receive window":
            # The kernel advertises half of the buffer.
            window = max(8 * 1448, round(rng.uniform(0.15, 0.4) * product * 1448))
            spec.rate_mbit = rate = max(rate, 4 * window * 8 / (2e3 * one_way_ms))
            spec.sysctls = {"tcp_rmem": f"4096 {2 * window} {2 * window}", "tcp_moderate_rcvbuf": "0"}
            spec.writes = [(0, round(window * 8e3 / (2 * one_way_ms) * SECONDS / SEGMENT_BITS))]
            return name, spec, is_window
        case "slow receiver":
            read_bps = rng.uniform(0.1, 0.4) * rate * 1e6
            spec.read_kb_s = read_bps / 8e3
            spec.sysctls = {"tcp_rmem": "4096 131072 131072", "tcp_moderate_rcvbuf": "0"}
            spec.writes = [(0, round(read_bps * SECONDS / SEGMENT_BITS) + 90)]
            return name, spec, is_window
        case "slow application":
            every = rng.choice([20, 40, 100])
            segments = max(1, round(rng.uniform(0.05, 0.4) * rate * every * 1e3 / SEGMENT_BITS))
            spec.writes = [(every * i, segments) for i in range(round(SECONDS * 1e3 / every))]
            return name, spec, has(REACHED * segments * SEGMENT_BITS * 1e3 / every)
        case "losses":
            spec.cc = rng.choice([one for one in controls if one in ("cubic", "reno")])
            spec.rate_mbit, spec.queue, spec.loss, spec.seed = 100.0, 1000, rng.uniform(0.02, 0.05), number
            spec.writes = [(0, 1000)]
            return name, spec, lambda truth: len(truth.dropped) >= 10
        case "outage":
            spec.outage_ms = (rng.uniform(300, 800), rng.uniform(5000, 6000))
            spec.seconds = 20.0
            spec.writes = [(0, round(rate * 1e6 * 2 / SEGMENT_BITS))]
            return name, spec, lambda truth: len(truth.retransmitted) > 0
    spec.one_way_ms, spec.rate_mbit, spec.queue = rng.choice([40.0, 60.0, 100.0]), 100.0, 1000
    spec.writes = [(0, rng.randint(45, 140))]
    return name, spec, lambda truth: not truth.retransmitted


def passed_bps(truth: Outcome) -> float:
    """Rate at which data passed the middle."""
    times = [packet["middle_s"] for packet in truth.sent if packet["middle_s"] is not None]
    sent = sum(packet["bytes"] for packet in truth.sent if packet["transmission"] == 1)
    return float(8 * sent / max(1e-9, max(times) - min(times)))


def verdict(path: Path) -> str:
    """The verdict on the flow that carries most."""
    why = airtcp.analyze(path).totals["why"]
    return str(why[0]["verdict"] or CANNOT_TELL) if why else CANNOT_TELL


def rows_of(number: int) -> list[Json]:
    """The rows of a run, one for each place; none if no run counted."""
    name, spec, has_come_about = connection(number)
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as folder:
            truth = kernel_path.run(spec, Path(folder))
            if truth.late_max_ms > LATE_MS or not has_come_about(truth):
                print(f"run again: {number} {name}, {truth.late_max_ms:.0f} ms late", file=sys.stderr)
                continue
            found = {place: verdict(Path(folder) / f"{file}.pcap") for place, file in PLACES.items()}
        return [
            {"number": number, "cause": name, "place": place, "control": spec.cc, "verdict": one}
            for place, one in found.items()
        ]
    return []


def main() -> None:
    """Runs what is missing, one after the other, and prints the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=Path("runs/causes_kernel.jsonl"), metavar="FILE")
    parser.add_argument("--connections", type=int, default=140)
    parser.add_argument("--from", type=int, default=0, dest="first", help="number of the first connection")
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    if (missing := kernel_path.missing()) is not None:
        parser.error(missing)
    args.rows.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in args.rows.read_text().splitlines()] if args.rows.exists() else []
    known = {row["number"] for row in rows}
    with args.rows.open("a") as file:
        for number in range(args.first, args.first + args.connections):
            if number in known:
                continue
            found = rows_of(number)
            file.write("".join(f"{json.dumps(row)}\n" for row in found))
            file.flush()
            rows += found
    print("\n".join(shares(rows, "place")))
    print("\n".join(matrix(rows)))
    for row in rows:
        if judged(row) != "right":
            print(f"{judged(row)}: {row['number']} {row['cause']}, {row['control']}, {row['place']}: {row['verdict']}")
    if args.page is not None:
        used = {row["cause"] for row in rows}
        table = [
            line
            for line in matrix(rows)
            if line.split(" | ")[0].removeprefix("| ") in {*used, "cause"} or "---" in line
        ]
        body = "\n\n".join("\n".join(lines) for lines in (shares(rows, "place"), shares(rows, "cause"), table))
        args.page.write_text(with_part(args.page.read_text(), "kernels", body))


if __name__ == "__main__":
    assert set(NAMES) <= set(CAUSES)
    main()
