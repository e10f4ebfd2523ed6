"""Studies and their verdicts as tables in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from airtcp._text import duration
from airtcp.study.files import UNCOUNTED, Study, citation
from airtcp.study.findings import MIXED, NOT, OPEN, REPRODUCED, VERDICTS
from airtcp.study.matrix import OUTCOMES
from airtcp.study.prepare import Mode, Prepared, distinct_runs
from airtcp.study.published import engines

STYLES: Final = {REPRODUCED: "green", MIXED: "yellow", NOT: "red", OPEN: "cyan"}
WORDS: Final = {
    REPRODUCED: "reproduced",
    MIXED: "mixed",
    NOT: "not reproduced",
    OPEN: "open",
    None: "without a verdict",
    "calibration": "calibrations",
    "identity": "identities",
}
"""Words for counted verdicts; `None`: runs are missing."""


def _table(title: str = "") -> Table:
    return Table(
        title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )


def listing(rows: Sequence[tuple[str, str, str, Path]]) -> Table:
    """A table of studies: id, title, published verdicts, and below them the folder, which may be long."""
    table = _table()
    for name in ("study", "title, published verdicts, folder"):
        table.add_column(name, overflow="fold")
    for study_id, title, verdicts, folder in rows:
        lines = "".join(f"{line}\n" for line in (title, verdicts) if line)
        table.add_row(study_id, Text.assemble(lines, (str(folder), "dim")))
    return table


def published_text(found: Mapping[str, Any], engine: str) -> str:
    """`full: 20 findings: 15 reproduced, ...`, and a remark if the verdicts are from an older engine."""
    age = "" if engine in engines(found) else f"; older engine ({found['engine']})"
    return f"{found['mode']}: {counts_text([finding['verdict'] for finding in found['findings']])}{age}"


def overview(
    study: Study, prepared: Mapping[Mode, Sequence[Prepared]], published: Mapping[str, Any] | None = None
) -> list[Table | Text | str]:
    """Question, claims, assumptions and cost of a study; published verdicts have the wall time of their run."""
    parts: list[Table | Text | str] = [Text.assemble((study.title, "bold"), f" ({study.id})")]
    source = citation(study.paper)
    if source:
        parts.append(f"Source: {source}")
    parts.append(f"Question: {study.question}")
    if study.summary:
        parts += ["", study.summary]

    table = _table("Cost")
    for name in ("", "runs", "time"):
        table.add_column(name, justify="right" if name == "runs" else "left")
    for mode, ready in prepared.items():
        seconds, cpus = study.cost.get(f"{mode}_s"), 2
        if published is not None and published["mode"] == mode:
            seconds, cpus = published["wall_s"], published["cpus"]
        time = "not measured" if seconds is None else f"{duration(seconds)} on {cpus} cores"
        table.add_row(f"--{mode}", str(distinct_runs(ready)), time)
    parts += ["", table]

    table = _table("Experiments")
    for name in ("experiment", "title", "figures"):
        table.add_column(name, overflow="fold", no_wrap=name == "experiment")
    for name in prepared:
        table.add_column(f"{name}\nruns, seeds", justify="right")
    kind = study.experiments[0].kind
    for i, experiment in enumerate(study.experiments):
        if experiment.kind != kind:
            table.add_section()
            kind = experiment.kind
        sizes = [f"{len(ready[i].keys)}, {len(ready[i].cells.seeds)}" for ready in prepared.values()]
        table.add_row(experiment.id, experiment.title, ", ".join(experiment.figures) or kind, *sizes)
    parts.append(table)

    findings = [finding for experiment in study.experiments for finding in experiment.findings]
    if findings:
        table = _table("Claims")
        for name in ("figure", "claim", "published"):
            table.add_column(name, overflow="fold")
        for finding in findings:
            table.add_row(finding.figure or "-", finding.claim, finding.published)
        parts.append(table)

    if study.assumptions:
        table = _table("Assumptions: gaps in the source")
        for name in ("what", "value", "why", "varied by"):
            table.add_column(name, overflow="fold")
        for a in study.assumptions:
            table.add_row(a.what, str(a.value), a.why, a.experiment or "-")
        parts.append(table)
    return parts


def answer(document: Mapping[str, Any]) -> Sequence[Table | Text | str]:
    """The main findings of a `study.json` with their verdicts, and the count of all verdicts. It fits on a screen.

    A study with few findings, or that names no main ones, shows all of them.
    """
    by_id = {finding["id"]: finding for finding in document["findings"]}
    main = [by_id[name] for name in document.get("answer", {}).get("findings", [])]
    if not main or len(by_id) <= FEW:
        return verdicts(document)
    table = Table(box=None, show_header=False, padding=(0, 2, 1, 0))
    table.add_column(max_width=16)
    table.add_column()
    for finding in main:
        table.add_row(
            _verdict(finding),
            Text.assemble(f"{finding['claim']}\n", (_first(finding["measured_text"]), "dim")),
        )
    return [_heading(document), "", table, counts_text([finding["verdict"] for finding in by_id.values()])]


FEW: Final = 6
"""Findings up to which all of them are shown."""
PARTS_SHOWN: Final = 2
"""Most parts of a main finding's measured values."""


def _first(text: str) -> str:
    """The first of several measured values."""
    parts = text.split("; ")
    return text if len(parts) <= PARTS_SHOWN else f"{'; '.join(parts[:PARTS_SHOWN])}; and more"


def _heading(document: Mapping[str, Any]) -> Text:
    return Text.assemble((document["title"], "bold"), f" ({document['mode']}, seeds {document['seeds']})")


def _verdict(finding: Mapping[str, Any]) -> Text:
    return Text(finding["verdict_text"], style=STYLES.get(finding["verdict"], "dim"))


def verdicts(document: Mapping[str, Any]) -> list[Table | str]:
    """The verdict on each finding of a `study.json`, and the count of verdicts."""
    findings = document["findings"]
    if not findings:
        return []
    table = _table(f"{document['title']} ({document['mode']}, seeds {document['seeds']})")
    for name in ("figure", "claim", "published", "measured", "verdict"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        table.add_row(
            finding["figure"] or "-",
            finding["claim"],
            finding["published"],
            finding["measured_text"],
            _verdict(finding),
        )
    return [table, counts_text([finding["verdict"] for finding in findings]), *advice(document)]


def advice(document: Mapping[str, Any]) -> list[Table]:
    """The advice of each matrix of a `study.json`: for each scene whom it names, and who must change what."""
    out = []
    for matrix in document.get("matrices", []):
        for group in matrix["groups"]:
            rows = {row["variant"]: row for row in group["rows"]}
            table = _table(f"Advice: {group['title']}")
            for name in ("scene", "advice", "gain", "who changes"):
                table.add_column(name, overflow="fold")
            for scene, found in zip(matrix["scenes"], group["advice"], strict=True):
                if found["outcome"] is None:
                    continue
                chosen = rows[found["variants"][0]] if found["outcome"] == "remedy" else None
                score = found["score"] if chosen else None
                table.add_row(
                    scene["title"],
                    chosen["title"] if chosen else OUTCOMES[found["outcome"]],
                    f"\N{MULTIPLICATION SIGN}{2 ** score['value']:.2f}" if score else "",
                    ", ".join(chosen["changes"]) if chosen else "",
                )
            out.append(table)
    return out


def counts_text(found: Sequence[str | None]) -> str:
    """`9 findings: 4 reproduced, 2 mixed, 1 not reproduced, 2 open; not counted: 1 calibrations`."""
    counts = Counter(found)
    kept = [f"{counts[word]} {WORDS[word]}" for word in VERDICTS]
    if counts[None]:
        kept.append(f"{counts[None]} {WORDS[None]}")
    uncounted = [f"{counts[kind]} {kind if counts[kind] == 1 else WORDS[kind]}" for kind in UNCOUNTED if counts[kind]]
    number = len(found) - sum(counts[kind] for kind in UNCOUNTED)
    more = f"; not counted: {', '.join(uncounted)}" if uncounted else ""
    return f"{number} finding{'s' if number != 1 else ''}: {', '.join(kept)}{more}"
