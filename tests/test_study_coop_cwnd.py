"""The study `coop-cwnd`: what its argument rests on, run by run."""

from __future__ import annotations

from typing import Any

import polars as pl

import airtcp
from airtcp import Results
from conftest import ROOT

STUDY = ROOT / "studies" / "coop-cwnd"
RATE_CONTROL = "wlans.wlan.station_radio.rate_control"
DAEMON = "coop.daemons.daemon"


def cell(**changes: Any) -> Results:
    return airtcp.run(STUDY / "cell.toml", set={"duration": "40s", **changes})


def total_mbps(results: Results) -> float:
    return float(results.flows.select("goodput_bps").collect().sum().item()) / 1e6


def test_acks_overflow_and_the_throughput_of_all_does_not_mind() -> None:
    results = cell(coop=[], **{RATE_CONTROL: "minstrel"})
    acks = results.links.filter(pl.col("name").str.starts_with("ap->phone")).collect()
    assert len(acks) == 10
    assert sum(acks["dropped_overflow"]) > 0.1 * sum(acks["arrived_packets"])
    assert total_mbps(results) > 20


def test_a_cap_is_the_share_of_those_that_a_phone_counts() -> None:
    results = cell(
        **{
            f"{DAEMON}.rtt_in_cap": "min",
            f"{DAEMON}.correct_at": 1.5,
            f"{DAEMON}.correction_exit": 1.2,
            "record.interval": "100ms",
        }
    )
    series = results.daemon_series.filter(pl.col("corrected") == 1).collect()
    assert len(series) > 1000
    # 15.2 Mbit/s and 256 to 300 ms: 22 to 27 segments for ten, more for those that a lost announcement hides.
    for n, cap in series.group_by("terminals").agg(pl.col("cap_segments").median()).iter_rows():
        ideal = 15.2e6 * n**-0.15 * 0.256 / (12_000 * n)
        assert ideal - 1 <= cap <= 1.25 * ideal, (n, cap)
    terminals = series["terminals"].to_list()
    assert sorted(terminals)[len(terminals) // 2] >= 9


def test_phones_that_fall_back_after_collisions_collapse_and_the_daemon_helps() -> None:
    seeds = range(1, 5)
    without = [total_mbps(cell(coop=[], seed=seed, **{RATE_CONTROL: "arf"})) for seed in seeds]
    helped = [total_mbps(cell(seed=seed, **{RATE_CONTROL: "arf"})) for seed in seeds]
    assert max(without) < 5
    # With some seeds the cell stays collapsed for longer, so one alone tells little.
    assert sum(helped) > 2 * sum(without)


def test_with_the_shared_trigger_all_are_capped_and_share_alike() -> None:
    def jain(phases: str) -> float:
        results = cell(duration="60s", **{RATE_CONTROL: "minstrel", f"{DAEMON}.phases": phases})
        goodput: list[float] = results.flows.select("goodput_bps").collect()["goodput_bps"].to_list()
        return sum(goodput) ** 2 / (len(goodput) * sum(x * x for x in goodput))

    assert jain("own") < 0.85
    assert jain("shared") > 0.95
