"""The kernel's own TCP across a path that loses, delays and reorders by script, in user space.

Two network namespaces, each of a process of its own and gone with it, have a TUN device each; a third process carries
packets from one to the other and writes what it sees at the sender, half-way and at the receiver as captures. Standard
library and iproute2 only; needs root and /dev/net/tun, and touches nothing outside its namespaces.

Every run is bounded in time. `run` is for tests; the rest runs in the processes it starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import fcntl
import heapq
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ADDRESS = {4: {"a": "192.0.2.1", "b": "192.0.2.2"}, 6: {"a": "2001:db8::1", "b": "2001:db8::2"}}
PORT = 5001
MTU = 1500
CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PR_SET_PDEATHSIG = 1
SO_MAX_PACING_RATE = 47
ETH_P_ALL, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 3, 33, 35
PLACES = ("sender", "between", "receiver")
BEFORE = "before"
"""A further place with `queue_half_way`: half-way, before the queue."""
DLT_RAW = 101

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Rule:
    """What happens to one transmission of one data segment; segments count from 0, transmissions from 1."""

    segment: int
    transmission: int = 1
    drop: bool = False
    delay_ms: float = 0.0


@dataclasses.dataclass
class Spec:
    """One connection: a sends, b reads and closes when a has closed."""

    writes: list[tuple[float, int]]
    """When, in ms after the connection is there, and how many segments."""
    rules: list[Rule] = dataclasses.field(default_factory=list)
    loss: float = 0.0
    """Random losses of data segments, beside the rules, by `seed`."""
    seed: int = 1
    ip: int = 4
    one_way_ms: float = 10.0
    rate_mbit: float = 0.0
    """Of the line towards b, with a queue of `queue` packets; 0: no limit."""
    queue: int = 50
    drop_after: bool = False
    """Whether packets are lost after the middle (which then sees them) and not before it."""
    queue_half_way: bool = False
    """Whether the queue stands half-way and not at the sender, as an access point's does. It is captured on both sides;
    the queue's own losses are between the two, wherever others are."""
    is_tapped: bool = False
    """Whether the sender's device is captured as well, by the kernel, as tcpdump does: `tap.pcap`. The path reads what
    has left the device a little later, and an ACK may have come meanwhile."""
    segments_at_once: int = 0
    """Most segments that the sender's kernel hands over as one packet, which it cuts later; 0: as many as it likes."""
    sysctls: dict[str, str] = dataclasses.field(default_factory=dict)
    snaplen: int = 262144
    seconds: float = 8.0
    close_after_ms: float = 0.0
    read_kb_s: float = 0.0
    """Rate at which b reads, kB/s; 0: at once."""
    answers: list[tuple[float, int]] = dataclasses.field(default_factory=list)
    """Instead of `writes`: b asks with one byte, a thinks for so many ms and answers with so many segments."""
    outage_ms: tuple[float, float] = (0.0, 0.0)
    """From when after the first data, and for how long, the path carries nothing."""
    cc: str = ""
    """The sender's congestion control; empty: the system's."""
    tc: str = ""
    """The sender's queue discipline, as `tc qdisc` has it: a shaper before the capture."""
    pacing_mbit: float = 0.0
    """SO_MAX_PACING_RATE of the sender; 0: none."""
    folder: str = ""
    """Where captures go; `run` sets it."""


@dataclasses.dataclass
class Outcome:
    """What happened on the path, and what the sender's kernel counted."""

    mss: int
    sent: list[Json]
    """Every data segment in the order in which it left the sender: `time_s`, `segment`, `seq` (bytes before it),
    `bytes`, `transmission`, `dropped`, `middle_s` (when it passes there, if at all)."""
    counters: Json
    """Of the sender's namespace: /proc/net/netstat and /proc/net/snmp, by name."""
    total_retrans: int
    """TCP_INFO's, when everything was acknowledged."""
    busy_s: float
    rwnd_limited_s: float
    """TCP_INFO's times: with data to send or unacknowledged, and of that held back by the receive window."""
    late_max_ms: float
    """How much later than planned a packet was handed over, at worst."""
    began_s: float
    """The first packet's time, by the system's monotonic clock."""

    @property
    def retransmitted(self) -> list[Json]:
        return [packet for packet in self.sent if packet["transmission"] > 1]

    @property
    def dropped(self) -> list[Json]:
        return [packet for packet in self.sent if packet["dropped"]]


def missing() -> str | None:
    """Why runs are not possible here; None: they are."""
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    if os.geteuid() != 0:
        return "needs root: network namespaces"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "needs /dev/net/tun"
    if shutil.which("ip") is None:
        return "needs iproute2 (ip)"
    probe = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x40000000) != 0)"
    if subprocess.run([sys.executable, "-c", probe], check=False).returncode:
        return "needs the right to make network namespaces"
    return None


def run(spec: Spec, folder: Path) -> Outcome:
    """One connection; leaves `sender.pcap`, `between.pcap` and `receiver.pcap` in the folder."""
    command = [sys.executable, str(Path(__file__).resolve()), "path", str(folder)]
    done = subprocess.run(
        command,
        input=json.dumps(dataclasses.asdict(spec) | {"folder": str(folder)}),
        capture_output=True,
        text=True,
        timeout=spec.seconds + 15,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the path ended with {done.returncode}: {done.stderr}")
    return Outcome(**json.loads(done.stdout))


# --- an end: a namespace with a TUN device and one socket -----------------------------------------------------------


def unshare_network() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")


def open_tun() -> int:
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    # Without IFF_VNET_HDR the kernel cuts large segments itself: every packet is what a wire would carry.
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"path0", IFF_TUN | IFF_NO_PI))
    return fd


def configure(side: str, spec: Spec) -> None:
    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    # Before the device is up: no router solicitations among the packets.
    Path("/proc/sys/net/ipv6/conf/path0/router_solicitations").write_text("0")
    Path("/proc/sys/net/ipv6/conf/path0/addr_gen_mode").write_text("1")
    ip("link", "set", "path0", "mtu", str(MTU), "txqueuelen", "10000", "up")
    if spec.segments_at_once:
        ip("link", "set", "path0", "gso_max_segs", str(spec.segments_at_once))
    if spec.tc and side == "a":
        subprocess.run(["tc", "qdisc", "replace", "dev", "path0", "root", *spec.tc.split()], check=True)
    more = ["nodad"] if spec.ip == 6 else []
    ip("addr", "add", f"{ADDRESS[spec.ip][side]}/{24 if spec.ip == 4 else 64}", "dev", "path0", *more)
    for key, value in {"tcp_no_metrics_save": "1", **spec.sysctls}.items():
        Path(f"/proc/sys/net/ipv4/{key}").write_text(value)


def counters() -> Json:
    found: Json = {}
    for name in ("netstat", "snmp"):
        lines = Path(f"/proc/net/{name}").read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            kind, *keys = names.split()
            if kind in ("TcpExt:", "Tcp:"):
                found |= dict(zip(keys, map(int, values.split()[1:]), strict=True))
    return found


def end(side: str, fd: int) -> None:
    """The child's side: namespace, device, then the connection; one JSON object as its last word."""
    up = socket.socket(fileno=fd)
    spec = spec_of(json.loads(up.makefile().readline()))
    unshare_network()
    tun = open_tun()
    configure(side, spec)
    socket.send_fds(up, [b"!"], [tun])
    os.close(tun)
    family = socket.AF_INET if spec.ip == 4 else socket.AF_INET6
    if side == "b":
        listener = socket.create_server((ADDRESS[spec.ip]["b"], PORT), family=family)
        up.sendall(b"ready\n")
        listener.settimeout(spec.seconds)
        conn, _ = listener.accept()
        conn.settimeout(spec.seconds)
        for _, segments in spec.answers:
            conn.sendall(b"?")
            left = segments * conn.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
            while left > 0:
                left -= len(conn.recv(left))
        begin, taken = time.monotonic(), 0
        while data := conn.recv(8192 if spec.read_kb_s else 1 << 18):
            taken += len(data)
            if spec.read_kb_s:
                time.sleep(max(0.0, begin + taken / spec.read_kb_s / 1e3 - time.monotonic()))
        conn.close()
        up.recv(1)
        return
    up.recv(1)
    tap = Tap(spec) if spec.is_tapped else None
    sock = socket.create_connection((ADDRESS[spec.ip]["b"], PORT), timeout=spec.seconds)
    if spec.cc:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, spec.cc.encode())
    if spec.pacing_mbit:
        sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, round(spec.pacing_mbit * 125e3))
    mss = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    begin = time.monotonic()
    for think_ms, segments in spec.answers:
        sock.recv(1)
        time.sleep(think_ms / 1e3)
        sock.sendall(bytes(segments * mss))
    for at_ms, segments in spec.writes:
        time.sleep(max(0.0, begin + at_ms / 1e3 - time.monotonic()))
        # One call: the kernel cuts it at multiples of the MSS.
        sock.sendall(bytes(segments * mss))
    deadline = begin + spec.seconds
    while unacked(sock) and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(spec.close_after_ms / 1e3)
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    # struct tcp_info of linux/tcp.h: tcpi_total_retrans, tcpi_busy_time, tcpi_rwnd_limited (microseconds).
    retrans = struct.unpack_from("I", info, 100)[0]
    busy_us, rwnd_us = struct.unpack_from("QQ", info, 168)
    found = counters()
    if tap is not None:
        tap.write()
    sock.shutdown(socket.SHUT_WR)
    with contextlib.suppress(TimeoutError, ConnectionError):
        sock.recv(1)
    up.sendall(
        json.dumps(
            {
                "mss": mss,
                "counters": found,
                "total_retrans": retrans,
                "busy_s": busy_us * 1e-6,
                "rwnd_limited_s": rwnd_us * 1e-6,
            }
        ).encode()
        + b"\n"
    )
    up.recv(1)


class Tap:
    """What the kernel shows of the sender's device, from now on."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.packets = Capture()
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        self.socket.bind(("path0", ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            packet, about, _, _ = self.socket.recvmsg(65536, 64)
            for level, kind, value in about:
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                    seconds, nanoseconds = struct.unpack("qq", value)
                    self.packets.packets.append((seconds + nanoseconds * 1e-9, packet))

    def write(self) -> None:
        self.packets.write(Path(self.spec.folder) / "tap.pcap", self.spec.snaplen)


def unacked(sock: socket.socket) -> int:
    """Bytes not yet acknowledged, sent or waiting (SIOCOUTQ)."""
    return int(struct.unpack("i", fcntl.ioctl(sock, 0x5411, b"\0\0\0\0"))[0])


# --- the path -------------------------------------------------------------------------------------------------------


def spec_of(raw: Json) -> Spec:
    raw["rules"] = [Rule(**rule) for rule in raw["rules"]]
    return Spec(**raw)


@dataclasses.dataclass
class Tcp:
    seq: int
    payload: int
    is_syn: bool


def parse(packet: bytes) -> Tcp | None:
    if packet[0] >> 4 == 4:
        if packet[9] != 6:
            return None
        at, total = (packet[0] & 15) * 4, int.from_bytes(packet[2:4], "big")
    else:
        if packet[6] != 6:
            return None
        at, total = 40, 40 + int.from_bytes(packet[4:6], "big")
    seq = int.from_bytes(packet[at + 4 : at + 8], "big")
    return Tcp(seq, total - at - (packet[at + 12] >> 4) * 4, bool(packet[at + 13] & 2))


class Capture:
    """A capture in memory, written in the order of time."""

    def __init__(self) -> None:
        self.packets: list[tuple[float, bytes]] = []

    def write(self, path: Path, snaplen: int) -> None:
        with path.open("wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snaplen, DLT_RAW))
            for time_s, packet in sorted(self.packets, key=lambda entry: entry[0]):
                seconds = int(time_s)
                kept = packet[:snaplen]
                file.write(struct.pack("<IIII", seconds, int((time_s - seconds) * 1e9), len(kept), len(packet)) + kept)


class Path_:  # noqa: N801
    """Carries packets between the two devices and keeps account."""

    def __init__(self, spec: Spec) -> None:
        import random

        self.spec = spec
        self.random = random.Random(spec.seed)
        self.rules = {(rule.segment, rule.transmission): rule for rule in spec.rules}
        self.captures = {place: Capture() for place in (*PLACES, *([BEFORE] if spec.queue_half_way else []))}
        self.sent: list[Json] = []
        self.times: dict[int, int] = {}
        self.highest = 0
        self.isn: int | None = None
        self.mss = 0
        self.pending: list[tuple[float, int, int, bytes]] = []
        self.count = 0
        self.late = 0.0
        self.began: float | None = None
        self.line_free = 0.0
        self.offset = time.time() - time.monotonic()

    def see(self, place: str, at: float, packet: bytes) -> None:
        self.captures[place].packets.append((at + self.offset, packet))

    def due(self, at: float, to: int, packet: bytes) -> None:
        self.count += 1
        heapq.heappush(self.pending, (at, self.count, to, packet))

    def is_out(self, now: float) -> bool:
        """The path carries nothing at present."""
        begin, length = (ms / 1e3 for ms in self.spec.outage_ms)
        return self.began is not None and begin <= now - self.began < begin + length

    def forward(self, now: float, packet: bytes, to: int) -> None:
        """From the sender: counted, perhaps lost or held, seen half-way unless lost before."""
        spec = self.spec
        self.see("sender", now, packet)
        tcp = parse(packet)
        half = spec.one_way_ms / 2e3
        # When it comes to the queue, and what is left of the way behind it up to the middle.
        at, rest = (now + half, 0.0) if spec.queue_half_way else (now, half)
        drop, held = False, 0.0
        overflows, is_in_the_middle = False, True
        if tcp is not None and tcp.is_syn:
            self.isn = tcp.seq
        elif tcp is not None and tcp.payload and self.isn is not None:
            if not self.mss:
                self.mss = tcp.payload
            offset = (tcp.seq - self.isn - 1) & 0xFFFFFFFF
            segment = offset // self.mss
            again = offset < self.highest
            transmission = self.times.get(offset, 1) + 1 if again else 1
            self.times[offset] = transmission
            self.highest = max(self.highest, offset + tcp.payload)
            rule = self.rules.get((segment, transmission))
            self.began = now if self.began is None else self.began
            drop = rule.drop if rule else self.random.random() < spec.loss or self.is_out(now)
            held = rule.delay_ms / 1e3 if rule else 0.0
            if spec.rate_mbit:
                per_packet = len(packet) * 8 / (spec.rate_mbit * 1e6)
                waiting = (self.line_free - at) / per_packet
                overflows = waiting > spec.queue
                if overflows:
                    drop = True
                else:
                    at = self.line_free = max(at, self.line_free) + per_packet
            is_in_the_middle = not drop or (spec.drop_after and not (overflows and spec.queue_half_way))
            self.sent.append(
                {
                    "time_s": now,
                    "segment": segment,
                    "seq": offset,
                    "bytes": tcp.payload,
                    "transmission": transmission,
                    "dropped": drop,
                    "middle_s": at + held + rest if is_in_the_middle else None,
                }
            )
        if spec.queue_half_way:
            self.see(BEFORE, now + half, packet)
        # What is held stays before the middle, which then sees it late and out of order.
        if is_in_the_middle:
            self.see("between", at + held + rest, packet)
        if not drop:
            self.due(at + held + rest + half, to, packet)

    def back(self, now: float, packet: bytes, to: int) -> None:
        half = self.spec.one_way_ms / 2e3
        if self.is_out(now):
            return
        self.see("receiver", now, packet)
        self.see("between", now + half, packet)
        if self.spec.queue_half_way:
            self.see(BEFORE, now + half, packet)
        self.due(now + 2 * half, to, packet)

    def carry(self, a: int, b: int, until: Any) -> None:
        """Until the sender has told its results, or the time is over."""
        deadline = time.monotonic() + self.spec.seconds + 3
        poll = select.poll()
        for fd in (a, b, until.fileno()):
            poll.register(fd, select.POLLIN)
        # Past the close, for the last acknowledgements.
        ended: float | None = None
        while True:
            now = time.monotonic()
            while self.pending and self.pending[0][0] <= now:
                due, _, to, packet = heapq.heappop(self.pending)
                self.late = max(self.late, now - due)
                self.see("receiver" if to == b else "sender", now, packet)
                with contextlib.suppress(BlockingIOError):
                    os.write(to, packet)
                now = time.monotonic()
            if now > deadline or (ended is not None and now > ended):
                return
            wait = min(0.05, self.pending[0][0] - now) if self.pending else 0.05
            for fd, _ in poll.poll(max(0.0, wait * 1e3)):
                if fd == until.fileno():
                    poll.unregister(fd)
                    ended = time.monotonic() + self.spec.one_way_ms * 4e-3 + 0.02
                    continue
                # A burst at a time, so that deliveries do not wait for long.
                for _ in range(16):
                    try:
                        packet = os.read(fd, 65536)
                    except BlockingIOError:
                        break
                    (self.forward if fd == a else self.back)(time.monotonic(), packet, b if fd == a else a)


def path(folder: Path) -> None:
    raw = json.load(sys.stdin)
    spec = spec_of(json.loads(json.dumps(raw)))
    ends = {}
    tuns = {}
    for side in "ab":
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, __file__, side, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdout=subprocess.DEVNULL,
        )
        theirs.close()
        ours.settimeout(15)
        ours.sendall(json.dumps(raw).encode() + b"\n")
        ends[side] = ours, process
    for side, (link, _) in ends.items():
        _, fds, _, _ = socket.recv_fds(link, 1, 1)
        if not fds:
            raise RuntimeError(f"end {side} did not start")
        tuns[side] = fds[0]
        os.set_blocking(fds[0], False)
    try:
        if not ends["b"][0].recv(16).startswith(b"ready"):
            raise RuntimeError("the receiver did not start")
        ends["a"][0].sendall(b"!")
        it = Path_(spec)
        it.carry(tuns["a"], tuns["b"], ends["a"][0])
        told = ends["a"][0].makefile().readline()
        if not told:
            raise RuntimeError("the sender did not end")
        for place, capture in it.captures.items():
            capture.write(folder / f"{place}.pcap", spec.snaplen)
        first = it.captures["sender"].packets[0][0] - it.offset
        for entry in it.sent:
            entry["time_s"] -= first
            if entry["middle_s"] is not None:
                entry["middle_s"] -= first
        json.dump({"sent": it.sent, "late_max_ms": it.late * 1e3, "began_s": first, **json.loads(told)}, sys.stdout)
    finally:
        for _, process in ends.values():
            process.kill()
            process.wait()


if __name__ == "__main__":
    if sys.argv[1] == "path":
        path(Path(sys.argv[2]))
    else:
        end(sys.argv[1], int(sys.argv[2]))
