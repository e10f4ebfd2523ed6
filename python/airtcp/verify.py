"""Verifies results: every file against its checksum, runs against runs made again, and all else against the runs.

Checksums tell damage. They do not reveal results that somebody made up: who can write a file can write its checksum.
So nothing in a folder is believed that can be made again. The folder holds everything for it. The manifest of a run has
its scenario, and `verify/definition.json` is the whole definition of a sweep or a study. Its runs are planned again.
All of them, or a sample, are made again and must give the bits in the journal. Tables, verdicts and the page are built
again from the journal. What cannot be made again is named (`airtcp.verified`).
"""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from pathlib import Path
from typing import Any

import polars as pl

from airtcp import _airtcp
from airtcp._marker import Marker, sha256_of
from airtcp.errors import ResultsError, RunError, ScenarioError
from airtcp.execution import Execution
from airtcp.results import CAPTURE, FORMAT, MANIFEST, SUMMARY, Folder, Results
from airtcp.sweeps.store import FORMAT as JOURNAL_FORMAT
from airtcp.verified import Limits, Tell, Verified, differences, limits, note_engine, silent, without
from airtcp.verify_files import check_files, open_folder
from airtcp.verify_published import verify_study, verify_whole_study
from airtcp.verify_runs import check_runs, perform_all

Json = dict[str, Any]


def verify(
    folder: Path,
    runs: int | None,
    seed: int | None = None,
    jobs: int | None = None,
    tell: Tell = silent,
    most: Limits | None = None,
) -> Verified:
    """Holds a folder of results against its checksums, makes runs again, and all that follows from them.

    Args:
        folder: of a run, a sweep, a study or an analysis.
        runs: how many of a sweep's or study's runs are drawn; `None`: all.
        seed: of the draw; by default one that nobody can know beforehand.
        jobs: runs at a time.
        tell: called with what goes on.
        most: memory and time of a run that is made again.

    Raises:
        ResultsError: the folder has no checksums, or cannot be read.
    """
    marker = open_folder(folder)
    found = Verified(str(folder), seed=secrets.randbits(32) if seed is None else seed)
    check_files(folder, marker, found)
    if found.faults:
        return found
    most = most or limits()
    if marker.kind == FORMAT:
        _check_run(folder, marker, runs != 0, found, most)
    elif marker.kind == JOURNAL_FORMAT:
        check_runs(folder, marker, runs, jobs, found, tell, most)
    else:
        found.not_checked += sorted(marker.files)
        found.notes.append("a capture is not analysed again: it is not in the folder")
    return found


# --- one run ----------------------------------------------------------------------------------------------------------


def _check_run(folder: Path, marker: Marker, is_wanted: bool, found: Verified, most: Limits) -> None:
    found.of = 1
    results = Results.load(folder)
    note_engine(results.manifest.get("engine"), found)
    if "real_time" in results.manifest:
        found.notes.append("real programs ran in it, in real time: it cannot be made again")
        found.not_checked += sorted(marker.files)
        return
    if not is_wanted:
        return
    known = {MANIFEST, SUMMARY, CAPTURE, *(f"{name}.parquet" for name in results)}
    found.not_checked += sorted(marker.files.keys() - known)
    has_capture = CAPTURE in marker.files
    try:
        text = json.dumps(results.manifest["scenario"])
        checked = _airtcp.Checked.from_json(text, "manifest.json", [])
        snaplen = int(results.manifest.get("snaplen") or 0) if has_capture else 0
        until_s = float(results.manifest["simulated_s"])
    except (ScenarioError, KeyError, TypeError, ValueError, RecursionError) as error:
        found.faults.append(f"{folder}: the manifest has no scenario that this airtcp can run: {error}")
        return
    if results.interrupted:
        found.notes.append(f"the run was interrupted: it is made again up to {until_s:g} s of simulated time")
    with tempfile.TemporaryDirectory(prefix="airtcp-verify-") as elsewhere, Folder(Path(elsewhere) / "run") as again:
        try:
            fresh = _made_again(checked, again if has_capture else None, snaplen, until_s, most)
        except (RunError, ScenarioError, ResultsError, OverflowError) as error:
            found.again = 1
            found.faults.append(f"{folder}: made again, it fails: {error}")
            return
        if fresh is None:
            found.beyond = 1
            found.not_checked.append(f"the run: it takes more than {most.cpu_s} s (--time-limit)")
            return
        found.again = 1
        differs = _differences_of_run(results, fresh)
        if has_capture and not _is_same_file(again.capture, folder / CAPTURE):
            differs.append(CAPTURE)
    if differs:
        found.faults.append(f"{folder}: made again, it differs in {', '.join(differs)}")
    else:
        found.agreed = 1


def _is_same_file(fresh: Path, there: Path) -> bool:
    return fresh.exists() and sha256_of(fresh) == sha256_of(there)


def _made_again(
    checked: _airtcp.Checked, folder: Folder | None, snaplen: int, until_s: float, most: Limits
) -> Results | None:
    """The run once more, up to the same simulated time; `None`: it takes too long."""
    execution = Execution(checked, folder, snaplen)
    end = min(until_s, execution.end_s)
    begin = time.process_time()
    while execution.now_s < end:
        execution.advance(end)
        if time.process_time() - begin > most.cpu_s:
            return None
    return execution.results()


def _differences_of_run(results: Results, fresh: Results) -> list[str]:
    out = [name for name in fresh if not _is_equal(results, fresh, name)]
    out += [f"{name} (no run has that table)" for name in results if name not in fresh]
    for name, there, wanted in (
        (SUMMARY, results.summary, fresh.summary),
        (MANIFEST, results.manifest, fresh.manifest),
    ):
        wanted = json.loads(json.dumps(wanted))
        out += [f"{name}: {one}" for one in differences(without(there, name), without(wanted, name))]
    return out + _counters(results.manifest.get("timing"), fresh.manifest["timing"])


def _counters(there: object, wanted: Json) -> list[str]:
    """Counters of the engine, which stand beside the times."""
    own = [name for name in wanted if f"{name}_per_s" in wanted]
    found = there if isinstance(there, dict) else {}
    return [f"{MANIFEST}: timing.{name}" for name in own if found.get(name) != wanted[name]]


def _is_equal(results: Results, fresh: Results, name: str) -> bool:
    if name not in results:
        return False
    wanted = fresh[name].collect()
    try:
        there = results[name]
        # First what costs nothing: a small file can unfold to more than any memory.
        if there.collect_schema() != wanted.schema or there.select(pl.len()).collect().item() != wanted.height:
            return False
        return there.collect().equals(wanted)
    except (OSError, ResultsError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return False


__all__ = [
    "Limits",
    "Verified",
    "limits",
    "perform_all",
    "verify",
    "verify_study",
    "verify_whole_study",
]
