"""Forgeries of results. Each changes a copy, which is signed anew afterwards, and says how it must be told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

import airtcp
from airtcp.sweeps.planning import plan
from airtcp.sweeps.results import SweepResults
from airtcp.sweeps.store import Store
from airtcp.tasks.measures import Extract
from airtcp.tasks.task import key_of
from forging import DEFINITION, TASKS, Copy, Json, variants
from sample_sweep import FAILS

WRONG: Final = 1
NOT_CHECKED: Final = 3


@dataclass(frozen=True)
class Forgery:
    """One of them."""

    name: str
    base: str
    change: Callable[[Copy], object]
    says: str
    exit: int
    is_of_issue: bool


FORGERIES: Final[list[Forgery]] = []


def forgery(base: str, says: str, code: int = WRONG, *, issue: bool = False) -> Callable[[Any], Any]:
    def add(change: Callable[[Copy], object]) -> Callable[[Copy], object]:
        name = change.__name__.strip("_")
        FORGERIES.append(Forgery(name, base, change, says, code, issue))
        return change

    return add


def exchanged(column: str, a: Any, b: Any) -> pl.Expr:
    return pl.col(column).replace_strict({a: b, b: a}, default=pl.col(column))


def first(changes: Json) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Other values in the first row."""

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        row = pl.int_range(frame.height) == 0
        return frame.with_columns(
            pl.when(row).then(pl.lit(value, frame.schema[name])).otherwise(pl.col(name)).alias(name)
            for name, value in changes.items()
        )

    return change


def first_line(change: Json) -> Callable[[list[Json]], None]:
    """Other entries in the first line of the journal."""
    return lambda entries: entries[0].update(change)


# --- sweeps: whose rows are whose -------------------------------------------------------------------------------------


@forgery("sweep", "columns ['variant']", issue=True)
def variants_exchanged_in_one_table(it: Copy) -> None:
    it.table("runs", lambda frame: frame.with_columns(exchanged("variant", "reno", "cubic")))


@forgery("sweep", "columns ['variant']", issue=True)
def variants_exchanged_in_all_tables(it: Copy) -> None:
    for name in ("runs", "windows"):
        it.table(name, lambda frame: frame.with_columns(exchanged("variant", "reno", "cubic")))


@forgery("sweep", "another `", issue=True)
def columns_of_measures_exchanged_between_variants(it: Copy) -> None:
    """The better one gets the other's numbers, in the journal and in all that follows."""

    runs = pl.read_parquet(it.folder / "runs.parquet")
    reno, cubic = (runs.filter(pl.col("variant") == variant)["key"].to_list() for variant in ("reno", "cubic"))

    def swap(entries: list[Json]) -> None:
        by_key = {entry["key"]: entry for entry in entries}
        for a, b in zip(reno, cubic, strict=True):
            by_key[a]["measures"], by_key[b]["measures"] = by_key[b]["measures"], by_key[a]["measures"]

    it.journal(swap)
    rebuilt(it)


@forgery("sweep", "columns ['rate']", issue=True)
def parameters_exchanged(it: Copy) -> None:
    for name in ("runs", "windows"):
        it.table(name, lambda frame: frame.with_columns(exchanged("rate", 2, 5)))


@forgery("sweep", "columns ['seed']", issue=True)
def seeds_exchanged(it: Copy) -> None:
    it.table("runs", lambda frame: frame.with_columns(exchanged("seed", 1, 2)))


def made_up(frame: pl.DataFrame) -> pl.DataFrame:
    more = frame[-1:].with_columns(pl.lit("f" * 32).alias("key"), pl.lit(3, pl.Int64).alias("seed"))
    return pl.concat([frame, more])


@forgery("sweep", "has 9 rows, not 8", issue=True)
def rows_of_runs_that_never_were(it: Copy) -> None:
    it.table("runs", made_up)


@forgery("sweep", "has 9 rows, not 8", issue=True)
def runs_that_never_were_in_every_file(it: Copy) -> None:
    it.table("runs", made_up)
    it.journal(lambda entries: [*entries, {**entries[-1], "key": "f" * 32}])
    it.table(TASKS, lambda frame: pl.concat([frame, frame[-1:].with_columns(pl.lit("f" * 32).alias("key"))]))
    it.json("sweep.json", lambda d: d["runs"].update(total=9, ok=9))


@forgery("sweep", "sweep.json", issue=True)
def journal_lines_deleted(it: Copy) -> None:
    it.journal(lambda entries: entries[2:])


@forgery("sweep", "has 6 rows, not 8", issue=True)
def bad_runs_left_out_everywhere(it: Copy) -> None:
    gone = [entry["key"] for entry in it.lines()[:2]]
    it.journal(lambda entries: entries[2:])
    for name in ("runs", "windows", TASKS):
        it.table(name, lambda frame: frame.filter(~pl.col("key").is_in(gone)))
    it.json("sweep.json", lambda d: d["runs"].update(total=6, ok=6))


@forgery("sweep", "and ends well", issue=True)
def all_runs_called_failed(it: Copy) -> None:
    def fail(entries: list[Json]) -> None:
        for entry in entries:
            entry.update(status="failed", measures={}, error="it broke")

    it.journal(fail)
    rebuilt(it)


@forgery("sweep", "and ends well")
def one_run_called_failed(it: Copy) -> None:
    it.journal(first_line({"status": "failed", "measures": {}, "error": "it broke"}))
    rebuilt(it)


@forgery("sweep", "is said to have died")
def one_run_called_dead(it: Copy) -> None:
    end = {"signal": "SIGKILL", "memory_bytes": 1 << 30}
    change = {"status": "failed", "measures": {}, "error": "the run died", "end": end}
    it.journal(first_line(change))
    rebuilt(it)


@forgery("sweep", "runs are missing", NOT_CHECKED)
def bad_runs_left_out_as_if_interrupted(it: Copy) -> None:
    it.journal(lambda entries: entries[2:])
    rebuilt(it)


def rebuilt(it: Copy) -> None:
    """All files of a sweep as they follow from the journal: what the forger's own airtcp writes."""
    failing: Json = {"name": "failing", "variants": [], "measures": {"text": {"sql": FAILS}}}
    sweep = variants(**(failing if it.read("sweep.json")["name"] == "failing" else {}))
    SweepResults.collect(plan(sweep), Store.look(it.folder)).save(it.folder)


# --- sweeps: numbers --------------------------------------------------------------------------------------------------


@forgery("sweep", "columns ['utilisation']", issue=True)
def a_number_in_the_runs(it: Copy) -> None:
    it.table("runs", first({"utilisation": 99.0}))


@forgery("sweep", "columns ['cwnd_segments']")
def a_number_in_a_table_of_rows(it: Copy) -> None:
    it.table("windows", first({"cwnd_segments": 99}))


@forgery("sweep", "another `utilisation`", issue=True)
def numbers_in_journal_and_table(it: Copy) -> None:
    def better(entries: list[Json]) -> None:
        for entry in entries:
            entry["measures"]["links.line.utilisation"] += 1e-12

    it.journal(better)
    rebuilt(it)


@forgery("sweep", "columns ['wall_s']")
def wall_time_of_the_table(it: Copy) -> None:
    it.table("runs", first({"wall_s": 0.001}))


@forgery("sweep", "columns ['status', 'error']")
def a_failure_in_the_table_only(it: Copy) -> None:
    it.table("runs", first({"status": "failed", "error": "it broke"}))


@forgery("sweep", "has 9 rows, not 8")
def a_row_twice(it: Copy) -> None:
    it.table("runs", lambda frame: pl.concat([frame, frame[:1]]))


@forgery("sweep", "has 21 rows, not 24")
def rows_of_a_run_removed(it: Copy) -> None:
    it.table("windows", lambda frame: frame[3:])


@forgery("sweep", "first in row 1")
def rows_in_another_order(it: Copy) -> None:
    it.table("runs", lambda frame: frame.reverse())


@forgery("sweep", "columns ['better'] should not be there")
def a_column_more(it: Copy) -> None:
    it.table("runs", lambda frame: frame.with_columns(pl.lit(1.0).alias("better")))


@forgery("sweep", "columns ['goodput'] should not be there; columns ['utilisation'] are missing")
def a_column_renamed(it: Copy) -> None:
    it.table("runs", lambda frame: frame.rename({"utilisation": "goodput"}))


@forgery("sweep", "other types")
def a_column_of_another_type(it: Copy) -> None:
    it.table("runs", lambda frame: frame.with_columns(pl.col("rate").cast(pl.Float64)))


@forgery("sweep", "another order")
def columns_in_another_order(it: Copy) -> None:
    it.table("runs", lambda frame: frame.select(reversed(frame.columns)))


# --- sweeps: words ----------------------------------------------------------------------------------------------------


@forgery("sweep", "measures.utilisation.unit is 'Mbit/s', not '%'")
def another_unit(it: Copy) -> None:
    it.json("sweep.json", lambda d: d["measures"]["utilisation"].update(unit="Mbit/s"))


@forgery("sweep", "measures.utilisation.label")
def another_label(it: Copy) -> None:
    it.json("sweep.json", lambda d: d["measures"]["utilisation"].update(label="Goodput"))


@forgery("sweep", "seeds has 3 entries, not 2")
def more_seeds_claimed(it: Copy) -> None:
    it.json("sweep.json", lambda d: d["seeds"].append(3))


@forgery("sweep", "variants[0] is 'cubic'")
def order_of_variants(it: Copy) -> None:
    it.json("sweep.json", lambda d: d["variants"].reverse())


@forgery("sweep", "sweep.json: verified should not be there")
def a_key_more(it: Copy) -> None:
    it.json("sweep.json", lambda d: d.update(verified=True))


@forgery("sweep", "lines repeat runs")
def a_journal_line_twice(it: Copy) -> None:
    it.journal(lambda entries: [*entries, entries[0]])


@forgery("sweep", "1 runs that are not in the plan", NOT_CHECKED)
def a_journal_line_of_no_run(it: Copy) -> None:
    it.journal(lambda entries: [*entries, {**entries[0], "key": "f" * 32}])


@forgery("sweep", "names the engine")
def another_engine_in_the_journal(it: Copy) -> None:
    it.journal(first_line({"engine": "9.9.9+ffffffff"}))


@forgery("sweep", "columns ['key'")
def another_engine_in_the_manifest(it: Copy) -> None:
    it.json("sweep.json", lambda d: d.update(engine="9.9.9+ffffffff"))


@forgery("sweep", "made by engine 9.9.9+ffffffff", 0)
def another_engine_everywhere(it: Copy) -> None:
    it.rekey("9.9.9+ffffffff")


@forgery("failing", "and fails with")
def another_error(it: Copy) -> None:
    it.journal(first_line({"error": "the disk was full"}))
    rebuilt(it)


@forgery("failing", "it fails")
def a_failure_called_a_success(it: Copy) -> None:
    answer = {"columns": {"n": [1]}, "types": {"n": "Int64"}}
    change = {"status": "ok", "error": None, "measures": {Extract("text", "sql", FAILS).id: answer}}
    it.journal(first_line(change))
    rebuilt(it)


# --- sweeps: what was run ---------------------------------------------------------------------------------------------


@forgery("sweep", "tasks.parquet", issue=True)
def scenarios_of_other_runs(it: Copy) -> None:
    it.table(
        TASKS, lambda frame: frame.with_columns(pl.col("scenario").str.replace('"seed":1', '"seed":7', literal=True))
    )


@forgery("sweep", "tasks.parquet")
def another_measure_in_the_tasks(it: Copy) -> None:
    it.table(TASKS, lambda f: f.with_columns(pl.col("measures").str.replace("utilisation", "loss_ratio")))


@forgery("sweep", "tasks.parquet")
def a_measure_that_is_said_to_have_rows(it: Copy) -> None:
    it.table(TASKS, lambda f: f.with_columns(pl.col("measures").str.replace('"rows": false', '"rows": true')))


@forgery("sweep", "tasks.parquet")
def a_task_removed(it: Copy) -> None:
    it.table(TASKS, lambda frame: frame[1:])


@forgery("sweep", "another `utilisation`")
def a_measure_that_measures_something_else(it: Copy) -> None:
    """In every file it is another place; the numbers stay."""
    it.everywhere(
        {"links.line.utilisation": "links.line.loss_ratiX", "links.line.loss_ratio": "links.line.utilisation"}
    )
    it.everywhere({"links.line.loss_ratiX": "links.line.loss_ratio"})


@forgery("sweep", "columns ['key', 'scenario']")
def a_variant_that_sets_something_else(it: Copy) -> None:
    it.json(DEFINITION, lambda d: d["sweep"]["definition"]["variants"][0]["set"].update({"flows.bulk.tcp.cc": "vegas"}))


@forgery(
    "sweep",
    "columns ['variant'",
)
def variants_exchanged_in_the_definition(it: Copy) -> None:
    it.json(DEFINITION, lambda d: d["sweep"]["definition"]["variants"].reverse())


@forgery("sweep", "runs of kernels", NOT_CHECKED)
def a_variant_called_a_kernel(it: Copy) -> None:
    tasks = pl.read_parquet(it.folder / f"{TASKS}.parquet")
    runs = pl.read_parquet(it.folder / "runs.parquet")
    engine = airtcp._airtcp.engine()
    kernel = f"{engine}+linux-6.12-0123456789ab"
    keys = {
        key: key_of(json.loads(text), kernel)
        for key, text, variant in zip(tasks["key"], tasks["scenario"], runs["variant"], strict=True)
        if variant == "cubic"
    }

    def name(entries: list[Json]) -> None:
        for entry in entries:
            if entry["key"] in keys:
                entry["engine"] = kernel

    it.journal(name)
    it.everywhere(keys)
    it.json(DEFINITION, lambda d: d["sweep"]["kernels"].update(cubic="linux-6.12-0123456789ab"))


@forgery("sweep", "no run is made again", NOT_CHECKED)
def no_definition(it: Copy) -> None:
    it.drop(DEFINITION)


@forgery("sweep", "is missing: verify/definition.json is that of a sweep")
def no_manifest(it: Copy) -> None:
    it.drop("sweep.json")


@forgery("sweep", "windows.parquet: is missing")
def a_table_removed(it: Copy) -> None:
    it.drop("windows.parquet")


@forgery("sweep", "better.parquet", NOT_CHECKED)
def a_table_more(it: Copy) -> None:
    pl.DataFrame({"x": [1]}).write_parquet(it.folder / "better.parquet")


@forgery("sweep", "has no such file")
def a_sweep_called_an_analysis(it: Copy) -> None:
    it.kind = "airtcp-analysis"


@forgery("sweep", "must be one of")
def a_sweep_called_something_else(it: Copy) -> None:
    it.kind = "airtcp-notes"


@forgery("sweep", "no run was made again", NOT_CHECKED)
def a_sweep_without_tables(it: Copy) -> None:
    for name in [*it.folder.glob("*.parquet"), *it.folder.rglob("verify/*"), it.folder / "sweep.json"]:
        name.unlink()


# --- single runs ------------------------------------------------------------------------------------------------------


@forgery("run", "manifest.json: status is 'interrupted'", issue=True)
def a_whole_run_marked_interrupted(it: Copy) -> None:
    for name in ("manifest.json", "summary.json"):
        it.json(name, lambda d: d.update(status="interrupted"))


@forgery("run", "differs in flows")
def a_run_made_up_and_marked_interrupted(it: Copy) -> None:
    it.json("manifest.json", lambda d: d.update(status="interrupted", simulated_s=0.35))
    it.json("summary.json", lambda d: d.update(status="interrupted"))
    it.table("flows", first({"goodput_bps": 1e9}))


@forgery("run", "cannot be made again", NOT_CHECKED)
def a_run_marked_as_one_in_real_time(it: Copy) -> None:
    it.json("manifest.json", lambda d: d.update(real_time={"hosts": []}))
    it.table("flows", first({"goodput_bps": 1e9}))


@forgery("run", "differs in flows")
def a_number_of_a_run(it: Copy) -> None:
    it.table("flows", first({"goodput_bps": 1e9}))


@forgery("run", "differs in flows")
def a_column_more_in_a_run(it: Copy) -> None:
    it.table("flows", lambda frame: frame.with_columns(pl.lit(1.0).alias("better")))


@forgery("run", "differs in link_series")
def rows_of_a_run_in_another_order(it: Copy) -> None:
    it.table("link_series", lambda frame: frame.reverse())


@forgery("run", "summary.json: groups")
def a_number_of_the_summary(it: Copy) -> None:
    it.json("summary.json", lambda d: d["groups"][0].update(goodput_bps=1e9))


@forgery("run", "differs in")
def another_scenario_that_runs(it: Copy) -> None:
    it.json("manifest.json", lambda d: d["scenario"]["links"][1].update(loss=0.0))


@forgery("run", "manifest.json: seed is 7")
def another_seed_in_the_manifest(it: Copy) -> None:
    it.json("manifest.json", lambda d: d.update(seed=7))


@forgery("run", "differs in")
def another_seed_in_the_scenario(it: Copy) -> None:
    for name in ("manifest.json", "summary.json"):
        it.json(name, lambda d: d.update(seed=7))
    it.json("manifest.json", lambda d: d["scenario"].update(seed=7))


@forgery("run", "tables.flows.columns.goodput_bps")
def another_meaning_of_a_column(it: Copy) -> None:
    it.json(
        "manifest.json", lambda d: d["tables"]["flows"]["columns"].update(goodput_bps="goodput of a better network")
    )


@forgery("run", "timing.events")
def another_count_of_events(it: Copy) -> None:
    it.json("manifest.json", lambda d: d["timing"].update(events=1))


@forgery("run", "made by engine", 0)
def another_engine_of_a_run(it: Copy) -> None:
    it.json("manifest.json", lambda d: d.update(engine="9.9.9+ffffffff"))


@forgery("run", "differs in capture.pcapng")
def another_capture(it: Copy) -> None:
    path = it.folder / "capture.pcapng"
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


@forgery("run", "differs in drops")
def a_table_of_a_run_removed(it: Copy) -> None:
    it.drop("drops.parquet")
    it.json("manifest.json", lambda d: d["tables"].pop("drops"))


@forgery("run", "notes.parquet", NOT_CHECKED)
def a_table_more_beside_a_run(it: Copy) -> None:
    pl.DataFrame({"x": [1]}).write_parquet(it.folder / "notes.parquet")


@forgery("run", "no run has that table")
def a_table_more_in_a_run(it: Copy) -> None:
    pl.DataFrame({"x": [1]}).write_parquet(it.folder / "notes.parquet")
    it.json("manifest.json", lambda d: d["tables"].update(notes={"rows": 1, "columns": {"x": "x"}}))


@forgery("run", "no run was made again", NOT_CHECKED)
def a_run_called_an_analysis(it: Copy) -> None:
    it.kind = "airtcp-analysis"
    it.table("flows", first({"goodput_bps": 1e9}))


# --- studies ----------------------------------------------------------------------------------------------------------


def finding(document: Json, name: str) -> Json:
    return next(one for one in document["findings"] if one["id"] == name)


@forgery("study", "findings[1a-all-lost].verdict", issue=True)
def a_verdict_flipped(it: Copy) -> None:
    it.json("study.json", lambda d: finding(d, "1a-all-lost").update(verdict="reproduced", verdict_text="reproduced"))


@forgery("study", "report.html: is not what the tables give", issue=True)
def a_verdict_flipped_in_the_page(it: Copy) -> None:
    it.text("report.html", "not reproduced", "reproduced")


@forgery("study", "findings[2-more-flows-more-loss].measured")
def a_number_of_a_finding(it: Copy) -> None:
    it.json("study.json", lambda d: finding(d, "2-more-flows-more-loss").update(measured=12.5))


@forgery("study", "checks[0].text")
def another_check(it: Copy) -> None:
    check = "loss(n=4) < loss(n=2)"
    it.json("study.json", lambda d: finding(d, "2-more-flows-more-loss")["checks"][0].update(text=check))


@forgery("study", "findings[1a-all-lost].verdict is")
def another_check_in_definition_and_verdict(it: Copy) -> None:
    """The check is easier, in the definition and in the results; what it gives is not."""
    check = "about(loss('Reno', n=4, limit=limit), 100, abs=500)"

    def easier(document: Json) -> None:
        finding(document["experiments"][0], "1a-all-lost")["checks"][0] = check

    it.json(DEFINITION, easier)
    for one in ("study.json",):
        it.json(one, lambda d: [c.update(text=check) for c in finding(d, "1a-all-lost")["checks"]])


@forgery("study", "findings[1a-all-lost].claim")
def another_claim(it: Copy) -> None:
    it.json("study.json", lambda d: finding(d, "1a-all-lost").update(claim="Little is lost"))


@forgery("study", "series")
def another_curve(it: Copy) -> None:
    it.json("study.json", lambda d: d["experiments"][0]["plots"][0]["series"][0]["y"].__setitem__(0, 1.0))


@forgery("study", "failed")
def failures_that_were_not_there(it: Copy) -> None:
    it.json("study.json", lambda d: d["failed"].append({"experiment": "buffer", "what": "seed = 1", "error": "x"}))


@forgery("study", "finished is")
def an_interrupted_study_called_finished(it: Copy) -> None:
    it.journal(lambda entries: entries[3:])


@forgery("study", "buffer.parquet: columns ['variant']")
def variants_of_a_study_exchanged(it: Copy) -> None:
    it.table("buffer", lambda frame: frame.with_columns(exchanged("variant", "Reno", "Paced")))


@forgery("study", "buffer.by_flow.parquet: columns")
def rows_of_a_study(it: Copy) -> None:
    it.table("buffer.by_flow", first({"goodput": 1.0}))


@forgery("study", "report.html: is not what the tables give")
def a_script_in_the_page(it: Copy) -> None:
    it.text("report.html", "</body>", "<script>alert(1)</script></body>")


@forgery("study", "report.html", NOT_CHECKED)
def a_page_of_another_version(it: Copy) -> None:
    from airtcp.report.page import made_by

    it.text("report.html", made_by(), "0123456789ab")
    it.text("report.html", "not reproduced", "reproduced")


@forgery("study", "figures/fig1a.svg: is not what the tables give")
def another_figure(it: Copy) -> None:
    path = it.folder / "figures/fig1a.svg"
    path.write_text(path.read_text().replace("</svg>", "<!-- better --></svg>"))


@forgery("study", "figures/fig9.svg", NOT_CHECKED)
def a_figure_more(it: Copy) -> None:
    (it.folder / "figures/fig9.svg").write_text("<svg/>")


@forgery("study", "is missing: verify/definition.json is that of a study")
def a_study_without_verdicts(it: Copy) -> None:
    it.drop("study.json")


@forgery("study", "command is")
def another_command(it: Copy) -> None:
    it.json("study.json", lambda d: d.update(command="airtcp study run tiny --full", mode="full"))


@forgery("study", "a sweep and a study at once")
def a_study_and_a_sweep(it: Copy) -> None:
    (it.folder / "sweep.json").write_text("{}")
