"""The content of a `study.json`, checked, for reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from airtcp._marker import read_file
from airtcp.errors import ResultsError

FORMAT: Final = "airtcp-study"
FORMAT_VERSION: Final = 3

Verdict = Literal["reproduced", "mixed", "not", "open", "calibration", "identity"]
"""Verdicts. With the last two, the finding tests nothing and is not counted."""
Interval = tuple[float | None, float | None]
Coordinate = float | int | str | bool | None


class _Part(msgspec.Struct, kw_only=True):
    """A part of the file. Keys that this version does not know are ignored."""


class Axis(_Part):
    """Label, unit and scale of one axis."""

    label: str
    unit: str | None = None
    scale: Literal["linear", "log"] | None = None
    range: Interval | None = None
    titles: dict[str, str] = {}
    """Titles of the variants along it."""

    def shown(self, place: Coordinate) -> Coordinate:
        """A place along the axis as it is shown: a variant by its title."""
        return self.titles.get(place, place) if isinstance(place, str) else place

    @property
    def title(self) -> str:
        """Label and unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def is_log(self) -> bool:
        """Whether the axis is logarithmic."""
        return self.scale == "log"


class Series(_Part):
    """One curve, cloud of points or set of bars. `lo` and `hi` bound the 95 % interval of `y`; `n` counts its seeds."""

    name: str
    x: list[Coordinate]
    y: list[float | None]
    title: str | None = None
    """The name with the title of its variant."""
    lo: list[float | None] | None = None
    hi: list[float | None] | None = None
    n: list[int | None] | None = None
    of: str | None = None
    """Thing that it belongs to. Its series have one colour. Without it, the variant decides (see `plot_style`)."""

    def __post_init__(self) -> None:
        """Refuses columns of unequal length."""
        for name in ("y", "lo", "hi", "n"):
            column = getattr(self, name)
            if column and len(column) != len(self.x):
                raise ValueError(f"series {self.name!r}: {name} has {len(column)} values, x has {len(self.x)}")

    @property
    def shown(self) -> str:
        """The name in figures."""
        return self.title or self.name

    def interval(self, i: int) -> tuple[float, float] | None:
        """The 95 % interval of the i-th value, if it has one."""
        lo = self.lo[i] if self.lo else None
        hi = self.hi[i] if self.hi else None
        return None if lo is None or hi is None else (lo, hi)


class Plot(_Part):
    """One figure."""

    id: str
    title: str
    x: Axis
    y: Axis
    figure: str | None = None
    caption: str | None = None
    kind: Literal["line", "scatter", "bar"] = "line"
    series: list[Series] = []
    is_dense: bool = False
    """A line is drawn without its points."""


class TextTable(_Part):
    """Rows of text below a heading."""

    title: str
    head: list[str]
    rows: list[list[str]]


class CheckBound(_Part):
    """Distance of a check from a bound. It must be `sign` 0."""

    sign: Literal["<", "<=", ">", ">="]
    mean: float | None = None
    ci95: Interval | None = None


class Greatest(_Part):
    """The greatest of several values that are compared with two bounds."""

    measured: float | None = None
    ci95: Interval | None = None


class Check(_Part):
    """One check of a finding."""

    text: str
    at: dict[str, Any] = msgspec.field(name="for", default_factory=dict)
    left: float | None = None
    right: float | None = None
    measured: float | None = None
    ci95: Interval | None = None
    to: Greatest | None = None
    bounds: list[CheckBound] = []
    holds: bool | None = None
    settled: bool | None = None
    seeds: int | None = None
    needs: int | None = None
    gaps: list[str] = []
    error: str | None = None

    @property
    def outcome(self) -> str:
        """The check's result in words."""
        if self.holds is None:
            return "no value"
        if not self.settled:
            return f"{'holds' if self.holds else 'does not hold'}, not settled"
        return "holds" if self.holds else "settled against"


class Finding(_Part):
    """One claim of a source, with the measured values."""

    id: str
    claim: str
    experiment: str | None = None
    figure: str | None = None
    published: str | None = None
    source: str | None = None
    measured: float | None = None
    measured_text: str | None = None
    ci95: Interval | None = None
    unit: str | None = None
    kind: Literal["paper", "sensitivity", "beyond", "calibration", "identity"] = "paper"
    verdict: Verdict | None = None
    """None: nothing was measured."""
    verdict_text: str | None = None
    """The verdict with its counts, such as "mixed 2 of 3"."""
    more_seeds: int | None = None
    note: str | None = None
    checks: list[Check] = []


class Assumption(_Part):
    """A value that the source does not give and the study had to choose."""

    id: str
    what: str
    value: Any = None
    why: str | None = None
    experiment: str | None = None


class Failed(_Part):
    """A run without a result."""

    what: str
    error: str
    experiment: str | None = None


class Experiment(_Part):
    """Runs that belong together, their plots and findings."""

    id: str
    title: str
    text: str | None = None
    kind: Literal["paper", "sensitivity", "beyond"] = "paper"
    figures: list[str] = []
    command: str | None = None
    runs: int | None = None
    seeds: Any = None
    variants: dict[str, str] = {}
    """Its variants with their titles; an empty title stands for the name."""
    plots: list[Plot] = []
    findings: list[str] = []


class Estimate(_Part):
    """A mean over the seeds and its 95 % interval."""

    value: float | None = None
    lo: float | None = None
    hi: float | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the interval has no zero in it."""
        return self.lo is not None and self.hi is not None and (self.lo > 0 or self.hi < 0)


class MatrixPart(Estimate):
    """A measure of one row in one scene."""

    gain: Estimate | None = None
    """Doublings by which it is better than the base."""


class MatrixCell(_Part):
    """One row in one scene."""

    measures: dict[str, MatrixPart]
    score: Estimate | None = None
    """None: the base itself."""
    harmed: list[str] = []


class MatrixRow(_Part):
    """A variant in every scene; None where it does not run."""

    variant: str
    title: str
    cells: list[MatrixCell | None]
    changes: list[str] = []
    how: str = ""
    """Commands or settings that do it."""
    text: str = ""


class MatrixAdvice(_Part):
    """The advice for one scene."""

    outcome: Literal["remedy", "fine", "nothing", "open"] | None
    """None: nothing was measured."""
    variants: list[str] = []
    """The advised row and the runner-up."""
    score: Estimate | None = None
    """That of the advised row."""
    if_twice: dict[str, str | None] = {}
    """The row that would be advised if a measure counted twice, where it differs."""


class MatrixGroup(_Part):
    """Rows that are compared with one base, the first of them."""

    title: str
    base: str
    rows: list[MatrixRow]
    advice: list[MatrixAdvice]
    text: str = ""


class MatrixMeasure(_Part):
    """A measure that counts."""

    name: str
    title: str
    label: str
    unit: str = ""
    better: Literal["less", "more"] = "less"
    enough: float | None = None
    harm: float | None = None
    weight: float = 1


class MatrixScene(_Part):
    """A column."""

    experiment: str
    title: str
    text: str = ""


class MapAxis(_Part):
    """The values of a parameter along an axis of a map."""

    name: str
    label: str
    values: list[float | str | bool]


class MapGroup(_Part):
    """The advice at each point: a list for each value of y, in which an entry for each value of x."""

    title: str
    base: str
    titles: dict[str, str]
    """Headings of the variants."""
    cells: list[list[MatrixAdvice]]


class MatrixMap(_Part):
    """The advice over two parameters of an experiment."""

    id: str
    title: str
    experiment: str
    x: MapAxis
    y: MapAxis
    groups: list[MapGroup]
    text: str = ""

    def __post_init__(self) -> None:
        """Refuses rows of another length than the axes, and advice that names no variant."""
        for group in self.groups:
            if len(group.cells) != len(self.y.values) or any(len(row) != len(self.x.values) for row in group.cells):
                raise ValueError(f"map {self.id!r}: must have an advice for each pair of values of its axes")
            named = [variant for row in group.cells for advice in row for variant in advice.variants]
            if missing := next((variant for variant in named if variant not in group.titles), None):
                raise ValueError(f"map {self.id!r} names {missing!r}, which has no title")


class Matrix(_Part):
    """Variants as rows and experiments as columns, with the advice."""

    id: str
    title: str
    margin: float
    measures: list[MatrixMeasure]
    scenes: list[MatrixScene]
    groups: list[MatrixGroup]
    text: str = ""
    costs: list[str] = []
    """Kinds of change, the cheapest first."""
    maps: list[MatrixMap] = []

    def __post_init__(self) -> None:
        """Refuses rows of unequal length, and advice that names no row."""
        for group in self.groups:
            for row in group.rows:
                if len(row.cells) != len(self.scenes):
                    raise ValueError(
                        f"row {row.variant!r} has {len(row.cells)} cells: must have {len(self.scenes)}, "
                        "one for each scene"
                    )
            variants = {row.variant for row in group.rows}
            if not group.rows or group.rows[0].variant != group.base or len(group.advice) != len(self.scenes):
                raise ValueError(f"group {group.title!r}: must have its base first, and one advice for each scene")
            for advice in group.advice:
                named = [*advice.variants, *(variant for variant in advice.if_twice.values() if variant)]
                if missing := next((variant for variant in named if variant not in variants), None):
                    raise ValueError(f"the advice of group {group.title!r} names {missing!r}, which is not a row")


class Paper(_Part):
    """The source that a study repeats."""

    title: str | None = None
    authors: list[str] | str | None = None
    venue: str | None = None
    year: int | str | None = None
    url: str | None = None
    doi: str | None = None

    @property
    def citation(self) -> str:
        """Authors, title, venue and year in one line."""
        authors = self.authors if isinstance(self.authors, str) else ", ".join(self.authors or [])
        title = f"“{self.title}”" if self.title else ""
        where = " ".join(str(part) for part in (self.venue, self.year) if part)
        return ", ".join(part for part in (authors, title, where) if part)


class Answer(_Part):
    """The main findings of a study, and its key figure."""

    findings: list[str] = []
    plot: str | None = None


class Study(_Part):
    """The content of a page."""

    study: str
    title: str
    kind: Literal["study", "sweep", "run"] = "study"
    question: str | None = None
    summary: str | None = None
    answer: Answer | None = None
    paper: Paper | None = None
    mode: str | None = None
    seeds: Any = None
    airtcp_version: str | None = None
    engine: str | None = None
    started: str | None = None
    wall_s: float | None = None
    host: dict[str, Any] = {}
    command: str | None = None
    runs: int | None = None
    finished: int | None = None
    failed: list[Failed] = []
    status: Literal["complete", "interrupted"] = "complete"
    assumptions: list[Assumption] = []
    experiments: list[Experiment] = []
    findings: list[Finding] = []
    matrices: list[Matrix] = []
    tables: list[TextTable] = []
    warnings: list[str] = []


class _Head(_Part):
    format: str
    format_version: int
    airtcp_version: str | None = None


def read(path: Path) -> Study:
    """The study that a `study.json` holds.

    Raises:
        ResultsError: the file cannot be read, or is not a study of this version.
    """
    try:
        data = read_file(path.parent, path.name)
        head = msgspec.json.decode(data, type=_Head)
        if head.format != FORMAT:
            raise ResultsError(f"{path}: format = {head.format!r}: must be {FORMAT!r}")
        if head.format_version < FORMAT_VERSION:
            raise ResultsError(
                f"{path}: format {head.format_version} by airtcp {head.airtcp_version}, of older rules or names: "
                "run the same command again; finished runs are kept"
            )
        if head.format_version > FORMAT_VERSION:
            raise ResultsError(
                f"{path}: format {head.format_version} by airtcp {head.airtcp_version}; this airtcp reads up to "
                f"{FORMAT_VERSION}: update airtcp"
            )
        study = msgspec.json.decode(data, type=Study)
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ResultsError(f"{path}: {error}") from error
    _check(study, path)
    return study


def _check(study: Study, path: Path) -> None:
    """Checks that every reference names something, and that ids are unique: they become anchors and file names."""
    findings = _unique(path, "findings", [finding.id for finding in study.findings])
    experiments = _unique(path, "experiments", [experiment.id for experiment in study.experiments])
    plots = [plot.id for experiment in study.experiments for plot in experiment.plots]
    _unique(path, "plots and matrices", [*plots, *(matrix.id for matrix in study.matrices)])
    for matrix in study.matrices:
        for scene in matrix.scenes:
            if scene.experiment not in experiments:
                raise ResultsError(
                    f"{path}: matrix {matrix.id!r} names experiment {scene.experiment!r}, which does not exist"
                )
    for experiment in study.experiments:
        for name in experiment.findings:
            if name not in findings:
                raise ResultsError(f"{path}: experiment {experiment.id!r} names finding {name!r}, which does not exist")
    for finding in study.findings:
        if finding.experiment is not None and finding.experiment not in experiments:
            raise ResultsError(
                f"{path}: finding {finding.id!r} names experiment {finding.experiment!r}, which does not exist"
            )


def _unique(path: Path, what: str, names: list[str]) -> set[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ResultsError(f"{path}: {what}: the id {name!r} occurs twice")
        seen.add(name)
    return seen
