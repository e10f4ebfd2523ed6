"""Verifies results: every file against its checksum, and runs against runs made again.

A checksum tells damage. Checksums do not reveal results that somebody made up. For that, runs are drawn and made again,
and must give the same bits. The folder holds everything for it. The manifest of a run has its scenario, and
`verify/tasks.parquet` has those of a sweep or a study.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import polars as pl

from airtcp import _airtcp
from airtcp._marker import MARKER, Marker, marker_of, names_in, sha256_of
from airtcp.errors import DamagedError, ResultsError, ScenarioError
from airtcp.execution import Execution
from airtcp.executors import executor_of
from airtcp.results import CAPTURE, FORMAT, Folder, Results
from airtcp.sweeps.measures import Extract
from airtcp.sweeps.results import TASKS, read_table, same_value
from airtcp.sweeps.store import FORMAT as JOURNAL_FORMAT
from airtcp.sweeps.store import JOURNAL, LOCK, Store, measures_as_kept
from airtcp.sweeps.task import Outcome, Task, key_of

Json = dict[str, Any]


Tell = Callable[[str], object]


def _silent(_: str) -> None:
    pass


@dataclass
class Verified:
    """Files and runs that were checked, and their faults."""

    folder: str
    files: int = 0
    """Files that fit their checksums."""
    foreign: list[str] = field(default_factory=list)
    """Files that airtcp did not write. They are not held against anything."""
    faults: list[str] = field(default_factory=list)
    """Damage, and runs that came out otherwise."""
    runs: int = 0
    """Runs that there are."""
    again: int = 0
    """Runs that were made again."""
    agreed: int = 0
    """Runs that gave the same bits."""
    notes: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """True if nothing was wrong."""
        return not self.faults


def verify(
    folder: Path,
    runs: int | None,
    seed: int,
    jobs: int | None = None,
    tell: Tell = _silent,
) -> Verified:
    """Holds a folder of results against its checksums, and makes runs again.

    Args:
        folder: of a run, a sweep, a study or an analysis.
        runs: how many of a sweep's or study's runs are drawn; `None`: all.
        seed: of the draw.
        jobs: runs at a time.
        tell: called with what goes on.

    Raises:
        ResultsError: the folder has no checksums, or cannot be read.
    """
    if not folder.is_dir():
        raise ResultsError(
            f"{folder}: {'is a file: give a folder of results' if folder.exists() else 'no such folder'}"
        )
    marker = marker_of(folder)
    if marker is None:
        raise ResultsError(
            f"{folder}: has no {MARKER}, so there is nothing to hold it against: an older airtcp wrote it, or another "
            f"program"
        )
    found = Verified(str(folder))
    _check_files(folder, marker, found)
    if found.faults:
        return found
    if marker.kind == FORMAT:
        found.runs = 1
        if runs != 0:
            _run_again(folder, found)
    elif marker.kind == JOURNAL_FORMAT:
        _check_runs(folder, runs, seed, jobs, found, tell)
    else:
        found.notes.append("a capture is not analysed again: it is not in the folder")
    return found


def _check_files(folder: Path, marker: Marker, found: Verified) -> None:
    passing = {MARKER, JOURNAL, LOCK}
    for name in names_in(folder):
        if name not in marker.files and name not in passing:
            found.foreign.append(name)
    for name in marker.files:
        try:
            marker.check(folder, name)
        except DamagedError as error:
            found.faults.append(str(error))
        else:
            found.files += 1


# --- one run ----------------------------------------------------------------------------------------------------------


def _run_again(folder: Path, found: Verified) -> None:
    results = Results.load(folder)
    _note_engine(results.manifest.get("engine"), found)
    if results.interrupted:
        found.notes.append("the run was interrupted: it is not made again")
        return
    if "real_time" in results.manifest:
        found.notes.append("real programs ran in it, in real time: it is not made again")
        return
    found.again = 1
    try:
        checked = _airtcp.Checked.from_json(json.dumps(results.manifest["scenario"]), "manifest.json", [])
    except (ScenarioError, KeyError, TypeError, ValueError) as error:
        found.faults.append(f"{folder}: the manifest has no scenario that this airtcp can run: {error}")
        return
    has_capture = (folder / CAPTURE).exists()
    with tempfile.TemporaryDirectory(prefix="airtcp-verify-") as elsewhere, Folder(Path(elsewhere) / "run") as again:
        snaplen = int(results.manifest.get("snaplen") or 0) if has_capture else 0
        execution = Execution(checked, again if has_capture else None, snaplen)
        while not execution.is_over:
            execution.advance()
        fresh = execution.results()
        differs = [name for name in results if not _is_equal(results, fresh, name)]
        if fresh.summary != results.summary:
            differs.append("summary")
        if has_capture and sha256_of(again.capture) != sha256_of(folder / CAPTURE):
            differs.append(CAPTURE)
    if differs:
        found.faults.append(f"{folder}: made again, it differs in {', '.join(differs)}")
    else:
        found.agreed = 1


def _is_equal(results: Results, fresh: Results, name: str) -> bool:
    if name not in fresh:
        return False
    try:
        return results[name].collect().equals(fresh[name].collect())
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return False


def _note_engine(engine: object, found: Verified) -> None:
    if engine != _airtcp.engine():
        found.notes.append(f"made by engine {engine or '(not named)'}, here it is {_airtcp.engine()}")


# --- many runs --------------------------------------------------------------------------------------------------------


def _check_runs(folder: Path, runs: int | None, seed: int, jobs: int | None, found: Verified, tell: Tell) -> None:
    store = Store.look(folder)
    if store.damaged or store.torn:
        found.faults.append(f"{folder / JOURNAL}: damaged: {'; '.join(store.notes)}")
        return
    if TASKS not in (marker_of(folder) or Marker("")).files:
        found.notes.append(f"it has no {TASKS}: it was cut off before its tables were written; runs are not made again")
        return
    tasks: dict[str, list[Json]] = {}
    for row in read_table(folder, TASKS.removesuffix(".parquet")).iter_rows(named=True):
        kept = store.get(row["key"])
        if kept is not None and kept.status == "ok":
            tasks.setdefault(row["key"], []).append(row)
    found.runs = len(tasks)
    drawn = _draw(sorted(tasks), runs, seed)
    engines = {outcome.engine for key in drawn if (outcome := store.get(key)) is not None}
    for engine in engines - {_airtcp.engine()}:
        _note_engine(engine, found)
    for key in drawn:
        kept = store.get(key)
        scenario = json.loads(tasks[key][0]["scenario"])
        if kept is not None and key_of(scenario, kept.engine) != key:
            found.faults.append(f"run {key}: its scenario in {TASKS} is that of another run")
            return
    tell(f"{folder}: {len(drawn)} of {found.runs} runs are made again")
    made = {outcome.key: outcome for outcome in perform_all([_task(key, tasks[key]) for key in drawn], jobs)}
    tables: dict[str, pl.DataFrame] = {}
    for key in drawn:
        kept = store.get(key)
        assert kept is not None
        differs = _differences(folder, key, kept, made[key], tasks[key], tables)
        found.again += 1
        found.agreed += not differs
        found.faults += [f"run {key}, made again: {what}" for what in differs]


def _draw(keys: Sequence[str], runs: int | None, seed: int) -> list[str]:
    if runs is None or runs >= len(keys):
        return list(keys)
    return sorted(random.Random(seed).sample(keys, runs))


def _task(key: str, rows: Iterable[Json]) -> Task:
    extracts = {}
    scenario = ""
    for row in rows:
        scenario = row["scenario"]
        for one in json.loads(row["measures"]):
            extract = Extract(one["name"], one["kind"], one["text"])
            extracts[extract.id] = extract
    return Task(key, scenario, tuple(extracts.values()))


def perform_all(tasks: Sequence[Task], jobs: int | None) -> list[Outcome]:
    """Carries out tasks in worker processes."""
    left = iter(tasks)
    out: list[Outcome] = []
    for batch in executor_of(None, jobs).run(lambda: next(left, None), lambda: False):
        out += batch
    return out


def _differences(
    folder: Path, key: str, kept: Outcome, made: Outcome, rows: Sequence[Json], tables: dict[str, pl.DataFrame]
) -> list[str]:
    if made.status != "ok":
        return [f"it failed: {made.error}"]
    before, now = measures_as_kept(kept), measures_as_kept(made)
    out = [f"{JOURNAL} has another `{name}`" for name in now if name in before and before[name] != now[name]]
    for row in rows:
        prefix = f"{row['table']}." if row["table"] != "runs" else ""
        for one in json.loads(row["measures"]):
            value = now[Extract(one["name"], one["kind"], one["text"]).id]
            name = f"{prefix}{one['name']}" if one["rows"] else row["table"]
            if name not in tables:
                tables[name] = read_table(folder, name)
            if not same_value(tables[name].filter(pl.col("key") == key), one, value):
                out.append(f"{name}.parquet has another `{one['name']}`")
    return out


# --- published studies ------------------------------------------------------------------------------------------------

DIGESTS: Final = "published-runs.txt"
"""In a study's folder, beside `published.json`: lines with a run's scenario and what came of it, as hashes."""
MAX_DIGESTS: Final = 1000
"""Runs of a study that are published. Their order is that of their hashes, so these are drawn at random."""


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


def verify_study(name: str, runs: int, seed: int, jobs: int | None = None, tell: Tell = _silent) -> Verified:
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
    lines = dict(line.split() for line in path.read_text().splitlines())
    found = Verified(str(study.folder), runs=before["runs"])
    _note_engine(before["engine"], found)
    tasks: dict[str, Task] = {}
    for one in prepare(study, before["mode"]):
        for point in one.plan.points:
            known = tasks.setdefault(point.key, point.task)
            more = tuple(extract for extract in point.extracts if extract not in known.extracts)
            tasks[point.key] = Task(point.key, known.scenario, known.extracts + more)
    by_id = {scenario_id(json.loads(task.scenario)): task for task in tasks.values()}
    if not by_id.keys() >= lines.keys():
        found.faults.append(f"{len(lines.keys() - by_id.keys())} published runs are not those of the study's files")
    drawn = _draw(sorted(by_id.keys() & lines.keys()), runs, seed)
    tell(f"{study.id}: {len(drawn)} of {len(lines)} published runs are made again")
    made = {outcome.key: outcome for outcome in perform_all([by_id[name] for name in drawn], jobs)}
    for name in drawn:
        found.again += 1
        outcome = made[by_id[name].key]
        if outcome.status == "ok" and digest(outcome) == lines[name]:
            found.agreed += 1
        else:
            found.faults.append(f"run {name}, made again: {outcome.error or 'measures other than the published ones'}")
    return found


def verify_whole_study(name: str, jobs: int | None = None, tell: Tell = _silent) -> Verified:
    """Runs a whole study again and compares its findings with the published ones, number by number.

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
    found = Verified(str(study.folder), runs=before["runs"])
    _note_engine(before["engine"], found)
    with tempfile.TemporaryDirectory(prefix="airtcp-verify-") as elsewhere:
        asked = running.Asked(study.id, before["mode"])
        prepared = prepare(study, before["mode"])
        out = Path(elsewhere) / "study"
        document = running.run(study, prepared, out, asked, jobs=jobs, tell=tell)
        now = published.from_run(study, document, [plot["id"] for plot in before["tables"]])
    found.again = document["finished"]
    old = {finding["id"]: finding for finding in before["findings"]}
    differs = [finding["id"] for finding in now["findings"] if old.get(finding["id"]) != finding]
    found.faults += [f"finding {name}: the published numbers or verdict are others" for name in differs]
    found.agreed = found.again if not differs else 0
    return found


__all__ = ["DIGESTS", "Verified", "digests_of", "verify", "verify_study", "verify_whole_study"]
