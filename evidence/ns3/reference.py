#!/usr/bin/env python3
"""Runs ns-3 over sets of WLAN cells and writes evidence/figures/ns3/*.json.gz, for comparison with airtcp.

    .venv/bin/python evidence/ns3/reference.py [--only NAME ...] [--all | --check]

Sets: tcp_upload, tcp_errors, tcp_mixed, udp_ampdu, dcf, hidden, rates. Cells that are stored with the same options
stay, unless --all is given. --check runs one run of each cell and compares it with what is stored instead: ns-3 gives
the same figures for the same run number. One ns-3 process at a time; about 15 minutes of computing for all.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import recorded  # noqa: E402
from ns3_runs import ROOT, WHEEL, Ns3Error, prepare, wlan  # noqa: E402

OUT = ROOT / "evidence/figures/ns3"

Options = dict[str, str | float | bool]

NOT_FIGURES = ("ns3", "settings", "wall_s", "cpu_s", "wall_per_simulated_s", "rss_mib", "rss_before_traffic_mib")
"""What differs from machine to machine, or is stored once for the cell."""

STATIONS_LISTED = 10
"""Cells with more keep sums over the stations only."""


@dataclasses.dataclass(frozen=True)
class Cell:
    name: str
    options: Options
    runs: int = 2


LEGACY: dict[str, Options] = {
    "b": {"standard": "b", "control": "DsssRate1Mbps", "ampdu": 0},
    "g": {"standard": "g", "control": "ErpOfdmRate24Mbps", "ampdu": 0},
    "a": {"standard": "a", "control": "OfdmRate24Mbps", "ampdu": 0},
}


def tcp_upload() -> Iterator[Cell]:
    """802.11n MCS 7, no errors; every station one upload and a ping each 200 ms."""
    common: Options = {"duration": 20, "warmup": 5, "ping": 0.2}
    for cc in ("TcpCubic", "TcpLinuxReno"):
        for queue in (1000, 100):
            # Reno's windows over ten full queues cost ns-3 minutes and show nothing that five do not.
            for n in (1, 2, 5, 10) if cc == "TcpCubic" else (1, 2, 5):
                yield Cell(f"{cc} n={n} queue={queue}", {**common, "cc": cc, "queue": queue, "stations": n})
    yield Cell("TcpNewReno n=1 queue=1000", {**common, "cc": "TcpNewReno", "queue": 1000})
    yield Cell("TcpNewReno n=1 queue=100", {**common, "cc": "TcpNewReno", "queue": 100})
    for n in (1, 10):
        name = f"TcpCubic n={n} queue=1000 without HyStart"
        yield Cell(name, {**common, "queue": 1000, "stations": n, "ns3::TcpCubic::HyStart": False})
    yield Cell("TcpCubic n=10 queue=1000 min_rto=200ms", {**common, "queue": 1000, "stations": 10, "min_rto_ms": 200})
    for n in (1, 5):
        options = {**common, "stations": n, "ns3::QosTxop::UseExplicitBarAfterMissedBlockAck": False}
        yield Cell(f"TcpCubic n={n} queue=1000 no BAR after a missed Block Ack", options)
    for mcs in (0, 3):
        yield Cell(f"TcpCubic n=1 queue=1000 MCS {mcs}", {**common, "queue": 1000, "mode": f"HtMcs{mcs}"})
    for qdisc in ("fq_codel", "codel"):
        yield Cell(f"TcpCubic n=1 {qdisc}, queue=64", {**common, "queue": 64, "qdisc": qdisc})


def tcp_errors() -> Iterator[Cell]:
    """One upload at MCS 7 with a given error rate of its MPDUs at the AP."""
    common: Options = {"duration": 20, "warmup": 5, "ping": 0.2}
    for rate in (0.1, 0.3, 0.5):
        for queue in (1000, 100):
            yield Cell(f"error={rate} queue={queue}", {**common, "error_up": rate, "queue": queue})
    yield Cell("error=0.1 queue=1000 n=5", {**common, "error_up": 0.1, "stations": 5})
    # Here MPDUs are given up, after 7 attempts; under Block Ack ns-3 never does so for errors (evidence/ns3.md).
    for rate in (0.1, 0.3, 0.5):
        name = f"802.11a 54 Mbit/s error={rate} queue=1000"
        yield Cell(name, {**common, **LEGACY["a"], "mode": "OfdmRate54Mbps", "error_up": rate})


def tcp_mixed() -> Iterator[Cell]:
    """Downloads, downloads beside uploads, and other PHYs."""
    common: Options = {"duration": 20, "warmup": 5, "ping": 0.2}
    for n in (1, 2, 5):
        yield Cell(f"down n={n}", {**common, "traffic": "tcp-down", "stations": n}, runs=1)
        yield Cell(f"up and down n={n}", {**common, "traffic": "tcp-both", "stations": n}, runs=1)
    yield Cell("up n=5, down at one", {**common, "stations": 5, "downs": 1}, runs=1)
    for n in (1, 5):
        legacy: Options = {**common, **LEGACY["a"], "mode": "OfdmRate54Mbps", "stations": n}
        yield Cell(f"802.11a 54 Mbit/s up n={n}", legacy, runs=1)
        ac: Options = {**common, "duration": 10, "standard": "ac", "mode": "VhtMcs8", "width": 80, "ampdu": 1048575}
        yield Cell(f"802.11ac MCS 8 80 MHz up n={n}", {**ac, "stations": n}, runs=1)
        yield Cell(f"802.11n MCS 7 40 MHz up n={n}", {**common, "width": 40, "stations": n}, runs=1)
    yield Cell("802.11g 54 Mbit/s up n=1", {**common, **LEGACY["g"], "mode": "ErpOfdmRate54Mbps"}, runs=1)
    yield Cell("802.11b 11 Mbit/s up n=1", {**common, **LEGACY["b"], "mode": "DsssRate11Mbps"}, runs=1)


def udp_ampdu() -> Iterator[Cell]:
    """One saturated station: MCS and limits of the A-MPDU."""
    common: Options = {"traffic": "udp-up", "duration": 3, "warmup": 0.5, "beacon": 1.024}
    for mcs in range(8):
        for window in (64, 32, 16, 8, 4, 2):
            options = {**common, "mode": f"HtMcs{mcs}", "buffer": window}
            yield Cell(f"MCS {mcs}, {window} MPDUs, 65535 bytes", options, runs=1)
        for limit in (16383, 8191, 0):
            options = {**common, "mode": f"HtMcs{mcs}", "ampdu": limit}
            yield Cell(f"MCS {mcs}, 64 MPDUs, {limit} bytes", options, runs=1)
    for mcs in (0, 4, 7):
        yield Cell(f"40 MHz MCS {mcs}", {**common, "mode": f"HtMcs{mcs}", "width": 40}, runs=1)
    for mcs in (0, 4, 8, 9):
        options = {**common, "standard": "ac", "mode": f"VhtMcs{mcs}", "width": 80, "ampdu": 1048575}
        yield Cell(f"802.11ac 80 MHz MCS {mcs}", options, runs=1)
    for mcs in (3, 7):
        for n in (2, 5, 10):
            yield Cell(f"MCS {mcs} n={n}", {**common, "duration": 10, "mode": f"HtMcs{mcs}", "stations": n})


def dcf() -> Iterator[Cell]:
    """Saturated stations without aggregation, basic access: throughput and probability of a collision."""
    common: Options = {"traffic": "udp-up", "warmup": 0.5, "beacon": 1.024, "backlog": 20}
    modes = (("b", "DsssRate11Mbps"), ("g", "ErpOfdmRate54Mbps"), ("g", "ErpOfdmRate6Mbps"), ("a", "OfdmRate54Mbps"))
    for standard, mode in modes:
        # 802.11a differs from g by SIFS and the signal extension, which add up to the same.
        for n in (1, 10) if standard == "a" else (1, 2, 5, 10, 20, 30, 50):
            options = {**common, **LEGACY[standard], "mode": mode, "stations": n, "duration": 10.5 if n < 20 else 5.5}
            yield Cell(f"802.11{standard} {mode} n={n}", options, runs=2 if n < 20 else 1)
    for n in (1, 10, 30):
        options = {**common, **LEGACY["a"], "mode": "OfdmRate54Mbps", "stations": n, "rts": 0, "duration": 5.5}
        yield Cell(f"802.11a OfdmRate54Mbps RTS n={n}", options)


def hidden() -> Iterator[Cell]:
    """Stations that do not hear one another."""
    common: Options = {"duration": 10.5, "warmup": 0.5, "hidden": True, "stations": 2}
    for rts in (4692480, 0):
        with_rts = "with RTS" if rts == 0 else "without RTS"
        for standard, mode in (("a", "OfdmRate54Mbps"), ("a", "OfdmRate6Mbps"), ("b", "DsssRate11Mbps")):
            options = {**common, **LEGACY[standard], "traffic": "udp-up", "mode": mode, "beacon": 1.024, "rts": rts}
            yield Cell(f"udp 802.11{standard} {mode} {with_rts}", options)
        for traffic in ("udp-up", "tcp-up"):
            yield Cell(f"{traffic} MCS 7 {with_rts}", {**common, "traffic": traffic, "rts": rts})


def rates() -> Iterator[Cell]:
    """Rate control over a steady SNR: Minstrel-HT under saturating UDP and under TCP; ideal and Minstrel beside."""
    common: Options = {"duration": 10, "warmup": 2}
    for snr in (5, 8, 10, 12, 15, 18, 20, 22, 25, 30):
        options: Options = {**common, "manager": "minstrel-ht", "snr": snr}
        udp: Options = {**options, "traffic": "udp-up"}
        yield Cell(f"minstrel-ht table {snr} dB udp", udp, runs=1)
        if snr in (5, 10, 15, 20, 25):
            yield Cell(f"minstrel-ht nist {snr} dB udp", {**udp, "errors": "nist"}, runs=1)
        # At 5 dB a BAR at 24 Mbit/s never arrives and is repeated for ever: a trait of ns-3, no reference.
        if snr in (8, 10, 15, 20, 25):
            yield Cell(f"minstrel-ht table {snr} dB tcp", {**options, "ping": 0.2}, runs=1)
    for snr in (5, 10, 15, 20, 25):
        options = {**common, "snr": snr, "traffic": "udp-up"}
        yield Cell(f"ideal table {snr} dB udp", {**options, "manager": "ideal"}, runs=1)
        legacy: Options = {**options, **LEGACY["a"], "manager": "minstrel", "errors": "nist"}
        yield Cell(f"802.11a minstrel nist {snr} dB udp", legacy, runs=1)


SETS: dict[str, Callable[[], Iterator[Cell]]] = {
    "tcp_upload": tcp_upload,
    "tcp_errors": tcp_errors,
    "tcp_mixed": tcp_mixed,
    "udp_ampdu": udp_ampdu,
    "dcf": dcf,
    "hidden": hidden,
    "rates": rates,
}


def rounded(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """To six digits, at any depth."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return value


def one(cell: Cell, run: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and figures of one run."""
    result = wlan(**cell.options, run=run)
    settings = {k: v for k, v in result["settings"].items() if k != "run"}
    figures = {"run": run, **{k: v for k, v in result.items() if k not in NOT_FIGURES}}
    *stations, ap = figures["stations"]
    if len(stations) > STATIONS_LISTED:
        sums = ("data_ppdus", "data_mpdus", "mpdus_acked", "mpdus_nacked", "ppdus_unanswered")
        total: dict[str, Any] = {"name": "all", **{key: sum(s[key] for s in stations) for key in sums}}
        reasons = {reason for s in stations for reason in s["drops"]}
        total["drops"] = {reason: sum(s["drops"].get(reason, 0) for s in stations) for reason in sorted(reasons)}
        figures["stations"] = [total, ap]
        del figures["flows"]
    return settings, rounded(figures)


def text(cells: list[dict[str, Any]]) -> str:
    """JSON with one run to a line, so that a change is seen in a diff."""
    lines = [f'{{"ns3": "{WHEEL}", "made_by": "evidence/ns3/reference.py", "cells": [']
    for i, cell in enumerate(cells):
        lines.append(f'{{"name": {json.dumps(cell["name"])},')
        lines.append(f' "options": {json.dumps(cell["options"])},')
        lines.append(f' "settings": {json.dumps(cell["settings"])},')
        lines.append(' "runs": [')
        lines.append(",\n".join("  " + json.dumps(run) for run in cell["runs"]))
        lines.append(" ]}" + ("," if i + 1 < len(cells) else ""))
    return "\n".join(lines) + "\n]}\n"


def stored_cells(name: str) -> dict[str, dict[str, Any]]:
    file = OUT / f"{name}.json.gz"
    return {cell["name"]: cell for cell in json.loads(recorded.read(file))["cells"]} if file.exists() else {}


def write(name: str, keep: bool) -> None:
    """Runs the cells of a set. After each the file is written, so that work that is cut off can go on."""
    file = OUT / f"{name}.json.gz"
    kept = stored_cells(name) if keep else {}
    OUT.mkdir(parents=True, exist_ok=True)
    cells: list[dict[str, Any]] = []
    for cell in SETS[name]():
        old = kept.get(cell.name)
        if old is not None and old["options"] == cell.options and len(old["runs"]) == cell.runs:
            cells.append(old)
            continue
        runs = []
        settings: dict[str, Any] = {}
        for run in range(1, cell.runs + 1):
            settings, figures = one(cell, run)
            runs.append(figures)
        cells.append({"name": cell.name, "options": cell.options, "settings": settings, "runs": runs})
        ups = ", ".join(f"{r['up_mbit']:.2f}" for r in runs)
        downs = ", ".join(f"{r['down_mbit']:.2f}" for r in runs)
        print(f"{name}: {cell.name}: up {ups} down {downs} Mbit/s", flush=True)
        done = {c["name"] for c in cells}
        # What an earlier call left of the later cells stays until its turn comes.
        recorded.write(file, text(cells + [c for c in kept.values() if c["name"] not in done]))
    recorded.write(file, text(cells))


def check(name: str) -> list[str]:
    """What a first run of each cell gives otherwise than stored."""
    stored = stored_cells(name)
    wrong = []
    for cell in SETS[name]():
        if cell.name not in stored:
            wrong.append(f"{name}: {cell.name} is not stored")
            continue
        settings, figures = one(cell, 1)
        if (settings, figures) != (stored[cell.name]["settings"], stored[cell.name]["runs"][0]):
            wrong.append(f"{name}: {cell.name} differs from what is stored")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=sorted(SETS), default=list(SETS), metavar="NAME")
    parser.add_argument("--all", action="store_true", help="run again what is stored")
    parser.add_argument("--check", action="store_true", help="compare with what is stored; nothing is written")
    args = parser.parse_args()
    try:
        prepare()
        if args.check:
            wrong = [line for name in args.only for line in check(name)]
            print("\n".join(wrong) or "all as stored")
            return 1 if wrong else 0
        for name in args.only:
            write(name, keep=not args.all)
    except Ns3Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
