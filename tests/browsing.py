"""Pages as tests look at them: as text, and in the system's Chromium."""

from __future__ import annotations

import base64
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian package chromium)")

FIREFOX = shutil.which("firefox") or shutil.which("firefox-esr")
NEEDS_FIREFOX = pytest.mark.skipif(FIREFOX is None, reason="needs Firefox (Debian package firefox-esr)")

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


# No driver of Debian's Firefox comes from a registry of packages. So this page holds the one under test, and says what
# became of it; of the same origin, it may look inside.
WATCHER = """<!DOCTYPE html><iframe></iframe><script>
const frame = document.querySelector("iframe"), urls = JSON.parse(atob("%s")), found = [];
const next = () => {
  if (found.length === urls.length) return void fetch("/found", { method: "POST", body: JSON.stringify(found) });
  frame.remove();
  frame.src = urls[found.length];
  document.body.append(frame);
};
setInterval(() => {
  const value = frame.contentDocument?.body?.getAttribute("%s");
  if (value && frame.contentDocument.URL.endsWith(urls[found.length])) { found.push(value); next(); }
}, 50);
next();
</script>"""


def in_firefox(
    page: Path, fragments: Sequence[str], attribute: str, profile: Path, patience_s: float = 240
) -> list[str]:
    """An attribute of the body that a page gets when it is ready, for each fragment of its address, in Firefox."""
    urls = base64.b64encode(json.dumps([f"/page{i}{f}" for i, f in enumerate(fragments)]).encode()).decode()
    found: queue.Queue[list[str]] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (WATCHER % (urls, attribute)).encode() if self.path == "/" else page.read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    assert FIREFOX is not None
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        process = subprocess.Popen(
            [FIREFOX, "--headless", "--no-remote", "--profile", str(profile), url],
            env={**os.environ, "HOME": str(profile)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return found.get(timeout=patience_s)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            server.shutdown()


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
