"""airtcp beside figures that others published: measurements, simulations and models of TCP, as a table.

Usage: published.py [SOURCE ...] [--list] [--page]

Each file of evidence/published/ is a source: its citation, a scenario, and figures with the value that was published
and a tolerance. The tolerance stands in the file before the first run, and nothing is fitted. A figure is inside if
the mean over the seeds lies within the tolerance. A source may have further runs, each of which tests an explanation
of a figure that is outside; these count as no figure.

With --page the figures go to evidence/figures/published.json, the tables to evidence/published.md, and the counts
to docs/validation.md and README.md, after each source. A source that has the figures of this engine and of its file
is not run again, unless it is named.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import page

import airtcp
from airtcp import _airtcp, stats

Json = dict[str, Any]
Kind = Literal["linux", "hardware", "simulation", "model"]

FOLDER = page.ROOT / "evidence/published"
FIGURES = page.DATA / "published.json"
PAGE = page.ROOT / "evidence/published.md"
SUMMARY = "| measurements and models that others published"
README = page.ROOT / "README.md"
SENTENCE = "  airtcp meets "
"""Beginning of the line of README.md that has the counts."""
WIDEST = 0.5
"""Widest tolerance, as a part of the published value. A small rate would always meet a wide one in Mbit/s."""
KINDS: dict[str, str] = {
    "linux": "measured on Linux hosts",
    "hardware": "measured on other hosts and radios",
    "simulation": "simulated by others",
    "model": "computed by a model",
}


class Figure(msgspec.Struct, forbid_unknown_fields=True):
    """A published value, and the run that has its counterpart."""

    text: str
    """The quantity, with the point of the source's axis."""
    published: float
    value: str | None = None
    """Path of the measure in the summary of a run, as in a sweep; or `sql`."""
    sql: str | None = None
    scale: float = 1.0
    unit: str = ""
    rel: float | None = None
    """Tolerance as a part of the published value."""
    abs: float | None = None
    """Tolerance in the unit. If both are given, the larger counts."""
    set: dict[str, Any] = {}
    """Keys of the scenario at this figure."""
    cause: str | None = None
    """Mechanism of a figure that is outside, or the assumption that decides it."""
    explains: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Number of the figure whose explanation this run tests; it then counts as no figure."""


class Source(msgspec.Struct, forbid_unknown_fields=True):
    """A publication."""

    title: str
    authors: str
    venue: str
    year: int
    url: str
    where: str
    """Table, figure or section of the values."""
    kind: Kind
    text: str
    """The network of the source, and the choices where the source is silent."""
    scenario: dict[str, Any]
    figures: list[Figure]
    seeds: int = 5


def read(path: Path) -> Source:
    try:
        source = msgspec.convert(tomllib.loads(path.read_text()), Source)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as fault:
        raise SystemExit(f"{path}: {fault}") from None
    for number, figure in enumerate(source.figures, 1):
        if (figure.value is None) == (figure.sql is None):
            raise SystemExit(f"{path}: figure {number}: one of `value` and `sql` is needed")
        if figure.explains is None and figure.rel is None and figure.abs is None:
            raise SystemExit(f"{path}: figure {number}: a tolerance is needed, `rel`, `abs` or both")
        if figure.explains is None and tolerance(figure) > WIDEST * abs(figure.published) * (1 + 1e-9):
            raise SystemExit(
                f"{path}: figure {number}: a tolerance of {tolerance(figure):g} is more than {WIDEST:.0%} of "
                f"{figure.published:g}; {WIDEST * abs(figure.published):g} is the most"
            )
        if figure.explains is not None and figure.explains > len(source.figures):
            raise SystemExit(f"{path}: figure {number}: `explains` is at most {len(source.figures)}")
    return source


def sources() -> dict[str, Source]:
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.toml"))}


def tolerance(figure: Figure | Json) -> float:
    """The tolerance in the unit of the figure."""
    f: Json = figure if isinstance(figure, dict) else msgspec.to_builtins(figure)
    return float(max((f["rel"] or 0.0) * abs(f["published"]), f["abs"] or 0.0))


def measured(name: str, source: Source) -> list[Json]:
    """Runs a source: a row for each figure, with the values of its seeds."""
    settings: list[dict[str, Any]] = []
    for figure in source.figures:
        if figure.set not in settings:
            settings.append(figure.set)
    measures: dict[str, Json] = {}
    for number, figure in enumerate(source.figures, 1):
        how = {"value": figure.value} if figure.value is not None else {"sql": figure.sql}
        measures[f"figure{number}"] = {**how, "scale": figure.scale, "label": figure.text}
    tables = [
        airtcp.sweep(
            airtcp.Sweep(
                name=f"{name}-{at}",
                scenario=source.scenario,
                set=changes,
                measures={
                    key: measures[key]
                    for number, figure in enumerate(source.figures, 1)
                    if figure.set == changes
                    for key in [f"figure{number}"]
                },
                seeds=source.seeds,
            )
        ).runs
        for at, changes in enumerate(settings)
    ]
    rows: list[Json] = []
    for number, figure in enumerate(source.figures, 1):
        runs = tables[settings.index(figure.set)]
        if failed := runs.filter(runs["status"] != "ok").height:
            raise SystemExit(
                f"{name}: figure {number}: {failed} runs failed: {runs['error'].drop_nulls().to_list()[:1]}"
            )
        values = runs[f"figure{number}"].to_list()
        row = {"figure": number, **msgspec.to_builtins(figure), "values": values}
        row["inside"] = abs(statistics.fmean(values) - figure.published) <= tolerance(figure)
        rows.append(row)
    return rows


def digits(row: Json) -> int:
    """Decimal places that show a hundredth of the published value."""
    size = abs(row["published"])
    return 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3


def told(row: Json) -> str:
    mean = stats.mean(row["values"])
    places = digits(row)
    around = "" if mean.high is None else f" ± {mean.high - mean.value:.{places}f}"
    return f"{mean.value:.{places}f}{around}"


def table(source: Json) -> str:
    lines = ["| | figure | published | tolerance | airtcp | |", "|---|---|---|---|---|---|"]
    for row in source["rows"]:
        verdict = "inside" if row["inside"] else f"**outside**{': ' + row['cause'] if row['cause'] else ''}"
        published = f"{row['published']:g} {row['unit']}".strip()
        if row["explains"] is not None:
            lines.append(
                f"| | test of {row['explains']}: {row['text']} | {published} | | {told(row)} | {row['cause'] or ''} |"
            )
        else:
            width = f"{tolerance(row):.{digits(row)}f}"
            lines.append(f"| {row['figure']} | {row['text']} | {published} | {width} | {told(row)} | {verdict} |")
    return "\n".join(lines)


def counted(rows: list[Json]) -> list[Json]:
    return [row for row in rows if row["explains"] is None]


def counts(data: Json) -> str:
    lines = ["| kind | sources | figures | inside | median difference |", "|---|---|---|---|---|"]
    kinds = {kind: [s for s in data["sources"] if s["kind"] == kind] for kind in KINDS}
    for kind, of in [*kinds.items(), ("all", data["sources"])]:
        rows = [row for source in of for row in counted(source["rows"])]
        if not rows:
            continue
        apart = [
            abs(statistics.fmean(row["values"]) / row["published"] - 1) * 100 for row in rows if row["published"] != 0
        ]
        median = f"{statistics.median(apart):.1f} %" if apart else ""
        inside = sum(row["inside"] for row in rows)
        lines.append(f"| {KINDS.get(kind, kind)} | {len(of)} | {len(rows)} | {inside} | {median} |")
    return "\n".join(lines)


def summary(data: Json) -> str:
    """The row of docs/validation.md."""
    rows = {kind: [r for s in data["sources"] if s["kind"] == kind for r in counted(s["rows"])] for kind in KINDS}
    told_of = [f"{KINDS[kind]} {sum(r['inside'] for r in of)} of {len(of)}" for kind, of in rows.items() if of]
    differs = "Prague's slow start on long, fast lines; Reno beside Prague; A-MSDUs, which airtcp lacks"
    notes = "[published](../evidence/published.md#figures-inside-by-kind-of-source)"
    return f"{SUMMARY} | figures inside: {'; '.join(told_of)} | {differs} | {notes} |"


def sentence(data: Json) -> str:
    """The line of README.md."""
    linux = [row for source in data["sources"] if source["kind"] == "linux" for row in counted(source["rows"])]
    every = [row for source in data["sources"] for row in counted(source["rows"])]
    met, all_met = (sum(row["inside"] for row in rows) for rows in (linux, every))
    return (
        f"{SENTENCE}{met} of {len(linux)} figures that others measured on Linux hosts, and {all_met} of {len(every)} "
        "in all, [unfitted](evidence/published.md)."
    )


def with_sentence(text: str, data: Json) -> str:
    lines = text.split("\n")
    if sum(line.startswith(SENTENCE) for line in lines) != 1:
        raise ValueError(f"the page needs one line that begins with {SENTENCE!r}")
    return "\n".join(sentence(data) if line.startswith(SENTENCE) else line for line in lines)


def with_summary(text: str, data: Json) -> str:
    lines = [summary(data) if line.startswith(SUMMARY) else line for line in text.split("\n")]
    return "\n".join(lines)


def text_of(data: Json) -> str:
    parts = []
    for s in data["sources"]:
        cited = f"{s['authors']}: [{s['title']}]({s['url']}), {s['venue']}, {s['year']}.\n\nValues: {s['where']}."
        parts += [
            f"### {s['title']}",
            "",
            f"{cited} They were {KINDS[s['kind']]}.",
            "",
            s["text"].strip(),
            "",
            table(s),
            "",
        ]
    return "\n".join(parts).strip()


def digest(name: str) -> str:
    """Tells whether the file of a source has changed since its figures were recorded."""
    return hashlib.sha256((FOLDER / f"{name}.toml").read_bytes()).hexdigest()[:16]


def record(sources: list[Json]) -> None:
    """Puts figures and tables where the documentation has them."""
    data = {"engine": _airtcp.engine(), "sources": sources}
    FIGURES.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    body = page.with_part(PAGE.read_text(), "counts", counts(data))
    PAGE.write_text(page.with_part(body, "sources", text_of(data)))
    page.SUMMARY.write_text(with_summary(page.SUMMARY.read_text(), data))
    README.write_text(with_sentence(README.read_text(), data))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = sources()
    parser.add_argument("sources", nargs="*", metavar="SOURCE", help=f"default: all of {', '.join(known) or 'none'}")
    parser.add_argument("--list", action="store_true", help="list the sources, and run nothing")
    parser.add_argument("--page", action="store_true", help="put figures and tables where the documentation has them")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.sources if name not in known]:
        parser.error(f"no source {unknown[0]!r}; there are {', '.join(known)}")
    chosen = arguments.sources or list(known)
    if arguments.list:
        for name in chosen:
            print(f"{name}: {known[name].authors}, {known[name].year}: {len(known[name].figures)} figures")
        return
    before = {s["id"]: s for s in json.loads(FIGURES.read_text())["sources"]} if FIGURES.exists() else {}
    done: dict[str, Json] = {name: before[name] for name in known if name in before}
    mark = {name: {"engine": _airtcp.engine(), "file": digest(name)} for name in chosen}
    for name in chosen:
        if arguments.page and not arguments.sources and mark[name].items() <= done.get(name, {}).items():
            continue
        source = known[name]
        head = {k: v for k, v in msgspec.to_builtins(source).items() if k not in ("scenario", "figures")}
        try:
            done[name] = {"id": name, **head, **mark[name], "rows": measured(name, source)}
        except airtcp.SweepError as fault:
            raise SystemExit(f"{FOLDER / name}.toml: {fault}") from None
        print(f"{name}\n{table(done[name])}\n", flush=True)
        if arguments.page:
            record([done[name] for name in known if name in done])
    print(counts({"sources": [done[name] for name in known if name in done]}))


if __name__ == "__main__":
    main()
