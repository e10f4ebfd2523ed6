"""WebAssembly gives the same summaries as this machine, for every example: no CPU decides a bit of a result.

Compiling takes minutes. So it is a test for `make test-all`, which sets `AIRTCP_TEST_WASM`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import wasmtime

from conftest import EXAMPLES, ROOT

TARGET = "wasm32-wasip1"
BUILD = ["cargo", "build", "--quiet", "--release", "--package=airtcp-sim", "--example=run"]


def said(command: list[str | Path]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def missing() -> str | None:
    """Why it cannot be tried here."""
    if not os.environ.get("AIRTCP_TEST_WASM"):
        return "compiling takes minutes: `make test-all`, or set AIRTCP_TEST_WASM"
    library = Path(said(["rustc", "--print=sysroot"]).strip()) / "lib/rustlib" / TARGET
    return None if library.exists() else f"needs Rust's {TARGET}: rustup target add {TARGET}"


@pytest.fixture(scope="module")
def programs() -> tuple[Path, wasmtime.Engine, wasmtime.Module]:
    """The example `run` for this machine and for WebAssembly."""
    if reason := missing():
        pytest.skip(reason)
    said([*BUILD])
    said([*BUILD, f"--target={TARGET}"])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    engine = wasmtime.Engine()
    module = wasmtime.Module.from_file(engine, str(target / TARGET / "release/examples/run.wasm"))
    return target / "release/examples/run", engine, module


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_has_the_same_summary(
    example: Path, programs: tuple[Path, wasmtime.Engine, wasmtime.Module], tmp_path: Path
) -> None:
    native, engine, module = programs
    wasi = wasmtime.WasiConfig()
    wasi.argv = ["run", example.name]
    wasi.preopen_dir(str(example.parent), ".")
    wasi.stdout_file = str(tmp_path / "stdout")
    wasi.inherit_stderr()
    store = wasmtime.Store(engine)
    store.set_wasi(wasi)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    start = linker.instantiate(store, module).exports(store)["_start"]
    assert isinstance(start, wasmtime.Func)
    start(store)
    assert (tmp_path / "stdout").read_text() == said([native, example])
