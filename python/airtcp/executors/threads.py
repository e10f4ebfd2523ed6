"""Threads of this process: nothing is started and nothing is sent. A run that dies takes everything with it."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Final

from airtcp.executors.local import batches
from airtcp.tasks.task import Outcome, Task, perform


class ThreadExecutor:
    """Runs tasks in threads."""

    def __init__(self, jobs: int | None = None) -> None:
        """`jobs`: tasks at a time; by default as many as this process may use cores."""
        self.slots: Final = jobs or len(os.sched_getaffinity(0))

    def run(self, next_task: Callable[[], Task | None], is_stopped: Callable[[], bool]) -> Iterator[list[Outcome]]:
        """See `airtcp.executors.Executor`."""
        finished: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
        given_up = threading.Event()
        turn = threading.Lock()

        def stopped() -> bool:
            return given_up.is_set() or is_stopped()

        def work() -> None:
            try:
                while not stopped():
                    with turn:
                        task = next_task()
                    if task is None:
                        break
                    outcome = perform(task, stopped)
                    if outcome is not None:
                        finished.put(outcome)
            except BaseException as error:  # handed to the caller's thread
                finished.put(error)
            finally:
                finished.put(None)

        threads = [threading.Thread(target=work, name=f"airtcp-{i}", daemon=True) for i in range(self.slots)]
        for thread in threads:
            thread.start()
        try:
            yield from batches(finished, len(threads))
        finally:
            given_up.set()
            for thread in threads:
                thread.join()
