#!/usr/bin/env python3
"""Retransmissions that `airtcp analyze` and tshark find in one capture: counts, and every packet on which they differ.

    .venv/bin/python evidence/analyze_agreement.py CAPTURE [--all]
    sudo .venv/bin/python evidence/analyze_agreement.py --kernel [--seed N]

`--kernel` runs the kernel's TCP across the path of tests/kernel_path.py with random losses and delays, and captures at
the sender, half-way and at the receiver; there the truth is known too. tshark is a Debian package.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import airtcp

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

FLAGS = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order", "duplicate_ack")
SHOWN = 40


def tshark(capture: pathlib.Path) -> dict[int, set[str]]:
    """Packet number and tshark's flags, of packets that have any."""
    command = ["tshark", "-n", "-r", str(capture), "-T", "fields", "-e", "frame.number"]
    for flag in FLAGS:
        command += ["-e", f"tcp.analysis.{flag}"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {}
    for line in out.splitlines():
        number, *values = line.split("\t")
        if flags := {flag for flag, value in zip(FLAGS, values, strict=True) if value}:
            found[int(number)] = flags
    return found


def resent_by_tshark(flags: set[str]) -> bool:
    """tshark marks each retransmission as such, the fast and spurious ones too."""
    return bool(flags & {"retransmission", "fast_retransmission", "spurious_retransmission"})


def compare(capture: pathlib.Path, *, every: bool) -> collections.Counter[str]:
    """Prints both and how they differ; returns the kinds of differences."""
    seen = airtcp.analyze(capture)
    ours = {row["packet"]: row for row in seen.retransmissions.collect().to_dicts()}
    theirs = tshark(capture)
    sums = seen.totals
    counts = collections.Counter(flag for flags in theirs.values() for flag in flags)
    classes = collections.Counter(row["class"] for row in ours.values())
    print(f"{capture}: {seen.capture['packets']} packets")
    print(f"  airtcp: {len(ours)} retransmissions: {dict(classes)}; {sums['spurious_retransmissions']} spurious")
    print(f"          {sums['out_of_order']} out of order, {sums['duplicate_acks']} duplicate ACKs")
    print(f"  tshark: {sum(map(resent_by_tshark, theirs.values()))} retransmissions: {dict(counts)}")
    kinds: collections.Counter[str] = collections.Counter()
    lines = []
    for number in sorted(set(ours) | {n for n, flags in theirs.items() if flags - {"duplicate_ack"}}):
        flags = theirs.get(number, set()) - {"duplicate_ack"}
        row = ours.get(number)
        kind = difference(row, flags)
        if kind:
            kinds[kind] += 1
            what = f"{row['class']}{', spurious' if row['spurious'] else ''}: {row['reason']}" if row else "nothing"
            lines.append(f"    packet {number}: airtcp {what}; tshark {', '.join(sorted(flags)) or 'nothing'}")
    for line in lines if every else lines[:SHOWN]:
        print(line)
    if len(lines) > SHOWN and not every:
        print(f"    and {len(lines) - SHOWN} more (--all)")
    for kind, number in kinds.most_common():
        print(f"  {number} x {kind}")
    return kinds


def difference(row: dict[str, Any] | None, flags: set[str]) -> str | None:
    """How the two differ on a packet; None: they agree."""
    if row is None:
        return f"only tshark: {', '.join(sorted(flags))}"
    if "out_of_order" in flags:
        return f"airtcp {row['class']}, tshark out of order"
    if not resent_by_tshark(flags):
        return f"only airtcp: {row['class']}"
    if row["spurious"] != ("spurious_retransmission" in flags):
        return f"{row['class']}: spurious by {'airtcp' if row['spurious'] else 'tshark'} only"
    if ("fast_retransmission" in flags) and row["class"] not in ("fast", "recovery"):
        return f"airtcp {row['class']}, tshark fast"
    return None


def kernel(seed: int, *, every: bool) -> None:
    """A transfer of 3000 segments with 2 % losses and 0.5 % of the segments late, at three places."""
    import random

    import kernel_path
    from kernel_path import PLACES, Rule, Spec

    if why := kernel_path.missing():
        sys.exit(f"the kernel's TCP in namespaces: {why}")
    chance = random.Random(seed)
    segments = 3000
    rules = [
        Rule(n, drop=True) if u < 0.02 else Rule(n, delay_ms=chance.choice([3.0, 60.0]))
        for n in range(segments)
        if (u := chance.random()) < 0.025
    ]
    spec = Spec([(0, segments)], rules, one_way_ms=20, rate_mbit=20, queue=200, close_after_ms=200, seconds=60)
    with tempfile.TemporaryDirectory(prefix="airtcp-agreement-") as work:
        truth = kernel_path.run(spec, pathlib.Path(work))
        counters = (
            "RetransSegs",
            "TCPFastRetrans",
            "TCPTimeouts",
            "TCPSlowStartRetrans",
            "TCPLossProbes",
            "TCPDSACKRecv",
        )
        print("kernel:", {name: truth.counters[name] for name in counters})
        arrived: set[int] = set()
        needless = 0
        for packet in truth.sent:
            needless += packet["transmission"] > 1 and packet["seq"] in arrived
            if not packet["dropped"]:
                arrived.add(packet["seq"])
        print(f"path: {len(truth.sent)} data packets, {len(truth.dropped)} dropped")
        print(f"      {len(truth.retransmitted)} retransmissions, {needless} of what had arrived or was on its way")
        for place in PLACES:
            compare(pathlib.Path(work) / f"{place}.pcap", every=every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", metavar="CAPTURE", nargs="*", type=pathlib.Path)
    parser.add_argument("--kernel", action="store_true", help="make captures of the kernel's TCP first; needs root")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="print every packet on which they differ")
    args = parser.parse_args()
    if shutil.which("tshark") is None:
        sys.exit("tshark is not installed (Debian package tshark)")
    if args.kernel:
        kernel(args.seed, every=args.all)
    for capture in args.captures:
        compare(capture, every=args.all)


if __name__ == "__main__":
    main()
