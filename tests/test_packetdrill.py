"""The packet scripts in evidence/packetdrill/: what a script must have, its page, and the kernel's verdict.

The kernel plays one script of each topic, and all of them with AIRTCP_PACKET_SCRIPTS=all. airtcp's own verdicts are
held by the adapter's test, crates/packetdrill/tests/evidence.rs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from pathlib import Path

import pytest

from conftest import ROOT

sys.path[:0] = [str(ROOT / "evidence")]
SOURCE = ROOT / "evidence/packetdrill/run.py"
spec = importlib.util.spec_from_file_location("packetdrill_run", SOURCE)
assert spec is not None
assert spec.loader is not None
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)

SCRIPTS: list[Path] = run.scripts()
PROGRAM: Path | None = run.packetdrill(None)
MISSING: str | None = run.missing(PROGRAM)


def played() -> list[Path]:
    """One script of each topic, or all."""
    if os.environ.get("AIRTCP_PACKET_SCRIPTS") == "all":
        return SCRIPTS
    return [next(f for f in SCRIPTS if f.parent.name == topic) for topic in run.TOPICS]


def test_every_script_is_in_a_topic() -> None:
    assert len(SCRIPTS) >= 150
    assert {*SCRIPTS} == {*run.FOLDER.rglob("*.pkt")}


@pytest.mark.parametrize("topic", run.TOPICS)
def test_a_script_says_its_rule_and_what_it_needs(topic: str) -> None:
    for script in run.scripts(f"{topic}/"):
        rule = run.rule(script)
        assert re.search(r"RFC \d{4}, \d|Linux", rule), f"{run.name(script)}: no section and no function of Linux"
        assert all(len(s.split()) <= 25 for s in re.split(r"(?<=[.:;])\s", rule)), (
            f"{run.name(script)}: a long sentence"
        )
        text = script.read_text()
        # The adapter reads settings of TCP alone: a script must not need another part of the machine.
        for command in re.findall(r"`([^`]*)`", text):
            assert re.fullmatch(r"sysctl -q( net\.ipv4\.tcp_\w+=\w+)+", command), f"{run.name(script)}: {command}"


def test_no_two_scripts_are_alike() -> None:
    bodies: dict[str, str] = {}
    for script in SCRIPTS:
        body = "\n".join(line for line in script.read_text().splitlines() if not line.startswith("//"))
        assert body not in bodies, f"{run.name(script)} is {bodies[body]}"
        bodies[body] = run.name(script)


@pytest.mark.parametrize("part", run.PARTS)
def test_the_page_follows_from_the_figures(part: str) -> None:
    data = json.loads(run.FIGURES.read_text())
    assert run.page.part(run.PAGE.read_text(), part) == run.PARTS[part](data), (
        "run `evidence/packetdrill/run.py --page`"
    )


def test_the_figures_are_those_of_the_scripts() -> None:
    rows = json.loads(run.FIGURES.read_text())["rows"]
    assert [(r["script"], r["rule"]) for r in rows] == [(run.name(f), run.rule(f)) for f in SCRIPTS]
    assert all(run.kernel_passes(r) for r in rows), "a script that the kernel does not pass is no judge"


def test_the_known_failures_are_those_of_the_figures() -> None:
    rows = json.loads(run.FIGURES.read_text())["rows"]
    lines = (run.FOLDER / "known.txt").read_text().splitlines()
    known = {line.split(" = ")[0] for line in lines if line and not line.startswith("#")}
    assert known == {r["script"] for r in rows if r["airtcp"]["result"] != "passed"}


@pytest.mark.skipif(MISSING is not None, reason=f"the kernel's side: {MISSING}")
@pytest.mark.parametrize("script", played(), ids=run.name)
def test_the_kernel_passes(script: Path) -> None:
    assert PROGRAM is not None
    assert run.by_kernel(PROGRAM, script, runs=1).get("why") is None


@pytest.mark.skipif(MISSING is not None, reason=f"the kernel's side: {MISSING}")
def test_the_kernel_fails_a_script_that_asks_for_too_much(tmp_path: Path) -> None:
    """A window of eleven segments, where Linux begins with ten."""
    script = run.FOLDER / "rfc5681/initial_window_of_ten.pkt"
    wrong = tmp_path / "wrong.pkt"
    wrong.write_text(script.read_text().replace("tcpi_snd_cwnd == 10", "tcpi_snd_cwnd == 11"))
    assert PROGRAM is not None
    assert "AssertionError" in run.play(PROGRAM, wrong)
