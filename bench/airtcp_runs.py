"""Starts the command `airtcp` and ns-2 as whole processes, measures them, and reads their summaries.

Everything here is standard library and small on purpose: on Linux a child's peak memory is at least what its parent
held when it was started.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import selectors
import shutil
import subprocess
import tempfile
import time
from typing import Any

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parent
AIRTCP = ROOT / ".venv/bin/airtcp"
DUMBBELL_TCL = ROOT / "evidence/ns2/dumbbell.tcl"
NS2_PACKAGE = "ns2"


class BenchError(Exception):
    """A run that should work did not; the message says which and why."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """One process from start to exit."""

    seconds: float
    """Wall time."""
    cpu_seconds: float
    """User and system time, all threads."""
    peak_bytes: int
    """Largest resident set."""
    output: str


def measure(command: list[str], *, timeout: float = 3600) -> Measured:
    """Runs a command to its end.

    Raises:
        BenchError: it cannot be started, fails, or takes longer than `timeout` seconds.
    """
    return wait_all(start_all([command]), timeout=timeout)[0]


def start_all(commands: list[list[str]]) -> list[tuple[subprocess.Popen[bytes], list[str], float, Any, Any]]:
    """Starts commands side by side; their output goes to files, so that no pipe can stall them."""
    running = []
    for command in commands:
        # Closed by `wait_all`.
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        begin = time.perf_counter()
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except OSError as error:
            raise BenchError(f"cannot start {command[0]}: {error.strerror}") from error
        running.append((process, command, begin, out, err))
    return running


def wait_all(
    running: list[tuple[subprocess.Popen[bytes], list[str], float, Any, Any]], *, timeout: float = 3600
) -> list[Measured]:
    """Waits for what `start_all` started; each has its own resource usage, and its wall time ends when it does."""
    results: dict[int, Measured] = {}
    ended: dict[int, tuple[float, int, Any]] = {}
    deadline = time.perf_counter() + timeout
    with selectors.DefaultSelector() as poll:
        for process, _, begin, _, _ in running:
            # A descriptor that becomes readable at the end of the process: no polling, which would blur short times.
            poll.register(os.pidfd_open(process.pid), selectors.EVENT_READ, (process, begin))
        while poll.get_map():
            ready = poll.select(max(0.0, deadline - time.perf_counter()))
            now = time.perf_counter()
            for key, _ in ready:
                process, begin = key.data
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                ended[process.pid] = (now - begin, process.returncode, usage)
                poll.unregister(key.fd)
                os.close(key.fd)
            if not ready:
                late = [key.data[0] for key in poll.get_map().values()]
                for process in late:
                    process.kill()
                    process.wait()
                raise BenchError(f"not done after {timeout:.0f} s: {late[0].args}")
    for process, command, _, out, err in running:
        seconds, code, usage = ended[process.pid]
        out.seek(0)
        err.seek(0)
        text, errors = out.read().decode(), err.read().decode()
        out.close()
        err.close()
        if code != 0:
            raise BenchError(f"{' '.join(command)} ended with {code}: {errors.strip()[-2000:]}")
        results[process.pid] = Measured(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, text)
    return [results[process.pid] for process, *_ in running]


def airtcp_command(
    scenario: pathlib.Path,
    out: pathlib.Path | None,
    *,
    seed: int | None = None,
    duration: str | None = None,
    changes: dict[str, str] | None = None,
) -> list[str]:
    """`airtcp run` on one core, as its peers run, with `--json`, which saves nothing unless told where."""
    command = [str(AIRTCP), "run", str(scenario), "--json", "--threads", "1"]
    if out is not None:
        command += ["--out", str(out)]
    if seed is not None:
        command += ["--seed", str(seed)]
    if duration is not None:
        command += ["--duration", duration]
    for key, value in (changes or {}).items():
        command += ["--set", f"{key}={value}"]
    return command


def ns2_command(**options: str | float) -> list[str]:
    """evidence/ns2/dumbbell.tcl with its options."""
    return ["ns", str(DUMBBELL_TCL)] + [word for key, value in options.items() for word in (f"-{key}", str(value))]


def has_ns2() -> bool:
    return shutil.which("ns") is not None


@dataclasses.dataclass(frozen=True)
class Dumbbell:
    """What both simulators and the kernel reference say about a bottleneck, over the time after the warm-up."""

    utilisation: float
    loss: float
    """Dropped by the queue / arrived at it; losses on the line not counted."""
    sent_packets: int
    mean_queue_packets: float
    mean_rtt_seconds: float
    mean_cwnd_packets: float


# Where the figures stand in the object that `airtcp run --json` prints.
LINK_KEYS = {
    "utilisation": "utilisation",
    "loss": "loss_ratio",
    "sent": "forwarded_packets",
    "queue": "queue_mean_packets",
}


def airtcp_figures(output: str, link: str) -> Dumbbell:
    """Reads the summary of a run with one group of TCP flows. `link` is the bottleneck's direction with the data.

    Raises:
        BenchError: a figure is missing.
    """
    summary = json.loads(output)
    entry = _named(summary, "links", link)
    values = {name: _value(entry, key, f"link {link}") for name, key in LINK_KEYS.items()}
    group = next(g for g in _list(summary, "groups") if g["kind"] == "tcp")
    return Dumbbell(
        values["utilisation"],
        values["loss"] or 0.0,
        values["sent"],
        values["queue"],
        _value(group, "rtt_mean_ms", "the flows") / 1e3,
        _value(group, "cwnd_mean_segments", "the flows"),
    )


def _list(summary: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = summary.get(key)
    if isinstance(entries, dict):
        return [{"name": name, **entry} for name, entry in entries.items()]
    if isinstance(entries, list):
        return entries
    raise BenchError(f"the summary has no {key!r}; it has {sorted(summary)}")


def _named(summary: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    entries = _list(summary, key)
    for entry in entries:
        if name in (entry.get("name"), entry.get("link")):
            return entry
    raise BenchError(f"the summary has no {key} entry {name!r}; it has {[e.get('name') for e in entries][:10]}")


def _value(entry: dict[str, Any], key: str, what: str) -> float:
    if key not in entry:
        raise BenchError(f"{what} of the summary has no {key!r}; it has {sorted(entry)}")
    return entry[key]


def ns2_figures(output: str) -> Dumbbell:
    """Reads what dumbbell.tcl prints."""
    r = json.loads(output)
    nan = float("nan")
    return Dumbbell(
        r["utilisation"],
        r["loss"],
        r["arrived"] - r["dropped"],
        r["mean_queue_packets"],
        nan if r["mean_rtt_seconds"] is None else r["mean_rtt_seconds"],
        nan if r["mean_cwnd_packets"] is None else r["mean_cwnd_packets"],
    )


def dumbbell_toml(
    *,
    flows: int,
    rate: str,
    delay: str,
    access_rate: str,
    access_delay: str,
    limit_packets: int,
    seconds: float,
    warmup: float,
    spread: float,
    profile: str,
    tcp: str = "",
    record_interval: str | None = None,
) -> str:
    """A dumbbell with one host at each end of each flow, as a scenario. Access queues have no limit."""
    record = f'[record]\ninterval = "{record_interval}"\n' if record_interval else ""
    return f"""name = "dumbbell"
duration = "{seconds}s"
warmup = "{warmup}s"

[[nodes]]
name = "left"
kind = "host"
count = {flows}
profile = "{profile}"

[[nodes]]
name = "right"
kind = "host"
count = {flows}
profile = "{profile}"

[[nodes]]
name = "r1"
kind = "router"

[[nodes]]
name = "r2"
kind = "router"

[[links]]
from = "left"
to = "r1"
rate = "{access_rate}"
delay = "{access_delay}"

[[links]]
name = "bottleneck"
from = "r1"
to = "r2"
rate = "{rate}"
delay = "{delay}"
queue = {{ name = "fifo", limit_packets = {limit_packets} }}
reverse = {{ queue = {{ name = "fifo" }} }}

[[links]]
from = "r2"
to = "right"
rate = "{access_rate}"
delay = "{access_delay}"

[[flows]]
name = "flow"
from = "left"
to = "right"
count = {flows}
start = {{ from = "0s", to = "{spread}s" }}
traffic = "unlimited"
tcp = {{ {tcp} }}

{record}"""


BOTTLENECK = "r1->r2"
"""Name of the bottleneck's direction with the data in `dumbbell_toml`."""
