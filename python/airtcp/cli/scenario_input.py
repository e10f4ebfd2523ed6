"""The scenario that a command is given: a file, standard input or a link, with the changes of its options."""

from __future__ import annotations

import sys

from airtcp import _airtcp
from airtcp._files import fault_of_input
from airtcp._terminal import BAD_INPUT, StopError
from airtcp._text import MARK, is_link
from airtcp.errors import ScenarioError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Final

    Change = tuple[str, str, str]
    """A change of a value: its name in messages, its key, and its value as TOML."""

MAX_STDIN_BYTES: Final = 64 << 20


def file_of(args: argparse.Namespace) -> str:
    """Finds FILE if `--set KEY=VALUE ...` took it as one more change."""
    if args.file is None and args.changes and ("=" not in args.changes[-1] or args.changes[-1].startswith(MARK)):
        args.file = args.changes.pop()
    if args.file is None:
        raise StopError("a scenario FILE is missing: give a path, or - for standard input", BAD_INPUT)
    return str(args.file)


def changes_of(args: argparse.Namespace) -> list[Change]:
    """Changes of the scenario by `--set` and `--seed`."""
    changes = [_airtcp.parse_set(change) for change in args.changes]
    if args.seed is not None:
        changes.append((f"--seed {args.seed}", "seed", str(args.seed)))
    return changes


def load_file(file: str, changes: Sequence[Change]) -> _airtcp.Checked:
    """A scenario file with changes.

    Raises:
        StopError: the file cannot be read.
        ScenarioError: it is no valid scenario.
    """
    if (fault := fault_of_input(file)) is not None:
        raise StopError(fault, BAD_INPUT)
    try:
        return _airtcp.Checked.load(file, list(changes))
    except ScenarioError as error:
        from pathlib import Path

        from airtcp.file_kinds import scenario_error

        raise scenario_error(error, Path(file)) from None


def checked_scenario(args: argparse.Namespace) -> _airtcp.Checked:
    """The scenario of a command with `scenario_options`, with all changes that its options make.

    Raises:
        StopError: the scenario cannot be read, or an option does not fit it.
        ScenarioError: it is no valid scenario.
    """
    file = file_of(args)
    changes = changes_of(args)
    if args.duration is not None:
        changes.append((f"--duration {args.duration}", "duration", args.duration))
    if args.ap is None:
        return _read(file, changes)
    if file == "-":
        raise StopError("--ap needs a file: standard input can be read once only", BAD_INPUT)
    import json

    from airtcp.access_points import UnknownAccessPointError
    from airtcp.access_points import changes as changes_of_radios

    try:
        # First, so that `--set` can change single options of it.
        radios = changes_of_radios(args.ap, json.loads(_read(file, []).to_json()))
    except UnknownAccessPointError as error:
        raise StopError(f"--ap: {error}", BAD_INPUT) from None
    if not radios:
        raise StopError(f"--ap {args.ap}: {file} has no WLAN whose access point could be that", BAD_INPUT)
    return _read(file, [*radios, *changes])


def _read(file: str, changes: Sequence[Change]) -> _airtcp.Checked:
    if is_link(file):
        from airtcp import share_url

        try:
            link = share_url.read(file)
        except share_url.ShareUrlError as error:
            raise StopError(str(error), BAD_INPUT) from None
        return _airtcp.Checked.from_toml(link.toml.encode(), "scenario.toml", list(changes))
    if file != "-":
        return load_file(file, changes)
    text = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(text) > MAX_STDIN_BYTES:
        raise StopError(f"standard input: more than {MAX_STDIN_BYTES >> 20} MiB: a scenario must be smaller", BAD_INPUT)
    return _airtcp.Checked.from_toml(text, "stdin", list(changes))


def set_arguments_with_ap(args: argparse.Namespace, file: str | Path) -> list[str]:
    """Values of `--set`, with those of `--ap` before them."""
    if args.ap is None:
        return list(args.changes)
    import pathlib

    from airtcp.access_points import UnknownAccessPointError, with_radio
    from airtcp.file_kinds import scenario_error

    try:
        return with_radio(args.ap, file, args.changes)
    except UnknownAccessPointError as error:
        raise StopError(f"--ap: {error}", BAD_INPUT) from None
    except ScenarioError as error:
        raise scenario_error(error, pathlib.Path(file)) from None
