"""Published studies: their verdicts, and hashes of the runs from which these were published."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from airtcp._files import read_bytes
from airtcp.errors import ResultsError
from airtcp.sweeps.results import TASKS, read_table
from airtcp.sweeps.store import Store, measures_as_kept
from airtcp.sweeps.task import Outcome, Task, key_of
from airtcp.verified import Limits, Tell, Verified, differences, note_engine, silent
from airtcp.verify_runs import draw, perform_all

DIGESTS: Final = "published-runs.txt"
"""In a study's folder, beside `published.json`: lines with a run's scenario and what came of it, as hashes."""
MAX_DIGESTS: Final = 1000
"""Runs of a study that are published. Their order is that of their hashes, so these are drawn at random."""

NEVER_MADE_AGAIN: Final = (
    "airtcp_version",
    "engine",
    "command",
    "wall_s",
    "cpus",
    "format",
    "format_version",
    "carried",
)
"""Keys of `published.json` that no repetition can give."""

Json = dict[str, Any]


def scenario_id(scenario: Mapping[str, Any]) -> str:
    """Identity of a run, whatever engine carries it out."""
    return key_of(scenario, "")[:16]


def digest(outcome: Outcome) -> str:
    """A hash of all that a run measured.

    Answers to queries go in without their names in the journal: these also name the version that answered.
    """
    kept = measures_as_kept(outcome).items()
    measured = [["sql" if name.startswith("sql:") else name, value] for name, value in kept]
    texts = sorted(json.dumps(one, sort_keys=True, separators=(",", ":")) for one in measured)
    return blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()


def digests_of(folder: Path) -> str:
    """The lines for `published-runs.txt`, of a finished study.

    Raises:
        ResultsError: its runs cannot be read.
    """
    store = Store.look(folder)
    found = {}
    for row in read_table(folder, TASKS.removesuffix(".parquet")).iter_rows(named=True):
        outcome = store.get(row["key"])
        if outcome is not None and outcome.status == "ok":
            found[scenario_id(json.loads(row["scenario"]))] = digest(outcome)
    return "".join(f"{name} {value}\n" for name, value in sorted(found.items())[:MAX_DIGESTS])


def verify_study(
    name: str,
    runs: int,
    seed: int | None = None,
    jobs: int | None = None,
    tell: Tell = silent,
    most: Limits | None = None,
) -> Verified:
    """Makes some of the runs again from which a study's verdicts were published.

    Raises:
        StudyError: there is no such study.
        ResultsError: it has no published runs.
    """
    from airtcp.study import published
    from airtcp.study.files import read
    from airtcp.study.find import find
    from airtcp.study.prepare import prepare

    study = read(find(name))
    before = published.read(study.folder)
    path = study.folder / DIGESTS
    if before is None or not path.is_file():
        raise ResultsError(f"{study.folder}: no {DIGESTS}: with --runs all the whole study runs again")
    try:
        lines = dict(line.split() for line in read_bytes(path).decode().splitlines())
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: must have two words in each line: {error}") from error
    seed = secrets.randbits(32) if seed is None else seed
    found = Verified(str(study.folder), published.FORMAT, seed=seed)
    note_engine(before["engine"], found)
    found.faults += [f"{published.PUBLISHED}: {fault}" for fault in published.faults(study, before)]
    found.not_checked.append(f"{published.PUBLISHED}: numbers and tables, which --runs all makes again")
    found.not_checked.append("RESULTS.md: tools/verdicts.py --check holds it against published.json")
    tasks: dict[str, Task] = {}
    for one in prepare(study, before["mode"]):
        for point in one.plan.points:
            known = tasks.setdefault(point.key, point.task)
            more = tuple(extract for extract in point.extracts if extract not in known.extracts)
            tasks[point.key] = Task(point.key, known.scenario, known.extracts + more, kernel=known.kernel)
    if len(tasks) != before["runs"]:
        found.faults.append(f"{published.PUBLISHED}: {before['runs']} runs, but the study's files give {len(tasks)}")
    by_id = {scenario_id(json.loads(task.scenario)): task for task in tasks.values()}
    found.of = len(tasks)
    wanted = sorted(by_id)[:MAX_DIGESTS]
    if foreign := lines.keys() - by_id.keys():
        found.faults.append(f"{DIGESTS}: {len(foreign)} published runs are not those of the study's files")
    if less := set(wanted) - lines.keys():
        found.faults.append(f"{DIGESTS}: {len(less)} runs of the study's files are not in it")
    found.kernels = sum(task.kernel is not None for task in tasks.values())
    own = [name for name in wanted if name in lines and by_id[name].kernel is None]
    drawn = draw(own, runs, seed)
    found.is_drawn = len(drawn) < found.of
    tell(f"{study.id}: {len(drawn)} of {len(lines)} published runs are made again (--seed {seed})")
    made = {o.key: o for o in perform_all([by_id[name] for name in drawn], jobs, most)}
    for name in drawn:
        outcome = made[by_id[name].key]
        if outcome.end is not None:
            found.beyond += 1
            found.not_checked.append(f"run {name}: {outcome.error}")
            continue
        found.again += 1
        if outcome.status == "ok" and digest(outcome) == lines[name]:
            found.agreed += 1
        else:
            found.faults.append(f"run {name}, made again: {outcome.error or 'measures other than the published ones'}")
    return found


def _bare(document: Json) -> Json:
    return {key: value for key, value in document.items() if key not in NEVER_MADE_AGAIN}


def verify_whole_study(name: str, jobs: int | None = None, tell: Tell = silent) -> Verified:
    """Runs a whole study again and compares its findings, tables and matrices with the published ones.

    Raises:
        StudyError: there is no such study.
        ResultsError: it has no published verdicts, or the runs cannot be written.
    """
    from airtcp.study import published
    from airtcp.study import run as running
    from airtcp.study.files import read
    from airtcp.study.find import find
    from airtcp.study.prepare import prepare

    study = read(find(name))
    before = published.read(study.folder)
    if before is None:
        raise ResultsError(f"{study.folder}: no verdicts are published")
    found = Verified(str(study.folder), published.FORMAT)
    note_engine(before["engine"], found)
    with tempfile.TemporaryDirectory(prefix="airtcp-verify-") as elsewhere:
        asked = running.Asked(study.id, before["mode"])
        prepared = prepare(study, before["mode"])
        out = Path(elsewhere) / "study"
        document = running.run(study, prepared, out, asked, jobs=jobs, tell=tell)
        now = json.loads(json.dumps(published.from_run(study, document, [plot["id"] for plot in before["tables"]])))
        path = study.folder / DIGESTS
        digests = digests_of(out) if path.is_file() else ""
    found.of = found.again = document["finished"]
    found.faults += [f"{published.PUBLISHED}: {told}" for told in differences(_bare(before), _bare(now))]
    if digests and digests != read_bytes(path).decode():
        found.faults.append(f"{DIGESTS}: the runs gave other hashes")
    found.agreed = 0 if found.faults else found.again
    return found


__all__ = ["DIGESTS", "digest", "digests_of", "verify_study", "verify_whole_study"]
