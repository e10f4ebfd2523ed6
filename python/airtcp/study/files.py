"""The files of a study: `study.toml`, and one experiment per file in `experiments/`. See docs/studies.md.

An experiment is a sweep file with more keys. What is read here is what a study adds; the sweep itself is read by
`airtcp.sweep`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Final

from airtcp.errors import StudyError, SweepError
from airtcp.expressions import Value, nearest
from airtcp.study import toml
from airtcp.sweeps.definition import Sweep

STUDY_FILE: Final = "study.toml"
EXPERIMENTS: Final = "experiments"

KINDS: Final = ("paper", "sensitivity", "beyond")
UNCOUNTED: Final = ("calibration", "identity")
"""Kinds of findings that test nothing: they are shown and not counted."""
FINDING_KINDS: Final = (*KINDS, *UNCOUNTED)
"""Of a finding: that of its experiment, unless it says otherwise."""
PLOT_KINDS: Final = ("line", "scatter", "bar")
SCALES: Final = ("linear", "log")

OWN_KEYS: Final = ("id", "title", "text", "kind", "figures", "plots", "findings")
"""Of an experiment; all others are the sweep's."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ID_RULE: Final = "letters, digits, `-`, `_` and `.`, beginning with a letter or digit"


@dataclass(frozen=True)
class Assumption:
    """Something the source does not say."""

    id: str
    what: str
    value: Value
    why: str
    experiment: str | None
    """The experiment that shows what depends on it."""
    place: str
    """File, line and place, for errors."""


@dataclass(frozen=True)
class Plot:
    """A figure."""

    id: str
    title: str
    figure: str | None
    x: str
    y: str
    series: tuple[str, ...]
    where: Mapping[str, Any]
    kind: str
    x_label: str | None
    x_unit: str | None
    x_scale: str
    y_label: str | None
    y_unit: str | None
    y_scale: str
    y_range: tuple[float, float] | None
    caption: str
    place: str
    """File, line and place, for errors."""


@dataclass(frozen=True)
class Finding:
    """A claim, and the checks that hold it against results."""

    id: str
    figure: str | None
    claim: str
    published: str
    source: str
    each: Mapping[str, Sequence[Value]]
    """`for` in the file: names and values for which the checks are repeated."""
    checks: tuple[str, ...]
    note: str
    place: str
    """File, line and place, for errors."""
    kind: str = "paper"
    """One of `FINDING_KINDS`."""
    enough_seeds: int | None = None
    """Seeds that must have a value in every check; `None`: all of them."""

    def cases(self) -> list[dict[str, Value]]:
        """Every combination of the values of `for`."""
        return [dict(zip(self.each, values, strict=True)) for values in product(*self.each.values())]


@dataclass(frozen=True)
class MatrixMeasure:
    """A measure that counts in a matrix."""

    name: str
    title: str
    better: str
    """`less` or `more`."""
    enough: float | None
    """What is better than this counts as this."""
    harm: float | None
    """The factor by which it may not get worse."""
    weight: float


@dataclass(frozen=True)
class MatrixScene:
    """An experiment as a column."""

    experiment: str
    title: str
    text: str
    where: Mapping[str, Value]
    """One value of each parameter that varies."""


@dataclass(frozen=True)
class MatrixRow:
    """An arm as a row."""

    arm: str
    title: str
    changes: tuple[str, ...]
    """What has to be changed for it: the fewer, the better among equals."""
    text: str


@dataclass(frozen=True)
class MatrixGroup:
    """Rows that are held against one base."""

    title: str
    text: str
    base: str
    base_title: str
    rows: tuple[MatrixRow, ...]


@dataclass(frozen=True)
class Matrix:
    """Variants against scenes; see `airtcp.study.matrix` for what follows from it."""

    id: str
    title: str
    text: str
    margin: float
    measures: tuple[MatrixMeasure, ...]
    scenes: tuple[MatrixScene, ...]
    groups: tuple[MatrixGroup, ...]
    place: str
    """File, line and place, for errors."""


@dataclass(frozen=True)
class Experiment:
    """Runs that belong together."""

    id: str
    title: str
    text: str
    kind: str
    figures: tuple[str, ...]
    plots: tuple[Plot, ...]
    findings: tuple[Finding, ...]
    sweep: Sweep = field(repr=False)
    """The rest of its file."""
    place: str
    """The file, for errors."""


@dataclass(frozen=True)
class Study:
    """A folder of experiments about one question."""

    id: str
    title: str
    question: str
    summary: str
    paper: Mapping[str, Any]
    assumptions: tuple[Assumption, ...]
    cost: Mapping[str, float]
    """Measured wall time in seconds on two cores: `quick_s`, `full_s`."""
    experiments: tuple[Experiment, ...]
    folder: Path
    matrices: tuple[Matrix, ...] = ()

    @property
    def figures(self) -> list[str]:
        """Figures of the source that have a plot or a finding, in order."""
        return list(dict.fromkeys(figure for experiment in self.experiments for figure in experiment.figures))

    def only(self, figures: Sequence[str] = (), experiments: Sequence[str] = ()) -> Study:
        """What belongs to some figures (`3` means 3a and 3b as well), and some experiments as a whole.

        Raises:
            StudyError: there is no such figure or experiment.
        """
        if not figures and not experiments:
            return self
        ids = [e.id for e in self.experiments]
        for name in experiments:
            if name not in ids:
                raise StudyError(f"--experiment {name}: {self.id} has no such experiment{nearest(name, ids)}")
        for asked in figures:
            if not any(_is_of(figure, asked) for figure in self.figures):
                have = ", ".join(self.figures) or "none"
                raise StudyError(f"--figure {asked}: {self.id} has no such figure; it has: {have}")

        def wanted(figure: str | None) -> bool:
            return figure is not None and any(_is_of(figure, asked) for asked in figures)

        kept = [
            e
            if e.id in experiments
            else replace(
                e,
                figures=tuple(f for f in e.figures if wanted(f)),
                plots=tuple(p for p in e.plots if wanted(p.figure)),
                findings=tuple(f for f in e.findings if wanted(f.figure)),
            )
            for e in self.experiments
            if e.id in experiments or any(map(wanted, e.figures))
        ]
        # A matrix needs all of its scenes as a whole.
        matrices = tuple(m for m in self.matrices if {s.experiment for s in m.scenes} <= set(experiments))
        return replace(self, experiments=tuple(kept), matrices=matrices)


def _is_of(figure: str, asked: str) -> bool:
    """Panels belong to their figure: 3a to 3; 13 does not."""
    return figure == asked or (asked.isdigit() and re.fullmatch(rf"{asked}[^0-9].*", figure) is not None)


def read(folder: Path) -> Study:
    """Reads a study. Whether its sweeps, plots and findings make sense together is `airtcp.study.prepare`'s business.

    Raises:
        StudyError: a file is missing or wrong.
    """
    file = folder / STUDY_FILE
    if not file.is_file():
        raise StudyError(f"{folder}: not a study: it has no {STUDY_FILE}")
    table = toml.load(file)
    study_id = _id(table, "the study's name on the command line")
    title = table.text("title", "what the study is called")
    paper = _paper(table.table("paper", "what is repeated: authors, title, venue, year"))
    question = table.text("question", "what it asks")
    summary = table.text("summary", "a few sentences about it", default="")
    cost = _cost(table.table("cost", "measured wall time in seconds on two cores: quick_s, full_s"))
    assumptions = [
        _assumption(item) for item in table.tables("assumptions", "what the source does not say: id, what, value, why")
    ]
    matrices = [_matrix(item) for item in table.tables("matrices", "variants against scenes, and what follows")]
    table.done()

    files = sorted((folder / EXPERIMENTS).glob("*.toml"), key=_natural)
    if not files:
        raise StudyError(f"{folder / EXPERIMENTS}: holds no experiment (*.toml)")
    source = citation(paper) or title
    # What repeats the source comes first; sorting keeps the order of the names.
    experiments = sorted((_experiment(path, source) for path in files), key=lambda e: KINDS.index(e.kind))
    _unique([(e.id, e.place) for e in experiments])
    _unique([(p.id, p.place) for e in experiments for p in e.plots])
    _unique([(f.id, f.place) for e in experiments for f in e.findings])
    _unique([(a.id, a.place) for a in assumptions])
    ids = [e.id for e in experiments]
    for a in assumptions:
        if a.experiment is not None and a.experiment not in ids:
            raise StudyError(
                f"{a.place}.experiment = {a.experiment!r}: no experiment has that id{nearest(a.experiment, ids)}"
            )
    _unique([(m.id, m.place) for m in matrices] + [(p.id, p.place) for e in experiments for p in e.plots])
    for m in matrices:
        for i, scene in enumerate(m.scenes):
            if scene.experiment not in ids:
                raise StudyError(
                    f"{m.place}.scenes[{i}].experiment = {scene.experiment!r}: no experiment has that id"
                    f"{nearest(scene.experiment, ids)}"
                )
    return Study(
        study_id, title, question, summary, paper, tuple(assumptions), cost, tuple(experiments), folder, tuple(matrices)
    )


def _natural(path: Path) -> list[tuple[int, str]]:
    """fig3 before fig12."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.stem) if part]


def _unique(ids: Sequence[tuple[str, str]]) -> None:
    first: dict[str, str] = {}
    for name, where in ids:
        if name in first:
            raise StudyError(f"{where}: id = {name!r}: taken by {first[name]}; an id is used once in a study")
        first[name] = where


def _id(table: toml.Table, what: str) -> str:
    name = table.text("id", what)
    if not _ID.fullmatch(name):
        raise table.fault("id", f"must be {_ID_RULE}")
    return name


def _paper(table: toml.Table | None) -> dict[str, Any]:
    if table is None:
        return {}
    authors = table.anything("authors", "text, or a list of names")
    if authors is not None and not isinstance(authors, str):
        authors = table.texts("authors", "text, or a list of names")
    year = table.anything("year", "a year")
    if year is not None and (isinstance(year, bool) or not isinstance(year, int)):
        raise table.fault("year", "must be a whole number")
    paper = {
        "authors": authors,
        "title": table.text("title", "of the paper"),
        "venue": table.text("venue", "journal, conference or series", default="") or None,
        "year": year,
        "url": table.text("url", "where it can be read", default="") or None,
    }
    table.done()
    return {key: value for key, value in paper.items() if value is not None}


def citation(paper: Mapping[str, Any]) -> str:
    """Authors, title, venue and year in one line; empty without a paper."""
    authors = paper.get("authors")
    names = ", ".join(authors) if isinstance(authors, list) else authors
    parts = [names, paper.get("title"), " ".join(str(paper[k]) for k in ("venue", "year") if k in paper)]
    return ", ".join(part for part in parts if part)


def _cost(table: toml.Table | None) -> dict[str, float]:
    if table is None:
        return {}
    cost = {}
    for key in ("quick_s", "full_s"):
        value = table.number(key, "wall time in seconds on two cores")
        if value is not None:
            if value < 0:
                raise table.fault(key, "must not be negative")
            cost[key] = value
    table.done()
    return cost


def _assumption(table: toml.Table) -> Assumption:
    name = _id(table, "a short name")
    what = table.text("what", "what had to be chosen")
    value = table.anything("value", "what was chosen", required=True)
    if not isinstance(value, (bool, int, float, str)):
        raise table.fault("value", "must be text, a number, true or false")
    why = table.text("why", "the reason for this value")
    experiment = table.text("experiment", "id of the experiment that shows what depends on it", default="") or None
    table.done()
    return Assumption(name, what, value, why, experiment, table.where())


def _matrix(table: toml.Table) -> Matrix:
    name = _id(table, "a short name")
    title = table.text("title", "what the matrix is called")
    text = table.text("text", "what it shows", default="")
    margin = _factor(table, "margin", "the least overall gain that counts, as a factor") or 1.25
    measures = tuple(_matrix_measure(item) for item in table.tables("measures", "what counts: name, better"))
    scenes = tuple(_matrix_scene(item) for item in table.tables("scenes", "columns: experiment, title"))
    groups = tuple(_matrix_group(item) for item in table.tables("groups", "rows that share a base: base, rows"))
    for key, found, names in (
        ("measures", measures, [m.name for m in measures]),
        ("scenes", scenes, [s.experiment for s in scenes]),
        ("groups", groups, [g.title for g in groups]),
    ):
        if not found:
            raise table.fault(key, "at least one is needed")
        if twice := next((n for i, n in enumerate(names) if n in names[:i]), None):
            raise table.fault(key, f"{twice!r} is there twice")
    table.done()
    return Matrix(name, title, text, margin, measures, scenes, groups, table.where())


def _factor(table: toml.Table, key: str, what: str) -> float | None:
    value = table.number(key, what)
    if value is not None and value <= 1:
        raise table.fault(key, "must be above 1: a factor")
    return value


def _matrix_measure(table: toml.Table) -> MatrixMeasure:
    name = table.text("name", "of a measure with one number per run")
    weight = table.number("weight", "how much a doubling of it counts")
    if weight is not None and weight < 0:
        raise table.fault("weight", "must not be negative")
    enough = table.number("enough", "what is better than this counts as this")
    if enough is not None and enough <= 0:
        raise table.fault("enough", "must be above 0: gains are ratios")
    measure = MatrixMeasure(
        name=name,
        title=table.text("title", "heading of its columns", default=name),
        better=table.choice("better", "which values are better", ("less", "more"), "less"),
        enough=enough,
        harm=_factor(table, "harm", "the factor by which it may not get worse"),
        weight=1 if weight is None else weight,
    )
    table.done()
    return measure


def _matrix_scene(table: toml.Table) -> MatrixScene:
    where = table.table("where", "one value of each parameter that varies")
    kept = {} if where is None else dict(where.items())
    for key, value in kept.items():
        if where is not None and not isinstance(value, (bool, int, float, str)):
            raise where.fault(key, "must be a number, a text, true or false")
    experiment = table.text("experiment", "id of an experiment")
    scene = MatrixScene(
        experiment,
        table.text("title", "heading of its column", default=experiment),
        table.text("text", "what happens there", default=""),
        kept,
    )
    table.done()
    return scene


def _matrix_group(table: toml.Table) -> MatrixGroup:
    title = table.text("title", "what its rows have in common")
    text = table.text("text", "more about them", default="")
    base = table.text("base", "arm that the others are held against")
    base_title = table.text("base_title", "how people call it", default=base)
    rows = []
    for item in table.tables("rows", "arm, and what has to be changed for it"):
        arm = item.text("arm", "name of an arm")
        rows.append(
            MatrixRow(
                arm,
                item.text("title", "how people call it", default=arm),
                tuple(item.texts("changes", "what has to be changed: fewer is better among equals")),
                item.text("text", "what it is", default=""),
            )
        )
        item.done()
    names = [base, *(row.arm for row in rows)]
    if not rows:
        raise table.fault("rows", "at least one is needed")
    if twice := next((n for i, n in enumerate(names) if n in names[:i]), None):
        raise table.fault("rows", f"{twice!r} is there twice, the base counted")
    table.done()
    return MatrixGroup(title, text, base, base_title, tuple(rows))


def _experiment(file: Path, source: str) -> Experiment:
    table = toml.load(file)
    name = _id(table, "a short name")
    title = table.text("title", "what the experiment is called")
    text = table.text("text", "what it does, and what it shows", default="")
    kind = table.choice("kind", "what it is part of", KINDS, "paper")
    figures = table.texts("figures", 'figures of the source, such as ["3a", "3b"]')
    plots = [_plot(item, figures) for item in table.tables("plots", "figures to draw")]
    findings = [_finding(item, figures, source, kind) for item in table.tables("findings", "claims and their checks")]
    for figure in figures:
        if not any(plot.figure == figure for plot in plots):
            raise table.fault("figures", f"no plot has figure = {figure!r}")
    try:
        sweep = Sweep.load(file, also=OWN_KEYS)
    except SweepError as error:
        raise StudyError(str(error)) from error
    return Experiment(name, title, text, kind, tuple(figures), tuple(plots), tuple(findings), sweep, str(file))


def _figure(table: toml.Table, figures: Sequence[str]) -> str | None:
    figure = table.text("figure", "figure of the source", default="") or None
    if figure is not None and figure not in figures:
        have = ", ".join(map(repr, figures)) or "none"
        raise table.fault("figure", f"not among the experiment's figures: {have}")
    return figure


def _plot(table: toml.Table, figures: Sequence[str]) -> Plot:
    name = _id(table, "a short name")
    figure = _figure(table, figures)
    title = table.text("title", "what the plot is called")
    kind = table.choice("kind", "how it is drawn", PLOT_KINDS, "line")
    x = table.text("x", "a parameter, or a column of a measure with rows such as `by_size.size_kb`")
    y = table.text("y", "a measure, or a column of a measure with rows such as `by_size.transfer_s`")
    series_value = table.anything("series", "`arm`, a parameter, or a list of these")
    if series_value is None:
        series: tuple[str, ...] = ("arm",)
    elif isinstance(series_value, str):
        series = (series_value,)
    else:
        series = tuple(table.texts("series", "`arm`, a parameter, or a list of these"))
    where = table.table("where", "coordinates that are kept: { n = 500 } or { n = [500, 1500] }")
    kept: dict[str, Any] = {}
    if where is not None:
        for key, value in where.items():
            values = value if isinstance(value, list) else [value]
            if not values or not all(isinstance(item, (bool, int, float, str)) for item in values):
                raise where.fault(key, "must be a number, a text, or a list of these")
            kept[key] = value
    arms = table.texts("arms", "names of arms: the others are not drawn")
    if arms and "arm" in kept:
        raise table.fault("arms", "`where` has `arm` as well: one of them has to go")
    if arms:
        kept["arm"] = arms
    y_range = table.numbers("y_range", "lower and upper end of the axis", 2)
    if y_range is not None and y_range[0] >= y_range[1]:
        raise table.fault("y_range", "the lower end comes first")
    plot = Plot(
        id=name,
        title=title,
        figure=figure,
        x=x,
        y=y,
        series=series,
        where=kept,
        kind=kind,
        x_label=table.text("x_label", "title of the axis", default="") or None,
        x_unit=table.text("x_unit", "unit of the axis", default="") or None,
        x_scale=table.choice("x_scale", "of the axis", SCALES, "linear"),
        y_label=table.text("y_label", "title of the axis", default="") or None,
        y_unit=table.text("y_unit", "unit of the axis", default="") or None,
        y_scale=table.choice("y_scale", "of the axis", SCALES, "linear"),
        y_range=None if y_range is None else (y_range[0], y_range[1]),
        caption=table.text("caption", "what to look at", default=""),
        place=table.where(),
    )
    table.done()
    return plot


def _finding(table: toml.Table, figures: Sequence[str], source: str, kind: str) -> Finding:
    name = _id(table, "a short name")
    figure = _figure(table, figures)
    kind = table.choice("kind", "what the finding counts as; default: the experiment's", FINDING_KINDS, kind)
    claim = table.text("claim", "what is claimed, in a sentence")
    # What goes further than the source may have nothing to be compared with.
    published = table.text("published", "what the source prints", default=None if kind == "paper" else "")
    is_published = bool(published) or kind == "paper"
    own_source = table.text(
        "source", "where it is claimed; default: the study's paper", default=source if is_published else ""
    )
    checks = table.texts("checks", "comparisons of measures, such as \"loss('Reno', n=500) < 0.01\"", required=True)
    if not checks:
        raise table.fault("checks", "at least one is needed")
    each: dict[str, Sequence[Value]] = {}
    cases = table.table("for", "names and lists of values: the checks are made for each")
    if cases is not None:
        for key, values in cases.items():
            if not key.isidentifier():
                raise cases.fault(key, "the name must be a word: letters, digits and `_`")
            if (
                not isinstance(values, list)
                or not values
                or not all(isinstance(item, (bool, int, float, str)) for item in values)
            ):
                raise cases.fault(key, "must be a list of numbers or texts")
            each[key] = values
    note = table.text("note", "why it does not match, if it does not", default="")
    enough = table.number("enough_seeds", "how many seeds must have a value in every check; default: all")
    if enough is not None and (enough != int(enough) or enough < 2):
        raise table.fault("enough_seeds", "must be a whole number, 2 or more")
    table.done()
    return Finding(
        name,
        figure,
        claim,
        published,
        own_source,
        each,
        tuple(checks),
        note,
        table.where(),
        kind,
        None if enough is None else int(enough),
    )
