"""The part of a capture that a twin can stand for: a stretch without long pauses of the applications.

A twin has flows that always have something to send. A capture has pauses: between pages of a browser, before a FIN, or
of years, where files were merged. A pause is time in which all data is acknowledged. Silence while data is on its way
is none: that is the path's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from airtcp.advice.vantage import View

Array = NDArray[np.float64]

PAUSE_S: Final = 1.0
"""A longer pause parts two stretches."""
LEAST_PAUSE_S: Final = 0.01
"""Shorter pauses are those of a host that gets the processor late."""
LEAST_HIDDEN_PAUSE_S: Final = 0.2
"""The same, where a queue may hold data that seems to have arrived and not to have been sent."""


@dataclass(frozen=True)
class Stretch:
    """A part of the capture in which its flows pause for no longer than `PAUSE_S` at a time."""

    begin_s: float
    end_s: float
    """Since the first packet of the capture."""
    paused_s: float
    """Time in it in which no flow has anything on its way."""
    payload_bytes: float

    @property
    def span_s(self) -> float:
        """Its length."""
        return self.end_s - self.begin_s


def busy(view: View) -> Array:
    """When the flow has data on its way: rows of begin and end."""
    segments = view.tables["segments"].filter(pl.col("kind").is_in(["data", "retransmission", "ack"]))
    if not segments.height:
        return np.empty((0, 2))
    times = segments["time_s"].to_numpy()
    is_ack = (segments["kind"] == "ack").to_numpy()
    ends = segments["seq_to"].to_numpy().astype(np.float64)
    acked = np.maximum.accumulate(np.where(is_ack, ends, 0.0))
    sent = np.maximum.accumulate(np.where(is_ack, 0.0, ends))
    # An ACK of what the capture missed is no pause: something was on its way.
    is_out = sent > acked
    edges = np.diff(is_out.astype(np.int8), prepend=0)
    begins, stops = times[edges > 0], times[edges < 0]
    if stops.size < begins.size:
        # The capture ends before the last ACK. A receiver that answers no more has no path to model.
        last_s = times[is_ack][-1] if is_ack.any() else times[-1]
        stops = np.append(stops, min(float(view.row["end_s"]), last_s + PAUSE_S))
    return np.stack([begins, np.maximum(stops[: begins.size], begins)], axis=1)


def stretches(views: Sequence[View]) -> list[Stretch]:
    """The stretches of some flows together, in order."""
    parts = [busy(view) for view in views]
    if not any(part.size for part in parts):
        return []
    found = np.concatenate(parts)
    found = found[np.argsort(found[:, 0], kind="stable")]
    reach = np.maximum.accumulate(found[:, 1])
    pauses = np.maximum(found[1:, 0] - reach[:-1], 0.0)
    cuts = np.flatnonzero(pauses > PAUSE_S) + 1
    least_s = LEAST_HIDDEN_PAUSE_S if any(view.kind == "hidden" for view in views) else LEAST_PAUSE_S
    out = []
    for first, last in zip([0, *cuts], [*cuts, len(found)], strict=True):
        inside = pauses[first : last - 1]
        begin_s, end_s = float(found[first, 0]), float(reach[last - 1])
        paused_s = float(inside[inside >= least_s].sum())
        out.append(Stretch(begin_s, end_s, paused_s, sum(payload(view, begin_s, end_s) for view in views)))
    return out


def payload(view: View, begin_s: float, end_s: float) -> float:
    """Bytes of new data that the flow sends in a time."""
    data = view.tables["segments"].filter((pl.col("kind") == "data") & pl.col("time_s").is_between(begin_s, end_s))
    return float((data["seq_to"] - data["seq_from"]).sum() or 0)
