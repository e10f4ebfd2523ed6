"""`airtcp analyze` and `airtcp.analyze`: what users see, write and get for input that is no capture."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import struct
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import airtcp
from airtcp import cli
from airtcp._text import amount, to_json
from airtcp.analysis import reading
from airtcp.analysis.json_output import JsonOutput
from airtcp.analysis.reading import Keep, Spool, columns
from airtcp.analysis.results import TABLES, sentence
from airtcp.analysis.show import overview
from airtcp.cli.commands.analyze import default_folder
from airtcp.errors import NotOursError, ResultsError
from conftest import AIRTCP, ROOT, SMALL, Command
from sample_capture import analysis, flow, frames

CAPTURES = ROOT / "tests/data/captures"
TIMEOUT = CAPTURES / "timeout_2_duplicates-sender.pcap"
PCAP_HEAD, RECORD_HEAD = 24, 16


def record_at(data: bytes, number: int) -> int:
    """Where the record of a packet begins, counted from 1."""
    at = PCAP_HEAD
    for _ in range(number - 1):
        at += RECORD_HEAD + struct.unpack_from("<I", data, at + 8)[0]
    return at


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture by airtcp itself: a flow that overruns a queue, a short one, and other traffic."""
    folder = tmp_path_factory.mktemp("simulated")
    scenario = folder / "small.toml"
    scenario.write_text(SMALL.replace('interval = "50ms"', 'interval = "50ms"\ncapture = ["bottleneck"]'))
    airtcp.run(scenario, out=folder / "run")
    return folder / "run/capture.pcapng"


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_terminal_says_what_it_means(airtcp: Command) -> None:
    done = airtcp("analyze", TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert (
        "1 timeout, 1 with 1 or 2 duplicate ACKs received: EFR would have avoided none, Early Retransmit 1"
        in " ".join(done.stdout.split())
    )
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "results in runs/timeout_2_duplicates-sender-analysis" in done.stderr


def test_the_folder_holds_tables_manifest_and_page(airtcp: Command, tmp_path: Path) -> None:
    assert airtcp("analyze", TIMEOUT, "--out", tmp_path / "out", "-q").returncode == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "airtcp.json",
        "manifest.json",
        "report.html",
        *(f"{name}.parquet" for name in TABLES),
    }
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["format"] == "airtcp-analysis"
    assert manifest["status"] == "complete"
    assert manifest["file"] == str(TIMEOUT)
    for name, about in manifest["tables"].items():
        table = pl.read_parquet(tmp_path / f"out/{name}.parquet")
        assert table.height == about["rows"]
        assert table.columns == list(about["columns"]) == list(columns()[name])


def test_json_is_one_document_and_nothing_else(airtcp: Command, tmp_path: Path) -> None:
    done = airtcp("analyze", TIMEOUT, "--json")
    assert done.returncode == 0
    document = json.loads(done.stdout, parse_constant=pytest.fail)
    assert document["status"] == "complete"
    assert len(document["timeouts"]) == document["totals"]["timeouts"] == 1
    assert list(document["flows"][0]) == list(columns()["flows"])
    assert document["timeouts"][0]["dup_acks"] == 2
    assert not (tmp_path / "cwd/runs").exists()


def test_json_and_a_folder_when_it_is_named(airtcp: Command, tmp_path: Path) -> None:
    done = airtcp("analyze", TIMEOUT, "--json", "--no-html", "--out", tmp_path / "out")
    assert json.loads(done.stdout)["totals"]["timeouts"] == 1
    assert not (tmp_path / "out/report.html").exists()
    assert (tmp_path / "out/flows.parquet").exists()


def test_a_dash_is_standard_input(tmp_path: Path) -> None:
    words = [str(AIRTCP), "analyze", "-", "--out", str(tmp_path / "out"), "-q"]
    with TIMEOUT.open("rb") as capture:
        done = subprocess.run(words, stdin=capture, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out/manifest.json").read_text())["capture"]["packets"] > 10


def test_help_is_complete(airtcp: Command) -> None:
    text = airtcp("analyze", "--help").stdout
    options = (
        "--out",
        "--no-save",
        "--json",
        "--html, --no-html",
        "--details",
        "--flow",
        "--host",
        "--port",
        "--points",
    )
    for word in (*options, "--idle-timeout", "--max-connections", "--quiet", "exit codes", "docs/analyze.md"):
        assert word in text
    assert "analyze" in airtcp("--help").stdout


def test_the_shell_completes_options(airtcp: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "completions"
    line = "airtcp analyze --de"
    for name, value in {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(out),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }.items():
        monkeypatch.setenv(name, value)
    airtcp()
    assert out.read_text().strip() == "--details"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["missing.pcap"], "missing.pcap: No such file or directory"),
        (["."], ".: is a folder: give a pcap"),
        (["empty"], "empty"),
        (["text"], "text"),
        ([TIMEOUT, "--host", "example.org"], "--host: 'example.org' does not appear to be an IPv4 or IPv6 address"),
        ([TIMEOUT, "--port", "70000"], "'70000' is not a port from 0 to 65535"),
        ([TIMEOUT, "--points", "0"], "'0' is not a whole number from 2"),
        ([TIMEOUT, "--idle-timeout", "nan"], "'nan' is not a number of seconds"),
        ([TIMEOUT, "--out", "x", "--no-save"], "use either --out or --no-save, not both"),
        ([TIMEOUT, "--json", "--html"], "--html needs a folder"),
    ],
    ids=lambda value: str(value[-1]) if isinstance(value, list) else "",
)
def test_bad_input_is_named_and_leaves_nothing(airtcp: Command, tmp_path: Path, words: list[object], says: str) -> None:
    cwd = tmp_path / "cwd"
    (cwd / "empty").touch()
    (cwd / "text").write_text("not a capture, whatever its length may be\n" * 20)
    before = set(cwd.iterdir())
    done = airtcp("analyze", *words)
    assert done.returncode == 2, done.stderr
    assert "error: " in done.stderr
    assert says in done.stderr
    assert not done.stdout
    assert "Traceback" not in done.stderr
    assert set(cwd.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(airtcp: Command, tmp_path: Path) -> None:
    path = tmp_path / "secret.pcap"
    path.write_bytes(TIMEOUT.read_bytes())
    path.chmod(0)
    done = airtcp("analyze", path)
    assert done.returncode == 2
    assert "Permission denied" in done.stderr


def damage_record(data: bytes) -> tuple[bytes, int]:
    """A record longer than any packet."""
    at = record_at(data, 6)
    return data[:at] + struct.pack("<IIII", 0, 0, 1 << 30, 1 << 30) + data[at + 16 :], 6


def cut_packet(data: bytes) -> tuple[bytes, int]:
    """The file ends within a packet."""
    return data[: record_at(data, 6) + RECORD_HEAD + 10], 6


def cut_head(data: bytes) -> tuple[bytes, int]:
    """The file ends within the head of a record."""
    return data[: record_at(data, 4) + 5], 4


@pytest.mark.parametrize("harm", [damage_record, cut_packet, cut_head], ids=lambda harm: harm.__name__)
def test_a_damaged_file_keeps_what_was_read(airtcp: Command, tmp_path: Path, harm: Any) -> None:
    data, number = harm(TIMEOUT.read_bytes())
    path = tmp_path / "damaged.pcap"
    path.write_bytes(data)
    done = airtcp("analyze", path, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert f"error: {path}" in done.stderr
    assert f"packet {number}" in done.stderr
    assert f"kept in {tmp_path / 'out'}" in done.stderr
    assert "Traceback" not in done.stderr
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["status"] == "damaged"
    assert f"packet {number}" in manifest["damage"]
    assert manifest["capture"]["packets"] == number - 1
    assert f"packet {number}" in (tmp_path / "out/report.html").read_text()
    # The same as of a file that ends there.
    whole = tmp_path / "whole.pcap"
    whole.write_bytes(data[: record_at(data, number)])
    expected = airtcp_analyze(whole)
    for name in TABLES:
        assert_frame_equal(pl.read_parquet(tmp_path / f"out/{name}.parquet"), expected[name].collect())
    document = json.loads(airtcp("analyze", path, "--json").stdout)
    assert document["status"] == "damaged"
    assert document["damage"] == manifest["damage"]


airtcp_analyze = airtcp.analyze


def test_damage_within_gzip(airtcp: Command, tmp_path: Path) -> None:
    packed = gzip.compress(TIMEOUT.read_bytes(), mtime=0)
    whole, cut = tmp_path / "whole.pcap.gz", tmp_path / "cut.pcap.gz"
    whole.write_bytes(packed)
    cut.write_bytes(packed[: len(packed) * 2 // 3])
    assert json.loads(airtcp("analyze", whole, "--json").stdout)["totals"]["timeouts"] == 1
    done = airtcp("analyze", cut, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "damaged"
    assert f"error: {cut}" in done.stderr


def test_an_interruption_keeps_what_was_read(
    simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reading, "STEP_PACKETS", 50)
    go_on = reading.Reading.advance

    def advance(self: reading.Reading) -> None:
        go_on(self)
        if self.packets == 1000:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(reading.Reading, "advance", advance)
    code = cli.main(["analyze", str(simulated), "--out", str(tmp_path / "out"), "-q"])
    assert code == 130
    assert "interrupted after 1000 packets; the results are kept in" in capsys.readouterr().err
    kept = airtcp.Analysis.load(tmp_path / "out")
    assert kept.interrupted
    assert kept.capture["packets"] == 1000
    assert kept.flows.select(pl.col("packets").sum()).collect().item() > 0
    assert "Interrupted." in (tmp_path / "out/report.html").read_text()


def test_a_second_interruption_leaves_nothing(simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(self: reading.Reading) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(reading.Reading, "advance", advance)
    assert cli.main(["analyze", str(simulated), "--out", str(tmp_path / "out"), "-q"]) == 130
    assert not list(tmp_path.iterdir())


def test_an_older_result_is_replaced_and_nothing_else(airtcp: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert airtcp("analyze", TIMEOUT, "--out", out, "-q").returncode == 0
    (out / "report.html").write_text("old")
    assert airtcp("analyze", TIMEOUT, "--out", out, "-q").returncode == 0
    assert "old" not in (out / "report.html").read_text()[:10]
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").touch()
    done = airtcp("analyze", TIMEOUT, "--out", other)
    assert done.returncode == 2
    assert "not touched" in done.stderr
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_capture_with_nothing_to_tell_of_says_why(airtcp: Command, tmp_path: Path) -> None:
    data = TIMEOUT.read_bytes()
    other = tmp_path / "other.pcap"
    # Its link type: a wireless regional network, which airtcp does not read.
    other.write_bytes(data[: PCAP_HEAD - 4] + (251).to_bytes(4, "little") + data[PCAP_HEAD:])
    for words, why in (
        ([other], "none of its 66 packets is TCP"),
        ([TIMEOUT, "--port", "7"], "no flow in it fits --flow, --host and --port: its 66 TCP packets belong to others"),
    ):
        done = airtcp("analyze", *words, "--no-save")
        assert done.returncode == 1, done.stderr
        assert f"error: {words[0]}: {why}" in done.stderr


def test_a_capture_without_tcp(airtcp: Command, tmp_path: Path) -> None:
    path = tmp_path / "none.pcap"
    path.write_bytes(TIMEOUT.read_bytes()[:PCAP_HEAD])
    done = airtcp("analyze", path, "--out", tmp_path / "out")
    assert done.returncode == 1, done.stderr
    assert f"error: {path}: no packet in it" in done.stderr
    assert "The capture has no TCP." in done.stdout
    assert "The capture has no TCP flow." in (tmp_path / "out/report.html").read_text()
    assert pl.read_parquet(tmp_path / "out/flows.parquet").columns == list(columns()["flows"])


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("a/b/web.pcapng.gz", "runs/web-analysis"),
        ("web.pcap", "runs/web-analysis"),
        ("../..", "runs/capture-analysis"),
        ("über all;.cap", "runs/über-all-analysis"),
        ("/tmp/x", "runs/x-analysis"),
    ],
)
def test_the_folder_is_below_runs(file: str, folder: str) -> None:
    assert default_folder(file) == folder


# --- Python ---------------------------------------------------------------------------------------------------------


def test_what_airtcp_sent_is_what_the_capture_shows(simulated: Path) -> None:
    """The simulator knows what its senders did: another path to the same numbers."""
    results = airtcp.Results.load(simulated.parent)
    seen = airtcp.analyze(simulated)
    data = seen.flows.filter(pl.col("payload_bytes") > 0).sort("start_s").collect()
    truth = results.flows.filter(pl.col("kind") == "tcp").sort("start_s").collect()
    assert data.height == truth.height == 2
    assert data["unique_bytes"][1] == 64 * 1024
    assert data["timeouts"].to_list() == truth["timeouts"].to_list()


def test_frames_are_lazy_and_named(simulated: Path) -> None:
    seen = airtcp.analyze(simulated)
    assert list(seen) == list(TABLES)
    assert len(seen) == len(TABLES)
    for name in TABLES:
        assert getattr(seen, name).collect_schema().names() == list(columns()[name])
    assert "goodput" not in repr(seen)
    assert seen.damage is None
    assert seen.meaning("flows", "goodput_bps").startswith("bit/s")


def test_saved_and_in_memory_are_the_same(simulated: Path, tmp_path: Path) -> None:
    here = airtcp.analyze(simulated)
    calls: list[tuple[int, int]] = []
    there = airtcp.analyze(simulated, out=tmp_path / "out", progress=lambda *at: calls.append(at))
    assert there.path == tmp_path / "out"
    for name in TABLES:
        assert_frame_equal(here[name].collect(), there[name].collect())
    assert calls[-1] == (simulated.stat().st_size, simulated.stat().st_size)
    assert (tmp_path / "out/report.html").exists()


def test_steps_and_parts_do_not_change_the_tables(
    simulated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = airtcp.analyze(simulated)
    monkeypatch.setattr(reading, "STEP_PACKETS", 97)
    monkeypatch.setattr(reading, "BUFFER_BYTES", 10_000)
    parts = airtcp.analyze(simulated, out=tmp_path / "out", idle_timeout_s=0.2, report=False)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "airtcp.json",
        "manifest.json",
        *(f"{name}.parquet" for name in TABLES),
    }
    monkeypatch.undo()
    again = airtcp.analyze(simulated, idle_timeout_s=0.2)
    for name in TABLES:
        assert_frame_equal(again[name].collect(), parts[name].collect())
        assert parts.manifest["tables"][name]["rows"] == again[name].collect().height
    assert whole.flows.collect().height <= again.flows.collect().height


def test_only_what_was_asked_for(simulated: Path) -> None:
    every = airtcp.analyze(simulated)
    flows = every.flows.collect()
    first = flows.row(0, named=True)
    port = airtcp.analyze(simulated, ports=[first["source_port"]])
    wanted = (pl.col("source_port") == first["source_port"]) | (pl.col("destination_port") == first["source_port"])
    assert_frame_equal(port.flows.collect(), flows.filter(wanted))
    numbers = set(port.flows.collect()["flow"])
    for name in TABLES:
        whole = every[name].collect()
        # Stations and airtime are of radios, whichever flows are asked for.
        kept = whole.filter(pl.col("flow").is_in(list(numbers))) if "flow" in whole.columns else whole
        assert_frame_equal(port[name].collect(), kept)
    assert airtcp.analyze(simulated, flows=[first["flow"]]).flows.collect().height == 1
    assert airtcp.analyze(simulated, hosts=["203.0.113.99"]).flows.collect().is_empty()
    both = airtcp.analyze(simulated, hosts=[first["source"]], ports=[1])
    assert both.flows.collect().is_empty()
    with pytest.raises(ValueError, match=r"example\.org"):
        airtcp.analyze(simulated, hosts=["example.org"])


def test_addresses_are_compared_as_addresses() -> None:
    assert Keep(hosts=["2001:DB8:0::1"]).hosts == ("2001:db8::1",)


def test_errors_have_types(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        airtcp.analyze(tmp_path / "missing")
    (tmp_path / "text").write_text("no capture at all, but long enough to be looked at")
    with pytest.raises(airtcp.CaptureError):
        airtcp.analyze(tmp_path / "text")
    with pytest.raises(ResultsError):
        airtcp.Analysis.load(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(NotOursError):
        airtcp.analyze(TIMEOUT, out=tmp_path / "other")


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    airtcp.analyze(TIMEOUT, out=tmp_path / "out", report=False)
    (tmp_path / "out/timeouts.parquet").unlink()
    with pytest.raises(ResultsError, match=r"timeouts\.parquet is missing"):
        airtcp.Analysis.load(tmp_path / "out")


def test_a_result_can_be_moved(tmp_path: Path) -> None:
    airtcp.analyze(TIMEOUT, out=tmp_path / "out", report=False)
    shutil.move(tmp_path / "out", tmp_path / "elsewhere")
    assert airtcp.Analysis.load(tmp_path / "elsewhere").totals["timeouts"] == 1


# --- words and sums -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "avoided", "says"),
    [
        ((0, 0, 0, 0), (0, 0, 0), "no timeouts"),
        (
            (3, 5, 4, 0),
            (8, 5, 9),
            "12 timeouts, 9 with 1 or 2 duplicate ACKs received: EFR would have avoided 8, Early Retransmit 5, RACK 9",
        ),
        (
            (1, 0, 0, 0),
            (0, 0, 0),
            "1 timeout, none with duplicate ACKs received: "
            "neither EFR, Early Retransmit nor RACK would have avoided any",
        ),
        (
            (0, 1, 0, 2),
            (1, 0, 3),
            "3 timeouts, 1 with 1 or 2 and 2 with 3 or more duplicate ACKs received: EFR would have avoided 1, "
            "Early Retransmit none, RACK 3",
        ),
        (
            (1000, 0, 234, 0),
            (0, 0, 1),
            "1 234 timeouts, 234 with 1 or 2 duplicate ACKs received: EFR would have avoided none, "
            "Early Retransmit none, RACK 1",
        ),
    ],
)
def test_sentences(held: tuple[int, ...], avoided: tuple[int, ...], says: str) -> None:
    names = ("avoided_efr", "avoided_early_retransmit", "avoided_rack")
    row = {"timeouts": sum(held)} | dict(zip(names, avoided, strict=True))
    row |= {f"timeouts_dup_{n}": count for n, count in zip(("0", "1", "2", "3_or_more"), held, strict=True)}
    assert sentence(row) == says


HELD = st.lists(st.lists(st.integers(0, 6), max_size=5), max_size=4)


@settings(max_examples=30, deadline=None)
@given(HELD)
def test_totals_are_the_sums_of_the_flows(held: list[list[int]]) -> None:
    seen = analysis(*(flow(i, 20, timeouts) for i, timeouts in enumerate(held)))
    every = [n for timeouts in held for n in timeouts]
    rows = seen.totals["timeouts_by_duplicate_acks"]
    assert [row["timeouts"] for row in rows] == [sum(min(n, 3) == k for n in every) for k in range(4)]
    assert sum(row["avoided_efr"] for row in rows) == seen.totals["avoided_efr"] == sum(n >= 1 for n in every)
    assert seen.totals["timeouts"] == len(every)
    first = seen.interesting(1)
    assert first == [] if not held else first[0]["timeouts"] == max(map(len, held))
    assert overview(seen)
    document = json.loads("".join(JsonOutput(None, None).as_json(seen)))
    assert len(document["flows"]) == len(held)
    assert len(document["timeouts"]) == len(every)
    assert to_json(document["totals"]) == to_json(seen.totals)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(1, 20_000))
def test_a_spool_keeps_every_row_in_order(sizes: list[int], limit: int) -> None:
    import tempfile

    batches = [frames(flow(i, size)) for i, size in enumerate(sizes)]
    expected = {name: pl.concat([batch[name] for batch in batches]) for name in TABLES}
    before = reading.BUFFER_BYTES
    try:
        reading.BUFFER_BYTES = limit  # type: ignore[misc]
        with tempfile.TemporaryDirectory() as work:
            for folder in (None, Path(work)):
                spool = Spool(folder)
                for batch in batches:
                    spool.add(batch)
                for name, table in spool.finish().items():
                    assert_frame_equal(table.collect(), expected[name])
                assert spool.rows == {name: table.height for name, table in expected.items()}
    finally:
        reading.BUFFER_BYTES = before  # type: ignore[misc]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_949, "1e+03 kB"), (1_234_567, "1.23 MB"), (5e12, "5000 GB")],
)
def test_amounts(number: float, text: str) -> None:
    assert amount(number) == text.replace("1e+03 kB", "1 MB")
