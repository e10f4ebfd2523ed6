"""Writes docs/clauses.md: for every clause of the documents in docs/clauses/ where it is done and which test holds it.

A comment such as `[RFC6298-5.4]` stands at the code that does a clause and at the test that holds it. `make generate`
calls this; so can you: `python tools/clauses.py`, or with `--check` to be told only what is not current.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
REGISTRY = ROOT / "docs/clauses"
PAGE = ROOT / "docs/clauses.md"
#: Where comments with tags stand.
SEARCHED = ("crates/core/src", "crates/sim/src", "crates/sim/tests", "tests")

LEVELS = ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "step")
#: Of a clause's keys, those that say why it is not done.
REASONS = ("not_done", "does_not_apply")
TAG = re.compile(r"\[((?:RFC\d{4}|IEEE80211)-[\w.-]+)\]")
COMMENT = re.compile(r"^\s*(//[/!]?|#)(.*)$")
ITEM = re.compile(
    r"^\s*(?:pub(?:\([a-z]+\))? )?(?:const |async |unsafe )*"
    r"(?:(?P<fn>fn) (?P<name>\w+)|(?:struct|enum|trait|type|static|mod) (?P<type>\w+)|def (?P<def>\w+)"
    r"|(?P<field>\w+): )"
)
TEST_FILES = re.compile(r"(^|/)tests?(/|\.rs$)|/story\.rs$|(^|/)test_\w+\.py$")


@dataclass(frozen=True)
class Clause:
    """A duty of a document, in our own words."""

    id: str
    section: str
    level: str
    duty: str
    #: How it is done where that is not plain, or by which option.
    note: str = ""
    not_done: str = ""
    does_not_apply: str = ""

    @property
    def is_done(self) -> bool:
        """Whether airtcp does it."""
        return not (self.not_done or self.does_not_apply)


@dataclass(frozen=True)
class Document:
    """A file of docs/clauses/."""

    name: str
    title: str
    source: str
    about: str
    clauses: tuple[Clause, ...]


@dataclass(frozen=True)
class Place:
    """A comment with a tag: its clause and what it stands at."""

    clause: str
    path: str
    line: int
    function: str
    #: It stands among tests.
    is_test: bool
    #: What it stands at is a function that is run as a test.
    is_run: bool

    def __str__(self) -> str:
        return f"`{self.path}:{self.function}`"


class RegistryError(ValueError):
    """A file of docs/clauses/ that does not say what it must."""


def document(path: Path) -> Document:
    """The clauses of a file, in its order."""
    held = tomllib.loads(path.read_text(encoding="utf-8"))
    prefix = held["prefix"]
    clauses = []
    for key, value in held["clauses"].items():
        where = f"{path.name}: [clauses.{key!r}]"
        section, dash, number = key.rpartition("-")
        if not (section and dash and re.fullmatch(r"\d+[a-z]?", number)):
            raise RegistryError(f"{where}: must be a section and a number, such as '3.1-2'")
        unknown = value.keys() - {"level", "duty", "note", *REASONS}
        if unknown:
            raise RegistryError(f"{where} has the unknown key `{min(unknown)}`")
        if value.get("level") not in LEVELS:
            raise RegistryError(f"{where} level = {value.get('level')!r}: must be one of {', '.join(LEVELS)}")
        if not value.get("duty") or any(not text.strip() for text in value.values()):
            raise RegistryError(f"{where} must say its duty, and no key may be empty")
        if sum(reason in value for reason in REASONS) > 1:
            raise RegistryError(f"{where} is either not done or does not apply")
        clauses.append(Clause(f"{prefix}-{key}", section, **value))
    return Document(held["document"], held["title"], held["source"], held.get("about", ""), tuple(clauses))


def registry() -> list[Document]:
    """All documents, by number."""
    return [document(path) for path in sorted(REGISTRY.glob("*.toml"), key=lambda path: (len(path.name), path.name))]


def files() -> Iterator[Path]:
    for folder in SEARCHED:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".rs", ".py"):
                yield path


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def enclosing(lines: list[str], at: int) -> tuple[str, bool] | None:
    """The name of what a line is in, and whether that is a function."""
    depth = indent(lines[at])
    for line in reversed(lines[:at]):
        # The last line of a signature that has several is not what encloses.
        if line.strip() and indent(line) < depth and not line.lstrip().startswith(")"):
            found = ITEM.match(line)
            if found and not found["field"]:
                name = next(name for name in found.group("name", "type", "def") if name)
                return name, found["type"] is None
            depth = indent(line)
    return None


def stands_at(lines: list[str], at: int) -> str:
    """The function, type or field that a comment belongs to: what follows it, or else what it is in."""
    after = at + 1
    while after < len(lines) and (COMMENT.match(lines[after]) or re.match(r"\s*(#\[|@)", lines[after])):
        after += 1
    around = enclosing(lines, at)
    if after < len(lines) and indent(lines[after]) == indent(lines[at]) and (found := ITEM.match(lines[after])):
        # Within a function `x: y` is an argument or a value, not a field of its own.
        if not found["field"]:
            return next(name for name in found.group("name", "type", "def") if name)
        if around is None or not around[1]:
            return found["field"] if around is None else f"{around[0]}.{found['field']}"
    return around[0] if around else "the file"


def functions_run(lines: list[str]) -> Iterator[str]:
    """The names of a file's tests."""
    is_marked = False
    for line in lines:
        is_marked |= line.strip() == "#[test]"
        found = ITEM.match(line)
        if found and found["fn"] and is_marked:
            is_marked = False
            yield found["name"]
        elif found and found["def"] and found["def"].startswith("test_"):
            yield found["def"]


def places(path: Path) -> Iterator[Place]:
    """All tags in a file."""
    name = path.relative_to(ROOT).as_posix()
    lines = path.read_text(encoding="utf-8").splitlines()
    tests = set(functions_run(lines))
    in_tests = TEST_FILES.search(name) is not None
    for at, line in enumerate(lines):
        if line.startswith("mod tests {"):
            in_tests = True
        comment = COMMENT.match(line)
        for clause in TAG.findall(comment[2]) if comment else []:
            function = stands_at(lines, at)
            yield Place(clause, name, at + 1, function, in_tests, function in tests)


def all_places() -> list[Place]:
    return [place for path in files() for place in places(path)]


# --- The page ---------------------------------------------------------------------------------------------------------

HEAD = """# Clauses and their tests

This page is for those who ask whether airtcp does what a standard says, and what holds it to that. It is written by
`make generate` from [docs/clauses/](clauses/) and from comments in code and tests; do not edit it.

Each clause is a duty of a document in our own words. A clause that is *done* names the code that does it and the tests
that fail without it. Any other says why it is not done, or why it does not apply.

The behaviour of airtcp depends on the options and the profile of a host. A clause counts as done if some documented
setting does it; the note says which, and where the default profile follows its system instead. `step` is a step of an
algorithm that the document states without a key word.

To find a clause in the source, search for its name in square brackets, such as `[RFC6298-5.4-1]`.
"""


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def where(clause: Clause, found: list[Place], test: bool) -> str:
    kept = dict.fromkeys(str(place) for place in found if place.clause == clause.id and place.is_test == test)
    return "<br>".join(kept)


def row(clause: Clause, found: list[Place]) -> str:
    duty = clause.duty + (f" *{clause.note}*" if clause.note else "")
    if clause.is_done:
        done, test = where(clause, found, test=False), where(clause, found, test=True)
    else:
        why = f"**not done**: {clause.not_done}" if clause.not_done else f"does not apply: {clause.does_not_apply}"
        done, test = why, where(clause, found, test=True)
    return f"| {clause.id} | {clause.level} | {cell(duty)} | {cell(done)} | {cell(test)} |"


def is_traced(clause: Clause, found: list[Place]) -> bool:
    """Done, with code and a test to show for it."""
    kinds = {place.is_test for place in found if place.clause == clause.id}
    return clause.is_done and kinds == {True, False}


def share(part: int, whole: int) -> str:
    return f"{part} of {whole}" if whole else "none"


def summary(documents: list[Document], found: list[Place]) -> Iterator[str]:
    yield from ("## Summary", "", "Clauses that apply, and of these those traced to code and to a test:", "")
    yield "| document | clauses | MUST, MUST NOT | SHOULD, SHOULD NOT | MAY and steps | not done | does not apply |"
    yield "|---|---|---|---|---|---|---|"
    groups = (("MUST", "MUST NOT"), ("SHOULD", "SHOULD NOT"), ("MAY", "step"))
    for name, clauses in [
        *((document.name, document.clauses) for document in documents),
        ("all", tuple(clause for document in documents for clause in document.clauses)),
    ]:
        apply = [clause for clause in clauses if not clause.does_not_apply]
        counts = []
        for levels in groups:
            of_level = [clause for clause in apply if clause.level in levels]
            counts.append(share(sum(is_traced(clause, found) for clause in of_level), len(of_level)))
        not_done = sum(bool(clause.not_done) for clause in clauses)
        yield f"| {name} | {len(clauses)} | {' | '.join(counts)} | {not_done} | {len(clauses) - len(apply)} |"
    yield ""


def gaps(documents: list[Document]) -> Iterator[str]:
    yield from (
        "## Duties that are not done",
        "",
        "These are of level MUST and SHOULD; the tables have the reasons.",
        "",
    )
    for document in documents:
        for clause in document.clauses:
            if clause.not_done and clause.level not in ("MAY", "step"):
                yield f"- {clause.id} ({clause.level}): {clause.duty}"
    yield ""


def page(documents: list[Document], found: list[Place]) -> str:
    out = [HEAD]
    out += summary(documents, found)
    out += gaps(documents)
    for document in documents:
        out += [f"## {document.name}: {document.title}", ""]
        out += [text for text in (document.about, document.source) if text for text in (text, "")]
        out += ["| clause | level | duty | where it is done | tests |", "|---|---|---|---|---|"]
        out += [row(clause, found) for clause in document.clauses]
        out.append("")
    return "\n".join(out).rstrip() + "\n"


# --- What must hold ---------------------------------------------------------------------------------------------------


def faults(documents: list[Document], found: list[Place]) -> list[str]:
    """What registry and tags say of each other that cannot be."""
    clauses = {clause.id: clause for document in documents for clause in document.clauses}
    told = [
        f"{place.path}:{place.line}: [{place.clause}] is in no file of docs/clauses/"
        for place in found
        if place.clause not in clauses
    ]
    told += [
        f"{place.path}:{place.line}: [{place.clause}] stands at `{place.function}`, which is no test"
        for place in found
        if place.is_test and not place.is_run
    ]
    for clause in clauses.values():
        kinds = {place.is_test for place in found if place.clause == clause.id}
        if clause.is_done and False not in kinds:
            told.append(f"{clause.id} is done, and no comment in the code says where")
        if clause.is_done and True not in kinds:
            told.append(f"{clause.id} is done, and no test is marked with it")
        if not clause.is_done and False in kinds:
            told.append(f"{clause.id} is marked in the code, and the registry says that it is not done")
    if len(clauses) < sum(len(document.clauses) for document in documents):
        told.append("two clauses of docs/clauses/ have the same name")
    return told


def generated() -> dict[Path, str]:
    """The page and what it must hold."""
    return {PAGE: page(registry(), all_places())}


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    told = faults(registry(), all_places())
    for fault in told:
        print(fault)
    for path, text in generated().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            name = path.relative_to(ROOT)
            print(f"{name} is not current: run make generate" if check else f"{name} written")
            if check:
                told.append("not current")
            else:
                path.write_text(text, encoding="utf-8")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
