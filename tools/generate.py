"""Writes what follows from the code: python/airtcp/scenario.py, docs/scenario.md, docs/results.md, docs/policies/,
docs/clauses.md, crates/sim/schema.json (for the page) and tables of keys in docs/sweeps.md and docs/studies.md.

Usage: generate.py [--check]    --check: write nothing, fail if a file is not current.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import clauses

Schema = dict[str, Any]

ROOT = Path(__file__).parent.parent
PYTHON = ROOT / "python/airtcp/scenario.py"
DOCS = ROOT / "docs/scenario.md"
RESULTS = ROOT / "docs/results.md"
POLICIES = ROOT / "docs/policies"
SWEEPS = ROOT / "docs/sweeps.md"
STUDIES = ROOT / "docs/studies.md"
SCHEMA = ROOT / "crates/sim/schema.json"

TOP = "Scenario"

PYTHON_HEAD = '''"""Scenarios as Python objects: what a scenario file holds, with completion and types.

Generated from the schema by `make generate`; do not edit. What is left out (`None`) takes its default, and values are
checked when a scenario runs: `airtcp.ScenarioError` then says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from airtcp._scenario_table import ScenarioTable
'''

DOCS_HEAD = """# Scenario files

<!-- Generated from the schema by `make generate`; do not edit. -->

A scenario is a TOML file. `airtcp check FILE` validates one, `airtcp schema` prints the JSON Schema (editors complete
with it), and `examples/` has files to start from. Each section below is a table of the file; a key that is marked
*required* must be there. The same names are classes and arguments in Python (`airtcp.Scenario`); there the key `from`
is written `from_`.

Values with units are strings: a number and its unit, as in `"100Mbit/s"`, `"90ms"` or `"64KiB"`.
"""


def refer(schema: Schema) -> str | None:
    """Name of the definition a schema refers to."""
    ref = schema.get("$ref")
    return ref.rsplit("/", 1)[1] if isinstance(ref, str) else None


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[_-]", name))


def tag_of(variant: Schema) -> tuple[str, str] | None:
    """Key and value that tell this table from the others of its kind."""
    for key, value in variant.get("properties", {}).items():
        if "const" in value:
            return key, value["const"]
    return None


def variants(schema: Schema) -> Iterator[Schema]:
    """The tables among the alternatives of a schema, apart from those whose keys are free."""
    for option in [*schema.get("anyOf", []), *schema.get("oneOf", [])]:
        if option.get("type") == "object":
            if not isinstance(option.get("additionalProperties"), dict):
                yield option
        else:
            yield from variants(option)


def constants(schema: Schema) -> list[tuple[str, str]]:
    """Strings a schema accepts, with what they mean."""
    out = [(value, "") for value in schema.get("enum", [])]
    if "const" in schema:
        out.append((schema["const"], schema.get("description", "")))
    for option in [*schema.get("anyOf", []), *schema.get("oneOf", [])]:
        out += constants(option)
    return out


def class_names(definitions: Schema) -> None:
    """Gives each table that is one of several its Python class: its tag in camel case.

    Where that would mean two things, what it is as well (`FixedRate`, `FixedRetryOut`).
    """
    found = [(name, variant) for name, definition in definitions.items() for variant in variants(definition)]
    short = [camel(tag[1]) for _, variant in found if (tag := tag_of(variant))]
    for name, variant in found:
        if tag := tag_of(variant):
            plain = camel(tag[1])
            is_clear = short.count(plain) == 1 and plain not in definitions
            variant["class"] = plain if is_clear else plain + name.removesuffix("Config")


def is_null(schema: Schema) -> bool:
    return schema.get("type") == "null"


# --- Python ---------------------------------------------------------------------------------------------------------


def in_lines(alias: str) -> str:
    """A string literal, in pieces if a line would be too long for it."""
    if len(alias) <= 110:
        return repr(alias)
    first, *others = alias.split(" | ")
    return f"({first!r} {' | '.join(['', *others])!r})"


def python_type(schema: Schema) -> str:
    """The annotation, without `None`."""
    if name := refer(schema):
        return name
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    options = [o for o in [*schema.get("anyOf", []), *schema.get("oneOf", [])] if not is_null(o)]
    if options:
        if strings := constants(schema):
            tables = [python_type(o) for o in variants(schema)]
            return " | ".join([f"Literal[{', '.join(repr(value) for value, _ in strings)}]", *tables])
        return " | ".join(dict.fromkeys(python_type(o) for o in options))
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next(k for k in kind if k != "null")
    match kind:
        case "string":
            return "str"
        case "integer":
            return "int"
        case "number":
            return "float"
        case "boolean":
            return "bool"
        case "array":
            return f"Sequence[{python_type(schema['items'])}]"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"Mapping[str, {python_type(schema['additionalProperties'])}]"
        case "object" if "class" in schema:
            return str(schema["class"])
    raise ValueError(f"no Python type for {json.dumps(schema)}")


def doc(text: str, indent: str) -> str:
    text = text.strip().replace("\\", "\\\\")
    text = text[:1].upper() + text[1:]
    if not text.endswith((".", "?", ":")):
        text += "."
    paragraphs = [textwrap.wrap(" ".join(paragraph.split()), 110) for paragraph in text.split("\n\n")]
    lines = [line for paragraph in paragraphs for line in [*paragraph, ""]][:-1]
    body = "\n".join([lines[0], *(f"{indent}{line}" if line else "" for line in lines[1:])])
    return f'{indent}"""{body}"""' if len(lines) == 1 else f'{indent}"""{body}\n{indent}"""'


def default_text(value: Schema) -> str:
    """The default for people, unless the description already says it or there is nothing to say."""
    default = value.get("default")
    if default is None or isinstance(default, (dict, list)) or "Default:" in value.get("description", ""):
        return ""
    return f"`{default}`" if isinstance(default, str) else f"{json.dumps(default)}"


def python_class(name: str, schema: Schema, fallback: str) -> str:
    lines = [
        "@dataclass(kw_only=True)",
        f"class {name}(ScenarioTable):",
        doc(schema.get("description", fallback), "    "),
        "",
    ]
    required = set(schema.get("required", []))
    for key, value in schema.get("properties", {}).items():
        attribute = f"{key}_" if keyword.iskeyword(key) else key
        if "const" in value:
            lines += [f"    {attribute}: {python_type(value)} = field(default={value['const']!r}, init=False)", ""]
            continue
        annotation = python_type(value)
        text = value.get("description", "").strip()
        if default := default_text(value):
            text = f"{text.removesuffix('.')}. Default: {default}." if text else f"Default: {default}."
        lines.append(
            f"    {attribute}: {annotation}" if key in required else f"    {attribute}: {annotation} | None = None"
        )
        if text:
            lines.append(doc(text, "    "))
        lines.append("")
    return "\n".join(lines)


def python(schema: Schema) -> str:
    classes: dict[str, str] = {}
    aliases: dict[str, str] = {}

    def add(name: str, text: str) -> None:
        if name in classes or name in aliases:
            raise ValueError(f"two tables of the schema would both be the Python class {name}")
        classes[name] = text

    class_names(schema["$defs"])
    for name, definition in schema["$defs"].items():
        if definition.get("type") == "object":
            add(name, python_class(name, definition, name))
            continue
        for variant in variants(definition):
            tag = tag_of(variant)
            if tag is None:
                raise ValueError(f"{name}: a table without a tag")
            own = variant["class"]
            add(own, python_class(own, variant, f'`{tag[0]} = "{tag[1]}"`.'))
        aliases[name] = f"{name}: TypeAlias = {in_lines(python_type(definition))}\n" + doc(
            definition.get("description", name), ""
        )
    add(TOP, python_class(TOP, schema, TOP))
    names = sorted([*classes, *aliases])
    exports = f"__all__ = {json.dumps(names)}"
    source = "\n\n".join([PYTHON_HEAD, *classes.values(), "\n\n".join(aliases.values()), exports]) + "\n"
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(PYTHON), "-"]
    return subprocess.run(ruff, input=source, text=True, capture_output=True, check=True, cwd=ROOT).stdout


# --- Markdown -------------------------------------------------------------------------------------------------------


def anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9_ -]", "", title.lower()).replace(" ", "-")


def docs_type(schema: Schema) -> str:
    if name := refer(schema):
        return f"[{name}](#{anchor(name)})"
    options = [o for o in [*schema.get("anyOf", []), *schema.get("oneOf", [])] if not is_null(o)]
    if options:
        return " or ".join(dict.fromkeys(docs_type(o) for o in options))
    if "enum" in schema:
        return ", ".join(f'`"{value}"`' for value in schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next(k for k in kind if k != "null")
    if kind == "array":
        return f"list of {docs_type(schema['items'])}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"table of {docs_type(schema['additionalProperties'])} by name"
    if "const" in schema:
        return f'`"{schema["const"]}"`'
    # The limits of the machine type alone are no news.
    low = schema.get("minimum")
    high = None if "format" in schema and schema.get("maximum") == 2**16 - 1 else schema.get("maximum")
    if high is not None:
        return f"{kind}, {low if low is not None else ''} to {high}"
    return f"{kind}, at least {low}" if low else str(kind)


def one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def docs_table(schema: Schema) -> list[str]:
    properties = schema.get("properties", {})
    rows = [(key, value) for key, value in properties.items() if "const" not in value]
    if not rows:
        return ["No parameters.", ""]
    required = set(schema.get("required", []))
    out = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, value in rows:
        default = "*required*" if key in required else default_text(value)
        out.append(f"| `{key}` | {docs_type(value)} | {default} | {one_line(value.get('description', ''))} |")
    return [*out, ""]


def docs(schema: Schema) -> str:
    out = [DOCS_HEAD, "## Top level", "", *docs_table(schema)]

    # In the order in which a reader of the file meets them.
    order: list[str] = []

    def visit(part: object) -> None:
        if isinstance(part, dict):
            name = refer(part)
            if name and name not in order:
                order.append(name)
                visit(schema["$defs"][name])
            for value in part.values():
                visit(value)
        elif isinstance(part, list):
            for value in part:
                visit(value)

    visit(schema.get("properties", {}))
    for name in order:
        definition = schema["$defs"][name]
        out += [f"## {name}", ""]
        if text := definition.get("description", "").strip():
            out += [text[:1].upper() + text[1:], ""]
        if definition.get("type") == "object":
            out += docs_table(definition)
            continue
        tables = list(variants(definition))
        meanings = dict.fromkeys((value for value, _ in constants(definition)), "")
        meanings |= {value: text for value, text in constants(definition) if text}
        if tables:
            names = [tag for table in tables if (tag := tag_of(table))]
            key = names[0][0]
            if meanings:
                out += [f"A name (all its defaults), or a table with `{key}` and the parameters of that name:", ""]
            else:
                out += [f"A table with `{key}` and the parameters of that kind:", ""]
            for table in tables:
                tag = tag_of(table)
                assert tag is not None
                out += [f'### `{tag[0]} = "{tag[1]}"`', ""]
                if text := table.get("description", "").strip():
                    out += [text, ""]
                out += docs_table(table)
        elif meanings:
            out += [f'- `"{value}"`{": " + one_line(text) if text else ""}' for value, text in meanings.items()]
            out.append("")
        elif definition.get("anyOf"):
            out += [f"{docs_type(definition)}.", ""]
        elif definition.get("type") == "number":
            out += [f"A {docs_type(definition)}.", ""]
    return "\n".join(out).rstrip() + "\n"


# --- Tables of keys within pages --------------------------------------------------------------------------------------

BLOCK = re.compile(r"(<!-- keys of (\w+): written by `make generate` -->\n).*?(<!-- end of keys -->\n)", re.DOTALL)


def words(schema: Schema) -> str:
    """What a key accepts."""
    if refer(schema):
        return "table"
    options = schema.get("anyOf", [])
    if options:
        kinds = {option.get("type") for option in options}
        if {"boolean", "number", "string"} <= kinds:
            others = [words(o) for o in options if o.get("type") not in ("boolean", "number", "string")]
            return " or ".join(["number, text, true or false", *others])
        return " or ".join(dict.fromkeys(words(option) for option in options))
    if "enum" in schema:
        return ", ".join(f'`"{value}"`' for value in schema["enum"])
    low, high = schema.get("minimum"), schema.get("maximum", 2**63 - 1)
    match schema.get("type"):
        case "string":
            return f"text ({schema['x-rule']})" if "x-rule" in schema else "text"
        case "boolean":
            return "true or false"
        case "array" if "prefixItems" in schema:
            return f"list of {len(schema['prefixItems'])} numbers"
        case "array":
            inner = words(schema["items"])
            return {"table": "tables", "text": "list of texts"}.get(inner, f"list of {inner}")
        case "object":
            return f"table of {words(inner)}" if (inner := schema["additionalProperties"]) else "table"
        case "integer" if low is not None and high < 2**63 - 1:
            return f"whole number, {low} to {high}"
        case "integer":
            return f"whole number, at least {low}" if low is not None else "whole number"
        case "number" if "exclusiveMinimum" in schema:
            return f"number above {schema['exclusiveMinimum']}"
        case "number":
            return f"number, at least {low}" if low is not None else "number"
    return "any value"


def keys_table(definition: Schema) -> str:
    required = set(definition.get("required", []))
    out = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, value in definition["properties"].items():
        default = "*required*" if key in required else default_text(value)
        out.append(f"| `{key}` | {words(value)} | {default} | {one_line(value['description'])} |")
    return "\n".join(out) + "\n"


def page(path: Path) -> str:
    """A page with its tables of keys as the types have them."""
    schemas = importlib.import_module("airtcp.schemas")
    tables: dict[str, Schema] = {}
    for what, top in (("sweep", "Sweep"), ("study", "Study"), ("experiment", "Experiment")):
        made = json.loads(schemas.schema(what))
        tables |= {top: made, **made["$defs"]}
    # Of an experiment, those that a sweep does not have.
    own = {k: v for k, v in tables["Experiment"]["properties"].items() if k not in tables["Sweep"]["properties"]}
    tables["Experiment"] = {**tables["Experiment"], "properties": own}
    text = path.read_text(encoding="utf-8")
    return BLOCK.sub(lambda found: f"{found[1]}\n{keys_table(tables[found[2]])}\n{found[3]}", text)


# --- Tables of results ----------------------------------------------------------------------------------------------

ANY_RUN = {
    "duration": "1ms",
    "nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}],
    "links": [{"from": "a", "to": "b", "rate": "1Mbit/s", "delay": "1ms"}],
}

ANALYSIS_HEAD = """## Tables of a capture

`airtcp analyze` writes these tables ([analyze](analyze.md)). A *flow* is one direction of a connection that carried
data or a SYN; `flow` is the same number in every table. Sequence numbers count from 1, the first byte of data.
"""

ANALYSIS_TABLES = {
    "flows": "One row per flow.",
    "retransmissions": "One row per retransmission.",
    "timeouts": "One row per retransmission timeout: duplicate ACKs received, when each policy would have acted.",
    "rtt_samples": "Round-trip times as the capture shows them, thinned to `--points` per flow.",
    "windows": "Windows over time, thinned to `--points` per flow.",
    "segments": "Points of a time-sequence plot, thinned to `--points` per flow and kind.",
    "stations": "Captures in monitor mode: one row per pair of stations.",
    "airtime": "Captures in monitor mode: airtime of each station over time, in at most 512 steps.",
    "quic": "Connections of QUIC, as far as their packets show without being decrypted.",
    "limits": "Limits that held a flow's sender back, from when to when. Short ones are joined beyond `--points`.",
}


BEGIN_TABLES, END_TABLES = "<!-- tables: written by `make generate` -->", "<!-- end of tables -->"


def results(
    meanings: dict[str, dict[str, str]], abouts: dict[str, str], analysis: dict[str, list[tuple[str, str]]]
) -> str:
    """The page on results with its tables as the code has them."""
    head, _, _ = RESULTS.read_text(encoding="utf-8").partition(BEGIN_TABLES)
    out = [f"{head}{BEGIN_TABLES}", ""]

    def add(title: str, about: str, columns: dict[str, str]) -> None:
        out.extend([title, "", about, "", "| column | unit and meaning |", "|---|---|"])
        out.extend(f"| `{name}` | {one_line(meaning).replace('NaN', 'null')} |" for name, meaning in columns.items())
        out.append("")

    for table, columns in meanings.items():
        add(f"### {table}", one_line(abouts[table]), columns)
    out.append(ANALYSIS_HEAD)
    for table, pairs in analysis.items():
        add(f"### {table} of a capture" if table in meanings else f"### {table}", ANALYSIS_TABLES[table], dict(pairs))
    return "\n".join([*out, END_TABLES]) + "\n"


def by_definition(schema: Schema) -> str:
    """As JSON with a line for each definition, so that a change is a line of the diff."""

    def line(key: str, value: object) -> str:
        return f"{json.dumps(key)}:{json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"

    definitions = ",\n".join(line(name, value) for name, value in schema["$defs"].items())
    rest = ",\n".join(line(key, value) for key, value in schema.items() if key != "$defs")
    return f'{{"$defs":{{\n{definitions}\n}},\n{rest}}}\n'


def for_page(schema: Schema, is_table_of_schemas: bool = False) -> Schema:
    """As the page loads it: without the descriptions, which are half of it.

    Errors name those of quantities alone, which have patterns. In a table of schemas "description" is a key's name.
    """

    def short(key: str, value: object) -> object:
        if isinstance(value, list):
            return [short("", entry) for entry in value]
        if not isinstance(value, dict):
            return value
        return for_page(value, key in ("properties", "$defs") and not is_table_of_schemas)

    keeps = is_table_of_schemas or "pattern" in schema
    return {key: short(key, value) for key, value in schema.items() if keeps or key != "description"}


def generated(core: ModuleType) -> dict[Path, str]:
    """Files and what they must hold."""
    schema = json.loads(core.schema())
    run = core.Run(core.Checked.from_json(json.dumps(ANY_RUN), "any", []), None).finish()
    # By itself, as `_airtcp`: the package imports what is generated here.
    spec = importlib.util.spec_from_file_location("explain", ROOT / "python/airtcp/explain.py")
    assert spec is not None
    assert spec.loader is not None
    explain = importlib.util.module_from_spec(spec)
    sys.modules["explain"] = explain
    spec.loader.exec_module(explain)
    pages = {POLICIES / name: text for name, text in explain.files(core.pages(), json.loads(core.schema())).items()}
    return {
        # A copy: classes are marked in it, which neither pages nor engines know.
        PYTHON: python(copy.deepcopy(schema)),
        DOCS: docs(schema),
        RESULTS: results(run.meanings, run.abouts, core.Analysis.columns()),
        **pages,
        SWEEPS: page(SWEEPS),
        STUDIES: page(STUDIES),
        **clauses.generated(),
        SCHEMA: by_definition(for_page(schema)),
    }


def main() -> int:
    # Not through the package: it imports what is generated here.
    sys.path.insert(0, str(ROOT / "python/airtcp"))
    _airtcp = importlib.import_module("_airtcp")
    # The types of sweeps and studies are in the package, which needs none of it.
    sys.modules["airtcp._airtcp"] = _airtcp
    sys.path[0] = str(ROOT / "python")

    check = sys.argv[1:] == ["--check"]
    stale = [
        (path, text)
        for path, text in generated(_airtcp).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    faults = clauses.faults(clauses.registry(), clauses.all_places())
    for fault in faults:
        print(fault)
    for path, text in stale:
        print(f"{path.relative_to(ROOT)} {'is not current: run make generate' if check else 'written'}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if faults or (check and stale) else 0


if __name__ == "__main__":
    sys.exit(main())
