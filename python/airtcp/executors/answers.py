"""Answers of workers on other machines: the outcome of a run as bytes of JSON, and the check of it here.

Nothing in an answer is taken on trust. Its key, engine and measures must be those that were asked for, its values of
the kinds that a journal has, and its size bounded. So an answer can be wrong about its own run, and about nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, NoReturn

from airtcp._text import to_json
from airtcp.tasks.measures import MAX_ROWS, Extract
from airtcp.tasks.task import Outcome, Task

MOST_BYTES: Final = 256 << 20
"""Size of an answer. A query of the most rows gives less."""
MOST_TEXT: Final = 10_000
"""Characters of an error, of a name and of a measure that is text."""
MOST_COLUMNS: Final = 1000
_MOST_WALL_S: Final = 1e9

_KEYS: Final = set(Outcome.__dataclass_fields__)
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "Int64": (int,),
    "Float64": (float, int),
    "String": (str,),
    "Boolean": (bool,),
}
"""Types of columns, and of their values."""


class AnswerError(ValueError):
    """An answer is not one to the task; the message says why."""


def encode(outcome: Outcome) -> bytes:
    """An outcome, to be sent."""
    error = outcome.error[:MOST_TEXT] if outcome.error is not None else None
    return to_json(asdict(replace(outcome, error=error)), indent=None).encode()


def decode(task: Task, engine: str, answer: object) -> Outcome:
    """The outcome in an answer.

    Args:
        task: what was asked for.
        engine: what should have carried it out.
        answer: an object from the network.

    Raises:
        AnswerError: it is not an answer to that.
    """
    if not isinstance(answer, bytes):
        raise AnswerError(f"it is a {type(answer).__name__}, not bytes")
    if len(answer) > MOST_BYTES:
        raise AnswerError(f"it has {len(answer)} bytes: must be at most {MOST_BYTES}")
    try:
        found = json.loads(answer, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise AnswerError("it is not JSON") from None
    if not isinstance(found, dict) or set(found) != _KEYS:
        raise AnswerError("it is not an outcome")
    for name, expected in (("key", task.key), ("engine", engine)):
        if found[name] != expected:
            raise AnswerError(f"its {name} is {_shown(found[name])}: must be {expected}")
    wall_s = found["wall_s"]
    if not _is_number(wall_s) or not 0 <= wall_s <= _MOST_WALL_S:
        raise AnswerError(f"its wall_s is {_shown(wall_s)}: must be a time in seconds")
    if found["status"] == "ok":
        if found["error"] is not None or found["end"] is not None:
            raise AnswerError("it is both good and failed")
        _check_measures(task.extracts, found["measures"])
    elif found["status"] == "failed":
        if not isinstance(found["error"], str) or len(found["error"]) > MOST_TEXT or found["measures"] != {}:
            raise AnswerError("it is failed, without the text of an error alone")
        _check_end(found["end"])
    else:
        raise AnswerError(f"its status is {_shown(found['status'])}: must be ok or failed")
    return Outcome(**found)


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]} ..."


def _is_number(value: object) -> bool:
    """A finite number that a float or a column can hold."""
    if isinstance(value, bool):
        return False
    return (isinstance(value, int) and -(1 << 63) <= value < 1 << 64) or (
        isinstance(value, float) and math.isfinite(value)
    )


def _is_short(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MOST_TEXT


def _check_measures(extracts: Sequence[Extract], measures: object) -> None:
    if not isinstance(measures, dict) or set(measures) != {extract.id for extract in extracts}:
        raise AnswerError("its measures are not those that were asked for")
    for extract in extracts:
        value = measures[extract.id]
        if extract.kind == "sql":
            _check_table(extract, value)
        elif not (value is None or isinstance(value, bool) or _is_number(value) or _is_short(value)):
            raise AnswerError(f"measure `{extract.name}` is {_shown(value)}: must be a number, a text or true/false")


def _check_table(extract: Extract, table: object) -> None:
    where = f"measure `{extract.name}`"
    if not isinstance(table, dict) or set(table) != {"columns", "types"}:
        raise AnswerError(f"{where} is not a table")
    columns, types = table["columns"], table["types"]
    if not isinstance(columns, dict) or not isinstance(types, dict) or list(columns) != list(types) or not types:
        raise AnswerError(f"{where}: its columns and types do not match")
    if len(columns) > MOST_COLUMNS or not all(map(_is_short, columns)):
        raise AnswerError(f"{where}: its columns are too many, or their names too long")
    heights = set()
    for name, values in columns.items():
        if not isinstance(types[name], str) or types[name] not in _TYPES or not isinstance(values, list):
            raise AnswerError(f"{where}: column {_shown(name)} has the type {_shown(types[name])}")
        kinds = _TYPES[types[name]]
        for value in values:
            is_right = isinstance(value, kinds) and isinstance(value, bool) == (bool in kinds)
            if value is not None and not (
                is_right and (isinstance(value, bool) or _is_number(value) or _is_short(value))
            ):
                raise AnswerError(f"{where}: column {_shown(name)} has {_shown(value)}: must be {types[name]}")
        heights.add(len(values))
    if len(heights) != 1 or max(heights) > MAX_ROWS:
        raise AnswerError(f"{where}: its columns differ in length, or have more than {MAX_ROWS} rows")


def _check_end(end: Any) -> None:  # noqa: ANN401
    if end is None:
        return
    if (
        not isinstance(end, dict)
        or set(end) != {"signal", "memory_bytes"}
        or not (end["signal"] is None or (isinstance(end["signal"], str) and len(end["signal"]) <= 40))
        or not (end["memory_bytes"] is None or (_is_number(end["memory_bytes"]) and end["memory_bytes"] >= 0))
    ):
        raise AnswerError(f"its end is {_shown(end)}: must be a signal and an amount of memory")
