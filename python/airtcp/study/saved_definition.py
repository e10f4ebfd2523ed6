"""The definition of a study beside its results, as `airtcp.sweeps.saved_definition` has that of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import msgspec

from airtcp.errors import DamagedError, FileError, StudyError
from airtcp.study.files import Answer, Assumption, Experiment, Finding, Matrix, Plot, Study
from airtcp.study.prepare import Prepared, prepare_plan
from airtcp.study.run_options import RunOptions
from airtcp.study.settle import Budget
from airtcp.sweeps.definition import changes_of
from airtcp.sweeps.planning import Plan, sources
from airtcp.sweeps.saved_definition import head, planned, sweep_of

Json = dict[str, Any]


def of_study(study: Study, prepared: Sequence[Prepared], asked: RunOptions) -> Json:
    """The definition of a study, as it was prepared."""
    options = asdict(asked) | {"settle": None if asked.settle is None else asked.settle.text}
    return _study(study, [(one.experiment, sweep_of(one.plan)) for one in prepared], options)


def _study(study: Study, experiments: Sequence[tuple[Experiment, Json]], options: Mapping[str, Any]) -> Json:
    def entry(whole: Study | Experiment, without: str) -> Json:
        names = [field.name for field in fields(whole) if field.name not in (without, "folder")]
        return {name: msgspec.to_builtins(getattr(whole, name)) for name in names}

    return head("study") | {
        "study": entry(study, "experiments"),
        "experiments": [{**entry(one, "sweep"), "sweep": sweep} for one, sweep in experiments],
        "asked": dict(options),
    }


def prepared(definition: Json, engine: str, where: Path) -> tuple[Study, list[Prepared], RunOptions]:
    """A study prepared again; as `planned`.

    Raises:
        DamagedError: it cannot be prepared.
    """
    try:
        asked = _asked(definition["asked"])
        out = []
        for entry in definition["experiments"]:
            made = planned(entry["sweep"], engine, where)
            rest = {key: value for key, value in entry.items() if key != "sweep"}
            rest["plots"] = msgspec.convert(rest["plots"], tuple[Plot, ...])
            rest["findings"] = msgspec.convert(rest["findings"], tuple[Finding, ...])
            rest["figures"] = tuple(rest["figures"])
            out.append(prepare_plan(Experiment(**rest, sweep=made.sweep), made, asked.mode))
        kept = dict(definition["study"])
        kept["assumptions"] = msgspec.convert(kept["assumptions"], tuple[Assumption, ...])
        kept["matrices"] = msgspec.convert(kept["matrices"], tuple[Matrix, ...])
        kept["answer"] = msgspec.convert(kept["answer"], Answer | None)
        study = Study(**kept, experiments=tuple(one.experiment for one in out), folder=Path())
    except (StudyError, msgspec.ValidationError) as error:
        raise DamagedError(f"{where}: cannot be prepared: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{where}: damaged: not what airtcp writes ({error})") from error
    return study, out, asked


def of_files(study: Study, options: Mapping[str, Any]) -> Json:
    """The definition of a study as its files have it, to be compared with a kept one.

    Raises:
        StudyError: it cannot be run with those options.
    """
    asked = _asked(options)
    wanted = study.only(asked.figures, asked.experiments)
    sizes = {asked.mode: True}
    changes = changes_of(asked.changes)
    entries = []
    for one in wanted.experiments:
        try:
            varied = one.sweep.varied(**sizes, seeds=asked.seeds, set=changes)
        except FileError as error:
            raise StudyError(str(error)) from error
        entries.append((one, sweep_of(Plan(varied, (), sources(varied)))))
    return _study(wanted, entries, {**options})


def _asked(options: Mapping[str, Any]) -> RunOptions:
    given: Json = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    budget = given.pop("settle")
    asked: RunOptions = RunOptions(**given)
    return asked if budget is None else replace(asked, settle=Budget.read(budget))


def compared(definition: Mapping[str, Any]) -> Json:
    """A definition without what differs from place to place, and from start to start."""

    def bare(value: object) -> object:
        if isinstance(value, dict):
            return {key: bare(item) for key, item in value.items() if key not in ("place", "cost")}
        return [bare(item) for item in value] if isinstance(value, (list, tuple)) else value

    found: Any = bare(dict(definition))
    for entry in found["experiments"]:
        del entry["sweep"]["kernels"]
        if definition["asked"]["settle"] is not None:
            entry["sweep"]["definition"].pop("seeds", None)
    return found  # type: ignore[no-any-return]


__all__ = ["compared", "of_files", "of_study", "prepared"]
