"""The base of the classes in `airtcp.scenario`."""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(kw_only=True)
class ScenarioTable:
    """A table of a scenario."""

    def to_dict(self) -> dict[str, Any]:
        """The table as a scenario file has it. Keys whose value is `None` are left out."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {_key(name): plain(value) for name, value in fields.items() if value is not None}


def _key(name: str) -> str:
    bare = name.removesuffix("_")
    return bare if keyword.iskeyword(bare) else name


def plain(value: object) -> object:
    """Tables as dictionaries, however deep."""
    if isinstance(value, ScenarioTable):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def to_toml_value(value: object) -> str:
    """A value as TOML writes it on one line.

    Raises:
        TypeError: TOML has no such type.
    """
    match plain(value):
        case bool(flag):
            return str(flag).lower()
        case int(number) | float(number):
            return repr(number)
        case str(text):
            return to_toml_string(text)
        case list(items):
            return f"[{', '.join(map(to_toml_value, items))}]"
        case dict(table):
            return f"{{{', '.join(f'{to_toml_string(k)} = {to_toml_value(v)}' for k, v in table.items())}}}"
    raise TypeError(f"{value!r} cannot be a value of a scenario")


_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in [*map(chr, range(0x20)), '"', "\\", "\x7f"]}


def to_toml_string(text: str) -> str:
    """A basic string of TOML."""
    return f'"{text.translate(_ESCAPES)}"'
