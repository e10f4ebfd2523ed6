"""A matrix in words and shades, for the page, the print figure and the Markdown pages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from airtcp.report.model import (
    Estimate,
    MapGroup,
    Matrix,
    MatrixAdvice,
    MatrixCell,
    MatrixGroup,
    MatrixMap,
    MatrixMeasure,
    MatrixPart,
)
from airtcp.report.plot_style import number, with_unit
from airtcp.study.matrix import OUTCOMES

SCORE: Final = "score"
LEVELS: Final = (0.15, 0.5, 1.5)
"""Doublings from which a cell has the first, second and third shade."""


@dataclass(frozen=True)
class Shown:
    """A cell as shown."""

    text: str
    """Change against the base. The base itself shows its value."""
    value: str
    """The value; empty for scores and in the base's row."""
    level: int
    """-3 (much worse) to 3 (much better)."""
    place: int
    """1 for the advised row, 2 for the runner-up, 0 for others."""
    is_harmful: bool
    told: str
    """All values with their intervals, for a reader who points at the cell."""


def views(matrix: Matrix) -> list[tuple[str, str]]:
    """Quantities that the cells can show: names and titles."""
    return [(SCORE, "Overall"), *((measure.name, measure.title) for measure in matrix.measures)]


def shown(matrix: Matrix, group: MatrixGroup, row: int, scene: int, view: str) -> Shown | None:
    """A cell; `None` where the row does not run in the scene, or lacks the measure there."""
    cell, base = group.rows[row].cells[scene], group.rows[0].cells[scene]
    if cell is None:
        return None
    advice = group.advice[scene]
    variant = group.rows[row].variant
    place = advice.variants.index(variant) + 1 if advice.outcome == "remedy" and variant in advice.variants else 0
    if view == SCORE:
        if cell.score is None:
            # A row that a measure says nothing about has no score either.
            text = "base" if row == 0 else ""
            return Shown(text, "", 0, 0, is_harmful=False, told=told(matrix, cell, base))
        text = "" if cell.score.value is None else doublings(cell.score.value)
        return Shown(text, "", level(cell.score), place, bool(cell.harmed), told(matrix, cell, base))
    measure = next(m for m in matrix.measures if m.name == view)
    part = cell.measures.get(view)
    if part is None:
        return None
    value = with_unit(number(part.value, 3), measure.unit)
    if row == 0 or base is None or view not in base.measures:
        return Shown(value, "", 0, 0, is_harmful=False, told=part_told(measure, part))
    return Shown(
        change(measure, part, base.measures[view]),
        value,
        level(part.gain),
        place,
        view in cell.harmed,
        part_told(measure, part),
    )


def level(gain: Estimate | None) -> int:
    """The shade: none if the interval contains zero."""
    if gain is None or gain.value is None or not gain.is_settled:
        return 0
    size = sum(abs(gain.value) >= least for least in LEVELS)
    return size if gain.value > 0 else -size


def doublings(value: float) -> str:
    """A score, with its sign."""
    text = f"{value:+.1f}".replace("-", "\N{MINUS SIGN}")
    return "0" if text[1:] == "0.0" else text


def change(measure: MatrixMeasure, part: MatrixPart, base: MatrixPart) -> str:
    """The change against the base: points for percentages, a factor if above two, else percent."""
    if part.value is None or base.value is None:
        return number(None)
    if measure.unit == "%":
        text = f"{part.value - base.value:+.1f}".replace("-", "\N{MINUS SIGN}")
        return "\N{PLUS-MINUS SIGN}0" if text[1:] == "0.0" else f"{text} points"
    if base.value <= 0 or part.value <= 0:
        return with_unit(number(part.value, 3), measure.unit)
    ratio = part.value / base.value
    if ratio >= 2:
        return f"\N{MULTIPLICATION SIGN} {_two(ratio)}"
    if ratio <= 0.5:
        return f"\N{DIVISION SIGN} {_two(1 / ratio)}"
    percent = round(100 * (ratio - 1))
    return (
        f"{percent:+d} %".replace("-", "\N{MINUS SIGN}").replace(" ", "\N{NO-BREAK SPACE}")
        if percent
        else "\N{PLUS-MINUS SIGN}0"
    )


def _two(ratio: float) -> str:
    return number(round(ratio) if ratio >= 10 else round(ratio, 1))


def _interval(estimate: Estimate) -> str:
    if estimate.lo is None or estimate.hi is None:
        return ""
    return f" [{number(estimate.lo, 3)}, {number(estimate.hi, 3)}]"


def part_told(measure: MatrixMeasure, part: MatrixPart) -> str:
    """A measure with its interval, and its part in the score."""
    text = f"{measure.label}: {with_unit(number(part.value, 3), measure.unit)}{_interval(part)}"
    if part.gain is not None and part.gain.value is not None:
        text += f"; counts {doublings(part.gain.value)}{_interval(part.gain)}"
    return text


def told(matrix: Matrix, cell: MatrixCell, base: MatrixCell | None) -> str:
    """All measures of a cell, a line each."""
    lines = [part_told(m, cell.measures[m.name]) for m in matrix.measures if m.name in cell.measures]
    if cell.score is not None and cell.score.value is not None:
        lines.insert(0, f"score {doublings(cell.score.value)}{_interval(cell.score)}")
    titles = {m.name: m.title.lower() for m in matrix.measures}
    if cell.harmed and base is not None:
        lines.append(f"harms: {', '.join(titles.get(name, name) for name in cell.harmed)}")
    return "\n".join(lines)


# --- advice -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """The advice for one scene and one group, in words."""

    outcome: str
    name: str
    """The advised row, or the reason why there is none."""
    changes: tuple[str, ...]
    """Things that have to be changed for it."""
    effect: tuple[str, ...]
    """Its effect: each measure before and after. Without advice, the present values."""
    runner_up: str
    weights: tuple[str, ...]
    """Its dependence on the weights of the measures."""
    how: str = ""
    """Commands or settings that do it."""


def said(matrix: Matrix, group: MatrixGroup, scene: int) -> Said:
    """The advice in words."""
    advice = group.advice[scene]
    by_variant = {row.variant: row for row in group.rows}
    base = group.rows[0].cells[scene]
    if base is None or advice.outcome is None:
        return Said("none", "not measured", (), (), "", ())
    titles = {measure.name: measure.title.lower() for measure in matrix.measures}
    weights = tuple(
        f"if {titles.get(name, name)} counts twice: {by_variant[variant].title if variant else 'none'}"
        for name, variant in advice.if_twice.items()
    )
    if advice.outcome != "remedy":
        effect = tuple(_only(measure, base) for measure in matrix.measures if measure.name in base.measures)
        best = by_variant[advice.variants[0]].title if advice.outcome == "open" and advice.variants else ""
        return Said(advice.outcome, OUTCOMES[advice.outcome], (), effect, best, weights)
    row = by_variant[advice.variants[0]]
    cell = row.cells[scene]
    shared = [m for m in matrix.measures if cell is not None and m.name in cell.measures and m.name in base.measures]
    effect = tuple(_from_to(measure, base, cell) for measure in shared if cell is not None)
    second = by_variant[advice.variants[1]].title if len(advice.variants) > 1 else ""
    return Said("remedy", row.title, tuple(row.changes), effect, second, weights, row.how)


def _only(measure: MatrixMeasure, cell: MatrixCell) -> str:
    return f"{measure.title.lower()} {with_unit(number(cell.measures[measure.name].value, 3), measure.unit)}"


def _from_to(measure: MatrixMeasure, base: MatrixCell, cell: MatrixCell) -> str:
    before, after = (number(one.measures[measure.name].value, 3) for one in (base, cell))
    return f"{measure.title.lower()} {before} \N{RIGHTWARDS ARROW} {with_unit(after, measure.unit)}"


def rule(matrix: Matrix) -> list[str]:
    """The rules of scores and advice, in sentences."""
    bounds = [
        f"{m.title.lower()} {'up to' if m.better == 'less' else 'from'} {with_unit(number(m.enough), m.unit)}"
        for m in matrix.measures
        if m.enough is not None
    ]
    harms = [
        f"{m.title.lower()} {number(m.harm) if m.harm > 1 else 'any'}" for m in matrix.measures if m.harm is not None
    ]
    weighted = [f"{m.title.lower()} {number(m.weight)}" for m in matrix.measures if m.weight != 1]
    out = [
        "Each measure counts by how many doublings it is better than the base, seed by seed (+1: twice as good; "
        "\N{MINUS SIGN}1: half as good). The score is their sum"
        + (f", with weights: {', '.join(weighted)}." if weighted else "."),
    ]
    if bounds:
        out.append(f"Good enough is: {', '.join(bounds)}. Better values count the same.")
    if harms:
        out.append(
            "A remedy is out if it makes a measure worse by its factor, settled by the interval. "
            f"The factors are: {', '.join(harms)}."
        )
    out.append(
        f"A remedy helps if its score is at least +{math.log2(matrix.margin):.2f} (a factor of "
        f"{number(matrix.margin)}) and its interval over the seeds lies above zero. The interval is 95 % for all "
        "rows of a block together (Bonferroni). Among remedies within the same margin of the best score, the "
        + ("advised one has the cheapest change" if matrix.costs else "advised one has the fewest things to change")
        + ". The next one is the runner-up."
    )
    if matrix.costs:
        out.append(
            f"Changes cost, from the cheapest: {', '.join(matrix.costs)}. Among several changes the dearest counts "
            "first, then their number."
        )
    out.append(
        "If no remedy helps, none is needed where the base is good enough in every measure that has a bound. Otherwise "
        "none helps. Shades need an interval without zero."
    )
    return out


# --- maps -------------------------------------------------------------------------------------------------------------


def point(group: MapGroup, advice: MatrixAdvice) -> str:
    """The advice at one point of a map, in a word or two."""
    if advice.outcome == "remedy":
        return group.titles[advice.variants[0]]
    return OUTCOMES.get(advice.outcome or "", "not measured")


def lines(one: MatrixMap, group: MapGroup) -> tuple[list[str], list[list[str]]]:
    """A map as a table: its head, and a row for each value of y, the largest first."""
    head = [f"{one.y.label} \N{DOWNWARDS ARROW} {one.x.label} \N{RIGHTWARDS ARROW}", *map(number, one.x.values)]
    rows = [
        [number(y), *(point(group, advice) for advice in row)] for y, row in zip(one.y.values, group.cells, strict=True)
    ]
    return head, rows[::-1]


# --- Markdown ---------------------------------------------------------------------------------------------------------


def markdown(matrix: Matrix, level: int = 2) -> list[str]:
    """Advice, rule and cells as Markdown; headings begin at a level."""
    head = "#" * level
    out = [f"{head} Advice", ""]
    out += _table(
        ["situation", *(group.title for group in matrix.groups)],
        [
            [
                f"**{scene.title}**" + (f": {scene.text}" if scene.text else ""),
                *(_advice_text(said(matrix, group, i)) for group in matrix.groups),
            ]
            for i, scene in enumerate(matrix.scenes)
        ],
    )
    ways = {
        row.title: row.how
        for group in matrix.groups
        for advice in group.advice
        for row in group.rows
        if row.how and advice.outcome == "remedy" and row.variant == advice.variants[0]
    }
    if ways:
        out += ["", f"{head} Instructions", "", *(f"- **{title}**: {how}" for title, how in ways.items())]
    out += ["", f"{head} The rule", "", *(f"- {sentence}" for sentence in rule(matrix))]
    for one in matrix.maps:
        out += ["", f"{head} Map: {one.title}", *(["", one.text] if one.text else [])]
        for map_group in one.groups:
            out += ["", f"**{map_group.title}**", "", *_table(*lines(one, map_group))]
    labels = {measure.name: measure.label for measure in matrix.measures}
    for name, title in views(matrix):
        explained = labels.get(name, "doublings better than the base, all measures together")
        out += ["", f"{head} {title}: {explained}"]
        for group in matrix.groups:
            rows = []
            for r, row in enumerate(group.rows):
                cells = [shown(matrix, group, r, i, name) for i in range(len(matrix.scenes))]
                if any(cell is not None for cell in cells):
                    rows.append([f"**{row.title}**" if r == 0 else row.title, *map(_cell_text, cells)])
            out += ["", *_table([group.title, *(scene.title for scene in matrix.scenes)], rows)]
    return out


def _advice_text(one: Said) -> str:
    parts = [f"**{one.name}**"]
    if one.changes:
        parts[0] += f" ({', '.join(one.changes)})"
    parts += one.effect
    if one.runner_up:
        parts.append(f"*{'best so far' if one.outcome == 'open' else 'runner-up'}: {one.runner_up}*")
    parts += (f"*{text}*" for text in one.weights)
    return "<br>".join(parts)


def _cell_text(cell: Shown | None) -> str:
    if cell is None:
        return ""
    text = {1: "\N{BLACK STAR} ", 2: "\N{WHITE STAR} "}.get(cell.place, "") + cell.text
    if cell.value:
        text += f" ({cell.value})"
    if cell.level:
        text = f"**{text}**"
    return text + (" harms" if cell.is_harmful else "")


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"

    return [line(head), "|---" * len(head) + "|", *map(line, rows)]
