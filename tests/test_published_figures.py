"""evidence/published.md follows from its figures, and these belong to the files of the sources."""

from __future__ import annotations

import copy
import importlib
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "evidence")]
page, published = map(importlib.import_module, ("page", "published"))

SOURCES = published.sources()
DATA = json.loads(published.FIGURES.read_text())


def test_the_page_follows_from_the_figures() -> None:
    text = published.PAGE.read_text()
    assert page.part(text, "counts") == published.counts(DATA), "run `evidence/published.py --page`"
    assert page.part(text, "sources") == published.text_of(DATA)


def test_the_summary_follows_from_the_figures() -> None:
    assert published.summary(DATA) in page.SUMMARY.read_text().splitlines(), "run `evidence/published.py --page`"


def test_the_summary_replaces_its_row_alone() -> None:
    text = f"| a | b |\n{published.SUMMARY} | old | | |\n| c | d |\n"
    assert published.with_summary(text, DATA) == f"| a | b |\n{published.summary(DATA)}\n| c | d |\n"


def test_the_readme_follows_from_the_figures() -> None:
    assert published.sentence(DATA) in published.README.read_text().splitlines(), "run `evidence/published.py --page`"


def test_the_readme_has_one_line_of_counts() -> None:
    text = f"a\n{published.SENTENCE}1 of 2\nb\n"
    assert published.with_sentence(text, DATA) == f"a\n{published.sentence(DATA)}\nb\n"
    with pytest.raises(ValueError, match="one line that begins with"):
        published.with_sentence("a\nb\n", DATA)


def test_a_source_of_this_engine_and_file_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted `--page` goes on where it was, and keeps what it has."""
    ran: list[str] = []

    def measured(name: str, source: Any) -> list[dict[str, Any]]:
        if name == "c" and "c" not in ran:
            ran.append(name)
            raise KeyboardInterrupt
        ran.append(name)
        return [{"figure": 1, **msgspec.to_builtins(source.figures[0]), "values": [1.0], "inside": True}]

    for name in "abc":
        (tmp_path / f"{name}.toml").write_text(FILE + "rel = 0.1\n")
    pages = {"PAGE": published.PAGE, "README": published.README}
    for name, path in pages.items():
        (tmp_path / path.name).write_text(path.read_text())
        monkeypatch.setattr(published, name, tmp_path / path.name)
    (tmp_path / "validation.md").write_text(page.SUMMARY.read_text())
    monkeypatch.setattr(page, "SUMMARY", tmp_path / "validation.md")
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    monkeypatch.setattr(published, "FIGURES", tmp_path / "published.json")
    monkeypatch.setattr(published, "measured", measured)
    monkeypatch.setattr(sys, "argv", ["published.py", "--page"])
    with pytest.raises(KeyboardInterrupt):
        published.main()
    assert ran == ["a", "b", "c"]
    (tmp_path / "b.toml").write_text(FILE + "rel = 0.2\n")
    published.main()
    assert ran == ["a", "b", "c", "b", "c"]
    assert [s["id"] for s in json.loads((tmp_path / "published.json").read_text())["sources"]] == ["a", "b", "c"]
    assert (
        published.sentence(json.loads((tmp_path / "published.json").read_text()))
        in (tmp_path / "README.md").read_text()
    )


def test_figures_are_those_of_the_files() -> None:
    assert [source["id"] for source in DATA["sources"]] == list(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_rows_of_a_source_are_its_figures(name: str) -> None:
    """What was published, the tolerance and the cause stand in the file; the recorded row only adds what airtcp had."""
    source = next(s for s in DATA["sources"] if s["id"] == name)
    assert source["text"] == SOURCES[name].text
    rows = [{k: v for k, v in row.items() if k not in ("figure", "values", "inside")} for row in source["rows"]]
    assert rows == msgspec.to_builtins(SOURCES[name].figures)
    for row in source["rows"]:
        assert len(row["values"]) == SOURCES[name].seeds
        apart = abs(statistics.fmean(row["values"]) - row["published"])
        assert row["inside"] == (apart <= published.tolerance(row))


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_has_an_address_and_a_tolerance_for_each_figure(name: str) -> None:
    source = SOURCES[name]
    assert source.url.startswith("https://")
    assert source.where
    assert "olerance" in source.text
    assert all(published.tolerance(figure) > 0 for figure in source.figures if figure.explains is None)


@pytest.mark.parametrize("name", SOURCES)
def test_a_figure_outside_has_a_cause(name: str) -> None:
    rows = published.counted(next(s for s in DATA["sources"] if s["id"] == name)["rows"])
    assert not [row["text"] for row in rows if not row["inside"] and not row["cause"]]


def test_a_run_that_tests_a_cause_counts_as_no_figure() -> None:
    data: dict[str, Any] = copy.deepcopy(DATA)
    source = next(s for s in data["sources"] if any(row["explains"] for row in s["rows"]))
    source["rows"] = [row for row in source["rows"] if row["explains"] is None]
    assert published.counts(data) == published.counts(DATA)
    source["rows"].pop()
    assert published.counts(data) != published.counts(DATA)


FILE = """
title = "t"
authors = "a"
venue = "v"
year = 2026
url = "https://example.org"
where = "Table 1"
kind = "linux"
text = "Tolerance: 5 %."

[scenario]
duration = "1s"

[[figures]]
text = "goodput"
published = 1.0
value = "groups.flow.goodput_bps"
"""


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("", "figure 1: a tolerance is needed, `rel`, `abs` or both"),
        ('rel = 0.1\nsql = "SELECT 1"', "figure 1: one of `value` and `sql` is needed"),
        ("explains = 2", "figure 1: `explains` is at most 1"),
        ("abs = 0.6", "figure 1: a tolerance of 0.6 is more than 50% of 1; 0.5 is the most"),
        ("rel = 0.1\nabsolute = 1", "absolute"),
    ],
)
def test_reading_refuses_what_a_figure_may_not_be(tmp_path: Path, more: str, fault: str) -> None:
    path = tmp_path / "source.toml"
    path.write_text(FILE + more + "\n")
    with pytest.raises(SystemExit) as refused:
        published.read(path)
    assert str(path) in str(refused.value)
    assert fault in str(refused.value)


def test_the_larger_of_two_tolerances_counts(tmp_path: Path) -> None:
    path = tmp_path / "source.toml"
    path.write_text(FILE + "rel = 0.1\nabs = 0.5\n")
    assert published.tolerance(published.read(path).figures[0]) == 0.5
