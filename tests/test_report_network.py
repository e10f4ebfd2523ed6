"""The drawing of a network: what is in it comes from the scenario, and it can be read on a phone."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import airtcp
from airtcp import _airtcp
from airtcp.report import network, write
from browsing import NEEDS_CHROMIUM

ROOT = Path(__file__).parent.parent
SCENARIOS = sorted(
    file
    for folder in ("examples", "studies/*", "python/airtcp/advice/data/scenes")
    for file in ROOT.glob(f"{folder}/*.toml")
    if "[[nodes]]" in file.read_text()
)
SVG = "{http://www.w3.org/2000/svg}"

Json = dict[str, Any]


def scenario(file: str) -> Json:
    found: Json = json.loads(_airtcp.Checked.load(str(ROOT / file), []).to_json())
    return found


def drawn(found: network.Diagram) -> ElementTree.Element:
    return ElementTree.fromstring(
        str(network.svg(found, "n")).replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"')
    )


def texts(found: network.Diagram) -> list[str]:
    return [element.text or "" for element in drawn(found).iter(f"{SVG}text")]


def kinds(found: network.Diagram, kind: str) -> list[ElementTree.Element]:
    return [element for element in drawn(found).iter() if element.get("class") == kind]


def test_two_access_points_with_a_station_that_walks_between_them() -> None:
    found = network.of([scenario("studies/tcp-av-handover/walk.toml")])
    assert [(cell.ap, cell.stations) for cell in found.cells.values()] == [
        ("ap1", ["bg1", "mobile"]),
        ("ap2", ["bg2", "mobile"]),
    ]
    assert network.layers(found) == {"bg1": 0, "bg2": 0, "mobile": 0, "ap1": 1, "ap2": 1, "switch": 2, "server": 3}
    said = texts(found)
    assert {"bg1 \N{MULTIPLICATION SIGN} 2", "bg2 \N{MULTIPLICATION SIGN} 6", "mobile", "802.11g"} <= set(said)
    assert said.count("2 m away") == 2, "each background station's distance is from its own access point"
    assert said.count("moves") == 1
    assert "1 Gbit/s" in said
    assert said.count("100 Mbit/s") == 2
    areas = [[float(area.get(key, "")) for key in ("x", "width")] for area in kinds(found, "cell")]
    (left, wide), (right, _) = sorted(areas)
    assert right < left + wide, "both areas hold the walker"
    assert "mobile (moves, changes its access point)" in network.words(found)[0]


def test_a_network_without_a_radio() -> None:
    found = network.of([scenario("studies/pacing-buffers/p2p.toml")])
    assert not found.cells
    assert network.layers(found) == {"left": 0, "r1": 1, "r2": 2, "right": 3}
    said = texts(found)
    assert said.index("left \N{MULTIPLICATION SIGN} 500") < said.index("right \N{MULTIPLICATION SIGN} 500")
    assert said.count("100 Mbit/s") == 3
    assert {"90 ms", "FIFO, BDP"} <= set(said)
    assert len(kinds(found, "stack")) == 1, "one queue has a limit"
    assert not kinds(found, "cell")
    assert not kinds(found, "waves")
    assert network.words(found)[1] == "Between r1 and r2: 100 Mbit/s, 90 ms, FIFO, BDP."


def test_directions_of_a_line_that_differ_are_told_apart() -> None:
    said = texts(network.of([scenario("python/airtcp/advice/data/scenes/lte.toml")]))
    assert {"\N{DOWNWARDS ARROW} about 6 Mbit/s", "\N{UPWARDS ARROW} about 13 Mbit/s", "30 ms"} <= set(said)
    assert {
        "\N{DOWNWARDS ARROW} FIFO, 500 packets",
        "\N{UPWARDS ARROW} FIFO, 1\N{NARROW NO-BREAK SPACE}080 packets",
    } <= set(said)


def test_what_differs_between_runs_is_a_range_or_alternatives() -> None:
    one = scenario("studies/efr/wavelan.toml")
    runs = []
    for count, rate, queue in ((2, "10Mbit/s", "mac80211"), (4, "2Mbit/s", "qdisc"), (3, "5Mbit/s", "qdisc")):
        other = json.loads(json.dumps(one))
        other["nodes"][0]["count"] = count
        other["links"][0]["rate"] = rate
        other["wlans"][0]["ap_radio"] = {"transmit": {"name": queue}}
        runs.append(other)
    said = texts(network.of(runs))
    assert {"mh \N{MULTIPLICATION SIGN} 2 to 4", "2 to 10 Mbit/s"} <= set(said)
    assert "FQ-CoDel or FIFO" in " ".join(said)
    assert network.of(runs) == network.of([*runs, runs[0]])
    assert network.of(runs) != network.of(runs[:1])


@pytest.mark.parametrize(
    ("queues", "told"),
    [
        ([{"name": "fifo", "limit_packets": 100}] * 2, "FIFO, 100 packets"),
        ([{"name": "fifo", "limit_packets": n} for n in (100, 20, 50)], "FIFO, 20 to 100 packets"),
        ([{"name": "fifo", "limit_packets": 100}, {"name": "fifo"}], "FIFO, 100 packets or no limit"),
        (["fq_codel", {"name": "fifo", "limit_packets": 100}], "FQ-CoDel or FIFO"),
        (["fq_codel", "pie", {"name": "fifo", "limit_packets": 9}], "queue varies"),
        ([{"name": "cake", "bandwidth": "9500kbit/s"}], "CAKE at 9.5 Mbit/s"),
        ([{"name": "fifo", "limit_bytes": "64KiB"}, {"name": "fifo", "limit_packets": 9}], "FIFO, 64KiB or 9 packets"),
    ],
)
def test_queues_of_one_place(queues: list[Any], told: str) -> None:
    runs = []
    for queue in queues:
        run = scenario("studies/efr/reordering.toml")
        run["links"][0]["queue"] = queue
        run["links"][0]["reverse"] = {"queue": "fifo"}
        runs.append(run)
    assert network.words(network.of(runs))[0].endswith(f"to receiver: {told}.")


def test_stations_of_a_group_have_the_range_of_their_signals() -> None:
    assert "2 to 14 m away" in texts(network.of([scenario("examples/wifi-upload.toml")]))
    runs = []
    for rate in (0.03, 0.12):
        run = scenario("studies/ap-retry-out/collisions.toml")
        run["wlans"][0]["signal"] = {"kind": "error_rate", "rate": rate}
        runs.append(run)
    assert "3 to 12 % of frames lost" in " ".join(texts(network.of(runs)))


def test_members_with_places_of_their_own_are_drawn_one_by_one() -> None:
    found = network.of([scenario("examples/parking-lot.toml")])
    assert {f"router[{i}]" for i in range(4)} < set(found.nodes)
    assert "router" not in found.nodes
    assert {node.is_host for name, node in found.nodes.items() if name.startswith("router")} == {False}


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_network_is_drawn_whole(file: Path) -> None:
    found = network.of([scenario(str(file))])
    root = drawn(found)
    width, height = (float(text) for text in root.get("viewBox", "").split()[2:])
    boxes = []
    for kind in ("host", "router", "ap"):
        for element in kinds(found, kind):
            x, y, wide, high = (float(element.get(key, "")) for key in ("x", "y", "width", "height"))
            assert x >= 0
            assert x + wide <= width
            assert y >= 0
            assert y + high <= height
            boxes.append((x, y, x + wide, y + high))
    assert len(boxes) == len(found.nodes)
    for one, other in combinations(boxes, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, f"{one} and {other} overlap"
    assert len(kinds(found, "wire")) == len(found.wires)
    title, told = (root.find(f"{SVG}{name}") for name in ("title", "desc"))
    assert title is not None
    assert told is not None
    assert root.get("aria-labelledby") == f"{title.get('id')} {told.get('id')}"
    assert all(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", told.text or "") for name in found.nodes)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("network")
    airtcp.run(ROOT / "examples/walk.toml", duration="1s", set={"warmup": "0s"}, out=folder / "walk")
    return write(folder / "walk")


@NEEDS_CHROMIUM
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_drawing_can_be_read_on_a_phone(page: Path, scheme: str, browser: Any) -> None:
    tab = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    tab.goto(page.as_uri())
    place = tab.locator("#network svg")
    box = place.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    measured = place.evaluate(
        """(svg) => [...svg.querySelectorAll("text")].map((text) => {
          const { left, right } = text.getBoundingClientRect();
          return [left, right, parseFloat(getComputedStyle(text).fontSize) * svg.getScreenCTM().a];
        })"""
    )
    assert measured
    for left, right, size in measured:
        assert left >= 0
        assert right <= 390
        assert size >= 12
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    tab.close()
