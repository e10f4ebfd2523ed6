"""Random scenarios, drawn from the schema: the audit finds nothing in them, and each gives the same bits again,
on two cores as well.

The schema decides what is drawn, so a new policy or key is drawn as well. A few run with the other tests. By hand, for
long (CONTRIBUTING.md): `AIRTCP_SCENARIOS=10000 pytest -s tests/test_random_scenarios.py`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import airtcp
from airtcp import RunError, ScenarioError, _airtcp

SCENARIOS = int(os.environ.get("AIRTCP_SCENARIOS", "20"))
FIRST = int(os.environ.get("AIRTCP_FIRST_SCENARIO", "0"))

SCHEMA: dict[str, Any] = json.loads(airtcp.schema())

VALUES: dict[str, list[str] | list[float]] = {
    "Span": ["0s", "1us", "50us", "1ms", "5ms", "20ms", "100ms", "1s"],
    "DataRate": ["64kbit/s", "1Mbit/s", "6Mbit/s", "20Mbit/s", "100Mbit/s", "1Gbit/s"],
    "Bytes": ["1B", "1500B", "10kB", "64KiB", "1MB"],
    "Probability": [0.0, 0.001, 0.05, 0.5, 1.0],
}


def draw(part: dict[str, Any], rng: random.Random, name: str = "", depth: int = 0) -> Any:
    """A value that a part of the schema accepts, as far as the schema says."""
    if "$ref" in part:
        name = part["$ref"].rsplit("/", 1)[1]
        return draw(SCHEMA["$defs"][name], rng, name, depth + 1)
    if name in VALUES:
        return rng.choice([*VALUES[name]])
    for key in ("oneOf", "anyOf"):
        if key in part:
            return draw(rng.choice(part[key]), rng, "", depth + 1)
    if "const" in part:
        return part["const"]
    if "enum" in part:
        return rng.choice(part["enum"])
    match part.get("type"):
        case "boolean":
            return rng.random() < 0.5
        case "integer" | "number" as kind:
            low, high = part.get("minimum", 0), part.get("maximum", 1000)
            near = rng.choice([low, high, low + 1, rng.uniform(low, min(high, low + 10)), rng.uniform(low, high)])
            near = min(max(near, low), high)
            return int(near) if kind == "integer" else float(near)
        case "array":
            count = rng.randint(part.get("minItems", 0), part.get("maxItems", 3))
            return [draw(part.get("items", {"type": "integer"}), rng, "", depth + 1) for _ in range(count)]
        case "object":
            properties = part.get("properties", {})
            wanted = set(part.get("required", ()))
            chance = 0.3 / (1 + depth / 4)
            keys = [key for key in properties if key in wanted or rng.random() < chance]
            return {key: draw(properties[key], rng, "", depth + 1) for key in keys}
        case _:
            return rng.choice(["a", "linux-6", "x"])


Keys = tuple[str | int, ...]


def trace(rng: random.Random) -> dict[str, Any]:
    """A signal that follows a trace. Its times ascend, which the schema cannot say."""
    times = sorted(rng.sample(range(0, 500, 25), rng.randint(2, 5)))
    points = [[time / 1000, rng.choice([-5, 0, 6, 12, 20, 40, 60])] for time in times]
    return {"kind": "trace", "points": points, "repeat": rng.random() < 0.5}


def one_cell(number: int, rng: random.Random) -> tuple[dict[str, Any], list[tuple[Keys, dict[str, Any]]]]:
    """A line and a WLAN with flows over both, and the pieces that may change."""
    profiles = _airtcp.names()["profiles"]
    hosts = [{"name": name, "kind": "host", "profile": rng.choice(profiles)} for name in ("a", "s1", "s2")]
    ends = {"down": ("a", "s1"), "up": ("s2", "a"), "across": ("s1", "s2")}
    standard = rng.choice([each["const"] for each in SCHEMA["$defs"]["Standard"]["oneOf"]])
    wlan = {"name": "wlan", "ap": "r", "stations": ["s1", "s2"], "phy": {"standard": standard}}
    out: dict[str, Any] = {
        "name": f"random-{number}",
        "duration": "400ms",
        "seed": number,
        "nodes": [*hosts, {"name": "r", "kind": "router"}],
        "links": [{"name": "line", "from": "a", "to": "r", "rate": rng.choice([*VALUES["DataRate"]]), "delay": "5ms"}],
        "wlans": [{**wlan, "signal": {"kind": "snr", "snr_db": 20}}],
        "flows": [{"name": name, "from": start, "to": to} for name, (start, to) in ends.items()],
        "record": {"interval": rng.choice(["1ms", "10ms", "100ms"])},
    }
    flow, link, radio, node = (SCHEMA["$defs"][name]["properties"] for name in ("Flow", "Link", "RadioOptions", "Node"))
    pieces: list[tuple[Keys, dict[str, Any]]] = [(("links", 0, key), link[key]) for key in link]
    for i in range(len(ends)):
        pieces += [(("flows", i, key), flow[key]) for key in ("traffic", "ac", "read_rate", "tcp", "receiver")]
    # Hosts poll their interfaces in every way there is, and some are slow.
    pieces += [(("nodes", i, key), node[key]) for i in range(len(hosts)) for key in ("receive_offload", "packet_time")]
    for side in ("ap_radio", "station_radio"):
        pieces += [(("wlans", 0, side, key), radio[key]) for key in radio]
    pieces.append((("wlans", 0, "signal"), SCHEMA["$defs"]["SignalConfig"]))
    pieces += [(("wlans", 0, "phy", key), part) for key, part in SCHEMA["$defs"]["PhyConfig"]["properties"].items()]
    return out, pieces


def two_cells(number: int, rng: random.Random) -> tuple[dict[str, Any], list[tuple[Keys, dict[str, Any]]]]:
    """A second access point, stations that walk, one that changes its access point, daemons; path loss or traces."""
    out, pieces = one_cell(number, rng)
    own, standard = out["wlans"][0], out["wlans"][0]["phy"]["standard"]
    out["nodes"] += [{"name": "q", "kind": "router"}, {"name": "s3", "kind": "host"}]
    out["links"].append({"name": "second", "from": "q", "to": "r", "rate": "100Mbit/s", "delay": "1ms"})
    signal = {"kind": "path_loss", "exponent": 3, "tx_power_dbm": rng.choice([-15, -8, 0, 15])}
    place: dict[str, Any] = {"node": "s2", "position_m": [0, rng.choice([1, 5, 60])]}
    own |= {"signal": signal, "stations": ["s1", place], "ap_position_m": [0, 0], "channel": rng.choice("16")}
    far: dict[str, Any] = {"node": "s3", "position_m": [20, rng.choice([-1, -9])]}
    other = {"name": "other", "ap": "q", "ap_position_m": [20, 0], "phy": {"standard": standard}}
    out["wlans"].append({**other, "signal": signal, "stations": ["s1", far], "channel": rng.choice("16")})
    out["flows"].append({"name": "third", "from": "s3", "to": "a"})
    if rng.random() < 0.3:  # who hears whom follows from where they stand
        own["stations"] = [{"node": "s1", "position_m": [rng.choice([1, 30]), 0]}, place]
        out["wlans"][1]["stations"] = [far]
        for wlan in out["wlans"]:
            wlan["carrier_sense_dbm"] = rng.choice([-90, -82, -62])
    else:
        speed = rng.choice([1, 50, 200])
        out["walks"] = [
            {"node": "s1", "waypoints_m": [[0, 1], [20, 1]], "speed_m_per_s": speed, "there_and_back": True}
        ]
        out["roaming"] = [{"node": "s1"}]
        if rng.random() < 0.3:
            out["roaming"][0]["rule"] = {"kind": "times", "switches": [{"at": "150ms", "to": "other"}]}
        if rng.random() < 0.5:
            del place["position_m"]
            place["signal"] = trace(rng)
    if rng.random() < 0.5:
        out["coop"] = [{"name": "daemons", "nodes": ["s2", "s3"]}]
        daemon = SCHEMA["$defs"]["CoopConfig"]["properties"]
        pieces += [(("coop", 0, "daemon", key), part) for key, part in daemon.items()]
        pieces += [(("coop", 0, key), SCHEMA["$defs"]["Coop"]["properties"][key]) for key in ("ac", "start", "stop")]
    roaming, cell = (SCHEMA["$defs"][name]["properties"] for name in ("Roaming", "Wlan"))
    path_loss = next(
        each for each in SCHEMA["$defs"]["SignalConfig"]["anyOf"][1]["oneOf"] if "exponent" in each["properties"]
    )
    pieces += [(("roaming", 0, key), roaming[key]) for key in roaming if key != "node" and "roaming" in out]
    for i, station in ((0, place), (1, far)):
        at = out["wlans"][i]["stations"].index(station)
        pieces += [(("wlans", i, "stations", at, "radio"), SCHEMA["$defs"]["RadioOptions"])]
        pieces += [(("wlans", i, "signal", key), part) for key, part in path_loss["properties"].items()]
        pieces += [(("wlans", i, key), cell[key]) for key in ("capture_effect", "sensing", "ap_radio")]
        hidden = {"enum": ["all", [[station["node"], "s1"]], [["r", "q"]]]}
        pieces.append((("wlans", i, "hidden"), hidden))
    return out, pieces


def scenario(number: int) -> dict[str, Any]:
    """The scenario of a number: one cell or two, and what is drawn is added piece by piece.

    A piece that does not fit the rest is drawn again twice, then left out.
    """
    rng = random.Random(number)
    out, pieces = (two_cells if number % 3 == 2 else one_cell)(number, rng)
    for place, part in rng.sample(pieces, len(pieces) // 3):
        if place[-1] in ("name", "from", "to", "rate"):
            continue
        for _ in range(3):
            more = json.loads(json.dumps(out))
            inner = more
            for key in place[:-1]:
                inner = inner.setdefault(key, {}) if isinstance(key, str) else inner[key]
            if not isinstance(inner, dict):  # a name drawn before stands for the whole table
                break
            inner[place[-1]] = draw(part, rng, "", 3)
            try:
                _airtcp.Checked.from_json(json.dumps(more), "random", [])
            except ScenarioError as error:
                assert error.errors, number
                continue
            out = more
            break
    return out


def run(checked: Any, cuts: int, threads: int = 1) -> tuple[str, str]:
    """Runs to its end in so many pieces, audited on one core; the summary, and a hash of all bits of the tables."""
    going = _airtcp.Run(checked, None, threads == 1, threads)
    for i in range(1, cuts + 1):
        going.advance(going.end_s * i / cuts)
    output = going.finish()
    tables = hashlib.sha256()
    for name, columns in output.tables.items():
        for column, data in columns.items():
            tables.update(f"{name}.{column} {len(data)} ".encode())
            tables.update(repr(data).encode() if isinstance(data, list) else data.tobytes())
    return output.summary, tables.hexdigest()


def ratios(value: object, at: str = "") -> list[str]:
    """Where a summary has a ratio that is none."""
    if isinstance(value, dict):
        return [fault for key, item in value.items() for fault in ratios(item, f"{at}.{key}")]
    if isinstance(value, list):
        return [fault for i, item in enumerate(value) for fault in ratios(item, f"{at}[{i}]")]
    is_ratio = at.endswith(("_ratio", ".utilisation", ".airtime", "_rate"))
    if is_ratio and isinstance(value, float) and not -1e-9 <= value <= 1 + 1e-9:
        return [f"{at} = {value}"]
    return []


def examine(number: int) -> bool:
    """Runs the scenario of a number, whole, in pieces and on two cores; whether it was valid."""
    text = json.dumps(scenario(number))
    try:
        checked = _airtcp.Checked.from_json(text, "random", [])
        summary, tables = run(checked, 1)
    except ScenarioError as error:
        assert error.errors, number
        return False
    except RunError as error:
        raise AssertionError(f"scenario {number}: {error}") from error
    assert run(checked, 7) == (summary, tables), f"scenario {number} in pieces"
    assert run(checked, 3, threads=2) == (summary, tables), f"scenario {number} on two cores"
    told = json.loads(summary)
    assert not ratios(told), (number, ratios(told))
    assert math.isfinite(sum(link["delivered_bytes"] for link in told["links"] if "delivered_bytes" in link))
    resolved = json.loads(checked.to_json())
    once_more = _airtcp.Checked.from_json(json.dumps(resolved), "random", [])
    assert json.loads(once_more.to_json()) == resolved, f"scenario {number}, written out"
    return True


def test_random_scenarios_run_and_repeat() -> None:
    valid, failed = 0, []
    for number in range(FIRST, FIRST + SCENARIOS):
        try:
            valid += examine(number)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of the engine is no Exception
            failed.append(f"{number}: {error}")
            print(failed[-1], flush=True)  # noqa: T201
    print(f"{valid} of {SCENARIOS} random scenarios were valid, {len(failed)} failed")  # noqa: T201
    assert not failed
    assert valid >= SCENARIOS // 2


def test_random_scenarios_give_the_same_bits_on_any_number_of_threads() -> None:
    numbers = range(FIRST, FIRST + max(SCENARIOS // 4, 5))
    scenarios = []
    for number in numbers:
        with suppress(ScenarioError):
            scenarios.append(_airtcp.Checked.from_json(json.dumps(scenario(number)), "random", []))

    def once(checked: Any) -> tuple[str, str] | None:
        with suppress(ScenarioError):
            return run(checked, 3)
        return None

    alone = [once(checked) for checked in scenarios]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(once, scenarios))
    assert together == alone


def test_what_is_registered_is_drawn() -> None:
    """By the schema alone, so is what will be registered. The rarest name is in one of a hundred."""
    axes = ("traffic", "queue", "receive_offload", "rate_control", "transmit", "cc", "loss")
    missing = {f'"{name}"' for axis in axes for name in _airtcp.names()[axis]}
    for number in range(2000):
        drawn = json.dumps(scenario(number))
        missing = {name for name in missing if name not in drawn}
        if not missing:
            break
    assert not missing
