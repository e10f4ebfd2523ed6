"""Scenarios as Python objects, and running them from Python."""

from __future__ import annotations

import json
import threading
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import airtcp
from airtcp import Flow, Job, Link, Node, Results, Scenario, ScenarioError, TcpOptions, _airtcp
from airtcp._scenario_table import to_toml_string, to_toml_value
from airtcp.execution import _Cores
from airtcp.scenario import Cubic, Fifo, Record, Transfer
from conftest import ROOT, SMALL


def dumbbell() -> Scenario:
    return Scenario(
        name="python",
        duration="2s",
        nodes=[Node(name="a", kind="host"), Node(name="b", kind="host", profile="ns2-reno")],
        links=[Link(name="line", from_="a", to="b", rate="5Mbit/s", delay="10ms", queue=Fifo(limit_packets=20))],
        flows=[
            Flow(name="bulk", from_="a", to="b", tcp=TcpOptions(cc=Cubic(fast_convergence=False))),
            Flow(name="file", from_="a", to="b", traffic=Transfer(bytes="10kB")),
        ],
        record=Record(interval="100ms"),
    )


def test_a_scenario_in_python_runs() -> None:
    results = airtcp.run(dumbbell(), seed=3, set={"links.line.rate": "2Mbit/s"})
    assert (results.name, results.seed, results.path) == ("python", 3, None)
    assert results.links.collect()["rate_bps"].to_list() == [2_000_000, 2_000_000]
    assert results.manifest["scenario"]["flows"][0]["tcp"]["cc"]["fast_convergence"] is False
    assert results.flows.collect()["cc"].to_list()[0] == "cubic"
    assert results.transfers.collect().height == 1


def test_python_and_file_are_the_same_run(tmp_path: Path) -> None:
    path = tmp_path / "python.toml"
    path.write_text(Job(dumbbell()).check().to_toml())
    assert airtcp.run(path).summary == airtcp.run(dumbbell()).summary


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"set": {"links.line.rate": 5}}, ["set={'links.line.rate': 5}", "links[0].rate"]),
        ({"set": {"links.line.rat": "5Mbit/s"}}, ["did you mean `rate`"]),
        ({"duration": "soon"}, ["duration='soon'"]),
        ({"seed": -1}, ["seed=-1"]),
    ],
)
def test_errors_name_the_argument(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ScenarioError) as caught:
        airtcp.run(dumbbell(), **changes)
    for word in words:
        assert word in str(caught.value)
    (fault,) = caught.value.errors
    assert set(fault) == {"file", "line", "argument", "key", "value", "message"}
    assert fault["argument"] is not None


def test_errors_of_a_file_have_lines(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(SMALL.replace('rate = "5Mbit/s"', 'rate = "5Mbit"\ncolour = "red"'))
    with pytest.raises(ScenarioError) as caught:
        airtcp.run(path)
    line = SMALL.splitlines().index('rate = "5Mbit/s"') + 1
    assert {fault["line"] for fault in caught.value.errors} == {line, line + 1}
    assert f"{path}:{line}: links[1].rate" in str(caught.value)


def test_a_missing_file_is_a_scenario_error(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"nowhere\.toml"):
        airtcp.run(tmp_path / "nowhere.toml")


def test_the_cuts_of_a_run_do_not_change_it(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    checked = Job(path).check()

    def summary(cuts: list[float]) -> tuple[str, dict[str, int]]:
        run = _airtcp.Run(checked, None)
        for until in [*cuts, run.end_s]:
            run.advance(until)
        output = run.finish()
        return output.summary, output.stats

    whole = summary([])
    assert summary([i * 0.0137 for i in range(292)]) == whole
    assert summary([3.999999999, 1.0]) == whole


def test_a_finished_run_says_so(tmp_path: Path) -> None:
    run = _airtcp.Run(Job(dumbbell()).check(), None)
    run.finish()
    with pytest.raises(RuntimeError, match="finished"):
        run.advance(1.0)


def test_progress_reaches_the_end() -> None:
    seen: list[tuple[float, float]] = []
    airtcp.run(dumbbell(), progress=lambda now, end: seen.append((now, end)))
    assert seen[-1] == (2.0, 2.0)
    assert seen == sorted(seen)


def test_many_runs_do_not_depend_on_threads(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    jobs = [Job(path, seed=seed, set={"links.bottleneck.loss": loss}) for seed in (1, 2) for loss in (0.0, 0.01)]
    counts: list[tuple[int, int]] = []
    one = airtcp.run_many(jobs, threads=1)
    two = airtcp.run_many(jobs, threads=2, progress=lambda done, of: counts.append((done, of)))
    assert counts == [(i, 4) for i in range(1, 5)]
    assert [r.seed for r in two] == [1, 1, 2, 2]
    for a, b in zip(one, two, strict=True):
        assert a.summary == b.summary
        folder = [r.save(tmp_path / name) for r, name in ((a, "a"), (b, "b"))]
        for name in a:
            files = [(f.path or Path()) / f"{name}.parquet" for f in folder]
            assert files[0].read_bytes() == files[1].read_bytes()


def test_many_runs_check_everything_first() -> None:
    with pytest.raises(ScenarioError, match="duration"):
        airtcp.run_many([dumbbell(), Job(dumbbell(), duration="-1s")])


def test_many_runs_stop_when_one_fails() -> None:
    def fail(done: int, of: int) -> None:
        raise KeyboardInterrupt

    long = Job(dumbbell(), duration="600h", set={"record.interval": "1h"})
    with pytest.raises(KeyboardInterrupt):
        airtcp.run_many([dumbbell(), long], threads=2, progress=fail)
    assert not [t for t in threading.enumerate() if t.name.startswith("airtcp")]


toml_values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(toml_values)
def test_values_are_toml(value: Any) -> None:
    line = f"x = {to_toml_value(value)}"
    assert "\n" not in line
    assert tomllib.loads(line)["x"] == value


@given(st.text())
def test_strings_are_toml(text: str) -> None:
    assert tomllib.loads(f"x = {to_toml_string(text)}")["x"] == text


def test_other_values_are_refused() -> None:
    with pytest.raises(TypeError, match="cannot be a value"):
        to_toml_value(object())


@given(key=st.text(max_size=30), value=toml_values)
def test_no_override_brings_it_down(key: str, value: Any) -> None:
    try:
        Job(dumbbell(), set={key: value}).check()
    except ScenarioError as error:
        assert str(error)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["duration", "nodes", "links", "flows", "record", "seed", "name", "warmup"]), json_values)
def test_no_document_brings_it_down(key: str, value: Any) -> None:
    document = {**dumbbell().to_dict(), key: value}
    try:
        _airtcp.Checked.from_json(json.dumps(document), "x", [])
    except ScenarioError as error:
        assert str(error)


@given(st.binary(max_size=200))
def test_no_bytes_bring_it_down(data: bytes) -> None:
    with pytest.raises(ScenarioError):
        _airtcp.Checked.from_toml(data, "x", [])


def test_the_example_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = (ROOT / "docs/python.md").read_text().split("```python\n")[1:]
    assert blocks
    for block in blocks:
        namespace: dict[str, Any] = {}
        exec(compile(block.split("```")[0], "python.md", "exec"), namespace)
        assert any(isinstance(value, Results) for value in namespace.values())


LOSSY = """
duration = "60s"
seed = 3

[[nodes]]
name = "a"
kind = "host"

[[nodes]]
name = "b"
kind = "host"

[[links]]
name = "line"
from = "a"
to = "b"
rate = "10Mbit/s"
delay = "20ms"
LINE
reverse = { loss = 0, reorder = { probability = 0, delay = "1ms" } }

[[flows]]
name = "t"
from = "a"
to = "b"
traffic = { kind = "transfer", bytes = "5MB" }

[record]
RECORD
"""


@pytest.mark.parametrize(
    ("line", "all_needless"),
    [("loss = 0.01", False), ('reorder = { probability = 0.1, delay = { min = "5ms", max = "50ms" } }', True)],
)
def test_retransmissions_one_by_one_and_which_were_needless(line: str, all_needless: bool, tmp_path: Path) -> None:
    def run(record: str) -> airtcp.Results:
        path = tmp_path / "lossy.toml"
        path.write_text(LOSSY.replace("LINE", line).replace("RECORD", record))
        return airtcp.run(path)

    results = run('retransmissions = ["t"]')
    rows = results.retransmissions.collect()
    flow = results.flows.collect().to_dicts()[0]
    assert len(rows) == flow["segments_retransmitted"] > 10
    # A data segment arrives, is lost, or arrives and brings nothing.
    lost = results.drops.filter(~pl.col("reverse")).collect()
    assert flow["spurious_retransmissions"] == len(rows) - len(lost)
    assert rows["needless"].all() == all_needless
    assert not rows.filter(pl.col("cause") == "fast").is_empty()
    assert (rows["window_segments"] <= rows["cwnd_segments"]).all()
    assert (rows["waited_ms"] > 0).all()
    assert (results.links.collect()["held_back_packets"] > 0).to_list() == [all_needless, False]

    off = run("")
    assert off.retransmissions.collect().is_empty()
    assert off.flows.collect().to_dicts() == results.flows.collect().to_dicts()


def test_cores_are_taken_where_that_is_faster_and_tried_again() -> None:
    cores, chosen = _Cores(), []
    for _ in range(40):
        chosen.append(cores.choose())
        cores.note(1.0 if chosen[-1] else 2.0)
    assert chosen[:9] == [True] * 8 + [False]
    assert [i for i in range(9, 40) if chosen[i]] == [24]
