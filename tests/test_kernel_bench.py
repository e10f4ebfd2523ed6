"""evidence/kernel without its clock: verdicts on runs, figures, cells, and the losses that both sides draw.

What needs root and /dev/net/tun, or cargo, says so when it is skipped.
"""

from __future__ import annotations

import importlib
import json
import math
import shutil
import struct
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import airtcp

ROOT = Path(__file__).resolve().parents[1]
# This folder first: bench has a run.py too.
sys.path[:0] = [str(ROOT / "evidence/kernel")]
cells, compare, run, virtual = map(importlib.import_module, ("cells", "compare", "run", "in_virtual_time"))

IN_TIME = {"n": 1000, "mean_us": 20.0, "max_us": 900.0, "over_200us": 4, "over_1ms": 0, "over_5ms": 0}
SAMPLE = {"notsent_bytes": 50_000}


def path(**changes: Any) -> dict[str, Any]:
    places = {"deliveries": IN_TIME, "arrivals": IN_TIME, "reads": IN_TIME}
    return {**places, "write_errors": 0, "largest_packet": 1500, **changes}


CELL = cells.make("cubic", 20, 40, 1, 0)


def test_a_run_in_which_time_was_kept_has_no_problems() -> None:
    assert run.problems(CELL, path(), [[SAMPLE] * 5], 0) == []


@pytest.mark.parametrize("place", ["deliveries", "arrivals", "reads"])
def test_time_is_checked_at_each_place(place: str) -> None:
    often = {**IN_TIME, "over_1ms": 11}
    assert run.problems(CELL, path(**{place: often}), [[SAMPLE]], 0) == [f"1.10% of {place} more than 1 ms late"]
    once = {**IN_TIME, "max_us": 34_000.0}
    assert run.problems(CELL, path(**{place: once}), [[SAMPLE]], 0) == [f"one of {place} 34 ms late"]
    nothing = {**IN_TIME, "n": 0}
    assert run.problems(CELL, path(**{place: nothing}), [[SAMPLE]], 0) == [f"no {place}"]


def test_a_sender_without_data_is_no_result() -> None:
    # The earlier emulator reported 34.8 % of utilisation on a loaded machine and saw no problem.
    dry = [SAMPLE, {"notsent_bytes": 0}, SAMPLE]
    assert run.problems(CELL, path(), [dry], 0) == ["flow 0 had nothing to send in 1 of 3 samples"]
    assert run.problems(CELL, path(), [[]], 0) == ["flow 0 was never sampled"]


def test_packets_lost_elsewhere_are_no_result() -> None:
    assert "3 packets lost outside" in run.problems(CELL, path(), [[SAMPLE]], 3)[0]
    assert run.problems(CELL, path(largest_packet=2948), [[SAMPLE]], 0) == ["a packet of 2948 bytes"]


def test_figures_are_those_of_the_window() -> None:
    """Made up: one packet of 1500 bytes per ms at 12 Mbit/s, 40 ms, from 1 s to 3 s; before that nothing like it."""
    cell = cells.make("cubic", 12, 40, 1, 0, seconds=3, warmup=1)
    begin = 10**12
    columns = ["time_ns", "arrived", "dropped", "lost", "sent", "sent_bytes", "waited_ns", "waiting", "data", "acks"]
    flow_columns = ["time_ns", "rtt_us", "cwnd", "total_retrans", "bytes_acked", "notsent_bytes"]
    series, flow = [], []
    for ms in range(0, 3001, 10):
        n = max(0, ms - 1000)
        series.append([begin + ms * 10**6, 5 + n, 5, 0, n, 1500 * n, n * 7 * 10**6, 7, n, n // 2])
        flow.append([begin + ms * 10**6, 47_000 if n else 90_000, 47, 3 + n // 500, 1448 * n, 10**6])
    gaps = {"n": 1000, "p10_us": 1.0, "p50_us": 2000.0, "p90_us": 3.0}
    recorded = path(
        begin_ns=begin,
        series_columns=columns,
        series=series,
        flow_columns=flow_columns,
        flows=[flow],
        ack_gaps=gaps,
        realtime=False,
    )
    result = run.summarise(cell, recorded, 0)
    assert result["problems"] == []
    assert result["goodput_mbit"] == pytest.approx(12 * 1448 / 1500, rel=1e-4)
    assert result["utilisation"] == pytest.approx(1.0)
    assert (result["rtt_ms"], result["cwnd"], result["queue_packets"]) == (pytest.approx(47, abs=0.3), 47, 7)
    assert (result["retransmitted"], result["acks_per_packet"], result["ack_gap_p50_us"]) == (4, 0.5, 2000.0)
    assert result["queue_loss"] == 0


def test_starts_have_a_seed_and_stay_within_the_spread() -> None:
    cell = cells.make("reno", 20, 40, 1, 0, flows=4, seed=3)
    assert cells.starts_ms(cell) == cells.starts_ms(cell) != cells.starts_ms({**cell, "seed": 4})
    assert all(0 <= ms <= 1000 for ms in cells.starts_ms(cell))
    assert cells.starts_ms(CELL) == [0.0]


def test_the_cells_cover_what_is_promised() -> None:
    all_cells = list(cells.cells())
    names = [cells.name(c) for c in all_cells]
    assert len(set(names)) == len(names)
    for key, values in (
        ("cc", cells.CONTROLS),
        ("rate_mbit", cells.RATES_MBIT),
        ("rtt_ms", cells.RTTS_MS),
        ("buffer_bdp", cells.BUFFERS_BDP),
        ("loss", cells.LOSSES),
        ("send_offload", (True, False)),
        ("flows", (1, 4)),
    ):
        assert {c[key] for c in all_cells} >= set(values), key
    assert all(c["buffer_packets"] >= 1 and c["warmup"] < c["seconds"] <= 20 for c in all_cells)


def test_a_difference_below_the_floor_is_none() -> None:
    again = next(f for f in cells.FIGURES if f.key == "retransmitted")
    assert cells.off_by(again, 5, 8) == 0
    assert cells.off_by(again, 10, 20) == 0.5
    assert cells.off_by(again, 4, 0) == math.inf


def test_cells_are_counted_by_their_worst_figure() -> None:
    good = dict.fromkeys((f.key for f in cells.FIGURES), 0.01)
    middling, bad = {**good, "cwnd": 0.08}, {**good, "cwnd": 0.5}
    differing = [good, good, middling, bad]
    assert [compare.inside(differing, "cwnd", b) for b in compare.BOUNDS] == [2, 3]
    assert [compare.inside(differing, None, b) for b in compare.BOUNDS] == [2, 3]
    assert compare.inside(differing, "rtt_ms", 0.05) == 4
    told = compare.table("made up", differing)
    assert "| cwnd, segments | 2 | 3 | 1.0% | 50.0% |" in told
    assert "| every figure of the cell | 2 | 3 | | |" in told


def test_a_quantile_is_a_value_that_occurred() -> None:
    values = [5.0, 1.0, 3.0, 2.0, 4.0]
    assert [cells.quantile(values, q) for q in (0, 0.2, 0.5, 0.9, 1)] == [1.0, 1.0, 3.0, 5.0, 5.0]


def block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def test_times_of_a_capture_are_read_in_its_resolution() -> None:
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    nanoseconds = struct.pack("<HHI", 1, 0, 65535) + struct.pack("<HHB3xI", 9, 1, 9, 0)
    microseconds = struct.pack("<HHI", 1, 0, 65535)

    def packet(interface: int, ticks: int) -> bytes:
        return block(6, struct.pack("<IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, 0, 0))

    file = section + block(1, nanoseconds) + block(1, microseconds) + packet(0, 5_000_000_000) + packet(1, 250_000)
    assert compare.capture_times(file) == [pytest.approx(5.0), pytest.approx(0.25)]
    with pytest.raises(ValueError, match="the file has"):
        compare.capture_times(file[:-4])


def test_packets_of_a_capture_come_with_their_interface() -> None:
    named = block(1, struct.pack("<HHI", 101, 0, 65535) + struct.pack("<HH8sI", 2, 6, b"server", 0))
    ack = bytearray(40)
    ack[0], ack[9], ack[20:22] = 0x45, 6, virtual.PORT.to_bytes(2, "big")
    data = bytes(ack[:20] + ack[22:24] + ack[20:22] + ack[24:])

    def packet(interface: int, ticks: int, body: bytes) -> bytes:
        return block(6, struct.pack("<IIIII", interface, 0, ticks, len(body), len(body)) + body)

    file = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", 101, 0, 65535))
    file += named + packet(0, 1_000_000, bytes(ack)) + packet(1, 2_000_000, bytes(ack)) + packet(1, 3_000_000, data)
    assert [(name, at, body == ack) for name, at, body in compare.captured(file)] == [
        ("", 1.0, True), ("server", 2.0, True), ("server", 3.0, False),
    ]  # fmt: skip
    capture = Path("capture.pcapng")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda _: file)
        assert virtual.ack_times(capture) == [2.0], "sent by the server, and seen there"


def test_cells_in_virtual_time_are_those_of_one_flow_and_each_is_a_scenario() -> None:
    possible = list(virtual.possible())
    names = [cells.name(cell) for cell in possible]
    assert len(set(names)) == len(names) == 69
    assert not any("x " in name or "GRO" in name for name in names)
    for cell in possible:
        text = json.dumps(virtual.scenario(cell))
        checked = tomllib.loads(virtual._airtcp.Checked.from_json(text, "virtual", []).to_toml())
        assert checked["links"][0]["queue"]["limit_packets"] == cell["buffer_packets"]
        assert checked["links"][0]["loss"] == cell["loss"]


def test_figures_of_a_sender_are_of_the_time_that_counts() -> None:
    rows = [[2.9, 90.0, 99, 7, 0], [3.0, 10.0, 4, 8, 1_000_000], [9.0, 20.0, 6, 9, 2_000_000], [15.2, 90.0, 99, 99, 0]]
    figures = virtual.of_the_sender(rows)
    wanted = {"goodput_mbit": 8 / 6, "rtt_ms": 15.0, "rtt_p95_ms": 20.0, "cwnd": 5.0, "retransmitted": 1}
    assert figures == pytest.approx(wanted)


def test_the_kernel_is_run_once_and_airtcp_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = dict.fromkeys((f.key for f in cells.FIGURES), 100.0)
    runs: list[str] = []
    own = [figures, figures | {"cwnd": 120.0}]

    def ran(name: str, figures: list[Any]) -> Any:
        runs.append(name)
        return figures[runs.count(name) - 1]

    monkeypatch.setattr(virtual, "simulated", lambda *_: ran("airtcp", own))
    monkeypatch.setattr(virtual, "real", lambda *_: ran("kernel", [figures]))
    out = tmp_path / "virtual.json"
    monkeypatch.setattr(sys, "argv", ["", "cells", "--match", "reno 5 Mbit/s 100 ms 2 BDP", "--out", str(out)])
    virtual.main()
    virtual.main()
    data = json.loads(out.read_text())
    assert sorted(runs) == ["airtcp", "airtcp", "kernel"]
    assert [(row["off_by"]["cwnd"], row["off_by"]["rtt_ms"]) for row in data["rows"]] == [(0.2, 0.0)]
    text = virtual.tables(data)
    assert "Linux 6.12, one run of each. 1 of the 69 cells of one flow were run: these." in text
    assert "| reno 5 Mbit/s 100 ms 2 BDP loss 0 % | 7 of 8 | cwnd, segments: 120.0, 100.0 |" in text


def pathemu(tmp_path: Path) -> Path:
    if shutil.which("cargo") is None:
        pytest.skip("needs cargo, to build evidence/kernel/pathemu")
    built: Path = run.build_pathemu(tmp_path / "target")
    return built


def test_a_seed_loses_the_same_packets_on_both_sides(tmp_path: Path) -> None:
    loss, seed, n = 0.03, 11, 2000
    command = [str(pathemu(tmp_path)), "--tell-losses", str(n), "--loss", str(loss), "--seed", str(seed)]
    emulated = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    # Datagrams without a queue: one a millisecond, so the millisecond in which one is lost is its number.
    text = compare.scenario(cells.make("cubic", 100, 10, 1, loss, seconds=2, warmup=0))
    flow = text.index("[[flows]]")
    text = (
        text[:flow]
        + '[[flows]]\nname = "f"\nfrom = "sender"\nto = "r2"\n'
        + 'traffic = { kind = "cbr", rate = "1.6Mbit/s", packet_bytes = 200 }\n[record]\ndrops = ["r1->r2"]\n'
    )
    file = tmp_path / "line.toml"
    file.write_text(text)
    drops = airtcp.run(file, seed=seed).drops.collect().to_dicts()
    lost = [round((d["time_s"] - drops[0]["time_s"]) * 1000) for d in drops]
    assert len(lost) > 30
    assert lost == [i - emulated[0] for i in emulated[: len(lost)]]


def test_the_kernel_sends_through_the_emulator(tmp_path: Path) -> None:
    if reason := run.why_not():
        pytest.skip(reason)
    cell = cells.make("cubic", 20, 10, 1, 0.01, seconds=1.5, warmup=0.5)
    recorded, hidden = run.run_cell(pathemu(tmp_path), cell)
    result = run.summarise(cell, recorded, hidden)
    # Whether time was kept is the machine's affair; that all is there is ours.
    assert hidden == 0
    assert recorded["largest_packet"] == 1500
    assert result["goodput_mbit"] > 0
    assert result["acks_per_packet"] > 0.3
    assert recorded["read_bytes"] > 100_000
    assert {len(recorded["series"][0]), len(recorded["series_columns"])} == {10}


def profile_linux_6() -> dict[str, Any]:
    return tomllib.loads((ROOT / "crates/core/src/tcp/profiles/linux-6.toml").read_text())


def test_the_profile_has_what_was_found_on_the_kernel_that_was_measured() -> None:
    reference = json.loads((ROOT / "evidence/figures/kernel/paths.json").read_text())
    assert reference["peer"].startswith("Linux 6.18")
    found, profile = reference["found"], profile_linux_6()
    mib = {"MiB": 1 << 20, "KiB": 1 << 10}
    number, unit = profile["tsq_limit"][:-3], profile["tsq_limit"][-3:]
    assert int(number) * mib[unit] == int(found["tcp_limit_output_bytes"])
    assert profile["pacing_slow_start_percent"] == int(found["tcp_pacing_ss_ratio"])
    assert profile["pacing_percent"] == int(found["tcp_pacing_ca_ratio"])
    assert profile["compressed_sacks"] == int(found["tcp_comp_sack_nr"])
    assert profile["compressed_sack_delay"] == f"{int(found['tcp_comp_sack_delay_ns']) // 1_000_000}ms"
    assert profile["rto_min"] == f"{int(found['tcp_rto_min_us']) // 1000}ms"
    assert profile["rto_max"] == f"{int(found['tcp_rto_max_ms']) // 1000}s"
    assert profile["retries"] == int(found["tcp_retries2"])
    assert profile["tail_loss_probe"] == (found["tcp_early_retrans"] == "3")
    assert profile["timestamps"] == profile["dsack"] == (found["tcp_sack"] == found["tcp_timestamps"] == "1")
    assert profile["restart_after_idle"] == (found["tcp_slow_start_after_idle"] == "1")
    assert (profile["ecn"], found["tcp_ecn"]) == (False, "2"), "answers, does not ask"
