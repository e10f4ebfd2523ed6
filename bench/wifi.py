"""Cases of bench/run.py over the air: TCP uploads against ns-3, saturation against closed forms, cost per packet.

ns-3 is optional: `.venv/bin/python evidence/ns3/ns3_runs.py` fetches its wheel and compiles the peer
(evidence/ns3.md).
"""

from __future__ import annotations

import json
import math
import pathlib
import statistics
import sys
from typing import Any

from airtcp_runs import ROOT, BenchError, Measured, airtcp_command, measure

sys.path.insert(0, str(ROOT / "evidence/ns3"))

Entry = dict[str, Any]

GOALS = {
    "throughput": 0.03,
    "collisions": 0.05,
    "udp": 0.03,
}

SECONDS = 60
UPLOADS = (1, 10)
COST_STATIONS = ((1, 60), (10, 60), (100, 60), (500, 60))

US = 1e-6
PAYLOAD = 1500
"""Bytes at the IP layer."""


def scenario(
    *,
    stations: int,
    seconds: float,
    warmup: float,
    phy: str,
    rate: str,
    traffic: str,
    radio: str = "",
    profile: str = "linux-6",
    tcp: str = "",
    spread: float = 0.1,
) -> str:
    """Stations that send to a server behind the access point, all close to it."""
    return f"""duration = "{seconds}s"
warmup = "{warmup}s"
nodes = [
    {{ name = "sta", kind = "host", count = {stations}, profile = "{profile}", receive_offload = "off" }},
    {{ name = "ap", kind = "router" }},
    {{ name = "server", kind = "host", profile = "{profile}", receive_offload = "off" }},
]

[[links]]
from = "ap"
to = "server"
rate = "1Gbit/s"
delay = "1ms"

[[wlans]]
name = "wlan"
ap = "ap"
stations = ["sta"]
phy = {{ {phy} }}
station_radio = {{ rate_control = {{ name = "fixed", {rate} }}, {radio} }}
ap_radio = {{ rate_control = {{ name = "fixed", {rate} }}, {radio} }}

[[flows]]
name = "up"
from = "sta"
to = "server"
start = {{ from = "0s", to = "{spread}s" }}
traffic = {traffic}
{tcp}

[record]
interval = "100ms"
flow_series_max = 0
"""


# As ns-3 has it: PPDUs formed when they are sent, at most 5.484 ms long, 64 MPDUs; a queue of 1000 packets; no small
# queues.
AS_NS3 = """transmit = { name = "qdisc", qdisc = { name = "fifo", limit_packets = 900 }, driver_frames = 100 },
 aggregation = { max_frames = 64, max_duration = "5.484ms", formed_ahead = 0 },
 reorder_buffer = { timeout = "never" }"""
AS_NS3 = AS_NS3.replace("\n", "")


def upload(stations: int, seconds: float) -> str:
    return scenario(
        stations=stations,
        seconds=seconds,
        warmup=0,
        phy='standard = "n"',
        rate="mcs = 7",
        traffic='"unlimited"',
        radio=AS_NS3,
        tcp='tcp = { tsq = "off" }',
    )


def run(file: pathlib.Path, seed: int = 1, duration: str | None = None) -> tuple[Measured, dict[str, Any]]:
    measured = measure(airtcp_command(file, None, seed=seed, duration=duration))
    return measured, json.loads(measured.output)


def wlan_upload(repeat: int, work: pathlib.Path) -> list[Entry]:
    """TCP uploads at MCS 7, 20 MHz, 60 s simulated, against the wheel of ns-3 in the same run.

    Compared is the simulation alone: of ns-3 its event loop from the moment all are associated, of airtcp a process
    less one that simulates 0.15 s (Python's start, the scenario). `process_seconds` is the whole of it.
    """
    from ns3_runs import Ns3Error, has_ns3, wlan
    from timing import OPTIMISED, Case, entry

    entries: list[Entry] = []
    for stations in UPLOADS:
        file = work / f"upload-{stations}.toml"
        file.write_text(upload(stations, SECONDS))
        case = Case(stations=stations, seconds=SECONDS)
        own: list[tuple[float, float]] = []
        whole: list[float] = []
        peer: list[dict[str, Any]] = []
        goodput = 0.0
        rounds = max(1, min(3, repeat))
        for i in range(rounds):
            # Short beside the noise of a process's start: the least of several of each.
            setup = min(run(file, seed=i + 1, duration="150ms")[0].seconds for _ in range(5))
            tries = [run(file, seed=i + 1) for _ in range(3)]
            measured, summary = min(tries, key=lambda t: t[0].seconds)
            whole.append(measured.seconds)
            own.append((measured.seconds - setup, measured.peak_bytes / (1 << 20)))
            goodput += summary["groups"][0]["goodput_bps"] / rounds
            if has_ns3():
                try:
                    peer.append(wlan(**case.options()))
                except Ns3Error as error:
                    raise BenchError(str(error)) from error
        if peer:
            e = entry(case, own, peer, [])
            low, high = e["ratio_to_optimised"]
            peer_goodput = e["peer_goodput_mbit"]
            e["text"] = (
                f"an optimised ns-3 would be {OPTIMISED[0]:g} to {OPTIMISED[1]:g} times faster than this wheel"
                f" (logging and assertions): {low:.0f} to {high:.0f} times; ns-3 {peer_goodput:.2f} Mbit/s"
            )
        else:
            e = {
                "name": case.name,
                "airtcp_seconds": round(statistics.median(w for w, _ in own), 4),
                "peer": None,
                "peer_seconds": None,
                "ratio": None,
                "memory": {"airtcp": round(max(m for _, m in own) * (1 << 20)), "peer": None},
                "skipped": "ns-3 is not there: evidence/ns3/ns3_runs.py fetches it",
            }
        # Payload, as ns-3 counts it.
        e["airtcp_goodput_mbit"] = round(goodput * 1e-6, 3)
        e["process_seconds"] = round(statistics.median(whole), 4)
        e["simulated_per_wall"] = round(SECONDS / e["airtcp_seconds"], 1)
        entries.append(e)
    return entries


def bianchi(n: int, cw_min: int, cw_max: int, tries: int) -> tuple[float, float]:
    """Chance that a station sends in a slot, and that what it sends collides: Bianchi's fixed point (JSAC 2000) with a
    finite number of tries (Wu et al., INFOCOM 2002)."""

    def tau(p: float) -> float:
        sent = slots = 0.0
        cw = cw_min
        for i in range(tries):
            sent += p**i
            slots += p**i * (cw / 2 + 1)
            cw = min(2 * cw + 1, cw_max)
        return sent / slots

    low, high = 0.0, 1.0
    for _ in range(100):
        p = (low + high) / 2
        low, high = (p, high) if 1 - (1 - tau(p)) ** (n - 1) > p else (low, p)
    return tau(low), low


def symbols(bytes_: int, bits_per_symbol: int) -> int:
    """OFDM symbols of a PSDU: SERVICE and tail bits, rounded up."""
    return math.ceil((16 + 8 * bytes_ + 6) / bits_per_symbol)


DCF_STATIONS = (1, 2, 5, 10, 20, 50)
MAC_BYTES = 24 + 8 + 4
"""Header, LLC/SNAP, FCS."""


def dcf(repeat: int, work: pathlib.Path) -> list[Entry]:
    """Saturated stations under DCF, 802.11b at 11 and 802.11g at 54 Mbit/s, against Bianchi.

    b with EIFS, which the time of a collision has in the model too; g without, as its EIFS (an ACK at 1 Mbit/s) gives
    those that collided a start of 30 slots.
    """
    points, runs = [], []
    for standard, rate in (("b", 11), ("g", 54)):
        slot, sifs, cw_min = (20, 10, 31) if standard == "b" else (9, 10, 15)
        difs = sifs + 2 * slot
        if standard == "b":
            data = 192 + (PAYLOAD + MAC_BYTES) * 8 / rate
            ack, lowest_ack, preamble = 192 + 14 * 8 / rate, 192 + 14 * 8, 192
            lost = data + sifs + lowest_ack + difs
        else:
            data = 20 + 4 * symbols(PAYLOAD + MAC_BYTES, 216) + 6
            ack, preamble = 20 + 4 * symbols(14, 96) + 6, 20
            lost = data + max(difs, sifs + slot + preamble)
        won = data + sifs + ack + difs
        for n in DCF_STATIONS:
            file = work / f"dcf-{standard}-{n}.toml"
            seconds = 20 if standard == "g" else 40
            text = scenario(
                stations=n,
                seconds=seconds,
                warmup=1,
                phy=f'standard = "{standard}"',
                rate=f'rate = "{rate}Mbit/s"',
                traffic=f'{{ kind = "cbr", rate = "{60 / n if n > 1 else 60:.3f}Mbit/s" }}',
                radio='eifs = false, transmit = "qdisc"' if standard == "g" else 'transmit = "qdisc"',
            )
            file.write_text(text)
            measured, summary = run(file)
            runs.append(measured)
            up = [a for a in summary["air"] if a["name"].endswith("->ap")]
            tau, p = bianchi(n, cw_min, 1023, 7)
            busy = 1 - (1 - tau) ** n
            success = n * tau * (1 - tau) ** (n - 1)
            model = success * PAYLOAD * 8 / ((1 - busy) * slot + success * won + (busy - success) * lost)
            throughput = summary["groups"][0]["goodput_bps"] * 1e-6
            collisions = sum(a["ppdus_unanswered"] for a in up) / sum(a["ppdus"] for a in up)
            points.append(
                {
                    "standard": standard,
                    "stations": n,
                    "throughput_mbit": round(throughput, 3),
                    "model_mbit": round(model, 3),
                    "throughput_off": round(throughput / model - 1, 4),
                    "collisions": round(collisions, 4),
                    "model_collisions": round(p, 4),
                    "collisions_off": round(collisions / p - 1, 4) if n > 1 else 0.0,
                }
            )
    e: Entry = {"name": "wlan_dcf", "airtcp_seconds": None, "peer": "Bianchi's model, finite retries"}
    e |= {"peer_seconds": None, "ratio": None, "memory": {"airtcp": max(r.peak_bytes for r in runs), "peer": None}}
    e["points"] = points
    e["reaches"] = {
        "throughput": all(abs(q["throughput_off"]) <= GOALS["throughput"] for q in points),
        "collisions": all(abs(q["collisions_off"]) <= GOALS["collisions"] for q in points),
    }
    e["text"] = "; ".join(
        f"{q['standard']} n={q['stations']} {q['throughput_off']:+.1%}, p {q['collisions_off']:+.1%}" for q in points
    )
    return [e]


HT20_BITS = (26, 52, 78, 104, 156, 208, 234, 260)
"""Data bits per symbol of MCS 0 to 7, 20 MHz, one stream."""


def udp(repeat: int, work: pathlib.Path) -> list[Entry]:
    """UDP saturation with A-MPDUs, 802.11n MCS 0 to 7, against the airtime of one exchange.

    That is AIFS of 43 us, 7.5 slots of 9 us, the A-MPDU, SIFS of 16 us, the Block Ack at the basic rate below (6, 12 or
    24 Mbit/s).
    """
    points, runs = [], []
    subframe = 4 + math.ceil((PAYLOAD + 26 + 8 + 4) / 4) * 4
    for mcs, bits in enumerate(HT20_BITS):
        file = work / f"udp-{mcs}.toml"
        file.write_text(
            scenario(
                stations=1,
                seconds=10,
                warmup=1,
                phy='standard = "n"',
                rate=f"mcs = {mcs}",
                traffic='{ kind = "cbr", rate = "100Mbit/s" }',
                radio=AS_NS3,
            )
        )
        measured, summary = run(file)
        runs.append(measured)
        k = 1
        while k < 64 and (k + 1) * subframe <= 65535 and 36 + 4 * symbols((k + 1) * subframe, bits) <= 5484:
            k += 1
        answer = 24 if mcs >= 3 else 12 if mcs >= 1 else 6
        block_ack = 20 + 4 * symbols(32, answer * 4)
        cycle = 43 + 7.5 * 9 + 36 + 4 * symbols(k * subframe, bits) + 16 + block_ack
        model = k * PAYLOAD * 8 / cycle
        measured_mbit = summary["groups"][0]["goodput_bps"] * 1e-6
        points.append(
            {
                "mcs": mcs,
                "mpdus": k,
                "mbit": round(measured_mbit, 3),
                "model_mbit": round(model, 3),
                "off": round(measured_mbit / model - 1, 4),
            }
        )
    e: Entry = {"name": "wlan_udp", "airtcp_seconds": None, "peer": "airtime of an exchange", "peer_seconds": None}
    e |= {"ratio": None, "memory": {"airtcp": max(r.peak_bytes for r in runs), "peer": None}, "points": points}
    e["reaches"] = {"udp": all(abs(q["off"]) <= GOALS["udp"] for q in points)}
    e["text"] = ", ".join(f"MCS {q['mcs']} {q['mbit']:.2f} ({q['off']:+.2%})" for q in points) + " Mbit/s"
    return [e]


def wlan_cost(repeat: int, work: pathlib.Path) -> list[Entry]:
    """Wall time per packet delivered, data and ACKs, for more and more stations with a TCP upload each."""
    points, runs = [], []
    for stations, seconds in COST_STATIONS:
        file = work / f"cost-{stations}.toml"
        file.write_text(upload(stations, seconds))
        costs = []
        for i in range(max(1, repeat // 2)):
            setup, _ = run(file, seed=i + 1, duration="150ms")
            whole, summary = run(file, seed=i + 1)
            # Segments of 1448 bytes, an ACK for every second.
            packets = round(summary["groups"][0]["goodput_bps"] * seconds / 8 / 1448 * 1.5)
            costs.append((whole.seconds - setup.seconds) / packets * 1e9)
            runs.append(whole)
        points.append({"stations": stations, "packets": packets, "ns_per_packet": round(statistics.median(costs), 1)})
    e: Entry = {"name": "wlan_cost", "airtcp_seconds": None, "peer": None, "peer_seconds": None, "ratio": None}
    e |= {"memory": {"airtcp": max(r.peak_bytes for r in runs), "peer": None}, "points": points}
    costs_text = ", ".join(f"{p['stations']}: {p['ns_per_packet']:.0f}" for p in points)
    e["text"] = f"ns per packet with so many stations, {costs_text}"
    return [e]
