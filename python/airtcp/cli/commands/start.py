"""`airtcp new` and `airtcp example`: a first scenario, empty or to change."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from airtcp._scenario_table import to_toml_value
from airtcp._terminal import BAD_INPUT, FAILURE, OK, StopError, say, write_out

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
"""Those of the package."""

WIRED: Final = """\
# Two hosts and a line. Change a value and run it again:
#
#   airtcp run {file}
#   airtcp run {file} --set links.access.rate=5Mbit/s --seeds 5
#   airtcp advise {file}        which remedy helps here?
#
# `airtcp explain` lists everything that can be named; `airtcp check {file}` finds mistakes.
name = {name}
duration = "20s"
warmup = "2s"

[[nodes]]
name = "server"
kind = "host"

[[nodes]]
name = "laptop"
kind = "host"

[[links]]
name = "access"
from = "server"
to = "laptop"
rate = "20Mbit/s"
delay = "15ms"
queue = {{ name = "fifo", limit_packets = 250 }}     # try "fq_codel"

[[flows]]
name = "download"
from = "server"
to = "laptop"
tcp = {{ cc = "cubic" }}                             # try "bbr"

[[flows]]
name = "ping"
from = "laptop"
to = "server"
traffic = {{ kind = "ping", interval = "100ms" }}
"""

WIFI: Final = """\
# A home: two laptops behind an access point, a line to a server. Change a value and run it again:
#
#   airtcp run {file}
#   airtcp run {file} --set wlans.wlan.signal.snr_db=10 --seeds 5
#   airtcp advise {file}        which remedy helps here?
#
# `airtcp explain` lists everything that can be named; `airtcp check {file}` finds mistakes.
name = {name}
duration = "20s"
warmup = "2s"

[[nodes]]
name = "laptop"
kind = "host"
count = 2

[[nodes]]
name = "ap"
kind = "router"

[[nodes]]
name = "server"
kind = "host"

[[links]]
name = "line"
from = "ap"
to = "server"
rate = "200Mbit/s"
delay = "10ms"

[[wlans]]
name = "wlan"
ap = "ap"
stations = ["laptop"]
phy = {{ standard = "ac", width_mhz = 80, streams = 2 }}
signal = {{ kind = "snr", snr_db = 20 }}              # dB in 20 MHz: 30 beside the access point, 4 at the edge of range

[wlans.ap_radio]
transmit = "mac80211"                               # as OpenWrt; a plain one: {{ name = "qdisc", qdisc = "fifo" }}

[[flows]]
name = "upload"
from = "laptop[0]"
to = "server"

[[flows]]
name = "download"
from = "server"
to = "laptop[1]"

[[flows]]
name = "ping"
from = "laptop[1]"
to = "server"
traffic = {{ kind = "ping", interval = "100ms" }}
"""

KINDS: Final = {"wired": WIRED, "wifi": WIFI}


def new(args: argparse.Namespace) -> int:
    """Write a small scenario with comments, to change and run."""
    path = Path(args.file)
    if path.suffix != ".toml":
        raise StopError(f"{args.file}: the name of a scenario must end in .toml", BAD_INPUT)
    if not args.file.isprintable():
        raise StopError(f"{args.file!r}: the name of a scenario must have printable characters only", BAD_INPUT)
    quoted = shlex.quote(args.file)
    text = KINDS[args.kind].format(file=quoted, name=to_toml_value(path.stem or "first"))
    _write(path, text)
    say(f"{args.file} written; run it with: airtcp run {quoted}")
    return OK


def example(args: argparse.Namespace) -> int:
    """List the examples that come with airtcp, or write one to change and run."""
    known = {path.stem: path for path in sorted(EXAMPLES.glob("*.toml"))}
    if args.print and args.out is not None:
        raise StopError("use either --out or --print, not both", BAD_INPUT)
    if args.name is None:
        if args.print or args.out is not None:
            option = "--print" if args.print else f"--out {args.out}"
            raise StopError(f"{option}: the NAME of an example is missing (airtcp example lists them)", BAD_INPUT)
        write_out("".join(f"{line}\n" for line in _listed({name: about(path) for name, path in known.items()})))
        return OK
    name = args.name.removesuffix(".toml")
    if name not in known:
        from airtcp.expressions import nearest

        raise StopError(f"no example is called {args.name!r}{nearest(name, known)}", BAD_INPUT)
    text = known[name].read_text(encoding="utf-8")
    if args.print:
        write_out(text)
        return OK
    out = Path(args.out or f"{name}.toml")
    if out.suffix != ".toml" and not out.exists():
        raise StopError(f"--out {args.out}: the name of an example must end in .toml", BAD_INPUT)
    _write(out, text.replace(f"examples/{name}.toml", shlex.quote(str(out))))
    command = "sweep" if "\n[measures" in text else "run"
    say(f"{out} written; run it with: airtcp {command} {shlex.quote(str(out))}")
    if command == "sweep":
        _with_scenario(text, out.parent)
    return OK


def about(path: Path) -> str:
    """The first sentence about an example: of its description, or of its first comment."""
    import tomllib

    text = path.read_text(encoding="utf-8")
    told = str(tomllib.loads(text).get("description", ""))
    if not told:
        comments = [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]
        told = comments[0] if comments else ""
    return " ".join(told.split()).split(". ")[0].removesuffix(".") + "."


def _listed(texts: dict[str, str]) -> list[str]:
    """Names and what is said of them, wrapped to the terminal."""
    import shutil
    import textwrap

    name_width = max(map(len, texts), default=0) + 2
    text_width = max(30, shutil.get_terminal_size().columns - name_width)
    return [
        f"{name if i == 0 else '':{name_width}}{part}"
        for name, text in texts.items()
        for i, part in enumerate(textwrap.wrap(text, text_width) or [""])
    ]


def _with_scenario(text: str, folder: Path) -> None:
    """Writes the scenario that a sweep names beside it."""
    import tomllib

    scenario = tomllib.loads(text).get("scenario")
    if isinstance(scenario, str) and (EXAMPLES / scenario).is_file() and not (folder / scenario).exists():
        _write(folder / scenario, (EXAMPLES / scenario).read_text(encoding="utf-8"))
        say(f"{folder / scenario} written beside it")


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise StopError(f"{path} is there already: choose another name (it was not touched)", BAD_INPUT) from error
    except OSError as error:
        raise StopError(f"cannot write {path}: {error.strerror}", FAILURE) from error


def add(command: Callable[..., Any]) -> None:
    """Registers the commands."""
    codes = "\nexit codes:\n  0 done; 1 the file cannot be written; 2 bad input, such as a file that is there already\n"
    sub = command("new", new, "airtcp new my-network.toml", "airtcp new home.toml --kind wifi", more=codes)
    sub.add_argument("file", metavar="FILE", nargs="?", default="network.toml", help="file (default: %(default)s)")
    sub.add_argument("--kind", choices=sorted(KINDS), default="wired", help="kind of network (default: %(default)s)")
    sub = command(
        "example", example, "airtcp example", "airtcp example walk", "airtcp example walk --print", more=codes
    )
    named = sub.add_argument("name", metavar="NAME", nargs="?", help="an example; default: list all")
    named.completer = lambda **_: [path.stem for path in EXAMPLES.glob("*.toml")]
    sub.add_argument("--out", metavar="FILE", help="file to write; default: NAME.toml")
    sub.add_argument("--print", action="store_true", help="print it instead of writing a file")
