"""`airtcp check`: whether a scenario is valid, and settings that do less than one may believe."""

from __future__ import annotations

from airtcp._terminal import OK, say, write_out
from airtcp._text import to_json
from airtcp.cli.options import scenario_options
from airtcp.cli.scenario_input import checked_scenario

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import Any


def check(args: argparse.Namespace) -> int:
    """Validate a scenario without running it."""
    import json

    checked = checked_scenario(args)
    scenario = json.loads(checked.to_json())
    if args.json:
        write_out(to_json(scenario) + "\n")
    else:
        nodes, links, flows = checked.counts()
        size = f"{nodes} nodes, {links} links (each direction), {flows} flows, {scenario['duration']}"
        write_out(f"{args.file}: valid: {scenario['name']!r}, {size}\n")
        from airtcp.traps import notes

        for sentence in notes(scenario):
            say(f"note: {sentence}")
    return OK


def add(command: Callable[..., Any]) -> None:
    """Registers the command."""
    sub = command("check", check, "airtcp check examples/pacing-buffers-reno.toml")
    scenario_options(sub)
    sub.add_argument("--json", action="store_true", help="print the scenario with every default filled in, as JSON")
