"""The statement at a line, and the statements around it in its function."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from functools import lru_cache

from ..reduce.syntax_index import blocks_of

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Layer:
    """A statement of a function and its one-based lines, from ``first`` to ``last``.

    ``head`` is the last line before the statement's body, such as the condition of an ``if``; for a
    simple statement it is ``last``. ``block`` is the list of statements that contains this
    statement.
    """

    node: ast.stmt
    first: int
    head: int
    last: int
    block: tuple[ast.stmt, ...] = ()

    def statements_from(self, before: int) -> tuple[ast.stmt, ...]:
        """Return the statements of the block, from ``before`` statements ahead of this one to the
        end.

        Return () if fewer statements are ahead of this one.
        """
        at = self.block.index(self.node) - before
        return self.block[at:] if at >= 0 else ()


@lru_cache(maxsize=32)
def parse_file(path: str) -> ast.Module | None:
    """Return the syntax tree of an executed file, or None if it cannot be read or parsed."""
    text = "".join(linecache.getlines(path))
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def function_around(path: str, name: str, line: int) -> Definition | None:
    """Return the innermost function named ``name`` that contains a one-based line, or None."""
    tree = parse_file(path)
    found: Definition | None = None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name == name and _first_line(node) <= line <= _last_line(node):
                found = node  # ast.walk visits outer nodes first
        elif (
            isinstance(node, ast.Lambda)
            and name == "<lambda>"
            and node.lineno <= line <= (node.end_lineno or node.lineno)
        ):
            found = node
    return found


def layers_around(function: Definition, line: int) -> tuple[Layer, ...]:
    """Return the statements around a one-based line, innermost first."""
    if isinstance(function, ast.Lambda):
        return ()
    found: list[Layer] = []
    block = function.body
    while True:
        node = next((each for each in block if _first_line(each) <= line <= _last_line(each)), None)
        if node is None:
            return tuple(found)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.insert(
                0, Layer(node, _first_line(node), _last_line(node), _last_line(node), tuple(block))
            )
            return tuple(found)
        found.insert(0, Layer(node, *beginning_lines(node), _last_line(node), tuple(block)))
        block = _inner_statements(node)


def beginning_lines(node: ast.stmt) -> tuple[int, int]:
    """Return the first and last line of a statement without its body, such as the condition of an
    ``if``.
    """
    head = min(map(_first_line, _inner_statements(node)), default=_last_line(node) + 1) - 1
    return _first_line(node), max(head, node.lineno)


def _inner_statements(node: ast.stmt) -> list[ast.stmt]:
    return [each for block in blocks_of(node) for each in block]


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(int(each.lineno) for each in decorators)])


def _last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
