"""A worker process: `python -m airtcp.executors.worker MEMORY PARENT CPU_S`. See `airtcp.executors.local`."""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from airtcp import _airtcp
from airtcp.executors.local import receive, send
from airtcp.tasks.task import perform

_SET_PARENT_DEATH_SIGNAL: Final = 1


def main() -> int:
    """Carries out what comes on standard input, until that ends."""
    # Ctrl-C reaches the whole group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(int(sys.argv[2]))
    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    # A crash of a run is recorded; an image of its memory on disk is not wanted.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        # If the system runs out of memory, this process goes first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    # What anything prints goes to standard error, not between the messages.
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    send(results, _airtcp.engine())
    while (task := receive(sys.stdin.buffer)) is not None:
        _limit_time(int(sys.argv[3]))
        send(results, perform(task))
    return 0


def _limit_time(seconds: int) -> None:
    """The system ends this process if the next run takes more processor time; 0: no limit."""
    if not seconds:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime) + seconds
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def die_with(parent: int) -> None:
    """With the parent, however that ends."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
