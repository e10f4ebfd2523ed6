"""Lists of names in Python, held to the registry: a name that is new there fails a test here until the list has it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from airtcp import _airtcp, completion
from airtcp.access_points import access_points
from airtcp.advice import twin
from airtcp.analysis.results import POLICIES
from airtcp.cli.commands import host
from airtcp.cli.parser import command_line
from airtcp.execution import Execution
from airtcp.report import network, signal_texts
from airtcp.tasks import kernels
from airtcp.traffic_kinds import BULK, ONE_WAY_PROBES, PROBES, TCP, TIMED, WITHOUT_MEASURE
from conftest import ROOT

NAMES = _airtcp.names()
SCHEMA: dict[str, Any] = json.loads(_airtcp.schema())


def summary_of(kind: str) -> dict[str, Any]:
    """The group of a flow of that kind in a short run."""
    keys = next(
        option
        for part in SCHEMA["$defs"]["Traffic"]["anyOf"]
        for option in part.get("oneOf", [])
        if option["properties"]["kind"]["const"] == kind
    )
    values = {"bytes": '"10kB"', "rate": '"1Mbit/s"', "interval": '"20ms"', "packet_bytes": "200", "count": "5"}
    needed = "".join(f", {key} = {values[key]}" for key in keys["required"] if key != "kind")
    text = f"""
name = "{kind}"
duration = "2s"
nodes = [{{ name = "a", kind = "host" }}, {{ name = "b", kind = "host" }}]
links = [{{ from = "a", to = "b", rate = "10Mbit/s", delay = "1ms", queue = {{ name = "fifo", limit_packets = 99 }} }}]
flows = [{{ name = "f", from = "a", to = "b", traffic = {{ kind = "{kind}"{needed} }} }}]
"""
    execution = Execution(_airtcp.Checked.from_toml(text.encode(), "x.toml", []))
    while not execution.is_over:
        execution.advance()
    group: dict[str, Any] = execution.summary()["groups"][0]
    return group


def test_every_kind_of_traffic_is_scored_or_named_as_without_a_measure() -> None:
    assert sorted({*TCP, *PROBES, *WITHOUT_MEASURE}) == sorted(NAMES["traffic"])
    assert len(TCP) + len(PROBES) + len(WITHOUT_MEASURE) == len(NAMES["traffic"])
    assert {*BULK, *TIMED} == {*TCP}
    assert {*ONE_WAY_PROBES, "ping"} == {*PROBES}
    assert {*kernels.TRAFFIC} <= {*NAMES["traffic"]}


@pytest.mark.parametrize("kind", NAMES["traffic"])
def test_applications_on_tcp_are_those_of_the_engine(kind: str) -> None:
    assert (summary_of(kind)["kind"] == "tcp") == (kind in TCP)


def test_the_picture_of_a_network_has_words_for_all_policies() -> None:
    assert sorted(network.QUEUE_TITLES) == sorted(NAMES["queue"])
    assert sorted(network.TRANSMIT_QUEUES) == sorted(NAMES["transmit"])
    assert sorted(signal_texts.SIGNAL_TEXTS) == sorted(NAMES["signal"])
    standards = [option["const"] for option in SCHEMA["$defs"]["Standard"]["oneOf"]]
    assert sorted((*network.WIDE_STANDARDS, *network.NARROW_STANDARDS)) == sorted(standards)


def test_the_search_for_a_twin_tries_names_of_the_registry() -> None:
    assert {*twin.QUEUES} <= {*NAMES["queue"]}
    assert {*twin.CONTROLS} <= {*NAMES["cc"]}
    assert {one["standard"] for one in twin.RADIOS.values()} <= {*network.WIDE_STANDARDS}


def test_policies_of_captures_are_those_of_the_engine() -> None:
    columns = [column for column, _ in _airtcp.Analysis.columns()["timeouts"]]
    assert [column.removesuffix("_at_s") for column in columns if column.endswith("_at_s")] == [*POLICIES]
    assert {*POLICIES} <= {*NAMES["loss"]}


@pytest.mark.parametrize("command", ["run", "check", "sweep", "advise"])
def test_the_help_of_ap_names_every_access_point(command: str) -> None:
    parser = command_line(command)
    assert parser.commands is not None
    text = " ".join(parser.commands.choices[command].format_help().split())
    assert f"radio of all access points: {', '.join(access_points())} (docs/wifi.md)" in text


def test_completion_offers_the_standards_of_the_schema() -> None:
    assert completion._values("wlans.wlan.phy.standard", "n") == ["n", "b", "a", "g", "ac", "wavelan"]
    assert {*completion.BY_KEY.values()} <= {*NAMES}


def test_the_help_of_host_names_the_commands_of_airtcp_host() -> None:
    source = (ROOT / "crates/host/src/commands.rs").read_text()
    listed = re.findall(r'^ +\("([a-z]+)", false\) =>', source, re.MULTILINE)
    assert {*listed} == {*host.COMMANDS}
