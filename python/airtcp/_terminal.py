"""What the commands share: exit codes, standard output and error, interruption."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

OK: Final = 0
FAILURE: Final = 1
BAD_INPUT: Final = 2


class StopError(Exception):
    """Ends a command with a message and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def say(message: str) -> None:
    """A line on standard error."""
    sys.stderr.write(f"{message}\n")


def fail(message: str, code: int) -> int:
    """An error on standard error; returns the exit code."""
    bold, end = ("\x1b[1;31m", "\x1b[0m") if sys.stderr.isatty() and "NO_COLOR" not in os.environ else ("", "")
    say(f"{bold}error:{end} {message}")
    return code


def write_out(text: str) -> None:
    """Standard output, all of it or a clear failure: a reader that went away, a full disk."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered would fail once more, and loudly, when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise StopError(f"cannot write to standard output: {error.strerror}", FAILURE) from error


def render(*parts: object) -> None:
    """Tables and the like on standard output."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    write_out(capture.get())


class Interrupts:
    """While active, the first SIGINT or SIGTERM is only noted, so that what is finished can be kept.

    The second one breaks off.
    """

    def __init__(self) -> None:
        self.caught: int | None = None

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.caught is not None:
            raise KeyboardInterrupt
        self.caught = number

    @contextmanager
    def active(self) -> Iterator[Interrupts]:
        """Takes the signals over for a while."""
        before = {s: signal.signal(s, self._note) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
