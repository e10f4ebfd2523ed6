"""From a sweep to the list of its runs, each with a checked scenario and an identity."""

from __future__ import annotations

import difflib
import itertools
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from airtcp import _airtcp
from airtcp._files import fault_of_input
from airtcp._scenario_table import to_toml_value
from airtcp.documents import Faults
from airtcp.errors import RunError, ScenarioError, SweepError
from airtcp.expressions import ExpressionError, Template, Value, nearest
from airtcp.sweeps.definition import Range, Sweep, Variant
from airtcp.sweeps.file import MAX_RUNS
from airtcp.tasks import kernels
from airtcp.tasks.kernels import seconds
from airtcp.tasks.measures import Extract, Measure, MeasureError, take
from airtcp.tasks.task import Task, key_of

MAX_FAULTS: Final = 10
"""A mistake in one line makes every point fail; so many are shown."""

MAX_CHARACTERS: Final = 4 << 30
"""Characters of all scenarios of a plan, which are in memory together: a million runs of a scenario of 4 kB."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a plan."""

    variant: str | None
    """Name of the variant; `None` if the sweep has none."""
    parameters: Mapping[str, Value]
    """Constants included."""
    seed: int
    task: Task

    @property
    def key(self) -> str:
        """Identity of the run. Equal runs of different sweeps have equal keys."""
        return self.task.key

    @property
    def extracts(self) -> tuple[Extract, ...]:
        """Extracts from the run, in the order of the sweep's measures."""
        return self.task.extracts


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep."""

    sweep: Sweep
    points: tuple[PlannedRun, ...] = field(repr=False)
    """In their order: variants, then parameters (the last one varies fastest), then seeds."""
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False, compare=False)
    """Contents of the scenario files, by their paths."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of the sweep."""
        return self.sweep.measure_list

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of all parameters, those of single variants included."""
        return tuple(dict.fromkeys(name for point in self.points for name in point.parameters))

    @property
    def varied(self) -> tuple[str, ...]:
        """Names of the parameters that take more than one value in this plan."""
        seen: dict[str, set[object]] = {}
        for point in self.points:
            for name, value in point.parameters.items():
                seen.setdefault(name, set()).add((type(value), value))
        return tuple(name for name in self.parameters if len(seen[name]) > 1)

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants; empty without variants."""
        return tuple(variant.name for variant in self.sweep.variant_list if variant.name is not None)


def plan(
    file: str | os.PathLike[str] | Sweep,
    *,
    quick: bool = False,
    full: bool = False,
    seeds: int | Sequence[int] | None = None,
    set: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
    kernel: str | None = None,
) -> Plan:
    """Turns a sweep into its runs. Every scenario and every measure is checked; nothing runs yet.

    Args:
        file: a sweep file, or a `Sweep`.
        quick: with the overrides of `[quick]`.
        full: with the overrides of `[full]`.
        seeds: instead of the sweep's: how many, or which.
        set: other values of parameters (a list is varied) or of places of the scenario.
        progress: called before each point with the number of points planned and of all; 0 of 0 while they are counted.
            An exception that it raises ends the planning.
        kernel: version or file, in place of the kernels that variants name.

    Raises:
        SweepError: the sweep is wrong, or does not fit its scenario.
    """
    sweep = file if isinstance(file, Sweep) else Sweep.load(file)
    sweep = sweep.varied(quick=quick, full=full, seeds=seeds, set=set)
    return _Planner(sweep, progress, kernel).plan()


def sources(sweep: Sweep) -> dict[str, dict[str, Any]]:
    """Contents of the scenario files of a sweep, by their paths. A scenario without a name is called like its file."""
    paths = {variant.scenario for variant in sweep.variant_list if isinstance(variant.scenario, Path)}
    return {str(path): {"name": path.stem, **_airtcp.Document.load(path, "scenario").value()} for path in sorted(paths)}


class _Planner:
    def __init__(self, sweep: Sweep, progress: Callable[[int, int], object], kernel: str | None) -> None:
        self.sweep: Final = sweep
        self.progress: Final = progress
        self.kernel: Final = kernel
        assert sweep.document is not None
        self.faults: Final = Faults(sweep.document, SweepError)
        self.at_points: Final[dict[str, list[str]]] = {}
        # By variant: its scenario as written; nothing if it is wrong.
        self.scenarios: Final[dict[str | None, dict[str, Any] | None]] = {}
        templates = [sweep.set, *(variant.changes for variant in sweep.variant_list)]
        used = {name for value in templates for name in _names(value)}
        used.update(name for measure in sweep.measure_list for name in measure.names)
        # Queries that differ from point to point by their parameters only.
        self.quantified: Final = {measure.name for measure in sweep.measure_list if measure.names}
        # A parameter that no template uses has to be a place of the scenario; so has one with a dot in any case.
        self.places: Final = [
            name
            for name in dict.fromkeys([*sweep.axes, *(n for variant in sweep.variant_list for n in variant.parameters)])
            if name not in used or "." in name
        ]

    def plan(self) -> Plan:
        for name in self.places:
            if name in self.sweep.set:
                self.faults.add("is in [set] as well: use either, not both", "parameters", name)
        self.faults.raise_any()
        cells: list[tuple[Variant, dict[str, Value]]] = []
        for cell in self._cells():
            cells.append(cell)
            if len(cells) * len(self.sweep.seed_list) > MAX_RUNS:
                self.faults.add(f"more than {MAX_RUNS} runs")
                self.faults.raise_any()
        points: list[PlannedRun] = []
        shapes: set[str] = set()
        size = 0
        for done, (variant, parameters) in enumerate(cells):
            self.progress(done, len(cells))
            made = self._cell(variant, parameters, shapes)
            points.extend(made)
            size += sum(len(point.task.scenario) for point in made)
            if size > MAX_CHARACTERS:
                self.faults.add(
                    f"the scenarios of the first {len(points)} of {len(cells) * len(self.sweep.seed_list)} runs have "
                    f"more than {MAX_CHARACTERS} characters: make fewer runs, or a smaller scenario"
                )
                self.faults.raise_any()
            if len(self.at_points) >= MAX_FAULTS:
                break
        self._raise_any()
        return Plan(self.sweep, tuple(points), sources(self.sweep))

    # --- which points -------------------------------------------------------------------------------------------------

    def _cells(self) -> Iterator[tuple[Variant, dict[str, Value]]]:
        for variant in self.sweep.variant_list:
            size = 1
            for name, axis in self.sweep.axes.items():
                if self.sweep.mode == "grid" and name not in variant.parameters and not isinstance(axis, Range):
                    size *= len(axis)
            if size * len(self.sweep.seed_list) > MAX_RUNS:
                self.faults.add(f"{size * len(self.sweep.seed_list)} runs: more than {MAX_RUNS}", "parameters")
                self.faults.raise_any()
            seen = set()
            for values in self._combinations(variant):
                self.progress(0, 0)
                parameters = {**values, **variant.parameters}
                # A variant's constant in place of a list would give the same point again and again.
                identity = tuple((name, type(value), value) for name, value in parameters.items())
                if identity in seen and self.sweep.mode != "random":
                    continue
                seen.add(identity)
                if all(parameters[name] in values for name, values in variant.only.items()):
                    yield variant, parameters

    def _combinations(self, variant: Variant) -> Iterator[dict[str, Value]]:
        sweep = self.sweep
        if sweep.mode == "random":
            # A stream for each parameter: one more parameter or sample leaves the others as they were.
            streams = {name: random.Random(f"{sweep.sample_seed}:{name}") for name in sweep.axes}
            for _ in range(sweep.samples or 0):
                yield {name: _draw(axis, streams[name].random()) for name, axis in sweep.axes.items()}
            return
        axes = {name: axis for name, axis in sweep.axes.items() if not isinstance(axis, Range)}
        if sweep.mode == "list":
            length = max((len(axis) for name, axis in axes.items() if name not in sweep.constants), default=1)
            for i in range(length):
                yield {name: axis[0 if name in sweep.constants else i] for name, axis in axes.items()}
            return
        lists = [(variant.parameters[name],) if name in variant.parameters else axis for name, axis in axes.items()]
        for values in itertools.product(*lists):
            yield dict(zip(axes, values, strict=True))

    # --- one point ----------------------------------------------------------------------------------------------------

    def _at(self, variant: Variant, parameters: Mapping[str, Value]) -> str:
        told = [f"variant {variant.name!r}"] if variant.name is not None else []
        told += [f"{name} = {value!r}" for name, value in parameters.items() if name not in self.sweep.constants]
        return f"at {', '.join(told)}" if told else ""

    def _changes(self, variant: Variant, parameters: Mapping[str, Value]) -> list[tuple[str, str, str]] | None:
        """Changes to the scenario: the name of each for messages, its key, its value as TOML."""
        changes = []
        i = next((i for i, other in enumerate(self.sweep.variant_list) if other is variant), 0)
        given: list[tuple[tuple[str | int, ...], str, object]] = [
            (("set", key), key, value) for key, value in self.sweep.set.items() if key not in variant.changes
        ]
        given += [
            (("parameters", name), name, parameters[name])
            for name in self.places
            if name in parameters and name not in variant.changes
        ]
        given += [(("variants", i, "set", key), key, value) for key, value in variant.changes.items()]
        is_good = True
        for place, key, value in given:
            try:
                filled = value if place[0] == "parameters" else _filled(value, parameters)
            except ExpressionError as error:
                self._note(f"{self.faults.where(*place)}: {error}", variant, parameters)
                is_good = False
                continue
            keys = self._spelt_out(key, variant)
            if not keys:
                self._note(f"{self.faults.where(*place)}: the scenario has no {key.split('.')[0]}", variant, parameters)
                is_good = False
            changes += [(self.faults.where(*place), one, to_toml_value(filled)) for one in keys]
        return changes if is_good else None

    def _spelt_out(self, key: str, variant: Variant) -> list[str]:
        """The places that a key with `*` for a name means: `wlans.*.ap_radio` is that of every WLAN."""
        kind, _, rest = key.partition(".")
        if not rest.startswith("*."):
            return [key]
        scenario = self._as_written(variant)
        if scenario is None:
            return [key]
        entries = scenario.get(kind, [])
        if isinstance(entries, list):
            return [f"{kind}[{i}].{rest[2:]}" for i in range(len(entries))]
        return [f"{kind}.{name}.{rest[2:]}" for name in entries]

    def _as_written(self, variant: Variant) -> dict[str, Any] | None:
        """The variant's scenario without changes, read once; nothing if it is wrong: that is told with them."""
        if variant.name not in self.scenarios:
            try:
                self.scenarios[variant.name] = json.loads(self._checked(variant, []).to_json())
            except ScenarioError:
                self.scenarios[variant.name] = None
        return self.scenarios[variant.name]

    def _checked(self, variant: Variant, changes: list[Any]) -> _airtcp.Checked:
        if isinstance(variant.scenario, Mapping):
            return _airtcp.Checked.from_json(_json(variant.scenario), f"{self.faults.where('scenario')}", changes)
        if variant.scenario is not None and (fault := fault_of_input(variant.scenario)) is not None:
            raise SweepError(f"{self.faults.where('scenario')}: {fault}")
        return _airtcp.Checked.load(variant.scenario, changes)

    def _cell(self, variant: Variant, parameters: dict[str, Value], shapes: set[str]) -> list[PlannedRun]:
        changes = self._changes(variant, parameters)
        if changes is None:
            return []
        seeds = self.sweep.seed_list
        try:
            checked = self._checked(variant, changes)
        except ScenarioError as error:
            self._scenario_fault(error, variant, parameters)
            return []
        resolved: dict[str, Any] = json.loads(checked.to_json())
        try:
            extracts = tuple(measure.bind(parameters) for measure in self.sweep.measure_list)
        except ExpressionError as error:
            self._note(f"{self.faults.where('measures')}: {error}", variant, parameters)
            return []
        self._try(checked, resolved, extracts, variant, parameters, shapes)
        points = []
        kernel = None
        if variant.kernel is not None:
            try:
                kernel = kernels.kernel(variant.kernel, self.kernel)
                why = kernels.fault(resolved)
            except RunError as error:
                why = str(error)
            if why is not None:
                i = next(i for i, other in enumerate(self.sweep.variant_list) if other is variant)
                self._note(f"{self.faults.where('variants', i, 'engine')}: {why}", variant, parameters)
                return []
        engine = kernels.engine(kernel)
        cell = key_of({**resolved, "seed": 0}, engine)
        duration = seconds(resolved["duration"])
        for seed in seeds:
            resolved["seed"] = seed
            at = self._at(variant, parameters)
            task = Task(
                key_of(resolved, engine),
                json.dumps(resolved, separators=(",", ":"), ensure_ascii=False),
                extracts,
                f"{self.sweep.name}: {at.removeprefix('at ')}{', ' if at else ''}seed {seed}",
                cell,
                duration,
                kernel,
            )
            points.append(PlannedRun(variant.name, parameters, seed, task))
        return points

    def _try(
        self,
        checked: _airtcp.Checked,
        resolved: Mapping[str, Any],
        extracts: Sequence[Extract],
        variant: Variant,
        parameters: Mapping[str, Value],
        shapes: set[str],
    ) -> None:
        """Takes the measures from a run of no time, so that a wrong name or query shows now and not after hours."""
        names = [[part["name"] for part in resolved[kind]] for kind in ("links", "flows")]
        for extract in extracts:
            # What a query or place finds depends on names; one trial for each combination is enough.
            shape = json.dumps([extract.kind, extract.name if extract.name in self.quantified else extract.text, names])
            if shape in shapes:
                continue
            shapes.add(shape)
            try:
                take([extract], _airtcp.Run(checked, None).finish(), resolved)
            except MeasureError as error:
                reason = str(error).removeprefix(f"measure `{extract.name}`: ")
                self._note(f"{self.faults.where('measures', extract.name)}: {reason}", variant, parameters)
            except ScenarioError as error:
                self._scenario_fault(error, variant, parameters)

    def _scenario_fault(self, error: ScenarioError, variant: Variant, parameters: Mapping[str, Value]) -> None:
        unplaced = {name for name in self.places if "." not in name and "[" not in name}
        for fault in error.errors:
            head = fault["argument"] or f"{fault['file']}{':' + str(fault['line']) if fault['line'] else ''}"
            what = f"{fault['key']} = {fault['value']}" if fault["value"] is not None else fault["key"]
            message = fault["message"]
            if fault["file"] == str(variant.scenario) and not what and fault["line"] is None:
                # The file as a whole: what is to be changed may be its name, where the sweep has it.
                head, message = f"{self._place_of_scenario(variant)}: {head}", f"{message}{_like(variant.scenario)}"
            if fault["argument"] is not None and fault["key"] in unplaced and "unknown key" in message:
                values = (self.sweep.set, *(other.changes for other in self.sweep.variant_list))
                known = sorted({name for value in values for name in _names(value)})
                used = f" (templates use {', '.join(known)})" if known else ""
                message = f"is used by no template{used}, and is no place of the scenario: {message}"
                what = ""
            self._note(f"{head}: {f'{what}: ' if what else ''}{message}", variant, parameters)

    def _place_of_scenario(self, variant: Variant) -> str:
        """Where the sweep names the variant's scenario."""
        assert self.sweep.document is not None
        i = next(i for i, other in enumerate(self.sweep.variant_list) if other is variant)
        variants = self.sweep.document.value().get("variants")
        has_own = isinstance(variants, list) and "scenario" in variants[i]
        place: tuple[str | int, ...] = ("variants", i, "scenario") if has_own else ("scenario",)
        return self.faults.where(*place)

    def _note(self, text: str, variant: Variant, parameters: Mapping[str, Value]) -> None:
        """A fault that may be there at many points is told once, with the first of them."""
        self.at_points.setdefault(text, []).append(self._at(variant, parameters))

    def _raise_any(self) -> None:
        for text, points in self.at_points.items():
            others = len(points) - 1
            more = f" and {others} more point{'s' if others > 1 else ''}" if others else ""
            self.faults.found.append(f"{text} ({points[0]}{more})" if points[0] else text)
        self.at_points.clear()
        self.faults.raise_any()


def _draw(axis: tuple[Value, ...] | Range, u: float) -> Value:
    return axis.at(u) if isinstance(axis, Range) else axis[int(u * len(axis))]


def _like(path: object) -> str:
    """A hint if a file of almost that name is there, and that one is not."""
    if not isinstance(path, Path) or path.exists() or not path.parent.is_dir():
        return ""
    close = difflib.get_close_matches(path.name, [other.name for other in path.parent.glob("*.toml")], n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def _json(document: Mapping[str, Any]) -> str:
    try:
        return json.dumps(document, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SweepError(f"scenario: {error}") from error


def _names(value: object) -> Iterator[str]:
    """Names that templates in a value use, however deep."""
    match value:
        case str():
            yield from Template.read(value).names
        case Mapping():
            for item in value.values():
                yield from _names(item)
        case list() | tuple():
            for item in value:
                yield from _names(item)


def _filled(value: object, parameters: Mapping[str, Value]) -> object:
    match value:
        case str():
            return Template.read(value).fill(parameters)
        case Mapping():
            return {key: _filled(item, parameters) for key, item in value.items()}
        case list() | tuple():
            return [_filled(item, parameters) for item in value]
    return value


__all__ = ["Plan", "PlannedRun", "nearest", "plan"]
