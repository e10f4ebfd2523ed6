"""What happens to files happens to airtcp: flipped bits, killed processes, calls of the system that fail.

A short budget runs with the other tests. By hand, for long (CONTRIBUTING.md):
`AIRTCP_FLIPS=2000 AIRTCP_KILLS=500 pytest tests/test_damage.py`.
"""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import airtcp
from airtcp import Results, ResultsError, SweepResults, cli
from airtcp.sweeps.store import JOURNAL, Store
from airtcp.verify import verify
from conftest import AIRTCP, ROOT
from sample_sweep import TINY, same, tiny

FLIPS = int(os.environ.get("AIRTCP_FLIPS", "120"))
KILLS = int(os.environ.get("AIRTCP_KILLS", "4"))

# --- flipped bits -----------------------------------------------------------------------------------------------------


def _bytes(tables: dict[str, pl.DataFrame]) -> dict[str, bytes]:
    return {name: table.write_ipc(None).getvalue() for name, table in tables.items()}


def read_run(folder: Path) -> object:
    found = Results.load(folder)
    tables = {name: table.collect() for name, table in found.items()}
    return json.dumps([found.manifest, found.summary]), _bytes(tables)


def read_sweep(folder: Path) -> object:
    found = SweepResults.load(folder)
    tables = {"runs": found.runs, **found.tables}
    return json.dumps(found.manifest), _bytes(tables)


def read_study(folder: Path) -> object:
    from airtcp.report.page import load

    return repr(load(folder))


def read_journal(folder: Path) -> object:
    store = Store.look(folder)
    if store.notes:
        raise ResultsError("; ".join(store.notes))
    return store._outcomes


Reader = Callable[[Path], object]


def _scenario(folder: Path) -> Path:
    path = folder / "tiny.toml"
    path.write_text(airtcp._airtcp.Checked.from_json(json.dumps(TINY), "tiny", []).to_toml())
    return path


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Reader]]:
    from airtcp.study import run
    from airtcp.study.files import read
    from airtcp.study.prepare import prepare
    from airtcp.study.run_options import RunOptions

    top = tmp_path_factory.mktemp("damage")
    airtcp.run(_scenario(top), out=top / "run")
    airtcp.sweep(tiny(seeds=4), out=top / "sweep", executor="threads")
    study = read(ROOT / "tests/data/tiny")
    run.run(study, prepare(study, "quick"), top / "study", RunOptions("tiny", "quick"), executor="threads")
    return {
        "run": (top / "run", read_run),
        "sweep": (top / "sweep", read_sweep),
        "journal": (top / "sweep", read_journal),
        "study": (top / "study", read_study),
    }


NAMES: dict[str, Callable[[Path], bool]] = {
    "run": lambda path: True,
    "sweep": lambda path: path.name != JOURNAL and "verify" not in path.parts,
    "journal": lambda path: path.name == JOURNAL,
    "study": lambda path: path.name == "study.json",
}


@pytest.mark.parametrize("what", list(NAMES))
def test_no_flipped_bit_goes_unseen(folders: dict[str, tuple[Path, Reader]], what: str) -> None:
    folder, read = folders[what]
    files = [
        path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock" and NAMES[what](path)
    ]
    before = read(folder)
    rng = random.Random(16)
    told = 0
    for _ in range(FLIPS // len(NAMES)):
        path = rng.choice(files)
        data = path.read_bytes()
        at = rng.randrange(len(data) * 8)
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        path.write_bytes(flipped)
        try:
            after = read(folder)
        except ResultsError as error:
            told += 1
            assert str(folder) in str(error) or "journal" in str(error)
        else:
            assert after == before, f"bit {at} of {path.name} changed what was read, and nothing was said"
        finally:
            path.write_bytes(data)
    assert told > 0


@pytest.mark.parametrize("command", [["compare"], ["plot", "--out", "x.png"], ["report"], ["verify", "--runs", "0"]])
def test_commands_tell_damage_without_a_traceback(
    folders: dict[str, tuple[Path, Reader]], command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, _ = folders["sweep" if command[0] == "report" else "run"]
    rng = random.Random(3)
    files = [path for path in sorted(folder.glob("*")) if path.is_file() and path.name not in (".lock", JOURNAL)]
    args = [arg.replace("x.png", str(tmp_path / "x.png")) for arg in command]
    for path in files:
        data = path.read_bytes()
        damages = (data[: len(data) // 2], b"", rng.randbytes(len(data)), b"[" * 4000)
        # Drawing a figure takes long.
        for damage in damages if command[0] == "verify" else rng.sample(damages, 1):
            path.write_bytes(damage)
            code = cli.main([args[0], str(folder), *args[1:]])
            said = capsys.readouterr().err
            path.write_bytes(data)
            assert code in (0, 1, 3), (path, said)
            if code == 1:
                assert path.name in said or "wrong" in said or not said
    # Without a run that is made again nothing is verified.
    assert cli.main([args[0], str(folder), *args[1:]]) == (3 if command[0] == "verify" else 0)


# --- killed processes -------------------------------------------------------------------------------------------------


def test_kill_9_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """A sweep is killed again and again. What was on disk stays, and nothing runs twice."""
    sweep = tmp_path / "sweep.toml"
    _scenario(tmp_path)
    rng = random.Random(9)
    lost = kills = round_ = 0
    while kills < KILLS:
        round_ += 1
        runs = 400
        sweep.write_text(
            f'name = "k"\nscenario = "tiny.toml"\nseeds = {runs}\nset = {{ duration = "20s" }}\n'
            'measures = { u = "links.line.utilisation" }\n'
        )
        out = tmp_path / f"out{round_}"
        seen: list[bytes] = []
        while kills < KILLS:
            running = subprocess.Popen(
                [AIRTCP, "sweep", sweep, "--out", out, "-q"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            deadline = time.monotonic() + rng.uniform(0.3, 2.5)
            while running.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            if running.poll() is not None:
                break
            running.kill()
            running.wait()
            kills += 1
            if not (out / JOURNAL).exists():
                continue
            lines = (out / JOURNAL).read_bytes().splitlines(keepends=True)
            whole = [line for line in lines if line.endswith(b"\n")]
            lost += whole[: len(seen)] != seen
            seen = whole
        done = subprocess.run([AIRTCP, "sweep", sweep, "--out", out, "-q"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        keys = [json.loads(line)["key"] for line in (out / JOURNAL).read_text().splitlines()[1:]]
        assert len(keys) == len(set(keys)) == runs
        assert verify(out, 0, 1).is_good
    assert lost == 0
    print(f"{kills} kills, {lost} losses, {round_} sweeps")  # noqa: T201


# --- calls that fail --------------------------------------------------------------------------------------------------

CALLS = ("write", "fsync", "replace", "rename", "close", "open", "ftruncate", "mkdir")


class Shim:
    """Lets one call of the system fail: the n-th of those that change files below a folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, n: int, number: int) -> None:
        self.left = n
        self.hit = False
        real: Callable[..., Any] = getattr(os, name)

        def call(*args: Any, **more: Any) -> Any:
            if name == "open" and not args[1] & (os.O_WRONLY | os.O_RDWR):
                return real(*args, **more)
            self.left -= 1
            if self.left == 0:
                self.hit = True
                if name == "close":
                    real(*args, **more)
                if name == "write" and len(args[1]) > 1:
                    real(args[0], bytes(args[1])[: len(args[1]) // 2])
                raise OSError(number, os.strerror(number))
            return real(*args, **more)

        monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("what", ["run", "sweep"])
def test_each_failing_call_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    out = tmp_path / "out"
    scenario = _scenario(tmp_path)

    def go(seeds: int) -> None:
        if what == "run":
            airtcp.run(scenario, seed=seeds, out=out)
        else:
            airtcp.sweep(tiny(seeds=seeds), out=out, executor="threads", jobs=1)

    go(1)
    hits = 0
    for n in range(1, 60):
        with monkeypatch.context() as patch:
            shim = Shim(patch, name, n, errno.ENOSPC if name in ("write", "open", "mkdir") else errno.EIO)
            try:
                go(2 + n % 2)
            except ResultsError as error:
                assert "Traceback" not in str(error)
            except OSError as error:
                pytest.fail(f"{name} {n}: {error!r} was not told as a result that cannot be written")
        if not shim.hit:
            break
        hits += 1
        if what == "run":
            assert Results.load(out).flows.collect().height == 2
        else:
            store = Store.look(out)
            assert (store.damaged, len(store) >= 1) == (0, True)
            assert b"\0" not in (out / JOURNAL).read_bytes()
            SweepResults.load(out)
    # What is half removed has no marker any more, and is taken for a leftover a minute later.
    for left in tmp_path.glob(".out.*"):
        os.utime(left, (0, 0))
    go(5)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []
    if what == "sweep":
        assert same(SweepResults.load(out), airtcp.sweep(tiny(seeds=5), executor="threads"))
    assert hits > 0 or name in ("rename", "ftruncate", "mkdir", "replace", "close")
