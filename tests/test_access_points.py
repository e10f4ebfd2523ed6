"""Access points by the driver of their radio: as data, at the command line and in Python."""

from __future__ import annotations

import json

import pytest

import airtcp
from airtcp import cli
from airtcp.access_points import UnknownAccessPointError, access_points, changes
from conftest import ROOT

WIFI = ROOT / "examples/wifi-upload.toml"


@pytest.mark.parametrize("name", access_points())
def test_each_is_valid_and_ends_in_the_scenario(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(WIFI), "--ap", name, "--json"]) == 0
    radio = json.loads(capsys.readouterr().out)["wlans"][0]["ap_radio"]
    for key, value in airtcp.access_point(name).items():
        assert {k: radio[key][k] for k in value} == value


def test_single_options_of_it_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", str(WIFI), "--ap", "mt76", "--json", "--set", "wlans.wlan.ap_radio.transmit.aql_high=20ms"]
    assert cli.main(words) == 0
    transmit = json.loads(capsys.readouterr().out)["wlans"][0]["ap_radio"]["transmit"]
    assert (transmit["driver"], transmit["aql_high"]) == ("mt76", "20ms")


def test_drivers_differ_where_a_download_waits() -> None:
    """ath10k's firmware holds what AQL lets it, ath9k leaves packets in the queues above."""
    home = {"duration": "8s", "flows.upload.from": "server", "flows.upload.to": "sta"}
    runs = {}
    for name in ("ath9k", "mt76"):
        radio = {f"wlans.wlan.ap_radio.{key}": value for key, value in airtcp.access_point(name).items()}
        runs[name] = airtcp.run(WIFI, set={**home, **radio}).summary["groups"][0]["rtt_mean_ms"]
    assert runs["ath9k"] != runs["mt76"]


def test_an_unknown_one_is_answered() -> None:
    with pytest.raises(UnknownAccessPointError, match=r"did you mean `ath9k`\? there are: ath10k"):
        airtcp.access_point("ath9")
    assert changes("mt76", {"nodes": []}) == []
