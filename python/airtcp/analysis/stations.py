"""Who used the air: the stations of a capture in monitor mode, in words and numbers.

Page, terminal and JSON show what is calculated here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

ROWS: Final = 12
"""Pairs of stations that are shown, those with most airtime first."""

Json = dict[str, Any]


def loudest(stations: pl.LazyFrame, n: int = ROWS) -> list[Json]:
    """The pairs of stations that took most airtime, with ratios of their counts."""

    def ratio(part: str, whole: pl.Expr) -> pl.Expr:
        return pl.when(whole > 0).then(pl.col(part) / whole)

    data = pl.col("data_frames")
    told = pl.col("acked_mpdus") + pl.col("lost_mpdus")
    return (
        stations.with_columns(
            retry_ratio=ratio("retries", data),
            loss_ratio=pl.when(pl.col("block_acks") > 0).then(ratio("lost_mpdus", told)),
            airtime_share=ratio("airtime_s", pl.col("airtime_s").sum()),
        )
        .sort("airtime_s", "data_frames", "transmitter", "receiver", descending=[True, True, False, False])
        .head(n)
        .collect(engine="streaming")
        .to_dicts()
    )


def busy(airtime: pl.LazyFrame, duration_s: float | None) -> float | None:
    """Part of the capture's time in which somebody sent. Gaps that the protocol asks for are not in it."""
    if not duration_s:
        return None
    total = airtime.select(pl.col("airtime_s").sum()).collect().item()
    return float(total) / duration_s if total else None


FULL_AIR: Final = 0.7
"""Part of the time from which on the air counts as full. Gaps and backoff take most of the rest."""
WEAK_DBM: Final = -80.0
"""Signal below which only the slowest rates arrive: MCS 0 at 20 MHz needs -82 dBm (IEEE 802.11-2020, table 19-18)."""
MANY_RETRIES: Final = 0.2
"""Part of repeated frames that costs noticeable airtime."""
TELLING_FRAMES: Final = 20
"""Data frames below which a ratio of repeated frames says nothing."""


def sentence(rows: Sequence[Mapping[str, Any]], share: float | None) -> str:
    """The air in a sentence or two: how full it was, and who had trouble; empty for other captures."""
    if not rows:
        return ""
    first = rows[0]
    # The engine counts frames of unknown rate as of the slowest one.
    has_rates = any(row.get("phy") != "" for row in rows if row.get("data_frames", 1))
    if share is None or not has_rates:
        text = "The capture does not tell how busy the air was, because its frames have no rates"
    else:
        full = "The air was full: it" if share >= FULL_AIR else "The air"
        text = f"{full} was taken {100 * min(share, 1.0):.0f} % of the time"
        if first["airtime_share"] is not None:
            text += f"; {first['transmitter'] or 'unknown senders'} took {100 * first['airtime_share']:.0f} % of that"
        if first["rate_mean_bps"]:
            text += f" at {first['rate_mean_bps'] / 1e6:.3g} Mbit/s"
        if first["retry_ratio"] is not None:
            text += f", and {100 * first['retry_ratio']:.0f} % of its frames were sent again"
    return f"{text}.{_trouble(rows)}"


def _trouble(rows: Sequence[Mapping[str, Any]]) -> str:
    """The station whose frames were repeated most, and the likely reason."""

    def is_troubled(row: Mapping[str, Any]) -> bool:
        told = row.get("retry_ratio") is not None and row.get("data_frames", 0) >= TELLING_FRAMES
        return bool(row["transmitter"]) and told and row["retry_ratio"] >= MANY_RETRIES

    troubled = max(filter(is_troubled, rows), key=lambda row: row["retry_ratio"] * row["data_frames"], default=None)
    if troubled is None:
        return ""
    name, again = troubled["transmitter"], f"{100 * troubled['retry_ratio']:.0f} % of its frames were sent again"
    level = troubled.get("signal_mean_dbm")
    if level is None:
        return f" {name} had trouble: {again}. The capture has no signal levels, so it cannot tell why."
    if level <= WEAK_DBM:
        return f" {name} is too far away: its signal is {level:.0f} dBm at the monitor, and {again}. Bring it nearer."
    return (
        f" {name} had trouble although its signal is {level:.0f} dBm at the monitor: {again}. "
        "Collisions, interference, or a receiver that is farther away than the monitor do that; try another channel."
    )


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row as text: airtime, frames, retries, losses, mode, rate, A-MPDU, signal."""

    def text(key: str, digits: int, factor: float = 1.0) -> str:
        return "-" if row[key] is None else f"{row[key] * factor:.{digits}f}"

    mode = row["phy"] or "-"
    if row["mcs_mean"] is not None:
        mode = f"{mode} {row['mcs_mean']:.1f}/{row['streams'] or 0:.0f}"
    return [
        text("airtime_share", 0, 100),
        f"{row['data_frames']}",
        text("retry_ratio", 1, 100),
        text("loss_ratio", 1, 100),
        mode,
        text("rate_mean_bps", 0, 1e-6),
        text("ampdu_mpdus_mean", 1),
        text("signal_mean_dbm", 0),
    ]


HEADS: Final = (
    ("air", "%"),
    ("data", "frames"),
    ("again", "%"),
    ("lost", "%"),
    ("MCS/", "streams"),
    ("rate", "Mbit/s"),
    ("A-MPDU", "frames"),
    ("signal", "dBm"),
)
"""Titles of the cells: two lines in the terminal, one on the page."""
