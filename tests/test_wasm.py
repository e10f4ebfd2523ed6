"""WebAssembly gives the same summaries as this machine, for every example: no CPU decides a bit of a result.

Compiling and running takes minutes. So it is a test for `make test-all`, which sets `AIRTCP_TEST_WASM`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import EXAMPLES, ROOT

TARGET = "wasm32-wasip1"
RUN = ["cargo", "build", "--quiet", "--package=airtcp-sim", "--example=run"]


def said(command: list[str | Path], **environment: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def missing() -> str | None:
    """Why it cannot be tried here."""
    if not os.environ.get("AIRTCP_TEST_WASM"):
        return "takes minutes: `make test-all`, or set AIRTCP_TEST_WASM"
    if shutil.which("node") is None:
        return "needs Node 20 or newer"
    if int(said(["node", "--version"]).removeprefix("v").split(".")[0]) < 20:
        return f"needs Node 20 or newer, found {said(['node', '--version']).strip()}"
    library = Path(said(["rustc", "--print=sysroot"]).strip()) / "lib/rustlib" / TARGET
    return None if library.exists() else f"needs Rust's {TARGET}: rustup target add {TARGET}"


@pytest.fixture(scope="module")
def programs() -> tuple[Path, Path]:
    """The example `run` for this machine and for WebAssembly."""
    if reason := missing():
        pytest.skip(reason)
    said([*RUN])
    said([*RUN, f"--target={TARGET}"])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "debug/examples/run", target / TARGET / "debug/examples/run.wasm"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_has_the_same_summary(example: Path, programs: tuple[Path, Path]) -> None:
    native, wasm = programs
    script = ROOT / "tests/wasi.mjs"
    there = said(["node", "--no-warnings", script, wasm, example.name], FOLDER=str(example.parent))
    assert there == said([native, example])
