"""airtcp in the kernel's cells, and how far it is off. Needs a built airtcp and Polars."""

from __future__ import annotations

import concurrent.futures
import itertools
import json
import pathlib
import statistics
import struct
import sys
from collections.abc import Iterator
from typing import Any

# After this folder, which has a run.py too.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import cells
import page
from airtcp_runs import AIRTCP, airtcp_command, measure

Json = dict[str, Any]

FORWARD, BACK = "r1->r2", "r2->r1"
BOUNDS = (0.05, 0.10)


def scenario(cell: Json) -> str:
    """What pathemu does: one line, its queue and its losses only in the direction of the data.

    The bottleneck is the scenario's first link, so that the losses of a seed are pathemu's. It is not the sender's own.
    A sender knows what its own queue drops, and a TUN device tells it nothing and holds nothing back.
    """
    # The profile's own control is not named; its buffers are those that run.py sets.
    tcp = "" if cell["cc"] == "cubic" else f'cc = "{cell["cc"]}", '
    tcp += "" if cell["send_offload"] else 'segments_at_once = "single", '
    # A TUN device gives each packet to the stack by itself, but with NAPI.
    wait_us = cell["gro_flush_us"]
    receive = f'{{ name = "napi", gro_flush_timeout = "{wait_us}us" }}' if wait_us else '"off"'
    flows = "".join(
        f"""
[[flows]]
name = "flow{n}"
from = "sender"
to = "r2"
start = "{at_ms}ms"
traffic = "unlimited"
tcp = {{ {tcp}send_buffer_max = "32MiB" }}
"""
        for n, at_ms in enumerate(cells.starts_ms(cell))
    )
    return f"""name = "path"
duration = "{cell["seconds"]}s"
warmup = "{cell["warmup"]}s"

[[nodes]]
name = "sender"
kind = "host"
profile = "linux-6"
receive_offload = "off"

[[nodes]]
name = "r1"
kind = "router"

[[nodes]]
name = "r2"
kind = "host"
profile = "linux-6"
receive_offload = {receive}

[[links]]
name = "path"
from = "r1"
to = "r2"
rate = "{cell["rate_mbit"]}Mbit/s"
delay = "{cell["rtt_ms"] / 2}ms"
queue = {{ name = "fifo", limit_packets = {cell["buffer_packets"]} }}
loss = {cell["loss"]}
reverse = {{ rate = "100Gbit/s", queue = {{ name = "fifo" }}, loss = 0.0 }}

[[links]]
name = "device"
from = "sender"
to = "r1"
rate = "100Gbit/s"
delay = "0s"
{flows}
[record]
interval = "10ms"
capture = ["{BACK}"]
"""


def captured(file: bytes) -> Iterator[tuple[str, float, bytes]]:
    """Interface, seconds and bytes of each packet of a pcapng file; one section, little-endian."""
    at = 0
    interfaces: list[tuple[str, float]] = []
    while at + 12 <= len(file):
        kind, length = struct.unpack_from("<II", file, at)
        if length < 12 or at + length > len(file):
            raise ValueError(f"block of {length} bytes at {at}: the file has {len(file)}")
        body = file[at + 8 : at + length - 4]
        if kind == 1:
            told = options(body[8:])
            interfaces.append((told.get(2, b"").decode(), resolution(told.get(9))))
        elif kind == 6:
            interface, high, low, kept = struct.unpack_from("<IIII", body)
            name, tick = interfaces[interface]
            yield name, (high << 32 | low) / (1 / tick), body[20 : 20 + kept]
        at += length


def capture_times(file: bytes) -> list[float]:
    """Seconds at which the packets of a pcapng file were captured."""
    return [at for _, at, _ in captured(file)]


def options(block: bytes) -> dict[int, bytes]:
    """Of an interface, by their codes."""
    found = {}
    at = 0
    while at + 4 <= len(block):
        code, length = struct.unpack_from("<HH", block, at)
        if code == 0:
            break
        found[code] = block[at + 4 : at + 4 + length]
        at += 4 + (length + 3) // 4 * 4
    return found


def resolution(if_tsresol: bytes | None) -> float:
    """Of an interface's timestamps, in seconds: a microsecond where the option is missing."""
    if not if_tsresol:
        return 1e-6
    value = if_tsresol[0]
    return 2.0 ** -(value & 127) if value & 128 else 10.0**-value


def figures(cell: Json, out: pathlib.Path) -> dict[str, float]:
    """The kernel's figures (run.py, `summarise`) of a folder that airtcp wrote."""
    import polars as pl

    summary = json.loads((out / "summary.json").read_text())
    links = {link["name"]: link for link in summary["links"]}
    forward, back = links[FORWARD], links[BACK]
    series = pl.read_parquet(out / "flow_series.parquet").filter(pl.col("time_s") >= cell["warmup"])
    srtt = series["srtt_ms"].drop_nulls().to_list()
    goodput = again = 0.0
    for flow in series.partition_by("flow"):
        rows = flow.sort("time_s")
        seconds = rows["time_s"][-1] - rows["time_s"][0]
        goodput += (rows["bytes_acked"][-1] - rows["bytes_acked"][0]) * 8 / seconds
        again += rows["segments_retransmitted"][-1] - rows["segments_retransmitted"][0]
    times = [t for t in capture_times((out / "capture.pcapng").read_bytes()) if t >= cell["warmup"]]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    return {
        "goodput_mbit": goodput / 1e6,
        "rtt_ms": statistics.fmean(srtt),
        "rtt_p95_ms": cells.quantile(srtt, 0.95),
        "queue_packets": forward["queue_mean_packets"],
        "cwnd": statistics.fmean(series["cwnd_segments"].to_list()),
        "retransmitted": again,
        "acks_per_packet": back["arrived_packets"] / max(1, forward["forwarded_packets"] - forward["lost_packets"]),
        "ack_gap_p50_us": cells.quantile(gaps, 0.5) * 1e6,
    }


def simulate(cell: Json, work: pathlib.Path, number: int) -> dict[str, float]:
    file, out = work / f"cell-{number}.toml", work / f"cell-{number}"
    file.write_text(scenario(cell))
    measure(airtcp_command(file, out, seed=cell["seed"]), timeout=600)
    return figures(cell, out)


def mean(runs: list[Json]) -> dict[str, float]:
    return {f.key: statistics.fmean(r["result"][f.key] for r in runs) for f in cells.FIGURES}


def differences(own: dict[str, float], kernel: dict[str, float]) -> dict[str, float]:
    return {f.key: cells.off_by(f, own[f.key], kernel[f.key]) for f in cells.FIGURES}


def inside(differing: list[dict[str, float]], key: str | None, bound: float) -> int:
    """In how many cells that figure, or every figure, is within the bound."""
    keys = [key] if key else [f.key for f in cells.FIGURES]
    return sum(all(d[k] <= bound for k in keys) for d in differing)


def table(title: str, differing: list[dict[str, float]]) -> str:
    n = len(differing)
    lines = [
        f"{title}: {n} cells",
        "",
        "| figure | inside 5 % | inside 10 % | median | nine of ten |",
        "|---|---|---|---|---|",
    ]
    for f in cells.FIGURES:
        ordered = [d[f.key] for d in differing]
        within = " | ".join(str(inside(differing, f.key, bound)) for bound in BOUNDS)
        lines.append(
            f"| {f.words} | {within} | {cells.quantile(ordered, 0.5):.1%} | {cells.quantile(ordered, 0.9):.1%} |"
        )
    single = len(cells.FIGURES) * n
    within = " | ".join(f"{sum(inside(differing, f.key, b) for f in cells.FIGURES)} of {single}" for b in BOUNDS)
    lines.append(f"| all figures, each by itself | {within} | | |")
    within = " | ".join(str(inside(differing, None, b)) for b in BOUNDS)
    lines.append(f"| every figure of the cell | {within} | | |")
    return "\n".join(lines)


def line(cell: Json, own: dict[str, float], kernel: dict[str, float], differing: dict[str, float]) -> str:
    pairs = (f"{own[f.key]:{f.form}}/{kernel[f.key]:{f.form}}" for f in cells.FIGURES)
    outside = ", ".join(f"{f.key} {differing[f.key]:.0%}" for f in cells.FIGURES if differing[f.key] > BOUNDS[0])
    return f"{cells.name(cell):56}" + " ".join(f"{p:>16}" for p in pairs) + (f"  outside: {outside}" if outside else "")


def report(reference: Json, match: str, work: pathlib.Path, out: pathlib.Path | None, onto_page: bool) -> None:
    """Runs airtcp in every cell of the reference; prints cells, then tables, which also go to the page if wanted."""
    if not AIRTCP.exists():
        sys.exit(f"{AIRTCP} is missing: run `make build` first")
    runs: dict[str, list[Json]] = {}
    failed = []
    for cell in reference["cells"]:
        name = cells.name(cell)
        if match not in name:
            continue
        if cell["result"]["problems"]:
            failed.append(f"{name}: {'; '.join(cell['result']['problems'])}")
        else:
            runs.setdefault(name, []).append(cell)
    print("airtcp/kernel: " + ", ".join(f.words for f in cells.FIGURES))
    rows = []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        todo = [pool.submit(simulate, same[0], work, i) for i, same in enumerate(runs.values())]
        for same, future in zip(runs.values(), todo, strict=True):
            own, kernel = future.result(), mean(same)
            off_by = differences(own, kernel)
            print(line(same[0], own, kernel, off_by), flush=True)
            row = {"cell": cells.name(same[0]), "send_offload": same[0]["send_offload"]}
            row |= {"airtcp": rounded(own), "kernel": rounded(kernel), "off_by": rounded(off_by)}
            if len(same) > 1:
                row["itself"] = rounded(differences(same[1]["result"], same[0]["result"]))
            rows.append(row)
    if not rows:
        sys.exit(f"no cell of the reference matches {match!r}" + "".join(f"\n{f}" for f in failed))
    thrown_away = sum(len(c["thrown_away"]) for c in reference["cells"])
    data = {"peer": reference["peer"], "thrown_away": thrown_away, "not_measured": failed, "rows": rows}
    print("\n" + tables(data))
    if out:
        out.write_text(json.dumps(data, indent=1) + "\n")
    if onto_page:
        if match:
            sys.exit("the page is not written: it needs all cells")
        page.write(page.PATHS, data, {"paths": (page.KERNEL, tables(data))})


def rounded(values: dict[str, float]) -> dict[str, float]:
    """As JSON holds it: no infinity, which is a difference from nothing."""
    return {k: round(min(v, 1e9), 6) for k, v in values.items()}


def by_offload(title: str, rows: list[Json]) -> list[str]:
    """The counts of rows with segmentation offload, and of those without."""
    of = [(title, True), ("without segmentation offload", False)]
    found = [(words, [row["off_by"] for row in rows if row["send_offload"] == offload]) for words, offload in of]
    return [table(words, differences) for words, differences in found if differences]


def tables(data: Json) -> str:
    """The counts of a comparison."""
    rows = data["rows"]
    parts = by_offload("airtcp and the kernel as it is", rows)
    itself = [r["itself"] for r in rows if "itself" in r]
    if itself:
        parts.append(table("the kernel against itself, a second run", itself))
    runs = f"{data['thrown_away']} runs in which time was not kept were thrown away."
    left = "; ".join(data["not_measured"]) or "none"
    parts.append(f"{runs} Cells without a run in which it was: {left}.")
    return "\n\n".join(parts)
