"""Text of recorded figures. A file whose name ends in `.gz` is compressed. Standard library only."""

from __future__ import annotations

import gzip
import pathlib


def read(path: pathlib.Path) -> str:
    """The text of a file."""
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


def write(path: pathlib.Path, text: str) -> None:
    """Replaces a file. Without a time in it, equal text gives equal bytes."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        path.write_text(text)
