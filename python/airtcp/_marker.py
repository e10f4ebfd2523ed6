"""The marker of airtcp's folders: `airtcp.json`, with a checksum of each file.

A folder with it may be written to; of any other, airtcp touches nothing. Files come and go in a `Batch`. The marker
first names the new files beside the present ones. Then the files get their names. At last the marker names only those.
So a kill at any time leaves a folder in which every file has a checksum that is known.

The journal of runs grows line by line and has a checksum in each (`airtcp.sweeps.store`); the marker leaves it out.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from airtcp import _airtcp, _files
from airtcp._text import to_json
from airtcp.errors import DamagedError, NotOursError, ResultsError

MARKER: Final = "airtcp.json"
FORMAT: Final = "airtcp-folder"
FORMAT_VERSION: Final = 1

_BLOCK: Final = 1 << 20


@dataclass
class Marker:
    """The marker of a folder."""

    kind: str
    """The `format` of the folder, such as `airtcp-result`."""
    files: dict[str, list[str]] = field(default_factory=dict)
    """SHA-256 of each file, by its path in the folder; two while a file is replaced."""

    @classmethod
    def read(cls, folder: Path) -> Marker | None:
        """The marker of a folder; `None` if it has none.

        Raises:
            ResultsError: it is damaged, or a newer airtcp wrote it.
            OSError: it cannot be read.
        """
        path = folder / MARKER
        try:
            data = _files.read_bytes(_files.within(folder, folder, MARKER))
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            raise DamagedError(f"{path}: damaged: not valid JSON") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise DamagedError(f"{path}: damaged, or not airtcp's: its `format` is not {FORMAT!r}")
        version = document.get("format_version")
        if not isinstance(version, int) or not 1 <= version <= FORMAT_VERSION:
            raise ResultsError(
                f"{path}: written in format {version}; this airtcp reads up to {FORMAT_VERSION}: update airtcp"
            )
        if document.pop("sha256", None) != _sum_of(document):
            raise DamagedError(f"{path}: damaged: it does not fit its own checksum")
        try:
            files = {str(name): [str(one) for one in sums] for name, sums in document["files"].items()}
            return cls(str(document["kind"]), files)
        except (KeyError, TypeError, AttributeError):
            raise DamagedError(f"{path}: damaged: not what airtcp writes") from None

    def write(self, folder: Path) -> None:
        """Puts it into a folder.

        Raises:
            OSError: it cannot be written.
        """
        document: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "kind": self.kind,
            "airtcp_version": _airtcp.__version__,
            "files": dict(sorted(self.files.items())),
        }
        _files.write_bytes(folder / MARKER, (to_json({**document, "sha256": _sum_of(document)}) + "\n").encode())

    def check(self, folder: Path, name: str, data: bytes | None = None) -> None:
        """Holds a file against its checksum.

        Args:
            folder: that has this marker.
            name: path of the file in the folder.
            data: what the file holds, if it was read already.

        Raises:
            DamagedError: it is something else, or not there.
        """
        path = folder / name
        if name not in self.files:
            raise DamagedError(f"{path}: damaged: {MARKER} does not name it")
        try:
            found = sha256_of(_files.within(folder, folder, name)) if data is None else hashlib.sha256(data).hexdigest()
        except OSError as error:
            raise DamagedError(f"{path}: damaged result: {error.strerror or error}") from error
        if found not in self.files[name]:
            raise DamagedError(f"{path}: damaged: its SHA-256 is not the one in {MARKER}")


def check_file(folder: Path, name: str, data: bytes | None = None) -> None:
    """Holds a file against the marker of its folder. A folder of an older format has no marker and no checksums.

    Raises:
        ResultsError: the file is damaged, or the marker is.
    """
    marker = marker_of(folder)
    if marker is not None:
        marker.check(folder, name, data)


def read_file(folder: Path, name: str, limit: int | None = _files.MAX_DOCUMENT_BYTES) -> bytes:
    """A file of a folder, held against the marker. A link there that leads out is not followed.

    Raises:
        OSError: it cannot be read.
        ResultsError: it is damaged, or the marker is.
    """
    data = _files.read_bytes(_files.within(folder, folder, name), limit)
    check_file(folder, name, data)
    return data


def marker_of(folder: Path) -> Marker | None:
    """As `Marker.read`, for those who only read.

    Raises:
        ResultsError: it cannot be read or is damaged.
    """
    try:
        return Marker.read(folder)
    except OSError as error:
        raise ResultsError(f"{folder / MARKER}: {error.strerror or error}") from error


def sha256_of(path: Path) -> str:
    """The checksum of a regular file.

    Raises:
        OSError: it cannot be read.
    """
    with _files.open_regular(path) as file:
        digest = hashlib.sha256()
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def seal(folder: Path, kind: str) -> None:
    """Gives a finished folder its marker, with the checksums of all that is in it.

    Raises:
        OSError: it cannot be written.
    """
    files = {name: [sha256_of(folder / name)] for name in names_in(folder) if name != MARKER}
    Marker(kind, files).write(folder)


def names_in(folder: Path) -> Iterator[str]:
    """Paths of all files below a folder; links are not followed, and come as files."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from (f"{entry.name}/{name}" for name in names_in(Path(entry.path)))
        else:
            yield entry.name


def _sum_of(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Batch:
    """Files that get their names together, in a folder that is airtcp's. Use it in a `with` block, and `commit`.

    A folder that an older airtcp wrote has no marker, and gets none: nothing is known about its other files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self._ready: Final[dict[str, tuple[Path, str]]] = {}
        self._gone: Final[list[str]] = []

    def add(self, name: str, data: bytes) -> None:
        """Writes a file under a temporary name.

        Raises:
            NotOursError: a folder on the way is a link.
            OSError: it cannot be written.
        """
        path = self.folder / name
        if path.parent != self.folder:
            _files.own_folder(path.parent)
        self._ready[name] = (_files.write_temporary(path, data), hashlib.sha256(data).hexdigest())

    def remove(self, names: Iterable[str]) -> None:
        """Files that go with the commit, if they are there and airtcp's."""
        self._gone.extend(names)

    def commit(self) -> None:
        """Gives the files their names.

        Raises:
            NotOursError: a file of that name is there that airtcp did not write.
            OSError: it cannot be done.
        """
        with _files.locked(self.folder):
            marker = Marker.read(self.folder)
            if marker is None:
                self._name_files()
                return
            for name in self._ready:
                if name not in marker.files and os.path.lexists(self.folder / name):
                    raise NotOursError(
                        f"{self.folder / name}: airtcp did not write it: move it elsewhere (it was not touched)"
                    )
            for name, (_, found) in self._ready.items():
                # All that it may be: a kill may have left one of several.
                marker.files[name] = list(dict.fromkeys([*marker.files.get(name, []), found]))
            marker.write(self.folder)
            self._name_files()
            gone = [name for name in self._gone if name in marker.files and name not in self._ready]
            for name in gone:
                (self.folder / name).unlink(missing_ok=True)
                del marker.files[name]
            for folder in {(self.folder / name).parent for name in [*self._ready, *gone]}:
                _files.sync_folder(folder)
            for name, (_, found) in self._ready.items():
                marker.files[name] = [found]
            self._ready.clear()
            marker.write(self.folder)

    def _name_files(self) -> None:
        for name, (work, _) in self._ready.items():
            work.replace(self.folder / name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for work, _found in self._ready.values():
            work.unlink(missing_ok=True)
        self._ready.clear()
