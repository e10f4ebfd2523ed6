"""The counted parts of docs/validation.md and of the pages in evidence/: tables that `evidence/validate.py --page` and
`evidence/kernel/run.py compare --page` write from the data in evidence/figures/. A test holds the pages to the data.

A part stands between `<!-- NAME: ... -->` and `<!-- end of NAME -->`. Standard library only.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import platform
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUMMARY = ROOT / "docs/validation.md"
KERNEL, NS2 = (ROOT / "evidence" / name for name in ("kernel.md", "ns2.md"))
DATA = ROOT / "evidence/figures"
CELLS, PATHS, VIRTUAL = DATA / "cells.json", DATA / "kernel-paths.json", DATA / "kernel-virtual.json"

Json = dict[str, Any]

REFERENCES = {"ns2": "ns-2, grid", "study": "ns-2, the study's network", "kernel": "Linux 6.18"}
FIGURES = {
    "utilisation": ("utilisation, points", 100, ".1f"),
    "loss": ("loss, %", 100, ".2f"),
    "mean_rtt_seconds": ("mean RTT, ms", 1e3, ".1f"),
    "mean_cwnd_packets": ("mean cwnd, packets", 1, ".1f"),
    "mean_queue_packets": ("queue, packets", 1, ".1f"),
    "timeouts": ("timeouts", 1, ".0f"),
    "transfer_s": ("transfer time, s", 1, ".2f"),
    "transfer_loss": ("loss of transfers, %", 100, ".1f"),
}
"""What each is called, the factor in which it is told, and its format."""


def machine() -> str:
    """What it is measured on."""
    release = ".".join(platform.release().split(".")[:2])
    return f"Linux {release}, {os.cpu_count()} processors"


def part(text: str, name: str) -> str:
    """What stands in a part of the page."""
    begin, end = _marks(text, name)
    return text[begin:end].strip("\n")


def with_part(text: str, name: str, body: str) -> str:
    begin, end = _marks(text, name)
    return f"{text[:begin]}\n{body}\n\n{text[end:]}"


def _marks(text: str, name: str) -> tuple[int, int]:
    opening, closing = f"<!-- {name}:", f"<!-- end of {name} -->"
    if text.count(opening) != 1 or text.count(closing) != 1:
        raise ValueError(f"the page needs {opening!r} and {closing!r}, once each")
    return text.index("\n", text.index(opening)) + 1, text.index(closing)


def outside(rows: list[Json]) -> list[Json]:
    return [r for r in rows if r["outside"]]


def tolerance(grid: str, figure: str, tolerances: Json) -> str:
    t = tolerances[grid].get(figure)
    if t is None:
        return ""
    _, factor, _ = FIGURES[figure]
    parts = [f"{t['absolute'] * factor:g}"] * (t["absolute"] > 0) + [f"{t['relative'] * 100:g} %"] * (t["relative"] > 0)
    return " or ".join(parts)


def counted(data: Json) -> str:
    """How many cells are outside, by reference, with the tolerances."""
    rows, tolerances = data["rows"], data["tolerances"]
    grids = [g for g in REFERENCES if any(r["grid"] == g for r in rows)]
    all_out = len(outside(rows))
    lines = [
        f"{all_out} of {len(rows)} cells are outside: a cell is, when one of its figures is. By reference:",
        "",
        "| | " + " | ".join(REFERENCES[g] for g in grids) + " |",
        "|---" * (len(grids) + 1) + "|",
    ]

    def row(words: str, values: list[str]) -> None:
        lines.append(f"| {words} | " + " | ".join(values) + " |")

    of = {g: [r for r in rows if r["grid"] == g] for g in grids}
    row("cells", [str(len(of[g])) for g in grids])
    row("cells outside", [str(len(outside(of[g]))) for g in grids])
    for figure, (words, _, _) in FIGURES.items():
        values = []
        for g in grids:
            if figure not in tolerances[g]:
                values.append("")
                continue
            out = sum(any(name.split()[0] == figure for name in r["outside"]) for r in of[g])
            values.append(f"{tolerance(g, figure, tolerances)}: {out} outside")
        row(words, values)
    return "\n".join(lines)


def listed(data: Json, *grids: str) -> str:
    """Each cell of these grids that is outside, with the figures that are."""
    lines = ["| reference | cell | outside: airtcp / reference |", "|---|---|---|"]
    for r in outside(data["rows"]):
        if r["grid"] not in grids:
            continue
        told = []
        for name in r["outside"]:
            figure, *size = name.split(" ", 1)
            words, factor, form = FIGURES[figure]
            where = f" from {size[0]} on" if size else ""
            told.append(f"{words}{where} {r[name]['airtcp'] * factor:{form}} / {r[name]['reference'] * factor:{form}}")
        lines.append(f"| {REFERENCES[r['grid']]} | {r['cell']} | {'; '.join(told)} |")
    return "\n".join(lines)


def rank(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(q * len(ordered)) - 1)]


def spread(data: Json) -> str:
    """Differences over all cells of the two grids: median, nine of ten, largest."""
    grids = [g for g in ("ns2", "kernel") if any(r["grid"] == g for r in data["rows"])]
    lines = [
        "| median, 90 %, largest | " + " | ".join(REFERENCES[g] for g in grids) + " |",
        "|---" * (len(grids) + 1) + "|",
    ]
    figures = (
        ("utilisation", "utilisation, points", False),
        ("mean_rtt_seconds", "mean RTT", True),
        ("mean_cwnd_packets", "mean cwnd", True),
        ("mean_queue_packets", "queue, packets", False),
    )
    for figure, words, relative in figures:
        values = []
        for g in grids:
            pairs = [r[figure] for r in data["rows"] if r["grid"] == g and r[figure]["reference"] is not None]
            gaps = [abs(p["airtcp"] - p["reference"]) for p in pairs]
            if relative:
                gaps = [gap / p["reference"] for gap, p in zip(gaps, pairs, strict=True)]
            factor = 100 if relative or figure == "utilisation" else 1
            told = (f"{rank(gaps, q) * factor:.1f}" + (" %" if relative else "") for q in (0.5, 0.9, 1))
            values.append(", ".join(told))
        lines.append(f"| {words} | " + " | ".join(values) + " |")
    return "\n".join(lines)


def study(data: Json) -> str:
    """The study's cells: airtcp / ns-2."""
    lines = [
        "| cell | runs | utilisation, % | loss, % | timeouts | 10 to 20 kB: s | loss, % |",
        "|---|---|---|---|---|---|---|",
    ]
    columns = ("utilisation", 100, ".1f"), ("loss", 100, ".2f"), ("timeouts", 1, ".0f")
    columns += (("transfer_s 10 kB", 1, ".2f"), ("transfer_loss 10 kB", 100, ".1f"))
    for r in data["rows"]:
        if r["grid"] != "study":
            continue
        told = []
        for name, factor, form in columns:
            f = r.get(name)
            told.append(f"{f['airtcp'] * factor:{form}} / {f['reference'] * factor:{form}}" if f else "")
        lines.append(f"| {r['cell']} | {r['runs']} | " + " | ".join(told) + " |")
    return "\n".join(lines)


PARTS: dict[str, tuple[pathlib.Path, Callable[[Json], str]]] = {
    "counted": (SUMMARY, counted),
    "spread": (SUMMARY, spread),
    "listed kernel": (KERNEL, lambda data: listed(data, "kernel")),
    "listed ns2": (NS2, lambda data: listed(data, "ns2", "study")),
    "study": (NS2, study),
}
"""Pages and tables of `CELLS`. Those of `PATHS` and `VIRTUAL` are in compare.py and in_virtual_time.py."""


def write(file: pathlib.Path, data: Json, parts: dict[str, tuple[pathlib.Path, str]]) -> None:
    """Stores a comparison and rewrites its parts of the pages."""
    file.parent.mkdir(exist_ok=True)
    head = {k: v for k, v in data.items() if k != "rows"}
    rows = ",\n".join(json.dumps(r) for r in data["rows"])
    file.write_text(json.dumps(head, indent=1)[:-2] + ',\n "rows": [\n' + rows + "\n]}\n")
    for name, (of_page, body) in parts.items():
        of_page.write_text(with_part(of_page.read_text(), name, body))
