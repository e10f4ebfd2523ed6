"""Captures in monitor mode: what `airtcp analyze` says of the stations, in the terminal, as JSON and on the page."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import airtcp as package
from airtcp.analysis.stations import sentence
from conftest import Command

NETWORK = """
duration = "1s"
nodes = [
  { name = "sta", kind = "host", count = 2 },
  { name = "ap", kind = "router" },
  { name = "server", kind = "host" },
]
links = [{ from = "ap", to = "server", rate = "1Gbit/s", delay = "5ms" }]
flows = [{ name = "up", from = "sta", to = "server" }]
[[wlans]]
name = "wlan"
ap = "ap"
signal = { kind = "path_loss", exponent = 3.5 }
phy = { standard = "n" }
stations = [{ node = "sta[0]", position_m = [2, 0] }, { node = "sta[1]", position_m = [0, 14] }]
[record]
capture_air = ["wlan"]
"""


@pytest.fixture(scope="module")
def air(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("air")
    (folder / "air.toml").write_text(NETWORK)
    package.run(folder / "air.toml", out=folder / "run")
    return folder / "run/capture.pcapng"


def test_the_stations_are_told(airtcp: Command, air: Path, tmp_path: Path) -> None:
    done = airtcp("analyze", air, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "of the time; " in " ".join(done.stdout.split())
    assert "On the air" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    document = json.loads(airtcp("analyze", air, "--json").stdout)
    first = document["totals"]["stations"][0]
    assert {first["transmitter"], first["receiver"]} <= {f"02:00:00:00:00:0{n}" for n in range(3)}
    assert 0 < first["airtime_share"] <= 1
    assert first["transmitter"] in done.stdout
    page = (tmp_path / "out/report.html").read_text()
    assert 'id="air"' in page
    assert "Who used the air" in page
    seen = package.Analysis.load(tmp_path / "out")
    assert seen.stations.select(pl.col("data_frames").sum()).collect().item() > 500
    total = seen.stations.select(pl.col("airtime_s").sum()).collect().item()
    assert seen.airtime.select(pl.col("airtime_s").sum()).collect().item() == pytest.approx(total)


def test_a_selection_of_flows_keeps_the_stations(air: Path) -> None:
    seen = package.analyze(air, ports=[1])
    assert seen.flows.collect().is_empty()
    assert not seen.stations.collect().is_empty()


def test_other_captures_have_none() -> None:
    assert sentence([], 0.5) == ""
    row = {"transmitter": "", "airtime_share": 0.5, "rate_mean_bps": None, "retry_ratio": None}
    assert (
        sentence([row], 0.934) == "The air was full: it was taken 93 % of the time; unknown senders took 50 % of that."
    )


@pytest.mark.parametrize(
    ("signal", "share", "says"),
    [
        (-87.0, 0.3, "b is too far away: its signal is -87 dBm at the monitor"),
        (-50.0, 0.3, "b had trouble although its signal is -50 dBm at the monitor: 40 % of its frames were sent again"),
        (None, None, "does not tell how busy the air was, because its frames have no rates. b had trouble"),
    ],
)
def test_a_station_in_trouble_is_named(signal: float | None, share: float | None, says: str) -> None:
    quiet = {"transmitter": "a", "airtime_share": 0.6, "rate_mean_bps": 54e6, "retry_ratio": 0.01, "data_frames": 500}
    row = {**quiet, "transmitter": "b", "airtime_share": 0.4, "retry_ratio": 0.4, "signal_mean_dbm": signal}
    assert says in sentence([quiet, row], share)
    if share:
        unknown = [{**one, "phy": ""} for one in (quiet, row)]
        assert "does not tell how busy the air was" in sentence(unknown, share)
    # A few frames tell nothing.
    assert "b " not in sentence([quiet, {**row, "data_frames": 19}], share)
