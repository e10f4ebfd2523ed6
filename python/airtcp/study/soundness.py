"""Finds unsound checks: halves of one check, and comparisons of a variant with itself.

Two halves, `x >= 10` and `x <= 15`, can never both be settled against, so that a finding made of them is never "not".
Written as one, `between(x, 10, 15)`, they can. Both sides of a comparison may be the same runs under two names: then
the finding is an identity, true for any results.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from airtcp import expressions
from airtcp.expressions import Value
from airtcp.study.files import Finding
from airtcp.study.findings import each_check, environment
from airtcp.study.samples import CheckError, Data, MeasureFunction, functions

_UPPER: Final = {ast.Lt: True, ast.LtE: True, ast.Gt: False, ast.GtE: False}


def examine(finding: Finding, data: Data) -> None:
    """Examines the checks of a finding before any run.

    Raises:
        CheckError: two of them are halves of one, or one compares runs with themselves and the finding is no identity.
    """
    _refuse_halves(finding.checks)
    if finding.kind == "identity":
        return
    for text, case in each_check(finding):
        if _is_with_itself(text, case, data):
            named = ", ".join(f"{name} = {value!r}" for name, value in case.items())
            raise CheckError(
                f"`{text}`{f' for {named}' if named else ''}: both sides are the same runs: compare other runs, or "
                'give the finding kind = "identity"'
            )


def _tree(text: str) -> ast.expr:
    return ast.parse(" ".join(text.strip().splitlines()), mode="eval").body


def _measured(node: ast.AST) -> Iterator[ast.Call]:
    """Calls of measures, outermost first; a measure that `crossing` is given stands for itself."""
    known = {*functions(), "about"}
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        if name not in known or name == "crossing":
            yield node
            return
    for child in ast.iter_child_nodes(node):
        yield from _measured(child)


# --- halves -----------------------------------------------------------------------------------------------------------


def _refuse_halves(checks: Sequence[str]) -> None:
    seen: dict[tuple[str, bool], list[tuple[ast.expr, str]]] = {}
    for text in checks:
        for key, is_upper, bound in _bounded(_tree(text)):
            for other, before in seen.get((key, not is_upper), ()):
                if _names_of(other) != _names_of(bound) or before == text:
                    continue  # an order of three variants: two claims
                low, high = (ast.unparse(one) for one in ((other, bound) if is_upper else (bound, other)))
                raise CheckError(
                    f"`{before}` and `{text}` are halves of one check, so they cannot both be settled against: write "
                    f"`between({key}, {low}, {high})`"
                )
            seen.setdefault((key, is_upper), []).append((bound, text))


def _bounded(node: ast.expr) -> Iterator[tuple[str, bool, ast.expr]]:
    """The expression that a comparison bounds, whether from above, and the bound."""
    if not isinstance(node, ast.Compare) or type(node.ops[0]) not in _UPPER:
        return
    is_upper = _UPPER[type(node.ops[0])]
    left, right = node.left, node.comparators[0]
    for side, other, above in ((left, right, is_upper), (right, left, not is_upper)):
        if any(True for _ in _measured(side)):
            # The least of several above a bound and the greatest below another: each of them lies between.
            inner = _inner(side, "max" if above else "min")
            yield ast.unparse(inner), above, other


def _inner(node: ast.expr, function: str) -> ast.expr:
    """`x` of `max(x)`, if that is the function; else the node itself."""
    is_it = isinstance(node, ast.Call) and ast.unparse(node.func) == function and len(node.args) == 1
    return node.args[0] if is_it and isinstance(node, ast.Call) else node


def _names_of(node: ast.expr) -> frozenset[str]:
    return frozenset(ast.unparse(call) for call in _measured(node))


# --- a variant with itself ----------------------------------------------------------------------------------------


def _is_with_itself(text: str, case: Mapping[str, Value], data: Data) -> bool:
    node = _tree(text)
    if isinstance(node, ast.Compare):
        sides = [node.left, node.comparators[0]]
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "about":
        sides = node.args[:2]
    else:
        return False
    left, right = (ast.dump(_RunNames(case, data).visit(_without_factor(side))) for side in sides)
    return left == right


def _without_factor(node: ast.expr) -> ast.expr:
    """`x` of `1.1 * x` and of `x / 2`, because comparing a value with its own multiple shows nothing."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        if isinstance(node.right, ast.Constant):
            node = node.left
        elif isinstance(node.left, ast.Constant) and isinstance(node.op, ast.Mult):
            node = node.right
        else:
            break
    return node


class _RunNames(ast.NodeTransformer):
    """Replaces variants and parameters by the runs they stand for, so that two names of one run read alike."""

    def __init__(self, case: Mapping[str, Value], data: Data) -> None:
        self.case: Final = case
        self.data: Final = data
        self.names, self.calls = environment(case, data)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self.case[node.id]) if node.id in self.case else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        series = self.calls.get(ast.unparse(node.func))
        if not isinstance(series, MeasureFunction):
            return self.generic_visit(node)
        arguments = [self._value(argument) for argument in node.args]
        coordinates = {str(k.arg): self._value(k.value) for k in node.keywords}
        points = [self.data.alike[i] if self.data.alike else i for i in series.place(arguments, coordinates).points]
        own = {name: repr(value) for name, value in coordinates.items() if name not in self.data.parameters}
        return ast.Constant(f"{series.name} of {points} {sorted(own.items())}")

    def _value(self, node: ast.expr) -> object:
        return (
            expressions.parse(ast.unparse(node)).evaluate(self.names, self.calls)
            if not isinstance(node, ast.List)
            else [self._value(item) for item in node.elts]
        )
