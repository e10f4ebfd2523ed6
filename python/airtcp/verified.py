"""Outcome of `airtcp verify`: counts, faults, and everything that rests on trust."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

Json = dict[str, Any]
Tell = Callable[[str], object]

AGREES: Final = 0
DIFFERS: Final = 1
UNCHECKED: Final = 3
"""Exit code: nothing is wrong, and something was not checked, or no run was made again."""

NEVER_MADE_AGAIN: Final[dict[str, tuple[str, ...]]] = {
    "manifest.json": ("airtcp_version", "engine", "polars_version", "host", "timing"),
    "summary.json": ("airtcp_version",),
    "sweep.json": ("airtcp_version", "engine", "polars_version", "measures_version"),
    "study.json": (
        "airtcp_version",
        "engine",
        "polars_version",
        "measures_version",
        "started",
        "wall_s",
        "host",
        "settle",
    ),
    "runs.jsonl": ("wall_s", "end"),
    "tables": ("wall_s",),
}
"""Keys and columns that no repetition can give: when, where, how fast, and by which versions. Tables have `wall_s` as
the journal has it."""


@dataclass(frozen=True)
class Limits:
    """The most that a run may take when it is made again."""

    memory_bytes: int
    cpu_s: int


CPU_LIMIT_S: Final = 600
"""Processor time of a run that is made again, unless told."""
MEMORY_LIMIT_BYTES: Final = 2 << 30
"""Memory of such a run, unless told, or half of what the machine has if that is less."""


def limits(memory_bytes: int | None = None, cpu_s: int | None = None) -> Limits:
    """The most that a run may take: what is given, or the defaults."""
    from airtcp.executors.local import machine_memory

    least = min(MEMORY_LIMIT_BYTES, machine_memory() // 2)
    return Limits(least if memory_bytes is None else memory_bytes, CPU_LIMIT_S if cpu_s is None else cpu_s)


@dataclass
class Verified:
    """Files and runs that were checked, and their faults."""

    folder: str
    kind: str = ""
    """Format of the folder."""
    files: int = 0
    """Files that fit their checksums."""
    foreign: list[str] = field(default_factory=list)
    """Files that airtcp did not write. They are not held against anything."""
    faults: list[str] = field(default_factory=list)
    """Damage, and everything that came out otherwise."""
    of: int = 0
    """Different runs that there should be, failed and missing ones among them."""
    again: int = 0
    """Runs that were made again."""
    agreed: int = 0
    """Runs that gave the same bits, or failed in the same way."""
    failed: int = 0
    """Runs that are said to have failed."""
    missing: int = 0
    """Runs that are not there, because the folder was interrupted."""
    kernels: int = 0
    """Runs of kernels. They are not made again."""
    beyond: int = 0
    """Runs that took more memory or time than they may."""
    is_drawn: bool = False
    """True if a sample of the runs was drawn."""
    seed: int = 0
    """Seed of the draw."""
    not_checked: list[str] = field(default_factory=list)
    """Files and runs that could be wrong, and were not made again."""
    notes: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """True if nothing was wrong. Much may still rest on trust: see `exit`."""
        return not self.faults

    @property
    def exit(self) -> int:
        """Exit code of the command."""
        if self.faults:
            return DIFFERS
        return UNCHECKED if not self.again or self.not_checked else AGREES

    @property
    def escape(self) -> float:
        """Chance that a single altered run is not among those that were made again."""
        return 1 - self.again / self.of if self.of else 0.0

    @property
    def closing(self) -> str:
        """The result in a line."""
        if self.faults:
            return "NOT verified"
        if not self.again:
            return "checksums fit; no run was made again"
        runs = "run" if self.of == 1 else "runs"
        if self.is_drawn:
            said = (
                f"sample: {self.agreed} of {self.of} {runs} agree; {self.of - self.again} rest on trust (one altered "
                f"run escapes such a draw with a chance of {_percent(self.escape)})"
            )
            return f"{said}; not checked: see above" if self.not_checked else said
        if self.not_checked:
            return f"{self.agreed} of {self.of} {runs} agree; the rest rests on trust: see above"
        return f"verified: {self.of} of {self.of} {runs} made again, and everything that follows from them, agree"

    def to_dict(self) -> Json:
        """Everything, for `--json`."""
        return {
            **asdict(self),
            "never_made_again": {name: list(keys) for name, keys in NEVER_MADE_AGAIN.items()},
            "escape": self.escape,
            "closing": self.closing,
            "is_good": self.is_good,
            "exit": self.exit,
        }

    @classmethod
    def from_dict(cls, document: Json) -> Verified:
        """The same from `to_dict`."""
        return cls(**{name: document[name] for name in cls.__dataclass_fields__})


def silent(_: str) -> None:
    """Tells nobody."""


def note_engine(engine: object, found: Verified) -> None:
    """Tells that another engine made the results. Its bits may differ, and its name rests on trust."""
    from airtcp import _airtcp

    if engine != _airtcp.engine():
        found.notes.append(f"made by engine {engine or '(not named)'}, here it is {_airtcp.engine()}")


def _percent(chance: float) -> str:
    text = f"{100 * chance:.3g}"
    return f"{text} %" if text != "100" else "nearly 100 %"


def without(document: Json, file: str) -> Json:
    """A document without the keys that cannot be made again."""
    return {key: value for key, value in document.items() if key not in NEVER_MADE_AGAIN[file]}


DIGITS: Final = 1e-9
"""Relative distance of numbers that count as equal, where a machine may add up in another order."""


def differences(there: object, wanted: object, place: str = "", tolerance: float = 0.0) -> list[str]:
    """Places in which two documents differ."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        out = [f"{place}{key} should not be there" for key in there if key not in wanted]
        out += [f"{place}{key} is missing" for key in wanted if key not in there]
        for key in wanted:
            if key in there:
                out += differences(there[key], wanted[key], f"{place}{key}.", tolerance)
        return out
    if isinstance(there, list) and isinstance(wanted, list):
        if len(there) != len(wanted):
            return [f"{place.removesuffix('.')} has {len(there)} entries, not {len(wanted)}"]
        out = []
        for i, (a, b) in enumerate(zip(there, wanted, strict=True)):
            name = b.get("id", i) if isinstance(b, dict) else i
            out += differences(a, b, f"{place.removesuffix('.')}[{name}].", tolerance)
        return out
    if type(there) is type(wanted) and _is_same(there, wanted, tolerance):
        return []
    return [f"{place.removesuffix('.')} is {_short(there)}, not {_short(wanted)}"]


def _is_same(there: object, wanted: object, tolerance: float) -> bool:
    if there == wanted:
        return True
    if not tolerance or not isinstance(there, float) or not isinstance(wanted, float):
        return False
    return abs(there - wanted) <= tolerance * max(abs(there), abs(wanted))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


__all__ = [
    "AGREES",
    "DIFFERS",
    "NEVER_MADE_AGAIN",
    "UNCHECKED",
    "Limits",
    "Tell",
    "Verified",
    "differences",
    "limits",
    "note_engine",
    "silent",
    "without",
]
