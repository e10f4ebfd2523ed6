"""Settings that do less than one may believe are told by `airtcp check` and `airtcp run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airtcp import _airtcp
from airtcp.cli import main
from airtcp.traps import notes

ROOT = Path(__file__).parent.parent
LINE = """
name = "line"
duration = "1s"
[[nodes]]
name = "a"
kind = "host"
[[nodes]]
name = "b"
kind = "host"
[[links]]
name = "wire"
from = "a"
to = "b"
rate = "1Gbit/s"
delay = "100us"
[[flows]]
name = "up"
from = "a"
to = "b"
"""
WIFI = str(ROOT / "examples/wifi-upload.toml")


def of(text: str, *changes: tuple[str, str]) -> list[str]:
    changed = [("--set", key, value) for key, value in changes]
    checked = _airtcp.Checked.from_toml(text.encode(), "x.toml", changed)
    scenario: dict[str, Any] = json.loads(checked.to_json())
    return notes(scenario)


def test_a_plain_scenario_has_none() -> None:
    assert of(LINE) == []


def test_options_of_acks_at_the_sender_are_told() -> None:
    [told] = of(LINE, ("flows.up.tcp.delayed_ack", "0s"))
    assert "`tcp.delayed_ack`" in told
    assert "`receiver.delayed_ack`" in told
    assert "`up`" in told
    both = ("flows.up.tcp.delayed_ack", "0s"), ("flows.up.receiver.delayed_ack", "0s")
    assert of(LINE, *both) == []


def test_a_gigabit_card_at_a_faster_line_is_told() -> None:
    fast = ("links.wire.rate", "10Gbit/s")
    [told] = of(LINE, fast)
    assert "`wire`" in told
    assert "igb" in told
    assert "`a` and `b`" in told
    one = of(LINE, fast, ("nodes.a.receive_offload", "napi"))
    assert len(one) == 1
    assert "`a`" not in one[0]
    assert of(LINE, fast, ("nodes.a.receive_offload", "napi"), ("nodes.b.receive_offload", "off")) == []


def test_rate_control_of_stations_alone_is_told() -> None:
    text = (ROOT / "examples/wifi-upload.toml").read_text()
    fixed = '{ name = "fixed", mcs = 3 }'
    [told] = of(text, ("wlans.wlan.station_radio.rate_control", fixed))
    assert "`wlan`" in told
    assert "ap_radio.rate_control" in told
    assert of(text, *((f"wlans.wlan.{end}_radio.rate_control", fixed) for end in ("station", "ap"))) == []


def test_check_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", WIFI, "--set", 'wlans.wlan.station_radio.rate_control="minstrel_ht"']) == 0
    assert "note: WLAN `wlan`" in capsys.readouterr().err
    assert main(["check", WIFI]) == 0
    assert "note:" not in capsys.readouterr().err
