"""A scenario as remedies see it: which hosts are on the air, who sends, and where a remedy's `set` goes.

The catalogue names places by role. `profiles.user` are the hosts on the air, `profiles.server` those behind wires; a
network without a radio has users only. A remedy at one end of TCP is put on the hosts that are that end. Each such host
gets a profile of its own that is based on the one it has.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, assert_never

from airtcp import _airtcp
from airtcp.catalogue import Catalogue, Needs, Remedy
from airtcp.scenario_json import bps, host_of, name_of, stations_of
from airtcp.traffic_kinds import ONE_WAY_PROBES, PROBES, TCP, kind

Json = dict[str, Any]

DEFAULT_PROFILE: Final = "linux-6"


class NotHereError(Exception):
    """A remedy cannot be tried on this network; the message says why."""


@dataclass(frozen=True)
class Bottleneck:
    """One direction of a wired line: where the packets of this network wait."""

    entry: int
    """Index in `links` of the scenario."""
    is_reverse: bool
    name: str
    rate_bps: float
    waiting_ms: float
    """Mean time in its queue."""
    rtt_ms: float
    """Mean of the least round trips of the TCP flows."""
    source: str


class Network:
    """A resolved scenario, with every default written out."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document: Final[Json] = copy.deepcopy(dict(document))
        self.counts: Final = {
            node["name"]: node.get("count", 1) for node in document["nodes"] if node["kind"] == "host"
        }
        self.profiles: Final[Json] = {
            node["name"]: node.get("profile", DEFAULT_PROFILE) for node in document["nodes"] if node["kind"] == "host"
        }
        self.wlans: Final[list[Json]] = document.get("wlans", [])
        self.stations: Final = stations_of(document)
        flows = document["flows"]
        self.senders: Final = {host_of(flow["from"]) for flow in flows if kind(flow) in TCP}
        self.receivers: Final = {host_of(flow["to"]) for flow in flows if kind(flow) in TCP}

    # --- what is there ------------------------------------------------------------------------------------------------

    @property
    def has_probes(self) -> bool:
        """Whether the scenario has traffic that shows the latency."""
        return any(kind(flow) in PROBES for flow in self.document["flows"])

    def with_pings(self) -> Network:
        """With a ping beside each group of TCP flows, ten times a second, if nothing shows the latency yet."""
        if self.has_probes:
            return self
        document = copy.deepcopy(self.document)
        seen = set()
        for flow in self.document["flows"]:
            ends = tuple(_one(flow[end], self.counts) for end in ("from", "to"))
            if kind(flow) in TCP and ends not in seen:
                seen.add(ends)
                document["flows"].append(
                    {
                        "name": f"advise-ping-{len(seen)}",
                        "from": ends[0],
                        "to": ends[1],
                        "start": {"from": "0s", "to": "100ms"},
                        "traffic": {"kind": "ping", "interval": "100ms", "packet_bytes": 84},
                    }
                )
        return Network(document)

    def value(self, profile: str, place: Sequence[str]) -> Any:  # noqa: ANN401
        """An option of a profile, or else of its base, and so on."""
        for _ in range(20):
            table = self.document.get("profiles", {}).get(profile)
            own = table is not None
            table = table if own else builtin(profile)
            found: Any = table
            for part in place:
                found = found.get(part) if isinstance(found, Mapping) else None
            if found is not None:
                return found
            if table.get("base") is None and not own:
                return None
            profile = table.get("base", DEFAULT_PROFILE)
        return None

    def _fault(self, need: Needs, hosts: Iterable[str]) -> str | None:
        """Why the network does not have what a remedy needs."""
        radios = [wlan.get("ap_radio", {}).get("transmit", "mac80211") for wlan in self.wlans]
        is_modern = [name_of(one) == "mac80211" for one in radios]
        up = [flow for flow in self.document["flows"] if kind(flow) in TCP and host_of(flow["from"]) in self.stations]
        down = [flow for flow in self.document["flows"] if _is_call_down(flow, self.stations)]
        match need:
            case "plain AP":
                is_there = bool(self.wlans) and not any(is_modern)
                return None if is_there else self._without_radio("the access point has mac80211's queues")
            case "mac80211 AP":
                is_there = bool(self.wlans) and all(is_modern)
                return None if is_there else self._without_radio("the access point does not have mac80211's queues")
            case "uploads":
                return None if up else "no host on the air sends with TCP"
            case "calls":
                return None if down else "no call or game goes to a host on the air"
            case "hosts of 2014":
                is_there = any(self.value(self.profiles[host], ["tsq"]) == "off" for host in hosts)
                return None if is_there else "the hosts have small queues"
            case "varying line":
                is_there = any(varies(entry) for entry in self.document.get("links", []))
                return None if is_there else "no line has a rate that varies"
            case "no RACK":
                is_there = any(name_of(self.value(self.profiles[host], ["loss"])) != "rack" for host in hosts)
                return None if is_there else "the senders have it"
            case _:
                # The type checker fails here if a need of the catalogue has no case.
                assert_never(need)

    def _without_radio(self, otherwise: str) -> str:
        return otherwise if self.wlans else "there is no radio"

    # --- remedies -----------------------------------------------------------------------------------------------------

    def with_remedy(self, catalogue: Catalogue, name: str, line: Bottleneck | None) -> tuple[Network, tuple[str, ...]]:
        """The network with a remedy, and what had to be changed for it.

        Raises:
            NotHereError: it does not apply here.
        """
        network, affected = self, set[str]()
        for one in catalogue.alone(name):
            network, hosts = network._with_one(one, line)
            affected |= hosts
        if network.document == self.document:
            raise NotHereError("is there already")
        return network, self._changes(catalogue[name].changes, affected, line)

    def _with_one(self, remedy: Remedy, line: Bottleneck | None) -> tuple[Network, set[str]]:
        document = copy.deepcopy(self.document)
        ends = {
            "senders": self.senders,
            "receivers": self.receivers,
            "both": self.senders | self.receivers,
            "all": set(self.counts),
        }
        affected: set[str] = set()
        is_tried = False
        profiles: dict[str, Json] = {}
        for need in remedy.needs:
            if (fault := self._fault(need, ends[remedy.ends] & (self.stations or ends[remedy.ends]))) is not None:
                raise NotHereError(fault)
        for place, value in remedy.set.items():
            keys = place.split(".")
            if keys[0] == "wlans":
                for wlan in document.get("wlans", []):
                    _put(wlan, keys[2:], value)
                    is_tried = True
                    if keys[2] == "station_radio":
                        affected |= self.stations
            elif keys[0] == "flows":
                for flow in document["flows"]:
                    if _is_call_down(flow, self.stations):
                        flow[keys[2]] = value
                        is_tried = True
            elif keys[0] == "coop":
                uploaders = sorted(self.senders & self.stations)
                if document.get("coop") or document.get("roaming") or len(self.wlans) != 1:
                    raise NotHereError("needs one WLAN, without roaming and without daemons so far")
                document["coop"] = [{**value[0], "nodes": uploaders}]
                affected |= set(uploaders)
                is_tried = True
            else:
                is_air = keys[2] == "wifi"
                hosts = self._role(keys[1]) & (self.stations if is_air else ends[remedy.ends])
                for host in hosts:
                    profiles.setdefault(host, {})[".".join(keys[2:])] = value
                is_tried = is_tried or bool(hosts)
        if remedy.line is not None:
            if line is None:
                raise NotHereError("no wired line holds packets for more than 5 ms")
            _put_line(document, remedy, line, self.count(self.senders))
            is_tried = True
        if not is_tried:
            raise NotHereError("there is no radio" if not self.wlans else "no host here is of its kind")
        for host, changes in sorted(profiles.items()):
            if self._put_profile(document, host, changes):
                affected.add(host)
        return Network(document), affected

    def _role(self, role: str) -> set[str]:
        hosts = set(self.counts)
        on_air = self.stations or hosts
        return hosts & on_air if role == "user" else hosts - on_air

    def _put_profile(self, document: Json, host: str, changes: Mapping[str, Any]) -> bool:
        """Gives a host a profile of its own; false if it has all of that already."""
        old = self.profiles[host]
        own = document.get("profiles", {}).get(old)
        new = copy.deepcopy(own) if own is not None else {"base": old}
        changed = False
        for place, value in changes.items():
            keys = place.split(".")
            if keys == ["base"]:
                chain = self._chain(old)
                # A newer system under a host must not be an older one.
                if value in chain or (value != DEFAULT_PROFILE and DEFAULT_PROFILE in chain[:1]):
                    continue
            elif _is_same(self.value(old, keys), value):
                continue
            _put(new, keys, value)
            changed = True
            for flow in document["flows"]:
                for end, options in (("from", "tcp"), ("to", "receiver")):
                    if host_of(flow[end]) == host and keys[0] in flow.get(options, {}):
                        flow[options] = {k: v for k, v in flow[options].items() if k != keys[0]}
        if changed:
            name = f"advised-{host}"
            document.setdefault("profiles", {})[name] = new
            for node in document["nodes"]:
                if node["name"] == host:
                    node["profile"] = name
        return changed

    def _chain(self, profile: str) -> list[str]:
        """The built-in profile on which a profile rests."""
        for _ in range(20):
            own = self.document.get("profiles", {}).get(profile)
            if own is None:
                return [profile]
            profile = own.get("base", DEFAULT_PROFILE)
        return [profile]

    def count(self, hosts: Iterable[str]) -> int:
        """Number of hosts, groups counted in full."""
        return sum(self.counts.get(host, 1) for host in hosts)

    def _changes(self, kinds: Sequence[str], affected: set[str], line: Bottleneck | None) -> tuple[str, ...]:
        """Kinds of change that this network has, of those that the catalogue names."""
        out = []
        users = self.count(affected & (self.stations or affected))
        servers = self.count(affected - self.stations) if self.stations else 0
        for one in kinds:
            if one == "all hosts" and users:
                out.append("one host" if users == 1 else one)
            elif one == "servers" and servers:
                out.append(one)
            elif one == "router setting":
                at_host = line is not None and line.source in self.counts
                out.append("one host" if at_host else one)
            elif self.wlans and (one.startswith("AP ") or one == "everything else"):
                out.append(one)
        return tuple(dict.fromkeys(out))


# --- lines ------------------------------------------------------------------------------------------------------------

NARROW_MS: Final = 5.0
"""Mean waiting from which a line's queue is worth a remedy."""


def narrowest(network: Network, links: Sequence[Mapping[str, Any]], rtt_ms: float) -> Bottleneck | None:
    """The direction of a wired line whose queue holds packets longest, from rows of the table `links`."""
    entries = network.document.get("links", [])
    found: list[Bottleneck] = []
    seen: dict[int, list[str]] = {}
    for row in links:
        for i, entry in enumerate(entries):
            if row["group"] != entry.get("name", f"{entry['from']}-{entry['to']}") and not _is_of(row["name"], entry):
                continue
            source = host_of(row["name"].split("->")[0])
            is_reverse = source == host_of(entry["to"]) and source != host_of(entry["from"])
            seen.setdefault(i, []).append(row["name"])
            waiting = row["queue_delay_mean_ms"] or 0.0
            lossy = (row["dropped_overflow"] or 0) > 0
            if waiting >= NARROW_MS or (lossy and row["utilisation"] > 0.5):
                found.append(Bottleneck(i, is_reverse, row["name"], row["rate_bps"], waiting, rtt_ms, source))
            break
    return max(found, key=lambda line: line.waiting_ms, default=None)


def _is_of(name: str, entry: Mapping[str, Any]) -> bool:
    ends = [host_of(end) for end in name.split("->")]
    return sorted(ends) == sorted([host_of(entry["from"]), host_of(entry["to"])])


def rates(document: Mapping[str, Any], line: Bottleneck) -> tuple[float, float]:
    """The line's rate in its own direction and in the other one."""
    entry = document["links"][line.entry]
    forward = bps(entry["rate"])
    back = bps(entry.get("reverse", {}).get("rate", entry["rate"]))
    return (back, forward) if line.is_reverse else (forward, back)


def packets(remedy: Remedy, line: Bottleneck, flows: int) -> int | None:
    """Limit of the queue that a remedy asks for."""
    if remedy.line is None or remedy.line.packets is None:
        return None
    product = line.rate_bps * line.rtt_ms / 1e3 / 8 / 1500
    return max(2, round(product / max(1, flows) ** 0.5 if remedy.line.packets == "bdp over root n" else product))


def varies(entry: Mapping[str, Any]) -> bool:
    """Whether the rate of a line changes over time, in one direction at least."""
    return any(side.get("rate_trace") is not None for side in (entry, entry.get("reverse") or {}))


def _put_shaper(document: Json, remedy: Remedy, line: Bottleneck) -> None:
    """A router before a line whose rate varies: it sends at a share of the rate that the line's entry names."""
    assert remedy.line is not None
    entry = document["links"][line.entry]
    if any(entry[end] in groups(document) for end in ("from", "to")):
        raise NotHereError("a shaper before a group of lines that vary is not tried")
    own, other = (round(rate * remedy.line.share) for rate in rates(document, line))
    up, down = (other, own) if line.is_reverse else (own, other)
    names = {node["name"] for node in document["nodes"]}
    name = next(name for i in range(len(names) + 1) if (name := f"shaper{i or ''}") not in names)
    document["nodes"].append({"name": name, "kind": "router"})
    shaper = {"from": entry["from"], "to": name, "delay": "0s", "rate": f"{up}bit/s", "queue": remedy.line.queue}
    if entry.get("one_way"):
        shaper["one_way"] = True
    else:
        shaper["reverse"] = {"rate": f"{down}bit/s"}
    # The line keeps its name, by which the scenario may refer to it.
    entry.setdefault("name", re.sub(r"[^A-Za-z0-9_-]", "", f"{entry['from']}-{entry['to']}"))
    entry["from"] = name
    document["links"].append(shaper)


def groups(document: Mapping[str, Any]) -> set[str]:
    """Nodes that stand for several."""
    return {node["name"] for node in document["nodes"] if node.get("count") is not None}


def _put_line(document: Json, remedy: Remedy, line: Bottleneck, flows: int) -> None:
    assert remedy.line is not None
    entry = document["links"][line.entry]
    if remedy.line.share != 1 and varies(entry):
        _put_shaper(document, remedy, line)
        return
    queue: Any = remedy.line.queue
    limit = packets(remedy, line, flows)
    if limit is not None:
        queue = {"name": name_of(queue), "limit_packets": limit}
    sides = [line.is_reverse, not line.is_reverse] if remedy.line.both_ways else [line.is_reverse]
    own, other = rates(document, line)
    if not entry.get("one_way") and not line.is_reverse and not remedy.line.both_ways:
        # The other direction keeps what it had from this one.
        reverse = entry.setdefault("reverse", {})
        reverse.setdefault("queue", entry["queue"])
    for is_reverse in sides:
        rate = own if is_reverse == line.is_reverse else other
        if is_reverse and entry.get("one_way"):
            continue
        place = entry.setdefault("reverse", {}) if is_reverse else entry
        if remedy.line.share != 1:
            if not is_reverse and not entry.get("one_way"):
                entry.setdefault("reverse", {}).setdefault("rate", entry["rate"])
            place["rate"] = f"{round(rate * remedy.line.share)}bit/s"
        place["queue"] = queue


# --- small things -----------------------------------------------------------------------------------------------------


def _is_call_down(flow: Mapping[str, Any], stations: set[str]) -> bool:
    return kind(flow) in ONE_WAY_PROBES and host_of(flow["to"]) in stations and host_of(flow["from"]) not in stations


def _is_same(old: Any, new: Any) -> bool:  # noqa: ANN401
    return old == new or (isinstance(new, str) and name_of(old) == new)


def _put(table: Json, keys: Sequence[str], value: Any) -> None:  # noqa: ANN401
    for key in keys[:-1]:
        if not isinstance(table.get(key), dict):
            table[key] = {}
        table = table[key]
    table[keys[-1]] = copy.deepcopy(value)


def _one(end: str, counts: Mapping[str, int]) -> str:
    return f"{end}[0]" if counts.get(end, 1) > 1 else end


@lru_cache(maxsize=64)
def builtin(profile: str) -> Json:
    """A built-in host profile."""
    return tomllib.loads(_airtcp.profile(profile) or "")
