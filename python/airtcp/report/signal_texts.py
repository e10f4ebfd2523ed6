"""Signals of stations in words, for the picture of a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

Json = Mapping[str, Any]
SignalText = tuple[str, float] | str | None
"""A signal in words, a number and the words around it, or nothing to say."""


def _table(value: Any) -> Json:  # noqa: ANN401
    """A table that may be given as its kind alone."""
    return {"kind": value} if isinstance(value, str) else value or {}


def signal_text(wlan: Json, station: Json) -> SignalText:
    """The signal in words, or a number and the words around it."""
    own, common = (_table(one.get("signal")) for one in (station, wlan))
    signal = {**common, **own} if own.get("kind", common.get("kind")) == common.get("kind") else own
    tell = SIGNAL_TEXTS.get(str(signal.get("kind", "perfect")))
    return None if tell is None else tell(signal, wlan, station)


def _path_loss(signal: Json, wlan: Json, station: Json) -> SignalText:
    distance = signal.get("distance_m")
    if distance is None and station.get("position_m"):
        distance = math.dist(station["position_m"], wlan.get("ap_position_m") or (0, 0))
    return "path loss" if distance is None else ("{} m away", round(distance, 1))


def _error_rate(signal: Json, _wlan: Json, _station: Json) -> SignalText:
    rate = signal.get("rate")
    return "frame errors" if rate is None else ("{} % of frames lost", 100 * rate) if rate else None


SIGNAL_TEXTS: Final[dict[str, Callable[[Json, Json, Json], SignalText]]] = {
    "perfect": lambda *_: None,
    "error_rate": _error_rate,
    "bit_errors": lambda *_: "bit errors",
    "snr": lambda signal, *_: ("SNR {} dB", signal["snr_db"]),
    "path_loss": _path_loss,
    "trace": lambda *_: "signal over time",
}
"""Kinds of signal of the registry, and the text for each: of a signal, its WLAN and its station."""
