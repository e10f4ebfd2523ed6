"""Sweeps: from a file to runs, what is wrong with one, what is measured."""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import airtcp
from airtcp import Sweep, SweepError, SweepResults, _airtcp
from airtcp._airtcp import Document
from airtcp.scenario import Flow, Link, Node, Scenario, Transfer
from airtcp.sweeps.definition import Range
from airtcp.sweeps.planning import plan
from airtcp.tasks import measures
from airtcp.tasks.task import key_of
from sample_sweep import FILE, TINY, same, scenarios, tiny

# --- from a file to points --------------------------------------------------------------------------------------------


def test_a_grid_has_every_combination_in_order(file: Path) -> None:
    planned = plan(file)
    points = [(p.parameters["rate"], p.parameters["loss"], p.seed) for p in planned.points]
    assert points == [(rate, loss, seed) for rate in (2, 5) for loss in (0.0, 0.01, 0.02) for seed in (1, 2)]
    assert [(s["links"][0]["rate"], s["links"][0]["loss"], s["seed"]) for s in scenarios(planned)] == [
        (f"{rate}Mbit/s", loss, seed) for rate, loss, seed in points
    ]
    assert planned.parameters == planned.varied == ("rate", "loss")


axes = st.dictionaries(
    st.from_regex(r"[a-z]{1,3}_", fullmatch=True),
    st.lists(st.integers(1, 1000), min_size=1, max_size=4, unique=True) | st.integers(1, 5),
    max_size=4,
)


@settings(deadline=None)
@given(axes, st.integers(1, 3))
def test_the_size_of_a_grid_is_the_product_of_its_lists(parameters: dict[str, Any], seeds: int) -> None:
    total = "0" + "".join(f" + {name}" for name in parameters)
    planned = plan(tiny(parameters=parameters, set={"links.line.queue.limit_packets": f"{{1 + {total}}}"}, seeds=seeds))
    sizes = [len(values) if isinstance(values, list) else 1 for values in parameters.values()]
    assert len(planned.points) == math.prod(sizes) * seeds
    limits = [scenario["links"][0]["queue"]["limit_packets"] for scenario in scenarios(planned)]
    assert limits == [1 + sum(int(v) for v in point.parameters.values()) for point in planned.points]


def test_a_list_takes_the_ith_value_of_each() -> None:
    planned = plan(
        tiny(
            mode="list", parameters={"n": [1, 2, 3], "d": [4, 5, 6], "c": 7}, set={"links.line.delay": "{n * d + c}ms"}
        )
    )
    assert [s["links"][0]["delay"] for s in scenarios(planned)] == ["11ms", "17ms", "25ms"]
    with pytest.raises(SweepError, match=r"equally long \(n: 3, d: 2\)"):
        tiny(mode="list", parameters={"n": [1, 2, 3], "d": [4, 5]}, set={"links.line.delay": "{n * d}ms"})


def test_random_samples_are_reproducible_and_extend() -> None:
    def draw(**changes: Any) -> list[dict[str, Any]]:
        given: dict[str, Any] = {
            "mode": "random",
            "samples": 20,
            "parameters": {"x": {"from": 1e-4, "to": 1e-2, "scale": "log"}, "n": {"from": 5, "to": 9, "whole": True}},
            "set": {"links.line.loss": "{x}", "links.line.queue.limit_packets": "{n}"},
        }
        return [dict(point.parameters) for point in plan(tiny(**{**given, **changes})).points]

    first = draw()
    assert first == draw()
    assert first != draw(sample_seed=2)
    assert draw(samples=30)[:20] == first, "more samples keep those that were there"
    more = {**tiny_parameters(), "rate": [1, 2, 3]}
    wider = draw(parameters=more, set={"links.line.loss": "{x}", "links.line.queue.limit_packets": "{n * rate}"})
    assert [(p["x"], p["n"]) for p in wider] == [(p["x"], p["n"]) for p in first], "so does one more parameter"
    assert {p["rate"] for p in wider} == {1, 2, 3}
    assert {p["n"] for p in first} <= {5, 6, 7, 8, 9}


def tiny_parameters() -> dict[str, Any]:
    return {"x": {"from": 1e-4, "to": 1e-2, "scale": "log"}, "n": {"from": 5, "to": 9, "whole": True}}


@given(
    st.floats(1e-6, 1e6),
    st.floats(1e-6, 1e6),
    st.sampled_from(["linear", "log"]),
    st.floats(0, 1, exclude_max=True),
)
def test_ranges_stay_within_their_ends(a: float, b: float, scale: Any, u: float) -> None:
    low, high = sorted((a, b))
    assert low <= float(Range(low, high, scale).at(u)) <= high * (1 + 1e-12)
    whole = Range(math.ceil(low), math.ceil(low) + 5, scale, whole=True).at(u)
    assert whole in range(math.ceil(low), math.ceil(low) + 6)


def test_whole_ranges_reach_both_ends_alike() -> None:
    drawn = Counter(Range(1, 4, "linear", whole=True).at(i / 1000) for i in range(1000))
    assert drawn == {1: 250, 2: 250, 3: 250, 4: 250}


def test_variants_cross_the_parameters() -> None:
    other = {**TINY, "duration": "100ms"}
    planned = plan(
        tiny(
            parameters={"q": [5, 10, 20], "f": 2},
            set={"links.line.queue.limit_packets": "{q * f}"},
            variants=[
                {"name": "all"},
                {"name": "one", "only": {"q": 10}, "set": {"links.line.delay": "{q}ms"}},
                {"name": "wins", "parameters": {"f": 1}, "scenario": other, "only": {"q": [5, 20]}},
                {"name": "pins", "parameters": {"q": 7}, "set": {"links.line.queue.limit_packets": 3}},
            ],
        )
    )
    rows = [
        (p.variant, p.parameters["q"], s["links"][0]["queue"]["limit_packets"], s["links"][0]["delay"], s["duration"])
        for p, s in zip(planned.points, scenarios(planned), strict=True)
    ]
    assert rows == [
        ("all", 5, 10, "5ms", "300ms"),
        ("all", 10, 20, "5ms", "300ms"),
        ("all", 20, 40, "5ms", "300ms"),
        ("one", 10, 20, "10ms", "300ms"),
        ("wins", 5, 5, "5ms", "100ms"),
        ("wins", 20, 20, "5ms", "100ms"),
        ("pins", 7, 3, "5ms", "300ms"),
    ]


def test_a_place_of_the_scenario_can_be_a_parameter() -> None:
    planned = plan(tiny(parameters={"links.line.rate": ["1Mbit/s", "2Mbit/s"], "duration": ["100ms", "200ms"]}))
    assert [(s["links"][0]["rate"], s["duration"]) for s in scenarios(planned)] == [
        (rate, duration) for rate in ("1Mbit/s", "2Mbit/s") for duration in ("100ms", "200ms")
    ]


def test_tables_and_lists_can_hold_templates() -> None:
    planned = plan(
        tiny(
            parameters={"q": [3], "who": "fifo"},
            set={"links.line.queue": {"name": "{who}", "limit_packets": "{q}"}, "record.links": ["{'li' + 'ne'}"]},
        )
    )
    (scenario,) = scenarios(planned)
    assert scenario["links"][0]["queue"]["limit_packets"] == 3
    assert scenario["record"]["links"] == ["line"]


def test_quick_and_full_override(file: Path) -> None:
    file.write_text(
        FILE.replace("[set]", '[quick]\nseeds = 1\nparameters = { rate = 2 }\nset = { duration = "50ms" }\n[set]')
        + "[full]\nparameters = { loss = [0.5] }\nseeds = [4, 9]\n"
    )
    assert len(plan(file).points) == 12
    quick = plan(file, quick=True)
    assert len(quick.points) == 3
    assert {s["duration"] for s in scenarios(quick)} == {"50ms"}
    full = plan(file, full=True)
    assert {p.seed for p in full.points} == {4, 9}
    assert {p.parameters["loss"] for p in full.points} == {0.5}
    assert len(plan(file, quick=True, seeds=4, set={"rate": [1, 2, 3, 4]}).points) == 4 * 3 * 4


def test_quick_narrows_what_a_variant_is_for() -> None:
    sweep = tiny(
        parameters={"q": [5, 10]},
        set={"links.line.queue.limit_packets": "{q}"},
        variants=[{"name": "all"}, {"name": "some", "only": {"q": [10]}}],
        quick={"parameters": {"q": [5]}},
    )
    assert [p.variant for p in plan(sweep).points] == ["all", "all", "some"]
    assert [p.variant for p in plan(sweep, quick=True).points] == ["all"]


# --- identity ---------------------------------------------------------------------------------------------------------


def test_a_run_is_its_scenario_seed_and_engine() -> None:
    scenario = json.loads(_airtcp.Checked.from_json(json.dumps(TINY), "x", []).to_json())
    key = key_of(scenario, "1")
    assert key_of({**scenario, "name": "other", "description": "words"}, "1") == key
    assert key_of(dict(reversed(scenario.items())), "1") == key
    different = [
        key_of({**scenario, "seed": 2}, "1"),
        key_of(scenario, "2"),
        key_of({**scenario, "warmup": "1ms"}, "1"),
    ]
    assert len({key, *different}) == 4


def test_an_answer_is_known_by_its_query_and_by_what_answers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    extract = measures.Extract("x", "sql", "SELECT 1")
    before = extract.id
    assert measures.Extract("y", "sql", "SELECT 1").id == before
    assert measures.measures_version().startswith(f"polars-{pl.__version__}-")
    monkeypatch.setattr(measures, "measures_version", lambda: "polars-0.1-0123456789ab")
    assert extract.id != before
    # A value of the summary is the engine's, whose name is in the key of the run.
    assert measures.Extract("x", "value", "flows.a.goodput_bps").id == "flows.a.goodput_bps"


def test_what_takes_measures_is_named_by_its_code_alone() -> None:
    def code(body: str) -> str:
        return measures._code(f"def f():\n{body}")

    assert code("    'says'\n    return 1  # why\n") == code("    return (1)\n")
    assert code("    return 1\n") != code("    return 2\n")


def test_the_engine_has_a_name() -> None:
    version, digest = _airtcp.engine().split("+")
    assert version == airtcp.__version__
    assert len(digest) == 16
    assert int(digest, 16) >= 0


def test_what_is_written_differently_is_the_same_run() -> None:
    one = plan(tiny(parameters={"d": [0.005]}, set={"links.line.delay": "{d}s"}))
    two = plan(tiny(parameters={"d": [5]}, set={"links.line.delay": "{d}ms"}, description="in other words"))
    assert [p.key for p in one.points] == [p.key for p in two.points]


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "tiny"', 'nmae = "tiny"', [':1: nmae = "tiny": unknown key; did you mean `name`?']),
        (
            'scenario = "tiny.toml"',
            'scenario = "tniy.toml"',
            [":2: scenario: ", "tniy.toml: cannot be read: No such file", "; did you mean `tiny.toml`?"],
        ),
        (
            "[measures]",
            '[[variants]]\nname = "x"\n[[variants]]\nname = "y"\nscenario = """\nnone.toml"""\n[measures]',
            [":17: variants[1].scenario: ", "none.toml: cannot be read: No such file"],
        ),
        ('scenario = "tiny.toml"', "", ["scenario: is missing"]),
        ("seeds = 2", "seeds = 0", [":3: seeds = 0: must be a whole number from 1 to 1000000"]),
        ("seeds = 2", "seeds = [1, 1]", [":3: seeds[1] = 1: appears twice"]),
        ("seeds = 2", "seeds = [-1]", [":3: seeds[0] = -1: must be a whole number of at least 0"]),
        (
            "seeds = 2",
            'mode = "gird"',
            [':3: mode = "gird": unknown name; did you mean `grid`? accepted: grid, list, random'],
        ),
        ("seeds = 2", 'mode = "random"', ["samples: is missing: a random sweep"]),
        ("seeds = 2", "samples = 3", ['only a sweep with mode = "random"']),
        ("rate = [2, 5]", "rate = []", [":6: parameters.rate: has 0 entries: must have at least 1"]),
        ("rate = [2, 5]", "rate = [2, 2]", [":6: parameters.rate[1] = 2: appears twice"]),
        (
            "rate = [2, 5]",
            "rate = [2, [5]]",
            [":6: parameters.rate[1]: must be true or false, or a finite number, or text in quotes"],
        ),
        ("rate = [2, 5]", "rate = [2, nan]", [":6: parameters.rate[1] = nan: must be a finite number"]),
        ("rate = [2, 5]", "rate = { from = 1, to = 2 }", ['a range needs mode = "random"']),
        (
            "rate = [2, 5]",
            "rate = [-2]",
            [':10: set."links.line.rate"', "-2Mbit/s", "(at rate = -2, loss = 0.0 and 2 more"],
        ),
        ("rate = [2, 5]", "rate = [2]\nspare = [1, 2]", ["parameters.spare", "is used by no template", "loss, rate"]),
        ("rate = [2, 5]", "seed = [2]", ["`seed` cannot be a parameter: use `seeds`"]),
        ("rate = [2, 5]", "wall_s = [2]", ["`wall_s` cannot be a parameter", "variant, seed, key"]),
        ("{rate}", "{rat}", [':10: set."links.line.rate"', "`rat` is not a known name; did you mean `rate`?"]),
        ("{rate}", "{rate", [':10: set."links.line.rate"', "a `{` without a `}`"]),
        ("{rate}", "{rate / 0}", ["division by zero"]),
        ('"links.line.rate"', '"links.lime.rate"', ["unknown entry; did you mean `line`?"]),
        ('"links.line.rate"', '"links.line.raet"', ["did you mean `rate`?"]),
        ('"links.line.loss" =', "loss =", [":11: set.loss", "unknown key"]),
        ("[set]", '[set]\nloss = "x"', ["set.loss"]),
        (
            "links.line.utilisation",
            "links.lime.utilisation",
            [":14: measures.utilisation", "did you mean `line`?", "b->a"],
        ),
        ("links.line.utilisation", "links.*.utilisation", ["`*` needs exactly one, there are: ['a->b', 'b->a']"]),
        ("links.line.utilisation", "links.line.utilization", ["no `utilization`; did you mean `utilisation`?"]),
        ("links.line.utilisation", "groups.bulk.flows", ["no `flows`"]),
        ("links.line.utilisation", "nodes.line.x", ["must be links.NAME.KEY, groups.NAME.KEY or air.NAME.KEY"]),
        (
            'label = "Utilisation"',
            "lable = 1",
            [":14: measures.utilisation.lable = 1: unknown key; did you mean `label`?"],
        ),
        ("scale = 100", "scale = 0", ["must be a number other than 0"]),
        ("dropped = {", "rate = {", ["measures.rate: is a parameter as well"]),
        ("dropped = {", "runs = {", ["`runs` cannot be a measure"]),
        ("dropped = {", '"a-b" = {', ["must consist of letters, digits and _"]),
        ("FROM links", "FROM lings", [":15: measures.dropped", "lings", "query: SELECT sum(", "tables: flows, links"]),
        (
            "dropped_overflow",
            "droped",
            ["measures.dropped", "droped", "table links: link, name, group", "dropped_overflow"],
        ),
        ("SELECT sum", "SELEKT sum", ["measures.dropped", "SELEKT"]),
        (
            "FROM links",
            "FROM links WHERE rate_bps > {rat}",
            ["measures", "`rat` is not a known name; did you mean `rate`?"],
        ),
        ("windows = {", "windows = { unit = 5,", ["measures.windows.unit = 5: must be text"]),
        (
            "[measures]",
            '[[variants]]\nname = "x"\nonly = { rate = 3 }\n[measures]',
            ["3 is not among the values of `rate`"],
        ),
        (
            "[measures]",
            '[[variants]]\nname = "x"\n[[variants]]\nname = "x"\n[measures]',
            ["two variants are called 'x'"],
        ),
        ("[measures]", "[[variants]]\n[measures]", ["variants[0].name: missing; must be text"]),
        ("[measures]", "[quick]\nparameters = { x = 1 }\n[measures]", ["quick.parameters.x = 1: no such parameter"]),
        ("[measures]", "[quick]\nseed = 1\n[measures]", ["quick.seed = 1: unknown key; did you mean `seeds`?"]),
        ("[measures]", "measures = 5\n[measure]", ["unknown key"]),
        ("seeds = 2", "seeds = 2 2", [":3: not TOML: "]),
        ("seeds = 2", "seeds = \x00", ["is a binary file, not a sweep in TOML"]),
    ],
)
def test_every_fault_says_where_and_what_is_accepted(file: Path, old: str, new: str, words: list[str]) -> None:
    assert old in FILE
    file.write_text(FILE.replace(old, new))
    with pytest.raises(SweepError) as caught:
        plan(file)
    for word in [str(file.parent), *words]:
        assert word in str(caught.value)


def test_a_parameter_is_not_set_twice() -> None:
    with pytest.raises(SweepError, match=r"is in \[set\] as well"):
        plan(tiny(parameters={"links.line.rate": ["1Mbit/s"]}, set={"links.line.rate": "2Mbit/s"}))


def test_a_sweep_measures_something() -> None:
    with pytest.raises(SweepError, match="must measure something"):
        tiny(measures={})


def test_a_sweep_of_millions_is_refused_at_once() -> None:
    many = {f"p{i}": list(range(1, 101)) for i in range(5)}
    with pytest.raises(SweepError, match="10000000000 runs: more than 1000000"):
        plan(tiny(parameters=many, set={"links.line.queue.limit_packets": "{p0 + p1 + p2 + p3 + p4}"}))


def test_files_that_cannot_be_read_are_sweep_errors(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    for path in (tmp_path / "nothing.toml", tmp_path, tmp_path / "latin.toml"):
        with pytest.raises(SweepError, match=str(path)):
            plan(path)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def from_values(document: dict[str, Any]) -> Sweep:
    return Sweep.from_document(Document.of(document, "x.toml"), Path("x.toml"))


KEYS = [
    "name", "scenario", "measures", "parameters", "set", "variants", "seeds", "mode", "samples", "sample_seed",
    "description", "quick", "full", "else",
]  # fmt: skip
FULL_DOCUMENT = {
    **{key: value for key, value in tomllib.loads(FILE).items() if key != "scenario"},
    "scenario": TINY,
    "variants": [{"name": "x", "only": {"rate": [2]}, "set": {}, "parameters": {}}],
    "quick": {"seeds": 1, "set": {}, "parameters": {}},
}


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(KEYS), junk)
def test_no_value_brings_it_down(key: str, value: Any) -> None:
    try:
        plan(from_values({**FULL_DOCUMENT, key: value}))
    except SweepError as error:
        assert str(error)


@settings(deadline=None, max_examples=300)
@given(st.data(), junk)
def test_no_value_within_brings_it_down(data: st.DataObject, value: Any) -> None:
    document = json.loads(json.dumps(FULL_DOCUMENT))
    here: Any = document
    while True:
        key = data.draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
        if not isinstance(here[key], (dict, list)) or not here[key] or data.draw(st.booleans()):
            here[key] = value
            break
        here = here[key]
    try:
        plan(from_values(document))
    except SweepError as error:
        assert str(error)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(max_size=60), at=st.floats(0, 1))
def test_no_file_brings_it_down(file: Path, text: str, at: float) -> None:
    cut = int(at * len(FILE))
    file.write_text(FILE[:cut] + text + FILE[cut:], encoding="utf-8", newline="")
    try:
        plan(file, seeds=1)
    except SweepError as error:
        assert str(error)


# --- what is measured -------------------------------------------------------------------------------------------------


def test_results(file: Path) -> None:
    results = airtcp.sweep(file)
    assert results.is_complete
    runs = results.runs
    assert runs.columns == [
        "rate", "loss", "seed", "key", "status", "error", "wall_s", "utilisation", "dropped",
    ]  # fmt: skip
    assert runs.height == 12
    assert runs["status"].unique().to_list() == ["ok"]
    one = airtcp.run(tiny_scenario(), seed=2, set={"links.line.rate": "5Mbit/s", "links.line.loss": 0.01})
    (row,) = runs.filter(rate=5, loss=0.01, seed=2).to_dicts()
    assert row["utilisation"] == one.summary["links"][0]["utilisation"] * 100
    assert row["dropped"] == one.links.collect()["dropped_overflow"].sum()
    windows = results.rows("windows")
    assert windows.columns == ["rate", "loss", "seed", "key", "time_s", "cwnd_segments"]
    assert windows.height == 36
    series = one.flow_series.filter(flow=0).collect().head(3)
    assert windows.filter(rate=5, loss=0.01, seed=2)["cwnd_segments"].to_list() == series["cwnd_segments"].to_list()
    assert results.manifest["measures"]["utilisation"] == {
        "rows": False, "label": "Utilisation", "unit": "%", "scale": 100,
    }  # fmt: skip
    assert results.to_pandas().shape == runs.shape
    assert results.to_pandas("windows").shape == windows.shape
    with pytest.raises(KeyError, match="is a scalar"):
        results.rows("utilisation")
    with pytest.raises(KeyError, match="is no measure of this sweep; did you mean `windows`"):
        results.rows("window")


def tiny_scenario() -> Scenario:
    return Scenario(
        name="tiny",
        duration="300ms",
        nodes=[Node(name="a", kind="host"), Node(name="b", kind="host")],
        links=[
            Link(
                name="line", from_="a", to="b", rate="5Mbit/s", delay="5ms", loss=0.01,
                queue=airtcp.scenario.Fifo(limit_packets=8),
            )
        ],
        flows=[
            Flow(name="bulk", from_="a", to="b"),
            Flow(name="file", from_="a", to="b", traffic=Transfer(bytes="10kB")),
        ],
    )  # fmt: skip


def test_a_scenario_in_python_is_the_same_sweep() -> None:
    keys = [[p.key for p in plan(tiny(scenario=s, seeds=3)).points] for s in (TINY, tiny_scenario())]
    assert keys[0] == keys[1]


def test_parameters_in_queries_are_values_and_nothing_else() -> None:
    nasty = "x' OR '1' = '1"
    results = airtcp.sweep(
        tiny(
            parameters={"who": ["bulk", "it's", nasty, "file"], "least": -1, "most": 1e-7},
            measures={
                "n": {"sql": "SELECT count(*) AS n FROM flows WHERE name = {who}"},
                "echo": {"sql": "SELECT {who} AS a, {least} AS b, {most} AS c, {2 * least} AS d FROM links LIMIT 1"},
            },
        )
    )
    assert results.runs["n"].to_list() == [1, 0, 0, 1]
    echo = results.rows("echo")
    assert echo["a"].to_list() == ["bulk", "it's", nasty, "file"]
    assert echo.select("b", "c", "d").unique().rows() == [(-1, 1e-7, -2)]


def test_what_is_not_a_number_is_null() -> None:
    measures = {
        "nan": {"sql": "SELECT LN(utilisation - 2) AS x FROM links LIMIT 1"},
        "nothing": {"sql": "SELECT sent_s FROM pings"},
        "null": "groups.bulk.delay_mean_ms",
        "empty": {"sql": "SELECT flow, rtt_ms FROM pings"},
        "text": {"sql": "SELECT name FROM flows LIMIT 1"},
        "flag": {"sql": "SELECT max(utilisation) > 0.1 AS busy FROM links"},
    }
    results = airtcp.sweep(tiny(measures=measures))
    (row,) = results.runs.select("nan", "nothing", "null", "text", "flag").rows()
    assert row == (None, None, None, "bulk", True)
    assert results.rows("empty").height == 0
    assert results.rows("empty").schema["rtt_ms"] == pl.Float64


def test_the_shape_of_a_query_is_that_of_all_runs() -> None:
    measures = {"n": {"sql": "SELECT flow FROM flows WHERE flow < {k}"}}
    assert airtcp.sweep(tiny(parameters={"k": [0, 1]}, measures=measures)).runs["n"].to_list() == [None, 0]
    assert airtcp.sweep(tiny(parameters={"k": [0, 2]}, measures=measures)).rows("n")["flow"].to_list() == [0, 1]


def test_a_column_called_like_a_parameter_keeps_its_measure() -> None:
    measures = {"m": {"sql": "SELECT flow, name AS seed FROM flows", "columns": {"flow": {"scale": 2, "unit": "x"}}}}
    rows = airtcp.sweep(tiny(measures=measures)).rows("m")
    assert rows.columns == ["seed", "key", "flow", "m.seed"]
    assert rows["flow"].to_list() == [0, 2]


def test_jobs_and_order_do_not_matter(file: Path, tmp_path: Path) -> None:
    for jobs in (1, 2, 5):
        airtcp.sweep(file, jobs=jobs, out=tmp_path / f"out{jobs}")
    one, two, five = (SweepResults.load(tmp_path / f"out{jobs}") for jobs in (1, 2, 5))
    assert same(one, two)
    assert same(one, five)
    assert (tmp_path / "out1/windows.parquet").read_bytes() == (tmp_path / "out5/windows.parquet").read_bytes()
    assert (tmp_path / "out1/sweep.json").read_bytes() == (tmp_path / "out2/sweep.json").read_bytes()
