#!/usr/bin/env python3
"""This engine beside an older one, in one run: processor time, memory, instructions, and whether results are equal.

    python3 bench/engines.py --old COMMIT|PATH [--only ROW ...] [--repeat N]

It needs cargo alone, and of a clone neither `make build` nor `.venv`; without them the rows start and run_10000 are
left out. The older engine is a commit, which is taken out and compiled below target/old/, or the path of another
checkout, compiled there.

| row | what runs |
|---|---|
| wired_100, wired_1000, wired_10000 | so many TCP flows over one line, the engine alone |
| run_10000 | the same 10 000 flows by `airtcp run`, on one core: its memory |
| cell_1, cell_100, cell_500 | so many stations upload in one 802.11n cell, as in wlan_cost of bench/run.py |
| cell_short | 20 stations with the queues of mac80211: short A-MPDUs, many collisions |
| campus | 100 cells of 20 stations and one server: on one core, then on all |
| handover, coop | two stories of the page, 30 s of each |
| start | `airtcp run` of a short scenario, Python and all |

Both run in turn. Figures are medians, old and new, and the ratio old / new. Wall time means little beside other work,
processor time more. Instructions are those of shorter runs, and other work does not change them. `perf stat` counts
them where the processor lets it, otherwise valgrind. They do not tell of waiting for memory, as large networks do.
"""

from __future__ import annotations

import argparse
import functools
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
STORIES = ("handover", "coop")
ROWS = (*WIRED, *CELLS, "campus", *STORIES, "start", "run_10000")


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


def build(tree: pathlib.Path, bindings: bool) -> None:
    """The program that runs a scenario without Python, and where they are asked for the bindings."""
    if not (tree / "crates/sim/examples/run.rs").is_file():
        raise BenchError(f"{tree}: no checkout of airtcp with crates/sim/examples/run.rs")
    whats = [["-p", "airtcp-sim", "--example", "run"], *([["-p", "airtcp-py"]] if bindings else [])]
    for what in whats:
        command = ["cargo", "build", "--release", "--quiet", "--target-dir", str(tree / "target"), *what]
        subprocess.run(command, cwd=tree, check=True)
    if bindings:
        shutil.copy(tree / "target/release/lib_airtcp.so", tree / "python/airtcp/_airtcp.abi3.so")


def older(name: str) -> pathlib.Path:
    """The sources of a commit, or another checkout."""
    if pathlib.Path(name).is_dir():
        return pathlib.Path(name).resolve()
    told = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"], cwd=ROOT, capture_output=True, text=True
    )
    if told.returncode:
        raise BenchError(f"--old {name}: neither a commit of this repository nor the folder of another checkout")
    tree = ROOT / "target/old" / told.stdout.strip()
    if not tree.is_dir():
        # A folder that was deleted by hand is still known to git.
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        command = ["git", "worktree", "add", "--quiet", "--detach", str(tree), tree.name]
        subprocess.run(command, cwd=ROOT, check=True)
        if not (example := tree / "crates/sim/examples/run.rs").exists():
            shutil.copy(ROOT / "bench/older_run.rs", example)
    return tree


def engine(tree: pathlib.Path, file: pathlib.Path, *options: str) -> list[str]:
    return [str(tree / "target/release/examples/run"), str(file), *options]


def without(text: str, refusals: str) -> str:
    """A scenario without the keys that these messages call unknown."""
    for key in set(re.findall(r"(\w+)(?: = [^\n]*)?: unknown key", refusals)):
        text = re.sub(rf',?\s*\b{key} = ("[^"]*"|\{{[^{{}}]*\}}|[^,\s}}]+)', "", text)
    return text


def known_to(tree: pathlib.Path, file: pathlib.Path, work: pathlib.Path) -> pathlib.Path:
    """The scenario without keys that an older engine refuses: it has nothing of what they switch off."""
    text, path = file.read_text(), work / f"{file.stem}-older.toml"
    while True:
        path.write_text(text)
        short = engine(tree, path, "--set", "duration=1ms", "--set", "warmup=0s")
        left = without(text, subprocess.run(short, capture_output=True, text=True).stderr)
        if left == text:
            return path
        text = left


def command(tree: pathlib.Path, file: pathlib.Path) -> list[str]:
    """`airtcp run` with the package of that tree."""
    return ["env", f"PYTHONPATH={tree / 'python'}", str(PYTHON), "-c", START, "run", str(file), "--json"]


PERF = ["perf", "stat", "--field-separator=;", "--event=instructions:u"]
VALGRIND = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]


def told_by_perf(program: list[str]) -> int | None:
    """Instructions of a run as the processor counts them; `None`: it does not, or perf may not ask it."""
    told = subprocess.run([*PERF, *program], capture_output=True, text=True).stderr
    found = re.search(r"^(\d+);[^;]*;instructions", told, re.MULTILINE)
    return int(found[1]) if found else None


@functools.cache
def counter() -> str | None:
    """What counts instructions here."""
    if shutil.which("perf") and told_by_perf(["true"]):
        return "perf"
    return shutil.which("valgrind") and "valgrind"


def instructions(program: list[str]) -> int | None:
    """Those of a whole run; `None` where nothing counts them."""
    if counter() == "perf":
        return told_by_perf(program)
    if counter() is None:
        return None
    told = subprocess.run([*VALGRIND, *program], capture_output=True, text=True, check=True).stderr
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
        told = f"10^6 instructions {a / 1e6:.0f} {b / 1e6:.0f} ({a / b:.3f})" if a and b else "instructions not counted"
        texts.append(told)
    print(f"{name}: {'; '.join(texts)}; results {equal}", flush=True)


def rows(old: pathlib.Path, new: pathlib.Path, work: pathlib.Path, only: list[str], repeat: int) -> None:
    """Prints all rows: old, new, and in brackets old / new."""

    def file(name: str, text: str) -> pathlib.Path:
        path = work / f"{name}.toml"
        path.write_text(text)
        return path

    def both(name: str, long: pathlib.Path, brief: pathlib.Path, *options: str) -> None:
        """`options` are of the brief one."""
        before = engine(old, known_to(old, long, work)), engine(old, known_to(old, brief, work), *options)
        compare(name, before[0], engine(new, long), repeat, (before[1], engine(new, brief, *options)))

    for name, (flows, seconds, short) in WIRED.items():
        if not only or name in only:
            both(name, file(name, wired(flows, seconds)), file(f"{name}-short", wired(flows, short)))
    for name in CELLS:
        if not only or name in only:
            both(name, file(name, cell(name, 60)), file(f"{name}-short", cell(name, 3)))
    if not only or "campus" in only:
        long = file("campus", campus(100, 2))
        both("campus", long, file("campus-short", campus(20, 0.4)))
        before = engine(old, known_to(old, long, work))
        compare("campus, all cores", before, engine(new, long, "--threads", "auto"), repeat, None)
    for name in STORIES:
        if not only or name in only:
            story = ROOT / "playground/stories" / f"{name}.toml"
            both(name, story, story, "--set", "warmup=0s", "--set", "duration=3s")
    if "start" in only or (not only and PYTHON.exists()):
        text = wired(2, 1.0)
        compare("start", command(old, file("start", text)), command(new, file("start", text)), 3 * repeat, None)
    if "run_10000" in only or (not only and PYTHON.exists()):
        flows, seconds, _ = WIRED["wired_10000"]
        path = file("run_10000", wired(flows, seconds))

        def one_core(tree: pathlib.Path) -> list[str]:
            has_parts = any((tree / "crates/sim/src" / name).exists() for name in ("worlds.rs", "world/parts.rs"))
            return [*command(tree, path), *(["--threads", "1"] if has_parts else [])]

        compare("run_10000", one_core(old), one_core(new), repeat, None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--old", required=True, metavar="COMMIT|PATH", help="the older engine: a commit, or another checkout's folder"
    )
    parser.add_argument("--only", nargs="+", default=[], choices=ROWS, help="only these rows")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each engine (default: %(default)s)")
    args = parser.parse_args()
    starts = bool({"start", "run_10000"} & {*args.only}) or (not args.only and PYTHON.exists())
    try:
        if starts and not PYTHON.exists():
            raise BenchError(f"the rows start and run_10000 need {PYTHON.relative_to(ROOT)}: make build")
        old = older(args.old)
        for tree in (old, ROOT):
            build(tree, bindings=starts)
        with tempfile.TemporaryDirectory() as work:
            rows(old, ROOT, pathlib.Path(work), args.only, args.repeat)
    except (BenchError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
