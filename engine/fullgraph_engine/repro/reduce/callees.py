"""Static analysis that guesses which functions the calls in a program call.

A wrong guess is harmless, because each smaller program is tested.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Union

from .syntax_index import FUNCTIONS, Function, SyntaxIndex

_DEPTH = 8
_ROUNDS = 3
"""Maximum number of rounds of the search for calls. A round uses the calls found before, for
example to follow functions passed as arguments.
"""
# Methods of modules that return the module itself.
_SAME = frozenset({"eval", "train", "to", "cuda", "cpu", "float", "double", "half", "bfloat16"})


@dataclass(frozen=True)
class Instance:
    """An expression that evaluates to an instance of one of the program's classes."""

    of: ast.ClassDef


@dataclass(frozen=True)
class Method:
    """An expression such as ``self.forward`` that evaluates to a bound method."""

    function: Function


Meaning = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, Instance, Method, None]


class Callees:
    """The calls of each function of a program, as far as a static analysis finds them.

    ``sites`` maps a function to its calls, each with the number of implicit arguments, such as 1
    for ``self``.
    """

    def __init__(self, index: SyntaxIndex) -> None:
        self._index = index
        self._attributes: dict[str, list[ast.expr]] = {}
        for node in ast.walk(index.tree):
            match node:
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
                    self._attributes.setdefault(name, []).append(node.value)
        self.sites: dict[Function, list[tuple[ast.Call, int]]] = {}
        for _ in range(_ROUNDS):
            before, self.sites = self.sites, self._find_sites()
            if len(self.sites) == len(before):
                break

    def _find_sites(self) -> dict[Function, list[tuple[ast.Call, int]]]:
        """Find more calls from the calls found so far; return them by the function that they call.

        Each call comes with its number of implicit arguments: 1 if it passes ``self``.
        """
        found: dict[Function, list[tuple[ast.Call, int]]] = {}
        for node in ast.walk(self._index.tree):
            if isinstance(node, ast.Call):
                for function, offset in self._called_functions(self.meaning(node.func)):
                    found.setdefault(function, []).append((node, offset))
        return found

    def function_called_by(self, call: ast.Call) -> Function | None:
        return next(
            (function for function, _ in self._called_functions(self.meaning(call.func))), None
        )

    def meaning(self, node: ast.expr, depth: int = 0) -> Meaning:
        """Return the function, class or instance that an expression evaluates to, or None if
        unknown.
        """
        if depth > _DEPTH:
            return None
        match node:
            case ast.Name(id=name):
                defined = self._index.defined.get(name)
                if isinstance(defined, (*FUNCTIONS, ast.ClassDef)):
                    return defined
                if name == "self":
                    around = self._index.enclosing_class(node)
                    return None if around is None else Instance(around)
                stores = [use for use in self._index.uses(node) if isinstance(use.ctx, ast.Store)]
                if len(stores) == 1:
                    parent = self._index.parents[stores[0]]
                    if isinstance(parent, ast.Assign):
                        return self.meaning(parent.value, depth + 1)
                return None if stores else self._parameter_meaning(node, depth)
            case ast.Call(func=ast.Attribute(attr="compile"), args=[inner, *_]):
                return self.meaning(inner, depth + 1)
            case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in _SAME:
                return self.meaning(inner, depth + 1)
            case ast.Call(func=func):
                definition = self.meaning(func, depth + 1)
                return Instance(definition) if isinstance(definition, ast.ClassDef) else None
            case ast.Attribute(value=value, attr=attr):
                owner = self.meaning(value, depth + 1)
                owner = owner.of if isinstance(owner, Instance) else owner
                if isinstance(owner, ast.ClassDef):
                    method = method_of(owner, attr)
                    if method is not None:
                        return Method(method)
                    values = self._attributes.get(attr, [])
                    if len(values) == 1:
                        return self.meaning(values[0], depth + 1)
        return None

    def _parameter_meaning(self, node: ast.Name, depth: int) -> Meaning:
        """Return what a parameter refers to, if all calls pass the same function, class or
        instance.
        """
        function = self._index.home_scope(node)
        if not isinstance(function, FUNCTIONS):
            return None
        found: set[Meaning] = set()
        for call, offset in self.sites.get(function, ()):
            try:
                given = argument_for(call, function, offset, node.id)
            except LookupError:
                return None
            value = given.value if isinstance(given, ast.keyword) else given
            found.add(self.meaning(value, depth + 1) if isinstance(value, ast.expr) else None)
        return found.pop() if len(found) == 1 else None

    def _called_functions(self, definition: Meaning) -> Iterator[tuple[Function, int]]:
        match definition:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield definition, 0
            case Method(function=function):
                names = {ast.unparse(decorator) for decorator in function.decorator_list}
                yield function, 0 if "staticmethod" in names else 1
            case ast.ClassDef():
                method = method_of(definition, "__init__")
                if method is not None:
                    yield method, 1
            case Instance(of=owner):
                for name in ("__call__", "forward"):
                    method = method_of(owner, name)
                    if method is not None:
                        yield method, 1
                        break


def required_arguments(function: Function) -> int:
    """Return the number of parameters of a function without a default."""
    given = function.args
    positional = len(given.posonlyargs) + len(given.args) - len(given.defaults)
    return positional + given.kw_defaults.count(None)


def required_by_import(call: ast.Call) -> int:
    """Return the number of required parameters of an imported function that a program calls; 0 if
    unknown.
    """
    first, *names = ast.unparse(call.func).split(".")
    thing: object = sys.modules.get(first)
    for name in names:
        thing = getattr(thing, name, None)
    try:
        parameters = inspect.signature(thing).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return 0
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return sum(one.default is one.empty and one.kind not in optional for one in parameters)


def method_of(owner: ast.ClassDef, name: str) -> Function | None:
    """Return the method of this name in a class body, without its bases, or None."""
    for node in owner.body:
        if isinstance(node, FUNCTIONS) and node.name == name:
            return node
    return None


def argument_for(call: ast.Call, function: Function, offset: int, name: str) -> ast.AST | None:
    """Return the argument that a call passes for the parameter ``name``; None if it is not
    passed.

    ``offset`` is the number of implicit arguments, such as ``self``.

    Raises:
        LookupError: Starred arguments hide the argument.
    """
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword
        if keyword.arg is None:
            raise LookupError
    positional = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if name not in positional:
        return None
    index = positional.index(name) - offset
    for position, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred):
            raise LookupError
        if position == index:
            return argument
    return None
