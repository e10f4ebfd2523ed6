"""`airtcp list` and `airtcp explain`: the names that scenarios may use, and their pages."""

from __future__ import annotations

from airtcp import _airtcp, completion
from airtcp._terminal import BAD_INPUT, OK, StopError, write_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any


def list_names(args: argparse.Namespace) -> int:
    """List the names for scenarios: host profiles, congestion controls, queues, rate controls and other policies."""
    names = _airtcp.names()
    if args.what is None:
        write_out("".join(f"{kind}: {', '.join(entries)}\n" for kind, entries in names.items()))
    elif args.what not in names:
        raise StopError(f"{args.what!r} is not a kind of name: use one of {', '.join(names)}", BAD_INPUT)
    else:
        write_out("".join(f"{entry}\n" for entry in names[args.what]))
    return OK


def explain(args: argparse.Namespace) -> int:
    """Print the page of a policy, a host profile or a key of scenarios: its purpose, source and parameters."""
    import json

    from airtcp import explain as texts

    pages = _airtcp.pages()
    profiles = {name: _airtcp.profile(name) or "" for name in _airtcp.names()["profiles"]}
    if not args.name:
        write_out(texts.overview(pages, list(profiles)))
        return OK
    try:
        write_out(texts.explain(args.name, pages, profiles, json.loads(_airtcp.schema())))
    except texts.UnknownNameError as error:
        raise StopError(str(error), BAD_INPUT) from error
    return OK


def add(command: Callable[..., Any]) -> None:
    """Registers both commands."""
    sub = command("list", list_names, "airtcp list queues")
    text = "only these, one name per line"
    sub.add_argument("what", nargs="?", metavar="WHAT", help=text).completer = completion.kinds
    sub = command("explain", explain, "airtcp explain cubic", "airtcp explain rate_control/fixed")
    text = "NAME or AXIS/NAME; default: list all names"
    sub.add_argument("name", nargs="?", metavar="NAME", help=text).completer = completion.names
