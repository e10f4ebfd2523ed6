"""bench/engines.py beside an engine that lacks keys of today's scenarios."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "bench")]
engines = importlib.import_module("engines")


def test_what_an_older_engine_refuses_is_left_out_and_nothing_else() -> None:
    text = """
nodes = [{ name = "sta", receive_offload = "off", count = 3 }]
radio = { phy = { standard = "n" }, reorder_buffer = { timeout = "never" } }
"""
    refusals = 'a.toml:2: nodes[0].receive_offload = "off": unknown key; accepted: count, name\n'
    refusals += "a.toml:3: radio.reorder_buffer: unknown key; accepted: phy\n"
    left = {"nodes": [{"name": "sta", "count": 3}], "radio": {"phy": {"standard": "n"}}}
    assert tomllib.loads(engines.without(text, refusals)) == left
    assert engines.without(text, "a.toml: duration: must be a time") == text
