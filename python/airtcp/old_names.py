"""Keys that files had in an older release: accepted with a warning, and to go with the next release."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from airtcp._airtcp import Document

OLD: Final = "arm"
OLD_LIST: Final = "arms"
NEW: Final = "variant"
NEW_LIST: Final = "variants"


class OldNameWarning(FutureWarning):
    """A file has a name of an older release."""


def with_new_names(document: Document) -> Document:
    """A sweep, an experiment, a study or a file of variants with `variants` in place of `arms`."""
    value = document.value()
    told = []
    for place, old, new in _keys(value):
        told.append(document.where((*place, old)))
        document = document.copy((*place, old), (*place, new)).without((*place, old))
    value = document.value()
    for at, new_value in _values(value):
        told.append(document.where(at))
        document = document.put(at, new_value, document.where(at))
    if told:
        more = f", and {len(told) - 1} more" if len(told) > 1 else ""
        warnings.warn(f"{told[0]}{more}: `arm` and `arms` are now called `variant` and `variants`", OldNameWarning, 2)
    return document


def _keys(value: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Tables with an old key: their place, the key and its new name."""
    yield from _key(value, (), OLD_LIST, NEW_LIST)
    for i, plot in _tables(value.get("plots")):
        yield from _key(plot, ("plots", i), OLD_LIST, NEW_LIST)
        yield from _key(plot.get("where"), ("plots", i, "where"), OLD, NEW)
    for i, matrix in _tables(value.get("matrices")):
        for j, group in _tables(matrix.get("groups")):
            for k, row in _tables(group.get("rows")):
                yield from _key(row, ("matrices", i, "groups", j, "rows", k), OLD, NEW)


def _key(
    table: object, place: tuple[str | int, ...], old: str, new: str
) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    if isinstance(table, Mapping) and old in table and new not in table:
        yield place, old, new


def _values(value: Mapping[str, Any]) -> Iterator[tuple[Sequence[str | int], object]]:
    """Axes of plots that are called by the old name: their place and the new value."""
    for i, plot in _tables(value.get("plots")):
        for key in ("x", "series"):
            given = plot.get(key)
            if given == OLD:
                yield ("plots", i, key), NEW
            elif isinstance(given, list) and OLD in given:
                yield ("plots", i, key), [NEW if one == OLD else one for one in given]


def _tables(value: object) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if isinstance(value, list):
        yield from ((i, one) for i, one in enumerate(value) if isinstance(one, Mapping))
