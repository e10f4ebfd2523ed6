"""Flows as their senders see them, wherever the capture was taken.

The queue of a download at home stands before the capture. A packet's own timestamp is its sender's clock, and it shows
how long the packet waited more than the quickest one. Data echoes the newest timestamp that its sender has heard, and
that closes the round trip (`path_rtt_ms` of `airtcp analyze`). With both, the tables of a capture behind the queue
become those of one at the sender. ACKs move to when the sender hears them, and data to when it leaves. All times are
later by the one-way delay of the empty path, which changes nothing.

Without timestamps two things show whether a queue stands:

- *bursts*: a line that falls silent in each round trip of the SYN has an empty queue before it. Then the round trip is
  that of the SYN throughout.
- *repairs*: the third duplicate ACK lets the sender know of a hole. The time from there to the packet that fills it is
  a round trip. So round trips are known at losses only, which is when the queue is longest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[np.float64]
Json = dict[str, Any]
Tables = Mapping[str, pl.DataFrame]

Kind = Literal["sender", "timestamps", "bursts", "repairs", "hidden"]
"""The source of the sender's round trips. `hidden`: there is none."""

LEAST_SAMPLES: Final = 20
"""Round trips from which a flow shows its path."""
BEFORE_MS: Final = 3.0
BEFORE_PART: Final = 0.1
"""A queue before the capture counts from here on: ms, and the part of the round trip that shows without it."""
GAP_PART: Final = 0.25
"""Silence of a line, as a part of the round trip, in which a short queue empties."""
SILENT_PART: Final = 0.8
"""Part of the round trips that must have such a silence."""
LEAST_ROUNDS: Final = 10
LEAST_REPAIRS: Final = 3
"""Repairs from which the queue at losses shows."""
DUPLICATES: Final = 3
"""Duplicate ACKs on which a sender repairs (RFC 5681)."""
ROUND: Final = 1.3
"""Factor between the time from burst to burst and the round trip of the SYN, at most."""


@dataclass(frozen=True)
class View:
    """A flow of the capture as its sender sees it."""

    row: Json
    """Its row in the table `flows`."""
    kind: Kind
    near_ms: float
    """Round trip between the sender and the place of which the tables are."""
    tables: Tables
    has_handshake: bool
    """Whether the round trip of the empty path is that of SYNs, which take no time on the line."""
    empty_ms: float | None = None
    """Round trip of the empty path, where it is known without samples."""

    @property
    def number(self) -> int:
        """Number of the flow."""
        return int(self.row["flow"])

    @property
    def side(self) -> str:
        """Flows of different sides do not share the bottleneck in the same direction."""
        return "receiver" if self.kind in ("timestamps", "bursts") else self.kind

    @property
    def is_at_losses(self) -> bool:
        """Whether round trips are known at losses only."""
        return self.kind == "repairs"


def view(row: Json, tables: Tables, came_s: Array) -> View:
    """The sender's view of a flow, from its row in `flows` and its rows of the tables over time.

    `came_s`: when data came over the line, of all flows that may share it, in order.
    """
    near_ms, far_ms = float(row["rtt_near_min_ms"] or 0.0), float(row["rtt_min_ms"] or 0.0)
    samples = tables["rtt_samples"]
    handshake = row["window_scale"] is not None
    if samples.height < LEAST_SAMPLES:
        return View(row, "hidden", 0.0, _at_sender(tables, near_ms), handshake)
    behind_ms, whole_ms = samples["rtt_ms"].to_numpy(), samples["path_rtt_ms"].to_numpy()
    more_ms = float(np.nanpercentile(whole_ms, 95) - np.nanpercentile(behind_ms, 95)) - near_ms
    least_ms = BEFORE_MS + BEFORE_PART * float(np.nanmedian(whole_ms))
    is_behind = row["vantage"] == "receiver" or more_ms > least_ms
    # A queue that shows behind the capture is the path's, with timestamps or without.
    # Delayed ACKs make some round trips long, and a queue makes most of them so.
    shows = float(np.nanmedian(behind_ms) - np.nanmin(behind_ms)) > least_ms
    if row["vantage"] == "sender" or (not is_behind and (row["timestamps"] or shows)):
        return View(row, "sender", near_ms, tables, handshake)
    if row["timestamps"]:
        moved = _at_sender(tables, near_ms, has_clock=True)
        return View(row, "timestamps", 0.0, moved, handshake, near_ms + far_ms if handshake else None)
    if near_ms > 0 and _falls_silent(came_s, tables, near_ms + far_ms):
        return View(row, "bursts", 0.0, _at_sender(tables, near_ms), handshake)
    moved = _at_sender(tables, near_ms)
    repairs = _repairs(tables, near_ms, far_ms)
    if near_ms > 0 and repairs.height >= LEAST_REPAIRS:
        return View(row, "repairs", 0.0, {**moved, "rtt_samples": repairs}, handshake, near_ms + far_ms)
    return View(row, "hidden", 0.0, moved, handshake)


def _repairs(tables: Tables, near_ms: float, far_ms: float) -> pl.DataFrame:
    """Round trips from the third duplicate ACK of each fast recovery to the packet that is sent again.

    `near_ms`, `far_ms`: the least from the capture to either end and back.
    """
    segments = tables["segments"]
    duplicates_s, acks_s = (segments.filter(pl.col("kind") == kind)["time_s"].to_numpy() for kind in ("dup_ack", "ack"))
    fast = tables["retransmissions"].filter((pl.col("class") == "fast") & ~pl.col("spurious"))
    fast_s = fast["time_s"].to_numpy()
    rows = []
    for resent_s, flow in zip(fast_s.tolist(), fast["flow"].to_list(), strict=True):
        at = int(np.searchsorted(acks_s, resent_s)) - 1
        since_s = acks_s[at] if at >= 0 else -np.inf
        third = int(np.searchsorted(duplicates_s, since_s, side="right")) + DUPLICATES - 1
        if third < duplicates_s.size and duplicates_s[third] < resent_s:
            took_ms = 1e3 * (resent_s - float(duplicates_s[third]))
            if took_ms >= near_ms:
                rows.append((flow, resent_s - 1e-6, took_ms + far_ms, took_ms + far_ms))
    return pl.DataFrame(rows, schema=tables["rtt_samples"].schema, orient="row")


def _at_sender(tables: Tables, near_ms: float, *, has_clock: bool = False) -> dict[str, pl.DataFrame]:
    """The tables with ACKs when the sender hears them, data when it leaves, and whole round trips.

    `has_clock`: the sender's timestamps tell how long data waited before the capture. Otherwise it did not wait.
    """
    near_s = near_ms / 1e3
    samples = tables["rtt_samples"]
    behind_ms = samples["rtt_ms"].to_numpy()
    whole_ms = samples["path_rtt_ms"].to_numpy() if has_clock else behind_ms + near_ms
    waited_s = np.maximum((whole_ms - behind_ms) / 1e3 - near_s, 0.0)
    passed_s = samples["time_s"].to_numpy() - behind_ms / 1e3
    order = np.argsort(passed_s, kind="stable")
    passed_s, waited_s = passed_s[order], waited_s[order]
    segments = tables["segments"]
    times = segments["time_s"].to_numpy()
    at = np.clip(np.searchsorted(passed_s, times, side="right") - 1, 0, max(0, passed_s.size - 1))
    waited_s = waited_s if waited_s.size else np.zeros(1)
    is_sent = segments["kind"].is_in(["data", "retransmission"]).to_numpy()
    moved = np.where(is_sent, times - waited_s[at], times + near_s)
    return {
        **tables,
        "segments": segments.with_columns(time_s=pl.Series(moved)).sort("time_s", maintain_order=True),
        "rtt_samples": samples.with_columns(time_s=pl.col("time_s") + near_s, rtt_ms=pl.Series(whole_ms)),
    }


def _falls_silent(came_s: Array, tables: Tables, empty_ms: float) -> bool:
    """Whether the line before the capture is idle in nearly all round trips of the empty path in which data comes.

    One flow's data comes in bunches also where others fill the queue between them.
    """
    own = tables["segments"]["time_s"]
    empty_s = empty_ms / 1e3
    if own.is_empty():
        return False
    times = came_s[(came_s >= float(own[0])) & (came_s <= float(own[-1]))]
    if times.size < 2:
        return False
    gaps = np.diff(times)
    is_silent = (gaps >= GAP_PART * empty_s) & (gaps >= 4 * float(np.median(gaps)))
    rounds = np.unique(np.floor(times / empty_s))
    begins = times[1:][is_silent]
    if rounds.size < LEAST_ROUNDS or begins.size < LEAST_ROUNDS:
        return False
    # The turns of a radio leave gaps as well, but not one for each round trip of the SYN.
    is_once_a_round = 1 / ROUND <= float(np.median(np.diff(begins))) / empty_s <= ROUND
    silent = np.unique(np.floor(times[:-1][is_silent] / empty_s))
    return is_once_a_round and silent.size >= SILENT_PART * rounds.size
