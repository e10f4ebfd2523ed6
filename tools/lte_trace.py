"""Prints the rate of an LTE line over time, for `rate_trace` of a scenario: what a cell gives a telephone that moves.

    python tools/lte_trace.py --mean 13 --seed 3

No measured trace is copied. The statistics are those of traces that Winstein, Sivaraman and Balakrishnan (NSDI 2013)
took in three networks of the United States, and which come with mahimahi. In steps of 100 ms the standard deviation is
0.6 to 0.7 of the mean. The correlation is 0.8 to 0.9 from one step to the next, and 0.3 to 0.7 over two
seconds. In 1 to 4 % of the steps nothing passes.

The model has three parts. The logarithm of the rate follows a first-order autoregression, with a time constant of 3 s.
Each step has some noise of its own, 8 % of the variance. Outages begin at random, 200 ms long on average. The result
is scaled to the mean asked for.
"""

from __future__ import annotations

import argparse
import math
import random

STEP_S = 0.1
SIGMA = 0.6
"""Standard deviation of the logarithm: 0.66 of the mean."""
MEMORY_S = 3.0
NOISE = 0.08
OUTAGES = 0.02
OUTAGE_S = 0.2


def rates(mean: float, seconds: float, seed: int) -> list[float]:
    """Mbit/s of each step, with the mean asked for."""
    rng = random.Random(seed)
    stay = math.exp(-STEP_S / MEMORY_S)
    slow = rng.gauss(0, 1)
    out = []
    is_out = False
    for _ in range(round(seconds / STEP_S)):
        slow = stay * slow + math.sqrt(1 - stay * stay) * rng.gauss(0, 1)
        log = SIGMA * (math.sqrt(1 - NOISE) * slow + math.sqrt(NOISE) * rng.gauss(0, 1))
        ends, begins = STEP_S / OUTAGE_S, OUTAGES / (1 - OUTAGES) * STEP_S / OUTAGE_S
        is_out = rng.random() >= ends if is_out else rng.random() < begins
        out.append(0.0 if is_out else math.exp(log))
    scale = mean / (sum(out) / len(out))
    return [round(scale * rate, 1) for rate in out]


def points(mean: float, seconds: float, seed: int) -> str:
    """The value of `points`, ten to a line; one more ends the last step."""
    steps = [*rates(mean, seconds, seed), 0.0]
    # What stays the same needs no point of its own; the last point only ends the period.
    pairs = [
        f"[{i * STEP_S:g}, {rate:g}]"
        for i, rate in enumerate(steps)
        if i in (0, len(steps) - 1) or rate != steps[i - 1]
    ]
    lines = [", ".join(pairs[i : i + 10]) for i in range(0, len(pairs), 10)]
    return "[\n  " + ",\n  ".join(lines) + ",\n]"


def main() -> None:
    """Prints the points."""
    parser = argparse.ArgumentParser(description="Prints the points of an LTE line's rate over time.")
    parser.add_argument("--mean", type=float, default=15.0, help="mean rate, Mbit/s")
    parser.add_argument("--seconds", type=float, default=40.0, help="length of the trace")
    parser.add_argument("--seed", type=int, default=1, help="seed of the trace")
    options = parser.parse_args()
    print(points(options.mean, options.seconds, options.seed))


if __name__ == "__main__":
    main()
