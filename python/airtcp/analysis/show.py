"""An analysed capture in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from airtcp._text import amount, on_one_line
from airtcp.analysis import limits, stations
from airtcp.analysis.findings import is_main
from airtcp.analysis.results import POLICIES, Analysis, address, sentence
from airtcp.analysis.verdict import CANNOT_TELL

FLOWS_SHOWN: Final = 10

CLASSES: Final = {
    "fast": "first segment of a fast recovery: duplicate ACKs or SACK reported a loss",
    "recovery": "further segments within a fast recovery",
    "timeout": "the retransmission timer fired",
    "repair": "after a timeout: a segment that was in flight at the timeout",
    "probe": "tail loss probe: requests the ACK that is missing at the end",
    "unknown": "the capture does not show the reason",
}
"""Classes of retransmissions in the order in which they are shown, and what they mean."""

Row = Mapping[str, Any]


def count(value: object) -> str:
    """A whole number, thousands apart."""
    return f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}") if isinstance(value, (int, float)) else "-"


def decimal(value: float | None, digits: int) -> str:
    """A number; a dash where there is none."""
    return "-" if value is None else f"{value:,.{digits}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def overview(analysis: Analysis) -> list[Table | Text]:
    """The findings, the most interesting first."""
    totals = analysis.totals
    parts: list[Table | Text] = [Text(headline(analysis), style="bold"), Text("")]
    air = _air(analysis)
    said: list[Table | Text] = [Text(text, style="bold") for text in first_sentences(analysis)]
    said += [Text("")] if said else []
    if not totals["flows"]:
        what = "selected flow" if analysis.manifest["kept"] else "TCP"
        return [*said, *parts, *air, *_quic(totals["quic"]), Text(f"The capture has no {what}.")]
    parts = [*said, *_why(analysis), *air, *_quic(totals["quic"]), *parts]
    flows = [flow for flow in analysis.interesting(FLOWS_SHOWN) if flow["payload_bytes"]] or analysis.interesting(1)
    parts.append(_flows(flows, totals["flows"] - len(flows)))
    parts += [Text(_places(totals["vantage"])), Text("")]
    if late := [flow for flow in flows if flow["timeouts"]]:
        parts.append(Text("Timeouts", style="bold"))
        parts += [Text(f"{flow['flow']}: {sentence(flow)}") for flow in late]
        parts.append(Text(""))
    if totals["retransmitted_packets"]:
        parts.append(_classes(totals["retransmissions_by_class"], totals["spurious_retransmissions"]))
    if totals["timeouts"]:
        parts.append(_held(totals["timeouts_by_duplicate_acks"]))
        held = [row["timeouts"] for row in totals["timeouts_by_duplicate_acks"]]
        parts.append(Text(f"In all: {sentence(totals, held)}."))
    elif totals["retransmitted_packets"] == 0:
        parts.append(Text("Nothing was retransmitted."))
    return parts


def answer(analysis: Analysis) -> str:
    """Why the largest flow was slow, in one sentence."""
    why = analysis.totals["why"]
    if not why or not why[0]["says"]:
        return ""
    flow = analysis.largest(1)[0]
    size = f"{amount(flow['unique_bytes'])} from {address(flow, 'source')} to {address(flow, 'destination')}"
    return f"Flow {flow['flow']}, {size}. {why[0]['says']}"


def first_sentences(analysis: Analysis) -> list[str]:
    """The first sentences: events of the capture and what to do, most important first."""
    totals = analysis.totals
    failures = [one["says"] for one in totals["findings"]]
    said = [says] if (says := answer(analysis)) else []
    first = is_main(totals["findings"], totals["connections"]) or not _is_told(totals["why"])
    told = [*failures, *said] if first else [*said, *failures]
    quic = [totals["quic"][0]["says"]] if totals["quic"] else []
    # The protocol that carried more comes first.
    is_more = quic and totals["quic"][0]["bytes"] > totals["payload_bytes"]
    return [*quic, *told] if is_more else [*told, *quic]


def _is_told(why: Sequence[Row]) -> bool:
    return bool(why) and why[0]["verdict"] not in (None, CANNOT_TELL)


def _why(analysis: Analysis) -> list[Table | Text]:
    rows = {row["flow"]: row for row in analysis.totals["why"] if row["limits"]}
    if not rows:
        return []
    table = _table("Where the time went", space=0)
    table.add_column("flow", justify="right")
    for title in ("data\n", "RTT\nleast", "ms\n50 %", "\n95 %", "queue\ngrade"):
        table.add_column(title, justify="right")
    table.add_column("what held the sender back, of its time", ratio=1)
    for flow in analysis.largest(len(analysis.totals["why"])):
        row = rows.get(flow["flow"])
        if row is None:
            continue
        table.add_row(
            str(flow["flow"]),
            amount(flow["unique_bytes"]),
            *(decimal(flow[f"path_rtt_{key}_ms"], 1) for key in ("min", "p50", "p95")),
            row["grade"] or "-",
            limits.brief(row["limits"]),
        )
    table.add_row("all", "", "", "", "", "", limits.brief(analysis.totals["limits"], len(limits.LIMITS)))
    return [table, Text("")]


def air_sentence(analysis: Analysis) -> str:
    """Who used the air, in one sentence; empty for captures that are not of monitor mode."""
    share = stations.busy(analysis.airtime, analysis.capture.get("duration_s"))
    return stations.sentence(analysis.totals["stations"], share)


def _quic(rows: Sequence[Row]) -> list[Table | Text]:
    if not rows:
        return []
    table = _table("QUIC", space=0)
    table.add_column("client\nserver", overflow="fold", min_width=21)
    for title in ("to server\n", "to client\n", "rate\nMbit/s", "RTT\nms", "mean\n", "pauses\n"):
        table.add_column(title, justify="right")
    for row in rows:
        rtt = row["spin_min_ms"]
        if rtt is None and row["handshake_far_ms"] is not None:
            rtt = row["handshake_far_ms"] + (row["handshake_near_ms"] or 0.0)
        rate = row["rate_bps"]
        table.add_row(
            f"{address(row, 'client')}\n{address(row, 'server')}",
            amount(row["client_bytes"]),
            amount(row["server_bytes"]),
            decimal(None if rate is None else rate / 1e6, 2),
            decimal(rtt, 1),
            decimal(row["spin_mean_ms"], 1),
            count(row["stalls"]),
        )
    return [table, Text("")]


def _air(analysis: Analysis) -> list[Table | Text]:
    says = air_sentence(analysis)
    if not says:
        return []
    table = _table("On the air", space=0)
    table.add_column("from\nto", min_width=17)
    for first, second in stations.HEADS:
        table.add_column(f"{first}\n{second}", justify="right")
    for row in analysis.totals["stations"]:
        table.add_row(f"{row['transmitter'] or '?'}\n{row['receiver']}", *stations.cells(row))
    return [Text(says), Text(""), table, Text("")]


def headline(analysis: Analysis) -> str:
    """The capture in one line."""
    capture = analysis.capture
    packets = f"{count(capture['packets'])} packets ({count(capture['tcp_packets'])} TCP)"
    duration = capture.get("duration_s")
    span = f" in {decimal(duration, 3)} s" if duration is not None else ""
    return f"{on_one_line(analysis.file)}: {capture['format']}, {packets}{span}"


def _places(flows: Mapping[str, int]) -> str:
    names = {"sender": "at the sender", "receiver": "at the receiver", "between": "between the two"}
    known = [f"{names[place]} for {count(flows[place])}" for place in names if flows.get(place)]
    if unknown := sum(n for place, n in flows.items() if place not in names):
        known.append(f"unknown for {count(unknown)}")
    return f"Captured {', '.join(known)} of {count(sum(flows.values()))} flows."


def _table(title: str, space: int = 1) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, space, 0, 0))


def _flows(flows: Sequence[Row], rest: int) -> Table:
    # Narrow, so that 80 columns are enough.
    title = "Flows: each direction of a connection is one"
    table = _table(f"{title} ({count(rest)} more in the results)" if rest else title, space=0)
    table.add_column("flow", justify="right")
    table.add_column("from\nto", overflow="fold", min_width=21)
    for title in ("data\n", "goodput\nMbit/s", "RTT\nms", "resent\npackets", "\n%", "need-\nless", "time-\nouts"):
        table.add_column(title, justify="right")
    for flow in flows:
        sent = flow["data_packets"]
        goodput = flow["goodput_bps"]
        table.add_row(
            str(flow["flow"]),
            f"{address(flow, 'source')}\n{address(flow, 'destination')}",
            amount(flow["payload_bytes"]),
            decimal(None if goodput is None else goodput / 1e6, 2),
            decimal(flow["rtt_mean_ms"], 1),
            count(flow["retransmitted_packets"]),
            decimal(100 * flow["retransmitted_packets"] / sent, 2) if sent else "-",
            count(flow["spurious_retransmissions"]),
            count(flow["timeouts"]),
        )
    return table


def _classes(classes: Sequence[Row], spurious: int) -> Table:
    table = _table(f"Retransmissions ({count(spurious)} needless)" if spurious else "Retransmissions")
    table.add_column("class")
    table.add_column("packets", justify="right")
    table.add_column("need-\nless", justify="right")
    table.add_column("waited\nms", justify="right")
    table.add_column("")
    known = {row["class"]: row for row in classes}
    for name in [*CLASSES, *(set(known) - set(CLASSES))]:
        if row := known.get(name):
            waited = row["waited_median_s"]
            table.add_row(
                name,
                count(row["packets"]),
                count(row["spurious"]),
                decimal(None if waited is None else waited * 1e3, 1),
                CLASSES.get(name, ""),
            )
    return table


def _held(rows: Sequence[Row]) -> Table:
    table = _table("Timeouts by duplicate ACKs received")
    table.add_column("")
    for row in rows:
        n = row["duplicate_acks"]
        table.add_column(f"{n}" if n < 3 else "3 or more", justify="right")
    table.add_column("all", justify="right")
    lines = {"timeouts": "timeouts", **{f"avoided_{policy}": f"avoided by {name}" for policy, name in POLICIES.items()}}
    for key, title in lines.items():
        values = [row[key] for row in rows]
        table.add_row(title, *map(count, values), count(sum(values)))
    return table
