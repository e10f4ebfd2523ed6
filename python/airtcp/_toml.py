"""What the classes of `airtcp.scenario` have in common."""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Mapping
from typing import Any

import tomli_w


@dataclasses.dataclass(kw_only=True)
class Part:
    """A table of a scenario."""

    def to_dict(self) -> dict[str, Any]:
        """The table as a scenario file has it. What is `None` is left out."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {_key(name): _plain(value) for name, value in fields.items() if value is not None}

    def to_toml(self) -> str:
        """The table as TOML."""
        return tomli_w.dumps(self.to_dict())


def _key(name: str) -> str:
    bare = name.removesuffix("_")
    return bare if keyword.iskeyword(bare) else name


def _plain(value: object) -> object:
    if isinstance(value, Part):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
