"""Leftovers of killed runs: hidden folders and files beside results. They are reported and removed.

A result is made in `.NAME.partial-PID-N` beside its place. The process that makes it holds a lock on that folder, so
one without a holder is a leftover. It is airtcp's if its marker says so.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airtcp import _files
from airtcp._marker import Marker
from airtcp.errors import ResultsError

UNFINISHED: Final = "airtcp-unfinished"
"""Kind of the marker of a folder that has not got its name yet."""

_SIBLING: Final = re.compile(r"\.(.+)\.(partial|replaced)-[0-9]+-[0-9]+")
_FRESH_S: Final = 60.0
"""Between making a folder and locking it, a moment passes."""
_OLD_NAMES: Final = re.compile(
    r"parts|capture\.pcapng|report\.html|(manifest|summary)\.json|[a-z_]+(-[0-9]+)?\.parquet"
)


@dataclass(frozen=True)
class Leftover:
    """Something that a process which is gone has left."""

    path: Path
    of: str
    """Name of the result it was for."""
    is_replaced: bool = False
    """An older result that was to be removed."""

    @property
    def bytes(self) -> int:
        """Its size on disk."""
        if not self.path.is_dir():
            return self.path.lstat().st_size
        return sum((Path(folder) / name).lstat().st_size for folder, _, names in os.walk(self.path) for name in names)

    def remove(self) -> None:
        """Deletes it; links in it are not followed."""
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            self.path.unlink(missing_ok=True)


def free_sibling(target: Path, kind: str = "partial") -> Path:
    """A name beside `target` that nothing has.

    Raises:
        FileExistsError: there is none.
    """
    for n in range(10_000):
        candidate = target.with_name(f".{target.name}.{kind}-{os.getpid()}-{n}")
        if not os.path.lexists(candidate):
            return candidate
    raise FileExistsError(17, "too many unfinished results", str(target))


def find(folder: Path, name: str | None = None) -> Iterator[Leftover]:
    """Leftovers in a folder, and in the folders of airtcp in it.

    Args:
        folder: where results are.
        name: only of the result of this name.

    Raises:
        OSError: the folder cannot be read.
    """
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.path)
        found = _SIBLING.fullmatch(entry.name)
        if found and (name is None or found[1] == name) and _is_left(path):
            yield Leftover(path, found[1], found[2] == "replaced")
        elif name is None and not found and entry.is_dir(follow_symlinks=False) and _is_ours(path):
            yield from _within(path)
    if name is None and _is_ours(folder):
        yield from _within(folder)


def _within(folder: Path) -> Iterator[Leftover]:
    """Temporary files in a folder of results that nobody writes now."""
    handle = _files.lock_folder(Path(os.path.realpath(folder)), wait=False)
    if handle is None:
        return
    try:
        for top, _, names in os.walk(folder):
            for name in names:
                path = Path(top) / name
                if _files.TEMPORARY.fullmatch(name) and _is_old(path):
                    yield Leftover(path, folder.name)
    finally:
        os.close(handle)


def _is_old(path: Path) -> bool:
    return time.time() - path.lstat().st_mtime > _FRESH_S


def _is_ours(folder: Path) -> bool:
    try:
        return Marker.read(folder) is not None
    except (OSError, ResultsError):
        return False


def _is_left(path: Path) -> bool:
    """A folder of airtcp's that no process holds."""
    if not stat.S_ISDIR(path.lstat().st_mode):
        return False
    handle = _files.lock_folder(path, wait=False)
    if handle is None:
        return False
    try:
        names = [entry.name for entry in os.scandir(path)]
        if not names:
            return _is_old(path)
        # Before there were markers, such folders held these files.
        return _is_ours(path) or (_is_old(path) and all(_OLD_NAMES.fullmatch(name) for name in names))
    finally:
        os.close(handle)


def recover(target: Path, tell: Callable[[str], object]) -> None:
    """Before a result is made: what killed runs of the same name left is removed, and an old result gets its name back.

    Raises:
        OSError: the folder cannot be read or changed.
    """
    if not target.parent.is_dir():
        return
    for left in list(find(target.parent, target.name)):
        if left.is_replaced and not os.path.lexists(target):
            left.path.rename(target)
            tell(f"{target.name}: the older result is back: a run that was killed had moved it to {left.path.name}")
            continue
        size = left.bytes
        left.remove()
        tell(f"{left.path}: removed {size / 1e6:.1f} MB that a killed run had left")
