"""The parser of the command line: its commands, and its help."""

from __future__ import annotations

import argparse
import os
import re
import sys

from airtcp import _airtcp
from airtcp._terminal import BAD_INPUT, say, write_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import ClassVar, Final, NoReturn

    from _typeshed import SupportsWrite

VERSION: Final = "--version"

MODULES: Final = {
    "run": "run",
    "check": "check",
    "schema": "schema",
    "list": "names",
    "explain": "names",
    "plot": "saved_runs",
    "compare": "saved_runs",
    "shell": "shell",
    "exec": "shell",
    "lab": "lab",
    "hwsim": "hwsim",
    "sweep": "sweep",
    "study": "study",
    "report": "report",
    "analyze": "analyze",
    "advise": "advise",
    "host": "host",
    "play": "play",
    "verify": "verify",
    "clean": "clean",
    "new": "start",
    "example": "start",
    "completion": "completion",
}
"""The commands, and the module of each in `airtcp.cli.commands`."""

GROUPS: Final = {
    "simulate": {
        "new": "airtcp new my-network.toml --kind wifi",
        "example": "airtcp example walk",
        "run": "airtcp run my-network.toml --seeds 10",
        "compare": "airtcp compare runs/reno-seed1 runs/paced-seed1",
        "plot": "airtcp plot runs/reno-seed1 --out figure.svg",
        "sweep": "airtcp sweep my-network.toml --vary links.access.rate=5Mbit/s,50Mbit/s",
        "play": "airtcp play my-network.toml",
        "check": "airtcp check my-network.toml",
        "list": "airtcp list queues",
        "explain": "airtcp explain cubic",
        "schema": "airtcp schema --out scenario.schema.json",
    },
    "diagnose": {
        "advise": "airtcp advise home",
        "analyze": "airtcp analyze capture.pcapng",
    },
    "study": {
        "study": "airtcp study run ap-retry-out",
        "report": "airtcp report runs/study-ap-retry-out-quick",
        "verify": "airtcp verify runs/study-ap-retry-out-quick",
        "clean": "airtcp clean",
    },
    "emulate": {
        "shell": "airtcp shell --wifi n,snr=15,others=5 -- ping server",
        "exec": "airtcp exec server -- ss -ti",
        "lab": "airtcp lab examples/wifi-upload.toml",
        "hwsim": "airtcp hwsim examples/wifi-upload.toml",
    },
    "deploy": {
        "host": "airtcp host check",
    },
    "set up": {
        "completion": 'eval "$(airtcp completion bash)"',
    },
}
"""The help of `airtcp`: groups of commands, each with an example."""


class Parser(argparse.ArgumentParser):
    """Reports errors in the command line like all other errors."""

    def error(self, message: str) -> NoReturn:
        """Ends the command with a message."""
        self.print_usage(sys.stderr)
        say(f"error: {message}{self._hint(message)}")
        raise SystemExit(BAD_INPUT)

    OPTIONS: ClassVar[dict[str, list[str]]] = {}
    """Options of each command: the parser at the top reports those that no command knows."""

    def _hint(self, message: str) -> str:
        """`; did you mean ...?` for a command or an option that is not there."""
        import difflib

        chosen = re.match(r"argument .*: invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if chosen is not None:
            asked, known = chosen[1], re.findall(r"[\w.-]+", chosen[2])
        elif message.startswith("unrecognized arguments: "):
            asked = message.removeprefix("unrecognized arguments: ").split()[0].split("=")[0]
            known = self.OPTIONS.get(next((word for word in self.asked if word in self.OPTIONS), ""), [])
        else:
            return ""
        close = difflib.get_close_matches(asked, known, n=1)
        return f"; did you mean `{close[0]}`?" if close else ""

    asked: Sequence[str] = ()
    """The words of the command line."""

    commands: argparse._SubParsersAction[Parser] | None = None
    """The commands, of the parser at the top alone."""

    def format_help(self) -> str:
        """The help; that of the parser at the top has the commands in groups."""
        if self.commands is None:
            return super().format_help()
        from textwrap import wrap

        about = {action.dest: action.help or "" for action in self.commands._choices_actions}
        width = min(_columns() - 2, 100)
        lines = [f"usage: {self.prog} COMMAND [OPTION ...]", "", *wrap(self.description or "", width)]
        for group, examples in GROUPS.items():
            lines += ["", f"{group}:"]
            for name, example in examples.items():
                first, *rest = wrap(about[name], width - 14)
                lines += [f"  {name:<12}{first}", *(f"{'':14}{line}" for line in rest), f"{'':14}$ {example}"]
        options = ["  -h, --help  print this help", "  --version   print the version"]
        return "\n".join([*lines, "", "options:", *options, "", self.epilog or "", ""])

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # Help and version go to standard output. A full disk or a closed pipe there is a failure.
        if message and file in (None, sys.stdout):
            write_out(message)
        else:
            super()._print_message(message, file)


def _columns() -> int:
    """The width of the terminal, as `shutil` tells it. That loads all that unpacks archives."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or 80
    except (OSError, ValueError):
        return 80


def command_line(given: str | None = None) -> Parser:
    """The command line; of a `given` command alone, since the others take longer to set up than a short run takes."""
    parser = Parser(
        prog="airtcp",
        description="Simulates TCP over Wi-Fi and wired networks packet by packet, and analyses real captures.",
        epilog="airtcp COMMAND --help prints the options of a command. Start with: airtcp advise home",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=_columns() - 2),
        allow_abbrev=False,
    )
    parser.add_argument(VERSION, action="version", version=f"airtcp {_airtcp.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    parser.commands = commands

    def command(
        name: str,
        body: Callable[[argparse.Namespace], int],
        *examples: str,
        more: str = "",
        under: argparse._SubParsersAction[Parser] = commands,
    ) -> Parser:
        about = (body.__doc__ or "").strip()
        heading = "example" if len(examples) == 1 else "examples"
        epilog = f"{heading}:\n" + "".join(f"  {line}\n" for line in examples) + more
        sub: Parser = under.add_parser(
            name,
            help=about,
            description=about,
            epilog=epilog,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=_columns() - 2),
            allow_abbrev=False,
        )
        sub.set_defaults(body=body)
        return sub

    names = [] if given == VERSION else [given] if given in MODULES else [*MODULES]
    for module in dict.fromkeys(MODULES[name] for name in names):
        # `importlib` itself takes a millisecond to load.
        __import__(f"airtcp.cli.commands.{module}", fromlist=["add"]).add(command)
    for name, sub in commands.choices.items():
        Parser.OPTIONS[name] = [option for action in sub._actions for option in action.option_strings]
    return parser
