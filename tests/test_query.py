"""Queries of strangers: they read the tables of their run, and reach nothing else."""

from __future__ import annotations

import http.server
import re
import shutil
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import airtcp
from airtcp.tasks.query import FUNCTIONS, MAX_DEPTH, MAX_TERMS, QueryError, parse
from conftest import ROOT, WIRELESS, Command

TABLES = frozenset({"flows", "links", "flow_series"})

READERS = ("read_csv", "read_parquet", "read_json", "read_ipc", "READ_CSV", '"read_csv"', "scan_csv", "read_ndjson")


def refused(text: str) -> str:
    with pytest.raises(QueryError) as found:
        parse(text, TABLES)
    return str(found.value)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM {r}('/etc/shadow')",
        "SELECT * FROM flows JOIN {r}('/etc/shadow') s ON true",
        "SELECT * FROM flows, {r}('/etc/shadow')",
        "SELECT * FROM flows CROSS JOIN {r}('/etc/shadow')",
        "SELECT flow FROM flows WHERE flow IN (SELECT * FROM {r}('/etc/shadow'))",
        "SELECT (SELECT count(*) FROM {r}('/etc/shadow')) AS n FROM flows",
        "WITH s AS (SELECT * FROM {r}('/etc/shadow')) SELECT * FROM s",
        "WITH {r} AS (SELECT 1) SELECT * FROM {r}('/etc/shadow')",
        "SELECT 1 UNION ALL SELECT * FROM {r}('/etc/shadow')",
        "SELECT flow FROM flows WHERE EXISTS (SELECT 1 FROM {r}('/etc/shadow'))",
        "SELECT {r}('/etc/shadow')",
        "SELECT 1 FROM/**/{r}('/etc/shadow')",
        "SELECT 1 FROM -- flows\n{r}('/etc/shadow')",
        "SELECT 'a' AS \"b\" FROM flows WHERE name = 'x''' OR 1 IN (SELECT 1 FROM {r} ('/etc/shadow'))",
        "SELECT sum(flow) AS {r} FROM {r} ('/etc/shadow')",
        "SELECT * FROM LATERAL {r}('/etc/shadow')",
        "SELECT * FROM TABLE({r}('/etc/shadow'))",
    ],
)
def test_no_query_reads_a_file(query: str, reader: str) -> None:
    refused(query.format(r=reader))


@pytest.mark.parametrize(
    "query",
    [
        "",
        "SELECT",
        "DROP TABLE flows",
        "SELECT 1; SELECT 2",
        "EXPLAIN SELECT 1",
        "CREATE TABLE x AS SELECT 1",
        "SHOW TABLES",
        "SELECT * FROM '/etc/passwd'",
        'SELECT * FROM "/etc/passwd"',
        "SELECT * FROM shadow",
        "SELECT * FROM main.flows",
        "SELECT 'a' 'b'",
        "SELECT 'it\\'s'",
        "SELECT E'x'",
        "SELECT $$x$$",
        "SELECT `flow` FROM flows",
        "SELECT flow FROM flows # x",
        "SELECT 1 /* x */",
        "SELECT 1 +",
        "SELECT (1",
        "SELECT 1)",
        "SELECT CAST(1 AS STRUCT)",
        "TRUNCATE flows",
        "SELECT 'open",
    ],
)
def test_what_is_no_plain_query_is_refused(query: str) -> None:
    assert refused(query)


def test_the_message_says_what_would_do() -> None:
    assert "no files and no addresses; there are: flow_series, flows, links" in refused("SELECT * FROM read_csv('x')")
    assert "did you mean `flows`?" in refused("SELECT * FROM flow")
    assert "did you mean `avg`?" in refused("SELECT avgg(flow) FROM flows")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT " + " + ".join(["flow"] * 20_000) + " FROM flows", "characters"),
        ("SELECT " + "+".join(["1"] * 1500) + " FROM flows", "200 terms"),
        ("SELECT " + " AND ".join(["true"] * (MAX_TERMS + 1)), "200 terms"),
        ("SELECT " + "(" * 60 + "1" + ")" * 60, "25 deep"),
        ("SELECT " + "abs(" * 60 + "1" + ")" * 60, "25 deep"),
        ("SELECT " + "CASE WHEN true THEN " * 60 + "1" + " END" * 60, "25 deep"),
        ("SELECT * FROM (" * 60 + "SELECT 1" + ")" * 60, "25 deep"),
        ("SELECT " + "- " * 60 + "1", "25 signs"),
        ("SELECT " + "NOT " * 60 + "true", "25 signs"),
        ("SELECT 1" + " UNION SELECT 1" * 300, "200 parts"),
        ("SELECT " + ",".join(["1"] * 4000), "4000 are allowed"),
    ],
)
def test_sizes_are_bounded_with_a_clear_error(query: str, words: str) -> None:
    assert words in refused(query)


def test_what_is_allowed_does_not_crash_the_engine() -> None:
    frame = pl.DataFrame({"flow": [1, 2]})
    for expression in (
        " + ".join(["flow"] * MAX_TERMS),
        " AND ".join(["flow > 0"] * (MAX_TERMS // 2)),
        "abs(" * (MAX_DEPTH - 3) + "flow" + ")" * (MAX_DEPTH - 3),
    ):
        query = parse(f"SELECT {expression} AS x FROM flows", TABLES)
        with pl.SQLContext({"flows": frame}) as context:
            assert context.execute(query.text, eager=True).height == 2


WORDS = st.sampled_from(
    re.split(
        " ",
        "SELECT FROM JOIN read_csv ( ) '/etc/shadow' flows , AS x WITH * WHERE IN UNION 1 = count -- '' ' "
        'CASE WHEN END ON true . OVER "a" "',
    )
)
KEYWORDS = frozenset(
    re.split(" ", "in as over exists using from join where select when then else and or not by on case cast union")
)
"""What may stand before a parenthesis without being called."""


@given(st.lists(WORDS, max_size=30), st.sampled_from(["", " "]))
def test_whatever_passes_calls_only_what_is_listed(words: list[str], between: str) -> None:
    try:
        query = parse(between.join(["SELECT ", *words]), TABLES)
    except QueryError:
        return
    bare = re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"", "''", query.text)
    called = {name.lower() for name in re.findall(r"(\w+) \(", bare)}
    assert called <= FUNCTIONS | KEYWORDS
    assert "read_csv (" not in bare


# --- from end to end --------------------------------------------------------------------------------------------------


@pytest.fixture
def address() -> Iterator[tuple[str, list[str]]]:
    """A server, and what was asked of it."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("command", ["sweep", "check", "show"])
def test_no_command_asks_an_address(
    airtcp: Command, file: Path, tmp_path: Path, address: tuple[str, list[str]], command: str
) -> None:
    url, asked = address
    query = f"SELECT * FROM read_parquet('{url}/x.parquet')"
    if command == "sweep":
        file.write_text(file.read_text().replace("SELECT sum(dropped_overflow) AS n FROM links", query))
        done = airtcp("sweep", file)
    else:
        shutil.copytree(ROOT / "tests/data/tiny", tmp_path / "tiny")
        (path,) = (tmp_path / "tiny").glob("**/*buffer*.toml")
        text = path.read_text()
        path.write_text(re.sub(r"SELECT flow AS number[^\"]*", query, text))
        assert path.read_text() != text
        done = airtcp("study", command, tmp_path / "tiny")
    assert done.returncode == 2
    assert "no files and no addresses" in done.stderr
    assert asked == []


def published() -> list[str]:
    """The queries of all studies and examples."""
    found: dict[str, None] = {}

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("sql"), str):
                found[re.sub(r"\{[^}]*\}", "2", value["sql"])] = None
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                walk(item)

    for path in [*(ROOT / "studies").glob("**/*.toml"), *(ROOT / "examples").glob("*.toml")]:
        walk(tomllib.loads(path.read_text()))
    return list(found)


def test_the_queries_of_all_studies_answer_as_before(tmp_path: Path) -> None:
    path = tmp_path / "wireless.toml"
    path.write_text(WIRELESS)
    frames = {name: table.collect() for name, table in airtcp.run(path, duration="3s").items()}
    queries = published()
    assert len(queries) > 30
    for text in queries:
        with pl.SQLContext(frames) as context:
            before = context.execute(text, eager=True)
            after = context.execute(parse(text, frozenset(frames)).text, eager=True)
        # Rows that a query leaves without an order come in any.
        assert after.schema == before.schema
        # Threads add up floats in any order, so the last digit may differ.
        assert_frame_equal(after.sort(after.columns), before.sort(before.columns), rel_tol=1e-6, abs_tol=1e-12)
