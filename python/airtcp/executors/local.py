"""Worker processes of this machine, one per core. A run that dies takes only its worker with it, which is replaced.

A worker is started once and carries out one run after the other: what a run costs beyond itself is a message each way.
It dies with this process. If memory runs short, the system ends it before anything else. A run that a worker died on is
recorded as failed, with how it ended.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import airtcp
from airtcp import _airtcp
from airtcp.errors import ExecutorError
from airtcp.tasks.task import Outcome, Task

TICK_S: Final = 0.1
"""Seconds after which the caller gets a turn even if no run has finished."""

LENGTH: Final = struct.Struct("<Q")
"""A message is its length and a pickle."""

_LAST_WORDS: Final = 2000
"""Bytes of a dead worker's standard error that are looked at."""


def send(stream: IO[bytes], message: object) -> None:
    """A message to the other side.

    Raises:
        OSError: it has gone.
    """
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:  # noqa: ANN401
    """A message of the other side; `None` if it has gone."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    data = stream.read(size)
    return pickle.loads(data) if len(data) == size else None


def machine_memory() -> int:
    """Bytes of memory that this process may have: those of the machine, or of its control group."""
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            most = min(most, int(text))
    return most


class _Worker:
    """A process that carries out tasks."""

    def __init__(self, memory_limit: int, cpu_limit_s: int = 0) -> None:
        self._errors: Final = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        package = str(Path(airtcp.__file__).parent.parent)
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process: Final = subprocess.Popen(
            # -P: a file `json.py` in the folder where the command was given is not imported.
            [
                *(sys.executable, "-P", "-m", "airtcp.executors.worker"),
                *map(str, (memory_limit, os.getpid(), cpu_limit_s)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # The same sums in the same order: the answer of a query does not depend on how many cores there are.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "POLARS_MAX_THREADS": "1"},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to: Final = self._process.stdin
        self._from: Final = self._process.stdout
        self._peak = 0
        self.last_words = ""
        """The last line that it wrote to standard error; known once it has ended."""

    def greet(self) -> None:
        """Waits until it is ready.

        Raises:
            ExecutorError: it cannot be started, or has another engine.
        """
        engine = receive(self._from)
        if engine is None:
            self.end()
            raise ExecutorError(f"a worker process cannot be started: {self.last_words or 'it said nothing'}")
        if engine != _airtcp.engine():
            self.kill()
            self.end()
            raise ExecutorError(
                f"a worker process has engine {engine}, here it is {_airtcp.engine()}: airtcp was replaced meanwhile: "
                f"start again"
            )

    def perform(self, task: Task) -> Outcome | None:
        """Carries out a task; `None` if the worker died."""
        try:
            send(self._to, task)
            outcome = receive(self._from)
        except OSError:
            return None
        return outcome if isinstance(outcome, Outcome) else None

    def kill(self) -> None:
        """Ends it at once. Another thread may be in `end`."""
        # Not by Popen: it would collect the exit code that `end` waits for.
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    def end(self) -> int:
        """Waits until it has ended; its exit code, negative for a signal."""
        with suppress(OSError):
            self._to.close()
        if self._process.returncode is None:
            # Not by Popen: only this tells how much memory it had.
            _, status, usage = os.wait4(self._process.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self._peak = usage.ru_maxrss * 1024
        if not self._errors.closed:
            self._from.close()
            size = self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(0, size - _LAST_WORDS))
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            self.last_words = lines[-1].strip() if lines else ""
            self._errors.close()
        return self._process.returncode

    def death(self, task: Task) -> Outcome:
        """Record of the run on which it died."""
        code = self.end()
        name = _signal_name(-code) if code < 0 else None
        how = f"ended by {name}" if name else f"ended with exit code {code}"
        words = self.last_words
        if name == "SIGXCPU":
            words = "it took more processor time than it may"
        if name == "SIGKILL":
            words = words or "out of memory, most likely"
        memory = f"it had {self._peak / 1e6:.0f} MB of memory at most"
        error = f"the run died: {how}{f' ({words})' if words else ''}; {memory}"
        end = {"signal": name, "memory_bytes": self._peak}
        return Outcome(task.key, "failed", {}, error, 0.0, _airtcp.engine(), end)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def batches(finished: queue.SimpleQueue[Outcome | BaseException | None], at_work: int) -> Iterator[list[Outcome]]:
    """What `at_work` threads hand over, until each has said with `None` that it ends.

    A batch is empty if nothing comes within `TICK_S`.

    Raises:
        BaseException: What a thread handed over as its error.
    """
    while at_work:
        batch: list[Outcome] = []
        found: list[Outcome | BaseException | None] = []
        with suppress(queue.Empty):
            found.append(finished.get(timeout=TICK_S))
            while not finished.empty():
                found.append(finished.get())
        for item in found:
            if item is None:
                at_work -= 1
            elif isinstance(item, Outcome):
                batch.append(item)
            else:
                raise item
        yield batch


class LocalExecutor:
    """Runs tasks in worker processes."""

    def __init__(self, jobs: int | None = None, memory_limit: int | None = None, cpu_limit_s: int = 0) -> None:
        """Number of tasks at a time, and the memory and time of each.

        Args:
            jobs: tasks at a time; by default as many as this process may use cores.
            memory_limit: bytes of a run; by default what the machine has.
            cpu_limit_s: processor time of a run, seconds; 0: as much as it takes.
        """
        self.slots: Final = jobs or len(os.sched_getaffinity(0))
        self.cpu_limit_s: Final = cpu_limit_s
        self.memory_limit: Final = memory_limit or machine_memory()

    def run(self, next_task: Callable[[], Task | None], is_stopped: Callable[[], bool]) -> Iterator[list[Outcome]]:
        """See `airtcp.executors.Executor`."""
        finished: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
        given_up = threading.Event()
        turn = threading.Lock()
        workers: set[_Worker] = set()

        def next_one() -> Task | None:
            with turn:
                return None if given_up.is_set() else next_task()

        def start() -> _Worker | None:
            with turn:
                if given_up.is_set():
                    return None
                worker = _Worker(self.memory_limit, self.cpu_limit_s)
                workers.add(worker)
            worker.greet()
            return worker

        def work() -> None:
            worker: _Worker | None = None
            try:
                while (task := next_one()) is not None:
                    worker = worker or start()
                    outcome = worker.perform(task) if worker is not None else None
                    if given_up.is_set() or worker is None:
                        break
                    if outcome is None:
                        outcome = worker.death(task)
                        with turn:
                            workers.discard(worker)
                        worker = None
                    finished.put(outcome)
            except BaseException as error:  # handed to the caller's thread
                if not given_up.is_set():
                    finished.put(error)
            finally:
                try:
                    if worker is not None:
                        worker.end()
                finally:
                    # Whatever happens: the caller waits for it.
                    finished.put(None)

        def give_up() -> None:
            with turn:
                given_up.set()
                for worker in workers:
                    worker.kill()

        threads = [threading.Thread(target=work, name=f"airtcp-{i}", daemon=True) for i in range(self.slots)]
        for thread in threads:
            thread.start()
        try:
            for batch in batches(finished, len(threads)):
                yield batch
                if is_stopped():
                    give_up()
        finally:
            give_up()
            for thread in threads:
                thread.join()
