"""The command end to end: what it prints, what it writes, how it fails."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from airtcp import Results, __version__, cli
from airtcp.cli.parser import GROUPS, MODULES, command_line
from conftest import AIRTCP, EXAMPLES, SMALL, Command

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
NEEDS_USER = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def test_version(airtcp: Command) -> None:
    assert airtcp("--version").stdout == f"airtcp {__version__}\n"


@pytest.mark.parametrize("command", ["run", "check", "schema", "list", "plot", "compare", "sweep"])
def test_help_has_an_example(airtcp: Command, command: str) -> None:
    done = airtcp(command, "--help")
    assert done.returncode == 0
    assert f"  airtcp {command} " in done.stdout.split("example", 1)[1]


def test_a_command_that_is_loaded_alone_is_as_among_all() -> None:
    def commands(given: str | None) -> dict[str, argparse.ArgumentParser]:
        line = command_line(given)
        return next(a.choices for a in line._actions if isinstance(a, argparse._SubParsersAction))

    every = commands(None)
    assert [*every] == [*MODULES]
    for name, one in every.items():
        assert commands(name)[name].format_help() == one.format_help()


def test_a_run_loads_no_modules_of_other_commands(scenario: Path) -> None:
    code = (
        "import sys; before = {*sys.modules};"
        "from airtcp import cli; assert cli.main(['run', sys.argv[1], '--json', '--duration', '1s']) == 0;"
        "heavy = ('shell', 'lab', 'study', 'advise', 'analyze'); loaded = {*sys.modules} - before;"
        "print([m for m in (*heavy, 'dataclasses', 'shutil', 'subprocess', 'typing', 'importlib') if"
        " m in loaded or f'airtcp.cli.commands.{m}' in loaded], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, scenario], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_run_writes_a_folder_and_a_table(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    done = airtcp("run", scenario, "--seed", 7)
    assert done.returncode == 0, done.stderr
    assert "r->b" in done.stdout
    assert "bulk" in done.stdout
    results = Results.load(tmp_path / "cwd/runs/small-seed7")
    assert (results.name, results.seed, results.interrupted) == ("small", 7, False)
    assert results.manifest["simulated_s"] == 4
    assert results.links.collect().height == 4


def test_an_audit_changes_no_result(airtcp: Command, scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRTCP_AUDIT")
    plain, audited = airtcp("run", scenario, "--json"), airtcp("run", scenario, "--json", "--audit")
    assert plain.returncode == audited.returncode == 0, audited.stderr
    assert plain.stdout == audited.stdout
    # What the audit finds ends a run with its message.
    code = "import sys, airtcp.execution as e; from airtcp import RunError, cli\n"
    code += "def advance(self): raise RunError('audit at 1s: world: packets sent 2 is not 1 = delivered 1')\n"
    code += f"e.Execution.advance = advance; sys.exit(cli.main(['run', {str(scenario)!r}, '--audit', '--no-save']))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert "packets sent 2 is not 1" in found.stderr
    assert "Traceback" not in found.stderr


def test_json_is_one_object_and_nothing_else(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    done = airtcp("run", scenario, "--json")
    assert done.returncode == 0
    assert list((tmp_path / "cwd").iterdir()) == [], "a folder is written only where --out says so"
    summary = json.loads(done.stdout)
    assert (summary["name"], summary["seed"], summary["status"]) == ("small", 1, "complete")
    assert summary["airtcp_version"] == __version__
    assert summary["duration_s"] == 4
    assert {"bulk", "page", "ping", "train"} == {group["group"] for group in summary["groups"]}
    assert {"a->r", "r->a", "r->b", "b->r"} == {link["name"] for link in summary["links"]}


def test_same_seed_same_bytes(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    first, again, other = (
        airtcp("run", scenario, "--json", "--seed", seed, "--out", tmp_path / out)
        for seed, out in ((5, "first"), (5, "again"), (6, "other"))
    )
    assert first.stdout == again.stdout
    assert first.stdout != other.stdout
    names = {path.name for path in (tmp_path / "first").iterdir()} - {"manifest.json", "airtcp.json"}
    assert "flow_series.parquet" in names
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_threads_change_no_result(airtcp: Command) -> None:
    example = next(path for path in EXAMPLES if path.name == "ns2-dumbbell.toml")
    one, two, all_cores = (
        airtcp("run", example, "--json", "--duration", "11s", *threads)
        for threads in (["--threads", "1"], ["--threads", "2"], [])
    )
    assert one.stdout == two.stdout == all_cores.stdout
    assert airtcp("run", example, "--threads", "2", "--seeds", "2").returncode == 2


def test_standard_input_and_no_save(airtcp: Command, tmp_path: Path) -> None:
    done = airtcp("run", "-", "--json", "--no-save", stdin=SMALL)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == "small"
    assert list((tmp_path / "cwd").iterdir()) == []


def test_set_and_duration(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    done = airtcp(
        "run", scenario, "--set", "links.bottleneck.rate=2Mbit/s", "--duration", "2s", "--out", tmp_path / "x"
    )
    assert done.returncode == 0, done.stderr
    links = Results.load(tmp_path / "x").links.collect()
    assert links.filter(pl.col("name") == "r->b")["rate_bps"].item() == 2_000_000
    assert json.loads((tmp_path / "x/manifest.json").read_text())["duration_s"] == 2


@pytest.mark.parametrize("file_first", [True, False])
def test_several_changes_and_the_file_on_either_side(airtcp: Command, scenario: Path, *, file_first: bool) -> None:
    changes = ["--set", "links.bottleneck.rate=2Mbit/s", "duration=2s"]
    done = airtcp("run", scenario, *changes, "--json") if file_first else airtcp("run", "--json", *changes, scenario)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["duration_s"] == 2
    assert {link["name"]: link["rate_bps"] for link in summary["links"]}["r->b"] == 2_000_000


def test_a_missing_file_is_2(airtcp: Command) -> None:
    done = airtcp("run", "--set", "duration=2s")
    assert done.returncode == 2
    assert "FILE is missing" in done.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--set", "links.bottleneck.rate=-5"], ["--set links.bottleneck.rate=-5", "links[1].rate"]),
        (["--set", "links.bottleneck.rat=5Mbit/s"], ["rat", "did you mean `rate`"]),
        (["--set", "nonsense"], ["--set nonsense", "KEY=VALUE"]),
        (["--duration", "4"], ["--duration 4", "duration"]),
        (["--duration", "nan"], ["duration"]),
        (["--seed", "-1"], ["--seed"]),
        (["--no-such-option"], ["--no-such-option"]),
        (["--set", "flows.bulk.count=1000000000"], ["count", "1000000"]),
        (["--out", "x", "--no-save"], ["--out", "--no-save"]),
    ],
)
def test_bad_input_is_2(airtcp: Command, scenario: Path, tmp_path: Path, args: list[str], words: list[str]) -> None:
    done = airtcp("run", scenario, *args)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    assert list((tmp_path / "cwd").iterdir()) == []


@pytest.mark.parametrize(
    "content", [None, b"", b"\xff\xfe", b"duration = ", b"\0\0", b"colour = 'red'\nduration = '1s'\n"]
)
def test_unusable_file_is_2(airtcp: Command, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "bad.toml"
    if content is not None:
        path.write_bytes(content)
    done = airtcp("run", path)
    assert done.returncode == 2
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr


def test_folder_as_file_is_2(airtcp: Command, tmp_path: Path) -> None:
    done = airtcp("run", tmp_path)
    assert done.returncode == 2
    assert str(tmp_path) in done.stderr


def test_foreign_folder_is_left_alone(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter1.tex").write_text("years of work")
    done = airtcp("run", scenario, "--out", folder)
    assert done.returncode == 2
    assert str(folder) in done.stderr
    assert [path.name for path in folder.iterdir()] == ["chapter1.tex"]
    assert (folder / "chapter1.tex").read_text() == "years of work"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cwd", "small.toml", "thesis"]


def test_a_result_is_replaced(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for seed in (1, 2):
        assert airtcp("run", scenario, "--out", out, "--seed", seed).returncode == 0
    assert Results.load(out).seed == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cwd", "out", "small.toml"]


def test_file_in_place_of_a_folder_is_1(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = airtcp("run", scenario, "--out", tmp_path / "file/out")
    assert done.returncode == 1
    assert str(tmp_path / "file/out") in done.stderr
    assert f"{tmp_path / 'file'} is not a directory" in done.stderr


@NEEDS_USER
def test_folder_without_permission_is_1(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    done = airtcp("run", scenario, "--out", closed / "out")
    assert done.returncode == 1
    assert str(closed / "out") in done.stderr
    assert "Permission denied" in done.stderr


@NEEDS_ROOT
def test_full_disk_is_1_and_keeps_the_old_result(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.decode().strip()}")
    try:
        out = disk / "out"
        assert airtcp("run", scenario, "--out", out, "--seed", 1).returncode == 0
        done = airtcp("run", scenario, "--out", out, "--seed", 2, "--duration", "60s", "--set", "record.interval=1ms")
        assert done.returncode == 1
        assert str(out) in done.stderr
        assert "No space left on device" in done.stderr
        assert [path.name for path in disk.iterdir()] == ["out"]
        assert Results.load(out).seed == 1
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("args", [["schema"], ["list"], ["--version"]])
def test_full_standard_output_is_1(args: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([AIRTCP, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "standard output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_interrupted_run_keeps_what_it_has(scenario: Path, tmp_path: Path, number: signal.Signals, code: int) -> None:
    out = tmp_path / "out"
    # Days of simulated time: it cannot end before the signal comes.
    long = ["--duration", "200h", "--set", "record.interval=10s"]
    command = [str(AIRTCP), "run", str(scenario), *long, "--out", str(out), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        # The unfinished folder shows that the run is under way, and with it the handler in place.
        while not list(tmp_path.glob(".out.partial-*")):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.5)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == code, stderr
    summary = json.loads(stdout)
    assert summary["status"] == "interrupted"
    results = Results.load(out)
    assert results.interrupted
    until = results.manifest["simulated_s"]
    assert 0 < until < 200 * 3600
    assert summary["end_s"] == until
    last = results.link_series.select(pl.col("time_s").max()).collect().item()
    assert until - 4000 < last <= until
    assert list(tmp_path.glob(".out.*")) == []


def test_check(airtcp: Command, scenario: Path) -> None:
    done = airtcp("check", scenario)
    assert done.returncode == 0
    assert "3 nodes, 4 links" in done.stdout
    resolved = json.loads(airtcp("check", scenario, "--json", "--seed", 9).stdout)
    assert resolved["seed"] == 9
    assert airtcp("check", scenario, "--set", "links.bottleneck.delay=1").returncode == 2


def test_schema_to_a_file(airtcp: Command, tmp_path: Path) -> None:
    out = tmp_path / "schema.json"
    assert airtcp("schema", "--out", out).returncode == 0
    assert out.read_text() == airtcp("schema").stdout
    assert json.loads(out.read_text())["$schema"].startswith("https://json-schema.org/")
    done = airtcp("schema", "--out", tmp_path / "no/such/folder")
    assert done.returncode == 1
    assert "No such file or directory" in done.stderr


def test_list(airtcp: Command) -> None:
    assert "linux-6" in airtcp("list").stdout
    assert "reno" in airtcp("list", "cc").stdout.splitlines()
    done = airtcp("list", "nonsense")
    assert done.returncode == 2
    assert "profiles" in done.stderr


def test_compare_and_plot(airtcp: Command, scenario: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for seed, folder in enumerate(folders):
        assert airtcp("run", scenario, "--seed", seed, "--out", folder, "--quiet").stdout == ""
    table = airtcp("compare", *folders)
    assert table.returncode == 0
    assert re.search(r"utilisation, % +[\d.]+ +[\d.]+", table.stdout)
    assert len(json.loads(airtcp("compare", *folders, "--json").stdout)) == 2
    for suffix, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        out = tmp_path / f"figure{suffix}"
        done = airtcp("plot", *folders, "--out", out)
        assert done.returncode == 0, done.stderr
        assert out.read_bytes().startswith(magic)
    assert airtcp("plot", folders[0], "--out", "x.docx").returncode == 2
    done = airtcp("plot", folders[0], "--link", "nowhere")
    assert done.returncode == 2
    assert "r->b" in done.stderr
    assert airtcp("plot", tmp_path / "nothing").returncode == 2
    assert airtcp("compare", tmp_path).returncode == 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_examples_are_valid(airtcp: Command, path: Path) -> None:
    done = airtcp("check", path)
    assert done.returncode == 0, done.stderr


# --- help -------------------------------------------------------------------------------------------------------------


def test_the_bare_command_prints_its_help(airtcp: Command) -> None:
    bare, asked = airtcp(), airtcp("--help")
    assert (bare.returncode, bare.stderr) == (0, "")
    assert bare.stdout == asked.stdout


def test_the_help_has_every_command_in_one_group(airtcp: Command) -> None:
    names = [name for group in GROUPS.values() for name in group]
    parser = command_line()
    assert parser.commands is not None
    assert sorted(names) == sorted(parser.commands.choices)
    text = airtcp().stdout
    assert [name for name in names if f"\n  {name} " not in text] == []


@pytest.mark.parametrize("example", [line for group in GROUPS.values() for line in group.values()])
def test_an_example_of_the_help_is_a_command_line(example: str) -> None:
    _, *words = shlex.split(example.removeprefix('eval "$(').removesuffix(')"'))
    parser = command_line(words[0])
    parser.asked = words
    assert callable(cli.with_words(parser).body)
