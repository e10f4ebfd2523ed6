"""Twins of public captures: how many get one, and how many a reason why not.

Usage: public_twins.py FOLDER [--list evidence/public_captures.txt] [--page evidence/public_twins.md] [--check]

FOLDER holds clones of the repositories that the list names, each as FOLDER/OWNER/NAME. The captures are not kept here:
few of those repositories say under which licence they are. The list has commit and path of each, so that anyone can
get the same ones.

Every capture of more than 100 kB counts that has a TCP flow of 100 kB. With --check tcpdump says whether the most
frequent reason is true: that no flow sends for four seconds without a pause.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from page import with_part

import airtcp
from airtcp.advice.capture import POINTS, summary
from airtcp.advice.fit import fit
from airtcp.advice.observed import LEAST_BYTES, LEAST_S, NoTwinError, observe

Json = dict[str, Any]

HERE = Path(__file__).parent
PAUSE_S = 1.0
KINDS = {
    "twin": "a twin that predicts the unseen half",
    "unproven": "a twin that does not predict it, and so no advice",
    "short": "no transfer of 4 s without a pause",
    "pauses": "the application pauses for most of the time",
    "hidden": "round trips do not show: no timestamps, no losses",
    "missed": "the capture missed more than a tenth of the packets",
    "few": "too few ACKs",
    "one way": "no ACKs at all",
    "clock": "times too coarse",
    "other": "another reason",
    "crash": "crashed",
}
REASONS = {
    "short": r"largest transfer|no flow has .* without a pause",
    "pauses": r"application pauses",
    "hidden": r"shows with TCP timestamps",
    "missed": r"capture missed",
    "few": r"ACKs, and shows",
    "one way": r"no ACKs of",
    "clock": r"in steps of",
}


def blob(folder: Path, address: str) -> bytes:
    """A capture of the list, from its clone."""
    name, commit, path = address.split(" ", 2)
    where = ["git", "-C", str(folder / name), "show", f"{commit}:{path}"]
    return subprocess.run(where, check=True, capture_output=True).stdout


def outcome(path: Path) -> tuple[str, str]:
    """What comes of a capture: kind and words."""
    try:
        twin = fit(observe(airtcp.analyze(path, points=POINTS)))
        json.dumps(twin.to_dict(), allow_nan=False)
    except NoTwinError as error:
        kind = next((kind for kind, words in REASONS.items() if re.search(words, str(error))), "other")
        return kind, str(error)
    except Exception as error:
        return "crash", repr(error)
    return "twin" if twin.proof.holds else "unproven", f"{summary(twin)}. {twin.proof.sentence}"


def longest_s(path: Path) -> float:
    """The longest time in which a flow sends 100 kB without a pause of a second, by tcpdump."""
    words = ["tcpdump", "-nn", "-tt", "-q", "-r", str(path)]
    done = subprocess.run(words, check=False, capture_output=True, text=True, errors="replace")
    flows: dict[str, list[tuple[float, int]]] = collections.defaultdict(list)
    for time_s, ends, length in re.findall(r"^([\d.]+) .*?IP6? (\S+ > \S+): tcp (\d+)", done.stdout, re.MULTILINE):
        if int(length):
            flows[ends].append((float(time_s), int(length)))
    best = 0.0
    for sent in flows.values():
        begin, last, total = sent[0][0], sent[0][0], 0
        for at, size in sent:
            if at - last > PAUSE_S:
                begin, total = at, 0
            last, total = at, total + size
            if total >= LEAST_BYTES:
                best = max(best, last - begin)
    return best


def table(rows: list[Json]) -> str:
    """The counts, and what each capture gets."""
    counts = collections.Counter(row["kind"] for row in rows)
    out = ["| outcome | captures |", "|---|---|"]
    out += [f"| {words} | {counts[kind]} |" for kind, words in KINDS.items() if counts[kind]]
    out += ["", "| capture | outcome |", "|---|---|"]
    for row in rows:
        name, commit, path = row["address"].split(" ", 2)
        words = row["says"].replace("|", "\\|")
        out.append(f"| {name}@{commit[:12]} `{path}` | {words} |")
    return "\n".join(out)


def main() -> None:
    """Prints a line for each capture, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", type=Path, default=HERE / "public_captures.txt")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--check", action="store_true", help="hold reasons against tcpdump")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number, address in enumerate(args.list.read_text().splitlines()):
            path = Path(folder) / f"{number}-{Path(address).name}"
            path.write_bytes(blob(args.folder, address))
            begin = time.monotonic()
            kind, says = outcome(path)
            row = {"address": address, "kind": kind, "says": says, "took_s": round(time.monotonic() - begin, 1)}
            if args.check and kind == "short":
                row["tcpdump_s"] = round(longest_s(path), 2)
                row["is_true"] = row["tcpdump_s"] < LEAST_S
            rows.append(row)
            print(json.dumps(row), flush=True)
            path.unlink()
    print(dict(collections.Counter(row["kind"] for row in rows)), file=sys.stderr)
    if args.page is not None:
        args.page.write_text(with_part(args.page.read_text(), "public twins", table(rows)))


if __name__ == "__main__":
    main()
