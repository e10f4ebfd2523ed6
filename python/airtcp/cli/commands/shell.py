"""`airtcp shell` and `airtcp exec`: real programs on the hosts of a scenario."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from airtcp import _airtcp
from airtcp._terminal import BAD_INPUT, OK, StopError, say
from airtcp.cli.options import seed, single_set_option, snaplen_option, time_with_unit
from airtcp.cli.real_hosts import carry_out
from airtcp.cli.scenario_input import changes_of, load_file

if TYPE_CHECKING:
    from airtcp.realtime import Command

CLIENT: Final = "laptop"
SERVER: Final = "server"
INVALID: Final = 3
"""Exit code of a run in which time was not kept."""
TAKES_COMMAND: Final = ("shell", "exec")
"""Commands with a command of their own behind `--`."""


def split(argv: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Splits off what stands behind `--`, in commands that run others; `None`: there is no `--`."""
    if argv and argv[0] in TAKES_COMMAND and "--" in argv:
        at = argv.index("--")
        return list(argv[:at]), list(argv[at + 1 :])
    return list(argv), None


def take_words(args: argparse.Namespace, words: Sequence[str]) -> bool:
    """FILE and HOST may have options between them: takes words that were left over; false: they are none of these."""
    is_shell = args.body is shell and not any(word.startswith("-") for word in words)
    if is_shell:
        args.words += words
    return is_shell


def shell(args: argparse.Namespace) -> int:
    """Run real programs on hosts of a scenario, in real or virtual time: a shell, or one command on each host."""
    from airtcp import realtime
    from airtcp.errors import RunError

    if args.check:
        return realtime.check()
    checked, file, host = _scenario(args)
    commands = _commands(args, host)
    named = [*(c.host for c in commands), *args.real, *args.gate, *([args.internet] if args.internet else [])]
    real = [*dict.fromkeys(named)]
    scenario = json.loads(checked.to_json())
    hosts = [*real, *(peer for peer in _peers(scenario, real) if peer not in real)]
    if args.internet is not None and args.internet in (c.host for c in commands if c.in_front):
        raise StopError(f"--internet {args.internet}: the command runs on that host: choose another", BAD_INPUT)
    plan = realtime.SessionPlan(
        checked=checked,
        file=file,
        commands=commands,
        hosts=hosts,
        for_s=None if args.lasts is None else time_with_unit("--for", args.lasts),
        internet=args.internet,
        gates=args.gate,
        quiet=args.quiet,
        capture=not args.no_capture,
        snaplen=args.snaplen,
    )
    if args.predict is not None:
        # Before anything runs: what cannot be predicted shows now.
        prediction(scenario, hosts, plan.for_s or 3600.0, args.gate)
    if args.virtual:
        if args.internet is not None:
            raise StopError("--internet: this machine's network is not in virtual time", BAD_INPUT)
        if args.gate:
            raise StopError("--gate: small queues are the kernels' own in virtual time", BAD_INPUT)
        try:
            plan = replace(plan, guests=realtime.kernel(args.kernel))
        except RunError as error:
            raise StopError(str(error), BAD_INPUT) from None
    begin = time.monotonic()
    code = carry_out(plan, args.out)
    if args.predict is not None and code in (OK, INVALID):
        _predict(args, prediction(scenario, hosts, time.monotonic() - begin, args.gate))
    return code


def prediction(
    scenario: dict[str, Any], hosts: Sequence[str], seconds: float, gates: Sequence[str] = ()
) -> _airtcp.Checked:
    """The scenario with simulated hosts again, whose senders are as those of real hosts: without TCP small queues.

    Hosts with a gate keep them: that is what others feel.

    Raises:
        StopError: no flow of TCP begins at one of them.
    """
    from airtcp.traffic_kinds import TCP, kind

    names = {name for host in hosts for name in (host, host.partition("[")[0])}
    names |= {node["name"] for node in scenario["nodes"] if node.get("attach")}
    nodes = [{key: value for key, value in node.items() if key != "attach"} for node in scenario["nodes"]]
    flows = [dict(flow) for flow in scenario["flows"]]
    of_tcp = [flow for flow in flows if flow["from"] in names and kind(flow) in TCP]
    for flow in of_tcp:
        if flow["from"] in gates:
            continue
        flow["tcp"] = {**(flow.get("tcp") or {}), "tsq": "off"}
    if not of_tcp:
        raise StopError(
            "--predict: no flow of the scenario sends TCP from a real host: give it flows as your programs are",
            BAD_INPUT,
        )
    again = {**scenario, "nodes": nodes, "flows": flows, "duration": f"{seconds:.3f}s"}
    return _airtcp.Checked.from_json(json.dumps(again), "--predict", [])


def _predict(args: argparse.Namespace, checked: _airtcp.Checked) -> None:
    from pathlib import Path

    from airtcp.execution import Execution
    from airtcp.results import Folder

    with Folder(Path(args.predict), tell=say) as folder:
        execution = Execution(checked, folder)
        while not execution.is_over:
            execution.advance()
        folder.commit(execution.results())
    if not args.quiet:
        say(f"prediction in {args.predict}")


def exec_(args: argparse.Namespace) -> int:
    """Run a command on a host of a network that `airtcp shell` has started, from another terminal."""
    from airtcp import realtime

    return realtime.execute(args.network or "", args.host, args.behind or [])


# --- what is to run --------------------------------------------------------------------------------------------------


def _scenario(args: argparse.Namespace) -> tuple[_airtcp.Checked, str, str | None]:
    """The scenario, its name, and HOST."""
    changes = changes_of(args)
    short = [(name, value) for name, value in (("--line", args.line), ("--wifi", args.wifi)) if value is not None]
    if len(short) > 1:
        raise StopError("use either --line or --wifi, not both", BAD_INPUT)
    if short:
        option, value = short[0]
        if len(args.words) > 1:
            raise StopError(f"{option} takes the place of the scenario file: only HOST may follow", BAD_INPUT)
        text = line(value) if option == "--line" else wifi(value)
        host = args.words[0] if args.words else None
        if host is None and (args.behind is not None or not args.on):
            host = CLIENT
        args.real = [CLIENT, SERVER, *args.real]
        return _airtcp.Checked.from_toml(text.encode(), option, changes), option, host
    if not args.words:
        raise StopError("a scenario FILE is missing: give a path, or --line or --wifi", BAD_INPUT)
    if len(args.words) > 2:
        raise StopError(f"{args.words[2]!r}: a command stands behind --", BAD_INPUT)
    file = args.words[0]
    return load_file(file, changes), file, args.words[1] if len(args.words) == 2 else None


def _commands(args: argparse.Namespace, host: str | None) -> list[Command]:
    from airtcp.realtime import Command

    commands = []
    for text in args.on:
        on, equals, what = text.partition("=")
        if not equals or not on or not what.strip():
            raise StopError(f"--on {text}: must be HOST='COMMAND'", BAD_INPUT)
        if on == host:
            raise StopError(f"--on {text}: {on!r} has the command in front already: choose another host", BAD_INPUT)
        commands.append(Command(on, ["/bin/sh", "-c", what]))
    if host is None:
        if args.behind is not None:
            raise StopError("a HOST is missing for the command behind --", BAD_INPUT)
        if not commands:
            raise StopError(
                "a HOST is missing: the name of one of the scenario's hosts, or --on HOST='COMMAND'", BAD_INPUT
            )
        return commands
    if args.behind is not None and not args.behind:
        raise StopError("a command is missing behind --", BAD_INPUT)
    argv = args.behind or [os.environ.get("SHELL") or "/bin/sh"]
    return [*commands, Command(host, argv, in_front=True, reads=args.behind is None)]


def _peers(scenario: dict[str, Any], real: Sequence[str]) -> list[str]:
    """Whom a host that is real alone would talk to: the other ends of its flows."""
    attached = {node["name"] for node in scenario["nodes"] if node.get("attach")}
    if len(set(real) | attached) != 1:
        return []
    (only,) = set(real) | attached
    names = {only, only.partition("[")[0]}
    if not names & {node["name"] for node in scenario["nodes"]}:
        # That it is unknown is said where the scenario's hosts are looked up.
        return []
    single = {node["name"] for node in scenario["nodes"] if node.get("count") is None}
    ends = [(flow["from"], flow["to"]) for flow in scenario["flows"]]
    others = [b if a in names else a for a, b in ends if (a in names) != (b in names)]
    found = [other for other in dict.fromkeys(others) if other in single or other.endswith("]")]
    if not found:
        raise StopError(
            f"{only!r} would be the only real host: name another with --real HOST or --on HOST='...'", BAD_INPUT
        )
    return found


# --- networks without a file -----------------------------------------------------------------------------------------


def _fields(option: str, text: str, first: Sequence[str], named: Sequence[str]) -> dict[str, str]:
    """Reads `A,B,key=value`: the first ones by place, the others by name."""
    found: dict[str, str] = {}
    for place, part in enumerate(text.split(",")):
        key, equals, value = part.strip().partition("=")
        if not equals and place < len(first):
            found[first[place]] = key
        elif equals and key in named and value:
            found[key] = value
        else:
            accepted = ",".join([*(name.upper() for name in first), *(f"{name}=..." for name in named)])
            raise StopError(f"{option} {text}: {part!r} is not understood: use {accepted}", BAD_INPUT)
    missing = [name for name in first if name not in found]
    if missing:
        raise StopError(f"{option} {text}: {missing[0].upper()} is missing", BAD_INPUT)
    return found


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(option: str, key: str, text: str) -> str:
    if re.fullmatch(r"-?\d{1,9}(\.\d{1,9})?", text) is None:
        raise StopError(f"{option}: {key}={text}: must be a number", BAD_INPUT)
    return text


HOSTS: Final = f"""
[[nodes]]
name = "{CLIENT}"
kind = "host"

[[nodes]]
name = "{SERVER}"
kind = "host"
"""


def line(text: str) -> str:
    """The scenario of `--line RATE,DELAY,fifo=PACKETS,loss=P`: two hosts and a line."""
    found = _fields("--line", text, ["rate", "delay"], ["fifo", "queue", "loss"])
    queue = f'{{ name = "fifo", limit_packets = {_number("--line", "fifo", found.get("fifo", "1000"))} }}'
    if "queue" in found:
        if "fifo" in found:
            raise StopError(f"--line {text}: use either fifo or queue, not both", BAD_INPUT)
        queue = _toml(found["queue"])
    loss = f"\nloss = {_number('--line', 'loss', found['loss'])}" if "loss" in found else ""
    return f"""name = "line"
duration = "60s"
{HOSTS}
[[links]]
name = "line"
from = "{CLIENT}"
to = "{SERVER}"
rate = {_toml(found["rate"])}
delay = {_toml(found["delay"])}
queue = {queue}{loss}
"""


def wifi(text: str) -> str:
    """The scenario of `--wifi STANDARD,snr=DB,others=N`: a laptop, others that upload, an access point and a server."""
    found = _fields("--wifi", text, ["standard"], ["snr", "others", "delay", "streams", "width"])
    snr = _number("--wifi", "snr", found.get("snr", "30"))
    others = found.get("others", "0")
    if not others.isascii() or not others.isdigit() or len(others) > 4:
        raise StopError(f"--wifi {text}: others={others}: must be a number from 0 to 9999", BAD_INPUT)
    phy = f"standard = {_toml(found['standard'])}"
    phy += f", streams = {_number('--wifi', 'streams', found['streams'])}" if "streams" in found else ""
    phy += f", width_mhz = {_number('--wifi', 'width', found['width'])}" if "width" in found else ""
    crowd = stations = ""
    if int(others):
        stations = ', "other"'
        crowd = f"""
[[nodes]]
name = "other"
kind = "host"
count = {int(others)}

[[flows]]
name = "others"
from = "other"
to = "{SERVER}"
start = {{ from = "0s", to = "1s" }}
"""
    return f"""name = "wifi"
duration = "60s"
{HOSTS}
[[nodes]]
name = "ap"
kind = "router"
{crowd}
[[links]]
from = "ap"
to = "{SERVER}"
rate = "1Gbit/s"
delay = {_toml(found.get("delay", "5ms"))}

[[wlans]]
name = "wlan"
ap = "ap"
phy = {{ {phy} }}
signal = {{ kind = "snr", snr_db = {snr} }}
stations = ["{CLIENT}"{stations}]
"""


# --- the command line ------------------------------------------------------------------------------------------------


def add(command: Callable[..., Any]) -> None:
    """Registers both commands."""
    sub = command(
        "shell",
        shell,
        "airtcp shell cafe.toml laptop",
        "airtcp shell cafe.toml laptop -- ping server",
        "airtcp shell cafe.toml --on server='iperf3 -s' --on laptop='iperf3 -c server' --for 30s --out runs/real",
        "airtcp shell --line 20Mbit/s,25ms,fifo=100 -- ping server",
        "airtcp shell --wifi n,snr=15,others=5 --internet server -- curl -O https://example.org/file",
        "airtcp shell --virtual --line 20Mbit/s,25ms,fifo=100 --on server='iperf3 -s' --on laptop='iperf3 -c server'",
        "airtcp shell --check",
        more="\nexit codes:\n  the status of the command in front, or of the last --on; 3 invalid: time was not kept;\n"
        "  2 bad input, or the machine does not allow it; 1 other failure; 130 interrupted\n",
    )
    sub.add_argument(
        "words", nargs="*", metavar="FILE HOST", help="scenario file (TOML), and the host that a shell opens on"
    )
    sub.add_argument(
        "--on", action="append", default=[], metavar="HOST='COMMAND'", help="run this there, too; can be repeated"
    )
    sub.add_argument(
        "--real", action="append", default=[], metavar="HOST", help="this host is real, too; can be repeated"
    )
    sub.add_argument("--for", dest="lasts", metavar="T", help="end after this time, such as 30s")
    sub.add_argument("--out", metavar="DIR", help="folder for tables, capture and emu.json; default: none is written")
    sub.add_argument("--predict", metavar="DIR", help="afterwards simulate the scenario's flows for as long, into DIR")
    sub.add_argument("--line", metavar="RATE,DELAY,fifo=N", help="no file: laptop and server, and a line between them")
    sub.add_argument(
        "--wifi", metavar="STANDARD,snr=DB,others=N", help="no file: a WLAN with a laptop and others that upload"
    )
    sub.add_argument("--internet", metavar="HOST", help="this host is the way to the machine's own network, by pasta")
    sub.add_argument(
        "--gate",
        action="append",
        default=[],
        metavar="HOST",
        help="hold back of this station's data what TCP small queues would: for what others feel; can be repeated",
    )
    sub.add_argument(
        "--virtual",
        action="store_true",
        help="hosts are Linux kernels of their own in virtual time: repeatable, however long it takes",
    )
    sub.add_argument(
        "--kernel",
        default="6.12",
        metavar="VERSION",
        help="with --virtual: one that tools/uml/build.py has built, or a file (default: %(default)s)",
    )
    sub.add_argument("--check", action="store_true", help="say what this machine allows, and what would allow the rest")
    sub.add_argument("--seed", type=seed, metavar="N", help="seed of the network; default: the scenario's")
    single_set_option(sub, "change a value of the scenario")
    sub.add_argument("--no-capture", action="store_true", help="with --out: keep no packets")
    snaplen_option(sub, "the capture")
    sub.add_argument("-q", "--quiet", action="store_true", help="say only what should worry")

    sub = command(
        "exec",
        exec_,
        "airtcp exec server -- ss -ti",
        "airtcp exec laptop",
        more="\nexit codes:\n  the status of the command; 2 bad input; 127 no such command\n",
    )
    sub.add_argument("host", metavar="HOST", help="a real host of the running network")
    sub.add_argument("--network", metavar="PID", help="which network, if several have such a host")
