"""The files of a study: `study.toml`, and one experiment per file in `experiments/`. See docs/studies.md.

An experiment is a sweep file with more keys. This module declares the tables of both files, and checks rules that span
several tables or files. `airtcp.sweeps.definition` checks the sweep of an experiment.
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
from airtcp._files import within
from airtcp.catalogue import Catalogue
from airtcp.documents import Faults, Id, Place, Scalar, Table, Text, Unique, Where, Word, means
from airtcp.errors import StudyError, SweepError
from airtcp.expressions import Value, nearest
from airtcp.file_kinds import misplaced
from airtcp.package_data import named_file
from airtcp.sweeps.definition import Sweep
from airtcp.sweeps.file import SweepFile

STUDY_FILE: Final = "study.toml"
EXPERIMENTS: Final = "experiments"

Kind = Literal["paper", "sensitivity", "beyond"]
KINDS: Final = get_args(Kind)
PARAMETERS: Final = re.compile(r"(?:, [^\s,=]+ = [^,]*)+$")
"""The part of a curve's name after its variant: `, n = 500, D_ms = 20`."""
UNCOUNTED: Final = ("calibration", "identity")
"""Kinds of findings that test nothing: they are shown and not counted."""
FindingKind = Literal["paper", "sensitivity", "beyond", "calibration", "identity"]
"""Kinds of a finding. A finding without a kind has that of its experiment."""
Scale = Literal["linear", "log"]

NotNegative = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
AboveZero = Annotated[int, Meta(gt=0)] | Annotated[float, Meta(gt=0)]
AboveOne = Annotated[int, Meta(gt=1)] | Annotated[float, Meta(gt=1)]
OneOrMore = Annotated[int, Meta(ge=1)] | Annotated[float, Meta(ge=1)]
Texts = Annotated[tuple[Text, ...], Unique]


class StudyTable(Table, frozen=True):
    """A table of a study's files. White space around its texts is removed."""

    def __post_init__(self) -> None:
        """Removes white space around texts."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, str):
                msgspec.structs.force_setattr(self, name, value.strip())


class Assumption(StudyTable, kw_only=True, frozen=True):
    """A value that the source does not give."""

    id: Annotated[Id, means("Id, unique among the assumptions.")]
    what: Annotated[Text, means("The quantity that had to be chosen.")]
    value: Annotated[Scalar, means("The value that was chosen.")]
    why: Annotated[Text, means("The reason for this value.")]
    experiment: Annotated[Text | None, means("Id of the experiment that varies it.")] = None
    place: Where = ""


class Paper(StudyTable, kw_only=True, frozen=True):
    """The source that the study repeats."""

    authors: Annotated[Text | Texts | None, means("Names of the authors: one text, or a list.")] = None
    title: Annotated[Text, means("Title of the paper.")]
    venue: Annotated[Text | None, means("Journal, conference or series.")] = None
    year: Annotated[int | None, means("Year of publication.")] = None
    url: Annotated[Text | None, means("Address of the paper on the web.")] = None


class Cost(StudyTable, kw_only=True, frozen=True):
    """Measured wall time on two cores."""

    quick_s: Annotated[NotNegative | None, means("Wall time of `--quick` in seconds.")] = None
    full_s: Annotated[NotNegative | None, means("Wall time of `--full` in seconds.")] = None


class Plot(StudyTable, kw_only=True, frozen=True):
    """A figure."""

    id: Annotated[Id, means("Id, unique in the study. It names the picture's file.")]
    title: Annotated[Text, means("Heading of the plot.")]
    figure: Annotated[Text | None, means("Figure of the source, one of the experiment's `figures`.")] = None
    x: Annotated[
        Text,
        means(
            'A parameter, `variant`, or a column of y\'s measure as in `"by_size.size_kB"`. In a scatter plot without '
            "rows it may also be a measure."
        ),
    ]
    y: Annotated[Text, means('A measure, or a column as in `"by_size.transfer_s"`.')]
    series: Annotated[
        Text | Texts,
        means(
            'The plot has one curve for each value of `"variant"`, of a parameter, or of a column of y\'s measure. A '
            'list such as `["variant", "n"]` gives one curve for each combination.'
        ),
    ] = ("variant",)
    where: Annotated[
        dict[str, Scalar | Annotated[list[Scalar], Meta(min_length=1)]],
        means("Draw only points with these values of parameters or columns: `{ D_ms = 90 }`, `{ n = [500, 1500] }`."),
    ] = key(default_factory=dict)
    variants: Annotated[Texts, means("Draw only these variants. It does the same as `variant` in `where`.")] = ()
    kind: Annotated[
        Literal["line", "scatter", "bar"],
        means(
            "`line` and `bar` show the mean and its 95 % interval over the seeds for each x. With `bar`, x may be text."
            " `scatter` shows every row of the first seed, or every run if the measure has no rows."
        ),
    ] = "line"
    x_label: Annotated[Text | None, means("Title of the x axis. Default: the label of the parameter or measure.")] = (
        None
    )
    x_unit: Annotated[Text | None, means("Unit of the x axis. Default: the unit of the parameter or measure.")] = None
    x_scale: Annotated[Scale, means("Scale of the x axis.")] = "linear"
    y_label: Annotated[Text | None, means("Title of the y axis. Default: the label of the measure.")] = None
    y_unit: Annotated[Text | None, means("Unit of the y axis. Default: the unit of the measure.")] = None
    y_scale: Annotated[Scale, means("Scale of the y axis.")] = "linear"
    y_range: Annotated[tuple[int | float, int | float] | None, means("Lower and upper end of the y axis.")] = None
    caption: Annotated[str, means("Text below the plot.")] = ""
    place: Where = ""

    def __post_init__(self) -> None:
        """Brings `series` and `variants` to one form."""
        super().__post_init__()
        if isinstance(self.series, str):
            msgspec.structs.force_setattr(self, "series", (self.series,))
        if self.variants:
            msgspec.structs.force_setattr(self, "where", {**self.where, "variant": list(self.variants)})


class Finding(StudyTable, kw_only=True, frozen=True):
    """A claim, and the checks that hold it against results."""

    id: Annotated[Id, means("Id, unique in the study.")]
    claim: Annotated[Text, means("The claim, in a sentence.")]
    published: Annotated[str, means("The number or sentence in the source. Required if `kind` is `paper`.")] = ""
    checks: Annotated[
        Texts, Meta(min_length=1), means("Comparisons. The claim is reproduced if all of them are settled for it.")
    ]
    figure: Annotated[Text | None, means("Figure of the source, one of the experiment's `figures`.")] = None
    source: Annotated[str, means("Document that makes the claim. Default: the study's paper.")] = ""
    each: Annotated[
        dict[Word, Annotated[list[Scalar], Meta(min_length=1)]],
        means("Names and values. Checks that use the names are evaluated for every combination of the values."),
    ] = key(name="for", default_factory=dict)
    note: Annotated[str, means("Reason for a mismatch, and the experiment that supports the reason.")] = ""
    kind: Annotated[
        FindingKind | None,
        means(
            "Kind of the finding. Default: the experiment's `kind`. The kinds `calibration` and `identity` are shown "
            "and not counted."
        ),
    ] = None
    enough_seeds: Annotated[
        Annotated[int, Meta(ge=2)] | None, means("Number of seeds that must have a value in every check. Default: all.")
    ] = None
    place: Where = ""

    def cases(self) -> list[dict[str, Value]]:
        """All combinations of the values of `for`."""
        return [dict(zip(self.each, values, strict=True)) for values in product(*self.each.values())]


class MatrixMeasure(StudyTable, kw_only=True, frozen=True):
    """A measure that counts in a matrix."""

    name: Annotated[Text, means("Name of a measure with one number per run. Experiments may lack it.")]
    title: Annotated[str, means("Heading of its columns. Default: its name.")] = ""
    better: Annotated[Literal["less", "more"], means("Whether less or more of it is better.")] = "less"
    enough: Annotated[AboveZero | None, means("A value that is good enough. Better values count as this one.")] = None
    harm: Annotated[
        OneOrMore | None,
        means("A row harms if it makes the measure worse by this factor, beyond chance. 1: any change for the worse."),
    ] = None
    weight: Annotated[NotNegative, means("Weight of a doubling in the score.")] = 1

    def __post_init__(self) -> None:
        """Fills in the heading."""
        super().__post_init__()
        msgspec.structs.force_setattr(self, "title", self.title or self.name)


class MatrixScene(StudyTable, kw_only=True, frozen=True):
    """An experiment as a column of a matrix."""

    experiment: Annotated[Text, means("Id of an experiment.")]
    title: Annotated[str, means("Heading of the column. Default: the id.")] = ""
    text: Annotated[str, means("Description of the scene.")] = ""
    where: Annotated[dict[str, Scalar], means("One value for each parameter that varies in the experiment.")] = key(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        """Fills in the heading."""
        super().__post_init__()
        msgspec.structs.force_setattr(self, "title", self.title or self.experiment)


class MatrixRow(StudyTable, kw_only=True, frozen=True):
    """A variant as a row of a matrix."""

    variant: Annotated[Text, means("Name of a variant.")]
    remedy: Annotated[
        str,
        means(
            "A remedy of the matrix's catalogue, for what the row leaves out. Default: the one of the variant's name."
        ),
    ] = ""
    title: Annotated[str, means("Heading of the row. Default: the variant's name.")] = ""
    changes: Annotated[
        Texts,
        means("Things that have to be changed for it. Among equals, the row whose change costs least is advised."),
    ] = ()
    how: Annotated[str, means("Commands or settings that do it. Each advice prints them.")] = ""
    without: Annotated[
        Texts, means("Measures that say nothing about it. They stay empty; the row gets no score and is never advised.")
    ] = ()
    text: Annotated[str, means("Description of the row.")] = ""

    def __post_init__(self) -> None:
        """Fills in the heading."""
        super().__post_init__()
        msgspec.structs.force_setattr(self, "title", self.title or self.variant)


class MatrixGroup(StudyTable, kw_only=True, frozen=True):
    """Rows that are compared with one base."""

    title: Annotated[Text, means("Heading of the group.")]
    text: Annotated[str, means("Description of the group.")] = ""
    base: Annotated[Text, means("Variant with which the other rows are compared.")]
    base_title: Annotated[str, means("Heading of the base's row. Default: the variant's name.")] = ""
    rows: Annotated[tuple[MatrixRow, ...], Meta(min_length=1), means("The other variants.")]

    def __post_init__(self) -> None:
        """Fills in the heading of the base."""
        super().__post_init__()
        msgspec.structs.force_setattr(self, "base_title", self.base_title or self.base)


class MatrixMap(StudyTable, kw_only=True, frozen=True):
    """The advice over two parameters of an experiment: a picture for each group whose base and rows run in it."""

    id: Annotated[Id, means("Id, unique among matrices, maps and plots. It names the picture's file.")]
    title: Annotated[Text, means("Its heading.")]
    text: Annotated[str, means("Description of the map.")] = ""
    experiment: Annotated[Text, means("Id of an experiment.")]
    x: Annotated[Text, means("Parameter on the horizontal axis.")]
    y: Annotated[Text, means("Parameter on the vertical axis.")]
    x_label: Annotated[str, means("Label of the horizontal axis. Default: the parameter.")] = ""
    y_label: Annotated[str, means("Label of the vertical axis. Default: the parameter.")] = ""
    where: Annotated[dict[str, Scalar], means("One value for each other parameter that varies.")] = key(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        """Fills in the labels."""
        super().__post_init__()
        msgspec.structs.force_setattr(self, "x_label", self.x_label or self.x)
        msgspec.structs.force_setattr(self, "y_label", self.y_label or self.y)


class Rule(Table, kw_only=True, frozen=True):
    """The rule by which a matrix advises, as a file of its own."""

    margin: Annotated[AboveOne, means("The smallest overall gain that counts, as a factor.")]
    costs: Annotated[Texts, means("Kinds of change, the cheapest first.")]
    measures: Annotated[tuple[MatrixMeasure, ...], Meta(min_length=1), means("Measures that count.")]

    @classmethod
    def load(cls, path: Path) -> Rule:
        """Reads a rule.

        Raises:
            StudyError: it cannot be read, or is wrong.
        """
        return documents.read(documents.load(path, "rule of advice", StudyError), cls, StudyError)


class Matrix(StudyTable, kw_only=True, frozen=True):
    """Variants as rows and experiments as columns. `airtcp.study.matrix` computes scores and advice from it."""

    id: Annotated[Id, means("Id, unique among matrices and plots. It names the pictures' files.")]
    title: Annotated[Text, means("Its heading.")]
    text: Annotated[str, means("Description of the matrix.")] = ""
    rule: Annotated[
        str, means("A file with `margin`, `costs` and `measures`, relative to this one, in place of those keys here.")
    ] = ""
    margin: Annotated[AboveOne, means("The smallest overall gain that counts, as a factor.")] = 1.25
    costs: Annotated[
        Texts,
        means("Kinds of change, the cheapest first. `changes` of rows are among them. Default: all cost the same."),
    ] = ()
    catalogue: Annotated[
        str, means("A catalogue of remedies, relative to this file: rows have `changes`, `how` and `text` from it.")
    ] = ""
    measures: Annotated[
        tuple[MatrixMeasure, ...], means("Measures that count. At least one, here or in the file of `rule`.")
    ] = ()
    scenes: Annotated[tuple[MatrixScene, ...], Meta(min_length=1), means("The columns.")]
    groups: Annotated[tuple[MatrixGroup, ...], Meta(min_length=1), means("The rows, in groups that share a base.")]
    maps: Annotated[tuple[MatrixMap, ...], means("Maps of the advice over two parameters of an experiment.")] = ()
    place: Where = ""


class Answer(StudyTable, kw_only=True, frozen=True):
    """The answer to the title's question: its verdicts stand at the top of the report."""

    findings: Annotated[
        tuple[Id, ...], Meta(min_length=1, max_length=3), means("Ids of the main findings, three at most.")
    ]
    plot: Annotated[Id | None, means("Id of the key figure.")] = None


class StudyFile(StudyTable, kw_only=True, frozen=True):
    """The content of `study.toml`."""

    id: Annotated[Id, means("Name of the study on the command line.")]
    title: Annotated[Text, means("Its heading.")]
    question: Annotated[Text, means("The question that the study answers.")]
    summary: Annotated[str, means("A few sentences about the study.")] = ""
    paper: Annotated[Paper | None, means("The source that the study repeats.")] = None
    cost: Annotated[Cost | None, means("Measured wall time on two cores.")] = None
    answer: Annotated[Answer | None, means("The main findings and the key figure.")] = None
    assumptions: Annotated[
        tuple[Assumption, ...], means("Values that the source does not give, and the choices made.")
    ] = ()
    titles: Annotated[
        dict[str, Text],
        means("Titles of variants, by their names. Figures of the report show them; tables and checks keep the names."),
    ] = key(default_factory=dict)
    matrices: Annotated[tuple[Matrix, ...], means("Tables of variants against experiments, with advice.")] = ()


class ExperimentFile(SweepFile, kw_only=True, frozen=True):
    """An experiment: a sweep with figures, plots and findings."""

    id: Annotated[Id, means("Id, unique in the study. It names the result files.")]
    title: Annotated[Text, means("Its heading.")]
    text: Annotated[str, means("Description of the experiment and its outcome.")] = ""
    kind: Annotated[
        Kind,
        means("`paper` repeats the source, `sensitivity` varies an assumption, `beyond` goes further than the source."),
    ] = "paper"
    figures: Annotated[Texts, means('Figures of the source, such as `["3a", "3b"]`. Each needs a plot.')] = ()
    plots: Annotated[tuple[Plot, ...], means("Figures to draw.")] = ()
    findings: Annotated[tuple[Finding, ...], means("Claims and their checks.")] = ()


OWN_KEYS: Final = tuple(
    k for k in ExperimentFile.__struct_encode_fields__ if k not in SweepFile.__struct_encode_fields__
)
"""Keys that an experiment adds to those of a sweep."""


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
    """The keys of its file that a sweep has."""
    place: str
    """Path of the file, for messages."""


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
    answer: Answer | None = None
    titles: Mapping[str, str] = field(default_factory=dict)
    """Titles of variants, by their names."""

    @property
    def figures(self) -> list[str]:
        """Figures of the source that have a plot or a finding, in order."""
        return list(dict.fromkeys(figure for experiment in self.experiments for figure in experiment.figures))

    def only(self, figures: Sequence[str] = (), experiments: Sequence[str] = ()) -> Study:
        """The part of the study that belongs to the given figures and experiments. `3` means 3a and 3b as well.

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
        # A matrix needs all of its scenes. A map needs its experiment.
        matrices = tuple(
            msgspec.structs.replace(m, maps=tuple(one for one in m.maps if one.experiment in experiments))
            for m in self.matrices
            if {s.experiment for s in m.scenes} <= set(experiments)
        )
        return replace(self, experiments=tuple(kept), matrices=matrices)


def _is_of(figure: str, asked: str) -> bool:
    """Whether a figure is the one asked for, or a panel of it: 3a belongs to 3, 13 does not."""
    return figure == asked or (asked.isdigit() and re.fullmatch(rf"{asked}[^0-9].*", figure) is not None)


def inside(folder: Path, name: str) -> Path:
    """A file of a study's folder.

    Raises:
        StudyError: a link there leads out of the folder.
    """
    try:
        return within(folder, folder, name)
    except OSError as error:
        raise StudyError(f"{folder / name}: {error.strerror}") from error


def read(folder: Path) -> Study:
    """Reads a study. `airtcp.study.prepare` checks that its sweeps, plots and findings fit together.

    Raises:
        StudyError: a file is missing or wrong. The message lists every fault.
    """
    if folder.is_file():
        told = misplaced(folder, "study")
        raise StudyError(told or f"{folder}: not a study: a study is a folder with {STUDY_FILE}")
    path = inside(folder, STUDY_FILE)
    if not path.is_file():
        raise StudyError(f"{folder}: not a study: it has no {STUDY_FILE}")
    document = documents.load(path, "study", StudyError)
    file = _with_remedies(documents.read(document, StudyFile, StudyError), document, folder)
    names = [each.name for each in inside(folder, EXPERIMENTS).glob("*.toml")]
    paths = sorted((inside(folder, f"{EXPERIMENTS}/{name}") for name in names), key=_natural)
    if not paths:
        raise StudyError(f"{folder / EXPERIMENTS}: holds no experiment (*.toml)")
    paper = _written(file.paper)
    read_from: dict[str, Document] = {}
    experiments = []
    found: list[str] = []
    for each in paths:
        try:
            experiment, read_from[str(each)] = _experiment(each, citation(paper) or file.title, folder)
            experiments.append(experiment)
        except StudyError as error:
            found += error.faults
    if found:
        raise StudyError(*found)
    # Experiments that repeat the source come first. Sorting keeps the order of the names.
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
        file.answer,
        file.titles,
    )


def _with_remedies(file: StudyFile, document: Document, folder: Path) -> StudyFile:
    """With what rows of matrices take from a catalogue.

    Raises:
        StudyError: the catalogue cannot be read, or has no such remedy.
    """
    faults = Faults(document, StudyError)
    matrices = []
    for i, matrix in enumerate(file.matrices):
        matrix = _with_rule(matrix, document.value()["matrices"][i], folder, faults, i)
        catalogue = None
        if matrix.catalogue:
            try:
                catalogue = Catalogue.load(named_file(folder, folder, matrix.catalogue), StudyError)
            except OSError as error:
                faults.add(str(error.strerror), "matrices", i, "catalogue")
        groups = []
        for j, group in enumerate(matrix.groups):
            rows = []
            for k, row in enumerate(group.rows):
                remedy = None if catalogue is None else catalogue.get(row.remedy or row.variant)
                if remedy is None and row.remedy:
                    told = (
                        "the matrix names no `catalogue`" if catalogue is None else "the catalogue has no such remedy"
                    )
                    place = ("matrices", i, "groups", j, "rows", k, "remedy")
                    faults.add(f"{told}{nearest(row.remedy, catalogue or ())}", *place)
                if remedy is not None:
                    taken = {key: getattr(row, key) or getattr(remedy, key) for key in TAKEN}
                    row = msgspec.structs.replace(row, **taken)
                rows.append(row)
            groups.append(msgspec.structs.replace(group, rows=tuple(rows)))
        matrices.append(msgspec.structs.replace(matrix, groups=tuple(groups)))
    faults.raise_any()
    return msgspec.structs.replace(file, matrices=tuple(matrices))


def _with_rule(matrix: Matrix, given: Mapping[str, Any], folder: Path, faults: Faults, i: int) -> Matrix:
    """With margin, costs and measures of the file that a matrix names."""
    if not matrix.rule:
        if not matrix.measures:
            faults.add("must hold at least one measure, or `rule` must name a file of measures", "matrices", i)
        return matrix
    if twice := [name for name in Rule.__struct_fields__ if name in given]:
        told = f"the file of `rule` has {', '.join(f'`{name}`' for name in twice)} as well: use either, not both"
        faults.add(told, "matrices", i, "rule")
        return matrix
    try:
        rule = Rule.load(named_file(folder, folder, matrix.rule))
    except OSError as error:
        faults.add(str(error.strerror), "matrices", i, "rule")
        return matrix
    return msgspec.structs.replace(matrix, margin=rule.margin, costs=rule.costs, measures=rule.measures)


TAKEN: Final = ("changes", "how", "without", "text")
"""Keys that a row of a matrix takes from its remedy."""


def _written(table: StudyTable | None) -> dict[str, Any]:
    """The keys that are given, as JSON values."""
    if table is None:
        return {}
    given = {name: getattr(table, name) for name in table.__struct_fields__}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in given.items() if value is not None
    }


def _natural(path: Path) -> list[tuple[int, str]]:
    """A sort key that puts fig3 before fig12."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.stem) if part]


def _check_ids(
    document: Document, file: StudyFile, experiments: Sequence[Experiment], read_from: Mapping[str, Document]
) -> None:
    """Checks that ids are unique, and that every name refers to something.

    Raises:
        StudyError: one is not.
    """
    faults = Faults(document, StudyError)

    def unique(ids: Sequence[tuple[str, Document, Place]]) -> None:
        first: dict[str, str] = {}
        for name, holder, place in ids:
            if name in first:
                faults.found.append(holder.fault((*place, "id"), f"already used by {first[name]}: choose another id"))
            first.setdefault(name, holder.where(place))

    def listed(kind: str) -> list[tuple[str, Document, Place]]:
        return [(p.id, read_from[e.place], (kind, i)) for e in experiments for i, p in enumerate(getattr(e, kind))]

    unique([(e.id, read_from[e.place], ()) for e in experiments])
    maps = [
        (one.id, document, ("matrices", i, "maps", j))
        for i, m in enumerate(file.matrices)
        for j, one in enumerate(m.maps)
    ]
    unique([*[(m.id, document, ("matrices", i)) for i, m in enumerate(file.matrices)], *maps, *listed("plots")])
    unique(listed("findings"))
    unique([(a.id, document, ("assumptions", i)) for i, a in enumerate(file.assumptions)])
    ids = [e.id for e in experiments]
    named: list[tuple[str | None, Place]] = [
        (a.experiment, ("assumptions", i, "experiment")) for i, a in enumerate(file.assumptions)
    ]
    for i, m in enumerate(file.matrices):
        named += [(s.experiment, ("matrices", i, "scenes", j, "experiment")) for j, s in enumerate(m.scenes)]
        named += [(one.experiment, ("matrices", i, "maps", j, "experiment")) for j, one in enumerate(m.maps)]
        for kind, name, values in (
            ("measures", "name", [one.name for one in m.measures]),
            ("scenes", "experiment", [one.experiment for one in m.scenes]),
            ("groups", "title", [one.title for one in m.groups]),
        ):
            for j, value in enumerate(values):
                if value in values[:j]:
                    faults.add("is there twice", "matrices", i, kind, j, name)
        for j, group in enumerate(m.groups):
            variants = [group.base, *(row.variant for row in group.rows)]
            for k, row in enumerate(group.rows):
                if row.variant in variants[: k + 1]:
                    message = "appears twice: each variant of a group must appear once, the base included"
                    faults.add(message, "matrices", i, "groups", j, "rows", k, "variant")
                known = [one.name for one in m.measures]
                for what, names, allowed in (("changes", row.changes, m.costs), ("without", row.without, known)):
                    for name in names if allowed or what == "without" else ():
                        if name not in allowed:
                            message = f"{name!r} is unknown; accepted: {', '.join(allowed)}"
                            faults.add(message, "matrices", i, "groups", j, "rows", k, what)
    for experiment, place in named:
        if experiment is not None and experiment not in ids:
            faults.add(f"no experiment has that id{nearest(experiment, ids)}", *place)
    if file.answer is not None:
        there = {kind: [name for name, _, _ in listed(kind)] for kind in ("findings", "plots")}
        for i, name in enumerate(file.answer.findings):
            if name not in there["findings"]:
                message = f"no finding has that id{nearest(name, there['findings'])}"
                faults.add(message, "answer", "findings", i)
        plot = file.answer.plot
        if plot is not None and plot not in there["plots"]:
            faults.add(f"no plot has that id{nearest(plot, there['plots'])}", "answer", "plot")
    variants = list(
        dict.fromkeys(variant.name for e in experiments for variant in e.sweep.variant_list if variant.name is not None)
    )
    shown: dict[str, str] = {}
    for name, title in file.titles.items():
        if name not in variants:
            faults.add(f"no experiment has a variant of that name{nearest(name, variants)}", "titles", name)
        elif title in shown or (title in variants and title != name):
            other = shown.get(title, title)
            faults.add(f"the variant {other!r} has that title as well: each variant must have its own", "titles", name)
        elif PARAMETERS.search(title):
            faults.add("must not end like a parameter and its value (`, n = 500`)", "titles", name)
        shown[title] = name
    faults.raise_any()


def citation(paper: Mapping[str, Any]) -> str:
    """Authors, title, venue and year in one line; empty without a paper."""
    authors = paper.get("authors")
    names = ", ".join(authors) if isinstance(authors, list) else authors
    parts = [names, paper.get("title"), " ".join(str(paper[k]) for k in ("venue", "year") if k in paper)]
    return ", ".join(part for part in parts if part)


def _experiment(path: Path, source: str, root: Path) -> tuple[Experiment, Document]:
    document = documents.load(path, "experiment", StudyError)
    file = documents.read(document, ExperimentFile, StudyError)
    faults = Faults(document, StudyError)
    for i, plot in enumerate(file.plots):
        _check_figure(faults, file, plot.figure, "plots", i)
        if plot.variants and "variant" in document.value()["plots"][i].get("where", {}):
            faults.add(
                "`where` has `variant` as well: use either `variants` or `where.variant`, not both",
                "plots",
                i,
                "variants",
            )
        if plot.y_range is not None and plot.y_range[0] >= plot.y_range[1]:
            faults.add("must have the lower end first", "plots", i, "y_range")
    for i, finding in enumerate(file.findings):
        _check_figure(faults, file, finding.figure, "findings", i)
        if (finding.kind or file.kind) == "paper" and not finding.published:
            faults.add("must be text: the number or sentence in the source", "findings", i, "published")
    for i, figure in enumerate(file.figures):
        if not any(plot.figure == figure for plot in file.plots):
            faults.add(f"no plot has figure = {figure!r}: add a plot, or remove the figure", "figures", i)
    bare = document
    for name in OWN_KEYS:
        bare = bare.without((name,))
    try:
        sweep = Sweep.from_document(bare, path, root)
    except SweepError as error:
        raise StudyError(*faults.found, *error.faults) from error
    faults.raise_any()
    findings = tuple(_completed(finding, file.kind, source) for finding in file.findings)
    experiment = Experiment(
        file.id, file.title.strip(), file.text.strip(), file.kind, file.figures, file.plots, findings, sweep, str(path)
    )
    return experiment, document


def _completed(finding: Finding, kind: FindingKind, source: str) -> Finding:
    """The finding with its kind and source filled in from its experiment and its study."""
    own = finding.kind or kind
    is_published = bool(finding.published) or own == "paper"
    return msgspec.structs.replace(finding, kind=own, source=finding.source or (source if is_published else ""))


def _check_figure(faults: Faults, file: ExperimentFile, figure: str | None, *place: str | int) -> None:
    if figure is not None and figure not in file.figures:
        have = ", ".join(map(repr, file.figures)) or "none"
        faults.add(f"must be one of the experiment's figures: {have}", *place, "figure")
