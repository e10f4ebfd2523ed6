"""Captures of several places: flows that they share, how far their clocks are apart, and the best place for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
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
    """What several places have in common."""

    drop: frozenset[int]
    """Flows that another place, nearer to their sender, shows too."""
    ahead_s: Mapping[int, float]
    """By how much the clock of a place is ahead of that of the first place that shares a connection with it."""
    notes: tuple[str, ...]


def compare(flows: pl.DataFrame, files: Sequence[str]) -> Shared:
    """Flows that more than one place shows.

    The clocks are compared by the first packets of both directions of a connection. Half of the sum of both
    differences is that of the clocks, if the way is as long there as back.
    """
    order = flows.sort("start_s", "flow").with_columns(nth=pl.int_range(pl.len()).over("place", *ENDS))
    seen: dict[tuple[Any, ...], list[Json]] = {}
    for row in order.to_dicts():
        seen.setdefault((*(row[key] for key in ENDS), row["nth"]), []).append(row)
    shared = {key: rows for key, rows in seen.items() if len({row["place"] for row in rows}) > 1}
    apart: dict[int, list[float]] = {}
    for (source, port, destination, other_port, nth), rows in shared.items():
        back = shared.get((destination, other_port, source, port, nth))
        if back is None or (source, port) > (destination, other_port):
            continue
        first = min(row["place"] for row in rows)
        starts = {row["place"]: row["start_s"] for row in rows}
        backs = {row["place"]: row["start_s"] for row in back}
        for place in starts.keys() & backs.keys() - {first}:
            if first in backs:
                both = (starts[place] - starts[first]) + (backs[place] - backs[first])
                apart.setdefault(place, []).append(both / 2)
    ahead = {place: median(values) for place, values in apart.items()}
    drop: set[int] = set()
    notes = [
        f"the clock of {files[place]} is {1e3 * value:+.3f} ms from that of {files[0]}; times are those of the latter"
        for place, value in sorted(ahead.items())
    ]
    told = 0
    for rows in sorted(shared.values(), key=lambda rows: -max(row["payload_bytes"] for row in rows)):
        near = sorted(rows, key=_nearness)
        drop |= {row["flow"] for row in near[1:]}
        last = near[-1]
        lost = near[0]["data_packets"] - last["data_packets"]
        if told < NOTES and near[0]["data_packets"] and lost >= 0:
            told += 1
            notes.append(
                f"flow {near[0]['flow']}: {lost} of {near[0]['data_packets']} data packets were lost between "
                f"{files[near[0]['place']]} and {files[last['place']]}"
            )
    if drop:
        notes.append(f"{len(drop)} flows are left out that another capture shows nearer to their sender")
    return Shared(frozenset(drop), ahead, tuple(notes))


def _nearness(row: Mapping[str, Any]) -> tuple[float, int]:
    near = row["rtt_near_min_ms"]
    return (float("inf") if near is None else near, row["place"])


def apply(tables: Mapping[str, pl.LazyFrame], shared: Shared) -> dict[str, pl.DataFrame]:
    """The tables without what is shown twice, all times by one clock."""
    flows = tables["flows"].collect()
    places = dict(zip(flows["flow"].to_list(), flows["place"].to_list(), strict=True))
    shift = pl.DataFrame(
        {"flow": list(places), "ahead": [shared.ahead_s.get(place, 0.0) for place in places.values()]},
        schema={"flow": pl.UInt32, "ahead": pl.Float64},
    )
    found = {}
    for name, lazy in tables.items():
        table = lazy.collect()
        if "flow" in table.columns:
            table = table.filter(~pl.col("flow").is_in(list(shared.drop)))
            ahead = table.select("flow").join(shift, on="flow", how="left", maintain_order="left")["ahead"]
        else:
            ahead = pl.Series([shared.ahead_s.get(place, 0.0) for place in table["place"]], dtype=pl.Float64)
        times = [name for name in table.columns if name in MOVED or name.endswith("_at_s")]
        found[name] = table.with_columns((pl.col(column) - ahead).alias(column) for column in times)
    return found
