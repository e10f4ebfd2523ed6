"""The results of an analysed capture, in memory or as a folder on disk.

A folder holds `manifest.json` (source, bytes read, meaning of each column), one Parquet file per
table, also when the table has no rows, and `report.html`. It appears under its name only once it is complete.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import polars as pl

from airtcp._manifest import read_manifest
from airtcp._text import endpoint
from airtcp.analysis import limits, quic, stations, verdict
from airtcp.analysis.findings import findings
from airtcp.results import MANIFEST, OfTables, Tables

FORMAT: Final = "airtcp-analysis"
FORMAT_VERSION: Final = 3
"""3 has openings, resets and rates of lines in `flows`, and names in `capture`. 2 has `limits`, `stations` and
`airtime`, and columns for places of capture and round trips of the sender."""

TABLES: Final = (
    "flows",
    "retransmissions",
    "timeouts",
    "rtt_samples",
    "windows",
    "segments",
    "limits",
    "stations",
    "airtime",
    "quic",
)

POLICIES: Final = {"efr": "EFR", "early_retransmit": "Early Retransmit", "rack": "RACK"}
"""Loss policies that are tried on each timeout, and their names in text."""

Json = dict[str, Any]


@dataclass(frozen=True, repr=False)
class Analysis(OfTables):
    """The tables of one capture, as lazy Polars frames by name, with a manifest.

    A *flow* is one direction of a connection. `analysis["flows"]` or `analysis.flows` is a table;
    `for name in analysis` lists them.
    """

    manifest: Json
    """See `docs/results.md`."""
    tables: Mapping[str, pl.LazyFrame]
    path: Path | None = None
    """Folder from which it was loaded or to which it was saved; `None`: only in memory."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Analysis:
        """Opens a folder that `airtcp analyze` wrote. Tables are scanned when they are used, not now.

        Raises:
            ResultsError: there is no such result, or an airtcp of another format wrote it.
        """
        folder = Path(path)
        manifest = read_manifest(folder, MANIFEST, "airtcp analyze", FORMAT, FORMAT_VERSION, FORMAT_VERSION)
        return cls(manifest, Tables(folder, manifest, TABLES), folder)

    def meaning(self, table: str, column: str) -> str:
        """Meaning and unit of a column."""
        return str(self.manifest["tables"][table]["columns"][column])

    @property
    def file(self) -> str:
        """The capture's path, as given."""
        return str(self.manifest["file"])

    @property
    def capture(self) -> Json:
        """Format, link types, snap length, packets, times and size of the part that was read."""
        return dict(self.manifest["capture"])

    @property
    def damage(self) -> str | None:
        """Kind and place of damage in the file; the tables hold everything before it. `None`: no damage."""
        damage = self.manifest["damage"]
        return None if damage is None else str(damage)

    @property
    def notes(self) -> list[str]:
        """Limits of the figures, such as packets that were skipped or cut short."""
        return list(self.manifest["notes"])

    @property
    def interrupted(self) -> bool:
        """True if reading was stopped before the end of the file."""
        return bool(self.manifest["status"] == "interrupted")

    @property
    def flows(self) -> pl.LazyFrame:
        """One row per direction of a connection."""
        return self["flows"]

    @property
    def retransmissions(self) -> pl.LazyFrame:
        """One row per retransmission, with its class and the reason for it."""
        return self["retransmissions"]

    @property
    def timeouts(self) -> pl.LazyFrame:
        """One row per retransmission timeout, with the time at which each loss policy would have acted."""
        return self["timeouts"]

    @property
    def rtt_samples(self) -> pl.LazyFrame:
        """Round-trip times as the capture shows them, thinned."""
        return self["rtt_samples"]

    @property
    def windows(self) -> pl.LazyFrame:
        """Bytes in flight, receive window and estimated cwnd over time, thinned."""
        return self["windows"]

    @property
    def segments(self) -> pl.LazyFrame:
        """Points of a time-sequence plot, thinned."""
        return self["segments"]

    @property
    def limits(self) -> pl.LazyFrame:
        """Limits that held each flow's sender back, from when to when."""
        return self["limits"]

    @property
    def stations(self) -> pl.LazyFrame:
        """Pairs of stations in a capture in monitor mode, with retries, rates, airtime and losses."""
        return self["stations"]

    @property
    def quic(self) -> pl.LazyFrame:
        """Connections of QUIC, as far as their packets show without being decrypted."""
        return self["quic"]

    @property
    def airtime(self) -> pl.LazyFrame:
        """Airtime of each station over time in a capture in monitor mode."""
        return self["airtime"]

    @cached_property
    def totals(self) -> Json:
        """Sums over all flows, retransmissions by class, timeouts by duplicate ACKs received."""
        return totals_of(self.tables, self.capture)

    def interesting(self, n: int) -> list[Json]:
        """The most interesting flows: those with timeouts first, then those with retransmissions, then the largest."""
        return interesting(self.flows, n).to_dicts()

    def largest(self, n: int) -> list[Json]:
        """The flows that carry most data."""
        return largest(self.tables, n)

    def of_flow(self, table: str, flow: int) -> pl.DataFrame:
        """The rows of a table that belong to a flow."""
        return self[table].filter(pl.col("flow") == flow).collect(engine="streaming")

    def __repr__(self) -> str:
        state = "" if self.manifest["status"] == "complete" else f" ({self.manifest['status']})"
        where = f" at {self.path}" if self.path else ""
        return f"<airtcp.Analysis of {self.file!r}{state}: {self.manifest['tables']['flows']['rows']} flows{where}>"


WHY_ROWS: Final = 10
"""Number of flows, the largest first, whose sentence is among the totals."""

SUMS: Final = (
    *("packets", "data_packets", "payload_bytes", "unique_bytes", "retransmitted_packets", "retransmitted_bytes"),
    *("fast_retransmits", "timeouts", "tail_loss_probes", "spurious_retransmissions", "out_of_order"),
    *("duplicate_acks", "acks", "zero_windows", "lost_before_capture", "timeouts_untold"),
    *(f"avoided_{policy}" for policy in POLICIES),
)


def totals_of(tables: Mapping[str, pl.LazyFrame], capture: Mapping[str, Any]) -> Json:
    """Sums over all flows, retransmissions by class, timeouts by duplicate ACKs received."""
    sums = (
        tables["flows"]
        .select(
            flows=pl.len(),
            connections=pl.col("connection").n_unique(),
            **{name: pl.col(name).sum() for name in SUMS},
        )
        .collect(engine="streaming")
        .to_dicts()[0]
    )
    classes = (
        tables["retransmissions"]
        .group_by("class")
        .agg(
            packets=pl.len(),
            bytes=pl.col("bytes").sum(),
            spurious=pl.col("spurious").sum(),
            waited_median_s=pl.col("waited_s").median(),
        )
        .sort("packets", "class", descending=[True, False])
        .collect()
    )
    places = tables["flows"].group_by("vantage").agg(n=pl.len()).sort("n", "vantage", descending=True).collect()
    top = largest(tables, WHY_ROWS)
    return {
        **sums,
        "findings": findings(tables["flows"], capture),
        "why": [_why(flow) for flow in top],
        "limits": limits.in_all(tables["flows"]),
        "stations": stations.loudest(tables["stations"]),
        "quic": quic.largest(tables["quic"]),
        "vantage": dict(zip(places["vantage"].fill_null("").to_list(), places["n"].to_list(), strict=True)),
        "retransmissions_by_class": classes.to_dicts(),
        "timeouts_by_duplicate_acks": by_dup_acks(tables["timeouts"].collect()),
    }


def _why(flow: Json) -> Json:
    """The verdict on a flow, and what it rests on."""
    found = verdict.judge(flow)
    return {
        "flow": flow["flow"],
        "verdict": None if found is None else found.name,
        "says": "" if found is None else str(found),
        "limits": limits.of_flow(flow),
        "extra_delay_ms": limits.extra_ms(flow),
        "grade": limits.grade(flow),
    }


def largest(tables: Mapping[str, pl.LazyFrame], n: int) -> list[Json]:
    """The flows that carry most data, the largest first."""
    return _top(tables["flows"].filter(pl.col("unique_bytes") > 0), ["unique_bytes"], n).to_dicts()


def interesting(flows: pl.LazyFrame, n: int) -> pl.DataFrame:
    """The rows of the flows with most timeouts, then with most retransmissions, then the largest."""
    return _top(flows, ["timeouts", "retransmitted_packets", "payload_bytes", "packets"], n)


def _top(flows: pl.LazyFrame, by: Sequence[str], n: int) -> pl.DataFrame:
    """The first rows in falling order. Few columns find them: all of millions of flows take too much memory."""

    def ordered(table: pl.LazyFrame) -> pl.LazyFrame:
        order = [*by, "flow"]
        return table.sort(order, descending=[*(True for _ in by), False], nulls_last=True).head(n)

    first = ordered(flows.select(*by, "flow")).collect(engine="streaming")["flow"]
    return ordered(flows.filter(pl.col("flow").is_in(first.implode()))).collect(engine="streaming")


def by_dup_acks(timeouts: pl.DataFrame) -> list[Json]:
    """Timeouts with 0, 1, 2 and 3 or more duplicate ACKs received, and the number of each that a policy would have
    avoided.
    """
    held = timeouts.with_columns(pl.col("dup_acks").clip(upper_bound=3).cast(pl.Int64))
    rows = []
    for n in range(4):
        here = held.filter(pl.col("dup_acks") == n)
        rows.append(
            {
                "duplicate_acks": n,
                "timeouts": here.height,
                **{f"avoided_{policy}": here[f"{policy}_at_s"].is_not_null().sum() for policy in POLICIES},
            }
        )
    return rows


def sentence(flow: Mapping[str, Any], held: Sequence[int] | None = None) -> str:
    """A sentence about a flow's timeouts: `12 timeouts, 9 with 1 or 2 duplicate ACKs received: EFR would have avoided
    8, ...`.

    Args:
        flow: a row of `flows`, or totals.
        held: timeouts with 0, 1, 2 and 3 or more duplicate ACKs received; by default the row's.
    """
    count = int(flow["timeouts"])
    if not count:
        return "no timeouts"
    counts = held or [int(flow[f"timeouts_dup_{n}"]) for n in ("0", "1", "2", "3_or_more")]
    named = [
        f"{number} with {what}"
        for number, what in ((counts[1] + counts[2], "1 or 2"), (counts[3], "3 or more"))
        if number
    ]
    text = f"{count:,} timeout{'' if count == 1 else 's'}".replace(",", " ")
    text += f", {' and '.join(named)} duplicate ACKs received" if named else ", none with duplicate ACKs received"
    untold = int(flow.get("timeouts_untold", 0))
    if untold == count:
        return f"{text}: the capture does not tell what a policy would have done"
    if untold:
        text += f" (of {untold} the capture does not tell what a policy would have done)"
    avoided = {name: int(flow[f"avoided_{policy}"]) for policy, name in POLICIES.items()}
    if not any(avoided.values()):
        return f"{text}: neither {', '.join(list(avoided)[:-1])} nor {list(avoided)[-1]} would have avoided any"
    first, *rest = [f"{name} {number or 'none'}" for name, number in avoided.items()]
    head, _, tail = first.rpartition(" ")
    return f"{text}: {head} would have avoided {tail}, {', '.join(rest)}"


def address(flow: Mapping[str, Any], side: str) -> str:
    """`10.0.0.1:443`, `[2001:db8::1]:443`."""
    return endpoint(flow[side], flow[f"{side}_port"])
