"""A confusion matrix of `airtcp analyze`: a thousand simulated connections whose cause is known, from each place.

Usage: causes.py [--rows FILE] [--connections N] [--from N] [--only N ...] [--threads N] [--page evidence/causes.md]

Each connection has a number, from which all is drawn: the cause, the congestion control, rate, round trip and queue.
Where the simulator's own account shows that the cause did not come about, as with a control that does not fill a line,
all but the cause is drawn again. A connection is captured at four places: at the sender, behind the queue, at the
receiver, and in the air where there is a radio. The capture of each place is analysed alone. A verdict is right if it
is one of those that the cause permits; "cannot tell" counts by itself; anything else is wrong.

Rows go to a file as they come, and a row that is there is not run again. --page writes the tables of that file.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from page import with_part
from twin_kernels import of_devices

import airtcp
from airtcp import _airtcp

Json = dict[str, Any]

CONTROLS = ("cubic", "reno", "bbr", "bbr3", "vegas", "dctcp", "prague", "tcp_av")
CANNOT_TELL = "cannot_tell"
UNTOLD = (CANNOT_TELL, "steady")
"""Verdicts that name no cause. `steady`: either the sender's application or a shaper, and the capture cannot tell."""
AIR = "air"
PLACES = {
    "sender": ("server->router", "router->server"),
    "behind the queue": ("far->middle", "middle->far"),
    "receiver": ("edge->client", "client->edge"),
}
"""Places of a wired network, and the devices that see both directions there."""
OF_RADIO = {"sender": PLACES["sender"], AIR: ("wlan",)}
SECONDS = 10.0


@dataclass(frozen=True)
class Cause:
    """What holds the sender of a connection back."""

    right: frozenset[str]
    """Verdicts that are right: `not_slow` where the line is full, whatever queue there is."""
    use: tuple[float, float] = (0.0, 1.0)
    """Utilisation of the line or the radio, at least and at most, with which the cause has come about."""
    has_radio: bool = False


FULL = frozenset({"not_slow", "queue"})
BUSY, IDLE = (0.9, 1.0), (0.0, 0.7)
REACHED = 0.85
"""Part of the rate that a window, a reader or a writer permits, which the flow has if that is what limits it.

A flow that has less is limited by something else most of the time, such as a control that keeps its window smaller.
Slow start takes a part of the ten seconds."""
DRAWS = 20
LINES = ("router->far", "ap->client")
CAUSES = {
    "full line": Cause(FULL, BUSY),
    "full line, active queue": Cause(FULL, BUSY),
    "receive window": Cause(frozenset({"receive_window"}), IDLE),
    "slow receiver": Cause(frozenset({"receiver_app"}), IDLE),
    "slow application": Cause(frozenset({"sender_app"}), IDLE),
    "losses": Cause(frozenset({"loss"}), IDLE),
    "outage": Cause(frozenset({"outage"})),
    "short": Cause(frozenset({"slow_start", "opening", "not_slow"})),
    "full air": Cause(FULL | {"air"}, (0.5, 1.0), has_radio=True),
    "receive window on the air": Cause(frozenset({"receive_window"}), (0.0, 0.3), has_radio=True),
}


def network(number: int, draw: int = 0) -> tuple[str, Json]:
    """The cause and the scenario of a connection."""
    rng = random.Random(1000 * number + draw)
    name = list(CAUSES)[number % len(CAUSES)]
    cause = CAUSES[name]
    rtt_ms = rng.choice([10, 20, 40, 80, 120])
    rate = rng.choice([2, 5, 10, 20, 50])
    product = max(4.0, rate * 1e6 * rtt_ms / 8e3 / 1500)
    control = rng.choice(CONTROLS)
    flow: Json = {"name": "flow", "from": "server", "to": "client", "tcp": {"cc": control}, "receiver": {}}
    line: Json = {"rate": f"{rate}Mbit/s", "queue": {"name": "fifo", "limit_packets": round(product) + 10}}
    loss = 0.0
    match name:
        case "full line":
            line["queue"]["limit_packets"] = round(rng.uniform(1, 4) * product) + 10
        case "full line, active queue":
            line["queue"] = rng.choice(["fq_codel", "codel", "pie"])
        case "receive window" | "receive window on the air":
            window = max(3 * 1460, round(rng.uniform(0.1, 0.4) * product * 1460))
            if cause.has_radio:
                # A radio of 802.11n at this signal has 20 Mbit/s and more.
                window = round(rng.uniform(0.1, 0.3) * 20e6 * rtt_ms / 8e3)
            flow["receiver"] = dict.fromkeys(("receive_buffer", "receive_buffer_max"), f"{max(4380, window)}B")
        case "slow receiver":
            flow["read_rate"] = f"{rng.uniform(0.1, 0.4) * rate:.3f}Mbit/s"
            flow["receiver"] = dict.fromkeys(("receive_buffer", "receive_buffer_max"), "131072B")
        case "slow application":
            share = rng.uniform(0.05, 0.4)
            every = rng.choice([20, 40, 100])
            flow["traffic"] = {"kind": "stream", "rate": f"{share * rate:.3f}Mbit/s", "every": f"{every}ms"}
        case "losses":
            # By the square-root law (Mathis 1997) far below the rate, for controls that answer losses.
            flow["tcp"]["cc"] = rng.choice(["cubic", "reno", "vegas"])
            line["rate"] = "100Mbit/s"
            line["queue"]["limit_packets"] = 1000
            loss = rng.uniform(0.02, 0.05)
        case "outage":
            # Most of the time, so that nothing else is the cause.
            begin = rng.uniform(0.5, 1.5)
            line["rate_trace"] = {"points": [[0, rate], [begin, 0], [begin + rng.uniform(6, 7), rate]]}
        case "short":
            rtt_ms = rng.choice([80, 120, 200])
            line["rate"] = "100Mbit/s"
            line["queue"]["limit_packets"] = 1000
            flow["traffic"] = {"kind": "transfer", "bytes": f"{rng.randint(60, 200) * 1000}B"}
    return name, scenario(number, flow, line, rtt_ms, loss, has_radio=cause.has_radio)


def scenario(number: int, flow: Json, line: Json, rtt_ms: float, loss: float, *, has_radio: bool) -> Json:
    """A sender, a queue, a way, and a receiver. Each place of capture sees both directions at about one time."""
    fast: Json = {"rate": "10Gbit/s", "delay": "10us"}
    way: Json = {"rate": "10Gbit/s", "delay": f"{rtt_ms / 2:.3f}ms"}
    hosts = [{"name": name, "kind": "host"} for name in ("server", "client")]
    if has_radio:
        air: Json = {"signal": {"kind": "snr", "snr_db": 25}, "phy": {"standard": "n", "width_mhz": 20}}
        return {
            "name": "cause",
            "seed": number,
            "duration": f"{SECONDS:g}s",
            "nodes": [*hosts, {"name": "router", "kind": "router"}, {"name": "ap", "kind": "router"}],
            "links": [
                {"from": "server", "to": "router", **fast},
                {"from": "router", "to": "ap", **way},
            ],
            "wlans": [{"name": "wlan", "ap": "ap", "stations": ["client"], **air}],
            "flows": [flow],
            "record": {"capture": [PLACES["sender"][0], PLACES["sender"][1]], "capture_air": ["wlan"]},
        }
    return {
        "name": "cause",
        "seed": number,
        "duration": f"{SECONDS:g}s",
        "nodes": [*hosts, *({"name": name, "kind": "router"} for name in ("router", "far", "middle", "edge"))],
        "links": [
            {"from": "server", "to": "router", **fast},
            {
                "from": "router",
                "to": "far",
                "delay": "10us",
                "reverse": {"queue": "fifo", "rate": "1Gbit/s"},
                **line,
            },
            {"from": "far", "to": "middle", **fast},
            {"from": "middle", "to": "edge", **way, "loss": loss, "reverse": {"loss": 0.0}},
            {"from": "edge", "to": "client", **fast},
        ],
        "flows": [flow],
        "record": {"capture": [device for devices in PLACES.values() for device in devices]},
    }


def has_come_about(cause: Cause, flow: Json, tables: Json) -> bool:
    """Whether the simulator's own account shows the cause: the line's use, and the rate that it leaves to the flow."""
    links, account = tables["links"], tables["flows"]
    use = max(use for line, use in zip(links["name"], links["utilisation"], strict=True) if line in LINES)
    goodput_bps = float(account["goodput_bps"][0])
    most_bps = goodput_bps
    if "read_rate" in flow:
        most_bps = _mbit(flow["read_rate"])
    elif "rate" in flow.get("traffic", {}):
        most_bps = _mbit(flow["traffic"]["rate"])
    elif "receive_buffer" in flow["receiver"]:
        window = float(flow["receiver"]["receive_buffer"].removesuffix("B"))
        most_bps = window * 8e3 / float(account["rtt_mean_ms"][0])
    return bool(cause.use[0] <= use <= cause.use[1] and goodput_bps >= REACHED * most_bps)


def _mbit(rate: str) -> float:
    return 1e6 * float(rate.removesuffix("Mbit/s"))


def verdicts(number: int) -> list[Json]:
    """The rows of a connection: one for each place."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole.pcapng"
        for draw in range(DRAWS):
            name, document = network(number, draw)
            cause = CAUSES[name]
            run = _airtcp.Run(_airtcp.Checked.from_json(json.dumps(document), "cause", []), (whole, 192), False)
            run.advance(run.end_s)
            if has_come_about(cause, document["flows"][0], run.finish().tables):
                break
        else:
            raise SystemExit(f"connection {number}: {name} does not come about in {DRAWS} draws")
        data = whole.read_bytes()
        for place, devices in (OF_RADIO if cause.has_radio else PLACES).items():
            one = Path(folder) / "place.pcapng"
            one.write_bytes(b"".join(of_devices(data, devices)))
            rows.append(
                {
                    "number": number,
                    "cause": name,
                    "place": place,
                    "control": document["flows"][0]["tcp"]["cc"],
                    "verdict": verdict(one),
                }
            )
    return rows


def verdict(path: Path) -> str:
    """The verdict on the flow that carries most."""
    why = airtcp.analyze(path).totals["why"]
    return str(why[0]["verdict"] or CANNOT_TELL) if why else CANNOT_TELL


def judged(row: Json) -> str:
    """Whether a verdict is right."""
    right = CAUSES[row["cause"]].right
    # Behind a full line, it is the shaper before the capture.
    if row["verdict"] in right or (right == FULL and row["verdict"] == "paced" and row["place"] != "sender"):
        return "right"
    return "cannot tell" if row["verdict"] in UNTOLD else "wrong"


def shares(rows: Iterable[Json], by: str) -> list[str]:
    """Lines of a table: right, cannot tell and wrong, for each value of a column and for all."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for row in rows:
        counts[row[by]][judged(row)] += 1
        counts["all"][judged(row)] += 1
    out = [f"| {by} | connections | right | cannot tell | wrong |", "|---|---|---|---|---|"]
    for value in [*sorted(set(counts) - {"all"}), "all"]:
        total = counts[value].total()
        told = (f"{100 * counts[value][kind] / total:.1f} %" for kind in ("right", "cannot tell", "wrong"))
        out.append(f"| {value} | {total} | {' | '.join(told)} |")
    return out


def matrix(rows: Iterable[Json]) -> list[str]:
    """Lines of a table: how often each verdict was given for each cause."""
    counts = collections.Counter((row["cause"], row["verdict"]) for row in rows)
    named = sorted({verdict for _, verdict in counts})
    out = [f"| cause | {' | '.join(named)} |", "|---" * (len(named) + 1) + "|"]
    return out + [f"| {cause} | {' | '.join(str(counts[cause, name]) for name in named)} |" for cause in CAUSES]


def write_page(page: Path, rows: list[Json]) -> None:
    """Writes the tables into the page."""
    parts = [shares(rows, by) for by in ("place", "cause", "control")]
    body = "\n\n".join("\n".join(lines) for lines in [*parts, matrix(rows)])
    page.write_text(with_part(page.read_text(), "causes", body))


def main() -> None:
    """Runs the connections that are missing, and prints the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=Path("runs/causes.jsonl"), metavar="FILE")
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--from", type=int, default=0, dest="first", help="number of the first connection")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of connections")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    args.rows.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in args.rows.read_text().splitlines()] if args.rows.exists() else []
    known = {row["number"] for row in rows}
    missing = [
        number for number in args.only or range(args.first, args.first + args.connections) if number not in known
    ]
    with ThreadPoolExecutor(args.threads) as pool, args.rows.open("a") as file:
        jobs = [pool.submit(verdicts, number) for number in missing]
        for done, job in enumerate(as_completed(jobs), 1):
            found = job.result()
            # All rows of a connection in one write: a run that is broken off leaves no half.
            file.write("".join(f"{json.dumps(row)}\n" for row in found))
            file.flush()
            rows += found
            print(f"\r{done} of {len(jobs)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print("\n".join(shares(rows, "place")))
    print("\n".join(matrix(rows)))
    for row in rows:
        if judged(row) == "wrong":
            print(f"wrong: {row['number']} {row['cause']}, {row['control']}, at {row['place']}: {row['verdict']}")
    if args.page is not None:
        write_page(args.page, rows)


if __name__ == "__main__":
    main()
