"""The study `tcp-av-handover`: what its argument rests on, run by run."""

from __future__ import annotations

from typing import Any

import polars as pl

import airtcp
from airtcp import Results
from conftest import ROOT

STUDY = ROOT / "studies" / "tcp-av-handover"
GROWN = {f"profiles.receiver.{key}": "3MiB" for key in ("receive_buffer", "receive_buffer_max")}
FIFO = "wlans.wlan.ap_radio.transmit.qdisc.limit_packets"


def cell(n: int, /, **changes: Any) -> Results:
    return airtcp.run(STUDY / "cell.toml", seed=1, set={"nodes.sta.count": n, **changes})


def walk(**changes: Any) -> Results:
    cc = {"name": "tcp_av", "target": "12Mbit/s"}
    return airtcp.run(STUDY / "walk.toml", seed=1, set={"flows.mobile.tcp.cc": cc, **changes})


def dropped_acks(results: Results) -> int:
    acks = results.links.filter(pl.col("name").str.starts_with("ap->sta"))
    return int(acks.select(pl.col("dropped_overflow").sum()).collect().item())


def test_acks_overflow_once_all_windows_together_exceed_the_buffer() -> None:
    """6 times 44 segments fit into 265 packets, 7 times do not; 7 times do fit into 566."""
    assert dropped_acks(cell(6)) == 0
    assert dropped_acks(cell(7)) > 1000
    assert dropped_acks(cell(7, **{FIFO: 565})) == 0


def test_laptops_differ_from_phones_by_the_send_buffer() -> None:
    """With the phone's send buffer the laptops' windows are those of phones, and no larger."""

    def largest(**changes: Any) -> int:
        shown = {"record.flow_series_max": 8, "record.interval": "1s", "duration": "60s"}
        return int(
            cell(8, **GROWN, **shown, **changes).flow_series.select(pl.col("in_flight_segments").max()).collect().item()
        )

    phones = largest(**{"profiles.sender.base": "android-2.2"})
    assert 40 <= phones <= 58
    assert abs(largest(**{"profiles.sender.send_buffer_max": "83984B"}) - phones) <= 4
    assert largest() > 200


def test_the_mobile_changes_over_at_the_midpoint_and_goes_on() -> None:
    results = walk(**{"nodes.bg2.count": 1})
    (handover,) = results.handovers.collect().to_dicts()
    assert abs(handover["time_s"] - 20) < 0.1
    assert (handover["from"], handover["to"]) == ("ap1", "ap2")
    mobile = results.flows.filter(pl.col("group") == "mobile").select("flow").collect().item()
    series = results.flow_series.filter(pl.col("flow") == mobile).select("time_s", "bytes_acked").collect()
    at = dict(series.iter_rows())
    assert at[40.0] - at[30.0] > 1e6, "it sends through the second access point"
