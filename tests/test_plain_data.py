"""Data in tables and messages is text: Rich reads neither markup nor emoji in it, wherever the package prints."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.table import Table

from airtcp import _terminal
from conftest import ROOT

PACKAGE = ROOT / "python/airtcp"
CODES = st.sampled_from(["ab", "cd", "abc", "bee", "cl", "id", "ok", "end", "a", "b", "o2", "100", "1234", "red]x[/"])
ADDRESSES = st.lists(CODES, min_size=2, max_size=8).map(":".join)


def consoles() -> list[tuple[Path, ast.Call]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Console":
                found.append((path, node))
    return found


def test_every_console_takes_text_as_text() -> None:
    found = consoles()
    assert len(found) >= 3
    for path, call in found:
        off = {word.arg for word in call.keywords if isinstance(word.value, ast.Constant) and word.value.value is False}
        assert {"markup", "emoji"} <= off, f"{path.relative_to(ROOT)}:{call.lineno}"


def test_nothing_else_asks_for_markup() -> None:
    asks = re.compile(r"from_markup|rich\.print\b|from rich import print|markup=True|emoji=True|rich\.emoji")
    found = [path for path in PACKAGE.rglob("*.py") if asks.search(path.read_text())]
    assert found == []


@settings(max_examples=60, deadline=None)
@given(ADDRESSES)
def test_addresses_reach_the_terminal_as_they_are(address: str) -> None:
    table = Table(title=f"title {address}", caption=f"caption {address}", min_width=70)
    table.add_column(f"column {address}", footer=address)
    table.add_row(f"row {address}")
    shown: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_terminal, "_write_out", shown.append)
        _terminal.render(f"plain {address}", table)
    for place in ("plain", "title", "caption", "column", "row"):
        assert f"{place} {address}" in shown[0]
