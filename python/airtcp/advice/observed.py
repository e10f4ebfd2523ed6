"""The path as a capture shows it: traces of its flows, and estimates of rate, round trip, buffer and losses.

Each estimate is a formula over the tables of `airtcp analyze`:

- *round trip*: the least of a flow's samples, less the time of a full packet on the bottleneck. A flow that begins
  while others fill the queue never sees it empty. There it is the median of its samples less the first flow's queue.
- *rate*: bytes acknowledged per second of all flows together, while the queue stands. It stands where every sample of
  the round trip is above the least by more than two packets. The median of such windows counts.
  Without them it is the 98th percentile over bursts of 6 packets: packets that left together are spread by the line
  (C. Dovrolis, P. Ramanathan, D. Moore, "What do packet dispersion techniques measure?", INFOCOM 2001).
- *buffer*: the waiting of packets that were sent shortly before a loss, times the rate; the median over the losses.
- *random loss*: retransmissions of losses at which the queue was less than half of what it reached, per data packet.
- *bursts of losses*: packets that were sent again per such event, if they are more than chance puts together. A twin
  loses single packets, as often as the capture has such events: a sender answers an event, whatever its size.
- *delayed ACKs*: data packets per acknowledgement.
- *receive window*: the largest that was announced; it limits if the flight reaches nine tenths of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from airtcp.advice.stretch import PAUSE_S, Stretch, payload, stretches
from airtcp.advice.vantage import LEAST_SAMPLES, Tables, View, view

if TYPE_CHECKING:
    from airtcp.analysis.results import Analysis

Array = NDArray[np.float64]
Json = dict[str, Any]

STEP_S: Final = 0.05
"""Grid of the traces."""
SHARE: Final = 0.5
"""Part of the capture, from its beginning, from which everything is estimated and on which the twin is fitted."""
LEAST_BYTES: Final = 100_000
"""Flows with less data say too little."""
MOST_FLOWS: Final = 20
LEAST_S: Final = 4.0
"""Shorter transfers have no two parts worth comparing."""
MOST_S: Final = 600.0
"""The beginning of a longer transfer is modelled: a run of the whole takes too long."""
LEAST_FLOW_S: Final = 1.0
"""A flow that begins later before the end says nothing."""
MOST_PAUSED: Final = 0.3
"""Part of the time in which the applications may pause."""
MOST_HIDDEN: Final = 0.2
"""Part of the data that flows of the same direction may carry whose round trips do not show."""
MOST_MISSED: Final = 0.1
"""Part of the packets that the capture may have missed."""
COARSE_MS: Final = 0.9
MOST_COARSE_MS: Final = 1000.0
COARSE: Final = 20.0
"""A clock of steps between these must be so many times finer than the round trips."""
OFF_STEP: Final = 0.02
ON_STEP: Final = 0.95
"""Part of the times that are whole steps apart, to within `OFF_STEP`, by which a coarse clock is known."""
LEAST_MS: Final = 0.01
LEAST_BPS: Final = 1e3
MOST_BPS: Final = 1e12
"""Rates that a twin can have."""
PACKET_BYTES: Final = 1500
OVERHEAD_BYTES: Final = 52
"""IP and TCP headers with timestamps."""
ALPHA: Final = 1 / 8
"""Weight of a sample in the smoothed round trip (RFC 6298)."""


@dataclass(frozen=True)
class FlowTrace:
    """A flow on a grid of time, as a capture or a run shows it."""

    acked: Array
    """Bytes acknowledged since the start."""
    srtt_ms: Array
    """Smoothed round trip, as the sender calculates it; NaN before the first sample."""
    resent: Array
    """Data packets sent again since the start."""


@dataclass(frozen=True)
class ObservedFlow:
    """A flow of the capture that the twin will have."""

    number: int
    source: str
    destination: str
    start_s: float
    stop_s: float
    """Time of its last packet."""
    size_bytes: int | None
    """`None`: it went on to the end of the capture."""
    rtt_min_ms: float
    near_ms: float
    """Round trip between the sender and the place of the capture."""
    packets_per_ack: float
    window_bytes: float | None
    """Receive window, if it limits; else `None`."""
    payload_bytes: float
    data_packets: int
    trace: FlowTrace
    newest_ms: Array
    """Smoothed round trip of the newest packet that each ACK covers: a delayed ACK adds nothing to it. On the grid."""


@dataclass(frozen=True)
class Observed:
    """The capture as the search for a twin needs it."""

    flows: tuple[ObservedFlow, ...]
    duration_s: float
    rate_bps: float
    is_saturated: bool
    """Whether the rate was seen with a queue; else it is a lower bound."""
    buffer_packets: float | None
    """`None`: no loss shows it."""
    loss: float
    """Losses that were not at a full queue, per data packet."""
    lost: float
    """All losses, per data packet; of a burst of random losses one."""
    burst_packets: float
    """Packets that random losses take at a time; 1: single ones."""
    longest_packets: float
    """Packets that the longest waiting seen stands for: the queue holds at least these."""
    is_bursty: bool
    """Whether packets come through in bursts far above the rate, as a radio's A-MPDUs do, and not one by one."""
    left_out: tuple[str, ...]
    """Notes on what the twin leaves out."""
    is_at_losses: bool = False
    """Whether round trips are known at losses only."""


class NoTwinError(ValueError):
    """The capture does not show enough for a twin; the message says what is missing."""


def observe(analysis: Analysis) -> Observed:
    """Traces and estimates of a capture.

    Raises:
        NoTwinError: it does not show enough of a path. The message says what is missing, and what would help.
    """
    rows = analysis.flows.sort("payload_bytes", descending=True).collect().to_dicts()
    views, notes = _views(analysis, rows)
    views, stretch, more = _chosen(views)
    notes += more
    if stretch.span_s > MOST_S:
        notes.append(f"all after the first {MOST_S:g} s of the transfer")
        stretch = replace(stretch, end_s=stretch.begin_s + MOST_S)
    if len(views) > MOST_FLOWS:
        notes.append(f"the {len(views) - MOST_FLOWS} smallest flows")
        views = sorted(views, key=lambda view: payload(view, stretch.begin_s, stretch.end_s))[-MOST_FLOWS:]
    views = [replace(view, tables=_within(view.tables, stretch)) for view in views]
    origin = min(_start_s(view) for view in views)
    ends = {view.number: _end_s(view, stretch) for view in views}
    duration_s = max(ends.values()) - origin
    until_s = duration_s * SHARE
    grid = np.arange(1, max(2, int(duration_s / STEP_S)) + 1, dtype=np.float64) * np.float64(STEP_S)
    early = {
        view.number: {name: table.filter(pl.col("time_s") <= origin + until_s) for name, table in view.tables.items()}
        for view in views
    }
    flows = [
        _flow(view, early[view.number], rows, origin, ends[view.number], duration_s, grid)
        for view in sorted(views, key=lambda view: -view.row["payload_bytes"])
        if _start_s(view) - origin < duration_s - LEAST_FLOW_S
    ]
    if duration_s < LEAST_S or not flows:
        raise NoTwinError(f"its largest transfer has {duration_s:.1f} s: a twin needs {LEAST_S:g} s or more")
    first = {view.number: view for view in views}
    flows = _without_shared_queue(flows, int((grid <= until_s).sum()))
    is_at_losses = any(view.is_at_losses for view in views)
    if is_at_losses:
        _check_repairs(views, origin + until_s)
    seen_grid = grid[grid <= until_s]
    rate_bps, is_saturated = _rate(flows, seen_grid, _arrived(views, origin, seen_grid) if is_at_losses else None)
    if not is_saturated:
        rate_bps = max([rate_bps, *(_burst_bps(early[flow.number], flow) for flow in flows)])
    if not LEAST_BPS <= rate_bps <= MOST_BPS:
        raise NoTwinError(f"the rate seems to be {rate_bps:.3g} bit/s: the capture's times are too coarse, or wrong")
    flows = [_with_packet(flow, first[flow.number], rate_bps) for flow in flows]
    buffer_packets, loss, lost, burst_packets = _losses(flows, early, rate_bps, is_at_losses=is_at_losses)
    if burst_packets > 1:
        notes.append(f"random losses come some {burst_packets:.0f} packets at a time: the twin loses one each time")
    is_bursty = is_saturated and _is_bursty(flows, early, rate_bps)
    longest_ms = max(_longest_ms(flow, early[flow.number]) for flow in flows)
    return Observed(
        tuple(flows),
        duration_s,
        rate_bps,
        is_saturated,
        buffer_packets,
        loss,
        lost,
        burst_packets,
        max(0.0, longest_ms) * 1e-3 * rate_bps / 8 / PACKET_BYTES,
        is_bursty,
        tuple(notes),
        is_at_losses,
    )


def _views(analysis: Analysis, rows: Sequence[Json]) -> tuple[list[View], list[str]]:
    """The flows that may show their path, and notes on the others."""
    if not any(row["payload_bytes"] for row in rows):
        raise NoTwinError("no TCP connection with data is in it: a twin needs one with 100 kB or more")
    big = [row for row in rows if row["payload_bytes"] >= LEAST_BYTES]
    if not big:
        raise NoTwinError(
            f"no flow with {LEAST_BYTES // 1000} kB of data, the largest has {_size(rows[0]['payload_bytes'])}: "
            f"capture a longer upload or download"
        )
    seen = [row for row in big if _is_acked(row)]
    if not seen:
        raise NoTwinError("it has no ACKs of its largest flow, only the data: capture both directions")
    whole = [row for row in seen if _missed(row) <= MOST_MISSED]
    if not whole:
        raise NoTwinError(
            f"the capture missed {_percent(_missed(seen[0]))} of the packets of its largest flow: capture headers "
            "only (tcpdump -s 128), or with a larger buffer (-B 16384)"
        )
    numbers = [row["flow"] for row in whole]
    kept = {
        name: analysis[name].filter(pl.col("flow").is_in(numbers)).sort("time_s").collect()
        for name in ("rtt_samples", "segments", "retransmissions", "windows")
    }
    parts = {name: table.partition_by("flow", as_dict=True) for name, table in kept.items()}
    elsewhere = [row["flow"] for row in whole if row["vantage"] != "sender"]
    is_data = (pl.col("kind") == "data") & pl.col("flow").is_in(elsewhere)
    came_s = kept["segments"].filter(is_data)["time_s"].to_numpy()
    views = [
        view(row, {name: parts[name].get((row["flow"],), kept[name].clear()) for name in kept}, came_s) for row in whole
    ]
    left_out = len(big) - len(views)
    return views, [f"{_flows(left_out)} of which the capture has a part only"] if left_out else []


def _chosen(views: Sequence[View]) -> tuple[list[View], Stretch, list[str]]:
    """The flows and the stretch that are modelled: those of one direction, with most bytes."""
    sides = [[one for one in views if one.side == name] for name in ("sender", "receiver", "repairs", "hidden")]
    best = [(side, max(found, key=_worth)) for side in sides if (found := stretches(side))]
    if not best:
        raise NoTwinError("nothing of its largest flow is acknowledged: capture both directions, and for longer")
    usable = [(side, found) for side, found in best if _fault(found) is None]
    clear = [(side, found) for side, found in usable if side[0].kind != "hidden"]
    if not usable:
        raise NoTwinError(str(_fault(max((found for _, found in best), key=_worth))))
    if not clear:
        raise NoTwinError(_why_hidden(usable[0][0][0]))
    side, stretch = max(clear, key=lambda pair: pair[1].payload_bytes)
    hidden = [one for one in views if one.kind == "hidden" and side[0].kind != "sender"]
    beside = sum(payload(one, stretch.begin_s, stretch.end_s) for one in hidden)
    if beside > MOST_HIDDEN * (beside + stretch.payload_bytes):
        raise NoTwinError(_why_hidden(hidden[0]))
    _check_clock(side)
    chosen = [one for one in side if payload(one, stretch.begin_s, stretch.end_s) >= LEAST_BYTES]
    if not chosen:
        raise NoTwinError(
            f"no flow has {LEAST_BYTES // 1000} kB without a pause of {PAUSE_S:g} s: "
            "capture a longer upload or download"
        )
    reasons = {
        "whose round trips do not show": sum(one.kind == "hidden" for one in views),
        "of the other direction": sum(one.kind != "hidden" and one.side != side[0].side for one in views),
        "at other times, or with pauses": len(side) - len(chosen),
    }
    return chosen, stretch, [f"{_flows(count)} {why}" for why, count in reasons.items() if count]


def _check_clock(views: Sequence[View]) -> None:
    """Refuses times whose steps hide the round trips."""
    times = np.unique(np.concatenate([view.tables["segments"]["time_s"].to_numpy() for view in views]))
    typical_ms = float(np.median(np.concatenate([view.tables["rtt_samples"]["rtt_ms"].to_numpy() for view in views])))
    step_ms = float(np.diff(times).min()) * 1e3 if times.size > 1 else 0.0
    if not COARSE_MS <= step_ms <= MOST_COARSE_MS or typical_ms >= COARSE * step_ms:
        return
    # Packets of a slow line are far apart as well, but not by whole steps.
    steps = np.diff(times) * 1e3 / step_ms
    if np.mean(np.abs(steps - np.round(steps)) < OFF_STEP) >= ON_STEP:
        raise NoTwinError(
            f"its times come in steps of {step_ms:.3g} ms, too coarse for its round trips: capture with a finer clock"
        )


def _check_repairs(views: Sequence[View], until_s: float) -> None:
    """Refuses captures whose round trips show at losses only, where a half has none."""
    times = np.concatenate([view.tables["rtt_samples"]["time_s"].to_numpy() for view in views])
    if not (times <= until_s).any() or not (times > until_s).any():
        raise NoTwinError(_why_hidden(views[0]))


def _worth(stretch: Stretch) -> tuple[bool, float]:
    """Whether a stretch is long enough, and its bytes."""
    return _fault(stretch) is None, stretch.payload_bytes


def _fault(stretch: Stretch) -> str | None:
    """The reason why a stretch has no twin, and what would help."""
    if stretch.span_s < LEAST_S:
        return (
            f"its largest transfer without a pause has {_size(stretch.payload_bytes)} in {stretch.span_s:.2g} s: "
            f"a twin needs {LEAST_S:g} s or more, half of them to hold it against. "
            "Capture a longer upload or download"
        )
    if stretch.paused_s > MOST_PAUSED * stretch.span_s:
        return (
            f"in {_percent(stretch.paused_s / stretch.span_s)} of the time nothing is on its way, "
            "since the application pauses: a twin always has something to send. "
            "Capture a longer upload or download"
        )
    return None


def _why_hidden(one: View) -> str:
    """The reason why a flow's round trips do not show, and what would help."""
    row = one.row
    if row["rtt_samples"] < LEAST_SAMPLES:
        return (
            f"its largest flow has {row['data_packets']} packets of data and {row['acks']} ACKs, and shows "
            f"{row['rtt_samples']} round trips: a twin needs {LEAST_SAMPLES}. Capture both directions whole, with "
            "offloads off (ethtool -K DEV gro off lro off)"
        )
    return (
        "a queue before the place of the capture shows with TCP timestamps, or at losses, and this connection has "
        "neither, or too few: capture at the sender, or switch them on (Linux: sysctl "
        "net.ipv4.tcp_timestamps=1, Windows: netsh int tcp set global timestamps=enabled)"
    )


def _is_acked(row: Json) -> bool:
    """Whether the capture has ACKs of the data that it shows."""
    return bool(row["acks"]) and (row["goodput_bps"] is not None or bool(row["rtt_samples"]))


def _missed(row: Json) -> float:
    """Packets that the capture missed, as a part of all."""
    return float(row["lost_before_capture"] / max(1, row["lost_before_capture"] + row["data_packets"]))


def _flows(count: int) -> str:
    return f"{count} flow{'' if count == 1 else 's'}"


def _size(payload_bytes: float) -> str:
    return f"{payload_bytes / 1e3:.0f} kB" if payload_bytes < 1e6 else f"{payload_bytes / 1e6:.3g} MB"


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _within(tables: Tables, stretch: Stretch) -> dict[str, pl.DataFrame]:
    """The rows of a stretch."""
    is_in = pl.col("time_s").is_between(stretch.begin_s, stretch.end_s + PAUSE_S)
    return {name: table.filter(is_in) for name, table in tables.items()}


def _start_s(view: View) -> float:
    """When a connection would have begun whose first data leaves when the flow's does in this part of the capture."""
    data = view.tables["segments"].filter(pl.col("kind") == "data")
    least_ms = float(view.tables["rtt_samples"]["rtt_ms"].min() or 0.0) + view.near_ms  # type: ignore[arg-type]
    began_s = float(view.row["start_s"])
    first_s = float(data["time_s"].min() or 0.0) - least_ms / 1e3  # type: ignore[arg-type]
    # A handshake may take longer than the least round trip.
    has_begun = view.kind == "sender" and first_s - began_s < least_ms / 1e3
    return began_s if has_begun else max(first_s, began_s)


def _end_s(view: View, stretch: Stretch) -> float:
    """When the flow ends within a stretch: with its connection, or with its last ACK before a pause."""
    last_s = min(float(view.tables["segments"]["time_s"].max() or np.inf), stretch.end_s)  # type: ignore[arg-type]
    return min(float(view.row["end_s"]), last_s + PAUSE_S) if view.row["end_s"] - last_s <= PAUSE_S else last_s


def _flow(
    one: View,
    early: Tables,
    rows: Sequence[Json],
    origin: float,
    end_s: float,
    duration_s: float,
    grid: Array,
) -> ObservedFlow:
    """A flow of the twin."""
    row, part = one.row, one.tables
    window, flight = (part["windows"][name].max() for name in ("receive_window_bytes", "flight_bytes"))
    # Without the SYN the window is not scaled.
    limits = row["window_scale"] is not None and window and flight >= 0.9 * window  # type: ignore[operator]
    # Offload shows packets of many segments; on the wire they are as long as the MSS at most.
    mean = float(row["payload_bytes"]) / max(1, row["data_packets"])
    length = min(mean, float(row["mss_bytes"] or mean))
    data = part["segments"].filter(pl.col("kind").is_in(["data", "retransmission"]))
    sent = float((data["seq_to"] - data["seq_from"]).sum())
    new = payload(one, -np.inf, np.inf)
    least = early["rtt_samples"]["rtt_ms"].min() or part["rtt_samples"]["rtt_ms"].min() or row["rtt_min_ms"]
    if one.empty_ms is not None:
        least = min(float(least or one.empty_ms), one.empty_ms)  # type: ignore[arg-type]
    return ObservedFlow(
        one.number,
        row["source"],
        row["destination"],
        _start_s(one) - origin,
        end_s - origin,
        max(1, int(new)) if end_s < origin + duration_s - 1.0 else None,
        max(float(least or 0.0), LEAST_MS),  # type: ignore[arg-type]
        one.near_ms,
        round(float(row["payload_bytes"]) / length) / max(1, _acks_of(rows, row)),
        max(float(window), PACKET_BYTES) if limits else None,  # type: ignore[arg-type]
        sent,
        max(1, round(sent / length)),
        *_trace(one, origin, grid),
    )


def _with_packet(flow: ObservedFlow, one: View, rate_bps: float) -> ObservedFlow:
    """The flow with the time of a full packet in its round trips, where they come from those of SYNs.

    At the sender each sample has it. A SYN has hardly any.
    """
    if one.kind == "sender" or not one.has_handshake:
        return flow
    packet_ms = PACKET_BYTES * 8e3 / rate_bps
    trace = replace(flow.trace, srtt_ms=flow.trace.srtt_ms + packet_ms)
    return replace(flow, rtt_min_ms=flow.rtt_min_ms + packet_ms, trace=trace, newest_ms=flow.newest_ms + packet_ms)


def _acks_of(rows: Sequence[Json], row: Json) -> int:
    return next(
        (int(o["packets"]) for o in rows if o["connection"] == row["connection"] and o["flow"] != row["flow"]), 1
    )


def _trace(one: View, origin: float, grid: Array) -> tuple[FlowTrace, Array]:
    part, near_ms = one.tables, one.near_ms
    acks = part["segments"].filter(pl.col("kind") == "ack")
    times, acked = acks["time_s"].to_numpy() - origin, acks["seq_to"].to_numpy().astype(np.float64)
    at = np.searchsorted(times, grid, side="right")
    # Within a stretch, from what had been acknowledged before.
    before = float(acks["seq_from"][0]) if acks.height else 1.0
    acked = np.concatenate([[before], np.maximum.accumulate(acked)]) - before

    def on_grid(at_s: Array, samples_ms: Array) -> Array:
        smoothed = np.concatenate([[np.nan], _smooth(samples_ms + near_ms)])
        return smoothed[np.searchsorted(at_s - origin, grid, side="right")]

    rtts = part["rtt_samples"]
    if one.is_at_losses:
        newest = srtt = _at_steps(rtts["time_s"].to_numpy() - origin, rtts["rtt_ms"].to_numpy(), grid)
    else:
        newest = on_grid(rtts["time_s"].to_numpy(), rtts["rtt_ms"].to_numpy())
        srtt = on_grid(*_of_sender(part))
    resent = np.searchsorted(part["retransmissions"]["time_s"].to_numpy() - origin, grid, side="right")
    return FlowTrace(acked[at], srtt, resent.astype(np.float64)), newest


def _at_steps(times: Array, samples_ms: Array, grid: Array) -> Array:
    """Samples at the steps of the grid in which they were taken, and NaN elsewhere."""
    out = np.full(grid.size, np.nan)
    at = np.searchsorted(grid, times)
    out[at[at < grid.size]] = samples_ms[at < grid.size]
    return out


def _of_sender(part: Tables) -> tuple[Array, Array]:
    """Times and round trips in ms as the sender samples them: of the oldest packet that an ACK is the first to cover.

    A delayed ACK makes that longer than the newest packet's. Where the ACK covers something sent again, the sender has
    the timestamp of the last copy (RFC 7323), so its time counts. ACKs that only SACK are samples too, as in Linux
    (`tcp_ack_update_rtt`, since 3.12).
    """
    segments = part["segments"]
    data = segments.filter(pl.col("kind") == "data").sort("seq_from", maintain_order=True)
    again = segments.filter(pl.col("kind") == "retransmission")
    acks = segments.filter(pl.col("kind") == "ack")
    if not data.height or not acks.height:
        return np.empty(0), np.empty(0)
    starts, sent_s = data["seq_from"].to_numpy(), data["time_s"].to_numpy()
    times, new = acks["time_s"].to_numpy(), np.maximum.accumulate(acks["seq_to"].to_numpy())
    old = np.concatenate([starts[:1], new[:-1]])
    oldest_s = sent_s[np.maximum(np.searchsorted(starts, old, side="right") - 1, 0)]
    places, copies_s = np.sort(again["seq_from"].to_numpy()), again["time_s"].to_numpy()
    covers = np.searchsorted(places, new) > np.searchsorted(places, old)
    before = np.searchsorted(copies_s, times)
    if copies_s.size:
        oldest_s = np.where(covers & (before > 0), copies_s[np.maximum(before - 1, 0)], oldest_s)
    samples = 1e3 * (times - oldest_s)
    is_sample = (new > old) & (samples > 0)
    sacks = segments.filter(pl.col("kind").is_in(["dup_ack", "sack"])).select("time_s").unique()
    sacked = part["rtt_samples"].join(sacks, on="time_s", how="semi", maintain_order="left")
    times = np.concatenate([times[is_sample], sacked["time_s"].to_numpy()])
    samples = np.concatenate([samples[is_sample], sacked["rtt_ms"].to_numpy()])
    order = np.argsort(times, kind="stable")
    return times[order], samples[order]


def _smooth(samples: Array) -> Array:
    out = np.empty_like(samples)
    value = 0.0
    for i, sample in enumerate(samples):
        value = sample if i == 0 else value + ALPHA * (sample - value)
        out[i] = value
    return out


def _without_shared_queue(flows: Sequence[ObservedFlow], size: int) -> list[ObservedFlow]:
    """The flows with their least round trips, also of those that never met an empty queue.

    The queue that the first flow sees is taken from the others' samples: they share it.
    """
    first = min(flows, key=lambda flow: flow.start_s)
    queue = np.maximum(first.newest_ms[:size] - first.near_ms - first.rtt_min_ms, 0.0)
    out = []
    for flow in flows:
        seen = flow.newest_ms[:size] - flow.near_ms
        both = ~np.isnan(seen) & ~np.isnan(queue)
        least = flow.rtt_min_ms
        if flow is not first and both.sum() > LEAST_SHARED and _go_together(seen[both], queue[both]):
            least = min(least, max(0.1, float(np.median(seen[both] - queue[both]))))
        out.append(replace(flow, rtt_min_ms=least))
    return out


LEAST_SHARED: Final = 20
TOGETHER: Final = 0.8
"""Correlation from which two flows wait in the same queue."""


def _go_together(a: Array, b: Array) -> bool:
    return bool(a.std() > 0 and b.std() > 0 and np.corrcoef(a, b)[0, 1] >= TOGETHER)


STEADY: Final = 0.95
"""Speeds within this part of the highest are those of a line that is always busy."""


def _arrived(views: Sequence[View], origin: float, grid: Array) -> Array:
    """Bytes of payload that have come to the capture, of all flows together."""
    total = np.zeros(grid.size)
    for one in views:
        data = one.tables["segments"].filter(pl.col("kind").is_in(["data", "retransmission"]))
        sums = np.concatenate([[0.0], np.cumsum((data["seq_to"] - data["seq_from"]).to_numpy().astype(np.float64))])
        total += sums[np.searchsorted(data["time_s"].to_numpy() - origin, grid, side="right")]
    return total


def _rate(flows: Sequence[ObservedFlow], grid: Array, arrived: Array | None) -> tuple[float, bool]:
    """Rate at the IP layer, and whether a queue stood while it was seen.

    `arrived`: bytes that came over the line, where round trips between losses do not show. A line that is always busy
    has one speed.
    """
    size = grid.size
    acked = sum((flow.trace.acked[:size] for flow in flows), start=np.zeros(size))
    payload = acked if arrived is None else arrived
    per_packet = [flow.payload_bytes / max(1, flow.data_packets) for flow in flows]
    wire = payload * (1 + OVERHEAD_BYTES / max(200.0, float(np.mean(per_packet))))
    rtt_s = max(flow.rtt_min_ms for flow in flows) / 1e3
    steps = max(4, int(np.ceil(max(4 * rtt_s, 0.4) / STEP_S)))
    if wire.size <= steps:
        steps = max(1, wire.size // 2)
    speeds = (wire[steps:] - wire[:-steps]) * 8 / (steps * STEP_S)
    guess = float(np.percentile(speeds, 95)) if speeds.size else 0.0
    if guess <= 0:
        raise NoTwinError(
            "in the first half of its largest transfer hardly anything is acknowledged: capture a longer one"
        )
    if arrived is not None:
        steady = speeds[speeds >= STEADY * guess]
        return (float(np.median(steady)), True) if steady.size >= speeds.size / 2 else (guess, False)
    # The queue stands wherever any flow waits for more than two packets.
    above = np.zeros(grid.size)
    for flow in flows:
        extra = flow.newest_ms[:size] - flow.rtt_min_ms - flow.near_ms
        above = np.fmax(above, np.nan_to_num(extra, nan=0.0))
    stands = above > 2 * PACKET_BYTES * 8e3 / guess + 0.5
    full = np.convolve(stands.astype(np.float64), np.ones(steps), mode="valid")[1:] >= steps
    resent = sum((flow.trace.resent[:size] for flow in flows), start=np.zeros(size))
    calm = resent[steps:] == resent[:-steps]
    for chosen in (full & calm, full):
        if chosen.sum() >= 3 and np.median(speeds[chosen]) > 0:
            return float(np.median(speeds[chosen])), True
    return guess, False


FULL: Final = 0.7
"""A full queue is at least this part of the longest waiting that was seen."""
BURST_PACKETS: Final = 6
BURST_PERCENTILE: Final = 98
MOST_AT_ONCE: Final = 2.5
"""Packets that one acknowledgement in order covers at most."""


def _burst_bps(part: Tables, flow: ObservedFlow) -> float:
    """The rate at which bursts of packets are acknowledged."""
    acks = part["segments"].filter(pl.col("kind") == "ack")
    times, acked = acks["time_s"].to_numpy(), acks["seq_to"].to_numpy().astype(np.float64)
    payload = flow.payload_bytes / max(1, flow.data_packets)
    ends = np.searchsorted(acked, acked + BURST_PACKETS * payload)
    inside = ends < acked.size
    if inside.sum() < BURST_PACKETS:
        return 0.0
    # An acknowledgement that fills a hole covers what had arrived long before.
    steps = np.diff(acked, prepend=acked[:1])
    jumps = np.concatenate([[0], np.cumsum(steps > MOST_AT_ONCE * payload)])
    first = np.flatnonzero(inside)
    last = ends[inside]
    smooth = (jumps[last + 1] == jumps[first + 1]) & (times[last] > times[first])
    first, last = first[smooth], last[smooth]
    if first.size < BURST_PACKETS:
        return 0.0
    speeds = (acked[last] - acked[first]) * 8 / (times[last] - times[first])
    return float(np.percentile(speeds, BURST_PERCENTILE)) * (1 + OVERHEAD_BYTES / payload)


TOGETHER_PACKETS: Final = 16
BURSTY: Final = 2.0
"""Speed of 16 packets, as a multiple of the rate, that a line does not reach and a radio exceeds."""


def _is_bursty(flows: Sequence[ObservedFlow], parts: Mapping[int, Tables], rate_bps: float) -> bool:
    """Whether one in twenty runs of 16 packets, of all flows together, is acknowledged far faster than the rate.

    On simulated networks of development the 95th percentile was 0.97 to 1.12 times the rate of lines, whatever their
    queue, and 29 times and more that of radios.
    """
    acks = pl.concat([parts[flow.number]["segments"].filter(pl.col("kind") == "ack") for flow in flows]).sort("time_s")
    steps = (
        acks.with_columns(new=pl.col("seq_to").cast(pl.Int64).cum_max().over("flow"))
        .with_columns(step=pl.col("new").diff().over("flow").fill_null(0))["step"]
        .to_numpy()
    )
    payload = float(np.mean([flow.payload_bytes / max(1, flow.data_packets) for flow in flows]))
    times, acked = acks["time_s"].to_numpy(), np.cumsum(steps)
    ends = np.searchsorted(acked, acked + TOGETHER_PACKETS * payload)
    first = np.flatnonzero(ends < acked.size)
    if first.size < TOGETHER_PACKETS:
        return False
    last = ends[first]
    # What fills a hole acknowledges at once what had come through long before.
    jumps = np.concatenate([[0], np.cumsum(steps > MOST_AT_ONCE * payload)])
    in_order = jumps[last + 1] == jumps[first + 1]
    first, last = first[in_order], last[in_order]
    if first.size < TOGETHER_PACKETS:
        return False
    took = np.maximum(times[last] - times[first], 1e-9)
    return bool(np.percentile((acked[last] - acked[first]) * 8 / took, 95) > BURSTY * rate_bps)


def _longest_ms(flow: ObservedFlow, part: Tables) -> float:
    """The longest waiting of a flow's packets, but for one in two hundred."""
    rtts = part["rtt_samples"]["rtt_ms"].to_numpy()
    return float(np.percentile(rtts, 99.5)) - flow.rtt_min_ms if rtts.size else 0.0


def _losses(
    flows: Sequence[ObservedFlow], parts: Mapping[int, Tables], rate_bps: float, *, is_at_losses: bool = False
) -> tuple[float | None, float, float, float]:
    """Packets that the queue held when it overflowed, and losses per data packet: those at no full queue, and all.

    Of a burst of losses at no full queue one counts. The last value is how many packets such a burst has.
    """
    waits: list[float] = []
    highest = 0.0
    lost = data = 0
    weights: list[int] = []
    for flow in flows:
        table = parts[flow.number]["retransmissions"].filter(~pl.col("spurious"))
        samples = parts[flow.number]["rtt_samples"]
        times, rtts = samples["time_s"].to_numpy(), samples["rtt_ms"].to_numpy()
        highest = max(highest, _longest_ms(flow, parts[flow.number]))
        sent = parts[flow.number]["segments"].filter(pl.col("kind") == "data")
        length = flow.payload_bytes / max(1, flow.data_packets)
        data += round(int((sent["seq_to"] - sent["seq_from"]).sum()) / length)
        last, is_known = -math.inf, False
        for time_s, waited_s in zip(table["time_s"].to_list(), table["waited_s"].to_list(), strict=True):
            lost += 1
            if time_s - last < 2 * flow.rtt_min_ms / 1e3:
                if is_known:
                    weights[-1] += 1
                continue
            last, is_known = time_s, False
            # Those acknowledged just before the loss was known were sent just before the lost one.
            until = np.searchsorted(times, time_s)
            first = np.searchsorted(times, time_s - min(waited_s or 0.0, 0.5 * flow.rtt_min_ms / 1e3 + 0.01))
            near = rtts[first if is_at_losses else max(0, first - 3) : until]
            if near.size:
                is_known = True
                waits.append(max(0.0, float(near.max()) - flow.rtt_min_ms))
                weights.append(1)
    if not waits:
        return None, 0.0, 0.0, 1.0
    full_ms = float(np.percentile(waits, 90))
    events = [weight for wait, weight in zip(waits, weights, strict=False) if wait < 0.5 * full_ms]
    alone = sum(events)
    far_from_full = [weight for wait, weight in zip(waits, weights, strict=False) if wait < 0.5 * highest]
    burst_packets = _burst_packets(flows, far_from_full) if events else 1.0
    if burst_packets > 1:
        lost -= sum(far_from_full) - len(far_from_full)
        alone = len(events)
    at_full = [wait for wait in waits if wait >= 0.5 * full_ms]
    packets = float(np.median(at_full)) / 1e3 * rate_bps / 8 / PACKET_BYTES
    product = rate_bps * min(flow.rtt_min_ms for flow in flows) / 1e3 / 8 / PACKET_BYTES
    # Of a queue that losses find nearly empty, or far from as long as it gets, nothing is known.
    is_seen = packets >= 3 + 0.05 * product and float(np.median(at_full)) >= FULL * highest
    return packets if is_seen else None, alone / max(1, data), lost / max(1, data), burst_packets


BURSTS: Final = 4.0
"""Losses come in bursts if events have so many times the further packets that single losses give them."""
LEAST_FURTHER: Final = 5


def _burst_packets(flows: Sequence[ObservedFlow], events: Sequence[int]) -> float:
    """The mean number of packets that were lost at a time; 1 if that is what single losses give.

    Losses within two round trips are one event. Single losses give an event as many further packets as fall into that
    time.
    """
    seconds = sum((flow.stop_s - flow.start_s) * SHARE for flow in flows)
    further = sum(events) - len(events)
    if further < LEAST_FURTHER or seconds <= 0:
        return 1.0
    rtt_s = float(np.mean([flow.rtt_min_ms for flow in flows])) / 1e3
    by_chance = len(events) * sum(events) / seconds * 2 * rtt_s
    return sum(events) / len(events) if further > BURSTS * by_chance else 1.0
