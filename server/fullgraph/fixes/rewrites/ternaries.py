"""Rewrites of expressions that choose a value by tensor data: ``a if c else b``, ``a or b``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.branches import call_cond, choose_result
from fullgraph.fixes.rewrites.choices import NotConvertible, choice
from fullgraph.fixes.rewrites.conditions import (
    Both,
    Condition,
    Conditions,
    Either,
    OfTensor,
    argument,
    asked_by,
    operand,
)
from fullgraph.fixes.rewrites.names import code_of
from fullgraph.fixes.site import Site

_GIVES_UP = "Both sides are always computed, even where one of them is invalid."


def ternaries(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of the conditional expression whose condition broke the graph."""
    node = asked_by(site)
    if isinstance(node, cst.IfExp):
        yield from _enclosing_ternary(site, node)
    elif node is None:
        yield from _operators(site)


def _enclosing_ternary(site: Site, node: cst.IfExp) -> Iterator[Candidate]:
    condition = Conditions(site).read(node.test)
    try:
        code = _choose_value(condition, node.body, node.orelse)
    except NotConvertible:
        return
    new = cst.parse_expression(code).with_changes(lpar=node.lpar, rpar=node.rpar)
    yield choose_result(
        "Compute both values and choose with `torch.where`",
        site.replaced([(node, new)], imports=["torch"]),
        _GIVES_UP,
    )
    if isinstance(condition, OfTensor):
        sides = ", ".join(f"lambda: {_own_tensor(side)}" for side in (node.body, node.orelse))
        called = f"torch.cond({argument(condition.code)}, {sides}, ())"
        new = cst.parse_expression(called)
        yield call_cond(site.replaced([(node, new)], imports=["torch"]))


def _own_tensor(node: cst.BaseExpression) -> str:
    """Return code for a tensor with the value of an expression that does not share memory with
    variables.
    """
    whole = isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))
    return f"{code_of(node)}.clone()" if whole else code_of(node)


def _choose_value(
    condition: Condition, first: cst.BaseExpression, second: cst.BaseExpression
) -> str:
    if isinstance(condition, OfTensor):
        chosen = choice(condition.code, code_of(first), code_of(second))
        return f"({chosen})" if isinstance(first, cst.Tuple) else chosen
    if isinstance(condition, (Both, Either)):
        head, rest = condition.parts[0], condition.parts[1:]
        after: Condition = rest[0] if len(rest) == 1 else type(condition)(rest)
        if isinstance(head, OfTensor):
            head, after = after, head
        inner = cst.parse_expression(_choose_value(after, first, second))
        if isinstance(condition, Both):
            return _choose_value(head, inner, second)
        return _choose_value(head, first, inner)
    return f"({code_of(first)} if {condition.code} else {code_of(second)})"


def _operators(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of ``a or b``, ``a and b`` and ``not a`` on tensors as tensor operations.

    They apply to expressions used as values. Conditions have other rewrites.
    """
    node = site.expression
    conditions = Conditions(site)
    if isinstance(node, cst.BooleanOperation):
        left, right = code_of(node.left), code_of(node.right)
        test = conditions.tensor(node.left)
        sides = (left, right) if isinstance(node.operator, cst.Or) else (right, left)
        codes = [f"torch.where({test}, {sides[0]}, {sides[1]})", conditions.tensor(node)]
    elif _is_not(node) or (isinstance(node, cst.Comparison) and len(node.comparisons) > 1):
        codes = [conditions.tensor(node)]
    else:
        return
    for code in codes:
        new = cst.parse_expression(operand(code) if node.lpar else code)
        yield Candidate(
            "tensor-operators",
            "Use tensor operators",
            site.replaced([(node, new)], imports=["torch"]),
            gives_up="The value is a tensor, and both sides are always computed.",
        )


def _is_not(node: cst.BaseExpression | None) -> TypeGuard[cst.UnaryOperation]:
    return isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)
