"""Functions that the commands share: exit codes, standard output and error, interruption."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
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
    """Writes a line to standard error."""
    with suppress(OSError):
        # Nobody can be told that nobody can be told.
        sys.stderr.write(f"{message}\n")


def fail(message: str, code: int) -> int:
    """Writes an error to standard error, and returns the exit code."""
    bold, end = ("\x1b[1;31m", "\x1b[0m") if sys.stderr.isatty() and "NO_COLOR" not in os.environ else ("", "")
    say(f"{bold}error:{end} {message}")
    return code


def write_out(text: str) -> None:
    """Writes to standard output. A closed pipe or a full disk is a clear failure."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Python would write the buffered rest at its exit, and fail again with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise StopError(f"cannot write to standard output: {error.strerror}", FAILURE) from error


def render(*parts: object) -> None:
    """Writes tables and other Rich objects to standard output."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    write_out(capture.get())


class Interrupts:
    """While active, the first SIGINT or SIGTERM is only noted, so that finished work can be kept.

    The second one ends the command at once.
    """

    def __init__(self) -> None:
        self.caught: int | None = None

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.caught is not None:
            raise KeyboardInterrupt
        self.caught = number

    @contextmanager
    def active(self) -> Iterator[Interrupts]:
        """Handles the signals while the block runs."""
        before = {s: signal.signal(s, self._note) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
