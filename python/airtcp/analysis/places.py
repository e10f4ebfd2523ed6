"""Captures of several places: flows that they share, how far their clocks are apart, and the best place for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import polars as pl

ENDS: Final = ("source", "source_port", "destination", "destination_port")
MOVED: Final = ("time_s", "start_s", "end_s", "from_s", "to_s", "first_s")
"""Columns that hold times of the capture; and those of policies, which end with `_at_s`."""
NOTES: Final = 3
"""Flows whose losses between two places are told."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Shared:
    """Flows and clocks that several places have in common."""

    drop: frozenset[int]
    """Flows that another place, nearer to their sender, shows too."""
    late_s: Mapping[int, float]
    """Seconds to take from the times of a place, so that all places have one clock."""
    notes: tuple[str, ...]


def compare(flows: pl.DataFrame, files: Sequence[str]) -> Shared:
    """Flows that more than one place shows.

    The clocks are compared by the first packets of both directions of a connection. Half of the sum of both
    differences is that of the clocks, if the way is as long there as back. Half of their difference is the way: it is
    longer where the first copy of a packet was lost, so that the connection with the shortest way is believed (the
    rule of NTP, RFC 5905 section 10).
    """
    order = flows.sort("start_s", "flow").with_columns(nth=pl.int_range(pl.len()).over("place", *ENDS))
    seen: dict[tuple[Any, ...], dict[int, Json]] = {}
    for row in order.to_dicts():
        seen.setdefault((*(row[key] for key in ENDS), row["nth"]), {})[row["place"]] = row
    shared = {key: rows for key, rows in seen.items() if len(rows) > 1}
    ahead = _ahead(_apart(shared))
    late = _one_clock(ahead, flows)
    notes = _of_clocks(ahead, files)
    drop: set[int] = set()
    told = 0
    for rows in sorted(shared.values(), key=lambda rows: -max(row["payload_bytes"] for row in rows.values())):
        near = sorted(rows.values(), key=_nearness)
        drop |= {row["flow"] for row in near[1:]}
        if told < NOTES and (note := _lost(near[0], near[-1], files)):
            told += 1
            notes.append(note)
    if drop:
        flows_are = "1 flow is" if len(drop) == 1 else f"{len(drop)} flows are"
        notes.append(f"{flows_are} left out that another capture shows nearer to the sender")
    elif len(files) > 1:
        notes.append("the captures have no flow in common: their clocks are not compared")
    return Shared(frozenset(drop), late, tuple(notes))


def _apart(shared: Mapping[tuple[Any, ...], Mapping[int, Json]]) -> dict[tuple[int, int], float]:
    """For two places, by how many seconds the clock of the second is ahead."""
    best: dict[tuple[int, int], tuple[float, float]] = {}
    for (source, port, destination, other_port, nth), rows in shared.items():
        back = shared.get((destination, other_port, source, port, nth))
        if back is None or (source, port) > (destination, other_port):
            continue
        for a, b in combinations(sorted(rows.keys() & back.keys()), 2):
            there = rows[b]["start_s"] - rows[a]["start_s"]
            here = back[b]["start_s"] - back[a]["start_s"]
            best[a, b] = min(best.get((a, b), (math.inf, 0.0)), (abs(there - here) / 2, (there + here) / 2))
    return {pair: ahead for pair, (_, ahead) in best.items()}


def _ahead(apart: Mapping[tuple[int, int], float]) -> dict[int, float]:
    """By how much the clock of each place is ahead of that of the first one that it can be compared with."""
    ahead: dict[int, float] = {}
    for start in sorted({place for pair in apart for place in pair}):
        if start in ahead:
            continue
        ahead[start] = 0.0
        todo = [start]
        while todo:
            at = todo.pop()
            for (a, b), value in apart.items():
                for here, there, more in ((a, b, value), (b, a, -value)):
                    if here == at and there not in ahead:
                        ahead[there] = ahead[at] + more
                        todo.append(there)
    return ahead


def _one_clock(ahead: Mapping[int, float], flows: pl.DataFrame) -> dict[int, float]:
    """The clock that is behind all others stands for them, since time begins at its first packet. None is negative."""
    if not ahead:
        return {}
    least = min(ahead.values())
    late = {place: ahead.get(place, 0.0) - least for place in flows["place"].unique().to_list()}
    first = min(
        (row["first"] - late[row["place"]] for row in _first(flows)),
        default=0.0,
    )
    return {place: value + min(first, 0.0) for place, value in late.items()}


def _first(flows: pl.DataFrame) -> list[Json]:
    return flows.group_by("place").agg(first=pl.col("start_s").min()).to_dicts()


def _of_clocks(ahead: Mapping[int, float], files: Sequence[str]) -> list[str]:
    reference = min(ahead, key=lambda place: (ahead[place], place), default=0)
    return [
        f"the clock of {files[place]} is {1e3 * (value - ahead[reference]):.3f} ms ahead of that of "
        f"{files[reference]}, which all times are told by"
        for place, value in sorted(ahead.items())
        if place != reference
    ]


def _lost(near: Json, far: Json, files: Sequence[str]) -> str | None:
    """Bytes and not packets: offload merges packets. Nothing is told of a flow that one of them shows in part."""
    sent, arrived = near["payload_bytes"], far["payload_bytes"]
    if not (near["complete"] and far["complete"] and near["lost_before_capture"] == 0 and 0 < arrived <= sent):
        return None
    return (
        f"flow {near['flow']}: {1 - arrived / sent:.2%} of its {sent} bytes were lost between {files[near['place']]} "
        f"and {files[far['place']]}"
    )


def _nearness(row: Mapping[str, Any]) -> tuple[float, int]:
    near = row["rtt_near_min_ms"]
    return (math.inf if near is None else near, row["place"])


def apply(tables: Mapping[str, pl.LazyFrame], shared: Shared) -> dict[str, pl.LazyFrame]:
    """The tables without what is shown twice, all times by one clock."""
    late = pl.LazyFrame(
        {"place": list(shared.late_s), "late": list(shared.late_s.values())},
        schema={"place": pl.UInt32, "late": pl.Float64},
    )
    places = tables["flows"].select("flow", "place").collect().lazy()
    found = {}
    for name, lazy in tables.items():
        columns = lazy.collect_schema().names()
        table = lazy
        if "flow" in columns:
            table = table.filter(~pl.col("flow").is_in(list(shared.drop)))
        if "place" not in columns:
            table = table.join(places, on="flow", how="left", maintain_order="left")
        table = table.join(late, on="place", how="left", maintain_order="left")
        times = [column for column in columns if column in MOVED or column.endswith("_at_s")]
        moved = [pl.col(column) - pl.col("late").fill_null(0.0) for column in times]
        found[name] = table.with_columns(moved).select(columns)
    return found
