from typing import Any, TypedDict, final, type_check_only

from numpy.typing import NDArray

__all__ = ["Output", "Run", "ScenarioError", "__version__", "check", "names", "schema"]

__version__: str

@type_check_only
class Problem(TypedDict):
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
    """A scenario or an override is wrong. The message holds every error found; `errors` lists them one by one."""

    errors: list[Problem]

def schema() -> str:
    """The JSON Schema of scenario files, as text."""

def names() -> dict[str, list[str]]:
    """Names of everything registered, by what it is."""

def check(text: str, file_name: str, overrides: list[str]) -> str:
    """Parses a scenario and validates it. Returns it with every default filled in, as JSON."""

@final
class Run:
    """One run, advanced step by step. The steps do not change its results."""

    def __new__(cls, text: str, file_name: str, overrides: list[str]) -> Run: ...
    @property
    def now_s(self) -> float:
        """Simulated time reached, seconds."""
    @property
    def duration_s(self) -> float:
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
