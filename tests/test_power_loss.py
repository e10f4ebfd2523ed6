"""Power is lost at each call of the system that a sweep makes: what had been said to be finished is there afterwards.

`strace` records what a sweep does to its folder. A model of a file system without mercy replays that up to each call: a
name is safe once its folder is synchronised, bytes once their file is. All else may be there, be missing, be cut, or be
zeros. The sweep goes on from every such state.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import airtcp
from airtcp import ResultsError, SweepResults
from airtcp.sweeps.store import JOURNAL, Store
from conftest import AIRTCP, ROOT
from sample_sweep import same

CALLS = "openat,write,pwrite64,ftruncate,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir"
LOST = ("least", "most", "names", "cut", "zeros")
"""What is left of what is not safe: nothing; all; names without bytes; names and half of the bytes; names and zeros."""


@dataclass
class Inode:
    is_folder: bool = False
    now: bytearray = field(default_factory=bytearray)
    safe: bytes = b""
    entries: dict[str, Inode] = field(default_factory=dict)
    safe_entries: dict[str, Inode] = field(default_factory=dict)

    def left(self, lost: str) -> bytes:
        """Bytes after the loss."""
        keep = len(self.safe)
        match lost:
            case "most":
                return bytes(self.now)
            case "cut" if len(self.now) > keep:
                return bytes(self.now[: (keep + len(self.now)) // 2])
            case "zeros" if len(self.now) > keep:
                return self.safe + bytes(len(self.now) - keep)
        return self.safe

    def write(self, to: Path, lost: str) -> None:
        """Makes the folder as it is after the loss."""
        to.mkdir(exist_ok=True)
        for name, inode in (self.safe_entries if lost == "least" else self.entries).items():
            if inode.is_folder:
                inode.write(to / name, lost)
            else:
                (to / name).write_bytes(inode.left(lost))


class Disk:
    """The file system below a folder that was there before."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.top = Inode(is_folder=True)

    def _at(self, path: str) -> tuple[Inode, str]:
        folder = self.top
        *above, name = Path(path).relative_to(self.root).parts or ("",)
        for part in above:
            folder = folder.entries[part]
        return folder, name

    def inode(self, path: str) -> Inode | None:
        folder, name = self._at(path)
        return folder if name == "" else folder.entries.get(name)

    def apply(self, call: str, paths: list[str], data: bytes, number: int, flags: str) -> None:
        """A call that has succeeded."""
        folder, name = self._at(paths[-1])
        inode = self.inode(paths[-1])
        match call:
            case "openat" if "O_CREAT" in flags and inode is None:
                folder.entries[name] = Inode()
            case "openat" if "O_TRUNC" in flags and inode is not None:
                inode.now.clear()
            case "write" if inode is not None:
                inode.now += data
            case "pwrite64" if inode is not None:
                inode.now[number : number + len(data)] = data
            case "ftruncate" if inode is not None:
                del inode.now[number:]
            case "fsync" | "fdatasync" if inode is not None:
                inode.safe, inode.safe_entries = bytes(inode.now), dict(inode.entries)
            case "mkdir" | "mkdirat":
                folder.entries[name] = Inode(is_folder=True)
            case "rename" | "renameat" | "renameat2":
                old, old_name = self._at(paths[0])
                folder.entries[name] = old.entries.pop(old_name)
            case "unlink" | "unlinkat" | "rmdir":
                folder.entries.pop(name, None)


def calls(log: str, root: Path) -> Iterator[tuple[str, list[str], bytes, int, str]]:
    """The calls below `root` that have succeeded, in the order in which they ended."""
    begun: dict[str, str] = {}
    for line in log.splitlines():
        process, _, text = line.partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            begun[process] = text.removesuffix("<unfinished ...>")
            continue
        if (resumed := re.match(r"<\.\.\. \w+ resumed>", text)) is not None:
            text = begun.pop(process) + text[resumed.end() :]
        found = re.fullmatch(r"(\w+)\((.*)\) += (\d+)(?:<.*>)?", text)
        if found is None:
            continue
        call, arguments, result = found.groups()
        strings = [bytes.fromhex(one.replace("\\x", "")) for one in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', arguments)]
        on = re.match(r"\d+<((?:\\x[0-9a-f]{2})+|[^>]*)>", arguments)
        described = "" if on is None else on[1]
        if described.startswith("\\x"):
            described = bytes.fromhex(described.replace("\\x", "")).decode()
        last = re.search(r", (\d+)$", arguments)
        number = int(last[1]) if last else 0
        if call in ("write", "pwrite64", "ftruncate", "fsync", "fdatasync"):
            paths = [described]
        else:
            paths = [one.decode() for one in strings]
        data = strings[0][: int(result)] if call in ("write", "pwrite64") else b""
        if all(path == str(root) or path.startswith(f"{root}/") for path in paths):
            yield call, paths, data, number, arguments


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, list[str], bytes, int, str]]]:
    """A sweep's folder when it is over, and what made it so."""
    root = tmp_path_factory.mktemp("disk").resolve()
    file = tmp_path_factory.mktemp("sweep") / "sweep.toml"
    (file.parent / "tiny.toml").write_text(
        """name = "tiny"
duration = "300ms"
nodes = [{ name = "a", kind = "host" }, { name = "b", kind = "host" }]
links = [{ name = "line", from = "a", to = "b", rate = "5Mbit/s", delay = "5ms", queue = "fifo", loss = 0.01 }]
flows = [{ name = "bulk", from = "a", to = "b" }]
"""
    )
    file.write_text(
        'name = "tiny"\nscenario = "tiny.toml"\nseeds = 2\n[parameters]\n"links.line.loss" = [0.0, 0.01, 0.02]\n'
        '[measures]\nuse = "links.line.utilisation"\n'
    )
    log = file.with_name("strace")
    done = subprocess.run(
        ["strace", "-f", "-y", "-xx", "-s", "10000000", "-e", f"trace={CALLS}", "-o", str(log), "--"]
        + [str(one) for one in (AIRTCP, "sweep", file, "--out", root / "out", "-q", "--jobs", "1")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "ptrace" in done.stderr:
        pytest.skip(f"strace may not look: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return file, list(calls(log.read_text(), root))


def test_the_model_has_all_that_the_disk_has(
    recorded: tuple[Path, list[tuple[str, list[str], bytes, int, str]]], tmp_path: Path
) -> None:
    _, made = recorded
    root = Path(made[0][1][0]).parent
    disk = Disk(root)
    for one in made:
        disk.apply(*one)
    # The end is on disk: what is safe is what is there, but for who held the lock.
    for lost in ("least", "most"):
        disk.top.safe_entries = disk.top.entries
        disk.top.write(tmp_path / lost, lost)
        files = {path.relative_to(root): path for path in root.rglob("*") if path.is_file() and path.name != ".lock"}
        assert len(files) >= 5
        for name, path in files.items():
            assert (tmp_path / lost / name).read_bytes() == path.read_bytes(), (lost, name)


def test_nothing_finished_is_lost_and_nothing_damaged_believed(
    recorded: tuple[Path, list[tuple[str, list[str], bytes, int, str]]], tmp_path: Path
) -> None:
    file, made = recorded
    root = Path(made[0][1][0]).parent
    whole = SweepResults.load(root / "out")
    disk = Disk(root)
    finished: set[str] = set()
    journal = str(root / "out" / JOURNAL)
    states: set[str] = set()
    resumed = 0
    for number, one in enumerate(made):
        disk.apply(*one)
        if one[0] == "fsync" and one[1] == [journal]:
            inode = disk.inode(journal)
            assert inode is not None
            finished = {json.loads(line)["key"] for line in inode.safe.splitlines()[1:]}
        for lost in LOST:
            after = tmp_path / f"{number}-{lost}"
            disk.top.write(after, lost)
            content = repr(sorted((p.relative_to(after), p.is_dir() or p.read_bytes()) for p in after.rglob("*")))
            if content in states:
                shutil.rmtree(after)
                continue
            states.add(content)
            out = after / "out"
            try:
                seen = SweepResults.load(out)
                # Whoever reads it finds all of it, or is told that it is damaged.
                assert same(seen, whole), (number, lost)
            except ResultsError:
                pass
            with Store(out) as store:
                assert store.damaged == 0, (number, lost, one)
                assert {key for key in finished if store.get(key) is not None} == finished, (number, lost, one)
            if resumed < 8 or number % 5 == 0:
                resumed += 1
                assert same(airtcp.sweep(file, out=out, executor="threads"), whole), (number, lost)
                assert same(SweepResults.load(out), whole), (number, lost)
            shutil.rmtree(after)
    assert len(finished) == 6
    assert len(states) > 30, f"{len(made)} calls, {len(states)} states: one that is not understood?"


@pytest.mark.parametrize("error", ["ENOLCK", "EOPNOTSUPP"])
@pytest.mark.parametrize("command", ["run", "sweep", "analyze"])
def test_a_file_system_without_locks_is_told(
    recorded: tuple[Path, list[tuple[str, list[str], bytes, int, str]]], tmp_path: Path, command: str, error: str
) -> None:
    """As some network file systems are."""
    file, _ = recorded
    what = {
        "run": file.with_name("tiny.toml"),
        "sweep": file,
        "analyze": ROOT / "tests/data/captures/timeout_2_duplicates-sender.pcap",
    }[command]
    done = subprocess.run(
        ["strace", "-f", "-o", "/dev/null", "-e", "trace=flock", "-e", f"inject=flock:error={error}", "--"]
        + [str(one) for one in (AIRTCP, command, what, "--out", tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "this file system cannot lock f" in done.stderr
    assert "Traceback" not in done.stderr
