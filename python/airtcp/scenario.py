"""Scenarios as Python objects: what a scenario file holds, with completion and types.

Generated from the schema by `make generate`; do not edit. What is left out (`None`) takes its default, and values are
checked when a scenario runs: `airtcp.ScenarioError` then says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from airtcp._part import Part


@dataclass(kw_only=True)
class Link(Part):
    """A link."""

    from_: str

    queue: QueueConfig | None = None

    to: str


@dataclass(kw_only=True)
class Node(Part):
    """A node."""

    name: str


@dataclass(kw_only=True)
class Fifo(Part):
    """Drop-tail."""

    name: Literal["fifo"] = field(default="fifo", init=False)

    packets: int | None = None


@dataclass(kw_only=True)
class Scenario(Part):
    """Scenario."""

    duration: Span
    """Simulated time."""

    links: Sequence[Link] | None = None

    name: str | None = None
    """Name of the run."""

    nodes: Sequence[Node] | None = None

    seed: int | None = None
    """Seed. Default: 1."""


QueueConfig: TypeAlias = "Literal['fifo'] | Fifo"
"""QueueConfig."""

Span: TypeAlias = "str"
"""Span."""

__all__ = ["Fifo", "Link", "Node", "QueueConfig", "Scenario", "Span"]
