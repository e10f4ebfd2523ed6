"""Functions that the commands share: exit codes, standard output and error, interruption.

Everything that a command shows goes through here. Names and messages may come from strangers' files. So characters that
a terminal acts on are spelt out (`airtcp._text.visible`), and `[red]` in a name is text.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress

from airtcp._text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any, Final

OK: Final = 0
FAILURE: Final = 1
BAD_INPUT: Final = 2


class StopError(Exception):
    """Ends a command with a message and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def whole_streams() -> None:
    """Makes standard streams that were closed, or whose encoding lacks a character, harmless."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Else the next file that is opened would be taken for the stream. The lowest free number is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def say(message: str) -> None:
    """Writes a line to standard error."""
    _tell(visible(message))


def _tell(message: str) -> None:
    with suppress(OSError):
        # Nobody can be told that nobody can be told.
        sys.stderr.write(f"{message}\n")


def fail(message: str, code: int) -> int:
    """Writes an error to standard error, and returns the exit code."""
    bold, end = ("\x1b[1;31m", "\x1b[0m") if sys.stderr.isatty() and "NO_COLOR" not in os.environ else ("", "")
    _tell(f"{bold}error:{end} {visible(message)}")
    return code


def write_out(text: str) -> None:
    """Writes to standard output. A closed pipe or a full disk is a clear failure."""
    _write_out(visible(text))


def _write_out(text: str) -> None:
    if sys.stdout is None:
        raise StopError("cannot write to standard output: it is closed", FAILURE)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Python would write the buffered rest at its exit, and fail again with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise StopError(f"cannot write to standard output: {error.strerror}", FAILURE) from error
    except KeyboardInterrupt:
        # The pipe may be full, and its reader asleep.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def render(*parts: object) -> None:
    """Writes tables and other Rich objects to standard output. Strings in them are plain text, not markup."""
    from io import StringIO

    from rich.console import Console
    from rich.segment import Segment, Segments

    # Into memory: Rich itself would write to standard output, and fail where `_write_out` can tell it.
    is_terminal = True if sys.stdout is not None and sys.stdout.isatty() else None
    shown = StringIO()
    console = Console(file=shown, force_terminal=is_terminal, highlight=False, markup=False, emoji=False)
    for part in parts:
        segments = [
            one if one.control else Segment(visible(one.text), one.style)
            for one in console.render(console.render_str(part) if isinstance(part, str) else part)  # type: ignore[arg-type]
        ]
        console.print(Segments(segments, new_lines=False), end="" if segments and segments[-1].text == "\n" else "\n")
    _write_out(shown.getvalue())


def progress(*columns: Any) -> Any:  # noqa: ANN401
    """A bar of progress on standard error: a description, the bar, then these columns.

    A column that is text is a format, as Rich has it; the description and its fields are plain text.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    texts = [TextColumn(one, markup=False) if isinstance(one, str) else one for one in columns]
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *texts,
        console=Console(stderr=True, markup=False, emoji=False),
        transient=True,
    )


class Interrupted(KeyboardInterrupt):
    """A signal ends the command at once."""

    def __init__(self, number: int) -> None:
        super().__init__("interrupted")
        self.code = 128 + number


class Interrupts:
    """Signals that end a command: SIGINT, SIGTERM and SIGHUP. The last one stays ignored if it is, as under `nohup`."""

    def __init__(self) -> None:
        self.caught: int | None = None

    def is_stopped(self) -> bool:
        """Whether a signal has come."""
        return self.caught is not None

    @property
    def code(self) -> int:
        """The exit code of a command that a signal ended."""
        return 128 + (self.caught or signal.SIGINT)

    def check(self, what: str) -> None:
        """Ends the command if a signal has come.

        Raises:
            StopError: with `what`, which says what there is to lose.
        """
        if self.caught is not None:
            raise StopError(f"interrupted: {what}", self.code)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.caught is not None:
            raise Interrupted(number)
        self.caught = number

    def _raise(self, number: int, _frame: FrameType | None) -> None:
        self.caught = number
        raise Interrupted(number)

    @contextmanager
    def active(self) -> Iterator[Interrupts]:
        """While the block runs, the first signal is only noted, so that finished work can be kept.

        The second one ends the command at once.
        """
        with _handled(self._note):
            yield self

    @contextmanager
    def at_once(self) -> Iterator[Interrupts]:
        """While the block runs, a signal ends the command at once, and folders that it made for itself are removed."""
        with _handled(self._raise):
            yield self


@contextmanager
def _handled(handler: Any) -> Iterator[None]:  # noqa: ANN401
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, one in before.items():
            signal.signal(number, one)
