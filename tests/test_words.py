"""What the documents say agrees with the code, and is said in short sentences."""

from __future__ import annotations

import argparse
import ast
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import airtcp
from airtcp import _airtcp, schemas
from airtcp.cli.parser import command_line
from conftest import ROOT

FEATURES = (ROOT / "docs/features.md").read_text()
SCHEMA: dict[str, Any] = json.loads(airtcp.schema())
NAMES = _airtcp.names()


def section(title: str) -> str:
    return FEATURES.split(f"\n## {title}\n")[1].split("\n## ")[0]


# --- Limits and claims, against the registry, the profiles and the schema --------------------------------------------


def vocabulary() -> set[str]:
    """Every key or name that a scenario may hold, and each column of its results: whole, and word by word."""
    found: set[str] = set()

    def visit(part: Any) -> None:
        if isinstance(part, dict):
            found.update(part.get("properties", {}))
            found.update(value for value in [part.get("const"), *part.get("enum", [])] if isinstance(value, str))
            for value in part.values():
                visit(value)
        elif isinstance(part, list):
            for value in part:
                visit(value)

    visit(SCHEMA)
    results = (ROOT / "docs/results.md").read_text()  # generated from the tables; test_generated holds it current
    found.update(re.findall(r"^\| `(\w+)` \|", results, re.MULTILINE))
    names = {name.lower() for name in found}
    return names | {word for name in names for word in re.split(r"[^a-z0-9]+", name)}


VOCABULARY = vocabulary()


def nothing_named(*words: str) -> Callable[[], bool]:
    """No key, name or column is one of these, or has it as a word: whoever adds the feature will name it so."""
    return lambda: not VOCABULARY.intersection(words)


def key_is(table: str, key: str, *types: str) -> Callable[[], bool]:
    """A key takes these types and no others, so that it cannot say more than one constant value."""

    def holds() -> bool:
        value = SCHEMA["$defs"][table]["properties"][key]
        options = value.get("anyOf", value.get("oneOf", [value]))
        return {option.get("$ref", option.get("type", "")).rsplit("/", 1)[-1] for option in options} <= set(types)

    return holds


def profile(name: str) -> dict[str, Any]:
    """A built-in profile with what its bases set."""
    text = _airtcp.profile(name)
    assert text is not None
    own = tomllib.loads(text)
    return profile(own.pop("base")) | own if "base" in own else own


# Each sentence of the section Limits, with what makes it true. A feature that ends a limit ends its check.
LIMITS: dict[str, Callable[[], bool]] = {
    "no beacons, no scanning, no power saving and no multicast": nothing_named(
        "beacon", "beacons", "scan", "scanning", "psm", "uapsd", "twt", "dtim", "multicast"
    ),
    "lists all omissions": lambda: "## Omissions" in (ROOT / "docs/wifi.md").read_text(),
    "The rate of a wired line is fixed, or follows a table": lambda: (
        key_is("Link", "rate", "DataRate")() and key_is("Link", "rate_trace", "RateTrace", "null")()
    ),
    "loses each packet independently of the others": key_is("Link", "loss", "Probability"),
    "Routes are shortest paths": nothing_named("route", "routes", "routing", "ecmp", "multipath"),
    "change only when a host goes to another access point": lambda: (
        "roaming" in SCHEMA["properties"] and key_is("Link", "cost", "integer")()
    ),
    "carries data one way": lambda: (
        not {"response", "request", "both_ways"} & set(SCHEMA["$defs"]["Flow"]["properties"])
    ),
    "no TLS, no HTTP, no TCP Fast Open, no urgent data and no IP fragmentation": nothing_named(
        "tls", "http", "https", "quic", "tfo", "fastopen", "urgent", "fragment", "fragments", "fragmentation"
    ),
    "BBR version 3 takes no notice of ECN marks": lambda: (
        not [
            key
            for one in SCHEMA["$defs"]["CcConfig"]["anyOf"][1]["oneOf"]
            if one["properties"]["name"]["const"] == "bbr3"
            for key in one["properties"]
            if "ecn" in key
        ]
    ),
    "takes no time to process a packet unless it has a `packet_time`": lambda: (
        "packet_time" in SCHEMA["$defs"]["Node"]["properties"] and nothing_named("cpu", "processing")()
    ),
    "an access point or router merges no segments": lambda: (
        "Hosts only" in SCHEMA["$defs"]["Node"]["properties"]["receive_offload"]["description"]
    ),
    "airtcp is a simulator": lambda: (ROOT / "docs/validation.md").exists(),
    "compares airtcp with ns-2, the Linux kernel, ns-3, Bianchi's model": lambda: all(
        name in (ROOT / "docs/validation.md").read_text() for name in ("ns-2", "Linux 6", "ns-3", "Bianchi")
    ),
    "how well they agree and where they differ": lambda: (
        "## Known differences" in (ROOT / "docs/validation.md").read_text()
    ),
}

# The page's sentences on the default profile.
CLAIMS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "CUBIC with HyStart": lambda p: p["cc"]["name"] == "cubic" and "slow_start_exit" not in p["cc"],
    "RACK with tail loss probes": lambda p: p["loss"]["name"] == "rack" and p["tail_loss_probe"],
    "SACK": lambda p: p["recovery"] == "sack",
    "PRR": lambda p: p["prr"],
    "F-RTO as in RFC 5682": lambda p: p["frto"] == "rfc5682",
    "TCP small queues": lambda p: p["tsq"] != "off",
    "mac80211's queues on Wi-Fi": lambda p: p["wifi"]["transmit"]["name"] == "mac80211",
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_on_the_page_is_one(limit: str) -> None:
    assert limit in " ".join(section("Limits").split()), "the sentence is gone: so should its check be"
    assert LIMITS[limit](), f"docs/features.md still says: {limit}"


def test_every_sentence_of_the_limits_has_a_check() -> None:
    unchecked = [s for s in sentences(section("Limits")) if not any(limit in s for limit in LIMITS)]
    assert unchecked == []


def keys_of_tables() -> str:
    """Each table of a scenario with its keys, a line for each."""
    tables = {"scenario": SCHEMA} | {name: table for name, table in SCHEMA["$defs"].items() if "properties" in table}
    return "".join(f"{name}: {' '.join(sorted(table['properties']))}\n" for name, table in tables.items())


def test_limits_were_read_against_every_key() -> None:
    """A check finds a feature by its words, and it may have others: who adds a key reads Limits once more."""
    read = ROOT / "tests/data/keys-read.txt"
    new = set(keys_of_tables().splitlines()) - set(read.read_text().splitlines())
    assert new == set(), f"read docs/features.md's Limits against the new keys, then write these lines to {read}"
    assert read.read_text() == keys_of_tables()


def test_a_check_of_a_limit_can_fail() -> None:
    assert not nothing_named("roaming")()
    assert not nothing_named("hands_up")()
    assert not nothing_named("rto")()
    assert not key_is("Link", "delay", "DataRate")()


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_default_profile_is_what_the_page_says(claim: str) -> None:
    text = " ".join(section("Features").split())
    sentence = text[text.index("The default one, `linux-6`") :]
    assert claim in sentence
    assert CLAIMS[claim](profile("linux-6"))
    assert SCHEMA["$defs"]["Node"]["properties"]["profile"] is not None


def test_features_name_nothing_that_is_not_registered() -> None:
    rows = dict(re.findall(r"^\| ([^|]+) \| (.+) \|$", section("Features"), re.MULTILINE))
    registered = {
        "congestion control": NAMES["cc"],
        "loss detection": NAMES["loss"],
        "queue": NAMES["queue"],
        "host profile": NAMES["profiles"],
        "rate control": NAMES["rate_control"],
        "signal": NAMES["signal"],
        "traffic": NAMES["traffic"],
        "giving up early at the access point (retry-out)": NAMES["retry_out"],
    }
    for row, names in registered.items():
        assert set(re.findall(r"`([^`]+)`", rows[row])) == set(names), row


# --- Figures that stand in a file ------------------------------------------------------------------------------------

SPEED = (ROOT / "docs/speed.md").read_text()
SPEED_ROWS = {
    "wlan_upload_1": "one station",
    "wlan_upload_10": "ten stations",
    "dumbbell_unsampled": "the same, nothing",
}


def test_the_page_on_speed_has_the_figures_of_the_chart() -> None:
    measured = {row["name"]: row for row in json.loads((ROOT / "bench/speed.json").read_text())}
    assert set(measured) == set(SPEED_ROWS)
    for name, begins in SPEED_ROWS.items():
        row = measured[name]
        [line] = [line for line in SPEED.splitlines() if line.startswith(f"| {begins}")]
        _, _, own, peer, ratio, _ = line.split("|")
        assert own.split()[0] == f"{row['airtcp_seconds']:g}", name
        assert peer.split()[0] == f"{row['peer_seconds']:g}", name
        assert ratio.split()[0] == f"{float(format(row['ratio'], '.2g')):g}", name
        if "ratio_to_optimised" in row:
            low, high = row["ratio_to_optimised"]
            assert f"{low} to {high}" in SPEED, name


# --- Rooms and links -------------------------------------------------------------------------------------------------


def test_every_room_is_in_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = [path for path in (ROOT / "crates").iterdir() if (path / "Cargo.toml").exists()]
    core = ROOT / "crates/core/src"
    rooms += [path for path in core.iterdir() if path.name != "lib.rs"]
    package = ROOT / "python/airtcp"
    rooms += [path for path in package.iterdir() if (path / "__init__.py").exists()]
    missing = [
        str(room.relative_to(ROOT)) for room in rooms if f"`{room.name}" not in text and f"/{room.name}" not in text
    ]
    assert missing == []


ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
ROOTS = ("bench", "crates", "docs", "evidence", "kernel", "playground", "python", "studies", "tests", "tools")


def rows_of(title: str) -> list[str]:
    part = ARCHITECTURE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return [line for line in part.splitlines() if line.startswith("| ") and not line.startswith("| where |")]


def paths(line: str) -> Iterator[tuple[str, list[Path]]]:
    """Names that a line gives to files, each with where it may lie: below the root, or in or beside the first one."""
    first = ROOT
    for name in re.findall(r"`([\w./-]+(?:/|\.\w+))`", line):
        if first == ROOT:
            first = ROOT / name
        yield name, [ROOT / name, first / name, first.parent / name]


@pytest.mark.parametrize("title", ["Index of topics", "Map"])
def test_a_line_of_architecture_s_tables_is_short_and_names_files(title: str) -> None:
    rows = rows_of(title)
    assert len(rows) > 20
    assert [row for row in rows if len(row) > 160] == []
    named = [name for row in rows for name in paths(row)]
    assert len(named) >= len(rows) - 1
    assert [name for name, places in named if not any(place.exists() for place in places)] == []


def test_paths_of_a_line_are_found() -> None:
    line = "| `crates/core/src/rng.rs`, `flags.rs` | `Purpose::Queue`, and `docs/` |"
    found = dict(paths(line))
    assert list(found) == ["crates/core/src/rng.rs", "flags.rs", "docs/"]
    assert ROOT / "crates/core/src/flags.rs" in found["flags.rs"]
    assert ROOT / "docs" in found["docs/"]


def pages() -> list[Path]:
    names = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "kernel/README.md")
    own = [ROOT / name for name in names]
    return [*own, *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "evidence").glob("*.md"))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


def headings(page: Path) -> list[str]:
    return re.findall(
        r"^#+ (.+)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )


def anchors(page: Path) -> set[str]:
    """Names of a page's headings, as GitHub makes them."""
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings(page))
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_anchors_of_links_are_headings(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)#:]*\.md)?#([^)]+)\)", text)
    assert [f"{to}#{name}" for to, name in links if name not in anchors(page.parent / to if to else page)] == []


# A heading that begins or ends so does not name its subject.
ODD_HEADING = re.compile(r"(Beside|From|How|Of|What|When|Where|Whether|Who|Whose|Why) |.* (it|one|them)( on| up)?$")


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_headings_name_their_subject(page: Path) -> None:
    assert [heading for heading in headings(page) if ODD_HEADING.match(heading)] == []


# --- Sentences -------------------------------------------------------------------------------------------------------

MOST_WORDS = 25


def sentences(text: str) -> Iterator[str]:
    """Sentences of a page: without code, tables, headings and references, which are no sentences.

    A sentence ends at a full stop, a question mark or an exclamation mark before a space, and where a paragraph or an
    entry of a list ends. Text in quotes and code count as one word: they are what is named.
    """
    text = re.sub(r"^```.*?^```|^(?: {4}[^\n]*\n)+", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text):
        if not paragraph.strip() or paragraph.lstrip().startswith(("|", "#", "<!--", "![")):
            continue
        line = " ".join(paragraph.split())
        yield from re.split(r"(?<![A-Z])(?<!al)(?<!vs)(?<=[.?!])[)*]*\s+(?=[^a-z]|airtcp|docs/)", line)


def length(sentence: str) -> int:
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
    plain = re.sub(r"`[^`]*`|\"[^\"]*\"|“[^”]*”", "Name", plain)
    return sum(1 for word in plain.split() if re.search(r"\w", word))


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_sentence_has_at_most_25_words(page: Path) -> None:
    allowed = LONG.get(str(page.relative_to(ROOT)), 0)
    long = [f"{length(s)} words: {s}" for s in sentences(page.read_text()) if length(s) > MOST_WORDS]
    assert len(long) <= allowed, "\n".join(long)
    assert len(long) == allowed, f"only {len(long)} are left: say so in LONG"


# A sentence that begins so does not begin with its subject. Descriptions of keys in Rust are read elsewhere.
ODD_OPENING = re.compile(r"(?:(?:-|\d+\.) )?[*\"]*(Of|What|Whatever|Whether|Whoever|Whose) ")
FROM_RUST = [ROOT / "docs/scenario.md", *(ROOT / "docs/policies").glob("*.md")]


@pytest.mark.parametrize(
    "page", [p for p in pages() if p not in FROM_RUST], ids=lambda page: str(page.relative_to(ROOT))
)
def test_sentences_begin_with_their_subject(page: Path) -> None:
    assert [sentence for sentence in sentences(page.read_text()) if ODD_OPENING.match(sentence)] == []


# Pages that are not there yet, with how many sentences are too long; no page may get more of them.
LONG: dict[str, int] = {}


def test_sentences_are_found_and_counted() -> None:
    text = (
        "# A head of words\n\nOne two, `three four` [five](six). Seven?\n- eight\n- nine e.g. ten\n\n```sh\nno\n```\n"
    )
    assert list(sentences(text)) == ["One two, `three four` [five](six).", "Seven?", "- eight", "- nine e.g. ten"]
    assert [length(s) for s in sentences(text)] == [4, 1, 1, 3]


def long_of(text: str) -> list[str]:
    return [f"{length(s)} words: {s}" for s in sentences(f"\n\n{text}") if length(s) > MOST_WORDS]


# --- Text of the program: help, messages, docstrings, keys -----------------------------------------------------------

PACKAGE = sorted((ROOT / "python/airtcp").rglob("*.py"))
GENERATED = ROOT / "python/airtcp/scenario.py"
# A text that begins so does not name its subject.
ODD_BEGINNING = re.compile(r"(What|Of|How|So|Whatever|Whose) \w")
# Calls whose text a user reads, besides `raise`.
SAYS = {"add", "add_argument", "error", "fail", "fault", "means", "say", "StopError", "warn"}


def commands(of: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield of
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from commands(command)


def help_texts(of: argparse.ArgumentParser) -> list[str]:
    texts = [of.description, of.epilog, *(action.help for action in of._actions)]
    # In an epilog each line stands for itself; a semicolon parts the exit codes.
    return [line for text in texts if text for part in text.split(";") for line in part.split("\n")]


def test_help_has_short_sentences() -> None:
    read = [text for command in commands(command_line()) for text in help_texts(command)]
    assert len(read) > 100
    assert [long for text in read for long in long_of(text)] == []


def text_of(node: ast.AST) -> str | None:
    """A string as a user reads it; an expression in it is a name."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(p.value) if isinstance(p, ast.Constant) else "Name" for p in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"{text_of(left) or 'Name'}{text_of(right) or 'Name'}"
    return None


def messages(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of whatever the source says to users."""
    for node in ast.walk(ast.parse(source)):
        calls = [node.exc] if isinstance(node, ast.Raise) else [node]
        for call in calls:
            if not isinstance(call, ast.Call):
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if isinstance(node, ast.Raise) or name in SAYS:
                for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
                    if text := text_of(argument):
                        yield argument.lineno, text


@pytest.mark.parametrize("path", PACKAGE, ids=lambda path: str(path.relative_to(ROOT / "python/airtcp")))
def test_messages_have_short_sentences(path: Path) -> None:
    # What follows a colon or a semicolon is a clause of its own: the place, the fault, the remedy.
    read = [
        (line, long)
        for line, text in messages(path.read_text())
        for part in re.split(r"[;:] ", text)
        for long in long_of(part)
    ]
    assert read == []


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, re.split(r"^ *(?:Args|Returns|Raises|Yields):", text, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("path", [path for path in PACKAGE if path != GENERATED], ids=lambda path: path.stem)
def test_docstrings_are_short_sentences_that_name_their_subject(path: Path) -> None:
    read = list(docstrings(path.read_text()))
    assert [(line, text.splitlines()[0]) for line, text in read if ODD_BEGINNING.match(text)] == []
    assert [(line, long) for line, text in read for long in long_of(text)] == []


def descriptions(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("description"), str):
            yield part["description"]
        for value in part.values():
            yield from descriptions(value)
    elif isinstance(part, list):
        for value in part:
            yield from descriptions(value)


@pytest.mark.parametrize("kind", ["sweep", "study", "experiment"])
def test_keys_are_described_by_short_sentences_that_name_their_subject(kind: str) -> None:
    read = list(descriptions(json.loads(schemas.schema(kind))))
    assert [text for text in read if ODD_BEGINNING.match(text)] == []
    assert [long for text in read for long in long_of(text)] == []


def cells(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("|"):
            yield from re.split(r"(?<!\\)\|", line)[1:-1]


@pytest.mark.parametrize(
    "page",
    [ROOT / "docs" / name for name in ("scenario.md", "results.md", "sweeps.md")]
    + sorted((ROOT / "docs/policies").glob("*.md")),
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_meanings_in_generated_tables_are_short_sentences(page: Path) -> None:
    assert [text for cell in cells(page.read_text()) for text in long_of(cell)] == []


# --- Text of studies -------------------------------------------------------------------------------------------------

STUDY_FILES = sorted((ROOT / "studies").glob("*/study.toml")) + sorted((ROOT / "studies").glob("*/experiments/*.toml"))
TEXTS = {"caption", "note", "question", "summary", "text", "why"}
# The rule of verdicts that was: a note gives reasons, the verdict follows from the checks.
OLD_RULE = re.compile(r"would be reproduced|partly|\bseeds? do(es)? not settle|do not settle it", re.IGNORECASE)


def texts(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key in TEXTS and isinstance(value, str):
                yield value
            else:
                yield from texts(value)
    elif isinstance(part, list):
        for value in part:
            yield from texts(value)


@pytest.mark.parametrize("path", STUDY_FILES, ids=lambda path: f"{path.parts[-3]}/{path.stem}")
def test_texts_of_studies_are_short_sentences_without_the_old_rule(path: Path) -> None:
    read = list(texts(tomllib.loads(path.read_text())))
    assert [text for text in read if OLD_RULE.search(text)] == []
    assert [long for text in read for long in long_of(text)] == []


def test_what_is_searched_is_found() -> None:
    source = """
def f():
    \"\"\"What it does.

    Raises:
        ValueError: never.
    \"\"\"
    raise ValueError(f"{f}: " + "too long", 1)
    faults.add("must be 1")
"""
    assert [text for _, text in messages(source)] == ["Name: too long", "must be 1"]
    assert [text.strip() for _, text in docstrings(source)] == ["What it does."]
    assert ODD_BEGINNING.match("What it does.")
    assert list(cells("| a | b \\| c |\nno\n")) == [" a ", " b \\| c "]
    assert list(texts({"note": "n", "x": [{"text": "t", "title": "no"}]})) == ["n", "t"]
    assert long_of("one " * 26)
    assert ODD_HEADING.match("Whose TCP it is")
    assert ODD_HEADING.match("Setting it up")
    assert not ODD_HEADING.match("Which TCP stack runs")
    assert ODD_OPENING.match("- **What differs.** No subject")
    assert OLD_RULE.search("Three seeds do not settle it.")
