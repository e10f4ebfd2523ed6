"""Summaries as tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl
from rich import box
from rich.table import Table
from rich.text import Text

from airtcp.results import Results, labels_of

Row = dict[str, Any]


@dataclass(frozen=True)
class ResultColumn:
    """A number of the summary, with its title, unit, scale and digits."""

    key: str
    title: str
    unit: str = ""
    scale: float = 1.0
    digits: int = 0

    def text(self, row: Row) -> str:
        """The number in its unit; a dash where there is none."""
        value = row.get(self.key)
        return "-" if value is None else f"{value * self.scale:,.{self.digits}f}"


TCP: Final = (
    ResultColumn("flow_count", "flows"),
    ResultColumn("goodput_bps", "goodput", "Mbit/s", 1e-6, 2),
    ResultColumn("delivered_bps", "delivered", "Mbit/s", 1e-6, 2),
    ResultColumn("jain", "Jain", "index", 1, 3),
    ResultColumn("cwnd_mean_segments", "mean cwnd", "segments", 1, 1),
    ResultColumn("rtt_mean_ms", "mean RTT", "ms", 1, 1),
    ResultColumn("srtt_mean_ms", "mean smoothed RTT", "ms", 1, 1),
    ResultColumn("retransmission_ratio", "resent", "%", 100, 2),
    ResultColumn("timeouts", "timeouts"),
)
TRANSFERS: Final = (
    ResultColumn("transfers", "transfers"),
    ResultColumn("transfer_mean_s", "mean transfer", "s", 1, 3),
)
DATAGRAMS: Final = (
    ResultColumn("flow_count", "flows"),
    ResultColumn("goodput_bps", "goodput", "Mbit/s", 1e-6, 2),
    ResultColumn("received", "received"),
    ResultColumn("rtt_mean_ms", "mean RTT", "ms", 1, 1),
    ResultColumn("delay_mean_ms", "mean delay", "ms", 1, 1),
)
LINK: Final = (
    ResultColumn("utilisation", "utilisation", "%", 100, 2),
    ResultColumn("loss_ratio", "loss", "%", 100, 3),
    ResultColumn("queue_mean_packets", "mean queue", "packets", 1, 1),
    ResultColumn("queue_max_packets", "max queue", "packets"),
    ResultColumn("queue_delay_mean_ms", "mean wait", "ms", 1, 2),
    ResultColumn("marked", "marked", "packets"),
    ResultColumn("lost_packets", "lost on line", "packets"),
)
AIR: Final = (
    ResultColumn("mac_rate_mean_bps", "MAC rate", "Mbit/s", 1e-6, 1),
    ResultColumn("airtime", "airtime", "%", 100, 1),
    ResultColumn("mpdu_error_rate", "MPDU errors", "%", 100, 2),
    ResultColumn("mpdus_per_ppdu", "aggregate", "MPDUs", 1, 1),
    ResultColumn("held_mean_packets", "held", "packets", 1, 1),
    ResultColumn("ppdus_collided", "hit", "PPDUs"),
    ResultColumn("given_up", "given up", "MPDUs"),
    ResultColumn("reorder_timeouts", "overdue", "holes"),
    ResultColumn("lost", "lost", "packets"),
)
RADIO: Final = (
    ResultColumn("rate_mean_bps", "MAC rate", "Mbit/s", 1e-6, 1),
    ResultColumn("airtime_ratio", "airtime", "%", 100, 1),
    ResultColumn("ppdus", "PPDUs"),
    ResultColumn("mpdus_per_ampdu", "aggregate", "MPDUs", 1, 1),
    ResultColumn("failed_ratio", "MPDUs failed", "%", 100, 2),
    ResultColumn("given_up", "given up", "MPDUs"),
)
# Shown only if not zero.
EVENTS: Final = {
    *("transfers", "marked", "lost_packets"),
    *("ppdus_collided", "given_up", "reorder_timeouts", "lost"),
}

LINKS_SHOWN: Final = 8
NAME_WIDTH: Final = 12
"""Longest name that is not folded, for any number of columns."""


def _worth_showing(measures: Sequence[ResultColumn], rows: Sequence[Row]) -> list[ResultColumn]:
    def counts(measure: ResultColumn, row: Row) -> bool:
        value = row.get(measure.key)
        return value is not None and (value != 0 or measure.key not in EVENTS)

    return [measure for measure in measures if any(counts(measure, row) for row in rows)]


def _table(title: str, rows: Sequence[Row], name: str, measures: Sequence[ResultColumn]) -> Table:
    shown = _worth_showing(measures, rows)
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    longest = max((len(str(row[name])) for row in rows), default=0)
    table.add_column(name, overflow="fold", min_width=min(longest, NAME_WIDTH))
    for measure in shown:
        # A word each line: narrow columns, of which none is cut.
        table.add_column("\n".join([*measure.title.split(), measure.unit]), justify="right")
    for row in rows:
        table.add_row(str(row[name]), *(measure.text(row) for measure in shown))
    return table


def groups(results: Results) -> list[Row]:
    """The groups of the summary, with means over time of their recorded flows: cwnd and smoothed round-trip time.

    A round-trip time of the summary is the mean of samples. Kernels tell the smoothed one only, and folders of older
    releases have its mean in that place.
    """
    if not results.summary["groups"]:
        return []
    mean = (
        results.flow_series.filter(pl.col("time_s") >= results.summary["warmup_s"])
        .join(results.flows.select("flow", "group"), on="flow", maintain_order="left")
        .group_by("group")
        .agg(cwnd_mean_segments=pl.col("cwnd_segments").mean(), srtt_mean_ms=pl.col("srtt_ms").mean())
        .collect()
    )
    of_flows = {row.pop("group"): row for row in mean.to_dicts()}
    nothing = {"cwnd_mean_segments": None, "srtt_mean_ms": None}
    rows = []
    for row in results.summary["groups"]:
        rtt = {"rtt_mean_ms": None} if _is_smoothed(row) else {}
        rows.append({**row, **rtt, **of_flows.get(row["group"], nothing)})
    return rows


def _is_smoothed(row: Row) -> bool:
    """True for a group of kernels in a folder of an older release."""
    return row["kind"] in ("tcp", "unlimited") and "srtt_mean_ms" not in row and "timeouts" not in row


def main_links(results: Results) -> list[Row]:
    """The most important links: those that packets waited at longest, then those used most."""
    return by_waiting(results.summary["links"])[:LINKS_SHOWN]


def by_waiting(links: Sequence[Row]) -> list[Row]:
    """Links by the time that all packets together waited in their queues, the longest first."""

    def weight(row: Row) -> tuple[float, int, float]:
        drops = row["dropped_overflow"] + row["dropped_early"]
        return row["queue_mean_packets"] or 0.0, drops, row["utilisation"] or 0.0

    return sorted(links, key=weight, reverse=True)


def main_air(results: Results) -> list[Row]:
    """The links of WLANs that used the air most, with all packets lost after their last or only try."""
    losses = ("dropped_retries", "lost_collision", "lost_errors")
    used = [
        {**row, "lost": sum(row.get(key, 0) for key in losses)}
        for row in results.summary.get("air", [])
        if row["ppdus"]
    ]
    return sorted(used, key=lambda row: row["airtime"] or 0.0, reverse=True)[:LINKS_SHOWN]


def main_radios(results: Results) -> dict[str, Row]:
    """Radios of kernels and those they have sent to, by name: who used the air most comes first."""
    rows = sorted(results.summary.get("radios", []), key=lambda row: row["airtime_ratio"] or 0.0, reverse=True)
    return {
        f"{row['from']} to {row['to'] or 'all'}": {
            **row,
            "mpdus_per_ampdu": row["mpdus"] / row["ampdus"] if row["ampdus"] else None,
            "failed_ratio": row["mpdus_failed"] / row["mpdus"] if row["mpdus"] else None,
        }
        for row in rows[:LINKS_SHOWN]
    }


def _one_rtt(rows: Sequence[Row]) -> Sequence[ResultColumn]:
    """Columns of flows with one round trip, so that the table fits 80 columns: the smoothed one only of kernels."""
    unneeded = "srtt_mean_ms" if any(row.get("rtt_mean_ms") is not None for row in rows) else "rtt_mean_ms"
    return [column for column in TCP if column.key != unneeded]


def overview(results: Results) -> list[Table]:
    """The summary of one run."""
    links = main_links(results)
    rest = len(results.summary["links"]) - len(links)
    rows = groups(results)
    tcp = [row for row in rows if row["kind"] == "tcp"]
    with_transfers = [row for row in tcp if row["transfers"]]
    others = [row for row in rows if row["kind"] != "tcp"]
    tables = []
    if tcp:
        tables.append(_table("TCP flows by group", tcp, "group", _one_rtt(tcp)))
    if with_transfers:
        tables.append(_table("Transfers by group", with_transfers, "group", TRANSFERS))
    if others:
        tables.append(_table("Echoes and datagrams by group", others, "group", DATAGRAMS))
    if links:
        tables.append(_table(f"Links ({rest} more in the results)" if rest else "Links", links, "name", LINK))
    if air := main_air(results):
        rest = len(results.summary["air"]) - len(air)
        tables.append(_table(f"WLANs ({rest} more links in the results)" if rest else "WLANs", air, "name", AIR))
    return tables


def comparison(runs: Sequence[Results]) -> Table:
    """Summaries side by side: the link of each run that packets waited at longest, and each group of flows."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("")
    for label in labels_of(runs):
        table.add_column(label, justify="right")
    links = [next(iter(main_links(results)), {}) for results in runs]
    if any(links):
        table.add_row(Text("link", "bold"), *(row.get("name", "-") for row in links))
        _add(table, LINK, links)
    air = [next(iter(main_air(results)), {}) for results in runs]
    if any(air):
        table.add_section()
        table.add_row(Text("in the air", "bold"), *(row.get("name", "-") for row in air))
        _add(table, AIR, air)
    radios = [main_radios(results) for results in runs]
    if all(radios):
        for name in dict.fromkeys(name for each in radios for name in each):
            pair = [each.get(name, {}) for each in radios]
            table.add_section()
            table.add_row(Text("radio", "bold"), *(name if row else "-" for row in pair))
            _add(table, RADIO, pair)
    for rows in _side_by_side([groups(results) for results in runs]):
        table.add_section()
        table.add_row(Text("flows", "bold"), *(row.get("group", "-") for row in rows))
        is_tcp = any(row.get("kind") == "tcp" for row in rows)
        _add(table, [*TCP, *TRANSFERS] if is_tcp else DATAGRAMS, rows)
    return table


def _side_by_side(runs: Sequence[Sequence[Row]]) -> list[list[Row]]:
    """Groups of one name side by side. If each run has one group without a namesake, these are side by side, too."""
    by_name = [{row["group"]: row for row in rows} for rows in runs]
    blocks = {
        name: [rows.get(name, {}) for rows in by_name] for name in dict.fromkeys(n for rows in by_name for n in rows)
    }
    alone = [[name for name in rows if sum(name in other for other in by_name) == 1] for rows in by_name]
    if len(runs) > 1 and all(len(names) == 1 for names in alone):
        together = [rows[names[0]] for rows, names in zip(by_name, alone, strict=True)]
        if len({row["kind"] for row in together}) == 1:
            first = alone[0][0]
            blocks = {n: b for n, b in blocks.items() if n == first or all(n not in names for names in alone)}
            blocks[first] = together
    return list(blocks.values())


def _add(table: Table, measures: Sequence[ResultColumn], rows: Sequence[Row]) -> None:
    for measure in _worth_showing(measures, rows):
        table.add_row(
            f"{measure.title}, {measure.unit}" if measure.unit else measure.title, *(measure.text(row) for row in rows)
        )
