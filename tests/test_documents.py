"""One reader for sweeps and studies: every key refuses what it does not take, and names its place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import airtcp
from airtcp import SweepError, _airtcp, documents, schemas
from airtcp._airtcp import Document, DocumentError
from airtcp.errors import StudyError
from airtcp.study.files import ExperimentFile, StudyFile
from airtcp.sweeps.file import SweepFile, VariantsFile
from conftest import ROOT

KINDS: dict[str, type[documents.Table]] = {"sweep": SweepFile, "study": StudyFile, "experiment": ExperimentFile}
SCHEMAS = {what: documents.schema(kind) for what, kind in KINDS.items()}
VALIDATORS = {what: jsonschema.Draft202012Validator(schema) for what, schema in SCHEMAS.items()}

SWEEP = """\
text = '''
seeds = 0
[measures]
'''
name = "full"
description = "Everything that a file can say."
scenario = "x.toml"
seeds = 2
mode = "random"
samples = 5
sample_seed = 3

[parameters]
n = [1, 2]
x = { from = 1e-4, to = 1e-2, scale = "log", whole = false }

[set]
"links.line.rate" = "{n}Mbit/s"

[[variants]]
name = "one"
parameters = { c = 1 }
scenario = "y.toml"
engine = "kernel"
kernel = "6.12"
[variants.set]
"links.line.loss" = 0.1
[variants.only]
n = [1]

[measures]
u = { value = "links.line.utilisation", label = "U", unit = "%", scale = 100 }
[measures.rows]
sql = "SELECT flow FROM flows"
columns.flow = { label = "Flow", unit = "", scale = 2 }

[quick]
seeds = [1, 7]
samples = 2
parameters = { n = 1 }
set = { duration = "1s" }
[full]
seeds = 9
"""
EXPERIMENT = (
    """\
id = "e"
title = "E"
kind = "paper"
figures = ["1"]
"""
    + SWEEP
    + """
[[plots]]
id = "p"
title = "P"
figure = "1"
x = "n"
y = "u"
series = ["variant"]
where = { n = [1, 2] }
variants = ["one"]
kind = "bar"
x_label = "N"
x_unit = "1"
x_scale = "log"
y_label = "U"
y_unit = "%"
y_scale = "linear"
y_range = [0, 1]
caption = "See."

[[findings]]
id = "f"
claim = "C"
published = "P"
checks = ["u(n=1) > 0"]
figure = "1"
source = "S"
note = "N"
kind = "identity"
enough_seeds = 3
[findings.for]
n = [1]
"""
)
STUDY = '''\
id = "s"
title = "S"
question = """
What?
id = 5
"""
summary = "S"

[paper]
authors = ["A", "B"]
title = "T"
venue = "V"
year = 2026
url = "https://example.org"

[cost]
quick_s = 1
full_s = 2.5

[answer]
findings = ["f"]
plot = "p"

[titles]
one = "The first"

[[assumptions]]
id = "a"
what = "W"
value = true
why = "Y"
experiment = "e"

[[matrices]]
id = "m"
title = "M"
text = "T"
margin = 1.5
costs = ["router"]
rule = "rule.toml"
catalogue = "catalogue.toml"
measures = [
  { name = "u", title = "U", better = "more",
    enough = 1, harm = 2, weight = 1 }]
scenes = [{ experiment = "e", title = "E", text = "T",
  where = { n = 1 } }]
[[matrices.groups]]
title = "G"
text = "T"
base = "one"
base_title = "O"
rows = [{ variant = "two", remedy = "R", title = "W",
    changes = ["router"], how = "H", without = ["u"],
    text = "T" }]
[[matrices.maps]]
id = "p"
title = "P"
text = "T"
experiment = "e"
x = "n"
y = "k"
x_label = "N"
y_label = "K"
where = { q = 1 }
'''
FULL = {"sweep": SWEEP, "study": STUDY, "experiment": EXPERIMENT}


def full(what: str) -> Document:
    text = FULL[what]
    if what == "sweep":
        # The lines behind it keep their numbers; a sweep has no such key.
        text = text.replace("text = '''", "description = '''", 1).replace('description = "Everything', '# "Everything')
    return Document.from_toml(text.encode(), "full.toml", what)


Place = tuple[str | int, ...]


def places(value: Any, schema: Any, root: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every place of a document that a schema knows, with what is accepted there."""
    schema = resolved(schema, root)
    if at:
        yield at, schema
    forms = [resolved(form, root) for form in schema.get("anyOf", [schema])]
    if isinstance(value, dict):
        form: Any = next((f for f in forms if f.get("type") == "object"), {})
        for key, item in value.items():
            inner = form.get("properties", {}).get(key, form.get("additionalProperties"))
            if inner:
                yield from places(item, inner, root, (*at, key))
    if isinstance(value, list):
        form = next(f for f in forms if f.get("type") == "array")
        for i, item in enumerate(value):
            yield from places(item, form["prefixItems"][i] if "prefixItems" in form else form["items"], root, (*at, i))


def resolved(schema: Any, root: Any) -> Any:
    ref = schema.get("$ref") if isinstance(schema, dict) else None
    return root["$defs"][ref.rsplit("/", 1)[1]] if ref else schema


ALL_PLACES = [
    (what, place) for what, schema in SCHEMAS.items() for place, _ in places(full(what).value(), schema, schema)
]
WRONG: list[Any] = [5, 0.5, "\N{SNOWMAN}", True, [], [[]], {}, {"\N{SNOWMAN}": 1}, float("nan"), 1 << 70, -(1 << 200)]


@pytest.mark.parametrize("what", KINDS)
def test_a_file_that_says_everything_is_read(what: str) -> None:
    document = full(what)
    kind, schema = KINDS[what], SCHEMAS[what]
    table = documents.read(document, kind, ValueError)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document.value(), schema)
    named = {key for place, _ in places(document.value(), schema, schema) for key in place if isinstance(key, str)}
    every = {key for part in (schema, *schema["$defs"].values()) for key in part.get("properties", {})}
    assert every - named <= {"file", "without"}, "all keys are tried below; the two are of a file of variants"
    assert isinstance(table, kind)


@pytest.mark.parametrize(
    ("what", "place"), ALL_PLACES, ids=lambda x: x if isinstance(x, str) else ".".join(map(str, x))
)
def test_a_value_of_a_wrong_type_is_named_with_its_line(what: str, place: Place) -> None:
    kind, document = KINDS[what], full(what)
    line = document.line(place)
    assert line is not None
    refused = 0
    for value in WRONG:
        # Where it came from is kept: only the value differs.
        text = json.dumps(document.put(place, value, "test").value()) if value == value else None
        changed = document.put(place, value, f"full.toml:{line}")
        is_valid = text is not None and VALIDATORS[what].is_valid(json.loads(text))
        fits = not isinstance(value, int) or isinstance(value, bool) or abs(value) < 1 << 63
        try:
            documents.read(changed, kind, SweepError)
            assert is_valid
            assert fits
        except SweepError as error:
            refused += 1
            assert not is_valid or not fits, str(error)
            assert str(error).startswith(document.where(place)), "file, line and key"
    assert refused >= 3


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_what_the_schema_takes_the_type_takes(data: st.DataObject) -> None:
    """The two never differ: what passes the check is converted."""
    what, place = data.draw(st.sampled_from(ALL_PLACES))
    plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates()
    values = st.recursive(
        plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    )
    document = full(what).put(place, data.draw(values), "test")
    try:
        document.check(_airtcp.Schema(json.dumps(SCHEMAS[what])))
    except DocumentError as error:
        assert error.faults
        return
    msgspec.convert(document.value(), KINDS[what])


HOSTILE: dict[str, tuple[str, str]] = {
    "a multi-line string before it": ("name = '''\n[x]\nseeds = 1\n'''\nseeds = 0\n", ":5: seeds = 0: must be a whole"),
    "a multi-line string with escapes": (
        'name = """\\\n\n\\"\\"\\"\n"""\nseeds = 0\n',
        ":5: seeds = 0: must be a whole",
    ),
    "a key twice": ("seeds = 1\nname = 'x'\nseeds = 2\n", ":3: not TOML: duplicate key"),
    "a table twice": ("[set]\n[measures]\n[set]\n", ":3: not TOML: duplicate key"),
    "a dotted key": ("quick.seeds = 1\nquick.\n", ":2: not TOML"),
    "a dotted key of a wrong type": (
        "quick.samples = 1\nquick.seeds = 'x'\n",
        ':2: quick.seeds = "x": must be a whole',
    ),
    "a key in quotes": ("'nmae' = 1\n", ":1: nmae = 1: unknown key; did you mean `name`?"),
    "an inline table": (
        "measures = { u = {\n  value = 'links.a.b',\n  scale = 'x' } }\n",
        ':3: measures.u.scale = "x"',
    ),
    "tables in a list": (
        "seeds = 1\n[[variants]]\nname = 'a'\n[[variants]]\nname = 5\n",
        ":5: variants[1].name = 5: must be text",
    ),
    "a huge integer": (
        "seeds = 99999999999999999999999999999999999999999999999999\n",
        ":1: seeds: must be a whole number",
    ),
    "a huge parameter": (
        "parameters.n = 9223372036854775808\n",
        ":1: parameters.n = 9223372036854775808: must fit into 64",
    ),
    "no number": ("parameters.n = [\n1,\nnan]\n", ":3: parameters.n[1] = nan: must be a finite number"),
    "a date": ("parameters.n = 1979-05-27\n", ":1: parameters.n = 1979-05-27: must be"),
    "deep lists": ("\nseeds = " + "[" * 100_000, ":2: not TOML"),
    "deep keys": ("\n" + ".".join("a" * 50_000) + " = 1", "x.toml: not TOML: "),
    "deeper still": (
        "\nx = " + ("{ " + ".".join("a" * 79) + " = ") * 70 + "1" + "}" * 70,
        ":2: tables and lists are nested",
    ),
    "all at once": ("nmae = 1\nseeds = 0\nmode = 'gird'\n", 'mode = "gird": unknown name; did you mean `grid`?'),
}


@pytest.mark.parametrize(("text", "told"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_files(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text)
    with pytest.raises(SweepError) as caught:
        airtcp.Sweep.load(file)
    assert told in str(caught.value)
    assert all(fault.startswith(str(file)) for fault in caught.value.faults)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read: No such file"),
        (b"\x7fELF\0", "is a binary file, not a sweep in TOML"),
        (b'name = "x"\n\xff', ":2: is not UTF-8 text"),
    ],
)
def test_what_is_no_text_is_told_as_for_scenarios(tmp_path: Path, content: bytes | None, told: str) -> None:
    file = tmp_path / "x.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SweepError) as caught:
        airtcp.Sweep.load(file)
    assert told in str(caught.value)
    with pytest.raises(airtcp.ScenarioError) as other:
        airtcp.run(file)
    assert str(other.value) == str(caught.value).replace("sweep", "scenario")
    with pytest.raises(SweepError, match="is a directory, not a sweep file"):
        airtcp.Sweep.load(tmp_path)


def test_faults_beyond_a_screenful_are_counted() -> None:
    error = StudyError(*map(str, range(25)))
    assert str(error).splitlines()[-2:] == ["19", "and 5 more"]
    assert len(error.faults) == 25


def test_faults_of_shared_variants_name_their_file(tmp_path: Path) -> None:
    (tmp_path / "variants.toml").write_text(
        "\n[[variants]]\nname = 'a'\n[[variants]]\nname = 'b'\n[variants.only]\nn = 3\n"
    )
    file = tmp_path / "x.toml"
    file.write_text(
        "scenario = 's.toml'\nvariants = { file = 'variants.toml', without = ['a'] }\nparameters.n = [1]\n"
        "measures.u = 'links.a.b'\n"
    )
    with pytest.raises(SweepError) as caught:
        airtcp.Sweep.load(file)
    assert str(caught.value).startswith(
        f"{tmp_path / 'variants.toml'}:7: variants[0].only.n = 3: 3 is not among the values of"
    )


def test_values_of_a_program_are_read_alike() -> None:
    given = {"b": 1, "a": (1.5, "x", {"k": [True]}), "none": None, "set": {1}, 5: 1}
    document = Document.of(given, "given")
    assert list(document.value()) == ["b", "a", "none", "set", "5"]
    assert document.value()["a"] == [1.5, "x", {"k": [True]}]
    assert document.fault(("a", 2, "k", 0), "no") == "given: a[2].k[0] = true: no"
    assert document.put(("a", 0), 7, "--set x").fault(("a", 0), "no") == "--set x: a[0] = 7: no"
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(SweepError, match=r"must be a number, text, true or false, a list or a table"):
        airtcp.Sweep(name="x", scenario={}, measures={"u": "links.a.b"}, set={"x": loop})


@pytest.mark.parametrize("path", sorted(ROOT.glob("studies/*/experiments/*.toml")), ids=lambda p: p.stem)
def test_files_here_agree_with_their_schemas(path: Path) -> None:
    jsonschema.validate(Document.load(path, "x").value(), json.loads(airtcp.schema("experiment")))
    study = path.parent.parent / "study.toml"
    jsonschema.validate(Document.load(study, "x").value(), json.loads(airtcp.schema("study")))


@pytest.mark.parametrize("what", schemas.KINDS)
def test_the_schemas_describe_every_key_and_close_every_table(what: str) -> None:
    schema = json.loads(airtcp.schema(what))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == f"airtcp {what}"
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "null" not in json.dumps(schema)
    for name, part in {"": schema, **schema["$defs"]}.items():
        for key, value in part.get("properties", {}).items():
            assert value.get("description"), f"{name}.{key}"
        if "properties" in part:
            assert part["additionalProperties"] is False, name


def test_a_file_of_variants_is_held_against_its_type() -> None:
    document = Document.from_toml(b"[[variants]]\nname = 'a'\nonyl = 1\n", "variants.toml", "variants")
    with pytest.raises(
        SweepError, match=r"variants.toml:3: variants\[0\].onyl = 1: unknown key; did you mean `only`\?"
    ):
        documents.read(document, VariantsFile, SweepError)
