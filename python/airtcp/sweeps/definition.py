"""What a sweep file says: read strictly, checked, and handed on as a `Sweep`.

The file type is strict about keys and types; everything that needs the scenario (does this place exist? does this query
fit the tables?) is found in `airtcp.sweeps.planning`.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from airtcp import _airtcp
from airtcp.errors import SweepError
from airtcp.expressions import ExpressionError, Template, Value, nearest
from airtcp.sweeps.measures import Column, Measure

if TYPE_CHECKING:
    from airtcp.scenario import Scenario

IDENTITY: Final = ("arm", "seed", "key", "status", "error", "wall_s")
"""Columns that every table of results has; no parameter and no measure can be called so."""

OVERRIDE: Final = 0
"""Stands for the line of what is not in the file but was given beside it."""

MAX_SEED: Final = (1 << 63) - 1
MAX_RUNS: Final = 1_000_000

Mode = Literal["grid", "list", "random"]
MODES: Final[tuple[Mode, ...]] = ("grid", "list", "random")
Scale = Literal["linear", "log"]

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Range:
    """Values between two ends, for sweeps that draw at random."""

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
class Arm:
    """A named variant that is crossed with the parameters."""

    name: str | None
    """`None`: the only arm of a sweep without arms."""
    scenario: ScenarioSource
    changes: Mapping[str, object]
    """Places of the scenario that this arm sets; templates as text. They win over those of the sweep."""
    parameters: Mapping[str, Value]
    """Constants of this arm."""
    only: Mapping[str, tuple[Value, ...]]
    """Where it runs."""


ScenarioSource = Path | Mapping[str, Any]
"""A scenario file, or the document itself."""


class Faults:
    """Collects what is wrong, so that one reading finds all of it."""

    def __init__(self, file: str, lines: Mapping[tuple[str | int, ...], int] | None = None) -> None:
        """`lines`: of places in the file, as `lines_of` gives them."""
        self.file: Final = file
        self._lines: Final = lines or {}
        self.found: Final[list[str]] = []

    def where(self, *place: str | int) -> str:
        """`FILE:LINE: place`, as exactly as is known."""
        name = ""
        for step in place:
            bare = isinstance(step, int) or re.fullmatch(r"[\w-]+", step)
            text = f"[{step}]" if isinstance(step, int) else (step if bare else f'"{step}"')
            name += text if isinstance(step, int) or not name else f".{text}"
        line = next((self._lines[place[:n]] for n in range(len(place), 0, -1) if place[:n] in self._lines), None)
        if line == OVERRIDE:
            return f"{self.file}: override {place[1]}"
        return f"{self.file}{f':{line}' if line else ''}" + (f": {name}" if name else "")

    def add(self, message: str, *place: str | int) -> None:
        """Notes a fault."""
        self.found.append(f"{self.where(*place)}: {message}")

    def raise_any(self) -> None:
        """Raises what was found, if anything.

        Raises:
            SweepError: there are faults.
        """
        if self.found:
            raise SweepError(*self.found)


def lines_of(text: str) -> dict[tuple[str | int, ...], int]:
    """The line of each table and key of a TOML text, from 1. Good enough for messages; nothing else relies on it."""
    lines: dict[tuple[str | int, ...], int] = {}
    table: tuple[str | int, ...] = ()
    counts: dict[tuple[str | int, ...], int] = {}
    keys = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*(=|\]\]?)""")
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*(\[\[?)", line)
        found = keys.match(line, header.end() if header else 0)
        if not found or (header is None) != (found[2] == "="):
            continue
        path = tuple(part.strip().strip("\"'") for part in re.findall(r"[\w-]+|\"[^\"]*\"|'[^']*'", found[1]))
        if header is None:
            lines.setdefault((*table, *path), number)
        elif header[1] == "[[":
            counts[path] = counts.get(path, -1) + 1
            table = (*path, counts[path])
            lines[table] = number
        else:
            table = path
            lines[table] = number
    return lines


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
    """What is measured of every run."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """A list is varied, a single value is a constant."""
    set: Mapping[str, Any] = field(default_factory=dict)
    """Places of the scenario and their values, with `{expressions}` of the parameters."""
    arms: Sequence[Mapping[str, Any]] = ()
    """Named variants."""
    seeds: int | Sequence[int] = 1
    """How many runs of each point: `5` is the seeds 1 to 5; or the seeds themselves."""
    mode: Mode = "grid"
    samples: int | None = None
    """Points of a random sweep."""
    sample_seed: int = 1
    """Of what a random sweep draws."""
    description: str = ""
    quick: Mapping[str, Any] = field(default_factory=dict)
    """What differs in a quick sweep: `parameters`, `set`, `seeds`, `samples`."""
    full: Mapping[str, Any] = field(default_factory=dict)
    """The same for a full one."""
    path: Path | None = None
    """The file it came from. Scenario files are relative to it, or else to the working directory."""
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict, repr=False, compare=False)
    """Of the places in that file, for messages."""

    # What the check makes of the above.
    axes: Mapping[str, tuple[Value, ...] | Range] = field(init=False, repr=False, compare=False)
    """Parameters with the values they take; constants have one."""
    constants: frozenset[str] = field(init=False, repr=False, compare=False)
    """Parameters that were given as a single value."""
    seed_list: tuple[int, ...] = field(init=False, repr=False, compare=False)
    arm_list: tuple[Arm, ...] = field(init=False, repr=False, compare=False)
    measure_list: tuple[Measure, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        faults = Faults(str(self.path or f"sweep {self.name!r}"), self.lines)
        _Check(self, faults).all()
        faults.raise_any()

    @classmethod
    def load(cls, path: str | os.PathLike[str], also: Collection[str] = ()) -> Sweep:
        """Reads a sweep file.

        Args:
            path: TOML.
            also: other top-level keys that the file may have, and that are left aside.

        Raises:
            SweepError: it cannot be read, or it is wrong.
        """
        file = Path(path)
        text, document = _read(file)
        return cls.from_document(document, file, lines_of(text), also)

    @classmethod
    def from_document(
        cls,
        document: Mapping[str, Any],
        path: Path,
        lines: Mapping[tuple[str | int, ...], int] | None = None,
        also: Collection[str] = (),
    ) -> Sweep:
        """From what a sweep file holds; as `load`.

        Raises:
            SweepError: it is wrong.
        """
        if {"nodes", "links"} <= document.keys():
            raise SweepError(
                f'{path}: is a scenario: `airtcp run` runs it; a sweep names it, as in scenario = "{path.name}"'
            )
        known = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in ("path", "lines")]
        faults = Faults(str(path), lines)
        for key in document:
            if key not in known and key not in also:
                faults.add(f"unknown key{nearest(key, [*known, *also])}", key)
        faults.raise_any()
        given = {key: value for key, value in document.items() if key in known}
        if isinstance(given.get("arms"), (str, Mapping)):
            given["arms"] = _shared_arms(given["arms"], path, faults)
        return cls(**{"name": path.stem, **given}, path=path, lines=lines or {})

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
        changes: dict[str, Any] = {}
        for wanted, block in ((quick, self.quick), (full, self.full)):
            if wanted:
                changes |= {key: block[key] for key in ("seeds", "samples") if key in block}
                for key in ("parameters", "set"):
                    changes[key] = {**changes.get(key, getattr(self, key)), **block.get(key, {})}
        if seeds is not None:
            changes["seeds"] = seeds
        for name, value in (set or {}).items():
            key = "parameters" if name in self.parameters else "set"
            changes[key] = {**changes.get(key, getattr(self, key)), name: value}
            changes["lines"] = {**changes.get("lines", self.lines), (key, name): OVERRIDE}
            if key == "set":
                # What was said last wins over arms as well.
                changes["arms"] = [
                    {**arm, "set": {k: v for k, v in arm.get("set", {}).items() if k != name}}
                    for arm in changes.get("arms", self.arms)
                ]
        if "parameters" in changes:
            changes["arms"] = [_narrowed(arm, changes["parameters"]) for arm in changes.get("arms", self.arms)]
        return dataclasses.replace(self, **changes) if changes else self

    @property
    def folder(self) -> Path:
        """What relative paths start from."""
        return self.path.parent if self.path is not None else Path()


def _read(file: Path) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file, and what it says."""
    try:
        text = file.read_bytes().decode("utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise SweepError(f"{file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SweepError(f"{file}: not UTF-8 text: {error}") from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise SweepError(f"{file}{f':{line[1]}' if line else ''}: not valid TOML: {error}") from error
    except RecursionError:
        raise SweepError(f"{file}: not valid TOML: nested too deep") from None
    except ValueError as error:
        raise SweepError(f"{str(file)!r}: not the path of a file: {error}") from error


def _shared_arms(given: str | Mapping[str, Any], path: Path, faults: Faults) -> list[Any]:
    """Arms of a file of their own, which several sweeps share: all of them, or those that are named.

    Raises:
        SweepError: the file cannot be read, or has no such arms.
    """
    table: Mapping[str, Any] = {"file": given} if isinstance(given, str) else given
    known = ("file", "only", "without")
    for key in table:
        if key not in known:
            faults.add(f"unknown key{nearest(key, known)}", "arms", key)
    name = table.get("file")
    if not isinstance(name, str) or not name.strip():
        faults.add("must be the path of a file with [[arms]], relative to this one", "arms", "file")
    chosen = {key: table[key] for key in ("only", "without") if key in table}
    if len(chosen) > 1:
        faults.add("has `only` and `without`: one of them has to go", "arms")
    for key, value in chosen.items():
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            faults.add(f"{value!r}: must be a list of names of arms", "arms", key)
    faults.raise_any()
    file = path.parent / str(name)
    try:
        _, document = _read(file)
    except SweepError as error:
        raise SweepError(f"{faults.where('arms')}: {error}") from error
    arms = document.get("arms")
    if document.keys() - {"arms"} or not isinstance(arms, list) or not all(isinstance(arm, Mapping) for arm in arms):
        raise SweepError(f"{file}: must hold [[arms]] and nothing else, to be shared by sweeps")
    names = [arm.get("name") for arm in arms]
    for key, value in chosen.items():
        for one in value:
            if one not in names:
                faults.add(f"{one!r}: {file} has no such arm{nearest(one, [str(n) for n in names])}", "arms", key)
    faults.raise_any()
    if "only" in chosen:
        return [arm for arm in arms if arm.get("name") in chosen["only"]]
    return [arm for arm in arms if arm.get("name") not in chosen.get("without", [])]


def _narrowed(arm: Mapping[str, Any], parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arm without what its `only` asks for beyond the values that the parameters now have."""
    if not isinstance(arm.get("only"), Mapping):
        return arm

    def listed(value: object) -> list[Any]:
        return list(value) if isinstance(value, (list, tuple)) else [value]

    only = {
        name: values
        if isinstance(axis := parameters.get(name), Mapping)
        else [v for v in listed(values) if v in listed(axis)]
        for name, values in arm["only"].items()
    }
    return {**arm, "only": only}


class _Check:
    """Turns what was given into what can be planned, noting every fault."""

    def __init__(self, sweep: Sweep, faults: Faults) -> None:
        self.sweep = sweep
        self.faults = faults

    def put(self, name: str, value: object) -> None:
        object.__setattr__(self.sweep, name, value)

    def all(self) -> None:
        sweep, faults = self.sweep, self.faults
        for key in ("name", "description"):
            if not isinstance(getattr(sweep, key), str):
                faults.add(f"{getattr(sweep, key)!r}: must be text", key)
        if isinstance(sweep.name, str) and not sweep.name.strip():
            faults.add("must not be empty", "name")
        if sweep.mode not in MODES:
            faults.add(f"{sweep.mode!r}: must be one of {', '.join(MODES)}", "mode")
        self._whole(sweep.sample_seed, 0, MAX_SEED, "sample_seed")
        if sweep.mode == "random":
            if sweep.samples is None:
                faults.add("must say how many points a random sweep draws", "samples")
            else:
                self._whole(sweep.samples, 1, MAX_RUNS, "samples")
        elif sweep.samples is not None:
            faults.add('only a sweep with mode = "random" has samples', "samples")
        for key in ("measures", "parameters", "set", "quick", "full"):
            if not isinstance(getattr(sweep, key), Mapping):
                faults.add("must be a table", key)
        if not isinstance(sweep.arms, Sequence) or not all(isinstance(arm, Mapping) for arm in sweep.arms):
            faults.add("must be tables: [[arms]]", "arms")
        # What follows relies on these types.
        faults.raise_any()
        self.put("seed_list", self._seeds(sweep.seeds, "seeds"))
        self._axes()
        self._templates(sweep.set, "set")
        self.put("measure_list", self._measures())
        for key in ("quick", "full"):
            self._variant(getattr(sweep, key), key)
        self.put("arm_list", self._arms())

    def _whole(self, value: object, low: int, high: int, *place: str | int) -> bool:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return True
        self.faults.add(f"{value!r}: must be a whole number from {low} to {high}", *place)
        return False

    def _seeds(self, value: object, *place: str) -> tuple[int, ...]:
        if isinstance(value, int) and not isinstance(value, bool):
            return tuple(range(1, value + 1)) if self._whole(value, 1, MAX_RUNS, *place) else ()
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            self.faults.add(
                f"{value!r}: must be a number of seeds such as 5, or a list of seeds such as [1, 7]", *place
            )
            return ()
        if not all(self._whole(seed, 0, MAX_SEED, *place) for seed in value):
            return ()
        if len(set(value)) < len(value):
            self.faults.add("a seed is there twice", *place)
        return tuple(value)

    # --- parameters ---------------------------------------------------------------------------------------------------

    def _value(self, value: object, *place: str | int) -> bool:
        if isinstance(value, float) and not math.isfinite(value):
            self.faults.add(f"{value}: must be a finite number", *place)
        elif not isinstance(value, (bool, int, float, str)):
            self.faults.add(f"{value!r}: must be a number, text, true or false", *place)
        elif isinstance(value, int) and not -MAX_SEED - 1 <= value <= MAX_SEED:
            self.faults.add("must fit into 64 bits", *place)
        else:
            return True
        return False

    def _axis(self, value: object, *place: str | int) -> tuple[Value, ...] | Range:
        if isinstance(value, Mapping):
            return self._range(value, *place)
        if not isinstance(value, Sequence) or isinstance(value, str):
            return (value,) if self._value(value, *place) else ()  # type: ignore[return-value]
        if not value:
            self.faults.add("the list is empty", *place)
        for i, one in enumerate(value):
            if self._value(one, *place) and any(one == other and type(one) is type(other) for other in value[:i]):
                self.faults.add(f"{one!r} is there twice", *place)
        return tuple(value)

    def _range(self, table: Mapping[str, Any], *place: str | int) -> Range:
        known = ("from", "to", "scale", "whole")
        before = len(self.faults.found)
        for key in table:
            if key not in known:
                self.faults.add(f"unknown key{nearest(key, known)}", *place, key)
        if self.sweep.mode != "random":
            self.faults.add('a range needs mode = "random"; write a list of values', *place)
        low, high = table.get("from"), table.get("to")
        scale, is_whole = table.get("scale", "linear"), table.get("whole", False)
        if scale not in ("linear", "log"):
            self.faults.add(f"{scale!r}: must be linear or log", *place, "scale")
        if not isinstance(is_whole, bool):
            self.faults.add(f"{is_whole!r}: must be true or false", *place, "whole")
        for key, end in (("from", low), ("to", high)):
            if not isinstance(end, (int, float)) or isinstance(end, bool) or not math.isfinite(end):
                self.faults.add(f"{end!r}: must be a number" if end is not None else "is missing", *place, key)
            elif is_whole is True and end != int(end):
                self.faults.add(f"{end!r}: must be whole, as `whole = true` says", *place, key)
        if len(self.faults.found) == before:
            if not low < high:  # type: ignore[operator]
                self.faults.add(f"`from` = {low} must be less than `to` = {high}", *place)
            if scale == "log" and not low > 0:  # type: ignore[operator]
                self.faults.add(f"{low!r}: must be above 0 on a logarithmic scale", *place, "from")
        if len(self.faults.found) > before:
            return Range(1, 2)
        return Range(low, high, scale, is_whole)  # type: ignore[arg-type]

    def _axes(self) -> None:
        sweep = self.sweep
        axes: dict[str, tuple[Value, ...] | Range] = {}
        for name, value in sweep.parameters.items():
            self._name(name, "parameters")
            axes[name] = self._axis(value, "parameters", name)
        self.put("axes", axes)
        constants = {name for name, value in sweep.parameters.items() if isinstance(value, (str, int, float, bool))}
        self.put("constants", frozenset(constants))
        if sweep.mode == "list":
            lengths = {n: len(a) for n, a in axes.items() if n not in constants and not isinstance(a, Range)}
            if len(set(lengths.values())) > 1:
                told = ", ".join(f"{name}: {count}" for name, count in lengths.items())
                self.faults.add(f'with mode = "list" all lists must be equally long ({told})', "parameters")

    def _name(self, name: str, *place: str) -> None:
        if name in IDENTITY:
            more = ": use `seeds`" if name == "seed" else f": results have columns {', '.join(IDENTITY)} of their own"
            self.faults.add(f"`{name}` cannot be a parameter{more}", *place, name)

    # --- places of the scenario ---------------------------------------------------------------------------------------

    def _templates(self, value: object, *place: str | int) -> None:
        """Everything in it can be a value of a scenario, and every template can be read."""
        match value:
            case str():
                try:
                    Template.read(value)
                except ExpressionError as error:
                    self.faults.add(str(error), *place)
            case Mapping():
                for key, item in value.items():
                    self._templates(item, *place, key)
            case list() | tuple():
                for i, item in enumerate(value):
                    self._templates(item, *place, i)
            case _:
                self._value(value, *place)

    # --- measures -----------------------------------------------------------------------------------------------------

    def _measures(self) -> tuple[Measure, ...]:
        if not self.sweep.measures:
            self.faults.add(
                'a sweep must measure something, such as utilisation = "links.bottleneck.utilisation"', "measures"
            )
        measures = []
        for name, given in self.sweep.measures.items():
            measure = self._measure(name, given)
            if measure is not None:
                measures.append(measure)
        return tuple(measures)

    def _measure(self, name: str, given: object) -> Measure | None:
        place = ("measures", name)
        before = len(self.faults.found)
        if not _IDENTIFIER.fullmatch(name):
            self.faults.add("a measure's name has letters, digits and _ only, and begins with no digit", *place)
        elif name in (*IDENTITY, "runs"):
            self.faults.add(f"`{name}` cannot be a measure: results have that already", *place)
        elif name in self.sweep.parameters:
            self.faults.add("is a parameter as well; choose another name", *place)
        table = {"value": given} if isinstance(given, str) else given
        if not isinstance(table, Mapping):
            self.faults.add("must be a place in the summary such as `links.bottleneck.utilisation`, or a table", *place)
            return None
        known = ("value", "sql", "label", "unit", "scale", "columns")
        for key in table:
            if key not in known:
                self.faults.add(f"unknown key{nearest(key, known)}", *place, key)
        if ("value" in table) == ("sql" in table):
            self.faults.add("must have either `value` (a place in the summary) or `sql` (a query)", *place)
            return None
        column = self._column({k: v for k, v in table.items() if k in ("label", "unit", "scale")}, *place)
        columns = {}
        raw = table.get("columns", {})
        if raw and "sql" not in table:
            self.faults.add("only a measure with `sql` has columns", *place, "columns")
        elif not isinstance(raw, Mapping):
            self.faults.add("must be a table", *place, "columns")
        else:
            for key, value in raw.items():
                if isinstance(value, Mapping):
                    columns[key] = self._column(value, *place, "columns", key)
                else:
                    self.faults.add("must be a table with label, unit, scale", *place, "columns", key)
        text = table.get("value", table.get("sql"))
        if not isinstance(text, str) or not text.strip():
            self.faults.add("must be text", *place)
        elif "value" in table:
            parts = text.split(".")
            if len(parts) < 3 or parts[0] not in ("links", "groups", "air") or not all(parts):
                self.faults.add(f"{text!r}: must be links.NAME.KEY, groups.NAME.KEY or air.NAME.KEY", *place)
        else:
            self._templates(text, *place, "sql")
        if len(self.faults.found) > before:
            return None
        assert isinstance(text, str)
        return Measure(name, "value" if "value" in table else "sql", text.strip(), column, columns)

    def _column(self, table: Mapping[str, Any], *place: str) -> Column:
        known = ("label", "unit", "scale")
        for key in table:
            if key not in known:
                self.faults.add(f"unknown key{nearest(key, known)}", *place, key)
        label, unit, scale = table.get("label", ""), table.get("unit", ""), table.get("scale", 1)
        for key, value in (("label", label), ("unit", unit)):
            if not isinstance(value, str):
                self.faults.add(f"{value!r}: must be text", *place, key)
        if not isinstance(scale, (int, float)) or isinstance(scale, bool) or not math.isfinite(scale) or scale == 0:
            self.faults.add(f"{scale!r}: must be a number other than 0", *place, "scale")
            scale = 1
        return Column(str(label), str(unit), scale)

    # --- variants and arms --------------------------------------------------------------------------------------------

    def _variant(self, table: Mapping[str, Any], name: str) -> None:
        known = ("parameters", "seeds", "set", "samples")
        for key in table:
            if key not in known:
                self.faults.add(f"unknown key{nearest(key, known)}", name, key)
        for key in ("parameters", "set"):
            if not isinstance(table.get(key, {}), Mapping):
                self.faults.add("must be a table", name, key)
                return
        for key, value in table.get("parameters", {}).items():
            if key not in self.sweep.parameters:
                self.faults.add(f"no such parameter{nearest(key, self.sweep.parameters)}", name, "parameters", key)
            else:
                self._axis(value, name, "parameters", key)
        self._templates(table.get("set", {}), name, "set")
        if "seeds" in table:
            self._seeds(table["seeds"], name, "seeds")
        if "samples" in table:
            if self.sweep.mode != "random":
                self.faults.add('only a sweep with mode = "random" has samples', name, "samples")
            self._whole(table["samples"], 1, MAX_RUNS, name, "samples")

    def _arms(self) -> tuple[Arm, ...]:
        sweep = self.sweep
        common = None if sweep.scenario is None else self._scenario(sweep.scenario, "scenario")
        if not sweep.arms:
            if sweep.scenario is None:
                self.faults.add("is missing: a scenario file, relative to this one, or a table", "scenario")
            return (Arm(None, common or {}, {}, {}, {}),)
        arms: list[Arm] = []
        for i, table in enumerate(sweep.arms):
            known = ("name", "scenario", "set", "parameters", "only")
            for key in table:
                if key not in known:
                    self.faults.add(f"unknown key{nearest(key, known)}", "arms", i, key)
            name = table.get("name")
            if not isinstance(name, str) or not name.strip():
                self.faults.add("must be text" if "name" in table else "is missing", "arms", i, "name")
                continue
            if any(arm.name == name for arm in arms):
                self.faults.add(f"two arms are called {name!r}", "arms", i, "name")
            source = self._scenario(table["scenario"], "arms", i, "scenario") if "scenario" in table else common
            if source is None and "scenario" not in table:
                self.faults.add(f"arm {name!r} has no scenario, and the sweep has none", "arms", i)
            tables = {key: table.get(key, {}) for key in ("set", "parameters", "only")}
            if wrong := [key for key, value in tables.items() if not isinstance(value, Mapping)]:
                self.faults.add("must be a table", "arms", i, wrong[0])
                continue
            self._templates(tables["set"], "arms", i, "set")
            for key, value in tables["parameters"].items():
                self._name(key, "arms", "parameters")
                self._value(value, "arms", i, "parameters", key)
            only = {key: self._only(key, value, i) for key, value in tables["only"].items()}
            arms.append(Arm(name, source or {}, tables["set"], tables["parameters"], only))
        return tuple(arms)

    def _only(self, name: str, value: object, i: int) -> tuple[Value, ...]:
        place = ("arms", i, "only", name)
        axes = self.sweep.axes
        if name not in axes:
            self.faults.add(f"no such parameter{nearest(name, axes)}", *place)
            return ()
        values = value if isinstance(value, (list, tuple)) else [value]
        axis = axes[name]
        # A value may come from another variant of the sweep, whichever of them is in force now.
        known = [] if isinstance(axis, Range) else list(axis)
        for block in (self.sweep.quick, self.sweep.full):
            others = block.get("parameters")
            more = others.get(name, []) if isinstance(others, Mapping) else []
            known += more if isinstance(more, (list, tuple)) else [more]
        for one in values:
            if not self._value(one, *place):
                return ()
            if not isinstance(axis, Range) and one not in known:
                self.faults.add(f"{one!r} is not among the values of `{name}`: {known}", *place)
        return tuple(values)

    def _scenario(self, source: object, *place: str | int) -> ScenarioSource | None:
        match source:
            case str() | os.PathLike():
                return self.sweep.folder / os.fspath(source)
            case Mapping():
                return source
        if hasattr(source, "to_dict"):
            document: dict[str, Any] = source.to_dict()
            return document
        self.faults.add("must be a scenario file, relative to this one, or a table", *place)
        return None


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
            out[key] = tomllib.loads(f"x = {text}")["x"]
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            if text.startswith(("[", "{", '"', "'")):
                raise SweepError(f"--set {argument}: not a value of TOML: {error}") from None
            out[key] = text
    return out
