"""JSON as airtcp writes it, and what tells a link from a file."""

from __future__ import annotations

import json

MARK = "#s="
"""Begins the scenario in a link of `airtcp play` (`airtcp.links`)."""


def to_json(value: object, *, indent: int | None = 2) -> str:
    """Keys in their given order, no NaN, UTF-8 unescaped."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def is_link(text: str) -> bool:
    """Whether an argument is a link rather than a file."""
    return MARK in text
