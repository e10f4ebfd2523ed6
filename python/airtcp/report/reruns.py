"""Runs of a report that its reader can make again in it: the page of `airtcp play`, and a scenario for each of them."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import polars as pl

from airtcp import _airtcp, share_url
from airtcp.errors import DamagedError, ScenarioError
from airtcp.report.plot_style import number
from airtcp.results import Results
from airtcp.sweeps.results import TASKS, read_table

MOST: Final = 60
"""Most runs that an experiment offers; of more, so many are taken evenly."""


@dataclass(frozen=True)
class Rerun:
    """One run."""

    text: str
    """Its variant and parameters."""
    fragment: str
    """Its scenario, as in a link."""


@cache
def page() -> str:
    """The page of `airtcp play`, compressed, in base64; empty: this airtcp was built without it."""
    return base64.b64encode(gzip.compress(text().encode(), compresslevel=9, mtime=0)).decode("ascii") if text() else ""


@cache
def text() -> str:
    """The page of `airtcp play`; empty: this airtcp was built without it."""
    file = files("airtcp").joinpath("page/playground.html")
    return file.read_bytes().decode() if file.is_file() else ""


def offers(folder: Path, experiments: Mapping[str, str]) -> dict[str, list[Rerun]]:
    """The runs of each experiment with its least seed, in their order.

    Args:
        folder: of a study or a sweep.
        experiments: the table of each experiment's runs.

    Raises:
        DamagedError: the folder's tables cannot be read, or do not belong together.
    """
    if not (folder / TASKS).is_file():
        return {}
    tasks = read_table(folder, TASKS.removesuffix(".parquet"))
    try:
        scenarios = {(table, key): text for table, key, text in tasks.select("table", "key", "scenario").iter_rows()}
        return {
            name: list(_of(read_table(folder, table), {key: s for (t, key), s in scenarios.items() if t == table}))
            for name, table in experiments.items()
        }
    except (pl.exceptions.PolarsError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"{folder / TASKS}: damaged result: {error}") from error


def scenarios(folder: Path) -> dict[str, list[Any]]:
    """The scenarios of the runs of a study or a sweep, by the table that has the runs.

    Raises:
        DamagedError: they cannot be read.
    """
    if not (folder / TASKS).is_file():
        return {}
    found: dict[str, list[Any]] = {}
    try:
        for table, text in read_table(folder, TASKS.removesuffix(".parquet")).select("table", "scenario").iter_rows():
            found.setdefault(table, []).append(json.loads(text))
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise DamagedError(f"{folder / TASKS}: damaged result: {error}") from error
    return found


def scenario_of_run(folder: Path) -> Any:  # noqa: ANN401
    """The scenario of the run in a folder of `airtcp run`."""
    return Results.load(folder).manifest["scenario"]


def of_run(folder: Path) -> list[Rerun]:
    """The run in a folder of `airtcp run`.

    Raises:
        DamagedError: its scenario cannot be read.
    """
    manifest = Results.load(folder).manifest
    try:
        checked = _checked(manifest["scenario"])
    except (KeyError, TypeError, AttributeError, ScenarioError) as error:
        raise DamagedError(f"{folder / 'manifest.json'}: damaged result: {error}") from error
    fragment = share_url.SharedScenario(checked.to_toml()).fragment()
    return [Rerun("this run", fragment)] if len(fragment) <= share_url.MOST_LINK else []


def _of(runs: pl.DataFrame, scenarios: Mapping[str, str]) -> Iterator[Rerun]:
    first = runs.filter(pl.col("seed") == pl.col("seed").min()).unique("key", keep="first", maintain_order=True)
    names = runs.columns[: runs.columns.index("seed")]
    varied = [name for name in names if name == "variant" or first[name].n_unique() > 1]
    step = max(1, -(-first.height // MOST))
    for row in first[::step].iter_rows(named=True):
        fragment = share_url.SharedScenario(_checked(json.loads(scenarios[row["key"]])).to_toml()).fragment()
        if len(fragment) <= share_url.MOST_LINK:
            said = [_said(name, row[name]) for name in varied if row[name] is not None]
            yield Rerun(", ".join([*said, f"seed {row['seed']}"]), fragment)


def _checked(scenario: Mapping[str, Any]) -> _airtcp.Checked:
    # A study records what it measures; the page shows more, and the run is the same.
    kept = {key: value for key, value in scenario.items() if key != "record"}
    return _airtcp.Checked.from_json(json.dumps(kept), "scenario", [])


def _said(name: str, value: Any) -> str:  # noqa: ANN401
    if name == "variant":
        return str(value)
    return f"{name} = {number(value) if isinstance(value, float) else value}"
