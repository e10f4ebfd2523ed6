"""Captures made packet by packet, for tests that need to know what happened on the wire."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
MSS = 1448
CLIENT, SERVER = "192.0.2.1", "198.51.100.7"
WINDOW = 65_535


def tcp_options(*, mss: int | None = None, scale: int | None = None) -> bytes:
    """Options of a SYN, in full words."""
    options = b"" if mss is None else struct.pack(">BBH", 2, 4, mss)
    return options + (b"" if scale is None else struct.pack(">BBBB", 1, 3, 3, scale))


@dataclass
class Pcap:
    """Raw IP packets with nanoseconds."""

    packets: list[tuple[float, bytes]] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)

    def ip(
        self, at: float, source: str, destination: str, protocol: int, body: bytes, ip_id: int | None = None
    ) -> None:
        ends = ip_address(source).packed, ip_address(destination).packed
        if len(ends[0]) == 16:
            head = struct.pack(">IHBB", 6 << 28, len(body), protocol, 64)
        else:
            self.ids[source] = self.ids.get(source, 0) + 1
            number = self.ids[source] if ip_id is None else ip_id
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), number, 0x4000, 64, protocol, 0)
        self.packets.append((at, head + ends[0] + ends[1] + body))

    def udp(self, at: float, source: tuple[str, int], destination: tuple[str, int], body: bytes) -> None:
        head = struct.pack(">HHHH", source[1], destination[1], 8 + len(body), 0)
        self.ip(at, source[0], destination[0], 17, head + body)

    def question(self, at: float, number: int, server: str = "203.0.113.53") -> None:
        self.udp(at, (CLIENT, 5353 + number), (server, 53), struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0))

    def answer(self, at: float, number: int, code: int = 0, server: str = "203.0.113.53") -> None:
        self.udp(at, (server, 53), (CLIENT, 5353 + number), struct.pack(">HHHHHH", number, 0x8180 | code, 1, 1, 0, 0))

    def twice(self, after: float) -> None:
        """Every packet a second time, so much later, as a mirror port shows them."""
        self.packets += [(at + after, packet) for at, packet in self.packets]

    def write(self, path: Path) -> Path:
        with path.open("wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 101))
            for at, packet in sorted(self.packets, key=lambda one: one[0]):
                ns = round((1_700_000_000 + at) * 1e9)
                file.write(struct.pack("<IIII", ns // 10**9, ns % 10**9, len(packet), len(packet)) + packet)
        return path


@dataclass
class Tcp:
    """One connection: what it sends goes into the capture, at the time given."""

    pcap: Pcap
    client: tuple[str, int] = (CLIENT, 40_000)
    server: tuple[str, int] = (SERVER, 80)
    sent: dict[str, int] = field(default_factory=lambda: {"client": 0, "server": 0})
    """Bytes sent by each end, without SYN."""
    got: dict[str, int] = field(default_factory=lambda: {"client": 0, "server": 0})
    """Bytes of the other end that each end has acknowledged."""

    def packet(
        self,
        at: float,
        side: str,
        flags: int,
        payload: int = 0,
        *,
        seq: int | None = None,
        window: int = WINDOW,
        options: bytes = b"",
        ip_id: int | None = None,
    ) -> None:
        """`seq`: offset of the first byte; by default it follows what was sent."""
        other = "server" if side == "client" else "client"
        starts = {"client": 1000, "server": 5000}
        first = self.sent[side] if seq is None else seq
        number = starts[side] + (0 if flags & SYN else 1 + first)
        ack = starts[other] + 1 + self.got[side] if flags & ACK else 0
        ports = getattr(self, side)[1], getattr(self, other)[1]
        head = struct.pack(
            ">HHIIBBHHH", *ports, number, ack, (5 + len(options) // 4) << 4, flags, window, number * 7 & 0xFFFF, 0
        )
        self.pcap.ip(at, getattr(self, side)[0], getattr(self, other)[0], 6, head + options + bytes(payload), ip_id)
        if seq is None:
            self.sent[side] += payload + bool(flags & FIN)

    def open(self, at: float = 0.0, rtt: float = 0.04, scale: int | None = 7, client_wait: float = 0.0) -> float:
        """Handshake as the server's side sees it; returns when it is done."""
        options = tcp_options(mss=1460, scale=scale)
        self.packet(at, "client", SYN, options=options)
        self.packet(at + 1e-4, "server", SYN | ACK, options=options)
        self.packet(at + rtt, "client", ACK)
        return at + rtt + client_wait

    def data(self, at: float, side: str = "server", payload: int = MSS, flags: int = ACK, **more: Any) -> None:
        self.packet(at, side, flags, payload, **more)

    def ack(self, at: float, side: str = "client", upto: int | None = None, window: int = WINDOW) -> None:
        other = "server" if side == "client" else "client"
        self.got[side] = self.sent[other] if upto is None else upto
        self.packet(at, side, ACK, window=window)

    def request(self, at: float, payload: int = 200, rtt: float = 0.04) -> None:
        """The client asks, as the server's side sees it."""
        self.packet(at, "client", ACK | PSH, payload)

    def answer(self, at: float, segments: int, rtt: float = 0.04) -> float:
        """The server sends so many segments at once; all are acknowledged in pairs a round trip later."""
        self.got["server"] = self.sent["client"]
        for i in range(segments):
            self.data(at + 1e-5 * i, flags=ACK | (PSH if i == segments - 1 else 0))
            if i % 2 or i == segments - 1:
                self.ack(at + rtt + 1e-5 * i)
        return at + rtt + 1e-5 * segments
