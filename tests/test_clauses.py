"""Every clause that is done is marked in code and tests, and docs/clauses.md says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import clauses
from clauses import Clause, Document, Place

HELD = clauses.registry()
FOUND = clauses.all_places()


def test_the_page_is_current() -> None:
    for path, text in clauses.generated().items():
        assert path.read_text() == text, "run make generate"


def test_code_tests_and_registry_agree() -> None:
    assert clauses.faults(HELD, FOUND) == []


def test_clauses_have_reasons_of_a_sentence_or_two() -> None:
    for document in HELD:
        for clause in document.clauses:
            for text in (clause.duty, clause.note, clause.not_done, clause.does_not_apply):
                assert not text or text.endswith("."), f"{clause.id}: {text}"
                for sentence in text.split(". "):
                    assert len(sentence.split()) <= 25, f"{clause.id}: {sentence}"


def test_most_duties_are_traced_to_a_test() -> None:
    """The page says how many; fewer would be a step back."""
    duties = [c for d in HELD for c in d.clauses if c.level.startswith("MUST") and not c.does_not_apply]
    traced = [clause for clause in duties if clauses.is_traced(clause, FOUND)]
    assert len(duties) >= 123
    assert len(traced) >= 109


# --- The checks can fail ----------------------------------------------------------------------------------------------


def registered(**extra: str) -> list[Document]:
    clause = Clause("RFC0001-1-1", "1", "MUST", "Work.", **extra)
    return [Document("RFC 1", "Work", "Memory.", "", (clause,))]


def place(name: str, is_test: bool, is_run: bool = True) -> Place:
    return Place(name, "a.rs", 1, "work", is_test, is_run)


CODE, TEST = place("RFC0001-1-1", False), place("RFC0001-1-1", True)


@pytest.mark.parametrize(
    ("extra", "found", "told"),
    [
        ({}, [CODE, TEST], None),
        ({}, [TEST], "no comment in the code"),
        ({}, [CODE], "no test is marked"),
        ({}, [CODE, TEST, place("RFC0001-1-2", True)], "[RFC0001-1-2] is in no file"),
        ({}, [CODE, TEST, place("RFC0001-1-1", True, is_run=False)], "which is no test"),
        ({"not_done": "No time."}, [], None),
        ({"not_done": "No time."}, [CODE], "says that it is not done"),
        ({"does_not_apply": "No radio."}, [TEST], None),
    ],
)
def test_a_fault_is_told(extra: dict[str, str], found: list[Place], told: str | None) -> None:
    faults = clauses.faults(registered(**extra), found)
    assert [told in fault for fault in faults if told] == ([True] if told else [])
    assert bool(faults) == bool(told)


def test_two_clauses_of_one_name_are_told() -> None:
    twice = registered(not_done="No time.") * 2
    assert clauses.faults(twice, []) == ["two clauses of docs/clauses/ have the same name"]


# `@` stands for the name of a document, or the tags would count.
RUST = """\
struct Work {
    // [@1-1]
    done: bool,
}

impl Work {
    /// Does it.
    // [@1-2]
    fn work(
        &mut self,
    ) -> bool {
        if self.done {
            // [@1-3] [@1-4]
            done: true,
        }
    }
}

mod tests {
    // [@1-1]
    #[test]
    fn it_works() {
        // [@1-2]
        work();
    }

    // [@1-3]
    fn helper() {}
}
"""


def test_a_tag_belongs_to_what_it_stands_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(clauses, "ROOT", tmp_path)
    (tmp_path / "work.rs").write_text(RUST.replace("@", "RFC0001-"))
    found = [(p.clause[-1], p.function, p.is_test, p.is_run) for p in clauses.places(tmp_path / "work.rs")]
    assert found == [
        ("1", "Work.done", False, False),
        ("2", "work", False, False),
        ("3", "work", False, False),
        ("4", "work", False, False),
        ("1", "it_works", True, True),
        ("2", "it_works", True, True),
        ("3", "helper", True, False),
    ]
    of_test = "# [RFC0001-1-1]\n@mark\ndef test_work() -> None:\n    pass\n"
    (tmp_path / "test_work.py").write_text(of_test)
    [of_python] = clauses.places(tmp_path / "test_work.py")
    assert (of_python.function, of_python.is_test, of_python.is_run) == ("test_work", True, True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('"1.1" = { level = "MUST", duty = "Work." }', "must be a section and a number"),
        ('"1-1" = { level = "WILL", duty = "Work." }', "level = 'WILL': must be one of MUST"),
        ('"1-1" = { level = "MUST" }', "must say its duty"),
        ('"1-1" = { level = "MUST", duty = "Work.", not_done = "" }', "no key may be empty"),
        ('"1-1" = { level = "MUST", duty = "Work.", done = "yes" }', "unknown key `done`"),
        ('"1-1" = { level = "MUST", duty = "W.", not_done = "N.", does_not_apply = "N." }', "is either"),
    ],
)
def test_a_faulty_registry_is_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "rfc1.toml"
    path.write_text(f'document = "RFC 1"\nprefix = "RFC0001"\ntitle = "T"\nsource = "S"\n[clauses]\n{text}\n')
    with pytest.raises(clauses.RegistryError, match=r"rfc1\.toml") as error:
        clauses.document(path)
    assert told in str(error.value)
