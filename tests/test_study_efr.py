"""The study `efr`: what its argument rests on, run by run."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import airtcp
from airtcp import Results
from conftest import ROOT

STUDY = ROOT / "studies" / "efr"
LOSS = "flows.upload.tcp.loss"


def upload(seed: int = 1, /, **changes: Any) -> Results:
    return airtcp.run(STUDY / "wavelan.toml", seed=seed, set={"flows.upload.traffic.bytes": "4MB", **changes})


def repairs(results: Results, cause: str) -> pl.DataFrame:
    return results.retransmissions.filter(pl.col("cause") == cause).collect()


def test_reno_waits_for_three_duplicates_and_efr_for_the_window_less_two() -> None:
    assert repairs(upload(), "fast")["dup_acks"].unique().to_list() == [3]
    efr = repairs(upload(**{LOSS: "efr"}), "fast")
    threshold = (pl.col("window_segments").cast(pl.Int64) - 2).clip(1, 3)
    assert efr.filter(pl.col("dup_acks") != threshold).is_empty()
    assert set(efr["dup_acks"]) == {1, 2, 3}


def test_vegas_repeats_after_fewer_duplicates_or_none() -> None:
    """By the clock after one duplicate or two, and, after a retransmission, at an ACK of new data."""
    vegas = repairs(upload(**{LOSS: "vegas_retransmit"}), "fast")
    assert {0, 1} < set(vegas["dup_acks"]) <= {0, 1, 2, 3}


def test_a_slow_host_repeats_later() -> None:
    def waits_ms(packet_time: str) -> pl.Series:
        return repairs(upload(**{"nodes.mh.packet_time": packet_time}), "fast")["waited_ms"]

    quantile = 0.1  # the round trips in which nothing else was in the way
    none, slow = (waits_ms(time).quantile(quantile) for time in ("0ms", "3ms"))
    assert none is not None
    assert slow is not None
    # A segment goes down and an ACK comes up, and each waits for what is before it.
    assert slow > none + 6


def test_efr_turns_timeouts_into_fast_retransmits_and_gains() -> None:
    seeds = range(1, 6)
    reno, efr = ([upload(seed, **{LOSS: policy}) for seed in seeds] for policy in ("dup_thresh", "efr"))

    def count(runs: list[Results], cause: str) -> int:
        return sum(len(repairs(run, cause)) for run in runs)

    def took_s(runs: list[Results]) -> float:
        tables = [run.transfers.select(pl.col("end_s") - pl.col("start_s")).collect() for run in runs]
        return float(pl.concat(tables)["end_s"].sum())

    assert count(efr, "fast") > 1.3 * count(reno, "fast")
    assert count(efr, "timeout") < 0.9 * count(reno, "timeout")
    assert took_s(efr) < 0.95 * took_s(reno)


def test_what_the_medium_loses_is_what_is_sent_again() -> None:
    """Each data segment arrives, is lost in the air, or arrives and brings nothing new."""
    results = upload(**{"record.drops": ["wavelan"]})
    flows = results.flows.select("segments_retransmitted", "spurious_retransmissions").sum().collect()
    lost = results.drops.filter(~pl.col("reverse") & (pl.col("size_bytes") > 100)).collect()
    assert set(lost["reason"]) <= {"collision", "retry_limit"}
    assert flows["segments_retransmitted"].item() == len(lost) + flows["spurious_retransmissions"].item()


def test_without_losses_the_policy_does_not_matter() -> None:
    changes = {"links.ethernet.loss": 0}
    tables = [
        airtcp.run(STUDY / "ethernet.toml", set={**changes, LOSS: policy}).transfers.collect()
        for policy in ("dup_thresh", "efr", "early_retransmit")
    ]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


@pytest.mark.parametrize("policy", ["dup_thresh", "efr", "early_retransmit", "rack"])
def test_on_a_line_that_only_reorders_every_retransmission_is_needless(policy: str) -> None:
    small = {f"flows.transfer.receiver.{key}": "4344B" for key in ("receive_buffer", "receive_buffer_max")}
    reorder = {"links.line.reorder.probability": 0.05, "links.line.reorder.delay": "20ms"}
    results = airtcp.run(STUDY / "reordering.toml", set={**small, **reorder, "flows.transfer.tcp.loss": policy})
    rows = results.retransmissions.collect()
    assert rows["needless"].all()
    assert (len(rows) > 50) == (policy in ("efr", "early_retransmit"))
    spurious: int = results.flows.select("spurious_retransmissions").collect().item()
    assert spurious == len(rows)
