"""Where the time of a flow went: what held its sender back, in words, and the one sentence that says why it was slow.

Page, terminal and JSON show what is calculated here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

from airtcp._text import amount

LIMITS: Final = {
    "receive_window": ("receive window", "the receive window was full, and the receiver's application kept up"),
    "receiver_app": (
        "slow receiver",
        "the receiver's application did not read: more than half of the window was closed",
    ),
    "sender_app": ("sender's application", "the sender's application had nothing to send"),
    "think": ("think time", "from a request's last packet to the first packet of its answer"),
    "idle": ("no request", "all was acknowledged, and the peer had asked for nothing"),
    "slow_start": ("slow start", "the congestion window was still growing to the path's size"),
    "queue": ("queue", "the congestion window limited, with a queue on the path: the path was used in full"),
    "loss": ("losses", "a loss was repaired, or the congestion window limited after losses, without a queue"),
    "cwnd": ("congestion window", "the congestion window limited, with neither queue nor loss"),
    "outage": ("outage", "the receiver was silent over two timeouts, or for a second"),
    "air": ("air", "as queue, and the wireless channel was taken nearly all the time"),
}
"""Limits in the order of the columns: short name, meaning."""

ESTATS: Final = {
    "receiver": ("receive_window", "receiver_app"),
    "path": ("slow_start", "queue", "loss", "cwnd", "outage", "air"),
    "sender": ("sender_app", "think", "idle"),
}
"""The limits under the three heads of TCP ESTATS (RFC 4898): SndLimTimeRwin, SndLimTimeCwnd, SndLimTimeSnd."""

GRADES: Final = ((5.0, "A+"), (30.0, "A"), (60.0, "B"), (200.0, "C"), (400.0, "D"))
"""Delay that a queue adds (ms, below) and its grade, as public speed tests have it. More is F."""

IN_ALL: Final = 0.01
"""Flows with less than this part of the data do not count in the sum over all."""
ALSO: Final = 0.2
"""A second limit is named from this share on."""
LITTLE: Final = 0.001

Row = Mapping[str, Any]
Json = dict[str, Any]


def spent(flow: Row) -> dict[str, float]:
    """Seconds by limit."""
    return {name: float(flow[f"limited_{name}_s"] or 0.0) for name in LIMITS}


def shares(seconds: Mapping[str, float]) -> list[Json]:
    """Limits with their seconds and their share of the time, the largest first."""
    total = sum(seconds.values())
    rows = [
        {"limit": name, "seconds": value, "share": value / total}
        for name, value in seconds.items()
        if total > 0 and value > 0
    ]
    return sorted(rows, key=lambda row: -row["share"])


def in_all(flows: pl.LazyFrame) -> list[Json]:
    """Shares over all flows that carry at least `IN_ALL` of the data."""
    large = flows.filter(pl.col("unique_bytes") >= IN_ALL * pl.col("unique_bytes").sum())
    sums = large.select(**{name: pl.col(f"limited_{name}_s").sum() for name in LIMITS})
    return shares(sums.collect(engine="streaming").to_dicts()[0])


def extra_ms(flow: Row) -> float | None:
    """Delay that queues add to the round trip: 95th percentile less the least."""
    low, high = flow["path_rtt_min_ms"], flow["path_rtt_p95_ms"]
    return None if low is None or high is None else max(0.0, high - low)


def grade(flow: Row) -> str | None:
    """Grade of that delay."""
    extra = extra_ms(flow)
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


def why(flow: Row) -> str:
    """The sentence: `Slow because ...`. Empty if nothing limited it long enough to be told."""
    rows = shares(spent(flow))
    if not rows:
        return ""
    first = rows[0]
    text = _SENTENCES[first["limit"]](flow, first)
    if len(rows) > 1 and rows[1]["share"] >= ALSO:
        text += f"; then {LIMITS[rows[1]['limit']][0]}, {percent(rows[1]['share'])}"
    return f"{text}."


def _rate(bits: float | None) -> str:
    if bits is None:
        return "an unknown rate"
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bits >= size * 0.9995:
            return f"{bits / size:.3g} {unit}" if bits < size * 999.5 else f"{bits / size:.0f} {unit}"
    return f"{bits:.0f} bit/s"


def _ms(value: float | None) -> str:
    return "an unknown time" if value is None else f"{value:.3g} ms" if value < 999.5 else f"{value / 1e3:.3g} s"


def _receive_window(flow: Row, row: Json) -> str:
    window, rtt = flow["receive_window_max_bytes"], flow["path_rtt_p50_ms"]
    text = f"Slow because the receive window was full {percent(row['share'])} of the time"
    if window is None or not rtt:
        return text
    return f"{text}: {amount(window)} each {_ms(rtt)} are {_rate(8e3 * window / rtt)} at most"


def _receiver_app(flow: Row, row: Json) -> str:
    closed = f", and closed the window {_times(flow['zero_windows'])}" if flow["zero_windows"] else ""
    return f"Slow because the receiver's application read too slowly, {percent(row['share'])} of the time{closed}"


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _sender_app(flow: Row, row: Json) -> str:
    return f"Slow because the sender's application had nothing to send, {percent(row['share'])} of the time"


def _think(flow: Row, row: Json) -> str:
    return f"Slow because answers took {row['seconds']:.3g} s to begin: think time, {percent(row['share'])} of the time"


def _idle(flow: Row, row: Json) -> str:
    return f"Not slow: nothing was asked for in {percent(row['share'])} of the time"


def _slow_start(flow: Row, row: Json) -> str:
    rtt = flow["path_rtt_p50_ms"]
    return (
        f"Slow because it ended too soon: its window grew in slow start for {percent(row['share'])} of the time, "
        f"by one step each {_ms(rtt)}"
    )


def _queue(flow: Row, row: Json) -> str:
    rate, mark = _rate(flow["goodput_bps"]), grade(flow)
    if mark in (None, "A+", "A"):
        return f"Not slow: the path gave {rate}, and its queue added {_ms(extra_ms(flow))} (grade {mark})"
    return (
        f"Slow because the path gave {rate}, and its queue stretched round trips from "
        f"{_ms(flow['path_rtt_min_ms'])} to {_ms(flow['path_rtt_p95_ms'])}: bufferbloat, grade {mark}"
    )


def _loss(flow: Row, row: Json) -> str:
    sent = flow["data_packets"] or 1
    again = percent(flow["retransmitted_packets"] / sent)
    waits = f" and {_times(flow['timeouts'])} a timeout" if flow["timeouts"] else ""
    return (
        f"Slow because of losses: {again} sent again{waits}, and a small congestion window without a queue, "
        f"{percent(row['share'])} of the time"
    )


def _cwnd(flow: Row, row: Json) -> str:
    return (
        f"Slow because the congestion window stayed small, {percent(row['share'])} of the time, "
        "with neither queue nor loss"
    )


def _outage(flow: Row, row: Json) -> str:
    return f"Slow because nothing came through for {row['seconds']:.3g} s, {percent(row['share'])} of the time"


def _air(flow: Row, row: Json) -> str:
    return (
        f"Slow because the air was taken, {percent(row['share'])} of the time: it gave {_rate(flow['goodput_bps'])}, "
        f"and round trips of up to {_ms(flow['path_rtt_p95_ms'])}"
    )


_SENTENCES: Final = {
    "receive_window": _receive_window,
    "receiver_app": _receiver_app,
    "sender_app": _sender_app,
    "think": _think,
    "idle": _idle,
    "slow_start": _slow_start,
    "queue": _queue,
    "loss": _loss,
    "cwnd": _cwnd,
    "outage": _outage,
    "air": _air,
}
