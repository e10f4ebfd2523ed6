"""A driver that says late what has been sent holds a sender back by TCP small queues."""

from __future__ import annotations

from pathlib import Path

import airtcp

ROOT = Path(__file__).parent.parent
RADIO = "wlans.wlan.station_radio"


def goodput(shift: int, **completion: str) -> float:
    changes = {f"{RADIO}.transmit.tsq_pacing_shift": shift, f"{RADIO}.tx_completion": completion, "duration": "3s"}
    return float(airtcp.run(ROOT / "evidence/below-tcp.toml", set=changes).summary["groups"][0]["goodput_bps"])


def test_a_late_report_holds_back_who_may_have_little_below() -> None:
    at_once = {shift: goodput(shift) for shift in (6, 9)}
    late = {shift: goodput(shift, delay="4ms") for shift in (6, 9)}
    assert abs(late[6] / at_once[6] - 1) < 0.03, "16 ms of data cover a delay of 4 ms"
    assert late[9] < 0.7 * at_once[9], "2 ms do not"
    assert goodput(9, delay="2ms", batch="2ms") < 0.8 * goodput(9, delay="2ms")
