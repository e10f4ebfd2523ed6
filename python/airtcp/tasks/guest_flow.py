"""One end of a flow as a program in a guest (`airtcp.tasks.kernels`): hears, says or pings, and prints what it found.

Usage: guest_flow.py WHAT FLOW PORT PEER PARAMETER START WARMUP END. Times are seconds since the network began. It needs
nothing but Python.
"""

from __future__ import annotations

import json
import re
import select
import socket
import struct
import subprocess
import sys
import time

BOOT_S = 4
"""Guests boot for so long, and then their network begins."""

SPARE_S = 0.001
"""It ends so long before the network, to print."""

LOOK_S = 0.01
"""The round trip is looked at this often."""

# In struct tcp_info: tcpi_rtt, tcpi_total_retrans, tcpi_segs_out, tcpi_min_rtt.
RTT, RETRANSMITTED, SEGMENTS, RTT_MIN, SIZE = 68, 100, 136, 148, 256


def now() -> float:
    """Seconds since the network began."""
    return time.clock_gettime(time.CLOCK_MONOTONIC) - BOOT_S


def wait_for(start: float) -> None:
    """Not less than a moment, since the other end is to listen."""
    time.sleep(max(start - now(), SPARE_S))


def hear(port: int, warmup: float, end: float) -> dict[str, object]:
    """Counts what comes from the end of the warm-up on."""
    listener = socket.create_server(("", port))
    listener.settimeout(max(end - now(), SPARE_S))
    total = 0
    try:
        peer, _ = listener.accept()
        while (left := end - now()) > 0:
            peer.settimeout(left)
            data = len(peer.recv(1 << 20))
            if not data:
                break
            total += data if now() >= warmup else 0
    except TimeoutError:
        pass
    return {"received": total}


def say(peer: str, port: int, control: str, start: float, warmup: float, end: float) -> dict[str, object]:
    """Sends as fast as it may, and looks at its round trip."""
    wait_for(start)
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    s.connect((peer, port))
    s.setblocking(False)
    rtts: list[float] = []
    first = last = bytes(SIZE)
    look = warmup
    while (at := now()) < end:
        select.select([], [s], [], max(min(look, end) - at, 0.0001))
        try:
            while s.send(bytes(65536)):
                pass
        except BlockingIOError:
            pass
        if now() >= look:
            last = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SIZE).ljust(SIZE, b"\0")
            first = first if any(first) else last
            rtts.append(field(last, RTT) / 1000)
            look = max(look + LOOK_S, now())
    sent, again = (field(last, place) - field(first, place) for place in (SEGMENTS, RETRANSMITTED))
    return {"rtts": rtts, "rtt_min": field(last, RTT_MIN) / 1000, "sent": sent, "again": again}


def field(info: bytes, place: int) -> int:
    """A number of TCP_INFO."""
    value: int = struct.unpack_from("<I", info, place)[0]
    return value


def ping(peer: str, parameter: str, start: float, warmup: float, end: float) -> dict[str, object]:
    """Pings, and keeps the answers to what it sent after the warm-up."""
    interval, size = parameter.split(",")
    wait_for(start)
    begun, step = now(), float(interval)
    count = max(int((end - begun) / step), 1)
    command = ["ping", "-4", "-n", "-i", interval, "-s", size, "-c", str(count), "-w", str(max(int(end - begun), 1))]
    said = subprocess.run([*command, peer], stdout=subprocess.PIPE, text=True, check=False).stdout
    came = re.findall(r"icmp_seq=(\d+).*time=([\d.]+)", said)
    rtts = [float(ms) for number, ms in came if begun + (int(number) - 1) * step >= warmup]
    return {"rtts": rtts, "sent": sum(begun + n * step >= warmup for n in range(count))}


def main() -> None:
    """Does what the command line says."""
    what, flow, port, peer, parameter = sys.argv[1:6]
    start, warmup, end = map(float, sys.argv[6:9])
    end -= SPARE_S
    if what == "hear":
        found = hear(int(port), warmup, end)
    elif what == "say":
        found = say(peer, int(port), parameter, start, warmup, end)
    else:
        found = ping(peer, parameter, start, warmup, end)
    sys.stdout.write(f"airtcp-flow {json.dumps({'flow': int(flow), **found})}\n")


if __name__ == "__main__":
    main()
