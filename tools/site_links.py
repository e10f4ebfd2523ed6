"""Hook of mkdocs: links that leave docs/ lead to the repository.

The site has the simulator as `play.html`.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

LINK = re.compile(r"(\]\()(\.\.?/[^)\s#]+)((?:#[^)\s]*)?\))")
PLAY = Path(__file__).parents[1] / "python/airtcp/page/playground.html"
"""The simulator, where `make playground` built it."""
OFFER = "<!-- play.html -->"
"""Stands where a page of the site offers it."""


def on_files(files: Any, config: Any, **_: object) -> Any:  # noqa: ANN401
    """Takes the simulator into the site."""
    from mkdocs.structure.files import File  # type: ignore[import-not-found]  # of the site's own environment

    if PLAY.is_file():
        files.append(File.generated(config, "play.html", abs_src_path=str(PLAY)))
    else:
        print("skipped: the site has no simulator: make playground builds it", file=sys.stderr)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: object) -> str:  # noqa: ANN401
    """Turns links to files outside of docs/ into links to the repository."""
    folder = posixpath.dirname(page.file.src_uri)

    def outside(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, match[2]))
        if target.startswith("docs/"):
            return match[0]
        return f"{match[1]}{config['extra']['repository']}/blob/main/{target}{match[3]}"

    offer = "[**Open the simulator**](play.html){target=_blank}: it runs in this browser.\n" if PLAY.is_file() else ""
    return LINK.sub(outside, markdown.replace(OFFER, offer))
