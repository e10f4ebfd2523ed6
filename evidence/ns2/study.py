#!/usr/bin/env python3
"""Runs cells of the study pacing-buffers with ns-2 and writes evidence/figures/ns2/study.json.

    .venv/bin/python evidence/ns2/study.py [--match fig3] [--seeds 1 2 3] [--out FILE]

evidence/validate.py compares airtcp with it. One ns-2 process runs at a time (evidence/ns2/study.tcl). Web users of
both simulators make the same transfers: sizes and gaps are airtcp's own draws, read from a run on a network so fast
that a transfer takes no time. A host's sequence depends on the seed and the host only. It needs the Debian package ns2
and a built airtcp.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "bench"))

from airtcp_runs import AIRTCP, ROOT, measure  # noqa: E402

OUT = ROOT / "evidence/figures/ns2/study.json"

ACCESS_MS = 5
PACKET_BYTES = 1000
SECONDS = 100
WARMUP = 20
WINDOW = 1000
SEEDS = (1, 2, 3)
SIZE_CLASSES_KB = (0, 10, 20, 50, 100, 200, 1e12)
"""Lower ends; the last is no class."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One network and traffic. `buffer`: ns-2's limit_ in packets, with the one in transmission."""

    figure: str
    web: bool
    rate_mbit: int
    delay_ms: int
    hosts: int
    rule: str
    buffer: int

    @property
    def name(self) -> str:
        kind = "web" if self.web else "p2p"
        return f"{self.figure} {kind} {self.rate_mbit} Mbit/s {self.delay_ms} ms n={self.hosts} {self.rule}"

    @property
    def spread_s(self) -> int:
        return 5 if self.web else 1


def bdp_packets(rate_mbit: int, delay_ms: int) -> float:
    return rate_mbit * 1e6 * 2 * (delay_ms + 2 * ACCESS_MS) / 1e3 / 8 / PACKET_BYTES


def cells() -> list[Cell]:
    result = []

    def both_rules(figure: str, web: bool, rate: int, delay: int, hosts: int) -> None:
        bdp = bdp_packets(rate, delay)
        result.append(Cell(figure, web, rate, delay, hosts, "normal", round(bdp)))
        result.append(Cell(figure, web, rate, delay, hosts, "sqrtN", round(bdp / math.sqrt(hosts))))

    for hosts in (100, 300, 500, 1000, 1500):
        both_rules("fig3", False, 100, 90, hosts)
    for hosts in (500, 1500):
        for fifths in (0.5, 1, 2, 3, 4):
            buffer = round(bdp_packets(100, 90) * fifths / 5)
            result.append(Cell("fig5", False, 100, 90, hosts, f"normal x {fifths / 5:g}", buffer))
    for hosts in (300, 700, 1000, 1500):
        both_rules("fig6", True, 100, 90, hosts)
    for hosts in (1000, 1500):
        both_rules("fig8", True, 100, 20, hosts)
    for buffer in (193, 387, 774, 1549, 3098, 7500):
        result.append(Cell("fig15", True, 1000, 20, 1500, f"{buffer} packets", buffer))
    return result


def scenario(cell: Cell) -> str:
    """The cell for airtcp, whose fifo does not count the packet on the line."""
    return _toml(cell, f"{cell.rate_mbit}Mbit/s", f"{cell.delay_ms}ms", f"{ACCESS_MS}ms", cell.buffer - 1, SECONDS)


def _toml(cell: Cell, rate: str, delay: str, access_delay: str, limit: int, seconds: int) -> str:
    traffic = '{ kind = "web" }' if cell.web else '"unlimited"'
    return f"""name = "study-cell"
duration = "{seconds}s"
warmup = "{WARMUP}s"

[record]
links = []
drops = []
flow_series_max = 0

[[nodes]]
name = "left"
kind = "host"
count = {cell.hosts}
profile = "ns2-reno"

[[nodes]]
name = "r1"
kind = "router"

[[nodes]]
name = "r2"
kind = "router"

[[nodes]]
name = "right"
kind = "host"
count = {cell.hosts}
profile = "ns2-reno"

[[links]]
from = "left"
to = "r1"
rate = "{rate}"
delay = "{access_delay}"

[[links]]
name = "bottleneck"
from = "r1"
to = "r2"
rate = "{rate}"
delay = "{delay}"
queue = {{ name = "fifo", limit_packets = {limit} }}
reverse = {{ queue = {{ name = "fifo" }} }}

[[links]]
from = "r2"
to = "right"
rate = "{rate}"
delay = "{access_delay}"

[[flows]]
name = "flow"
from = "left"
to = "right"
start = {{ from = "0s", to = "{cell.spread_s}s" }}
traffic = {traffic}
tcp = {{ packet_bytes = {PACKET_BYTES}, max_cwnd = {WINDOW} }}
"""


def write_transfers(seed: int, hosts: int, file: pathlib.Path, work: pathlib.Path) -> None:
    """Lines `host bytes gap` for ns-2: airtcp's draws, in the order in which each host uses them."""
    import polars as pl

    cell = Cell("", True, 0, 0, hosts, "", 0)
    toml, out = work / "fast.toml", work / f"fast-{seed}"
    toml.write_text(_toml(cell, "10Tbit/s", "1us", "1us", 10_000_000, SECONDS))
    measure([str(AIRTCP), "run", str(toml), "--seed", str(seed), "--out", str(out)])
    rows = pl.read_parquet(out / "transfers.parquet").sort("flow", "start_s")
    first = rows["flow"].min()
    rows = rows.with_columns(gap=pl.col("start_s").shift(-1).over("flow") - pl.col("end_s")).drop_nulls(["end_s"])
    with file.open("w") as f:
        for flow, size, gap in rows.select("flow", "bytes", "gap").iter_rows():
            # The last gap of a host ends after the run.
            f.write(f"{flow - first} {size} {10 * SECONDS if gap is None else round(gap, 9)}\n")


def run(cell: Cell, seed: int, transfers: pathlib.Path | None) -> dict[str, Any]:
    args: dict[str, Any] = {
        "hosts": cell.hosts, "rate": f"{cell.rate_mbit}Mb", "delay": f"{cell.delay_ms}ms", "access": f"{ACCESS_MS}ms",
        "packet": PACKET_BYTES, "buffer": cell.buffer, "seconds": SECONDS, "warmup": WARMUP, "spread": cell.spread_s,
        "seed": seed, "window": WINDOW, "classes": " ".join(f"{c:g}" for c in SIZE_CLASSES_KB),
    }  # fmt: skip
    if transfers is not None:
        args["transfers"] = str(transfers)
    return json.loads(
        measure(["ns", str(HERE / "study.tcl")] + [w for k, v in args.items() for w in (f"-{k}", str(v))]).output
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="", help="only cells whose name contains this; the others are kept")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    args = parser.parse_args()
    kept = {c["name"]: c for c in json.loads(args.out.read_text())["cells"]} if args.out.exists() else {}
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="airtcp-ns2-") as work:
        lists: dict[int, pathlib.Path] = {}
        for cell in cells():
            if args.match not in cell.name:
                continue
            runs = []
            for seed in args.seeds:
                if cell.web and seed not in lists:
                    lists[seed] = pathlib.Path(work) / f"transfers-{seed}"
                    write_transfers(seed, max(c.hosts for c in cells() if c.web), lists[seed], pathlib.Path(work))
                runs.append({"seed": seed, **run(cell, seed, lists[seed] if cell.web else None)})
            kept[cell.name] = {"name": cell.name, **dataclasses.asdict(cell), "runs": runs}
            print(
                f"{time.monotonic() - started:6.0f} s  {cell.name}  {runs[0]['utilisation']}  {runs[0]['loss']}",
                flush=True,
            )
            write(args.out, [kept[c.name] for c in cells() if c.name in kept])


def write(out: pathlib.Path, done: list[dict[str, Any]]) -> None:
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "ns2"], capture_output=True, text=True).stdout
    head = {
        "peer": "ns-2, Debian package ns2 " + version,
        "script": "evidence/ns2/study.tcl",
        "agents": "Agent/TCP/Reno, Agent/TCPSink (an ACK for each packet)",
        "access": f"lines of the bottleneck's rate, {ACCESS_MS} ms",
        "packet_bytes": PACKET_BYTES, "window_packets": WINDOW,
        "buffer": "DropTail limit_: one packet fewer waits, since the one in transmission counts",
        "seconds": SECONDS, "warmup_seconds": WARMUP,
        "starts": "uniform over 1 s (p2p), 5 s (web)",
        "web": "transfers of both simulators are the same list for the same seed; agents are reset for each transfer",
        "all figures": "over the time after the warm-up",
        "by_size": "transfers that began after the warm-up and ended; loss: dropped at the bottleneck / sent",
    }  # fmt: skip
    lines = ",\n".join(json.dumps(c) for c in done)
    out.write_text(json.dumps(head, indent=1)[:-2] + ',\n "cells": [\n' + lines + "\n]}\n")
    json.loads(out.read_text())


if __name__ == "__main__":
    main()
