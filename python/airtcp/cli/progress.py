"""Progress on standard error: of one run, of many runs, of planning."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager

from airtcp._terminal import Interrupts, progress, say
from airtcp._text import duration, on_one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Final

    from airtcp.sweeps.running import Progress

PROGRESS_AFTER_S: Final = 1.0
"""Runs shorter than this show no progress bar."""
TELL_AFTER_S: Final = 1.0
"""Planning that is shorter says nothing."""
LINE_EVERY_S: Final = 30.0
"""Seconds between lines of progress where standard error is a file, such as the log of a batch job."""


@contextmanager
def bar_of_run(name: str, duration_s: float, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Shows a progress bar on standard error, if it is a terminal and the run takes long enough."""
    begin = time.monotonic()
    wanted = sys.stderr.isatty() and not quiet
    bar: Any = None

    def update(now_s: float) -> None:
        nonlocal bar
        if bar is None and wanted and time.monotonic() - begin > PROGRESS_AFTER_S:
            from rich.progress import TaskProgressColumn, TimeRemainingColumn

            simulated = "{task.completed:.1f} of {task.total:.1f} s simulated, left:"
            bar = progress(TaskProgressColumn(), simulated, TimeRemainingColumn())
            bar.add_task(on_one_line(name), total=duration_s)
            bar.start()
        if bar is not None:
            bar.update(bar.task_ids[0], completed=now_s)

    try:
        yield update
    finally:
        if bar is not None:
            bar.stop()


def tell_of_planning(name: str, interrupts: Interrupts, *, quiet: bool) -> Callable[[int, int], None]:
    """A function that planning calls before each point: it ends if a signal has come, and tells of a long wait."""
    tell_at = time.monotonic() + TELL_AFTER_S

    def tell(done: int, total: int) -> None:
        nonlocal tell_at
        interrupts.check("the runs were being planned, and none has begun")
        if quiet or total == 0 or time.monotonic() < tell_at:
            return
        tell_at = time.monotonic() + LINE_EVERY_S
        say(f"{name}: planning: {done} of {total} points")

    return tell


@contextmanager
def bar_of_runs(name: str, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Progress of many runs on standard error: a bar on a terminal, else lines."""
    bar: Any = None
    told_at = time.monotonic()
    is_terminal = sys.stderr.isatty()

    def line(now: Progress) -> str:
        failed = f", {now.failed} failed" if now.failed else ""
        left = f", about {duration(now.eta_s)} left" if now.eta_s is not None else ""
        return f"{now.done} of {now.total} runs{failed}{left}"

    def update(now: Progress) -> None:
        nonlocal bar, told_at
        if quiet:
            return
        if not is_terminal:
            if time.monotonic() - told_at >= LINE_EVERY_S and now.done < now.total:
                told_at = time.monotonic()
                say(f"{name}: {line(now)}")
            return
        if bar is None:
            bar = progress("{task.fields[line]}")
            bar.add_task(on_one_line(name), total=now.total, line="")
            bar.start()
        bar.update(bar.task_ids[0], completed=now.done, line=line(now))

    try:
        yield update
    finally:
        if bar is not None:
            bar.stop()
