"""Published verdicts follow from their own intervals and the studies' files; pages are written from them."""

from __future__ import annotations

import copy
import importlib.util
import json
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from airtcp import _airtcp
from airtcp.errors import StudyError
from airtcp.study import carried, files, prepare, published, published_runs, run
from airtcp.study.published_runs import scenario_id
from airtcp.study.run_options import RunOptions
from airtcp.study.show import published_text
from conftest import ROOT, Command

STUDIES = sorted(path.parent for path in (ROOT / "studies").glob("*/study.toml"))
TINY = ROOT / "tests/data/tiny"
WORDS = ("reproduced", "mixed", "not", "open", "calibration", "identity")

Json = dict[str, Any]


@pytest.fixture(scope="module")
def verdicts() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verdicts", ROOT / "tools/verdicts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=STUDIES, ids=lambda path: path.name)
def study(request: pytest.FixtureRequest) -> files.Study:
    return files.read(request.param)


@pytest.fixture(scope="module")
def found(study: files.Study) -> Json:
    document = published.read(study.folder)
    assert document is not None
    return document


def pairs(study: files.Study, found: Json) -> list[tuple[Json, tuple[files.Finding, str]]]:
    wanted = [(finding, experiment.id) for experiment in study.experiments for finding in experiment.findings]
    return list(zip(found["findings"], wanted, strict=True))


def test_every_page_is_written_from_the_published_verdicts(verdicts: ModuleType) -> None:
    pages = verdicts.written()
    assert {folder / "RESULTS.md" for folder in STUDIES} < set(pages)
    assert [path for path, text in pages.items() if path.read_text(encoding="utf-8") != text] == []


def test_matrices_stand_on_one_page(verdicts: ModuleType) -> None:
    """A page of their own has them, and RESULTS.md of that study links to it."""
    for study_id, of_page in verdicts.PAGES.items():
        results = (ROOT / "studies" / study_id / "RESULTS.md").read_text(encoding="utf-8")
        cells = [line for line in of_page.read_text(encoding="utf-8").splitlines() if line.startswith("| **")]
        assert len(cells) > 10
        assert [line for line in cells if line in results] == []
        assert f"](../../{of_page.relative_to(ROOT)})" in results


def test_published_verdicts_follow_from_their_checks(study: files.Study, found: Json) -> None:
    assert published.faults(study, found) == []
    assert found["mode"] in prepare.MODES
    command = f"airtcp study run {study.id} --{found['mode']}"
    assert found["command"] == command if found["mode"] == "full" else found["command"].startswith(command)
    assert found["engine"].startswith(f"{found['airtcp_version']}+")


def test_a_change_of_words_needs_no_new_run(study: files.Study, found: Json) -> None:
    assert published.with_texts(study, found) == found
    reworded = {**found, "findings": [{**entry, "note": "old", "claim": "old"} for entry in found["findings"]]}
    assert published.with_texts(study, reworded) == found
    checks = [{**check, "text": f"{check['text']} + 0"} for check in found["findings"][0]["checks"]]
    for changed in ([{**found["findings"][0], "checks": checks}, *found["findings"][1:]], found["findings"][1:]):
        with pytest.raises(StudyError, match="publish a new run"):
            published.with_texts(study, {**found, "findings": changed})


def test_another_word_for_any_verdict_is_a_fault(study: files.Study, found: Json) -> None:
    for entry, (finding, experiment) in pairs(study, found):
        assert published.faults_of(finding, experiment, entry) == []
        for word in WORDS:
            if word != entry["verdict"]:
                (fault,) = published.faults_of(finding, experiment, {**entry, "verdict": word})
                assert entry["id"] in fault
                assert repr(word) in fault
        (fault,) = published.faults_of(finding, experiment, {**entry, "verdict_text": "mixed 9 of 9"})
        assert "mixed 9 of 9" in fault


def test_another_word_in_results_is_seen(study: files.Study, found: Json, verdicts: ModuleType) -> None:
    """Every verdict of RESULTS.md comes from published.json, so that a page with another word is not current."""
    text = "\n".join(verdicts.results(found)) + "\n"
    page = (study.folder / "RESULTS.md").read_text(encoding="utf-8")
    assert page == verdicts.results_page(study.folder, found)
    assert page.startswith(text)
    rows = [line for line in text.splitlines() if re.match(r"\| .* \|$", line) and line.count(" | ") >= 4]
    assert len([line for line in rows if any(f"| {entry['claim']} |" in line for entry in found["findings"])]) >= len(
        found["findings"]
    )


ALTERATIONS = {
    "holds": lambda check: check.update(holds=not check["holds"]),
    "settled": lambda check: check.update(settled=not check["settled"]),
    "the text": lambda check: check.update(text=check["text"] + " + 0"),
    "the mean": lambda check: check.update(measured=1.01 * check["measured"] + 1),
    "a bound's mean": lambda check: check["bounds"][0].update(mean=1e6 - 3 * check["bounds"][0]["mean"]),
    "the seeds needed": lambda check: check.update(needs=7 + (check["needs"] or 0)),
    "a gap": lambda check: check.update(gaps=["no crossing in 1 of 5 seeds"]),
}


@pytest.mark.parametrize("what", ALTERATIONS)
def test_an_altered_check_is_a_fault(study: files.Study, found: Json, what: str) -> None:
    for entry, (finding, experiment) in pairs(study, found):
        altered = copy.deepcopy(entry)
        (check, *_) = altered["checks"]
        if check["measured"] is None:
            continue
        ALTERATIONS[what](check)
        assert published.faults_of(finding, experiment, altered) != [], entry["id"]


@pytest.mark.parametrize("key", ["claim", "published", "figure", "kind", "note", "experiment", "measured_text", "id"])
def test_an_altered_finding_is_a_fault(study: files.Study, found: Json, key: str) -> None:
    altered = copy.deepcopy(found)
    altered["findings"][0][key] = "something else"
    assert published.faults(study, altered) != []
    altered = copy.deepcopy(found)
    del altered["findings"][-1]
    assert published.faults(study, altered) != []


FACTOR = re.compile(r" [<>]=? ([0-9.]+) \* ")


def test_runs_that_are_said_to_be_the_same_are(found: Json) -> None:
    """An identity that compares variants has one value on both sides, in the mean; a bound may be a part of it."""
    for entry in found["findings"]:
        if entry["kind"] == "identity":
            for check in entry["checks"]:
                if check["difference"]:
                    factor = FACTOR.search(check["text"])
                    part = float(factor.group(1)) if factor else 1.0
                    assert check["right"] == pytest.approx(part * check["left"], rel=1e-7), entry["id"]


# --- from a run -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    tiny = files.read(TINY)
    run.run(tiny, prepare.prepare(tiny, "quick"), out, RunOptions("tiny", "quick"))
    return out


def test_a_run_is_published(tiny_run: Path, tmp_path: Path, verdicts: ModuleType) -> None:
    folder = Path(shutil.copytree(TINY, tmp_path / "tiny"))
    verdicts.publish(folder, tiny_run, ["fig1b"])
    tiny = files.read(folder)
    found = published.read(folder)
    assert found is not None
    assert published.faults(tiny, found) == []
    assert (found["mode"], found["runs"], found["seeds"]) == ("quick", 21, "1 to 3")
    text = "\n".join(verdicts.results(found))
    assert "Preliminary" in text
    assert "| A longer queue loses less | less | " in text
    assert "| **reproduced** |" in text
    assert "### Goodput" in text or "### " in text
    verdicts.publish(folder, tiny_run, None)
    again = published.read(folder)
    assert again is not None
    assert [plot["id"] for plot in again["tables"]] == ["fig1b"], "what was a table stays one"


def test_verdicts_are_carried_to_an_engine_with_the_same_bits(
    tiny_run: Path, tmp_path: Path, verdicts: ModuleType
) -> None:
    folder = Path(shutil.copytree(TINY, tmp_path / "studies/tiny"))
    verdicts.publish(folder, tiny_run, [])
    text = (folder / published.PUBLISHED).read_text().replace(_airtcp.engine(), "0.0.1+0123456789abcdef")
    (folder / published.PUBLISHED).write_text(text)
    assert verdicts.carry(tmp_path / "studies") == []
    found = published.read(folder)
    assert found is not None
    assert published.engines(found) == ["0.0.1+0123456789abcdef", _airtcp.engine()]
    (entry,) = found[published.CARRIED]
    assert (entry["of"], entry["uncovered"]) == (21, [])
    assert 0 < entry["runs"] <= 2 * entry["variants"]
    assert "older engine" not in published_text(found, _airtcp.engine())
    assert f"Engine `{_airtcp.engine()}` gave the same bits" in "\n".join(verdicts.results(found))

    # One hash that is another: no verdict is carried, and the run is named.
    (folder / published.PUBLISHED).write_text(text)
    digests = folder / "published-runs.txt"
    stated = carried.stated_runs(files.read(folder))
    name = min(stated.tasks)
    digests.write_text(digests.read_text().replace(f"{name} {stated.digests[name]}", f"{name} {'0' * 16}"))
    (wrong,) = verdicts.carry(tmp_path / "studies")
    assert wrong == f"{name}: measures other than the published ones"
    assert (folder / published.PUBLISHED).read_text() == text


def test_the_command_compares_engines(airtcp: Command, tiny_run: Path, tmp_path: Path, verdicts: ModuleType) -> None:
    folder = Path(shutil.copytree(TINY, tmp_path / "cwd/studies/tiny"))
    verdicts.publish(folder, tiny_run, [])
    done = airtcp("verify", "tiny", "--engine")
    assert done.returncode == 0, done.stderr
    assert "all agree bit for bit" in done.stdout
    digests = folder / "published-runs.txt"
    digests.write_text("".join(f"{line.split()[0]} {'0' * 16}\n" for line in digests.read_text().splitlines()))
    done = airtcp("verify", "tiny", "--engine", "--json")
    assert done.returncode == 1
    (one,) = json.loads(done.stdout)
    assert not one["is_equal"]
    assert len(one["differs"]) == one["runs"]


def test_a_default_spelt_out_leaves_an_identity_as_it_is() -> None:
    """A later version has more keys, and its scenarios name their defaults."""
    studied = files.read(ROOT / "studies/coop-cwnd")
    tasks = published_runs.runs_of(studied, "quick").tasks
    scenario: Json = next(s for s in (json.loads(task.scenario) for task in tasks.values()) if s.get("coop"))
    daemon, queue = scenario["coop"][0]["daemon"], scenario["links"][0]["queue"]
    assert (daemon["stop_cap"], queue["limit_packets"]) == (1, None)
    named = scenario_id(scenario)
    del daemon["stop_cap"], queue["limit_packets"]
    assert scenario_id(scenario) == named
    daemon["stop_cap"] = 2
    changed = scenario_id(scenario)
    queue["limit_packets"] = 7
    assert len({named, changed, scenario_id(scenario)}) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": "interrupted"}, "not complete"),
        ({"failed": [{"what": "x", "error": "y"}]}, "1 failed"),
        ({"study": "other"}, "the study 'other': give a run of 'tiny'"),
        ({"mode": "full", "command": "airtcp study run tiny --full --seeds 9"}, "the experiments' own seeds"),
        ({"mode": "full", "settle": {"budget": "9", "steps": 1, "runs": 3}}, "the experiments' own seeds"),
        ({"findings": []}, "other findings than its files"),
    ],
)
def test_only_a_whole_run_of_these_files_is_published(tiny_run: Path, changes: Json, words: str) -> None:
    document = json.loads((tiny_run / "study.json").read_text()) | changes
    with pytest.raises(StudyError, match=words):
        published.from_run(files.read(TINY), document, [])
    with pytest.raises(StudyError, match="no plot 'fig9'"):
        published.from_run(files.read(TINY), json.loads((tiny_run / "study.json").read_text()), ["fig9"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "not published verdicts"),
        ('{"format": "airtcp-published", "format_version": 9}', "format_version 9: must be 1"),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, text: str, words: str) -> None:
    assert published.read(tmp_path) is None
    (tmp_path / published.PUBLISHED).write_text(text)
    with pytest.raises(StudyError, match=words):
        published.read(tmp_path)


def test_the_list_says_how_it_went_and_on_which_engine(
    airtcp: Command, tiny_run: Path, tmp_path: Path, verdicts: ModuleType
) -> None:
    folder = tmp_path / "cwd/studies/tiny"
    shutil.copytree(TINY, folder)
    assert "quick:" not in airtcp("study", "list").stdout.split("tiny")[1].split("studies/tiny")[0]
    verdicts.publish(folder, tiny_run, [])
    shown = " ".join(airtcp("study", "list").stdout.split())
    mine = shown.split("studies/tiny")[0].rsplit(" tiny ", 1)[1]
    assert "quick: 4 findings: " in mine
    assert "older engine" not in mine
    found = json.loads((folder / published.PUBLISHED).read_text())
    assert "older engine" not in published_text(found, found["engine"])
    assert published_text({**found, "engine": "0.0.1+abc"}, found["engine"]).endswith("; older engine (0.0.1+abc)")
    (folder / published.PUBLISHED).write_text(json.dumps({**found, "engine": "0.0.1+abc"}))
    assert "older engine (0.0.1+abc)" in " ".join(airtcp("study", "list").stdout.split())
