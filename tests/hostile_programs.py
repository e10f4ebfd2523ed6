"""What a program that is root of its network may do to airtcp: `python hostile_programs.py WHAT ...`.

Each prints one JSON object. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import random
import signal
import socket
import struct
import sys
from pathlib import Path

DEVICE = "eth0"
SOL_PACKET, PACKET_VNET_HDR = 263, 15
ETH_P = {4: 0x0800, 6: 0x86DD}
OWN, OTHER = socket.inet_aton("10.0.0.1"), socket.inet_aton("10.0.0.2")
OWN6, OTHER6 = (socket.inet_pton(socket.AF_INET6, f"fd00::{n}") for n in (1, 2))


def ipv4(rng: random.Random, payload: bytes) -> bytes:
    head = struct.pack("!BBHHHBBH", 0x45, rng.randrange(256), 20 + len(payload), rng.randrange(65536), 0, 64, 6, 0)
    return head[:9] + bytes([rng.choice([1, 6, 17, 44, 50, 58, 132, 255])]) + head[10:] + OWN + OTHER + payload


def ipv6(rng: random.Random, payload: bytes) -> bytes:
    chain = b""
    kinds = [rng.choice([0, 43, 44, 51, 60, 135]) for _ in range(rng.randrange(6))]
    for following in [*kinds[1:], rng.choice([6, 17, 58])][: len(kinds)]:
        length = rng.choice([0, 0, 1, 7, 255])
        chain += bytes([following, length]) + rng.randbytes(8 * (length + 1) - 2)
    first = kinds[0] if kinds else rng.choice([6, 17, 58])
    body = chain + payload
    return struct.pack("!IHBB", 6 << 28 | rng.randrange(1 << 28), len(body), first, 64) + OWN6 + OTHER6 + body


def damaged(rng: random.Random) -> bytes:
    """A packet that something is wrong with: bits, lengths, its end, or all of it."""
    kind = rng.randrange(5)
    if kind == 0:
        return bytes([rng.choice([4, 6, 0, 15]) << 4 | rng.randrange(16)]) + rng.randbytes(rng.randrange(1400))
    # Half of them begin as TCP does: ports, sequence numbers, and any length of options.
    payload = rng.randbytes(rng.randrange(1300))
    packet = bytearray(rng.choice([ipv4, ipv6])(rng, payload))
    if kind == 1:
        del packet[rng.randrange(1, len(packet) + 1) :]
    elif kind == 2:
        for _ in range(rng.randrange(1, 9)):
            packet[rng.randrange(min(len(packet), 60))] ^= 1 << rng.randrange(8)
    elif kind == 3:
        at = 2 if packet[0] >> 4 == 4 else 4
        packet[at : at + 2] = struct.pack("!H", rng.choice([0, 1, 19, 20, 21, 39, 40, 65535, rng.randrange(65536)]))
    else:
        packet[0] = packet[0] & 0xF0 | rng.randrange(16)
    return bytes(packet)


def malformed(number: str, seed: str) -> None:
    """Sends damaged packets past the kernel's checks; every fourth asks for segmentation and checksums at random."""
    rng = random.Random(seed)
    plain, offloaded = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for _ in range(2))
    offloaded.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    sent = refused = 0
    while sent < int(number):
        packet = damaged(rng)
        where = (DEVICE, ETH_P.get(packet[0] >> 4, 0x0800))
        try:
            if rng.randrange(4) == 0:
                if rng.randrange(2):
                    packet += rng.randbytes(rng.randrange(40_000))
                start = rng.choice([20, 40, 60, rng.randrange(len(packet) + 1)])
                size = rng.choice([1, 8, 48, 536, 1448, 65535, rng.randrange(1, 65536)])
                kind = rng.choice([0, 1, 3, 4, 5, 0x81, 0x84, rng.randrange(256)])
                head = struct.pack(
                    "=BBHHHH", rng.choice([0, 1, 2]), kind, rng.choice([start + 20, 54, 74]), size, start, 16
                )
                offloaded.sendto(head + packet, where)
            else:
                plain.sendto(packet, where)
            sent += 1
        except OSError as error:
            # The kernel looks at some of it itself, and its queue may be full.
            assert error.errno in (errno.EINVAL, errno.EMSGSIZE, errno.ENOBUFS, errno.EPERM), error
            refused += 1
    sys.stdout.write(json.dumps({"sent": sent, "refused": refused}) + "\n")


def tun_again() -> str:
    """Opens the host's device a second time."""
    try:
        with Path("/dev/net/tun").open("rb+", buffering=0) as file:
            fcntl.ioctl(file, 0x400454CA, struct.pack("16sH22x", DEVICE.encode(), 0x1001))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "?")
    return "opened"


def entered(path: str) -> bool:
    """Whether a namespace can be entered that has other devices than this host's."""
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        with contextlib.suppress(OSError):
            space = os.open(path, os.O_RDONLY)
            if libc.setns(space, 0x40000000) == 0:
                names = [name for _, name in socket.if_nameindex()]
                os._exit(7 if set(names) - {"lo", DEVICE} else 0)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def listed(folder: str) -> list[str]:
    try:
        return [path.name for path in Path(folder).iterdir()]
    except OSError:
        return []


def of_the_network(pid: str) -> list[str]:
    """Descriptors of a process that are namespaces, or what airtcp tells itself."""
    found = []
    for fd in listed(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            name = str(Path(f"/proc/{pid}/fd/{fd}").readlink())
            if name.startswith(("net:", "/memfd:")):
                found.append(f"{pid} has {name}")
    return found


def attacks() -> None:
    """Everything at once that needs no other program."""
    # Before it holds a namespace of its own.
    held = [held for pid in listed("/proc") if pid.isdigit() for held in of_the_network(pid)]
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGHUP):
        with contextlib.suppress(OSError):
            os.kill(1, number)
    found = {
        "tun": tun_again(),
        "way_out": [name for name in ("/proc/1/ns/net", "/proc/self/ns/net") if entered(name)],
        "descriptors": sorted(int(name) for name in listed("/proc/self/fd"))[:-1],
        "processes": [int(name) for name in listed("/proc") if name.isdigit()],
        "held": held,
    }
    sys.stdout.write(json.dumps(found) + "\n")


def flood(seconds: str) -> None:
    """Sends as many connections' first packets as there is time for, each of another connection."""
    import time

    rng = random.Random(1)
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end, sent = time.monotonic() + float(seconds), 0
    while time.monotonic() < end:
        tcp = struct.pack("!HHIIBBHHH", rng.randrange(65536), rng.randrange(65536), sent, 0, 0x50, 2, 65535, 0, 0)
        packet = struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) + OWN + OTHER + tcp
        with contextlib.suppress(OSError):
            sock.sendto(packet, (DEVICE, 0x0800))
            sent += 1
    sys.stdout.write(json.dumps({"sent": sent}) + "\n")


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    if what == "malformed":
        malformed(*words)
    elif what == "attacks":
        attacks()
    else:
        flood(*words)
