"""Reads the manifest of a folder of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airtcp import _airtcp
from airtcp._marker import read_file
from airtcp.errors import DamagedError, ResultsError


def read_manifest(folder: Path, name: str, kind: str, format_: str, version: int, oldest: int = 1) -> dict[str, Any]:
    """The content of the manifest `name` of a folder.

    Args:
        folder: folder of results.
        name: name of the file.
        kind: command that writes such folders, for messages: "airtcp run".
        format_: value that its `format` must have.
        version: newest `format_version` that this airtcp reads.
        oldest: oldest one.

    Raises:
        ResultsError: it is missing or not readable, has another format, or is from a newer airtcp or one too old.
    """
    file = folder / name
    try:
        manifest = json.loads(read_file(folder, name))
    except (FileNotFoundError, NotADirectoryError):
        raise ResultsError(f"{folder}: not a result of {kind}: it has no {name}") from None
    except OSError as error:
        raise ResultsError(f"{file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{file}: damaged: not valid JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != format_:
        raise ResultsError(f"{file}: not a manifest of {kind}: its `format` is not {format_!r}")
    found = manifest.get("format_version")
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= version:
        raise ResultsError(
            f"{folder}: written in format {found} by airtcp {manifest.get('airtcp_version')}; "
            f"this is airtcp {_airtcp.__version__}, which reads formats up to {version}: update airtcp"
        )
    if found < oldest:
        raise ResultsError(
            f"{folder}: written in format {found} by airtcp {manifest.get('airtcp_version')}; "
            f"this is airtcp {_airtcp.__version__}, which reads formats from {oldest}: run {kind} again"
        )
    return manifest
