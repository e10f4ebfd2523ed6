"""Finished runs: a journal, one line of JSON for each, so that a sweep goes on where it was cut off.

`runs.jsonl` only grows. A line is on disk (`fsync`) before its run counts as finished, so that a kill or a power loss
costs at most runs that were under way. The last line may be torn; it is cut off when the journal is opened. A lock
keeps a second writer out; it goes with the process that holds it. There is no absolute path inside: the folder can be
moved.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from airtcp._text import to_json
from airtcp.errors import NotOursError, ResultsError
from airtcp.sweeps.task import Outcome

JOURNAL: Final = "runs.jsonl"
LOCK: Final = ".lock"
FORMAT: Final = "airtcp-runs"
FORMAT_VERSION: Final = 1

_HEAD: Final = {"format": FORMAT, "format_version": FORMAT_VERSION}
_KEYS: Final = {"key", "status", "measures"}


class Store:
    """The finished runs of a folder, or of this process only. Use it in a `with` block: it holds a lock.

    Several sweeps may share a store; runs are told apart by their key.
    """

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        """Opens the journal of a folder, and makes both if they are not there. `None`: in memory.

        Raises:
            NotOursError: something else is there.
            ResultsError: it cannot be read or written, or another process writes it.
        """
        self.folder: Final = Path(folder) if folder is not None else None
        self.damaged: int = 0
        """Lines that could not be read; their runs are not there."""
        self._outcomes: Final[dict[str, Outcome]] = {}
        self._file: Any = None
        self._lock: int | None = None
        if self.folder is not None:
            try:
                self._open(self.folder)
            except OSError as error:
                self.close()
                raise ResultsError(f"{self.folder / JOURNAL}: {error.strerror or error}") from error
            except BaseException:
                self.close()
                raise

    def _open(self, folder: Path) -> None:
        path = folder / JOURNAL
        if folder.exists() and not folder.is_dir():
            raise NotOursError(f"{folder} is a file, not a folder of runs: choose another place (it was not touched)")
        if folder.is_dir() and not path.exists() and any(entry.name != LOCK for entry in folder.iterdir()):
            raise NotOursError(
                f"{folder} is a folder with other content, not of a sweep: choose another place (it was not touched)"
            )
        folder.mkdir(parents=True, exist_ok=True)
        self._take_lock(folder)
        self._file = path.open("r+b" if path.exists() else "x+b")
        good = self._read(path)
        if good == 0:
            self._file.truncate(0)
            self._write([_HEAD])
            _sync_folder(folder)
        elif good < self._file.seek(0, os.SEEK_END):
            self._file.truncate(good)
            self._file.seek(good)
            os.fsync(self._file.fileno())

    def _take_lock(self, folder: Path) -> None:
        self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise ResultsError(
                    f"{folder}: this file system cannot lock files ({error.strerror}): choose a place on another one"
                ) from error
            holder = os.pread(self._lock, 200, 0).decode(errors="replace").strip()
            raise ResultsError(
                f"{folder}: another airtcp is writing there{f' ({holder})' if holder else ''}: "
                f"wait until it has ended, or choose another place with --out"
            ) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def _read(self, path: Path) -> int:
        """Reads all lines; returns where the last whole one ends."""
        good = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                break
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                entry = None
            if number == 1:
                self._check_head(path, entry)
            elif isinstance(entry, dict) and entry.keys() >= _KEYS and isinstance(entry["measures"], dict):
                self._remember(_outcome(entry))
            else:
                self.damaged += 1
            good += len(line)
        return good

    def _check_head(self, path: Path, entry: object) -> None:
        if not isinstance(entry, dict) or entry.get("format") != FORMAT:
            raise NotOursError(f"{path} is not a journal of airtcp: choose another place (it was not touched)")
        version = entry.get("format_version")
        if not isinstance(version, int) or version > FORMAT_VERSION:
            raise ResultsError(
                f"{path}: written in format {version}; this airtcp reads up to {FORMAT_VERSION}: update it"
            )

    def _remember(self, outcome: Outcome) -> None:
        before = self._outcomes.get(outcome.key)
        if before is not None and before.status == outcome.status == "ok":
            # The same run, asked for something else.
            outcome = replace(outcome, measures={**before.measures, **outcome.measures})
        self._outcomes[outcome.key] = outcome

    def get(self, key: str) -> Outcome | None:
        """What came of a run; `None` if it has not finished yet."""
        return self._outcomes.get(key)

    def __len__(self) -> int:
        return len(self._outcomes)

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Keeps finished runs; they are on disk when this returns.

        Raises:
            ResultsError: they cannot be written.
        """
        new = list(outcomes)
        if not new:
            return
        try:
            self._write([_entry(outcome) for outcome in new])
        except OSError as error:
            where = self.folder / JOURNAL if self.folder is not None else JOURNAL
            raise ResultsError(f"{where}: {error.strerror or error}; runs finished before are kept") from error
        for outcome in new:
            self._remember(outcome)

    def _write(self, entries: Iterable[Mapping[str, Any]]) -> None:
        if self._file is None:
            return
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(b"".join(to_json(entry, indent=None).encode() + b"\n" for entry in entries))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            # Half a line in the middle would be taken for damage later.
            os.ftruncate(self._file.fileno(), end)
            raise

    def close(self) -> None:
        """Gives the journal free for others."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _entry(outcome: Outcome) -> dict[str, Any]:
    return {**asdict(outcome), "measures": {name: _plain(value) for name, value in outcome.measures.items()}}


def _plain(value: object) -> object:
    """JSON has no NaN; no value is `null`."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _outcome(entry: Mapping[str, Any]) -> Outcome:
    return Outcome(
        str(entry["key"]),
        "ok" if entry["status"] == "ok" else "failed",
        entry["measures"],
        entry.get("error"),
        float(entry.get("wall_s") or 0.0),
        str(entry.get("engine", "")),
    )


def _sync_folder(folder: Path) -> None:
    """The name of a new file is on disk as well."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
