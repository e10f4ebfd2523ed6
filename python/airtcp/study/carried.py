"""Carries published verdicts over to another engine: a stated set of a study's runs must give the same bits there.

A token that changes in the simulator renames the engine, even if no result changes. The verdicts keep their standing
if all runs of the stated set agree. `published.json` then names both engines and the number of runs.

The stated set follows from the study's files alone: of each variant of each experiment the published runs whose
identities, which are hashes, come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airtcp import _airtcp
from airtcp.errors import ResultsError
from airtcp.study import published
from airtcp.study.files import Study
from airtcp.study.published_runs import digest, read_digests, runs_of
from airtcp.tasks.task import Task
from airtcp.verify_runs import perform_all

RUNS_PER_VARIANT: Final = 2

Json = dict[str, Any]


@dataclass(frozen=True)
class StatedRuns:
    """Published runs of a study that stand for all of them."""

    published_by: str
    """The engine of the published run."""
    tasks: Mapping[str, Task]
    """The runs, by an identity that holds for all engines."""
    digests: Mapping[str, str]
    """Published hashes of what each run measured."""
    published_runs: int
    variants: int
    """Variants of all experiments."""
    uncovered: tuple[str, ...]
    """Variants without a published hash, as `experiment: variant`."""


@dataclass(frozen=True)
class Carried:
    """The stated runs of a study, made by this engine."""

    study: str
    published_by: str
    engine: str
    """The engine that made the runs."""
    runs: int
    published_runs: int
    variants: int
    uncovered: tuple[str, ...]
    differs: tuple[str, ...]
    """Runs with other bits, and their errors."""

    @property
    def is_equal(self) -> bool:
        """True if there are stated runs and all of them gave the published bits."""
        return self.runs > 0 and not self.differs

    def lines(self, shown: int) -> list[str]:
        """The outcome in words; at most `shown` of the runs that differ."""
        of = f"{self.runs} stated runs of {self.published_runs}, {self.variants - len(self.uncovered)} of "
        of += f"{self.variants} variants"
        head = f"{self.study}: published by {self.published_by}, here {self.engine}: {of}: "
        head += "all agree bit for bit" if self.is_equal else f"{len(self.differs)} differ"
        more = [f"{self.study}: and {len(self.differs) - shown} more"] if len(self.differs) > shown else []
        return [head, *(f"{self.study}: wrong: run {one}" for one in self.differs[:shown]), *more]

    def entry(self) -> Json:
        """The entry of `published.json`."""
        return {
            "engine": self.engine,
            "runs": self.runs,
            "of": self.published_runs,
            "variants": self.variants,
            "uncovered": list(self.uncovered),
        }


def stated_runs(study: Study, runs_per_variant: int = RUNS_PER_VARIANT) -> StatedRuns:
    """The runs that stand for all of a study's published ones.

    Args:
        study: its files.
        runs_per_variant: runs of each variant of each experiment, as far as their hashes are published.

    Raises:
        ResultsError: the study has no published runs.
        StudyError: the study's files have faults.
    """
    before = published.read(study.folder)
    if before is None:
        raise ResultsError(f"{study.folder}: no verdicts are published")
    digests = read_digests(study)
    runs = runs_of(study, before["mode"])
    tasks: dict[str, Task] = {}
    uncovered = []
    for variant, names in runs.variants.items():
        known = sorted(digests.keys() & set(names))
        tasks.update({name: runs.tasks[name] for name in known[:runs_per_variant]})
        if not known:
            uncovered.append(variant)
    return StatedRuns(before["engine"], tasks, digests, before["runs"], len(runs.variants), tuple(uncovered))


def carry(study: Study, runs_per_variant: int = RUNS_PER_VARIANT, jobs: int | None = None) -> Carried:
    """Makes the stated runs of a study with this engine, and compares them with the published hashes.

    Raises:
        ResultsError: the study has no published runs.
        StudyError: the study's files have faults.
    """
    stated = stated_runs(study, runs_per_variant)
    made = {outcome.key: outcome for outcome in perform_all(list(stated.tasks.values()), jobs)}
    differs = []
    for name, task in stated.tasks.items():
        outcome = made[task.key]
        if outcome.status != "ok":
            differs.append(f"{name}: {outcome.error}")
        elif digest(outcome) != stated.digests[name]:
            differs.append(f"{name}: measures other than the published ones")
    return Carried(
        study=study.id,
        published_by=stated.published_by,
        engine=_airtcp.engine(),
        runs=len(stated.tasks),
        published_runs=stated.published_runs,
        variants=stated.variants,
        uncovered=stated.uncovered,
        differs=tuple(differs),
    )


__all__ = ["Carried", "StatedRuns", "carry", "stated_runs"]
