"""Reads a capture to its end, piece by piece, and keeps the results in memory or on disk."""

from __future__ import annotations

import ipaddress
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from airtcp import _airtcp
from airtcp.analysis import places
from airtcp.analysis.results import FORMAT, FORMAT_VERSION, TABLES, Analysis
from airtcp.errors import ResultsError
from airtcp.results import frame, host

POINTS: Final = 4000
"""Most points of a flow in each of the tables `rtt_samples` and `windows`, and of each kind in `segments`."""
IDLE_TIMEOUT_S: Final = 300.0
MAX_CONNECTIONS: Final = 100_000

STEP_PACKETS: Final = 100_000
"""Packets between two checks of the clock, the signals and the finished rows."""
BUFFER_BYTES: Final = 64 << 20
"""Most finished rows that wait in memory to be written."""

PARTS: Final = "parts"

Json = dict[str, Any]


@dataclass(frozen=True)
class Keep:
    """Selects flows: all, or those that match every condition given."""

    flows: Collection[int] = ()
    """Numbers of flows."""
    hosts: Collection[str] = ()
    """Addresses. A flow matches if one of them is at one of its ends."""
    ports: Collection[int] = ()

    def __post_init__(self) -> None:
        """Checks the addresses.

        Raises:
            ValueError: one is not an IP address. The message names it.
        """
        # Addresses as the tables spell them.
        object.__setattr__(self, "hosts", tuple(str(ipaddress.ip_address(host)) for host in self.hosts))

    def __bool__(self) -> bool:
        """Whether any flow is left out."""
        return bool(self.flows or self.hosts or self.ports)

    def of(self, tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """The rows of the selected flows. The rows of a flow arrive together with its row in `flows`."""
        if not self:
            return dict(tables)
        wanted = pl.lit(value=True)
        if self.flows:
            wanted &= pl.col("flow").is_in(list(self.flows))
        if self.hosts:
            wanted &= pl.col("source").is_in(self.hosts) | pl.col("destination").is_in(self.hosts)
        if self.ports:
            ports = list(self.ports)
            wanted &= pl.col("source_port").is_in(ports) | pl.col("destination_port").is_in(ports)
        flows = tables["flows"].filter(wanted)
        numbers = flows["flow"].implode()
        return {name: _of_flows(table, numbers) if name != "flows" else flows for name, table in tables.items()}

    def to_dict(self) -> Json | None:
        """The selection as the manifest records it."""
        if not self:
            return None
        return {"flows": list(self.flows), "hosts": list(self.hosts), "ports": list(self.ports)}


def _of_flows(table: pl.DataFrame, numbers: pl.Series) -> pl.DataFrame:
    """Rows of flows. What stations did on the air belongs to no flow."""
    return table.filter(pl.col("flow").is_in(numbers)) if "flow" in table.columns else table


class Spool:
    """Finished rows, in memory or, once there are many, in a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.rows: dict[str, int] = dict.fromkeys(TABLES, 0)
        self._waiting: dict[str, list[pl.DataFrame]] = {name: [] for name in TABLES}
        self._bytes = 0.0
        self._parts = 0

    def add(self, tables: Mapping[str, pl.DataFrame]) -> None:
        """Adds rows."""
        for name, table in tables.items():
            # Keep one frame without rows: it has the columns.
            if table.height or not self._waiting[name]:
                self._waiting[name].append(table)
                self.rows[name] += table.height
                self._bytes += table.estimated_size()
        if self.folder is not None and self._bytes > BUFFER_BYTES:
            self._write_part(self.folder)

    def _write_part(self, folder: Path) -> None:
        (folder / PARTS).mkdir(exist_ok=True)
        self._parts += 1
        for name, waiting in self._waiting.items():
            table = pl.concat(waiting)
            table.write_parquet(self._part(folder, name, self._parts), compression="zstd", compression_level=1)
            self._waiting[name] = [table.clear()]
        self._bytes = 0.0

    def _part(self, folder: Path, name: str, number: int) -> Path:
        return folder / PARTS / f"{name}-{number:06}.parquet"

    def finish(self) -> dict[str, pl.LazyFrame]:
        """The tables. In a folder, each is one Parquet file."""
        if self.folder is None:
            return {name: pl.concat(waiting).lazy() for name, waiting in self._waiting.items()}
        if self._parts:
            self._write_part(self.folder)
        tables = {}
        for name, waiting in self._waiting.items():
            path = self.folder / f"{name}.parquet"
            if self._parts:
                parts = [self._part(self.folder, name, number) for number in range(1, self._parts + 1)]
                pl.scan_parquet(parts).sink_parquet(path, compression="zstd", compression_level=3)
                for part in parts:
                    part.unlink()
            else:
                pl.concat(waiting).write_parquet(path, compression="zstd", compression_level=3)
            tables[name] = pl.scan_parquet(path)
        if self._parts:
            (self.folder / PARTS).rmdir()
        return tables


class Reading:
    """One capture on its way to an `Analysis`."""

    def __init__(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        rotated: bool = False,
        keep: Keep | None = None,
        points: int = POINTS,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """Opens the capture, or several. Tables stay in memory unless `write_to` says where they go.

        `rotated`: all files are pieces of one capture. Otherwise each was captured at another place.

        Raises:
            OSError: it cannot be opened.
            CaptureError: it is no capture.
        """
        paths = [path] if isinstance(path, str | os.PathLike) else list(path)
        self.files: Final = [os.fspath(path) for path in paths]
        self.file: Final = ", ".join(self.files)
        self._places: Final = [self.files] if rotated else [[file] for file in self.files]
        self._keep: Final = keep or Keep()
        self._spool: Final = Spool()
        self._started = time.time()
        self._clock = time.perf_counter()
        self._settings: Final = {"points": points, "idle_timeout_s": idle_timeout_s, "max_connections": max_connections}
        self._analysis: Final = _airtcp.Analysis(
            self._places, points=points, idle_timeout_s=idle_timeout_s, max_connections=max_connections
        )
        self.is_over = False
        """True at the end of the file, or where it is damaged."""
        self.on_rows: Callable[[Mapping[str, pl.DataFrame]], object] = lambda tables: None
        """Called with the rows of the selected flows as soon as they are final."""

    def write_to(self, folder: Path) -> None:
        """Folder for finished rows."""
        self._spool.folder = folder

    def advance(self) -> None:
        """Reads the next part of the file.

        Raises:
            ResultsError: the results cannot be written.
        """
        self.is_over = not self._analysis.advance(STEP_PACKETS)
        self._collect()

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes read, and the size of the file."""
        return self._analysis.progress()

    @property
    def packets(self) -> int:
        """Number of packets read."""
        return self._analysis.packets()

    def _collect(self) -> None:
        tables = self._analysis.drain()
        frames = {name: frame(tables[name]) for name in TABLES}
        kept = self._keep.of(frames)
        self.on_rows(kept)
        try:
            self._spool.add(kept)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise _unwritable(self._spool.folder, error) from error

    def _compare(self, tables: dict[str, pl.LazyFrame]) -> tuple[dict[str, pl.LazyFrame], tuple[str, ...]]:
        """Tables in which each flow is shown once, and what the places say of each other."""
        shared = places.compare(tables["flows"].collect(), [files[0] for files in self._places])
        if not shared.drop and not any(shared.late_s.values()):
            return tables, shared.notes
        found = places.apply(tables, shared)
        if self._spool.folder is None:
            found = {name: table.collect().lazy() for name, table in found.items()}
        else:
            for name, table in found.items():
                path = self._spool.folder / f"{name}.parquet"
                table.sink_parquet(path.with_suffix(".new"), compression="zstd", compression_level=3)
                path.with_suffix(".new").replace(path)
                found[name] = pl.scan_parquet(path)
        self._spool.rows |= {name: int(table.select(pl.len()).collect().item()) for name, table in found.items()}
        return found, shared.notes

    def read_all(self, progress: Callable[[int, int], object] | None = None) -> Analysis:
        """Reads to the end. `progress` is called now and then with the bytes read and the size of the file.

        Raises:
            ResultsError: the tables cannot be written.
        """
        while not self.is_over:
            self.advance()
            if progress is not None:
                progress(*self.progress)
        return self.finish()

    def finish(self, *, is_cut: bool = False) -> Analysis:
        """Stops reading and returns the results so far.

        Args:
            is_cut: the file ended because a signal came, wherever that was in a packet.

        Raises:
            ResultsError: it cannot be written.
        """
        self._analysis.finish()
        self._collect()
        wall_s = time.perf_counter() - self._clock
        try:
            tables = self._spool.finish()
            tables, notes = self._compare(tables) if len(self._places) > 1 else (tables, ())
        except (OSError, pl.exceptions.PolarsError) as error:
            raise _unwritable(self._spool.folder, error) from error
        damage = None if is_cut else self._analysis.damage()
        manifest = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "airtcp_version": _airtcp.__version__,
            "file": self.file,
            "status": "damaged" if damage else "complete" if self.is_over and not is_cut else "interrupted",
            "damage": damage,
            "files": self.files,
            "notes": [*self._analysis.notes(), *notes],
            "capture": self._analysis.capture(),
            "kept": self._keep.to_dict(),
            "settings": self._settings,
            "host": host(),
            "timing": {
                "started": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(self._started)),
                "wall_s": round(wall_s, 6),
                "packets_per_s": round(self.packets / wall_s) if wall_s else None,
            },
            "tables": {
                name: {"rows": self._spool.rows[name], "columns": meanings} for name, meanings in columns().items()
            },
        }
        return Analysis(manifest, tables, None)


def columns() -> dict[str, dict[str, str]]:
    """For each table its columns and their meanings."""
    # The engine has NaN where the tables have null: see `results.frame`.
    return {
        table: {column: meaning.replace("NaN", "null") for column, meaning in meanings}
        for table, meanings in _airtcp.Analysis.columns().items()
    }


def _unwritable(folder: Path | None, error: Exception) -> ResultsError:
    reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
    return ResultsError(f"cannot write tables{f' to {folder}' if folder else ''}: {reason}")
