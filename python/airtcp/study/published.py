"""Published verdicts: `published.json` beside a study's files, from which RESULTS.md and tables on pages are written.

It holds the results of a study's run: for each finding its checks with means and intervals, and the verdict. Verdicts
are computed again from the intervals whenever the file is read, so that an altered word is found.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from airtcp._files import read_bytes, within
from airtcp.errors import StudyError
from airtcp.study.files import Finding, Study
from airtcp.study.findings import FindingOutcome, Judged, conclude, each_check

FORMAT: Final = "airtcp-published"
FORMAT_VERSION: Final = 1
PUBLISHED: Final = "published.json"

CARRIED: Final = "carried"
"""Key of the file: engines that gave the same bits on stated runs, see `airtcp.study.carried`."""

DIGITS: Final = 9
"""Significant digits of published numbers: more than readers need, and the same on every machine."""

Json = dict[str, Any]

_COPIED: Final = ("study", "title", "mode", "seeds", "airtcp_version", "engine", "command", "runs", "wall_s")


def from_run(study: Study, document: Mapping[str, Any], tables: Sequence[str]) -> Json:
    """The published part of a `study.json`.

    Args:
        study: its files.
        document: content of `study.json`.
        tables: ids of plots that are published as tables.

    Raises:
        StudyError: the run is not complete, is of other files, or has no such plot.
    """
    if document["study"] != study.id:
        raise StudyError(f"{study.id}: the run is of the study {document['study']!r}: give a run of {study.id!r}")
    if document["status"] != "complete" or document["failed"]:
        raise StudyError(f"{study.id}: the run is not complete: {len(document['failed'])} failed; start it again")
    if document["mode"] == "full" and (document.get("settle") or "--seeds" in document["command"]):
        raise StudyError(
            f"{study.id}: `{document['command']}`: only a full run with the experiments' own seeds can be published"
        )
    if "--set" in shlex.split(document["command"]):
        raise StudyError(f"{study.id}: `{document['command']}`: a run with values of its own is not the study's")
    findings = {finding["id"]: finding for finding in document["findings"]}
    wanted = [(e.id, finding) for e in study.experiments for finding in e.findings]
    if list(findings) != [finding.id for _, finding in wanted]:
        raise StudyError(
            f"{study.id}: the run has other findings than its files: start it again, finished runs are kept"
        )
    plots = {plot["id"]: plot for experiment in document["experiments"] for plot in experiment["plots"]}
    if lacking := [name for name in tables if name not in plots]:
        raise StudyError(f"{study.id} has no plot {', '.join(map(repr, lacking))}")
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **{key: document[key] for key in _COPIED},
        "cpus": document["host"]["cpus"],
        "findings": [
            _entry(finding, experiment, [_rounded(check) for check in findings[finding.id]["checks"]])
            for experiment, finding in wanted
        ],
        "tables": [_rounded(plots[name]) for name in tables],
        "matrices": _rounded(document["matrices"]),
    }


def _entry(finding: Finding, experiment: str, checks: Sequence[Mapping[str, Any]]) -> Json:
    """A finding with everything that follows from its checks."""
    outcome = conclude(finding, tuple(Judged.from_dict(check, finding.enough_seeds) for check in checks))
    return {**_rounded(outcome.to_dict()), "experiment": experiment}


def _rounded(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def read(folder: Path) -> Json | None:
    """The published verdicts in a study's folder; `None` if it has none.

    Raises:
        StudyError: it cannot be read, or is of another version.
    """
    file = folder / PUBLISHED
    try:
        document = json.loads(read_bytes(within(folder, folder, PUBLISHED)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StudyError(f"{file}: cannot be read: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise StudyError(f"{file}: not published verdicts: format must be {FORMAT!r}")
    if document.get("format_version") != FORMAT_VERSION:
        raise StudyError(f"{file}: format_version {document.get('format_version')}: must be {FORMAT_VERSION}")
    return document


def with_texts(study: Study, published: Mapping[str, Any]) -> Json:
    """Published verdicts with the titles, claims and notes of the study's present files. Checks and numbers stay.

    Raises:
        StudyError: findings or checks differ from those of the files.
    """
    wanted = [(e.id, finding) for e in study.experiments for finding in e.findings]
    entries = published["findings"]
    if [(e["id"], [(check["text"], check["for"]) for check in e["checks"]]) for e in entries] != [
        (finding.id, each_check(finding)) for _, finding in wanted
    ]:
        raise StudyError(f"{study.id}: findings or checks differ from those of the study's files: publish a new run")
    renewed = [
        _entry(finding, experiment, entry["checks"])
        for entry, (experiment, finding) in zip(entries, wanted, strict=True)
    ]
    return {**published, "title": study.title, "findings": renewed}


def faults(study: Study, published: Mapping[str, Any]) -> list[str]:
    """Contradictions between published verdicts and the study's files, or their own intervals."""
    out = []
    if published["study"] != study.id:
        out.append(f"study = {published['study']!r}: must be {study.id!r}")
    entries = published["findings"]
    wanted = [(e.id, finding) for e in study.experiments for finding in e.findings]
    if [entry["id"] for entry in entries] != [finding.id for _, finding in wanted]:
        return [*out, "the findings differ from those of the study's files, or their order does"]
    for entry, (experiment, finding) in zip(entries, wanted, strict=True):
        out += faults_of(finding, experiment, entry)
    return out


def faults_of(finding: Finding, experiment: str, entry: Mapping[str, Any]) -> list[str]:
    """Contradictions between one published finding and its file, or its own intervals."""
    if [(check["text"], check["for"]) for check in entry["checks"]] != each_check(finding):
        return [f"{finding.id}: the checks differ from those of the study's files"]
    expected = _entry(finding, experiment, entry["checks"])
    out = [
        f"{finding.id}: {key} is {entry.get(key)!r}, but its intervals give {expected.get(key)!r}"
        for key in dict.fromkeys([*expected, *entry])
        if entry.get(key) != expected.get(key)
    ]
    out += [
        f"{finding.id}: `{check['text']}`: the measured value and its bounds contradict each other"
        for check in entry["checks"]
        if not _is_consistent(check)
    ]
    return out


def _is_consistent(check: Mapping[str, Any]) -> bool:
    """Whether the mean that is shown is the one that is compared with the bound."""
    left, right, measured = check["left"], check["right"], check["measured"]
    if measured is None:
        return not check["bounds"]
    ends = check["ci95"]
    if any((bound["ci95"] is None) is not (ends is None) for bound in check["bounds"]):
        return False
    shown = [(measured, ends), *((bound["mean"], bound["ci95"]) for bound in check["bounds"])]
    if any(pair is not None and not pair[0] <= mean <= pair[1] for mean, pair in shown):
        return False
    if right is None:
        return bool(left == measured)
    distance = left - right
    scale = max(abs(left), abs(right))
    side = distance if check["difference"] else left if _near(left, measured, scale) else right
    if not _near(measured, side, scale):
        return False
    # One bound is the distance itself; two lie around it, or around the value, at a tolerance.
    means = [bound["mean"] for bound in check["bounds"]]
    return _near(sum(means) / len(means), distance, scale)


def _near(a: float, b: float, scale: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6 * scale)


def with_engine(published: Mapping[str, Any], entry: Mapping[str, Any]) -> Json:
    """Published verdicts that name one more engine. The engine of the published run itself needs no entry."""
    others = [one for one in published.get(CARRIED, []) if one["engine"] != entry["engine"]]
    new = [] if entry["engine"] == published["engine"] else [dict(entry)]
    return {**published, CARRIED: [*others, *new]}


def engines(published: Mapping[str, Any]) -> list[str]:
    """The engines on which published verdicts stand: that of the run, then those that gave the same bits."""
    return [published["engine"], *(entry["engine"] for entry in published.get(CARRIED, []))]


def outcome_words(published: Mapping[str, Any]) -> list[str | None]:
    """The verdicts, in order."""
    return [entry["verdict"] for entry in published["findings"]]


__all__ = ["CARRIED", "FORMAT", "PUBLISHED", "FindingOutcome", "engines", "faults", "from_run", "outcome_words", "read"]
