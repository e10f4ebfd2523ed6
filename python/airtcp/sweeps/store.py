"""Finished runs: a journal, one line of JSON for each, so that a sweep goes on where it was cut off.

`runs.jsonl` only grows. A line is on disk (`fsync`) before its run counts as finished. So a kill or a power loss
costs at most runs in progress. Each line ends with a checksum of the rest of it, `check`: a line that was
changed is not believed, and its run is repeated. The last line may be torn; it is cut off when the journal is opened. A
lock keeps a second writer out; it goes with the process that holds it. There is no absolute path inside: the folder can
be moved.

A journal of format 1 had no checksums. It is refused, because its lines cannot be checked.
"""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from airtcp import _files
from airtcp._marker import MARKER, Marker
from airtcp._text import to_json
from airtcp.errors import DamagedError, NotOursError, ResultsError
from airtcp.tasks.task import Outcome

JOURNAL: Final = "runs.jsonl"
LOCK: Final = ".lock"
FORMAT: Final = "airtcp-runs"
FORMAT_VERSION: Final = 2

MAX_LINE_BYTES: Final = 1 << 30
"""More than a run of `measures.MAX_ROWS` rows takes."""

_HEAD: Final = {"format": FORMAT, "format_version": FORMAT_VERSION}
_KEYS: Final = {"key", "status", "measures"}
_CHECK: Final = b',"check":"'
_CHECK_BYTES: Final = 8
_HOLDER: Final = b"process "


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
        """Lines that could not be read or do not fit their checksum; their runs are not there."""
        self.torn: bool = False
        """Whether the last line was cut off: its run is not there."""
        self.repeated: int = 0
        """Lines that say nothing new of a run that was finished before. airtcp writes no such line."""
        self._outcomes: Final[dict[str, Outcome]] = {}
        self._file: int | None = None
        self._end: int = 0
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
        is_there = os.path.lexists(path)
        marker = Marker.read(folder)
        if marker is not None and marker.kind != FORMAT:
            raise NotOursError(
                f"{folder} holds what another command of airtcp wrote ({marker.kind}): choose another place "
                f"(it was not touched)"
            )
        if is_there:
            # Looked at before anything is written, the lock included.
            self._file = _files.open_own(path, os.O_RDWR | os.O_APPEND)
            if marker is not None and self._is_torn_head():
                is_there = False
            else:
                self._check_head(path, marker)
        elif marker is None and folder.is_dir():
            others = [entry.name for entry in folder.iterdir() if not _is_passing(entry.name)]
            if others:
                raise NotOursError(
                    f"{folder} is a folder with other content, not of a sweep: choose another place "
                    f"(it was not touched)"
                )
        folder.mkdir(parents=True, exist_ok=True)
        self._take_lock(folder)
        if marker is None:
            Marker(FORMAT).write(folder)
        if not is_there and (self._file is None or self._is_torn_head()):
            # It appears with its first line, so that no other first line is airtcp's.
            self._close_file()
            _files.write_bytes(path, _line(_HEAD))
            self._file = _files.open_own(path, os.O_RDWR | os.O_APPEND)
        # Once more, now that nobody else writes it.
        self._check_head(path, marker)
        assert self._file is not None
        self._end = self._read(self._file)
        if self._end < os.fstat(self._file).st_size:
            self.torn = True
            os.ftruncate(self._file, self._end)
            os.fsync(self._file)

    def _take_lock(self, folder: Path) -> None:
        handle = _files.open_own(folder / LOCK, os.O_RDWR | os.O_CREAT)
        holder = os.pread(handle, 200, 0)
        # It is not synchronised: a power loss leaves zeros of it, or a part.
        if holder.strip(b"\0") and not holder.startswith(_HOLDER) and not _HOLDER.startswith(holder):
            os.close(handle)
            raise NotOursError(f"{folder / LOCK}: airtcp did not write it: choose another place (it was not touched)")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise ResultsError(
                    f"{folder}: this file system cannot lock files ({error.strerror}): choose a place on another one"
                ) from error
            who = holder.strip(b"\0").decode(errors="replace").strip()
            raise ResultsError(
                f"{folder}: another airtcp is writing there{f' ({who})' if who else ''}: "
                f"wait until it has ended, or choose another place with --out"
            ) from None
        self._lock = handle
        os.ftruncate(handle, 0)
        os.pwrite(handle, _HOLDER + f"{os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def _is_torn_head(self) -> bool:
        """Power was lost before the first line was on disk."""
        assert self._file is not None
        head = _line(_HEAD)
        found = os.pread(self._file, len(head), 0)
        return len(found) < len(head) and head.startswith(found)

    def _check_head(self, path: Path, marker: Marker | None) -> None:
        assert self._file is not None
        with os.fdopen(os.dup(self._file), "rb") as file:
            file.seek(0)
            line = file.readline(1000)
        entry = _entry_of(line)
        if entry is None:
            other = _json(line)
            plain = other if isinstance(other, dict) and other.get("format") == FORMAT else {}
            self._check_version(path, plain.get("format_version", FORMAT_VERSION))
            if plain.get("format_version") == 1:
                raise ResultsError(
                    f"{path}: written in format 1 by an older airtcp, without checksums, so that its runs cannot be "
                    f"believed: choose another place with --out, or move the folder away (it was not touched)"
                )
            if marker is not None:
                raise DamagedError(
                    f"{path}: damaged: its first line does not fit its checksum: choose another place with --out, or "
                    f"move the folder away (it was not touched)"
                )
            raise NotOursError(f"{path} is not a journal of airtcp: choose another place (it was not touched)")
        if entry.get("format") != FORMAT:
            raise NotOursError(f"{path} is not a journal of airtcp: choose another place (it was not touched)")
        self._check_version(path, entry.get("format_version"))

    def _check_version(self, path: Path, version: object) -> None:
        if not isinstance(version, int) or version > FORMAT_VERSION:
            raise ResultsError(
                f"{path}: written in format {version}; this airtcp reads up to {FORMAT_VERSION}: update it"
            )

    def _read(self, handle: int) -> int:
        """Reads all lines; returns where the last whole one ends."""
        good = 0
        is_endless = False
        with os.fdopen(os.dup(handle), "rb") as file:
            file.seek(0)
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), 1):
                if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                    break
                good += len(line)
                if number == 1:
                    continue
                if is_endless or not line.endswith(b"\n"):
                    # Part of a line that airtcp would not write.
                    is_endless = not line.endswith(b"\n")
                    self.damaged += not is_endless
                    continue
                entry = _entry_of(line)
                outcome = None
                if entry is not None and entry.keys() >= _KEYS and isinstance(entry["measures"], dict):
                    with suppress(TypeError, ValueError):
                        outcome = _outcome(entry)
                if outcome is not None:
                    self.repeated += self._is_known(outcome)
                    self._remember(outcome)
                else:
                    self.damaged += 1
        return good

    def _is_known(self, outcome: Outcome) -> bool:
        before = self._outcomes.get(outcome.key)
        if before is None or before.status != "ok" or outcome.status != "ok":
            return False
        return outcome.measures.keys() <= before.measures.keys()

    def _remember(self, outcome: Outcome) -> None:
        before = self._outcomes.get(outcome.key)
        if before is not None and before.status == outcome.status == "ok":
            # The same run, asked for something else.
            outcome = replace(outcome, measures={**before.measures, **outcome.measures})
        self._outcomes[outcome.key] = outcome

    def get(self, key: str) -> Outcome | None:
        """Outcome of a run; `None` if it has not finished yet."""
        return self._outcomes.get(key)

    def __len__(self) -> int:
        return len(self._outcomes)

    @classmethod
    def look(cls, folder: Path) -> Store:
        """The finished runs of a folder, to be read only: nothing is locked or written.

        Raises:
            ResultsError: it cannot be read.
        """
        store = cls(None)
        path = folder / JOURNAL
        try:
            store._file = _files.open_own(path, os.O_RDONLY)
            try:
                store._check_head(path, Marker.read(folder))
                store.torn = store._read(store._file) < os.fstat(store._file).st_size
            finally:
                store._close_file()
        except OSError as error:
            raise ResultsError(f"{path}: {error.strerror or error}") from error
        return store

    @property
    def notes(self) -> list[str]:
        """Damage of the journal in words."""
        out = []
        where = f"{self.folder}: " if self.folder is not None else ""
        if self.damaged:
            out.append(f"{where}the journal has {self.damaged} damaged lines: their runs are repeated")
        if self.torn:
            out.append(f"{where}the last line of the journal was cut short: its run is repeated")
        return out

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Keeps finished runs; they are on disk when this returns.

        Raises:
            ResultsError: they cannot be written.
        """
        new = list(outcomes)
        if not new:
            return
        try:
            self._write(b"".join(_line(_entry(outcome)) for outcome in new))
        except OSError as error:
            where = self.folder / JOURNAL if self.folder is not None else JOURNAL
            raise ResultsError(f"{where}: {error.strerror or error}; runs finished before are kept") from error
        for outcome in new:
            self._remember(outcome)

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            _files.write_all(self._file, data)
            os.fsync(self._file)
        except OSError:
            # Half a line in the middle would be taken for damage later. Nothing is buffered, so nothing comes after.
            os.ftruncate(self._file, self._end)
            raise
        self._end += len(data)

    def _close_file(self) -> None:
        if self._file is not None:
            handle, self._file = self._file, None
            with suppress(OSError):
                # All that was written is on disk.
                os.close(handle)

    def close(self) -> None:
        """Gives the journal free for others."""
        self._close_file()
        if self._lock is not None:
            handle, self._lock = self._lock, None
            with suppress(OSError):
                # Who holds the lock is only for messages.
                os.ftruncate(handle, 0)
            with suppress(OSError):
                os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _is_passing(name: str) -> bool:
    """Files that a killed start may leave in a folder without a marker."""
    return name == LOCK or (_files.TEMPORARY.fullmatch(name) is not None and name.startswith(f".{MARKER}."))


def _line(entry: Mapping[str, Any]) -> bytes:
    """A line of the journal, its checksum last."""
    body = to_json(entry, indent=None).encode()[:-1]
    return body + _CHECK + _check_of(body) + b'"}\n'


def _check_of(body: bytes) -> bytes:
    return blake2b(body, digest_size=_CHECK_BYTES).hexdigest().encode()


def _entry_of(line: bytes) -> dict[str, Any] | None:
    """Content of a line; `None` if it does not match its checksum."""
    body, sign, check = line.rpartition(_CHECK)
    if not sign or check != _check_of(body) + b'"}\n':
        return None
    entry = _json(line)
    return entry if isinstance(entry, dict) else None


def _json(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _entry(outcome: Outcome) -> dict[str, Any]:
    return {**asdict(outcome), "measures": measures_as_kept(outcome)}


def measures_as_kept(outcome: Outcome) -> dict[str, Any]:
    """Measures of a run as the journal has them."""
    return {name: _plain(value) for name, value in outcome.measures.items()}


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
        entry["end"] if isinstance(entry.get("end"), dict) else None,
    )
