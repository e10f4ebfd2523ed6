"""A Dask cluster that is there already: `dask://HOST:PORT`, a scheduler file, or a `distributed.Client`.

Every worker needs the same build of airtcp; that is checked before anything runs, and again with every run. When a
worker dies its runs are given to another one. A run that takes down several workers (Dask's setting
`distributed.scheduler.allowed-failures`, 3 unless configured) is recorded as failed. Results come back over the
network; workers write nothing.
"""

from __future__ import annotations

import os
import queue
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

from airtcp import _airtcp
from airtcp.errors import ExecutorError
from airtcp.executors.local import TICK_S
from airtcp.sweeps.task import Outcome, Task, perform

try:
    import distributed
except ImportError as error:
    raise ExecutorError(
        f"running on a Dask cluster needs the package `distributed`: pip install 'airtcp[cluster]' ({error})"
    ) from error

CONNECT_S: Final = 20.0
"""So long a scheduler may take to answer."""

MORE_THAN_SLOTS: Final = 100
"""Tasks that wait at the scheduler: enough that no worker idles, and that an adaptive cluster sees the need to grow."""


class EngineMismatchError(Exception):
    """A worker has another build of airtcp."""


class DaskExecutor:
    """Runs tasks on the workers of a cluster."""

    def __init__(self, client: distributed.Client, *, close: bool = False) -> None:
        """`close`: the client is closed after use."""
        self._client: Final = client
        self._close: Final = close

    @classmethod
    def connect(cls, address: str) -> DaskExecutor:
        """To a scheduler, by HOST:PORT or by the path of a scheduler file.

        Raises:
            ExecutorError: it does not answer.
        """
        is_host = re.fullmatch(r"[^/]+:[0-9]+", address) is not None
        if not is_host and not os.path.isfile(address):  # noqa: PTH113 - the address is text
            raise ExecutorError(f"dask://{address}: neither HOST:PORT nor a scheduler file that exists")
        try:
            if is_host:
                client = distributed.Client(f"tcp://{address}", timeout=CONNECT_S, set_as_default=False)
            else:
                client = distributed.Client(scheduler_file=address, timeout=CONNECT_S, set_as_default=False)
        except Exception as error:  # of many kinds: name resolution, refusal, time, another protocol
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ExecutorError(f"dask://{address}: no scheduler answers there: {reason}") from error
        return cls(client, close=True)

    @property
    def slots(self) -> int:
        """Threads of all workers that are there now."""
        return max(sum(map(int, self._client.nthreads().values())), 1)

    def run(self, next_task: Callable[[], Task | None], is_stopped: Callable[[], bool]) -> Iterator[list[Outcome]]:
        """See `airtcp.executors.Executor`."""
        futures: dict[str, distributed.Future] = {}
        try:
            self._check_engines()
            yield from self._outcomes(next_task, is_stopped, futures)
        finally:
            if futures and self._client.status == "running":
                self._client.cancel(list(futures.values()), force=True)
            if self._close:
                self._client.close()

    def _outcomes(
        self,
        next_task: Callable[[], Task | None],
        is_stopped: Callable[[], bool],
        futures: dict[str, distributed.Future],
    ) -> Iterator[list[Outcome]]:
        finished: queue.SimpleQueue[str] = queue.SimpleQueue()
        # Other sweeps may want equal runs of the same cluster; neither should wait for the other.
        name = f"airtcp-{uuid.uuid4().hex[:8]}"
        is_more = True
        while is_more or futures:
            if is_stopped():
                return
            most = self.slots + MORE_THAN_SLOTS
            while is_more and len(futures) < most:
                task = next_task()
                if task is None:
                    is_more = False
                    break
                future = self._client.submit(_perform, task, _airtcp.engine(), key=f"{name}-{task.key}", pure=False)
                futures[task.key] = future
                future.add_done_callback(lambda _, key=task.key: finished.put(key))
            batch: list[Outcome] = []
            try:
                done = [finished.get(timeout=TICK_S)]
                while not finished.empty():
                    done.append(finished.get())
            except queue.Empty:
                done = []
                if self._client.status not in ("running", "connecting"):
                    raise ExecutorError(_GONE) from None
            for key in done:
                outcome = self._outcome(key, futures.pop(key))
                if outcome is not None:
                    batch.append(outcome)
            yield batch

    def _outcome(self, key: str, future: distributed.Future) -> Outcome | None:
        if future.status == "finished":
            outcome: Outcome | None = future.result()
            return outcome
        if future.status == "cancelled":
            raise ExecutorError(_GONE)
        error = future.exception()
        if isinstance(error, EngineMismatchError):
            raise ExecutorError(str(error))
        if isinstance(error, distributed.KilledWorker):
            reason = "took down several workers one after the other: too little memory for it, most likely"
            return Outcome(key, "failed", {}, reason, 0.0, _airtcp.engine())
        return Outcome(key, "failed", {}, f"{type(error).__name__}: {error}", 0.0, _airtcp.engine())

    def _check_engines(self) -> None:
        here = _airtcp.engine()
        found: dict[str, Any] = self._client.run(_engine, on_error="return")
        wrong = {worker: there for worker, there in found.items() if there != here}
        if wrong:
            worker, there = next(iter(wrong.items()))
            what = f"cannot load airtcp ({there!r})" if isinstance(there, BaseException) else f"has engine {there}"
            raise ExecutorError(
                f"{len(wrong)} of {len(found)} workers cannot take part: {worker} {what}, here it is {here}: "
                f"install the same build of airtcp on all machines"
            )


_GONE: Final = "the cluster has gone away; finished runs are kept, and the same command goes on from there"


def _engine() -> str:
    return _airtcp.engine()


def _perform(task: Task, engine: str) -> Outcome | None:
    """On a worker."""
    there = _airtcp.engine()
    if there != engine:
        where = distributed.get_worker().address
        raise EngineMismatchError(
            f"worker {where} has engine {there}, here it is {engine}: install the same build of airtcp on all machines"
        )
    return perform(task, _is_unwanted())


def _is_unwanted() -> Callable[[], bool]:
    """Tells whether the sweep that asked for this run has been stopped."""
    worker = distributed.get_worker()
    key = worker.get_current_task()

    def ask() -> bool:
        state = worker.state.tasks.get(key)
        return state is None or state.state == "cancelled"

    return ask
