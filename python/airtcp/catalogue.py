"""The catalogue of remedies: what each one sets, who must change what for it, and the commands that do it.

It is a file beside the studies that use it. Variants of sweeps name remedies and get their `set`. Rows of matrices get
their `changes`, `how` and `text`. `airtcp advise` applies them to any scenario.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from airtcp import documents
from airtcp.documents import ErrorType, Faults, Table, Text, Unique, means
from airtcp.expressions import nearest

Texts = Annotated[tuple[Text, ...], Unique]
Share = Annotated[int, Meta(gt=0, le=1)] | Annotated[float, Meta(gt=0, le=1)]
Needs = Literal["plain AP", "mac80211 AP", "hosts of 2014", "uploads", "calls", "no RACK", "varying line"]
Ends = Literal["senders", "receivers", "both", "all"]


class Commands(Table, kw_only=True, frozen=True):
    """Commands for one kind of machine."""

    on: Annotated[Text, means("The machine on which they run, or the file in which they stand.")]
    run: Annotated[tuple[Text, ...], Meta(min_length=1), means("The lines.")]


class LineChange(Table, kw_only=True, frozen=True):
    """The change of a remedy to the line whose queue holds most of the waiting."""

    queue: Annotated[Text | dict[str, Any], means("Its queue.")]
    share: Annotated[Share, means("Part of the line's rate to which a shaper before it keeps.")] = 1
    both_ways: Annotated[bool, means("Whether the other direction gets the same.")] = False
    packets: Annotated[
        Literal["bdp", "bdp over root n"] | None,
        means("Limit of the queue: bandwidth times delay, or that over the root of the number of connections."),
    ] = None


class Remedy(Table, kw_only=True, frozen=True):
    """One remedy."""

    name: Annotated[Text, means("Its name, unique in the catalogue.")]
    text: Annotated[str, means("Description in a line.")] = ""
    changes: Annotated[Texts, means("Things that have to be changed for it, of the kinds in `costs` of a matrix.")] = ()
    how: Annotated[str, means("Commands or settings that do it, in a sentence.")] = ""
    without: Annotated[Texts, means("Measures that say nothing about it. It is never advised then.")] = ()
    is_released: Annotated[bool, means("Whether a released system has it.")] = True
    ends: Annotated[Ends, means("Which ends of a TCP connection have to change. `all`: every host.")] = "both"
    needs: Annotated[tuple[Needs, ...], means("What a network must have, so that it is considered.")] = ()
    set: Annotated[dict[str, Any], means("Places of a scenario, and their values.")] = field(default_factory=dict)
    line: Annotated[LineChange | None, means("What it does to the line that holds the queue.")] = None
    parts: Annotated[Texts, means("Other remedies of which it consists.")] = ()
    commands: Annotated[tuple[Commands, ...], means("The commands that do it.")] = ()


class CatalogueFile(Table, kw_only=True, frozen=True):
    """The content of a catalogue."""

    remedies: Annotated[tuple[Remedy, ...], Meta(min_length=1), means("The remedies.")]


class Catalogue(Mapping[str, Remedy]):
    """Remedies by name."""

    def __init__(self, remedies: Sequence[Remedy], place: str) -> None:
        self.place: Final = place
        """Path of the file, for messages."""
        self._by_name: Final = {one.name: one for one in remedies}

    @classmethod
    def load(cls, path: Path, error: ErrorType) -> Catalogue:
        """Reads a catalogue.

        Raises:
            Exception: `error`, made from a text for each fault: it cannot be read, or is wrong.
        """
        document = documents.load(path, "catalogue of remedies", error)
        remedies = documents.read(document, CatalogueFile, error).remedies
        faults = Faults(document, error)
        names = [one.name for one in remedies]
        for i, one in enumerate(remedies):
            if one.name in names[:i]:
                faults.add("is there twice", "remedies", i, "name")
            for j, part in enumerate(one.parts):
                if part not in names[:i]:
                    faults.add(
                        f"no remedy before it has that name{nearest(part, names[:i])}", "remedies", i, "parts", j
                    )
        faults.raise_any()
        return cls(remedies, str(path))

    def __getitem__(self, name: str) -> Remedy:
        return self._by_name[name]

    def __iter__(self) -> Any:  # noqa: ANN401
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def alone(self, name: str) -> list[Remedy]:
        """The remedies of which one consists: itself, or its parts."""
        one = self[name]
        return [each for part in one.parts for each in self.alone(part)] or [one]

    def set_of(self, names: Sequence[str]) -> dict[str, Any]:
        """The `set` of several remedies together. A later one wins."""
        return {place: value for name in names for one in self.alone(name) for place, value in one.set.items()}
