#!/usr/bin/env python3
"""airtcp against the references: ns-2's grid and its cells of the study pacing-buffers (evidence/figures/ns2), and the
Linux kernel's cells (evidence/figures/kernel/paths.json).

    .venv/bin/python evidence/validate.py [--only ns2|study|kernel] [--check] [--jobs N] [--out FILE]
    .venv/bin/python evidence/validate.py --page     # all cells; rewrites docs/validation.md and evidence/*.md

Runs every cell with three seeds (study: the reference's) and compares the means with what the reference recorded.
Exit status 0, unless --check
is given and a cell is outside the tolerance. A cell is inside when airtcp's mean lies within the range of the
reference's own runs, widened by the tolerance on both sides.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import itertools
import json
import math
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "ns2"), str(HERE / "kernel"), str(HERE.parent / "bench")]
import cells as kernel_path  # noqa: E402
import compare as kernel_compare  # noqa: E402
import page  # noqa: E402
import study  # noqa: E402
from airtcp_runs import (  # noqa: E402
    AIRTCP,
    BOTTLENECK,
    ROOT,
    BenchError,
    airtcp_command,
    airtcp_figures,
    dumbbell_toml,
    measure,
)

SEEDS = (1, 2, 3)


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """How far a figure may lie outside the range of the reference's runs."""

    absolute: float = 0.0
    relative: float = 0.0

    def of(self, value: float) -> float:
        return max(self.absolute, self.relative * abs(value))


# Stated before the first comparison. ns-2 runs the same model with the same parameters; the kernel's runs are single,
# in real time, with segmentation offload in its sender but where a cell says that there is none.
TOLERANCES = {
    "ns2": {
        "utilisation": Tolerance(absolute=0.02),
        "loss": Tolerance(absolute=0.0002, relative=0.2),
        "mean_rtt_seconds": Tolerance(relative=0.1),
        "mean_cwnd_packets": Tolerance(relative=0.1),
        "mean_queue_packets": Tolerance(absolute=2, relative=0.15),
    },
    # The same seeds give the same transfers, not the same starts of hosts. By size: ns-2 loses some hundreds of packets
    # of a class at most.
    "study": {
        "utilisation": Tolerance(absolute=0.02),
        "loss": Tolerance(absolute=0.001, relative=0.1),
        "mean_queue_packets": Tolerance(absolute=2, relative=0.15),
        "timeouts": Tolerance(absolute=20, relative=0.15),
        "transfer_s": Tolerance(relative=0.1),
        "transfer_loss": Tolerance(absolute=0.002, relative=0.25),
    },
    "kernel": {
        "utilisation": Tolerance(absolute=0.05),
        "loss": Tolerance(absolute=0.001, relative=0.5),
        "mean_rtt_seconds": Tolerance(absolute=0.002, relative=0.15),
        "mean_cwnd_packets": Tolerance(absolute=2, relative=0.15),
        "mean_queue_packets": Tolerance(absolute=4, relative=0.25),
    },
}
FIGURES = tuple(TOLERANCES["ns2"])


@dataclasses.dataclass
class Cell:
    grid: str
    what: str
    toml: str
    reference: list[dict[str, float]]
    """One for each run of the reference. A figure of transfers by size is named `transfer_s 10 kB`: from there on."""
    web: bool = False
    seeds: tuple[int, ...] = SEEDS


RECOVERIES = {"TCP/Reno": "reno", "TCP/Newreno": "new_reno", "TCP/Sack1": "sack"}


def ns2_cells(path: pathlib.Path) -> list[Cell]:
    grid = json.loads(path.read_text())
    cells = []
    for c in grid["cells"]:
        rate = c["rate_mbit"]
        toml = dumbbell_toml(
            flows=c["flows"], rate=f"{rate}Mbit/s", delay=f"{c['delay_ms']}ms",
            access_rate=f"{rate * grid['access_rate_factor']}Mbit/s", access_delay=f"{grid['access_delay_ms']}ms",
            # DropTail counts the packet on the line.
            limit_packets=c["buffer_packets"] - 1, seconds=grid["seconds"], warmup=grid["warmup_seconds"],
            spread=grid["start_spread_seconds"], profile="ns2-reno",
            tcp=f'packet_bytes = {grid["packet_bytes"]}, recovery = "{RECOVERIES[c["agent"]]}"',
            record_interval="100ms",
        )  # fmt: skip
        what = f"{c['agent'][4:]} {c['flows']} x {rate} Mbit/s {c['delay_ms']} ms {c['buffer_bdp']} BDP"
        reference = [{name: float("nan") if r[name] is None else r[name] for name in FIGURES} for r in c["runs"]]
        cells.append(Cell("ns2", what, toml, reference))
    return cells


def study_cells(path: pathlib.Path) -> list[Cell]:
    by_name = {c.name: c for c in study.cells()}
    cells = []
    for c in json.loads(path.read_text())["cells"]:
        reference = []
        for r in c["runs"]:
            figures = {name: r[name] for name in ("utilisation", "loss", "mean_queue_packets", "timeouts")}
            for size in r.get("by_size", []):
                figures[f"transfer_s {size['from_kb']:g} kB"] = size["transfer_s"]
                figures[f"transfer_loss {size['from_kb']:g} kB"] = size["loss"]
            reference.append(figures)
        # The reference's seeds: heavy-tailed sizes differ too much between seeds.
        seeds = tuple(r["seed"] for r in c["runs"])
        cells.append(Cell("study", c["name"], study.scenario(by_name[c["name"]]), reference, c["web"], seeds))
    return cells


def kernel_cells(file: pathlib.Path) -> list[Cell]:
    """A cell that was measured twice has two runs. What could not be measured is left out."""
    found: dict[str, Cell] = {}
    for c in json.loads(file.read_text())["cells"]:
        r = c["result"]
        if r["problems"]:
            continue
        reference = {
            "utilisation": r["utilisation"],
            "loss": r["queue_loss"],
            "mean_rtt_seconds": r["rtt_ms"] / 1e3,
            "mean_cwnd_packets": r["cwnd"],
            "mean_queue_packets": r["queue_packets"],
        }
        what = kernel_path.name(c)
        if what in found:
            found[what].reference.append(reference)
        else:
            # The seed is that of the losses, which are the same on both sides.
            toml = kernel_compare.scenario(c)
            found[what] = Cell("kernel", what, toml, [reference], seeds=(c["seed"],))
    return list(found.values())


def simulate(cell: Cell, work: pathlib.Path, number: int) -> list[dict[str, float]]:
    file = work / f"cell-{number}.toml"
    file.write_text(cell.toml)
    results = []
    for seed in cell.seeds:
        out = work / f"cell-{number}-{seed}" if cell.web else None
        run = measure(airtcp_command(file, out, seed=seed), timeout=600)
        figures = dataclasses.asdict(airtcp_figures(run.output, BOTTLENECK))
        figures["timeouts"] = json.loads(run.output)["groups"][0]["timeouts"]
        if out is not None:
            figures |= by_size(out / "transfers.parquet")
            shutil.rmtree(out)
        results.append(figures)
    return results


def by_size(transfers: pathlib.Path) -> dict[str, float]:
    """Mean time and loss of the transfers that began after the warm-up and ended, by size. A connection also sends a
    SYN and, at its end, a pure ACK; drops of these count, so they count as sent."""
    import polars as pl

    all_rows = pl.read_parquet(transfers).filter((pl.col("start_s") >= study.WARMUP) & pl.col("end_s").is_not_null())
    figures = {}
    for low, high in itertools.pairwise(study.SIZE_CLASSES_KB):
        rows = all_rows.filter((pl.col("bytes") >= low * 1000) & (pl.col("bytes") < high * 1000))
        if len(rows) > 0:
            sent = rows["segments_sent"].sum() + 2 * len(rows)
            figures[f"transfer_s {low:g} kB"] = float((rows["end_s"] - rows["start_s"]).mean())
            figures[f"transfer_loss {low:g} kB"] = rows["dropped_at_queues"].sum() / sent
    return figures


def compare(cell: Cell, own: list[dict[str, float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"grid": cell.grid, "cell": cell.what, "runs": len(cell.seeds), "outside": []}
    for name in cell.reference[0]:
        theirs = [r[name] for r in cell.reference if not math.isnan(r[name])]
        mine = statistics.fmean(f[name] for f in own)
        if not theirs:
            row[name] = {"airtcp": mine, "reference": None}
            continue
        low, high, mid = min(theirs), max(theirs), statistics.fmean(theirs)
        tolerance = TOLERANCES[cell.grid][name.split()[0]]
        inside = low - tolerance.of(low) <= mine <= high + tolerance.of(high)
        row[name] = {"airtcp": round(mine, 6), "reference": round(mid, 6), "range": [low, high], "inside": inside}
        if not inside:
            row["outside"].append(name)
    return row


COLUMNS = {
    "ns2": (
        ("utilisation", 100, ".1f"),
        ("loss", 100, ".3f"),
        ("mean_rtt_seconds", 1e3, ".1f"),
        ("mean_cwnd_packets", 1, ".1f"),
        ("mean_queue_packets", 1, ".1f"),
    ),
    "study": (
        ("utilisation", 100, ".1f"),
        ("loss", 100, ".3f"),
        ("timeouts", 1, ".0f"),
        ("mean_queue_packets", 1, ".1f"),
        ("transfer_s 10 kB", 1, ".2f"),
        ("transfer_loss 10 kB", 100, ".2f"),
    ),
}
"""What is printed of each cell: figure, factor, format. All figures are in the file."""
COLUMNS["kernel"] = COLUMNS["ns2"]


def line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['cell']:48} failed: {row['error'].splitlines()[0][:90]}"

    def pair(name: str, scale: float, form: str) -> str:
        f = row[name]
        reference = "-" if f["reference"] is None else format(f["reference"] * scale, form)
        return f"{format(f['airtcp'] * scale, form)}/{reference}"

    cells = [pair(name, scale, form) for name, scale, form in COLUMNS[row["grid"]] if name in row]
    marks = ", ".join(row["outside"])
    return f"{row['cell']:48}" + "".join(f"{c:>17}" for c in cells) + ("  outside: " + marks if marks else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("ns2", "study", "kernel"))
    parser.add_argument("--match", default="", help="only cells whose name contains this")
    parser.add_argument(
        "--check", action="store_true", help="exit status 1 if a cell is outside the tolerance or fails"
    )
    parser.add_argument(
        "--page", action="store_true", help="all cells, and the tables of docs/validation.md and evidence/*.md"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "validation.json")
    args = parser.parse_args()
    if not AIRTCP.exists():
        print(f"{AIRTCP} is missing: run `make build` first", file=sys.stderr)
        return 1
    cells: list[Cell] = []
    if args.only in (None, "ns2"):
        cells += ns2_cells(ROOT / "evidence/figures/ns2/grid.json")
    if args.only in (None, "study"):
        cells += study_cells(ROOT / "evidence/figures/ns2/study.json")
    if args.only in (None, "kernel"):
        cells += kernel_cells(ROOT / "evidence/figures/kernel/paths.json")
    cells = [c for c in cells if args.match in c.what]
    rows = []
    print("airtcp/reference: utilisation %, loss %; RTT ms, cwnd, queue (grids)")
    print("    or timeouts, queue, seconds and loss of transfers of 10 to 20 kB (study)")
    with (
        tempfile.TemporaryDirectory(prefix="airtcp-validate-") as work,
        concurrent.futures.ThreadPoolExecutor(args.jobs) as pool,
    ):
        todo = [pool.submit(simulate, cell, pathlib.Path(work), i) for i, cell in enumerate(cells)]
        for cell, future in zip(cells, todo, strict=True):
            try:
                row = compare(cell, future.result())
            except BenchError as error:
                row = {"grid": cell.grid, "cell": cell.what, "error": str(error)}
            rows.append(row)
            print(line(row), flush=True)
    failed = [r for r in rows if "error" in r]
    outside = [r for r in rows if r.get("outside")]
    print(f"{len(rows)} cells, {len(outside)} outside the tolerances, {len(failed)} failed")
    tolerances = {g: {name: dataclasses.asdict(t) for name, t in of.items()} for g, of in TOLERANCES.items()}
    data = {"seeds": SEEDS, "tolerances": tolerances, "rows": rows}
    args.out.write_text(json.dumps(data, indent=1) + "\n")
    if args.page:
        if failed or args.only or args.match:
            print("the page is not written: it needs all cells, and none failed", file=sys.stderr)
            return 1
        page.write(page.CELLS, data, {name: (of, body(data)) for name, (of, body) in page.PARTS.items()})
    return 1 if args.check and (failed or outside) else 0


if __name__ == "__main__":
    sys.exit(main())
