"""Scores the points of the search in studies/tcp-av-handover/calibration; README.md there has the rule in words.

Usage: score_tcp_av.py [--last] [--pairs] SEARCH_FOLDER RENO_FOLDER    results of search.toml and of reno.toml

Prints the points, the best first: their sum, their parameters and their figures. Of those whose target is never
reduced the rule chooses none. Streams are admitted up to the first number at which the time in hand is gone. With
--last it is the last such number, where more streams fit again. With --pairs it prints how often each point would be
chosen by two of the seeds.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import polars as pl

POINT = [
    "floor_rtt",
    "rise",
    "fall",
    "tune_rounds",
    "tune_limit",
    "severe_reductions",
    "severe_share",
    "reduced_to",
    "target_min",
    "recover_step",
]
STREAMS = (4, 7, 10, 13)
DCF_MBPS = {"0.8": 3.248, "1.1": 4.466, "1.6": 6.496}
"""Targets on DCF by fair shares."""

Point = tuple[Any, ...]
Cells = dict[tuple[str, int], dict[str, Any]]
"""Measures of one point by variant and seed."""
Figures = dict[str, float]


def admitted(curve: Iterable[tuple[float, float]], *, last: bool) -> float:
    """Streams at which their time in hand falls to nothing; the least or the most that was tried if it never does."""
    points = sorted(curve)
    falls = [
        x + (to - x) * above / (above - below) for (x, above), (to, below) in pairwise(points) if above > 0 >= below
    ]
    if points[0][1] <= 0 and not (last and falls):
        return points[0][0]
    if not falls or (last and points[-1][1] > 0):
        return points[-1][0]
    return falls[-1 if last else 0]


def figures(cells: Cells, reno: dict[int, float], seeds: Iterable[int], *, last: bool) -> Figures:
    """Means over the seeds. Streams are compared with those of Reno seed by seed."""
    chosen = list(seeds)

    def mean(of: Callable[[int], float]) -> float:
        return math.fsum(of(seed) for seed in chosen) / len(chosen)

    def rivals(n: int, over: Callable[[dict[str, Any]], float]) -> float:
        return mean(lambda seed: cells[f"{n} rivals", seed]["mine"] / over(cells[f"{n} rivals", seed]))

    def streams(seed: int) -> float:
        curve = [(n, cells[f"{n} streams", seed]["spare"]) for n in STREAMS]
        return admitted(curve, last=last) / reno[seed]

    found = {"of target among 8": rivals(8, lambda _: 2.0), "among 16": rivals(16, lambda _: 2.0)}
    found["of fair share among 64"] = rivals(64, lambda cell: cell["fair"])
    found["streams over Reno"] = mean(streams)
    for shares, target in DCF_MBPS.items():
        name = f"{shares} fair shares on DCF"
        found[f"DCF {shares}"] = mean(lambda seed, name=name, target=target: cells[name, seed]["mine"] / target)  # type: ignore[misc]
    return found


def score(found: Figures) -> float:
    eight, sixteen, share, streams, below, above, far = found.values()
    misses = [
        (eight - 1) / 0.1,
        (sixteen - 1) / 0.1,
        max(0.0, 0.95 - share) / 0.1,
        (streams - 3) / 0.7,
        max(0.0, 0.95 - above) / 0.05,
        max(0.0, far - 0.9) / 0.05,
        (below - 1) / 0.05,
    ]
    return sum(miss * miss for miss in misses)


def may_be_chosen(point: Point) -> bool:
    return bool(point[POINT.index("severe_reductions")] != 0)


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    names = list(head)
    print("| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def rows_of(sweep: Path) -> list[dict[str, Any]]:
    file = sweep / "runs.parquet"
    if not file.is_file():
        sys.exit(f"{file}: no such file; name a folder that `airtcp sweep` has finished")
    return pl.read_parquet(file).to_dicts()


def main(search: Path, alone: Path, *, last: bool, pairs: bool) -> None:
    points: dict[Point, Cells] = {}
    for row in rows_of(search):
        points.setdefault(tuple(row[key] for key in POINT), {})[row["variant"], row["seed"]] = row
    curves: dict[int, list[tuple[float, float]]] = {}
    for row in rows_of(alone):
        curves.setdefault(row["seed"], []).append((row["streams"], row["spare"]))
    reno = {seed: admitted(curve, last=last) for seed, curve in sorted(curves.items())}
    if pairs:
        firsts: Counter[Point] = Counter()
        for two in combinations(reno, 2):
            sums = {
                point: score(figures(cells, reno, two, last=last))
                for point, cells in points.items()
                if may_be_chosen(point)
            }
            firsts[min(sums, key=lambda point: sums[point])] += 1
        table(["pairs", *POINT], ([count, *point] for point, count in firsts.most_common()))
        return
    found = {point: figures(cells, reno, reno, last=last) for point, cells in points.items()}
    ranked = sorted(found, key=lambda point: score(found[point]))
    print("Reno admits " + ", ".join(f"{streams:.1f}" for streams in reno.values()) + " streams.\n")
    table(
        ["sum", *POINT, *found[ranked[0]]],
        ([f"{score(found[p]):.2f}", *p, *(f"{value:.3f}" for value in found[p].values())] for p in ranked),
    )
    first = next(point for point in ranked if may_be_chosen(point))
    print(f"\nThe rule chooses the one with sum {score(found[first]):.2f}.")


if __name__ == "__main__":
    words = set(sys.argv[1:]) & {"--last", "--pairs"}
    names = [name for name in sys.argv[1:] if name not in words]
    if len(names) != 2:
        sys.exit(__doc__)
    main(Path(names[0]), Path(names[1]), last="--last" in words, pairs="--pairs" in words)
