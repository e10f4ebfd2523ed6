"""Kinds of traffic by what their flows measure. A kind of the registry that is in none of the tuples fails a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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


def kind(flow: Mapping[str, Any]) -> str:
    """The kind of a flow's traffic."""
    return name_of(flow.get("traffic", "unlimited"))
