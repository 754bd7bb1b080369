"""Globals that the functions of a file change, found without executing the file.

A function changes a global by assigning its name, one of its attributes or one of its items. A
Dynamo guard on such a value fails as soon as a function assigns a different value. Values that only
module-level code sets count as constants.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

from ..scopes import BINDING_NODES, names_bound_by, parameters

Path = tuple[str | None, ...]
"""A global's name followed by attributes and keys: ``("CONFIG", "a")`` for ``CONFIG["a"]``. None as
a key matches any key."""

_STEP = re.compile(r"\.__dict__(?=\[)|\.(?P<attribute>\w+)|\['(?P<key>[^']*)'\]|\[(?P<index>\d+)\]")
_CHANGE_ALL = frozenset(
    ("append", "clear", "extend", "insert", "popitem", "remove", "reverse", "sort")
)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ASSIGNING = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


class Assignments:
    """The globals that functions of a file assign, found in its text without executing it."""

    def __init__(self, tree: ast.Module | None) -> None:
        self._tree = tree

    @cached_property
    def _globals(self) -> set[Path]:
        found: set[Path] = set()
        if self._tree is not None:
            _AssignmentReader(self._tree, found)
        return found

    def counts(self, source: str) -> bool:
        """Whether a function adds to a value, or subtracts from it, by ``+=`` or ``-=`` outside of
        any condition.

        ``source`` is Dynamo's name for the value, such as ``G['steps']``.
        """
        return source[:2] in ("L[", "G[") and _source_path(source[1:]) in self._counted

    @cached_property
    def _counted(self) -> frozenset[Path]:
        body = self._tree.body if self._tree is not None else []
        return frozenset(
            path
            for statement in _unconditional(body)
            if isinstance(statement, ast.AugAssign) and isinstance(statement.op, (ast.Add, ast.Sub))
            for path in _expression_paths(statement.target)
        )

    def changes_global(self, source: str, *, exactly: bool = False) -> bool:
        """Whether a function of the file assigns a global, or an object that contains it.

        ``source`` is Dynamo's name for the value, such as ``G['CONFIG']['a']``. With ``exactly``,
        assignments to keys computed at run time do not count.
        """
        if not source.startswith("G["):
            return False
        path = _source_path(source[1:])
        return any(
            len(known) <= len(path)
            and all(
                one == other or (one is None and not exactly)
                for one, other in zip(known, path, strict=False)
            )
            for known in self._globals
        )


def _source_path(source: str) -> Path:
    """Return the path, such as ``("CONFIG", "a")``, with which ``source``, such as
    ``['CONFIG']['a'].x()``, begins.
    """
    path: list[str | None] = []
    at = 0
    while (match := _STEP.match(source, at)) is not None:
        at = match.end()
        path += [match[group] for group in ("attribute", "key", "index") if match[group]]
    return tuple(path)


class _AssignmentReader:
    def __init__(self, tree: ast.Module, found: set[Path]) -> None:
        self._found = found
        self._once = _called_once(tree)
        for function in _functions_in(tree.body):
            self._read_function(function, ())

    def _read_function(self, function: ast.AST, around: tuple[_FunctionScope, ...]) -> None:
        scope = _FunctionScope(function)
        scopes = (*around, scope)
        once = not around and getattr(function, "name", "") in self._once
        for node, in_loop in scope.nodes:
            if isinstance(node, _ASSIGNING) and (in_loop or not once):
                for path in _assigned_paths(node):
                    self._note_assignment(path, scope, scopes)
        for inner in scope.functions:
            self._read_function(inner, scopes)

    def _note_assignment(
        self, path: Path, scope: _FunctionScope, scopes: tuple[_FunctionScope, ...]
    ) -> None:
        name = path[0]
        if name in scope.globals or (
            len(path) > 1 and not any(name in each.bound for each in scopes)
        ):
            self._found.add(path)


class _FunctionScope:
    """The names that one function assigns, which of them are local or global, and its nested
    functions."""

    def __init__(self, function: ast.AST) -> None:
        self.globals: set[str] = set()
        self.functions: list[ast.AST] = []
        self.nodes = list(_own_nodes(function, False))
        bound: set[str] = set()
        if isinstance(function, _FUNCTIONS):
            bound.update(one.arg for one in parameters(function.args))
        for node, _ in self.nodes:
            if isinstance(node, BINDING_NODES):
                bound.update(names_bound_by(node))
            elif isinstance(node, ast.Global):
                self.globals.update(node.names)
            if isinstance(node, _FUNCTIONS):
                self.functions.append(node)
        self.bound = bound - self.globals


def _own_nodes(function: ast.AST, in_loop: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield pairs of a node of a function and whether a loop repeats the node. Nodes of nested
    functions are left out.

    ``in_loop``: the function itself is inside a loop.
    """
    body = getattr(function, "body", [])
    pending = [(node, in_loop) for node in reversed(body if isinstance(body, list) else [body])]
    while pending:
        node, repeated = pending.pop()
        yield node, repeated
        if not isinstance(node, _FUNCTIONS):
            repeated = repeated or isinstance(node, _LOOPS)
            pending += [(child, repeated) for child in ast.iter_child_nodes(node)]


def _functions_in(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in body:
        if isinstance(node, _FUNCTIONS):
            yield node
        else:
            yield from _functions_in(ast.iter_child_nodes(node))


def _unconditional(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, including those inside functions, classes and ``with`` blocks, but not
    those that a condition may skip."""
    for statement in body:
        yield statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.With)):
            yield from _unconditional(statement.body)


def _called_once(tree: ast.Module) -> frozenset[str]:
    """Return the names of functions that module-level code calls once.

    Their assignments count as module-level.
    """
    named = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    pending: list[ast.AST] = list(tree.body)
    called: set[str] = set()
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
        if not isinstance(node, (*_FUNCTIONS, *_LOOPS, ast.ClassDef)):
            pending += ast.iter_child_nodes(node)
    return frozenset(name for name in called if named[name] == 1)


def _assigned_paths(node: ast.AST) -> Iterator[Path]:
    """Yield the paths, such as ``("CONFIG", "a")``, of the values that a node assigns, deletes or
    mutates."""
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()):
            yield (node.id,)
        case (
            ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del())
        ):
            yield from _expression_paths(node)
        case ast.Call(func=ast.Name(id="setattr"), args=[owner, name, _]):
            for path in _expression_paths(owner):
                yield (*path, _constant_key(name))
        case ast.Call(func=ast.Attribute(value=owner, attr=method)):
            for path in _expression_paths(owner):
                yield from ((*path, key) for key in _changed_keys(node, method))


def _changed_keys(call: ast.Call, method: str) -> Iterator[str | None]:
    """Yield the keys that a call of the mutating method ``method``, such as ``update``, changes;
    None stands for any key."""
    match call.args:
        case _ if method in _CHANGE_ALL:
            yield None
        case [key, *_] if method == "pop":
            yield _constant_key(key)
        case [ast.Dict(keys=keys)] if method == "update":
            yield from (_constant_key(key) for key in keys)
        case [_, *_] if method == "update":
            yield None
    if method == "update":
        yield from (keyword.arg for keyword in call.keywords)


def _expression_paths(node: ast.AST) -> Iterator[Path]:
    """Yield the path of an expression: ``("CONFIG", "a", "b")`` for ``CONFIG["a"].b``.

    Yield nothing if the expression does not begin with a name.
    """
    match node:
        case ast.Name(id=name):
            yield (name,)
        case ast.Attribute(value=owner, attr=attribute):
            yield from ((*path, attribute) for path in _expression_paths(owner))
        case ast.Subscript(value=owner, slice=key):
            yield from ((*path, _constant_key(key)) for path in _expression_paths(owner))


def _constant_key(node: ast.AST | None) -> str | None:
    return str(node.value) if isinstance(node, ast.Constant) else None
