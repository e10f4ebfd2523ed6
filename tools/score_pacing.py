"""Scores the points of the search in studies/pacing-buffers/calibration; README.md there has the rule in words.

Usage: score_pacing.py LONG_FOLDER WEB_FOLDER...    folders with results: of long.toml, and of sweeps of web users

Prints the points, the best first: their score, what each of the five figures adds to it, and their values.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

POINT = ["window", "gap_from", "tail_fraction", "delayed_ack_ms", "lost_syn"]
LONG_POINT = ["delayed_ack_ms", "lost_syn"]
WORST = 3.0
"""No single miss counts more: a finding that fails is not worth more than the others together."""

Cells = dict[str, dict[str, float]]


def above(value: float, least: float, scale: float) -> float:
    """By how many scales a value is below the least that fits."""
    return min(max(0.0, (least - value) / scale), WORST)


def below(value: float, most: float, scale: float) -> float:
    return above(-value, -most, scale)


def figure_3a(c: Cells) -> Iterator[float]:
    used = {name: cell["utilisation"] for name, cell in c.items()}
    yield above(used["1500 sqrtN Reno"], 98, 2)
    yield below(abs(used["1500 sqrtN Pacing"] - used["500 sqrtN Pacing"]), 2, 2)
    for n in (1000, 1500):
        yield below(used[f"{n} sqrtN Pacing"], used[f"{n} sqrtN Reno"] - 1, 2)


def figure_6a(c: Cells) -> Iterator[float]:
    for n in (300, 700, 1500):
        for who in ("sqrtN Reno", "sqrtN Pacing"):
            if f"{n} {who}" in c and f"{n} normal Reno" in c:
                ratio = c[f"{n} {who}"]["utilisation"] / c[f"{n} normal Reno"]["utilisation"]
                yield min(abs(ratio - 1) / 0.1, WORST)


def figure_6b(c: Cells) -> Iterator[float]:
    loss = {name: cell["loss"] for name, cell in c.items()}
    yield below(loss["300 normal Reno"], 0.1, 0.1)
    yield below(loss["700 normal Reno"], 0.5, 0.5)
    yield above(loss["1000 normal Reno"], 0.2, 0.2)
    for who in ("sqrtN Reno", "sqrtN Pacing"):
        if f"300 {who}" in c:
            yield above(loss[f"300 {who}"] - loss["300 normal Reno"], 0.1, 0.1)
    for n in (700, 1000, 1500):
        if f"{n} sqrtN Reno" in c:
            ratio = (loss[f"{n} sqrtN Pacing"] + 0.01) / (loss[f"{n} sqrtN Reno"] + 0.01)
            yield max(below(ratio, 1, 0.2), above(ratio, 0.5, 0.2))


def figure_14(c: Cells) -> Iterator[float]:
    quarter, paced = c["1000 a quarter Reno"], c["1000 sqrtN Pacing"]
    yield below((quarter["of_sizes"] + 0.01) / (paced["of_sizes"] + 0.01), 1, 0.2)
    yield above(quarter["medium"] / paced["medium"], 1, 0.1)
    fifth, paced = c["1500 a fifth Reno"], c["1500 sqrtN Pacing"]
    yield below((fifth["of_sizes"] + 0.01) / (paced["of_sizes"] + 0.01), 1, 0.2)
    yield below(fifth["large"] / paced["large"], 1, 0.1)
    if "1500 sqrtN Reno" in c:
        yield above(c["1500 sqrtN Reno"]["large"] / paced["large"], 1, 0.1)


def figure_15(c: Cells) -> Iterator[float]:
    normal, small, paced = c["fast normal Reno"], c["fast sqrtN Reno"], c["fast sqrtN Pacing"]
    for cell in (normal, small):
        yield max(above(cell["utilisation"], 35, 5), below(cell["utilisation"], 55, 5))
    yield max(above(small["loss"], 0.05, 0.05), below(small["loss"], 3, 1))
    yield below(normal["loss"], 0.01, 0.05)
    yield below(abs(math.log2((paced["loss"] + 0.01) / (small["loss"] + 0.01))), 1, 1)
    yield above(small["least"], 0.1, 0.05)
    yield below(max(small["large"], paced["large"]), 1.2, 0.2)
    yield below(normal["large"] / small["large"], 1, 0.1)
    if "fast 387 Reno" in c:
        yield above(c["fast 387 Reno"]["loss"], 0.01, 0.01)


WEB: dict[str, Callable[[Cells], Iterator[float]]] = {
    "6a": figure_6a,
    "6b": figure_6b,
    "14": figure_14,
    "15": figure_15,
}


def cells(folder: Path, point: list[str]) -> dict[tuple[Any, ...], Cells]:
    """Means over the seeds, by point and variant."""
    table = pl.read_parquet(folder / "runs.parquet")
    numbers = [c for c in table.columns if c in ("utilisation", "loss", "of_sizes", "least", "medium", "large")]
    found: dict[tuple[Any, ...], Cells] = {}
    for row in table.group_by([*point, "variant"], maintain_order=True).agg(pl.col(numbers).mean()).to_dicts():
        found.setdefault(tuple(row[key] for key in point), {})[row["variant"]] = {key: row[key] for key in numbers}
    return found


def mean_square(misses: Iterator[float]) -> float:
    squares = [miss * miss for miss in misses]
    return sum(squares) / len(squares)


def main(long: Path, webs: list[Path]) -> None:
    lines = cells(long, LONG_POINT)
    rows: list[dict[str, Any]] = []
    for point, scenes in (item for web in webs for item in cells(web, POINT).items()):
        values = dict(zip(POINT, point, strict=True))
        parts = {"3a": mean_square(figure_3a(lines[tuple(values[key] for key in LONG_POINT)]))}
        parts |= {figure: mean_square(misses(scenes)) for figure, misses in WEB.items()}
        rows.append({"score": sum(parts.values()), **parts, **values})
    rows.sort(key=lambda row: row["score"])
    print("| " + " | ".join(rows[0]) + " |\n" + "|---" * len(rows[0]) + "|")
    for row in rows:
        print("| " + " | ".join(f"{v:.2f}" if k not in POINT else str(v) for k, v in row.items()) + " |")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), [Path(web) for web in sys.argv[2:]])
