"""Seeds for open findings: chooses which experiments get more, up to a budget.

Every step starts from complete results. So a study that was interrupted makes the same steps again from its journal.
Looking at the results before deciding about more makes a wrong verdict somewhat likelier than one in twenty. Steps are
therefore few: each adds at least a quarter of the seeds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airtcp.errors import StudyError
from airtcp.study.findings import OPEN, FindingOutcome
from airtcp.study.prepare import Prepared

LEAST_STEP = 1.25
"""A step multiplies the seeds by at least this."""
MOST_STEP = 3
"""A step multiplies the seeds by at most this, because the estimate rests on few seeds."""

_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Budget:
    """The runs or the time that may be added."""

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
        """The budget as the command line spells it."""
        return str(self.runs) if self.runs is not None else f"{self.seconds:g}s"


def step(
    prepared: Sequence[Prepared], outcomes: Mapping[str, Sequence[FindingOutcome]], runs_left: int | None
) -> dict[str, list[int]]:
    """The new seeds of the experiments that get more; empty: the budget can settle nothing more.

    Args:
        prepared: the experiments with their present seeds.
        outcomes: the findings of each experiment.
        runs_left: number of runs that may be added; `None`: no limit.
    """
    asked = []
    for one in prepared:
        wanted = _wanted(len(one.cells.seeds), outcomes[one.experiment.id])
        if wanted is not None:
            cells = max(1, len(one.keys) // len(one.cells.seeds))
            asked.append(((wanted - len(one.cells.seeds)) * cells, cells, wanted, one))
    out: dict[str, list[int]] = {}
    # The cheapest first settles the most findings. Sorting keeps the order of equals.
    for cost, cells, wanted, one in sorted(asked, key=lambda item: item[0]):
        have = list(one.cells.seeds)
        more = wanted - len(have)
        if runs_left is not None:
            more = min(more, runs_left // cells)
            runs_left -= min(cost, more * cells)
        if more > 0:
            out[one.experiment.id] = [*have, *range(max(have) + 1, max(have) + 1 + more)]
    return out


def _wanted(seeds: int, outcomes: Sequence[FindingOutcome]) -> int | None:
    """Number of seeds that an experiment should have; `None`: more would not help, or are not needed."""
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
