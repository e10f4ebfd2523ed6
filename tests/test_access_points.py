"""Access points by the driver of their radio: as data, at the command line and in Python."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
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


def test_sweeps_and_advice_take_it(tmp_path: Path) -> None:
    short = ["--set", "duration=2s", "warmup=0s", "nodes.sta.count=5"]
    goodputs = {}
    for name in ("ath9k", "mt76"):
        done = tmp_path / name
        words = ["sweep", str(WIFI), "--ap", name, "--vary", "links.ap-server.delay=5ms,6ms", "--seeds", "1"]
        assert cli.main([*words, "--jobs", "1", "-q", "--out", str(done), *short]) == 0
        goodputs[name] = pl.read_parquet(done / "runs.parquet")["goodput_upload"].to_list()
    assert goodputs["ath9k"] != goodputs["mt76"]
    advised = tmp_path / "advised"
    assert cli.main(["advise", str(WIFI), "--ap", "ath9k", "--seeds", "1", "--out", str(advised), "-q", *short]) == 0
    assert 'driver = "ath9k"' in (advised / "scenario.toml").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["advise", "home", "--ap", "mt67"], "did you mean"),
        (["advise", str(ROOT / "examples/pacing-buffers-reno.toml"), "--ap", "mt76"], "has no WLAN"),
        (["sweep", str(WIFI), "--vary", "links.ap-server.delay=5ms,6ms", "--ap", "mt67"], "did you mean"),
        (["sweep", str(ROOT / "examples/sweep-buffers.toml"), "--ap", "mt76"], "with --vary"),
    ],
)
def test_what_it_cannot_be_is_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_drivers_differ_where_a_download_waits() -> None:
    """ath10k's firmware holds what AQL lets it, ath9k leaves packets in the queues above."""
    home = {"duration": "8s", "flows.upload.from": "server", "flows.upload.to": "sta"}
    runs = {}
    for name in ("ath9k", "mt76"):
        radio = {f"wlans.wlan.ap_radio.{key}": value for key, value in airtcp.access_point(name).items()}
        runs[name] = airtcp.run(WIFI, set={**home, **radio}).summary["groups"][0]["rtt_mean_ms"]
    assert runs["ath9k"] != runs["mt76"]


def ampdus_of_the_page() -> dict[str, tuple[str, int]]:
    """Each name, with the standard of its radio and the length of its A-MPDUs on the page."""
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d+), [^|]*\|$", (ROOT / "docs/wifi.md").read_text(), re.MULTILINE)
    return {name: ("n" if name == "ath9k" else "ac", int(most)) for name, most in rows}


@pytest.mark.parametrize("name", access_points())
def test_at_saturation_a_mpdus_are_as_long_as_its_page_says(name: str) -> None:
    standard, most = ampdus_of_the_page()[name]
    assert mean_ampdu(name, standard) == pytest.approx(most, rel=0.02)


def test_in_80211n_bytes_bound_a_mpdus_as_the_page_says() -> None:
    page = (ROOT / "docs/wifi.md").read_text()
    found = re.search(r"allows 65535 bytes, which are (\d+) packets", page)
    assert found is not None
    assert mean_ampdu("mt76", "n") == pytest.approx(int(found[1]), rel=0.02)


def mean_ampdu(name: str, standard: str) -> float:
    """MPDUs in an A-MPDU of an access point that always has datagrams for a station nearby."""
    width, mode = {"n": (40, {"mcs": 15}), "ac": (80, {"mcs": 9, "streams": 2})}[standard]
    phy = {"standard": standard, "width_mhz": width, "streams": 2}
    rate = {"name": "fixed", **mode}
    radio = {f"wlans.wlan.ap_radio.{key}": value for key, value in airtcp.access_point(name).items()}
    changes = {"wlans.wlan.phy": phy, "wlans.wlan.ap_radio.rate_control": rate, **radio}
    air = (
        airtcp.run(ROOT / "tests/data/saturated-ap.toml", set=changes)
        .air.filter(pl.col("direction") == "down")
        .collect()
    )
    mpdus, ppdus = (air[name].cast(pl.Float64).sum() for name in ("mpdus", "ppdus"))
    return float(mpdus) / float(ppdus)


def test_an_unknown_one_is_answered() -> None:
    with pytest.raises(UnknownAccessPointError, match=r"did you mean `ath9k`\? there are: ath10k"):
        airtcp.access_point("ath9")
    assert changes("mt76", {"nodes": []}) == []
