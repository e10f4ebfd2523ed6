"""JSON Schemas of the files that people write, for editors and validators."""

from __future__ import annotations

from airtcp import _airtcp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

KINDS: Final = ("scenario", "sweep", "study", "experiment")
"""Kinds of files: `study` is `study.toml`, `experiment` a file in a study's `experiments/`."""


def schema(what: str = "scenario") -> str:
    """The JSON Schema of a kind of file, as text.

    Args:
        what: one of `scenario`, `sweep`, `study`, `experiment`.
    """
    if what == "scenario":
        return _airtcp.schema()
    from airtcp import documents
    from airtcp._text import to_json
    from airtcp.study.files import ExperimentFile, StudyFile
    from airtcp.sweeps.file import SweepFile

    tables: dict[str, type[documents.Table]] = {"sweep": SweepFile, "study": StudyFile, "experiment": ExperimentFile}
    return to_json(documents.schema(tables[what], f"airtcp {what}"))
