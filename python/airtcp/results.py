"""The records of a run, in memory or as a folder on disk.

A folder holds

- `manifest.json`: the resolved scenario, seed, versions, status, host, timing, and the meaning of each column;
- `summary.json`: the summaries per flow, flow group and link;
- one Parquet file per table (`flows.parquet`, `links.parquet`, ...), also when the table has no rows;
- `capture.pcapng`, if the scenario asks for captures;
- `airtcp.json`: checksums of all of them.

The same scenario and seed give the same bytes in every file but two. `manifest.json` also records place and time of the
run, and `airtcp.json` has its checksum. A folder appears under its name only once it is complete.
"""

from __future__ import annotations

import io
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, overload

import polars as pl

from airtcp import _files, leftovers
from airtcp._manifest import read_manifest
from airtcp._marker import MARKER, Marker, marker_of, names_in, read_file, seal
from airtcp._text import to_json
from airtcp.errors import DamagedError, NotOursError, ResultsError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FORMAT: Final = "airtcp-result"
FORMAT_VERSION: Final = 1

MANIFEST: Final = "manifest.json"
SUMMARY: Final = "summary.json"
CAPTURE: Final = "capture.pcapng"

Json = dict[str, Any]


class OfTables(Mapping[str, pl.LazyFrame]):
    """A mapping of names to its tables."""

    tables: Mapping[str, pl.LazyFrame]

    def __getitem__(self, table: str) -> pl.LazyFrame:
        """A table by name."""
        return self.tables[table]

    def __iter__(self) -> Iterator[str]:
        """Names of the tables."""
        return iter(self.tables)

    def __len__(self) -> int:
        """Number of tables."""
        return len(self.tables)


@dataclass(frozen=True, repr=False)
class Results(OfTables):
    """The tables of one run, as lazy Polars frames by name, with its manifest and summary.

    `results["links"]` or `results.links` is a table; `for name in results` lists them.
    """

    manifest: Json
    """See `docs/results.md`."""
    summary: Json
    """Summaries per flow, flow group and link, without the warm-up."""
    tables: Mapping[str, pl.LazyFrame]
    path: Path | None = None
    """Folder from which it was loaded or to which it was saved; `None`: only in memory."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Results:
        """Opens a result folder. Tables are scanned when they are used, not now.

        Raises:
            ResultsError: the folder has no result, or a newer airtcp wrote it.
        """
        folder = Path(path)
        if not (folder / MANIFEST).is_file():
            from airtcp import monitor_results

            if monitor_results.is_measured(folder):
                return monitor_results.load(folder)
        manifest = read_manifest(folder, MANIFEST, "airtcp run", FORMAT, FORMAT_VERSION)
        try:
            summary = json.loads(read_file(folder, SUMMARY))
        except (OSError, ValueError, RecursionError) as error:
            raise DamagedError(f"{folder}: damaged result: {error}") from error
        if not isinstance(summary, dict):
            raise DamagedError(f"{folder / SUMMARY}: damaged result: not a summary")
        return cls(manifest, summary, Tables(folder, manifest), folder)

    def save(self, path: str | os.PathLike[str]) -> Results:
        """Writes a result folder. It may replace an older result of airtcp, and no other folder.

        Raises:
            NotOursError: the folder has other content than a result of airtcp.
            ResultsError: the folder cannot be written. An older result is kept.
        """
        with Folder(Path(path)) as folder:
            folder.commit(self)
        return Results.load(path)

    @overload
    def to_pandas(self, table: str) -> pd.DataFrame: ...
    @overload
    def to_pandas(self, table: None = None) -> dict[str, pd.DataFrame]: ...
    def to_pandas(self, table: str | None = None) -> pd.DataFrame | dict[str, pd.DataFrame]:
        """One table as a pandas frame, or all of them by name. Needs `pip install airtcp[pandas]`.

        Raises:
            ModuleNotFoundError: pandas or pyarrow is not installed; the message says what to install.
        """
        try:
            for name in ("pandas", "pyarrow"):
                import_module(name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"to_pandas needs {error.name}: pip install 'airtcp[pandas]'", name=error.name
            ) from None
        if table is not None:
            return self[table].collect().to_pandas()
        return {name: frame.collect().to_pandas() for name, frame in self.tables.items()}

    def plot(self, *, link: str | None = None) -> Figure:
        """Draws latency, goodput, queues, air and windows over time, as `airtcp plot` does.

        Args:
            link: name of a link, such as `r1->r2`: its utilisation, loss and queue are drawn instead.
        """
        from airtcp.plots import one_run, over_time

        return one_run(self) if link is None else over_time([self], link=link)

    def _repr_html_(self) -> str:
        """The overview, for notebooks."""
        from io import StringIO

        from rich.console import Console

        from airtcp.show import overview

        console = Console(
            file=StringIO(), record=True, width=100, highlight=False, markup=False, emoji=False, force_jupyter=False
        )
        for part in overview(self):
            console.print(part)
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")

    def meaning(self, table: str, column: str) -> str:
        """Meaning and unit of a column."""
        return str(self.manifest["tables"][table]["columns"][column])

    def check_tables(self, *names: str) -> None:
        """Looks for tables that a simulation writes, with or without rows. Kernels write those that they can fill.

        Raises:
            ResultsError: one is missing.
        """
        for name in names:
            if name not in self.tables:
                whose = "kernels ran in it, and left" if "real_time" in self.manifest else "it has"
                raise ResultsError(
                    f"{self.path or self.name}: {whose} no table {name!r}; `airtcp compare` shows what there is"
                )

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return str(self.manifest["name"])

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.manifest["seed"])

    @property
    def interrupted(self) -> bool:
        """True if the run was stopped before its end: the tables reach to `manifest["simulated_s"]`."""
        return bool(self.manifest["status"] != "complete")

    @property
    def flows(self) -> pl.LazyFrame:
        """One row per flow."""
        return self["flows"]

    @property
    def links(self) -> pl.LazyFrame:
        """One row per link and direction."""
        return self["links"]

    @property
    def flow_series(self) -> pl.LazyFrame:
        """Senders over time."""
        return self["flow_series"]

    @property
    def link_series(self) -> pl.LazyFrame:
        """Links and their queues over time."""
        return self["link_series"]

    @property
    def drops(self) -> pl.LazyFrame:
        """One row per dropped packet."""
        return self["drops"]

    @property
    def transfers(self) -> pl.LazyFrame:
        """One row per sized or web transfer."""
        return self["transfers"]

    @property
    def pings(self) -> pl.LazyFrame:
        """One row per echo request."""
        return self["pings"]

    @property
    def datagrams(self) -> pl.LazyFrame:
        """One row per numbered datagram."""
        return self["datagrams"]

    @property
    def probes(self) -> pl.LazyFrame:
        """One row per finished train of a buffer probe: the estimates."""
        return self["probes"]

    @property
    def retransmissions(self) -> pl.LazyFrame:
        """One row per recorded retransmission."""
        return self["retransmissions"]

    @property
    def air(self) -> pl.LazyFrame:
        """One row per link of a WLAN."""
        return self["air"]

    @property
    def air_series(self) -> pl.LazyFrame:
        """Links of WLANs over time."""
        return self["air_series"]

    @property
    def ppdus(self) -> pl.LazyFrame:
        """One row per recorded PPDU."""
        return self["ppdus"]

    @property
    def daemons(self) -> pl.LazyFrame:
        """One row per cooperative daemon."""
        return self["daemons"]

    @property
    def daemon_series(self) -> pl.LazyFrame:
        """Cooperative daemons over time."""
        return self["daemon_series"]

    @property
    def handovers(self) -> pl.LazyFrame:
        """One row per change of access point."""
        return self["handovers"]

    @property
    def walkers(self) -> pl.LazyFrame:
        """Hosts that walk, over time."""
        return self["walkers"]

    def __repr__(self) -> str:
        where = f" at {self.path}" if self.path else ""
        state = " (interrupted)" if self.interrupted else ""
        return f"<airtcp.Results {self.name!r} seed {self.seed}{state}: {', '.join(self)}{where}>"


class Tables(Mapping[str, pl.LazyFrame]):
    """The tables of a folder, each held against its checksum when it is first asked for."""

    def __init__(self, folder: Path, manifest: Json, names: Sequence[str] | None = None) -> None:
        """The tables `names`, by default those of the manifest.

        Raises:
            ResultsError: the manifest is not what airtcp writes, or one of them is not there.
        """
        self._folder: Final = folder
        self._marker: Final = marker_of(folder)
        self._frames: Final[dict[str, pl.LazyFrame]] = {}
        try:
            self._names: Final = list(manifest["tables"] if names is None else names)
            self._columns: Final = {name: list(manifest["tables"][name]["columns"]) for name in self._names}
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedError(f"{folder / MANIFEST}: damaged: not what airtcp writes ({error})") from error
        for name in self._names:
            if name != Path(name).name:
                raise DamagedError(f"{folder / MANIFEST}: damaged: {name!r} is no table")
            if not (folder / f"{name}.parquet").is_file():
                raise DamagedError(f"{folder}: damaged result: {name}.parquet is missing")

    def __getitem__(self, name: str) -> pl.LazyFrame:
        if name not in self._frames:
            if name not in self._names:
                raise KeyError(name)
            path = self._folder / f"{name}.parquet"
            if self._marker is not None:
                self._marker.check(self._folder, path.name)
            try:
                frame = pl.scan_parquet(_files.within(self._folder, self._folder, path.name), glob=False)
                found = frame.collect_schema().names()
            except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
                raise DamagedError(f"{path}: damaged result: {error}") from error
            if lacks := [column for column in self._columns[name] if column not in found]:
                raise DamagedError(f"{path}: damaged result: it has no column {lacks[0]!r}, which {MANIFEST} names")
            self._frames[name] = frame
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def labels_of(runs: Sequence[Results]) -> list[str]:
    """Names of the runs: the scenario's, with the seed or the folder if needed to tell them apart."""
    names = [results.name for results in runs]
    if len(set(names)) < len(names):
        names = [f"{results.name} seed {results.seed}" for results in runs]
    if len(set(names)) < len(names):
        names = [
            str(results.path or f"{name} ({i})") for i, (name, results) in enumerate(zip(names, runs, strict=True), 1)
        ]
    return names


def polars_version() -> str:
    """The version of what wrote the tables and answered the queries."""
    return pl.__version__


def host() -> Json:
    """The machine of a run."""
    return {
        "name": platform.node(),
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }


def frame(columns: Mapping[str, Any]) -> pl.DataFrame:
    """A table from the columns that Rust returns, where NaN means "no value"."""
    return pl.DataFrame(
        [
            pl.Series(name, data, dtype=pl.String if isinstance(data, list) else None, nan_to_null=True)
            for name, data in columns.items()
        ]
    )


class Folder:
    """An unfinished result folder: a hidden sibling of `path` until `commit` gives it that name.

    As a context manager it removes an uncommitted folder. Making one also tests early that `path` can be written, and
    removes what killed runs of the same name left.
    """

    def __init__(self, path: Path, format_: str = FORMAT, tell: Callable[[str], object] = lambda message: None) -> None:
        """`format_`: what the manifest of an older result says that may be replaced; `tell`: gets what was removed."""
        # Follow a link to a folder elsewhere, because the rename has to happen there.
        self.path: Final = path
        self._format: Final = format_
        self._target = Path(os.path.realpath(path))
        self._lock: int | None = None
        self._is_over = True
        try:
            leftovers.recover(self._target, tell)
            self._check_target()
            self._target.parent.mkdir(parents=True, exist_ok=True)
            self.work: Final = leftovers.free_sibling(self._target)
            self.work.mkdir()
            self._is_over = False
            # Held while this process lives: what tells a run under way from what is left of one.
            self._lock = _files.lock_folder(self.work, wait=False)
            Marker(leftovers.UNFINISHED).write(self.work)
        except FileExistsError as error:
            raise self._error(NotADirectoryError(20, f"{error.filename} is not a directory")) from error
        except OSError as error:
            self.discard()
            raise self._error(error) from error

    @property
    def capture(self) -> Path:
        """Folder for a capture during the run."""
        return self.work / CAPTURE

    def _check_target(self) -> None:
        try:
            if not os.path.lexists(self._target):
                return
            if self._target.is_dir():
                foreign = foreign_in(self._target, self._format)
                if not foreign:
                    return
                what = f"a folder with other content ({foreign})"
            else:
                what = "a file"
        except OSError as error:
            raise self._error(error) from error
        raise NotOursError(f"{self.path} is {what}, not a result of airtcp: choose another folder (it was not touched)")

    def _error(self, error: OSError) -> ResultsError:
        reason = error.strerror or str(error)
        return ResultsError(f"cannot write results to {self.path}: {reason}; nothing was changed there")

    def commit(self, results: Results) -> None:
        """Writes everything and gives the folder its name, in place of an older result.

        Raises:
            ResultsError: the disk is full, permission is missing and so on.
        """
        try:
            for name, table in results.tables.items():
                _write(self.work / f"{name}.parquet", _parquet(table.collect()))
            _write(self.work / SUMMARY, (to_json(results.summary) + "\n").encode())
        except OSError as error:
            raise self._error(error) from error
        self.publish(results.manifest)

    def publish(self, manifest: Json) -> None:
        """Adds the manifest to the files in `work` and gives the folder its name, in place of an older result.

        Raises:
            ResultsError: the disk is full, permission is missing and so on.
        """
        try:
            # Written last, because a folder without a manifest is not a result.
            _write(self.work / MANIFEST, (to_json(manifest) + "\n").encode())
            seal(self.work, self._format)
            self._check_target()
            self._swap()
        except OSError as error:
            raise self._error(error) from error

    def _swap(self) -> None:
        if not os.path.lexists(self._target):
            self.work.rename(self._target)
            self._is_over = True
            _files.sync_folder(self._target.parent)
            return
        # In one step, so that a kill leaves the old result or the new one under the name, never none.
        if _files.exchange(self.work, self._target):
            old = self.work
        else:
            old = leftovers.free_sibling(self._target, "replaced")
            self._target.rename(old)
            try:
                self.work.rename(self._target)
            except OSError:
                old.rename(self._target)
                raise
        _files.sync_folder(self._target.parent)
        self._is_over = True
        shutil.rmtree(old, ignore_errors=True)

    def discard(self) -> None:
        """Removes what was not committed."""
        if not self._is_over:
            shutil.rmtree(self.work, ignore_errors=True)
        if self._lock is not None:
            handle, self._lock = self._lock, None
            with suppress(OSError):
                os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


def foreign_in(folder: Path, format_: str) -> str | None:
    """Something in a folder that airtcp did not write there as part of a result of that format; `None`: all is its own.

    Raises:
        ResultsError: the folder's marker is damaged.
        OSError: it cannot be read.
    """
    names = sorted(names_in(folder))
    if not names:
        return None
    marker = Marker.read(folder)
    if marker is not None and marker.kind == format_:
        known = {MARKER, *marker.files}
    elif marker is None and is_result(folder, format_):
        # Of a format without a marker; what it could hold is known.
        known = {MANIFEST, SUMMARY, CAPTURE, "report.html", *(name for name in names if name.endswith(".parquet"))}
    else:
        return names[0]
    return next((name for name in names if name not in known), None)


def is_result(folder: Path, format_: str = FORMAT) -> bool:
    """True for a folder with results of that format, of any version."""
    try:
        manifest = json.loads(_files.read_bytes(_files.within(folder, folder, MANIFEST)))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == format_


def _parquet(table: pl.DataFrame) -> bytes:
    # Build the file in memory, so that Python's own write reports a full disk as an OSError with its cause.
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd", compression_level=3, row_group_size=1 << 19)
    return buffer.getvalue()


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        _files.write_all(handle, data)
        # Some file systems report only here that they are full.
        os.fsync(handle)
    finally:
        os.close(handle)


__all__ = ["FORMAT_VERSION", "Results"]
