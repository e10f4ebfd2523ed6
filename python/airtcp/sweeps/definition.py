"""Reads the definition of a sweep strictly, checks it, and returns a `Sweep`.

`airtcp.sweeps.file` declares the keys of a sweep file. This module checks rules that span several keys.
`airtcp.sweeps.planning` checks everything that needs the scenario, such as keys of the scenario and queries.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airtcp import _airtcp, documents
from airtcp._airtcp import Document
from airtcp.catalogue import Catalogue
from airtcp.documents import Faults
from airtcp.errors import SweepError
from airtcp.expressions import ExpressionError, Template, Value, nearest
from airtcp.file_kinds import misplaced
from airtcp.package_data import OWN, named_file
from airtcp.sweeps.file import (
    ColumnTable,
    MeasureTable,
    Mode,
    RangeTable,
    Scale,
    SharedVariants,
    SizeTable,
    SweepFile,
    VariantsFile,
    VariantTable,
)
from airtcp.tasks.measures import Column, Measure

if TYPE_CHECKING:
    from airtcp.scenario import Scenario

IDENTITY: Final = ("variant", "seed", "key", "status", "error", "wall_s")
"""Columns that every table of results has; no parameter and no measure can be called so."""


@dataclass(frozen=True)
class Range:
    """A range of values, for random sweeps."""

    low: float
    high: float
    scale: Scale = "linear"
    whole: bool = False

    def at(self, u: float) -> Value:
        """The value at `u` in [0, 1): evenly spread, or evenly in the logarithm."""
        if self.whole:
            # Each integer gets an equally wide part of the range.
            low, high = self.low, self.high + 1
            x: float = low * (high / low) ** u if self.scale == "log" else low + (high - low) * u
            return min(math.floor(x), int(self.high))
        if self.scale == "log":
            drawn: float = self.low * (self.high / self.low) ** u
            return min(max(drawn, self.low), self.high)
        return self.low + (self.high - self.low) * u


@dataclass(frozen=True)
class Variant:
    """A named variant that is crossed with the parameters."""

    name: str | None
    """`None`: the only variant of a sweep without variants."""
    scenario: ScenarioSource
    changes: Mapping[str, object]
    """Places of the scenario that this variant sets; templates as text. They win over those of the sweep."""
    parameters: Mapping[str, Value]
    """Constants of this variant."""
    only: Mapping[str, tuple[Value, ...]]
    """Values of parameters at which it runs."""
    kernel: str | None = None
    """Version of the kernel that the ends of its flows are; `None`: they are simulated."""


ScenarioSource = Path | Mapping[str, Any]
"""A scenario file, or the document itself."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A scenario, what varies in it, and what is measured. `docs/sweeps.md` describes the keys.

    The arguments are those of a sweep file; a wrong one raises `airtcp.SweepError`.
    """

    name: str
    """Name of the sweep, used in titles and folder names."""
    scenario: Scenario | str | os.PathLike[str] | Mapping[str, Any] | None = None
    """A scenario file, a `Scenario`, or the document of one."""
    measures: Mapping[str, str | Mapping[str, Any]] = field(default_factory=dict)
    """Measures of every run."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """A list is varied, a single value is a constant."""
    set: Mapping[str, Any] = field(default_factory=dict)
    """Places of the scenario and their values, with `{expressions}` of the parameters."""
    variants: Sequence[Mapping[str, Any]] | str | Mapping[str, Any] = ()
    """Named variants; or a file of them."""
    seeds: int | Sequence[int] = 1
    """Number of seeds for each point: `5` gives the seeds 1 to 5; or a list of seeds."""
    mode: Mode = "grid"
    samples: int | None = None
    """Number of points of a random sweep."""
    sample_seed: int = 1
    """Seed of the points of a random sweep."""
    description: str = ""
    quick: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of a quick sweep: `parameters`, `set`, `seeds`, `samples`."""
    full: Mapping[str, Any] = field(default_factory=dict)
    """The same for a full one."""
    path: Path | None = None
    """The file it came from. Scenario files are relative to it, or else to the working directory."""
    root: Path | None = None
    """The folder that came with that file, out of which it names nothing. Default: the folder it is in."""
    document: Document | None = field(default=None, repr=False, compare=False)
    """Document from which it was read, with the places of its values."""

    # What the check makes of the above.
    axes: Mapping[str, tuple[Value, ...] | Range] = field(init=False, repr=False, compare=False)
    """Parameters with the values they take; constants have one."""
    constants: frozenset[str] = field(init=False, repr=False, compare=False)
    """Parameters that were given as a single value."""
    seed_list: tuple[int, ...] = field(init=False, repr=False, compare=False)
    variant_list: tuple[Variant, ...] = field(init=False, repr=False, compare=False)
    measure_list: tuple[Measure, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        document = self.document or Document.of(self._given(), str(self.path or f"sweep {self.name!r}"))
        file = documents.read(document, SweepFile, SweepError)
        if not isinstance(file.variants, list):
            document = _with_shared_variants(document, file.variants, self.folder, self._beside)
            file = documents.read(document, SweepFile, SweepError)
        object.__setattr__(self, "document", document)
        for name, value in (
            _Check(file, partial(self._beside, self.folder), Faults(document, SweepError)).made().items()
        ):
            object.__setattr__(self, name, value)

    def _given(self) -> dict[str, object]:
        """The arguments in the form of a file."""
        given = {name: getattr(self, name) for name in SweepFile.__struct_fields__}
        given = {name: value for name, value in given.items() if value is not None}
        variants = given["variants"]
        if isinstance(variants, Sequence) and not isinstance(variants, str):
            given["variants"] = [
                {**variant, "scenario": _plain(variant["scenario"])}
                if isinstance(variant, Mapping) and "scenario" in variant
                else variant
                for variant in variants
            ]
        return given | ({"scenario": _plain(given["scenario"])} if "scenario" in given else {})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Sweep:
        """Reads a sweep file.

        Args:
            path: TOML.

        Raises:
            SweepError: it cannot be read, or it is wrong.
        """
        if told := misplaced(Path(path), "sweep"):
            raise SweepError(told)
        return cls.from_document(documents.load(path, "sweep", SweepError), Path(path))

    @classmethod
    def from_document(cls, document: Document, path: Path, root: Path | None = None) -> Sweep:
        """From what a sweep file holds; as `load`. `root` is the folder that came with it.

        Raises:
            SweepError: it is wrong.
        """
        documents.read(document, SweepFile, SweepError)
        return cls(**{"name": path.stem, **document.value()}, path=path, root=root, document=document)

    def varied(
        self,
        *,
        quick: bool = False,
        full: bool = False,
        seeds: int | Sequence[int] | None = None,
        set: Mapping[str, Any] | None = None,
    ) -> Sweep:
        """The sweep with its `[quick]` or `[full]` applied, other seeds, and other values.

        Args:
            quick: apply `[quick]`.
            full: apply `[full]`.
            seeds: instead of the sweep's.
            set: by name, parameters (with what values they take) or places of the scenario.

        Raises:
            SweepError: the result is not a sweep.
        """
        assert self.document is not None
        before = document = self.document
        for wanted, size in ((quick, "quick"), (full, "full")):
            block = getattr(self, size) if wanted else {}
            for key in ("seeds", "samples"):
                if key in block:
                    document = document.copy((size, key), (key,))
            for key in ("parameters", "set"):
                for name in block.get(key, {}):
                    document = document.copy((size, key, name), (key, name))
        if seeds is not None:
            document = document.put(("seeds",), seeds, f"seeds={seeds!r}")
        for name, value in (set or {}).items():
            key = "parameters" if name in self.parameters else "set"
            document = document.put((key, name), value, f"{self.path or self.name}: override {name}")
            if key == "set":
                # What was said last wins over variants as well.
                for i in range(len(self.variant_list)):
                    document = document.without(("variants", i, "set", name))
        if document is before:
            return self
        # Faults first: what follows relies on the types.
        parameters = documents.read(document, SweepFile, SweepError).parameters
        for i, variant in enumerate(document.value().get("variants", [])):
            for name, values in _narrowed(variant.get("only", {}), parameters).items():
                document = document.put(("variants", i, "only", name), values, f"only of variant {variant['name']!r}")
        return dataclasses.replace(self, **{"name": self.name, **document.value()}, document=document)

    @property
    def folder(self) -> Path:
        """Folder to which relative paths refer."""
        return self.path.parent if self.path is not None else Path()

    def _beside(self, folder: Path, name: str) -> Path:
        """A file that one in `folder` names. A program names what it likes; a file stays in its folder.

        Raises:
            OSError: it leads out.
        """
        if self.path is None and not name.startswith(OWN):
            return folder / name
        return named_file(self.root or self.folder, folder, name)


def _plain(source: object) -> object:
    """A scenario in the form of a file."""
    if isinstance(source, os.PathLike):
        return os.fspath(source)
    return source.to_dict() if hasattr(source, "to_dict") else source


Beside = Callable[[Path, str], Path]


def _with_shared_variants(document: Document, given: str | SharedVariants, folder: Path, beside: Beside) -> Document:
    """With variants of a file of their own, which several sweeps share: all of them, or those that are named.

    Raises:
        SweepError: the file cannot be read, or has no such variants.
    """
    chosen = SharedVariants(file=given) if isinstance(given, str) else given
    faults = Faults(document, SweepError)
    if chosen.only is not None and chosen.without is not None:
        faults.add("use either `only` or `without`, not both", "variants")
        faults.raise_any()
    try:
        file = beside(folder, chosen.file)
        other = documents.load(file, "sweep's variants", SweepError)
    except OSError as error:
        faults.add(str(error.strerror), "variants", *(() if isinstance(given, str) else ("file",)))
        faults.raise_any()
        raise
    except SweepError as error:
        raise SweepError(f"{faults.where('variants')}: {error}") from error
    if "variants" not in other.value() or not other.value().keys() <= {"variants", "catalogue"}:
        raise SweepError(f"{file}: must hold [[variants]] and nothing else but `catalogue`, to be shared by sweeps")
    shared = documents.read(other, VariantsFile, SweepError)
    sets = _sets(other, shared, file, beside)
    names = [variant.name for variant in shared.variants]
    for key in ("only", "without"):
        for i, name in enumerate(getattr(chosen, key) or ()):
            if name not in names:
                faults.add(f"{file} has no such variant{nearest(name, names)}", "variants", key, i)
    faults.raise_any()
    kept = [
        i
        for i, name in enumerate(names)
        if (chosen.only is None or name in chosen.only) and name not in (chosen.without or ())
    ]
    document = document.graft(("variants",), other, "variants", kept)
    for at, i in enumerate(kept):
        if (whole := sets.get(i)) is not None:
            document = document.without(("variants", at, "remedies")).put(
                ("variants", at, "set"), whole, f"{file}: {names[i]}"
            )
    return document


def _sets(document: Document, shared: VariantsFile, file: Path, beside: Beside) -> dict[int, dict[str, Any]]:
    """The `set` of each variant that names remedies: first theirs, then its own.

    Raises:
        SweepError: the catalogue cannot be read, or has no such remedy.
    """
    faults = Faults(document, SweepError)
    catalogue = None
    if shared.catalogue is not None:
        try:
            catalogue = Catalogue.load(beside(file.parent, shared.catalogue), SweepError)
        except OSError as error:
            faults.add(str(error.strerror), "catalogue")
            faults.raise_any()
    sets: dict[int, dict[str, Any]] = {}
    for i, variant in enumerate(shared.variants):
        for j, name in enumerate(variant.remedies):
            if catalogue is None or name not in catalogue:
                told = "the file names no `catalogue`" if catalogue is None else f"{catalogue.place} has no such remedy"
                faults.add(f"{told}{nearest(name, catalogue or ())}", "variants", i, "remedies", j)
            else:
                sets[i] = {**sets.get(i, {}), **catalogue.set_of([name])}
        if i in sets:
            sets[i] |= variant.set
    faults.raise_any()
    return sets


def _narrowed(only: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, list[Any]]:
    """A variant's `only`, where it asks for values beyond those that the parameters now have."""

    def listed(value: object) -> list[Any]:
        return value if isinstance(value, list) else [value]

    out = {}
    for name, values in only.items():
        axis = parameters.get(name)
        if axis is not None and not isinstance(axis, RangeTable):
            kept = [value for value in listed(values) if value in listed(axis)]
            if kept != listed(values):
                out[name] = kept
    return out


class _Check:
    """Converts the arguments into a form that can be planned, and notes every fault."""

    def __init__(self, file: SweepFile, beside: Callable[[str], Path], faults: Faults) -> None:
        self.file = file
        self.beside = beside
        self.faults = faults

    def made(self) -> dict[str, object]:
        """The converted values, by the attributes of a `Sweep`.

        Raises:
            SweepError: something is wrong.
        """
        file, faults = self.file, self.faults
        if file.mode == "random" and file.samples is None:
            faults.add("is missing: a random sweep needs the number of its points", "samples")
        axes = self._axes()
        constants = {name for name, value in file.parameters.items() if not isinstance(value, (list, RangeTable))}
        if file.mode == "list":
            lengths = {n: len(a) for n, a in axes.items() if n not in constants and not isinstance(a, Range)}
            if len(set(lengths.values())) > 1:
                told = ", ".join(f"{name}: {count}" for name, count in lengths.items())
                faults.add(f'with mode = "list" all lists must be equally long ({told})', "parameters")
        self._samples(file.samples)
        self._templates(file.set, "set")
        out: dict[str, object] = {
            "axes": axes,
            "constants": frozenset(constants),
            "seed_list": tuple(file.seeds) if isinstance(file.seeds, list) else tuple(range(1, file.seeds + 1)),
            "measure_list": self._measures(),
        }
        for key in ("quick", "full"):
            self._size(getattr(file, key) or SizeTable(), key)
        out["variant_list"] = self._variants(axes)
        faults.raise_any()
        return out

    def _samples(self, samples: int | None, *place: str) -> None:
        if samples is not None and self.file.mode != "random":
            self.faults.add('only a sweep with mode = "random" has samples', *place, "samples")

    # --- parameters ---------------------------------------------------------------------------------------------------

    def _axes(self) -> dict[str, tuple[Value, ...] | Range]:
        for name in self.file.parameters:
            self._name(name, "parameters")
        return {name: self._axis(value, "parameters", name) for name, value in self.file.parameters.items()}

    def _axis(self, value: Value | list[Value] | RangeTable, *place: str) -> tuple[Value, ...] | Range:
        match value:
            case RangeTable():
                return self._range(value, *place)
            case list():
                return tuple(value)
        return (value,)

    def _range(self, table: RangeTable, *place: str) -> Range:
        low, high, before = table.from_, table.to, len(self.faults.found)
        if self.file.mode != "random":
            self.faults.add('a range needs mode = "random"; write a list of values', *place)
        for key, end in (("from", low), ("to", high)):
            if table.whole and end != int(end):
                self.faults.add("must be whole, as `whole = true` says", *place, key)
        if not low < high:
            self.faults.add(f"`from` = {low} must be less than `to` = {high}", *place)
        elif table.scale == "log" and not low > 0:
            self.faults.add("must be above 0 on a logarithmic scale", *place, "from")
        return Range(low, high, table.scale, table.whole) if len(self.faults.found) == before else Range(1, 2)

    def _name(self, name: str, *place: str | int) -> None:
        if name in IDENTITY:
            more = ": use `seeds`" if name == "seed" else f": results have columns {', '.join(IDENTITY)} of their own"
            self.faults.add(f"`{name}` cannot be a parameter{more}", *place, name)

    # --- places of the scenario ---------------------------------------------------------------------------------------

    def _templates(self, value: object, *place: str | int) -> None:
        """Checks that every template in it can be read."""
        match value:
            case str():
                try:
                    Template.read(value)
                except ExpressionError as error:
                    self.faults.add(str(error), *place)
            case dict():
                for key, item in value.items():
                    self._templates(item, *place, key)
            case list():
                for i, item in enumerate(value):
                    self._templates(item, *place, i)

    # --- measures -----------------------------------------------------------------------------------------------------

    def _measures(self) -> tuple[Measure, ...]:
        if not self.file.measures:
            self.faults.add(
                'a sweep must measure something, such as utilisation = "links.bottleneck.utilisation"', "measures"
            )
        measures = [self._measure(name, given) for name, given in self.file.measures.items()]
        return tuple(measure for measure in measures if measure is not None)

    def _measure(self, name: str, given: str | MeasureTable) -> Measure | None:
        place = ("measures", name)
        if name in (*IDENTITY, "runs"):
            self.faults.add(f"`{name}` cannot be a measure: results have that already", *place)
        elif name in self.file.parameters:
            self.faults.add("is a parameter as well; choose another name", *place)
        table = MeasureTable(value=given) if isinstance(given, str) else given
        column = self._column(table, *place)
        columns = {key: self._column(value, *place, "columns", key) for key, value in table.columns.items()}
        if (table.value is None) == (table.sql is None):
            self.faults.add("must have either `value` (a place in the summary) or `sql` (a query)", *place)
            return None
        if table.sql is not None:
            self._templates(table.sql, *place, "sql")
            return Measure(name, "sql", table.sql.strip(), column, columns)
        if columns:
            self.faults.add("only a measure with `sql` has columns", *place, "columns")
        text = (table.value or "").strip()
        parts = text.split(".")
        if len(parts) < 3 or parts[0] not in ("links", "groups", "air") or not all(parts):
            at = place if isinstance(given, str) else (*place, "value")
            self.faults.add("must be links.NAME.KEY, groups.NAME.KEY or air.NAME.KEY", *at)
        return Measure(name, "value", text, column)

    def _column(self, table: ColumnTable, *place: str) -> Column:
        if table.scale == 0:
            self.faults.add("must be a number other than 0", *place, "scale")
        return Column(table.label, table.unit, table.scale)

    # --- sizes and variants -------------------------------------------------------------------------------------------

    def _size(self, table: SizeTable, name: str) -> None:
        for key, value in table.parameters.items():
            if key not in self.file.parameters:
                self.faults.add(f"no such parameter{nearest(key, self.file.parameters)}", name, "parameters", key)
            else:
                self._axis(value, name, "parameters", key)
        self._templates(table.set, name, "set")
        self._samples(table.samples, name)

    def _variants(self, axes: Mapping[str, tuple[Value, ...] | Range]) -> tuple[Variant, ...]:
        file = self.file
        tables = file.variants if isinstance(file.variants, list) else []
        shared = self._scenario(file.scenario, "scenario")
        if not tables and file.scenario is None:
            self.faults.add("is missing: a scenario file, relative to this one, or a table", "scenario")
        if not tables:
            return (Variant(None, shared, {}, {}, {}),)
        for i, table in enumerate(tables):
            if any(table.name == other.name for other in tables[:i]):
                self.faults.add(f"two variants are called {table.name!r}", "variants", i, "name")
            if table.scenario is None and file.scenario is None:
                self.faults.add(f"variant {table.name!r} has no scenario, and the sweep has none", "variants", i)
            self._templates(table.set, "variants", i, "set")
            for key in table.parameters:
                self._name(key, "variants", i, "parameters")
        return tuple(self._variant(table, axes, i, shared) for i, table in enumerate(tables))

    def _variant(
        self, table: VariantTable, axes: Mapping[str, tuple[Value, ...] | Range], i: int, shared: ScenarioSource
    ) -> Variant:
        only = {name: self._only(name, values, axes, i) for name, values in table.only.items()}
        source = shared if table.scenario is None else self._scenario(table.scenario, "variants", i, "scenario")
        kernel = table.kernel if table.engine == "kernel" else None
        return Variant(table.name, source, table.set, table.parameters, only, kernel)

    def _only(
        self, name: str, given: Value | list[Value], axes: Mapping[str, tuple[Value, ...] | Range], i: int
    ) -> tuple[Value, ...]:
        if name not in axes:
            self.faults.add(f"no such parameter{nearest(name, axes)}", "variants", i, "only", name)
            return ()
        values = given if isinstance(given, list) else [given]
        axis = axes[name]
        # A value may come from another size of the sweep, whichever of them is in force now.
        known = [] if isinstance(axis, Range) else list(axis)
        for block in (self.file.quick, self.file.full):
            more = block.parameters.get(name, []) if block is not None else []
            known += more if isinstance(more, list) else [] if isinstance(more, RangeTable) else [more]
        for one in values:
            if not isinstance(axis, Range) and one not in known:
                self.faults.add(f"{one!r} is not among the values of `{name}`: {known}", "variants", i, "only", name)
        return tuple(values)

    def _scenario(self, source: str | Mapping[str, Any] | None, *place: str | int) -> ScenarioSource:
        if not isinstance(source, str):
            return source or {}
        try:
            return self.beside(source)
        except OSError as error:
            self.faults.add(str(error.strerror), *place)
            return {}


def changes_of(
    arguments: Iterable[str], parse: Callable[[str], tuple[str, str, str]] = _airtcp.parse_set
) -> dict[str, Any]:
    """`KEY=VALUE` from the command line: the value as TOML, or else as text.

    Raises:
        ScenarioError: an argument has no `=`.
        SweepError: a list, table or quoted text is not valid.
    """
    out: dict[str, Any] = {}
    for argument in arguments:
        _, key, text = parse(argument)
        try:
            out[key] = _airtcp.parse_value(text)
        except ValueError as error:
            if text.startswith(("[", "{", '"', "'")):
                raise SweepError(f"--set {argument}: not a value of TOML: {error}") from None
            out[key] = text
    return out
