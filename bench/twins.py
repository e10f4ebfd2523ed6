"""Twins of networks with known truth: how many are found, how many predict, and how many advices hold.

Usage: twins.py [--advice] [--only N ...] [--seeds N ...] [--held-out] [--out FILE]

Thirty simulated networks are captured at the sender. The twin is fitted on the first half of each capture. Counted is
how many estimates are within 5 % of the rate, 10 % of the buffer, 1 ms or 2 % of the round trip. So is how many
predictions are within 10 % of the goodput and 20 % of the 95th percentile of the round trip of the second half. With
--advice the advised remedy is then put on the true network as well, and its gain held against the promise; where no
remedy is advised, all are tried on the true network.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import airtcp
from airtcp import _airtcp
from airtcp.advice.fit import Twin, fit
from airtcp.advice.observed import NoTwinError, observe

Json = dict[str, Any]

SEED = 7

N20: Json = {"standard": "n", "width_mhz": 20}
N40: Json = {"standard": "n", "width_mhz": 40, "streams": 2}
AC80: Json = {"standard": "ac", "width_mhz": 80, "streams": 2}


def wired(
    rate: float,
    rtt: float,
    queue: str = "fifo",
    packets: int = 100,
    *,
    loss: float = 0.0,
    cc: str = "cubic",
    senders: tuple[float, ...] = (0.0,),
    duration: float = 20,
) -> Json:
    """Senders before one line of `rate` Mbit/s; `senders` says how many ms of round trip each has more."""
    kind: Json = {"name": "fifo", "limit_packets": packets} if queue == "fifo" else {"name": queue}
    nodes = [
        {"name": "router", "kind": "router"},
        {"name": "far", "kind": "router"},
        {"name": "server", "kind": "host"},
    ]
    links: list[Json] = [
        {"name": "access", "from": "server", "to": "router", "rate": "10Gbit/s", "delay": "20us"},
        {
            "name": "line",
            "from": "router",
            "to": "far",
            "rate": f"{rate}Mbit/s",
            "delay": f"{rtt / 2 - 0.04:.3f}ms",
            "loss": loss,
            "queue": kind,
            "reverse": {"queue": "fifo", "rate": "1Gbit/s", "loss": 0.0},
        },
    ]
    flows = []
    for i, more in enumerate(senders):
        nodes.append({"name": f"client-{i}", "kind": "host"})
        exit_ = {"name": f"exit-{i}", "from": "far", "to": f"client-{i}", "rate": "10Gbit/s"}
        links.append({**exit_, "delay": f"{0.02 + more / 2:.3f}ms"})
        flow = {"name": f"flow-{i}", "from": "server", "to": f"client-{i}", "tcp": {"cc": cc}, "start": f"{i * 300}ms"}
        flows.append(flow)
    truth = {"rate": rate, "rtt": rtt + min(senders), "packets": packets if queue == "fifo" and not loss else None}
    scenario = {
        "name": "truth",
        "duration": f"{duration}s",
        "seed": SEED,
        "nodes": nodes,
        "links": links,
        "flows": flows,
        "record": {"capture": ["access"]},
    }
    return {"scenario": scenario, "truth": {**truth, "queue": queue, "cc": cc, "loss": loss}}


def wireless(snr_db: float, rtt: float, transmit: str, count: int = 1, phy: Json = N20) -> Json:
    """Downloads over an access point, captured at the server."""
    queues: Json | str = (
        {"name": "qdisc", "qdisc": {"name": "fifo", "limit_packets": 300}, "driver_frames": 123}
        if transmit == "fifo"
        else "mac80211"
    )
    scenario = {
        "name": "truth",
        "duration": "20s",
        "seed": SEED,
        "nodes": [
            {"name": "server", "kind": "host"},
            {"name": "ap", "kind": "router"},
            {"name": "laptop", "kind": "host", "count": count},
        ],
        "links": [{"name": "access", "from": "server", "to": "ap", "rate": "1Gbit/s", "delay": f"{rtt / 2:.3f}ms"}],
        "wlans": [
            {
                "name": "wlan",
                "ap": "ap",
                "stations": ["laptop"],
                "signal": {"kind": "snr", "snr_db": snr_db},
                "phy": phy,
                "ap_radio": {"transmit": queues},
            }
        ],
        "flows": [{"name": "load", "from": "server", "to": "laptop", "count": count}],
        "record": {"capture": ["access"]},
    }
    return {"scenario": scenario, "truth": {"rate": None, "rtt": rtt, "packets": None, "queue": transmit, "loss": 0.0}}


NETWORKS: list[Json] = [
    wired(20, 40, packets=100),
    wired(5, 20, packets=40, cc="reno"),
    wired(2, 60, packets=20, duration=30),
    wired(10, 100, packets=60, duration=40),
    wired(50, 30, packets=400),
    wired(100, 10, packets=150, duration=10),
    wired(100, 50, packets=800),
    wired(8, 30, packets=200, duration=40),
    wired(30, 80, packets=120, cc="reno", duration=40),
    wired(20, 40, packets=150, cc="bbr"),
    wired(12, 25, packets=64, senders=(0, 20)),
    wired(40, 30, packets=250, senders=(0, 0, 40)),
    wired(1, 50, packets=30, duration=40),
    wired(200, 20, packets=500, duration=10),
    wired(20, 40, "fq_codel"),
    wired(8, 20, "fq_codel"),
    wired(50, 60, "fq_codel"),
    wired(20, 30, "fq_codel", senders=(0, 20)),
    wired(100, 20, "fq_codel", duration=10),
    wired(10, 40, "codel"),
    wired(20, 40, "pie", duration=30),
    # Long enough for some 50 losses in each half: with fewer, chance alone moves the goodput by more than a tenth.
    wired(20, 40, packets=400, loss=0.002, duration=80),
    wired(50, 20, packets=400, loss=0.002, duration=40),
    wired(10, 60, packets=200, loss=0.01, duration=120),
    wired(20, 80, packets=400, loss=0.02, duration=120),
    wired(5, 30, packets=200, loss=0.03, duration=120),
    wireless(25, 20, "fifo"),
    wireless(12, 40, "fifo"),
    wireless(20, 30, "mac80211"),
    wireless(18, 20, "fifo", 3),
]

# Written down before any of them had run, when the search for radios was finished.
HELD_OUT: list[Json] = [
    wireless(30, 15, "fifo", phy=N40),
    wireless(15, 60, "mac80211", 2),
    wireless(10, 30, "fifo", 2),
    wireless(28, 25, "mac80211", phy=AC80),
    wireless(22, 80, "fifo"),
    wireless(20, 20, "mac80211", 4),
]


def capture(scenario: Json, path: Path) -> None:
    """Runs the true network."""
    run = _airtcp.Run(_airtcp.Checked.from_json(json.dumps(scenario), "truth", []), (path, 128), False)
    run.advance(run.end_s)
    run.finish()


def scores(network: Json, twin: Twin) -> dict[str, bool | None]:
    """Which goals a twin reaches; `None` where the truth has no such value."""
    truth, found, proof = network["truth"], twin.path, twin.proof
    rtt = twin.to_dict()["path_rtt_ms"]
    return {
        "rate": None if truth["rate"] is None else abs(found.rate_bps / truth["rate"] / 1e6 - 1) <= 0.05,
        "buffer": (
            None
            if truth["packets"] is None
            else found.queue == "fifo" and abs(found.buffer_packets / truth["packets"] - 1) <= 0.1
        ),
        "drop_tail_or_aqm": (
            None if truth["rate"] is None or truth["loss"] else (truth["queue"] == "fifo") == (found.queue == "fifo")
        ),
        "rtt": None if truth["rate"] is None else abs(rtt - truth["rtt"]) <= max(1.0, 0.02 * truth["rtt"]),
        "goodput": proof.goodput_error <= 0.1,
        "rtt_p95": proof.rtt_error <= 0.2,
        "predicts": proof.goodput_error <= 0.1 and proof.rtt_error <= 0.2,
    }


def advice(network: Json, twin: Twin) -> Json:
    """Whether the advised remedy gives on the true network what was promised, within the interval of the promise.

    If nothing is advised on the twin, nothing may help on the true network either.
    """
    from airtcp.advice.capture import LONGEST_S, advise_twin
    from airtcp.advice.ranking import advise

    promised = advise_twin(twin, "twin")
    real = {key: value for key, value in network["scenario"].items() if key != "record"}
    lasts = f"{min(LONGEST_S, float(real['duration'].removesuffix('s'))):g}s"
    if promised.best is None:
        found = advise(real, duration=lasts)
        return {"outcome": promised.outcome, "true_outcome": found.outcome, "kept": found.best is None}
    name = promised.best.remedy.name
    kept = advise(real, only=[name], duration=lasts)
    if name not in kept.tried:
        return {"outcome": promised.outcome, "remedy": name, "kept": False, "why": kept.left_out.get(name)}
    assert promised.twin is not None
    promise, truth = promised.twin["gain_over_twins"], kept.gain(name)
    low, high = (truth.value if end is None else end for end in (truth.low, truth.high))
    return {
        "outcome": promised.outcome,
        "remedy": name,
        "promised": [promise["value"], promise["lo"], promise["hi"]],
        "given": [truth.value, truth.low, truth.high],
        # Both are estimates: they agree if their intervals meet.
        "kept": low <= promise["hi"] and promise["lo"] <= high,
    }


def main() -> None:
    """Prints a line for each network, and how many of how many."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--advice", action="store_true", help="hold the advice against the true network as well")
    parser.add_argument("--seeds", type=int, nargs="+", default=[SEED], help="seeds of the true networks; default: 7")
    parser.add_argument("--held-out", action="store_true", help="six Wi-Fi networks that served no development")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of networks, from 0")
    parser.add_argument("--out", type=Path, help="file for all figures, JSON")
    args = parser.parse_args()
    rows: list[Json] = []
    with tempfile.TemporaryDirectory() as folder:
        every = enumerate(HELD_OUT if args.held_out else NETWORKS)
        wanted = [(number, network) for number, network in every if not args.only or number in args.only]
        for seed, (number, known) in itertools.product(args.seeds, wanted):
            network = {**known, "scenario": {**known["scenario"], "seed": seed}}
            begin = time.monotonic()
            file = Path(folder) / "capture.pcapng"
            capture(network["scenario"], file)
            row: Json = {"network": number, "seed": seed, "truth": network["truth"]}
            try:
                twin = fit(observe(airtcp.analyze(file, points=10_000_000)))
            except NoTwinError as error:
                rows.append({**row, "error": str(error)})
                print(f"{number:2} {error}", flush=True)
                continue
            reached = scores(network, twin)
            row |= {"twin": twin.to_dict(), "reached": reached}
            if args.advice and twin.proof.holds:
                row["advice"] = advice(network, twin)
            rows.append(row)
            missed = ", ".join(name for name, value in reached.items() if value is False) or "-"
            told = row.get("advice", {})
            path = twin.path
            print(
                f"{number:2} {time.monotonic() - begin:5.1f} s  {_truth(network)} -> {path.rate_bps / 1e6:.3g} Mbit/s, "
                f"{path.queue} {path.buffer_packets:.0f}, {twin.control}; goodput {twin.proof.goodput_error:.1%}, "
                f"RTT {twin.proof.rtt_error:.1%}; missed: {missed} {told or ''}",
                flush=True,
            )
    for name in ("rate", "buffer", "drop_tail_or_aqm", "rtt", "goodput", "rtt_p95", "predicts"):
        values = [row.get("reached", {}).get(name, False) for row in rows]
        counted = [value for value in values if value is not None]
        print(f"{name}: {sum(counted)} of {len(counted)}")
    if args.advice:
        silent = [row for row in rows if "advice" not in row]
        print(f"without advice, because the twin does not predict: {len(silent)}")
        given = [row["advice"] for row in rows if "advice" in row]
        for what, is_remedy in (("the promised gain came", True), ("no remedy, and none helps in truth", False)):
            kept = [one["kept"] for one in given if ("remedy" in one) == is_remedy]
            print(f"{what}: {sum(kept)} of {len(kept)}")
    if args.out:
        args.out.write_text(json.dumps(rows, indent=2, default=_plain) + "\n")


def _truth(network: Json) -> str:
    truth = network["truth"]
    rate = "Wi-Fi" if truth["rate"] is None else f"{truth['rate']} Mbit/s"
    rest = [truth["queue"], truth["packets"], truth.get("cc"), truth["loss"]]
    return f"{rate}, {truth['rtt']} ms, {' '.join(str(one) for one in rest if one)}"


def _plain(value: object) -> object:
    number = float(value)  # type: ignore[arg-type]
    return number if math.isfinite(number) else None


if __name__ == "__main__":
    main()
