"""The cells in which airtcp is held against the kernel, and what is compared of them. Standard library only."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

Json = dict[str, Any]

PACKET_BYTES = 1500

CONTROLS = ("cubic", "reno", "bbr")
RATES_MBIT = (5, 20, 100)
RTTS_MS = (10, 40, 100)
BUFFERS_BDP = (0.25, 0.5, 1.0, 2.0)
LOSSES = (0.0, 0.0005, 0.005, 0.02)


def bdp_packets(rate_mbit: float, rtt_ms: float) -> float:
    return rate_mbit * 1e6 * rtt_ms / 1e3 / 8 / PACKET_BYTES


def make(
    cc: str, rate: float, rtt: float, buffer: float, loss: float, *, flows: int = 1, seconds: float = 15,
    warmup: float = 3, seed: int = 1, send_offload: bool = True, gro_flush_us: int = 0,
) -> Json:  # fmt: skip
    return {
        "cc": cc, "flows": flows, "rate_mbit": rate, "rtt_ms": rtt, "buffer_bdp": buffer,
        "buffer_packets": max(1, round(buffer * bdp_packets(rate, rtt))), "loss": loss, "seconds": seconds,
        "warmup": warmup, "spread": 1.0 if flows > 1 else 0.0, "seed": seed, "send_offload": send_offload,
        "gro_flush_us": gro_flush_us,
    }  # fmt: skip


def starts_ms(cell: Json) -> list[float]:
    """Of the cell's connections, drawn from its seed: the same for the kernel and for airtcp."""
    draw = random.Random(cell["seed"])
    return sorted(round(draw.uniform(0, cell["spread"] * 1e3), 3) for _ in range(cell["flows"]))


def name(cell: Json) -> str:
    offload = "" if cell["send_offload"] else ", no offload"
    if cell["gro_flush_us"]:
        offload += f", GRO {cell['gro_flush_us']} us"
    path = f"{cell['rate_mbit']:g} Mbit/s {cell['rtt_ms']:g} ms {cell['buffer_bdp']:g} BDP"
    many = "" if cell["flows"] == 1 else f"{cell['flows']} x "
    return f"{many}{cell['cc']} {path} loss {cell['loss'] * 100:g} %{offload}"


def cells() -> Iterator[Json]:
    """Each control on each path with two buffers and losses, which a Latin square spreads; every third without offload.

    Then four flows, a buffer of four packets with offload and without, and receive offload that waits for four packets'
    time. All products would be 864 cells.
    """
    number = 0
    for c, cc in enumerate(CONTROLS):
        for i, rate in enumerate(RATES_MBIT):
            for j, rtt in enumerate(RTTS_MS):
                # One of each pair without random loss, where the queue decides.
                buffer = BUFFERS_BDP[(i + j + c) % 4]
                yield make(cc, rate, rtt, buffer, 0.0, seed=1)
                loss = LOSSES[1 + (i + 2 * j + c) % 3]
                yield make(cc, rate, rtt, BUFFERS_BDP[(i + j + c + 2) % 4], loss, seed=2)
                if number % 3 == 0:
                    yield make(cc, rate, rtt, buffer, 0.0, seed=1, send_offload=False)
                number += 1
        for buffer in (0.25, 1.0):
            yield make(cc, 20, 40, buffer, 0.0, flows=4, seed=1)
        for offload in (True, False):
            yield make(cc, 10, 20, 0.25, 0.0, seed=1, send_offload=offload)
        yield make(cc, 100, 40, 1.0, 0.0, seed=1, gro_flush_us=500)


@dataclasses.dataclass(frozen=True)
class Figure:
    """What is compared; `floor`: a difference that says nothing, whatever the figure."""

    key: str
    words: str
    floor: float
    form: str


# Floors stated before the first comparison: a deviation of the emulator (about 0.1 ms), a packet, single losses.
FIGURES = (
    Figure("goodput_mbit", "goodput, Mbit/s", 0.0, ".2f"),
    Figure("rtt_ms", "mean RTT, ms", 0.3, ".1f"),
    Figure("rtt_p95_ms", "95 % RTT, ms", 0.3, ".1f"),
    Figure("queue_packets", "queue, packets", 0.5, ".1f"),
    Figure("cwnd", "cwnd, segments", 0.5, ".1f"),
    Figure("retransmitted", "retransmissions", 3.0, ".0f"),
    Figure("acks_per_packet", "ACKs per packet", 0.01, ".3f"),
    Figure("ack_gap_p50_us", "median gap between ACKs, us", 50.0, ".0f"),
)


def off_by(figure: Figure, own: float, kernel: float) -> float:
    """Relative difference; 0 below the floor."""
    gap = abs(own - kernel)
    if gap <= figure.floor:
        return 0.0
    return gap / abs(kernel) if kernel else math.inf


def quantile(values: Sequence[float], q: float) -> float:
    """The smallest value that at least the part `q` of all reaches."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(q * len(ordered)) - 1))]
