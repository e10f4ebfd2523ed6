"""docs/validation.md and evidence/*.md follow from the comparisons' data: each table is computed from it again."""

from __future__ import annotations

import functools
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airtcp import _airtcp

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "evidence/kernel"), str(ROOT / "evidence")]
cells, compare, coop, efr_kernel, hosts, in_virtual_time, lab, page, queues, real, virtual, walk = map(
    importlib.import_module,
    (
        *("cells", "compare", "coop", "efr_kernel", "hosts", "in_virtual_time", "lab", "page", "queues", "real"),
        *("virtual", "walk"),
    ),
)

KERNEL = page.KERNEL.read_text()
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
    of_page, body = page.PARTS[name]
    assert page.part(of_page.read_text(), name) == body(DATA), f"run `evidence/validate.py --page` ({of_page})"


def test_the_page_follows_from_the_kernel_paths() -> None:
    assert page.part(KERNEL, "paths") == compare.tables(json.loads(page.PATHS.read_text()))


def test_the_page_follows_from_the_kernel_in_virtual_time() -> None:
    assert page.part(KERNEL, "virtual") == in_virtual_time.tables(json.loads(page.VIRTUAL.read_text()))


def test_the_page_follows_from_the_queue_disciplines() -> None:
    assert page.part(KERNEL, "queue disciplines") == queues.table(json.loads(queues.FIGURES_OF_PAGE.read_text()))


@pytest.mark.parametrize("bench", [walk, coop], ids=["walk", "coop"])
def test_the_page_of_hosts_follows_from_its_figures(bench: Any) -> None:
    assert page.part(bench.PAGE.read_text(), bench.PART) == bench.table(json.loads(bench.FIGURES_FILE.read_text()))


def test_the_page_of_a_walk_of_guests_follows_from_its_figures() -> None:
    table = walk.table(json.loads(walk.GUESTS_FILE.read_text()))
    assert page.part(walk.PAGE.read_text(), walk.GUESTS_PART) == table


def test_a_walk_of_guests_leaves_their_small_queues_on() -> None:
    guests, tun = (walk.scenario(None, "CUBIC", 1, guests=guests) for guests in (True, False))
    assert [walk_["flows"][-1]["tcp"] for walk_ in (guests, tun)] == [{}, {"tsq": "off"}]
    assert all(wlan["stations"][1]["radio"]["transmit"] == virtual.TRANSMIT for wlan in guests["wlans"])
    assert all(wlan["stations"][1] == "mobile" for wlan in tun["wlans"])


PROGRAMS = {
    f"{module.__name__}.{name}": text
    for module in (coop, efr_kernel, hosts, queues, real, walk)
    for name, text in vars(module).items()
    if isinstance(text, str) and text.startswith("import ")
}


def test_programs_of_real_hosts_are_programs() -> None:
    assert {"coop.SEND", "walk.SEND", "real.SEND", "queues.SENDER", "hosts.RATE", "hosts.SINK"} <= set(PROGRAMS)
    for name, text in PROGRAMS.items():
        compile(text, name, "exec")


LOOK = """s = connected("127.0.0.1")
s.setblocking(False)
write([s], time.monotonic() + 1)
print(json.dumps(known(s)))
"""


def test_programs_of_real_hosts_send_and_say_what_they_got(tmp_path: Path) -> None:
    """Over the loopback device, between two processes: as they do between hosts."""
    words = hosts.programs(tmp_path, send=hosts.SENDING + LOOK, receive=hosts.RATE)
    with subprocess.Popen(["sh", "-c", f"{words['receive']} 0.2"], stdout=subprocess.PIPE, text=True) as receiver:
        done = subprocess.run(["sh", "-c", words["send"]], capture_output=True, text=True, check=True)
        said, _ = receiver.communicate(timeout=20)
    known = json.loads(done.stdout)
    assert known["acked"] > 1_000_000
    assert known["srtt_us"] > 0
    assert known["cwnd"] >= 1
    assert float(said.removeprefix("bps ")) > 8e6


def test_a_figure_is_inside_if_the_mean_of_the_real_runs_is() -> None:
    runs = {"simulated": [{"x": value} for value in (9.0, 10.0, 11.0)], "real": [{"x": 10.5}, {"x": 11.5}]}
    _, low, high = hosts.interval([9.0, 10.0, 11.0], 2)
    assert (low, high) == (pytest.approx(10 - 4.3026527 * (1 / 3 + 1 / 2) ** 0.5), pytest.approx(20 - low))

    def told(seen: list[float], mean: float) -> str:
        return f"{mean:.1f} of {len(seen)}"

    assert hosts.inside(runs, "x", told, 2) == (["11.0 of 2", f"{low:.2f} to {high:.2f}"], True)
    runs["real"] = [{"x": 20.0}, {"x": 20.0}]
    assert hosts.inside(runs, "x", told, 2)[0][0] == "**20.0 of 2**"


def test_an_unknown_row_is_told_with_what_is_accepted() -> None:
    assert hosts.chosen(None, ["a", "b"]) == ["a", "b"]
    assert hosts.chosen(["b"], ["a", "b"]) == ["b"]
    with pytest.raises(SystemExit, match="--only c: accepted are a; b"):
        hosts.chosen(["b", "c"], ["a", "b"])


def test_a_run_that_is_not_valid_is_made_again() -> None:
    verdicts = iter(["degraded", "invalid", "valid", "valid"])
    given_up: list[str] = []
    assert hosts.valid(lambda: next(verdicts), str, given_up) == "valid"
    assert given_up == ["degraded", "invalid"]


def test_real_runs_stay_when_the_others_are_simulated_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = {
        "machine": "there",
        "rows": [{"variant": variant, "real": [1], "simulated": [2, 3]} for variant in ("a", "b")],
    }
    file = tmp_path / "figures.json"
    file.write_text(json.dumps(kept))
    again = functools.partial(hosts.simulated_again, file, simulate=lambda variant: [0 for _ in variant["simulated"]])
    found = again("b", lambda variant: variant["variant"] == "b", row=lambda variant: f"row {variant['variant']}")
    assert found["machine"] == "there"
    assert found["rows"][0] == kept["rows"][0], "nobody asked for it"
    assert found["rows"][1]["real"] == [1]
    assert found["rows"][1]["simulated"] == [0, 0]
    assert found["rows"][1]["engine"] == _airtcp.engine()
    assert capsys.readouterr().out == "row b\n"
    with pytest.raises(SystemExit, match=r"figures\.json has no row of c"):
        again("c", lambda _: False, row=str)


NUMBER = re.compile(r"\d+(?: \d{3})*(?:\.\d+)?")


def notes(link: str) -> str:
    """The section of a page in evidence/ that a link of the summary names."""
    name, anchor = link.split("#")
    for section in re.split(r"^## ", (page.SUMMARY.parent / name).read_text(), flags=re.MULTILINE)[1:]:
        if re.sub(r"[^\w -]", "", section.split("\n")[0].lower()).replace(" ", "-") == anchor:
            return section
    raise AssertionError(f"{link} leads nowhere")


SUMMARY_ROWS = re.findall(
    r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| \[[^]]+\]\(([^)]+)\) \|$", page.SUMMARY.read_text(), re.MULTILINE
)


def test_every_row_of_the_summary_is_read() -> None:
    table = page.SUMMARY.read_text().split("\n## Agreement in one table\n")[1].split("\n## ")[0]
    assert len(SUMMARY_ROWS) == table.count("\n| ") - 1 > 10


@pytest.mark.parametrize(("of", "agrees", "differs", "link"), SUMMARY_ROWS, ids=[row[0] for row in SUMMARY_ROWS])
def test_figures_of_the_summary_are_those_of_the_notes(of: str, agrees: str, differs: str, link: str) -> None:
    told = set(NUMBER.findall(notes(link)))
    assert [n for n in NUMBER.findall(f"{agrees} {differs}") if n not in told] == [], of


def test_every_reference_cell_is_counted() -> None:
    """The page said 23 of 172 where 43 were outside: the kernel's and the study's were left out."""
    by_grid: dict[str, int] = {}
    for row in DATA["rows"]:
        by_grid[row["grid"]] = by_grid.get(row["grid"], 0) + 1
    ns2 = ROOT / "evidence/figures/ns2"
    paths = json.loads((ROOT / "evidence/figures/kernel/paths.json").read_text())["cells"]
    assert by_grid == {
        "ns2": len(json.loads((ns2 / "grid.json").read_text())["cells"]),
        "study": len(json.loads((ns2 / "study.json").read_text())["cells"]),
        "kernel": len({cells.name(c) for c in paths if not c["result"]["problems"]}),
    }
    assert f"{len(page.outside(DATA['rows']))} of {len(DATA['rows'])} cells are outside" in page.SUMMARY.read_text()


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
    row = "| ns-2, grid | cell 2 | utilisation, points 50.0 / 25.0; loss, % 50.00 / 25.00 |"
    assert row in page.listed(data, "ns2")
    assert row not in page.listed(data, "kernel")


def test_a_part_is_replaced_and_nothing_else() -> None:
    text = "a\n<!-- x: how -->\n\nold\n\n<!-- end of x -->\nb\n"
    new = page.with_part(text, "x", "new\nlines")
    assert page.part(new, "x") == "new\nlines"
    assert new == text.replace("old", "new\nlines")
    with pytest.raises(ValueError, match="end of y"):
        page.part(text, "y")
