"""The command `airtcp`.

Standard output carries results only; everything else goes to standard error. Exit codes: 0 done, 2 bad input (scenario,
option, unreadable file), 1 any other failure. A signal N that ended the command gives 128 + N: 130 Ctrl-C, 143 SIGTERM,
129 SIGHUP. The finished part is kept.

The top of a module here imports only modules that every command needs. A run of a tenth of a second must not wait for
tables, plots and Parquet that it does not use. Nor must it wait for `typing`: modules that need it for types alone set
`TYPE_CHECKING` by hand.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import warnings

from airtcp._terminal import BAD_INPUT, FAILURE, OK, StopError, fail, say, whole_streams
from airtcp.cli.parser import MODULES, command_line
from airtcp.errors import ExecutorError, NotOursError, ResultsError, RunError, ScenarioError, StudyError, SweepError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from airtcp.cli.parser import Parser

# What is left at the end goes with the process: looking for cycles in it takes longer than a short run.
atexit.register(gc.freeze)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns its exit code."""
    whole_streams()
    warnings.showwarning = show_warning
    try:
        asked = sys.argv[1:] if argv is None else argv
        completes = "_ARGCOMPLETE" in os.environ
        parser = command_line(asked[0] if asked and not completes else None)
        if completes:
            import argcomplete

            from airtcp import completion

            argcomplete.autocomplete(parser, validator=completion.is_offered)
        parser.asked = asked
        if not asked:
            parser.print_help()
            return OK
        args = with_words(parser) if MODULES.get(asked[0]) == "shell" else parser.parse_args(asked)
        body: Callable[[argparse.Namespace], int] = args.body
        return body(args)
    except StopError as stop:
        return fail(str(stop), stop.code)
    except (ScenarioError, StudyError, SweepError, NotOursError) as error:
        return fail(str(error), BAD_INPUT)
    except (ResultsError, ExecutorError, RunError) as error:
        return fail(str(error), FAILURE)
    except MemoryError:
        return fail("out of memory: make the scenario smaller, or record less (key `record` of the scenario)", FAILURE)
    except KeyboardInterrupt as interrupt:
        if argv is None:
            # Python's own end is left: one more Ctrl-C shall end that without a word.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        return fail("interrupted", getattr(interrupt, "code", 128 + signal.SIGINT))


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    """A warning about a file as one line, without the place in airtcp's code."""
    from airtcp.old_names import OldNameWarning

    if issubclass(category, OldNameWarning):
        say(f"warning: {message}")
    else:
        sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def with_words(parser: Parser) -> argparse.Namespace:
    """The arguments of commands that run others: words behind `--` are not airtcp's."""
    import shlex

    from airtcp.cli.commands import shell

    given, behind = shell.split(parser.asked)
    args, left = parser.parse_known_args(given)
    if left and not shell.take_words(args, left):
        words = " ".join(left)
        where = ""
        if args.body is shell.exec_ and not words.startswith("-"):
            where = f"; a command goes behind --: airtcp exec {shlex.quote(str(args.host))} -- {shlex.join(left)}"
        parser.error(f"unrecognized arguments: {words}{where}")
    args.behind = behind
    return args
