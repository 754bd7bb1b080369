"""Kinds of values (tensor, integer and others) that a trace saw at expressions and local variables
of the edited file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..protocol import Position, Range, SeenValue
from ..targets.source import Function
from ..tracing.recording import Local, Receiver, Recording
from .places import SourceText

_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_LAMBDA = "<lambda>"


def seen_values(recording: Recording, source: SourceText) -> tuple[SeenValue, ...]:
    """Return the expressions and local variables that a trace saw, in text order.

    An expression that had values of several kinds (such as tensor and integer) is returned once for
    each kind.
    """
    functions = _Functions(source) if source.tree is not None else None
    found: set[SeenValue] = set()
    for item in recording.seen:
        if isinstance(item, Receiver):
            range_ = source.receiver(item.attribute, Position(item.line, item.byte))
            if range_ is not None:
                found.add(SeenValue(range_, item.kind))
        elif functions is not None and (value := functions.value(item)) is not None:
            found.add(value)
    return tuple(sorted(found, key=_sort_key))


def _sort_key(value: SeenValue) -> tuple[int, int, int, int, str, str]:
    start, end = value.range.start, value.range.end
    return start.line, start.byte, end.line, end.byte, value.name, value.kind


@dataclass(frozen=True)
class _Function:
    name: str
    qualified: str
    first: int
    last: int
    where: Range
    """Source range of the function's name."""


class _Functions:
    """An index of the functions in a file's text, which finds the function at a line."""

    def __init__(self, source: SourceText) -> None:
        tree = source.tree or ast.Module([], [])
        self._known = [
            _Function(
                node.name,
                qualified,
                min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1,
                (node.end_lineno or node.lineno) - 1,
                source.name_of(node),
            )
            for node, qualified in _nested_definitions(tree.body, "")
        ]
        self._found: dict[tuple[str, int], tuple[_Function, str] | None] = {}

    def value(self, local: Local) -> SeenValue | None:
        if local.name.startswith((".", "__")):
            # The name belongs to a comprehension, or to a local that Dynamo made to resume a
            # function.
            return None
        key = local.function, local.line
        if key not in self._found:
            self._found[key] = self._find_function(*key)
        found = self._found[key]
        if found is None:
            return None
        function, qualified = found
        return SeenValue(function.where, local.kind, local.name, qualified)

    def _find_function(self, name: str, line: int) -> tuple[_Function, str] | None:
        """Return the innermost function with this name that contains a line, and its qualified
        name. None if no function fits.

        Code that continues a function after a graph break can begin anywhere in the function.
        """
        anonymous = name == _LAMBDA or name in _COMPREHENSIONS
        around = [
            function
            for function in self._known
            if function.first <= line <= function.last and (anonymous or function.name == name)
        ]
        if not around:
            return None
        function = max(around, key=lambda function: function.first)
        if name == _LAMBDA:
            return function, f"{function.qualified}.<locals>.{_LAMBDA}"
        # Since Python 3.12 most comprehensions belong to the function that contains them.
        return function, function.qualified


def _nested_definitions(body: Iterable[ast.AST], prefix: str) -> Iterator[tuple[Function, str]]:
    """Yield every function defined in the statements ``body``, at any depth, with its
    ``__qualname__``."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if isinstance(node, ast.FunctionDef):  # Dynamo does not trace coroutines
                yield node, prefix + node.name
            yield from _nested_definitions(node.body, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            yield from _nested_definitions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _nested_definitions(ast.iter_child_nodes(node), prefix)
