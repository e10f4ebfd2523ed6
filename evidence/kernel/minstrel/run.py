#!/usr/bin/env python3
"""Compiles a Linux kernel's own Minstrel-HT by itself and records what it decides on channels made of integers.

    evidence/kernel/minstrel/run.py /usr/src/linux-6.12                # writes evidence/figures/kernel/minstrel_ht.json
    evidence/kernel/minstrel/run.py /usr/src/linux-6.12 --only steady  # one channel, shown evaluation by evaluation

The argument is a kernel tree of 5.12 or later. Of it `net/mac80211/rc80211_minstrel_ht.c`, its header and one function
of `util.c` are compiled, with shims.h, in a folder of /tmp. Nothing of the kernel enters this repository: the file
written holds figures only, for airtcp's own to be held against.

What a channel does is decided by integers and one stream of random numbers (splitmix64), so that two programs that
decide alike meet the same outcomes to the last bit. Samples go by a table of random numbers; the record holds it.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
OUT = ROOT / "evidence/figures/kernel/minstrel_ht.json"
MASK = (1 << 64) - 1

Json = dict[str, Any]

N2 = {"format": "ht", "streams": 2, "width": 40, "sgi": True}
"""802.11n, two streams, 40 MHz, both guard intervals."""
N1 = {"format": "ht", "streams": 1, "width": 20, "sgi": False}


def channel(name: str, phy: Json, limits: list[tuple[int, int]], **more: object) -> Json:
    """`limits`: from which millisecond on up to which rate in kbit/s nearly every MPDU arrives."""
    usual = {"seed": 1, "ms": 3000, "mpdus": 16, "collisions": 0, "floor": 62_000, "max_tries": 7}
    return {"name": name, **phy, "limits": limits, **usual, **more}


CHANNELS = [
    channel("steady", N2, [(0, 120_000)]),
    channel("clean", N2, [(0, 400_000)], floor=65_536),
    channel("far", N2, [(0, 20_000)]),
    channel("nothing", N2, [(0, 0)]),
    *(channel(f"errors-{p}", N2, [(0, 400_000)], floor=65_536 * (100 - p) // 100) for p in (10, 30, 60, 85)),
    *(channel(f"collisions-{p}", N2, [(0, 120_000)], collisions=65_536 * p // 100) for p in (5, 20, 40, 60)),
    channel("collisions-near", N2, [(0, 400_000)], collisions=65_536 * 20 // 100),
    channel("down", N2, [(0, 300_000), (1500, 40_000)]),
    channel("up", N2, [(0, 40_000), (1500, 300_000)]),
    channel("one-stream", N1, [(0, 40_000)]),
    channel("one-stream-collisions", N1, [(0, 40_000)], collisions=65_536 * 20 // 100),
    channel("narrow", {**N2, "width": 20}, [(0, 80_000)]),
    channel("four-streams", {**N2, "streams": 4}, [(0, 250_000), (1000, 100_000), (2000, 500_000)]),
    channel("singles", N2, [(0, 120_000)], mpdus=1, max_tries=10),
    channel("ac", {**N2, "format": "vht", "width": 80}, [(0, 400_000), (1500, 150_000)], mpdus=32),
    channel("ac-three-streams", {**N2, "format": "vht", "width": 20, "streams": 3}, [(0, 200_000)], max_tries=10),
]


class Random:
    """splitmix64 (Steele, Lea, Flood 2014); a draw is the top sixteen bits."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def draw(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) >> 48


class Digest:
    """FNV-1a, 64 bits, of lines of text."""

    def __init__(self) -> None:
        self.value = 0xCBF29CE484222325

    def add(self, text: str) -> None:
        for byte in text.encode() + b"\n":
            self.value = ((self.value ^ byte) * 0x100000001B3) & MASK

    def __str__(self) -> str:
        return f"{self.value:016x}"


BITS = [26, 52, 78, 104, 156, 208, 234, 260, 312, 346]
"""Data bits of a symbol of one stream in 20 MHz, by MCS (IEEE 802.11-2020 tables 19-27 and 21-30; 346.67 for MCS 9)."""
BITS_40 = [54, 108, 162, 216, 324, 432, 486, 540, 648, 720]
BITS_80 = [117, 234, 351, 468, 702, 936, 1053, 1170, 1404, 1560]


def bits_and_symbol(code: int) -> tuple[int, int]:
    """Data bits of a symbol and its duration in ns, by the kernel's number of the rate."""
    group, mcs = divmod(code, 16)
    if group >= 18:
        group -= 18
    width, rest = divmod(group, 8)
    sgi, stream = divmod(rest, 4)
    bits = (BITS, BITS_40, BITS_80)[width][mcs] * (stream + 1)
    return bits, 3600 if sgi else 4000


def arrives(c: Json, code: int, ms: int) -> int:
    """How likely an MPDU arrives, of 65536: `floor` up to the limit, none from one and a half times it on."""
    bits, symbol_ns = bits_and_symbol(code)
    kbps = bits * 1_000_000 // symbol_ns
    limit = next(limit for since, limit in reversed(c["limits"]) if ms >= since)
    if kbps <= limit:
        return int(c["floor"])
    return max(0, int(c["floor"]) * (3 * limit - 2 * kbps) // limit) if limit else 0


def build(tree: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Compiles the kernel's file with the driver."""
    source = tree / "net/mac80211"
    text = (source / "rc80211_minstrel_ht.c").read_text()
    header = (source / "rc80211_minstrel_ht.h").read_text()
    (folder / "rc80211_minstrel_ht.c").write_text(text)
    (folder / "rc80211_minstrel_ht.h").write_text(header)
    for name in re.findall(r'^#include [<"](.+)[>"]', text + header, re.MULTILINE):
        if name != "rc80211_minstrel_ht.h":
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text('#include "shims.h"\n')
    util = (source / "util.c").read_text()
    duration = re.search(r"^int ieee80211_frame_duration\(.*?^}\n", util, re.MULTILINE | re.DOTALL)
    if duration is None:
        raise SystemExit(f"{source / 'util.c'}: no function ieee80211_frame_duration")
    (folder / "duration.c").write_text('#include "shims.h"\n' + duration[0])
    program = folder / "minstrel_ht"
    flags = ["-O2", "-w", "-fwrapv", "-fno-strict-aliasing", f"-I{folder}", f"-I{HERE}"]
    subprocess.run(["cc", *flags, "-o", program, HERE / "driver.c", folder / "duration.c"], check=True)
    return program


def version(tree: pathlib.Path) -> str:
    makefile = (tree / "Makefile").read_text()
    parts = [re.search(rf"^{key} = (\d+)", makefile, re.MULTILINE) for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    return ".".join(part[1] for part in parts if part)


def run(c: Json, ask: Callable[[str], str], *, show: bool) -> Json:
    """Sends one channel through the kernel's code. Two streams of random numbers: the kernel's, and the channel's."""
    start = [c["seed"], c["format"], c["streams"], c["width"], int(c["sgi"]), 4, c["max_tries"]]
    ask(f"start {' '.join(map(str, start))}")
    columns = [int(n) for n in ask("columns").split()]
    random = Random(c["seed"] + 1000)
    chosen = Digest()
    now_ns, evaluations, samples, ppdus, mpdus_sent, mpdus_arrived = 0, 0, 0, 0, 0, 0
    rows = []
    again = False
    while now_ns < c["ms"] * 1_000_000:
        ask(f"now {now_ns // 1_000_000}")
        line = ask("table") if again else ask("get")
        chosen.add(line)
        is_sample = line.startswith("S")
        stages = [tuple(map(int, stage.split(":"))) for stage in line.split()[1:]]
        mpdus = 1 if is_sample else c["mpdus"]
        tries = [0] * len(stages)
        acked = 0
        first = True
        for i, (code, most, _rts) in enumerate(stages):
            bits, symbol_ns = bits_and_symbol(code)
            while tries[i] < most and acked == 0:
                tries[i] += 1
                now_ns += 150_000 + mpdus * 12_000 * symbol_ns // bits
                collided = first and random.draw() < c["collisions"]
                first = False
                if not collided:
                    p = arrives(c, code, now_ns // 1_000_000)
                    acked = sum(random.draw() < p for _ in range(mpdus))
        made = " ".join(f"{s[0]}:{n}" for s, n in zip(stages, tries, strict=True) if n)
        ask(f"now {now_ns // 1_000_000}")
        answer = int(ask(f"status {int(mpdus > 1)} {mpdus} {acked} {int(is_sample)} {made}"))
        samples += is_sample
        ppdus += 1
        mpdus_sent += mpdus * sum(tries)
        mpdus_arrived += acked
        again = acked == 0
        if answer != evaluations:
            evaluations = answer
            dump = Digest()
            known = ask("dump")
            dump.add(known)
            row = [now_ns // 1_000_000, ask("table")[2:], int(known.split()[0]), str(dump), str(chosen), samples]
            rows.append(row)
            if show:
                print(*row)
    totals = {"ppdus": ppdus, "samples": samples, "mpdus_sent": mpdus_sent, "mpdus_arrived": mpdus_arrived}
    return {**c, "columns": columns, "totals": totals, "rates": known, "rows": rows}


def write(path: pathlib.Path, record: Json) -> None:
    """JSON with a line to each row, to be read in a difference."""
    text = json.dumps(record, indent=1)
    flat = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s*\n\s*", " ", m[1]) + "]", text)
    path.write_text(flat + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=pathlib.Path, help="an unpacked kernel, 5.12 or later")
    parser.add_argument("--only", metavar="CHANNEL", help="this channel alone, shown and not written")
    args = parser.parse_args()
    channels = [c for c in CHANNELS if args.only in (None, c["name"])]
    if not channels:
        parser.error(f"--only {args.only}: must be one of {', '.join(c['name'] for c in CHANNELS)}")
    with tempfile.TemporaryDirectory(prefix="minstrel-") as folder:
        program = build(args.tree, pathlib.Path(folder))
        with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as kernel:
            assert kernel.stdin
            assert kernel.stdout

            def ask(line: str) -> str:
                assert kernel.stdin
                assert kernel.stdout
                kernel.stdin.write(line + "\n")
                kernel.stdin.flush()
                answer = kernel.stdout.readline()
                if not answer:
                    raise SystemExit(f"the kernel's code ended at: {line}")
                return answer.rstrip("\n")

            runs = [run(c, ask, show=args.only is not None) for c in channels]
            kernel.stdin.close()
    for r in runs:
        t = r["totals"]
        share = t["samples"] / t["ppdus"]
        mbps = t["mpdus_arrived"] * 12 / r["ms"]
        print(f"{r['name']:22} {mbps:6.1f} Mbit/s, samples {share:.1%}, ends {r['rows'][-1][1]}")
    if args.only is None:
        write(OUT, {"kernel": version(args.tree), "runs": runs})
        print(f"wrote {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
