"""Programs for the hosts of `airtcp shell`, where no others can be counted on: `python real_programs.py WHAT ...`.

Each prints one JSON object. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import sys
import time

PORT = 5201


def tell(found: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")


def checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def ping(host: str, count: str, interval: str) -> None:
    """Echo requests, and how long their replies took, ms."""
    number = int(count)
    sock = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    sock.connect((socket.gethostbyname(host), 0))
    sock.setblocking(False)
    own = os.getpid() & 0xFFFF
    sent: dict[int, float] = {}
    took: dict[int, float] = {}
    begin = time.monotonic()
    while len(took) < number:
        now = time.monotonic()
        due = begin + len(sent) * float(interval)
        if len(sent) < number and now >= due:
            data = struct.pack("!BBHHH", 8, 0, 0, own, len(sent)) + bytes(56)
            data = data[:2] + struct.pack("!H", checksum(data)) + data[4:]
            sent[len(sent)] = time.monotonic()
            sock.send(data)
            continue
        if len(sent) == number and now > sent[number - 1] + 2:
            break
        select.select([sock], [], [], max(0.0, due - now) if len(sent) < number else 0.1)
        try:
            reply = sock.recv(2048)
        except BlockingIOError:
            continue
        head = (reply[0] & 15) * 4
        kind, _, _, whose, which = struct.unpack("!BBHHH", reply[head : head + 8])
        if kind == 0 and whose == own and which in sent:
            took.setdefault(which, (time.monotonic() - sent[which]) * 1e3)
    tell({"sent": number, "ms": sorted(took.values())})


def listen(family: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", PORT))
    sock.listen()
    return sock


def sink() -> None:
    """Takes one connection over IPv4 or IPv6, and says how many bytes came and how fast."""
    sock, _ = listen(socket.AF_INET6).accept()
    control = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\0")[0].decode()
    total, begin, end = 0, time.monotonic(), time.monotonic()
    while data := sock.recv(1 << 16):
        total, end = total + len(data), time.monotonic()
    tell({"bytes": total, "mbps": total * 8e-6 / max(end - begin, 1e-9), "control": control})


def source(host: str, seconds: str) -> None:
    """Sends for some seconds, and says with which congestion control."""
    sock = None
    for _ in range(50):
        try:
            sock = socket.create_connection((host, PORT), timeout=20)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    assert sock is not None, "nobody listens"
    control = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b"\0")[0].decode()
    end, data, total = time.monotonic() + float(seconds), bytes(1 << 16), 0
    while time.monotonic() < end:
        total += sock.send(data)
    sock.shutdown(socket.SHUT_WR)
    tell({"bytes": total, "control": control})


def call() -> None:
    """Sends to all hosts in three ways, for two seconds."""
    sock, sock6 = (socket.socket(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_INET6))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    # No route leads to 255.255.255.255.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"wlan0")
    for _ in range(40):
        sock.sendto(b"limited", ("255.255.255.255", PORT))
        sock.sendto(b"subnet", ("10.255.255.255", PORT))
        sock6.sendto(b"all nodes", ("ff02::1", PORT, 0, socket.if_nametoindex("wlan0")))
        time.sleep(0.05)


def hear(host: str) -> None:
    """Says what came by UDP within three seconds, and from whom."""
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.bind(("::", PORT))
    heard: set[str] = set()
    end = time.monotonic() + 3
    while (left := end - time.monotonic()) > 0:
        sock.settimeout(left)
        with contextlib.suppress(TimeoutError):
            text, source = sock.recvfrom(100)
            heard.add(f"{text.decode()} from {source[0]}")
    tell({"host": host, "heard": sorted(heard)})


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "ping":
        ping(*words)
    elif what == "sink":
        sink()
    elif what == "call":
        call()
    elif what == "hear":
        hear(*words)
    else:
        source(*words)
