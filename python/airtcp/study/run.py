"""Runs a study and writes its results.

A folder holds, besides the journal `runs.jsonl` of all runs (`airtcp.sweeps.store`),

- `study.json`: verdicts, figures as numbers, assumptions, and where, when and how it ran;
- `EXPERIMENT.parquet`: one row per run, and `EXPERIMENT.MEASURE.parquet` for each measure with rows.

They are written again from the journal at the end of each start, also of one that was interrupted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from airtcp import _airtcp
from airtcp._marker import Batch, read_file
from airtcp._text import to_json
from airtcp.errors import NotOursError, ResultsError, StudyError
from airtcp.results import host, polars_version
from airtcp.study.files import Answer, Finding, Study
from airtcp.study.findings import FindingOutcome, Judged, judge
from airtcp.study.matrix import PreparedMatrix, needs
from airtcp.study.plots import Drawing
from airtcp.study.prepare import Mode, Prepared, distinct_runs, prepare_experiment
from airtcp.study.run_options import RunOptions
from airtcp.study.samples import CheckError, Data
from airtcp.study.saved_definition import of_study
from airtcp.study.settle import Budget, step
from airtcp.sweeps.results import MANIFEST as SWEEP_MANIFEST
from airtcp.sweeps.results import TASKS, SweepResults, parquet, tasks_of
from airtcp.sweeps.running import Progress, count, died, execute
from airtcp.sweeps.saved_definition import add as add_definition
from airtcp.sweeps.store import Store
from airtcp.tasks.measures import measures_version

if TYPE_CHECKING:
    from airtcp.executors import Executor

FORMAT: Final = "airtcp-study"
FORMAT_VERSION: Final = 3
STUDY_JSON: Final = "study.json"

Json = dict[str, Any]


def check_folder(folder: Path, study: Study) -> None:
    """Checks that a study may write to a folder, before anything is written there.

    Raises:
        NotOursError: the folder holds another study, or a sweep.
        ResultsError: it cannot be read.
    """
    if (folder / SWEEP_MANIFEST).exists():
        raise NotOursError(f"{folder} holds a sweep: choose another place with --out (it was not touched)")
    before = _before(folder)
    if before is not None and before.get("study") != study.id:
        raise NotOursError(
            f"{folder} holds the study {before.get('study')!r}: choose another place with --out (it was not touched)"
        )


def run(
    study: Study,
    prepared: Sequence[Prepared],
    folder: Path,
    asked: RunOptions,
    *,
    executor: Executor | str | None = None,
    jobs: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    tell: Callable[[str], object] = lambda message: None,
    is_stopped: Callable[[], bool] = lambda: False,
    memory_limit: int | None = None,
    retry_died: bool = False,
) -> Json:
    """Carries out the runs that the folder lacks, and writes tables and `study.json`.

    Args:
        study: the study, restricted to the figures and experiments asked for.
        prepared: its experiments, ready to run.
        folder: folder for the results. An interrupted study resumes there.
        asked: the options, for the record.
        executor: see `airtcp.executors.executor_of`.
        jobs: runs at a time.
        progress: called several times a second.
        tell: called with what is found in the folder.
        is_stopped: asked several times a second; when it says so, what has finished is written.
        memory_limit: bytes that a run may take on this machine.
        retry_died: try runs again that died in an earlier start.

    Returns:
        Content of `study.json`.

    Raises:
        NotOursError: the folder has other content.
        ResultsError: it cannot be written.
        ExecutorError: there is no such executor, or it breaks down.
    """
    check_folder(folder, study)
    begin, started = time.monotonic(), time.time()
    with Store(folder) as store:
        before = _before(folder)
        plans = [one.plan for one in prepared]
        for note in store.notes:
            tell(note)
        total, already = count(plans, store)
        tell(f"{already} of {total} runs were already done" if already else f"{study.id}: {total} runs")
        if (dead := died(plans, store)) and not retry_died:
            tell(f"{dead} runs died in an earlier start and are not tried again: --retry-died does")
        results: Sequence[SweepResults] = execute(
            plans,
            store,
            executor,
            progress,
            jobs=jobs,
            is_stopped=is_stopped,
            memory_limit=memory_limit,
            retry_died=retry_died,
        )
        settled: Json = {}
        if asked.settle is not None:

            def run_more(more: Sequence[Prepared], until: Callable[[], bool]) -> list[SweepResults]:
                plans = [one.plan for one in more]
                return execute(plans, store, executor, progress, jobs=jobs, is_stopped=until, memory_limit=memory_limit)

            prepared, results, settled = _settle(prepared, results, asked, asked.settle, run_more, tell, is_stopped)
        document = document_of(study, prepared, results, asked) | settled
        if is_stopped():
            document["status"] = "interrupted"
        # Starts in the same folder add up: the work of an interrupted start counts.
        is_same = before is not None and all(before.get(key) == document[key] for key in ("mode", "engine"))
        earlier = before if before is not None and is_same else {}
        document |= {
            "started": earlier.get("started") or time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(started)),
            "wall_s": round(earlier.get("wall_s", 0.0) + time.monotonic() - begin, 3),
        }
        _save(folder, prepared, results, document, of_study(study, prepared, asked))
    return document


def _settle(
    prepared: Sequence[Prepared],
    results: Sequence[SweepResults],
    asked: RunOptions,
    budget: Budget,
    run_more: Callable[[Sequence[Prepared], Callable[[], bool]], Sequence[SweepResults]],
    tell: Callable[[str], object],
    is_stopped: Callable[[], bool],
) -> tuple[Sequence[Prepared], Sequence[SweepResults], Json]:
    """Runs more seeds for open findings. Only complete steps are evaluated, also if the budget ends within a step."""
    begin, base = time.monotonic(), distinct_runs(prepared)

    def is_over() -> bool:
        return budget.seconds is not None and time.monotonic() - begin >= budget.seconds

    steps = 0
    while all(found.is_complete for found in results) and not is_stopped() and not is_over():
        outcomes = {
            one.experiment.id: [_judged(finding, data)[0] for finding in one.experiment.findings]
            for one, data in ((one, _data(one, found)) for one, found in zip(prepared, results, strict=True))
        }
        left = None if budget.runs is None else base + budget.runs - distinct_runs(prepared)
        wider = step(prepared, outcomes, left)
        if not wider:
            break
        named = ", ".join(f"{name} {len(seeds)}" for name, seeds in wider.items())
        tell(f"seeds for open findings: {named}")
        more = [
            prepare_experiment(one.experiment, asked.mode, wider[one.experiment.id], kernel=asked.kernel)
            if one.experiment.id in wider
            else one
            for one in prepared
        ]
        found = run_more(more, lambda: is_stopped() or is_over())
        if not all(one.is_complete for one in found):
            break  # finished runs are in the journal, for the next start
        prepared, results, steps = more, found, steps + 1
    return (
        prepared,
        results,
        {"settle": {"budget": budget.text, "steps": steps, "runs": distinct_runs(prepared) - base}},
    )


def _data(one: Prepared, found: SweepResults) -> Data | StudyError:
    try:
        return one.with_results(found)
    except StudyError as error:
        return error


def _before(folder: Path) -> Json | None:
    """`study.json` of an earlier start."""
    try:
        document = json.loads(read_file(folder, STUDY_JSON))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ResultsError(f"{folder / STUDY_JSON}: {error.strerror}") from error
    except (ValueError, RecursionError):
        return {}  # somebody else's, or damaged: not this study's
    return document if isinstance(document, dict) else {}


def _save(
    folder: Path, prepared: Sequence[Prepared], results: Sequence[SweepResults], document: Json, definition: Json
) -> None:
    try:
        with Batch(folder) as batch:
            for name, table in tables_of(prepared, results).items():
                batch.add(f"{name}.parquet", parquet(table))
            batch.add(TASKS, parquet(tasks(prepared, results)))
            add_definition(batch, definition)
            batch.add(STUDY_JSON, (to_json(document) + "\n").encode())
            batch.commit()
    except OSError as error:
        raise ResultsError(f"cannot write results to {folder}: {error.strerror or error}; the runs are kept") from error


def tables_of(prepared: Sequence[Prepared], results: Sequence[SweepResults]) -> dict[str, pl.DataFrame]:
    """The tables of a study by the names of their files."""
    found = {}
    for one, results_of_one in zip(prepared, results, strict=True):
        found[one.experiment.id] = results_of_one.runs
        for measure, table in results_of_one.tables.items():
            found[f"{one.experiment.id}.{measure}"] = table
    return found


def tasks(prepared: Sequence[Prepared], results: Sequence[SweepResults]) -> pl.DataFrame:
    """The tasks that repeat each run of a study."""
    return pl.concat(
        tasks_of(one.plan, found.manifest["measures"], one.experiment.id)
        for one, found in zip(prepared, results, strict=True)
    )


def document_of(study: Study, prepared: Sequence[Prepared], results: Sequence[SweepResults], asked: RunOptions) -> Json:
    """Content of `study.json`, but for when it ran and how long."""
    experiments: list[Json] = []
    findings: list[Json] = []
    failed: list[Json] = []
    seen: set[str] = set()
    finished: set[str] = set()
    measured: dict[str, Data] = {}
    for one, found in zip(prepared, results, strict=True):
        experiment = one.experiment
        for row in found.failed.iter_rows(named=True):
            if row["key"] not in seen:
                seen.add(row["key"])
                failed.append(
                    {"experiment": experiment.id, "what": _which(row, found), "error": row["error"] or "no message"}
                )
        finished.update(
            key for key, status in zip(found.runs["key"], found.runs["status"], strict=True) if status != "missing"
        )
        data = _data(one, found)
        if isinstance(data, Data):
            measured[experiment.id] = data
        plots = []
        for plot in experiment.plots:
            drawn, fault = _drawn(Drawing(plot, one.cells, study.titles), data)
            plots.append(drawn)
            # While runs are missing, their missing values may look like a fault.
            if fault and found.is_complete:
                failed.append({"experiment": experiment.id, "what": f"plot {plot.id}", "error": fault})
        for finding in experiment.findings:
            outcome, fault = _judged(finding, data)
            findings.append({**outcome.to_dict(), "experiment": experiment.id})
            if fault and found.is_complete:
                failed.append({"experiment": experiment.id, "what": f"finding {finding.id}", "error": fault})
        experiments.append(
            {
                "id": experiment.id,
                "title": experiment.title,
                "text": experiment.text,
                "kind": experiment.kind,
                "figures": list(experiment.figures),
                "command": _command_of(one, asked),
                "runs": len(one.keys),
                "seeds": seeds_text(one.cells.seeds),
                "variants": {variant: study.titles.get(variant, "") for variant in one.cells.variants},
                "plots": plots,
                "findings": [finding.id for finding in experiment.findings],
            }
        )
    is_complete = all(found.is_complete for found in results)
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "study": study.id,
        "title": study.title,
        "question": study.question,
        "summary": study.summary,
        "paper": dict(study.paper),
        **({} if study.answer is None else {"answer": _answer(study.answer, experiments, findings)}),
        "mode": asked.mode,
        "seeds": _seeds_of(prepared),
        "airtcp_version": _airtcp.__version__,
        "engine": _airtcp.engine(),
        "polars_version": polars_version(),
        "measures_version": measures_version(),
        "started": "",
        "wall_s": 0.0,
        "host": host(),
        "command": asked.command,
        "runs": distinct_runs(prepared),
        "finished": len(finished),
        "failed": failed,
        "status": "complete" if is_complete else "interrupted",
        "assumptions": [
            {"id": a.id, "what": a.what, "value": a.value, "why": a.why, "experiment": a.experiment}
            for a in study.assumptions
        ],
        "experiments": experiments,
        "findings": findings,
        "matrices": [
            PreparedMatrix(matrix, {name: measured[name] for name in needs(matrix)}).to_dict()
            for matrix in study.matrices
            if all(name in measured for name in needs(matrix))
        ],
    }


def _answer(answer: Answer, experiments: Sequence[Json], findings: Sequence[Json]) -> Json:
    """The main findings and the key figure, as far as they are among what has run."""
    plots = [plot["id"] for experiment in experiments for plot in experiment["plots"]]
    known = [finding["id"] for finding in findings]
    return {
        "findings": [name for name in answer.findings if name in known],
        "plot": answer.plot if answer.plot in plots else None,
    }


def _drawn(drawing: Drawing, data: Data | StudyError) -> tuple[Json, str]:
    """A plot; if it cannot be drawn, without curves and with the reason."""
    try:
        if isinstance(data, StudyError):
            raise data
        return Drawing(drawing.plot, data, drawing.titles).to_dict(), ""
    except (CheckError, StudyError) as error:
        return {**drawing.head(), "series": []}, str(error)


def _judged(finding: Finding, data: Data | StudyError) -> tuple[FindingOutcome, str]:
    """A finding; if the results do not fit its checks, without a verdict and with the reason."""
    try:
        if isinstance(data, StudyError):
            raise data
        return judge(finding, data), ""
    except (CheckError, StudyError) as error:
        note = f"{finding.note} No verdict: {error}".strip()
        checks = tuple(Judged(text, {}, error=str(error)) for text in finding.checks)
        return FindingOutcome(finding, checks, None, note), str(error)


def _which(row: Json, found: SweepResults) -> str:
    names = [*(["variant"] if found.manifest["variants"] else []), *found.manifest["varied"], "seed"]
    return ", ".join(f"{name} = {row[name]}" for name in names if row[name] is not None)


def _command_of(one: Prepared, asked: RunOptions) -> str:
    """A command that repeats one experiment."""
    return replace(asked, figures=(), experiments=(one.experiment.id,)).command


def seeds_text(seeds: Sequence[int]) -> str:
    """`1 to 5`, `1`, or `1, 7`."""
    if len(seeds) > 1 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _seeds_of(prepared: Sequence[Prepared]) -> str:
    different = list(dict.fromkeys(seeds_text(one.cells.seeds) for one in prepared))
    if len(different) == 1:
        return different[0]
    counts = [len(one.cells.seeds) for one in prepared]
    return f"{min(counts)} to {max(counts)} for each point"


def default_folder(study: Study, mode: Mode) -> Path:
    """Folder for a study's results if `--out` is not given."""
    return Path("runs") / f"study-{study.id}-{mode}"
