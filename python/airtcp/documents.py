"""Checks sweep and study files against their types, with the reader that reads scenarios.

A `Table` declares the keys of a table of a file, their values and their meanings. Its JSON Schema follows from it.
`_airtcp.Document.check` checks a file against the schema and reports all faults at once, with file, line, key and
value. Modules that declare tables check only the rules that span several keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from airtcp import _airtcp
from airtcp._airtcp import Document, DocumentError
from airtcp._files import fault_of_input
from airtcp.old_names import with_new_names

Place = Sequence[str | int]
"""Keys, and indices of lists, from the top of a document."""

ErrorType = Callable[..., Exception]
"""Makes an error from one text for each fault."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a file. Undeclared keys are faults."""


T = TypeVar("T", bound=Table)


def means(text: str) -> Meta:
    """The meaning of a key, for the schema and the pages."""
    return Meta(description=text)


def _rule(pattern: str, words: str) -> Meta:
    return Meta(pattern=pattern, extra_json_schema={"x-rule": words})


Text = Annotated[str, Meta(min_length=1)]
Whole = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Scalar = bool | int | float | str
Unique: Final = Meta(extra_json_schema={"uniqueItems": True})
Id = Annotated[
    str,
    _rule(r"^[A-Za-z0-9][A-Za-z0-9._-]*$", "letters, digits, `-`, `_` and `.`, beginning with a letter or digit"),
]
Word = Annotated[
    str,
    _rule(
        r"^[A-Za-z_][A-Za-z0-9_]*$", "the name must consist of letters, digits and _, and must not begin with a digit"
    ),
]
Version = Annotated[
    str,
    _rule(r"^[0-9][0-9A-Za-z.-]*$", "a version such as `6.12`: letters, digits, `.` and `-`, beginning with a digit"),
]
Where = Annotated[str, Meta(extra_json_schema={"x-place": True})]
"""File, line and place of the table, for messages. It is not a key of the file; `read` fills it in."""


# --- the schema -------------------------------------------------------------------------------------------------------


def schema(kind: type[Table], title: str = "") -> dict[str, Any]:
    """The JSON Schema of a file: draft 2020-12, every table closed."""
    made = msgspec.json.schema(kind)
    definitions = made.pop("$defs")
    top = definitions.pop(made["$ref"].rsplit("/", 1)[1])
    out = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_tidied(top),
        "$defs": {name: _tidied(definition) for name, definition in definitions.items()},
    }
    return {**out, "title": title or kind.__name__}


def _tidied(part: Any) -> Any:  # noqa: ANN401
    """Simplifies a schema for TOML: there is no null, so an optional key may be left out; an integer is a number."""
    if isinstance(part, list):
        return [_tidied(item) for item in part]
    if not isinstance(part, dict):
        return part
    part = dict(part)
    if "anyOf" in part:
        forms = [form for form in part["anyOf"] if form.get("type") != "null"]
        if any(form.get("type") == "number" for form in forms):
            forms = [form for form in forms if form.get("type") != "integer"]
        del part["anyOf"]
        part = {**forms[0], **part} if len(forms) == 1 else {**part, "anyOf": forms}
    if part.get("default", 0) in (None, {}, [], ""):
        del part["default"]
    if "enum" in part:
        part["type"] = "string"
    if part.get("type") == "object":
        part.setdefault("additionalProperties", {})
    if isinstance(part.get("description"), str):
        part["description"] = "\n\n".join(" ".join(text.split()) for text in part["description"].split("\n\n"))
    if isinstance(part.get("properties"), dict):
        part["properties"] = {
            key: _tidied(value) for key, value in part["properties"].items() if "x-place" not in value
        }
    for key in ("anyOf", "items", "prefixItems", "additionalProperties"):
        if key in part:
            part[key] = _tidied(part[key])
    return part


@cache
def _compiled(kind: type[Table]) -> _airtcp.Schema:
    return _airtcp.Schema(json.dumps(schema(kind)))


# --- reading ----------------------------------------------------------------------------------------------------------


def load(path: object, what: str, error: ErrorType) -> Document:
    """Reads a TOML file.

    Raises:
        error: the file cannot be read. The message says that it should hold `what`.
    """
    if (fault := fault_of_input(str(path))) is not None:
        raise error(fault)
    try:
        return with_new_names(Document.load(str(path), what))
    except DocumentError as found:
        raise error(*found.faults) from None
    except ValueError as found:
        raise error(f"{str(path)!r}: not the path of a file: {found}") from found


def read(document: Document, kind: type[T], error: ErrorType) -> T:
    """Converts a document to its type.

    Raises:
        error: the document does not fit its type. The message lists every fault.
    """
    try:
        document.check(_compiled(kind))
    except DocumentError as found:
        raise error(*found.faults) from None
    try:
        table = msgspec.convert(document.value(), kind)
    except msgspec.ValidationError as found:
        # The schema covers the type. If they ever differ, the message still names the place.
        message, _, at = str(found).partition(" - at `$")
        steps = [int(i) if i else key for i, key in re.findall(r"\[(\d+)\]|\.([^.\[\]`]+)", at)]
        raise error(document.fault(steps, message)) from found
    for place, part in _parts(table, ()):
        if "place" in part.__struct_fields__:
            msgspec.structs.force_setattr(part, "place", document.where(place))
    return table


def _parts(value: object, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Table]]:
    """All tables of a document, with their places."""
    match value:
        case Table():
            yield place, value
            names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
            for name, key in names:
                yield from _parts(getattr(value, name), (*place, key))
        case list() | tuple():
            for i, item in enumerate(value):
                yield from _parts(item, (*place, i))
        case dict():
            for key, item in value.items():
                yield from _parts(item, (*place, key))


class Faults:
    """Collects faults, so that one reading reports all of them."""

    def __init__(self, document: Document, error: ErrorType) -> None:
        """`error`: type of the error that `raise_any` raises."""
        self._document: Final = document
        self._error: Final = error
        self.found: Final[list[str]] = []

    def where(self, *place: str | int) -> str:
        """`FILE:LINE: place`, as exactly as known."""
        return self._document.where(place)

    def add(self, message: str, *place: str | int) -> None:
        """Notes a fault. Its file, line, key and value precede it in the message."""
        self.found.append(self._document.fault(place, message))

    def raise_any(self) -> None:
        """Raises an error with all faults, if there are any."""
        if self.found:
            raise self._error(*self.found)
