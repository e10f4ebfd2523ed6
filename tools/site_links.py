"""Hook of mkdocs: links that leave docs/ lead to the repository, and the first page is the first tutorial."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"(\]\()(\.\.?/[^)\s#]+)((?:#[^)\s]*)?\))")
FIRST = "tutorials/first-network/"


def on_page_markdown(markdown: str, page: Any, config: Any, **_: object) -> str:  # noqa: ANN401
    """Turns links to files outside of docs/ into links to the repository."""
    folder = posixpath.dirname(page.file.src_uri)

    def outside(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, match[2]))
        if target.startswith("docs/"):
            return match[0]
        return f"{match[1]}{config['extra']['repository']}/blob/main/{target}{match[3]}"

    return LINK.sub(outside, markdown)


def on_post_build(config: Any, **_: object) -> None:  # noqa: ANN401
    """Writes the page at the top, which leads to the first tutorial."""
    from pathlib import Path

    head = f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{config["site_name"]}</title>'
    link = f'<meta http-equiv="refresh" content="0; url={FIRST}"><a href="{FIRST}">{config["site_name"]}</a></html>\n'
    Path(config["site_dir"], "index.html").write_text(head + link, encoding="utf-8")
