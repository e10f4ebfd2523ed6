"""Runs that a report offers to make in the page: the scenarios are those of its runs, and so are their bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import airtcp
from airtcp import _airtcp, share_url
from airtcp.errors import DamagedError
from airtcp.report import reruns, write
from airtcp.sweeps.results import RUNS, read_table
from browsing import NEEDS_CHROMIUM, Visit
from sample_sweep import FILE, TINY
from test_playground import BUILT, native, same_engine

SEED = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("here")
    (folder / "tiny.json").write_text(json.dumps(TINY))
    (folder / "tiny.toml").write_text(_airtcp.Checked.from_json(json.dumps(TINY), "tiny", []).to_toml())
    (folder / "sweep.toml").write_text(FILE.replace("seeds = 2", f"seeds = [{SEED}, 9]"))
    airtcp.sweep(folder / "sweep.toml", out=folder / "out")
    return folder / "out"


def summary(toml: str) -> dict[str, Any]:
    checked = _airtcp.Checked.from_toml(toml.encode(), "scenario.toml", [])
    run = _airtcp.Run(checked, None)
    run.advance(run.end_s)
    found: dict[str, Any] = json.loads(run.finish().summary)
    return found


def test_each_point_is_offered_once_as_it_ran(folder: Path) -> None:
    found = reruns.offers(folder, {"tiny": RUNS})["tiny"]
    assert [one.text for one in found] == [
        f"rate = {rate}, loss = {loss}, seed {SEED}" for rate in (2, 5) for loss in ("0", "0.01", "0.02")
    ]
    runs = read_table(folder, RUNS)
    for one in found:
        told = summary(share_url.read(one.fragment).toml)
        (line,) = (line for line in told["links"] if line["name"] == "a->b")
        assert told["seed"] == SEED
        assert 100 * line["utilisation"] in runs["utilisation"].to_list()


def test_of_very_many_runs_some_are_offered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reruns, "MOST", 3)
    found = reruns.offers(folder, {"tiny": RUNS})["tiny"]
    assert [one.text.split(",")[1] for one in found] == [" loss = 0", " loss = 0.02", " loss = 0.01"]


def test_a_folder_of_before_offers_nothing(tmp_path: Path) -> None:
    assert reruns.offers(tmp_path, {"tiny": RUNS}) == {}


def test_tables_that_do_not_belong_together_are_told(folder: Path) -> None:
    with pytest.raises(DamagedError, match=r"no-such\.parquet: damaged result"):
        reruns.offers(folder, {"tiny": "no-such"})


def test_without_the_page_a_report_has_none_of_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reruns, "page", lambda: "")
    assert 'class="here"' not in write(folder, out=tmp_path / "page.html").read_text()


@BUILT
@NEEDS_CHROMIUM
def test_a_run_of_the_report_is_made_in_it(browser: Any, folder: Path, tmp_path: Path) -> None:
    same_engine()
    page = write(folder, out=tmp_path / "page.html")
    with Visit(browser, page.as_uri(), offline=True) as visit:
        box = visit.page.locator(".here").first
        box.locator("select").select_option(index=2)
        box.locator("button").click()
        inside = visit.page.frame_locator("iframe")
        inside.locator("body[data-runs]").wait_for(timeout=60_000)
        expected = native(share_url.read(reruns.offers(folder, {"tiny": RUNS})["tiny"][2].fragment).toml)["hash"]
        assert inside.locator("body").get_attribute("data-runs") == expected
        box.locator("button").click()
        assert visit.page.locator("iframe").count() == 0
        assert visit.said == []
        assert [url for url in visit.asked if not url.startswith(("file:", "blob:", "data:"))] == []
