"""Runs of a study, with identities and hashes of results that hold for every engine and every later version.

`published-runs.txt` in a study's folder has both for up to 1000 runs of the published one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, cast

from airtcp import _airtcp
from airtcp._files import read_bytes
from airtcp.errors import ResultsError
from airtcp.study.files import Study
from airtcp.study.prepare import Mode, prepare
from airtcp.sweeps.results import TASKS, read_table
from airtcp.sweeps.store import Store, measures_as_kept
from airtcp.tasks.task import Outcome, Task, key_of

DIGESTS: Final = "published-runs.txt"
"""In a study's folder, beside `published.json`: lines with a run's scenario and what came of it, as hashes."""
MAX_DIGESTS: Final = 1000
"""Runs of a study that are published. Their order is that of their hashes, so these are drawn at random."""

Json = dict[str, Any]


@cache
def _schema() -> Json:
    return cast("Json", json.loads(_airtcp.schema()))


def _objects(rule: Json) -> Iterator[Json]:
    """The kinds of tables that a rule of the schema accepts."""
    if "$ref" in rule:
        yield from _objects(_schema()["$defs"][rule["$ref"].rpartition("/")[2]])
    for one in [*rule.get("anyOf", ()), *rule.get("oneOf", ())]:
        yield from _objects(one)
    if "properties" in rule or rule.get("type") in ("object", "array"):
        yield rule


def _accepts(rule: Json, value: Json) -> bool:
    keys = rule.get("properties", {})
    if not rule.get("additionalProperties", True) and not value.keys() <= keys.keys():
        return False
    return all("const" not in keys[key] or keys[key]["const"] == value[key] for key in keys.keys() & value.keys())


def _without_defaults(value: object, rule: Json) -> object:
    if isinstance(value, list):
        items: Json = next((one["items"] for one in _objects(rule) if isinstance(one.get("items"), dict)), {})
        return [_without_defaults(one, items) for one in value]
    if not isinstance(value, dict):
        return value
    found: Json = next((one for one in _objects(rule) if one.get("type") != "array" and _accepts(one, value)), {})
    keys, other = found.get("properties", {}), found.get("additionalProperties")
    kept = {}
    for key, one in value.items():
        below = keys.get(key, other if isinstance(other, dict) else {})
        if one is not None and ("default" not in below or below["default"] != one):
            kept[key] = _without_defaults(one, below)
    return kept


def _overriding(value: object, below: object) -> Json:
    """Keys of a table that a table below it has, too: there a default decides something."""
    if not isinstance(value, dict) or not isinstance(below, dict):
        return {}
    kept = {}
    for key in value.keys() & below.keys():
        one = _overriding(value[key], below[key]) if isinstance(value[key], dict) else value[key]
        if one != {} and one is not None:
            kept[key] = one
    return kept


def _merged(value: object, over: object) -> Any:  # noqa: ANN401
    if not isinstance(value, dict) or not isinstance(over, dict):
        return over
    return {**value, **{key: _merged(value.get(key), one) for key, one in over.items()}}


def _with_overrides(stripped: Json, wlan: Json) -> Json:
    """A WLAN without defaults, but for those of radios that override its `phy` or a table of radios below."""
    below: Json = {"phy": wlan["phy"]} if isinstance(wlan.get("phy"), dict) else {}
    for key in ("ap_radio", "station_radio"):
        if kept := _overriding(wlan.get(key), below):
            stripped = {**stripped, key: _merged(stripped.get(key) or {}, kept)}
    below = _merged(below, wlan.get("station_radio") or {})
    stations = []
    for entry, station in zip(stripped.get("stations") or (), wlan.get("stations") or (), strict=True):
        kept = _overriding(station.get("radio"), below) if isinstance(station, dict) else {}
        stations.append({**entry, "radio": _merged(entry.get("radio") or {}, kept)} if kept else entry)
    return {**stripped, "stations": stations} if stations else stripped


def scenario_id(scenario: Mapping[str, Any]) -> str:
    """Identity of a run for every engine, also for one whose scenarios have more keys.

    Keys with their default values do not count: a key that a later version adds leaves the identities as they are.
    """
    return key_of(normal_form(scenario), "")[:16]


def normal_form(scenario: Mapping[str, Any]) -> Json:
    """A scenario with the same results, without keys that say what holds without them."""
    stripped = cast("Json", _without_defaults(dict(scenario), _schema()))
    if wlans := scenario.get("wlans"):
        stripped["wlans"] = [_with_overrides(*pair) for pair in zip(stripped["wlans"], wlans, strict=True)]
    return stripped


def digest(outcome: Outcome) -> str:
    """A hash of all that a run measured.

    Answers to queries go in without their names in the journal: these also name the version that answered.
    """
    kept = measures_as_kept(outcome).items()
    measured = [["sql" if name.startswith("sql:") else name, value] for name, value in kept]
    texts = sorted(json.dumps(one, sort_keys=True, separators=(",", ":")) for one in measured)
    return blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()


def digests_of(folder: Path) -> str:
    """The lines for `published-runs.txt`, of a finished study.

    Raises:
        ResultsError: its runs cannot be read.
    """
    store = Store.look(folder)
    found: dict[str, Outcome] = {}
    for row in read_table(folder, TASKS.removesuffix(".parquet")).iter_rows(named=True):
        outcome = store.get(row["key"])
        if outcome is not None and outcome.status == "ok":
            name = scenario_id(json.loads(row["scenario"]))
            before = found[name].measures if name in found else {}
            found[name] = replace(outcome, measures={**before, **outcome.measures})
    return "".join(f"{name} {digest(outcome)}\n" for name, outcome in sorted(found.items())[:MAX_DIGESTS])


def read_digests(study: Study) -> dict[str, str]:
    """Hashes of results by the identities of their runs, as published.

    Raises:
        ResultsError: there are none, or the file has other lines.
    """
    path = study.folder / DIGESTS
    if not path.is_file():
        raise ResultsError(f"{study.folder}: no {DIGESTS}: with --runs all the whole study runs again")
    try:
        return dict(line.split() for line in read_bytes(path).decode().splitlines())
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: must have two words in each line: {error}") from error


@dataclass(frozen=True)
class StudyRuns:
    """All runs of a study."""

    tasks: Mapping[str, Task]
    """Each run, with all measures that any experiment takes of it, by its identity."""
    variants: Mapping[str, tuple[str, ...]]
    """Identities of the runs of each variant of each experiment; its name is `experiment: variant`."""
    count: int
    """Number of runs. Two of them have one identity if they differ in nothing but a default that one spells out."""


def runs_of(study: Study, mode: str) -> StudyRuns:
    """Plans a study.

    Raises:
        StudyError: the study's files have faults.
    """
    tasks: dict[str, Task] = {}
    variants: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for one in prepare(study, cast("Mode", mode)):
        for point in one.plan.points:
            if point.key not in names:
                names[point.key] = scenario_id(json.loads(point.task.scenario))
            name = names[point.key]
            known = tasks.setdefault(name, replace(point.task, extracts=()))
            more = tuple(extract for extract in point.extracts if extract not in known.extracts)
            tasks[name] = replace(known, extracts=known.extracts + more)
            variants.setdefault(f"{one.experiment.id}: {point.variant or 'all runs'}", []).append(name)
    return StudyRuns(tasks, {variant: tuple(runs) for variant, runs in variants.items()}, len(names))


__all__ = ["DIGESTS", "MAX_DIGESTS", "StudyRuns", "digest", "digests_of", "read_digests", "runs_of", "scenario_id"]
