"""Defaults of the scenario's schema depend on no other key.

Identities of published runs leave out keys with the schema's default. A default that depended on another key would give
two scenarios with different results one identity.
"""

from __future__ import annotations

import copy
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from airtcp import _airtcp
from airtcp.study.published_runs import normal_form, scenario_id
from conftest import ROOT
from test_random_scenarios import scenario as draw

sys.path.insert(0, str(ROOT / "bench"))
digest = importlib.import_module("bits").digest

FILES = sorted([*ROOT.glob("examples/*.toml"), *ROOT.glob("playground/stories/*.toml")])
WLAN = {
    "nodes": [{"name": "r", "kind": "router"}, {"name": "s", "kind": "host"}],
    "wlans": [{"name": "w", "ap": "r", "stations": ["s"], "phy": {"standard": "ac"}}],
}


def results(scenario: dict[str, Any]) -> str:
    """A hash of a short run, or the refusal."""
    short = {**copy.deepcopy(scenario), "duration": "300ms", "warmup": "0s"}
    short.get("record", {}).pop("interval", None)
    try:
        return str(digest(_airtcp.Checked.from_json(json.dumps(short), "x", [])))
    except (ValueError, RuntimeError) as error:
        return f"refused: {error}"


@pytest.mark.parametrize("number", range(80))
def test_a_random_scenario_without_defaults_has_the_same_results(number: int) -> None:
    scenario = draw(number)
    assert results(normal_form(scenario)) == results(scenario)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_without_defaults_has_the_same_results(file: Path) -> None:
    if file.name.startswith("sweep-"):
        pytest.skip("no scenario")
    scenario = json.loads(_airtcp.Checked.load(file, []).to_json())
    assert results(normal_form(scenario)) == results(scenario)


@pytest.mark.parametrize("layer", ["ap_radio", "station_radio", "radio"])
def test_a_default_that_overrides_another_table_counts(layer: str) -> None:
    scenario: dict[str, Any] = copy.deepcopy(WLAN)
    wlan = scenario["wlans"][0]
    wlan["stations"] = [{"node": "s"}]
    without = scenario_id(scenario)
    (wlan["stations"][0] if layer == "radio" else wlan)[layer] = {"phy": {"standard": "n"}}
    assert scenario_id(scenario) != without
    del wlan["phy"]
    assert "standard" not in json.dumps(normal_form(scenario)["wlans"]), "nothing is overridden"
