"""Sentences about a whole capture: connections that failed, names that were not found, packets captured twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from airtcp._text import endpoint

SCAN_PORTS: Final = 50
"""Attempts on so many ports of one host are a scan."""

LATE_S: Final = 1.0
"""A connection that took longer to open is told."""

Json = dict[str, Any]


def findings(flows: pl.LazyFrame, capture: Mapping[str, Any]) -> list[Json]:
    """Failures, each with `kind`, `count` and `says`: what happened and what to do."""
    first = (
        flows.select(
            *("connection", "flow", "source", "destination", "destination_port", "role", "opening", "opening_ms"),
            *("reset_by", "reset_cut", "syn_retransmissions"),
        )
        .sort("flow")
        # One row of each connection: the client's where the SYN was captured.
        .with_columns(order=pl.col("role") == "server")
        .sort("order", "flow")
        .unique("connection", keep="first", maintain_order=True)
        .collect(engine="streaming")
    )
    found = [
        *_unanswered(first.filter(pl.col("opening") == "unanswered")),
        *_refused(first.filter(pl.col("opening") == "refused")),
        *_late(first.filter((pl.col("opening") == "answered") & (pl.col("opening_ms") >= 1e3 * LATE_S))),
        *_reset(first.filter(pl.col("reset_cut") & (pl.col("reset_by") != ""))),
        *_names(capture.get("dns") or {}),
    ]
    return [{"kind": kind, "count": count, "says": says} for kind, count, says in found]


def is_main(found: list[Json], connections: int) -> bool:
    """Whether failures are what the capture is about: half of its connections, or names that got no answer."""
    failed = sum(one["count"] for one in found if one["kind"] in ("unanswered", "refused", "reset"))
    return 2 * failed >= connections if failed else any(one["kind"] == "dns" for one in found) and not connections


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}{'' if n == 1 else 's'}"


def _to(rows: pl.DataFrame) -> str:
    """The host and port that most rows went to, and how many others there are."""
    ends = rows.group_by("destination", "destination_port").len().sort("len", "destination", descending=[True, False])
    host, port, _ = ends.row(0)
    others = ends.height - 1
    end = endpoint(host, port)
    return f"{end}{f' and {others} more' if others else ''}"


def _scan(rows: pl.DataFrame) -> str | None:
    """`10.0.0.1 tried 1000 ports of 10.0.0.2`."""
    pairs = rows.group_by("source", "destination").agg(ports=pl.col("destination_port").n_unique())
    widest = pairs.sort("ports", "source", "destination", descending=[True, False, False])
    if not widest.height or widest["ports"][0] < SCAN_PORTS:
        return None
    source, destination, ports = widest.row(0)
    return f"{source} tried {ports} ports of {destination}, as a port scan does"


def _unanswered(rows: pl.DataFrame) -> list[tuple[str, int, str]]:
    if not rows.height:
        return []
    text = f"{_count(rows.height, 'connection attempt')} got no answer, to {_to(rows)}"
    if scan := _scan(rows):
        return [("unanswered", rows.height, f"{text}. {scan}.")]
    again = int(rows["syn_retransmissions"].sum())
    sent = f", and {_count(again, 'SYN')} sent again" if again else ""
    todo = "Check that the host is up, and which firewall drops the SYN."
    return [("unanswered", rows.height, f"{text}{sent}. {todo}")]


def _refused(rows: pl.DataFrame) -> list[tuple[str, int, str]]:
    if not rows.height:
        return []
    text = f"{_count(rows.height, 'connection')} {'was' if rows.height == 1 else 'were'} refused, by {_to(rows)}"
    todo = f"{scan}." if (scan := _scan(rows)) else "No program listens there, or a firewall refuses."
    return [("refused", rows.height, f"{text}. {todo}")]


def _late(rows: pl.DataFrame) -> list[tuple[str, int, str]]:
    if not rows.height:
        return []
    longest = float(rows["opening_ms"].max() or 0.0) / 1e3  # type: ignore[arg-type]
    lost = rows.filter(pl.col("syn_retransmissions") > 0).height
    how = f"; of {lost} the SYN was sent again" if lost else ""
    text = f"{_count(rows.height, 'connection')} took up to {longest:.3g} s to open{how}, to {_to(rows)}"
    return [("late_opening", rows.height, f"{text}. Look at losses and delays on the way there.")]


def _reset(rows: pl.DataFrame) -> list[tuple[str, int, str]]:
    if not rows.height:
        return []
    by_source = pl.col("reset_by") == "source"
    hosts = rows.select(host=pl.when(by_source).then("source").otherwise("destination"))
    host = hosts.group_by("host").len().sort("len", "host", descending=[True, False])["host"][0]
    was = "was" if rows.height == 1 else "were"
    most = " of" if rows.height == 1 else ", most by"
    text = f"{_count(rows.height, 'connection')} {was} broken off by a reset{most} {host}"
    return [("reset", rows.height, f"{text}. Look at the program there, or at a firewall on the way.")]


def _names(dns: Mapping[str, Any]) -> list[tuple[str, int, str]]:
    if not dns:
        return []
    asked, unanswered, failed, slow = (int(dns[key]) for key in ("questions", "unanswered", "failed", "slow"))
    server = f" Look at the name server {dns['server']}." if dns["server"] else ""
    found = []
    if unanswered:
        found.append(("dns", unanswered, f"{unanswered} of {_count(asked, 'DNS question')} got no answer.{server}"))
    if failed:
        text = f"The name server could not or would not answer {_count(failed, 'DNS question')} of {asked}."
        found.append(("dns_failed", failed, text))
    if slow:
        took = f"{float(dns['longest_s']):.3g} s at most"
        found.append(("dns_slow", slow, f"{_count(slow, 'DNS answer')} of {dns['answers']} came late, {took}.{server}"))
    return found
