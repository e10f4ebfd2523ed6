"""Kinds of traffic by what their flows measure. A kind of the registry that is in none of the tuples fails a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from airtcp.scenario_json import name_of

BULK: Final = ("unlimited", "transfer", "stream")
"""Kinds of TCP traffic whose goodput counts."""
TIMED: Final = ("transfer", "web")
"""Kinds of TCP traffic that end, whose times count."""
TCP: Final = (*BULK, "web")
"""Applications on TCP."""
ONE_WAY_PROBES: Final = ("call", "train")
"""Kinds of traffic whose packets show the latency of one direction."""
PROBES: Final = (*ONE_WAY_PROBES, "ping")
"""Kinds of traffic that show the latency."""
WITHOUT_MEASURE: Final = ("cbr", "buffer_probe")
"""Kinds of traffic that load the network and are not scored."""


class Figure(NamedTuple):
    """A number of a group of flows that a sweep measures where nothing else is asked for."""

    name: str
    column: str
    """Key of the group in the summary."""
    label: str
    unit: str | None = None
    scale: float = 1.0


GOODPUT: Final = Figure("goodput", "goodput_bps", "goodput", "Mbit/s", 1e-6)
RTT: Final = Figure("rtt", "rtt_mean_ms", "RTT", "ms")
TRANSFER_TIME: Final = Figure("transfer_time", "transfer_mean_s", "time of a transfer", "s")
FIGURES: Final[Mapping[str, tuple[Figure, ...]]] = {
    "unlimited": (GOODPUT, RTT),
    "transfer": (GOODPUT, RTT, TRANSFER_TIME),
    "web": (GOODPUT, RTT, TRANSFER_TIME),
    "stream": (GOODPUT, RTT),
    "ping": (RTT,),
    "cbr": (GOODPUT, Figure("delay", "delay_mean_ms", "delay", "ms")),
    "train": (Figure("received", "received", "packets received"),),
    "call": (
        Figure("delay_p95", "call_delay_p95_ms", "95th percentile of delay", "ms"),
        Figure("grade", "call_grade", "rating R"),
    ),
    "buffer_probe": (
        Figure("raw", "buffer_raw_packets", "raw estimate", "packets"),
        Figure("corrected", "buffer_corrected_packets", "corrected estimate", "packets"),
    ),
}
"""Figures of each kind of traffic."""


def kind(flow: Mapping[str, Any]) -> str:
    """The kind of a flow's traffic."""
    return name_of(flow.get("traffic", "unlimited"))
