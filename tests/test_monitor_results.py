"""Folders of `airtcp host monitor` are read as results: tables, summaries, plots, comparisons."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import airtcp
from airtcp.cli import main
from airtcp.errors import ResultsError

SERIES = (
    "time_s,flow,cwnd_segments,ssthresh_segments,window_segments,in_flight_segments,srtt_ms,bytes_acked,"
    "segments_sent,segments_retransmitted"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two seconds of one connection at 8 Mbit/s, another that only listens, and one retransmission."""
    run = tmp_path / "mine"
    run.mkdir()
    rows = [f"{n / 100:.2f},1,10,{'' if n < 50 else 8},10,9,20.5,{n * 10_000},{n * 7},0" for n in range(1, 201)]
    (run / "flow_series.csv").write_text("\n".join([SERIES, *rows, ""]))
    (run / "events.csv").write_text(
        "time_s,flow,event,cwnd_segments,in_flight_segments\n0.1,0,listen,10,0\n0.5,1,retransmission,8,9\n"
    )
    (run / "flows.csv").write_text(
        "flow,source,source_port,destination,destination_port,start_s,end_s,bytes_acked,segments_retransmitted\n"
        "0,::,443,::,0,0.1,2.0,0,0\n1,192.0.2.1,443,192.0.2.9,50000,0.01,2.0,2000000,1\n"
    )
    about = {"format": "airtcp-monitor", "format_version": 1, "source": "tracepoints", "kernel": "6.18"}
    (run / "monitor.json").write_text(json.dumps({**about, "events": 202, "lost": 0, "end_unix_ns": 10**18}))
    return run


def test_the_tables_are_those_of_a_run(folder: Path) -> None:
    results = airtcp.Results.load(folder)
    flow = results.flows.collect().to_dicts()
    assert [row["name"] for row in flow] == ["192.0.2.1:443 to 192.0.2.9:50000"]
    assert flow[0]["goodput_bps"] == pytest.approx(8e6, rel=0.01)
    assert flow[0]["rtt_mean_ms"] is None, "the kernel tells the smoothed one only"
    assert results.summary["groups"][0]["srtt_mean_ms"] == pytest.approx(20.5)
    series = results.flow_series.collect()
    assert series["ssthresh_segments"].null_count() == pytest.approx(50, abs=1)
    assert series["bytes_acked"].is_sorted()
    assert results.retransmissions.collect()["time_s"].to_list() == [0.5]
    assert results.links.collect().height == 0
    assert results.summary["groups"][0]["goodput_bps"] == pytest.approx(8e6, rel=0.01)
    assert "Linux 6.18" in results.manifest["engine"]


def test_compare_and_plot_take_it(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(folder)]) == 0
    assert "8.0" in capsys.readouterr().out
    assert main(["plot", str(folder), "--out", str(tmp_path / "mine.svg")]) == 0
    assert "time (s)" in (tmp_path / "mine.svg").read_text()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("monitor.json", "{}", "damaged"),
        ("monitor.json", '{"format": "airtcp-monitor", "format_version": 9}', "must be"),
        ("flows.csv", "", "damaged"),
        ("flow_series.csv", "time_s\n1\n", "damaged"),
    ],
)
def test_a_damaged_folder_is_named(folder: Path, name: str, text: str, says: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(ResultsError, match=says):
        airtcp.Results.load(folder)
