"""Strict reading of TOML tables: every error names file, line, key and value, and says what would be accepted."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from airtcp.errors import StudyError
from airtcp.expressions import nearest
from airtcp.sweeps.definition import Faults, lines_of

Place = tuple[str | int, ...]


def load(path: Path) -> Table:
    """A TOML file.

    Raises:
        StudyError: it cannot be read, or is not TOML.
    """
    try:
        text = path.read_bytes().decode("utf-8")
        return Table(Faults(str(path), lines_of(text)), tomllib.loads(text))
    except OSError as error:
        raise StudyError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: not UTF-8 text: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path}: not valid TOML: {error}") from error
    except RecursionError:
        raise StudyError(f"{path}: not valid TOML: nested too deep") from None


class Table:
    """A table of a file, taken apart key by key. `done` complains about what is left."""

    def __init__(self, faults: Faults, data: Mapping[str, Any], place: Place = ()) -> None:
        """`faults` knows the lines of the file."""
        self.place = place
        self._faults = faults
        self._data = dict(data)
        self._known: list[str] = []

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def where(self, *key: str | int) -> str:
        """File, line and full name of a key, for errors."""
        return self._faults.where(*self.place, *key)

    def fault(self, key: str, message: str) -> StudyError:
        """An error at a key, with its value."""
        shown = f" = {_shown(self._data[key])}" if key in self._data else ""
        return StudyError(f"{self.where(key)}{shown}: {message}")

    def _take(self, key: str, what: str, *, required: bool) -> object:
        self._known.append(key)
        if key not in self._data and required:
            # A misspelt key is the likeliest reason.
            close = get_close_matches(key, [k for k in self._data if k not in self._known], n=1, cutoff=0.75)
            hint = f" (`{close[0]}` is there: a typo?)" if close else ""
            raise StudyError(f"{self.where(key)} is missing: {what}{hint}")
        return self._data.get(key)

    def text(self, key: str, what: str, *, default: str | None = None) -> str:
        """Text; required and not empty unless there is a default."""
        value = self._take(key, what, required=default is None)
        if default is not None and (value is None or value == ""):
            return default
        if not isinstance(value, str) or not value.strip():
            raise self.fault(key, f"must be text: {what}")
        return value.strip()

    def choice(self, key: str, what: str, options: Iterable[str], default: str) -> str:
        """One of several words."""
        value = self._take(key, what, required=False)
        names = list(options)
        if value is None:
            return default
        if value not in names:
            raise self.fault(key, f"must be one of {', '.join(map(repr, names))}: {what}")
        return str(value)

    def texts(self, key: str, what: str, *, required: bool = False) -> list[str]:
        """A list of texts without repetition."""
        value = self._take(key, what, required=required)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise self.fault(key, f"must be a list of texts: {what}")
        for i, item in enumerate(value):
            if item in value[:i]:
                raise self.fault(key, f"{item!r} is there twice")
        return value

    def number(self, key: str, what: str) -> float | None:
        """A finite number, if it is there."""
        value = self._take(key, what, required=False)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self.fault(key, f"must be a number: {what}")
        return value

    def numbers(self, key: str, what: str, count: int) -> list[float] | None:
        """So many finite numbers, if they are there."""
        value = self._take(key, what, required=False)
        if value is None:
            return None
        if (
            not isinstance(value, list)
            or len(value) != count
            or any(isinstance(v, bool) or not isinstance(v, (int, float)) or not math.isfinite(v) for v in value)
        ):
            raise self.fault(key, f"must be a list of {count} numbers: {what}")
        return value

    def anything(self, key: str, what: str, *, required: bool = False) -> Any:  # noqa: ANN401
        """A value of any type."""
        return self._take(key, what, required=required)

    def table(self, key: str, what: str, *, required: bool = False) -> Table | None:
        """A table in this one."""
        value = self._take(key, what, required=required)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.fault(key, f"must be a table: {what}")
        return Table(self._faults, value, (*self.place, key))

    def tables(self, key: str, what: str) -> list[Table]:
        """A list of tables, `[[key]]` in the file."""
        value = self._take(key, what, required=False)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.fault(key, f"must be a list of tables, each begun with [[{key}]]: {what}")
        return [Table(self._faults, item, (*self.place, key, i)) for i, item in enumerate(value)]

    def items(self) -> Iterable[tuple[str, Any]]:
        """Keys and values, whatever they are."""
        return self._data.items()

    def done(self, others: Iterable[str] = ()) -> None:
        """Ends the reading.

        Args:
            others: keys that someone else reads.

        Raises:
            StudyError: there is a key that nobody reads.
        """
        known = [*self._known, *others]
        for key in self._data:
            if key not in known:
                raise self.fault(key, f"unknown key{nearest(key, known)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
