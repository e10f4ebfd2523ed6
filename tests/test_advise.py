"""Advice on scenarios: the catalogue, what a remedy does to a network, the ranking, and the command."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

import airtcp
from airtcp import _airtcp
from airtcp.advice.network import Bottleneck, Network, NotHereError
from airtcp.advice.ranking import AdviseError, catalogue, rule, scene, scenes
from airtcp.catalogue import Catalogue
from airtcp.errors import StudyError, SweepError
from airtcp.package_data import SCENES
from airtcp.scenario_json import seconds
from airtcp.study.files import read
from airtcp.sweeps.definition import Sweep
from conftest import ROOT, Command

Json = dict[str, Any]

NARROW = """
name = "narrow"
duration = "8s"
warmup = "2s"
nodes = [{ name = "server", kind = "host" }, { name = "modem", kind = "router" }, { name = "home", kind = "host" }]
flows = [{ name = "load", from = "server", to = "home" }]

[[links]]
name = "core"
from = "server"
to = "modem"
rate = "1Gbit/s"
delay = "10ms"

[[links]]
name = "line"
from = "modem"
to = "home"
rate = "20Mbit/s"
delay = "1ms"
queue = { name = "fifo", limit_packets = 800 }
"""


def network(text: str) -> Network:
    return Network(json.loads(_airtcp.Checked.from_toml(text.encode(), "x.toml", []).to_json()))


def built_in(name: str) -> Network:
    path = scene(name)
    assert path is not None
    return Network(json.loads(_airtcp.Checked.load(path, []).to_json()))


@pytest.fixture(scope="module")
def known() -> Catalogue:
    return catalogue()


@pytest.fixture
def narrow(tmp_path: Path) -> Path:
    path = tmp_path / "narrow.toml"
    path.write_text(NARROW)
    return path


# --- the catalogue ----------------------------------------------------------------------------------------------------


def test_every_remedy_has_its_cost_and_its_commands(known: Catalogue) -> None:
    costs = rule().costs
    for name in known:
        assert set(known[name].changes) <= set(costs), name
        assert known[name].changes, name
        for one in known.alone(name):
            assert one.how, name
            assert one.set or one.line, name
            assert bool(one.commands) == one.is_released, f"{name}: what is released has commands"


def test_another_radio_has_the_aggregation_of_its_preset(known: Catalogue) -> None:
    preset = airtcp.access_point("mt76")
    drivers = [name for name in known if (t := known[name].set.get("wlans.*.ap_radio.transmit")) and "mt76" in str(t)]
    assert len(drivers) == 2
    for name in drivers:
        found = {key.rpartition(".")[2]: known[name].set[key] for key in known[name].set if ".aggregation." in key}
        assert found == preset["aggregation"], name


def test_the_study_has_its_variants_and_rows_from_it(known: Catalogue) -> None:
    study = read(ROOT / "studies/remedies")
    (matrix,) = study.matrices
    rows = {row.variant: row for group in matrix.groups for row in group.rows}
    assert rows["today + RTS"].how == rows["RTS"].how == known["RTS"].how
    assert rows["today + EFR"].text == "in place of RACK", "what a row says itself counts"
    cafe = next(one for one in study.experiments if one.id == "cafe")
    variants = {variant.name: variant.changes for variant in cafe.sweep.variant_list}
    assert variants["BBR"] == known["BBR"].set
    assert variants["today + BBR"] == {**known["today"].set, **known["BBR"].set}
    assert variants["plain"] == {}


def test_a_sweep_anywhere_names_files_of_airtcp_itself(tmp_path: Path) -> None:
    sweep = tmp_path / "mine.toml"
    rest = '[measures]\nrtt = "groups.call.rtt_mean_ms"\n'
    sweep.write_text(f'scenario = "airtcp:scenes/cafe.toml"\n{rest}')
    assert Sweep.load(sweep).variant_list[0].scenario == SCENES / "cafe.toml"
    for name in ("airtcp:../ranking.py", "airtcp:/etc/passwd", "airtcp:scenes/../../ranking.py"):
        sweep.write_text(f'scenario = "{name}"\n{rest}')
        with pytest.raises(SweepError, match="leads out of"):
            Sweep.load(sweep)


def test_a_matrix_has_its_rule_here_or_in_a_file(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ROOT / "studies/remedies", tmp_path / "remedies"))
    file = folder / "study.toml"
    text = file.read_text()
    for line, told in (
        ('rule = "airtcp:rule.toml"\nmargin = 2', "`margin` as well: use either, not both"),
        ('rule = "airtcp:rules.toml"', "rules.toml"),
        ("", "must hold at least one measure, or `rule` must name a file of measures"),
    ):
        file.write_text(text.replace('rule = "airtcp:rule.toml"', line))
        with pytest.raises(StudyError, match=re.escape(told)):
            read(folder)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[remedies]]\nname = "a"\nset = {}\n[[remedies]]\nname = "a"\n', ["remedies[1].name", "twice"]),
        ('[[remedies]]\nname = "a"\nparts = ["b"]\n', ["remedies[0].parts[0]", "no remedy before it"]),
        ('[[remedies]]\nname = "a"\nneeds = ["luck"]\n', ["needs", "luck"]),
        ("remedies = []\n", ["remedies"]),
    ],
)
def test_a_wrong_catalogue_is_told(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "catalogue.toml"
    path.write_text(text)
    with pytest.raises(StudyError) as told:
        Catalogue.load(path, StudyError)
    for word in ["catalogue.toml", *words]:
        assert word in str(told.value)


def test_a_variant_of_an_unknown_remedy_is_told(tmp_path: Path) -> None:
    (tmp_path / "catalogue.toml").write_text('[[remedies]]\nname = "pacing"\n')
    (tmp_path / "variants.toml").write_text(
        'catalogue = "catalogue.toml"\n[[variants]]\nname = "a"\nremedies = ["pacin"]\n'
    )
    with pytest.raises(SweepError, match=r"variants\[0\].remedies\[0\].*pacin.*did you mean.*pacing"):
        Sweep(
            name="s",
            scenario=tomllib.loads(NARROW),
            variants="variants.toml",
            measures={"u": "links.line.utilisation"},
            path=tmp_path / "s.toml",
        )


# --- a remedy on a network --------------------------------------------------------------------------------------------


def test_a_remedy_of_tcp_is_put_on_those_that_send(known: Catalogue) -> None:
    cafe = built_in("cafe")
    with_bbr, changes = cafe.with_remedy(known, "BBR", None)
    assert changes == ("one host", "servers"), "of twelve hosts on the air one sends"
    profiles = {node["name"]: node.get("profile") for node in with_bbr.document["nodes"]}
    assert profiles["guests"] == "user", "they only receive"
    assert with_bbr.document["profiles"][profiles["uploader"]] == {"base": "linux-3.13-no-tsq", "cc": "bbr"}


def test_what_is_there_already_is_not_tried(known: Catalogue) -> None:
    today, _ = built_in("cafe").with_remedy(known, "today", None)
    for name in ("today", "FQ-CoDel", "FQ-CoDel at the AP", "TSQ", "RACK", "CoDel"):
        with pytest.raises(NotHereError):
            today.with_remedy(known, name, None)


def test_a_flow_that_names_an_option_itself_gets_the_remedy(known: Catalogue) -> None:
    own = network(NARROW.replace('to = "home" }]', 'to = "home", tcp = { cc = "reno", pacing = "linux" } }]'))
    with_bbr, changes = own.with_remedy(known, "BBR", None)
    assert with_bbr.document["flows"][0]["tcp"] == {"pacing": "linux"}
    assert changes == ("one host",)


def test_a_wired_remedy_changes_one_direction_and_sqm_both(known: Catalogue) -> None:
    home = built_in("home")
    line = Bottleneck(1, False, "modem->server", 10e6, 200.0, 40.0, "modem")
    red, changes = home.with_remedy(known, "RED", line)
    assert changes == ("router setting",)
    entry = red.document["links"][1]
    assert (entry["queue"]["name"], entry["reverse"]["queue"]["name"]) == ("red", "fifo")
    sqm, _ = home.with_remedy(known, "SQM", line)
    entry = sqm.document["links"][1]
    assert (entry["rate"], entry["reverse"]["rate"]) == ("9500000bit/s", "47500000bit/s")
    assert entry["queue"] == entry["reverse"]["queue"] == "fq_codel"
    back, _ = home.with_remedy(known, "SQM", Bottleneck(1, True, "server->modem", 50e6, 90.0, 40.0, "server"))
    assert back.document["links"][1] == entry, "whichever direction holds the queue"
    with pytest.raises(NotHereError, match="no wired line"):
        home.with_remedy(known, "SQM", None)


def test_a_shaper_for_a_line_that_varies_is_a_router_before_it(known: Catalogue) -> None:
    lte = built_in("lte")
    line = Bottleneck(1, False, "modem->server", 6e6, 300.0, 90.0, "modem")
    half, changes = lte.with_remedy(known, "CAKE at half", line)
    assert changes == ("router setting",)
    entry, shaper = half.document["links"][1], half.document["links"][-1]
    assert entry["rate_trace"] == lte.document["links"][1]["rate_trace"]
    assert entry["queue"] == lte.document["links"][1]["queue"]
    assert (entry["name"], entry["from"], entry["to"]) == ("line", "shaper", "server")
    assert (shaper["from"], shaper["to"], shaper["queue"]) == ("modem", "shaper", "cake")
    assert (shaper["rate"], shaper["reverse"]["rate"]) == ("3000000bit/s", "6500000bit/s")
    # A queue at the line itself needs no rate, and no router.
    there, _ = lte.with_remedy(known, "FQ-CoDel at the router", line)
    assert there.document["links"][1]["queue"]["name"] == "fq_codel"
    assert len(there.document["links"]) == len(lte.document["links"])
    with pytest.raises(NotHereError, match="no line has a rate that varies"):
        built_in("home").with_remedy(known, "CAKE at half", line)


def test_the_traces_of_the_lte_scene_are_those_of_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    lte_trace = importlib.import_module("lte_trace")
    line = tomllib.loads((SCENES / "lte.toml").read_text())["links"][1]
    for side, mean, seed in ((line, 6.0, 5), (line["reverse"], 13.0, 3)):
        made = tomllib.loads(f"points = {lte_trace.points(mean, 30.0, seed)}")["points"]
        assert side["rate_trace"]["points"] == made
        rates = lte_trace.rates(mean, 30.0, seed)
        assert abs(sum(rates) / len(rates) - mean) < 0.01


def test_every_remedy_gives_a_valid_scenario_in_every_scene(known: Catalogue) -> None:
    line = Bottleneck(0, False, "", 10e6, 200.0, 40.0, "ap")
    tried = dict.fromkeys(known, 0)
    for name in scenes():
        scenery = built_in(name)
        for remedy in known:
            try:
                other, _ = scenery.with_remedy(known, remedy, line)
            except NotHereError:
                continue
            tried[remedy] += 1
            if remedy == "TCP-AV":
                continue  # its target is a parameter of the study
            _airtcp.Checked.from_json(json.dumps(other.document), f"{name}: {remedy}", [])
    assert [remedy for remedy, count in tried.items() if not count and not known[remedy].needs] == []


def test_a_span_of_a_scenario_is_read() -> None:
    assert [seconds(one) for one in ("20s", "1100ms", "2min", "0ns")] == [20, 1.1, 120, 0]


# --- the ranking ------------------------------------------------------------------------------------------------------


def test_behind_a_long_queue_a_shaper_is_advised(narrow: Path) -> None:
    advice = airtcp.advise(narrow, seeds=3)
    assert advice.outcome == "remedy"
    best = advice.best
    assert best is not None
    assert best.changes == ("router setting",)
    before, after = advice.base["latency"].mean(), best.values["latency"].mean()
    assert before > 200, "800 packets at 20 Mbit/s are half a second"
    assert after < before / 4
    gain = advice.gain(best.remedy.name)
    assert gain.low is not None
    assert gain.low > 1.25
    shaper = advice.tried["SQM"].commands[0]["run"][0]
    assert "bandwidth 19000kbit" in shaper, "95 % of the line"
    assert "FQ-CoDel at the AP" in advice.left_out


def test_where_nothing_needs_mending_it_says_so(narrow: Path) -> None:
    fine = {"links.line.queue": "fq_codel"}
    advice = airtcp.advise(narrow, set=fine, seeds=3)
    assert advice.outcome == "fine", advice.to_dict()["advice"]


def test_what_cannot_be_advised_on_is_told(narrow: Path) -> None:
    with pytest.raises(AdviseError, match="nothing to advise on"):
        airtcp.advise(narrow, set={"flows.load.traffic": {"kind": "cbr", "rate": "1Mbit/s"}})
    with pytest.raises(AdviseError, match=r"no remedy is called 'BRB'.*BBR"):
        airtcp.advise(narrow, present=["BRB"])
    with pytest.raises(AdviseError, match="SQM"):
        airtcp.advise(narrow, present=["SQM"])


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_advice_with_commands_and_writes_a_page(
    airtcp: Command, narrow: Path, tmp_path: Path
) -> None:
    done = airtcp("advise", narrow, "--seeds", "3", "--duration", "6s", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "Who changes what: router setting." in done.stdout
    assert "tc qdisc replace dev eth0 root" in done.stdout
    assert "Not considered" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    page = (tmp_path / "out/report.html").read_text()
    assert "Remedies tried" in page
    advised = tomllib.loads((tmp_path / "out/advised.toml").read_text())
    assert advised["duration"] == "6s"
    again = airtcp("run", tmp_path / "out/advised.toml", "--json")
    assert again.returncode == 0, again.stderr


def test_the_command_prints_json_alone(airtcp: Command, narrow: Path, tmp_path: Path) -> None:
    done = airtcp("advise", "--seeds", "2", "--json", "--set", "duration=4s", narrow)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["scenario"] == "narrow"
    assert told["outcome"] in ("remedy", "open", "fine", "nothing")
    assert {one["remedy"] for one in told["advice"] + told["tried"]} >= {"SQM", "BBR"}
    assert list((tmp_path / "cwd").iterdir()) == [], "a folder is written only where --out says so"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], ["SCENARIO is missing"]),
        (["cafee"], ["cafee", "did you mean", "cafe"]),
        (["home", "--with", "luck"], ["luck"]),
        (["home", "--seeds", "0"], ["--seeds"]),
        (["home", "--set", "links.line.rat=1Mbit/s"], ["rat", "did you mean `rate`"]),
        (["home", "--out", "x", "--no-save"], ["--out", "--no-save"]),
    ],
)
def test_bad_input_is_2(airtcp: Command, args: list[str], words: list[str]) -> None:
    done = airtcp("advise", *args)
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_scenes_are_listed(airtcp: Command) -> None:
    done = airtcp("advise", "--scenes")
    assert done.stdout.splitlines() == scenes()
    assert {"cafe", "home", "edge"} <= set(scenes())
