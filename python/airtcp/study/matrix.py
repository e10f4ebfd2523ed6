"""Matrices: the effect of each variant in each experiment against a base, and the advice that follows.

An experiment is a *scene*, a variant a *row*. The rows of a group are compared with the group's base, seed by seed.
Each measure counts by its doublings: the base-2 logarithm of the ratio to the base, negative where it is worse. A
value that is better than `enough` counts as `enough`. Nobody hears the difference between 5 and 10 ms of delay, and
a remedy must not win by it. The score of a row is the sum of these over the measures, each times its weight. With
goodput and latency alone this is the logarithm of Kleinrock's power, throughput over delay (L. Kleinrock, "Power
and deterministic rules of thumb for probabilistic problems in computer communications", ICC 1979).

The advice for a scene follows from the scores by rule, never by hand:

1. A row *harms* if a measure is worse by its factor `harm` or more, and the interval over the seeds has no zero in it.
   It is out. So is a row about which a measure says nothing (`without`), because it cannot be compared.
2. A row *helps* if its score is at least the logarithm of `margin`, and its interval is above zero. The interval holds
   for all rows of the group together: of twenty that do nothing, one would else be above zero by chance. It is
   Bonferroni's, 1 - 0.05 / rows for each.
3. Of the rows that help, those within `margin` of the best score are its equals. Advised is the equal whose change
   costs least. The dearest kind of change counts first (`costs`), then the number of changes, then the score. The
   runner-up is the next of the equals, or else the next best that helps.
4. If none helps, the base is *fine* if it is good enough in every measure that has an `enough`. Otherwise *nothing*
   helps. It is *open* if a row reaches the margin but its interval does not settle it.

How much the advice rests on the weights is told as well: whom it would name if one measure counted twice.

A *map* gives the advice by the same rule at each point of two parameters of an experiment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from airtcp import stats
from airtcp.expressions import nearest
from airtcp.study.files import Matrix, MatrixGroup, MatrixMap, MatrixMeasure, MatrixRow, MatrixScene
from airtcp.study.samples import Array, CheckError, Data, _equal, _text

Json = dict[str, Any]

REMEDY: Final = "remedy"
FINE: Final = "fine"
NOTHING: Final = "nothing"
OPEN: Final = "open"

OUTCOMES: Final = {FINE: "none needed", NOTHING: "none helps", OPEN: "not settled"}
"""Outcomes without a remedy, in words."""


@dataclass(frozen=True)
class Comparison:
    """One row in one scene, against the base of its group."""

    row: MatrixRow
    gains: Mapping[str, Array]
    """For each measure its doublings, one value per seed."""
    harmed: tuple[str, ...]
    """Measures that are worse by their factor `harm` or more."""

    def score(self, weights: Mapping[str, float], level: float = stats.LEVEL) -> stats.Estimate:
        """The weighted sum of the doublings over the measures."""
        total = sum((weights[name] * gain for name, gain in self.gains.items()), start=np.zeros(1))
        return stats.mean(total[~np.isnan(total)], level)


class PreparedMatrix:
    """A matrix together with the data of its scenes. Made before the runs, it checks that every name in the matrix
    exists.
    """

    def __init__(self, matrix: Matrix, scenes: Mapping[str, Data]) -> None:
        """Checks the matrix; `scenes` has the cells of its experiments by id.

        Raises:
            CheckError: a name in it does not exist.
        """
        self.matrix: Final = matrix
        self.data: Final = scenes
        self.at: Final[dict[tuple[str, str], int]] = {}
        self.by_variant: Final[dict[tuple[str, str], list[int]]] = {}
        for id_, data in scenes.items():
            for k, point in enumerate(data.points):
                self.by_variant.setdefault((id_, point.variant or ""), []).append(k)
        for measure in matrix.measures:
            if not any(measure.name in data.measures for data in scenes.values()):
                known = list(dict.fromkeys(name for data in scenes.values() for name in data.measures))
                raise CheckError(f"measures: no experiment has {measure.name!r}{nearest(measure.name, known)}")
        for i, scene in enumerate(matrix.scenes):
            data = scenes[scene.experiment]
            for name in scene.where:
                if name not in data.parameters:
                    raise CheckError(f"scenes[{i}].where: no parameter {name!r}{nearest(name, data.parameters)}")
            for variant in data.variants:
                self._find(scene, i, variant)
            if not any(experiment == scene.experiment for experiment, _ in self.at):
                told = ", ".join(f"{k} = {_text(v)}" for k, v in scene.where.items())
                raise CheckError(
                    f"scenes[{i}].where: {scene.experiment} has no variant that runs at "
                    f"{told or 'any point'}: choose values that it runs"
                )
            if not any(measure.name in data.measures for measure in matrix.measures):
                raise CheckError(f"scenes[{i}]: {scene.experiment} has none of the matrix's measures")
            for measure in matrix.measures:
                found = data.measures.get(measure.name)
                if found is not None and found.columns is not None:
                    raise CheckError(
                        f"measures: {measure.name} has rows in {scene.experiment}: one number per run is needed"
                    )
        variants = list(dict.fromkeys(variant for data in scenes.values() for variant in data.variants))
        for group in matrix.groups:
            for variant in (group.base, *(row.variant for row in group.rows)):
                if variant not in variants:
                    raise CheckError(f"groups: no experiment has the variant {variant!r}{nearest(variant, variants)}")
        self.maps: Final = [_Map(matrix, i, scenes[one.experiment]) for i, one in enumerate(matrix.maps)]

    def _find(self, scene: MatrixScene, i: int, variant: str) -> None:
        data = self.data[scene.experiment]
        found = [
            k
            for k in self.by_variant[scene.experiment, variant]
            if all(
                name in data.points[k].parameters and _equal(value, data.points[k].parameters[name])
                for name, value in scene.where.items()
            )
        ]
        if len(found) > 1:
            a, b = (data.points[k].parameters for k in found[:2])
            differ = next((name for name in a if a[name] != b.get(name)), "?")
            raise CheckError(
                f"scenes[{i}]: {differ} varies: keep one value with `where = {{ {differ} = {_text(a[differ])} }}`"
            )
        if found:
            self.at[scene.experiment, variant] = found[0]

    # --- numbers ------------------------------------------------------------------------------------------------------

    def _values(self, scene: MatrixScene, variant: str, measure: MatrixMeasure) -> Array | None:
        """One value per seed; none where the variant or the measure does not exist."""
        data, point = self.data[scene.experiment], self.at.get((scene.experiment, variant))
        if point is None or measure.name not in data.scalars:
            return None
        values: Array = data.scalars[measure.name][point]
        return values

    def cell(self, scene: MatrixScene, group: MatrixGroup, row: MatrixRow) -> Comparison | None:
        """The row's cell, or `None` where the row does not run or has no value."""

        def values(variant: str) -> dict[str, Array]:
            found = {measure.name: self._values(scene, variant, measure) for measure in self.matrix.measures}
            return {name: value for name, value in found.items() if value is not None}

        return compared(row, self.matrix.measures, values(row.variant), values(group.base))

    def to_dict(self) -> Json:
        """As `study.json` has it."""
        matrix = self.matrix
        return {
            "id": matrix.id,
            "title": matrix.title,
            "text": matrix.text,
            "margin": matrix.margin,
            "measures": [self._measure(measure) for measure in matrix.measures],
            "scenes": [
                {"experiment": scene.experiment, "title": scene.title, "text": scene.text} for scene in matrix.scenes
            ],
            "costs": list(matrix.costs),
            "groups": [self._group(group) for group in matrix.groups],
            "maps": [one.to_dict() for one in self.maps],
        }

    def _measure(self, measure: MatrixMeasure) -> Json:
        meanings = [data.measures[measure.name].meaning for data in self.data.values() if measure.name in data.measures]
        return {
            "name": measure.name,
            "title": measure.title,
            "label": meanings[0].label or measure.title,
            "unit": meanings[0].unit,
            "better": measure.better,
            "enough": measure.enough,
            "harm": measure.harm,
            "weight": measure.weight,
        }

    def _group(self, group: MatrixGroup) -> Json:
        weights = {measure.name: measure.weight for measure in self.matrix.measures}
        rows = []
        for row in (MatrixRow(variant=group.base, title=group.base_title), *group.rows):
            is_base = row.variant == group.base
            rows.append(
                {
                    "variant": row.variant,
                    "title": row.title,
                    "changes": list(row.changes),
                    "how": row.how,
                    "text": row.text,
                    "cells": [self._cell(scene, group, row, weights, is_base=is_base) for scene in self.matrix.scenes],
                }
            )
        return {
            "title": group.title,
            "text": group.text,
            "base": group.base,
            "rows": rows,
            "advice": self.advice(group),
        }

    def _cell(
        self, scene: MatrixScene, group: MatrixGroup, row: MatrixRow, weights: Mapping[str, float], *, is_base: bool
    ) -> Json | None:
        parts: Json = {}
        cell = None if is_base else self.cell(scene, group, row)
        for measure in self.matrix.measures:
            values = self._values(scene, row.variant, measure)
            if values is None or np.isnan(values).all() or measure.name in row.without:
                continue
            value = stats.mean(values[~np.isnan(values)])
            part = _estimate(value)
            gain = None if cell is None else cell.gains.get(measure.name)
            if gain is not None:
                part["gain"] = _estimate(stats.mean(gain[~np.isnan(gain)]))
            parts[measure.name] = part
        if not parts:
            return None
        return {
            "measures": parts,
            "score": None if cell is None or row.without else _estimate(cell.score(weights)),
            "harmed": [] if cell is None else list(cell.harmed),
        }

    # --- advice -------------------------------------------------------------------------------------------------------

    def advice(self, group: MatrixGroup) -> list[Json]:
        """The advice of a group, scene by scene."""
        weights = {measure.name: measure.weight for measure in self.matrix.measures}
        return [self._advice(scene, group, weights) for scene in self.matrix.scenes]

    def _advice(self, scene: MatrixScene, group: MatrixGroup, weights: Mapping[str, float]) -> Json:
        rows = [row for row in group.rows if not row.without]
        cells = [cell for row in rows if (cell := self.cell(scene, group, row)) is not None]
        outcome, chosen = advised(cells, weights, self.matrix.margin, self.matrix.costs)
        if outcome == NOTHING and self._is_fine(scene, group):
            outcome = FINE
        otherwise = {}
        for measure in self.matrix.measures:
            twice = {**weights, measure.name: 2 * measure.weight}
            other, names = advised(cells, twice, self.matrix.margin, self.matrix.costs)
            name = names[0].row.variant if names else None
            if name != (chosen[0].row.variant if chosen else None):
                otherwise[measure.name] = name if other == REMEDY else None
        return {
            "outcome": outcome if cells else None,
            "variants": [cell.row.variant for cell in chosen[:2]],
            "score": _estimate(chosen[0].score(weights)) if chosen else None,
            "if_twice": otherwise if outcome != OPEN else {},
        }

    def _is_fine(self, scene: MatrixScene, group: MatrixGroup) -> bool:
        values = {measure.name: self._values(scene, group.base, measure) for measure in self.matrix.measures}
        return is_fine(self.matrix.measures, {name: value for name, value in values.items() if value is not None})


def is_fine(measures: Sequence[MatrixMeasure], base: Mapping[str, Array]) -> bool:
    """Whether the base is good enough in every measure that has an `enough`."""
    for measure in measures:
        values = base.get(measure.name)
        if values is None or measure.enough is None or np.isnan(values).all():
            continue
        mean = float(np.nanmean(values))
        if mean > measure.enough if measure.better == "less" else mean < measure.enough:
            return False
    return True


def needs(matrix: Matrix) -> list[str]:
    """Ids of the experiments of its scenes and maps."""
    return list(
        dict.fromkeys([*(scene.experiment for scene in matrix.scenes), *(one.experiment for one in matrix.maps)])
    )


def doublings(measure: MatrixMeasure, ours: Array, base: Array) -> Array:
    """Doublings by which one is better than the other, seed by seed. Values better than `enough` count as `enough`."""

    def bounded(values: Array) -> Array:
        if measure.enough is None:
            return values
        return np.maximum(values, measure.enough) if measure.better == "less" else np.minimum(values, measure.enough)

    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = bounded(base) / bounded(ours) if measure.better == "less" else bounded(ours) / bounded(base)
        # Zero against a positive base counts as MOST, because the logarithm has no limit.
        return np.clip(np.log2(ratio), -MOST, MOST)


def compared(
    row: MatrixRow, measures: Sequence[MatrixMeasure], ours: Mapping[str, Array], base: Mapping[str, Array]
) -> Comparison | None:
    """A row's cell from its values and those of the base, one per seed; `None` where a measure has none."""
    gains: dict[str, Array] = {}
    harmed = []
    for measure in measures:
        if measure.name not in ours or measure.name not in base or measure.name in row.without:
            continue
        gain = doublings(measure, ours[measure.name], base[measure.name])
        if np.isnan(gain).all():
            return None
        gains[measure.name] = gain
        estimate = stats.mean(gain[~np.isnan(gain)])
        # With a factor of 1 any value below zero is worse; that chance does not explain it is the interval's word.
        is_worse = measure.harm is not None and estimate.value <= -math.log2(measure.harm)
        if is_worse and estimate.high is not None and estimate.high < 0:
            harmed.append(measure.name)
    return Comparison(row, gains, tuple(harmed)) if gains else None


MOST: Final = 10.0
"""The most doublings that count in either direction: a factor of 1024."""


def cost(row: MatrixRow, costs: Sequence[str]) -> tuple[int, ...]:
    """The row's changes by their kinds, the dearest first; less is cheaper. Without kinds: the number of changes."""
    return tuple(sorted((costs.index(one) for one in row.changes), reverse=True)) if costs else (len(row.changes),)


def advised(
    cells: Sequence[Comparison], weights: Mapping[str, float], margin: float, costs: Sequence[str] = ()
) -> tuple[str, list[Comparison]]:
    """The advice, and the cells in order. The rule is at the top of this module."""
    least = math.log2(margin)
    level = 1 - (1 - stats.LEVEL) / max(1, len(cells))
    scored = [(cell, cell.score(weights, level)) for cell in cells if not cell.harmed]
    reach = [(cell, score) for cell, score in scored if score.value >= least]
    helps = [(cell, score) for cell, score in reach if score.low is not None and score.low > 0]
    if not helps:
        reach.sort(key=lambda pair: -pair[1].value)
        return (OPEN, [cell for cell, _ in reach]) if reach else (NOTHING, [])
    best = max(score.value for _, score in helps)

    def order(pair: tuple[Comparison, stats.Estimate]) -> tuple[bool, tuple[int, ...], float]:
        cell, score = pair
        is_equal = score.value > best - least
        return (not is_equal, cost(cell.row, costs) if is_equal else (), -score.value)

    return REMEDY, [cell for cell, _ in sorted(helps, key=order)]


class _Map:
    """A map together with the data of its experiment: a table of one scene for each pair of values."""

    def __init__(self, matrix: Matrix, index: int, data: Data) -> None:
        self.map: Final[MatrixMap] = matrix.maps[index]
        one, place = self.map, f"maps[{index}]"
        for which, name in (("x", one.x), ("y", one.y), *(("where", name) for name in one.where)):
            if name not in data.parameters:
                raise CheckError(f"{place}.{which}: no parameter {name!r}{nearest(name, data.parameters)}")
        if one.x == one.y:
            raise CheckError(f"{place}: x and y are the same parameter, {one.x!r}")
        groups = []
        for group in matrix.groups:
            rows = tuple(row for row in group.rows if row.variant in data.variants and not row.without)
            if group.base in data.variants and rows:
                groups.append(msgspec.structs.replace(group, rows=rows))
        if not groups:
            raise CheckError(f"{place}: {one.experiment} runs no group's base with one of its rows")

        def values(name: str) -> list[Any]:
            return list(dict.fromkeys(point.parameters[name] for point in data.points if name in point.parameters))

        self.xs: Final = values(one.x)
        self.ys: Final = values(one.y)
        self.tables: Final[list[list[PreparedMatrix]]] = []
        for y in self.ys:
            row_of = []
            for x in self.xs:
                scene = MatrixScene(experiment=one.experiment, where={one.x: x, one.y: y, **one.where})
                part = msgspec.structs.replace(matrix, scenes=(scene,), groups=tuple(groups), maps=())
                measures = tuple(m for m in matrix.measures if m.name in data.measures)
                row_of.append(PreparedMatrix(msgspec.structs.replace(part, measures=measures), {one.experiment: data}))
            self.tables.append(row_of)

    def to_dict(self) -> Json:
        """As `study.json` has it: for each group a row of advice for each value of y."""
        one = self.map
        return {
            "id": one.id,
            "title": one.title,
            "text": one.text,
            "experiment": one.experiment,
            "x": {"name": one.x, "label": one.x_label, "values": self.xs},
            "y": {"name": one.y, "label": one.y_label, "values": self.ys},
            "groups": [
                {
                    "title": group.title,
                    "base": group.base,
                    "titles": {group.base: group.base_title} | {row.variant: row.title for row in group.rows},
                    "cells": [[table.advice(group)[0] for table in row] for row in self.tables],
                }
                for group in self.tables[0][0].matrix.groups
            ],
        }


def _estimate(estimate: stats.Estimate) -> Json:
    def short(value: float | None) -> float | None:
        return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")

    return {"value": short(estimate.value), "lo": short(estimate.low), "hi": short(estimate.high)}
