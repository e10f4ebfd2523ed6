#!/usr/bin/env python3
"""Draws the chart of README.md from the figures of `make bench`: airtcp beside ns-2 and ns-3 on the same networks.

    .venv/bin/python bench/chart.py              # from bench/speed.json into docs/img/speed.svg
    .venv/bin/python bench/chart.py --take FILE  # first takes the rows of FILE, as bench/run.py writes it

The chart shows wall seconds of the simulation on a logarithmic axis. ns-3 is the wheel of PyPI, which has logging and
assertions. The light end of its bar is the range of an optimised build, estimated and not measured.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any

from airtcp.figure_style import COLOURS, style

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = ROOT / "bench/speed.json"
CHART = ROOT / "docs/img/speed.svg"

NETWORKS = {
    "wlan_upload_1": "One TCP upload over 802.11n, 60 s",
    "wlan_upload_10": "Ten TCP uploads over 802.11n, 60 s",
    "dumbbell_unsampled": "100 TCP flows, 100 Mbit/s, 60 s",
}
"""Rows of the chart, by their names in bench/run.py."""
KEPT = ("name", "airtcp_seconds", "peer", "peer_seconds", "ratio", "ratio_to_optimised")


class ChartError(Exception):
    """The figures lack a row, or cannot be read."""


def take(file: pathlib.Path) -> None:
    """Keeps the rows of the chart, as `bench/run.py` measured them.

    Raises:
        ChartError: a row is missing, or has no peer.
    """
    rows = {entry["name"]: entry for entry in json.loads(file.read_text())}
    for name in NETWORKS:
        if rows.get(name, {}).get("peer_seconds") is None:
            raise ChartError(f"{file}: has no row {name} with a peer: install ns-2 and ns-3, then make bench")
    kept = [{key: rows[name][key] for key in KEPT if key in rows[name]} for name in NETWORKS]
    FIGURES.write_text(json.dumps(kept, indent=1) + "\n")


def peer_name(row: dict[str, Any]) -> str:
    return "ns-2" if row["peer"].startswith("ns-2") else "ns-3"


def draw(rows: list[dict[str, Any]], out: pathlib.Path) -> None:
    """Writes the chart as SVG."""
    import matplotlib.pyplot as plt

    with style():
        figure, axes = plt.subplots(figsize=(7.4, 2.7))
        ticks, labels = [], []
        for place, row in enumerate(rows):
            own, peer = row["airtcp_seconds"], row["peer_seconds"]
            top = 3 * place
            axes.barh(top, own, 0.8, left=0, color=COLOURS[0])
            axes.text(own * 1.08, top, f"airtcp, {own:.2g} s", va="center")
            axes.barh(top + 0.9, peer, 0.8, color=COLOURS[1])
            text = f"{peer_name(row)}, {peer:.3g} s: {row['ratio']:.0f} times"
            if "ratio_to_optimised" in row:
                low, high = row["ratio_to_optimised"]
                axes.barh(top + 0.9, peer - own * low, 0.8, left=own * low, color="white", alpha=0.55)
                text += f" (optimised: about {low:.0f} to {high:.0f})"
            axes.text(peer * 1.08, top + 0.9, text, va="center")
            ticks.append(top + 0.45)
            labels.append(NETWORKS[row["name"]])
        axes.set_yticks(ticks, labels)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlim(0.02, 4000)
        axes.set_xticks([0.1, 1, 10, 100], ["0.1 s", "1 s", "10 s", "100 s"])
        axes.grid(visible=False, axis="y")
        axes.set_title("Time to simulate the same network on one core (logarithmic axis)")
        figure.savefig(out, bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", type=pathlib.Path, metavar="FILE", help="figures of bench/run.py to keep")
    parser.add_argument("--out", type=pathlib.Path, default=CHART, metavar="FILE", help="default: docs/img/speed.svg")
    args = parser.parse_args()
    try:
        if args.take is not None:
            take(args.take)
        draw(json.loads(FIGURES.read_text()), args.out)
    except (ChartError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
