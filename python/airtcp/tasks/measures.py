"""The measures of a run: numbers of its summary, or answers to queries over its tables."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from airtcp.expressions import Template, Value, nearest, plain_text
from airtcp.tasks.query import QueryError, parse

if TYPE_CHECKING:
    import polars as pl

MAX_ROWS: Final = 1_000_000
"""Most rows of a query for one run, because the journal keeps them as text."""

MAX_SHOWN: Final = 2000
"""Characters of a query in an error."""

Scalar = int | float | bool | str | None

Table = dict[str, Any]
"""The answer to a query as the journal has it: `{"columns": {name: values}, "types": {name: Polars type}}`."""


class RunOutput(Protocol):
    """A run from which measures are taken: of the engine, or of kernels."""

    @property
    def summary(self) -> str:
        """JSON."""

    @property
    def meanings(self) -> Mapping[str, Mapping[str, str]]:
        """Table, column, what it holds."""

    @property
    def tables(self) -> Mapping[str, Mapping[str, Any]]:
        """Table, column, values."""


class MeasureError(Exception):
    """A measure does not fit the run it is taken from. The message names it."""


@dataclass(frozen=True)
class Column:
    """Label, unit and scale of a number."""

    label: str = ""
    unit: str = ""
    scale: float = 1
    """Factor from the recorded unit to `unit`."""


@dataclass(frozen=True)
class Measure:
    """A measure of a sweep, as its file defines it."""

    name: str
    kind: Literal["value", "sql"]
    text: str
    """A place in the summary, or a query with `{parameters}`."""
    column: Column = Column()
    """Label, unit and scale of a scalar."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """The same for the columns of a query of many rows."""

    @property
    def names(self) -> frozenset[str]:
        """The parameters that its query uses."""
        return Template.read(self.text).names if self.kind == "sql" else frozenset()

    def bind(self, parameters: Mapping[str, Value]) -> Extract:
        """The measure at one point.

        Raises:
            ExpressionError: an expression in the query cannot be computed.
        """
        if self.kind == "value":
            return Extract(self.name, "value", self.text)
        return Extract(self.name, "sql", str(Template.read(self.text).fill(parameters, _sql_literal)))


def _sql_literal(value: Value) -> str:
    """A value that cannot be anything but a value in a query."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    text = plain_text(value)
    return f"({text})" if text.startswith("-") else text


@dataclass(frozen=True)
class Extract:
    """A value or table taken from one run. Measures with equal definitions are the same, also under several names."""

    name: str = field(compare=False)
    kind: Literal["value", "sql"]
    text: str

    @property
    def id(self) -> str:
        """Its name in the journal: the place itself, or a hash of the query and of what answers it.

        So an answer of another Polars, or of an older airtcp, is never taken for one of today's.
        """
        return self.id_under(measures_version()) if self.kind == "sql" else self.text

    def id_under(self, version: str) -> str:
        """Its name in the journal of an airtcp with that `measures_version`."""
        if self.kind == "value":
            return self.text
        return f"sql:{sha256(f'{version} {self.text}'.encode()).hexdigest()[:20]}"


@cache
def measures_version() -> str:
    """Names what decides the answer to a query: Polars' version, and a hash of this file and of the grammar of queries.

    Comments, docstrings and the layout of the code do not count.
    """
    digest = sha256()
    for file in (Path(__file__), Path(__file__).with_name("query.py")):
        digest.update(_code(file.read_text(encoding="utf-8")).encode())
    return f"polars-{version('polars')}-{digest.hexdigest()[:12]}"


def _code(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_docstring(line)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_docstring(line: ast.AST) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


def take(extracts: Sequence[Extract], output: RunOutput, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Takes all from a run that has ended, by the ids of the extracts: scalars, or a `Table` for each query.

    Raises:
        MeasureError: one of them does not fit.
    """
    out: dict[str, Any] = {}
    summary = json.loads(output.summary)
    frames: dict[str, pl.DataFrame] = {}
    for extract in extracts:
        if extract.id in out:
            continue
        if extract.kind == "value":
            out[extract.id] = _value(extract, summary, scenario)
        else:
            out[extract.id] = _answer(extract, output, frames)
    return out


def _value(extract: Extract, summary: Mapping[str, Any], scenario: Mapping[str, Any]) -> Scalar:
    what, rest = extract.text.split(".", 1)
    name, key = rest.rsplit(".", 1)
    rows = summary[what]
    names = [row["group" if what == "groups" else "name"] for row in rows]
    if name == "*":
        if len(rows) != 1:
            raise MeasureError(f"measure `{extract.name}`: `{extract.text}`: `*` needs exactly one, there are: {names}")
        row = rows[0]
    else:
        wanted = _link_names(scenario).get(name, name) if what == "links" and name not in names else name
        if wanted not in names:
            known = (
                [*names, *(n for n, ends in _link_names(scenario).items() if ends in names)]
                if what == "links"
                else names
            )
            raise MeasureError(
                f"measure `{extract.name}`: `{extract.text}`: nothing called `{name}` is in the summary"
                f"{nearest(name, known)}"
            )
        row = rows[names.index(wanted)]
    if key not in row or isinstance(row[key], (list, dict)):
        known = [k for k, v in row.items() if not isinstance(v, (list, dict))]
        raise MeasureError(f"measure `{extract.name}`: `{extract.text}`: no `{key}`{nearest(key, known)}")
    value: Scalar = row[key]
    return value


def _link_names(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Names that the scenario gives to links, and what the summary calls their direction `from` -> `to`."""
    return {link["name"]: f"{link['from']}->{link['to']}" for link in scenario["links"]}


def _answer(extract: Extract, output: RunOutput, frames: dict[str, pl.DataFrame]) -> Table:
    import polars as pl

    from airtcp.results import frame

    try:
        query = parse(extract.text, frozenset(output.meanings))
    except QueryError as error:
        raise MeasureError(_explain(extract, str(error), output)) from error
    # Only what the query means: other tables can be large.
    for name in query.tables - frames.keys():
        frames[name] = frame(output.tables[name])
    try:
        with pl.SQLContext(frames) as context:
            answer = context.execute(query.text, eager=True)
    except Exception as error:  # Polars has a dozen kinds
        raise MeasureError(_explain(extract, str(error), output)) from error
    if answer.height > MAX_ROWS:
        raise MeasureError(
            f"measure `{extract.name}`: {answer.height} rows for one run; at most {MAX_ROWS} can be kept"
        )
    types = {}
    for series in answer:
        name = series.name
        to: type[pl.DataType]
        if series.dtype.is_integer() or series.dtype == pl.Boolean:
            to = pl.Int64 if series.dtype.is_integer() else pl.Boolean
        elif series.dtype.is_float() or series.dtype.is_decimal():
            to = pl.Float64
        elif series.dtype in (pl.String, pl.Categorical, pl.Enum):
            to = pl.String
        elif series.dtype == pl.Null:
            to = pl.Float64
        else:
            raise MeasureError(
                f"measure `{extract.name}`: column `{name}` is a {series.dtype}; "
                f"numbers, text and true/false can be kept"
            )
        types[name] = str(to())
        answer = answer.with_columns(series.cast(to))
    if not types:
        raise MeasureError(f"measure `{extract.name}`: the query gives no column")
    columns = {s.name: [_finite(v) for v in s.to_list()] if s.dtype.is_float() else s.to_list() for s in answer}
    return {"columns": columns, "types": types}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _explain(extract: Extract, reason: str, output: RunOutput) -> str:
    tables = output.meanings
    used = [name for name in tables if re.search(rf"\b{name}\b", extract.text)]
    lines = [
        f"measure `{extract.name}`: {reason.splitlines()[0]}",
        f"  query: {_shortened(' '.join(extract.text.split()))}",
    ]
    lines += [f"  table {name}: {', '.join(tables[name])}" for name in used]
    if others := [name for name in tables if name not in used]:
        lines.append(f"  other tables: {', '.join(others)}" if used else f"  tables: {', '.join(others)}")
    return "\n".join(lines)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ..."
