"""The report: what the page says, and how it behaves in a real browser."""

from __future__ import annotations

import base64
import copy
import io
import json
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from pypdf import PdfReader

import airtcp
from airtcp import cli
from airtcp.errors import ResultsError
from airtcp.figure_style import COLOURS, COLOURS_ON_DARK, SHADES, shaded
from airtcp.report import interactive, model, plot_style
from airtcp.report.page import anchor, file_name, grouped, measured, write
from browsing import NEEDS_CHROMIUM, WIDTHS, Outline, Visit
from conftest import Command
from sample_study import VARIANTS, Json, study


def save(folder: Path, content: Json) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def content() -> Json:
    return study()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, content: Json) -> Path:
    folder = save(tmp_path_factory.mktemp("report") / "out", content)
    write(folder)
    return folder


def small(**changes: Any) -> Json:
    """A part of the same study, to change: lines, the cloud with fewer points, bars, a plot without values."""
    whole = study(points=40)
    kept = {"p2p-flows", "loss-instants", "ties", "today"}
    whole["experiments"] = [experiment for experiment in whole["experiments"] if experiment["id"] in kept]
    whole["findings"] = [finding for finding in whole["findings"] if finding["experiment"] in kept]
    return copy.deepcopy(whole) | changes


# --- the page as text -----------------------------------------------------------------------------------------------


def test_the_page_holds_everything(folder: Path, content: Json) -> None:
    text = (folder / "report.html").read_text()
    for finding in content["findings"]:
        assert text.count(f'id="finding-{anchor(finding["id"])}"') == 1
        assert finding["claim"] in text
    for experiment in content["experiments"]:
        assert experiment["title"].replace("'", "&#39;") in text
        if experiment["command"]:
            assert f'data-copy="{experiment["command"]}"' in text
    for word in ("山田 太郎", "0.1.0+3f9c2a71", "AMD EPYC 7B13", "1 h 37 min", "out of memory", "Barford and Crovella"):
        assert word in text


def test_nothing_is_loaded_and_every_link_leads_somewhere(folder: Path) -> None:
    outline = Outline((folder / "report.html").read_text())
    assert outline.sources, "print figures are images"
    assert all(source.startswith("data:") for source in outline.sources)
    assert len(outline.ids) == len(set(outline.ids))
    assert {link[1:] for link in outline.links} <= set(outline.ids)
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    steps = [b - a for a, b in zip(outline.headings, outline.headings[1:], strict=False)]
    assert max(steps) == 1, "no level of heading is left out"


def test_every_plot_has_its_print_figures(folder: Path, content: Json) -> None:
    for experiment in content["experiments"]:
        for plot in experiment["plots"]:
            png = (folder / "figures" / f"{plot['id']}.png").read_bytes()
            width, height = struct.unpack(">II", png[16:24])
            assert (width, png[12:16]) == (1050, b"IHDR"), "3.5 in at 300 dpi"
            assert 600 < height < 1300
            density = png[png.index(b"pHYs") + 4 :][:4]
            assert round(struct.unpack(">I", density)[0] * 0.0254) == 300
            svg = (folder / "figures" / f"{plot['id']}.svg").read_text()
            assert 'width="252pt"' in svg
            assert f">{plot['x']['label']}" in svg, "text is text"
            sizes = {float(size) for size in re.findall(r"font: ([\d.]+)px", svg)}
            assert sizes <= {7.0, 8.0}


def test_the_same_study_gives_the_same_bytes(tmp_path: Path) -> None:
    pages = []
    for name in ("a", "b"):
        write(save(tmp_path / name, small()))
        pages.append({path.name: path.read_bytes() for path in sorted((tmp_path / name).rglob("*.*"))})
    assert len(pages[0]) == 2 + 2 * (7 + 3), "study, page, and two of each figure; the matrix has three views"
    assert pages[0] == pages[1]


HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)"> & $x_1$'


def hostile(value: Any, key: str = "") -> Any:
    """The text in every place for free text."""
    if isinstance(value, dict):
        return {k: hostile(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [hostile(v, key) for v in value]
    free = {
        "title",
        "caption",
        "label",
        "unit",
        "name",
        "claim",
        "published",
        "source",
        "measured_text",
        "note",
        "text",
    }
    free |= {"question", "summary", "authors", "venue", "mode", "what", "why", "value", "error", "command", "engine"}
    return f"{value} {HOSTILE}" if isinstance(value, str) and key in free else value


def test_text_from_the_file_is_escaped(tmp_path: Path) -> None:
    content = small()
    page = write(save(tmp_path / "out", hostile(content))).read_text()
    plain = write(save(tmp_path / "plain", content)).read_text()
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert page.count("<script") == plain.count("<script")
    assert page.count("<img") == plain.count("<img")
    assert Outline(page).ids == Outline(plain).ids


def test_names_stay_in_the_folder_and_in_the_page(tmp_path: Path) -> None:
    content = small()
    plot = content["experiments"][0]["plots"][0]
    plot["id"] = '../../up/"é x'
    page = write(save(tmp_path / "out", content))
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    assert (tmp_path / "out/figures" / f"{file_name(plot['id'])}.png").is_file()
    assert f'id="plot-{anchor(plot["id"])}"' in page.read_text()
    assert not re.search(r'[\s"/]', anchor(plot["id"]))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "other"}, r"format = 'other': must be 'airtcp-study'"),
        ({"format_version": 4}, r"format 4 .*update airtcp"),
        ({"format_version": 2}, r"format 2 .*older rules.*same command"),
        ({"title": None}, r"study\.json: .*\$\.title"),
        ({"findings": [{"id": "x"}]}, r"study\.json: .*`claim`.*\$\.findings\[0\]"),
        ({"status": "done"}, r"\$\.status"),
    ],
)
def test_what_is_no_study_is_refused(tmp_path: Path, change: Json, says: str) -> None:
    with pytest.raises(ResultsError, match=says):
        write(save(tmp_path, small() | change))


def test_columns_of_unequal_length_are_refused(tmp_path: Path) -> None:
    content = small()
    content["experiments"][0]["plots"][0]["series"][0]["lo"].pop()
    with pytest.raises(ResultsError, match=r"lo has 6 values, x has 7 .*\$\.experiments\[0\]\.plots\[0\]\.series\[0\]"):
        write(save(tmp_path, content))


def test_an_unknown_finding_and_an_id_twice_are_refused(tmp_path: Path) -> None:
    content = small()
    content["experiments"][0]["findings"].append("nothing")
    with pytest.raises(ResultsError, match="names finding 'nothing'"):
        write(save(tmp_path, content))
    content = small()
    content["findings"].append(content["findings"][0])
    with pytest.raises(ResultsError, match="occurs twice"):
        write(save(tmp_path, content))


def test_an_interrupted_study_and_an_empty_one(tmp_path: Path) -> None:
    page = write(save(tmp_path / "a", small(status="interrupted"))).read_text()
    assert "Interrupted." in page
    empty = small(experiments=[], findings=[], matrices=[], assumptions=[], failed=[], runs=0, paper=None, host={})
    page = write(save(tmp_path / "b", empty)).read_text()
    assert "Interrupted." not in page
    assert not (tmp_path / "b/figures").exists()
    assert "plotly.js" not in page
    assert len(page) < 60_000


def test_the_answer_comes_first(tmp_path: Path) -> None:
    content = small()
    main = [finding["id"] for finding in content["findings"][:2]]
    plot = next(p["id"] for e in content["experiments"] for p in e["plots"] if p["series"])
    answer = {"findings": [*main, "not-run"], "plot": plot}
    text = write(save(tmp_path / "a", content | {"answer": answer}), figures=False).read_text()
    places = [text.index(f'href="#finding-{anchor(name)}"') for name in main]
    assert (
        text.index('id="answer"')
        < places[0]
        < places[1]
        < text.index("How this was found")
        < text.index('id="findings"')
    )
    assert text.index(f'class="key" href="#plot-{anchor(plot)}"') < text.index('id="findings"')
    assert 'id="answer"' not in write(save(tmp_path / "b", content), figures=False).read_text()


# --- what stands where ----------------------------------------------------------------------------------------------


def parsed(content: Json, tmp_path: Path) -> model.Study:
    return model.read(save(tmp_path, content) / "study.json")


@pytest.mark.parametrize(
    ("plots", "findings", "expected"),
    [
        (["3a", "3b"], ["3a", "3b", "3b"], [("3a", 1, 1), ("3b", 1, 2)]),
        (["8a", "8b"], ["8", "8b"], [("8a", 1, 1), ("8b", 1, 1)]),
        (["3"], ["3b", "3c"], [("3", 1, 2)]),
        (["1"], ["15"], [("1", 1, 0), ("15", 0, 1)]),
        (["4", "4"], ["4", None], [("4", 2, 2)]),
        (["5a", "5b"], [None], [("5a, 5b", 2, 0), (None, 0, 1)]),
        (["4a", "4b", "4c", "4d", None], ["4a", "4d"], [("4a", 1, 1), ("4b, 4c", 2, 0), ("4d", 1, 1), (None, 1, 0)]),
        ([None, None], [None], [(None, 2, 1)]),
        ([], ["6"], [("6", 0, 1)]),
    ],
)
def test_findings_stand_beside_the_plots_of_their_figure(
    plots: list[str | None], findings: list[str | None], expected: list[tuple[str | None, int, int]]
) -> None:
    axis = model.Axis(label="x")
    experiment = model.Experiment(
        id="e",
        title="e",
        plots=[model.Plot(id=str(i), title="", figure=f, x=axis, y=axis) for i, f in enumerate(plots)],
    )
    groups = grouped(experiment, [model.Finding(id=str(i), claim="", figure=f) for i, f in enumerate(findings)])
    assert [(g.figure, len(g.plots), len(g.findings)) for g in groups] == expected


def test_a_variant_has_one_look_in_the_whole_study(content: Json, tmp_path: Path) -> None:
    looks = plot_style.series_styles(parsed(content, tmp_path))
    assert len({looks[variant].colour for variant in VARIANTS}) == len(VARIANTS)
    assert len({(look.line, look.marker) for name, look in looks.items() if name in VARIANTS}) == len(VARIANTS)
    assert looks[VARIANTS[0]] == plot_style.SeriesStyle(0, 0, 0, 0, 0)


def with_names(*figures: list[str]) -> model.Study:
    axis = model.Axis(label="x")
    plots = [
        model.Plot(id=str(i), title="", x=axis, y=axis, series=[model.Series(name=name, x=[], y=[]) for name in names])
        for i, names in enumerate(figures)
    ]
    return model.Study(study="s", title="s", experiments=[model.Experiment(id="e", title="e", plots=plots)])


def test_a_variant_keeps_its_colour_when_parameters_follow() -> None:
    names = [f"{variant}, n = {n}" for variant in ("Reno, paced", "Reno") for n in (500, 1500)]
    looks = plot_style.series_styles(with_names(["Reno", "Reno, paced"], names))
    for variant in ("Reno", "Reno, paced"):
        assert {looks[f"{variant}, n = {n}"].colour for n in (500, 1500)} == {looks[variant].colour}
        assert looks[f"{variant}, n = 500"].line != looks[f"{variant}, n = 1500"].line
    assert len({looks[name] for name in names}) == 4
    for signs in ("shade", "line", "marker"):
        assert len({getattr(looks[f"Reno, n = {n}"], signs) for n in (500, 1500)}) == 2


def test_colours_repeat_only_when_they_run_out() -> None:
    first = [f"a{i}" for i in range(4)]
    second = [f"b{i}" for i in range(6)]
    third = [f"c{i}" for i in range(9)]
    looks = plot_style.series_styles(with_names(first, second, third, ["a0", "c0"]))
    assert len({looks[name].colour for name in second}) == 6
    assert len({(looks[name].colour, looks[name].line, looks[name].marker) for name in third}) == 9


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"),
        (True, "yes"),
        (0, "0"),
        (0.0, "0"),
        (1500, "1\N{NARROW NO-BREAK SPACE}500"),
        (-2.43149, "\N{MINUS SIGN}2.431"),
        (0.000123456, "0.0001235"),
        (12345.6, "12\N{NARROW NO-BREAK SPACE}346"),
        (9999.7, "10\N{NARROW NO-BREAK SPACE}000"),
        (100.04, "100"),
        (1e-9, "1.000e\N{MINUS SIGN}09"),
        ("64 KB", "64 KB"),
    ],
)
def test_numbers_for_readers(value: object, text: str) -> None:
    assert plot_style.number(value) == text


def test_measured_text_keeps_its_words() -> None:
    finding = model.Finding(id="f", claim="", measured_text="n=500: 3.2 vs 4.1 %: -0.9 [-1.1, -0.7]; a-1 is no minus")
    minus = "\N{MINUS SIGN}"
    assert measured(finding) == [f"n=500: 3.2 vs 4.1 %: {minus}0.9 [{minus}1.1, {minus}0.7]", "a-1 is no minus"]
    assert measured(model.Finding(id="f", claim="", unit="%")) == ["\N{EN DASH}"]


def bars(**series: dict[str, float | None]) -> model.Plot:
    axis = model.Axis(label="x")
    drawn = [model.Series(name=name, x=list(ys), y=list(ys.values())) for name, ys in series.items()]
    return model.Plot(id="p", title="", kind="bar", x=axis, y=axis, series=drawn)


def test_bars_that_share_no_place_stand_in_its_middle() -> None:
    own = bars(a={"a": 1}, b={"b": 2})
    assert (plot_style.stand_alone(own), plot_style.needs_legend(own)) == (True, False)
    gaps = bars(a={"x": 1, "y": None}, b={"x": None, "y": 2})
    assert (plot_style.stand_alone(gaps), plot_style.needs_legend(gaps)) == (True, True)
    shared = bars(a={"x": 1, "y": 2}, b={"x": 1})
    assert (plot_style.stand_alone(shared), plot_style.needs_legend(shared)) == (False, True)


def test_log_ticks() -> None:
    assert plot_style.log_ticks([193, 7500]) == [100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000]
    assert plot_style.log_ticks([1, 1e6]) == [10.0**i for i in range(7)]
    assert plot_style.log_ticks([0, -1]) == []


def test_plotly_knows_every_property(content: Json, tmp_path: Path) -> None:
    from plotly.graph_objects import Figure

    parsed_study = parsed(content, tmp_path)
    looks = plot_style.series_styles(parsed_study)
    for experiment in parsed_study.experiments:
        for plot in experiment.plots:
            figure = interactive.figure(plot, looks)
            Figure(data=figure["data"], layout=figure["layout"])
            json.dumps(figure, allow_nan=False)


def test_a_dense_cloud_is_one_path(content: Json, tmp_path: Path) -> None:
    parsed_study = parsed(content, tmp_path)
    plot = parsed_study.experiments[1].plots[0]
    figure = interactive.figure(plot, plot_style.series_styles(parsed_study))
    for series, cloud, trace in zip(plot.series, figure["clouds"], figure["data"], strict=True):
        values = struct.unpack(f"<{len(series.x)}f", base64.b64decode(cloud["x"]))
        assert values == pytest.approx(series.x, rel=1e-6)
        assert trace["y"] == [min(series.y), max(series.y)]  # type: ignore[type-var]
    few = interactive.figure(model.Plot(id="p", title="", kind="scatter", x=plot.x, y=plot.y), {})
    assert few["clouds"] == []


def test_a_band_skips_what_has_no_interval(content: Json, tmp_path: Path) -> None:
    parsed_study = parsed(content, tmp_path)
    plot = parsed_study.experiments[0].plots[0]
    data = interactive.figure(plot, plot_style.series_styles(parsed_study))["data"]
    bands = [trace for trace in data if trace["meta"].get("band")]
    assert len(bands) == len(plot.series)
    gap = next(band for band in bands if band["meta"]["series"] == 1)
    assert gap["x"] == [100, 200, 300, 300, 200, 100, None, 700, 1000, 1500, 1500, 1000, 700]
    assert gap["y"][0] == plot.series[1].interval(0)[1]  # type: ignore[index]


# --- sweeps ---------------------------------------------------------------------------------------------------------

SWEEP = """
name = "little"
description = "A short queue of three lengths."
seeds = 2
[scenario]
duration = "2s"
nodes = [{ name = "a", kind = "host" }, { name = "r", kind = "router" }, { name = "b", kind = "host" }]
links = [
  { from = "a", to = "r", rate = "100Mbit/s", delay = "1ms" },
  { name = "neck", from = "r", to = "b", rate = "5Mbit/s", delay = "10ms", queue = { name = "fifo" }, loss = 0.002 },
]
flows = [{ name = "bulk", from = "a", to = "b", tcp = { cc = "reno" } }]
[parameters]
"links.neck.queue.limit_packets" = [5, 10, 20]
"links.neck.delay" = ["5ms", "20ms"]
[[variants]]
name = "Reno"
[[variants]]
name = "CUBIC"
set = { "flows.bulk.tcp.cc" = "cubic" }
[measures]
utilisation = { value = "links.r->b.utilisation", label = "Utilisation", unit = "%", scale = 100 }
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "little.toml").write_text(SWEEP)
    airtcp.sweep(folder / "little.toml", out=folder / "out")
    return folder / "out"


def test_a_sweep_has_a_page_too(sweep: Path) -> None:
    from airtcp.report.page import load

    (plot,) = load(sweep).experiments[0].plots
    assert (plot.x.label, plot.y.title) == ("links.neck.queue.limit_packets", "Utilisation (%)")
    assert [series.name for series in plot.series] == [
        f"{variant}, links.neck.delay = {delay}" for variant in ("Reno", "CUBIC") for delay in ("5ms", "20ms")
    ]
    for series in plot.series:
        assert series.x == [5, 10, 20]
        assert series.n == [2, 2, 2]
        assert all(y is not None and 20 < y <= 100 for y in series.y)
    page = write(sweep)
    assert (sweep / "figures/utilisation.svg").is_file()
    text = page.read_text()
    assert "Findings" not in text
    assert "A short queue of three lengths." in text
    assert re.search(r'<section id="network".*?FIFO, 5 to 20 packets', text, re.DOTALL)


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command(airtcp: Command, tmp_path: Path) -> None:
    out = save(tmp_path / "out", small())
    done = airtcp("report", out)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"report: {out}/report.html" in done.stderr
    assert f"figures: {out}/figures" in done.stderr
    done = airtcp("report", out, "--json")
    said = json.loads(done.stdout)
    assert said["report"] == f"{out}/report.html"
    assert said["figures"]
    assert all(Path(path).is_file() for path in said["figures"])


def test_the_page_alone_elsewhere(airtcp: Command, tmp_path: Path) -> None:
    out = save(tmp_path / "out", small())
    done = airtcp("report", out, "--out", tmp_path / "deep/er/page.html", "--no-figures", "--json")
    assert json.loads(done.stdout) == {"report": f"{tmp_path}/deep/er/page.html", "figures": []}
    assert (tmp_path / "deep/er/page.html").is_file()
    assert [path.name for path in out.iterdir()] == ["study.json"]


@pytest.mark.parametrize("there", [None, "{", "[]"])
def test_a_folder_without_results_is_2(there: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if there is not None:
        (tmp_path / "study.json").write_text(there)
    assert cli.main(["report", str(tmp_path)]) == 2
    assert "study.json" in capsys.readouterr().err
    assert cli.main(["report", str(tmp_path / "none")]) == 2


def test_a_place_that_cannot_be_written_is_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = save(tmp_path / "out", small())
    (tmp_path / "file").write_text("")
    assert cli.main(["report", str(out), "--no-figures", "--out", str(tmp_path / "file/page.html")]) == 1
    assert "cannot write" in capsys.readouterr().err


def test_commands_that_draw_nothing_load_nothing_for_it() -> None:
    heavy = "('jinja2', 'plotly', 'matplotlib', 'msgspec')"
    code = "import sys; from airtcp.cli.parser import command_line; command_line();"
    code += f"print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# --- in Chromium ----------------------------------------------------------------------------------------------------


@NEEDS_CHROMIUM
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_in_a_browser(
    browser: Any, folder: Path, content: Json, width: str, scheme: str, record_property: Any
) -> None:
    with Visit(browser, (folder / "report.html").as_uri(), WIDTHS[width], color_scheme=scheme) as visit:
        page = visit.page
        # Reported, not asserted: the machine may be busy.
        record_property("load_s", visit.load_s)
        sys.stdout.write(f"{width}, {scheme}: loaded in {visit.load_s:.2f} s\n")
        assert visit.draw_all() == sum(len(experiment["plots"]) for experiment in content["experiments"])
        assert visit.said == []
        assert len(visit.asked) == 1, "the page itself and nothing else"
        assert page.evaluate("document.documentElement.scrollWidth") == WIDTHS[width][0]
        # Nothing sticks out that the page does not scroll by itself.
        wide = page.evaluate(
            """() => [...document.querySelectorAll('main *')].filter(e => {
                const box = e.getBoundingClientRect();
                return box.width > 0 && box.right > innerWidth + 1 &&
                    !e.closest('.command, .scroll, .sr, .plot, thead');
            }).map(e => e.outerHTML.slice(0, 80))"""
        )
        assert wide == []
        clipped = page.evaluate(
            """() => [...document.querySelectorAll('.plot text')].filter(t => {
                const a = t.getBoundingClientRect(), b = t.closest('.plot').getBoundingClientRect();
                const across = a.left < b.left - 1 || a.right > b.right + 1;
                return a.width && (across || a.top < b.top - 1 || a.bottom > b.bottom + 1);
            }).map(t => t.textContent)"""
        )
        assert clipped == [], "text of plots is within the plots"


@NEEDS_CHROMIUM
def test_findings_come_first_and_lead_to_their_place(browser: Any, folder: Path, content: Json) -> None:
    with Visit(browser, (folder / "report.html").as_uri()) as visit:
        page = visit.page
        tops = page.evaluate(
            "[...document.querySelectorAll('main > section')].map(s => [s.id, s.getBoundingClientRect().top])"
        )
        # Advice before all else, where a study gives it.
        assert [name for name, _ in sorted(tops, key=lambda pair: pair[1])][:2] == ["matrix-which", "findings"]
        rows = page.locator("table.overview tbody tr")
        assert rows.count() == len(content["findings"])
        link = rows.nth(12).locator("a")
        target = link.get_attribute("href")
        link.click()
        page.wait_for_function(
            "id => Math.abs(document.getElementById(id).getBoundingClientRect().top - 150) < 150",
            arg=target[1:],
        )
        assert page.evaluate("document.activeElement.id") == target[1:]


@NEEDS_CHROMIUM
def test_findings_by_verdict(browser: Any, folder: Path, content: Json) -> None:
    with Visit(browser, (folder / "report.html").as_uri()) as visit:
        page = visit.page
        for verdict in ("reproduced", "mixed", "not", "open", "identity", None):
            page.locator(f"[data-filter={verdict or 'none'}]").click()
            expected = sum(finding["verdict"] == verdict for finding in content["findings"])
            assert 0 < expected < len(content["findings"])
            assert page.locator("table.overview tbody tr:visible").count() == expected
        page.locator("[data-filter=all]").click()
        assert page.locator("table.overview tbody tr:visible").count() == len(content["findings"])


@NEEDS_CHROMIUM
def test_keyboard_alone_reaches_everything(browser: Any, folder: Path) -> None:
    with Visit(browser, (folder / "report.html").as_uri()) as visit:
        page = visit.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        seen = set()
        for _ in range(400):
            page.keyboard.press("Tab")
            seen.add(
                page.evaluate(
                    "(e => e.id || e.dataset.filter || e.className.split(' ')[0] || e.getAttribute('href')"
                    " || e.tagName)(document.activeElement)"
                )
            )
        assert {"theme", "mixed", "copy", "SUMMARY", "#findings", "#assumptions"} <= seen


@NEEDS_CHROMIUM
def test_the_look_is_remembered_and_the_plots_follow(browser: Any, folder: Path) -> None:
    with Visit(browser, (folder / "report.html").as_uri(), color_scheme="light") as visit:
        page = visit.page
        page.locator("[data-plot=fig3a]").scroll_into_view_if_needed()
        page.wait_for_selector("[data-plot=fig3a][data-drawn]")
        # The last one: the first are bands, whose edges are not drawn.
        colour = "getComputedStyle([...document.querySelectorAll('[data-plot=fig3a] .js-line')].at(-1)).stroke"

        def line() -> str:
            return "#" + "".join(f"{int(part):02X}" for part in re.findall(r"\d+", page.evaluate(colour))[:3])

        ground = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(ground)
        assert line() in {shaded(colour, shade) for colour in COLOURS for shade in range(SHADES)}
        page.locator("#theme").click()
        page.wait_for_function(f"() => {ground} !== {before!r}")
        page.wait_for_timeout(200)
        assert line() in {shaded(colour, shade) for colour in COLOURS_ON_DARK for shade in range(SHADES)}
        page.reload()
        assert page.evaluate(ground) != before


@NEEDS_CHROMIUM
def test_plots_offer_nothing_that_leaves_the_machine(browser: Any, folder: Path) -> None:
    with Visit(browser, (folder / "report.html").as_uri()) as visit:
        visit.page.locator("[data-plot=fig3a]").scroll_into_view_if_needed()
        visit.page.wait_for_selector("[data-plot=fig3a][data-drawn]")
        buttons = "[...document.querySelectorAll('[data-plot=fig3a] .modebar-btn')].map(e => e.dataset.title)"
        offered = ["Download plot", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]
        assert [title.split(" as ")[0] for title in visit.page.evaluate(buttons)] == offered


@NEEDS_CHROMIUM
def test_a_series_can_be_hidden(browser: Any, folder: Path) -> None:
    with Visit(browser, (folder / "report.html").as_uri()) as visit:
        page = visit.page
        figure = page.locator("#plot-fig3a")
        figure.scroll_into_view_if_needed()
        page.wait_for_selector("[data-plot=fig3a][data-drawn]")
        lines = "document.querySelectorAll('[data-plot=fig3a] .scatterlayer .trace').length"
        before = page.evaluate(lines)
        button = figure.locator("[data-series='1']")
        button.click()
        page.wait_for_function(f"() => {lines} < {before}")
        assert button.get_attribute("aria-pressed") == "false"
        button.click()
        page.wait_for_function(f"() => {lines} === {before}")


@NEEDS_CHROMIUM
def test_a_cloud_is_where_its_points_are(browser: Any, folder: Path, content: Json) -> None:
    plot = content["experiments"][1]["plots"][0]
    with Visit(browser, (folder / "report.html").as_uri()) as visit:
        page = visit.page
        page.locator("[data-plot=fig4]").scroll_into_view_if_needed()
        page.wait_for_selector("[data-plot=fig4][data-drawn]")
        paths = page.evaluate(
            """() => {
                const plot = document.querySelector('[data-plot=fig4]'), { xaxis, yaxis } = plot._fullLayout;
                return [...plot.querySelectorAll('.shapelayer path')].map(p => {
                    const d = p.getAttribute('d'), first = d.match(/M([\\d.-]+),([\\d.-]+)/);
                    const at = [xaxis.p2d(first[1] - xaxis._offset), yaxis.p2d(first[2] - yaxis._offset)];
                    return [...at, d.split('M').length - 1];
                });
            }"""
        )
        for series, (x, y, count) in zip(plot["series"], paths, strict=True):
            assert (x, y) == pytest.approx((series["x"][0], series["y"][0]), abs=1)
            assert count == len(series["x"])
        page.locator("#plot-fig4 [data-series='0']").click()
        page.wait_for_function("() => document.querySelectorAll('[data-plot=fig4] .shapelayer path').length === 3")


@NEEDS_CHROMIUM
def test_the_numbers_of_a_plot_are_there_as_a_table(browser: Any, folder: Path, content: Json) -> None:
    plot = content["experiments"][0]["plots"][0]
    with Visit(browser, (folder / "report.html").as_uri()) as visit:
        details = visit.page.locator("#plot-fig3a details.data")
        details.locator("summary").click()
        rows = details.locator("tbody tr")
        rows.first.wait_for()
        assert rows.count() == sum(len(series["x"]) for series in plot["series"])
        series = plot["series"][1]
        row = rows.nth(len(plot["series"][0]["x"]) + 3).locator("td")
        assert row.all_text_contents() == [series["name"], "500", plot_style.number(series["y"][3]), "\N{EN DASH}", "1"]


@NEEDS_CHROMIUM
def test_a_command_is_copied(browser: Any, folder: Path, content: Json) -> None:
    grant: dict[str, Any] = {"permissions": ["clipboard-read", "clipboard-write"]}
    with Visit(browser, (folder / "report.html").as_uri(), **grant) as visit:
        visit.page.locator(".copy").first.click()
        visit.page.wait_for_function("() => document.querySelector('.copy').textContent.includes('Copied')")
        assert visit.page.evaluate("navigator.clipboard.readText()") == content["command"]


CONTRAST = """() => {
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const c = [r, g, b].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
  };
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = parts(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || e.closest('script, style')) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(parts(e.closest('svg') ? style.fill : style.color)), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push([e.textContent.trim().slice(0, 30), e.className, ratio]);
  }
  return low;
}"""


@NEEDS_CHROMIUM
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(browser: Any, folder: Path, scheme: str) -> None:
    with Visit(browser, (folder / "report.html").as_uri(), color_scheme=scheme) as visit:
        visit.page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        visit.page.locator("[data-plot=fig3a]").scroll_into_view_if_needed()
        visit.page.wait_for_selector("[data-plot=fig3a][data-drawn]")
        assert visit.page.evaluate(CONTRAST) == []
        sizes = visit.page.evaluate(
            "[...document.querySelectorAll('main *')].map(e => parseFloat(getComputedStyle(e).fontSize))"
        )
        assert min(sizes) >= 10


@NEEDS_CHROMIUM
def test_print_has_every_figure_whole(browser: Any, folder: Path, content: Json) -> None:
    with Visit(browser, (folder / "report.html").as_uri(), color_scheme="dark") as visit:
        pdf = visit.page.pdf(prefer_css_page_size=True, print_background=True)
    # Ligatures and line ends are the typesetter's.
    pages = ["".join(normalize("NFKC", page.extract_text()).split()) for page in PdfReader(io.BytesIO(pdf)).pages]
    assert 5 < len(pages) < 40
    for experiment in content["experiments"]:
        for plot in experiment["plots"]:
            heading = "".join(f"{'Figure ' + plot['figure'] if plot.get('figure') else ''}{plot['title']}".split())
            (where,) = [i for i, text in enumerate(pages) if heading in text]
            # Axis labels are of the picture: it is on the page of its heading.
            assert "".join(plot["x"]["label"].split()) in pages[where].split(heading)[1], plot["id"]
    text = "".join(pages)
    for finding in content["findings"]:
        for check in finding["checks"]:
            assert "".join(check["text"].split()) in text, "checks are printed"


@NEEDS_CHROMIUM
def test_print_is_light(browser: Any, folder: Path) -> None:
    with Visit(browser, (folder / "report.html").as_uri(), color_scheme="dark") as visit:
        visit.page.evaluate("document.documentElement.dataset.theme = 'dark'")
        visit.page.emulate_media(media="print")
        assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        # Pictures come when the page has time.
        visit.page.locator(".static").first.wait_for(state="visible")
        assert not visit.page.locator(".plot").first.is_visible()


@NEEDS_CHROMIUM
def test_without_scripts_the_figures_are_pictures(browser: Any, folder: Path, content: Json) -> None:
    with Visit(browser, (folder / "report.html").as_uri(), java_script_enabled=False) as visit:
        count = sum(len(experiment["plots"]) for experiment in content["experiments"])
        assert visit.page.locator(".static:visible").count() == count
        assert visit.page.locator(".copy:visible").count() == 0


@NEEDS_CHROMIUM
def test_hostile_text_does_nothing(browser: Any, tmp_path: Path) -> None:
    page = write(save(tmp_path, hostile(small())), figures=False)
    with Visit(browser, page.as_uri(), WIDTHS["phone"]) as visit:
        assert visit.draw_all() == 7
        assert visit.said == []
        assert len(visit.asked) == 1
        assert "<script>alert(1)</script>" in visit.page.locator("h1").text_content()
        assert visit.page.evaluate("document.documentElement.scrollWidth") == WIDTHS["phone"][0]


@NEEDS_CHROMIUM
def test_the_page_of_a_sweep_in_a_browser(browser: Any, sweep: Path) -> None:
    with Visit(browser, write(sweep).as_uri(), WIDTHS["phone"]) as visit:
        assert visit.draw_all() == 1
        assert visit.said == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") == WIDTHS["phone"][0]
