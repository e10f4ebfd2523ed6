"""CONTRIBUTING's worked example, carried out as a newcomer would: on a copy of the Rust source."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from conftest import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
# Stays, so that the next time only what changed is compiled. It has a target folder of its own: Cargo tells packages
# apart by their place in the workspace, which is the same here, and would take one build for the other.
COPY = ROOT / "target/contributing"
# The few tests of one module: not worth the minutes that optimizing takes.
QUICK_BUILD = {"CARGO_PROFILE_DEV_OPT_LEVEL": "0", "CARGO_PROFILE_DEV_DEBUG": "none"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def path_before(language: str) -> Path:
    """The last path that the text names before the first block of that language."""
    before = TEXT.split(f"```{language}\n")[0]
    step = before[before.rindex("\n**") :]
    return Path(re.findall(r"`(crates/[\w/.]+\.rs)`", step)[0])


def write(path: Path, text: str, age_of: Path) -> None:
    path.write_text(text)
    # Cargo goes by age: what is the same as last time should look it.
    os.utime(path, (age_of.stat().st_mtime, age_of.stat().st_mtime))


def test_the_worked_example_builds_and_passes() -> None:
    for name in ("Cargo.toml", "Cargo.lock", "crates", "tests/reference"):
        source, target = ROOT / name, COPY / name
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)

    (code,) = blocks("rust")
    file = path_before("rust")
    assert not (COPY / file).exists(), f"{file} is there already: choose another example"
    write(COPY / file, code, ROOT / "CONTRIBUTING.md")

    (diff,) = blocks("diff")
    context, added, after = diff.splitlines()
    registry = path_before("diff")
    old, new = f"{context[1:]}\n{after[1:]}\n", f"{context[1:]}\n{added[1:]}\n{after[1:]}\n"
    text = (COPY / registry).read_text()
    assert text.count(old) == 1, "the diff in CONTRIBUTING.md no longer applies"
    write(COPY / registry, text.replace(old, new), ROOT / registry)

    subprocess.run(["rustfmt", "--check", "--edition", "2024", "--config-path", ROOT, COPY / file], check=True)
    (command,) = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("INSTA_UPDATE")]
    done = subprocess.run(
        command,
        shell=True,
        cwd=COPY,
        env={**os.environ, **QUICK_BUILD, "CARGO_TARGET_DIR": str(COPY / "target")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"tcp::cc::{file.stem}::tests" in done.stdout
    stories = list((COPY / file).parent.glob(f"snapshots/*{file.stem}.snap"))
    assert len(stories) == 1
