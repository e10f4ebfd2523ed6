"""A sweep of a scenario without a sweep file: some values are varied, and each group of flows is measured."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from airtcp import _airtcp
from airtcp.errors import ScenarioError, SweepError
from airtcp.file_kinds import scenario_error
from airtcp.sweeps.definition import Sweep
from airtcp.traffic_kinds import FIGURES, kind

MOST_MEASURES: Final = 12


def varying(file: str, vary: Sequence[str], changes: Sequence[str]) -> Sweep:
    """The sweep.

    Args:
        file: a scenario.
        vary: `KEY=V1,V2,...`, each a place of the scenario with its values.
        changes: `KEY=VALUE`, the same for all runs.

    Raises:
        ScenarioError: the scenario is wrong.
        SweepError: a value is.
    """
    path = Path(file)
    try:
        scenario = json.loads(_airtcp.Checked.load(path, [_airtcp.parse_set(change) for change in changes]).to_json())
    except ScenarioError as error:
        raise scenario_error(error, path) from None
    parameters = {}
    for argument in vary:
        if not argument.partition("=")[0].strip() or "=" not in argument:
            raise SweepError(f"--vary {argument}: must be KEY=V1,V2, such as links.line.rate=5Mbit/s,10Mbit/s")
        _, key, text = _airtcp.parse_set(argument)
        if key == "seed":
            raise SweepError(f"--vary {argument}: each point has several seeds: --seeds N says how many")
        values = [_value(part) for part in parts(text)]
        if len(set(map(str, values))) < len(values) or not values:
            raise SweepError(f"--vary {argument}: give different values, separated by commas")
        parameters[key] = values
    fixed = {key: _value(text) for _, key, text in map(_airtcp.parse_set, changes)}
    measures: dict[str, Any] = {}
    for flow in scenario["flows"]:
        name, word = flow["name"], re.sub(r"\W", "_", flow["name"])
        for figure in FIGURES[kind(flow)]:
            measure: dict[str, Any] = {
                "value": f"groups.{name}.{figure.column}",
                "label": f"{name}: {figure.label}",
            }
            if figure.unit is not None:
                measure["unit"] = figure.unit
            if figure.scale != 1:
                measure["scale"] = figure.scale
            measures[f"{figure.name}_{word}"] = measure
    if not measures:
        raise SweepError(f"{file}: has no flow to measure: write a sweep file (docs/sweeps.md)")
    return Sweep(
        name=path.stem,
        scenario=path.absolute(),
        parameters=parameters,
        set=fixed,
        measures=dict(list(measures.items())[:MOST_MEASURES]),
    )


def parts(text: str) -> list[str]:
    """The values between commas; commas within brackets, braces and quotes separate none."""
    out, depth, quoted, part = [], 0, False, ""
    for char in text:
        quoted ^= char == '"'
        depth += (char in "[{") - (char in "]}") if not quoted else 0
        if char == "," and not depth and not quoted:
            out.append(part)
            part = ""
        else:
            part += char
    return [one for one in [*out, part] if one.strip()]


def _value(text: str) -> Any:  # noqa: ANN401
    try:
        return _airtcp.parse_value(text.strip())
    except ValueError:
        return text.strip()
