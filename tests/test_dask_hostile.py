"""A Dask cluster that lies: no answer is believed for another run, another measure or another kind of value."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import airtcp
from airtcp import ExecutorError, Sweep, _airtcp
from airtcp.executors import answers, executor_of, unprotected
from airtcp.executors.answers import AnswerError, decode, encode
from airtcp.sweeps.planning import plan
from airtcp.tasks.measures import Extract
from airtcp.tasks.task import Outcome, Task, perform
from conftest import SMALL, Command

# Dask leaves some of its sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

TASK = Task("k" * 32, "{}", (Extract("u", "value", "links.bottleneck.utilisation"), Extract("d", "sql", "SELECT 1")))
U, D = (extract.id for extract in TASK.extracts)
TABLE = {"columns": {"a": [1, None], "b": ["x", "y"]}, "types": {"a": "Int64", "b": "String"}}
GOOD: dict[str, Any] = {
    "key": TASK.key,
    "status": "ok",
    "measures": {U: 0.5, D: TABLE},
    "error": None,
    "wall_s": 0.1,
    "engine": "e",
    "end": None,
}
FAILED = GOOD | {"status": "failed", "measures": {}, "error": "why"}


def answer(**changes: Any) -> bytes:
    return json.dumps(GOOD | changes).encode()


def table(**changes: Any) -> bytes:
    return answer(measures={U: 0.5, D: {"columns": {}, "types": {}, **changes}})


def test_a_good_answer_is_taken_as_it_is() -> None:
    assert decode(TASK, "e", answer()) == Outcome(TASK.key, "ok", GOOD["measures"], None, 0.1, "e")
    assert decode(TASK, "e", json.dumps(FAILED).encode()).error == "why"
    died = FAILED | {"end": {"signal": None, "memory_bytes": 10}}
    assert decode(TASK, "e", json.dumps(died).encode()).end == died["end"]


def test_what_is_sent_is_what_comes_out(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    measures: dict[str, Any] = {
        "u": "links.bottleneck.utilisation",
        "d": {"sql": "SELECT link, count(*) AS n FROM drops GROUP BY link"},
    }
    sweep = Sweep(name="s", scenario=tmp_path / "small.toml", measures=measures, seeds=1)
    task = plan(sweep).points[0].task
    outcome = perform(task)
    assert outcome is not None
    assert decode(task, _airtcp.engine(), encode(outcome)) == outcome
    long = Outcome(task.key, "failed", {}, "x" * 50_000, 0.0, _airtcp.engine())
    assert decode(task, _airtcp.engine(), encode(long)).error == "x" * answers.MOST_TEXT


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        (None, "a NoneType, not bytes"),
        (Outcome(TASK.key, "ok", {U: 1}), "not bytes"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b'{"wall_s": NaN}', "not JSON"),
        (b"9" * 10_000, "not JSON|not an outcome"),
        (b"[]", "not an outcome"),
        (answer(more=1), "not an outcome"),
        (answer(key="other"), "its key is 'other'"),
        (answer(key="../../etc/passwd"), "its key"),
        (answer(key=["k"]), "its key"),
        (answer(engine="0.0.1"), "its engine"),
        (answer(status="interrupted"), "must be ok or failed"),
        (answer(status=["ok"]), "must be ok or failed"),
        (answer(wall_s=-1), "wall_s"),
        (answer(wall_s="0"), "wall_s"),
        (answer(wall_s=True), "wall_s"),
        (answer(wall_s=1e300), "wall_s"),
        (answer(error="why"), "both good and failed"),
        (answer(end={"signal": None, "memory_bytes": 1}), "both good and failed"),
        (answer(measures={}), "not those that were asked for"),
        (answer(measures=[U, D]), "not those that were asked for"),
        (answer(measures={U: 1, D: TABLE, "more": 1}), "not those that were asked for"),
        (answer(measures={U: [1], D: TABLE}), "measure `u` is .*must be a number"),
        (answer(measures={U: {"a": 1}, D: TABLE}), "measure `u`"),
        (answer(measures={U: 1 << 80, D: TABLE}), "measure `u`"),
        (answer(measures={U: "x" * 20_000, D: TABLE}), "measure `u`"),
        (answer(measures={U: 1, D: 1}), "not a table"),
        (table(), "do not match"),
        (table(columns={"a": [1]}, types={"b": "Int64"}), "do not match"),
        (table(columns={"a": [1]}, types={"a": "Object"}), "has the type 'Object'"),
        (table(columns={"a": [1]}, types={"a": ["Int64"]}), "has the type"),
        (table(columns={"a": "11"}, types={"a": "String"}), "has the type"),
        (table(columns={"a": ["1"]}, types={"a": "Int64"}), "must be Int64"),
        (table(columns={"a": [True]}, types={"a": "Int64"}), "must be Int64"),
        (table(columns={"a": [1]}, types={"a": "Boolean"}), "must be Boolean"),
        (table(columns={"a": [1.5]}, types={"a": "Int64"}), "must be Int64"),
        (table(columns={"a": [{}]}, types={"a": "String"}), "must be String"),
        (table(columns={"a": [1], "b": []}, types={"a": "Int64", "b": "Int64"}), "differ in length"),
        (table(columns={"a" * 20_000: [1]}, types={"a" * 20_000: "Int64"}), "names too long"),
        (answer(status="failed", measures={}), "without the text"),
        (answer(status="failed", error="x"), "without the text"),
        (answer(status="failed", error="x" * 20_000, measures={}), "without the text"),
        (json.dumps(FAILED | {"end": {"signal": 9}}).encode(), "its end"),
        (json.dumps(FAILED | {"end": {"signal": None, "memory_bytes": -1}}).encode(), "its end"),
    ],
)
def test_a_lie_is_told_apart(lie: object, told: str) -> None:
    with pytest.raises(AnswerError, match=told) as caught:
        decode(TASK, "e", lie)
    assert len(str(caught.value)) < 400


def test_a_huge_answer_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_BYTES", 100)
    with pytest.raises(AnswerError, match="must be at most 100"):
        decode(TASK, "e", answer())
    monkeypatch.undo()
    monkeypatch.setattr(answers, "MAX_ROWS", 2)
    with pytest.raises(AnswerError, match="more than 2 rows"):
        decode(TASK, "e", table(columns={"a": [1, 2, 3]}, types={"a": "Int64"}))


# --- with Dask ------------------------------------------------------------------------------------------------------

LIAR = """
import json
import airtcp.executors.dask as there
# Dask may load this file twice.
real = getattr(there._perform, "real", there._perform)

def lie(task, engine):
    answer = json.loads(real(task, engine))
    seed = json.loads(task.scenario)["seed"]
    if seed == 2:
        answer["key"] = "../../elsewhere"
    elif seed == 3:
        answer["measures"]["more"] = 1
    elif seed == 4:
        return {"any": object}
    elif seed == 5:
        return None
    elif seed == 6:
        raise RuntimeError("x" * 1_000_000)
    return json.dumps(answer).encode()

lie.real = real
there._perform = lie
"""


def test_a_lying_worker_spoils_its_own_runs_only(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    (tmp_path / "small.toml").write_text(SMALL)
    preload = tmp_path / "liar.py"
    preload.write_text(LIAR)
    sweep = Sweep(name="s", scenario=tmp_path / "small.toml", measures={"u": "links.bottleneck.utilisation"}, seeds=7)
    more: dict[str, Any] = {"processes": True, "dashboard_address": ":0", "preload": [str(preload)]}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **more) as cluster:
        address = f"dask://{cluster.scheduler_address.removeprefix('tcp://')}"
        results = airtcp.sweep(sweep, executor=address, out=tmp_path / "out")
    here = airtcp.sweep(sweep)
    assert results.failed["seed"].sort().to_list() == [2, 3, 4, 5, 6]
    for seed, told in {
        2: "its key is",
        3: "not those",
        4: "a dict, not bytes",
        5: "NoneType",
        6: "RuntimeError",
    }.items():
        error = results.failed.filter(seed=seed)["error"][0]
        assert told in error
        assert len(error) < 2100
    for seed in (1, 7):
        assert results.runs.filter(seed=seed)["u"].to_list() == here.runs.filter(seed=seed)["u"].to_list()
    assert "elsewhere" not in {path.name for path in tmp_path.rglob("*")}
    # Nothing of a lie is kept for good: here the same folder is finished.
    again = airtcp.sweep(sweep, out=tmp_path / "out")
    assert again.runs.drop("wall_s").equals(here.runs.drop("wall_s"))


class FakeFuture:
    status = "finished"

    def __init__(self, result: object) -> None:
        self.value = result

    def result(self, timeout: float) -> object:
        return self.value

    def add_done_callback(self, call: Callable[[Any], object]) -> None:
        # A scheduler that says so three times.
        for _ in range(3):
            call(self)


class FakeClient:
    """A cluster with very many threads that answers each task with what belongs to another one."""

    status = "running"

    def __init__(self, threads: object = 10**30) -> None:
        self.threads = threads
        self.asked = 0

    def nthreads(self) -> dict[str, object]:
        return {"worker": self.threads}

    def run(self, *_: object, **__: object) -> dict[str, str]:
        return {"worker": _airtcp.engine()}

    def submit(self, call: Any, task: Task, engine: str, **_: object) -> FakeFuture:
        self.asked += 1
        other = Outcome("f" * 32, "ok", {extract.id: 1.0 for extract in task.extracts}, None, 0.0, engine)
        return FakeFuture(encode(other))

    def cancel(self, *_: object, **__: object) -> None:
        pass


def test_a_scheduler_that_answers_for_other_runs_and_several_times() -> None:
    dask = pytest.importorskip("airtcp.executors.dask")
    client = FakeClient()
    executor = dask.DaskExecutor(client)
    assert executor.slots == dask.MOST_SLOTS
    tasks = [Task(f"{i:032}", "{}", TASK.extracts[:1]) for i in range(20)]
    todo = list(tasks)
    found = [one for batch in executor.run(lambda: todo.pop() if todo else None, lambda: False) for one in batch]
    assert sorted(one.key for one in found) == [task.key for task in tasks]
    assert {one.status for one in found} == {"failed"}
    assert all("its key is" in str(one.error) for one in found)
    assert client.asked == 20


def test_a_worker_that_always_gives_up_is_not_asked_for_ever() -> None:
    dask = pytest.importorskip("airtcp.executors.dask")

    class GivesUp(FakeClient):
        def submit(self, call: Any, task: Task, engine: str, **_: object) -> FakeFuture:
            self.asked += 1
            return FakeFuture(None)

    client = GivesUp(1)
    todo = [TASK]
    (one,) = [
        one
        for batch in dask.DaskExecutor(client).run(lambda: todo.pop() if todo else None, lambda: False)
        for one in batch
    ]
    assert (one.key, one.status) == (TASK.key, "failed")
    assert client.asked == dask.MOST_GIVEN_UP + 1


# --- the connection -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "is_warned"),
    [
        (None, False),
        ("threads", False),
        ("dask://127.0.0.1:8786", False),
        ("dask://localhost:8786", False),
        ("dask://[::1]:8786", False),
        ("dask+tls://scheduler.example.org:8786", False),
        ("dask://scheduler.example.org:8786", True),
        ("dask://10.0.0.1:8786", True),
        ("dask://127.0.0.1.example.org:8786", True),
    ],
)
def test_an_address_on_a_network_without_tls_is_warned_of(address: str | None, is_warned: bool) -> None:
    warning = unprotected(address)
    assert (warning is not None) == is_warned
    if warning is not None:
        assert "dask+tls://" in warning


@pytest.mark.parametrize(
    ("text", "is_warned"),
    [
        ('{"address": "tcp://10.0.0.1:8786"}', True),
        ('{"address": "ws://10.0.0.1:8786"}', True),
        ('{"address": "tls://10.0.0.1:8786"}', False),
        ('{"address": "tcp://127.0.0.1:8786"}', False),
        ("no json", False),
        ("[]", False),
    ],
)
def test_a_scheduler_file_is_looked_into(text: str, is_warned: bool, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(text)
    assert (unprotected(f"dask://{file}") is not None) == is_warned
    assert unprotected(f"dask://{tmp_path}/missing.json") is None


def test_the_command_warns_before_it_connects(airtcp: Command, tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    file = tmp_path / "sweep.toml"
    file.write_text('scenario = "small.toml"\nseeds = 2\n[measures]\nu = "links.bottleneck.utilisation"\n')
    pytest.importorskip("distributed")
    # A name that no resolver knows (RFC 6761).
    done = airtcp("sweep", file, "--executor", "dask://scheduler.invalid:1", "--out", tmp_path / "out")
    assert done.returncode != 0
    assert "warning: the connection to scheduler.invalid is not protected" in done.stderr
    assert "Traceback" not in done.stderr
    for command in ("sweep", "study run"):
        text = " ".join(airtcp(*command.split(), "--help").stdout.split())
        assert "whoever controls the cluster can run programs as you" in text


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl (Debian package openssl)")
def test_tls_is_spoken_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    import dask.config

    monkeypatch.setattr("airtcp.executors.dask.CONNECT_S", 5.0)
    with pytest.raises(ExecutorError, match=r"TLS needs certificates: set distributed\.comm\.tls\.ca-file"):
        executor_of("dask+tls://127.0.0.1:1")
    with pytest.raises(ExecutorError, match="must be HOST:PORT"):
        executor_of(f"dask+tls://{tmp_path}/scheduler.json")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    subprocess.run([*made, "-keyout", key, "-out", cert], check=True, capture_output=True)
    place_of = "distributed.comm.tls"
    tls = {f"{place_of}.ca-file": str(cert)}
    for who in ("client", "scheduler", "worker"):
        tls |= {f"{place_of}.{who}.key": str(key), f"{place_of}.{who}.cert": str(cert)}
    (tmp_path / "small.toml").write_text(SMALL)
    sweep = Sweep(name="s", scenario=tmp_path / "small.toml", measures={"u": "links.bottleneck.utilisation"}, seeds=2)
    with dask.config.set(tls):
        security = distributed.Security(require_encryption=True)
        more: dict[str, Any] = {"processes": False, "dashboard_address": ":0", "protocol": "tls://"}
        with distributed.LocalCluster(n_workers=1, threads_per_worker=1, security=security, **more) as cluster:
            place = cluster.scheduler_address.removeprefix("tls://")
            assert airtcp.sweep(sweep, executor=f"dask+tls://{place}").is_complete
            with pytest.raises(ExecutorError, match="no scheduler answers there"):
                executor_of(f"dask://{place}")
        with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0", protocol="tcp://") as plain:
            place = plain.scheduler_address.removeprefix("tcp://")
            with pytest.raises(ExecutorError, match="no scheduler answers there"):
                executor_of(f"dask+tls://{place}")
