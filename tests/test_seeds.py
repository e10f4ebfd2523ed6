"""A seed decides: two seeds of an example differ, and the same seed gives the same bits."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from airtcp import _airtcp
from conftest import EXAMPLES

ENOUGH_S = 3.0
"""Of simulated time. Until then chance has acted in every example."""


def outcome(example: Path, seed: int) -> tuple[str, str]:
    """The summary without its seed, and a hash of all bits of the tables."""
    going = _airtcp.Run(_airtcp.Checked.load(example, [("--seed", "seed", str(seed)), ("", "warmup", '"0s"')]), None)
    going.advance(ENOUGH_S)
    output = going.finish()
    tables = hashlib.sha256()
    for name, columns in output.tables.items():
        for column, data in columns.items():
            tables.update(f"{name}.{column} {len(data)} ".encode())
            tables.update(repr(data).encode() if isinstance(data, list) else data.tobytes())
    return json.dumps(json.loads(output.summary) | {"seed": None}), tables.hexdigest()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_two_seeds_of_an_example_differ(example: Path) -> None:
    (first_summary, first_tables), (other_summary, other_tables) = (outcome(example, seed) for seed in (1, 2))
    assert first_summary != other_summary, "an example without chance: let its flows begin at random"
    assert first_tables != other_tables


def test_one_seed_is_one_outcome() -> None:
    assert outcome(EXAMPLES[0], 1) == outcome(EXAMPLES[0], 1)
