#!/usr/bin/env python3
"""This engine beside an older one, in one run: processor time, memory, instructions, and whether results are equal.

    .venv/bin/python bench/engines.py --old COMMIT [--only ROW ...] [--repeat N]

Rows: wired_100, wired_1000, wired_10000 (the engine alone, without Python), campus (100 cells, one server), start
(`airtcp run` of a short scenario, Python and all), cell_1, cell_100, cell_500 (uploads in one cell, as wlan_cost of
bench/run.py) and cell_short (20 stations with the queues of mac80211: short A-MPDUs, many
collisions). The older engine is compiled below target/old/. Both run in turn;
figures are medians, ratios are old / new. Instructions are counted by valgrind, where it is installed, on shorter runs:
other work on the machine does not change them.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable

import wifi
from airtcp_runs import ROOT, BenchError, Measured, dumbbell_toml, measure

PYTHON = ROOT / ".venv/bin/python"
START = "import sys; from airtcp.cli import main; sys.exit(main())"
# Flows, simulated seconds, and simulated seconds where instructions are counted.
WIRED = {"wired_100": (100, 60, 6.0), "wired_1000": (1000, 10, 2.0), "wired_10000": (10_000, 5, 1.0)}
# Stations; the simulated seconds as above.
CELLS = {"cell_1": 1, "cell_100": 100, "cell_500": 500, "cell_short": 20}


def wired(flows: int, seconds: float) -> str:
    """Flows of 1 Mbit/s each: the cost of a packet is theirs, not that of their number."""
    return dumbbell_toml(
        flows=flows,
        rate=f"{flows}Mbit/s",
        delay="20ms",
        access_rate=f"{10 * flows}Mbit/s",
        access_delay="5ms",
        limit_packets=max(10, round(flows * 1e6 * 0.06 / 8 / 1500 / 4)),
        seconds=seconds,
        warmup=0,
        spread=min(5, seconds / 2),
        profile="linux-6",
    )


def cell(name: str, seconds: float) -> str:
    """Stations that upload over one access point."""
    stations = CELLS[name]
    if name != "cell_short":
        return wifi.upload(stations, seconds)
    return wifi.scenario(
        stations=stations,
        seconds=seconds,
        warmup=0,
        phy='standard = "n"',
        rate="mcs = 7",
        traffic='"unlimited"',
    )


def campus(cells: int, seconds: float) -> str:
    """Cells of 20 stations that send to one server 5 ms away."""
    nodes = "".join(
        f'  {{ name = "ap{i}", kind = "router" }}, {{ name = "s{i}", kind = "host", count = 20 }},\n'
        for i in range(cells)
    )
    text = f"""duration = "{seconds}s"
nodes = [
  {{ name = "server", kind = "host" }}, {{ name = "core", kind = "router" }},
{nodes}]

[[links]]
from = "core"
to = "server"
rate = "100Gbit/s"
delay = "5ms"
"""
    for i in range(cells):
        text += f"""
[[links]]
from = "ap{i}"
to = "core"
rate = "1Gbit/s"
delay = "100us"

[[wlans]]
name = "w{i}"
ap = "ap{i}"
stations = ["s{i}"]
phy = {{ standard = "n" }}

[[flows]]
name = "f{i}"
from = "s{i}"
to = "server"
start = {{ from = "0s", to = "{seconds / 4}s" }}
traffic = "unlimited"
"""
    return text


def build(tree: pathlib.Path) -> None:
    """The program that runs a scenario without Python, and the bindings."""
    for what in (["-p", "airtcp-sim", "--example", "run"], ["-p", "airtcp-py"]):
        subprocess.run(["cargo", "build", "--release", "--quiet", *what], cwd=tree, check=True)
    shutil.copy(tree / "target/release/lib_airtcp.so", tree / "python/airtcp/_airtcp.abi3.so")


def older(commit: str) -> pathlib.Path:
    """The sources of a commit, compiled."""
    name = subprocess.run(
        ["git", "rev-parse", commit], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    tree = ROOT / "target/old" / name
    if not tree.is_dir():
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), name], cwd=ROOT, check=True)
    build(tree)
    return tree


def engine(tree: pathlib.Path, file: pathlib.Path, *options: str) -> list[str]:
    return [str(tree / "target/release/examples/run"), str(file), *options]


def command(tree: pathlib.Path, file: pathlib.Path) -> list[str]:
    """`airtcp run` with the package of that tree."""
    return ["env", f"PYTHONPATH={tree / 'python'}", str(PYTHON), "-c", START, "run", str(file), "--json"]


def instructions(program: list[str]) -> int | None:
    """Those of a whole run; `None` without valgrind."""
    if shutil.which("valgrind") is None:
        return None
    counting = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", *program]
    told = subprocess.run(counting, capture_output=True, text=True, check=True).stderr
    found = re.search(r"I\s+refs:\s+([\d,]+)", told)
    return int(found[1].replace(",", "")) if found else None


def compare(
    name: str, old: list[str], new: list[str], repeat: int, counted: tuple[list[str], list[str]] | None
) -> None:
    """Prints a row."""
    runs: tuple[list[Measured], list[Measured]] = ([], [])
    for _ in range(repeat):
        for own, program in zip(runs, (old, new), strict=True):
            own.append(measure(program))
    equal = "equal" if runs[0][0].output == runs[1][0].output else "DIFFERENT"

    def pair(of: Callable[[Measured], float], form: str) -> str:
        a, b = (statistics.median(of(r) for r in own) for own in runs)
        return f"{a:{form}} {b:{form}} ({a / b:.2f})"

    texts = [
        f"wall s {pair(lambda r: r.seconds, '.3f')}",
        f"cpu s {pair(lambda r: r.cpu_seconds, '.3f')}",
        f"MiB {pair(lambda r: r.peak_bytes / (1 << 20), '.0f')}",
    ]
    if counted is not None:
        a, b = (instructions(program) for program in counted)
        texts.append(f"10^6 instructions {a / 1e6:.0f} {b / 1e6:.0f} ({a / b:.3f})" if a and b else "no valgrind")
    print(f"{name}: {'; '.join(texts)}; results {equal}", flush=True)


def rows(old: pathlib.Path, new: pathlib.Path, work: pathlib.Path, only: list[str], repeat: int) -> None:
    """Prints all rows: old, new, and in brackets old / new."""

    def file(name: str, text: str) -> pathlib.Path:
        path = work / f"{name}.toml"
        path.write_text(text)
        return path

    for name, (flows, seconds, short) in WIRED.items():
        if not only or name in only:
            long, brief = file(name, wired(flows, seconds)), file(f"{name}-short", wired(flows, short))
            compare(name, engine(old, long), engine(new, long), repeat, (engine(old, brief), engine(new, brief)))
    for name in CELLS:
        if not only or name in only:
            long, brief = file(name, cell(name, 60)), file(f"{name}-short", cell(name, 3))
            compare(name, engine(old, long), engine(new, long), repeat, (engine(old, brief), engine(new, brief)))
    if not only or "campus" in only:
        long, brief = file("campus", campus(100, 2)), file("campus-short", campus(20, 0.4))
        compare("campus", engine(old, long), engine(new, long), repeat, (engine(old, brief), engine(new, brief)))
        compare("campus, all cores", engine(old, long), engine(new, long, "--threads", "auto"), repeat, None)
    if not only or "start" in only:
        text = wired(2, 1.0)
        compare("start", command(old, file("start", text)), command(new, file("start", text)), 3 * repeat, None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, metavar="COMMIT", help="commit of the older engine")
    parser.add_argument(
        "--only", nargs="+", default=[], choices=[*WIRED, *CELLS, "campus", "start"], help="only these rows"
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs of each engine (default: %(default)s)")
    args = parser.parse_args()
    try:
        build(ROOT)
        old = older(args.old)
        with tempfile.TemporaryDirectory() as work:
            rows(old, ROOT, pathlib.Path(work), args.only, args.repeat)
    except (BenchError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
