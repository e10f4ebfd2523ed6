"""`airtcp completion`: the code with which a shell completes the command line."""

from __future__ import annotations

from airtcp import completion
from airtcp._terminal import OK, write_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any


def complete(args: argparse.Namespace) -> int:
    """Print the code with which a shell completes commands, options, names, keys of scenarios and their values."""
    write_out(completion.script(args.shell))
    return OK


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command(
        "completion",
        complete,
        'eval "$(airtcp completion bash)"',
        'eval "$(airtcp completion zsh)"',
        "airtcp completion fish > ~/.config/fish/completions/airtcp.fish",
    )
    sub.add_argument("shell", choices=completion.SHELLS, metavar="SHELL", help="bash, zsh or fish")
