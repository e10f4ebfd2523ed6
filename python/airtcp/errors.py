"""What airtcp raises on purpose. `ScenarioError` and `CaptureError` come from the parsers in Rust."""

from airtcp._airtcp import CaptureError, ScenarioError


class ResultsError(Exception):
    """A result folder cannot be written, or cannot be read by this version of airtcp."""


class NotOursError(ResultsError):
    """Something other than an airtcp result is where results should go; it is left alone."""


class StudyError(ValueError):
    """A study cannot be found, or its files are wrong. The message names file, key and value."""


class SweepError(ValueError):
    """A sweep file or a `Sweep` is wrong, or does not fit its scenario. The message says where; `faults` lists it."""

    def __init__(self, *faults: str) -> None:
        """One line or more for each fault."""
        super().__init__("\n".join(faults))
        self.faults: list[str] = list(faults)


class ExecutorError(Exception):
    """What should carry out the runs cannot: an unknown address, no cluster there, another engine on its workers."""


__all__ = [
    "CaptureError",
    "ExecutorError",
    "NotOursError",
    "ResultsError",
    "ScenarioError",
    "StudyError",
    "SweepError",
]
