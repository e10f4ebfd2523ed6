"""The threat model names a test for each of its lines: each of them is there."""

from __future__ import annotations

import ast
import re

import pytest

from conftest import ROOT

PAGE = ROOT / "docs/threat-model.md"
NAMED = re.compile(r"(TODO-TEST )?`([\w./-]+)::(\w+)`")
HEAD = "| input | may | may not | held by |"


def rows() -> list[list[str]]:
    """Rows of the tables that name tests."""
    found = []
    is_inside = False
    for line in PAGE.read_text().splitlines():
        is_inside = line == HEAD or (is_inside and line.startswith("|"))
        if is_inside and line != HEAD and not line.startswith("|---"):
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def named_in(path: str) -> set[str]:
    text = (ROOT / path).read_text()
    if path.endswith(".py"):
        return {
            one.name
            for one in ast.walk(ast.parse(text))
            if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
        }
    # A property is a test within `proptest!`, which has its attribute as well.
    return set(re.findall(r"#\[test\]\s*(?:#\[[^\n]*\]\s*)*fn (\w+)\(", text))


def test_every_line_names_tests() -> None:
    assert len(rows()) >= 30
    for row in rows():
        assert len(row) == 4, row
        assert NAMED.search(row[3]), row
        assert NAMED.sub("", row[3]).strip(", ") == "", f"more than tests: {row[3]}"


NAMES = [match.groups() for row in rows() for match in NAMED.finditer(row[3])]


@pytest.mark.parametrize(("path", "name"), [(path, name) for todo, path, name in NAMES if not todo])
def test_the_named_test_is_there(path: str, name: str) -> None:
    assert name in named_in(path)


def test_no_line_waits_for_its_test() -> None:
    assert [name for todo, _, name in NAMES if todo] == []


def test_the_rest_names_no_test_by_chance() -> None:
    assert len(NAMED.findall(PAGE.read_text())) == len(NAMES)


def test_it_can_be_found() -> None:
    for page in ("mkdocs.yml", "README.md", "docs/index.md", "SECURITY.md"):
        assert "threat-model.md" in (ROOT / page).read_text(), page
    for page in ("CONTRIBUTING.md", "README.md", "docs/threat-model.md"):
        assert "SECURITY.md" in (ROOT / page).read_text(), page
