#!/usr/bin/env python3
"""Runs the ns-2 reference grid and writes evidence/figures/ns2/grid.json.

One ns-2 process at a time. Every cell is a dumbbell (evidence/ns2/dumbbell.tcl) with three seeds; the starts of the
flows are what a seed decides. Needs the Debian package ns2; standard library only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE.parents[1] / "evidence/figures/ns2/grid.json"

ACCESS_MS = 5
# At the bottleneck's own rate a single flow would queue at its access link, and only there.
ACCESS_RATE_FACTOR = 10
PACKET_BYTES = 1500
SECONDS = 60
WARMUP = 10
SPREAD = 5
SEEDS = (1, 2, 3)
BUFFERS = (0.25, 0.5, 1.0, 2.0)


def bdp_packets(rate_mbit: float, delay_ms: float) -> float:
    """Bandwidth times two-way propagation delay, in packets."""
    return rate_mbit * 1e6 * 2 * (delay_ms + 2 * ACCESS_MS) / 1e3 / 8 / PACKET_BYTES


def cells() -> Iterator[tuple[str, int, float, int, int]]:
    for flows, factor, rate, delay in itertools.product((1, 10, 50, 100), BUFFERS, (10, 100), (20, 90)):
        yield "TCP/Reno", flows, factor, rate, delay
    for agent, flows, factor, delay in itertools.product(("TCP/Newreno", "TCP/Sack1"), (1, 10), BUFFERS, (20, 90)):
        yield agent, flows, factor, 10, delay


def run(agent: str, flows: int, buffer: int, rate: int, delay: int, seed: int) -> dict[str, Any]:
    args = {
        "agent": agent, "flows": flows, "buffer": buffer, "rate": f"{rate}Mb", "delay": f"{delay}ms",
        "access": f"{ACCESS_MS}ms", "access_rate": f"{rate * ACCESS_RATE_FACTOR}Mb", "packet": PACKET_BYTES,
        "seconds": SECONDS, "warmup": WARMUP, "spread": SPREAD, "seed": seed, "per_flow": 1,
    }  # fmt: skip
    command = ["ns", str(HERE / "dumbbell.tcl")] + [w for k, v in args.items() for w in (f"-{k}", str(v))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def jain(values: list[float]) -> float:
    square = sum(v * v for v in values)
    return sum(values) ** 2 / (len(values) * square) if square else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    out = parser.parse_args().out
    if not shutil.which("ns"):
        sys.exit("ns not found: install the Debian package ns2")
    started = time.monotonic()
    result = []
    for agent, flows, factor, rate, delay in cells():
        buffer = max(2, round(factor * bdp_packets(rate, delay)))
        runs = []
        for seed in SEEDS:
            r = run(agent, flows, buffer, rate, delay, seed)
            r["jain"] = round(jain(r.pop("goodput_bit_per_second")), 5)
            del r["flows"], r["max_queue_packets_sampled"]
            runs.append({"seed": seed, **r})
        cell = {
            "agent": agent, "flows": flows, "rate_mbit": rate, "delay_ms": delay, "buffer_bdp": factor,
            "buffer_packets": buffer, "runs": runs,
        }  # fmt: skip
        result.append(cell)
        at = time.monotonic() - started
        print(f"{at:6.0f} s  {agent} {flows} flows {rate} Mbit/s {delay} ms {buffer} packets", flush=True)
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "ns2"], capture_output=True, text=True).stdout
    head = {
        "peer": "ns-2, Debian package ns2 " + version,
        "script": "evidence/ns2/dumbbell.tcl",
        "access_delay_ms": ACCESS_MS, "access_rate_factor": ACCESS_RATE_FACTOR, "packet_bytes": PACKET_BYTES,
        "buffer": "DropTail limit_: one packet fewer waits, since the one in transmission counts",
        "bdp": "rate x 2 x (delay + 2 x access delay)",
        "seconds": SECONDS, "warmup_seconds": WARMUP, "start_spread_seconds": SPREAD, "window_packets": 1000000,
        "means": "queue over time, waiting only; rtt and cwnd over samples every 0.1 s from the end of the warmup",
        "timeouts, cwnd_cuts, retransmitted": "from 0 s",
    }  # fmt: skip
    lines = ",\n".join(json.dumps(c) for c in result)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(head, indent=1)[:-2] + ',\n "cells": [\n' + lines + "\n]}\n")
    json.loads(out.read_text())


if __name__ == "__main__":
    main()
