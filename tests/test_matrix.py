"""Matrices: gains and advice by rule on made-up results, their files and faults, and how they are shown."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airtcp._airtcp import Document
from airtcp.errors import ResultsError, StudyError, SweepError
from airtcp.report import model
from airtcp.report.matrix import change, level, lines, rule, said, shown
from airtcp.report.page import write
from airtcp.report.print import draw_map, draw_matrix
from airtcp.study import files, prepare
from airtcp.study.files import Matrix, MatrixGroup, MatrixMeasure, MatrixRow, MatrixScene
from airtcp.study.matrix import MOST, PreparedMatrix, doublings
from airtcp.study.samples import Data, Meaning, MeasureValues, Point
from airtcp.sweeps.definition import Sweep
from airtcp.sweeps.planning import plan
from sample_study import Json, study
from sample_study import matrix as sample

LATENCY = MatrixMeasure(name="latency", title="Latency", enough=50, harm=2)
GOODPUT = MatrixMeasure(name="goodput", title="Goodput", better="more", harm=1.33)
SEEDS = 5

Values = Mapping[str, tuple[Sequence[float] | float, Sequence[float] | float]]
"""Of each variant its latency and its goodput: a value for each seed, or the same for all with a little noise."""


def data(values: Values) -> Data:
    rng = np.random.default_rng(7)
    noise = rng.normal(1, 0.01, SEEDS)

    def spread(value: Sequence[float] | float) -> list[float]:
        return list(value * noise) if isinstance(value, (int, float)) else list(value)

    return Data(
        [Point(variant, {"path_ms": 10}) for variant in values],
        list(range(1, SEEDS + 1)),
        {
            "latency": MeasureValues("latency", Meaning("Latency", "ms")),
            "goodput": MeasureValues("goodput", Meaning("", "Mbit/s")),
        },
        {
            "latency": np.array([spread(latency) for latency, _ in values.values()]),
            "goodput": np.array([spread(goodput) for _, goodput in values.values()]),
        },
    )


def table(values: Values, changes: Mapping[str, int] | None = None, margin: float = 1.25) -> PreparedMatrix:
    rows = tuple(
        MatrixRow(variant=variant, changes=tuple(map(str, range((changes or {}).get(variant, 1)))))
        for variant in values
        if variant != "plain"
    )
    matrix = Matrix(
        id="m",
        title="M",
        text="",
        margin=margin,
        measures=(LATENCY, GOODPUT),
        scenes=(MatrixScene(experiment="one", title="One"),),
        groups=(MatrixGroup(title="old", base="plain", rows=rows),),
        place="study.toml",
    )
    return PreparedMatrix(matrix, {"one": data(values)})


def advice(values: Values, changes: Mapping[str, int] | None = None, margin: float = 1.25) -> Json:
    found: Json = table(values, changes, margin).to_dict()["groups"][0]["advice"][0]
    return found


# --- the rule ---------------------------------------------------------------------------------------------------------


def test_gains_are_doublings_up_to_what_is_enough() -> None:
    def one(measure: MatrixMeasure, ours: float, base: float) -> float:
        return float(doublings(measure, np.array([ours]), np.array([base]))[0])

    assert one(LATENCY, 100, 400) == 2
    assert one(LATENCY, 400, 100) == -2
    assert one(LATENCY, 5, 200) == 2, "5 ms count as 50"
    assert one(LATENCY, 5, 40) == 0, "both are good enough"
    assert one(GOODPUT, 30, 10) == pytest.approx(math.log2(3))
    assert one(GOODPUT, 0, 10) == -MOST
    assert math.isnan(one(GOODPUT, 0, 0))


def test_the_best_is_advised_and_the_next_is_runner_up() -> None:
    found = advice({"plain": (1600, 10), "good": (400, 10), "best": (100, 10), "none": (1600, 10)})
    assert found["outcome"] == "remedy"
    assert found["variants"] == ["best", "good"]


def test_of_equals_the_one_that_changes_less() -> None:
    values: Values = {"plain": (1600, 10), "both": (100, 10.5), "alone": (105, 10), "weak": (800, 10)}
    assert advice(values, {"both": 2})["variants"] == ["alone", "both"]
    assert advice(values)["variants"] == ["both", "alone"]
    # More than the margin apart, effort does not count.
    assert advice({**values, "alone": (150, 10)}, {"both": 2})["variants"] == ["both", "alone"]


def priced(rows: Sequence[MatrixRow], values: Values, **measure: Any) -> Json:
    """The group of a table with costs; `measure` changes the latency."""
    made = table(values).matrix
    matrix = msgspec.structs.replace(
        made,
        costs=("setting", "driver", "servers"),
        measures=(msgspec.structs.replace(LATENCY, **measure), GOODPUT),
        groups=(MatrixGroup(title="old", base="plain", rows=tuple(rows)),),
    )
    found: Json = PreparedMatrix(matrix, {"one": data(values)}).to_dict()["groups"][0]
    return found


def test_of_equals_the_one_whose_dearest_change_is_cheaper() -> None:
    rows = [MatrixRow(variant="a", changes=("servers",)), MatrixRow(variant="b", changes=("setting", "driver"))]
    values: Values = {"plain": (800, 10), "a": (100, 10), "b": (110, 10)}
    assert priced(rows, values)["advice"][0]["variants"] == ["b", "a"]
    assert priced([rows[0], MatrixRow(variant="b", changes=("servers", "driver"))], values)["advice"][0][
        "variants"
    ] == [
        "a",
        "b",
    ]


def test_a_row_about_which_a_measure_says_nothing_is_never_advised() -> None:
    rows = [MatrixRow(variant="stream", without=("goodput",)), MatrixRow(variant="b", changes=("driver",))]
    found = priced(rows, {"plain": (800, 10), "stream": (60, 4), "b": (400, 10)})
    assert found["advice"][0]["variants"] == ["b"]
    stream = found["rows"][1]["cells"][0]
    assert list(stream["measures"]) == ["latency"]
    assert stream["score"] is None


def test_a_factor_of_one_lets_nothing_get_worse_beyond_chance() -> None:
    values: Values = {"plain": (100, 10), "a": ([104, 105, 106, 105, 104], 20)}
    rows = [MatrixRow(variant="a", changes=("driver",))]
    assert priced(rows, values, harm=1.5)["advice"][0]["variants"] == ["a"]
    assert priced(rows, values, harm=1)["advice"][0]["outcome"] == "nothing"
    by_chance: Values = {"plain": (100, 10), "a": ([90, 120, 95, 112, 99], 20)}
    assert priced(rows, by_chance, harm=1)["advice"][0]["variants"] == ["a"]


def test_what_harms_is_out() -> None:
    found = table({"plain": (1600, 10), "harsh": (60, 5), "mild": (400, 9)})
    assert found.to_dict()["groups"][0]["advice"][0]["variants"] == ["mild"]
    cells = {row["variant"]: row["cells"][0] for row in found.to_dict()["groups"][0]["rows"]}
    assert cells["harsh"]["harmed"] == ["goodput"]
    assert cells["harsh"]["score"]["value"] > cells["mild"]["score"]["value"], "its score alone would have won"
    # What gets worse and stays good enough harms nobody.
    fine = table({"plain": (10, 10), "slower": (49, 14)}).to_dict()["groups"][0]["rows"][1]["cells"][0]
    assert fine["harmed"] == []


def test_none_is_needed_or_none_helps_or_it_is_open() -> None:
    assert advice({"plain": (20, 10), "any": (10, 10)})["outcome"] == "fine"
    assert advice({"plain": (400, 10), "any": (390, 10)})["outcome"] == "nothing"
    wild = [50.0, 3000.0, 100.0, 800.0, 60.0]
    found = advice({"plain": (400, 10), "wild": (wild, 10)})
    assert found["outcome"] in ("open", "nothing")
    assert advice({"plain": (400, 10), "once": ([50.0] + [math.nan] * 4, 10)})["outcome"] == "open", (
        "one seed settles nothing"
    )
    # Even where all is fine, twice the goodput is worth having.
    assert advice({"plain": (20, 10), "fast": (20, 30)})["variants"] == ["fast"]


def test_the_advice_says_what_it_rests_on() -> None:
    found = advice({"plain": (1600, 10), "quick": (100, 8), "full": (160, 11)})
    assert found["variants"][0] == "quick"
    assert found["if_twice"] == {"goodput": "full"}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(1, 5000), st.floats(0.1, 500)), min_size=2, max_size=6),
    st.floats(1.01, 4),
    st.sampled_from([0.25, 4.0, 1024.0]),
)
def test_advice_keeps_its_promises(values: list[tuple[float, float]], margin: float, factor: float) -> None:
    named = {"plain": values[0]} | {f"r{i}": v for i, v in enumerate(values[1:])}
    document = table(named, margin=margin).to_dict()["groups"][0]
    found = document["advice"][0]
    cells = {row["variant"]: row["cells"][0] for row in document["rows"]}
    for variant in found["variants"] if found["outcome"] == "remedy" else []:
        assert not cells[variant]["harmed"]
        assert cells[variant]["score"]["value"] >= math.log2(margin) - 1e-5
        assert cells[variant]["score"]["lo"] > 0
    # Units do not matter.
    scaled = {variant: (latency, goodput * factor) for variant, (latency, goodput) in named.items()}
    assert advice(scaled, margin=margin)["variants"] == found["variants"]


# --- files ------------------------------------------------------------------------------------------------------------

STUDY = """
id = "m"
title = "M"
question = "What?"
[[matrices]]
id = "which"
title = "Which when"
margin = 1.5
measures = [{ name = "utilisation", better = "more", enough = 90, harm = 1.2 }]
scenes = [{ experiment = "flows", title = "Flows", where = { n = 4 } }]
groups = [{ title = "All", base = "plain", rows = [{ variant = "CoDel", changes = ["router"] }] }]
"""
EXPERIMENT = """
id = "flows"
title = "Flows"
kind = "beyond"
scenario = "../line.toml"
[parameters]
n = [1, 4]
[set]
"nodes.servers.count" = "{n}"
[[variants]]
name = "plain"
[[variants]]
name = "CoDel"
set = { "links.bottleneck.queue" = "codel" }
[measures]
utilisation = { value = "links.bottleneck.utilisation", unit = "%", scale = 100 }
rows = { sql = "SELECT flow AS number, goodput_bps AS goodput FROM flows" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    guide = (Path(__file__).parent.parent / "docs/studies.md").read_text()
    line = guide.split("`codel-delay/line.toml`")[1].split("```toml\n")[1].split("```")[0]
    (tmp_path / "experiments").mkdir()
    (tmp_path / "line.toml").write_text(line)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "experiments/flows.toml").write_text(EXPERIMENT)
    return tmp_path


def test_a_matrix_is_read(folder: Path) -> None:
    found = files.read(folder)
    prepare.prepare(found, "quick")
    (one,) = found.matrices
    assert one.measures == (MatrixMeasure(name="utilisation", better="more", enough=90, harm=1.2),)
    assert one.groups[0].rows == (MatrixRow(variant="CoDel", changes=("router",)),)
    assert found.only(experiments=["flows"]).matrices == found.matrices


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("margin = 1.5", "margin = 1", r"study.toml:8: matrices\[0\].margin = 1: must be a number above 1"),
        ('better = "more"', 'better = "most"', r'better = "most": unknown name; accepted: less, more'),
        ("enough = 90", "enough = 0", "enough = 0: must be a number above 0"),
        ('name = "utilisation"', 'name = "utilization"', "no experiment has 'utilization'"),
        ('name = "utilisation"', 'name = "rows"', "rows has rows in flows: one number per run is needed"),
        ('experiment = "flows"', 'experiment = "flow"', "no experiment has that id"),
        (", where = { n = 4 }", "", r"n varies: keep one value with `where = \{ n = 1 \}`"),
        ("n = 4", "n = 3", r"has no variant that runs at n = 3"),
        ("n = 4", "m = 4", "no parameter 'm'"),
        ('base = "plain"', 'base = "plane"', "no experiment has the variant 'plane'"),
        ('variant = "CoDel"', 'variant = "plain"', r'rows\[0\].variant = "plain": appears twice: each variant'),
        ('changes = ["router"]', 'change = ["router"]', "unknown key"),
        ('groups = [{ title = "All"', 'groups = [{ titel = "All"', r"groups\[0\].title: missing; must be text"),
    ],
)
def test_faults_name_the_place(folder: Path, old: str, new: str, message: str) -> None:
    assert old in STUDY
    (folder / "study.toml").write_text(STUDY.replace(old, new))
    with pytest.raises(StudyError, match=message):
        prepare.prepare(files.read(folder), "quick")


def test_a_matrix_rests_on_all_of_its_scenes(folder: Path) -> None:
    other = EXPERIMENT.replace('id = "flows"', 'id = "more"')
    (folder / "experiments/more.toml").write_text(other)
    found = files.read(folder)
    assert found.only(experiments=["more"]).matrices == ()


MAP = """
[[matrices.maps]]
id = "where"
title = "Where"
experiment = "flows"
x = "n"
y = "rate"
"""
OVER_TWO = EXPERIMENT.replace("n = [1, 4]", 'n = [1, 4]\nrate = ["10Mbit/s", "20Mbit/s", "40Mbit/s"]').replace(
    '"{n}"\n', '"{n}"\n"links.bottleneck.rate" = "{rate}"\n'
)


@pytest.fixture
def mapped(folder: Path) -> Path:
    scene = 'where = { n = 4, rate = "20Mbit/s" }'
    (folder / "study.toml").write_text(STUDY.replace("where = { n = 4 }", scene) + MAP)
    (folder / "experiments/flows.toml").write_text(OVER_TWO)
    return folder


def test_a_map_is_the_advice_at_each_point(mapped: Path) -> None:
    matrix = files.read(mapped).matrices[0]
    points = [
        Point(variant, {"n": n, "rate": rate})
        for variant in ("plain", "CoDel")
        for n in (1, 4)
        for rate in ("10Mbit/s", "20Mbit/s", "40Mbit/s")
    ]
    # CoDel helps four flows at the lowest rate, and nobody else.
    means = [
        (85 if point.variant == "CoDel" else 30) if point.parameters == {"n": 4, "rate": "10Mbit/s"} else 95
        for point in points
    ]
    noise = np.random.default_rng(7).normal(1, 0.001, SEEDS)
    runs = Data(
        points,
        list(range(SEEDS)),
        {"utilisation": MeasureValues("utilisation", Meaning("", "%"))},
        {"utilisation": np.array([mean * noise for mean in means])},
    )
    (found,) = PreparedMatrix(matrix, {"flows": runs}).to_dict()["maps"]
    assert (found["x"]["values"], found["y"]["values"]) == ([1, 4], ["10Mbit/s", "20Mbit/s", "40Mbit/s"])
    told = [[advice["outcome"] for advice in row] for row in found["groups"][0]["cells"]]
    assert told == [["fine", "remedy"], ["fine", "fine"], ["fine", "fine"]]
    assert found["groups"][0]["cells"][0][1]["variants"] == ["CoDel"]
    shown_as = msgspec.convert(found, model.MatrixMap)
    head, rows = lines(shown_as, shown_as.groups[0])
    assert head == ["rate \N{DOWNWARDS ARROW} n \N{RIGHTWARDS ARROW}", "1", "4"]
    assert rows[-1] == ["10Mbit/s", "none needed", "CoDel"]
    picture = draw_map(shown_as)
    assert picture == draw_map(shown_as)
    assert "none needed" in picture["svg"].decode()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('x = "n"', 'x = "m"', r"maps\[0\].x: no parameter 'm'"),
        ('y = "rate"', 'y = "n"', r"maps\[0\]: x and y are the same parameter, 'n'"),
        ('experiment = "flows"\nx', 'experiment = "flow"\nx', "no experiment has that id"),
        ('id = "where"', 'id = "which"', "already used by"),
        ("margin = 1.5", 'margin = 1.5\ncosts = ["driver"]', "'router' is unknown; accepted: driver"),
        ('changes = ["router"]', 'without = ["loss"]', "'loss' is unknown; accepted: utilisation"),
    ],
)
def test_faults_of_maps_and_costs(mapped: Path, old: str, new: str, message: str) -> None:
    text = (mapped / "study.toml").read_text()
    assert old in text
    (mapped / "study.toml").write_text(text.replace(old, new))
    with pytest.raises(StudyError, match=message):
        prepare.prepare(files.read(mapped), "quick")


def test_a_map_is_left_out_without_its_experiment(mapped: Path) -> None:
    (mapped / "experiments/more.toml").write_text(OVER_TWO.replace('id = "flows"', 'id = "more"'))
    text = (mapped / "study.toml").read_text().replace('experiment = "flows"\nx', 'experiment = "more"\nx')
    (mapped / "study.toml").write_text(text)
    assert [len(m.maps) for m in files.read(mapped).only(experiments=["flows"]).matrices] == [0]
    assert [len(m.maps) for m in files.read(mapped).matrices] == [1]


# --- variants that sweeps share -------------------------------------------------------------------------------------

VARIANTS = """
[[variants]]
name = "plain"
[[variants]]
name = "CoDel"
set = { "links.*.queue" = "codel" }
"""


def sweep_of(experiment: Path) -> Sweep:
    document = Document.load(experiment, "experiment")
    for key in files.OWN_KEYS:
        document = document.without((key,))
    return Sweep.from_document(document, experiment, experiment.parent.parent)


def shared(folder: Path, variants: str) -> Sweep:
    (folder / "variants.toml").write_text(VARIANTS)
    head = EXPERIMENT.split("[[variants]]")[0].replace("[parameters]", f"variants = {variants}\n[parameters]")
    file = folder / "experiments/flows.toml"
    file.write_text(head + "[measures]" + EXPERIMENT.split("[measures]")[1])
    return sweep_of(file)


def test_variants_come_from_a_file_and_a_star_means_every_name(folder: Path) -> None:
    sweep = shared(folder, '"../variants.toml"')
    assert [variant.name for variant in sweep.variant_list] == ["plain", "CoDel"]
    scenario = json.loads(next(p for p in plan(sweep).points if p.variant == "CoDel").task.scenario)
    assert {link["name"]: link["queue"]["name"] for link in scenario["links"]} == {
        "servers-router": "codel",
        "bottleneck": "codel",
    }
    assert [a.name for a in shared(folder, '{ file = "../variants.toml", only = ["CoDel"] }').variant_list] == ["CoDel"]
    assert [a.name for a in shared(folder, '{ file = "../variants.toml", without = ["CoDel"] }').variant_list] == [
        "plain"
    ]


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ('"../none.toml"', "cannot be read: No such file"),
        ('"../line.toml"', r"must hold \[\[variants\]\] and nothing else"),
        ('{ file = "../variants.toml", without = ["codel"] }', "has no such variant.*CoDel"),
        ('{ file = "../variants.toml", only = [], without = [] }', "use either `only` or `without`, not both"),
        ("{ only = [] }", "variants.file: missing; must be text"),
        ('{ file = "../variants.toml", except = [] }', "unknown key"),
    ],
)
def test_faults_of_shared_variants(folder: Path, variants: str, message: str) -> None:
    with pytest.raises(SweepError, match=message):
        shared(folder, variants)


def test_a_star_that_finds_nothing_is_a_fault(folder: Path) -> None:
    sweep = shared(folder, '"../variants.toml"')
    (folder / "variants.toml").write_text(VARIANTS.replace("links.*.queue", "wlans.*.ap_radio.transmit"))
    with pytest.raises(SweepError, match="the scenario has no wlans"):
        plan(sweep_of(folder / "experiments/flows.toml"))
    assert plan(sweep)


# --- how it is shown --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def read() -> model.Matrix:
    return msgspec.json.decode(json.dumps(sample()).encode(), type=model.Matrix)


def test_cells_say_how_far_they_are_from_the_base(read: model.Matrix) -> None:
    group = read.groups[0]

    def cell(row: int, scene: int, view: str) -> tuple[str, int, int, bool]:
        one = shown(read, group, row, scene, view)
        assert one is not None
        return one.text, one.level, one.place, one.is_harmful

    assert cell(0, 0, "latency") == ("800\N{NO-BREAK SPACE}ms", 0, 0, False)
    assert cell(1, 0, "latency") == ("\N{DIVISION SIGN} 8", 3, 1, False)
    assert cell(1, 0, "goodput") == ("\N{MINUS SIGN}10\N{NO-BREAK SPACE}%", -1, 1, False)
    assert cell(2, 0, "goodput") == ("\N{DIVISION SIGN} 5", -3, 0, True)
    assert cell(3, 0, "score")[:3] == ("+2.9", 3, 2)
    assert cell(1, 1, "score") == ("0", 0, 0, False)
    assert shown(read, group, 3, 1, "score") is None


def test_only_the_base_is_called_base(read: model.Matrix) -> None:
    def score(matrix: model.Matrix, row: int) -> str | None:
        one = shown(matrix, matrix.groups[0], row, 0, "score")
        return one.text if one is not None else None

    document = msgspec.to_builtins(read)
    document["groups"][0]["rows"][3]["cells"][0]["score"] = None  # a measure says nothing about this row
    without = msgspec.convert(document, model.Matrix)
    assert (score(read, 0), score(read, 3)) == ("base", "+2.9")
    assert (score(without, 0), score(without, 3)) == ("base", "")


def test_a_cell_is_shaded_only_where_its_interval_settles_it() -> None:
    assert level(model.Estimate(value=2, lo=-0.1, hi=4.1)) == 0
    assert level(model.Estimate(value=2, lo=0.1, hi=3.9)) == 3
    assert level(model.Estimate(value=-0.3, lo=-0.4, hi=-0.2)) == -1
    assert level(model.Estimate(value=2)) == 0


def test_changes_of_percentages_are_points() -> None:
    loss = model.MatrixMeasure(name="loss", title="Loss", label="Loss", unit="%")
    text = change(loss, model.MatrixPart(value=0.5), model.MatrixPart(value=2.5))
    assert text == "\N{MINUS SIGN}2.0 points"
    assert change(loss, model.MatrixPart(value=2.5), model.MatrixPart(value=2.5)) == "\N{PLUS-MINUS SIGN}0"


def test_advice_in_words(read: model.Matrix) -> None:
    one = said(read, read.groups[0], 0)
    assert (one.name, one.runner_up, one.changes) == ("paced", "queue", ("station",))
    assert one.effect[0] == "latency 800 \N{RIGHTWARDS ARROW} 100\N{NO-BREAK SPACE}ms"
    assert one.weights == ("if goodput counts twice: queue",)
    assert said(read, read.groups[0], 1).name == "none needed"
    assert any("factor of 1.25" in sentence for sentence in rule(read))


def test_the_page_and_the_print_figures_have_it(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(json.dumps(study(points=40)))
    text = write(tmp_path).read_text()
    assert 'id="matrix-which"' in text
    assert "plain &lt;Reno&gt;" in text
    for view in ("score", "latency", "goodput"):
        assert f'data-view="{view}"' in text
        assert (tmp_path / f"figures/which-{view}.png").stat().st_size > 1000
        assert b"paced" in (tmp_path / f"figures/which-{view}.svg").read_bytes()
    assert text.count('class="place"') == 2 * 3, "advised and runner-up, in every view"


def test_equal_matrices_give_equal_figures(read: model.Matrix) -> None:
    assert draw_matrix(read, "score") == draw_matrix(read, "score")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("groups", 0, "rows", 0, "cells"), [], "has 0 cells"),
        (("groups", 0, "base"), "paced", "must have its base first"),
        (("groups", 0, "advice", 0, "variants"), ["nobody"], "names 'nobody'"),
        (("scenes", 0, "experiment"), "nowhere", "names experiment 'nowhere'"),
    ],
)
def test_a_damaged_matrix_is_refused(tmp_path: Path, path: tuple[Any, ...], value: Any, message: str) -> None:
    content = copy.deepcopy(study(points=40))
    at: Any = content["matrices"][0]
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    (tmp_path / "study.json").write_text(json.dumps(content))
    with pytest.raises(ResultsError, match=message):
        model.read(tmp_path / "study.json")
