"""The Content-Security-Policy of a page: its own scripts and styles, by their hashes, and nothing from elsewhere.

It is a second wall: what comes from files is text in the page already. A policy within a page cannot say who may frame
it (`frame-ancestors`); a server that hands the page out can.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

_META: Final = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
_OF_INNER_PAGES: Final = ("script-src", "style-src", "worker-src")


def policy(
    *, scripts: Iterable[str], styles: Iterable[str], attributes: Sequence[str] = (), inner: str | None = None
) -> str:
    """The policy of a page.

    Args:
        scripts: text of each script that runs in the page.
        styles: text of each style element.
        attributes: style attributes that scripts set.
        inner: a page that this one shows in a frame, from memory. Such a frame is bound by the policy of its maker as
            well as by its own, so this one allows the scripts and workers of the inner page, too.
    """
    sources = {
        "default-src": ["'none'"],
        "script-src": [source(text) for text in scripts],
        "style-src": [source(text) for text in styles],
        "style-src-attr": ["'unsafe-hashes'", *map(source, attributes)] if attributes else ["'none'"],
        "img-src": ["data:"],
        "connect-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    if inner is not None:
        sources["frame-src"] = ["blob:"]
        for name, values in directives(inner).items():
            if name in _OF_INNER_PAGES:
                sources[name] = [*sources.get(name, []), *values]
    return "; ".join(" ".join(dict.fromkeys([name, *values])) for name, values in sources.items())


def source(text: str) -> str:
    """The hash of a script or style as a source of a policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def directives(page: str) -> dict[str, list[str]]:
    """The policy in a page's head; empty: it has none."""
    found = _META.search(page)
    parts = [part.split() for part in found[1].split(";")] if found is not None else []
    return {name: values for name, *values in filter(None, parts)}
