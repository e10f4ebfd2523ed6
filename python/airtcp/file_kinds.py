"""Recognises files that were given to the wrong command, and names the right one."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Literal

from airtcp._airtcp import Document, DocumentError, ScenarioError
from airtcp._files import fault_of_input

Kind = Literal["scenario", "sweep", "variants", "experiment", "study"]


def misplaced(path: Path, wanted: Kind) -> str | None:
    """Names the kind of a file or folder and the command that takes it, if it is not of the wanted kind."""
    keys = _keys(path)
    kind = _kind(path, keys)
    if kind is None or kind == wanted:
        return None
    match kind:
        case "scenario" | "sweep":
            return f"{path}: is a {kind}: `{_command('run' if kind == 'scenario' else 'sweep', path)}` runs it"
        case "variants":
            return f'{path}: holds variants that sweeps share: a sweep names it, as in variants = "{path.name}"'
        case "experiment":
            parents = path.resolve().parents
            study = next((p for p in parents[:2] if (p / "study.toml").is_file()), None)
            folder = "STUDY" if study is None else path.parent if study == parents[0] else path.parent.parent
            told = _command("study", "run", folder, "--experiment", keys.get("id", "ID"))
            return f"{path}: is an experiment: `{told}` runs it"
        case "study":
            folder = path if path.is_dir() else path.parent
            return f"{path}: is a study: `{_command('study', 'run', folder)}` runs it"


def _command(*words: object) -> str:
    """A command that may be copied into a shell, whatever the names in it."""
    return shlex.join(["airtcp", *map(str, words)])


def scenario_error(error: ScenarioError, path: Path) -> ScenarioError:
    """The error, or a better one if the file is not a scenario at all."""
    told = misplaced(path, "scenario")
    if told is None:
        return error
    better = ScenarioError(told)
    file, _, message = told.partition(": ")
    better.errors = [{"file": file, "line": None, "argument": None, "key": "", "value": None, "message": message}]
    return better


def _keys(path: Path) -> dict[str, Any]:
    """The keys at a file's top level; empty if it cannot be read."""
    if path.is_dir():
        return {}
    try:
        return Document.load(str(path), "file").value() if fault_of_input(path) is None else {}
    except DocumentError:
        return {}


def _kind(path: Path, keys: dict[str, Any]) -> Kind | None:
    if path.is_dir():
        return "study" if (path / "study.toml").is_file() else None
    if "nodes" in keys:
        return "scenario"
    if "findings" in keys or "plots" in keys or {"id", "measures"} <= keys.keys():
        return "experiment"
    if ("question" in keys or {"id", "assumptions"} <= keys.keys()) and not {"parameters", "set"} & keys.keys():
        return "study"
    if "measures" in keys:
        return "sweep"
    return "variants" if keys.keys() in ({"variants"}, {"arms"}) else None
