"""Where studies are: `./studies`, the folders of AIRTCP_STUDIES, those that came with airtcp; or a path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from airtcp import documents
from airtcp.errors import StudyError
from airtcp.expressions import nearest
from airtcp.study.files import STUDY_FILE, inside

VARIABLE: Final = "AIRTCP_STUDIES"
"""Folders with studies, separated as in PATH."""

SHIPPED: Final = Path(__file__).parent.parent / "studies"
"""Those of the package."""


def places() -> list[Path]:
    """Folders of studies, in the order in which they are searched."""
    own = [Path(place) for place in os.environ.get(VARIABLE, "").split(os.pathsep) if place]
    return [Path("studies"), *own, SHIPPED]


def everything() -> Iterator[tuple[str, Path]]:
    """Id and folder of each study that can be found by id. If several have the same id, the first counts."""
    seen: set[str] = set()
    for place in places():
        for file in sorted(place.glob(f"*/{STUDY_FILE}")) if place.is_dir() else ():
            try:
                found = documents.load(inside(file.parent, STUDY_FILE), "study", StudyError).value().get("id")
            except StudyError:
                found = None
            # A study with faults is listed by the name of its folder; opening it shows the faults.
            study_id = found if isinstance(found, str) else file.parent.name
            if study_id not in seen:
                seen.add(study_id)
                yield study_id, file.parent


def find(name: str) -> Path:
    """The folder of a study, by id or by path.

    Raises:
        StudyError: there is none.
    """
    by_id = dict(everything())
    if name in by_id:
        return by_id[name]
    path = Path(name)
    if path.name == STUDY_FILE and path.is_file():
        return path.parent
    if path.exists() or os.sep in name:
        return path  # reading it reports the missing file
    looked = ", ".join(str(place) for place in places())
    raise StudyError(
        f"no study is called {name!r}{nearest(name, by_id)}\nlooked in {looked}; or give the path of a study's folder"
    )
