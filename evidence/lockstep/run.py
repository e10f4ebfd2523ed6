#!/usr/bin/env python3
"""Runs the kernel's TCP and airtcp's in lockstep: the same ACKs, or the same data, at the same times.

    sudo evidence/lockstep/run.py --topic sack nosack --seeds 1-200   # counts, and each path's first difference
    sudo evidence/lockstep/run.py --receiver --seeds 1-100
    sudo evidence/lockstep/run.py --topic ecn --seeds 17 --show       # the path's record as well
    sudo evidence/lockstep/run.py --measure                           # renews evidence/figures/lockstep.json.gz
    sudo evidence/lockstep/run.py --measure-held-out                  # counts the same number of other seeds
    evidence/lockstep/run.py --page                                   # renews the tables of evidence/lockstep.md

`linux/` drives the running kernel in a network namespace of its own: a seed gives each path its options, its line, and
the fate of every transmission; a model receiver answers the kernel, so that ACKs follow from what the kernel sends.
After each ACK it reads TCP_INFO. Many paths run side by side. What was given, and when, is recorded, and
crates/core/examples/lockstep.rs gives the same to airtcp. A path ends at its first difference.

Lines of a record, times in microseconds since the line before:

    path TOPIC SEED cc=.. sack=.. ..      options
    O DT                                  connect;  Y: SYN-ACK given (to a receiver: SYN);  H: handshake's ACK given
    W DT N                                the application writes N segments
    A DT ACK kECHO tTSVAL [wWINDOW] [sSACK] [e]   an ACK, in segments. k: data packet whose timestamp it echoes, by
                                          order of sending, -1: the SYN. w: bytes, where it changes. e: ECE
    D DT START +LEN kECHO tTSVAL [p] [m] [c]      data to a receiver, in halves of a segment: PSH, CE, CWR
    T DT                                  the kernel sent by itself;  S: its state had changed without that
    .. >SENT                              segments sent (w: with CWR; a: an ACK, p: a window probe), or ACKs as
                                          NUMBER:sSACK:wWINDOW:tECHO:e
    .. |STATE                             changed fields of TCP_INFO: c cwnd, h ssthresh, a ca_state, u unacked,
                                          k sacked, l lost, r retrans, o reordering, p pacing rate; --all adds
                                          t total_retrans, d delivered, e delivered_ce, i rtt, v rttvar, m min_rtt,
                                          x rto, b backoff

Needs root, /dev/net/tun, iproute2 and cargo, and a kernel with reno, cubic and bbr.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
from typing import Any

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import page

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FIGURES = ROOT / "evidence/figures/lockstep.json.gz"
COUNTS = ROOT / "evidence/figures/lockstep-held-out.json"
PAGE = ROOT / "evidence/lockstep.md"
TESTS = ROOT / "crates/core/tests/lockstep"

SENDING = ("sack", "nosack", "notimestamps", "ecn", "reneging", "window")
TOPICS = (*SENDING, "receiver")
KEPT = {"sack": 250, "nosack": 150, "notimestamps": 100, "ecn": 100, "reneging": 100, "window": 100, "receiver": 250}
"""Paths of each topic in the recorded figures: seeds from 1 on."""
HELD_OUT = 200_001
"""Seeds from here on were not looked at while airtcp was changed."""
STATE = frozenset("chauklrop")

WORDS = {
    "sack": "SACK and timestamps: losses, reordering, duplicates, late and lost ACKs, spikes, outages",
    "nosack": "the same without SACK",
    "notimestamps": "SACK without timestamps",
    "ecn": "ECN marks (RFC 3168) beside them",
    "reneging": "the receiver takes SACKs back",
    "window": "the receiver's window changes or closes, and the application writes in parts",
    "receiver": "the kernel receives: ACKs, SACK and DSACK blocks, windows, echoes, delays",
}

Json = dict[str, Any]
Counts = dict[str, dict[str, tuple[int, int]]]
"""Equal and all, by topic and congestion control."""


def built(manifest: pathlib.Path, *target: str) -> None:
    # Both into the repository's own target directory.
    folder = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    subprocess.run(
        ["cargo", "build", "--quiet", "--manifest-path", manifest, "--target-dir", folder, *target], check=True
    )


def recorded(topic: str, seeds: str, cc: str | None, parallel: int) -> str:
    """What the kernel did on these paths."""
    built(HERE / "linux/Cargo.toml", "--release")
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")))
    command = [str(folder / "release/lockstep-linux"), "--topic", topic, "--seeds", seeds, "--parallel", str(parallel)]
    if cc:
        command += ["--cc", cc]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def compact(record: str) -> str:
    """The record with the fields that are compared, rates to three digits, paths in the order of their seeds."""

    def kept(line: str) -> str:
        said, bar, state = line.partition("|")
        if not bar:
            return line.rstrip()
        fields = [(f[0], int(f[1:])) for f in re.findall(r"[a-z]\d+", state) if f[0] in STATE]
        text = "".join(f"{name}{int(float(f'{value:.3g}')) if name == 'p' else value}" for name, value in fields)
        return f"{said}|{text}" if text else said.rstrip()

    paths = re.split(r"^(?=path )", record, flags=re.MULTILINE)[1:]
    paths.sort(key=lambda path: int(path.split(" ", 3)[2]))
    return "".join("\n".join(map(kept, path.splitlines())) + "\n" for path in paths)


def replayed(record: str, ignored: list[str]) -> list[Json]:
    """airtcp on the same paths: a row each, with the first difference if there is one."""
    built(ROOT / "Cargo.toml", "-p", "airtcp-core", "--example", "lockstep")
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")))
    done = subprocess.run(
        [folder / "debug/examples/lockstep", *ignored], input=record, check=True, text=True, stdout=subprocess.PIPE
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def told(row: Json) -> str:
    d = row["difference"]
    return (
        f"{row['topic']} {row['seed']} ({row['cc']}), step {d['step']} of {row['steps']}, {d['at_us'] / 1e3:.1f} ms, "
        f"after {d['event']}: {d['field']}: Linux {d['linux'] or 'nothing'}, airtcp {d['airtcp'] or 'nothing'}"
    )


def counts(rows: list[Json]) -> Counts:
    table: dict[str, dict[str, list[bool]]] = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        for column in (row["cc"], "all"):
            table[row["topic"]][column].append(row["difference"] is None)
    return {t: {c: (sum(equal), len(equal)) for c, equal in by_cc.items()} for t, by_cc in table.items()}


def counted(of: Counts) -> str:
    """Equal of all, by topic and congestion control."""
    columns = [c for c in ("reno", "cubic", "bbr", "all") if any(c in by_cc for by_cc in of.values())]
    lines = [f"| topic | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    for topic in (t for t in TOPICS if t in of):
        cells = (f"{of[topic][c][0]} of {of[topic][c][1]}" if c in of[topic] else "" for c in columns)
        lines.append(f"| {WORDS[topic]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def shown(record: str, row: Json) -> str:
    """The record of a path, with its difference marked."""
    begin = record.index(f"path {row['topic']} {row['seed']} ")
    lines = record[begin:].split("\npath ", 1)[0].splitlines()
    at = row["difference"]["step"] + 1 if row["difference"] else -1
    return "\n".join(f"{'>>' if i == at else '  '} {i - 1:3} {line}" for i, line in enumerate(lines))


def known() -> dict[tuple[str, int], str]:
    """The reason of each recorded path that is known to differ."""
    reasons: dict[tuple[str, int], str] = {}
    for line in (TESTS / "known.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            what, reason = line.split(" = ")
            topic, *seeds = what.split(" ")
            reasons |= {(topic, int(seed)): reason for seed in seeds}
    return reasons


def recorded_rows() -> list[Json]:
    """The recorded paths, of which those differ that are known to."""
    data = json.loads(gzip.decompress(FIGURES.read_bytes()))
    heads = (line.split(" ") for text in data["paths"].values() for line in text.splitlines() if line[:5] == "path ")
    reasons = known()
    return [
        {"topic": topic, "seed": int(seed), "cc": cc.removeprefix("cc="), "difference": reasons.get((topic, int(seed)))}
        for _, topic, seed, cc, *_ in heads
    ]


def mechanisms() -> str:
    """What is behind the differences of the recorded paths, and how often."""
    words = dict(line.split(": ", 1) for line in (TESTS / "reasons.txt").read_text().splitlines())
    number = collections.Counter(known().values())
    topics = collections.defaultdict(set)
    for (topic, _), reason in known().items():
        topics[reason].add(topic)
    lines = ["| paths | mechanism | topics |", "|---|---|---|"]
    for reason, n in number.most_common():
        lines.append(f"| {n} | {words[reason]} | {', '.join(t for t in TOPICS if t in topics[reason])} |")
    return "\n".join(lines)


def together(of: Counts) -> str:
    """Sums that the summary of all comparisons has."""

    def equal(topic: str, *controls: str) -> str:
        cells = [of[topic][control] for control in controls]
        return f"{sum(c[0] for c in cells)} of {sum(c[1] for c in cells)}"

    return (
        f"Reno and CUBIC together: {equal('sack', 'reno', 'cubic')} with SACK and timestamps, "
        f"{equal('nosack', 'reno', 'cubic')} without SACK."
    )


def tables() -> dict[str, str]:
    """The counted parts of the page."""
    held_out = json.loads(COUNTS.read_text())["equal"]
    return {
        "recorded": counted(counts(recorded_rows())),
        "held out": f"{counted(held_out)}\n\n{together(held_out)}",
        "mechanisms": mechanisms(),
    }


def measure(parallel: int) -> None:
    data: Json = {"linux": platform.release(), "paths": {}}
    for topic, number in KEPT.items():
        data["paths"][topic] = compact(recorded(topic, f"1-{number}", None, parallel))
        print(f"{topic}: {data['paths'][topic].count('path ')} paths", flush=True)
    text = json.dumps(data, indent=0).encode()
    FIGURES.write_bytes(gzip.compress(text, 9, mtime=0))
    print(f"{FIGURES.relative_to(ROOT)}: {FIGURES.stat().st_size} bytes")


def measure_held_out(parallel: int) -> None:
    rows: list[Json] = []
    for topic, number in KEPT.items():
        seeds = f"{HELD_OUT}-{HELD_OUT + number - 1}"
        rows += replayed(compact(recorded(topic, seeds, None, parallel)), [])
    COUNTS.write_text(
        json.dumps({"linux": platform.release(), "from": HELD_OUT, "equal": counts(rows)}, indent=1) + "\n"
    )
    print(counted(counts(rows)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topic", nargs="+", choices=TOPICS, default=list(SENDING))
    parser.add_argument("--receiver", action="store_true", help="the topic receiver alone")
    parser.add_argument("--seeds", default="1-100", metavar="A-B")
    parser.add_argument("--cc", choices=("reno", "cubic", "bbr"), help="for all paths; otherwise by seed")
    parser.add_argument("--ignore", nargs="+", default=[], metavar="FIELD", help="as the differences name it")
    parser.add_argument("--parallel", type=int, default=20, metavar="PATHS")
    parser.add_argument("--all", action="store_true", help="keep all fields in what --show and --out tell")
    parser.add_argument("--show", action="store_true", help="the record of each path that differs, or of one seed")
    parser.add_argument("--out", type=pathlib.Path, help="write the kernel's record there")
    parser.add_argument("--replay", type=pathlib.Path, metavar="RECORD", help="a record of --out instead of the kernel")
    parser.add_argument("--measure", action="store_true", help="renew the recorded figures")
    parser.add_argument("--measure-held-out", action="store_true", help="count other seeds; their paths are not told")
    parser.add_argument("--page", action="store_true", help="renew the page's tables")
    a = parser.parse_args()
    if a.measure:
        measure(a.parallel)
        return
    if a.measure_held_out:
        measure_held_out(a.parallel)
        return
    if a.page:
        text = PAGE.read_text()
        for name, body in tables().items():
            text = page.with_part(text, name, body)
        PAGE.write_text(text)
        return
    rows: list[Json] = []
    for topic in ["receiver"] if a.receiver else a.topic:
        record = a.replay.read_text() if a.replay else recorded(topic, a.seeds, a.cc, a.parallel)
        record = record if a.all else compact(record)
        if a.out:
            with a.out.open("a") as out:
                out.write(record)
        found = replayed(record, a.ignore)
        rows += found
        for row in found:
            if row["difference"]:
                print(told(row))
            if a.show and (row["difference"] or len(found) == 1):
                print(shown(record, row))
        if a.replay:
            break
    print("\n" + counted(counts(rows)))


if __name__ == "__main__":
    main()
