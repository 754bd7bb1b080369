"""Rewrites of functions whose early ``return`` depends on tensor data.

All results are computed, and one is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from fullgraph.fixes.rewrites.choices import NotConvertible, choice
from fullgraph.fixes.rewrites.conditions import Both, OfTensor, Plain, argument
from fullgraph.fixes.rewrites.if_conversion import (
    Converter,
    Statement,
    block,
    other_side,
    statements_of,
)
from fullgraph.fixes.rewrites.names import code_of, names_bound, names_read, rename_variables, walk

_LARGE = 3


def convert_returns(converter: Converter, statements: Sequence[Statement]) -> list[Statement]:
    """Return statements that compute the values of all ``return`` statements and return one of
    them.

    ``statements`` are the code to replace.

    Raises:
        NotConvertible: The values of the ``return`` statements are neither tensors nor containers
            of the same form.
    """
    items, value = _returned_value(converter, list(statements), first=True)
    return [*items, converter.statement(f"return {value}")]


def _returned_value(
    converter: Converter, statements: list[Statement], *, first: bool = False
) -> tuple[list[Statement], str]:
    """Return the statements before the first ``return``, and the code of the value to return.

    ``first`` is true if ``statements`` begin with the ``if`` that broke the graph.
    """
    before: list[Statement] = []
    for index, statement in enumerate(statements):
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(small, cst.Return):
            if small.value is None:
                raise NotConvertible("returns nothing")
            return before, code_of(small.value)
        leaves = any(isinstance(one, cst.Return) for one in walk(statement))
        if not leaves:
            before.append(statement)
            continue
        asks = isinstance(statement, cst.If) and (
            (first and index == 0) or converter.conditions.asks(statement.test)
        )
        if not isinstance(statement, cst.If) or not asks:
            raise NotConvertible("returns from within")
        items, value = _choose_returns(converter, statement, statements[index + 1 :])
        return [*before, *items], value
    raise NotConvertible("does not return")


def _choose_returns(
    converter: Converter, node: cst.If, after: list[Statement]
) -> tuple[list[Statement], str]:
    condition = converter.conditions.read(node.test)
    rest = [*other_side(node), *after]
    if isinstance(condition, Both) and len(condition.parts) == 2:
        return _guard_rest(converter, node, condition, rest)
    if not isinstance(condition, OfTensor):
        raise NotConvertible("several conditions")
    then = statements_of(node.body)
    taken, then_value = _returned_value(converter, then)
    others, other_value = _returned_value(converter, rest)
    # The code of one side must not change variables that the other side reads.
    read = {*names_read(*others), *names_read(cst.parse_expression(f"({other_value})"))}
    clashes = [name for name in names_bound(*taken) if name in read]
    changed, names = converter.side(taken, clashes) if clashes else (taken, {})
    then_value = code_of(rename_variables(cst.parse_expression(f"({then_value})"), names))[1:-1]
    code = condition.code
    first: list[Statement] = []
    if changed or others:
        name = converter.fresh("condition")
        first = [converter.statement(f"{name} = {argument(code)}")]
        code = name
    return [*first, *changed, *others], choice(code, then_value, other_value)


def _guard_rest(
    converter: Converter, node: cst.If, condition: Both, rest: list[Statement]
) -> tuple[list[Statement], str]:
    plain = [part for part in condition.parts if isinstance(part, Plain)]
    tensors = [part for part in condition.parts if isinstance(part, OfTensor)]
    if len(plain) != 1 or len(tensors) != 1 or len(rest) > _LARGE:
        raise NotConvertible("several conditions")
    others, other_value = _returned_value(converter, rest)
    inner = node.with_changes(test=cst.parse_expression(tensors[0].code), leading_lines=[])
    items, value = _returned_value(converter, [inner, *rest], first=True)
    result = converter.statement(f"return {value}")
    guard = cst.If(test=cst.parse_expression(plain[0].code), body=block([*items, result]))
    return [guard, *others], other_value
