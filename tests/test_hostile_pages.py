"""Text of strangers in pages: in every text key of a study, a sweep, a run, a capture, an advice and a network.

A page with hostile text has the elements and attributes of the same page without it. In Chromium nothing of it runs, no
request goes out and no dialog opens. A policy in each page is a second wall; it is tested by breaking the first.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

import airtcp
from airtcp import Sweep, _csp
from airtcp.report import advice as advice_page
from airtcp.report import capture, network
from airtcp.report.page import write
from browsing import NEEDS_CHROMIUM, Visit
from conftest import EXAMPLES, SMALL
from sample_capture import analysis, flow
from sample_study import study
from test_report_network import scenario

TEXT = (
    "\"'></script></style></title></svg><script>window.ran=alert(1)</script>"
    "<img src=http://127.0.0.1:9/x onerror=alert(2)>"
    '<svg onload=alert(3)><a href="javascript:alert(4)">l</a><b>b</b><!-- <iframe srcdoc="<script>alert(5)</script>">'
    "{{7*7}}{%x%}${alert(6)}%{fullData.name}$\\frac{$x_1$ \u2028\u2029 \u202e`code`"
)
CONTROLS = "\x00\x07\x1b[31m\x7f\x9b"
FIXED = {
    "format",
    "kind",
    "status",
    "verdict",
    "outcome",
    "scale",
    "better",
    "started",
    "settled",
}
"""Keys whose values are one of a list."""


class Shape(HTMLParser):
    """Elements, attributes, links and sources of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.comments: list[str] = []
        self.scripts = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "src", "action", "data", "srcset", "xlink:href", "formaction"):
                self.links.append(str(value))

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def spoiled(value: Any, key: str = "") -> Any:
    """The text at the end of every text."""
    if isinstance(value, dict):
        return {k: spoiled(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [spoiled(v, key) for v in value]
    return f"{value}{TEXT}{CONTROLS}" if isinstance(value, str) and value and key not in FIXED else value


def with_names(old: Any, new: Any) -> Any:
    """The names of measures and variants of a matrix as before: other places of it have them as keys."""
    if isinstance(new, dict):
        kept = {"name", "variant", "variants", "base", "harmed", "if_twice"} & new.keys()
        return {k: old[k] if k in kept else with_names(old[k], v) for k, v in new.items()}
    return [with_names(a, b) for a, b in zip(old, new, strict=True)] if isinstance(new, list) else new


def of_study(folder: Path, is_hostile: bool) -> str:
    content = study(points=40)
    kept = {"p2p-flows", "loss-instants", "ties", "today"}
    content["experiments"] = [one for one in content["experiments"] if one["id"] in kept]
    content["findings"] = [one for one in content["findings"] if one["experiment"] in kept]
    if is_hostile:
        plain, content = content, spoiled(content)
        content["matrices"] = with_names(plain["matrices"], content["matrices"])
        # A source that names the paper itself is left out, with and without the text.
        for finding in content["findings"]:
            finding["source"] = finding["source"] and finding["source"].replace(
                plain["paper"]["title"], content["paper"]["title"]
            )
    (folder / "study.json").write_text(json.dumps(content))
    return write(folder).read_text()


def of_sweep(folder: Path, is_hostile: bool) -> str:
    more = TEXT if is_hostile else ""
    measure = {"value": "links.bottleneck.utilisation", "label": f"Use {more}", "unit": f"% {more}"}
    toml = SMALL.replace('name = "small"', f"name = 'small'\ndescription = {json.dumps(f'about {more}')}")
    (folder / "small.toml").write_text(toml.replace('"4s"', '"1s"'))
    sweep = Sweep(
        name="s",
        scenario=folder / "small.toml",
        description=f"about {more}",
        measures={"u": measure, "v": "groups.bulk.goodput_bps"},
        parameters={"cc": ["reno", "cubic"], "text": [f"one {more}", f"two {more}"]},
        set={"flows.bulk.tcp.cc": "{cc}", "description": "{text}"},
        seeds=1,
    )
    airtcp.sweep(sweep, executor="threads", out=folder / "out")
    return write(folder / "out").read_text()


def of_run(folder: Path, is_hostile: bool) -> str:
    more = TEXT if is_hostile else ""
    toml = SMALL.replace('name = "small"', f"name = 'small'\ndescription = {json.dumps(f'about {more}')}")
    (folder / "small.toml").write_text(toml)
    airtcp.run(folder / "small.toml", out=folder / "out")
    return write(folder / "out").read_text()


def of_capture(folder: Path, is_hostile: bool) -> str:
    more = TEXT + CONTROLS if is_hostile else ""
    found = analysis(
        flow(1, 400, [0, 1, 1, 2, 2, 3], fast=3, source=f"a{more}", destination=f"b{more}", vantage=f"sender{more}"),
        flow(2, 50),
        file=f"made up{more}",
        notes=[f"note{more}"],
        damage=f"damaged{more}",
    )
    for name, columns in {"retransmissions": ["reason", "class"]}.items():
        table = getattr(found, name).collect()
        changed = table.with_columns(pl.col(column) + pl.lit(more) for column in columns)
        found = dataclasses.replace(found, tables={**found.tables, name: changed.lazy()})
    return capture.html(found, 4)


def of_advice(folder: Path, is_hostile: bool) -> str:
    more = TEXT if is_hostile else ""
    path = folder / "narrow.toml"
    path.write_text(SMALL.replace('name = "small"', f"name = 'small'\ndescription = {json.dumps(f'about {more}')}"))
    found = airtcp.advise(path, seeds=2, set={"duration": "2s"})
    found = dataclasses.replace(found, name=f"small{more}", description=f"about {more}")
    return advice_page.html(found)


PAGES: dict[str, Callable[[Path, bool], str]] = {
    "study": of_study,
    "sweep": of_sweep,
    "run": of_run,
    "capture": of_capture,
    "advice": of_advice,
}


@pytest.fixture(scope="module", params=list(PAGES))
def pages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """The page without the text, the page with it, and the latter's file."""
    made = []
    for is_hostile in (False, True):
        folder = tmp_path_factory.mktemp(f"{request.param}-{is_hostile}")
        made.append(PAGES[request.param](folder, is_hostile))
    file = folder / "hostile.html"
    file.write_text(made[1])
    return made[0], made[1], file


def test_the_text_is_text(pages: tuple[str, str, Path]) -> None:
    plain, hostile, _ = map(str, pages)
    before, after = Shape(plain), Shape(hostile)
    assert "alert(1)" in hostile, "the text is in the page"
    # The text has code between backticks, which is shown as code.
    before.elements.pop("code", None)
    after.elements.pop("code", None)
    assert after.elements == before.elements
    assert after.attributes == before.attributes
    assert not [name for name in after.attributes if name.startswith("on") or name in ("style", "srcdoc")]
    assert all(link.startswith(("#", "data:")) for link in after.links)
    assert after.comments == before.comments
    assert "{{7*7}}" in hostile.replace("&#39;", "'"), "no template reads it"


def test_every_page_has_a_policy_without_holes(pages: tuple[str, str, Path]) -> None:
    for page in pages[:2]:
        policy = _csp.directives(page)
        assert (
            policy["default-src"] == policy["connect-src"] == policy["base-uri"] == policy["form-action"] == ["'none'"]
        )
        assert policy["img-src"] == ["data:"]
        assert policy["style-src-attr"] in (["'none'"], ["'unsafe-hashes'", _csp.source("font-size:70%")])
        allowed = [value for name in ("script-src", "style-src") for value in policy[name]]
        own = {"'wasm-unsafe-eval'"} if "frame-src" in policy else set()
        assert all(re.fullmatch(r"'sha256-[\w+/]{43}='", value) or value in own for value in allowed), allowed
        assert '<meta name="referrer" content="no-referrer">' in page
        assert page.index("Content-Security-Policy") < page.index("<title") < page.index("<script")
        scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
        assert {_csp.source(text) for text in scripts} <= set(policy["script-src"])
        (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
        assert _csp.source(style) in policy["style-src"]
    assert policy == _csp.directives(pages[0]), "no text of a file is in the policy"


@NEEDS_CHROMIUM
def test_nothing_of_it_runs(browser: Any, pages: tuple[str, str, Path]) -> None:
    with Visit(browser, pages[2].as_uri(), offline=True) as visit:
        visit.draw_all()
        page = visit.page
        for place in page.locator(".js-plotly-plot").all()[:4]:
            box = place.bounding_box()
            place.scroll_into_view_if_needed()
            box = place.bounding_box()
            for part in (0.2, 0.35, 0.5, 0.65, 0.8):
                page.mouse.move(box["x"] + part * box["width"], box["y"] + 0.5 * box["height"])
                page.wait_for_timeout(30)
        # Plotly makes links of what it reads as HTML.
        assert page.locator(".js-plotly-plot a[*|href], .js-plotly-plot .hovertext b").count() == 0
        assert page.evaluate("document.querySelectorAll('[onerror], [onload], iframe, [href^=javascript]').length") == 0
        for details in page.locator("details").all()[:6]:
            details.evaluate("one => { one.open = true }")
        page.wait_for_timeout(100)
        assert page.evaluate("'ran' in window") is False
        assert visit.said == []
        assert visit.asked == [pages[2].as_uri()]


@pytest.fixture
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """An address, and the beginning of all that was sent to it."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = server.accept()
                    with client, contextlib.suppress(OSError):
                        client.settimeout(1)
                        # A browser may connect ahead of a request that it then refuses: that tells nothing.
                        if sent := client.recv(200):
                            heard.append(sent)
                        client.sendall(b"HTTP/1.1 404 none\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        server.shutdown(socket.SHUT_RDWR)


HOLE = """<script>window.ran = 1</script><img src=x onerror="window.ran = 2"><img src=THERE/picture>
<style>body { background: url(THERE/style) }</style><p style="color: red" id=red>red</p>
<iframe src=THERE/frame></iframe><object data=THERE/object></object><video src=THERE/video></video>
<link rel=stylesheet href=THERE/link><script src=THERE/script></script><link rel=prefetch href=THERE/prefetch>
<base href=THERE/><form id=form action=THERE/form><input name=a></form><a id=go href="javascript:window.ran=3">go</a>"""


@NEEDS_CHROMIUM
def test_if_text_were_not_text_the_policy_would_still_hold(
    browser: Any, pages: tuple[str, str, Path], tmp_path: Path, listener: tuple[str, list[bytes]]
) -> None:
    there, heard = listener

    def visited(text: str) -> tuple[bool, bool, list[str]]:
        """Whether something ran, whether a style was taken, and what was said."""
        heard.clear()
        file = tmp_path / "broken.html"
        file.write_text(text.replace("</main>", f"{HOLE.replace('THERE', there)}</main>", 1))
        with Visit(browser, file.as_uri()) as visit:
            page = visit.page
            page.evaluate("document.getElementById('go').click()")
            page.evaluate(f"fetch('{there}/fetch').catch(() => 0)")
            page.wait_for_timeout(300)
            ran = page.evaluate("'ran' in window")
            red = page.evaluate("getComputedStyle(document.getElementById('red')).color") == "rgb(255, 0, 0)"
            page.evaluate("document.getElementById('form').submit()")
            page.wait_for_timeout(200)
            return ran, red, visit.said

    ran, red, said = visited(pages[0])
    assert (ran, red, heard) == (False, False, [])
    assert any("Content Security Policy" in text for text in said)
    # The test can fail: without the policy all of it happens.
    ran, red, _ = visited(re.sub("<meta http-equiv[^>]*>", "", pages[0]))
    assert (ran, red) == (True, True)
    asked = b" ".join(heard)
    for what in (b"/picture", b"/link", b"/script", b"/fetch", b"/frame"):
        assert what in asked


@pytest.mark.parametrize("file", ["examples/wifi-upload.toml", "examples/walk.toml", "examples/backbone.toml"])
def test_names_in_the_drawing_of_a_network_are_text(file: str) -> None:
    def named(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: named(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [named(v, key) for v in value]
        is_name = isinstance(value, str) and key in ("name", "from", "to", "ap", "node", "stations", "profile", "band")
        # A member of a group has its number last.
        return re.sub(r"^[^\[]*", lambda match: match[0] + TEXT.replace("[", "("), value) if is_name else value

    plain, hostile = (network.of([one]) for one in (scenario(file), named(scenario(file))))
    before, after = (
        Counter(
            one.tag
            for one in ElementTree.fromstring(
                str(network.svg(it, "n")).replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"')
            ).iter()
        )
        for it in (plain, hostile)
    )
    assert set(after) == set(before)
    assert "alert(1)" in str(network.svg(hostile, "n"))


def test_a_dollar_and_a_control_character_in_figures(tmp_path: Path) -> None:
    of_study(tmp_path, is_hostile=True)
    figures = sorted((tmp_path / "figures").glob("*.svg"))
    assert figures
    for figure in figures:
        # Well-formed, and without a script or a link.
        tags = {one.tag.rpartition("}")[2] for one in ElementTree.parse(figure).iter()}
        assert not tags & {"script", "a", "foreignObject", "iframe"}, figure
    assert any("\\frac{$x_1$" in figure.read_text() for figure in figures), "a dollar is a dollar"


def test_a_run_named_like_a_formula_can_be_drawn(tmp_path: Path) -> None:
    from airtcp.plots.over_time import over_time

    (tmp_path / "small.toml").write_text(SMALL)
    folders = [tmp_path / "$\\frac{$", tmp_path / "$x_"]
    runs = []
    for folder in folders:
        airtcp.run(tmp_path / "small.toml", out=folder)
        runs.append(airtcp.Results.load(folder))
    figure = over_time(runs, labels=[folder.name for folder in folders])
    figure.savefig(tmp_path / "figure.svg")
    assert "$\\frac{$" in (tmp_path / "figure.svg").read_text()


def test_examples_are_there() -> None:
    assert {path.name for path in EXAMPLES} >= {"wifi-upload.toml", "walk.toml", "backbone.toml"}
