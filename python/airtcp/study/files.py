"""The files of a study: `study.toml`, and one experiment per file in `experiments/`. See docs/studies.md.

An experiment is a sweep file with more keys. Tables are declared here, and what only a whole study can tell is checked;
the sweep of an experiment is checked by `airtcp.sweeps.definition`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta
from msgspec import field as key

from airtcp import documents
from airtcp._airtcp import Document
from airtcp.documents import Faults, Id, Place, Scalar, Table, Text, Unique, Where, Word, means
from airtcp.errors import StudyError, SweepError
from airtcp.expressions import Value, nearest
from airtcp.kinds import misplaced
from airtcp.sweeps.definition import Sweep
from airtcp.sweeps.file import SweepFile

STUDY_FILE: Final = "study.toml"
EXPERIMENTS: Final = "experiments"

Kind = Literal["paper", "sensitivity", "beyond"]
KINDS: Final = get_args(Kind)
UNCOUNTED: Final = ("calibration", "identity")
"""Kinds of findings that test nothing: they are shown and not counted."""
FindingKind = Literal["paper", "sensitivity", "beyond", "calibration", "identity"]
"""Of a finding: that of its experiment, unless it says otherwise."""
Scale = Literal["linear", "log"]

NotNegative = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
AboveZero = Annotated[int, Meta(gt=0)] | Annotated[float, Meta(gt=0)]
AboveOne = Annotated[int, Meta(gt=1)] | Annotated[float, Meta(gt=1)]
Texts = Annotated[tuple[Text, ...], Unique]


class Part(Table, frozen=True):
    """A table of a study's files; what surrounds its texts is dropped."""

    def __post_init__(self) -> None:
        """Drops it."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, str):
                msgspec.structs.force_setattr(self, name, value.strip())


class Assumption(Part, kw_only=True, frozen=True):
    """Something the source does not say."""

    id: Annotated[Id, means("Unique among the assumptions.")]
    what: Annotated[Text, means("What had to be chosen.")]
    value: Annotated[Scalar, means("What was chosen.")]
    why: Annotated[Text, means("The reason for this value.")]
    experiment: Annotated[Text | None, means("Id of the experiment that shows what depends on it.")] = None
    place: Where = ""


class Paper(Part, kw_only=True, frozen=True):
    """What is repeated."""

    authors: Annotated[Text | Texts | None, means("Text, or a list of names.")] = None
    title: Annotated[Text, means("Of the paper.")]
    venue: Annotated[Text | None, means("Journal, conference or series.")] = None
    year: Annotated[int | None, means("When it appeared.")] = None
    url: Annotated[Text | None, means("Where it can be read.")] = None


class Cost(Part, kw_only=True, frozen=True):
    """Measured wall time on two cores."""

    quick_s: Annotated[NotNegative | None, means("Of `--quick`, seconds.")] = None
    full_s: Annotated[NotNegative | None, means("Of `--full`, seconds.")] = None


class Plot(Part, kw_only=True, frozen=True):
    """A figure."""

    id: Annotated[Id, means("Unique in the study; names the picture.")]
    title: Annotated[Text, means("Its heading.")]
    figure: Annotated[Text | None, means("Figure of the source, one of the experiment's `figures`.")] = None
    x: Annotated[
        Text,
        means(
            'A parameter, `arm`, or a column of y\'s measure as in `"by_size.size_kB"`; in a scatter plot without rows '
            "also a measure."
        ),
    ]
    y: Annotated[Text, means('A measure, or a column as in `"by_size.transfer_s"`.')]
    series: Annotated[
        Text | Texts,
        means(
            'One curve for each value of: `"arm"`, a parameter, a column of y\'s measure by its name alone, or several '
            'as `["arm", "n"]`.'
        ),
    ] = ("arm",)
    where: Annotated[
        dict[str, Scalar | Annotated[list[Scalar], Meta(min_length=1)]],
        means("Keep only these coordinates: `{ D_ms = 90 }`, `{ n = [500, 1500] }`, columns as well."),
    ] = key(default_factory=dict)
    arms: Annotated[Texts, means("Draw only these arms; the same as `arm` in `where`.")] = ()
    kind: Annotated[
        Literal["line", "scatter", "bar"],
        means(
            "`line` and `bar`: mean and 95 % interval over the seeds for each x (a bar takes texts as x, too). "
            "`scatter`: every row of the first seed, or without rows every run."
        ),
    ] = "line"
    x_label: Annotated[Text | None, means("Title of the axis. Default: that of the parameter or measure.")] = None
    x_unit: Annotated[Text | None, means("Unit of the axis. Default: that of the parameter or measure.")] = None
    x_scale: Annotated[Scale, means("Of the axis.")] = "linear"
    y_label: Annotated[Text | None, means("Title of the axis. Default: that of the measure.")] = None
    y_unit: Annotated[Text | None, means("Unit of the axis. Default: that of the measure.")] = None
    y_scale: Annotated[Scale, means("Of the axis.")] = "linear"
    y_range: Annotated[tuple[int | float, int | float] | None, means("Lower and upper end of the axis.")] = None
    caption: Annotated[str, means("What to look at.")] = ""
    place: Where = ""

    def __post_init__(self) -> None:
        """One form for what can be written in two."""
        super().__post_init__()
        if isinstance(self.series, str):
            msgspec.structs.force_setattr(self, "series", (self.series,))
        if self.arms:
            msgspec.structs.force_setattr(self, "where", {**self.where, "arm": list(self.arms)})


class Finding(Part, kw_only=True, frozen=True):
    """A claim, and the checks that hold it against results."""

    id: Annotated[Id, means("Unique in the study.")]
    claim: Annotated[Text, means("What is claimed, in a sentence.")]
    published: Annotated[
        str, means("What the source prints; without it nothing is cited. Required if `kind` is `paper`.")
    ] = ""
    checks: Annotated[Texts, Meta(min_length=1), means("Comparisons; all must be settled for.")]
    figure: Annotated[Text | None, means("Figure of the source, one of the experiment's `figures`.")] = None
    source: Annotated[str, means("Where it is claimed. Default: the study's paper.")] = ""
    each: Annotated[
        dict[Word, Annotated[list[Scalar], Meta(min_length=1)]],
        means("The checks that use these names are made for every combination of their values."),
    ] = key(name="for", default_factory=dict)
    note: Annotated[str, means("Why it does not match, if it does not, naming the experiment that supports it.")] = ""
    kind: Annotated[
        FindingKind | None,
        means(
            "What the finding counts as. Default: the experiment's `kind`. `calibration` and `identity` are shown and "
            "not counted."
        ),
    ] = None
    enough_seeds: Annotated[
        Annotated[int, Meta(ge=2)] | None, means("How many seeds must have a value in every check. Default: all.")
    ] = None
    place: Where = ""

    def cases(self) -> list[dict[str, Value]]:
        """Every combination of the values of `for`."""
        return [dict(zip(self.each, values, strict=True)) for values in product(*self.each.values())]


class MatrixMeasure(Part, kw_only=True, frozen=True):
    """A measure that counts in a matrix."""

    name: Annotated[Text, means("Of a measure with one number per run. Experiments may lack it.")]
    title: Annotated[str, means("Heading of its columns. Default: its name.")] = ""
    better: Annotated[Literal["less", "more"], means("Which values are better.")] = "less"
    enough: Annotated[AboveZero | None, means("What is better than this counts as this.")] = None
    harm: Annotated[AboveOne | None, means("The factor by which it may not get worse.")] = None
    weight: Annotated[NotNegative, means("How much a doubling of it counts.")] = 1

    def __post_init__(self) -> None:
        """A heading."""
        super().__post_init__()
        msgspec.structs.force_setattr(self, "title", self.title or self.name)


class MatrixScene(Part, kw_only=True, frozen=True):
    """An experiment as a column."""

    experiment: Annotated[Text, means("Id of an experiment.")]
    title: Annotated[str, means("Heading of its column. Default: the id.")] = ""
    text: Annotated[str, means("What happens there.")] = ""
    where: Annotated[dict[str, Scalar], means("One value of each parameter that varies.")] = key(default_factory=dict)

    def __post_init__(self) -> None:
        """A heading."""
        super().__post_init__()
        msgspec.structs.force_setattr(self, "title", self.title or self.experiment)


class MatrixRow(Part, kw_only=True, frozen=True):
    """An arm as a row."""

    arm: Annotated[Text, means("Name of an arm.")]
    title: Annotated[str, means("What people call it. Default: the arm's name.")] = ""
    changes: Annotated[Texts, means("What has to be changed for it: the fewer, the better among equals.")] = ()
    text: Annotated[str, means("What it is.")] = ""

    def __post_init__(self) -> None:
        """A heading."""
        super().__post_init__()
        msgspec.structs.force_setattr(self, "title", self.title or self.arm)


class MatrixGroup(Part, kw_only=True, frozen=True):
    """Rows that are held against one base."""

    title: Annotated[Text, means("What its rows have in common.")]
    text: Annotated[str, means("More about them.")] = ""
    base: Annotated[Text, means("Arm that the others are held against.")]
    base_title: Annotated[str, means("What people call it. Default: the arm's name.")] = ""
    rows: Annotated[tuple[MatrixRow, ...], Meta(min_length=1), means("Other arms.")]

    def __post_init__(self) -> None:
        """A heading."""
        super().__post_init__()
        msgspec.structs.force_setattr(self, "base_title", self.base_title or self.base)


class Matrix(Part, kw_only=True, frozen=True):
    """Variants against scenes; see `airtcp.study.matrix` for what follows from it."""

    id: Annotated[Id, means("Unique among matrices and plots; names its pictures.")]
    title: Annotated[Text, means("Its heading.")]
    text: Annotated[str, means("What it shows.")] = ""
    margin: Annotated[AboveOne, means("The least overall gain that counts, as a factor.")] = 1.25
    measures: Annotated[tuple[MatrixMeasure, ...], Meta(min_length=1), means("What counts.")]
    scenes: Annotated[tuple[MatrixScene, ...], Meta(min_length=1), means("Columns.")]
    groups: Annotated[tuple[MatrixGroup, ...], Meta(min_length=1), means("Rows that share a base.")]
    place: Where = ""


class StudyFile(Part, kw_only=True, frozen=True):
    """What a study is about."""

    id: Annotated[Id, means("Its name on the command line.")]
    title: Annotated[Text, means("Its heading.")]
    question: Annotated[Text, means("What the study asks.")]
    summary: Annotated[str, means("A few sentences about it.")] = ""
    paper: Annotated[Paper | None, means("What is repeated.")] = None
    cost: Annotated[Cost | None, means("Measured wall time on two cores.")] = None
    assumptions: Annotated[tuple[Assumption, ...], means("What the source does not say, and what was chosen.")] = ()
    matrices: Annotated[tuple[Matrix, ...], means("Variants against scenes.")] = ()


class ExperimentFile(SweepFile, kw_only=True, frozen=True):
    """An experiment: a sweep, and what a study adds to it."""

    id: Annotated[Id, means("Unique in the study; names the result files.")]
    title: Annotated[Text, means("Its heading.")]
    text: Annotated[str, means("What it does, and what it shows.")] = ""
    kind: Annotated[
        Kind,
        means("`paper` repeats the source, `sensitivity` shows what an assumption does, `beyond` goes further."),
    ] = "paper"
    figures: Annotated[Texts, means('Figures of the source, such as `["3a", "3b"]`; each needs a plot.')] = ()
    plots: Annotated[tuple[Plot, ...], means("Figures to draw.")] = ()
    findings: Annotated[tuple[Finding, ...], means("Claims and their checks.")] = ()


OWN_KEYS: Final = tuple(
    k for k in ExperimentFile.__struct_encode_fields__ if k not in SweepFile.__struct_encode_fields__
)
"""Of an experiment; all others are the sweep's."""


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
        StudyError: a file is missing or wrong; with all that is wrong in it.
    """
    path = folder / STUDY_FILE
    if folder.is_file():
        told = misplaced(folder, "study")
        raise StudyError(told or f"{folder}: not a study: a study is a folder with {STUDY_FILE}")
    if not path.is_file():
        raise StudyError(f"{folder}: not a study: it has no {STUDY_FILE}")
    document = documents.load(path, "study", StudyError)
    file = documents.read(document, StudyFile, StudyError)
    paths = sorted((folder / EXPERIMENTS).glob("*.toml"), key=_natural)
    if not paths:
        raise StudyError(f"{folder / EXPERIMENTS}: holds no experiment (*.toml)")
    paper = _written(file.paper)
    read_from: dict[str, Document] = {}
    experiments = []
    found: list[str] = []
    for each in paths:
        try:
            experiment, read_from[str(each)] = _experiment(each, citation(paper) or file.title)
            experiments.append(experiment)
        except StudyError as error:
            found += error.faults
    if found:
        raise StudyError(*found)
    # What repeats the source comes first; sorting keeps the order of the names.
    experiments.sort(key=lambda e: KINDS.index(e.kind))
    _check_ids(document, file, experiments, read_from)
    return Study(
        file.id,
        file.title,
        file.question,
        file.summary,
        paper,
        file.assumptions,
        _written(file.cost),
        tuple(experiments),
        folder,
        file.matrices,
    )


def _written(table: Part | None) -> dict[str, Any]:
    """The keys that are given, as JSON has them."""
    if table is None:
        return {}
    given = {name: getattr(table, name) for name in table.__struct_fields__}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in given.items() if value is not None
    }


def _natural(path: Path) -> list[tuple[int, str]]:
    """fig3 before fig12."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.stem) if part]


def _check_ids(
    document: Document, file: StudyFile, experiments: Sequence[Experiment], read_from: Mapping[str, Document]
) -> None:
    """Ids are there once, and what is named is there.

    Raises:
        StudyError: it is not so.
    """
    faults = Faults(document, StudyError)

    def unique(ids: Sequence[tuple[str, Document, Place]]) -> None:
        first: dict[str, str] = {}
        for name, holder, place in ids:
            if name in first:
                faults.found.append(
                    holder.fault((*place, "id"), f"taken by {first[name]}; an id is used once in a study")
                )
            first.setdefault(name, holder.where(place))

    def listed(kind: str) -> list[tuple[str, Document, Place]]:
        return [(p.id, read_from[e.place], (kind, i)) for e in experiments for i, p in enumerate(getattr(e, kind))]

    unique([(e.id, read_from[e.place], ()) for e in experiments])
    unique([*[(m.id, document, ("matrices", i)) for i, m in enumerate(file.matrices)], *listed("plots")])
    unique(listed("findings"))
    unique([(a.id, document, ("assumptions", i)) for i, a in enumerate(file.assumptions)])
    ids = [e.id for e in experiments]
    named: list[tuple[str | None, Place]] = [
        (a.experiment, ("assumptions", i, "experiment")) for i, a in enumerate(file.assumptions)
    ]
    for i, m in enumerate(file.matrices):
        named += [(s.experiment, ("matrices", i, "scenes", j, "experiment")) for j, s in enumerate(m.scenes)]
        for kind, name, values in (
            ("measures", "name", [one.name for one in m.measures]),
            ("scenes", "experiment", [one.experiment for one in m.scenes]),
            ("groups", "title", [one.title for one in m.groups]),
        ):
            for j, value in enumerate(values):
                if value in values[:j]:
                    faults.add("is there twice", "matrices", i, kind, j, name)
        for j, group in enumerate(m.groups):
            arms = [group.base, *(row.arm for row in group.rows)]
            for k, row in enumerate(group.rows):
                if row.arm in arms[: k + 1]:
                    message = "is there twice, the base counted"
                    faults.add(message, "matrices", i, "groups", j, "rows", k, "arm")
    for experiment, place in named:
        if experiment is not None and experiment not in ids:
            faults.add(f"no experiment has that id{nearest(experiment, ids)}", *place)
    faults.raise_any()


def citation(paper: Mapping[str, Any]) -> str:
    """Authors, title, venue and year in one line; empty without a paper."""
    authors = paper.get("authors")
    names = ", ".join(authors) if isinstance(authors, list) else authors
    parts = [names, paper.get("title"), " ".join(str(paper[k]) for k in ("venue", "year") if k in paper)]
    return ", ".join(part for part in parts if part)


def _experiment(path: Path, source: str) -> tuple[Experiment, Document]:
    document = documents.load(path, "experiment", StudyError)
    file = documents.read(document, ExperimentFile, StudyError)
    faults = Faults(document, StudyError)
    for i, plot in enumerate(file.plots):
        _check_figure(faults, file, plot.figure, "plots", i)
        if plot.arms and "arm" in document.value()["plots"][i].get("where", {}):
            faults.add("`where` has `arm` as well: use either `arms` or `where.arm`, not both", "plots", i, "arms")
        if plot.y_range is not None and plot.y_range[0] >= plot.y_range[1]:
            faults.add("the lower end comes first", "plots", i, "y_range")
    for i, finding in enumerate(file.findings):
        _check_figure(faults, file, finding.figure, "findings", i)
        if (finding.kind or file.kind) == "paper" and not finding.published:
            faults.add("must be text: what the source prints", "findings", i, "published")
    for i, figure in enumerate(file.figures):
        if not any(plot.figure == figure for plot in file.plots):
            faults.add(f"no plot has figure = {figure!r}", "figures", i)
    bare = document
    for name in OWN_KEYS:
        bare = bare.without((name,))
    try:
        sweep = Sweep.from_document(bare, path)
    except SweepError as error:
        raise StudyError(*faults.found, *error.faults) from error
    faults.raise_any()
    findings = tuple(_completed(finding, file.kind, source) for finding in file.findings)
    experiment = Experiment(
        file.id, file.title.strip(), file.text.strip(), file.kind, file.figures, file.plots, findings, sweep, str(path)
    )
    return experiment, document


def _completed(finding: Finding, kind: FindingKind, source: str) -> Finding:
    """With what it takes from its experiment and its study."""
    own = finding.kind or kind
    is_published = bool(finding.published) or own == "paper"
    return msgspec.structs.replace(finding, kind=own, source=finding.source or (source if is_published else ""))


def _check_figure(faults: Faults, file: ExperimentFile, figure: str | None, *place: str | int) -> None:
    if figure is not None and figure not in file.figures:
        have = ", ".join(map(repr, file.figures)) or "none"
        faults.add(f"not among the experiment's figures: {have}", *place, "figure")
