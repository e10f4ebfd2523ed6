"""Twins of networks with known truth: how many are found, how many predict, and how many advices hold.

Usage: twins.py [--advice] [--only N ...] [--seeds N ...] [--held-out | --bursts] [--simulated | --kernel K] ...
       twins.py --table FILE ... [--page evidence/twins.md]

Thirty networks are captured at the sender. In sixteen of them TCP is a real kernel's, through an emulated bottleneck:
this machine's, between namespaces and in real time, which a busy machine spoils; or with --kernel 6.12 one that
tools/uml/build.py has built, in virtual time. With --simulated all are simulated. The twin is fitted on the first half.
Counted is how many estimates are within 5 % of the rate, 10 % of the buffer, 1 ms or 2 % of the round trip. So is how
many predictions are within 10 % of the goodput and 20 % of the 95th percentile of the round trip of the second half.
With --advice the advised remedy is then put on the true network as well, and its gain held against the promise. Where
no remedy is advised, all are tried there. A row has as `advice` what came of it on the simulated network, and as
`with_kernels` what came of it with real kernels. With --at-receiver all is simulated, and captured where the data
arrives.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import math
import platform
import re
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import twin_kernels

import airtcp
from airtcp import _airtcp
from airtcp.advice.capture import LONGEST_S, advise_twin
from airtcp.advice.fit import Twin, fit
from airtcp.advice.observed import NoTwinError, observe
from airtcp.advice.ranking import advise

Json = dict[str, Any]

SEED = 7
KERNEL_RUNS = 2
"""Runs in real time of each remedy."""
VIRTUAL_RUNS = 4
"""Runs in virtual time of each remedy where losses are random: two leave an interval that no promise can miss."""

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
    cross: float = 0.0,
    kernel: bool = False,
) -> Json:
    """Senders before one line of `rate` Mbit/s.

    Args:
        rate: of the line, Mbit/s.
        rtt: of the empty path, ms.
        queue: before the line.
        packets: that it holds, of `fifo`.
        loss: random, of each packet on the line.
        cc: congestion control.
        senders: how many ms of round trip each has more.
        duration: of the capture, s.
        cross: datagrams at this constant rate, Mbit/s, which the capture does not show.
        kernel: whether the hosts are Linux kernels.
    """
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
    if cross:
        nodes += [{"name": "other", "kind": "host"}, {"name": "sink", "kind": "host"}]
        links += [
            {"name": "others", "from": "other", "to": "router", "rate": "10Gbit/s", "delay": "20us"},
            {"name": "sink", "from": "far", "to": "sink", "rate": "10Gbit/s", "delay": "20us"},
        ]
        flows.append(
            {"name": "cross", "from": "other", "to": "sink", "traffic": {"kind": "cbr", "rate": f"{cross}Mbit/s"}}
        )
    # Datagrams at a constant rate take their part of the line, and of a queue that serves all alike.
    left = 1 - cross / rate
    truth = {
        "rate": rate * left,
        "rtt": rtt + min(senders),
        "packets": packets * left if queue == "fifo" and not loss else None,
        "kernel": kernel,
        "cross": cross,
    }
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
    truth = {"rate": None, "rtt": rtt, "packets": None, "kernel": False, "queue": transmit, "loss": 0.0}
    return {"scenario": scenario, "truth": truth}


def bursts(
    rate: float,
    rtt: float,
    packets: int,
    every_ms: int,
    count: int,
    *,
    duration: float,
    cc: str = "cubic",
    start_s: float = 3.0,
) -> Json:
    """A sender before one line, and a short queue behind it that trains of `count` datagrams fill every so often.

    So packets are lost in bursts, wherever the line's queue stands. Until `start_s` there are none.
    """
    network = wired(rate, rtt, packets=packets, cc=cc, duration=duration)
    scenario = network["scenario"]
    last = 2.5 * rate
    plain = {"queue": "fifo", "rate": "1Gbit/s", "loss": 0.0}
    scenario["nodes"] += [{"name": "edge", "kind": "router"}]
    scenario["nodes"] += [{"name": name, "kind": "host"} for name in ("other", "sink")]
    exits = [link for link in scenario["links"] if link["name"].startswith("exit-")]
    for link in exits:
        link["from"] = "edge"
    short = {"name": "fifo", "limit_packets": 2}
    scenario["links"] += [
        {"from": "far", "to": "edge", "rate": f"{last}Mbit/s", "delay": "10us", "queue": short, "reverse": plain},
        {"from": "other", "to": "far", "rate": "10Gbit/s", "delay": "20us"},
        {"from": "edge", "to": "sink", "rate": "10Gbit/s", "delay": "10us"},
    ]
    train = {"kind": "train", "count": count, "every": f"{every_ms}ms", "gap": f"{round(1500 * 8 / last)}us"}
    start = f"{start_s:g}s"
    scenario["flows"].append({"name": "cross", "from": "other", "to": "sink", "start": start, "traffic": train})
    return {"scenario": scenario, "truth": {**network["truth"], "packets": None, "loss": "in bursts"}}


NETWORKS: list[Json] = [
    wired(20, 40, packets=100, kernel=True),
    wired(5, 20, packets=40, cc="reno", kernel=True),
    wired(2, 60, packets=20, duration=30, kernel=True),
    wired(10, 100, packets=60, duration=40, kernel=True),
    wired(50, 30, packets=400, cross=10),
    wired(100, 10, packets=150, duration=10),
    wired(100, 50, packets=800),
    wired(8, 30, packets=200, duration=40, kernel=True),
    wired(30, 80, packets=120, cc="reno", duration=40),
    wired(20, 40, packets=150, cc="bbr", kernel=True),
    wired(12, 25, packets=64, senders=(0, 20), kernel=True),
    wired(40, 30, packets=250, senders=(0, 0, 40)),
    wired(1, 50, packets=30, duration=40, kernel=True),
    wired(200, 20, packets=500, duration=10),
    wired(20, 40, "fq_codel", kernel=True),
    wired(8, 20, "fq_codel", cross=1, kernel=True),
    wired(50, 60, "fq_codel"),
    wired(20, 30, "fq_codel", senders=(0, 20), kernel=True),
    wired(100, 20, "fq_codel", duration=10),
    wired(10, 40, "codel", kernel=True),
    wired(20, 40, "pie", duration=30, kernel=True),
    # Some 50 losses in each half: chance alone moves the goodput of a half by more than a tenth.
    wired(20, 40, packets=400, loss=0.002, duration=80),
    wired(50, 20, packets=400, loss=0.002, duration=40),
    wired(10, 60, packets=200, loss=0.01, duration=120, kernel=True),
    wired(20, 80, packets=400, loss=0.02, duration=120, kernel=True),
    wired(5, 30, packets=200, loss=0.03, duration=120, kernel=True),
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

# Written down after the random loss was counted instead of searched, and before any of them had run.
HELD_OUT += [
    wired(15, 35, packets=150, loss=0.005, duration=80),
    wired(30, 25, packets=200, loss=0.01, duration=80),
    wired(8, 50, packets=100, loss=0.015, duration=120, kernel=True),
    wired(25, 15, packets=120, loss=0.02, duration=60, cc="reno"),
    wired(10, 30, "fq_codel", loss=0.01, duration=80, kernel=True),
    wired(20, 25, packets=120, loss=0.01, duration=60, cc="bbr"),
    wired(6, 45, packets=50, kernel=True),
    wired(15, 30, "codel", kernel=True, duration=30),
]


def _bursts(start_s: float) -> list[Json]:
    return [
        bursts(20, 40, 300, 611, 20, duration=60, start_s=start_s),
        bursts(10, 60, 200, 1303, 24, duration=80, start_s=start_s),
        bursts(40, 25, 400, 401, 30, duration=40, start_s=start_s),
        bursts(5, 30, 100, 907, 16, duration=100, cc="reno", start_s=start_s),
        bursts(15, 30, 250, 787, 24, duration=60, start_s=start_s),
        bursts(30, 60, 500, 997, 28, duration=60, start_s=start_s),
    ]


# The first two served the estimate of bursts, and the others did not. The last six are the same networks with bursts
# from the start, so that both halves of a capture are alike.
BURSTS: list[Json] = [*_bursts(3.0), *_bursts(0.0)]


def at_receiver(network: Json, *, timestamps: bool) -> Json:
    """A wired network with the capture where its data arrives."""
    network = copy.deepcopy(network)
    scenario = network["scenario"]
    exits = [link["name"] for link in scenario["links"] if link.get("name", "").startswith("exit-")]
    scenario["record"] = {"capture": exits}
    for flow in scenario["flows"]:
        if flow["name"].startswith("flow-"):
            flow["tcp"]["timestamps"] = timestamps
    return network


def capture(network: Json, path: Path, kernel: str | None = None) -> Json | None:
    """Runs the true network; if its TCP is a kernel's, returns the verdict on its time."""
    scenario = network["scenario"]
    if network["truth"]["kernel"] and kernel is not None:
        return twin_kernels.capture(scenario, path, kernel)
    run = _airtcp.Run(_airtcp.Checked.from_json(json.dumps(scenario), "truth", []), (path, 128), False)
    run.advance(run.end_s)
    run.finish()
    return None


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


def advice(network: Json, twin: Twin, kernel: str | None = None) -> Json:
    """Whether the advised remedy gives on the true network what was promised, within the interval of the promise.

    If nothing is advised on the twin, nothing may help on the true network either.
    """
    promised = advise_twin(twin, "twin")
    real = {key: value for key, value in network["scenario"].items() if key != "record"}
    more: Json = {"duration": f"{min(LONGEST_S, float(real['duration'].removesuffix('s'))):g}s"}
    only: list[str] | None = None
    if network["truth"]["kernel"] and kernel is not None:
        # In virtual time runs without random losses are alike.
        in_virtual_time = VIRTUAL_RUNS if network["truth"]["loss"] else 1
        runs = KERNEL_RUNS if kernel == twin_kernels.HERE else in_virtual_time
        more |= {"seeds": runs, "most_seeds": runs, "threads": 2 * KERNEL_RUNS}
        more["run"] = lambda network, seed: twin_kernels.sample(network, seed, kernel)
        only = twin_kernels.TRIED
    if promised.best is None:
        found = advise(real, only=only, **more)
        return {"outcome": promised.outcome, "true_outcome": found.outcome, "kept": found.best is None}
    name = promised.best.remedy.name
    if only is not None and not twin_kernels.can_have(name):
        return {"outcome": promised.outcome, "remedy": name, "kept": False, "why": "the kernels cannot have it"}
    kept = advise(real, only=[name], **more)
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
    parser.add_argument("--held-out", action="store_true", help="networks that served no development")
    parser.add_argument("--bursts", action="store_true", help="networks that lose packets in bursts")
    parser.add_argument(
        "--at-receiver",
        choices=("timestamps", "plain"),
        help="capture wired networks there, with timestamps or without",
    )
    parser.add_argument("--simulated", action="store_true", help="no TCP is a kernel's")
    parser.add_argument("--kernel", default=twin_kernels.HERE, help="version, in virtual time (default: %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the captures there")
    parser.add_argument("--captures", type=Path, metavar="DIR", help="take those that --keep has left there")
    parser.add_argument(
        "--apply", choices=("both", "real", "simulated"), default="both", help="where remedies are tried out"
    )
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="networks at a time")
    parser.add_argument("--table", type=Path, nargs="+", metavar="FILE", help="only count what --out has written")
    parser.add_argument("--page", type=Path, metavar="FILE", help="with --table: write the table there")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of networks, from 0")
    parser.add_argument("--out", type=Path, help="file for all figures, JSON")
    args = parser.parse_args()
    if args.table:
        known = [row for file in args.table for row in json.loads(file.read_text())["rows"]]
        if args.page is not None:
            write_table(args.page, known)
        return told(known)
    every = enumerate(BURSTS if args.bursts else HELD_OUT if args.held_out else NETWORKS)
    wanted = [(number, network) for number, network in every if not args.only or number in args.only]
    if args.at_receiver:
        args.simulated = True
        wired_ones = [(number, network) for number, network in wanted if "wlans" not in network["scenario"]]
        wanted = [(n, at_receiver(network, timestamps=args.at_receiver == "timestamps")) for n, network in wired_ones]
    with ThreadPoolExecutor(args.at_once) as pool:
        asked = [
            pool.submit(one, number, {**network, "scenario": {**network["scenario"], "seed": seed}}, args)
            for seed, (number, network) in itertools.product(args.seeds, wanted)
        ]
        rows: list[Json] = []
        for done in as_completed(asked):
            rows.append(done.result())
            rows.sort(key=lambda row: (row["seed"], row["network"]))
            if args.out:
                linux = platform.release() if args.kernel == twin_kernels.HERE else f"{args.kernel}, in virtual time"
                about = {"engine": _airtcp.engine(), "kernel": linux, "held_out": args.held_out}
                args.out.write_text(json.dumps({**about, "rows": rows}, indent=1, default=_plain) + "\n")
    told(rows)


def one(number: int, network: Json, args: argparse.Namespace) -> Json:
    """Captures a network, finds its twin, and tells how near that is."""
    begin = time.monotonic()
    seed = network["scenario"]["seed"]
    row: Json = {"network": number, "seed": seed, "truth": network["truth"]}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "capture.pcapng"
        kernel = None if args.simulated else args.kernel
        kept = None if args.captures is None else args.captures / f"{number}-{seed}.pcapng"
        if kept is not None and kept.exists():
            shutil.copy(kept, file)
            row["captured"] = "before"
        elif (verdict := capture(network, file, kernel)) is not None:
            row["time"] = verdict
        if args.keep:
            shutil.copy(file, args.keep / f"{number}-{seed}.pcapng")
        try:
            twin = fit(observe(airtcp.analyze(file, points=10_000_000)))
        except NoTwinError as error:
            print(f"{number:2} {error}", flush=True)
            return {**row, "error": str(error)}
    reached = scores(network, twin)
    row |= {"twin": twin.to_dict(), "reached": reached}
    if args.advice and twin.proof.holds:
        if args.apply != "real":
            row["advice"] = advice(network, twin)
        if args.apply != "simulated" and network["truth"]["kernel"] and kernel is not None:
            row["with_kernels"] = advice(network, twin, kernel)
    missed = ", ".join(name for name, value in reached.items() if value is False) or "-"
    path = twin.path
    print(
        f"{number:2} {seed} {time.monotonic() - begin:5.1f} s  {_truth(network)} -> {path.rate_bps / 1e6:.3g} Mbit/s, "
        f"{path.queue} {path.buffer_packets:.0f}, {twin.control}; goodput {twin.proof.goodput_error:.1%}, "
        f"RTT {twin.proof.rtt_error:.1%}; missed: {missed} {row.get('advice', '')} "
        f"{row.get('with_kernels', '')} {row.get('time', '')}",
        flush=True,
    )
    return row


def told(rows: list[Json]) -> None:
    """Prints how many of how many, by seed."""
    seeds = sorted({row["seed"] for row in rows})
    for what, values in counts(rows).items():
        by_seed = [[value for seed, value in values if seed == wanted] for wanted in seeds]
        print(f"{what}: {', '.join(f'{sum(some)} of {len(some)}' for some in by_seed)} (seeds {seeds})")


def counts(rows: list[Json]) -> dict[str, list[tuple[int, bool]]]:
    """By goal: seed and whether it was reached, for each network that has such a value."""
    found: dict[str, list[tuple[int, bool]]] = {}
    for name in ("rate", "buffer", "drop_tail_or_aqm", "rtt", "goodput", "rtt_p95", "predicts"):
        pairs = [(row["seed"], row.get("reached", {}).get(name, False)) for row in rows]
        found[name] = [(seed, value) for seed, value in pairs if value is not None]
    for where, label in (("advice", ""), ("with_kernels", ", with kernels")):
        given = [(row["seed"], row[where]) for row in rows if where in row]
        if given:
            found[f"the promised gain came{label}"] = [(seed, said["kept"]) for seed, said in given if "remedy" in said]
            silent = [(seed, said["kept"]) for seed, said in given if "remedy" not in said]
            found[f"no remedy, and none helps in truth{label}"] = silent
            of_all = [row for row in rows if where == "advice" or where in row]
            found[f"promise kept, of all networks{label}"] = [
                (row["seed"], row.get(where, {}).get("kept", False)) for row in of_all
            ]
    if any("with_kernels" in row for row in rows):
        found["promise kept, on the network itself"] = [
            (row["seed"], row.get("with_kernels" if row["truth"]["kernel"] else "advice", {}).get("kept", False))
            for row in rows
        ]
    return found


TABLE: dict[str, str] = {
    "rate": "rate within 5 %, of wired networks",
    "rtt": "round trip within 1 ms or 2 %, of wired networks",
    "buffer": "buffer within 10 %, of those with drop-tail and no random loss",
    "drop_tail_or_aqm": "drop-tail or active queue",
    "goodput": "goodput of the unseen half within 10 %",
    "rtt_p95": "95th percentile of the RTT within 20 %",
    "predicts": "both",
    "the promised gain came": "a remedy is advised, and gives on the simulated truth what was promised",
    "no remedy, and none helps in truth": "nothing is advised, and no remedy helps on the simulated truth",
    "promise kept, of all networks": "so the advice holds, of all",
    "the promised gain came, with kernels": "a remedy is advised, and gives with real kernels what was promised",
    "no remedy, and none helps in truth, with kernels": "nothing is advised, and no remedy helps with real kernels",
    "promise kept, of all networks, with kernels": "so the advice holds, of those tried with kernels",
    "promise kept, on the network itself": "it holds on the network that was captured, kernels' or simulated, of all",
}
"""Words of the page for what is counted."""
PLACE = re.compile(r"(<!-- twins: [^\n]* -->\n).*?(<!-- end of twins -->)", re.DOTALL)


def write_table(page: Path, rows: list[Json]) -> None:
    """Writes the table of the first seed into a page, between its marks."""
    seed = min(row["seed"] for row in rows)
    found = counts([row for row in rows if row["seed"] == seed])
    lines = [
        f"| {words} | {sum(value for _, value in found[name])} of {len(found[name])} |\n"
        for name, words in TABLE.items()
        if found.get(name)
    ]
    kernels = [row for row in rows if row["seed"] == seed and row["truth"]["kernel"]]
    predict = sum(row.get("reached", {}).get("predicts", False) for row in kernels)
    lines.append(f"| the prediction holds in both, of those with kernels | {predict} of {len(kernels)} |\n")
    table = "| goal | reached |\n|---|---|\n" + "".join(lines)
    text, number = PLACE.subn(lambda match: f"{match[1]}\n{table}\n{match[2]}", page.read_text())
    if number != 1:
        raise SystemExit(f"{page}: must have the marks of the table once")
    page.write_text(text)


def _truth(network: Json) -> str:
    truth = network["truth"]
    rate = "Wi-Fi" if truth["rate"] is None else f"{truth['rate']} Mbit/s"
    rate = f"kernel's, {rate}" if truth["kernel"] else rate
    rest = [truth["queue"], truth["packets"], truth.get("cc"), truth["loss"]]
    return f"{rate}, {truth['rtt']} ms, {' '.join(str(one) for one in rest if one)}"


def _plain(value: object) -> object:
    number = float(value)  # type: ignore[arg-type]
    return number if math.isfinite(number) else None


if __name__ == "__main__":
    main()
