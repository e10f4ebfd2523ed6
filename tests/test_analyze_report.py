"""The page of a capture: what it says, and how it behaves in a real browser."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from airtcp.analysis.results import Analysis
from airtcp.report import capture
from airtcp.report.capture import html
from browsing import NEEDS_CHROMIUM, WIDTHS, Outline, Visit
from sample_capture import analysis, flow


def sample(**changes: Any) -> Analysis:
    return analysis(
        flow(1, 400, [0, 1, 1, 2, 2, 3], fast=3),
        flow(2, 50, source="2001:db8::aaaa:bbbb:cccc:1", destination="2001:db8::1", ip_version=6),
        flow(3, 4000, [0], fast=2, vantage="", window_scale=None, goodput_bps=91.234e6),
        flow(4, 0, rtt_mean_ms=None, rtt_min_ms=None, rtt_max_ms=None, goodput_bps=None, complete=False),
        *(flow(i, 5) for i in range(5, 40)),
        **changes,
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("capture") / "report.html"
    path.write_text(html(sample(), 4))
    return path


def figures(text: str) -> dict[str, Any]:
    return {
        name: json.loads(body)
        for name, body in re.findall(r'<script type="application/json" id="data-([^"]+)">(.*?)</script>', text)
    }


def test_the_page_says_what_happened(page: Path) -> None:
    text = page.read_text()
    assert "7 timeouts, 4 with 1 or 2 and 1 with 3 or more duplicate ACKs received: EFR would have avoided 5" in text
    for word in ("192.0.2.1:50001", "[2001:db8::aaaa:bbbb:cccc:1]:50002", "3 packets of link type 127 skipped"):
        assert word in text
    assert text.count("<tr><th") >= 39, "a row for each flow"
    assert text.count('class="experiment"') == 4


def test_nothing_is_loaded_and_every_link_leads_somewhere(page: Path) -> None:
    outline = Outline(page.read_text())
    assert all(source.startswith("data:") for source in outline.sources)
    assert len(outline.ids) == len(set(outline.ids))
    assert {link[1:] for link in outline.links} <= set(outline.ids)
    assert outline.headings.count(1) == 1
    steps = [b - a for a, b in zip(outline.headings, outline.headings[1:], strict=False)]
    assert max(steps) == 1, "no level of heading is left out"


def test_what_the_capture_says_is_text() -> None:
    text = html(sample(file="</script><script>alert(1)</script>", notes=["<b>&"], damage="<i>packet 7"))
    assert "<script>alert(1)" not in text
    assert "&lt;b&gt;&amp;" in text
    assert "&lt;i&gt;packet 7" in text
    figure = figures(text)["sequence-1"]
    hover = next(trace["text"][0] for trace in figure["data"] if "text" in trace)
    assert "&amp; &lt;nothing&gt; &#36;else&#36;" in hover, "Plotly reads some HTML, and TeX between dollars"


def test_the_plots_hold_the_points(page: Path) -> None:
    data = figures(page.read_text())["sequence-1"]
    segments = sample().of_flow("segments", 1)
    sent = segments.filter(segments["kind"] == "data").sort("time_s")
    (cloud,) = (cloud for cloud in data["clouds"] if cloud["meta"]["series"] == 0)

    def values(key: str, origin: str) -> Any:
        return np.frombuffer(base64.b64decode(cloud[key]), "<f4") + cloud[origin]

    np.testing.assert_allclose(values("x", "x0"), sent["time_s"], rtol=1e-6)
    np.testing.assert_allclose(values("y", "y0"), sent["seq_from"] / 1e3, rtol=1e-6)
    np.testing.assert_allclose(values("y2", "y0"), sent["seq_to"] / 1e3, rtol=1e-6)
    marks = {trace["name"]: len(trace["x"]) for trace in data["data"] if trace["mode"] == "markers"}
    assert marks == {"fast retransmit": 3, "timeout": 6, "needless": 1}
    assert len(data["table"]["rows"]) == 9


def test_many_points_are_thinned_and_rows_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "POINTS", 100)
    monkeypatch.setattr(capture, "TABLE_ROWS", 5)
    monkeypatch.setattr(capture, "OVERVIEW_ROWS", 10)
    text = html(sample(), 2)
    cloud = figures(text)["rtt-3"]["clouds"][0]
    assert len(base64.b64decode(cloud["x"])) <= 4 * 100
    assert "the first 5, all are in" in text
    assert "The 10 that show most of 39" in text


def test_states_are_said() -> None:
    text = html(sample(status="interrupted", kept={"flows": [], "hosts": [], "ports": [443]}))
    assert "Interrupted." in text
    assert "ports 443." in text
    empty = html(analysis())
    assert "The capture has no TCP flow." in empty
    assert 'id="plotly"' not in empty


@NEEDS_CHROMIUM
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_in_a_browser(browser: Any, page: Path, width: str, scheme: str) -> None:
    with Visit(browser, page.as_uri(), WIDTHS[width], color_scheme=scheme) as visit:
        assert visit.draw_all() == 1 + 4 * 3
        assert visit.said == []
        assert visit.asked == [page.as_uri()]
        assert visit.page.evaluate("document.documentElement.scrollWidth") == WIDTHS[width][0]
        assert visit.page.locator("[data-plot=sequence-1] .scatterlayer .point").count() == 10


@NEEDS_CHROMIUM
def test_the_flows_are_sorted_by_a_click(browser: Any, page: Path) -> None:
    with Visit(browser, page.as_uri()) as visit:
        first = visit.page.locator("table.sortable tbody tr:first-child")
        last = visit.page.locator("table.sortable tbody tr:last-child")
        assert first.locator("th").inner_text() == "1"
        data = visit.page.get_by_role("button", name="goodput, Mbit/s")
        data.click()
        assert first.locator("th").inner_text() == "3"
        assert last.locator("th").inner_text() == "4", "no value comes last"
        assert visit.page.locator("th[aria-sort=descending]").count() == 1
        data.click()
        assert first.locator("th").inner_text() != "3"
        assert last.locator("th").inner_text() == "4", "either way"
        visit.page.get_by_role("button", name="flow", exact=True).click()
        assert [first.locator("th").inner_text(), last.locator("th").inner_text()] == ["1", "39"]


@NEEDS_CHROMIUM
def test_series_can_be_hidden_and_tables_opened(browser: Any, page: Path) -> None:
    with Visit(browser, page.as_uri()) as visit:
        visit.draw_all()
        figure = visit.page.locator("#plot-sequence-1")
        figure.get_by_role("button", name="timeout", exact=True).click()
        visit.page.wait_for_function(
            "document.querySelectorAll('[data-plot=sequence-1] .scatterlayer .point').length === 4"
        )
        figure.locator("summary").click()
        figure.locator("details.data tbody tr").first.wait_for()
        assert figure.locator("details.data tbody tr").count() == 9
        assert figure.locator("details.data tbody tr").first.locator("td").nth(2).inner_text() == "timeout"


@NEEDS_CHROMIUM
def test_print_has_the_plots(browser: Any, page: Path) -> None:
    with Visit(browser, page.as_uri()) as visit:
        # Drawn as the page has time, without being scrolled to.
        visit.page.wait_for_function(
            "() => document.querySelectorAll('[data-plot]').length === document.querySelectorAll('[data-drawn]').length"
        )
        visit.page.emulate_media(media="print")
        assert visit.page.locator("[data-plot=rtt-3] svg").first.is_visible()
