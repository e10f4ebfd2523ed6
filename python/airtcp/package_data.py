"""Files that sweeps and studies name: those beside them, and airtcp's own, as in `airtcp:scenes/cafe.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from airtcp._files import within

OWN: Final = "airtcp:"
"""Begins the name of a file that comes with airtcp."""
DATA: Final = Path(__file__).parent / "advice" / "data"
"""Those files: remedies, the rule of advice, and scenes."""
SCENES: Final = DATA / "scenes"


def named_file(root: Path, folder: Path, name: str) -> Path:
    """The real path of a file that another one names: one of airtcp's own, or one within `root`.

    Args:
        root: folder that came as a whole, such as a study's.
        folder: that of the file that names it: `root`, or below it.
        name: relative to `folder`, or with `airtcp:` before it.

    Raises:
        OSError: it leads out of `root` or of airtcp's own files, or a link cannot be read.
    """
    if name.startswith(OWN):
        return within(DATA, DATA, name.removeprefix(OWN))
    return within(root, folder, name)
