"""Arms of sweeps whose hosts are Linux kernels in virtual time. One test skips where no kernel has been built."""

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


def arms(*more: dict[str, Any], scenario: dict[str, Any] = LINE) -> Sweep:
    return Sweep(name="kernels", scenario=scenario, measures=MEASURES, arms=[{"name": "model"}, *more])


def test_a_kernel_that_is_not_built_is_told_before_any_run() -> None:
    with pytest.raises(SweepError, match=r"no kernel 0\.99 is built yet: tools/uml/build\.py 0\.99"):
        plan(arms({"name": "kernel", "engine": "kernel", "kernel": "0.99"}))
    with pytest.raises(SweepError, match=r"engine.*accepted|engine.*must be"):
        arms({"name": "kernel", "engine": "kernal"})


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
        plan(arms({"name": "kernel", "engine": "kernel", "kernel": str(kernel)}, scenario=scenario))


@pytest.mark.skipif(missing() is not None, reason=f"kernels in virtual time: {missing()}")
def test_a_kernel_s_arm_beside_the_model_s(tmp_path: Path) -> None:
    sweep(arms({"name": "kernel", "engine": "kernel"}), out=tmp_path / "out", jobs=1)
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
    sweep(arms({"name": "kernel", "engine": "kernel"}), out=tmp_path / "out", jobs=1)
    assert (tmp_path / "out/runs.jsonl").read_bytes() == before
