#!/usr/bin/env python3
"""Time and memory of ns-3 for a TCP upload over 802.11n, and of whatever runs the same beside it.

    .venv/bin/python evidence/ns3/timing.py [--seconds S] [--repeat N] [--stations N ...] [--json]

bench/run.py imports `compare` and hands it a function that runs airtcp's equal:

    def airtcp_runs(case: Case) -> tuple[float, float]:   # wall seconds, peak resident MiB
        ...

Counted for ns-3 is `Simulator::Run` alone, from the moment every station is associated: not the start of the process,
not association. No trace is connected; the sinks count bytes. Runs alternate, so that what else the machine does hits
both alike; figures are medians, memory is the largest peak.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from ns3_runs import Ns3Error, build, prepare, wlan

OPTIMISED = (2.0, 4.5)
"""An optimised build of ns-3 is faster than the wheel's by a factor in this range."""

GOALS = {1: 200.0, 10: 300.0}
"""Stations, and how many times faster than the wheel airtcp must be."""


@dataclasses.dataclass(frozen=True)
class Case:
    """TCP uploads at MCS 7, 20 MHz, long guard interval, 5 GHz, no errors: one of each of `stations`."""

    stations: int
    seconds: float = 60
    cc: str = "TcpCubic"
    queue_packets: int = 1000
    packet_bytes: int = 1500
    run: int = 1

    @property
    def name(self) -> str:
        return f"wlan_upload_{self.stations}"

    def options(self) -> dict[str, str | float | bool]:
        """In the words of wlan.cc; what is not named has its default there."""
        return {
            "stations": self.stations,
            "duration": self.seconds,
            "cc": self.cc,
            "queue": self.queue_packets,
            "run": self.run,
            "trace": False,
        }


AirtcpRuns = Callable[[Case], tuple[float, float]]

CASES = (Case(stations=1), Case(stations=10))


def compare(
    airtcp_runs: AirtcpRuns | None = None, cases: Sequence[Case] = CASES, repeat: int = 3
) -> list[dict[str, Any]]:
    """One entry for each case, in the shape of bench/latest.json. Without `airtcp_runs` ns-3 runs alone.

    Raises:
        Ns3Error: ns-3 cannot be had, or a run of it failed.
    """
    prepare()
    entries = []
    for case in cases:
        own: list[tuple[float, float]] = []
        peer: list[dict[str, Any]] = []
        loads: list[float] = []
        for _ in range(repeat):
            if airtcp_runs is not None:
                own.append(airtcp_runs(case))
            loads.append(os.getloadavg()[0])
            peer.append(wlan(**case.options()))
        entries.append(entry(case, own, peer, loads))
    return entries


def entry(case: Case, own: list[tuple[float, float]], peer: list[dict[str, Any]], loads: list[float]) -> dict[str, Any]:
    walls = [p["wall_s"] for p in peer]
    peer_wall = statistics.median(walls)
    peer_mib = max(p["rss_mib"] for p in peer)
    one = peer[0]
    e: dict[str, Any] = {
        "name": case.name,
        "simulated_seconds": case.seconds,
        "airtcp_seconds": None,
        "peer": str(build()),
        "peer_seconds": round(peer_wall, 4),
        "ratio": None,
        "memory": {"airtcp": None, "peer": round(peer_mib * (1 << 20))},
        "peer_seconds_all": [round(w, 4) for w in walls],
        "peer_cpu_seconds": round(statistics.median(p["cpu_s"] for p in peer), 4),
        "peer_wall_per_simulated": round(peer_wall / case.seconds, 4),
        "peer_ns_per_packet": round(peer_wall / one["packets_delivered"] * 1e9),
        "peer_events": one["events"],
        "peer_packets_delivered": one["packets_delivered"],
        "peer_goodput_mbit": round(one["up_mbit"], 3),
        "load": [round(load, 2) for load in loads],
        "note": f"an optimised build of ns-3 is {OPTIMISED[0]:g} to {OPTIMISED[1]:g} times faster than this wheel",
    }
    if own:
        wall = statistics.median(w for w, _ in own)
        mib = max(m for _, m in own)
        e["airtcp_seconds"] = round(wall, 4)
        e["airtcp_seconds_all"] = [round(w, 4) for w, _ in own]
        e["ratio"] = round(peer_wall / wall, 1)
        e["ratio_to_optimised"] = [round(peer_wall / wall / factor, 1) for factor in reversed(OPTIMISED)]
        e["memory"]["airtcp"] = round(mib * (1 << 20))
        e["memory_ratio"] = round(mib / peer_mib, 3)
        e["reaches"] = {"speed": e["ratio"] >= GOALS.get(case.stations, 0.0), "memory": e["memory_ratio"] < 1}
    return e


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--stations", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        entries = compare(None, [Case(n, args.seconds) for n in args.stations], args.repeat)
    except Ns3Error as error:
        print(error, file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(entries, indent=1))
        return 0
    for e in entries:
        print(
            f"{e['name']}: {e['peer_wall_per_simulated']:.3f} s for each simulated second"
            f" ({e['peer_ns_per_packet']} ns a packet), {e['memory']['peer'] / (1 << 20):.0f} MiB,"
            f" {e['peer_goodput_mbit']:.2f} Mbit/s; load {e['load']}"
        )
    print(f"{build()}; {entries[0]['note']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
