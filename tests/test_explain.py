"""`airtcp explain`, and the pages of `docs/policies/`."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from airtcp import _airtcp, explain
from airtcp.cli import main
from conftest import ROOT

PAGES = _airtcp.pages()
SCHEMA: dict[str, Any] = json.loads(_airtcp.schema())
AXES = list(dict.fromkeys(page["axis"] for page in PAGES))


def told(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["explain", *argv]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page['axis']}/{page['name']}")
def test_every_policy_has_a_page_with_its_parts_and_parameters(page: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, f"{page['axis']}/{page['name']}")
    headings = [line for line in text.splitlines() if line and not line.startswith(" ")]
    for heading in [*explain.PARTS.values(), explain.PARAMETERS]:
        assert heading in headings, f"the comment that opens the file of {page['name']} lacks a part"
    of_schema = next(
        variant["properties"]
        for variant in explain._variants(SCHEMA["$defs"][page["definition"]])
        if any(value.get("const") == page["name"] for value in variant["properties"].values())
    )
    keys = {key for key, value in of_schema.items() if "const" not in value}
    assert {parameter.key for parameter in explain.parameters(page, SCHEMA)} == keys
    for key in keys:
        assert re.search(rf"^  {key}: ", text, re.MULTILINE)
    assert "super::" not in text
    assert "[`" not in text


def test_a_parameter_has_its_unit_its_default_and_its_choices(capsys: pytest.CaptureFixture[str]) -> None:
    assert 'target: duration such as "90ms"; default "5ms"' in told(capsys, "codel")
    cubic = told(capsys, "cubic")
    assert 'slow_start_exit: "none" | "hystart" | "hystart_plus_plus"; default "hystart"' in cubic
    assert '- "hystart": Rising delay' in cubic
    assert "beta: number, 0 to 1; default 0.7" in cubic


def test_alone_it_lists_every_name_by_axis(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys)
    for page in PAGES:
        section = text[text.index(f"\n{page['axis']} (" if page["axis"] != AXES[0] else f"{page['axis']} (") :]
        assert re.search(rf"^  {page['name']} ", section, re.MULTILINE), page["name"]
    for profile in _airtcp.names()["profiles"]:
        assert profile in text


def test_a_name_on_two_axes_shows_both_and_an_axis_chooses(capsys: pytest.CaptureFixture[str]) -> None:
    both = told(capsys, "fixed")
    assert "rate_control/fixed" in both
    assert "retry_out/fixed" in both
    one = told(capsys, "retry_out/fixed")
    assert "rate_control/fixed" not in one


def test_an_axis_a_profile_and_a_key_have_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(name in told(capsys, "queue") for name in _airtcp.names()["queue"])
    assert 'loss = { name = "rack"' in told(capsys, "linux-6")
    assert "`profile`" in told(capsys, "profile/ns2-reno")
    pacing = told(capsys, "pacing")
    assert "`TcpOptions`" in pacing
    assert '- "rtt_over_cwnd":' in pacing


@pytest.mark.parametrize(
    ("typo", "hint"),
    [
        ("cubik", "did you mean cubic?"),
        ("fq-codel", "did you mean fq_codel?"),
        ("linux6", "did you mean linux-6?"),
        ("queue/fixed", "did you mean rate_control/fixed or retry_out/fixed?"),
        ("queue/pyie", "did you mean queue/pie?"),
        ("zzzzzz", "airtcp explain lists the names"),
    ],
)
def test_a_typo_gets_the_nearest_name(typo: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", typo]) == 2
    assert capsys.readouterr().err == f"error: nothing is called {typo!r}: {hint}\n"


def test_docs_policies_has_what_the_registry_has_and_nothing_else() -> None:
    written = {path.name: path.read_text() for path in (ROOT / "docs/policies").iterdir()}
    assert written == explain.files(PAGES, SCHEMA), "run make generate"
