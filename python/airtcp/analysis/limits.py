"""Where the time of a flow went: what held its sender back, as shares of the time.

`verdict` puts it into a sentence. Page, terminal and JSON show what is calculated here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

LIMITS: Final = {
    "receive_window": ("receive window", "the receive window was full, and the receiver's application kept up"),
    "receiver_app": (
        "slow receiver",
        "the receiver's application did not read: more than a quarter of the window was closed",
    ),
    "sender_app": ("sender's application", "the sender's application had nothing to send"),
    "think": ("think time", "from a request's last packet to the first packet of its answer"),
    "idle": ("no request", "all was acknowledged, and the peer had asked for nothing"),
    "slow_start": ("slow start", "the congestion window was still growing to the path's size"),
    "queue": ("queue", "the congestion window limited, with a queue on the path: the path was used in full"),
    "loss": ("losses", "a loss was repaired, or the congestion window limited after losses, without a queue"),
    "cwnd": ("congestion window", "the congestion window limited, with neither queue nor loss"),
    "outage": ("outage", "the receiver was silent over two timeouts, or over one and for a second"),
    "air": ("air", "as queue, and the wireless channel was taken nearly all the time"),
    "paced": ("pacing", "pacing, or a shaper before the capture, held data of the same write back"),
    "steady": ("steady rate", "the sender's application, pacing or a shaper kept one rate: these look alike"),
}
"""Limits in the order of the columns: short name, meaning."""

ESTATS: Final = {
    "receiver": ("receive_window", "receiver_app"),
    "path": ("slow_start", "queue", "loss", "cwnd", "outage", "air"),
    "sender": ("sender_app", "think", "idle", "paced", "steady"),
}
"""The limits under the three heads of TCP ESTATS (RFC 4898): SndLimTimeRwin, SndLimTimeCwnd, SndLimTimeSnd."""

GRADES: Final = ((5.0, "A+"), (30.0, "A"), (60.0, "B"), (200.0, "C"), (400.0, "D"))
"""Delay that a queue adds (ms, below) and its grade, as public speed tests have it. More is F."""

IN_ALL: Final = 0.01
"""Flows with less than this part of the data do not count in the sum over all."""
LITTLE: Final = 0.001
SEGMENTS: Final = 10
"""Below so many segments of data, a flow is too short to tell what limited it."""

Row = Mapping[str, Any]
Json = dict[str, Any]


def spent(flow: Row) -> dict[str, float]:
    """Seconds by limit."""
    return {name: float(flow[f"limited_{name}_s"] or 0.0) for name in LIMITS}


def segments(flow: Row) -> int:
    """Segments of data. Captures with offload show several of them in one packet."""
    return max(int(flow["data_packets"]), int(flow["unique_bytes"]) // max(1, int(flow["mss_bytes"] or 0)))


def is_short(flow: Row) -> bool:
    """Whether there is too little data to tell what limited it."""
    return segments(flow) < SEGMENTS


def shares(seconds: Mapping[str, float]) -> list[Json]:
    """Limits with their seconds and their share of the time, the largest first."""
    total = sum(seconds.values())
    rows = [
        {"limit": name, "seconds": value, "share": value / total}
        for name, value in seconds.items()
        if total > 0 and value > 0
    ]
    return sorted(rows, key=lambda row: -row["share"])


def of_flow(flow: Row) -> list[Json]:
    """The shares of a flow; none for one that is too short."""
    return [] if is_short(flow) else shares(spent(flow))


def in_all(flows: pl.LazyFrame) -> list[Json]:
    """Shares over all flows that carry at least `IN_ALL` of the data, and enough segments to tell."""
    whole = pl.col("unique_bytes") // pl.max_horizontal(pl.col("mss_bytes"), 1)
    enough = pl.max_horizontal(pl.col("data_packets"), whole) >= SEGMENTS
    large = flows.filter((pl.col("unique_bytes") >= IN_ALL * pl.col("unique_bytes").sum()) & enough)
    sums = large.select(**{name: pl.col(f"limited_{name}_s").sum() for name in LIMITS})
    return shares(sums.collect(engine="streaming").to_dicts()[0])


def extra_ms(flow: Row) -> float | None:
    """Delay that queues add to the round trip: 95th percentile less the least."""
    low, high = flow["path_rtt_min_ms"], flow["path_rtt_p95_ms"]
    return None if low is None or high is None else max(0.0, high - low)


def grade(flow: Row) -> str | None:
    """Grade of that delay; none for a flow that is too short."""
    extra = None if is_short(flow) else extra_ms(flow)
    return None if extra is None else next((name for bound, name in GRADES if extra < bound), "F")


def brief(rows: Iterable[Json], most: int = 4) -> str:
    """`queue 96 %, slow start 3 %`."""
    named = [row for row in rows if row["share"] >= LITTLE * 5][:most]
    return ", ".join(f"{LIMITS[row['limit']][0]} {percent(row['share'])}" for row in named)


def percent(share: float) -> str:
    """`96 %`; what is not all is not 100 %, and what is not nothing is not 0."""
    value = 100 * share
    text = f"{value:.0f}" if 1 <= value < 99.5 or share >= 1 - LITTLE else f"{value:.1f}"
    return f"{f'{value:.1g}' if 0 < value < 0.05 else text} %"
