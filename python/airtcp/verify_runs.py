"""Many runs: a sweep or a study is planned again, runs of it are made again, and its files are built again.

The chain is definition, plan, journal, tables, verdicts, page. Each link is made from the one before, and compared.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from airtcp import _airtcp, _files
from airtcp._marker import Marker
from airtcp._text import to_json
from airtcp.errors import DamagedError, FileError, ResultsError
from airtcp.executors.local import LocalExecutor
from airtcp.study.run import STUDY_JSON
from airtcp.sweeps import saved_definition as saved_sweep
from airtcp.sweeps.planning import Plan, PlannedRun
from airtcp.sweeps.results import MANIFEST, RUNS, TASKS, SweepResults, parquet
from airtcp.sweeps.store import JOURNAL, Store, measures_as_kept
from airtcp.tasks.measures import measures_version
from airtcp.tasks.task import Outcome, Task
from airtcp.verified import DIGITS, Limits, Tell, Verified, differences, limits, note_engine, without

Json = dict[str, Any]

SHOWN: Final = 3
"""Differences of one file that are told."""

_ODD: Final = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, StopIteration, RecursionError),
    *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
)
"""Raised by content that airtcp did not write."""


@dataclass
class _Again:
    """A folder built again from its definition and its journal."""

    plans: list[tuple[str, Plan]]
    """With the names of their tables."""
    document: Callable[[Store], tuple[Json, dict[str, pl.DataFrame]]]
    """The manifest and the tables, from the journal."""
    manifest: str
    kernels: Mapping[tuple[str, str], str]
    points: dict[str, list[tuple[str, PlannedRun]]] = field(default_factory=dict)
    """By the keys of the runs."""


def check_runs(
    folder: Path, marker: Marker, runs: int | None, jobs: int | None, found: Verified, tell: Tell, most: Limits
) -> None:
    """Checks the folder of a sweep or a study."""
    store = Store.look(folder)
    if store.damaged or store.torn:
        found.faults.append(f"{folder / JOURNAL}: damaged: {'; '.join(store.notes)}")
        return
    if store.repeated:
        found.faults.append(
            f"{folder / JOURNAL}: {store.repeated} lines repeat runs that were finished: airtcp writes no such line"
        )
        return
    if saved_sweep.DEFINITION not in marker.files:
        why = (
            f"it has no {saved_sweep.DEFINITION}: an older airtcp wrote it"
            if {MANIFEST, STUDY_JSON} & marker.files.keys()
            else "it was cut off before its tables were written"
        )
        found.notes.append(f"{why}; no run is made again")
        found.not_checked += [JOURNAL, *sorted(marker.files)]
        return
    try:
        definition = _document(folder, saved_sweep.DEFINITION)
        again, there = _planned(folder, marker, saved_sweep.check(definition, folder / saved_sweep.DEFINITION))
    except DamagedError as error:
        found.faults.append(str(error))
        return
    note_engine(there.get("engine"), found)
    found.notes.append(
        f"the definition is the folder's own: {folder / saved_sweep.DEFINITION} says what was varied and measured"
    )
    if definition["kind"] == "study":
        _compare_definition(definition, found)
    outcomes, own = _outcomes(store, again, there, found)
    found.of = len(again.points)
    found.missing = sum(key not in outcomes for key in again.points)
    found.failed = sum(outcome.status != "ok" for outcome in outcomes.values())
    if found.missing:
        found.not_checked.append(f"{found.missing} of {found.of} runs are missing: it was interrupted")
    if not found.faults:
        _check_made(folder, marker, again, there, own, found)
    if runs != 0 and not found.faults:
        _check_again(again, outcomes, there, runs, jobs, found, tell, most)


def _document(folder: Path, name: str) -> Json:
    try:
        document = json.loads(_files.read_bytes(folder / name))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"{folder / name}: damaged: {error}") from error
    if not isinstance(document, dict):
        raise DamagedError(f"{folder / name}: damaged: not a table")
    return document


# --- the plan ---------------------------------------------------------------------------------------------------------


def _planned(folder: Path, marker: Marker, definition: Json) -> tuple[_Again, Json]:
    """The plan of a folder's definition, and its manifest.

    Raises:
        DamagedError: it cannot be planned.
    """
    manifest = MANIFEST if definition["kind"] == "sweep" else STUDY_JSON
    if manifest not in marker.files:
        raise DamagedError(
            f"{folder / manifest}: is missing: {saved_sweep.DEFINITION} is that of a {definition['kind']}"
        )
    there = _document(folder, manifest)
    engine = str(there.get("engine"))
    where = folder / saved_sweep.DEFINITION
    try:
        kernels = saved_sweep.kernels_of(definition)
        if definition["kind"] == "sweep":
            again = _sweep(saved_sweep.planned(definition["sweep"], engine, where), kernels)
        else:
            again = _study(definition, engine, where, kernels)
    except FileError as error:
        raise DamagedError(f"{where}: cannot be planned: {error}") from error
    except _ODD as error:
        raise DamagedError(f"{where}: damaged: not what airtcp writes ({error})") from error
    again.points = saved_sweep.tables(again.plans)
    return again, there


def _sweep(planned: Plan, kernels: Mapping[tuple[str, str], str]) -> _Again:
    def document(store: Store) -> tuple[Json, dict[str, pl.DataFrame]]:
        results = SweepResults.collect(planned, store)
        tables = {RUNS: results.runs, **results.tables}
        if results.tasks is not None:
            tables[TASKS.removesuffix(".parquet")] = results.tasks
        return dict(results.manifest), tables

    return _Again([(RUNS, planned)], document, MANIFEST, kernels)


def _study(definition: Json, engine: str, where: Path, kernels: Mapping[tuple[str, str], str]) -> _Again:
    from airtcp.study import run
    from airtcp.study import saved_definition as saved_study

    study, prepared, asked = saved_study.prepared(definition, engine, where)

    def document(store: Store) -> tuple[Json, dict[str, pl.DataFrame]]:
        results = [SweepResults.collect(one.plan, store) for one in prepared]
        tables = run.tables_of(prepared, results)
        tables[TASKS.removesuffix(".parquet")] = run.tasks(prepared, results)
        return run.document_of(study, prepared, results, asked), tables

    return _Again([(one.experiment.id, one.plan) for one in prepared], document, STUDY_JSON, kernels)


def _compare_definition(definition: Json, found: Verified) -> None:
    """A study that is known here by its id must be the one in the folder."""
    from airtcp.errors import StudyError
    from airtcp.study import saved_definition as saved_study
    from airtcp.study.files import read
    from airtcp.study.find import everything

    try:
        name = str(definition["study"]["id"])
        known = dict(everything()).get(name)
        if known is None:
            found.notes.append(f"no study is called {name!r} here, so that its definition is held against nothing")
            return
        wanted = saved_study.of_files(read(known), definition["asked"])
    except StudyError as error:
        found.notes.append(f"the study of that id here cannot be read: {error}")
        return
    except _ODD as error:
        found.faults.append(f"{saved_sweep.DEFINITION}: damaged: not what airtcp writes ({error})")
        return
    for told in differences(saved_study.compared(definition), saved_study.compared(wanted))[:SHOWN]:
        found.not_checked.append(f"the definition is not that of the study {name!r} in {known}: {told}")


# --- the journal ------------------------------------------------------------------------------------------------------


def _engine_of(again: _Again, key: str, engine: str) -> str:
    table, point = again.points[key][0]
    name = again.kernels.get((table, point.variant or ""))
    return engine if name is None else f"{engine}+{name}"


def _outcomes(store: Store, again: _Again, there: Json, found: Verified) -> tuple[dict[str, Outcome], Store]:
    """Outcomes of the planned runs, under the names of measures that this airtcp has; and a store of them."""
    version = str(there.get("measures_version"))
    out: dict[str, Outcome] = {}
    for key, points in again.points.items():
        outcome = store.get(key)
        if outcome is None:
            continue
        if outcome.engine != _engine_of(again, key, str(there.get("engine"))):
            found.faults.append(f"run {key}: {JOURNAL} names the engine {outcome.engine!r}, the manifest another")
            continue
        extracts = {extract.id: extract.id_under(version) for _, point in points for extract in point.extracts}
        measures = {new: outcome.measures[old] for new, old in extracts.items() if old in outcome.measures}
        if outcome.status == "ok" and len(measures) < len(extracts):
            # Its measures are those of an earlier start: to the tables it is missing.
            continue
        out[key] = replace(outcome, measures=measures)
    if extra := len(store) - sum(store.get(key) is not None for key in again.points):
        found.not_checked.append(f"{JOURNAL}: {extra} runs that are not in the plan, and in no table")
    own = Store(None)
    own.add(out.values())
    return out, own


# --- what follows from the journal ------------------------------------------------------------------------------------


def _check_made(folder: Path, marker: Marker, again: _Again, there: Json, store: Store, found: Verified) -> None:
    try:
        wanted, tables = again.document(store)
        wanted = json.loads(to_json(wanted))
    except _ODD as error:
        found.faults.append(f"{folder / JOURNAL}: its measures are not what airtcp writes ({error})")
        return
    if there.get("status") == "interrupted" and wanted.get("status") == "complete":
        # Stopped in its last moment. To call a whole one interrupted claims less.
        found.notes.append("it says that it was interrupted, and all runs are there")
        wanted["status"] = "interrupted"
    name = again.manifest
    differs = differences(without(there, name), without(wanted, name), tolerance=DIGITS)
    found.faults += [f"{folder / name}: {one}" for one in differs[:SHOWN]]
    if len(differs) > SHOWN:
        found.faults.append(f"{folder / name}: and {len(differs) - SHOWN} more")
    known = {saved_sweep.DEFINITION, name}
    for table, frame in tables.items():
        file = f"{table}.parquet"
        known.add(file)
        if file not in marker.files:
            found.faults.append(f"{folder / file}: is missing")
        elif told := _table_differs(folder / file, frame):
            found.faults.append(f"{folder / file}: {told}")
    if found.faults:
        return
    left = marker.files.keys() - known
    found.not_checked += sorted(left - _check_page(folder, left, found))


def _table_differs(path: Path, wanted: pl.DataFrame) -> str | None:
    """In which way a table is not the one that the journal gives; `None`: it is."""
    data = parquet(wanted)
    try:
        there = _files.read_bytes(path, 8 * len(data) + (64 << 20))
        if there == data:
            return None
        lazy = pl.scan_parquet(io.BytesIO(there))
        schema = lazy.collect_schema()
        if list(schema) != wanted.columns:
            more = [name for name in schema if name not in wanted.columns]
            less = [name for name in wanted.columns if name not in schema]
            told = [f"columns {more} should not be there"] * bool(more) + [f"columns {less} are missing"] * bool(less)
            return "; ".join(told) or "its columns are in another order"
        if schema != wanted.schema:
            return f"columns are of other types: {[n for n in schema if schema[n] != wanted.schema[n]]}"
        # Before it is unfolded: a small file can hold more rows than any memory.
        if (rows := lazy.select(pl.len()).collect().item()) != wanted.height:
            return f"has {rows} rows, not {wanted.height}"
        frame = lazy.collect()
    except OSError as error:
        return f"damaged: {error.strerror or error}"
    except _ODD as error:
        return f"damaged: {error}"
    differ = [name for name in wanted.columns if not frame[name].equals(wanted[name], null_equal=True)]
    if not differ:
        return None
    row = next(
        i for i in range(wanted.height) if frame[differ[0]][i : i + 1].equals(wanted[differ[0]][i : i + 1]) is False
    )
    return f"columns {differ} are not what plan and {JOURNAL} give, first in row {row + 1} of {wanted.height}"


def _check_page(folder: Path, names: set[str], found: Verified) -> set[str]:
    """Draws page and figures again. Returns the files that were checked."""
    if not any(name == "report.html" or name.startswith("figures/") for name in names):
        return set()
    try:
        from airtcp.report.page import PAGE, load, made_by, rendered
    except ModuleNotFoundError as error:
        found.notes.append(f"the page is not drawn again: {error.name} is not installed")
        return set()
    try:
        text, figures = rendered(folder, load(folder))
    except ResultsError as error:
        found.faults.append(f"the page cannot be drawn: {error}")
        return set()
    wanted = figures | {PAGE: text}
    there = {
        name: _files.read_bytes(folder / name, 8 * len(wanted[name]) + (1 << 20)) for name in names & wanted.keys()
    }
    same = {name for name, data in there.items() if data == wanted[name]}
    others = sorted(there.keys() - same)
    mark = f' {made_by()}"'.encode()
    if others and (PAGE not in there or mark in there[PAGE][:4000]):
        found.faults += [f"{folder / name}: is not what the tables give" for name in others]
        return set(there)
    if others:
        found.notes.append("other versions of airtcp or of its libraries drew the page: it is not compared")
    return same


# --- runs made again --------------------------------------------------------------------------------------------------


def _check_again(
    again: _Again,
    outcomes: Mapping[str, Outcome],
    there: Json,
    runs: int | None,
    jobs: int | None,
    found: Verified,
    tell: Tell,
    most: Limits,
) -> None:
    own = [key for key in outcomes if _engine_of(again, key, "") == ""]
    found.kernels = len(outcomes) - len(own)
    if found.kernels:
        found.not_checked.append(f"{found.kernels} runs of kernels: they are not made again from a folder")
    drawn = draw(sorted(own), runs, found.seed)
    found.is_drawn = len(drawn) < len(own)
    seed = f" (--seed {found.seed})" if found.is_drawn else ""
    tell(f"{found.folder}: {len(drawn)} of {found.of} runs are made again{seed}")
    is_same_airtcp = there.get("engine") == _airtcp.engine() and there.get("measures_version") == measures_version()
    for made in perform_all([task_of(key, again.points[key]) for key in drawn], jobs, most):
        before = outcomes[made.key]
        why = _why_beyond(made, most)
        if why is not None and not (before.status != "ok" and before.end is None and made.end is None):
            found.beyond += 1
            found.not_checked.append(f"run {made.key}, which {why}")
            continue
        found.again += 1
        told = _differences(before, made, again.points[made.key], is_same_airtcp)
        found.agreed += not told
        found.faults += [f"run {made.key}, made again: {one}" for one in told]


def _why_beyond(made: Outcome, most: Limits) -> str | None:
    """Why a run could not be made again; `None`: it came to its end, well or not."""
    if made.end is None:
        return None
    if made.end.get("signal") == "SIGXCPU":
        return f"takes more than {most.cpu_s} s (--time-limit)"
    return f"takes more than {most.memory_bytes >> 20} MiB, or crashes (--memory): {made.error}"


def draw(keys: Sequence[str], runs: int | None, seed: int) -> list[str]:
    """Some of the runs."""
    if runs is None or runs >= len(keys):
        return list(keys)
    return sorted(random.Random(seed).sample(keys, runs))


def task_of(key: str, points: Sequence[tuple[str, PlannedRun]]) -> Task:
    """A run with everything that is taken from it."""
    extracts = {extract.id: extract for _, point in points for extract in point.extracts}
    return Task(key, points[0][1].task.scenario, tuple(extracts.values()))


def perform_all(tasks: Sequence[Task], jobs: int | None, most: Limits | None = None) -> list[Outcome]:
    """Carries out tasks in worker processes."""
    most = most or limits()
    left = iter(tasks)
    out: list[Outcome] = []
    for batch in LocalExecutor(jobs, most.memory_bytes, most.cpu_s).run(lambda: next(left, None), lambda: False):
        out += batch
    return out


def _differences(
    before: Outcome, made: Outcome, points: Sequence[tuple[str, PlannedRun]], is_same_airtcp: bool
) -> list[str]:
    if made.status != "ok":
        if before.status == "ok":
            return [f"it fails: {made.error}"]
        if before.end is not None:
            return [f"it is said to have died, and fails: {made.error}"]
        if is_same_airtcp and made.error != before.error:
            return [f"it is said to have failed with {before.error!r}, and fails with {made.error!r}"]
        return []
    if before.status != "ok":
        how = "died" if before.end is not None else "failed"
        return [f"it is said to have {how} ({before.error}), and ends well"]
    there, now = measures_as_kept(before), measures_as_kept(made)
    names = {extract.id: extract.name for _, point in points for extract in point.extracts}
    return [f"another `{names[name]}`" for name in now if to_json(there.get(name)) != to_json(now[name])]


__all__ = ["check_runs", "draw", "perform_all", "task_of"]
