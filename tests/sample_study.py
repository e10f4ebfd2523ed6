"""A study's output as `airtcp study run` writes it, with made-up numbers: every kind of plot, verdict and gap."""

from __future__ import annotations

import math
import random
from typing import Any

VARIANTS = ("normal: Reno", "normal: Pacing", "sqrtN: Reno", "sqrtN: Pacing")
COMMAND = "airtcp study run pacing-buffers --full"

Json = dict[str, Any]


def curve(rng: random.Random, name: str, xs: list[Any], top: float, shape: float, *, gap: int | None = None) -> Json:
    """A mean with its interval over five seeds; the point `gap` ran with one seed only."""
    y = [top * (1 - math.exp(-shape * (i + 1) / len(xs))) for i in range(len(xs))]
    half = [0.02 * top * (0.5 + rng.random()) for _ in xs]
    lo = [None if i == gap else a - b for i, (a, b) in enumerate(zip(y, half, strict=True))]
    hi = [None if i == gap else a + b for i, (a, b) in enumerate(zip(y, half, strict=True))]
    return {"name": name, "x": xs, "y": y, "lo": lo, "hi": hi, "n": [1 if i == gap else 5 for i in range(len(xs))]}


def axis(label: str, unit: str | None = None, scale: str = "linear", range_: list[float] | None = None) -> Json:
    return {"label": label, "unit": unit, "scale": scale, "range": range_}


def finding(experiment: str, figure: str | None, claim: str, verdict: str | None, **more: Any) -> Json:
    identity = more.pop("id", f"{figure or experiment}-{'-'.join(claim.lower().split()[:4])}".replace("/", "-"))
    measured = (
        None
        if verdict is None
        else {"reproduced": -2.431, "mixed": 0.204, "not": 1.93, "open": 0.04, "identity": 0.0}[verdict]
    )
    return {
        "id": identity,
        "experiment": experiment,
        "figure": figure,
        "claim": claim,
        "published": "about 2 percentage points lower, more so with many flows",
        "source": "Yamada and Sato 2010",
        "measured": measured,
        "measured_text": None
        if measured is None or experiment == "web-flows"
        else f"n=500: 1.21 vs 3.64 %: {measured:.2f} [{measured - 0.11:.2f}, {measured + 0.11:.2f}]; "
        f"n=1500: {measured:.2f} %",
        "ci95": None if measured is None else [measured - 0.11, measured + 0.11],
        "unit": "%",
        "verdict": verdict,
        "verdict_text": {"mixed": "mixed 1 of 2", "open": "open, about 7 more seeds"}.get(verdict or "", verdict),
        "more_seeds": 7 if verdict == "open" else None,
        "note": None,
        "checks": [
            {
                "text": f"loss('sqrtN: Pacing', n=n) < loss('sqrtN: Reno', n=n) - {i}",
                "for": {"n": n},
                "left": 1.21,
                "right": 3.64,
                "measured": measured,
                "ci95": [measured - 0.1, measured + 0.1],
                "holds": verdict != "not" and not (verdict == "mixed" and i),
                "settled": verdict != "open",
            }
            for i, n in enumerate((500, 1500))
            if measured is not None
        ],
    } | more


LONG_NOTE = (
    "The source does not say how arrivals and departures at the same instant are ordered. With a fixed order the first "
    "flow of each group keeps its place in the queue and the losses of the others synchronise; with a coin they do not "
    "(experiment `ties`). The receive window matters as well: below 64 KB it bounds the flows before the buffer "
    "does.\n\n"
    "Neither explains the figure at n = 500 alone."
)


def matrix() -> Json:
    """Three variants in two scenes: advised, harmful, absent, and a base that needs nothing."""

    def estimate(value: float, half: float = 0.1) -> Json:
        return {"value": value, "lo": value - half, "hi": value + half}

    def cell(latency: float, goodput: float, gains: tuple[float, float] | None, *harmed: str) -> Json:
        parts = {"latency": estimate(latency, 0.1 * latency), "goodput": estimate(goodput)}
        if gains is not None:
            for part, gain in zip(parts.values(), gains, strict=True):
                part["gain"] = estimate(gain)
        return {
            "measures": parts,
            "score": None if gains is None else estimate(sum(gains), 0.2),
            "harmed": list(harmed),
        }

    def row(variant: str, *cells: Json | None, changes: tuple[str, ...] = ("station",)) -> Json:
        return {
            "variant": variant,
            "title": variant,
            "changes": list(changes),
            "text": f"what {variant} is",
            "cells": list(cells),
        }

    def measure(name: str, unit: str, better: str, enough: float | None) -> Json:
        return {
            "name": name,
            "title": name.capitalize(),
            "label": f"{name.capitalize()} of the call",
            "unit": unit,
            "better": better,
            "enough": enough,
            "harm": 1.33,
            "weight": 1,
        }

    return {
        "id": "which",
        "title": "Which sender when",
        "text": "Rows are senders, columns are scenes.",
        "margin": 1.25,
        "measures": [measure("latency", "ms", "less", 50), measure("goodput", "Mbit/s", "more", None)],
        "scenes": [
            {"experiment": "today", "title": "A busy evening", "text": "all of them at once"},
            {"experiment": "ties", "title": "Alone", "text": ""},
        ],
        "groups": [
            {
                "title": "Hosts of 2010",
                "text": "against plain Reno",
                "base": "plain <Reno>",
                "rows": [
                    row("plain <Reno>", cell(800, 10, None), cell(20, 100, None)),
                    row("paced", cell(100, 9, (3, -0.15)), cell(21, 99, (0, -0.01))),
                    row("small window", cell(60, 2, (3.7, -2.3), "goodput"), cell(10, 40, (0, -1.3), "goodput")),
                    row("queue", cell(110, 10, (2.9, 0)), None, changes=("router", "station")),
                ],
                "advice": [
                    {"outcome": "remedy", "variants": ["paced", "queue"], "if_twice": {"goodput": "queue"}},
                    {"outcome": "fine", "variants": [], "if_twice": {}},
                ],
            }
        ],
    }


def study(*, points: int = 30_000, status: str = "complete") -> Json:
    """The whole of it; `points` is the size of the cloud of figure 4."""
    rng = random.Random(1)
    n = [100, 200, 300, 500, 700, 1000, 1500]
    experiments: list[Json] = []
    findings: list[Json] = []

    def experiment(identity: str, title: str, kind: str, plots: list[Json], own: list[Json], **more: Any) -> None:
        figures = [p["figure"] for p in plots if p.get("figure")]
        experiments.append(
            {
                "id": identity,
                "title": title,
                "text": "Access links of the bottleneck's rate, 5 ms each; packets of 1000 bytes. The buffer follows "
                "the rule of the variant, from two-way propagation.\n\nEvery point is the mean over the seeds after a "
                "warm-up that is found by MSER-5 and removed.",
                "kind": kind,
                "figures": figures,
                "command": f"{COMMAND} --figure {' '.join(figures)}" if figures else COMMAND,
                "runs": 140,
                "seeds": "1 to 5",
                "plots": plots,
                "findings": [f["id"] for f in own],
            }
            | more
        )
        findings.extend(own)

    def lines(
        figure: str, y: Json, top: float, x: Json | None = None, xs: list[Any] | None = None, **more: Any
    ) -> Json:
        return {
            "id": f"fig{figure}",
            "figure": figure,
            "title": more.pop("title", f"{y['label']} over {(x or {'label': 'number of flows'})['label']}"),
            "caption": more.pop("caption", None),
            "kind": "line",
            "x": x or axis("Number of flows"),
            "y": y,
            "series": [
                curve(rng, variant, xs or n, top * (0.6 + 0.13 * i), 1.5 + i, gap=3 if i == 1 else None)
                for i, variant in enumerate(VARIANTS)
            ],
        } | more

    utilisation = axis("Utilisation", "%", range_=[0, 105])
    loss, transfer = axis("Loss", "%"), axis("Transfer time", "s")
    rate = axis("Bottleneck rate", "Mbit/s", "log")
    buffer = axis("Buffer", "packets", "log")
    size = axis("Transfer size", "KB")
    rates, buffers, sizes = [50, 100, 250, 500, 1000], [193, 387, 750, 1500, 3750, 7500], [10, 20, 50, 100, 150, 200]

    experiment(
        "p2p-flows",
        "Unlimited senders: utilisation and loss over the number of flows",
        "paper",
        [
            lines("3a", utilisation, 95, caption="C = 100 Mbit/s, D = 90 ms. The axis begins at zero."),
            lines("3b", loss, 4),
        ],
        [
            finding("p2p-flows", "3a", "sqrtN Reno reaches about 100 % utilisation as n grows", "reproduced"),
            finding("p2p-flows", "3a", "sqrtN Pacing does not reach it: losses synchronise", "mixed", note=LONG_NOTE),
            finding("p2p-flows", "3b", "Pacing lowers loss, for either buffer, more so with n", "reproduced"),
        ],
    )
    per_variant = points // len(VARIANTS)
    experiment(
        "loss-instants",
        "When each flow loses packets",
        "paper",
        [
            {
                "id": "fig4",
                "figure": "4",
                "title": "Loss instants of every flow, n = 1000",
                "caption": "One dot for each dropped packet.",
                "kind": "scatter",
                "x": axis("Time", "s"),
                "y": axis("Flow"),
                "series": [
                    {
                        "name": variant,
                        "x": [
                            rng.choice([rng.uniform(20, 60), 4 * rng.randint(5, 15) + rng.gauss(0, 0.15)])
                            for _ in range(per_variant)
                        ],
                        "y": [250 * i + rng.randrange(250) for _ in range(per_variant)],
                    }
                    for i, variant in enumerate(VARIANTS)
                ],
            }
        ],
        [
            finding("loss-instants", "4", "Normal buffers synchronise losses, sqrtN with Reno does not", "reproduced"),
            finding("loss-instants", "4", "Pacing synchronises losses more, in either case", "not", note=LONG_NOTE),
        ],
    )
    experiment(
        "p2p-buffer",
        "Unlimited senders: how much buffer Reno needs to lose as little as paced flows",
        "paper",
        [
            lines(f, loss, 5, buffer, buffers, title=f"Loss over the buffer, {m}")
            for f, m in (("5a", "n = 500"), ("5b", "n = 1500"))
        ],
        [
            finding(
                "p2p-buffer",
                "5a",
                "Reno at about normal/5: about 100 % utilisation, loss equal to sqrtN Pacing",
                "reproduced",
            ),
            finding(
                "p2p-buffer", "5b", "Reno needs about 2/5 of normal for that loss", "not", note=LONG_NOTE, ci95=None
            ),
        ],
    )
    experiment(
        "web-flows",
        "Web traffic: utilisation and loss over the number of users",
        "paper",
        [lines("6a", utilisation, 90), lines("6b", axis("Loss", "%", "log"), 2)],
        [
            finding("web-flows", "6", "Utilisation is alike for all", "reproduced"),
            finding("web-flows", "6", "Normal Reno has about 0 % loss below n = 700", "reproduced"),
            finding(
                "web-flows",
                "6",
                "sqrtN loses even at small n",
                "mixed",
                measured_text="3 of 4 points: 0.2 % at n = 100, none at n = 200",
            ),
        ],
    )
    experiment(
        "web-delay",
        "Web traffic: what users see over the delay of the bottleneck",
        "paper",
        [
            lines("7a", transfer, 1.2, axis("One-way delay", "ms"), [10, 20, 50, 90]),
            lines("7b", transfer, 3, axis("One-way delay", "ms"), [10, 20, 50, 90]),
        ],
        [
            finding("web-delay", "7", "Loss is highest for sqrtN Reno and lowest for normal Reno", "reproduced"),
            finding("web-delay", "7", "At D = 10 ms sqrtN Pacing loses least", "not", note=LONG_NOTE),
            finding("web-delay", "7a", "Small delays or small transfers: normal Reno is the slowest", "reproduced"),
        ],
    )
    for figure, d in (("8", 20), ("9", 90)):
        experiment(
            f"web-size-{d}",
            f"Web traffic by size, D = {d} ms",
            "paper",
            [lines(figure, loss, 3, size, sizes)],
            [
                finding(f"web-size-{d}", figure, "Normal Reno has the least loss at every size", "reproduced"),
                finding(
                    f"web-size-{d}", figure, "sqrtN Reno loses heavily on small transfers, pacing does not", "mixed"
                ),
            ],
        )
    experiment(
        "web-rate",
        "Web traffic: the bottleneck's rate up to 1 Gbit/s",
        "paper",
        [
            lines("10", utilisation, 92, rate, rates),
            lines("11", axis("Loss", "%", "log"), 2, rate, rates),
            lines("12", transfer, 1, rate, rates),
        ],
        [
            finding("web-rate", "10", "Utilisation is alike", "reproduced"),
            finding("web-rate", "11", "Normal falls to 0 % loss, sqrtN never does", "reproduced"),
            finding("web-rate", "12", "sqrtN Pacing is the slowest at 500 and 1000 Mbit/s", "mixed", note=LONG_NOTE),
        ],
    )
    for figure, d in (("13", 20), ("14", 90)):
        experiment(
            f"web-buffer-{d}",
            f"Web traffic over the buffer, C = 100 Mbit/s, D = {d} ms",
            "paper",
            [lines(figure, transfer, 2, buffer, buffers)],
            [
                finding(
                    f"web-buffer-{d}",
                    figure,
                    "At n = 1000 Reno with normal/4 loses less than sqrtN Pacing",
                    "reproduced",
                ),
                finding(
                    f"web-buffer-{d}", figure, "At n = 1500 Reno with normal/5 is better in loss and time", "reproduced"
                ),
            ],
        )
    for figure, d in (("15", 20), ("16", 90)):
        experiment(
            f"web-gigabit-{d}",
            f"1 Gbit/s, D = {d} ms, buffers of 193 to 7500 packets",
            "paper",
            [lines(figure, transfer, 1.2, size, sizes)],
            [
                finding(f"web-gigabit-{d}", figure, "Utilisation 35 to 55 %, loss 0 to 3 %", "reproduced"),
                finding(
                    f"web-gigabit-{d}",
                    figure,
                    "Transfer time 0.1 to 1.2 s up to 200 KB",
                    None if d == 90 else "reproduced",
                ),
            ],
        )
    experiment(
        "ties",
        "How ties between flows break, and the receive window",
        "sensitivity",
        [
            {
                "id": "ties-loss",
                "title": "Loss at n = 500 by the order of ties and the receive window",
                "caption": None,
                "kind": "bar",
                "x": axis("Receive window"),
                "y": loss,
                "series": [
                    curve(rng, name, ["64 KB", "256 KB", "unlimited"], 3, k)
                    for name, k in (("fixed order", 2), ("coin", 4), ("alternating", 1))
                ],
            }
        ],
        [
            finding("ties", None, "The order of ties changes loss by less than half", "open", source=None),
            finding("ties", None, "A coin is a coin", "identity", kind="identity", source=None),
        ],
        command=None,
    )
    senders = (
        "Reno",
        "Reno, paced",
        "Reno, paced at random gaps (uniform)",
        "CUBIC",
        "BBR",
        "CUBIC, paced",
        "Vegas",
        "ニュー リノ (Reno)",
    )
    experiment(
        "today",
        "Today's senders and queues at the same bottleneck",
        "beyond",
        [
            {
                "id": "today-delay",
                "title": "Mean queueing delay by queue",
                "caption": "FIFO with the normal buffer; the others with their defaults.",
                "kind": "bar",
                "x": axis("Queue"),
                "y": axis("Queueing delay", "ms"),
                "series": [
                    curve(rng, name, ["fifo", "codel", "fq_codel", "pie"], 80, 1 + i)
                    for i, name in enumerate(senders[:5])
                ],
            },
            {
                "id": "today-rates",
                "title": "Goodput of senders over the rate, to 10 Gbit/s",
                "caption": None,
                "kind": "line",
                "x": axis("Bottleneck rate", "Mbit/s", "log"),
                "y": axis("Goodput of all flows together", "Mbit/s", "log"),
                "series": [curve(rng, name, [10, 100, 1000, 10_000], 9000, 1 + i) for i, name in enumerate(senders)],
            },
            {
                "id": "today-none",
                "title": "Ten thousand flows: not run yet",
                "kind": "line",
                "x": axis("Number of flows"),
                "y": loss,
                "series": [],
            },
        ],
        [
            finding(
                "today", None, "CoDel holds its target of 5 ms with every sender", "reproduced", source="RFC 8289, 4.2"
            ),
            finding(
                "today",
                None,
                "10 Gbit/s with 10 000 flows: sqrtN keeps the link full",
                None,
                note="Not run in this mode.",
            ),
        ],
    )
    return {
        "format": "airtcp-study",
        "format_version": 3,
        "study": "pacing-buffers",
        "title": "Does pacing let routers have tiny buffers?",
        "question": "Router buffer `normal` = C * RTT, or `sqrtN` = C * RTT / √N: with TCP Reno or with paced TCP, "
        "what happens to utilisation, loss, and the transfer time users see?",
        "summary": "Loss and utilisation come out as published; the synchronisation of paced flows depends on how ties "
        "break.",
        "paper": {
            "authors": ["山田 太郎", "佐藤 花子"],
            "title": "例題: 小さなバッファとペーシング",
            "venue": "ある論文誌",
            "year": 2010,
        },
        "mode": "full",
        "seeds": "1 to 5",
        "airtcp_version": "0.1.0",
        "engine": "0.1.0+3f9c2a71",
        "started": "2026-03-02T09:14:07Z",
        "wall_s": 5821.4,
        "host": {"cpu": "AMD EPYC 7B13", "cpus": 2, "os": "Linux 6.8", "python": "3.11.7"},
        "command": COMMAND,
        "runs": 2240,
        "failed": [
            {
                "experiment": "web-rate",
                "what": "C_mbit=1000, n=1500, variant sqrtN: Pacing, seed 3",
                "error": "nodes.left.count = 1000001: must be from 1 to 1000000\n  --> web.toml:14",
            },
            {"experiment": "today", "what": "n=10000, seed 1", "error": "out of memory"},
        ],
        "status": status,
        "assumptions": [
            {"id": "rwnd", "what": "Receive window", "value": "unlimited", "why": "not printed", "experiment": "ties"},
            {
                "id": "ties",
                "what": "Ties between flows",
                "value": "a coin",
                "why": "a fixed order locks flows out",
                "experiment": "ties",
            },
            {
                "id": "delack",
                "what": "Delayed acknowledgements",
                "value": 2,
                "why": "what hosts of the time did",
                "experiment": None,
            },
            {
                "id": "split",
                "what": "Body and tail of SURGE sizes",
                "value": [0.93, 0.07],
                "why": "Barford and Crovella 1998",
                "experiment": "web-flows",
            },
        ],
        "experiments": experiments,
        "findings": findings,
        "matrices": [matrix()],
    }
