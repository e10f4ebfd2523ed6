"""Published studies: their verdicts, and hashes of the runs from which these were published."""

from __future__ import annotations

import json
import secrets
import tempfile
from pathlib import Path
from typing import Any, Final

from airtcp._files import read_bytes
from airtcp.errors import ResultsError
from airtcp.verified import Limits, Tell, Verified, differences, note_engine, silent
from airtcp.verify_runs import draw, perform_all

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
    from airtcp.study.published_runs import DIGESTS, MAX_DIGESTS, digest, read_digests, runs_of

    study = read(find(name))
    before = published.read(study.folder)
    if before is None:
        raise ResultsError(f"{study.folder}: no verdicts are published")
    lines = read_digests(study)
    seed = secrets.randbits(32) if seed is None else seed
    found = Verified(str(study.folder), published.FORMAT, seed=seed)
    note_engine(before["engine"], found)
    found.faults += [f"{published.PUBLISHED}: {fault}" for fault in published.faults(study, before)]
    found.not_checked.append(f"{published.PUBLISHED}: numbers and tables, which --runs all makes again")
    found.not_checked.append("RESULTS.md: tools/verdicts.py --check holds it against published.json")
    runs_here = runs_of(study, before["mode"])
    tasks = runs_here.tasks
    if runs_here.count != before["runs"]:
        found.faults.append(
            f"{published.PUBLISHED}: {before['runs']} runs, but the study's files give {runs_here.count}"
        )
    found.of = len(tasks)
    if foreign := lines.keys() - tasks.keys():
        found.faults.append(f"{DIGESTS}: {len(foreign)} published runs are not those of the study's files")
    if (less := min(MAX_DIGESTS, len(tasks)) - len(lines)) > 0:
        found.faults.append(f"{DIGESTS}: {less} runs of the study's files are not in it")
    found.kernels = sum(task.kernel is not None for task in tasks.values())
    own = [name for name in sorted(lines.keys() & tasks.keys()) if tasks[name].kernel is None]
    drawn = draw(own, runs, seed)
    found.is_drawn = len(drawn) < found.of
    tell(f"{study.id}: {len(drawn)} of {len(lines)} published runs are made again (--seed {seed})")
    made = {o.key: o for o in perform_all([tasks[name] for name in drawn], jobs, most)}
    for name in drawn:
        outcome = made[tasks[name].key]
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
    from airtcp.study.published_runs import DIGESTS, digests_of
    from airtcp.study.run_options import RunOptions

    study = read(find(name))
    before = published.read(study.folder)
    if before is None:
        raise ResultsError(f"{study.folder}: no verdicts are published")
    found = Verified(str(study.folder), published.FORMAT)
    note_engine(before["engine"], found)
    with tempfile.TemporaryDirectory(prefix="airtcp-verify-") as elsewhere:
        asked = RunOptions(study.id, before["mode"])
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


__all__ = ["verify_study", "verify_whole_study"]
