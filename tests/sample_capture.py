"""A capture's analysis made up for tests of what users see: known numbers, no file behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from airtcp.analysis.reading import columns
from airtcp.analysis.results import FORMAT, FORMAT_VERSION, TABLES, Analysis

Json = dict[str, Any]

MSS = 1448
RTT_S = 0.04

FLOW: Json = {
    "source": "192.0.2.1",
    "destination": "198.51.100.7",
    "destination_port": 443,
    "ip_version": 4,
    "complete": True,
    "mss_bytes": MSS,
    "sack_permitted": True,
    "timestamps": True,
    "window_scale": 7.0,
    "vantage": "sender",
    "goodput_bps": 3.4e6,
    "rtt_min_ms": 40.0,
    "rtt_mean_ms": 47.5,
    "rtt_max_ms": 91.25,
    "rtt_near_min_ms": 0.1,
    "path_rtt_min_ms": 40.0,
    "path_rtt_p50_ms": 47.0,
    "path_rtt_p95_ms": 90.0,
    "receive_window_max_bytes": 1e6,
    "role": "server",
    "opening": "answered",
    "opening_ms": 40.0,
    "asked_after_ms": 1.0,
    "reset_by": "",
    "reset_cut": False,
    "one_way": False,
    "ends_closed": False,
    "line_bps": None,
    "line_by": "",
    "path_bps": 3.4e6,
}


def flow(
    number: int, packets: int = 200, timeouts: Sequence[int] = (), fast: int = 0, **changes: Any
) -> dict[str, list[Json]]:
    """The rows of one flow: timeouts with so many duplicate ACKs received, and fast retransmits, evenly spread.

    EFR avoids every timeout with one or more, Early Retransmit those with two or more, RACK those with three.
    """
    start = 0.5 * number
    times = (start + np.arange(packets) * RTT_S / 10).tolist()
    seqs = (1 + np.arange(packets) * MSS).tolist()
    tables: dict[str, list[Json]] = {name: [] for name in TABLES}
    for t, seq in zip(times, seqs, strict=True):
        kinds = (("data", t, seq), ("ack", t + RTT_S, seq))
        for kind, at, first in kinds:
            row = {
                "flow": number,
                "time_s": float(at),
                "kind": kind,
                "seq_from": int(first),
                "seq_to": int(first + MSS),
            }
            tables["segments"].append(row)
        tables["rtt_samples"].append({"flow": number, "time_s": float(t + RTT_S), "rtt_ms": 40.0 + float(seq % 17)})
        tables["rtt_samples"][-1]["path_rtt_ms"] = tables["rtt_samples"][-1]["rtt_ms"]
        flight = 10_000 + int(seq % 9_000)
        tables["windows"].append(
            {
                "flow": number,
                "time_s": float(t),
                "flight_bytes": flight,
                "receive_window_bytes": 1e6,
                "cwnd_estimate_bytes": flight + 2 * MSS,
            }
        )
    events = [("timeout", held) for held in timeouts] + [("fast", 3)] * fast
    for i, (kind, held) in enumerate(events):
        at = start + packets * RTT_S / 10 * (i + 1) / (len(events) + 1)
        seq = 1 + MSS * (packets * (i + 1) // (len(events) + 1))
        waited = 0.25 if kind == "timeout" else 0.045
        tables["retransmissions"].append(
            {
                "flow": number,
                "packet": 1000 * number + i + 1,
                "time_s": at,
                "seq": seq,
                "bytes": MSS,
                "class": kind,
                "spurious": kind == "fast" and i % 2 == 1,
                "waited_s": waited,
                "dup_acks": held,
                "flight_segments": held + 1,
                "rto_estimate_s": 0.24,
                "reason": f"{held} duplicate ACKs & <nothing> $else$",
            }
        )
        if kind == "timeout":
            tables["timeouts"].append(
                {
                    "flow": number,
                    "packet": 1000 * number + i + 1,
                    "time_s": at,
                    "waited_s": waited,
                    "dup_acks": held,
                    "flight_segments": held + 1,
                    "window_segments": held + 1,
                    "efr_at_s": at - 0.2 if held >= 1 else None,
                    "early_retransmit_at_s": at - 0.2 if held >= 2 else None,
                    "rack_at_s": at - 0.2 if held >= 3 else None,
                }
            )
    tables["segments"] += [
        {"flow": number, "time_s": row["time_s"], "kind": kind, "seq_from": row["seq"], "seq_to": row["seq"] + MSS}
        for row in tables["retransmissions"]
        for kind in ("retransmission", "dup_ack", "sack")
    ]
    end = float(times[-1]) + RTT_S if packets else start
    middle = (start + end) / 2
    if packets:
        tables["limits"] += [
            {"flow": number, "from_s": start, "to_s": middle, "limit": "queue"},
            {"flow": number, "from_s": middle, "to_s": end, "limit": "loss"},
        ]
    counts = [sum(min(held, 3) == n for held in timeouts) for n in range(4)]
    row = {
        **dict.fromkeys(columns()["flows"], 0),
        **FLOW,
        "flow": number,
        "connection": number,
        "source_port": 50_000 + number,
        "start_s": start,
        "end_s": end,
        "limited_queue_s": middle - start,
        "limited_loss_s": end - middle,
        "packets": packets + len(events),
        "data_packets": packets + len(events),
        "payload_bytes": (packets + len(events)) * MSS,
        "unique_bytes": packets * MSS,
        "retransmitted_packets": len(events),
        "retransmitted_bytes": len(events) * MSS,
        "fast_retransmits": fast,
        "timeouts": len(timeouts),
        "spurious_retransmissions": sum(row["spurious"] for row in tables["retransmissions"]),
        "rtt_samples": packets,
        "initial_window_segments": 10,
        "flight_max_bytes": 20_000,
        **{f"timeouts_dup_{n}": count for n, count in zip(("0", "1", "2", "3_or_more"), counts, strict=True)},
        "avoided_efr": sum(counts[1:]),
        "avoided_early_retransmit": sum(counts[2:]),
        "avoided_rack": counts[3],
    }
    tables["flows"].append(row | changes)
    return tables


FLOATS = {"window_scale", "goodput_bps", "line_bps", "path_bps", "receive_window_bytes", "receive_window_max_bytes"}


def frames(*flows: dict[str, list[Json]]) -> dict[str, pl.DataFrame]:
    """Tables with the columns of the real ones."""
    tables = {}
    for name in TABLES:
        rows = [row for one in flows for row in one[name]]
        schema = {column: kind(column) for column in columns()[name]}
        tables[name] = pl.DataFrame([[row[column] for column in schema] for row in rows], schema=schema, orient="row")
    return tables


def kind(column: str) -> Any:
    """Type of a column, by its name."""
    if column in (
        "source",
        "destination",
        "vantage",
        "class",
        "reason",
        "kind",
        "limit",
        "transmitter",
        "receiver",
        "phy",
        "role",
        "opening",
        "reset_by",
        "line_by",
    ):
        return pl.String
    if column in ("complete", "sack_permitted", "timestamps", "spurious", "reset_cut", "one_way", "ends_closed"):
        return pl.Boolean
    is_float = column in FLOATS or (column.endswith(("_s", "_ms")) and column != "rtt_samples")
    return pl.Float64 if is_float else pl.UInt64


def analysis(*flows: dict[str, list[Json]], **changes: Any) -> Analysis:
    """An `Analysis` of these flows in memory."""
    tables = frames(*flows)
    total = sum(row["packets"] for one in flows for row in one["flows"])
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "airtcp_version": "0.1.0",
        "file": "made-up.pcapng",
        "status": "complete",
        "damage": None,
        "notes": ["3 packets of link type 127 skipped"],
        "capture": {
            "format": "pcapng",
            "packing": None,
            "link_types": [1, 4711],
            "snap_bytes": 96,
            "packets": 2 * total,
            "tcp_packets": 2 * total,
            "duration_s": 12.5,
            "connections": len(flows),
            "first_s": 1_700_000_000.25,
            "last_s": 1_700_000_012.75,
            "bytes": 123_456_789,
            "copies": 0,
            "dns": {},
        },
        "kept": None,
        "settings": {},
        "tables": {name: {"rows": tables[name].height, "columns": columns()[name]} for name in TABLES},
    }
    return Analysis(manifest | changes, {name: table.lazy() for name, table in tables.items()})
