"""Conditions in the code of a file, and the values that they depend on.

They only serve to choose the next execution path to trace. Findings come from Dynamo's trace of the
path.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from ..protocol import Range, node_range
from ..targets.source import PerStatement

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda]
Number = Union[bool, int, float]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)

# Values to try for a number: a value above most limits in programs, and a small number of loop
# iterations.
LARGE, _MANY = 1e3, 3


@dataclass(frozen=True)
class ConditionSide:
    """One side of a condition: the code that runs if the condition has the value ``truth``.

    ``begins`` is the range of its first statement (only the first line of a compound statement) or
    of the chosen expression; None if unknown. ``block`` is the range of all its code.
    """

    test: Range
    truth: bool
    begins: Range | None
    block: Range | None
    loop: bool = False
    """True if the condition is whether a ``for`` loop has any items."""
    expression: ast.expr = field(compare=False, repr=False, default=ast.Constant(None))


@dataclass
class _Code:
    """One function of the file, without its nested functions, and how values flow between its
    names."""

    node: Function | ast.Module
    sides: list[ConditionSide] = field(default_factory=list)
    flows: list[tuple[ast.expr, frozenset[str]]] = field(default_factory=list)
    """Expressions of the function, each with the names of the variables and attributes to which its
    value is assigned."""


class FileConditions:
    """All conditions of one file, and the values that each depends on; empty if its text does not
    parse."""

    def __init__(self, tree: ast.Module | None) -> None:
        self._codes: list[_Code] = []
        self._expression_ranges = PerStatement(tree, _expression_ranges)
        """Source ranges of all expressions in the file."""
        if tree is not None:
            self._read_conditions(_Code(tree), tree.body)
        self._dependent: dict[object, frozenset[int]] = {}

    @property
    def sides(self) -> Iterator[ConditionSide]:
        for code in self._codes:
            yield from code.sides

    def on_value(self, asked: Range) -> list[ConditionSide]:
        """Return both sides (the code that runs if it is true, or false) of each condition that
        depends on a value read at ``asked``.

        ``asked`` is the source range at which the code reads the value of a tensor, as by
        ``item()``.
        """
        # A source range without columns covers a whole statement.
        exact = asked in self._expression_ranges.part_at(asked.start.line)

        def asks(_code: _Code, node: ast.AST) -> bool:
            if not isinstance(node, ast.expr):
                return False
            return node_range(node) == asked if exact else is_within(node_range(node), asked)

        return self._sides_depending_on(asked, asks)

    def on_parameter(self, name: str) -> list[ConditionSide]:
        """Return both sides (the code that runs if it is true, or false) of each condition that
        depends on a parameter with this name."""
        return self._sides_depending_on(
            name,
            lambda code, node: (
                isinstance(node, ast.Name)
                and node.id == name
                and name in _parameter_names(code.node)
            ),
        )

    # -- what depends on what -----------------------------------------------------------------

    def _sides_depending_on(self, key: object, is_origin: Any) -> list[ConditionSide]:
        known = self._dependent.get(key)
        if known is None:
            known = self._dependent[key] = self._dependent_expressions(is_origin)
        return [side for side in self.sides if id(side) in known]

    def _dependent_expressions(self, is_origin: Any) -> frozenset[int]:
        """Return the ``id`` of each expression node that depends on an origin, directly or through
        assignments.

        ``is_origin`` decides which nodes are origins. Assignments are followed in any order of
        statements, for attributes and functions across the whole file.
        """
        local: set[tuple[int, str]] = set()
        everywhere: set[str] = set()

        def depends(code: _Code, expression: ast.expr) -> bool:
            return any(
                is_origin(code, node) or (id(code), name) in local or name in everywhere
                for node in ast.walk(expression)
                for name in (_flow_name(node),)
            )

        while True:
            before = len(local) + len(everywhere)
            for code in self._codes:
                for expression, names in code.flows:
                    if depends(code, expression):
                        everywhere |= {name for name in names if "." in name or "(" in name}
                        local |= {(id(code), name) for name in names}
            if len(local) + len(everywhere) == before:
                break
        return frozenset(
            id(side)
            for code in self._codes
            for side in code.sides
            if depends(code, side.expression)
        )

    # -- reading the syntax tree ------------------------------------------------------------------

    def _read_conditions(self, code: _Code, body: Sequence[ast.stmt]) -> None:
        self._codes.append(code)
        self._read_block(code, body)

    def _read_block(self, code: _Code, block: Sequence[ast.stmt]) -> None:
        for at, statement in enumerate(block):
            self._read_statement(code, statement, block[at + 1 :])

    def _read_statement(self, code: _Code, node: ast.stmt, rest: Sequence[ast.stmt]) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._read_conditions(_Code(node), node.body)
            return
        if isinstance(node, ast.ClassDef):
            self._read_block(code, node.body)
            return
        if isinstance(node, ast.If):
            code.sides += _branch_sides(
                node.test, node.body, node.orelse or skipped_statements(node.body, rest)
            )
        elif isinstance(node, ast.While):
            code.sides += _branch_sides(node.test, node.body, node.orelse or rest)
        elif isinstance(node, ast.Assert):
            code.sides += _branch_sides(node.test, rest, ())
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            code.sides += _branch_sides(node.iter, node.body, (), loop=True)
        code.flows += _assigned_flows(code, node)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._read_expression(code, child)
        for inner in statement_blocks(node):
            self._read_block(code, inner)

    def _read_expression(self, code: _Code, expression: ast.expr) -> None:
        for node in ast.walk(expression):
            if isinstance(node, ast.IfExp):
                code.sides += _choice_sides(node.test, (True, node.body), (False, node.orelse))
            elif isinstance(node, ast.BoolOp):
                goes_on = isinstance(node.op, ast.And)
                for operand, following in zip(node.values, node.values[1:], strict=False):
                    code.sides += _choice_sides(operand, (goes_on, following))
            elif isinstance(node, ast.comprehension):
                for test in node.ifs:
                    code.sides.append(_make_side(test, True, None, None))
            elif isinstance(node, ast.NamedExpr):
                code.flows.append((node.value, frozenset({node.target.id})))


def _expression_ranges(part: ast.Module) -> frozenset[Range]:
    return frozenset(node_range(node) for node in ast.walk(part) if isinstance(node, ast.expr))


def candidate_answers(side: ConditionSide, asked: Range, given: Number) -> Iterator[Number]:
    """Yield numbers to use instead of a tensor's value so that the code takes this side of a
    condition, most likely first.

    The code reads the value at the range ``asked``; ``given`` is the value that it received before.
    """
    if isinstance(given, bool):
        yield not given
        return
    whole = isinstance(given, int)
    constant, operator = _compared_number(side.expression, asked)
    if constant is not None:
        below, above = constant - 1, constant + 1
        wanted = {
            ast.Gt: (above, below),
            ast.GtE: (above, below),
            ast.Lt: (below, above),
            ast.LtE: (below, above),
            ast.Eq: (constant, above),
            ast.NotEq: (above, constant),
        }[operator][not side.truth]
        yield int(wanted) if whole else float(wanted)
        return
    if side.loop or whole:
        yield from (number for number in (_MANY, 0, -1) if number != given)
        return
    yield from (LARGE, -LARGE, 0.0)


_TURNED = {ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Lt: ast.Gt, ast.LtE: ast.GtE}


def _compared_number(test: ast.expr, asked: Range) -> tuple[float | None, type[ast.cmpop]]:
    """Return the number and the operator with which the condition ``test`` compares the value read
    at ``asked``. The number is None if unknown.
    """
    nothing = None, ast.Eq
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return nothing
    left, (right,), operator = test.left, test.comparators, type(test.ops[0])
    if operator not in (*_TURNED, ast.Eq, ast.NotEq):
        return nothing
    number = _literal_number(right)
    if number is None:
        left, number, operator = right, _literal_number(left), _TURNED.get(operator, operator)
    simple = isinstance(left, (ast.Name, ast.Attribute)) or is_within(asked, node_range(left))
    # The expression around the requested value is unknown.
    return (number, operator) if simple and not isinstance(left, ast.BinOp) else nothing


def _literal_number(node: ast.expr) -> float | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return value if type(value) in (int, float) else None


def _branch_sides(
    test: ast.expr, taken: Sequence[ast.stmt], other: Sequence[ast.stmt], *, loop: bool = False
) -> Iterator[ConditionSide]:
    for truth, block in ((True, taken), (False, other)):
        begins = _first_effective_range(block)
        # Code that ends with ``raise`` is not reported.
        if begins is not None and not isinstance(block[-1], ast.Raise):
            yield _make_side(test, truth, begins, block_range(block), loop=loop)


def _choice_sides(test: ast.expr, *choices: tuple[bool, ast.expr]) -> Iterator[ConditionSide]:
    """Yield the sides of a conditional expression such as ``a if test else b``, provided that they
    call something.

    Sides without calls are left out, because Dynamo traces operators without trouble.
    """
    for truth, chosen in choices:
        if any(isinstance(node, ast.Call) for node in ast.walk(chosen)):
            yield _make_side(test, truth, node_range(chosen), node_range(chosen))


def _make_side(
    test: ast.expr,
    truth: bool,
    begins: Range | None,
    block: Range | None,
    *,
    loop: bool = False,
) -> ConditionSide:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _make_side(test.operand, not truth, begins, block, loop=loop)
    return ConditionSide(node_range(test), truth, begins, block, loop, test)


def _first_effective_range(block: Sequence[ast.stmt]) -> Range | None:
    """Return the range of the first statement of a block that has an effect; for a compound
    statement, of its first line.

    None if no statement has an effect.
    """
    for node in block:
        if isinstance(node, (ast.Pass, ast.Global, ast.Nonlocal)):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        whole, body = node_range(node), getattr(node, "body", None)
        return Range(whole.start, node_range(body[0]).start) if isinstance(body, list) else whole
    return None


def skipped_statements(body: Sequence[ast.stmt], rest: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Return the statements in ``rest`` that do not run if an ``if`` before them runs ``body``,
    because the body returns, breaks or raises."""
    return rest if isinstance(body[-1], _LEAVES) else ()


def block_range(statements: Sequence[ast.stmt]) -> Range | None:
    """Return the range from the first to the last of some statements; None for an empty list."""
    if not statements:
        return None
    return Range(node_range(statements[0]).start, node_range(statements[-1]).end)


def statement_blocks(node: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    """Yield the blocks of statements directly inside a compound statement or a module."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for inner in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield inner.body


def _assigned_flows(code: _Code, node: ast.stmt) -> Iterator[tuple[ast.expr, frozenset[str]]]:
    if isinstance(node, ast.Assign):
        yield node.value, _target_names(node.targets)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)) and node.value is not None:
        yield node.value, _target_names([node.target])
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield node.iter, _target_names([node.target])
    elif isinstance(node, ast.Return) and node.value is not None:
        name = getattr(code.node, "name", "")
        if name:
            yield node.value, frozenset({f"{name}()"})


def _target_names(targets: Iterable[ast.expr]) -> frozenset[str]:
    found: set[str] = set()
    for target in targets:
        if isinstance(target, (ast.Tuple, ast.List)):
            found |= _target_names(target.elts)
        elif isinstance(target, ast.Starred):
            found |= _target_names([target.value])
        else:
            found.add(_flow_name(target))
    return frozenset(found - {""})


def _flow_name(node: ast.AST) -> str:
    """Return a name for an expression through which values flow between statements; empty for other
    expressions.

    The name is ``x``, ``self.x``, or ``f()`` for a call of a function or method ``f``.
    """
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _flow_name(node.value)
        return f"{owner}.{node.attr}" if owner and not owner.endswith(")") else ""
    if isinstance(node, ast.Call):
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else _flow_name(called)
        return f"{name}()" if name and "." not in name else ""
    return ""


@functools.lru_cache(maxsize=256)
def _parameter_names(node: Function | ast.Module) -> frozenset[str]:
    if isinstance(node, ast.Module):
        return frozenset()
    given = node.args
    return frozenset(one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs))


def is_within(inner: Range, outer: Range) -> bool:
    """Whether the range ``inner`` is a part of ``outer``, or equal to it."""
    return outer.start <= inner.start and inner.end <= outer.end
