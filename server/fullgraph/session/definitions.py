"""Functions, methods and classes of a text, to find the ones that no trace reached."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Union

from fullgraph.domain.file_summary import Gap
from fullgraph.incremental.statements import parse_quietly

LONGEST = 150_000
"""Maximum length in characters of a text whose definitions are listed."""

_LONGEST_HEAD = 20_000
"""Maximum number of characters, at the beginning of a text, to search for a comment that excludes
the file."""

_OFF = re.compile(r"#\s*fullgraph:[ \t]*off\b")
_Node = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Definition:
    """A function, method or class of a file, on the zero-based lines from ``first`` to ``last``.

    ``gap`` is the reason to show for the definition if no trace reached its lines.
    """

    name: str
    line: int
    first: int
    last: int
    gap: Gap

    @property
    def lines(self) -> range:
        return range(self.first, self.last + 1)


@functools.lru_cache(maxsize=8)
def list_definitions(text: str) -> tuple[Definition, ...]:
    """Return the functions and methods of a text, and its classes that inherit ``forward``.

    Definitions with the comment ``# fullgraph: off``, ``forward`` itself, special methods except
    ``__call__``, and methods that ``__init__`` calls are left out. The result is empty if the text
    has a syntax error or is too long.
    """
    if len(text) > LONGEST:
        return ()
    try:
        tree = parse_quietly(text)
    except SyntaxError:
        return ()
    return tuple(_Lister(text, tree).list())


def is_switched_off(text: str) -> bool:
    """Whether a comment above the first statement excludes the whole file."""
    for line in text[:_LONGEST_HEAD].split("\n"):
        if line.strip() and not line.lstrip().startswith("#"):
            return False
        if _OFF.search(line):
            return True
    return False


class _Lister:
    def __init__(self, text: str, tree: ast.Module) -> None:
        self._lines = text.split("\n")
        self._nodes = list(_module_level(tree.body))
        self._classes = {node.name: node for node in self._nodes if isinstance(node, ast.ClassDef)}
        self._packages = dict(_imported_packages(tree.body))

    def list(self) -> Iterator[Definition]:
        for node in self._nodes:
            if self._is_off(node):
                continue
            if isinstance(node, _FUNCTIONS):
                yield self._definition(node, node.name, Gap.FUNCTION)
                continue
            if self._inherits_forward(node):
                yield self._definition(node, node.name, Gap.INHERITED)
            constructing = _constructing_methods(node)
            for method in node.body:
                if not isinstance(method, _FUNCTIONS) or method.name in constructing:
                    continue
                if self._is_listed_method(method):
                    yield self._definition(method, f"{node.name}.{method.name}", Gap.METHOD)

    def _definition(self, node: _Node, name: str, gap: Gap) -> Definition:
        first = node.body[0].lineno - 1
        return Definition(name, node.lineno - 1, first, (node.end_lineno or node.lineno) - 1, gap)

    def _is_listed_method(self, method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        special = method.name.startswith("__") and method.name != "__call__"
        return not (special or method.name == "forward" or self._is_off(method))

    def _is_off(self, node: _Node) -> bool:
        if _OFF.search(self._lines[node.lineno - 1]):
            return True
        above = min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 2
        while above >= 0 and self._lines[above].lstrip().startswith("#"):
            if _OFF.search(self._lines[above]):
                return True
            above -= 1
        return False

    def _inherits_forward(self, node: ast.ClassDef, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a class may inherit ``forward`` from a base class of the file, or of a package
        other than torch."""
        if any(isinstance(one, _FUNCTIONS) and one.name == "forward" for one in node.body):
            return bool(seen)
        for base in node.bases:
            root = _root_name(base)
            known = self._classes.get(root)
            if known is not None and isinstance(base, ast.Name):
                if root not in seen and self._inherits_forward(known, seen | {node.name, root}):
                    return True
            elif self._packages.get(root, "torch") != "torch":
                return True
        return False


def _constructing_methods(node: ast.ClassDef) -> frozenset[str]:
    """Return the names that ``__init__`` of a class uses as ``self.name``, directly or in the
    methods with these names: helpers that fill the object and are not part of a call."""
    methods = {one.name: one for one in node.body if isinstance(one, _FUNCTIONS)}
    left, seen = ["__init__"], set[str]()
    while left:
        method = methods.get(left.pop())
        for one in ast.walk(method) if method is not None else ():
            if (
                isinstance(one, ast.Attribute)
                and isinstance(one.value, ast.Name)
                and one.value.id == "self"
                and one.attr not in seen
            ):
                seen.add(one.attr)
                left.append(one.attr)
    return frozenset(seen)


def _module_level(body: Iterable[ast.stmt]) -> Iterator[_Node]:
    for node in body:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield node
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _module_level(node.body)
            yield from _module_level(getattr(node, "orelse", ()))


def _imported_packages(body: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield (imported name, top-level package) for each import of a package outside of the standard
    library.
    """
    for node in body:
        if isinstance(node, ast.Import):
            found = [(one.asname or one.name.partition(".")[0], one.name) for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [(one.asname or one.name, node.module or ".") for one in node.names]
        else:
            continue
        for name, module in found:
            package = module.partition(".")[0]
            if package not in sys.stdlib_module_names:
                yield name, package


def _root_name(expression: ast.expr) -> str:
    """Return the first name of a base class such as ``models.Net`` or ``Base[int]``."""
    while isinstance(expression, (ast.Attribute, ast.Subscript, ast.Call)):
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    return expression.id if isinstance(expression, ast.Name) else ""
