"""More seeds for open findings: which experiments get how many, up to a budget.

Every step is made from complete results, so that a start that was interrupted makes the same steps again, from its
journal, and goes on. Looking at the results before deciding about more makes a wrong verdict somewhat likelier than
one in twenty. Steps are therefore few: each adds at least a quarter of the seeds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airtcp.errors import StudyError
from airtcp.study.findings import OPEN, Outcome
from airtcp.study.prepare import Prepared

LEAST_STEP = 1.25
"""A step multiplies the seeds by at least this."""
MOST_STEP = 3
"""And by at most this: how many are needed is a guess from few."""

_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Budget:
    """How much may be added."""

    runs: int | None = None
    seconds: float | None = None

    @classmethod
    def read(cls, text: str) -> Budget:
        """`500` runs, or a time: `90s`, `30min`, `2h`.

        Raises:
            StudyError: it is neither.
        """
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(s|min|h)?", text.strip())
        number = float(found[1]) if found else 0.0
        if found is None or number <= 0 or (found[2] is None and not number.is_integer()):
            raise StudyError(f"--settle-budget {text}: must be a number of runs such as 500, or a time such as 30min")
        return cls(runs=int(number)) if found[2] is None else cls(seconds=number * _UNITS[found[2]])

    @property
    def text(self) -> str:
        """As it is given on the command line."""
        return str(self.runs) if self.runs is not None else f"{self.seconds:g}s"


def step(
    prepared: Sequence[Prepared], outcomes: Mapping[str, Sequence[Outcome]], runs_left: int | None
) -> dict[str, list[int]]:
    """Seeds for the experiments that get more of them; empty: nothing more can be settled within the budget.

    Args:
        prepared: the experiments as they have run.
        outcomes: of each experiment its findings.
        runs_left: how many runs may be added; `None`: as many as it takes.
    """
    asked = []
    for one in prepared:
        wanted = _wanted(len(one.cells.seeds), outcomes[one.experiment.id])
        if wanted is not None:
            cells = max(1, len(one.keys) // len(one.cells.seeds))
            asked.append(((wanted - len(one.cells.seeds)) * cells, cells, wanted, one))
    out: dict[str, list[int]] = {}
    # The cheapest first: most findings for the money. Sorting keeps the order of equals.
    for cost, cells, wanted, one in sorted(asked, key=lambda item: item[0]):
        have = list(one.cells.seeds)
        more = wanted - len(have)
        if runs_left is not None:
            more = min(more, runs_left // cells)
            runs_left -= min(cost, more * cells)
        if more > 0:
            out[one.experiment.id] = [*have, *range(max(have) + 1, max(have) + 1 + more)]
    return out


def _wanted(seeds: int, outcomes: Sequence[Outcome]) -> int | None:
    """How many seeds an experiment should have; `None`: more would not help, or are not needed."""
    needs = []
    for outcome in outcomes:
        if outcome.verdict != OPEN:
            continue
        if seeds == 1:
            needs.append(MOST_STEP)
        elif outcome.more_seeds is not None:
            needs.append(seeds + outcome.more_seeds)
    if not needs:
        return None
    return min(max([*needs, math.ceil(LEAST_STEP * seeds)]), MOST_STEP * seeds)
