"""Runs whose hosts are Linux kernels in virtual time: a variant with `engine = "kernel"`.

The ends of the scenario's flows become kernels (`airtcp shell --virtual`), and a program in each guest does what its
flow does. All else of the scenario is simulated. What comes out has the form of a simulated run, and the same measures.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airtcp import _airtcp, realtime
from airtcp._marker import sha256_of
from airtcp.errors import RunError

if TYPE_CHECKING:
    import polars as pl

Json = dict[str, Any]

PORT: Final = 5001
"""Port of the first flow; each has its own."""

TICK_S: Final = 0.1
"""Seconds of wall time after which a run looks whether it is to be given up."""

TRAFFIC: Final = ("unlimited", "ping")
"""Kinds of traffic that the program of a guest makes."""
PROGRAM: Final = Path(__file__).with_name("guest_flow.py")
"""The program of the guests, which see the machine's files."""

SAID: Final = "airtcp-flow "


@dataclass(frozen=True)
class Kernel:
    """A kernel as runs name it."""

    place: str
    """Its file."""
    name: str
    """Version and the beginning of the file's SHA-256."""


@cache
def kernel(version: str, option: str | None = None) -> Kernel:
    """The kernel of a variant.

    Args:
        version: what the variant names.
        option: a version or a file of the command line, in place of it.

    Raises:
        RunError: it is not there.
    """
    guests = realtime.built(version) if option is None else realtime.kernel(option)
    return Kernel(str(guests.kernel), f"linux-{guests.name}-{_digest(guests.kernel)}")


def _digest(place: Path) -> str:
    try:
        return sha256_of(place)[:12]
    except OSError as error:
        raise RunError(f"{place}: cannot be read: {error.strerror}") from error


def engine(kernel: Kernel | None) -> str:
    """The name in journals of whatever carries out a run."""
    return _airtcp.engine() if kernel is None else f"{_airtcp.engine()}+{kernel.name}"


def fault(scenario: Mapping[str, Any]) -> str | None:
    """Why kernels cannot carry out a scenario; `None`: they can."""
    single = {node["name"] for node in scenario["nodes"] if node["kind"] == "host" and node.get("count", 1) == 1}
    for flow in scenario["flows"]:
        kind = flow["traffic"]["kind"]
        name = flow.get("name", "")
        if kind not in TRAFFIC:
            return f'flow "{name}": kernels carry traffic of the kinds {" and ".join(TRAFFIC)}, not {kind}'
        if not {flow["from"], flow["to"]} <= single:
            return f'flow "{name}": with engine = "kernel" each end must be one host, without a count'
        if not isinstance(flow.get("start", "0s"), str) or flow.get("stop") is not None:
            return f'flow "{name}": with engine = "kernel" it starts at a fixed time and goes on to the end'
    if not scenario["flows"]:
        return 'engine = "kernel" needs a flow'
    return None


@dataclass(frozen=True)
class KernelOutput:
    """A run of kernels, as `airtcp.tasks.measures.take` asks for it."""

    summary: str
    meanings: Mapping[str, Mapping[str, str]]
    tables: Mapping[str, Mapping[str, Any]]


def run(text: str, kernel: Kernel, is_stopped: Callable[[], bool] = lambda: False) -> KernelOutput | None:
    """Carries out a run.

    Args:
        text: the resolved scenario, as JSON.
        kernel: of its hosts.
        is_stopped: asked about ten times a second; when it says so, the run is given up.

    Raises:
        RunError: it failed.
    """
    if not kernel.name.endswith(_digest(Path(kernel.place))):
        raise RunError(f"{kernel.place}: is no more the kernel that was planned, {kernel.name}: start again")
    checked = _airtcp.Checked.from_json(text, "scenario", [])
    scenario: Json = json.loads(checked.to_json())
    duration, warmup = seconds(scenario["duration"]), seconds(scenario["warmup"])
    with tempfile.TemporaryDirectory(prefix="airtcp-kernel-") as folder:
        work = Path(folder)
        commands = []
        for number, flow in enumerate(scenario["flows"]):
            for what, host, peer, parameter in _parts(flow):
                times = [repr(seconds(flow.get("start", "0s"))), repr(warmup), repr(duration)]
                argv = [sys.executable, str(PROGRAM), what, str(number), str(PORT + number), peer, parameter, *times]
                commands.append(realtime.Command(host, argv))
        guests = realtime.Guests(Path(kernel.place), kernel.name)
        plan = realtime.SessionPlan(
            checked, "scenario", commands, for_s=duration, quiet=True, capture=False, guests=guests
        )
        said = _wait(plan, work, is_stopped)
        if said is None:
            return None
        output = json.loads((work / "output.json").read_bytes())
        frames = realtime.frames(work)
    told: dict[int, Json] = {}
    for line in said.splitlines():
        if SAID in line:
            values = json.loads(line.partition(SAID)[2])
            told.setdefault(values["flow"], {}).update(values)
    rows = [
        _row(number, flow, told.get(number, {}), duration - warmup) for number, flow in enumerate(scenario["flows"])
    ]
    summary = output["summary"]
    summary["groups"] = _groups(summary["groups"], rows)
    frames["flows"] = _flows(frames["flows"], rows)
    meanings = {name: about["columns"] for name, about in output["meanings"].items() if name in frames}
    tables = {name: {series.name: series for series in table} for name, table in frames.items()}
    return KernelOutput(json.dumps(summary), meanings, tables)


def _parts(flow: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """The programs of a flow: what each does, its host, the other one, and a parameter."""
    here, there = flow["from"], flow["to"]
    if flow["traffic"]["kind"] == "ping":
        # Less the headers of IPv4 and ICMP.
        size = flow["traffic"]["packet_bytes"] - 28
        return [("ping", here, there, f"{seconds(flow['traffic']['interval'])},{size}")]
    cc = (flow.get("tcp") or {}).get("cc", "cubic")
    return [("hear", there, here, ""), ("say", here, there, cc if isinstance(cc, str) else cc["name"])]


def _wait(plan: realtime.SessionPlan, work: Path, is_stopped: Callable[[], bool]) -> str | None:
    """The words of the programs; `None`: it was given up."""
    with (work / "said").open("w+b") as said, (work / "errors").open("w+b") as errors:
        record = {"folder": str(work), "capture": None, "snaplen": 0}
        child = realtime.begin(plan, record, stdout=said, stderr=errors)
        try:
            while child.poll() is None:
                if is_stopped():
                    return None
                time.sleep(TICK_S)
        finally:
            child.kill()
            child.wait()
        said.seek(0)
        errors.seek(0)
        text, why = said.read().decode(errors="replace"), errors.read().decode(errors="replace").strip()
    if child.returncode or not (work / "output.json").exists():
        raise RunError(f"kernels: exit code {child.returncode}: {why or text.strip()}")
    failed = [line for line in text.splitlines() if "Error" in line]
    if failed:
        raise RunError(f"kernels: {failed[0]}")
    return text


def _row(number: int, flow: Mapping[str, Any], told: Mapping[str, Any], counted_s: float) -> Json:
    kind = "ping" if flow["traffic"]["kind"] == "ping" else "tcp"
    rtts = told.get("rtts") or []
    received, sent, again = told.get("received"), told.get("sent", 0), told.get("again", 0)
    goodput = None if received is None else received * 8 / counted_s
    cc = (flow.get("tcp") or {}).get("cc", "cubic") if kind == "tcp" else ""
    return {
        "flow": number,
        "name": flow["name"],
        "group": flow.get("group") or flow["name"],
        "kind": kind,
        "cc": cc if isinstance(cc, str) else cc["name"],
        "start_s": seconds(flow.get("start", "0s")),
        "goodput_bps": goodput,
        "delivered_bps": goodput,
        "bytes_acked": received or 0,
        "segments_sent": sent,
        "segments_retransmitted": again,
        "retransmission_ratio": again / sent if sent and kind == "tcp" else None,
        # A kernel tells the smoothed round trip of TCP only.
        "rtt_mean_ms": _mean(rtts) if kind == "ping" else None,
        "srtt_mean_ms": _mean(rtts) if kind == "tcp" else None,
        "rtt_min_ms": told.get("rtt_min") if kind == "tcp" else min(rtts, default=None),
        "rtt_max_ms": max(rtts) if rtts and kind == "ping" else None,
    }


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _groups(groups: list[Json], rows: list[Json]) -> list[Json]:
    """Groups of the summary: the simulated ones, and those of the programs."""
    like = next((group for group in groups if group["kind"] == "external"), None)
    if like is None:
        raise RunError("kernels: the network has no real hosts")
    empty = dict.fromkeys(like)
    of_flow = dict.fromkeys([*like["flows"][0], "srtt_mean_ms"]) if like["flows"] else {}
    out = [group for group in groups if group["kind"] != "external"]
    for name in dict.fromkeys(row["group"] for row in rows):
        own = [row for row in rows if row["group"] == name]
        goodputs = [row["goodput_bps"] for row in own if row["goodput_bps"] is not None]
        total = sum(goodputs) if goodputs else None
        sent, again = (sum(row[key] for row in own) for key in ("segments_sent", "segments_retransmitted"))
        squares = sum(rate * rate for rate in goodputs)
        out.append(
            empty
            | {"group": name, "kind": own[0]["kind"], "cc": own[0]["cc"], "flow_count": len(own)}
            | {"goodput_bps": total, "delivered_bps": total, "segments_sent": sent, "segments_retransmitted": again}
            | {"jain": total * total / (len(goodputs) * squares) if total and squares else None}
            | {"retransmission_ratio": again / sent if sent and own[0]["kind"] == "tcp" else None}
            | {key: _mean([row[key] for row in own if row[key] is not None]) for key in ("rtt_mean_ms", "srtt_mean_ms")}
            | {"flows": [of_flow | {key: row[key] for key in row if key in of_flow} for row in own]}
        )
    return out


def _flows(table: pl.DataFrame, rows: list[Json]) -> pl.DataFrame:
    import polars as pl

    own = pl.DataFrame([{name: row.get(name) for name in table.columns} for row in rows], schema=table.schema)
    return pl.concat([table.filter(pl.col("kind") != "external"), own])


def seconds(span: str) -> float:
    """A duration as the resolved scenario writes it."""
    number, unit = re.fullmatch(r"([0-9.]+)([a-z]+)", span).groups()  # type: ignore[union-attr]
    return float(number) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}[unit]
