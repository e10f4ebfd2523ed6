"""Classes of retransmissions in captures at an access point, against the sender's own account.

The capture is taken at the access point's wire: behind the queue of a station that uploads, and before the access
point's own queue for a download. The captures of wired paths are in crates/analyze/tests/it/matrix.rs.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import airtcp
from airtcp import _airtcp

Json = dict[str, Any]

LATE_S = 0.05
"""A packet passes the capture so long after it was sent, at most, more than the queue held it."""
LEAST = {"up": 0.9, "down": 0.95}
"""Behind the queue, and before it."""


def network(direction: str, rtt_ms: float, queue: Json | str, loss: float, *, timestamps: bool) -> Json:
    ends = ("laptop", "server") if direction == "up" else ("server", "laptop")
    options = {"timestamps": timestamps}
    radio = {"transmit": queue}
    return {
        "name": "ap",
        "duration": "20s",
        "nodes": [
            {"name": "server", "kind": "host"},
            {"name": "far", "kind": "router"},
            {"name": "ap", "kind": "router"},
            {"name": "laptop", "kind": "host"},
        ],
        "links": [
            {"name": "wire", "from": "ap", "to": "far", "rate": "1Gbit/s", "delay": "100us"},
            {
                "name": "path",
                "from": "far",
                "to": "server",
                "rate": "1Gbit/s",
                "delay": f"{rtt_ms / 2}ms",
                "loss": loss,
            },
        ],
        "wlans": [
            {
                "name": "wlan",
                "ap": "ap",
                "stations": ["laptop"],
                "signal": {"kind": "snr", "snr_db": 18},
                "phy": {"standard": "n", "width_mhz": 20},
                "ap_radio": radio,
                "station_radio": radio,
            }
        ],
        "flows": [{"name": "flow", "from": ends[0], "to": ends[1], "tcp": options, "receiver": options}],
        "record": {"capture": ["wire"], "retransmissions": ["flow"]},
    }


def plain(packets: int) -> Json:
    return {"name": "qdisc", "qdisc": {"name": "fifo", "limit_packets": packets}, "driver_frames": 32}


QUEUES: list[Json | str] = [plain(60), plain(400), "mac80211"]
NETWORKS: list[tuple[float, Json | str, float]] = list(itertools.product((10.0, 80.0), QUEUES, (0.0, 0.01)))


def judged(scenario: Json, file: Path) -> Counter[str]:
    """Retransmissions that the capture shows: `right`, or the true class and the one that was told."""
    run = _airtcp.Run(_airtcp.Checked.from_json(json.dumps(scenario), "ap", []), (file, 128), False)
    run.advance(run.end_s)
    table = run.finish().tables["retransmissions"]
    truth = list(
        zip(table["time_s"], table["seq"], table["size_bytes"], [str(cause) for cause in table["cause"]], strict=True)
    )
    found: Counter[str] = Counter()
    used: set[int] = set()
    for row in airtcp.analyze(file, points=1_000_000).retransmissions.sort("packet").collect().to_dicts():
        if not row["bytes"]:
            continue
        # The capture begins with the first SYN, which leaves at once.
        fits = [
            i
            for i, (at, seq, size, _) in enumerate(truth)
            if i not in used and seq <= row["seq"] < seq + size and at <= row["time_s"] + LATE_S
        ]
        if not fits:
            found["made up"] += 1
            continue
        used.add(fits[-1])
        cause = truth[fits[-1]][3]
        found["right" if row["class"] == cause else f"{cause} told as {row['class']}"] += 1
    return found


@pytest.mark.parametrize(
    ("direction", "timestamps"),
    [("up", True), ("up", False), ("down", True), ("down", False)],
)
def test_classes_at_an_access_point_are_the_senders(tmp_path: Path, direction: str, timestamps: bool) -> None:
    found: Counter[str] = Counter()
    for rtt_ms, queue, loss in NETWORKS:
        scenario = network(direction, rtt_ms, queue, loss, timestamps=timestamps)
        found += judged(scenario, tmp_path / "ap.pcapng")
    total = sum(found.values())
    assert total > 300
    assert found["right"] / total >= LEAST[direction], dict(found)
