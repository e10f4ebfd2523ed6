"""How well a network with random losses can be predicted at all: by itself, and from the number of its losses.

Usage: twin_chance.py [--only N ...] [--seeds N]

Networks of `twins.py` that lose packets at random are simulated with fresh seeds. For each run the goodput of the
second half is predicted twice. First it is the mean over all runs: what only the true network knows. Then it is that
mean, moved to the losses that the first half had: what an estimate from a capture knows at best. How far losses move
the goodput is found by runs with seven tenths and with 1.4 times the loss. What these predictions miss, chance alone
has moved.
"""

from __future__ import annotations

import argparse
import copy
from typing import Any

import numpy as np
import twins

from airtcp.advice.observed import STEP_S, FlowTrace
from airtcp.advice.twin import run

Json = dict[str, Any]

WITHIN = 0.1
FIRST_SEED = 101
FEWER, MORE = 0.7, 1.4
SEEDS_OF_SLOPE = 8


def halves(document: Json, seed: int, half: int) -> tuple[float, float, float]:
    """Bytes of the first half and of the second, and packets sent again in the first."""
    trace: FlowTrace = run(document, 1, seed)[0]
    first = float(trace.acked[half - 1])
    return first, float(trace.acked[-1]) - first, float(trace.resent[half - 1])


def slope(document: Json, half: int) -> float:
    """The exponent with which the goodput falls as losses grow."""

    def goodput(factor: float) -> float:
        other = copy.deepcopy(document)
        for link in other["links"]:
            link["loss"] = factor * link.get("loss", 0.0)
        seeds = range(1, SEEDS_OF_SLOPE + 1)
        return float(np.mean([halves(other, seed, half)[1] for seed in seeds]))

    return float(np.log(goodput(FEWER) / goodput(MORE)) / np.log(MORE / FEWER))


def main() -> None:
    """Prints a line for each network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    lossy = [number for number, network in enumerate(twins.NETWORKS) if network["truth"]["loss"]]
    parser.add_argument("--only", type=int, nargs="+", default=lossy, help="numbers of networks (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=60, help="runs of each (default: %(default)s)")
    args = parser.parse_args()
    for number in args.only:
        network = twins.NETWORKS[number]
        document = {key: value for key, value in network["scenario"].items() if key != "record"}
        half = round(float(document["duration"].removesuffix("s")) / 2 / STEP_S)
        seeds = range(FIRST_SEED, FIRST_SEED + args.seeds)
        first, second, lost = np.array([halves(document, seed, half) for seed in seeds]).T
        rate = lost / first
        mean = second.mean()
        from_count = mean * (rate / rate.mean()) ** -slope(document, half)
        print(
            f"{number:2} {network['truth']['loss']:6.1%}: {lost.mean():4.0f} losses in a half, whose goodput varies by "
            f"{second.std() / mean:.1%}; within {WITHIN:.0%}: by the true network {_near(mean, second):.0%}, "
            f"from the losses of the first half {_near(from_count, second):.0%}",
            flush=True,
        )


def _near(predicted: Any, seen: Any) -> float:  # noqa: ANN401
    return float(np.mean(np.abs(predicted / seen - 1) <= WITHIN))


if __name__ == "__main__":
    main()
