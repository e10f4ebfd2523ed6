"""JSON as airtcp writes it, text that a terminal only shows, durations and sizes in words, links told from files."""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MARK = "#s="
"""Begins the scenario in a link of `airtcp play` (`airtcp.share_url`)."""


def to_json(value: object, *, indent: int | None = 2) -> str:
    """Keys in their given order, no NaN, UTF-8 unescaped."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def is_link(text: str) -> bool:
    """Whether an argument is a link rather than a file."""
    return MARK in text


_ACTING: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal acts on: C0 but tab and newline, DEL, C1, marks of direction, separators of lines.

Half a surrogate pair is among them: it stands for a byte of a file name that is not UTF-8, and cannot be written.
"""


def visible(text: str) -> str:
    r"""The text with `\u001b` in place of each character that a terminal would act on.

    The spelling is JSON's: what was JSON stays the same JSON.
    """
    return _ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def on_one_line(text: str) -> str:
    """A name within a message: with a line of its own it could pass for another message."""
    return visible(text).replace("\n", "\\u000a").replace("\t", "\\u0009")


def duration(seconds: float) -> str:
    """A duration in words: `40 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def amount(number: float) -> str:
    """A number of bytes with a decimal unit: `1.2 MB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size * 0.9995:
            return f"{number / size:.3g} {unit}" if number < size * 999.5 else f"{number / size:.0f} {unit}"
    return f"{number:.0f} B"


def endpoint(host: str, port: int) -> str:
    """`10.0.0.1:443`, `[2001:db8::1]:443`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
