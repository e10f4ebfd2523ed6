"""Writes a study's RESULTS.md from the folder of a finished run: verdicts and, if asked for, figures as tables.

Usage: verdicts.py RUN_FOLDER RESULTS_FILE [--table PLOT ...] [--page FILE.md]

    airtcp study run efr --full
    python tools/verdicts.py runs/study-efr-full studies/efr/RESULTS.md --table today-host-freebsd

Matrices are there as tables; --page writes them to a file of their own as well, below what FILE.head.md says.

A table has a row for each x of a bar plot and a column for each series. In parentheses: how far a value is above the
first.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airtcp.report.matrix import markdown
from airtcp.report.model import Matrix, read

PARTS = {"sensitivity": "Sensitivity", "beyond": "Beyond the study"}
VERDICTS = {"reproduced": "**reproduced**", "partly": "partly", "not": "not", None: "no value"}
NONE = "\N{EN DASH}"
HEAD = "| figure | claim | published | measured, with 95 % intervals over seeds | verdict |\n|---|---|---|---|---|"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def row(finding: dict[str, Any]) -> str:
    columns = [
        finding["figure"] or NONE,
        finding["claim"],
        finding["published"] or NONE,
        finding["measured_text"] or NONE,
    ]
    return "| " + " | ".join(map(cell, columns)) + f" | {VERDICTS[finding['verdict']]} |"


def counted(findings: list[dict[str, Any]]) -> list[int]:
    verdicts = Counter(finding["verdict"] for finding in findings)
    return [verdicts["reproduced"], verdicts["partly"], verdicts["not"]]


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"


def table(plot: dict[str, Any]) -> Iterator[str]:
    """A bar plot as a table; the first cell is what others are held against."""
    series = plot["series"]
    unit = f" ({plot['y']['unit']})" if plot["y"]["unit"] else ""
    yield f"\n### {plot['title']}{unit}\n"
    yield f"| | {' | '.join(s['name'] for s in series)} |"
    yield "|---" * (len(series) + 1) + "|"
    base = series[0]["y"][0]
    for i, x in enumerate(series[0]["x"]):
        cells = []
        for s in series:
            value, low, high = s["y"][i], s["lo"][i], s["hi"][i]
            text = NONE if value is None else f"{value:.4g}"
            if value is not None and low is not None:
                text += f" ± {(high - low) / 2:.2g}"
            if value is not None and base and value != base:
                text += f" ({100 * value / base - 100:+.1f} %)"
            cells.append(text)
        yield f"| {x} | {' | '.join(cells)} |"


def document(study: dict[str, Any], matrices: list[Matrix], tables: list[str]) -> Iterator[str]:
    by_id = {finding["id"]: finding for finding in study["findings"]}
    kinds: dict[str, list[dict[str, Any]]] = {"paper": [], "sensitivity": [], "beyond": []}
    for experiment in study["experiments"]:
        kinds[experiment["kind"]] += [by_id[name] for name in experiment["findings"]]
    paper, (whole, partly, none) = counted(kinds["paper"]), counted(study["findings"])
    total = len(study["findings"])
    if kinds["paper"]:
        verdicts = (
            f"Of {len(kinds['paper'])} findings of the paper {paper[0]} are reproduced, {paper[1]} partly, "
            f"{paper[2]} not; with sensitivity and what lies beyond: {whole}, {partly}, {none} of {total}."
        )
    else:
        verdicts = f"Of {total} findings {whole} are reproduced, {partly} partly, {none} not."
    yield "# Verdicts of the full run\n"
    yield (
        f"`{study['command']}`: {study['runs']} runs, {study['seeds']}, {duration(study['wall_s'])} on "
        f"{study['host']['cpus']} cores, engine `{study['engine']}`. {verdicts} The report has all checks and "
        "figures.\n"
    )
    for kind, findings in kinds.items():
        if kind in PARTS:
            yield f"\n## {PARTS[kind]}\n"
        yield HEAD
        yield from map(row, findings)
    if notes := [f for f in study["findings"] if f["note"] and f["verdict"] != "reproduced"]:
        yield "\n## Why\n"
        yield from (f"- *{cell(f['claim'])}* ({f['verdict']}): {cell(f['note'])}" for f in notes)
    for part in matrices:
        yield f"\n## {part.title}\n"
        yield from markdown(part, 3)
    plots = {plot["id"]: plot for experiment in study["experiments"] for plot in experiment["plots"]}
    if tables:
        yield "\n## Figures as tables\n"
        yield "Means over the seeds with half of their 95 % intervals; in parentheses, against the first cell."
        for name in tables:
            yield from table(plots[name])


def page(file: Path, study: dict[str, Any], matrices: list[Matrix]) -> None:
    """The matrices below a text that people write."""
    lines = [file.with_suffix(".head.md").read_text(encoding="utf-8").rstrip(), ""]
    lines += [
        f"From `{study['command']}`: {study['runs']} runs, seeds {study['seeds']}, engine `{study['engine']}`; "
        "`tools/verdicts.py` writes the tables.",
        "",
    ]
    for matrix in matrices:
        lines += markdown(matrix)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--table", nargs="+", default=[], metavar="PLOT")
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="a page of its own for the matrices")
    args = parser.parse_args()
    study = json.loads((args.run / "study.json").read_text(encoding="utf-8"))
    matrices = read(args.run / "study.json").matrices
    args.out.write_text("\n".join(document(study, matrices, args.table)) + "\n", encoding="utf-8")
    if args.page is not None:
        page(args.page, study, matrices)


if __name__ == "__main__":
    main()
