"""Sends frames that a station never sent: a program for test_hwsim.py, in a kernel with simulated radios.

The frames arrive at the access point damaged, with a header that can be read: its medium sees to that. `mon0` is the
monitor interface of the radio that sends them, `mon1` one beside the access point, which hears the station.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from typing import Any

ACCESS_POINT, STATION, NOBODY = (bytes.fromhex(text) for text in ("020000000000", "020000000100", "02aabbccddee"))
SECOND = bytes.fromhex("420000000000")
"""An address of the access point's radio that no interface has: so the medium brings it there."""
MODULUS = 4096
OF_EACH = 40


def monitor(name: str) -> socket.socket:
    own = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    own.bind((name, 0))
    return own


def tcp(size: int) -> bytes:
    """A segment of the station, as far as anybody looks."""
    head = struct.pack(">BBHHHBBH", 0x45, 0, 40 + size, 1, 0x4000, 64, socket.IPPROTO_TCP, 0)
    head += socket.inet_aton("10.1.0.2") + socket.inet_aton("10.1.0.1")
    total = sum(struct.unpack(">10H", head))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + struct.pack(">H", 0xFFFF - total) + head[12:] + bytes(20 + size)


def frame(
    sn: int,
    *,
    to: bytes = ACCESS_POINT,
    by: bytes = STATION,
    tid: int = 0,
    way: int = 1,
    fragment: int = 0,
    size: int = 1400,
) -> bytes:
    """QoS data with a number; `way`: 1 to the access point, 2 from one, 3 with four addresses."""
    # MCS 1; nobody acknowledges it, and its number stays as it is.
    radiotap = struct.pack("<BBHIHBBB", 0, 0, 13, 1 << 15 | 1 << 19, 0x18, 2, 0, 1)
    mac = bytes([0x88, way, 0, 0]) + to + by + ACCESS_POINT + struct.pack("<H", sn % MODULUS << 4 | fragment)
    mac += NOBODY if way == 3 else b""
    return radiotap + mac + struct.pack("<H", tid) + b"\xaa\xaa\x03\0\0\0\x08\0" + tcp(size)


def heard(ears: socket.socket, until: float) -> int | None:
    """The number of the next frame of the station that anybody hears."""
    while (left := until - time.monotonic()) > 0:
        ears.settimeout(left)
        try:
            data, (_, _, kind, *_) = ears.recvfrom(4096)
        except TimeoutError:
            break
        mac = data[struct.unpack_from("<H", data, 2)[0] :]
        if kind != socket.PACKET_OUTGOING and mac[:1] == b"\x88" and mac[10:16] == STATION and mac[24] & 15 == 0:
            return int(struct.unpack_from("<H", mac, 22)[0]) >> 4
    return None


def flood(mouth: socket.socket, ears: socket.socket, seconds: float) -> None:
    """Damages in vain what the station will send next, as often as the air allows."""
    end, last, turn = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        while (sn := heard(ears, time.monotonic() + 0.0005)) is not None:
            last = sn
        for _ in range(3):
            mouth.send(frame(last + 1 + turn % 8))
        turn += 1
        time.sleep(0.001)


def main() -> None:
    mouth, ears = monitor("mon0"), monitor("mon1")
    if sys.argv[1] == "flood":
        flood(mouth, ears, float(sys.argv[2]))
        return
    sn = heard(ears, time.monotonic() + 5)
    assert sn is not None
    cases: dict[str, dict[str, Any]] = {
        "stranger": {"by": NOBODY},
        "for_others": {"to": SECOND},
        "no_session": {"tid": 5},
        "behind": {"sn": sn - 100},
        "beyond": {"sn": sn + 200},
        "fragment": {"fragment": 1},
        "downward": {"way": 2},
        "four_addresses": {"way": 3},
        "right": {},
    }
    forged = {"sn": sn + 1, **cases[sys.argv[1]]}
    for _ in range(OF_EACH):
        mouth.send(frame(**forged))
        time.sleep(0.005)


if __name__ == "__main__":
    main()
