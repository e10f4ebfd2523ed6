from pathlib import Path
from typing import Any, TypedDict, final, type_check_only

from numpy.typing import NDArray

__all__ = ["Checked", "Output", "Run", "ScenarioError", "__version__", "engine", "names", "parse_set", "schema"]

__version__: str

@type_check_only
class Fault(TypedDict):
    """One fault of a scenario."""

    file: str
    """As given."""
    line: int | None
    """From 1; `None` if the fault is not at a line, or is in an override."""
    argument: str | None
    """The override at fault."""
    key: str
    """Where in the document: `links[0].rate`; empty if the fault is in the file as a whole."""
    value: str | None
    """What is there, as TOML."""
    message: str
    """What is wrong and what would be accepted."""

class ScenarioError(ValueError):
    """A scenario or an override is wrong. The message holds what was found; `errors` lists it fault by fault."""

    errors: list[Fault]

def schema() -> str:
    """The JSON Schema of scenario files, as text."""

def names() -> dict[str, list[str]]:
    """Names of everything registered, by what it is."""

def engine() -> str:
    """Which engine this is: version and a hash of all that decides results. Equal wherever the sources are equal."""

def parse_set(argument: str) -> tuple[str, str, str]:
    """Splits the argument of `--set`."""

@final
class Checked:
    """A scenario that was read, changed and found valid.

    A change is how to call it in an error, its key, and its value as TOML or bare text.
    """

    @staticmethod
    def load(path: str | Path, changes: list[tuple[str, str, str]]) -> Checked:
        """From a TOML file."""
    @staticmethod
    def from_toml(text: bytes, file_name: str, changes: list[tuple[str, str, str]]) -> Checked:
        """From TOML that is called `file_name` in errors."""
    @staticmethod
    def from_json(text: str, file_name: str, changes: list[tuple[str, str, str]]) -> Checked:
        """From JSON of the same structure."""
    def to_json(self) -> str:
        """The scenario with changes applied and defaults written out."""
    def to_toml(self) -> str:
        """As `to_json`, as TOML."""
    def counts(self) -> tuple[int, int, int]:
        """Nodes, links and flows once groups are expanded."""

@final
class Run:
    """One run, advanced step by step. The steps do not change its results."""

    def __new__(cls, scenario: Checked, capture: tuple[str | Path, int] | None) -> Run:
        """`capture`: file for what the scenario wants captured, and how many bytes of a packet it keeps (0: all)."""
    @property
    def now_s(self) -> float:
        """Simulated time reached, seconds."""
    @property
    def end_s(self) -> float:
        """Simulated time at which the run ends, seconds."""
    def advance(self, until_s: float) -> None:
        """Runs up to this simulated time, seconds. Other Python threads go on meanwhile."""
    def finish(self) -> Output:
        """Ends the run where it is and hands out what it recorded."""

@final
class Output:
    """What a run recorded."""

    @property
    def tables(self) -> dict[str, dict[str, NDArray[Any] | list[str]]]:
        """Table, column, values."""
    @property
    def meanings(self) -> dict[str, dict[str, str]]:
        """Table, column, what it holds."""
    @property
    def summary(self) -> str:
        """JSON."""
    @property
    def stats(self) -> dict[str, int]:
        """Counters of the engine."""
