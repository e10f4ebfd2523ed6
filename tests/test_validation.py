"""docs/validation.md says what the comparisons' data says: counts, lists and tables are computed from it again."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench/kernel"), str(ROOT / "bench")]
cells, compare, lab, page, queues, real, virtual = map(
    importlib.import_module, ("cells", "compare", "lab", "page", "queues", "real", "virtual")
)

TEXT = page.PAGE.read_text()
DATA = json.loads(page.CELLS.read_text())


REAL_PROGRAMS = {
    "real beside simulated": (real.REAL, real.table),
    "cost of time": (real.COST, real.cost_table),
    **virtual.PARTS,
}


@pytest.mark.parametrize("name", REAL_PROGRAMS)
def test_the_emulator_s_page_follows_from_its_figures(name: str) -> None:
    data, table = REAL_PROGRAMS[name]
    assert page.part(real.PAGE.read_text(), name) == table(json.loads(data.read_text()))


def test_the_laboratory_s_pages_follow_from_its_figures() -> None:
    data = json.loads(lab.DATA.read_text())
    assert page.part(lab.PAGE.read_text(), "stack and simulation") == lab.table(data)
    assert page.part(lab.REMEDY_PAGE.read_text(), "remedy") == lab.remedy_table(data)


@pytest.mark.parametrize("name", page.PARTS)
def test_the_page_follows_from_the_cells(name: str) -> None:
    wanted = page.PARTS[name](DATA)
    assert page.part(TEXT, name) == wanted, f"run `bench/validate.py --page` (docs/validation.md, part {name})"


def test_the_page_follows_from_the_kernel_paths() -> None:
    assert page.part(TEXT, "paths") == compare.tables(json.loads(page.PATHS.read_text()))


def test_the_page_follows_from_the_queue_disciplines() -> None:
    assert page.part(TEXT, "queue disciplines") == queues.table(json.loads(queues.FIGURES_OF_PAGE.read_text()))


def test_every_reference_cell_is_counted() -> None:
    """The page said 23 of 172 where 43 were outside: the kernel's and the study's were left out."""
    by_grid: dict[str, int] = {}
    for row in DATA["rows"]:
        by_grid[row["grid"]] = by_grid.get(row["grid"], 0) + 1
    ns2 = ROOT / "tests/reference/ns2"
    paths = json.loads((ROOT / "tests/reference/kernel/paths.json").read_text())["cells"]
    assert by_grid == {
        "ns2": len(json.loads((ns2 / "grid.json").read_text())["cells"]),
        "study": len(json.loads((ns2 / "study.json").read_text())["cells"]),
        "kernel": len({cells.name(c) for c in paths if not c["result"]["problems"]}),
    }
    assert f"{len(page.outside(DATA['rows']))} of {len(DATA['rows'])} cells are outside" in TEXT


def test_outside_follows_from_figures_and_tolerances() -> None:
    for row in DATA["rows"]:
        found = []
        for name, figure in row.items():
            if not isinstance(figure, dict) or figure["reference"] is None:
                continue
            tolerance = DATA["tolerances"][row["grid"]][name.split()[0]]
            low, high = figure["range"]

            def of(value: float, t: dict[str, float] = tolerance) -> float:
                return max(t["absolute"], t["relative"] * abs(value))

            # Figures are stored rounded: at the very edge either answer is right.
            slack = 2e-6
            if not low - of(low) - slack <= figure["airtcp"] <= high + of(high) + slack:
                assert name in row["outside"], (row["cell"], name)
            if low - of(low) + slack <= figure["airtcp"] <= high + of(high) - slack:
                assert name not in row["outside"], (row["cell"], name)
            found.append(name)
        assert set(row["outside"]) <= set(found)


def rows(*outside: list[str]) -> dict[str, Any]:
    figure = {"airtcp": 0.5, "reference": 0.25, "range": [0.25, 0.25], "inside": False}
    made = [
        {"grid": "ns2", "cell": f"cell {i}", "runs": 1, "outside": names, "utilisation": figure, "loss": figure}
        for i, names in enumerate(outside)
    ]
    tolerance = {"absolute": 0.02, "relative": 0.0}
    return {"tolerances": {"ns2": {"utilisation": tolerance, "loss": {"absolute": 0.0, "relative": 0.2}}}, "rows": made}


def test_cells_are_counted_once_and_figures_each() -> None:
    data = rows([], ["loss"], ["utilisation", "loss"])
    told = page.counted(data)
    assert told.startswith("2 of 3 cells are outside")
    assert "| cells outside | 2 |" in told
    assert "| utilisation, points | 2: 1 outside |" in told
    assert "| loss, % | 20 %: 2 outside |" in told
    assert "| ns-2, grid | cell 2 | utilisation, points 50.0 / 25.0; loss, % 50.00 / 25.00 |" in page.listed(data)


def test_a_part_is_replaced_and_nothing_else() -> None:
    text = "a\n<!-- x: how -->\n\nold\n\n<!-- end of x -->\nb\n"
    new = page.with_part(text, "x", "new\nlines")
    assert page.part(new, "x") == "new\nlines"
    assert new == text.replace("old", "new\nlines")
    with pytest.raises(ValueError, match="end of y"):
        page.part(text, "y")
