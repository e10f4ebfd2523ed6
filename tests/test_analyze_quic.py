"""Captures of QUIC: the sentence, the table and the exit code."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from airtcp.analysis.quic import sentence
from conftest import Command


def datagram(from_client: bool, head: bytes, size: int) -> bytes:
    client, server = (bytes([10, 0, 0, 1]), 50_000), (bytes([10, 0, 0, 2]), 443)
    source, destination = (client, server) if from_client else (server, client)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 28 + size, 0, 0, 64, 17, 0) + source[0] + destination[0]
    return ip + struct.pack(">HHHH", source[1], destination[1], 8 + size, 0) + (head + bytes(size))[:size]


@pytest.fixture
def download(tmp_path: Path) -> Path:
    """A handshake of 30 ms, then two seconds of 1200 bytes each millisecond, with a spin bit of 30 and then 120 ms."""
    packets = [
        (0.0, datagram(True, b"\xc3\0\0\0\1", 1200)),
        (0.025, datagram(False, b"\xc3\0\0\0\1", 1200)),
        (0.03, datagram(True, b"\xe3\0\0\0\1", 1200)),
    ]
    for ms in range(60, 2060):
        spin = ms // 30 % 2 if ms < 600 else (ms - 600) // 120 % 2
        packets.append((ms / 1e3, datagram(False, bytes([0x40 | spin << 5]), 1200)))
    path = tmp_path / "quic.pcap"
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for at, packet in packets:
            file.write(struct.pack("<IIII", int(at), round(at % 1 * 1e6), len(packet), len(packet)) + packet)
    return path


def test_quic_is_told_in_terminal_page_and_json(airtcp: Command, download: Path, tmp_path: Path) -> None:
    done = airtcp("analyze", download, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    says = " ".join(done.stdout.split())
    assert says.startswith("QUIC, 2.4 MB from 10.0.0.2:443 to 10.0.0.1:50000 at 9.44 Mbit/s.")
    assert "30 ms at least" in says
    assert "a queue stood on the path" in says
    assert 'id="quic"' in (tmp_path / "out/report.html").read_text()
    silent = airtcp("analyze", download, "--no-save", "-q")
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
    row = json.loads(airtcp("analyze", download, "--json").stdout)["totals"]["quic"][0]
    assert (row["version"], row["server_packets"], row["handshake_far_ms"]) == ("0x1", 2001, pytest.approx(25.0))
    assert row["spin_max_ms"] == pytest.approx(120.0)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"initial_packets": 2}, "The client's first packet was repeated, so its round trip is not known."),
        ({"handshake_far_ms": 20.0}, "Its handshake took a round trip of 20 ms; the spin bit is off"),
        ({"stalls": 2, "stalled_s": 3.5}, "The sender paused 2 times, 3.5 s in all"),
        (
            {"spin_samples": 9, "spin_min_ms": 20.0, "spin_mean_ms": 24.0},
            "20 ms at least and 24 ms in the mean, by the spin bit.",
        ),
        ({"server": "2001:db8::1"}, "from [2001:db8::1]:443"),
    ],
)
def test_the_sentence_says_no_more_than_shows(changes: dict[str, object], says: str) -> None:
    row = {
        **{"client": "10.0.0.1", "client_port": 50000, "server": "10.0.0.2", "server_port": 443},
        **{"client_bytes": 1000, "server_bytes": 50_000, "rate_bps": 1e6, "initial_packets": 1},
        **{"handshake_far_ms": None, "handshake_near_ms": None, "spin_samples": 0, "stalls": 0, "stalled_s": 0.0},
    }
    text = sentence({**row, **changes})
    assert says in text
    # A small connection has no rate that says something, and the cause of a low one never shows.
    assert "Mbit/s" not in text
    assert text.endswith("so the cause of a low rate does not show.")
