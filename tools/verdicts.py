"""Published verdicts: takes them from a finished run, and writes the pages that show them.

Usage: verdicts.py [--check]                                       writes RESULTS.md of every study, and tables on pages
       verdicts.py publish STUDY_FOLDER RUN_FOLDER [--table PLOT ...]    takes the verdicts of a run, then does the same
       verdicts.py carry           names today's engine beside that of the run, where the stated runs agree
       verdicts.py texts           takes changed titles, claims and notes of the studies' files, then does the same

    airtcp study run efr --full
    python tools/verdicts.py publish studies/efr runs/study-efr-full

`publish` writes published.json into the study's folder. Without --table the plots that were tables there before stay
tables. `texts` keeps every check and every number.
Everything else is written from the published.json of the studies; with --check nothing is written, and the exit
code is 1 if a file is not current.

A table has a row for each x of a bar plot and a column for each series. In parentheses: how far a value is above the
first.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from airtcp.errors import ResultsError, StudyError
from airtcp.report.matrix import markdown
from airtcp.report.model import Matrix
from airtcp.study import carried, published
from airtcp.study.files import UNCOUNTED, Study, read
from airtcp.study.findings import VERDICTS
from airtcp.study.published_runs import DIGESTS, digests_of

ROOT = Path(__file__).parent.parent
STUDIES = ROOT / "studies"
PAGES = {"remedies": ROOT / "docs/remedies.md"}
"""Pages that have a study's matrices, below a text that people write. RESULTS.md of such a study links to them."""
BEGIN_MATRICES, END_MATRICES = "<!-- matrices: written by tools/verdicts.py -->", "<!-- end of matrices -->"
COUNTS = ROOT / "docs/studies.md"
"""Has the counts of all studies between two markers."""
BEGIN, END = "<!-- verdicts: written by tools/verdicts.py -->", "<!-- end of verdicts -->"

Json = Mapping[str, Any]

PARTS = {
    "paper": "",
    "sensitivity": "Sensitivity",
    "beyond": "Beyond the study",
    "uncounted": "Calibrations and identities",
}
WORDS = {"reproduced": "reproduced", "mixed": "mixed", "not": "not", "open": "open"}
NONE = "\N{EN DASH}"
HEAD = "| figure | claim | published | measured, with 95 % intervals over seeds | verdict |\n|---|---|---|---|---|"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def row(finding: Json) -> str:
    columns = [
        finding["figure"] or NONE,
        finding["claim"],
        finding["published"] or NONE,
        finding["measured_text"] or NONE,
        "**reproduced**" if finding["verdict"] == "reproduced" else finding["verdict_text"],
    ]
    return "| " + " | ".join(map(cell, columns)) + " |"


def part_of(finding: Json) -> str:
    return "uncounted" if finding["kind"] in UNCOUNTED else finding["kind"]


def counted(findings: Sequence[Json]) -> str:
    """`15 reproduced, 1 mixed, 2 not, 2 open`."""
    counts = Counter(finding["verdict"] for finding in findings)
    return ", ".join(
        [f"{counts[word]} {WORDS[word]}" for word in VERDICTS]
        + ([f"{counts[None]} without a verdict"] if counts[None] else [])
    )


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} minutes"


def table(plot: Json) -> Iterator[str]:
    """A bar plot as a table; the first cell is what others are held against."""
    series = plot["series"]
    unit = f" ({plot['y']['unit']})" if plot["y"]["unit"] else ""
    yield f"\n### {plot['title']}{unit}\n"
    yield f"| | {' | '.join(s['name'] for s in series)} |"
    yield "|---" * (len(series) + 1) + "|"
    base = series[0]["y"][0]
    for i, x in enumerate(series[0]["x"]):
        cells = []
        for s in series:
            value, low, high = s["y"][i], s["lo"][i], s["hi"][i]
            text = NONE if value is None else f"{value:.4g}"
            if value is not None and low is not None:
                text += f" ± {(high - low) / 2:.2g}"
            if value is not None and base and value != base:
                text += f" ({100 * value / base - 100:+.1f} %)"
            cells.append(text)
        yield f"| {x} | {' | '.join(cells)} |"


def verdicts_text(found: Json) -> str:
    """How many findings have which verdict."""
    kept = [finding for finding in found["findings"] if part_of(finding) != "uncounted"]
    paper = [finding for finding in kept if finding["kind"] == "paper"]
    text = f"Of {len(kept)} findings: {counted(kept)}."
    if paper and len(paper) < len(kept):
        text = f"Of {len(paper)} findings of the paper: {counted(paper)}; with sensitivity and what lies beyond, "
        text += f"of {len(kept)}: {counted(kept)}."
    if others := len(found["findings"]) - len(kept):
        text += (
            f" {others} calibration{'s' if others > 1 else ''} or identit{'ies' if others > 1 else 'y'} not counted."
        )
    return text


def carried_text(found: Json) -> str:
    """The other engines on which the verdicts stand."""
    return "".join(
        f" Engine `{entry['engine']}` gave the same bits on {entry['runs']} stated runs."
        for entry in found.get(published.CARRIED, [])
    )


def results(found: Json) -> Iterator[str]:
    """RESULTS.md."""
    yield f"# Verdicts of the {found['mode']} run\n"
    yield "<!-- Written by `make generate` from published.json; do not edit. -->\n"
    if found["mode"] != "full":
        yield "**Preliminary: few points and few seeds. The full run decides.**\n"
    yield (
        f"`{found['command']}`: {found['runs']} runs, {found['seeds']}, {duration(found['wall_s'])} on "
        f"{found['cpus']} cores, engine `{found['engine']}`.{carried_text(found)} {verdicts_text(found)} The report "
        "has all checks and "
        "figures; [docs/studies.md](../../docs/studies.md#verdicts) has the rule.\n"
    )
    for name, title in PARTS.items():
        findings = [finding for finding in found["findings"] if part_of(finding) == name]
        if not findings:
            continue
        if title:
            yield f"\n## {title}\n"
        yield HEAD
        yield from map(row, findings)
    if notes := [f for f in found["findings"] if f["note"] and f["verdict"] != "reproduced"]:
        yield "\n## Causes\n"
        yield from (f"- *{cell(f['claim'])}* ({f['verdict_text']}): {cell(f['note'])}" for f in notes)
    for part in matrices(found):
        yield f"\n## {part.title}\n"
        if of_page := PAGES.get(found["study"]):
            path = of_page.relative_to(ROOT)
            yield f"[{path}](../../{path}) has the advice, the rule, the maps and every cell."
        else:
            yield from markdown(part, 3)
    if found["tables"]:
        yield "\n## Figures as tables\n"
        yield "Means over the seeds with half of their 95 % intervals; in parentheses, against the first cell."
        for plot in found["tables"]:
            yield from table(plot)


def results_page(folder: Path, found: Json) -> str:
    """RESULTS.md of a study: its verdicts, then stack.md, where people write about the same figures in real stacks."""
    stack = folder / "stack.md"
    beside = "\n" + stack.read_text(encoding="utf-8") if stack.is_file() else ""
    return "\n".join(results(found)) + "\n" + beside


def matrices(found: Json) -> list[Matrix]:
    return msgspec.convert(found["matrices"], list[Matrix])


def page(file: Path, found: Json) -> str:
    """A page with the matrices as they were published."""
    head, _, _ = file.read_text(encoding="utf-8").partition(BEGIN_MATRICES)
    lines = [f"{head}{BEGIN_MATRICES}", ""]
    preliminary = "" if found["mode"] == "full" else " **Preliminary: few points and few seeds.**"
    lines += [
        f"From `{found['command']}`: {found['runs']} runs, seeds {found['seeds']}, engine "
        f"`{found['engine']}`.{carried_text(found)} `tools/verdicts.py` writes the tables.{preliminary}",
        "",
    ]
    for matrix in matrices(found):
        lines += markdown(matrix)
    return "\n".join([*lines, "", END_MATRICES]) + "\n"


def counts(everything: Sequence[Json]) -> str:
    """The counts of all studies."""
    lines = [
        "| study | size | findings | reproduced | mixed | not | open | not counted |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for found in everything:
        words = Counter(finding["verdict"] for finding in found["findings"])
        others = sum(words[kind] for kind in UNCOUNTED)
        numbers = [len(found["findings"]) - others, *(words[word] for word in VERDICTS), others]
        name = f"[`{found['study']}`](../studies/{found['study']}/RESULTS.md)"
        lines.append(f"| {name} | {found['mode']} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines)


def written(studies: Path = STUDIES) -> dict[Path, str]:
    """All pages with verdicts.

    Raises:
        StudyError: published verdicts are missing, or contradict the study's files or themselves.
    """
    out: dict[Path, str] = {}
    everything = []
    for folder in sorted(path.parent for path in studies.glob("*/study.toml")):
        study = read(folder)
        found = published.read(folder)
        if found is None:
            raise StudyError(f"{folder}: has no {published.PUBLISHED}: see tools/verdicts.py")
        if wrong := published.faults(study, found):
            raise StudyError("\n".join(f"{folder / published.PUBLISHED}: {fault}" for fault in wrong))
        everything.append(found)
        out[folder / "RESULTS.md"] = results_page(folder, found)
        if study.id in PAGES:
            out[PAGES[study.id]] = page(PAGES[study.id], found)
    text = COUNTS.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    out[COUNTS] = f"{head}{BEGIN}\n\n{counts(everything)}\n\n{END}{tail}"
    return out


def publish(folder: Path, run: Path, tables: Sequence[str] | None) -> None:
    """Takes the verdicts of a finished run.

    Raises:
        StudyError: the run is not complete, or is not of the study's files.
    """
    study: Study = read(folder)
    before = published.read(folder) or {"tables": []}
    names = [plot["id"] for plot in before["tables"]] if tables is None else tables
    document = json.loads((run / "study.json").read_text(encoding="utf-8"))
    # As anybody would call it, wherever the run was made.
    words = shlex.split(document["command"])
    document["command"] = shlex.join([*words[:3], study.id, *words[4:]])
    try:
        (folder / DIGESTS).write_text(digests_of(run), encoding="utf-8")
    except ResultsError as error:
        # Of an older airtcp: nobody can make single runs of it again.
        (folder / DIGESTS).unlink(missing_ok=True)
        sys.stderr.write(f"{folder}: no {DIGESTS} is written: {error}\n")
    (folder / published.PUBLISHED).write_text(lines_of(published.from_run(study, document, names)), encoding="utf-8")


def carry(studies: Path = STUDIES) -> list[str]:
    """Names this engine in the published verdicts of each study whose stated runs it gives to the bit.

    Returns:
        Runs that differ; of such a study nothing is written.

    Raises:
        StudyError: a study's files have faults.
        ResultsError: a study has no published runs.
    """
    wrong: list[str] = []
    for folder in sorted(path.parent for path in studies.glob("*/study.toml")):
        study = read(folder)
        found = carried.carry(study)
        print("\n".join(found.lines(5)), flush=True)
        before = published.read(folder)
        if found.is_equal and before is not None:
            text = lines_of(published.with_engine(before, found.entry()))
            (folder / published.PUBLISHED).write_text(text, encoding="utf-8")
        wrong += found.differs
    return wrong


def renew_texts(studies: Path = STUDIES) -> None:
    """Takes changed titles, claims and notes of the studies' files into their published verdicts.

    Raises:
        StudyError: findings or checks differ from those of the files.
    """
    for folder in sorted(path.parent for path in studies.glob("*/study.toml")):
        if (found := published.read(folder)) is not None:
            text = lines_of(published.with_texts(read(folder), found))
            (folder / published.PUBLISHED).write_text(text, encoding="utf-8")


def lines_of(document: Json) -> str:
    """JSON with a line for each check, table and matrix, so that a difference between two runs can be read."""

    def compact(value: object) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)

    def several(items: Sequence[str], indent: str) -> str:
        return "[" + ",".join(f"\n{indent} {item}" for item in items) + (f"\n{indent}]" if items else "]")

    def finding(item: Json) -> str:
        head = compact({key: value for key, value in item.items() if key != "checks"})
        return f'{head[:-1]}, "checks": {several([compact(check) for check in item["checks"]], "  ")}}}'

    parts = []
    for key, value in document.items():
        if isinstance(value, list):
            text = several([finding(item) if key == "findings" else compact(item) for item in value], " ")
        else:
            text = compact(value)
        parts.append(f" {compact(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    below = parser.add_subparsers(dest="what")
    one = below.add_parser("publish")
    one.add_argument("study", type=Path)
    one.add_argument("run", type=Path)
    one.add_argument("--table", nargs="+", metavar="PLOT")
    below.add_parser("texts")
    below.add_parser("carry")
    args = parser.parse_args()
    try:
        if args.what == "publish":
            publish(args.study, args.run, args.table)
        elif args.what == "texts":
            renew_texts()
        elif args.what == "carry" and carry():
            return 1
        stale = {
            path: text
            for path, text in written().items()
            if not path.exists() or path.read_text(encoding="utf-8") != text
        }
    except (StudyError, ResultsError) as error:
        print(error, file=sys.stderr)
        return 1
    for path, text in stale.items():
        print(f"{path.relative_to(ROOT)} {'is not current: run make generate' if args.check else 'written'}")
        if not args.check:
            path.write_text(text, encoding="utf-8")
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
