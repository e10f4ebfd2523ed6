"""The page and the picture of a single run, and the notes on runs that mislead."""

from __future__ import annotations

from pathlib import Path

import pytest

import airtcp
from airtcp import cli, show, soundness
from airtcp.plots import one_run
from airtcp.report import run as page_of
from airtcp.report import write
from airtcp.report.plot_style import series_styles
from browsing import NEEDS_CHROMIUM, WIDTHS, Visit
from conftest import ROOT, WIRELESS

# A drop in the warm-up, of a queue that nobody waits in, beside a line where packets wait for half a second.
NETWORK = """
name = "two-lines"
duration = "6s"
warmup = "1s"

[[nodes]]
name = "phone"
kind = "host"
[[nodes]]
name = "r1"
kind = "router"
[[nodes]]
name = "r2"
kind = "router"
[[nodes]]
name = "server"
kind = "host"

[[links]]
name = "access"
from = "phone"
to = "r1"
rate = "1Gbit/s"
delay = "1ms"
[[links]]
name = "shallow"
from = "r1"
to = "r2"
rate = "40Mbit/s"
delay = "1ms"
queue = { name = "fifo", limit_packets = 20 }
[[links]]
name = "deep"
from = "r2"
to = "server"
rate = "2Mbit/s"
delay = "10ms"
[[flows]]
name = "upload"
from = "phone"
to = "server"
traffic = { kind = "unlimited" }
[[flows]]
name = "ping"
from = "phone"
to = "server"
traffic = { kind = "ping", interval = "100ms" }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    (path / "net.toml").write_text(NETWORK)
    airtcp.run(path / "net.toml", out=path / "out")
    return path / "out"


@pytest.fixture(scope="module")
def wifi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wifi")
    airtcp.run(ROOT / "examples/wifi-upload.toml", set={"duration": "6s", "warmup": "2s"}, out=path / "out")
    return path / "out"


def test_the_queue_that_packets_wait_in_comes_first_whatever_was_dropped(folder: Path) -> None:
    results = airtcp.Results.load(folder)
    assert show.main_links(results)[0]["name"] == "r2->server"
    study = page_of.page(results)
    waiting = next(plot for plot in study.experiments[0].plots if plot.id == "waiting")
    assert waiting.series[0].name == "r2->server"
    rows = [
        {"queue_mean_packets": mean, "dropped_overflow": n, "dropped_early": 0, "utilisation": 0.5}
        for mean, n in ((0.1, 9), (50.0, 0))
    ]
    assert show.by_waiting(rows)[0]["dropped_overflow"] == 0


def test_stations_by_name_alone_and_with_options_have_a_page(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(WIRELESS)
    results = airtcp.run(tmp_path / "net.toml", out=tmp_path / "out")
    given = results.manifest["scenario"]["wlans"][0]["stations"]
    assert [type(station) for station in given] == [str, dict]
    host = page_of._host_of(results)
    assert {name: host(name) for name in ("up", "across", "r->near", "far->r")} == {
        "up": "far",
        "across": "near",
        "r->near": "near",
        "far->r": "far",
    }
    assert page_of.page(results).experiments[0].plots


def test_latency_and_goodput_come_first(folder: Path) -> None:
    study = page_of.page(airtcp.Results.load(folder))
    assert [plot.id for plot in study.experiments[0].plots][:3] == ["latency", "goodput", "waiting"]
    assert study.summary is not None
    said = study.summary.split("\n\n")
    assert said[0].startswith("Latency of `ping`")
    assert any(text.startswith("Goodput of `upload`") for text in said)
    assert "longest in the queue of `r2->server`" in said[-1]


def test_plots_are_the_numbers_of_the_tables(folder: Path) -> None:
    results = airtcp.Results.load(folder)
    plots = {plot.id: plot for plot in page_of.page(results).experiments[0].plots}
    goodput = next(series for series in plots["goodput"].series if series.name == "upload")
    late = [y for x, y in zip(goodput.x, goodput.y, strict=True) if isinstance(x, float) and x > 1 and y is not None]
    told = results.summary["groups"][0]["goodput_bps"] / 1e6
    assert sum(late) / len(late) == pytest.approx(told, rel=0.02)
    assert len(goodput.x) <= page_of.POINTS


def test_a_host_has_one_colour_everywhere(wifi: Path) -> None:
    study = page_of.page(airtcp.Results.load(wifi))
    look = series_styles(study)
    for n in range(5):
        own = {look[name].colour for name in (f"ping[{n}]", f"upload[{n}]", f"sta[{n}]->ap")}
        assert len(own) == 1
    assert len({look[f"upload[{n}]"].colour for n in range(5)}) == 5
    # The way back differs in line and shade.
    back = next(name for name in look if name.startswith("ap->sta"))
    there = look[f"{back.removeprefix('ap->')}->ap"]
    assert (look[back].colour, look[back].line == there.line, look[back].shade == there.shade) == (
        there.colour,
        False,
        False,
    )


def test_report_and_plot_write_beside_the_run(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert cli.main(["report", str(folder)]) == 0
    assert cli.main(["plot", str(folder), "--out", str(tmp_path / "one.svg")]) == 0
    assert cli.main(["plot", str(folder), "--link", "r2->server", "--out", str(tmp_path / "link.svg")]) == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    page = folder.with_name("out-report.html")
    assert str(page) in capsys.readouterr().err
    text = page.read_text()
    assert "has no limit" in text
    assert "TCP flows by group" in text
    one, link = ((tmp_path / name).read_text() for name in ("one.svg", "link.svg"))
    assert "Latency" in one
    assert "Utilisation of r2-&gt;server" in link
    assert cli.main(["verify", str(folder)]) == 0


def test_a_run_without_series_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(NETWORK + "\n[record]\nlinks = []\nflow_series_max = 0\n")
    airtcp.run(tmp_path / "net.toml", out=tmp_path / "out")
    assert write(tmp_path / "out").is_file()
    assert one_run(airtcp.Results.load(tmp_path / "out")).axes[0].get_title(loc="left") == "Latency: ping"


def test_an_unlimited_queue_that_filled_is_told(folder: Path, tmp_path: Path) -> None:
    (said,) = [text for text in soundness.warnings(airtcp.Results.load(folder)) if "no limit" in text]
    assert "`r2->server`" in said
    assert "`queue.limit_packets` of `deep`" in said
    limited = NETWORK.replace('rate = "2Mbit/s"', 'rate = "2Mbit/s"\nqueue = { name = "fifo", limit_packets = 2000 }')
    (tmp_path / "net.toml").write_text(limited)
    assert not [text for text in soundness.warnings(airtcp.run(tmp_path / "net.toml")) if "no limit" in text]
    # A limit by rule is one.
    ruled = NETWORK.replace('rate = "2Mbit/s"', 'rate = "2Mbit/s"\nbuffer = { rule = "bdp", rtt = "3s" }')
    (tmp_path / "net.toml").write_text(ruled)
    assert not [text for text in soundness.warnings(airtcp.run(tmp_path / "net.toml")) if "no limit" in text]


def test_a_short_warm_up_is_told(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(NETWORK)
    changes = {"duration": "12s", "warmup": "4s", "links.deep.queue.limit_packets": 50}
    steady = airtcp.run(tmp_path / "net.toml", set=changes)
    assert not [text for text in soundness.warnings(steady) if "warm-up" in text]
    grows = airtcp.run(ROOT / "examples/wifi-upload.toml", set={"duration": "6s", "warmup": "0s"})
    said = [text for text in soundness.warnings(grows) if "warm-up" in text]
    assert said
    assert "`upload`" in said[0]


@NEEDS_CHROMIUM
@pytest.mark.parametrize("size", WIDTHS.values(), ids=WIDTHS)
def test_the_page_draws_and_fits(size: tuple[int, int], wifi: Path, tmp_path: Path, browser: object) -> None:
    page = write(wifi, out=tmp_path / "run.html")
    with Visit(browser, page.as_uri(), size) as visit:
        visit.page.wait_for_selector("#plot-latency .plot .scatterlayer path.js-line", timeout=60_000)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert visit.page.locator("h1").inner_text() == "wifi-upload"
        assert visit.said == []
        assert visit.asked == [page.as_uri()]
