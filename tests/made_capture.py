"""Captures of one TCP connection, packet by packet, for tests that need a certain one."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MSS = 1448
SYN, FIN, PSH, ACK = 2, 1, 8, 16


@dataclass(frozen=True)
class Packet:
    """A packet of the connection between the sender of the data and its receiver."""

    time_s: float
    is_data: bool
    """Whether the sender of the data sent it."""
    seq: int
    ack: int
    payload: int = 0
    flags: int = ACK
    window: int = 0xFFFF
    stamps: tuple[int, int] | None = None
    """TSval and TSecr."""
    port: int = 40_000
    """Port of the receiver: another one is another connection."""

    def record(self) -> bytes:
        """The packet as a pcap has it, without its payload."""
        options = b"" if self.stamps is None else struct.pack(">BBBBII", 1, 1, 8, 10, *(v % 2**32 for v in self.stamps))
        if self.flags & SYN:
            options += struct.pack(">BBHBBB", 2, 4, MSS + 12, 3, 3, 7) + b"\1"
        ends = [(b"\xc0\0\2\1", 443), (b"\xc6\x33\x64\1", self.port)]
        (source, from_port), (target, to_port) = ends if self.is_data else reversed(ends)
        length = 40 + len(options) + self.payload
        ip = struct.pack(">BBHHHBBH", 0x45, 0, length, 1, 0x4000, 64, 6, 0) + source + target
        tcp = struct.pack(
            ">HHIIBBHHH",
            from_port,
            to_port,
            self.seq % 2**32,
            self.ack % 2**32,
            (5 + len(options) // 4) << 4,
            self.flags,
            self.window,
            0,
            0,
        )
        nanoseconds = round(self.time_s * 1e9)
        packet = ip + tcp + options
        return struct.pack("<IIII", nanoseconds // 10**9, nanoseconds % 10**9, len(packet), length) + packet


def write(path: Path, packets: Iterable[Packet]) -> Path:
    """Writes a capture of raw IP packets in the order given."""
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 101)
    path.write_bytes(head + b"".join(packet.record() for packet in packets))
    return path


def transfer(
    *,
    packets: int = 400,
    rate_bps: float = 1e6,
    near_ms: float = 40.0,
    far_ms: float = 0.02,
    start_s: float = 0.0,
    has_stamps: bool = True,
    port: int = 40_000,
) -> list[Packet]:
    """A download of full packets at a constant rate, as its receiver sees it, handshake first.

    Args:
        packets: of data.
        rate_bps: of payload.
        near_ms: round trip from the capture to the sender.
        far_ms: round trip from the capture to the receiver.
        start_s: when the SYN passes.
        has_stamps: whether both ends use timestamps.
        port: of the receiver.
    """

    def stamps(own_s: float, echo_s: float) -> tuple[int, int] | None:
        return (int(own_s * 1e3), int(echo_s * 1e3)) if has_stamps else None

    near_s, far_s, gap_s = near_ms / 1e3, far_ms / 1e3, MSS * 8 / rate_bps
    out = [
        Packet(start_s, False, 999, 0, flags=SYN, stamps=stamps(start_s, 0), port=port),
        Packet(start_s + near_s, True, 4999, 1000, flags=SYN | ACK, stamps=stamps(start_s, start_s), port=port),
        Packet(start_s + near_s + far_s, False, 1000, 5000, stamps=stamps(start_s + near_s, start_s), port=port),
    ]
    begin_s = start_s + 2 * near_s + far_s
    for number in range(packets):
        at_s = begin_s + number * gap_s
        sent_s = at_s - near_s / 2
        seq = 5000 + number * MSS
        out.append(Packet(at_s, True, seq, 1000, MSS, stamps=stamps(sent_s, at_s - near_s), port=port))
        if number % 2:
            ack_s = at_s + far_s
            out.append(Packet(ack_s, False, 1000, seq + MSS, stamps=stamps(ack_s, sent_s), port=port))
    return sorted(out, key=lambda packet: packet.time_s)
