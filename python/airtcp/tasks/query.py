"""The SQL of measures: what of it is allowed, found by parsing it, before the query engine sees anything.

A study is data from strangers. The engine, Polars, reads files and fetches addresses for table functions such as
`read_csv`, already while it plans. It has no option against that, so queries are parsed here. This grammar has tables
of the run, subqueries and named subqueries after FROM, and functions from a fixed list. Polars then gets the tokens of
the parse, not the text: comments, other quotes and whatever two parsers could take differently do not reach it. Sizes
and depths are bounded, because engines crash on what is nested or chained too far.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from airtcp.expressions import nearest

MAX_LENGTH: Final = 20_000
"""Characters of a query."""
MAX_TOKENS: Final = 4000
MAX_TERMS: Final = 200
"""Operands in one expression: planning takes longer than in proportion to them."""
MAX_DEPTH: Final = 25
"""Deepest nesting of parentheses, calls, CASE and subqueries. Polars itself fails near 50."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS: Final = _words(
    """
    avg bit_and bit_count bit_or bit_xor corr count covar covar_pop covar_samp first last max median min quantile_cont
    quantile_disc stddev stddev_samp stdev stdev_samp sum var var_samp variance
    abs acos acosd asin asind atan atan2 atan2d atand cbrt ceil ceiling cos cosd cot cotd degrees div exp floor ln log
    log10 log1p log2 mod pi pow power radians round sign sin sind sqrt tan tand
    coalesce greatest if ifnull least nullif
    bit_length char_length character_length concat concat_ws ends_with initcap left length lower ltrim octet_length
    regexp_like replace reverse right rtrim split_part starts_with strpos substr substring trim upper
    dense_rank first_value lag last_value lead percent_rank rank row_number
    """
)
"""Functions that a query may call. They read only their arguments."""

TYPES: Final = _words(
    """
    bigint bool boolean double float float4 float8 int int1 int2 int4 int8 integer real smallint text tinyint uint
    uint1 uint2 uint4 uint8 varchar
    """
)

_RESERVED: Final = _words(
    """
    all and anti as asc between by case cross desc distinct else end except exists false for from full group having
    ilike in inner intersect into is join lateral left like limit natural not null nulls offset on or order outer over
    partition qualify regexp right rlike select semi tablesample then true unbounded union unnest using when where with
    """
)
"""Words that are no names unless they are quoted."""

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n]+|--[^\n]*)
    |(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.]))
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*(?!['"]))
    |(?P<string>'(?:[^'\\]|'')*')
    |(?P<quoted>"[^"\\]+")
    |(?P<sign><=|>=|<>|!=|\|\||::|[-+*/%<>=(),.])
    """,
    re.VERBOSE,
)


class QueryError(ValueError):
    """A query is not allowed, or is not one. The message says what is."""


@dataclass(frozen=True)
class Token:
    """A word, name, number, string or sign."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        """In lower case, if it is an unquoted word."""
        return self.text.lower() if self.kind == "word" else ""


@dataclass(frozen=True)
class Query:
    """A query that is allowed."""

    text: str
    """As the engine gets it."""
    tables: frozenset[str]
    """The tables of the run that it names."""


@lru_cache(maxsize=256)
def parse(text: str, tables: frozenset[str]) -> Query:
    """Reads a query.

    Args:
        text: a SELECT, or WITH and a SELECT.
        tables: what the run recorded.

    Raises:
        QueryError: something in it is not allowed, or it is no query.
    """
    parser = _Parser(_tokens(text), tables)
    parser.whole()
    return Query(" ".join(token.text for token in parser.tokens), frozenset(parser.used))


def _tokens(text: str) -> list[Token]:
    if len(text) > MAX_LENGTH:
        raise QueryError(f"a query of {len(text)} characters: at most {MAX_LENGTH} are allowed")
    tokens = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise QueryError(f"`{_excerpt(text[at:])}` is not allowed in a query")
        kind = str(found.lastgroup)
        if kind != "space":
            tokens.append(Token(kind, found.group()))
        at = found.end()
    if len(tokens) > MAX_TOKENS:
        raise QueryError(f"a query of {len(tokens)} words and signs: at most {MAX_TOKENS} are allowed")
    return tokens


def _excerpt(text: str) -> str:
    return text.split("\n")[0][:30]


_END: Final = Token("end", "")


class _Parser:
    """A descent through the grammar. What is nothing here is refused."""

    def __init__(self, tokens: list[Token], tables: Collection[str]) -> None:
        self.tokens: Final = tokens
        self.tables: Final = tables
        self.used: Final[set[str]] = set()
        self.at = 0
        self.depth = 0
        self.scopes: list[set[str]] = []

    # --- tokens -------------------------------------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> Token:
        i = self.at + ahead
        return self.tokens[i] if i < len(self.tokens) else _END

    def take(self, *texts: str) -> bool:
        """The words or signs that follow, all of them or none."""
        for i, text in enumerate(texts):
            token = self.peek(i)
            if (token.word or (token.text if token.kind == "sign" else "")) != text:
                return False
        self.at += len(texts)
        return True

    def need(self, *texts: str) -> None:
        if not self.take(*texts):
            raise self.refuse(f"`{' '.join(texts).upper()}` is expected")

    def refuse(self, what: str) -> QueryError:
        here = _excerpt(" ".join(token.text for token in self.tokens[self.at : self.at + 4]))
        return QueryError(f"{what}, not `{here}`" if here else f"{what} at the end of the query")

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise QueryError(f"a query nested more than {MAX_DEPTH} deep")

    def name(self, what: str) -> str:
        token = self.peek()
        if token.kind == "quoted":
            self.at += 1
            return token.text[1:-1]
        if token.kind != "word" or token.word in _RESERVED:
            raise self.refuse(f"{what} is expected")
        self.at += 1
        return token.text

    # --- queries ------------------------------------------------------------------------------------------------------

    def whole(self) -> None:
        self.query()
        if self.at < len(self.tokens):
            raise self.refuse("the end of the query is expected")

    def query(self) -> None:
        self.deeper()
        self.scopes.append(set())
        if self.take("with"):
            while True:
                name = self.name("the name of a subquery")
                self.need("as")
                self.need("(")
                self.query()
                self.need(")")
                self.scopes[-1].add(name)
                if not self.take(","):
                    break
        self.select()
        terms = 1
        while self.peek().word in ("union", "except", "intersect"):
            self.at += 1
            terms += 1
            if terms > MAX_TERMS:
                raise QueryError(f"more than {MAX_TERMS} parts of a UNION")
            if not self.take("all"):
                self.take("distinct")
            self.select()
        if self.take("order", "by"):
            self.sort_keys()
        if self.take("limit"):
            self.number()
        if self.take("offset"):
            self.number()
        self.scopes.pop()
        self.depth -= 1

    def select(self) -> None:
        if self.take("("):
            self.query()
            self.need(")")
            return
        if not self.take("select"):
            raise self.refuse("a query begins with SELECT or WITH: `SELECT` is expected")
        self.take("distinct")
        while True:
            self.item()
            if not self.take(","):
                break
        if self.take("from"):
            while True:
                self.joined()
                if not self.take(","):
                    break
        if self.take("where"):
            self.expression()
        if self.take("group", "by"):
            self.expressions()
        if self.take("having"):
            self.expression()
        if self.take("qualify"):
            self.expression()

    def item(self) -> None:
        if self.take("*"):
            return
        if self.peek(1).text == "." and self.peek(2).text == "*":
            self.name("a table")
            self.at += 2
            return
        self.expression()
        self.alias()

    def alias(self) -> None:
        if self.take("as"):
            self.name("a name")
        elif self.peek().kind == "quoted" or (self.peek().kind == "word" and self.peek().word not in _RESERVED):
            self.at += 1

    def joined(self) -> None:
        self.table()
        while True:
            kind = self.at
            self.take("natural")
            for words in (("inner",), ("cross",), ("left", "outer"), ("right", "outer"), ("full", "outer"), ("left",),
                          ("right",), ("full",)):  # fmt: skip
                if self.take(*words):
                    if words[0] in ("left", "right") and not self.take("semi"):
                        self.take("anti")
                    break
            if not self.take("join"):
                if self.at != kind:
                    raise self.refuse("`JOIN` is expected")
                return
            self.table()
            if self.take("on"):
                self.expression()
            elif self.take("using"):
                self.need("(")
                while True:
                    self.name("a column")
                    if not self.take(","):
                        break
                self.need(")")

    def table(self) -> None:
        """A table of the run, or a subquery; nothing that is called."""
        if self.take("("):
            self.query()
            self.need(")")
        else:
            name = self.name("a table")
            if self.peek().text in ("(", "."):
                raise QueryError(
                    f"`{name}{self.peek().text}` after FROM is not allowed: a query reads the tables of its run, "
                    f"no files and no addresses{nearest(name, self.tables)}"
                )
            if any(name in scope for scope in self.scopes):
                pass
            elif name in self.tables:
                self.used.add(name)
            else:
                raise QueryError(f"no table is called `{name}`{nearest(name, self.tables)}")
        self.alias()

    # --- expressions --------------------------------------------------------------------------------------------------

    def expressions(self) -> None:
        while True:
            self.expression()
            if not self.take(","):
                return

    def sort_keys(self) -> None:
        while True:
            self.expression()
            if not self.take("asc"):
                self.take("desc")
            if self.take("nulls") and not self.take("first"):
                self.need("last")
            if not self.take(","):
                return

    def expression(self) -> None:
        """Operands with operators between them. Which binds closer does not matter here."""
        self.deeper()
        terms = 0
        while True:
            terms += 1
            if terms > MAX_TERMS:
                raise QueryError(f"an expression of more than {MAX_TERMS} terms")
            self.operand()
            if not self.operator():
                break
        self.depth -= 1

    def operator(self) -> bool:
        """Reads the part after an operand; true if another operand must follow."""
        while True:
            if self.take("is"):
                self.take("not")
                if self.take("distinct"):
                    self.need("from")
                    return True
                if self.peek().word not in ("null", "true", "false"):
                    raise self.refuse("`NULL` is expected")
                self.at += 1
            elif self.take("::"):
                self.type()
            else:
                break
        negated = self.take("not")
        if self.take("in"):
            self.need("(")
            if self.peek().word in ("select", "with"):
                self.query()
            else:
                self.expressions()
            self.need(")")
            return self.operator()
        if self.peek().word in ("between", "like", "ilike", "rlike"):
            self.at += 1
            return True
        if negated:
            raise self.refuse("`IN`, `BETWEEN` or `LIKE` is expected")
        token = self.peek()
        is_sign = token.kind == "sign" and token.text not in ("(", ")", ",", ".")
        if is_sign or token.word in ("and", "or"):
            self.at += 1
            return True
        return False

    def operand(self) -> None:
        signs = 0
        while self.peek().word == "not" or self.peek().text in ("-", "+"):
            self.at += 1
            signs += 1
            if signs > MAX_DEPTH:
                raise QueryError(f"more than {MAX_DEPTH} signs before a value")
        token = self.peek()
        if token.kind in ("number", "string") or token.word in ("null", "true", "false"):
            self.at += 1
        elif self.take("("):
            self.parenthesis()
        elif self.take("case"):
            self.case()
        elif self.take("exists"):
            self.need("(")
            self.query()
            self.need(")")
        elif token.kind == "word" and self.peek(1).text == "(" and token.word in ("cast", "try_cast"):
            self.at += 2
            self.expression()
            self.need("as")
            self.type()
            self.need(")")
        elif token.kind == "word" and self.peek(1).text == "(":
            self.call()
        else:
            self.name("a value")
            if self.take("."):
                self.name("a column")
            if self.peek().text == "(":
                raise self.refuse("an operator is expected")

    def parenthesis(self) -> None:
        if self.peek().word in ("select", "with"):
            self.query()
        else:
            self.expressions()
        self.need(")")

    def case(self) -> None:
        if self.peek().word != "when":
            self.expression()
        self.need("when")
        terms = 0
        while True:
            terms += 1
            if terms > MAX_TERMS:
                raise QueryError(f"a CASE of more than {MAX_TERMS} branches")
            self.expression()
            self.need("then")
            self.expression()
            if not self.take("when"):
                break
        if self.take("else"):
            self.expression()
        self.need("end")

    def call(self) -> None:
        name = self.peek().word
        if name not in FUNCTIONS:
            raise QueryError(f"`{self.peek().text}` is no function of queries{nearest(name, FUNCTIONS)}")
        self.at += 1
        self.need("(")
        if not self.take("*"):
            self.take("distinct")
            if self.peek().text != ")":
                self.expressions()
            if self.take("order", "by"):
                self.sort_keys()
        self.need(")")
        if self.take("over"):
            self.need("(")
            if self.take("partition", "by"):
                self.expressions()
            if self.take("order", "by"):
                self.sort_keys()
            if self.take("rows"):
                self.need("between")
                self.bound()
                self.need("and")
                self.bound()
            self.need(")")

    def bound(self) -> None:
        if self.take("current"):
            if self.name("ROW").lower() != "row":
                raise self.refuse("`CURRENT ROW` is expected")
            return
        if not self.take("unbounded"):
            self.number()
        if not self.take("preceding"):
            self.need("following")

    def type(self) -> None:
        token = self.peek()
        if token.word not in TYPES:
            raise QueryError(f"`{token.text}` is no type of queries{nearest(token.word, TYPES)}")
        self.at += 1
        if token.word == "double" and self.peek().word == "precision":
            self.at += 1

    def number(self) -> None:
        if self.peek().kind != "number":
            raise self.refuse("a number is expected")
        self.at += 1
