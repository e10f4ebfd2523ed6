#!/usr/bin/env python3
"""Speed and memory of airtcp, next to ns-2 and ns-3 where they are there. `make bench` writes bench/latest.json by it.

    .venv/bin/python bench/run.py [--only NAME ...] [--repeat N] [--out FILE]

Cases: dumbbell, backbone, packet_cost, two_cores; over the air (wifi.py) wlan_upload, wlan_udp, wlan_dcf, wlan_cost;
captures (analyze.py, beside tshark and tcptrace) analyze.
Peers run in turn with airtcp, several times; figures are medians.
Times are wall times of whole processes, memory is the peak resident set. On a busy machine look at the ratios.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from typing import Any

import analyze
import wifi
from airtcp_runs import (
    AIRTCP,
    BENCH,
    BOTTLENECK,
    NS2_PACKAGE,
    ROOT,
    BenchError,
    Measured,
    airtcp_command,
    airtcp_figures,
    dumbbell_toml,
    has_ns2,
    measure,
    ns2_command,
    ns2_figures,
    start_all,
    wait_all,
)

Entry = dict[str, Any]

DUMBBELL = ROOT / "examples/ns2-dumbbell.toml"
BACKBONE = ROOT / "examples/backbone.toml"
BACKBONE_SECONDS = 20

STEADY_WARMUP = 20

GOALS = {
    "ratio": 15.0,
    "memory_ratio": 0.5,
    "utilisation_points": 2.0,
    "loss_ratio": 0.2,
    "simulated_per_wall": 1.0,
    "backbone_bytes": 2 << 30,
    "two_core_speedup": 1.8,
    "log_fit_residual": 0.1,
}


def as_ns2(scenario: pathlib.Path) -> dict[str, str | float]:
    """What the dumbbell of the scenario is in the options of evidence/ns2/dumbbell.tcl."""

    def number(text: str, unit: str) -> float:
        if not text.endswith(unit):
            raise BenchError(f"{scenario.name}: {text!r} is not in {unit}, as the ns-2 script wants it")
        return float(text.removesuffix(unit))

    d = tomllib.loads(scenario.read_text())
    try:
        bottleneck = next(link for link in d["links"] if link.get("name") == "bottleneck")
        access = [link for link in d["links"] if link is not bottleneck]
        (flow,) = d["flows"]
        start = flow.get("start", "0s")
        late = number(start["to"] if isinstance(start, dict) else start, "s")
        if len({(link["rate"], link["delay"]) for link in access}) != 1:
            raise BenchError(f"{scenario.name}: the access links differ")
        return {
            "flows": next(node["count"] for node in d["nodes"] if node["name"] == flow["from"]),
            "rate": f"{number(bottleneck['rate'], 'Mbit/s'):g}Mb",
            "delay": bottleneck["delay"],
            "access": access[0]["delay"],
            "access_rate": f"{number(access[0]['rate'], 'Mbit/s'):g}Mb",
            "packet": flow["tcp"]["packet_bytes"],
            # DropTail counts the packet on the line, fifo does not.
            "buffer": bottleneck["queue"]["limit_packets"] + 1,
            "seconds": number(d["duration"], "s"),
            "spread": late,
            "agent": "TCP/Reno",
            "per_flow": 0,
        }
    except (KeyError, ValueError, StopIteration) as error:
        raise BenchError(f"{scenario.name}: not the dumbbell that the ns-2 script can run: {error!r}") from error


def medians(runs: Iterable[Measured]) -> tuple[float, int]:
    """Median wall seconds, and the largest peak memory."""
    runs = list(runs)
    return statistics.median(r.seconds for r in runs), max(r.peak_bytes for r in runs)


def entry(name: str, runs: list[Measured], **extra: int) -> Entry:
    seconds, peak = medians(runs)
    return {
        "name": name,
        "airtcp_seconds": round(seconds, 4),
        "peer": None,
        "peer_seconds": None,
        "ratio": None,
        "memory": {"airtcp": peak, "peer": None},
        "airtcp_seconds_all": [round(r.seconds, 4) for r in runs],
        "airtcp_cpu_seconds": round(statistics.median(r.cpu_seconds for r in runs), 4),
        **extra,
    }


def against(e: Entry, peer: str, runs: list[Measured]) -> Entry:
    seconds, peak = medians(runs)
    e["peer"] = peer
    e["peer_seconds"] = round(seconds, 4)
    e["ratio"] = round(seconds / e["airtcp_seconds"], 2)
    e["memory"]["peer"] = peak
    e["memory_ratio"] = round(e["memory"]["airtcp"] / peak, 3)
    e["peer_seconds_all"] = [round(r.seconds, 4) for r in runs]
    # What a machine busy with other work does not blur.
    e["peer_cpu_seconds"] = round(statistics.median(r.cpu_seconds for r in runs), 4)
    e["cpu_ratio"] = round(e["peer_cpu_seconds"] / max(e["airtcp_cpu_seconds"], 0.001), 2)
    return e


def mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def dumbbell(repeat: int, work: pathlib.Path) -> list[Entry]:
    """The same dumbbell in ns-2 and airtcp: time, memory, and whether they agree."""
    ours: list[Measured] = []
    saved: list[Measured] = []
    sampled: list[Measured] = []
    bare: list[Measured] = []
    peer = has_ns2()
    same = as_ns2(DUMBBELL)
    for i in range(repeat):
        seed = i + 1
        # In turn, so that what else the machine does hits all alike.
        ours.append(measure(airtcp_command(DUMBBELL, None, seed=seed, changes={"warmup": "0s"})))
        saved.append(measure(airtcp_command(DUMBBELL, work / f"dumbbell-{i}", seed=seed, changes={"warmup": "0s"})))
        if peer:
            sampled.append(measure(ns2_command(**same, seed=seed, sample=0.1)))
            bare.append(measure(ns2_command(**same, seed=seed, sample=0)))
    own = [airtcp_figures(r.output, BOTTLENECK) for r in ours]
    e = entry("dumbbell", ours, seeds=repeat)
    e["airtcp"] = {"utilisation": mean(f.utilisation for f in own), "loss": mean(f.loss for f in own)}
    # Parquet of every table as well, for which ns-2 has no counterpart: mostly the loading of Polars.
    seconds, peak = medians(saved)
    e["airtcp_saving"] = {"seconds": round(seconds, 4), "memory": peak}
    e["packets_per_second"] = round(mean(f.sent_packets for f in own) / e["airtcp_seconds"])
    if not peer:
        e["skipped"] = f"ns-2 is not installed: Debian package {NS2_PACKAGE}"
        return [e]
    against(e, "ns-2, cwnd and rtt of every flow sampled each 0.1 s", sampled)
    theirs = [ns2_figures(r.output) for r in sampled]
    e["ns2"] = {"utilisation": mean(f.utilisation for f in theirs), "loss": mean(f.loss for f in theirs)}
    judge_agreement(e, own, theirs)
    e["reaches"] = {
        "speed": e["ratio"] >= GOALS["ratio"],
        "memory": e["memory_ratio"] <= GOALS["memory_ratio"],
        "utilisation": e["utilisation_points"] <= GOALS["utilisation_points"],
        "loss": e["loss_ratio_off"] <= GOALS["loss_ratio"],
    }
    plain = against(entry("dumbbell_unsampled", ours), "ns-2, nothing sampled", bare)

    steady_own, steady_theirs = [], []
    for seed in range(1, repeat + 1):
        run = measure(airtcp_command(DUMBBELL, None, seed=seed, changes={"warmup": f"{STEADY_WARMUP}s"}))
        steady_own.append(airtcp_figures(run.output, BOTTLENECK))
        steady_theirs.append(ns2_figures(measure(ns2_command(**same, seed=seed, warmup=STEADY_WARMUP)).output))
    e["steady"] = {
        "from_seconds": STEADY_WARMUP,
        "airtcp": figures(steady_own),
        "ns2": figures(steady_theirs),
    }
    judge_agreement(e["steady"], steady_own, steady_theirs)
    return [e, plain]


def figures(runs: list[Any]) -> Entry:
    names = ("utilisation", "loss", "mean_queue_packets", "mean_rtt_seconds", "mean_cwnd_packets")
    return {name: round(mean(getattr(r, name) for r in runs), 6) for name in names}


def judge_agreement(e: Entry, own: list[Any], theirs: list[Any]) -> None:
    """Means over the seeds: one seed alone differs by more than the goals allow, in either simulator."""
    e["utilisation_points"] = round(
        100 * abs(mean(f.utilisation for f in own) - mean(f.utilisation for f in theirs)), 3
    )
    loss = mean(f.loss for f in theirs)
    e["loss_ratio_off"] = round(abs(mean(f.loss for f in own) / loss - 1), 4) if loss else None
    e["loss_of_seeds"] = {"airtcp": [round(f.loss, 6) for f in own], "ns2": [round(f.loss, 6) for f in theirs]}


def backbone(repeat: int, work: pathlib.Path) -> list[Entry]:
    """10 000 flows, 10 Gbit/s, 250 ms: simulated seconds for each second of wall time, and memory."""
    runs = [
        measure(airtcp_command(BACKBONE, work / f"backbone-{i}", seed=i + 1, duration=f"{BACKBONE_SECONDS}s"))
        for i in range(max(1, repeat // 3))
    ]
    e = entry("backbone", runs, simulated_seconds=BACKBONE_SECONDS)
    e["simulated_per_wall"] = round(BACKBONE_SECONDS / e["airtcp_seconds"], 3)
    e["reaches"] = {
        "speed": e["simulated_per_wall"] >= GOALS["simulated_per_wall"],
        "memory": e["memory"]["airtcp"] <= GOALS["backbone_bytes"],
    }
    return [e]


# Flows and simulated seconds: at 1 Mbit/s for each flow about half a million packets at least.
COST_POINTS = ((10, 600), (100, 60), (1000, 10), (10_000, 10))


def packet_cost(repeat: int, work: pathlib.Path) -> list[Entry]:
    """Wall time per packet delivered over the bottleneck, for more and more flows of the same rate."""
    points = []
    all_runs = []
    for flows, seconds in COST_POINTS:
        file = work / f"cost-{flows}.toml"
        bdp = flows * 1e6 * 0.06 / 8 / 1500
        text = dumbbell_toml(
            flows=flows,
            rate=f"{flows}Mbit/s",
            delay="20ms",
            # Faster than the bottleneck: at its own rate one flow can take all of it and queue at its own access link.
            access_rate=f"{10 * flows}Mbit/s",
            access_delay="5ms",
            limit_packets=max(10, round(bdp / 4)),
            seconds=seconds,
            warmup=0,
            spread=min(5, seconds / 2),
            profile="ns2-reno",
        )
        file.write_text(text)
        costs = []
        for i in range(max(1, repeat // 2)):
            # Reading the scenario, building the network and starting Python are not part of a packet's cost.
            setup = measure(airtcp_command(file, None, seed=i + 1, duration="1ms", changes={"flows.flow.start": "0s"}))
            run = measure(airtcp_command(file, None, seed=i + 1))
            packets = airtcp_figures(run.output, BOTTLENECK).sent_packets
            costs.append((run.seconds - setup.seconds) / packets * 1e9)
            all_runs.append(run)
        points.append({"flows": flows, "packets": packets, "ns_per_packet": round(statistics.median(costs), 1)})
    e = entry("packet_cost", all_runs)
    e["points"] = points
    e["airtcp_seconds"] = None
    a, b = log_fit([(p["flows"], p["ns_per_packet"]) for p in points])
    residuals = [p["ns_per_packet"] / (a + b * math.log10(p["flows"])) - 1 for p in points]
    e["fit"] = {
        "ns_per_packet": f"{a:.1f} + {b:.1f} log10(flows)",
        "residuals": [round(r, 4) for r in residuals],
    }
    # A cost that grows faster than the logarithm bends upwards, and lies above the fit at its end.
    e["reaches"] = {"at_most_logarithmic": residuals[-1] <= GOALS["log_fit_residual"]}
    return [e]


def log_fit(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Least squares of cost = a + b log10(n)."""
    xs = [math.log10(n) for n, _ in points]
    ys = [y for _, y in points]
    mx, my = mean(xs), mean(ys)
    b = sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sum((x - mx) ** 2 for x in xs)
    return my - b * mx, b


RUN_MANY = """
import sys, time
from airtcp import run_many
from airtcp.runner import Job
file, duration, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
begin = time.perf_counter()
run_many([Job(file, seed=seed, duration=duration) for seed in (1, 2)], threads=threads)
print(time.perf_counter() - begin)
"""


def two_cores(repeat: int, work: pathlib.Path) -> list[Entry]:
    """Two independent runs side by side against one after the other: two processes, and two threads of one process."""
    cores = len(os.sched_getaffinity(0))
    duration = "600s"
    alone, pairs = [], []
    for _ in range(repeat):
        one = measure(airtcp_command(DUMBBELL, None, seed=1, duration=duration))
        two = wait_all(start_all([airtcp_command(DUMBBELL, None, seed=s, duration=duration) for s in (1, 2)]))
        alone.append(one)
        pairs.append(max(r.seconds for r in two))
    e = entry("two_cores", alone, cores=cores, simulated_seconds=600)
    e["seconds_of_two_at_once"] = round(statistics.median(pairs), 4)
    e["speedup_processes"] = round(2 * e["airtcp_seconds"] / e["seconds_of_two_at_once"], 3)
    python = AIRTCP.parent / "python"
    command = [str(python), "-c", RUN_MANY, str(DUMBBELL), duration]
    threads = {n: statistics.median(float(measure([*command, str(n)]).output) for _ in range(repeat)) for n in (1, 2)}
    e["speedup_threads"] = round(threads[1] / threads[2], 3)
    e["reaches"] = {
        "speedup": min(e["speedup_processes"], e["speedup_threads"]) >= GOALS["two_core_speedup"] if cores > 1 else None
    }
    return [e]


CASES: dict[str, Callable[[int, pathlib.Path], list[Entry]]] = {
    "dumbbell": dumbbell,
    "backbone": backbone,
    "packet_cost": packet_cost,
    "two_cores": two_cores,
    "wlan_upload": wifi.wlan_upload,
    "wlan_udp": wifi.udp,
    "wlan_dcf": wifi.dcf,
    "wlan_cost": wifi.wlan_cost,
    "analyze": analyze.analyze,
}


def table(entries: list[Entry]) -> str:
    def number(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    def mib(value: int | None) -> str:
        return "" if value is None else f"{value / (1 << 20):.0f}"

    rows = [("case", "airtcp s", "peer s", "ratio", "airtcp MiB", "peer MiB", "")]
    for e in entries:
        if "error" in e:
            rows.append((e["name"], "", "", "", "", "", "failed: " + e["error"].splitlines()[0][:100]))
            continue
        notes = []
        if "skipped" in e:
            notes.append(e["skipped"])
        if "utilisation_points" in e:
            notes.append(f"utilisation off by {e['utilisation_points']:.2f} points, loss by {e['loss_ratio_off']:.0%}")
        if "simulated_per_wall" in e:
            notes.append(f"{e['simulated_per_wall']:.4g} simulated s per s")
        if "text" in e:
            notes.append(e["text"])
        if "fit" in e:
            costs = ", ".join(f"{p['flows']}: {p['ns_per_packet']:.0f}" for p in e["points"])
            notes.append(f"ns per packet at {costs}; fit {e['fit']['ns_per_packet']}")
        if "speedup_processes" in e:
            notes.append(f"speedup {e['speedup_processes']:.2f} (processes), {e['speedup_threads']:.2f} (threads)")
        missed = [name for name, ok in e.get("reaches", {}).items() if ok is False]
        if missed:
            notes.append("below the goal: " + ", ".join(missed))
        rows.append(
            (
                e["name"],
                number(e["airtcp_seconds"], ".3f"),
                number(e["peer_seconds"], ".3f"),
                number(e["ratio"], ".1f"),
                mib(e["memory"]["airtcp"]),
                mib(e["memory"]["peer"]),
                "; ".join(notes),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [row[i].rjust(widths[i]) for i in range(1, 6)]
        lines.append("  ".join([*cells, row[6]]).rstrip())
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--repeat", type=int, default=5, help="runs of each case (default 5)")
    parser.add_argument("--out", type=pathlib.Path, default=BENCH / "latest.json")
    args = parser.parse_args()
    if args.repeat < 1:
        parser.error("--repeat must be at least 1")
    if not AIRTCP.exists():
        print(f"{AIRTCP} is missing: run `make build` first", file=sys.stderr)
        return 1
    entries: list[Entry] = []
    for name in args.only:
        load = round(os.getloadavg()[0], 2)
        print(f"{name} ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="airtcp-bench-") as work:
            try:
                found = CASES[name](args.repeat, pathlib.Path(work))
            except BenchError as error:
                found = [{"name": name, "error": str(error)}]
        entries += [{**e, "load_before": load} for e in found]
    args.out.write_text(json.dumps(entries, indent=1) + "\n")
    print(table(entries))
    return 1 if any("error" in e for e in entries) else 0


if __name__ == "__main__":
    sys.exit(main())
