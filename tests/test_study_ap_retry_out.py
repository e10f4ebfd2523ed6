"""The study `ap-retry-out`: what its argument rests on, run by run."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import airtcp
from conftest import ROOT

STUDY = ROOT / "studies" / "ap-retry-out"
RETRY_OUT = "wlans.wlan.ap_radio.reorder_buffer.retry_out"
SLOW = {"wlans.wlan.signal.snr_db": 3.5, "duration": "30s"}


def measured(**changes: Any) -> dict[str, Any]:
    run = airtcp.run(STUDY / "place.toml", set={**SLOW, **changes})
    flow = run.flows.filter(pl.col("name") == "upload").collect().to_dicts()[0]
    air = run["air"].filter(pl.col("direction") == "up").collect().to_dicts()[0]
    pings = run.pings.select("rtt_ms").collect()["rtt_ms"]
    return {**flow, **air, "ping_ms": pings.mean(), "pings_lost": pings.null_count()}


def test_the_remedy_takes_the_queue_of_a_slow_place_and_little_throughput() -> None:
    without, remedied = measured(), measured(**{RETRY_OUT: "stepped"})
    assert without["given_up"] == 0
    assert without["held_mean_packets"] > 300
    assert remedied["given_up"] > 0
    assert remedied["ping_ms"] < without["ping_ms"] / 5
    assert remedied["goodput_bps"] > 0.7 * without["goodput_bps"]


def test_what_waits_leaves_at_the_rate_of_the_upload() -> None:
    """Little's law: the queue over the throughput is the round trip, but for the wire and the ACK's way back."""
    run = measured()
    wait_ms = run["held_mean_packets"] * 1448 * 8 / run["goodput_bps"] * 1e3
    assert wait_ms == pytest.approx(run["rtt_mean_ms"], rel=0.15)


def test_without_reports_of_corrupt_frames_the_remedy_does_nothing() -> None:
    same = ["segments_sent", "goodput_bps", "rtt_mean_ms", "mpdus", "mpdus_failed", "ping_ms"]
    blind = measured(**{RETRY_OUT: "stepped", "wlans.wlan.ap_radio.reorder_buffer.reports_corrupt": 0})
    without = measured(**{"wlans.wlan.ap_radio.reorder_buffer.reports_corrupt": 0})
    assert blind["given_up"] == 0
    assert [blind[key] for key in same] == [without[key] for key in same]


@pytest.mark.parametrize("policy", ["stepped", "delay"])
def test_udp_and_pings_are_not_given_up(policy: str) -> None:
    changes = {"wlans.wlan.ap_radio.reorder_buffer.timeout": "never"}  # which passes over whatever is late
    flows = {"flows.upload.stop": "27s", "flows.udp.stop": "25s", "flows.ping.stop": "25s"}
    run = airtcp.run(STUDY / "innocent.toml", set={**SLOW, **changes, **flows, RETRY_OUT: policy})
    assert run["air"].select(pl.col("given_up").sum()).collect().item() > 0
    lost = run.flows.filter(pl.col("name") != "upload").select("name", "segments_sent", "received", "dropped_at_queues")
    for row in lost.collect().to_dicts():
        assert row["received"] == row["segments_sent"] - row["dropped_at_queues"], row
