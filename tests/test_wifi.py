"""Wireless LANs from the user's side: scenarios in Python, summaries, plots, sweeps, captures."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import polars as pl
import pytest
from matplotlib.figure import Figure

import airtcp
from airtcp import Flow, Link, Node, Results, Scenario, ScenarioError
from airtcp.plots import over_time
from airtcp.scenario import FixedRate, FixedRetryOut, PhyConfig, RadioOptions, Record, ReorderConfig, Snr, Station, Wlan
from airtcp.tasks.measures import Extract, take
from conftest import ROOT, WIRELESS, Command


def cell(retry_out: FixedRetryOut | None = None) -> Scenario:
    """Two stations, one of them with few modes to choose from."""
    return Scenario(
        name="cell",
        duration="3s",
        warmup="1s",
        nodes=[
            Node(name="sta", kind="host", count=2),
            Node(name="ap", kind="router"),
            Node(name="server", kind="host"),
        ],
        links=[Link(from_="ap", to="server", rate="1Gbit/s", delay="1ms")],
        wlans=[
            Wlan(
                name="wlan",
                ap="ap",
                phy=PhyConfig(standard="n", width_mhz=20),
                signal=Snr(snr_db=12),
                stations=[
                    "sta[0]",
                    Station(node="sta[1]", radio=RadioOptions(rate_control=FixedRate(mcs=1))),
                ],
                ap_radio=RadioOptions(reorder_buffer=ReorderConfig(retry_out=retry_out)) if retry_out else None,
            )
        ],
        flows=[Flow(name="up", from_="sta", to="server")],
        record=Record(air_series=["wlan"], ppdus=True),
    )


@pytest.fixture(scope="module")
def results() -> Results:
    return airtcp.run(cell())


def test_a_cell_in_python(results: Results) -> None:
    air = results.air.collect()
    assert air["name"].to_list() == ["sta[0]->ap", "ap->sta[0]", "sta[1]->ap", "ap->sta[1]"]
    assert air["direction"].to_list() == ["up", "down", "up", "down"]
    slow = air.row(by_predicate=pl.col("name") == "sta[1]->ap", named=True)
    assert slow["mac_rate_mean_bps"] == 13e6
    assert 0 < slow["airtime"] < 1
    # All that is on the air fits into the time there is.
    assert air["airtime"].sum() <= 1


def test_ppdus_add_up_to_what_is_counted(results: Results) -> None:
    warm = results.summary["warmup_s"]
    ppdus = results.ppdus.collect()
    assert (ppdus["received"] + ppdus["legible"] <= ppdus["mpdus"]).all()
    # One channel without hidden stations: what does not collide does not overlap.
    alone = ppdus.filter(~pl.col("collided")).sort("start_s")
    ends = alone["start_s"] + alone["duration_us"] * 1e-6
    assert (alone["start_s"][1:] >= ends[:-1] - 1e-9).all()
    # A PPDU counts when its answer is over or overdue: shortly after its own end.
    counted = results.air.select("link", "ppdus", "mpdus").collect()
    ends_at = pl.col("start_s") + pl.col("duration_us") * 1e-6
    seen = ppdus.filter((ends_at >= warm) & (pl.col("mpdus") > 0)).group_by("link").agg(pl.len(), pl.col("mpdus").sum())
    both = counted.join(seen, on="link", suffix="_seen", maintain_order="left")
    assert both.height == counted.height
    assert ((both["ppdus"].cast(pl.Int64) - both["len"].cast(pl.Int64)).abs() <= 1).all()


def test_the_series_agrees_with_the_whole(results: Results) -> None:
    warm = results.summary["warmup_s"]
    series = results.air_series.filter(pl.col("time_s") > warm + 1e-9).collect()
    mean = (
        series.group_by("link")
        .agg(pl.col("airtime").mean().alias("mean"))
        .join(results.air.collect(), on="link", maintain_order="left")
    )
    assert ((mean["mean"] - mean["airtime"]).abs() < 1e-6).all()
    assert series["snr_db"].unique().to_list() == [12.0]
    of_fixed = series.join(results.links.select("link", "name").collect(), on="link", maintain_order="left").filter(
        pl.col("name") == "sta[1]->ap"
    )
    assert of_fixed["best_mode"].unique().to_list() == ["MCS 1 20 MHz"]


def test_retry_out_by_name_and_object() -> None:
    given_up = {}
    for index in (None, 1):
        scenario = cell(FixedRetryOut(index=index) if index else None)
        summary = airtcp.run(scenario, set={"wlans.wlan.signal": {"kind": "error_rate", "rate": 0.3}}).summary
        given_up[index] = sum(row["given_up"] for row in summary["air"])
    assert given_up[None] == 0
    assert given_up[1] > 0


def test_summary_and_measures(results: Results) -> None:
    summary = results.summary
    assert [row["name"] for row in summary["air"]] == results.air.collect()["name"].to_list()
    from airtcp import _airtcp

    checked = _airtcp.Checked.from_json(json.dumps(cell().to_dict()), "cell", [])
    extract = Extract("airtime", "value", "air.sta[1]->ap.airtime")
    run = _airtcp.Run(checked, None)
    run.advance(3.0)
    taken = take([extract], run.finish(), json.loads(checked.to_json()))
    assert taken[extract.id] == summary["air"][2]["airtime"]


def test_panels_of_the_air(results: Results) -> None:
    titles = _titles(over_time([results], link="ap->server"))
    assert titles[4:] == ["Data rate in the air", "MPDU errors", "Airtime", "Held by the sending host"]
    both = over_time([results, results], link="ap->server", labels=["one", "two"])
    assert all(title.endswith("->ap") for title in _titles(both)[4:])
    without = airtcp.run(ROOT / "examples/pacing-buffers-reno.toml", duration="21s", set={"nodes.left.count": 500})
    assert len(_titles(over_time([without]))) == 4


def _titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_faults_of_a_cell_say_where() -> None:
    scenario = cell()
    assert scenario.wlans is not None
    scenario.wlans[0].phy = PhyConfig(standard="g", width_mhz=40)
    with pytest.raises(ScenarioError, match=r"wlans\[0\]\.phy: `width_mhz` = 40"):
        airtcp.run(scenario)


def test_the_command_shows_and_captures_wlans(airtcp: Command, tmp_path: Path) -> None:
    path = tmp_path / "wireless.toml"
    path.write_text(WIRELESS)
    done = airtcp("run", path, "--set", "record.capture_air=['wlan']", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "WLANs" in done.stdout
    assert "far->r" in done.stdout
    capture = (tmp_path / "out/capture.pcapng").read_bytes()
    # An interface of LINKTYPE_IEEE802_11_RADIOTAP.
    assert b"\x01\x00\x00\x00" in capture
    assert (127).to_bytes(2, "little") + b"\x00\x00" in capture[:400]
    table = airtcp("compare", tmp_path / "out", tmp_path / "out")
    assert "in the air" in table.stdout


def test_the_command_lists_policies_of_the_air(airtcp: Command) -> None:
    assert "minstrel_ht" in airtcp("list", "rate_control").stdout.split()
    assert "stepped" in airtcp("list", "retry_out").stdout.split()


def test_a_walk_on_the_command_line(airtcp: Command, tmp_path: Path) -> None:
    """The phone of the example goes over past the midpoint, and again on its way back; all of the air is recorded."""
    done = airtcp(
        *("run", ROOT / "examples/walk.toml", "--out", tmp_path / "out"),
        *("--set", "record.capture_air=['one', 'two']", "--set", "record.ppdus=true"),
        *("--set", "walks.phone.speed_m_per_s=4"),
        *("--set", "duration=15s", "--set", "record.interval=50ms"),
    )
    assert done.returncode == 0, done.stderr
    walk = Results.load(tmp_path / "out")
    handovers = walk.handovers.collect()
    assert handovers.select("from", "to").rows() == [("one", "two"), ("two", "one")]
    # Half a metre nearer than the other: 10.26 m of 20, 3 m off the line, at 4 m/s from 4 s on; then from the far end.
    assert handovers["time_s"].to_list() == pytest.approx([4 + 10.26 / 4, 4 + 30.26 / 4], abs=0.02)
    assert handovers["associated_s"].to_list() == pytest.approx([t + 0.05 for t in handovers["time_s"]])
    walkers = walk.walkers.collect()
    assert walkers.height == 300
    away = walkers.filter(pl.col("wlan") == "")
    assert set(walkers["wlan"]) == {"one", "two", ""}
    assert away["distance_m"].is_null().all()
    assert walkers["distance_m"].max() == pytest.approx(10.7, abs=0.2)
    links = walk.links.select("link", "name")
    ppdus = walk.ppdus.join(links, on="link", maintain_order="left").filter(pl.col("name") == "phone->ap2").collect()
    (there, back), (begin, end) = handovers["associated_s"], handovers["time_s"]
    assert begin < there <= ppdus["start_s"].min()
    assert ppdus["start_s"].max() <= end + 0.01 < back
    flows = walk.flows.select("flow", "name")
    acked = walk.flow_series.join(flows, on="flow", maintain_order="left").filter(pl.col("name") == "upload").collect()
    assert acked["bytes_acked"][-1] > acked.filter(pl.col("time_s") <= end)["bytes_acked"][-1]
    assert (tmp_path / "out/capture.pcapng").stat().st_size > 100_000


def test_the_examples_tell_their_stories() -> None:
    example, seeds = ROOT / "examples/wifi-retry-out.toml", range(1, 6)
    with_it = [airtcp.run(example, duration="30s", seed=seed) for seed in seeds]
    without = [airtcp.run(example, duration="30s", seed=seed, set={"wlans.wlan.ap_radio": {}}) for seed in seeds]

    def of(runs: list[Results], group: str, key: str) -> float:
        rows = (row for results in runs for row in results.summary["groups"] if row["group"] == group)
        return statistics.fmean(float(row[key]) for row in rows)

    assert of(without, "ping", "rtt_mean_ms") > 300
    assert of(with_it, "ping", "rtt_mean_ms") < 150
    assert of(with_it, "upload", "goodput_bps") > 0.8 * of(without, "upload", "goodput_bps")
