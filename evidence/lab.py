"""Real Wi-Fi stacks beside the simulation: goodput, ping, round trip and A-MPDUs of sixty scenarios.

Usage: lab.py [--kernel VERSION|FILE] [--seeds N] [--seconds S] [--only NAME ...] [--offload | --simulated] [--out FILE]
       [--page]

Each row is an example with changes: once by `airtcp lab` (tools/uml/build.py --wifi makes its kernel), once by
`airtcp run`, with the seeds 1 to N each. A quarter of the time does not count. A figure is the mean over seeds, with
half of its 95 % interval (Student's t). TCP's round trip is the mean over time of its smoothed one, in both. MPDUs in
an A-MPDU are counted over the whole time, in the direction of the data and of the ACKs; the pings are among them.
Where data go both ways, those upwards come first, and the goodput is that of all flows. The last column says which
means agree: goodput within 5 %, ping, TCP's round trip and A-MPDUs within 10 %. A network is
encrypted in the stack alone: the simulation has no ciphers.

With --page the figures go to evidence/figures/lab.json, in the place of those rows that were measured, and the table of
all rows to evidence/lab.md; that of the remedy goes to studies/ap-retry-out/stack.md.

--simulated: only the simulated runs, with the seeds and beside the stack's figures that evidence/figures/lab.json has.

--offload: one and five stations, up and down, with and without receive offload at the server, or at stations that
download. In the stack stations are always the same: they acknowledge an A-MPDU about once, whatever the row says.
Lengths of A-MPDUs in place of the ping; goodput within 5 %, round trip within 15 %, lengths within 10 %.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import page

from airtcp import stats

Json = dict[str, Any]
AIRTCP = Path(sys.executable).with_name("airtcp")
EXAMPLES = Path(__file__).parents[1] / "examples"

REMEDY = 'wlans.wlan.ap_radio.reorder_buffer={ retry_out = "stepped" }'
CLEAN = 'wlans.wlan.signal={ kind = "perfect" }'
RENO = "flows.upload.tcp.cc=reno"
LARGE = "flows.upload.tcp.tsq=off"
DOWN = ["flows.upload.from=server", "flows.upload.to=sta"]
MERGE = 'nodes.server.receive_offload={ name = "napi", gro_flush_timeout = "20us", napi_defer_hard_irqs = 1 }'
STATIONS_MERGE = (
    'wlans.wlan.station_radio.transmit={ name = "mac80211", driver = "mt76", aql = false, driver_frames = 64 }',
    "wlans.wlan.station_radio.aggregation.formed_ahead=2",
)
BBR = "flows.upload.tcp.cc=bbr"
FAR = "links.ap-server.delay=5ms"
BOTH = """
[[flows]]
name = "download"
from = "server"
to = "sta"
tcp = { cc = "cubic" }
"""
"""Downloads beside the uploads of an example."""
MINSTREL = [f'wlans.wlan.{end}_radio.rate_control="minstrel_ht"' for end in ("station", "ap")]
LIMITS = {"goodput": 0.05, "ping": 0.1, "rtt": 0.1, "data": 0.1, "acks": 0.1}
"""Differences up to which stack and simulation agree, of each figure."""
OFFLOAD_LIMITS = {"goodput": 0.05, "rtt": 0.15, "data": 0.1, "acks": 0.1}
"""The same for `--offload`."""
HEADS = {
    "goodput": "goodput, Mbit/s",
    "ping": "ping, ms",
    "rtt": "TCP's, ms",
    "data": "MPDUs of data",
    "acks": "of ACKs",
}
PAGE, DATA = page.ROOT / "evidence/lab.md", page.DATA / "lab.json"
REMEDY_PAGE = page.ROOT / "studies/ap-retry-out/stack.md"


def mcs(number: int) -> list[str]:
    rate = f'rate_control={{ name = "fixed", mcs = {number} }}'
    return [f"wlans.wlan.station_radio.{rate}", f"wlans.wlan.ap_radio.{rate}"]


def count(stations: int) -> str:
    return f"nodes.sta.count={stations}"


def snr(decibels: int) -> str:
    return f'wlans.wlan.signal={{ kind = "snr", snr_db = {decibels} }}'


@dataclass(frozen=True)
class Row:
    """Changes of an example, and options of `airtcp lab` alone."""

    changes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    example: str = "lab-upload"
    more: str = ""
    """Text that follows the example."""


def row(*changes: str, options: tuple[str, ...] = (), example: str = "lab-upload", more: str = "") -> Row:
    return Row(changes, options, example, more)


def phy(standard: str, width_mhz: int, streams: int, number: int) -> tuple[str, ...]:
    """A PHY at one MCS, without errors."""
    rates = mcs(number) if standard == "n" else [change[:-2] + f", streams = {streams} }}" for change in mcs(number)]
    kind = f'{{ standard = "{standard}", width_mhz = {width_mhz}, streams = {streams} }}'
    return (*rates, CLEAN, f"wlans.wlan.phy={kind}")


def unlike(*numbers: int) -> str:
    """Stations, each with an MCS of its own."""
    each = [
        f'{{ node = "sta[{n}]", radio = {{ rate_control = {{ name = "fixed", mcs = {number} }} }} }}'
        for n, number in enumerate(numbers)
    ]
    return f"wlans.wlan.stations=[{', '.join(each)}]"


FAST = (*mcs(7), CLEAN)
WIDE = (*mcs(7), CLEAN, 'wlans.wlan.phy={ standard = "n", width_mhz = 40 }')
AC = (*mcs(8), CLEAN, 'wlans.wlan.phy={ standard = "ac", width_mhz = 40 }')
WIDE_108 = phy("n", 40, 2, 11)
WIDE_270 = phy("n", 40, 2, 15)
SCENARIOS: dict[str, Row] = {
    "13 Mbit/s, CUBIC": row(),
    "13 Mbit/s, CUBIC, retry-out": row(REMEDY),
    "13 Mbit/s, CUBIC, retry-out, WPA2": row(REMEDY, options=("--wpa2",)),
    "13 Mbit/s, CUBIC, retry-out, WPA3": row(REMEDY, options=("--wpa3",)),
    "13 Mbit/s, Reno": row(RENO),
    "13 Mbit/s, Reno, retry-out": row(RENO, REMEDY),
    "13 Mbit/s, CUBIC, no small queues": row(LARGE),
    "13 Mbit/s, CUBIC, no small queues, retry-out": row(LARGE, REMEDY),
    "6.5 Mbit/s, CUBIC": row(*mcs(0)),
    "6.5 Mbit/s, CUBIC, retry-out": row(*mcs(0), REMEDY),
    "6.5 Mbit/s, no errors": row(*mcs(0), CLEAN),
    "13 Mbit/s, no errors": row(CLEAN),
    "52 Mbit/s, no errors": row(*mcs(5), CLEAN),
    "13 Mbit/s, five upload": row(count(5)),
    "13 Mbit/s, five upload, retry-out": row(count(5), REMEDY),
    "13 Mbit/s, two access points": row(example="lab-neighbours"),
    "65 Mbit/s, one uploads": row(*FAST),
    "65 Mbit/s, one uploads, server merges": row(*FAST, MERGE),
    "65 Mbit/s, five upload": row(*FAST, count(5)),
    "65 Mbit/s, five upload, server merges": row(*FAST, count(5), MERGE),
    "65 Mbit/s, twenty upload": row(*FAST, count(20)),
    "65 Mbit/s, twenty upload, server merges": row(*FAST, count(20), MERGE),
    "65 Mbit/s, one downloads": row(*FAST, *DOWN),
    "65 Mbit/s, five download": row(*FAST, *DOWN, count(5)),
    "65 Mbit/s, one downloads, stations merge": row(*FAST, *DOWN, *STATIONS_MERGE),
    "65 Mbit/s, five download, stations merge": row(*FAST, *DOWN, count(5), *STATIONS_MERGE),
    "65 Mbit/s, twenty download": row(*FAST, *DOWN, count(20)),
    "65 Mbit/s, twenty download, stations merge": row(*FAST, *DOWN, count(20), *STATIONS_MERGE),
    "40 MHz, 135 Mbit/s, one uploads": row(*WIDE),
    "802.11ac, 40 MHz, 162 Mbit/s, one uploads": row(*AC),
    "minstrel_ht, 10 dB": row(*MINSTREL, snr(10)),
    "minstrel_ht, 18 dB": row(*MINSTREL, snr(18)),
    "minstrel_ht, 26 dB": row(*MINSTREL, snr(26)),
    "two streams, 52 Mbit/s, one uploads": row(*phy("n", 20, 2, 11)),
    "two streams, 130 Mbit/s, one uploads": row(*phy("n", 20, 2, 15)),
    "two streams, 130 Mbit/s, five upload": row(*phy("n", 20, 2, 15), count(5), FAR),
    "40 MHz, two streams, 108 Mbit/s, one uploads": row(*WIDE_108),
    "40 MHz, two streams, 108 Mbit/s, five upload": row(*WIDE_108, count(5), FAR),
    "40 MHz, two streams, 270 Mbit/s, one uploads": row(*WIDE_270),
    "40 MHz, two streams, 270 Mbit/s, five upload": row(*WIDE_270, count(5), FAR),
    "40 MHz, two streams, 270 Mbit/s, one downloads": row(*WIDE_270, *DOWN),
    "40 MHz, two streams, 270 Mbit/s, five download": row(*WIDE_270, *DOWN, count(5), FAR),
    "40 MHz, 135 Mbit/s, five upload": row(*WIDE, count(5), FAR),
    "40 MHz, 135 Mbit/s, five download": row(*WIDE, *DOWN, count(5), FAR),
    "65 Mbit/s, five upload, 5 ms": row(*FAST, count(5), FAR),
    "65 Mbit/s, two upload, 5 ms": row(*FAST, count(2), FAR),
    "802.11ac, 20 MHz, 78 Mbit/s, one uploads": row(*phy("ac", 20, 1, 8)),
    "802.11ac, 40 MHz, two streams, 360 Mbit/s, one uploads": row(*phy("ac", 40, 2, 9)),
    "802.11ac, 40 MHz, 162 Mbit/s, five upload": row(*AC, count(5), FAR),
    "13 Mbit/s, no errors, one up and down": row(CLEAN, more=BOTH),
    "65 Mbit/s, one up and down": row(*FAST, more=BOTH),
    "65 Mbit/s, five up and down": row(*FAST, count(5), FAR, more=BOTH),
    "40 MHz, two streams, 270 Mbit/s, one up and down": row(*WIDE_270, FAR, more=BOTH),
    "13 Mbit/s, BBR": row(BBR),
    "65 Mbit/s, one uploads, BBR": row(*FAST, BBR, FAR),
    "65 Mbit/s, five upload, BBR": row(*FAST, BBR, FAR, count(5)),
    "65 Mbit/s, one downloads, BBR": row(*FAST, *DOWN, BBR, FAR),
    "6.5 and 65 Mbit/s, two upload": row(*FAST, count(2), unlike(0, 7), FAR),
    "6.5, 26, 39, 52 and 65 Mbit/s, five upload": row(*FAST, count(5), unlike(0, 3, 4, 5, 7), FAR),
    "13 and 65 Mbit/s, two upload, BBR": row(*FAST, BBR, count(2), unlike(1, 7), FAR),
}


OFFLOAD_ROWS = [
    "65 Mbit/s, one uploads",
    "65 Mbit/s, one uploads, server merges",
    "65 Mbit/s, five upload",
    "65 Mbit/s, five upload, server merges",
    "65 Mbit/s, one downloads",
    "65 Mbit/s, five download",
    "65 Mbit/s, one downloads, stations merge",
    "65 Mbit/s, five download, stations merge",
    "65 Mbit/s, twenty upload",
    "65 Mbit/s, twenty upload, server merges",
    "65 Mbit/s, twenty download",
    "65 Mbit/s, twenty download, stations merge",
]

REMEDY_ROWS = [
    "13 Mbit/s, CUBIC",
    "13 Mbit/s, CUBIC, no small queues",
    "13 Mbit/s, Reno",
    "6.5 Mbit/s, CUBIC",
]
"""Rows that are there with the remedy, too."""


def ampdu(folder: Path, down: bool) -> float:
    """MPDUs in an A-MPDU from access points, or to them."""
    import polars as pl

    if (radios := folder / "radios.parquet").exists():
        table = pl.read_parquet(radios).filter(pl.col("from").str.starts_with("ap") == down, pl.col("to") != "")
        return float(table["mpdus"].sum() / table["ampdus"].sum())
    table = pl.read_parquet(folder / "air.parquet").filter(pl.col("name").str.starts_with("ap") == down)
    return float(table["mpdus"].sum() / table["ppdus"].sum())


def figures(folder: Path, warmup_s: float, down: bool) -> dict[str, float]:
    """Goodput of all uploads, the means of ping and round trip, and the lengths of A-MPDUs."""
    # Only runs need it.
    import polars as pl

    series = pl.read_parquet(folder / "flow_series.parquet").filter(pl.col("time_s") >= warmup_s)
    groups = json.loads((folder / "summary.json").read_text())["groups"]
    kinds = ("upload", "download", "ping")
    of = {kind: [group for group in groups if group["group"].startswith(kind)] for kind in kinds}
    return {
        "goodput": sum(group["goodput_bps"] for group in of["upload"] + of["download"]) / 1e6,
        "ping": statistics.fmean(group["rtt_mean_ms"] for group in of["ping"]),
        "rtt": statistics.fmean(series["srtt_ms"].drop_nulls().to_list()),
        "data": ampdu(folder, down),
        "acks": ampdu(folder, not down),
    }


def measured(name: str, seed: int, seconds: float, kernel: str, known: Json | None = None) -> Json:
    """One scenario with one seed, in stack and simulation; `known` has what the stack was measured to have."""
    about = SCENARIOS[name]
    example = EXAMPLES / f"{about.example}.toml"
    times = [f"duration={seconds}s", f"warmup={seconds / 4}s"]
    sets = [part for change in [*times, *about.changes] for part in ("--set", change)]
    shared: list[str | Path] = ["-q", "--seed", str(seed), *sets]
    down = set(DOWN) <= set(about.changes)
    with tempfile.TemporaryDirectory() as work:
        scenario = Path(work, example.name)
        scenario.write_text(example.read_text() + about.more)
        shared = [scenario, *shared]
        stack, simulation = Path(work, "stack"), Path(work, "simulated")
        if known is None:
            subprocess.run([AIRTCP, "lab", *shared, "--kernel", kernel, "--out", stack, *about.options], check=True)
            known = figures(stack, seconds / 4, down)
        subprocess.run([AIRTCP, "run", *shared, "--out", simulation], check=True, stderr=subprocess.DEVNULL)
        # The medium of kernels counts A-MPDUs from the beginning.
        whole = Path(work, "whole")
        cold: list[str | Path] = ["--set", "warmup=0s", "--out", whole]
        subprocess.run([AIRTCP, "run", *shared, *cold], check=True, stderr=subprocess.DEVNULL)
        lengths = {"data": ampdu(whole, down), "acks": ampdu(whole, not down)}
        return {"stack": known, "simulated": figures(simulation, seconds / 4, down) | lengths}


def shown(values: list[float], digits: int) -> str:
    mean = statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:.{digits}f}"
    half = stats.student_t_quantile(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def agreement(runs: list[dict[str, dict[str, float]]], limits: dict[str, float]) -> dict[str, bool]:
    """Of each figure: do the means differ by no more than the limit?"""
    found = {}
    for key, limit in limits.items():
        stack, simulated = (statistics.fmean(run[which][key] for run in runs) for which in ("stack", "simulated"))
        found[key] = abs(stack - simulated) <= limit * simulated
    return found


def head(limits: dict[str, float]) -> str:
    cells = " | ".join(f"{HEADS[key]}: stack | simulated" for key in limits)
    return f"| | {cells} | agree |\n|---|" + "---|---|" * len(limits) + "---|"


def line(row: Json, limits: dict[str, float]) -> str:
    """A row of the table."""
    runs = row["runs"]
    cells = [
        shown([run[which][key] for run in runs], 2 if key == "goodput" else 1)
        for key in limits
        for which in ("stack", "simulated")
    ]
    within = agreement(runs, limits)
    agree = "all" if all(within.values()) else ", ".join(k for k, v in within.items() if v) or "none"
    return f"| {row['scenario']} | {' | '.join(cells)} | {agree} |"


def table(data: Json) -> str:
    """All rows, and how many agree."""
    rows = data["rows"]
    each = [agreement(row["runs"], LIMITS) for row in rows]
    three = sum(all(within[key] for key in ("goodput", "ping", "rtt")) for within in each)
    counts = ", ".join(f"{name} {sum(within[key] for within in each)}" for key, name in TOLD.items())
    seeds = max(len(row["runs"]) for row in rows)
    fewer = [row["scenario"] for row in rows if len(row["runs"]) < seeds]
    whole = sum(all(within.values()) for within in each)
    end = f"Rows that agree, of {len(rows)}: {counts}. In the first three {three} agree, in all {whole}."
    end += f" Seeds: 1 to {seeds}"
    end += f", fewer in {len(fewer)} rows." if fewer else "."
    return "\n".join([head(LIMITS), *(line(row, LIMITS) for row in rows), "", end])


TOLD = {
    "goodput": "goodput",
    "ping": "ping",
    "rtt": "TCP's round trip",
    "data": "A-MPDUs of data",
    "acks": "those of ACKs",
}
"""What the figures are called when rows are counted."""


def remedy_table(data: Json) -> str:
    """The access point's remedy: ping and goodput with and without it, in stack and simulation."""
    runs = {row["scenario"]: row["runs"] for row in data["rows"]}
    lines = [
        "| | | ping, ms: without | with | halved | goodput, Mbit/s: without | with | kept |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in REMEDY_ROWS:
        for which in ("stack", "simulated"):
            both = [runs[name], runs[f"{name}, retry-out"]]
            ping, goodput = ([[run[which][key] for run in each] for each in both] for key in ("ping", "goodput"))
            halved = statistics.fmean(ping[1]) < statistics.fmean(ping[0]) / 2
            kept = statistics.fmean(goodput[1]) >= 0.95 * statistics.fmean(goodput[0])
            pings = f"{shown(ping[0], 1)} | {shown(ping[1], 1)} | {'yes' if halved else 'no'}"
            goodputs = f"{shown(goodput[0], 2)} | {shown(goodput[1], 2)} | {'yes' if kept else 'no'}"
            lines.append(f"| {name} | {which} | {pings} | {goodputs} |")
    return "\n".join(lines)


def written(rows: list[Json]) -> str:
    """The data as JSON, each run in a line of its own."""
    each = []
    for row in rows:
        runs = ",\n    ".join(json.dumps(run) for run in row["runs"])
        each.append(f'  {{"scenario": {json.dumps(row["scenario"])}, "runs": [\n    {runs}\n  ]}}')
    return '{"rows": [\n' + ",\n".join(each) + "\n]}\n"


def put_on_page(rows: list[Json]) -> None:
    """Puts new rows into the data, and the tables of all of them where the documentation has them."""
    known = {row["scenario"]: row for row in json.loads(DATA.read_text())["rows"]} if DATA.exists() else {}
    known |= {row["scenario"]: row for row in rows}
    DATA.write_text(written([known[name] for name in SCENARIOS if name in known]))
    data = json.loads(DATA.read_text())
    PAGE.write_text(page.with_part(PAGE.read_text(), "stack and simulation", table(data)))
    if all(f"{name}{with_it}" in known for name in REMEDY_ROWS for with_it in ("", ", retry-out")):
        REMEDY_PAGE.write_text(page.with_part(REMEDY_PAGE.read_text(), "remedy", remedy_table(data)))


def main() -> None:
    about, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=more, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", default="6.12-wifi", help="version that tools/uml/build.py has built, or a file")
    parser.add_argument(
        "--seeds", type=int, default=3, choices=range(1, 101), metavar="N", help="1 to 100 (default: %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=20, metavar="S", help="of each run (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help="; ".join(SCENARIOS))
    some = parser.add_mutually_exclusive_group()
    some.add_argument("--offload", action="store_true", help="rows of receive offload, with lengths of A-MPDUs")
    some.add_argument(
        "--simulated", action="store_true", help="the stack's figures are those of evidence/figures/lab.json"
    )
    parser.add_argument("--out", type=Path, help="write the figures of each seed as JSON, after each row")
    parser.add_argument("--page", action="store_true", help="put figures and tables where the documentation has them")
    arguments = parser.parse_args()
    rows: list[Json] = []
    limits = OFFLOAD_LIMITS if arguments.offload else LIMITS
    stacks: dict[str, list[Json | None]] = {}
    if arguments.simulated:
        stacks = {
            row["scenario"]: [run["stack"] for run in row["runs"]] for row in json.loads(DATA.read_text())["rows"]
        }
    print(head(limits))
    for name in arguments.only or (OFFLOAD_ROWS if arguments.offload else SCENARIOS):
        known = stacks.get(name, [None] * arguments.seeds)
        runs = [measured(name, n, arguments.seconds, arguments.kernel, stack) for n, stack in enumerate(known, 1)]
        rows.append({"scenario": name, "runs": runs})
        print(line(rows[-1], limits), flush=True)
        if arguments.out:
            arguments.out.write_text(written(rows))
        if arguments.page:
            put_on_page(rows)


if __name__ == "__main__":
    main()
