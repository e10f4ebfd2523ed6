"""The first minutes with airtcp: a new scenario, an example, several seeds, a sweep without a file, slips of keys."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

import airtcp
from airtcp import _airtcp, stats
from airtcp.errors import StudyError
from airtcp.replications import means
from airtcp.study import published
from airtcp.study.files import read
from airtcp.study.prepare import prepare
from airtcp.study.show import advice
from airtcp.sweeps.vary import parts, varying
from airtcp.traffic_kinds import FIGURES
from conftest import ROOT, Command

SMALL = """
name = "small"
duration = "3s"
nodes = [{ name = "a", kind = "host" }, { name = "b", kind = "host" }]
flows = [
  { name = "load", from = "a", to = "b" },
  { name = "ping", from = "a", to = "b", traffic = { kind = "ping", interval = "50ms" } },
]

[[links]]
name = "line"
from = "a"
to = "b"
rate = "5Mbit/s"
delay = "5ms"
loss = 0.001
queue = { name = "fifo", limit_packets = 40 }
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


# --- new and example --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["wired", "wifi"])
def test_a_new_scenario_runs(airtcp: Command, tmp_path: Path, kind: str) -> None:
    done = airtcp("new", "mine.toml", "--kind", kind)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "cwd/mine.toml"
    assert tomllib.loads(file.read_text())["name"] == "mine"
    done = airtcp("run", "mine.toml", "--json", "--duration", "3s")
    assert done.returncode == 0, done.stderr
    assert {"ping"} < {group["group"] for group in json.loads(done.stdout)["groups"]}


def test_nothing_is_overwritten(airtcp: Command, tmp_path: Path) -> None:
    (tmp_path / "cwd/mine.toml").write_text("mine")
    (tmp_path / "cwd/walk.toml").write_text("mine")
    for words in (["new", "mine.toml"], ["example", "walk"], ["example", "backbone", "--out", "mine.toml"]):
        done = airtcp(*words)
        assert done.returncode == 2
        assert "is there already" in done.stderr
    assert (tmp_path / "cwd/mine.toml").read_text() == "mine"
    assert airtcp("new", "mine").returncode == 2, "a scenario ends in .toml"


def test_examples_are_listed_and_written(airtcp: Command, tmp_path: Path) -> None:
    done = airtcp("example")
    names = [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert names == sorted(path.stem for path in (ROOT / "examples").glob("*.toml"))
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert airtcp("example", "sweep-buffers").returncode == 0
    written = {path.name for path in (tmp_path / "cwd").iterdir()}
    assert written == {"sweep-buffers.toml", "pacing-buffers-reno.toml"}, "a sweep comes with its scenario"
    done = airtcp("example", "walk", "--print")
    assert done.stdout == (ROOT / "examples/walk.toml").read_text()
    done = airtcp("example", "wlak")
    assert done.returncode == 2
    assert "did you mean `walk`" in done.stderr


# --- several seeds ----------------------------------------------------------------------------------------------------


def test_several_seeds_are_shown_with_their_interval(airtcp: Command, small: Path, tmp_path: Path) -> None:
    done = airtcp("run", small, "--seeds", "3", "--seed", "5", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["seeds"] == [5, 6, 7]
    goodput = next(group["goodput_bps"] for group in found["groups"] if group["group"] == "load")
    alone = [airtcp_summary(small, seed) for seed in (5, 6, 7)]
    expected = stats.mean(alone)
    assert goodput == pytest.approx({"value": expected.value, "lo": expected.low, "hi": expected.high})
    assert list((tmp_path / "cwd").iterdir()) == []
    shown = airtcp("run", small, "--seeds", "2")
    assert "95 % interval" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_seeds_that_change_nothing_are_told(airtcp: Command, small: Path) -> None:
    told = "all seeds give the same result"
    assert told not in airtcp("run", small, "--seeds", "2").stderr
    small.write_text(SMALL.replace("loss = 0.001\n", ""))
    assert told in airtcp("run", small, "--seeds", "2").stderr
    assert told not in airtcp("run", small, "--seeds", "1").stderr


def airtcp_summary(path: Path, seed: int) -> float:
    results = airtcp.run(path, seed=seed)
    return float(next(group["goodput_bps"] for group in results.summary["groups"] if group["group"] == "load"))


def test_a_number_that_one_seed_lacks_is_the_mean_of_the_others() -> None:
    runs = [
        {"name": "x", "seed": seed, "duration_s": 1, "groups": [{"group": "g", "rtt": rtt, "kind": "tcp"}]}
        for seed, rtt in ((1, 10.0), (2, None), (3, 20.0))
    ]
    (group,) = means(runs)["groups"]
    assert group["rtt"]["value"] == 15
    assert group["kind"] == "tcp"


@pytest.mark.parametrize("args", [["--out", "x"], ["--seeds", "0"], ["--seeds", "many"]])
def test_seeds_that_cannot_be_are_refused(airtcp: Command, small: Path, args: list[str]) -> None:
    done = airtcp("run", small, "--seeds", "2", *args)
    assert done.returncode == 2
    assert "--seeds" in done.stderr
    assert airtcp("run", "-", "--seeds", "2").returncode == 2


# --- a sweep without a file -------------------------------------------------------------------------------------------


def test_a_scenario_is_varied_without_a_sweep_file(airtcp: Command, small: Path, tmp_path: Path) -> None:
    done = airtcp("sweep", small, "--vary", "links.line.rate=1Mbit/s,4Mbit/s", "--seeds", "2", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 4
    by_rate = {row["links.line.rate"]: row["goodput_load"] for row in rows}
    assert by_rate["4Mbit/s"] > 3 * by_rate["1Mbit/s"]
    assert by_rate["4Mbit/s"] == pytest.approx(3.7, abs=0.5), "in Mbit/s"
    assert (tmp_path / "cwd/runs/small-sweep/runs.parquet").exists()


def test_a_variation_measures_every_kind_of_traffic(airtcp: Command, tmp_path: Path) -> None:
    parameters = {
        "transfer": ', bytes = "50kB"',
        "stream": ', rate = "1Mbit/s"',
        "cbr": ', rate = "1Mbit/s"',
        "train": ", count = 20",
        "buffer_probe": "",
    }
    for kind, figures in FIGURES.items():
        scenario = tmp_path / f"{kind}.toml"
        scenario.write_text(
            'duration = "20s"\nnodes = [{ name = "a", kind = "host" }, { name = "b", kind = "host" }]\n'
            'links = [{ name = "line", from = "a", to = "b", rate = "5Mbit/s", delay = "5ms", queue = '
            '{ name = "fifo", limit_packets = 50 } }]\n'
            'flows = [{ from = "a", to = "b", name = "f", traffic = '
            f'{{ kind = "{kind}"{parameters.get(kind, "")} }} }}]\n'
        )
        sweep = varying(str(scenario), ["links.line.rate=5Mbit/s,6Mbit/s"], [])
        assert len(sweep.measures) == len(figures)
        group = json.loads(airtcp("run", scenario, "--json").stdout)["groups"][0]
        for measure in sweep.measures.values():
            assert not isinstance(measure, str)
            column = measure["value"].rpartition(".")[2]
            assert group[column] is not None, (kind, column)
    assert sorted(FIGURES) == sorted(_airtcp.names()["traffic"])


@pytest.mark.parametrize(
    ("vary", "words"),
    [
        ("links.line.rate", ["--vary links.line.rate", "KEY=V1,V2"]),
        ("links.line.rate=1Mbit/s,1Mbit/s", ["--vary", "different values"]),
        ("links.line.rat=1Mbit/s,2Mbit/s", ["rat", "did you mean `rate`"]),
    ],
)
def test_a_wrong_variation_is_told(airtcp: Command, small: Path, vary: str, words: list[str]) -> None:
    done = airtcp("sweep", "--vary", vary, "--json", small)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr


def test_values_are_parted_at_commas_outside_of_tables() -> None:
    assert parts("1,2, 3") == ["1", "2", " 3"]
    assert parts('{ a = 1, b = [2, 3] },"x,y"') == ["{ a = 1, b = [2, 3] }", '"x,y"']
    assert parts("") == []


# --- a study with other values ----------------------------------------------------------------------------------------


def test_a_study_takes_other_values_and_is_not_published_with_them() -> None:
    study = read(ROOT / "studies/remedies").only(experiments=["near"])
    plain, changed = (prepare(study, "quick", 2, changes) for changes in (None, {"links.wire.delay": "30ms"}))
    assert plain[0].keys.isdisjoint(changed[0].keys)
    with pytest.raises(StudyError, match="delai"):
        prepare(study, "quick", 2, {"links.wire.delai": "30ms"})
    document = {"study": study.id, "status": "complete", "failed": [], "mode": "quick"}
    with pytest.raises(StudyError, match="values of its own"):
        published.from_run(study, {**document, "command": "airtcp study run remedies --quick --set a=1"}, [])


def test_a_study_with_matrices_prints_its_advice() -> None:
    found = published.read(ROOT / "studies/remedies")
    assert found is not None
    shown = advice(found)
    assert len(shown) == len(found["matrices"][0]["groups"])
    (first, *_) = shown
    scenes = [str(cell) for cell in first.columns[0].cells]
    assert scenes[0] == "Beside the access point"
    assert "none needed" in [str(cell) for cell in first.columns[1].cells]
    assert advice({}) == []


def test_study_run_refuses_two_ways_to_more_runs(airtcp: Command) -> None:
    done = airtcp("study", "run", "remedies", "--set", "seed=2", "--settle")
    assert done.returncode == 2
    assert "--settle" in done.stderr


# --- slips of the keyboard --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (["rnu", "x.toml"], "run"),
        (["advice"], "advise"),
        (["analyse", "x.pcap"], "analyze"),
        (["exmaple"], "example"),
        (["study", "shwo"], "show"),
        (["run", "x.toml", "--sed", "3"], "--seed"),
        (["sweep", "x.toml", "--var", "a=1"], "--vary"),
        (["advise", "--scene"], "--scenes"),
    ],
)
def test_what_was_meant_is_guessed(airtcp: Command, args: list[str], meant: str) -> None:
    done = airtcp(*args)
    assert done.returncode == 2
    assert f"did you mean `{meant}`?" in done.stderr


def test_what_is_like_nothing_is_not_guessed(airtcp: Command) -> None:
    assert "did you mean" not in airtcp("qqqq").stderr
    assert "did you mean" not in airtcp("run", "x.toml", "--qqqq").stderr


# --- Python -----------------------------------------------------------------------------------------------------------


def test_everything_a_notebook_needs_is_at_the_top(small: Path) -> None:
    assert airtcp.stats is stats
    assert airtcp.Wlan(name="w", ap="ap", stations=[airtcp.Station(node="a")]).to_dict()["ap"] == "ap"
    results = airtcp.run(small)
    assert "load" in results._repr_html_()
    assert len(results.plot().axes) >= 4
