"""Small expressions in sweep and study files: `2 * (D_ms + 10)`, `loss('paced', n=500) < 0.01`.

Python's own parser parses an expression. A short list says which parts are allowed, so that a file from somebody else
can do arithmetic only. These are numbers, strings, names, `+ - * / // % **`, parentheses and calls of the given
functions. Dotted names as a whole, lists as arguments, and one comparison at the top are allowed, too. Nothing is
handed to `eval`.

`Template` is text with expressions in braces, as in `"{D_ms}ms"`; `{{` and `}}` are braces.
"""

# Operators act on whatever values a name stands for.
# ruff: noqa: ANN401

from __future__ import annotations

import ast
import difflib
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

MAX_LENGTH: Final = 1000
"""Most characters of an expression."""

MAX_BITS: Final = 1024
"""Most bits of an integer in an expression, so that `9**9**9` cannot block the machine."""

MAX_DEPTH: Final = 60
"""Most operators and calls nested in each other."""

Functions = Mapping[str, Callable[..., Any]]


class ExpressionError(ValueError):
    """An expression cannot be read or computed. The message shows the expression and the place."""

    def __init__(self, text: str, at: int, message: str) -> None:
        """`at`: index in `text`. If it is outside, no place is shown."""
        line = " ".join(text.splitlines()) if text else ""
        place = f"\n  {line}\n  {' ' * at}^" if 0 <= at <= len(line) and len(line) == len(text) else f"\n  {line}"
        super().__init__(f"{message}{place}")
        self.text: Final = text
        self.at: Final = at
        self.reason: Final = message


def nearest(name: str, known: Iterable[str]) -> str:
    """End of an error message: `; did you mean `x`? there are: ...`, or the list alone."""
    names = sorted(set(known))
    if not names:
        return "; there are none"
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean `{close[0]}`?" if close else ";"
    shown = ", ".join(names[:30]) + (", ..." if len(names) > 30 else "")
    return f"{hint} there are: {shown}"


# --- evaluation -------------------------------------------------------------------------------------------------------


def _power(base: Any, exponent: Any) -> Any:
    is_whole = isinstance(base, int) and isinstance(exponent, int) and exponent > 0
    if is_whole and abs(base) > 1 and base.bit_length() * exponent > MAX_BITS:
        raise OverflowError("too large")
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError("a root of a negative number")
    return result


_OPERATORS: Final[dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", _power),
}

COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}

_COMPARISON_NODES: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def _log(x: float, base: float | None = None) -> float:
    return math.log(x) if base is None else math.log(x, base)


def _only_numbers(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: object) -> Any:
        for argument in arguments:
            if not isinstance(argument, (int, float)) or isinstance(argument, bool):
                raise TypeError(f"{name}() takes numbers, not {argument!r}")
        return function(*arguments)

    return call


_NUMERIC: Final[Functions] = {
    "sqrt": math.sqrt,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "min": min,
    "max": max,
    "log": _log,
}

FUNCTIONS: Final[Functions] = {name: _only_numbers(name, function) for name, function in _NUMERIC.items()}
"""Functions that templates may call."""


@dataclass(frozen=True)
class Expression:
    """A parsed expression. `evaluate` computes it; `comparison` splits it."""

    text: str
    """The text as written."""
    _node: ast.expr = field(repr=False, compare=False)

    @property
    def names(self) -> frozenset[str]:
        """The names that it uses, dotted names as a whole, without functions."""
        return frozenset(_names(self._node))

    @property
    def calls(self) -> frozenset[str]:
        """The functions that it calls, dotted names as a whole."""
        return frozenset(_dotted(n.func) for n in ast.walk(self._node) if isinstance(n, ast.Call))

    @property
    def comparison(self) -> tuple[Expression, str, Expression] | None:
        """Left side, operator and right side; `None` if it is not a comparison."""
        node = self._node
        if not isinstance(node, ast.Compare):
            return None
        sides = (node.left, node.comparators[0])
        left, right = (
            Expression(ast.get_source_segment(self.text, side) or "", _reparse(self.text, side)) for side in sides
        )
        return left, _COMPARISON_NODES[type(node.ops[0])], right

    def evaluate(self, names: Mapping[str, Any], functions: Functions = FUNCTIONS) -> Any:
        """Computes the value. Operators act on the values that names and functions give.

        Args:
            names: value of each name; a dotted name is looked up as a whole.
            functions: functions that may be called.

        Raises:
            ExpressionError: a name is unknown, or the arithmetic fails.
        """
        return _Evaluation(self.text, names, functions).value(self._node)


def _reparse(text: str, side: ast.expr) -> ast.expr:
    """One side of a comparison, with places that refer to its own text."""
    return parse(ast.get_source_segment(text, side) or "")._node


def parse(text: str) -> Expression:
    """Reads an expression.

    Raises:
        ExpressionError: the text is not an expression, or has a part that is not allowed.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(text[:60] + "...", -1, f"an expression of more than {MAX_LENGTH} characters")
    # Python counts columns in UTF-8 bytes. Names and operators are ASCII, so the place is right.
    body = " ".join(text.strip().splitlines())
    try:
        node = ast.parse(body, mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(body, (error.offset or 1) - 1, f"not an expression: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(body, -1, f"not an expression: {error or 'too deep'}") from None
    _check(body, node, 0, is_top=True)
    return Expression(body, node)


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def _at(text: str, node: ast.AST) -> int:
    offset = getattr(node, "col_offset", -1)
    return len(text.encode()[:offset].decode(errors="ignore")) if offset >= 0 else -1


def _check(text: str, node: ast.expr, depth: int, *, is_top: bool = False, is_argument: bool = False) -> None:
    def refuse(message: str) -> ExpressionError:
        return ExpressionError(text, _at(text, node), message)

    if depth > MAX_DEPTH:
        raise refuse("too deep")
    below: list[ast.expr] = []
    match node:
        case ast.Constant(value=bool() | None | bytes() | complex()):
            raise refuse("only numbers and strings are allowed here")
        case ast.Constant(value=int() | float() as number):
            if isinstance(number, int) and number.bit_length() > MAX_BITS:
                raise refuse("too large")
            if isinstance(number, float) and not math.isfinite(number):
                raise refuse("too large")
        case ast.Constant(value=str()) | ast.Name():
            pass
        case ast.Attribute():
            if not _dotted(node):
                raise refuse("a dot is allowed in names only")
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
            below = [node.operand]
        case ast.BinOp() if type(node.op) in _OPERATORS:
            below = [node.left, node.right]
        case ast.Compare():
            if not is_top:
                raise refuse("a comparison is allowed at the top level only")
            if len(node.ops) != 1:
                raise refuse("only one comparison is allowed: write two checks")
            if type(node.ops[0]) not in _COMPARISON_NODES:
                raise refuse(f"not a comparison: use one of {' '.join(COMPARISONS)}")
            below = [node.left, *node.comparators]
        case ast.Call():
            if not _dotted(node.func):
                raise refuse("only a function can be called, by its name")
            for argument in [*node.args, *(k.value for k in node.keywords)]:
                _check(text, argument, depth + 1, is_argument=True)
            if any(k.arg is None for k in node.keywords):
                raise refuse("`**` is not allowed in a call")
        case ast.List() if is_argument:
            below = node.elts
        case _:
            raise refuse("not allowed: numbers, strings, names, + - * / // % **, parentheses and calls are")
    for child in below:
        _check(text, child, depth + 1)


def _names(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Name() | ast.Attribute():
            yield _dotted(node)
        case ast.Call():
            for argument in [*node.args, *(k.value for k in node.keywords)]:
                yield from _names(argument)
        case _:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from _names(child)


@dataclass(frozen=True)
class _Evaluation:
    text: str
    names: Mapping[str, Any]
    functions: Functions

    def fail(self, node: ast.AST, message: str) -> ExpressionError:
        return ExpressionError(self.text, _at(self.text, node), message)

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name() | ast.Attribute():
                name = _dotted(node)
                if name not in self.names:
                    raise self.fail(node, f"`{name}` is not a known name{nearest(name, self.names)}")
                return self.names[name]
            case ast.List(elts=items):
                return [self.value(item) for item in items]
            case ast.UnaryOp(op=op, operand=operand):
                value = self.number(operand, "-")
                return self.guarded(node, lambda: -value if isinstance(op, ast.USub) else +value)
            case ast.BinOp(left=left, op=op, right=right):
                sign, operation = _OPERATORS[type(op)]
                # `+` joins texts. The other operators would format or repeat them.
                a, b = (
                    (self.value(left), self.value(right))
                    if sign == "+"
                    else (self.number(left, sign), self.number(right, sign))
                )
                return self.guarded(node, lambda: operation(a, b))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                a, b = self.value(left), self.value(right)
                return self.guarded(node, lambda: COMPARISONS[_COMPARISON_NODES[type(op)]](a, b))
            case ast.Call(func=func, args=args, keywords=keywords):
                name = _dotted(func)
                if name not in self.functions:
                    raise self.fail(func, f"`{name}` is not a function here{nearest(name, self.functions)}")
                values = [self.value(a) for a in args]
                named = {str(k.arg): self.value(k.value) for k in keywords}
                return self.guarded(node, lambda: self.functions[name](*values, **named))
        raise self.fail(node, "not allowed")

    def number(self, node: ast.expr, sign: str) -> Any:
        value = self.value(node)
        if isinstance(value, (str, list, bool)):
            raise self.fail(node, f"`{sign}` needs numbers, not {value!r}")
        return value

    def guarded(self, node: ast.expr, compute: Callable[[], Any]) -> Any:
        try:
            result = compute()
        except ExpressionError:
            raise
        except (ArithmeticError, ValueError, TypeError) as error:
            raise self.fail(node, f"cannot be computed: {error}") from error
        if isinstance(result, float) and not math.isfinite(result):
            raise self.fail(node, "cannot be computed: the result is not a finite number")
        if isinstance(result, int) and result.bit_length() > MAX_BITS:
            raise self.fail(node, "cannot be computed: too large")
        if isinstance(result, str) and len(result) > MAX_LENGTH:
            raise self.fail(node, "cannot be computed: too long")
        return result


# --- templates --------------------------------------------------------------------------------------------------------

Value = int | float | bool | str
"""Types of a parameter's value."""


def whole(value: Value) -> Value:
    """A float without a fraction as an integer, because counts in scenarios are integers; other values unchanged."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return int(value)
    return value


def plain_text(value: Value) -> str:
    """A number in plain decimals: `40` for 40.0, `0.00001` for `1e-05`, without binary rounding."""
    value = whole(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format(Decimal(f"{value:.15g}"), "f")
    return str(value)


@dataclass(frozen=True)
class Template:
    """Text with expressions in braces."""

    text: str
    """The text as written."""
    parts: tuple[str | Expression, ...]
    """Plain text and expressions, alternating."""

    @classmethod
    @lru_cache(maxsize=4096)  # a sweep reads the same few for each of its points
    def read(cls, text: str) -> Template:
        """Splits text into plain text and expressions.

        Raises:
            ExpressionError: a brace is not closed, or an expression is wrong.
        """
        parts: list[str | Expression] = []
        plain = ""
        at = 0
        while at < len(text):
            here = text[at]
            if text[at : at + 2] in ("{{", "}}"):
                plain += here
                at += 2
            elif here == "}":
                raise ExpressionError(text, at, "a `}` without a `{`: write }} for a plain brace")
            elif here == "{":
                end = _closing(text, at)
                if plain:
                    parts.append(plain)
                    plain = ""
                if not text[at + 1 : end].strip():
                    raise ExpressionError(
                        text, at, "an expression is missing between the braces: write {{ for a plain brace"
                    )
                parts.append(parse(text[at + 1 : end]))
                at = end + 1
            else:
                plain += here
                at += 1
        if plain:
            parts.append(plain)
        return cls(text, tuple(parts))

    @property
    def names(self) -> frozenset[str]:
        """The names that its expressions use."""
        return frozenset().union(*(part.names for part in self.parts if isinstance(part, Expression)))

    def fill(self, names: Mapping[str, Value], text_of: Callable[[Value], str] | None = None) -> Value:
        """Replaces every expression by its value.

        A template of exactly one expression gives its value, unless `text_of` converts values to text.

        Raises:
            ExpressionError: an expression cannot be computed.
        """
        if text_of is None and len(self.parts) == 1 and isinstance(self.parts[0], Expression):
            return whole(self._value(self.parts[0], names))
        write = text_of or plain_text
        return "".join(part if isinstance(part, str) else write(self._value(part, names)) for part in self.parts)

    def _value(self, part: Expression, names: Mapping[str, Value]) -> Value:
        value = part.evaluate(names)
        if not isinstance(value, (int, float, bool, str)):
            raise ExpressionError(part.text, 0, f"gives {value!r}: must give a number or text")
        return value


def _closing(text: str, opening: int) -> int:
    quote = ""
    for at in range(opening + 1, len(text)):
        if quote:
            quote = "" if text[at] == quote else quote
        elif text[at] in "'\"":
            quote = text[at]
        elif text[at] == "}":
            return at
        elif text[at] == "{":
            raise ExpressionError(text, at, "a `{` within an expression")
    raise ExpressionError(text, opening, "a `{` without a `}`: write {{ for a plain brace")


__all__ = [
    "COMPARISONS",
    "FUNCTIONS",
    "Expression",
    "ExpressionError",
    "Template",
    "Value",
    "nearest",
    "parse",
    "plain_text",
    "whole",
]
