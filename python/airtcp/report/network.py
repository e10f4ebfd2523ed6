"""The network of a scenario as a drawing: hosts, access points and their cells, lines with rate and delay, queues.

Stations are above, the far ends of lines below. A cell is the area of an access point and its stations. What differs
between the scenarios of an experiment is shown as a range, or as alternatives.
"""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

from markupsafe import Markup

from airtcp.report.plot_style import number
from airtcp.report.signal_texts import signal_text
from airtcp.scenario_json import bps, host_of, name_of, seconds

Json = Mapping[str, Any]
Facts = dict[str, list[Any]]
"""Facts about a thing, by key: every value that one of the scenarios has, in order."""

Place = tuple[str, str, int]
"""The ends of a line and, of several lines between the same ends, its number."""

MOST_EXPANDED: Final = 8
"""A group is drawn member by member up to this size, if its members have different places."""
ALTERNATIVES: Final = 2
"""Most different texts that are named. More of them vary."""

DOWN, UP, QUEUE = "\N{DOWNWARDS ARROW}", "\N{UPWARDS ARROW}", "queue"
QUEUE_TITLES: Final = {
    "fifo": "FIFO",
    "red": "RED",
    "codel": "CoDel",
    "fq_codel": "FQ-CoDel",
    "pie": "PIE",
    "dualpi2": "DualPI2",
    "cake": "CAKE",
    "ack_filter": "ACK filter",
}
"""Queue disciplines of the registry as the picture names them."""
WIDE_STANDARDS: Final = ("n", "ac")
"""Standards whose channel has a width and a number of streams."""
NARROW_STANDARDS: Final = ("a", "b", "g", "wavelan")
"""Standards with one width and one stream."""


@dataclass
class DiagramNode:
    """A host, a router or a group of them."""

    is_host: bool
    count: Facts = field(default_factory=dict)
    told: Facts = field(default_factory=dict)
    """The signal of a station, the queue of an access point, the profile of a host."""


@dataclass
class DiagramLine:
    """A line between two nodes."""

    told: Facts = field(default_factory=dict)
    """`rate`, `delay`, `loss`, `queue`, and `rate back` and so on where the other direction differs."""


@dataclass
class WlanCell:
    """An access point and its stations."""

    ap: str
    stations: list[str] = field(default_factory=list)
    told: Facts = field(default_factory=dict)


@dataclass
class Diagram:
    """Everything that is drawn."""

    nodes: dict[str, DiagramNode] = field(default_factory=dict)
    wires: dict[Place, DiagramLine] = field(default_factory=dict)
    cells: dict[str, WlanCell] = field(default_factory=dict)
    flows: dict[str, tuple[str, str, Facts]] = field(default_factory=dict)
    senders: list[str] = field(default_factory=list)
    """Hosts from which flows start, in order."""


def of(scenarios: Iterable[Json]) -> Diagram:
    """The network that scenarios have in common, with what differs between them."""
    found = Diagram()
    for scenario in scenarios:
        _add(found, scenario)
    return found


# --- facts ------------------------------------------------------------------------------------------------------------


def _put(facts: Facts, key: str, value: Any) -> None:  # noqa: ANN401
    if value is not None and value not in facts.setdefault(key, []):
        facts[key].append(value)


def _add(found: Diagram, scenario: Json) -> None:
    expanded = _expanded(scenario)

    def named(end: str) -> str:
        return end if host_of(end) in expanded else host_of(end)

    def every(end: str) -> list[str]:
        """The nodes of the drawing that an end of a line stands for."""
        return [name for name in found.nodes if host_of(name) == end] if end in expanded else [named(end)]

    for node in scenario["nodes"]:
        count = node.get("count", 1)
        for name in [f"{node['name']}[{i}]" for i in range(count)] if node["name"] in expanded else [node["name"]]:
            one = found.nodes.setdefault(name, DiagramNode(node["kind"] == "host"))
            _put(one.count, "count", 1 if node["name"] in expanded else count)
            if one.is_host:
                _put(one.told, "profile", _base(scenario, node.get("profile")))
    seen: dict[tuple[str, str], int] = {}
    for link in scenario.get("links", []):
        for ends in product(every(link["from"]), every(link["to"])):
            alike = seen[ends] = seen.get(ends, -1) + 1
            # Lines of members of a group that is drawn as one are one line.
            place = (*ends, alike if (link["from"], link["to"]) == ends else 0)
            _add_wire(found.wires.setdefault(place, DiagramLine()).told, link)
    roams = {named(one["node"]) for one in scenario.get("roaming", [])}
    walks = {host_of(one["node"]) for one in scenario.get("walks", [])}
    for wlan in scenario.get("wlans", []):
        ap = named(wlan["ap"])
        cell = found.cells.setdefault(wlan.get("name") or ap, WlanCell(ap))
        _put(cell.told, "radio", _radio(wlan))
        _put(cell.told, "hidden", "stations do not all hear each other" if wlan.get("hidden") else "")
        _put(found.nodes[ap].told, "queue", _transmit((wlan.get("ap_radio") or {}).get("transmit")))
        for entry in wlan["stations"]:
            station = {"node": entry} if isinstance(entry, str) else entry
            name = named(station["node"])
            if name not in cell.stations:
                cell.stations.append(name)
            told = found.nodes[name].told
            _put(told, "signal", "moves" if host_of(name) in walks else signal_text(wlan, station))
            _put(told, "roams", "changes its access point" if name in roams else None)
    for flow in scenario.get("flows", []):
        ends = host_of(flow["from"]), host_of(flow["to"])
        _, _, told = found.flows.setdefault(flow["name"], (*ends, {}))
        _put(told, "count", flow.get("count", 1))
        _put(told, "traffic", name_of(flow.get("traffic", "unlimited")))
        sender = named(flow["from"])
        for name in [sender] if sender in found.nodes else [n for n in found.nodes if host_of(n) == sender]:
            if name not in found.senders:
                found.senders.append(name)


def _add_wire(told: Facts, link: Json) -> None:
    for which, entry in (("", link), (" back", {**link, **link.get("reverse", {})})):
        if which and link.get("one_way"):
            continue
        _put(told, f"rate{which}", bps(entry["rate"]))
        _put(told, f"delay{which}", _delay(entry["delay"]))
        _put(told, f"loss{which}", entry.get("loss", 0.0))
        _put(told, f"queue{which}", _queue(entry.get("queue"), entry.get("buffer")) or "")
        _put(told, f"trace{which}", "varies over time" if entry.get("rate_trace") else "")


def _expanded(scenario: Json) -> set[str]:
    """Groups whose members have places of their own."""
    members: dict[str, set[str]] = {}
    ends = [end for link in scenario.get("links", []) for end in (link["from"], link["to"])]
    ends += [wlan["ap"] for wlan in scenario.get("wlans", [])]
    for end in ends:
        if "[" in end:
            members.setdefault(host_of(end), set()).add(end)
    counts = {node["name"]: node.get("count", 1) for node in scenario["nodes"]}
    return {name for name, some in members.items() if len(some) > 1 and counts[name] <= MOST_EXPANDED}


def _base(scenario: Json, profile: str | None) -> str | None:
    own = scenario.get("profiles") or {}
    while profile in own and own[profile].get("base"):
        profile = own[profile]["base"]
    return profile


def _delay(delay: str | Json) -> float | tuple[float, float]:
    if isinstance(delay, str):
        return seconds(delay)
    return seconds(delay["min"]), seconds(delay["max"])


@dataclass(frozen=True)
class Queue:
    """A queue: its discipline and, if it has one, its limit."""

    name: str
    limit: float | None = None
    unit: str = ""
    tail: str = ""

    @property
    def text(self) -> str:
        """Everything that tells it from others of its discipline."""
        return _sized([self.limit], self.unit, self.tail) if self.limit is not None else self.tail


def _sized(limits: Sequence[float], unit: str, tail: str) -> str:
    size = _numbers(limits)
    return f"{unit if size == '1' and unit.startswith('BDP') else f'{size} {unit}'}{tail}"


def _queue(queue: Any, buffer: Json | None = None) -> Queue | None:  # noqa: ANN401
    """A discipline and its limit; none for a FIFO without one."""
    table: Json = queue if isinstance(queue, Mapping) else {}
    name = name_of(queue or "fifo")
    text = QUEUE_TITLES.get(name, name)
    if buffer is not None:
        unit = "BDP/\N{SQUARE ROOT}N" if buffer["rule"] == "bdp_over_sqrt_n" else "BDP"
        return Queue(text, buffer.get("scale", 1.0), unit)
    if table.get("bandwidth"):
        return Queue(text, tail=f"at {_rate([bps(table['bandwidth'])])}")
    if name != "fifo":
        return Queue(text)
    if table.get("limit_packets") is not None:
        return Queue(text, table["limit_packets"], "packets")
    if table.get("limit_bytes") is not None:
        return Queue(text, tail=table["limit_bytes"])
    return None


def _transmit(transmit: Any) -> Queue:  # noqa: ANN401
    """The queue of an access point's radio."""
    table = transmit if isinstance(transmit, Mapping) else {}
    # A folder of another airtcp may have names that this one lacks.
    return TRANSMIT_QUEUES.get(name_of(transmit or "mac80211"), _qdisc)(table)


def _qdisc(table: Json) -> Queue:
    found = _queue(table.get("qdisc")) or Queue("FIFO")
    frames = table.get("driver_frames")
    return found if frames is None or frames <= 1 else replace(found, tail=f", then {number(frames)} in the driver")


TRANSMIT_QUEUES: Final[dict[str, Callable[[Json], Queue]]] = {
    "mac80211": lambda _: Queue("FQ-CoDel", tail="in mac80211"),
    "qdisc": _qdisc,
}
"""Ways from the host to the driver of the registry, and the queue that the picture shows for each."""


def _queues(values: Sequence[Queue | str] | None) -> str:
    """Different queues of one place. An empty text stands for a FIFO without a limit."""
    found = [value for value in values or () if isinstance(value, Queue)]
    if not found:
        return ""
    first, is_partly_none = found[0], len(found) < len(values or ())
    names = dict.fromkeys(one.name for one in found)
    if len(names) > 1:
        return " or ".join(names) if len(names) <= ALTERNATIVES and not is_partly_none else "queue varies"
    limits = [one.limit for one in found if one.limit is not None]
    if len(limits) == len(found) and len({(one.unit, one.tail) for one in found}) == 1:
        text = _sized(limits, first.unit, first.tail)
    else:
        texts = list(dict.fromkeys(one.text for one in found if one.text))
        text = " or ".join(texts) if len(texts) <= ALTERNATIVES else "size varies"
    between = " " if text.startswith(("at ", "in ")) else "" if text.startswith(",") else ", "
    told = f"{first.name}{between if text else ''}{text}"
    return f"{told} or no limit" if is_partly_none else told


def _radio(wlan: Json) -> str:
    phy = wlan.get("phy") or {}
    standard = phy.get("standard", "n")
    parts = ["WaveLAN" if standard == "wavelan" else f"802.11{standard}"]
    if phy.get("band"):
        parts.append(str(phy["band"]).replace("GHz", " GHz"))
    if standard in WIDE_STANDARDS:
        parts.append(f"{phy.get('width_mhz', 20)} MHz")
        streams = phy.get("streams", 1)
        parts.append(f"{streams} stream{'s' if streams > 1 else ''}")
    if wlan.get("channel"):
        parts.append(f"channel {wlan['channel']}")
    return ", ".join(parts)


# --- texts ------------------------------------------------------------------------------------------------------------


def _rate(values: Sequence[float]) -> str:
    return _quantity(values, ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")))


def _span(values: Sequence[float]) -> str:
    return _quantity(values, ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))) if any(values) else "no delay"


def _quantity(values: Sequence[float], units: Sequence[tuple[float, str]]) -> str:
    """A quantity, or its range, in the largest unit that leaves the least one at or above 1; else in the last."""
    low, high = min(values), max(values)
    scale, unit = next(((scale, unit) for scale, unit in units if (low or high) >= scale * 0.9999), units[-1])
    if unit == "us" and high >= 1e-5:
        scale, unit = 1e-3, "ms"
    ends = dict.fromkeys(number(round(value / scale, 6)) for value in (low, high))
    return f"{' to '.join(ends)} {unit}"


def _texts(values: Sequence[Any] | None, varies: str = "varies") -> str:
    """Different texts of one thing."""
    some = [str(value) for value in values or () if value != ""]
    if len(some) < len(values or ()) and some:
        some = ["none", *some]
    return "" if not some else " or ".join(some) if len(some) <= ALTERNATIVES else varies


def _numbers(values: Sequence[float] | None) -> str:
    ends = dict.fromkeys((min(values), max(values))) if values else ()
    return " to ".join(number(value) for value in ends)


def _count(node: DiagramNode) -> str:
    text = _numbers(node.count.get("count"))
    return "" if text == "1" else text


def _signal_text(told: Facts) -> str:
    values = told.get("signal", [])
    numbers = [value for value in values if isinstance(value, tuple)]
    if len({words for words, _ in numbers}) == 1 and len(numbers) == len(values):
        return str(numbers[0][0]).format(_numbers([value for _, value in numbers]))
    texts = [value[0].format(_numbers([value[1]])) if isinstance(value, tuple) else value for value in values]
    return _texts(texts, "signal varies")


def _delay_text(values: Sequence[Any]) -> str:
    return _span([end for value in values for end in (value if isinstance(value, tuple) else (value,))])


def _direction(told: Facts, which: str) -> tuple[str, str, str, str]:
    """Rate, delay, loss and queue of one direction of a line."""
    rate = _rate(told[f"rate{which}"])
    if any(told[f"trace{which}"]):
        rate = f"about {rate}"
    losses = told[f"loss{which}"]
    loss = f"loses {_numbers([100 * loss for loss in losses])} %" if any(losses) else ""
    queues = told[f"queue{which}"]
    return rate, _delay_text(told[f"delay{which}"]), loss, _queues(queues)


def _wire_lines(told: Facts, arrows: tuple[str, str]) -> list[str]:
    """The text beside a line of the drawing: what both directions have, or each of them. Queues begin with `QUEUE`."""
    there = _direction(told, "")
    if "rate back" not in told:
        rate, *rest, queue = there
        return [text for text in (f"{arrows[0]} {rate}", *rest, f"{QUEUE}{queue}" if queue else "") if text]
    lines = []
    for what, one, other in zip(("", "", "", QUEUE), there, _direction(told, " back"), strict=True):
        each = [one] if one == other else [f"{arrows[0]} {one}" if one else "", f"{arrows[1]} {other}" if other else ""]
        lines += [f"{what}{text}" for text in each if text]
    return lines


def words(network: Diagram) -> list[str]:
    """The network in sentences, for those who do not see the drawing, with what it has no room for."""
    out = []
    for cell in network.cells.values():
        names = [_named(network, name) for name in cell.stations]
        radio = _texts(cell.told.get("radio"), "its radio varies")
        queue = _queues(network.nodes[cell.ap].told.get("queue"))
        hidden = "; stations do not all hear each other" if any(cell.told["hidden"]) else ""
        out.append(f"{cell.ap} is an access point ({radio}; {queue}{hidden}). Its stations: {_listed(names)}.")
    for (a, b, _), wire in network.wires.items():
        parts = [part.removeprefix(QUEUE) for part in _wire_lines(wire.told, (f"to {b}:", f"to {a}:"))]
        between = f"From {a} to {b}" if "rate back" not in wire.told else f"Between {a} and {b}"
        varies = "; its rate varies over time" if any(wire.told["trace"]) else ""
        out.append(f"{between}: {', '.join(parts)}{varies}.")
    hosts: dict[str, list[str]] = {}
    for name, node in network.nodes.items():
        if node.is_host:
            hosts.setdefault(_texts(node.told.get("profile"), "different profiles"), []).append(_named(network, name))
    out += [f"Profile of {_listed(names)}: {profile}." for profile, names in hosts.items() if profile]
    if network.flows:
        flows = [
            f"{name} from {a} to {b} ({_several(told)}{_texts(told['traffic'])})"
            for name, (a, b, told) in network.flows.items()
        ]
        out.append(f"Flows: {'; '.join(flows)}.")
    return out


def _several(told: Facts) -> str:
    text = _numbers(told.get("count"))
    return "" if text == "1" else f"{text} \N{MULTIPLICATION SIGN} "


def _named(network: Diagram, name: str) -> str:
    node = network.nodes[name]
    parts = [f"{_count(node)} hosts" if _count(node) else "", _signal_text(node.told), _texts(node.told.get("roams"))]
    text = ", ".join(part for part in parts if part)
    return f"{name} ({text})" if text else name


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# --- drawing ----------------------------------------------------------------------------------------------------------

WIDTH: Final = 356
"""Width of the drawing in pixels. A phone shows it without making it smaller."""
_EDGE: Final = 10
_LINE: Final = 15
"""Height of a line of text."""
_CHARACTER: Final = 6.5
"""Width of a character, on average."""
_BOX: Final = 116
"""Most width of a box."""
_COLUMNS: Final = 3
"""Most boxes beside each other in a cell that stands alone."""

Bands = list[tuple[tuple[str, ...], list[str]]]
"""Stations from left to right: which cells they belong to, and their names."""


@dataclass
class _Box:
    """A node with its place."""

    name: str
    head: str
    lines: list[str]
    is_host: bool
    is_ap: bool
    count: str = ""
    x: float = 0.0
    """Place of its middle."""
    y: float = 0.0
    """Place of its top."""
    width: float = _BOX
    least: float = _BOX
    """Width that its name needs."""

    @property
    def height(self) -> float:
        return 24 + _LINE * len(self.lines)


def layers(network: Diagram) -> dict[str, int]:
    """The row of each node: stations above, then access points, then what is behind them; on wires the first flow's
    sender above.
    """
    beside: dict[str, list[str]] = {name: [] for name in network.nodes}
    for a, b, _ in network.wires:
        beside[a].append(b)
        beside[b].append(a)
    stations = {name for cell in network.cells.values() for name in cell.stations}
    first = [cell.ap for cell in network.cells.values()] or network.senders[:1] or list(network.nodes)[:1]
    rows = dict.fromkeys(first, 1 if network.cells else 0)
    left = deque(first)
    while left:
        name = left.popleft()
        for other in beside[name]:
            if other not in rows and (not network.nodes[other].is_host or len(beside[other]) > 1):
                rows[other] = rows[name] + 1
                left.append(other)
    receivers = {host_of(b) for _, b, _ in network.flows.values()}
    for name in network.nodes:
        if name in stations:
            rows.setdefault(name, 0)
        elif name not in rows:
            near = [rows[other] for other in beside[name] if other in rows]
            is_above = not network.cells and name in network.senders and host_of(name) not in receivers
            rows[name] = (near[0] + (-1 if is_above and near[0] > 0 else 1)) if near else 0
    return rows


def svg(network: Diagram, identity: str) -> Markup:
    """The drawing as an SVG element, `WIDTH` pixels wide unless it needs more.

    Args:
        network: what is drawn.
        identity: begins the ids of its title and its description, unique in the page.
    """
    rows = layers(network)
    boxes = {name: _box(network, name) for name in network.nodes}
    bands = _bands(network)
    width = max(WIDTH, 2 * _EDGE + len(bands) * 100 if network.cells else 0)
    by_row: dict[int, list[_Box]] = {}
    for name, row in sorted(rows.items(), key=lambda pair: pair[1]):
        by_row.setdefault(row, []).append(boxes[name])
    widest = max(len(some) for row, some in by_row.items() if row > 0 or not network.cells) if len(by_row) else 1
    width = max(width, 2 * _EDGE + widest * 78)
    y = float(_EDGE)
    if network.cells:
        y = _place_stations(network, boxes, rows, bands, width)
    bottoms: list[float] = []
    order = sorted(by_row)
    for at, row in enumerate(order):
        some = by_row[row]
        if row == 0 and network.cells:
            continue
        is_ap_row = row == 1 and network.cells
        if not is_ap_row:
            _spread(network, some, boxes, rows, width)
        for box in some:
            box.y = y
        bottom = max(box.y + box.height for box in some)
        bottoms.append(bottom)
        following = order[at + 1] if at + 1 < len(order) else None
        y = bottom + (_wires_height(network, rows, row, following, boxes) if following is not None else 0)
    height = max([*bottoms, *(box.y + box.height for box in boxes.values())]) + _EDGE + (8 if network.cells else 0)
    parts = [
        *_cells(network, boxes, bands, width),
        *(_wire(key, boxes, rows) for key in network.wires),
        *map(_drawn_box, boxes.values()),
        *(_wire_text(network, key, boxes, by_row, rows, width) for key in network.wires),
    ]
    return Markup(
        '<svg class="network-drawing" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" '
        'aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{title}</title><desc id="{id}-d">{desc}</desc>{body}</svg>'
    ).format(
        w=round(width),
        h=round(height),
        id=identity,
        title="The network",
        desc=" ".join(words(network)),
        body=Markup("").join(parts),
    )


def _box(network: Diagram, name: str) -> _Box:
    node = network.nodes[name]
    is_ap = any(cell.ap == name for cell in network.cells.values())
    count = _count(node)
    told = [_queues(node.told.get("queue"))] if is_ap else [_signal_text(node.told)]
    times = f"\N{MULTIPLICATION SIGN} {count}" if count else ""
    head = f"{name} {times}".rstrip()
    box = _Box(name, head, [text for text in told if text], node.is_host, is_ap, times)
    box.least = max(_BOX, _name_width(head))
    return box


def _bands(network: Diagram) -> Bands:
    """Stations of two cells stand between those of one."""
    names = list(network.cells)
    of_station: dict[str, tuple[str, ...]] = {}
    for name, cell in network.cells.items():
        for station in cell.stations:
            of_station[station] = (*of_station.get(station, ()), name)
    bands: dict[tuple[str, ...], list[str]] = {(name,): [] for name in names}
    for station, cells in of_station.items():
        bands.setdefault(cells, []).append(station)
    return sorted(bands.items(), key=lambda band: (sum(map(names.index, band[0])) / len(band[0]), len(band[0])))


def _place_stations(
    network: Diagram, boxes: Mapping[str, _Box], rows: Mapping[str, int], bands: Bands, width: float
) -> float:
    """Places stations in their bands, and access points below them in theirs. Returns the top of the access points."""
    each = (width - 2 * _EDGE) / len(bands)
    bottom = 0.0
    for i, (_, names) in enumerate(bands):
        left = _EDGE + i * each
        columns = min(len(names), _COLUMNS if len(bands) == 1 else max(1, int(each // _BOX)))
        top = _EDGE + 10.0 + _LINE * max(len(_cell_text(network, name, each, bands)) for name in network.cells)
        for row in range(0, len(names), columns or 1):
            some = [boxes[name] for name in names[row : row + columns]]
            for j, box in enumerate(some):
                box.x = left + each * (j + 0.5) / len(some)
                _fit(box, each / len(some) - 8)
                box.y = top
            top += max(box.height for box in some) + 10
        bottom = max(bottom, top)
    for i, (cells, _) in enumerate(bands):
        if len(cells) == 1:
            box = boxes[network.cells[cells[0]].ap]
            box.x = _EDGE + (i + 0.5) * each
            box.least = 190 if len(bands) == 1 else 150
            _fit(box, each - 10)
    beside = [key for key in network.wires if {rows[key[0]], rows[key[1]]} == {0, 1}]
    return bottom + (_wires_height(network, rows, 0, 1, boxes) if beside else 12)


def _name_width(text: str) -> float:
    """Width of a box that a name needs."""
    return len(text) * 7.6 + 14


def _fit(box: _Box, room: float) -> None:
    """Gives a box its width, and its texts lines that fit. A count that does not fit beside the name stands below."""
    if _name_width(box.head) > room and box.count:
        box.head, box.lines = box.name, [box.count, *box.lines]
    box.width = min(box.least, room)
    box.lines = [part for line in box.lines for part in _wrapped(line, box.width)]


def _wrapped(text: str, width: float) -> list[str]:
    return textwrap.wrap(text, max(8, int(width / _CHARACTER)), break_long_words=False) if text else []


def _spread(
    network: Diagram, some: list[_Box], boxes: Mapping[str, _Box], rows: Mapping[str, int], width: float
) -> None:
    """Places the boxes of a row: below what they are connected to, or evenly if there are several."""

    def above(box: _Box) -> float:
        ends = [(a, b) for a, b, _ in network.wires if box.name in (a, b)]
        others = [b if a == box.name else a for a, b in ends]
        placed = [boxes[other].x for other in others if rows[other] < rows[box.name] and boxes[other].x]
        return sum(placed) / len(placed) if placed else width / 2

    if len(some) == 1:
        (box,) = some
        _fit(box, width - 2 * _EDGE)
        box.x = min(max(above(box), _EDGE + box.width / 2), width - _EDGE - box.width / 2)
    else:
        some.sort(key=above)
        each = (width - 2 * _EDGE) / len(some)
        for i, box in enumerate(some):
            box.x = _EDGE + each * (i + 0.5)
            _fit(box, each - 10)


def _cell_text(network: Diagram, name: str, each: float, bands: Bands) -> list[str]:
    """The words at the top of a cell, above its own stations."""
    own = [cells for cells, _ in bands if name in cells and (len(cells) == 1 or len(network.cells) == 1)]
    return _wrapped(_texts(network.cells[name].told.get("radio"), "radio varies"), each * len(own) - 14)


def _cells(network: Diagram, boxes: Mapping[str, _Box], bands: Bands, width: float) -> list[Markup]:
    """The areas of the cells. A station of two cells is in both."""
    parts = []
    each = (width - 2 * _EDGE) / len(bands) if bands else 0
    for turn, (name, cell) in enumerate(network.cells.items()):
        mine = [i for i, (cells, _) in enumerate(bands) if name in cells]
        left, right = _EDGE + min(mine) * each + 1, _EDGE + (max(mine) + 1) * each - 1
        ap = boxes[cell.ap]
        top, bottom = _EDGE / 2 + 3 * (turn % 2), ap.y + ap.height + 8 - 3 * (turn % 2)
        parts.append(
            Markup('<rect class="cell" x="{:.0f}" y="{:.0f}" width="{:.0f}" height="{:.0f}" rx="12"/>').format(
                left, top, right - left, bottom - top
            )
        )
        for i, line in enumerate(_cell_text(network, name, each, bands)):
            parts.append(_text(ap.x, _EDGE + 12 + _LINE * i, line, "soft"))
    return parts


def _drawn_box(box: _Box) -> Markup:
    kind = "ap" if box.is_ap else "host" if box.is_host else "router"
    left = box.x - box.width / 2
    parts = [
        Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="{}"/>').format(
            kind, left, box.y, box.width, box.height, 4 if box.is_host else 12
        ),
        _text(box.x, box.y + 16.5, box.head, "name"),
    ]
    if box.is_ap:
        parts.append(_waves(left + 14, box.y + 15))
    for i, line in enumerate(box.lines):
        parts.append(_text(box.x, box.y + 16.5 + _LINE * (i + 1), line, "soft"))
    return Markup("").join(parts)


def _waves(x: float, y: float) -> Markup:
    """The sign of a radio."""
    arcs = "".join(
        f"M{x - r:.1f} {y - r * 0.6:.1f}A{r * 1.2:.1f} {r * 1.2:.1f} 0 0 1 {x + r:.1f} {y - r * 0.6:.1f}"
        for r in (3, 6)
    )
    return Markup('<path class="waves" d="{}"/><circle class="dot" cx="{:.1f}" cy="{:.1f}" r="1.6"/>').format(
        arcs, x, y
    )


def _text(x: float, y: float, text: str, kind: str, anchor: str = "middle") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(kind, x, y, anchor, text)


def _ends(key: Place, boxes: Mapping[str, _Box], rows: Mapping[str, int]) -> tuple[_Box, _Box]:
    """The ends of a line, the upper one first."""
    a, b = boxes[key[0]], boxes[key[1]]
    return (a, b) if rows[a.name] <= rows[b.name] else (b, a)


def _points(key: Place, boxes: Mapping[str, _Box], rows: Mapping[str, int]) -> tuple[float, ...]:
    upper, lower = _ends(key, boxes, rows)
    if rows[upper.name] == rows[lower.name]:
        side = 1 if upper.x < lower.x else -1
        return (
            upper.x + side * upper.width / 2,
            upper.y + upper.height / 2,
            lower.x - side * lower.width / 2,
            lower.y + lower.height / 2,
        )
    shift = 14.0 * key[2]
    return upper.x + shift, upper.y + upper.height, lower.x + shift, lower.y


def _wire(key: Place, boxes: Mapping[str, _Box], rows: Mapping[str, int]) -> Markup:
    x1, y1, x2, y2 = _points(key, boxes, rows)
    return Markup('<path class="wire" d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>').format(x1, y1, x2, y2)


def _label(network: Diagram, key: Place, rows: Mapping[str, int], room: float) -> list[str]:
    a, b, _ = key
    arrows = (DOWN, UP) if rows[a] <= rows[b] else (UP, DOWN)
    out = []
    for line in _wire_lines(network.wires[key].told, arrows):
        is_queue = line.startswith(QUEUE)
        wrapped = _wrapped(line.removeprefix(QUEUE), room - (12 if is_queue else 0))
        out += [f"{QUEUE}{wrapped[0]}", *wrapped[1:]] if is_queue else wrapped
    return out


def _room(key: Place, by_row: Mapping[int, list[_Box]], rows: Mapping[str, int], width: float) -> float:
    """Width for the text of a line."""
    most = max(len(by_row[rows[name]]) for name in key[:2])
    return (width - 2 * _EDGE) / most - 8 if most > 1 else width / 2 - 28


def _wires_height(
    network: Diagram, rows: Mapping[str, int], row: int, following: int, boxes: Mapping[str, _Box]
) -> float:
    """Height between two rows: room for the texts of the lines that cross it."""
    by_row: dict[int, list[_Box]] = {}
    for name, at in rows.items():
        by_row.setdefault(at, []).append(boxes[name])
    crossing = [key for key in network.wires if {rows[key[0]], rows[key[1]]} == {row, following}]
    lines = [len(_label(network, key, rows, _room(key, by_row, rows, WIDTH))) for key in crossing]
    return max([34.0, *(_LINE * count + 16.0 for count in lines)]) + (8 if row == 1 and network.cells else 0)


def _wire_text(
    network: Diagram,
    key: Place,
    boxes: Mapping[str, _Box],
    by_row: Mapping[int, list[_Box]],
    rows: Mapping[str, int],
    width: float,
) -> Markup:
    x1, y1, x2, y2 = _points(key, boxes, rows)
    lines = _label(network, key, rows, _room(key, by_row, rows, width))
    upper, lower = _ends(key, boxes, rows)
    counts = len(by_row[rows[upper.name]]), len(by_row[rows[lower.name]])
    # Lines that meet leave room for their texts where they are apart.
    part = 0.5 if counts[0] == counts[1] else 0.22 if counts[0] > counts[1] else 0.78
    x, y = x1 + part * (x2 - x1), (y1 + y2) / 2
    alone = max(counts) == 1
    parts = []
    top = y - _LINE * (len(lines) - 1) / 2 + 4.5
    for i, line in enumerate(lines):
        at = top + _LINE * i
        text = line.removeprefix(QUEUE)
        is_queue = line.startswith(QUEUE)
        half = len(text) * _CHARACTER / 2
        if alone:
            left = x + 12
            if is_queue:
                parts.append(_stack(left, at))
            parts.append(_text(left + (14 if is_queue else 0), at, text, "label", "start"))
        else:
            shift = 7 if is_queue else 0
            if is_queue:
                parts.append(_stack(x - half - 11, at))
            parts.append(_text(x + shift, at, text, "label"))
    return Markup("").join(parts)


def _stack(x: float, y: float) -> Markup:
    """The sign of a queue: packets that wait."""
    bars = "".join(f"M{x + 4 * i:.1f} {y - 9:.1f}v9" for i in range(3))
    return Markup('<path class="stack" d="{}"/>').format(bars)
