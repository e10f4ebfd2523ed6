"""Signs that a run does not show what its reader believes: a queue without a limit that filled, a warm-up too short."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from airtcp.results import Results

LONG_MS: Final = 500.0
"""A queue without a limit is reported if the packets in it need longer than this to leave."""
FULL_PACKET_BITS: Final = 1500 * 8
FIRST: Final = 0.2
"""Part of the measured time that is looked at, from the end of the warm-up."""
PULL: Final = 1.05
"""The warm-up is too short if the goodput is more than this factor higher without that part."""

Row = dict[str, Any]


def warnings(results: Results) -> list[str]:
    """A sentence for each sign."""
    return [*_unlimited(results), *_warm_up(results)]


def _unlimited(results: Results) -> list[str]:
    """Directions of links by the names of results."""
    links = {link["name"]: link for link in results.manifest["scenario"].get("links", [])}
    found = []
    for row in results.links.filter(pl.col("queue_max_packets") > 0).collect().to_dicts():
        link = _link_of(row, links)
        if link is None or row["dropped_overflow"] or not row["rate_bps"]:
            continue
        there = row["name"].split("->")[0].split("[")[0] == link["from"].split("[")[0]
        way = link if there else {**link, **{k: v for k, v in (link.get("reverse") or {}).items() if v is not None}}
        if _has_limit(way.get("queue"), way.get("buffer")):
            continue
        ms = 1e3 * row["queue_max_packets"] * FULL_PACKET_BITS / row["rate_bps"]
        if ms > LONG_MS:
            found.append(
                f"the queue of `{row['name']}` has no limit and held {row['queue_max_packets']} packets, "
                f"{ms / 1e3:.2g} s of its line: no real buffer does; give it one, as `queue.limit_packets` of "
                f"`{link['name']}`"
            )
    return found[:1] + ([f"{len(found) - 1} more queues without a limit grew so"] if len(found) > 1 else [])


def _has_limit(queue: Row | None, buffer: Row | None) -> bool:
    if buffer:
        return True
    if not queue:
        return False
    return queue.get("name") != "fifo" or any(queue.get(key) for key in ("limit_packets", "limit_bytes"))


def _link_of(row: Row, links: dict[str, Row]) -> Row | None:
    """The entry of the scenario that a direction of a link came from."""
    if row["group"] in links:
        return links[row["group"]]
    ends = row["name"].split("->")
    for link in links.values():
        if sorted(ends) == sorted((link["from"], link["to"])):
            return link
    return None


def _warm_up(results: Results) -> list[str]:
    """Long TCP flows that send from the end of the warm-up on, and deliver clearly less at first."""
    warm, end = float(results.summary["warmup_s"]), float(results.summary["end_s"])
    until = warm + FIRST * (end - warm)
    whole = pl.col("stop_s").is_null() & (pl.col("start_s") < until) & (pl.col("transfers") == 0)
    flows = results.flows.filter((pl.col("kind") == "tcp") & whole).select("flow", "group")
    acked = pl.col("bytes_acked").cast(pl.Int64)
    table = (
        results.flow_series.join(flows, on="flow", maintain_order="left")
        .group_by("group", "flow", maintain_order=True)
        .agg(
            before=acked.filter(pl.col("time_s") <= warm).max().fill_null(0),
            first=acked.filter(pl.col("time_s") <= until).max().fill_null(0),
            last=acked.max().fill_null(0),
        )
        .group_by("group", maintain_order=True)
        .agg(pl.col("before", "first", "last").sum())
        .collect()
    )
    found = []
    for row in table.to_dicts():
        all_of_it = (row["last"] - row["before"]) / (end - warm)
        rest = (row["last"] - row["first"]) / (end - until)
        if all_of_it > 0 and rest > PULL * all_of_it:
            found.append(
                f"the warm-up of {warm:g} s is short for `{row['group']}`: without the {until - warm:.2g} s after it "
                f'the goodput is {rest / all_of_it - 1:.0%} higher; try `warmup = "{until:.2g}s"`'
            )
    return found
