"""Pages about all names of scenarios: `airtcp explain`, and `docs/policies/` from the same text.

A policy's text is the comment that opens its source file; its parameters come from the JSON Schema.
A host profile's page is its file. `tools/generate.py` loads this module alone, before the package is complete, so it
imports no other module of the package.
"""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from airtcp._airtcp import PolicyPage

Schema = Mapping[str, Any]

PARTS: Final = {
    "Source": "Source",
    "Siblings": "Differs from its siblings",
    "Valid": "Valid",
    "Deviations": "Deviations",
}
"""Labels of a page's parts, and the headings over them."""

HOW: Final = "How it works"
PROFILE: Final = "A host profile. A scenario names it with `profile` of a node or a flow."
PARAMETERS: Final = "Parameters"


@dataclass(frozen=True)
class Parameter:
    """A key of a policy's table."""

    key: str
    kind: str
    """Values that it accepts, with their unit."""
    default: str
    """Its default; empty if there is none."""
    meaning: str
    choices: dict[str, str]
    """Values with their meanings, if it takes one of a few."""


# --- What the schema says --------------------------------------------------------------------------------------------


def _resolve(part: Schema, schema: Schema) -> Schema:
    """The definition to which a part refers, or the part itself."""
    while "$ref" in part:
        part = schema["$defs"][part["$ref"].rsplit("/", 1)[1]]
    return part


def _options(part: Schema) -> list[Schema]:
    return [o for o in [*part.get("anyOf", []), *part.get("oneOf", [])] if o.get("type") != "null"]


def _choices(part: Schema, schema: Schema) -> dict[str, str]:
    """Words that a part accepts, with their meanings."""
    part = _resolve(part, schema)
    out = dict.fromkeys(part.get("enum", []), "")
    if "const" in part:
        out[part["const"]] = part.get("description", "")
    for option in _options(part):
        for word, meaning in _choices(option, schema).items():
            out[word] = out.get(word) or meaning
    return out


def _kind(part: Schema, schema: Schema) -> str:
    """The values that a key accepts, in words."""
    part = _resolve(part, schema)
    if words := _choices(part, schema):
        tables = any(
            _resolve(o, schema).get("type") == "object" or _options(_resolve(o, schema)) for o in _options(part)
        )
        return " | ".join(f'"{word}"' for word in words) + (" | table" if tables and part.get("anyOf") else "")
    if options := _options(part):
        return " | ".join(dict.fromkeys(_kind(option, schema) for option in options))
    kind = part.get("type")
    if kind == "string":
        # "a duration: a number with ns, us, ..., such as "90ms"": without the list of units.
        text = part.get("description", "").removeprefix("a ")
        return re.sub(r": .*, such as ", " such as ", text) if "such as" in text else "string"
    if kind == "array":
        return f"list of {_kind(part['items'], schema)}"
    if kind == "object":
        return "table"
    if kind == "boolean":
        return "true | false"
    low, high = part.get("minimum"), part.get("maximum")
    word = "whole number" if kind == "integer" else "number"
    if high is not None and not ("format" in part and high == 2**16 - 1):
        return f"{word}, {low if low is not None else ''} to {high}"
    return f"{word}, at least {low}" if low else word


def _variants(part: Schema) -> Iterator[Schema]:
    """The tables among the alternatives of a part, with references left as they are."""
    for option in _options(part):
        if option.get("type") == "object":
            yield option
        else:
            yield from _variants(option)


def _parameter(key: str, value: Schema, schema: Schema, *, required: bool) -> Parameter:
    default = value.get("default")
    shown = "required" if required else "" if default is None else json.dumps(default)
    choices = {word: meaning for word, meaning in _choices(value, schema).items() if meaning}
    return Parameter(key, _kind(value, schema), shown, value.get("description", ""), choices)


def parameters(page: PolicyPage, schema: Schema) -> list[Parameter]:
    """The keys of a policy's table."""
    for variant in _variants(schema["$defs"][page["definition"]]):
        properties = variant.get("properties", {})
        if any(value.get("const") == page["name"] for value in properties.values()):
            required = variant.get("required", [])
            return [
                _parameter(key, value, schema, required=key in required)
                for key, value in properties.items()
                if "const" not in value
            ]
    return []


# --- Text ------------------------------------------------------------------------------------------------------------


def _plain(text: str, types: Mapping[str, str]) -> str:
    """Replaces links of Rust's documentation by names: a policy's registered name, else the type's."""

    def name(match: re.Match[str]) -> str:
        last = match[1].rsplit("::", 1)[-1]
        return f"`{types.get(last, last)}`"

    return re.sub(r"\[`([\w:]+)`\](?:\([\w:]+\))?", name, text)


def _paragraphs(text: str) -> list[list[str]]:
    """Paragraphs, each as items: its running text, and the entries of a list in it."""
    return [
        [" ".join(item.split()) for item in re.split(r"\n(?=- )", paragraph.strip())]
        for paragraph in text.split("\n\n")
        if paragraph.strip()
    ]


def _wrap(text: str, width: int, indent: str = "  ") -> list[str]:
    out: list[str] = []
    for paragraph in _paragraphs(text):
        if out and not paragraph[0].startswith("- "):
            out.append("")
        for item in paragraph:
            later = indent + ("  " if item.startswith("- ") else "")
            out += textwrap.wrap(
                item,
                width,
                initial_indent=indent,
                subsequent_indent=later,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return out


def _types(pages: Sequence[PolicyPage], axis: str) -> dict[str, str]:
    return {page["rust_type"]: page["name"] for page in pages if page["axis"] == axis}


def _how_to(page: PolicyPage) -> str:
    return f"{page['what'][:1].upper()}{page['what'][1:]}. A scenario names it with {page['place']}."


def _width() -> int:
    return min(100, max(40, shutil.get_terminal_size((100, 24)).columns))


def page_text(page: PolicyPage, pages: Sequence[PolicyPage], schema: Schema) -> str:
    """A policy's page for the terminal."""
    types = _types(pages, page["axis"])
    width = _width()
    out = [f"{page['axis']}/{page['name']}", "", *_wrap(_plain(page["decides"], types), width, ""), ""]
    out += [*_wrap(_how_to(page), width, ""), ""]
    for label, heading in PARTS.items():
        if text := page["parts"].get(label):
            out += [heading, *_wrap(_plain(text[:1].upper() + text[1:], types), width), ""]
    if page["details"]:
        out += [HOW, *_wrap(_plain("\n\n".join(page["details"]), types), width), ""]
    out.append(PARAMETERS)
    rows = parameters(page, schema)
    if not rows:
        out.append("  none")
    for row in rows:
        out += _parameter_lines(row, width)
    return "\n".join(out) + "\n"


def _parameter_lines(row: Parameter, width: int) -> list[str]:
    default = f"; default {row.default}" if row.default and row.default != "required" else ""
    out = textwrap.wrap(
        f"{row.key}: {row.kind}{'; required' if row.default == 'required' else default}",
        width,
        initial_indent="  ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    out += _wrap(row.meaning, width, "      ")
    for word, meaning in row.choices.items():
        out += _wrap(f'- "{word}": {meaning}', width, "      ")
    return out


def page_markdown(page: PolicyPage, pages: Sequence[PolicyPage], schema: Schema) -> str:
    """A policy's page as a section of its axis's file."""
    types = _types(pages, page["axis"])

    def flow(text: str) -> str:
        return "\n\n".join("\n".join(paragraph) for paragraph in _paragraphs(_plain(text, types)))

    out = [f"## {page['name']}", "", flow(page["decides"]), ""]
    for label, heading in PARTS.items():
        if text := page["parts"].get(label):
            out += [f"**{heading}:** {flow(text[:1].upper() + text[1:])}", ""]
    if page["details"]:
        out += [f"**{HOW}:**", "", *(line for text in page["details"] for line in (flow(text), ""))]
    rows = parameters(page, schema)
    if not rows:
        return "\n".join([*out, "No parameters.", ""])
    out += ["| parameter | value | default | meaning |", "|---|---|---|---|"]
    for row in rows:
        cells = [f"`{row.key}`", row.kind, f"`{row.default}`" if row.default else "", _meaning(row)]
        out.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join([*out, ""])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _meaning(row: Parameter) -> str:
    return " ".join([row.meaning, *(f"`{word}`: {meaning}" for word, meaning in row.choices.items())])


def files(pages: Sequence[PolicyPage], schema: Schema) -> dict[str, str]:
    """`docs/policies/`: a file for each axis and one that lists them."""
    note = "<!-- Generated from the comments that open the policies' source files, by `make generate`; do not edit. -->"
    index = [
        "# Policies",
        "",
        note,
        "",
        "Every policy that a scenario can name, by axis. `airtcp explain NAME` prints the same page in the terminal.",
        "",
        "| axis | policies |",
        "|---|---|",
    ]
    out: dict[str, str] = {}
    for axis in dict.fromkeys(page["axis"] for page in pages):
        of_axis = [page for page in pages if page["axis"] == axis]
        names = ", ".join(f"[`{page['name']}`]({axis}.md#{page['name']})" for page in of_axis)
        index.append(f"| [{axis}]({axis}.md) | {names} |")
        head = [f"# Policies: `{axis}`", "", note, "", _how_to(of_axis[0]), ""]
        out[f"{axis}.md"] = "\n".join([*head, *(page_markdown(page, pages, schema) for page in of_axis)])
    return {"README.md": "\n".join([*index, ""]), **out}


# --- By name ---------------------------------------------------------------------------------------------------------


def overview(pages: Sequence[PolicyPage], profiles: Sequence[str]) -> str:
    """Every name by axis, each policy with its first sentence."""
    width = _width()
    out: list[str] = []
    for axis in dict.fromkeys(page["axis"] for page in pages):
        out += [axis_text(axis, pages, width), ""]
    out += ["profile (host profiles: what an operating system sets)", *_wrap(", ".join(profiles), width), ""]
    out.append("airtcp explain NAME prints a page. NAME may also be a key of scenarios.")
    return "\n".join(out) + "\n"


def axis_text(axis: str, pages: Sequence[PolicyPage], width: int | None = None) -> str:
    """The policies of one axis, one line each."""
    of_axis = [page for page in pages if page["axis"] == axis]
    wide = max(len(page["name"]) for page in of_axis) + 2
    types = _types(pages, axis)
    lines = [f"{axis} ({of_axis[0]['place']})"]
    for page in of_axis:
        lines += textwrap.wrap(
            _plain(page["decides"], types),
            width or _width(),
            initial_indent=f"  {page['name']:{wide}}",
            subsequent_indent=" " * (wide + 2),
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def _key_text(key: str, schema: Schema) -> str:
    """The meaning of a key in each table of a scenario that has it."""
    tables: list[tuple[str, Schema]] = [("the top level", schema)]
    for name, definition in schema["$defs"].items():
        tables.append((f"`{name}`", definition))
        tables += [(f"`{name}`", variant) for variant in _variants(definition)]
    found: dict[str, list[str]] = {}
    for table, definition in tables:
        value = definition.get("properties", {}).get(key)
        if value is not None and "const" not in value:
            row = _parameter(key, value, schema, required=key in definition.get("required", []))
            of = found.setdefault("\n".join(_parameter_lines(row, _width())), [])
            of += [table] if table not in of else []
    return "\n".join(f"A key of {', '.join(of)} (docs/scenario.md):\n{text}\n" for text, of in found.items())


class UnknownNameError(Exception):
    """No page has that name. The message suggests names."""


def explain(name: str, pages: Sequence[PolicyPage], profiles: Mapping[str, str], schema: Schema) -> str:
    """The page of a policy (`AXIS/NAME` where several axes have the name), of an axis, a host profile or a key."""
    axis, _, bare = name.rpartition("/")
    found = [page_text(p, pages, schema) for p in pages if p["name"] == bare and axis in ("", p["axis"])]
    if axis in ("", "profile") and bare in profiles:
        found.append(f"profile/{bare}\n\n{PROFILE}\n\n{profiles[bare]}")
    if not axis and any(page["axis"] == bare for page in pages):
        found.append(axis_text(bare, pages) + "\n")
    if not axis and not found and (text := _key_text(bare, schema)):
        found.append(text)
    if found:
        return f"{'-' * 3}\n\n".join(f"{text.rstrip()}\n" for text in found)
    import difflib

    axes = dict.fromkeys(page["axis"] for page in pages)
    known = [*(p["name"] for p in pages), *profiles, *axes, *(f"{p['axis']}/{p['name']}" for p in pages)]
    # The same name on another axis is a better suggestion than one of similar spelling.
    close = [f"{p['axis']}/{p['name']}" for p in pages if p["name"] == bare] if axis else []
    close = close or difflib.get_close_matches(name, known, n=1) or difflib.get_close_matches(bare, known, n=1)
    hint = f"did you mean {' or '.join(close)}?" if close else "airtcp explain lists the names"
    raise UnknownNameError(f"nothing is called {name!r}: {hint}")
