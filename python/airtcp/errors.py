"""Exceptions of airtcp. Those of scenarios, captures and runs that cannot go on come from Rust."""

from __future__ import annotations

from airtcp._airtcp import CaptureError, RunError, ScenarioError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


class ResultsError(Exception):
    """A result folder cannot be written, or cannot be read by this version of airtcp."""


class NotOursError(ResultsError):
    """The folder for results has other content. It is left unchanged."""


class DamagedError(ResultsError):
    """A file is not what airtcp wrote: it does not fit its checksum, or cannot be read for what it should be."""


class FileError(ValueError):
    """A file is wrong. The message names file, line, key and value; `faults` lists all faults."""

    SHOWN: Final = 20

    def __init__(self, *faults: str) -> None:
        """One or more lines for each fault. Faults beyond a screenful are counted, not shown."""
        more = len(faults) - self.SHOWN
        super().__init__("\n".join([*faults[: self.SHOWN], *([f"and {more} more"] if more > 0 else [])]))
        self.faults: list[str] = list(faults)


class StudyError(FileError):
    """A study cannot be found, or its files are wrong."""


class SweepError(FileError):
    """A sweep file or a `Sweep` is wrong, or does not fit its scenario."""


class ExecutorError(Exception):
    """The executor cannot carry out the runs: an unknown address, no cluster there, another engine on its workers."""


__all__ = [
    "CaptureError",
    "DamagedError",
    "ExecutorError",
    "FileError",
    "NotOursError",
    "ResultsError",
    "RunError",
    "ScenarioError",
    "StudyError",
    "SweepError",
]
