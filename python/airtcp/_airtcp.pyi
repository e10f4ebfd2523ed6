from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, final, type_check_only

from numpy.typing import NDArray

__all__ = [
    "Analysis",
    "CaptureError",
    "Checked",
    "Document",
    "DocumentError",
    "Output",
    "Run",
    "RunError",
    "ScenarioError",
    "Schema",
    "__version__",
    "engine",
    "names",
    "pages",
    "parse_set",
    "parse_value",
    "profile",
    "schema",
]

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

class RunError(RuntimeError):
    """A run cannot go on: it has outgrown what memory is for, or the audit found that its books do not agree."""

def schema() -> str:
    """The JSON Schema of scenario files, as text."""

def names() -> dict[str, list[str]]:
    """Names of everything registered, by what it is."""

@type_check_only
class PolicyPage(TypedDict):
    """The page of a policy, in Markdown: the comment that opens its source file."""

    axis: str
    """As in `names()`."""
    what: str
    """What the axis holds: "a congestion control"."""
    place: str
    """Where a scenario names one."""
    definition: str
    """The axis in the JSON Schema."""
    name: str
    rust_type: str
    """Its type in Rust: other pages link to it by that."""
    decides: str
    parts: dict[str, str]
    """Source, Siblings, Valid, Deviations."""
    details: list[str]
    """What else there is to say, by paragraph."""

def pages() -> list[PolicyPage]:
    """The page of every registered policy, in the order of registration."""

def profile(name: str) -> str | None:
    """A host profile's file, TOML with comments; `None` if there is no such profile."""

def engine() -> str:
    """Which engine this is: version and a hash of all that decides results. Equal wherever the sources are equal."""

def parse_set(argument: str) -> tuple[str, str, str]:
    """Splits the argument of `--set`."""

def parse_value(text: str) -> Any:  # noqa: ANN401
    """The value of `KEY=VALUE`: TOML; a `ValueError` if it is not."""

class DocumentError(ValueError):
    """A file cannot be read, or is not what it should be. `faults` has a line for each fault."""

    faults: list[str]

@final
class Schema:
    """A JSON Schema, ready for use."""

    def __new__(cls, text: str) -> Schema: ...

@final
class Document:
    """A file, or values of a program, with the place of everything. What changes it makes another one.

    A place is keys, and indices of lists, from the top.
    """

    @staticmethod
    def load(path: str | Path, what: str) -> Document:
        """From a TOML file; `what` should be in it, for messages."""
    @staticmethod
    def from_toml(text: bytes, file_name: str, what: str) -> Document:
        """From TOML that is called `file_name` in messages."""
    @staticmethod
    def of(value: object, name: str) -> Document:
        """From values of a program, called `name` in messages."""
    def value(self) -> dict[str, Any]:
        """What is in it, as plain values. Keys are in the order of the file."""
    def line(self, at: Sequence[str | int]) -> int | None:
        """The line of the file at which something stands, or what would hold it."""
    def where(self, at: Sequence[str | int]) -> str:
        """`FILE:LINE: key`, as exactly as is known; of what is not from the file, what it is from."""
    def fault(self, at: Sequence[str | int], message: str) -> str:
        """`FILE:LINE: key = value: message`."""
    def check(self, schema: Schema) -> None:
        """Raises everything in which it differs from a schema."""
    def put(self, at: Sequence[str | int], value: object, argument: str) -> Document:
        """With a value in some place, which messages say came from `argument`."""
    def copy(self, source: Sequence[str | int], target: Sequence[str | int]) -> Document:
        """With what stands in one place in another, too."""
    def without(self, at: Sequence[str | int]) -> Document:
        """Without what stands there."""
    def graft(self, at: Sequence[str | int], other: Document, key: str, entries: Sequence[int]) -> Document:
        """With some entries of a list of another document in some place. They keep the places that they have there."""

class CaptureError(ValueError):
    """A file is no capture, or of a kind that is not read."""

@type_check_only
class CaptureSummary(TypedDict):
    """What a capture is."""

    format: str
    """pcap or pcapng."""
    gzip: bool
    link_types: list[int]
    """LINKTYPE_ values of the tcpdump group's registry."""
    snap_bytes: int
    """Bytes kept of each packet; 0: the file does not say."""
    packets: int
    tcp_packets: int
    connections: int
    bytes: int
    """Of the packets, on the wire."""
    first_s: float | None
    """Time of the first packet, seconds since 1970-01-01 00:00 UTC; `None` if there is none."""
    last_s: float | None
    duration_s: float | None

@final
class Analysis:
    """A capture being analysed, some packets at a time. Where the cuts fall does not change the results."""

    def __new__(
        cls,
        places: list[list[str]],
        *,
        ahead_ns: list[int] = ...,
        points: int = 4000,
        idle_timeout_s: float = 300.0,
        max_connections: int = 100_000,
    ) -> Analysis:
        """`points`: of a flow in each series; `idle_timeout_s`: silence that ends a connection.

        `max_connections`: open at once.
        """
    def advance(self, packets: int) -> bool:
        """Reads up to that many packets more; false at the end of the file, or of what can be read of it.

        Other Python threads go on meanwhile.
        """
    def progress(self) -> tuple[int, int]:
        """Bytes of the file read so far, and its size."""
    def packets(self) -> int:
        """Packets read so far."""
    def damage(self) -> str | None:
        """What ended the reading before the end of the file: file, packet from 1, byte from 0, what is wrong."""
    def notes(self) -> list[str]:
        """What a reader of the results should know."""
    def finish(self) -> None:
        """Ends all connections that are open."""
    def drain(self) -> dict[str, dict[str, NDArray[Any] | list[str]]]:
        """Table, column, values: the rows that became final since the last call."""
    def capture(self) -> CaptureSummary:
        """What the capture is."""
    @staticmethod
    def columns() -> dict[str, list[tuple[str, str]]]:
        """Table, its columns and what they hold."""

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

    def __new__(
        cls, scenario: Checked, capture: tuple[str | Path, int] | None, audit: bool = False, threads: int = 1
    ) -> Run:
        """`capture`: file for what the scenario wants captured, and how many bytes of a packet it keeps (0: all).
        `audit`: at every sample the books of the run are checked, on one core. `threads`: most cores that the run
        takes; 0: as many as pay.
        """
    @property
    def parts(self) -> int:
        """Into how many parts the network is divided: cores that the run takes at most."""
    def set_threaded(self, is_threaded: bool) -> None:
        """Whether each part has a thread of its own from now on, or one thread runs all in turn. Results are equal."""
    @property
    def now_s(self) -> float:
        """Simulated time reached, seconds."""
    @property
    def end_s(self) -> float:
        """Simulated time at which the run ends, seconds."""
    def advance(self, until_s: float) -> None:
        """Runs up to this simulated time, seconds. Other Python threads go on meanwhile.

        Raises:
            RunError: it cannot go on.
        """
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
    def abouts(self) -> dict[str, str]:
        """Table, which rows it has."""
    @property
    def summary(self) -> str:
        """JSON."""
    @property
    def stats(self) -> dict[str, int]:
        """Counters of the engine."""
