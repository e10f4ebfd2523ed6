"""An analysis as JSON, with a bound on its rows: a capture of 7 MB may hold millions of connections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from airtcp._text import to_json
from airtcp.analysis.results import Analysis, interesting

TABLES: Final = ("flows", "retransmissions", "timeouts")

READ_ROWS: Final = 100_000
"""Rows of a table in memory at a time."""
PIECE_ROWS: Final = 1000
"""Rows as text at a time."""


class JsonOutput:
    """Which rows are printed, and how many are not."""

    def __init__(self, rows: int | None, rows_per_flow: int | None) -> None:
        """`rows`: most of a table. `rows_per_flow`: most of a table that belong to one flow. `None`: no bound."""
        self._rows: Final = rows
        self._rows_per_flow: Final = rows_per_flow
        self._printed: Final = dict.fromkeys(TABLES, 0)
        self._of_flow: Final[dict[str, dict[int, int]]] = {name: {} for name in TABLES}
        """Rows printed of each flow; as many entries at most as rows are printed."""
        self._beyond: Final = dict.fromkeys(TABLES, 0)
        """Rows left out because their flow had enough already."""

    def is_full(self, name: str) -> bool:
        """Whether no more rows of a table are printed."""
        return self._rows is not None and self._printed[name] >= self._rows

    def left_out(self, analysis: Analysis) -> dict[str, tuple[int, int]]:
        """By table that is not whole: rows that are not printed, and how many of them for their flow alone."""
        rows = {name: int(analysis.manifest["tables"][name]["rows"]) - self._printed[name] for name in TABLES}
        return {name: (count, self._beyond[name]) for name, count in rows.items() if count}

    def as_json(self, analysis: Analysis) -> Iterator[str]:
        """Manifest, totals and the tables of events as one JSON object, in pieces."""
        yield to_json({**_head(analysis), "totals": analysis.totals})[:-2]
        for name in TABLES:
            yield f',\n  "{name}": ['
            before = ""
            for piece in self._pieces(name, self._parts(analysis, name)):
                yield before + "\n    " + ",\n    ".join(to_json(row, indent=None) for row in piece)
                before = ","
            yield "\n  ]" if before else "]"
        left_out = {name: count for name, (count, _) in self.left_out(analysis).items()}
        yield (f',\n  "left_out": {to_json(left_out, indent=None)}' if left_out else "") + "\n}\n"

    def lines(self, tables: Mapping[str, pl.DataFrame]) -> Iterator[str]:
        """A line for each new row."""
        for name in TABLES:
            for piece in self._pieces(name, iter([tables[name]])):
                yield "".join(f"{to_json({'table': name, **row}, indent=None)}\n" for row in piece)

    def last_line(self, analysis: Analysis) -> str:
        """Manifest, totals, and how many rows were left out."""
        left_out = {name: count for name, (count, _) in self.left_out(analysis).items()}
        line = {"table": "capture", **_head(analysis), "totals": analysis.totals, "left_out": left_out}
        return f"{to_json(line, indent=None)}\n"

    def _parts(self, analysis: Analysis, name: str) -> Iterator[pl.DataFrame]:
        rows = int(analysis.manifest["tables"][name]["rows"])
        if name == "flows" and self._rows is not None and rows > self._rows:
            # Those that tell most, so that a flood of empty ones does not hide them.
            yield interesting(analysis.flows, self._rows).sort("flow")
            return
        for offset in range(0, rows, READ_ROWS):
            yield analysis[name].slice(offset, READ_ROWS).collect()

    def _pieces(self, name: str, parts: Iterator[pl.DataFrame]) -> Iterator[list[dict[str, Any]]]:
        for part in parts:
            if self.is_full(name):
                return
            kept = self._kept(name, part)
            # JSON has no infinity.
            floats = [pl.col(column) for column, kind in kept.schema.items() if kind.is_float()]
            kept = kept.with_columns(pl.when(column.is_finite()).then(column) for column in floats)
            for offset in range(0, kept.height, PIECE_ROWS):
                yield kept.slice(offset, PIECE_ROWS).to_dicts()

    def _kept(self, name: str, part: pl.DataFrame) -> pl.DataFrame:
        kept = part
        if self._rows_per_flow is not None and name != "flows":
            seen = self._of_flow[name]
            rank = pl.int_range(pl.len()).over("flow")
            before = pl.col("flow").replace_strict(seen, default=0, return_dtype=pl.Int64) if seen else pl.lit(0)
            kept = part.filter(rank + before < self._rows_per_flow)
            self._beyond[name] += part.height - kept.height
        if self._rows is not None:
            kept = kept.head(self._rows - self._printed[name])
        if self._rows_per_flow is not None and name != "flows":
            for flow, count in kept.group_by("flow").len().iter_rows():
                seen[flow] = seen.get(flow, 0) + count
        self._printed[name] += kept.height
        return kept


def _head(analysis: Analysis) -> dict[str, Any]:
    return {key: value for key, value in analysis.manifest.items() if key not in ("tables", "host", "timing")}
