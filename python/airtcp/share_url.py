"""Links: a scenario in a URL's fragment, as the page of `airtcp play` makes them.

`#s=` is followed by the TOML, deflated, in base64url. Each `&set=` after it is a change of the page's second run.
A link may come from a stranger, so everything in it has a limit.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from typing import Final, NamedTuple

from airtcp._text import MARK

MOST_LINK: Final = 64 << 10
"""Characters of the fragment."""
MOST_TOML: Final = 256 << 10
"""Bytes of the scenario."""
MOST_CHANGES: Final = 40
MOST_CHANGE: Final = 2000
"""Characters of one change."""


class ShareUrlError(ValueError):
    """A link is of no use; the message says why."""


class SharedScenario(NamedTuple):
    """The scenario of a link, and the changes of the second run."""

    toml: str
    changes: tuple[str, ...] = ()
    """Each as the argument of `--set`."""

    def fragment(self) -> str:
        """The link's fragment, with its `#`."""
        from urllib.parse import quote

        packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
        packed = packer.compress(self.toml.encode()) + packer.flush()
        text = base64.urlsafe_b64encode(packed).decode().rstrip("=")
        return MARK + text + "".join(f"&set={quote(change, safe='')}" for change in self.changes)


def read(text: str) -> SharedScenario:
    """Unpacks a link, or the fragment of one.

    Raises:
        LinkError: it is cut, damaged or too large.
    """
    from urllib.parse import unquote

    fragment = text[text.index(MARK) + len(MARK) :]
    if len(fragment) > MOST_LINK:
        raise ShareUrlError(f"the link has {len(fragment)} characters: must be at most {MOST_LINK}")
    packed, *rest = fragment.split("&")
    cut = "the link is cut or damaged: its scenario cannot be unpacked"
    if not re.fullmatch(r"[\w-]+", packed, re.ASCII):
        raise ShareUrlError(cut)
    unpacker = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        raw = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
        toml = unpacker.decompress(raw, MOST_TOML + 1)
        if len(toml) > MOST_TOML:
            raise ShareUrlError(f"the scenario in the link has more than {MOST_TOML} bytes: it must be smaller")
        if not unpacker.eof:
            raise ShareUrlError(cut)
        changes = tuple(unquote(part[4:], errors="strict") for part in rest if part.startswith("set="))
        if len(changes) > MOST_CHANGES or any(len(change) > MOST_CHANGE for change in changes):
            raise ShareUrlError(f"the link has too many changes: at most {MOST_CHANGES} of {MOST_CHANGE} characters")
        return SharedScenario(toml.decode(), changes)
    except (binascii.Error, zlib.error, UnicodeDecodeError):
        raise ShareUrlError(cut) from None
