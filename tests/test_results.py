"""Result folders: what other programs read from them, and what airtcp refuses."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import airtcp
from airtcp import NotOursError, Results, ResultsError
from airtcp._marker import seal
from airtcp._text import to_json
from airtcp.results import FORMAT_VERSION, Folder, frame, labels_of
from conftest import ROOT, WIRELESS

TABLES = [
    *("flows", "links", "flow_series", "link_series", "drops", "transfers", "pings", "datagrams", "probes"),
    *("air", "air_series", "ppdus", "retransmissions", "daemons", "daemon_series", "handovers", "walkers"),
]

# Of what the sample does not have: empty there.
ELSEWHERE = {"probes", "daemons", "daemon_series", "handovers", "walkers"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("results")
    path = folder / "small.toml"
    path.write_text(WIRELESS)
    return airtcp.run(
        path,
        out=folder / "out",
        set={"record.capture": ["bottleneck"], "record.capture_air": ["wlan"], "record.retransmissions": True},
    )


def test_every_table_is_there_and_has_rows(saved: Results) -> None:
    assert sorted(saved) == sorted(TABLES)
    for name in TABLES:
        table = saved[name].collect()
        assert (table.height == 0) == (name in ELSEWHERE), name
        assert table.height == saved.manifest["tables"][name]["rows"]
        assert table.columns == list(saved.manifest["tables"][name]["columns"])
        for column in table.columns:
            assert saved.meaning(name, column)
            if table[column].dtype.is_float():
                assert table[column].is_nan().sum() == 0, "a missing value is null, not NaN"


def test_pandas_polars_and_duckdb_read_the_same(saved: Results) -> None:
    assert saved.path is not None
    for name in TABLES:
        path = str(saved.path / f"{name}.parquet")
        by_polars = pl.read_parquet(path)
        by_pandas = pd.read_parquet(path)
        by_duckdb = duckdb.sql(f"SELECT * FROM '{path}'").fetchall()
        assert list(by_pandas.columns) == by_polars.columns
        assert len(by_pandas) == len(by_duckdb) == by_polars.height
        assert by_duckdb == by_polars.rows()
        assert saved.to_pandas(name).equals(by_pandas)
    assert sorted(saved.to_pandas()) == sorted(TABLES)


def test_tables_without_rows_keep_their_columns(tmp_path: Path) -> None:
    quiet = airtcp.Scenario(
        duration="1s",
        nodes=[airtcp.Node(name="a", kind="host"), airtcp.Node(name="b", kind="host")],
        links=[airtcp.Link(from_="a", to="b", rate="1Mbit/s", delay="1ms")],
    )
    results = airtcp.run(quiet, out=tmp_path / "quiet")
    drops = results.drops.collect()
    assert drops.height == 0
    assert drops.schema == {**drops.schema, "time_s": pl.Float64, "flow": pl.UInt32, "reason": pl.String}
    assert len(duckdb.sql(f"SELECT * FROM '{tmp_path}/quiet/drops.parquet'").columns) == drops.width


def test_manifest_and_summary(saved: Results) -> None:
    manifest = saved.manifest
    assert (manifest["format"], manifest["format_version"]) == ("airtcp-result", FORMAT_VERSION)
    assert manifest["airtcp_version"] == airtcp.__version__
    assert manifest["status"] == "complete"
    assert manifest["timing"]["events"] > 0
    assert manifest["timing"]["packets_delivered"] > 0
    assert manifest["host"]["cpus"] > 0
    assert "wall" not in to_json(saved.summary)
    again = airtcp.run(saved_scenario(saved))
    assert again.summary == saved.summary


def saved_scenario(results: Results) -> Path:
    """The scenario of a manifest as a file: it says everything about its run."""
    assert results.path is not None
    from airtcp import _airtcp

    checked = _airtcp.Checked.from_json(json.dumps(results.manifest["scenario"]), "manifest", [])
    path = results.path.parent / "again.toml"
    path.write_text(checked.to_toml())
    return path


def test_summary_agrees_with_tables(saved: Results) -> None:
    links = saved.links.collect()
    for entry in saved.summary["links"]:
        row = links.row(by_predicate=pl.col("name") == entry["name"], named=True)
        for key in ("arrived_packets", "utilisation", "queue_mean_packets"):
            assert row[key] == entry[key]


def test_capture_is_pcapng(saved: Results) -> None:
    assert saved.path is not None
    assert (saved.path / "capture.pcapng").read_bytes().startswith(b"\x0a\x0d\x0d\x0a")


def test_save_and_load(saved: Results, tmp_path: Path) -> None:
    copy = saved.save(tmp_path / "deep/er/copy")
    assert copy.summary == saved.summary
    assert copy.links.collect().equals(saved.links.collect())
    assert "wireless" in repr(copy)
    assert len(copy) == len(TABLES)


def test_a_newer_format_is_refused(saved: Results, tmp_path: Path) -> None:
    assert saved.path is not None
    shutil.copytree(saved.path, tmp_path / "newer")
    manifest = {**saved.manifest, "format_version": FORMAT_VERSION + 1, "airtcp_version": "99.0"}
    (tmp_path / "newer/manifest.json").write_text(json.dumps(manifest))
    seal(tmp_path / "newer", manifest["format"])
    with pytest.raises(ResultsError, match=r"format 2 by airtcp 99\.0.*update airtcp"):
        Results.load(tmp_path / "newer")


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (None, r"has no manifest\.json"),
        ("{", "not valid JSON"),
        ("[]", "not a manifest"),
        ('{"format": "other"}', "not a manifest"),
        ('{"format": "airtcp-result", "format_version": 1}', "damaged"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, manifest: str | None, says: str) -> None:
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(ResultsError, match=says):
        Results.load(tmp_path)


def test_a_missing_table_is_noticed(saved: Results, tmp_path: Path) -> None:
    assert saved.path is not None
    shutil.copytree(saved.path, tmp_path / "less")
    (tmp_path / "less/drops.parquet").unlink()
    with pytest.raises(ResultsError, match=r"drops\.parquet is missing"):
        Results.load(tmp_path / "less")


def test_a_folder_appears_only_when_it_is_complete(saved: Results, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Folder(tmp_path / "out") as folder:
        assert not (tmp_path / "out").exists()
        assert folder.work.is_dir()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_what_is_put_there_meanwhile_is_not_lost(saved: Results, tmp_path: Path) -> None:
    with pytest.raises(NotOursError), Folder(tmp_path / "out") as folder:
        (tmp_path / "out").mkdir()
        (tmp_path / "out/mine.txt").write_text("mine")
        folder.commit(saved)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_link_to_a_folder_is_followed(saved: Results, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk/out")
    saved.save(tmp_path / "out")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "disk/out/manifest.json").is_file()


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False)), max_size=20), st.lists(st.text(), max_size=20))
def test_nan_becomes_null_and_strings_stay(floats: list[float | None], texts: list[str]) -> None:
    length = min(len(floats), len(texts))
    array = np.array([np.nan if x is None else x for x in floats[:length]], dtype=np.float64)
    table = frame({"x": array, "s": texts[:length]})
    assert table["x"].to_list() == floats[:length]
    assert table["s"].to_list() == texts[:length]
    assert table.schema == {"x": pl.Float64, "s": pl.String}


def test_labels_tell_runs_apart(saved: Results) -> None:
    other = airtcp.run(ROOT / "examples/pacing-buffers-reno.toml", duration="21s", set={"nodes.left.count": 500})
    assert labels_of([saved, other]) == ["wireless", "pacing-buffers-reno"]
    assert len(set(labels_of([saved, saved.save(saved.path.parent / "b") if saved.path else saved]))) == 2


@pytest.mark.parametrize("folder", ["python", "tests", "bench", "evidence", "tools"])
def test_joined_rows_keep_their_order(folder: str) -> None:
    """Polars leaves the order of joined rows open, and changes it on several cores: a line would go back in time."""
    loose = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join"):
                continue
            named = {keyword.arg for keyword in node.keywords}
            if named & {"on", "left_on", "how"} and "maintain_order" not in named:
                loose.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not loose, f'say maintain_order="left": {loose}'
