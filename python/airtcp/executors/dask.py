"""A Dask cluster that is there already: `dask://HOST:PORT`, with TLS `dask+tls://HOST:PORT`, a scheduler file, or a
`distributed.Client`.

Every worker needs the same build of airtcp; that is checked before anything runs, and again with every run. When a
worker dies its runs are given to another one. A run on which several workers died is tried once more at the end, with
nothing beside it. If that takes down as many again, it is recorded as failed. Dask's setting
`distributed.scheduler.allowed-failures` (3 by default) has the number. Results come back over the network; workers
write nothing.

Dask itself trusts its cluster: messages of a scheduler are pickles, so whoever controls it runs code here. What this
module adds is that an answer can only be about the run that was asked for (`airtcp.executors.answers`).
"""

from __future__ import annotations

import itertools
import math
import os
import queue
import re
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from airtcp import _airtcp
from airtcp.errors import ExecutorError
from airtcp.executors.answers import AnswerError, decode, encode
from airtcp.executors.local import TICK_S
from airtcp.tasks import kernels
from airtcp.tasks.task import Outcome, Task, perform

try:
    import distributed
except ImportError as error:
    raise ExecutorError(
        f"running on a Dask cluster needs the package `distributed`: pip install 'airtcp[cluster]' ({error})"
    ) from error

CONNECT_S: Final = 20.0
"""Longest wait for a scheduler's answer."""

MORE_THAN_SLOTS: Final = 100
"""Tasks that wait at the scheduler: enough that no worker idles, and that an adaptive cluster sees the need to grow."""


COUNT_EVERY_S: Final = 5.0
"""Time between two counts of the workers."""

RESULT_S: Final = 5.0
"""A finished result should be here by then; its worker may have died meanwhile."""

MOST_SLOTS: Final = 100_000
"""Threads that are believed."""

MOST_GIVEN_UP: Final = 20
"""A run that workers gave up so often, although nobody here asked for it, failed."""

_MOST_SHOWN: Final = 2000
"""Characters of an error from the cluster."""


class EngineMismatchError(Exception):
    """A worker has another build of airtcp."""


class DaskExecutor:
    """Runs tasks on the workers of a cluster."""

    def __init__(self, client: distributed.Client, *, close: bool = False) -> None:
        """`close`: the client is closed after use."""
        self._client: Final = client
        self._close: Final = close

    @classmethod
    def connect(cls, address: str, *, tls: bool = False) -> DaskExecutor:
        """To a scheduler, by HOST:PORT or by the path of a scheduler file.

        Args:
            address: of the scheduler.
            tls: nothing but TLS is spoken, with the certificates of Dask's settings `distributed.comm.tls`.

        Raises:
            ExecutorError: it does not answer, or TLS lacks its settings.
        """
        url = f"dask{'+tls' if tls else ''}://{address}"
        is_host = re.fullmatch(r"[^/]+:[0-9]+", address) is not None
        if not is_host and (tls or not os.path.isfile(address)):  # noqa: PTH113 - the address is text
            raise ExecutorError(f"{url}: {'must be HOST:PORT' if tls else _NO_ADDRESS}")
        security = distributed.Security(require_encryption=True) if tls else None
        if security is not None and not (security.tls_ca_file and security.tls_client_cert):
            raise ExecutorError(
                f"{url}: TLS needs certificates: set distributed.comm.tls.ca-file, .client.cert and .client.key in "
                f"Dask's configuration"
            )
        more = {"timeout": CONNECT_S, "set_as_default": False, "security": security}
        try:
            if is_host:
                client = distributed.Client(f"{'tls' if tls else 'tcp'}://{address}", **more)
            else:
                client = distributed.Client(scheduler_file=address, **more)
        except Exception as error:  # of many kinds: name resolution, refusal, time, another protocol
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ExecutorError(f"{url}: no scheduler answers there: {reason}") from error
        return cls(client, close=True)

    @property
    def slots(self) -> int:
        """Threads of all workers that are there now."""
        return min(max(sum(map(int, self._client.nthreads().values())), 1), MOST_SLOTS)

    def run(self, next_task: Callable[[], Task | None], is_stopped: Callable[[], bool]) -> Iterator[list[Outcome]]:
        """See `airtcp.executors.Executor`."""
        submitted = _Submitted(self._client)
        try:
            self._check_engines()
            yield from self._outcomes(next_task, is_stopped, submitted)
        except (OSError, RuntimeError, distributed.client.FutureCancelledError) as error:
            raise ExecutorError(f"{_GONE} ({_said(error)})") from error
        finally:
            submitted.cancel()
            if self._close:
                self._client.close()

    def _outcomes(
        self, next_task: Callable[[], Task | None], is_stopped: Callable[[], bool], submitted: _Submitted
    ) -> Iterator[list[Outcome]]:
        suspects: deque[Task] = deque()
        given_up: Counter[str] = Counter()
        alone: str | None = None
        is_more = True
        most, counted_at = 0, -math.inf
        while is_more or submitted or suspects:
            if is_stopped():
                return
            if time.monotonic() - counted_at > COUNT_EVERY_S:
                most, counted_at = self.slots + MORE_THAN_SLOTS, time.monotonic()
            while is_more and len(submitted) < most:
                task = next_task()
                if task is None:
                    is_more = False
                else:
                    submitted.add(task)
            if not submitted and suspects:
                alone = suspects[0].key
                submitted.add(suspects.popleft())
            batch: list[Outcome] = []
            for task, result in submitted.finished():
                if isinstance(result, EngineMismatchError):
                    raise ExecutorError(str(result)[:_MOST_SHOWN])
                if isinstance(result, distributed.KilledWorker) and task.key != alone:
                    # It may only have been beside the one that did it: judged once it has a worker for itself.
                    suspects.append(task)
                elif result is None and given_up[task.key] < MOST_GIVEN_UP:
                    # Given up by its worker although nobody here asked for it.
                    given_up[task.key] += 1
                    submitted.add(task)
                else:
                    batch.append(_outcome(task, result))
            yield batch

    def _check_engines(self) -> None:
        here = _airtcp.engine()
        found: dict[str, Any] = self._client.run(_engine, on_error="return")
        wrong = {worker: there for worker, there in found.items() if there != here}
        if wrong:
            worker, there = next(iter(wrong.items()))
            bad = isinstance(there, BaseException)
            what = f"cannot load airtcp ({_said(there)})" if bad else f"has engine {str(there)[:_MOST_SHOWN]}"
            raise ExecutorError(
                f"{len(wrong)} of {len(found)} workers cannot take part: {worker} {what}, here it is {here}: "
                f"install the same build of airtcp on all machines"
            )


_NO_ADDRESS: Final = "neither HOST:PORT nor a scheduler file that exists"
_GONE: Final = "the cluster has disappeared; finished runs are kept, and the same command resumes"


class _Submitted:
    """Tasks that the cluster has, with what tells when they are finished."""

    def __init__(self, client: distributed.Client) -> None:
        self._client: Final = client
        # Other sweeps may want equal runs of the same cluster; neither should wait for the other.
        self._name: Final = f"airtcp-{uuid.uuid4().hex[:8]}"
        self._numbers: Final = itertools.count()
        self._futures: Final[dict[str, tuple[Task, distributed.Future]]] = {}
        self._done: Final[queue.SimpleQueue[str]] = queue.SimpleQueue()

    def __len__(self) -> int:
        return len(self._futures)

    def add(self, task: Task) -> None:
        key = f"{self._name}-{next(self._numbers)}-{task.key}"
        future = self._client.submit(_perform, task, _airtcp.engine(), key=key, pure=False)
        self._futures[task.key] = (task, future)
        self._watch(task.key, future)

    def _watch(self, key: str, future: distributed.Future) -> None:
        future.add_done_callback(lambda _: self._done.put(key))

    def finished(self) -> Iterator[tuple[Task, object]]:
        """Tasks finished since the last call, with results or errors. It waits a moment for them."""
        try:
            key = self._done.get(timeout=TICK_S)
        except queue.Empty:
            if self._client.status not in ("running", "connecting"):
                raise ExecutorError(_GONE) from None
            return
        while True:
            # A cluster may say more than once that a run is finished.
            if key in self._futures:
                task, future = self._futures[key]
                try:
                    result = self._result(future)
                except TimeoutError:
                    # The worker died with the result in its hands: the run is done again, elsewhere. The caller may
                    # want to stop meanwhile.
                    self._watch(key, future)
                    return
                del self._futures[key]
                yield task, result
            try:
                key = self._done.get_nowait()
            except queue.Empty:
                return

    def _result(self, future: distributed.Future) -> object:
        if future.status == "finished":
            return future.result(timeout=RESULT_S)
        if future.status == "error":
            return future.exception(timeout=RESULT_S)
        if future.status == "cancelled":
            raise ExecutorError(_GONE)
        raise TimeoutError

    def cancel(self) -> None:
        """Gives up what is not finished."""
        if self._futures and self._client.status == "running":
            self._client.cancel([future for _, future in self._futures.values()], force=True)
        self._futures.clear()


def _outcome(task: Task, result: object) -> Outcome:
    engine = kernels.engine(task.kernel)
    try:
        if not isinstance(result, BaseException):
            return decode(task, engine, result)
        error = _said(result)
    except AnswerError as reason:
        error = f"what the cluster sent as this run's outcome is none: {reason}"
    if isinstance(result, distributed.KilledWorker):
        error = "took down several workers, one after the other, with nothing beside it: too little memory, most likely"
    return Outcome(task.key, "failed", {}, error, 0.0, engine)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_MOST_SHOWN]


def _engine() -> str:
    return _airtcp.engine()


def _perform(task: Task, engine: str) -> bytes | None:
    """On a worker."""
    there = _airtcp.engine()
    if there != engine:
        where = distributed.get_worker().address
        raise EngineMismatchError(
            f"worker {where} has engine {there}, here it is {engine}: install the same build of airtcp on all machines"
        )
    outcome = perform(task, _is_unwanted())
    return None if outcome is None else encode(outcome)


def _is_unwanted() -> Callable[[], bool]:
    """Tells whether the sweep that asked for this run has been stopped."""
    worker = distributed.get_worker()
    key = worker.get_current_task()

    def ask() -> bool:
        state = worker.state.tasks.get(key)
        return state is None or state.state == "cancelled"

    return ask
