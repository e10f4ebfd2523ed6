"""Settings of a scenario that do less than one may believe, and a default that does not fit: a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]

OF_ACKS: Final = (
    "delayed_ack",
    "delayed_ack_tick",
    "ack_every",
    "acks_per_rtt",
    "quick_acks",
    "pushed_acks",
    "compressed_sacks",
    "compressed_sack_delay",
    "compressed_sack_slack",
)
"""Options of TCP that act on the ACKs that an end sends, and so on those of the data that it receives."""
IGB_BPS: Final = 1e9
"""Rate of the cards that igb drives."""


def notes(scenario: Mapping[str, Any]) -> list[str]:
    """A sentence for each, of a scenario as `airtcp check --json` prints it."""
    return [*_acks(scenario), *_rate_control(scenario), *_cards(scenario)]


def _acks(scenario: Mapping[str, Any]) -> Iterator[str]:
    for flow in scenario.get("flows") or ():
        if flow["traffic"]["kind"] in ("cbr", "ping"):
            continue
        own = flow.get("tcp") or {}
        receiver = flow.get("receiver") or {}
        if keys := [key for key in OF_ACKS if own.get(key) is not None and receiver.get(key) is None]:
            of_sender, of_receiver = (_list([f"{end}.{key}" for key in keys]) for end in ("tcp", "receiver"))
            yield (
                f"flow `{flow['name']}`: {of_sender} {_act(keys, 'does', 'do')} not act on the ACKs of its data, which "
                f"the receiver sends: set {of_receiver} for them"
            )


def _rate_control(scenario: Mapping[str, Any]) -> Iterator[str]:
    for wlan in scenario.get("wlans") or ():
        if (wlan.get("ap_radio") or {}).get("rate_control") is not None:
            continue
        tables = [station for station in wlan["stations"] if isinstance(station, Mapping)]
        stations = [s["node"] for s in tables if (s.get("radio") or {}).get("rate_control") is not None]
        all_of_them = (wlan.get("station_radio") or {}).get("rate_control") is not None
        if stations or all_of_them:
            key = "`station_radio.rate_control`" if all_of_them else f"`radio.rate_control` of {_list(stations[:3])}"
            yield (
                f"WLAN `{wlan['name']}`: {key} is for what stations send: the access point keeps its own rate control "
                f"towards them, and `ap_radio.rate_control` sets that"
            )


def _cards(scenario: Mapping[str, Any]) -> Iterator[str]:
    """Hosts whose profile has them receive with igb, at a line that is faster than its cards."""
    hosts = {
        node["name"]: node for node in scenario.get("nodes") or () if node["kind"] == "host" and _default_is_igb(node)
    }
    for link in scenario.get("links") or ():
        rates = [link.get("rate"), (link.get("reverse") or {}).get("rate")]
        fastest = max((bits_per_second(rate) for rate in rates if rate), default=0.0)
        ends = [end for end in (link["from"], link["to"]) if end.split("[")[0] in hosts]
        if fastest > IGB_BPS and ends:
            yield (
                f"link `{link['name']}` is faster than 1 Gbit/s, and {_list(ends)} {_act(ends, 'receives', 'receive')} "
                f"with `igb`, a gigabit card that gathers packets for some 190 us: set `receive_offload` of the node, "
                f'such as "napi"'
            )


def _default_is_igb(node: Mapping[str, Any]) -> bool:
    offload = node.get("receive_offload")
    if isinstance(offload, Mapping):
        offload = offload.get("name")
    return offload is None and str(node.get("profile", "linux-6")).startswith("linux-6")


def bits_per_second(rate: str) -> float:
    """A rate as scenarios write it."""
    for unit, factor in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0)):
        if rate.endswith(unit):
            return float(rate.removesuffix(unit)) * factor
    raise ValueError(rate)


def _list(names: Sequence[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _act(names: Sequence[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several
