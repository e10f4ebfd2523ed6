"""Pages as tests look at them: as text, and in the system's Chromium."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian package chromium)")

WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}


class Outline(HTMLParser):
    """Ids, links, headings, and elements that would load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.sources: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("id"):
            self.ids.append(str(values["id"]))
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag in ("script", "img", "link", "iframe", "source", "object"):
            self.sources += [str(v) for k, v in attrs if k in ("src", "href", "data", "srcset")]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # The sandbox of Chromium does not work as root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


class Visit:
    """A page, and what it said and asked for."""

    def __init__(self, browser: Any, url: str, size: tuple[int, int] = (1280, 900), **more: Any) -> None:
        self.context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **more)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", self.refuse)
        begin = time.monotonic()
        self.page.goto(url)
        self.load_s = time.monotonic() - begin

    def refuse(self, dialog: Any) -> None:
        self.said.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def draw_all(self) -> int:
        """Scrolls through the page; gives the number of plots."""
        plots = self.page.locator("[data-plot]")
        for i in range(plots.count()):
            plots.nth(i).scroll_into_view_if_needed()
            self.page.wait_for_function(
                "i => 'drawn' in document.querySelectorAll('[data-plot]')[i].dataset", arg=i, timeout=60_000
            )
        return int(plots.count())
