"""Connections of QUIC in words: rate, round trip, pauses, and what encryption hides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from airtcp._text import amount, endpoint

ROWS: Final = 10
"""Connections that are shown, those with most bytes first."""

TOLD_BYTES: Final = 100_000
"""A connection that carries less is no transfer whose rate says something."""

QUEUE_MS: Final = 30.0
"""Mean round trip above the least from which on a queue is told: grade B of the delay that queues add."""

Json = dict[str, Any]


def largest(connections: pl.LazyFrame, n: int = ROWS) -> list[Json]:
    """The connections that carried most bytes, each with `says`."""
    total = pl.col("client_bytes") + pl.col("server_bytes")
    rows = (
        connections.with_columns(bytes=total)
        .sort("bytes", "start_s", descending=[True, False])
        .head(n)
        .collect(engine="streaming")
        .to_dicts()
    )
    return [{**row, "says": sentence(row)} for row in rows]


def sentence(row: Mapping[str, Any]) -> str:
    """One connection: size and rate, then round trip, pauses, and what does not show."""
    down = row["server_bytes"] >= row["client_bytes"]
    ends = [endpoint(row[side], row[f"{side}_port"]) for side in ("server", "client")]
    source, destination = ends if down else ends[::-1]
    size = row["server_bytes" if down else "client_bytes"]
    text = f"QUIC, {amount(size)} from {source} to {destination}"
    if size >= TOLD_BYTES and row["rate_bps"]:
        text += f" at {row['rate_bps'] / 1e6:.3g} Mbit/s"
    hidden = "Losses and windows are encrypted, so the cause of a low rate does not show."
    return f"{text}. {_round_trip(row)}{_pauses(row)} {hidden}"


def _round_trip(row: Mapping[str, Any]) -> str:
    if row["spin_samples"]:
        least, mean = row["spin_min_ms"], row["spin_mean_ms"]
        text = f"Its round trip was {least:.3g} ms at least and {mean:.3g} ms in the mean, by the spin bit"
        return f"{text}: a queue stood on the path." if mean - least >= QUEUE_MS else f"{text}."
    if row["handshake_far_ms"] is None:
        if row["initial_packets"] > 1:
            return "The client's first packet was repeated, so its round trip is not known."
        return "The handshake is not in the capture, and the spin bit is off, so its round trip is not known."
    took = row["handshake_far_ms"] + (row["handshake_near_ms"] or 0.0)
    return f"Its handshake took a round trip of {took:.3g} ms; the spin bit is off, so later ones are not known."


def _pauses(row: Mapping[str, Any]) -> str:
    if not row["stalls"]:
        return ""
    times = "once" if row["stalls"] == 1 else f"{row['stalls']} times"
    return (
        f" The sender paused {times}, {row['stalled_s']:.3g} s in all;"
        " an application without data and an outage look alike."
    )
