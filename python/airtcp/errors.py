"""What airtcp raises on purpose. `ScenarioError` comes from the parser in Rust."""

from airtcp._airtcp import ScenarioError


class ResultsError(Exception):
    """A result folder cannot be written, or cannot be read by this version of airtcp."""


class NotOursError(ResultsError):
    """Something other than an airtcp result is where results should go; it is left alone."""


class StudyError(ValueError):
    """A study cannot be found, or its files are wrong. The message names file, key and value."""


__all__ = ["NotOursError", "ResultsError", "ScenarioError", "StudyError"]
