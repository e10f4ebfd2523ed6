"""Files that people write, held against a type: sweeps and studies, by the reader that reads scenarios.

A `Table` declares the keys of a table of a file, what they accept and what they mean. Its JSON Schema follows from it;
`_airtcp.Document.check` holds a file against that and finds everything wrong at once, with file, line, key and value.
What is left for the modules that declare tables is what only the whole can tell.
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

Place = Sequence[str | int]
"""Keys, and indices of lists, from the top of a document."""

ErrorType = Callable[..., Exception]
"""Of one text for each fault."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a file. Keys that it does not declare are faults."""


T = TypeVar("T", bound=Table)


def means(text: str) -> Meta:
    """What a key means, for the schema and the pages."""
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
    str, _rule(r"^[A-Za-z_][A-Za-z0-9_]*$", "the name must be a word: letters, digits and _ only, and no digit first")
]
Where = Annotated[str, Meta(extra_json_schema={"x-place": True})]
"""Not a key of a file: file, line and place of the table, for errors; `read` puts it in."""


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
    """TOML has no null, so an optional key is one that may be left out; and a whole number is a number, too."""
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
    """A TOML file.

    Raises:
        error: it cannot be read; `what` should have been in it.
    """
    try:
        return Document.load(str(path), what)
    except DocumentError as found:
        raise error(*found.faults) from None
    except ValueError as found:
        raise error(f"{str(path)!r}: not the path of a file: {found}") from found


def read(document: Document, kind: type[T], error: ErrorType) -> T:
    """A document as what it should be.

    Raises:
        error: it is not; with all that is wrong.
    """
    try:
        document.check(_compiled(kind))
    except DocumentError as found:
        raise error(*found.faults) from None
    try:
        table = msgspec.convert(document.value(), kind)
    except msgspec.ValidationError as found:
        # The schema says all that the type does; should they ever differ, it is still told where.
        message, _, at = str(found).partition(" - at `$")
        steps = [int(i) if i else key for i, key in re.findall(r"\[(\d+)\]|\.([^.\[\]`]+)", at)]
        raise error(document.fault(steps, message)) from found
    for place, part in _parts(table, ()):
        if "place" in part.__struct_fields__:
            msgspec.structs.force_setattr(part, "place", document.where(place))
    return table


def _parts(value: object, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Table]]:
    """All tables in it, with their places."""
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
    """Collects what is wrong, so that one reading finds all of it."""

    def __init__(self, document: Document, error: ErrorType) -> None:
        """`error` is what `raise_any` raises."""
        self._document: Final = document
        self._error: Final = error
        self.found: Final[list[str]] = []

    def where(self, *place: str | int) -> str:
        """`FILE:LINE: place`, as exactly as is known."""
        return self._document.where(place)

    def add(self, message: str, *place: str | int) -> None:
        """Notes a fault; its file, line, key and value are told before it."""
        self.found.append(self._document.fault(place, message))

    def raise_any(self) -> None:
        """Raises what was found, if anything."""
        if self.found:
            raise self._error(*self.found)
