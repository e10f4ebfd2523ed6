"""The packet scripts of this folder, played against the kernel of this machine and against airtcp's TCP.

Usage: run.py [--runs N] [--only TEXT] [--packetdrill FILE] [--adapter FILE] [--page]

The kernel's side needs root, packetdrill and the right to make a network namespace; airtcp's side needs the adapter
(`cargo build -p airtcp-packetdrill`). A side that cannot run is skipped, and said to be.
With --page the figures go to evidence/figures/packetdrill.json and the tables to evidence/packetdrill.md. A side that
was skipped, and scripts that --only leaves out, keep their figures.

packetdrill is AIRTCP_KERNEL_PACKETDRILL, or what `make packetdrill` has fetched once it is built, or the one on
PATH. Each script is played N times (5 unless said), with real-time priority in a namespace of its own. A time that the
machine misses looks like a fault: a play that fails is repeated twice, and fails if all three do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import page

Json = dict[str, Any]

FOLDER = Path(__file__).resolve().parent
FIGURES = page.DATA / "packetdrill.json"
PAGE = page.ROOT / "evidence/packetdrill.md"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "airtcp"

HZ = 250
"""Jiffies a second of the kernel whose times the scripts state."""

REPEATS = 2
"""So often a play that failed is tried again."""

TOPICS = {
    "faults": "faults found by strangers",
    "rfc5681": "RFC 5681, congestion control; RFC 3042, 6928",
    "rfc6298": "RFC 6298, retransmission timer",
    "rfc6582": "RFC 6582, NewReno",
    "rfc6675": "RFC 6675, recovery with SACK; RFC 2018",
    "rfc6937": "RFC 6937, proportional rate reduction",
    "rfc8985": "RFC 8985, RACK-TLP",
    "rfc5682": "RFC 5682, F-RTO",
    "rfc2883": "RFC 2883, DSACK",
    "rfc3168": "RFC 3168, ECN",
    "rfc9438": "RFC 9438, CUBIC; RFC 9406",
    "rfc7661": "RFC 7661, validation of the window",
    "accecn": "RFC 9768, accurate ECN",
    "eifel": "RFC 3522, 3708, 4015, undo",
}
"""Folders of scripts, in the order of the page."""

VERDICTS = {"passed": "passed", "failed": "failed", "not_expressible": "not expressible"}


def scripts(only: str = "") -> list[Path]:
    """The scripts whose path has the text, by topic and name."""
    found = [f for topic in TOPICS for f in sorted((FOLDER / topic).glob("*.pkt"))]
    return [f for f in found if only in name(f)]


def name(script: Path) -> str:
    return script.relative_to(FOLDER).as_posix()


def rule(script: Path) -> str:
    """The comment with which a script begins."""
    lines = []
    for line in script.read_text().splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    return " ".join(lines)


def packetdrill(given: str | None) -> Path | None:
    built = CACHE / "packetdrill/gtests/net/packetdrill/packetdrill"
    candidates = [given, os.environ.get("AIRTCP_KERNEL_PACKETDRILL"), str(built), shutil.which("packetdrill")]
    return next((Path(c) for c in candidates if c and os.access(c, os.X_OK)), None)


def adapter(given: str | None) -> Path | None:
    target = Path(os.environ.get("CARGO_TARGET_DIR") or page.ROOT / "target")
    candidates = [given, *(str(target / kind / "airtcp-packetdrill") for kind in ("release", "debug"))]
    return next((Path(c) for c in candidates if c and os.access(c, os.X_OK)), None)


def in_namespace(*command: str | Path) -> list[str]:
    """A command in a network namespace of its own, with loopback up and real-time priority."""
    prepare = 'ip link set lo up && exec chrt -f 50 "$@"'
    return ["unshare", "--net", "sh", "-c", prepare, "sh", *map(str, command)]


def missing(program: Path | None) -> str | None:
    """Why the kernel's side cannot run here; None: it can."""
    if program is None:
        return "no packetdrill: its README says how to build it; PATH or AIRTCP_KERNEL_PACKETDRILL names the program"
    try:
        done = subprocess.run(in_namespace("true"), capture_output=True, text=True, check=False)
    except OSError as error:
        return f"no network namespace: {error}"
    if done.returncode:
        return f"no network namespace with real-time priority: {done.stderr.strip() or 'needs root'}"
    return None


def play(program: Path, script: Path) -> str:
    """What packetdrill complains of; empty: the script passes."""
    command = in_namespace(program, script)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return "takes more than a minute"
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip() or "failed"


def by_kernel(program: Path, script: Path, runs: int) -> Json:
    passed, repeated, why = 0, 0, ""
    for _ in range(runs):
        for attempt in range(1 + REPEATS):
            why_not = play(program, script)
            if not why_not:
                passed += 1
                break
            repeated += attempt < REPEATS
            why = why_not
    found: Json = {"passed": passed, "of": runs, "repeated": repeated}
    return found if passed == runs else {**found, "why": why.splitlines()[0]}


def by_airtcp(program: Path, files: list[Path]) -> dict[str, Json]:
    command = [str(program), "run", *map(name, files), "--hz", str(HZ), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=FOLDER)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{program}: {done.stderr.strip()}")
    verdicts = {row["script"]: row for row in json.loads(done.stdout)}
    if lost := [name(f) for f in files if name(f) not in verdicts]:
        raise SystemExit(f"{program}: no verdict for {lost[0]}, and for {len(lost)} scripts in all")
    keys = ("result", "line", "why")
    return {name(f): {k: verdicts[name(f)][k] for k in keys if k in verdicts[name(f)]} for f in files}


def measured(files: list[Path], arguments: argparse.Namespace, before: list[Json]) -> list[Json]:
    """A row for each script, with the figures of `before` where a side does not run."""
    rows: dict[str, Json] = {name(f): {"script": name(f), "rule": rule(f)} for f in scripts()}
    for old in before:
        if old["script"] in rows:
            rows[old["script"]] |= {k: old[k] for k in ("kernel", "airtcp") if k in old}
    kernel, own = packetdrill(arguments.packetdrill), adapter(arguments.adapter)
    if own is None:
        why = "no airtcp-packetdrill: `cargo build -p airtcp-packetdrill` builds it"
        print(f"skipped, airtcp's side: {why}", file=sys.stderr)
    else:
        for script, verdict in by_airtcp(own.resolve(), files).items():
            rows[script]["airtcp"] = verdict
    if why_not := "--runs 0" if arguments.runs == 0 else missing(kernel):
        print(f"skipped, the kernel's side: {why_not}", file=sys.stderr)
    else:
        assert kernel is not None
        for f in files:
            rows[name(f)]["kernel"] = one = by_kernel(kernel, f, arguments.runs)
            if one["passed"] < one["of"] or one["repeated"]:
                told = f"{one['passed']} of {one['of']}, {one['repeated']} repeated"
                print(f"kernel: {name(f)}: {told}: {one.get('why', '')}", file=sys.stderr)
    return list(rows.values())


def topic(row: Json) -> str:
    return str(row["script"]).split("/")[0]


def kernel_passes(row: Json) -> bool:
    return "kernel" in row and row["kernel"]["passed"] == row["kernel"]["of"]


def counted(data: Json) -> str:
    """Scripts and verdicts by topic."""
    lines = [
        "| topic | scripts | kernel passes | airtcp passes | airtcp fails | not expressible |",
        "|---|---|---|---|---|---|",
    ]

    def line(words: str, rows: list[Json]) -> None:
        verdicts = Counter(r.get("airtcp", {}).get("result", "not run") for r in rows)
        figures = [len(rows), sum(map(kernel_passes, rows)), *(verdicts[v] for v in VERDICTS)]
        lines.append(f"| {words} | " + " | ".join(map(str, figures)) + " |")

    for folder, words in TOPICS.items():
        line(words, [r for r in data["rows"] if topic(r) == folder])
    line("all", data["rows"])
    return "\n".join(lines)


def listed(data: Json) -> str:
    """The scripts that airtcp does not pass, and why."""
    lines = ["| script | rule | airtcp |", "|---|---|---|"]
    for r in data["rows"]:
        verdict = r.get("airtcp", {"result": "not run"})
        if verdict["result"] != "passed":
            words = VERDICTS.get(verdict["result"], "not run")
            why = f"{words}, line {verdict['line']}: {verdict['why']}" if "line" in verdict else words
            lines.append(f"| `{r['script']}` | {cell(r['rule'])} | {cell(why)} |")
    return "\n".join(lines)


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def head(data: Json) -> str:
    rows = data["rows"]
    passed = sum(r.get("airtcp", {}).get("result") == "passed" for r in rows)
    runs = sum(r["kernel"]["of"] for r in rows if "kernel" in r)
    repeated = sum(r["kernel"]["repeated"] for r in rows if "kernel" in r)
    return (
        f"{len(rows)} scripts. {data['kernel']} passes {sum(map(kernel_passes, rows))} of them, airtcp {passed}. "
        f"The kernel played {runs} times, and {repeated} plays were repeated for a time that the machine missed."
    )


PARTS = {"head": head, "counted": counted, "listed": listed}


def main() -> None:
    parser = argparse.ArgumentParser(description="Packet scripts, against the kernel and against airtcp.")
    parser.add_argument(
        "--runs", type=int, default=5, help="plays of each script by the kernel (default: 5; 0: skip the kernel)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="scripts whose path has this text")
    parser.add_argument("--packetdrill", metavar="FILE", help="packetdrill")
    parser.add_argument("--adapter", metavar="FILE", help="airtcp-packetdrill")
    parser.add_argument("--page", action="store_true", help="store the figures and write the page")
    arguments = parser.parse_args()
    files = scripts(arguments.only)
    if not files:
        parser.error(f"--only {arguments.only}: no script's path has this text")
    before: Json = json.loads(FIGURES.read_text()) if FIGURES.exists() else {"rows": [], "kernel": ""}
    rows = measured(files, arguments, before["rows"])
    kernel = page.machine().split(",")[0] if packetdrill(arguments.packetdrill) else before["kernel"]
    data = {"kernel": kernel, "rows": rows}
    if arguments.page:
        page.write(FIGURES, data, {part: (PAGE, body(data)) for part, body in PARTS.items()})
    print(counted(data))


if __name__ == "__main__":
    main()
