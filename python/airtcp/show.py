"""Summaries as tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich import box
from rich.markup import escape
from rich.table import Table

from airtcp.results import Results, labels_of

Row = dict[str, Any]


@dataclass(frozen=True)
class Measure:
    """A number of the summary and how people read it."""

    key: str
    title: str
    unit: str = ""
    scale: float = 1.0
    digits: int = 1

    def text(self, row: Row) -> str:
        """The number in its unit; a dash where there is none."""
        value = row.get(self.key)
        if value is None:
            return "-"
        if isinstance(value, str):
            return escape(value)
        return f"{value * self.scale:,.{self.digits}f}"

    def head(self) -> str:
        """Title and unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


GROUP: Final = (
    Measure("flows", "flows", digits=0),
    Measure("goodput_bps", "goodput", "Mbit/s", 1e-6, 2),
    Measure("mean_rtt_s", "mean RTT", "ms", 1e3, 1),
    Measure("mean_cwnd", "mean cwnd", "segments", 1, 1),
    Measure("retransmitted_packets", "retransmitted", "packets", 1, 0),
    Measure("timeouts", "timeouts", "", 1, 0),
)
LINK: Final = (
    Measure("utilisation", "utilisation", "%", 100, 2),
    Measure("loss_ratio", "loss", "%", 100, 3),
    Measure("mean_queue_packets", "mean queue", "packets", 1, 1),
    Measure("max_queue_packets", "max queue", "packets", 1, 0),
)


def _table(title: str, rows: Sequence[Row], name: str, measures: Sequence[Measure]) -> Table:
    shown = [m for m in measures if any(row.get(m.key) is not None for row in rows)]
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column(name, no_wrap=True)
    for measure in shown:
        table.add_column(measure.head(), justify="right")
    for row in rows:
        table.add_row(escape(str(row[name])), *(measure.text(row) for measure in shown))
    return table


LINKS_SHOWN: Final = 8


def main_links(results: Results) -> list[Row]:
    """The links that shaped the run: those that dropped or marked most, then those used most."""
    links: list[Row] = results.summary["links"]
    order = sorted(links, key=lambda row: (-(row.get("dropped_packets") or 0), -(row.get("utilisation") or 0)))
    return order[:LINKS_SHOWN]


def overview(results: Results) -> list[Table]:
    """The summary of one run."""
    links = main_links(results)
    rest = len(results.summary["links"]) - len(links)
    more = f", {rest} more in links.parquet" if rest else ""
    return [
        _table("Flows by group", results.summary["groups"], "group", GROUP),
        _table(f"Links{more}", links, "link", LINK),
    ]


def comparison(runs: Sequence[Results]) -> Table:
    """Summaries side by side: of each group of flows, and of the link of each run that dropped most."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    for label in labels_of(runs):
        table.add_column(escape(label), justify="right")
    first = [main_links(results)[:1] for results in runs]
    if any(first):
        table.add_row("link", *(escape(str(rows[0]["link"])) if rows else "-" for rows in first))
        _add(table, LINK, [rows[0] if rows else {} for rows in first])
    names = list(dict.fromkeys(row["group"] for results in runs for row in results.summary["groups"]))
    for name in names:
        rows: list[Row] = [next((g for g in results.summary["groups"] if g["group"] == name), {}) for results in runs]
        table.add_section()
        table.add_row("flows of", *(escape(name) if row else "-" for row in rows))
        _add(table, GROUP, rows)
    return table


def _add(table: Table, measures: Sequence[Measure], rows: Sequence[Row]) -> None:
    for measure in measures:
        if any(row.get(measure.key) is not None for row in rows):
            table.add_row(measure.head(), *(measure.text(row) for row in rows))
