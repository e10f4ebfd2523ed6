"""Variants of sweeps whose hosts are Linux kernels in virtual time. One test skips where no kernel has been built."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from airtcp import realtime
from airtcp.errors import RunError, SweepError
from airtcp.sweeps.definition import Sweep
from airtcp.sweeps.planning import plan
from airtcp.sweeps.running import sweep
from airtcp.tasks import kernels
from airtcp.tasks.task import perform
from conftest import Command

LINE: dict[str, Any] = {
    "duration": "1500ms",
    "warmup": "500ms",
    "nodes": [{"name": name, "kind": "host", "profile": "linux-6"} for name in ("laptop", "server")],
    "links": [{"name": "line", "from": "laptop", "to": "server", "rate": "5Mbit/s", "delay": "5ms"}],
    "flows": [
        {"name": "upload", "from": "laptop", "to": "server", "tcp": {"cc": "reno"}},
        {
            "name": "ping",
            "from": "laptop",
            "to": "server",
            "start": "100ms",
            "traffic": {"kind": "ping", "interval": "50ms"},
        },
    ],
}
LINE["links"][0]["queue"] = {"name": "fifo", "limit_packets": 20}
MEASURES: dict[str, str | dict[str, str]] = {
    "goodput": "groups.upload.goodput_bps",
    "ping": "groups.ping.rtt_mean_ms",
    "flows": {"sql": "SELECT count(*) FROM flows WHERE goodput_bps > 0 OR rtt_mean_ms > 0"},
    "queue": {"sql": "SELECT max(queue_delay_mean_ms) FROM links"},
}


def missing() -> str | None:
    """Why kernels cannot run here; None: they can."""
    try:
        realtime.program()
        realtime.kernel("6.12")
    except RunError as error:
        return str(error)
    return None


def variants(*more: dict[str, Any], scenario: dict[str, Any] = LINE) -> Sweep:
    return Sweep(name="kernels", scenario=scenario, measures=MEASURES, variants=[{"name": "model"}, *more])


def test_a_kernel_that_is_not_built_is_told_before_any_run() -> None:
    with pytest.raises(SweepError, match=r"no kernel 0\.99 is built yet: tools/uml/build\.py 0\.99"):
        plan(variants({"name": "kernel", "engine": "kernel", "kernel": "0.99"}))
    with pytest.raises(SweepError, match=r"engine.*accepted|engine.*must be"):
        variants({"name": "kernel", "engine": "kernal"})


@pytest.mark.parametrize(
    "named", ["./evil", "evil", "/bin/true", "..", "6.12/../evil", "6.12\n", "", " 6.12", "http://x"]
)
def test_a_file_names_a_kernel_by_its_version_only(named: str) -> None:
    with pytest.raises(SweepError, match=r"variants\[1\]\.kernel.*: must be .*a version such as `6\.12`"):
        variants({"name": "kernel", "engine": "kernel", "kernel": named})
    with pytest.raises(RunError, match="must be a version"):
        realtime.built(named)


def test_a_kernels_smoothed_round_trip_has_its_own_name() -> None:
    upload, ping = LINE["flows"]
    rows = [
        kernels._row(0, {**upload, "traffic": {"kind": "unlimited"}}, {"rtts": [20.0, 30.0], "rtt_min": 10.5}, 1.0),
        kernels._row(1, ping, {"rtts": [12.0, 14.0]}, 1.0),
    ]
    keys = ("rtt_mean_ms", "srtt_mean_ms", "rtt_min_ms", "rtt_max_ms")
    assert [[row[key] for key in keys] for row in rows] == [[None, 25.0, 10.5, None], [13.0, None, 12.0, 14.0]]
    like = {"group": "", "kind": "external", "rtt_mean_ms": None, "flows": [{"flow": 0}]}
    groups = {group["group"]: group for group in kernels._groups([like], rows)}
    assert (groups["upload"]["rtt_mean_ms"], groups["upload"]["srtt_mean_ms"]) == (None, 25.0)
    assert (groups["ping"]["rtt_mean_ms"], groups["ping"]["srtt_mean_ms"]) == (13.0, None)


def kept(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Where `tools/uml/build.py` keeps a kernel 6.12, which is a link to a folder with a hash in its name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    place = folder / "airtcp/uml"
    (place / "6.12-abc").mkdir(parents=True)
    (place / "6.12-abc/linux").write_bytes(b"a kernel")
    (place / "6.12").symlink_to("6.12-abc")
    return place


def test_only_what_was_built_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = kept(monkeypatch, tmp_path / "cache")
    assert realtime.built("6.12") == realtime.Guests(place / "6.12-abc/linux", "6.12-abc")
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "linux").write_bytes(b"another program")
    # Neither a link out of the folder of built kernels nor what others can write.
    (place / "6.13").symlink_to(evil)
    (place / "6.14").mkdir()
    (place / "6.14/linux").symlink_to("../../../../evil/linux")
    for version in ("6.13", "6.14"):
        with pytest.raises(RunError, match=f"kernel {version}: .*leads out of"):
            realtime.built(version)
    place.chmod(0o777)
    with pytest.raises(RunError, match="must be yours, and not writable by others"):
        realtime.built("6.12")


def test_no_kernel_is_looked_for_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(monkeypatch, tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for here in (".", "cache", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", here)
        with pytest.raises(RunError, match=r"no kernel 6\.12 is built yet"):
            realtime.built("6.12")
    monkeypatch.setenv("HOME", "cache")
    with pytest.raises(RunError, match="is no absolute path"):
        realtime.built("6.12")


def test_a_path_of_the_command_line_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(monkeypatch, tmp_path / "cache")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "linux").write_bytes(b"another kernel")
    sweep_ = variants({"name": "kernel", "engine": "kernel"})

    def names(kernel: str | None = None) -> list[str]:
        kernels.kernel.cache_clear()
        return [point.task.kernel.name for point in plan(sweep_, kernel=kernel).points if point.task.kernel is not None]

    assert [name.rpartition("-")[0] for name in names()] == ["linux-6.12-abc"]
    assert [name.rpartition("-")[0] for name in names(kernel=str(mine / "linux"))] == ["linux-mine"]
    # It must still be the kernel that was planned.
    (task,) = (point.task for point in plan(sweep_, kernel=str(mine / "linux")).points if point.task.kernel is not None)
    (mine / "linux").write_bytes(b"a third one")
    outcome = perform(task)
    assert outcome is not None
    assert "is no more the kernel that was planned" in (outcome.error or "")


def test_the_option_is_refused_where_it_changes_nothing(file: Path, airtcp: Command) -> None:
    done = airtcp("sweep", file, "--kernel", "6.12")
    assert (done.returncode, done.stderr) == (2, 'error: --kernel: no variant has engine = "kernel"\n')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"traffic": {"kind": "call"}}, "unlimited and ping, not call"),
        ({"start": {"from": "0s", "to": "1s"}}, "starts at a fixed time"),
    ],
)
def test_what_programs_cannot_do_is_told(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    kernel = tmp_path / "linux"
    kernel.write_bytes(b"a kernel")
    scenario = copy.deepcopy(LINE)
    scenario["flows"][1] |= change
    with pytest.raises(SweepError, match=message):
        plan(variants({"name": "kernel", "engine": "kernel"}, scenario=scenario), kernel=str(kernel))


@pytest.mark.skipif(missing() is not None, reason=f"kernels in virtual time: {missing()}")
def test_a_kernel_s_variant_beside_the_model_s(tmp_path: Path) -> None:
    sweep(variants({"name": "kernel", "engine": "kernel"}), out=tmp_path / "out", jobs=1)
    lines = [json.loads(line) for line in (tmp_path / "out/runs.jsonl").read_text().splitlines()]
    model, kernel = sorted((line for line in lines if "engine" in line), key=lambda line: str(line["engine"]))
    assert (model["status"], kernel["status"]) == ("ok", "ok"), kernel
    # The journal says which kernel it was.
    assert model["engine"] + "+linux-6.12" in kernel["engine"]

    def values(line: dict[str, Any]) -> list[float]:
        scalars = [line["measures"][MEASURES[name]] for name in ("goodput", "ping")]
        tables = [next(iter(t["columns"].values()))[0] for t in line["measures"].values() if isinstance(t, dict)]
        return [*scalars, *tables]

    goodput, ping, *tables = values(kernel)
    expected, expected_ping, *_ = values(model)
    assert goodput == pytest.approx(expected, rel=0.02)
    assert ping == pytest.approx(expected_ping, rel=0.1)
    # Both flows are in the table, and packets wait in the simulated queue.
    assert 2 in tables
    assert max(tables) > 2
    # A second start finds the runs there.
    before = (tmp_path / "out/runs.jsonl").read_bytes()
    sweep(variants({"name": "kernel", "engine": "kernel"}), out=tmp_path / "out", jobs=1)
    assert (tmp_path / "out/runs.jsonl").read_bytes() == before
