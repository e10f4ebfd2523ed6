"""What a small capture can make of `airtcp analyze`: rows are bounded and counted, and a signal ends the printing."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from airtcp.analysis.json_output import JsonOutput
from conftest import AIRTCP, Command
from sample_capture import analysis, flow, frames

PACKETS = np.dtype(
    [
        *[(name, "<u4") for name in ("s", "us", "captured", "length")],
        ("ip", "u1", 12),
        *[(name, ">u4") for name in ("source", "destination")],
        *[(name, ">u2") for name in ("source_port", "destination_port")],
        *[(name, ">u4") for name in ("seq", "ack")],
        *[(name, "u1") for name in ("offset", "flags")],
        *[(name, ">u2") for name in ("window", "checksum", "urgent")],
    ]
)
PAYLOAD = 100


def capture(path: Path, ports: np.ndarray, seqs: np.ndarray) -> None:
    """Raw IP packets with data, 1 ms apart: one connection for each source port."""
    packets = np.zeros(len(ports), PACKETS)
    numbers = np.arange(len(ports))
    packets["s"], packets["us"] = numbers // 1000, numbers % 1000 * 1000
    packets["captured"], packets["length"] = 40, 40 + PAYLOAD
    packets["ip"] = [0x45, 0, 0, 40 + PAYLOAD, 0, 1, 0x40, 0, 64, 6, 0, 0]
    # Each has an identification of its own: with the same one they would be copies.
    packets["ip"][:, 4], packets["ip"][:, 5] = numbers // 256 % 256, numbers % 256
    packets["source"], packets["destination"] = 0x0A000001 + ports // 60_000, 0xC0000201
    packets["source_port"], packets["destination_port"] = 1024 + ports % 60_000, 80
    packets["seq"], packets["offset"], packets["flags"], packets["window"] = seqs, 0x50, 0x10, 0xFFFF
    head = np.array([0xA1B2C3D4, 0x00040002, 0, 0, 65_535, 101], "<u4")
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head.tobytes() + packets.tobytes())


@pytest.fixture(scope="module")
def flood(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 000 connections of one packet, and in their middle one that repeats its packet 3000 times."""
    path = tmp_path_factory.mktemp("flood") / "flood.pcap.gz"
    ports = np.concatenate([np.arange(30_000), np.full(3000, 60_000), np.arange(30_000, 60_000)])
    capture(path, ports, np.full(len(ports), 1000))
    return path


def test_rows_are_bounded_and_counted(airtcp: Command, flood: Path) -> None:
    done = airtcp("analyze", flood, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(done.stdout) < 25e6
    assert document["totals"]["flows"] == 60_001
    repeated = document["totals"]["retransmitted_packets"]
    assert repeated > 2000
    assert len(document["flows"]) == 10_000
    # The one that tells something is not hidden by the others.
    assert max(row["retransmitted_packets"] for row in document["flows"]) == repeated
    assert [row["flow"] for row in document["flows"]] == sorted(row["flow"] for row in document["flows"])
    assert len(document["retransmissions"]) == 1000
    assert document["left_out"]["flows"] == 50_001
    assert document["left_out"]["retransmissions"] == repeated - 1000
    assert "50001 of 60001 rows of `flows` are left out: --rows prints more, and 0 all" in done.stderr
    assert (
        f"{repeated - 1000} of {repeated} rows of `retransmissions` are left out: --rows-per-flow prints" in done.stderr
    )


def test_options_raise_the_bounds(airtcp: Command, flood: Path) -> None:
    done = airtcp("analyze", flood, "--json", "--rows", 0, "--rows-per-flow", 0)
    document = json.loads(done.stdout)
    assert len(document["flows"]) == 60_001
    assert len(document["retransmissions"]) == document["totals"]["retransmitted_packets"]
    assert "left_out" not in document
    assert "left out" not in done.stderr
    document = json.loads(airtcp("analyze", flood, "--json", "--rows", 1500, "--rows-per-flow", 0).stdout)
    assert [len(document[name]) for name in ("flows", "retransmissions")] == [1500, 1500]


def test_lines_are_the_same_rows(airtcp: Command, flood: Path) -> None:
    options = ["--rows", 0, "--rows-per-flow", 500]
    whole = json.loads(airtcp("analyze", flood, "--json", *options).stdout)
    lines = [json.loads(line) for line in airtcp("analyze", flood, "--json-lines", *options).stdout.splitlines()]
    last = lines.pop()
    assert last.pop("table") == "capture"
    assert last == {key: value for key, value in whole.items() if key not in ("flows", "retransmissions", "timeouts")}
    for name in ("flows", "retransmissions", "timeouts"):
        rows = [{key: value for key, value in row.items() if key != "table"} for row in lines if row["table"] == name]
        assert rows == whole[name]


def test_lines_come_while_the_capture_is_read(tmp_path: Path) -> None:
    """The capture is not over, and connections that have been silent for a second are printed."""
    path = tmp_path / "long.pcap.gz"
    capture(path, np.arange(150_000), np.full(150_000, 1000))
    command: list[str | Path] = [AIRTCP, "analyze", "--json-lines", "--idle-timeout", "1", "--rows", "10", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(gzip.decompress(path.read_bytes()))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["table"] == "flows"
        # Within a record, and nothing more comes.
        process.stdin.write(bytes(100))
        process.stdin.flush()
        process.terminate()
        rest = process.stdout.read().splitlines()
        assert process.wait(timeout=30) == 143
    last = json.loads(rest[-1])
    assert (last["table"], last["status"]) == ("capture", "interrupted")


def test_a_signal_ends_the_wait_for_a_capture(tmp_path: Path) -> None:
    command: list[str | Path] = [AIRTCP, "analyze", "-", "--out", tmp_path / "out"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        # The descriptor of standard input is another one once the handler is in place.
        stdin = Path(f"/proc/{process.pid}/fd/0")
        given = stdin.readlink()
        while stdin.readlink() == given:
            time.sleep(0.05)
        time.sleep(0.5)
        process.terminate()
        assert process.wait(timeout=30) == 143
        assert process.stderr is not None
        assert process.stderr.read() == "error: interrupted: nothing was read\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE])
def test_a_signal_ends_the_printing(flood: Path, number: signal.Signals) -> None:
    """Nobody reads: the pipe is full, and what is not in it is not written."""
    command: list[str | Path] = [AIRTCP, "analyze", "--json", "--rows", "0", flood]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(100_000)
        if number == signal.SIGPIPE:
            process.stdout.close()
            code = 1
        else:
            process.send_signal(number)
            code = 128 + number
        # Before it is read further: it does not wait for a reader.
        assert process.wait(timeout=30) == code
        if number != signal.SIGPIPE:
            assert len(process.stdout.read()) < 1 << 20
        assert b"Traceback" not in process.stderr.read()


def test_bounds_hold_across_parts() -> None:
    """Rows of a flow may be in several parts of a table."""
    tables = frames(flow(0, fast=7), flow(1, fast=2))
    rows = tables["retransmissions"]
    printed = JsonOutput(6, 4)
    parts = [
        {**tables, "retransmissions": rows.slice(offset, 3), "flows": tables["flows"].head(0)} for offset in (0, 3, 6)
    ]
    lines = [json.loads(line) for part in parts for text in printed.lines(part) for line in text.splitlines()]
    assert [row["flow"] for row in lines if row["table"] == "retransmissions"] == [0, 0, 0, 0, 1, 1]
    assert printed.is_full("retransmissions")
    seen = analysis(flow(0, fast=7), flow(1, fast=2))
    assert printed.left_out(seen)["retransmissions"] == (3, 3)
