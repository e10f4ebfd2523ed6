"""CONTRIBUTING's worked examples, carried out as a newcomer would: all on one copy of the Rust source.

An example is a section with a `rust` block (a new file), a `diff` block (a line in a registry) and `sh` blocks. The
paths are those that the steps name. All examples are applied together and compiled once; then each one's tests and runs
are made.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
# Stays, so that the next time only what changed is compiled. It has a target folder of its own: Cargo tells packages
# apart by their place in the workspace, which is the same here, and would take one build for the other.
COPY = ROOT / "target/contributing"
# A few tests and short runs: not worth the minutes that optimizing takes.
QUICK_BUILD = {"CARGO_PROFILE_DEV_OPT_LEVEL": "0", "CARGO_PROFILE_DEV_DEBUG": "none"}


@dataclass(frozen=True)
class Example:
    heading: str
    text: str

    def blocks(self, language: str) -> list[str]:
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    def path_before(self, language: str) -> Path:
        """The last path that the text names before the first block of that language."""
        before = self.text.split(f"```{language}\n")[0]
        step = before[before.rindex("\n**") :]
        return Path(re.findall(r"`(crates/[\w/.]+\.rs)`", step)[0])

    @property
    def file(self) -> Path:
        return self.path_before("rust")

    @property
    def module(self) -> str:
        """The new file as Rust names it within its crate."""
        _, _, _, *parts = self.file.with_suffix("").parts
        return "::".join(parts)

    def commands(self, program: str) -> list[list[str]]:
        """The arguments of every call of the program, settings of the environment before it left out."""
        lines = [line for block in self.blocks("sh") for line in block.replace("\\\n", " ").splitlines()]
        words = [[w for w in shlex.split(line, comments=True) if not re.match(r"[A-Z_]+=", w)] for line in lines]
        return [line[1:] for line in words if line and Path(line[0]).name == program]


def examples() -> list[Example]:
    sections = re.split(r"^##+ (.*)\n", TEXT, flags=re.MULTILINE)
    found = [Example(heading, text) for heading, text in zip(sections[1::2], sections[2::2], strict=True)]
    return [example for example in found if example.blocks("diff")]


def write(path: Path, text: str, age_of: Path) -> None:
    path.write_text(text)
    # Cargo goes by age: what is the same as last time should look it.
    os.utime(path, (age_of.stat().st_mtime, age_of.stat().st_mtime))


def apply(example: Example) -> None:
    (code,) = example.blocks("rust")
    assert not (COPY / example.file).exists(), f"{example.file} is there already: choose another example"
    write(COPY / example.file, code, ROOT / "CONTRIBUTING.md")
    subprocess.run(["rustfmt", "--check", "--edition", "2024", "--config-path", ROOT, COPY / example.file], check=True)

    (diff,) = example.blocks("diff")
    kept = [line[1:] for line in diff.splitlines() if not line.startswith("+")]
    assert len(diff.splitlines()) == len(kept) + 1, f"{example.heading}: one line in the registry"
    new = [line[1:] for line in diff.splitlines()]
    registry = example.path_before("diff")
    text = (COPY / registry).read_text()
    assert text.count("\n".join(kept) + "\n") == 1, f"the diff of {example.heading} no longer applies"
    write(COPY / registry, text.replace("\n".join(kept) + "\n", "\n".join(new) + "\n"), ROOT / registry)


def cargo(*arguments: str | Path) -> str:
    done = subprocess.run(
        ["cargo", *arguments],
        cwd=COPY,
        env={**os.environ, **QUICK_BUILD, "CARGO_TARGET_DIR": str(COPY / "target"), "INSTA_UPDATE": "always"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tested() -> Iterator[str]:
    """Applies every example and runs the tests that they name; what was printed."""
    COPY.mkdir(parents=True, exist_ok=True)
    # Processes that share these tests take turns: they have one copy.
    with (COPY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield from applied()


def applied() -> Iterator[str]:
    """See `tested`."""
    for name in ("Cargo.toml", "Cargo.lock", "crates", "evidence/figures"):
        source, target = ROOT / name, COPY / name
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    packages: set[str] = set()
    filters = []
    for example in examples():
        apply(example)
        (command,) = example.commands("cargo")
        test, flag, package, lib, modules = command
        assert (test, flag, lib) == ("test", "-p", "--lib")
        packages.add(package)
        filters.append(modules)
    yield cargo("test", *(f"--package={p}" for p in sorted(packages)), "--lib", "--", *filters)


def test_the_examples_are_found() -> None:
    assert [e.heading for e in examples()] == [
        "Adding a congestion control",
        "Adding a kind of traffic",
        "Adding a signal",
    ]


@pytest.mark.parametrize("example", examples(), ids=lambda e: e.heading)
def test_a_worked_example_builds_and_passes(example: Example, tested: str) -> None:
    assert re.search(rf"^test {example.module}::tests::\w+ \.\.\. ok$", tested, re.MULTILINE)
    if example.module.startswith("tcp::cc::"):
        stories = list((COPY / example.file).parent.glob(f"snapshots/*{example.file.stem}.snap"))
        assert len(stories) == 1


def run(arguments: list[str]) -> dict[str, Any]:
    command, file, *options = arguments
    assert command == "run"
    short = ["--set", "duration=3s", "--set", "warmup=0s"]
    text = cargo("run", "--quiet", "--package=airtcp-sim", "--example=run", "--", ROOT / file, *options, *short)
    summary: dict[str, Any] = json.loads(text)
    return summary


@pytest.mark.parametrize("example", examples(), ids=lambda e: e.heading)
def test_a_worked_example_changes_a_run(example: Example, tested: str) -> None:
    assert tested
    for arguments in example.commands("airtcp"):
        command, file, *_ = arguments
        assert run(arguments) != run([command, file])
