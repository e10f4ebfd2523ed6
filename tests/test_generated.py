"""What is generated from the schema is current, and the examples agree with the schema."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import airtcp
from airtcp import _airtcp
from conftest import EXAMPLES, ROOT

sys.path.insert(0, str(ROOT / "tools"))

import generate

SCHEMA: dict[str, Any] = json.loads(airtcp.schema())


@pytest.mark.parametrize("path", generate.generated(_airtcp), ids=lambda path: path.name)
def test_generated_files_are_current(path: Path) -> None:
    assert path.read_text() == generate.generated(_airtcp)[path], "run make generate"


def test_the_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_examples_agree_with_the_schema(path: Path) -> None:
    jsonschema.validate(tomllib.loads(path.read_text()), SCHEMA)


@pytest.mark.parametrize(
    "change",
    [{"colour": "red"}, {"duration": "5"}, {"seed": -1}, {"nodes": [{"name": "a"}]}, {"links": {}}],
    ids=str,
)
def test_the_schema_refuses_what_the_parser_refuses(change: dict[str, Any]) -> None:
    document = tomllib.loads((ROOT / "examples/pacing-buffers-reno.toml").read_text()) | change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)
    with pytest.raises(airtcp.ScenarioError):
        _airtcp.Checked.from_json(json.dumps(document), "x", [])


def test_every_registered_name_is_a_class() -> None:
    names = _airtcp.names()
    for name in [*names["cc"], *names["loss"], *names["queue"]]:
        made = getattr(airtcp.scenario, generate.camel(name))()
        assert made.to_dict() == {"name": name}


def test_the_features_list_every_registered_name() -> None:
    text = (ROOT / "docs/features.md").read_text()
    missing = [name for names in _airtcp.names().values() for name in names if f"`{name}`" not in text]
    assert missing == []
