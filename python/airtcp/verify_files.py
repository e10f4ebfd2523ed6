"""The first step of `airtcp verify`: every file is airtcp's, is a file, and fits its checksum.

A folder may come from a stranger. Each file in it may be a link, a FIFO or a device, and the marker may name files
elsewhere. Nothing but the standard library reads anything here.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airtcp import _files
from airtcp._marker import MARKER, Marker, marker_of, names_in
from airtcp.errors import NotOursError, ResultsError

if TYPE_CHECKING:
    from airtcp.verified import Verified

JOURNAL: Final = "runs.jsonl"
LOCK: Final = ".lock"

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "airtcp-result": ("manifest.json", "summary.json"),
    "airtcp-runs": (),
    "airtcp-analysis": ("manifest.json",),
}
"""Kinds of folders, and the files that each has."""

OF_RUNS: Final = (JOURNAL, "sweep.json", "study.json")
"""Files of folders of many runs only."""

_BLOCK: Final = 1 << 20


def open_folder(folder: Path) -> Marker:
    """The marker of a folder of results.

    Raises:
        ResultsError: the folder has none, or cannot be read.
    """
    if not folder.is_dir():
        raise ResultsError(
            f"{folder}: {'is a file: give a folder of results' if folder.exists() else 'no such folder'}"
        )
    try:
        mode = (folder / MARKER).lstat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except OSError as error:
        raise ResultsError(f"{folder / MARKER}: {error.strerror or error}") from error
    if not stat.S_ISREG(mode):
        raise ResultsError(f"{folder / MARKER}: is not a regular file: airtcp did not write it")
    marker = marker_of(folder)
    if marker is None:
        raise ResultsError(
            f"{folder}: has no {MARKER}, so there is nothing to hold it against: an older airtcp wrote it, or another "
            f"program"
        )
    return marker


def check_files(folder: Path, marker: Marker, found: Verified) -> None:
    """Holds every file against the marker.

    Raises:
        ResultsError: the folder cannot be listed.
    """
    found.kind = marker.kind
    passing = {MARKER, JOURNAL, LOCK}
    try:
        names = list(names_in(folder))
    except (OSError, RecursionError) as error:
        raise ResultsError(f"{folder}: cannot be listed: {error}") from error
    found.foreign += [name for name in names if name not in marker.files and name not in passing]
    found.faults += _faults_of_kind(folder, marker, names)
    for name in passing & set(names):
        if not stat.S_ISREG((folder / name).lstat().st_mode):
            found.faults.append(f"{folder / name}: is not a regular file: airtcp did not write it")
    for name, sums in marker.files.items():
        fault = _fault(folder, name, sums)
        if fault is None:
            found.files += 1
        else:
            found.faults.append(fault)


def _faults_of_kind(folder: Path, marker: Marker, names: list[str]) -> list[str]:
    if marker.kind not in KINDS:
        return [f"{folder / MARKER}: kind {marker.kind!r}: must be one of {', '.join(KINDS)}"]
    lacks = [name for name in KINDS[marker.kind] if name not in marker.files]
    out = [f"{folder / name}: is missing: a folder of kind {marker.kind} has it" for name in lacks]
    if marker.kind != "airtcp-runs":
        more = [name for name in OF_RUNS if name in names]
        out += [f"{folder / name}: a folder of kind {marker.kind} has no such file" for name in more]
    elif JOURNAL not in names:
        out.append(f"{folder / JOURNAL}: is missing")
    elif "sweep.json" in marker.files and "study.json" in marker.files:
        out.append(f"{folder}: is a sweep and a study at once")
    return out


def _fault(folder: Path, name: str, sums: list[str]) -> str | None:
    path = folder / name
    if not _is_below(name):
        return f"{folder / MARKER}: names {name!r}, which is not in the folder"
    try:
        for parent in list(Path(name).parents)[:-1]:
            if not stat.S_ISDIR((folder / parent).lstat().st_mode):
                return f"{folder / parent}: is a link or a file: airtcp did not write it"
        with os.fdopen(_files.open_own(path, os.O_RDONLY), "rb") as file:
            digest = hashlib.sha256()
            while block := file.read(_BLOCK):
                digest.update(block)
    except NotOursError as error:
        return str(error)
    except (OSError, ValueError) as error:
        return f"{path}: damaged result: {getattr(error, 'strerror', None) or error}"
    if digest.hexdigest() not in sums:
        return f"{path}: damaged: its SHA-256 is not the one in {MARKER}"
    return None


def _is_below(name: str) -> bool:
    parts = name.split("/")
    return "\0" not in name and all(part not in ("", ".", "..") for part in parts)


__all__ = ["check_files", "open_folder"]
