"""Values of a checked scenario as JSON: ends of flows, names of policies, rates, times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def host_of(end: str) -> str:
    """The node of an end of a flow: `sta` of `sta[3]`."""
    return re.sub(r"\[\d+\]$", "", end)


def stations_of(scenario: Mapping[str, Any]) -> set[str]:
    """The nodes that are stations of its WLANs. An entry is a name or a table."""
    return {
        host_of(entry if isinstance(entry, str) else entry["node"])
        for wlan in scenario.get("wlans", [])
        for entry in wlan["stations"]
    }


def name_of(value: Any) -> str:  # noqa: ANN401
    """The name of a policy or kind, given as a name or as a table."""
    if isinstance(value, Mapping):
        return str(value.get("name", value.get("kind", "")))
    return str(value)


def bps(rate: str | float) -> float:
    """Bits per second of a rate as scenarios write it."""
    if isinstance(rate, (int, float)):
        return float(rate)
    found = re.fullmatch(r"([0-9.]+)\s*([kMGT]?)bit/s", rate)
    assert found is not None, rate
    return float(found[1]) * {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[found[2]]


def seconds(span: str) -> float:
    """Seconds of a span as scenarios write it; NaN if it is none."""
    found = re.fullmatch(r"([0-9.]+)\s*(ns|us|ms|s|min|h)", span.strip())
    scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
    return float(found[1]) * scale[found[2]] if found else float("nan")
