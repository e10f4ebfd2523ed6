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
        .sort("airtime_s", "transmitter", "receiver", descending=[True, False, False])
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


def sentence(rows: Sequence[Mapping[str, Any]], share: float | None) -> str:
    """The air in one sentence; empty for captures that are not of monitor mode."""
    if not rows or share is None:
        return ""
    first = rows[0]
    text = f"The air was taken {100 * min(share, 1.0):.0f} % of the time"
    text += f"; {first['transmitter'] or 'unknown senders'} took {100 * first['airtime_share']:.0f} % of that"
    if first["rate_mean_bps"]:
        text += f" at {first['rate_mean_bps'] / 1e6:.3g} Mbit/s"
    if first["retry_ratio"] is not None:
        text += f", and {100 * first['retry_ratio']:.0f} % of its frames were sent again"
    return f"{text}."


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
