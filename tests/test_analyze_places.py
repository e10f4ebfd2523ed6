"""`airtcp analyze` with several files: captures of both ends whose clocks differ, and pieces of one capture."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import airtcp
from airtcp.analysis import places
from airtcp.errors import ResultsError
from conftest import ROOT, Command

CAPTURES = ROOT / "tests/data/captures"
SENDER = CAPTURES / "two_losses-sender.pcap"
RECEIVER = CAPTURES / "two_losses-receiver.pcap"
HEAD = 24


def records(data: bytes) -> list[bytes]:
    """The packets of a pcap file of microseconds, little-endian."""
    found, at = [], HEAD
    while at < len(data):
        end = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
        found.append(data[at:end])
        at = end
    return found


def moved(capture: Path, by_us: int, to: Path) -> Path:
    """The capture as a clock that is ahead would have written it."""
    data = capture.read_bytes()
    assert data[:4] == b"\xd4\xc3\xb2\xa1"
    out = data[:HEAD]
    for record in records(data):
        seconds, us, *_ = struct.unpack_from("<IIII", record)
        at = seconds * 1_000_000 + us + by_us
        out += struct.pack("<II", at // 1_000_000, at % 1_000_000) + record[8:]
    to.write_bytes(out)
    return to


def large(found: airtcp.Analysis) -> dict[str, Any]:
    """The row of the flow with data."""
    return found.flows.sort("unique_bytes").collect().to_dicts()[-1]


@pytest.mark.parametrize("ahead_s", [0.0, 3.25, -3.25])
def test_two_ends_are_one_story(ahead_s: float, tmp_path: Path) -> None:
    both = [SENDER, moved(RECEIVER, round(ahead_s * 1e6), tmp_path / "far.pcap")]
    found = airtcp.analyze(both)
    alone = [airtcp.analyze(file) for file in both]
    row, (here, there) = large(found), map(large, alone)
    assert found.flows.collect().height == alone[0].flows.collect().height
    # The large flow is told from its sender's side, what comes back from the receiver's.
    assert row["place"] == 0
    assert row["retransmitted_packets"] == here["retransmitted_packets"]
    assert sorted(found.flows.collect()["place"]) == [0, 1]
    starts = found.flows.collect().sort("place")["start_s"].to_list()
    # The path is symmetric, so the clocks are told to its jitter.
    assert min(starts) >= 0.0
    assert max(starts) < 0.5
    lost = 1 - there["payload_bytes"] / here["payload_bytes"]
    assert any(f"{lost:.2%} of its {here['payload_bytes']} bytes were lost" in note for note in found.notes)
    if ahead_s:
        note = next(note for note in found.notes if "ahead of that of" in note)
        assert abs(float(note.split(" ms ")[0].split()[-1]) - 1e3 * abs(ahead_s)) < 2.0
        assert note.startswith(f"the clock of {both[ahead_s > 0]} is ")


def test_a_lost_syn_does_not_turn_the_clock() -> None:
    def row(flow: int, place: int, start: float, **ends: Any) -> dict[str, Any]:
        return {
            "flow": flow,
            "place": place,
            "start_s": start,
            "payload_bytes": 10,
            "rtt_near_min_ms": float(place),
            "complete": False,
            "lost_before_capture": 0,
            **ends,
        }

    rows = []
    for n, wait in enumerate((1.0, 0.0)):
        there = {"source": "a", "source_port": n, "destination": "b", "destination_port": 80}
        back = {"source": "b", "source_port": 80, "destination": "a", "destination_port": n}
        # The SYN of the first connection comes to the far end only on its second way.
        rows += [row(4 * n, 0, 5.0, **there), row(4 * n + 1, 0, 5.04 + wait, **back)]
        rows += [row(4 * n + 2, 1, 7.02 + wait, **there), row(4 * n + 3, 1, 7.02 + wait, **back)]
    shared = places.compare(pl.DataFrame(rows), ["near", "far"])
    assert shared.late_s[1] - shared.late_s[0] == pytest.approx(2.0)
    assert shared.drop == {2, 3, 6, 7}


def test_clocks_are_compared_over_a_third_place() -> None:
    assert places._ahead({(0, 2): 1.0, (1, 2): 4.0}) == {0: 0.0, 2: 1.0, 1: -3.0}
    assert places._ahead({(1, 2): 4.0}) == {1: 0.0, 2: 4.0}


def test_pieces_are_the_whole_in_any_order(airtcp: Command, tmp_path: Path) -> None:
    data = SENDER.read_bytes()
    packets = records(data)
    cuts = [packets[:30], packets[30:80], packets[80:]]
    names = []
    for n, piece in enumerate([*cuts, []]):
        names.append(tmp_path / f"dump.pcap{n}")
        names[-1].write_bytes(data[:HEAD] + b"".join(piece))
    done = airtcp("analyze", "--rotated", names[2], names[3], names[0], names[1], "--json")
    assert done.returncode == 0, done.stderr
    whole = airtcp("analyze", SENDER, "--json")
    pieces, one = json.loads(done.stdout), json.loads(whole.stdout)
    for table in ("flows", "retransmissions", "timeouts", "totals"):
        assert pieces[table] == one[table]
    assert pieces["capture"]["packets"] == one["capture"]["packets"]


def test_the_page_and_the_folder_name_all_files(airtcp: Command, tmp_path: Path) -> None:
    done = airtcp("analyze", SENDER, RECEIVER, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["files"] == [str(SENDER), str(RECEIVER)]
    for name, about in manifest["tables"].items():
        assert pl.read_parquet(tmp_path / f"out/{name}.parquet").height == about["rows"], name
    assert RECEIVER.name in (tmp_path / "out/report.html").read_text()
    assert not list((tmp_path / "out").glob("*.new"))


def test_damage_in_one_file_is_named_and_spares_the_other(airtcp: Command, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(RECEIVER.read_bytes()[:5000])
    done = airtcp("analyze", cut, SENDER, "--out", tmp_path / "out")
    assert done.returncode == 1
    assert str(cut) in done.stderr
    flows = pl.read_parquet(tmp_path / "out/flows.parquet")
    assert flows["unique_bytes"].max() == large(airtcp_of(SENDER))["unique_bytes"]


def airtcp_of(path: Path) -> airtcp.Analysis:
    """The analysis; the name `airtcp` is the command in tests of the command."""
    return airtcp.analyze(path)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--rotated", "-"), "--rotated needs files"),
        ((SENDER, SENDER), "given twice"),
        ((SENDER, "none.pcap"), "none.pcap"),
        ((SENDER, ROOT), "is a folder"),
        ((SENDER, ROOT / "README.md"), "README.md"),
    ],
)
def test_mistakes(airtcp: Command, words: tuple[Any, ...], says: str) -> None:
    done = airtcp("analyze", *words, "--no-save")
    assert done.returncode == 2
    assert says in done.stderr


def test_an_older_folder_says_to_analyse_again(tmp_path: Path) -> None:
    airtcp.analyze(SENDER, out=tmp_path / "out", report=False)
    path = tmp_path / "out/manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 1}))
    (tmp_path / "out/airtcp.json").unlink()
    with pytest.raises(ResultsError, match=r"format 1 .*run airtcp analyze again"):
        airtcp.Analysis.load(tmp_path / "out")
