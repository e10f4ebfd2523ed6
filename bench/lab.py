"""Real Wi-Fi stacks beside the simulation: goodput, ping and round trip of eleven scenarios, as a table.

Usage: lab.py [--kernel VERSION|FILE] [--only NAME ...] [--out FILE]

Each row is examples/lab-upload.toml with changes, for 15 s, of which the first five do not count: once by `airtcp lab`
(tools/uml/build.py --wifi makes its kernel), once by `airtcp run`. The network is encrypted in the stack alone: the
simulation has no ciphers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

Json = dict[str, Any]
AIRTCP = Path(sys.executable).with_name("airtcp")
EXAMPLE = Path(__file__).parents[1] / "examples" / "lab-upload.toml"

REMEDY = 'wlans.wlan.ap_radio.reorder_buffer={ retry_out = "stepped" }'
CLEAN = 'wlans.wlan.signal={ kind = "perfect" }'
RENO = "flows.upload.tcp.cc=reno"
FIVE = "nodes.sta.count=5"
KEYS = ("goodput", "ping", "rtt")


def mcs(number: int) -> list[str]:
    rate = f'rate_control={{ name = "fixed", mcs = {number} }}'
    return [f"wlans.wlan.station_radio.{rate}", f"wlans.wlan.ap_radio.{rate}"]


SCENARIOS: dict[str, tuple[list[str], list[str]]] = {
    "13 Mbit/s, CUBIC": ([], []),
    "13 Mbit/s, CUBIC, retry-out": ([REMEDY], []),
    "13 Mbit/s, CUBIC, retry-out, WPA2": ([REMEDY], ["--wpa2"]),
    "13 Mbit/s, Reno": ([RENO], []),
    "13 Mbit/s, Reno, retry-out": ([RENO, REMEDY], []),
    "6.5 Mbit/s, CUBIC": (mcs(0), []),
    "6.5 Mbit/s, CUBIC, retry-out": ([*mcs(0), REMEDY], []),
    "13 Mbit/s, five upload": ([FIVE], []),
    "13 Mbit/s, five upload, retry-out": ([FIVE, REMEDY], []),
    "65 Mbit/s, no errors": ([*mcs(7), CLEAN], []),
    "65 Mbit/s, no errors, five upload": ([*mcs(7), CLEAN, FIVE], []),
}
"""Changes of the example, and options of `airtcp lab` alone."""


def figures(folder: Path) -> dict[str, float]:
    groups = {group["group"]: group for group in json.loads((folder / "summary.json").read_text())["groups"]}
    upload, ping = groups["upload"], groups["ping"]
    return {"goodput": upload["goodput_bps"] / 1e6, "ping": ping["rtt_mean_ms"], "rtt": upload["rtt_mean_ms"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="6.12-wifi", help="version that tools/uml/build.py has built, or a file")
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    arguments = parser.parse_args()
    rows = []
    print("| | goodput, Mbit/s: stack | simulated | ping, ms: stack | simulated | TCP's, ms: stack | simulated |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.only or SCENARIOS:
        changes, options = SCENARIOS[name]
        sets = [part for change in ["duration=15s", *changes] for part in ("--set", change)]
        with tempfile.TemporaryDirectory() as work:
            stack, simulation = Path(work, "stack"), Path(work, "simulation")
            lab = [AIRTCP, "lab", EXAMPLE, "-q", "--kernel", arguments.kernel, "--out", stack, *options, *sets]
            subprocess.run(lab, check=True)
            subprocess.run([AIRTCP, "run", EXAMPLE, "-q", "--out", simulation, *sets], check=True)
            found = {"stack": figures(stack), "simulated": figures(simulation)}
        cells = [f"{found[which][key]:.{2 if key == 'goodput' else 1}f}" for key in KEYS for which in found]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        rows.append({"scenario": name, **found})
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
