"""The twin of a capture: a scenario with one bottleneck whose flows behave as those of the capture do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airtcp import _airtcp
from airtcp.advice.observed import OVERHEAD_BYTES, PACKET_BYTES, STEP_S, FlowTrace, Observed, ObservedFlow

Json = dict[str, Any]

QUEUES: Final = ("fifo", "fq_codel", "codel", "pie")
"""Queues of a line."""
AIR_QUEUES: Final = ("ap_fifo", "mac80211")
"""Queues of an access point: drop-tail before ath9k's driver queue, and Linux's own since 4.11."""
DROP_TAIL: Final = ("fifo", "ap_fifo")
DRIVER_FRAMES: Final = 123
"""Frames that the driver of `ap_fifo` holds: ath9k's (`ATH_MAX_QDEPTH`)."""
AIR_MS: Final = 1.0
"""Round trip of a lone packet and its ACK over the air: contention, two preambles and two acknowledgements."""
RADIOS: Final[dict[str, Json]] = {
    "802.11n, 20 MHz": {"standard": "n", "width_mhz": 20},
    "802.11n, 40 MHz, 2 streams": {"standard": "n", "width_mhz": 40, "streams": 2},
    "802.11ac, 80 MHz, 2 streams": {"standard": "ac", "width_mhz": 80, "streams": 2},
}
"""Radios that are tried, the slowest first."""
CONTROLS: Final = ("cubic", "reno", "bbr")
ACCESS_MS: Final = 0.05
ACK_EVERY_ONE: Final = 1.2
"""Up to so many data packets per ACK, the receiver does not delay them."""


@dataclass(frozen=True)
class Path:
    """The values that the search varies."""

    rate_bps: float
    buffer_packets: float
    queue: str
    cc: str
    loss: float = 0.0
    radio: str | None = None
    """One of `RADIOS`; `None`: the bottleneck is a line."""
    snr_db: float = 0.0
    """Signal of the radio. With one, `rate_bps` is the rate that the capture showed, and sets nothing."""

    @property
    def is_chancy(self) -> bool:
        """Whether two runs differ by more than their start: losses are random, or radios draw their backoffs."""
        return self.loss > 0 or self.radio is not None

    def changed(self, **values: Any) -> Path:  # noqa: ANN401
        """The path with other values."""
        return replace(self, **values)

    def to_dict(self) -> Json:
        """The path as JSON values."""
        return {
            "rate_bps": round(self.rate_bps),
            "buffer_packets": round(self.buffer_packets) if self.queue in DROP_TAIL else None,
            "queue": self.queue,
            "congestion_control": self.cc,
            "random_loss": round(self.loss, 6),
            **({} if self.radio is None else {"radio": self.radio, "snr_db": round(self.snr_db, 1)}),
        }


def scenario(observed: Observed, path: Path, *, until_s: float | None = None, name: str = "twin") -> Json:
    """The twin as a scenario that anyone can read and run."""
    flows = [flow for flow in observed.flows if until_s is None or flow.start_s < until_s]
    sources = list(dict.fromkeys(flow.source for flow in flows))
    targets = list(dict.fromkeys(flow.destination for flow in flows))
    # Of a packet that waits for nothing.
    packet_ms = PACKET_BYTES * 8e3 / path.rate_bps if path.radio is None else AIR_MS
    one_way = {
        target: min(_one_way(flow, packet_ms) for flow in flows if flow.destination == target) for target in targets
    }
    common = min(one_way.values())
    near = {source: min(flow.near_ms for flow in flows if flow.source == source) / 2 for source in sources}
    fast = f"{max(1_000_000_000, round(10 * path.rate_bps))}bit/s"
    duration_s = until_s if until_s is not None else observed.duration_s
    links: list[Json] = [
        {
            "name": f"access-{i + 1}",
            "from": f"sender-{i + 1}",
            "to": "near",
            "rate": fast,
            "delay": _ms(max(ACCESS_MS / 2, near[source])),
        }
        for i, source in enumerate(sources)
    ]
    bottleneck: Json = {"name": "bottleneck", "from": "near", "to": "far", "delay": _ms(max(0.001, common - ACCESS_MS))}
    air: Json = {}
    if path.radio is None:
        queue: Json = {"name": path.queue}
        if path.queue == "fifo":
            queue["limit_packets"] = max(1, round(path.buffer_packets))
        links += [
            {
                **bottleneck,
                "rate": f"{round(path.rate_bps)}bit/s",
                "loss": round(path.loss, 8),
                "queue": queue,
                "reverse": {"rate": fast, "queue": "fifo", "loss": 0.0},
            },
            *(
                {
                    "name": f"exit-{i + 1}",
                    "from": "far",
                    "to": f"receiver-{i + 1}",
                    "rate": fast,
                    "delay": _ms(ACCESS_MS / 2 + one_way[target] - common),
                }
                for i, target in enumerate(targets)
            ),
        ]
    else:
        links.append({**bottleneck, "name": "line", "rate": fast})
        air = {"wlans": [_wlan(path, len(targets))]}
    return {
        "name": name,
        "duration": _ms(duration_s * 1e3),
        "nodes": [
            *({"name": f"sender-{i + 1}", "kind": "host"} for i in range(len(sources))),
            {"name": "near", "kind": "router"},
            {"name": "far", "kind": "router"},
            *({"name": f"receiver-{i + 1}", "kind": "host"} for i in range(len(targets))),
        ],
        "links": links,
        **air,
        "flows": [
            {
                "name": f"flow-{flow.number}",
                "from": f"sender-{sources.index(flow.source) + 1}",
                "to": f"receiver-{targets.index(flow.destination) + 1}",
                "start": _ms(flow.start_s * 1e3),
                "traffic": (
                    "unlimited"
                    if flow.size_bytes is None
                    else {"kind": "transfer", "bytes": f"{max(1, flow.size_bytes)}B"}
                ),
                "tcp": {"cc": path.cc},
                **_receiver(flow),
            }
            for flow in flows
        ],
    }


def _wlan(path: Path, stations: int) -> Json:
    """The access point `far` and the receivers, each at the same signal."""
    assert path.radio is not None
    transmit: Json | str = "mac80211"
    if path.queue == "ap_fifo":
        frames = min(DRIVER_FRAMES, max(2, round(path.buffer_packets) - 1))
        before = max(1, round(path.buffer_packets) - frames)
        transmit = {"name": "qdisc", "qdisc": {"name": "fifo", "limit_packets": before}, "driver_frames": frames}
    return {
        "name": "wlan",
        "ap": "far",
        "stations": [f"receiver-{i + 1}" for i in range(stations)],
        "signal": {"kind": "snr", "snr_db": round(path.snr_db, 3)},
        "phy": RADIOS[path.radio],
        "ap_radio": {"transmit": transmit},
    }


def _receiver(flow: ObservedFlow) -> Json:
    options: Json = {}
    if flow.packets_per_ack <= ACK_EVERY_ONE:
        options["ack_every"] = 1
    if flow.window_bytes is not None:
        options["receive_buffer"] = options["receive_buffer_max"] = f"{round(flow.window_bytes)}B"
    return {"receiver": options} if options else {}


def _one_way(flow: ObservedFlow, packet_ms: float) -> float:
    return max(0.05, (flow.rtt_min_ms - packet_ms) / 2)


def _ms(value: float) -> str:
    return f"{round(value * 1e3)}us"


def run(document: Json, flows: int, seed: int = 1) -> list[FlowTrace]:
    """The traces of a twin's flows, in the order of its flows."""
    record = {"interval": _ms(STEP_S * 1e3), "flow_series_max": flows, "links": [], "drops": [], "air_series": []}
    checked = _airtcp.Checked.from_json(json.dumps({**document, "seed": seed, "record": record}), "twin", [])
    one = _airtcp.Run(checked, None, False)
    end_s = one.end_s
    one.advance(end_s)
    table = one.finish().tables["flow_series"]
    columns = {
        name: np.asarray(table[name]) for name in ("time_s", "flow", "bytes_acked", "srtt_ms", "segments_retransmitted")
    }
    traces = []
    steps = max(1, round(end_s / STEP_S))
    grid = np.arange(1, steps + 1) * STEP_S
    for flow in range(flows):
        is_own = columns["flow"] == flow
        at = np.searchsorted(columns["time_s"][is_own], grid + 1e-9, side="right")

        def of(name: str, first: float, is_own: Any = is_own, at: Any = at) -> Any:  # noqa: ANN401
            return np.concatenate([[first], columns[name][is_own].astype(np.float64)])[at]

        srtt = of("srtt_ms", np.nan)
        traces.append(
            FlowTrace(of("bytes_acked", 0.0), np.where(srtt > 0, srtt, np.nan), of("segments_retransmitted", 0.0))
        )
    return traces


# --- how far one is from the other ------------------------------------------------------------------------------------

BINS: Final = 6
QUANTILES: Final = (5, 25, 50, 75, 90, 98)


def round_trips(trace: FlowTrace, first: int, last: int, *, is_at_losses: bool = False) -> NDArray[np.float64]:
    """The smoothed round trips of some steps: of all, or of those in which packets are sent again."""
    srtt_ms = trace.srtt_ms[first:last]
    if is_at_losses:
        resent = np.diff(trace.resent, prepend=0.0)[first:last]
        # The first after some steps without: what follows in the same recovery meets a shorter queue.
        is_first = (resent > 0) & (np.concatenate([[0.0], resent[:-1]]) == 0)
        srtt_ms = srtt_ms[is_first]
    return srtt_ms[~np.isnan(srtt_ms)]


def distance(
    ours: Sequence[FlowTrace],
    theirs: Sequence[FlowTrace],
    weights: Sequence[float],
    *,
    is_at_losses: bool = False,
) -> float:
    """The distance of a run's traces from those of the capture, on the part that both have; 0: the same.

    Goodput over six parts of the time, quantiles of the smoothed round trip, and retransmissions, each as the logarithm
    of a ratio; flows count by their bytes. Where the capture shows round trips at losses only, those of the run are
    taken there as well.
    """
    total = 0.0
    for mine, other, weight in zip(ours, theirs, weights, strict=True):
        size = min(mine.acked.size, other.acked.size)
        edges = np.linspace(0, size - 1, BINS + 1).astype(int)
        floor = 1e-3 * max(other.acked[size - 1], 1.0) + 1500
        # Sorted: when a lost packet comes is chance, how slow the slow parts are is not.
        a, b = (np.sort(np.diff(trace.acked[edges])) + floor for trace in (mine, other))
        speed = float(np.sqrt(np.mean(np.clip(np.log(a / b), -1, 1) ** 2)))
        speed += abs(float(np.log((mine.acked[size - 1] + floor) / (other.acked[size - 1] + floor))))
        x = round_trips(mine, 0, size, is_at_losses=is_at_losses)
        y = round_trips(other, 0, size)
        delay = 1.0
        if x.size and y.size:
            delay = float(np.mean(np.abs(np.log(np.percentile(x, QUANTILES) / np.percentile(y, QUANTILES)))))
        sent = [
            abs(float(np.sqrt(_count(mine, size)) - np.sqrt(_count(other, size)))) / (2 + np.sqrt(_count(other, size)))
        ]
        sent.append(abs(_episodes(mine, size) - _episodes(other, size)) / (2 + _episodes(other, size)))
        total += weight * (speed + 2 * delay + 0.5 * sum(sent))
    return total / sum(weights)


def _count(trace: FlowTrace, size: int) -> float:
    return float(trace.resent[size - 1])


def _episodes(trace: FlowTrace, size: int) -> int:
    """Times at which retransmissions begin: steps with some, after four without."""
    steps = np.flatnonzero(np.diff(trace.resent[:size], prepend=0.0) > 0)
    return int(steps.size and 1 + (np.diff(steps) > 4).sum())


def rate_of_payload(traces: Sequence[FlowTrace], first: int, last: int) -> float:
    """Bytes acknowledged per second of all flows together, between two steps of the grid."""
    span = (last - first) * STEP_S
    return float(sum(trace.acked[last] - trace.acked[first] for trace in traces)) / span


def line_bps(payload_per_s: float) -> float:
    """Bits per second at the IP layer for a rate of payload, with full packets."""
    return payload_per_s * 8 * PACKET_BYTES / (PACKET_BYTES - OVERHEAD_BYTES)
