"""JSON as airtcp writes it."""

from __future__ import annotations

import json


def to_json(value: object, *, indent: int | None = 2) -> str:
    """Keys in their given order, no NaN, UTF-8 unescaped."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
