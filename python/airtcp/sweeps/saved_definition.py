"""The definition of a sweep beside its results, so that `airtcp verify` plans the runs again.

`verify/definition.json` holds the whole definition: scenarios and shared variants are in it, and it names no file.
Nothing in it can be carried out: a variant of kernels has the kernel's name and no place of one.
`airtcp.study.saved_definition` has the definition of a study.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from airtcp._marker import Batch
from airtcp._text import to_json
from airtcp.errors import DamagedError, FileError
from airtcp.sweeps.definition import Sweep
from airtcp.sweeps.planning import Plan, PlannedRun, plan
from airtcp.tasks.task import key_of

FORMAT: Final = "airtcp-definition"
FORMAT_VERSION: Final = 2
DEFINITION: Final = "verify/definition.json"

_APPLIED: Final = ("quick", "full")
"""Tables of a sweep that the kept one has applied already."""

Json = dict[str, Any]


def of_sweep(planned: Plan) -> Json:
    """The definition of a sweep, as it was planned."""
    return head("sweep") | {"sweep": sweep_of(planned)}


def add(batch: Batch, definition: Mapping[str, Any]) -> None:
    """Puts a definition among the files of a folder.

    Raises:
        OSError: it cannot be written.
    """
    batch.add(DEFINITION, (to_json(definition) + "\n").encode())


def head(kind: str) -> Json:
    """The first keys of a definition."""
    return {"format": FORMAT, "format_version": FORMAT_VERSION, "kind": kind}


def sweep_of(planned: Plan) -> Json:
    """The entry `sweep` of a definition."""
    sweep = planned.sweep
    assert sweep.document is not None
    document: Json = {"name": sweep.name, **sweep.document.value()}
    for size in _APPLIED:
        document.pop(size, None)
    kernels: dict[str, str] = {}
    variants = []
    for table, variant in zip(document.get("variants", []), sweep.variant_list, strict=False):
        one = dict(table)
        if isinstance(one.get("scenario"), str):
            one["scenario"] = planned.sources[str(variant.scenario)]
        if variant.kernel is not None and variant.name is not None:
            kernels[variant.name] = next(
                (p.task.kernel.name for p in planned.points if p.variant == variant.name and p.task.kernel is not None),
                "",
            )
        for key in ("engine", "kernel"):
            one.pop(key, None)
        variants.append(one)
    if "variants" in document:
        document["variants"] = variants
    if isinstance(document.get("scenario"), str):
        used = [
            variant
            for variant, table in zip(sweep.variant_list, variants or [{}], strict=True)
            if "scenario" not in table
        ]
        if used:
            document["scenario"] = planned.sources[str(used[0].scenario)]
        else:
            del document["scenario"]
    return {"definition": document, "kernels": kernels}


# --- from a folder ----------------------------------------------------------------------------------------------------


def check(definition: object, where: Path) -> Json:
    """Content of a definition file.

    Raises:
        DamagedError: it is no definition of this version.
    """
    if (
        not isinstance(definition, dict)
        or definition.get("format") != FORMAT
        or definition.get("format_version") != FORMAT_VERSION
        or definition.get("kind") not in ("sweep", "study")
    ):
        raise DamagedError(f"{where}: not a definition that this airtcp reads: `format` must be {FORMAT!r}")
    return definition


def planned(kept: Any, engine: str, where: Path) -> Plan:  # noqa: ANN401
    """A sweep planned again.

    Args:
        kept: an entry `sweep` of a definition.
        engine: that carried the runs out, so that they have the keys they had.
        where: the file, for messages.

    Raises:
        DamagedError: it cannot be planned.
    """
    try:
        document = dict(kept["definition"])
        kernels = {str(variant): str(name) for variant, name in kept["kernels"].items()}
        _refuse_files(document, where)
        made = plan(Sweep(**document))
    except FileError as error:
        raise DamagedError(f"{where}: cannot be planned: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{where}: damaged: not what airtcp writes ({error})") from error
    return replace(made, points=tuple(_named(point, engine, kernels) for point in made.points))


def _refuse_files(document: Json, where: Path) -> None:
    variants = document.get("variants", [])
    scenarios = [document.get("scenario", {}), *(variant.get("scenario", {}) for variant in variants)]
    if not isinstance(variants, list) or not all(isinstance(one, dict) for one in scenarios):
        raise DamagedError(f"{where}: names a file: scenarios and variants must be in it")
    if any(key in variant for variant in variants for key in ("engine", "kernel")):
        raise DamagedError(f"{where}: names a kernel in a variant: `kernels` must name it")


def _named(point: PlannedRun, engine: str, kernels: Mapping[str, str]) -> PlannedRun:
    name = kernels.get(point.variant or "")
    full = engine if name is None else f"{engine}+{name}"
    resolved = json.loads(point.task.scenario)
    key, cell = key_of(resolved, full), key_of({**resolved, "seed": 0}, full)
    return replace(point, task=replace(point.task, key=key, cell=cell))


def kernels_of(definition: Json) -> dict[tuple[str, str], str]:
    """The kernel of each variant of kernels, by its table and name."""
    entries = [("runs", definition)] if definition["kind"] == "sweep" else []
    entries += [(entry["id"], entry) for entry in definition.get("experiments", [])]
    return {(table, variant): name for table, entry in entries for variant, name in entry["sweep"]["kernels"].items()}


def tables(plans: Iterable[tuple[str, Plan]]) -> dict[str, list[tuple[str, PlannedRun]]]:
    """The points of each run, by its key, with their tables."""
    found: dict[str, list[tuple[str, PlannedRun]]] = {}
    for table, one in plans:
        for point in one.points:
            found.setdefault(point.key, []).append((table, point))
    return found


__all__ = ["DEFINITION", "add", "check", "kernels_of", "of_sweep", "planned"]
