"""Constructor arguments taken from calls of the class in source code: ``ResNet(BasicBlock, [2, 2,
2, 2])``.

The code is read without executing it. An argument is known if it is a literal or a name with one
value at the call. The name may belong to the module or to the enclosing function. For a parameter
of that function, the value comes from the function's calls in the file.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as AnySequence
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from ..notation import (
    Arguments,
    LiteralValue,
    NotationError,
    Reference,
    Sequence,
    Value,
)
from ..notation import Mapping as MappingValue
from ..notation_parser import parse_value
from ..source import dotted_name
from ..tensors import ProbeError, look_up

Namespace = Mapping[str, Any]
Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
_Bound = Union[ast.expr, Literal["parameter"], None]
"""Definition of a name: the expression assigned to it, ``"parameter"``, or None if unknown, for
example for a name assigned twice."""

_MOST = 3
"""Maximum number of constructor calls of one class from which arguments are taken. Also the maximum
number of calls of a function that contains such a constructor call."""
_DEPTH = 4
"""Maximum number of callers followed to find the value of a function's parameter."""
_PLAIN = (int, float, str, bool, type(None))
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}


def constructor_calls(
    text: str,
    name: str,
    parameters: AnySequence[str],
    namespace: Namespace,
    others: AnySequence[str] = (),
) -> list[dict[str, Value]]:
    """Return the arguments of a few calls of a class that were found in code, by parameter; calls
    with most arguments first.

    ``parameters`` are the constructor's positional parameters. ``namespace`` has the globals of the
    file with this ``text``. ``others`` are texts of files that are not imported here.
    """
    found: list[tuple[int, int, dict[str, Value]]] = []
    for one in (text, *others):
        sites, names = _read_calls(one)
        reader = _ExpressionReader(sites, namespace, {} if one is text else names)
        for site in sites.get(name, ()):
            for frame in reader.frames(site, 0):
                given = dict(_call_arguments(site.call, parameters))
                values = {each: reader.value(node, frame) for each, node in given.items()}
                known = {each: value for each, value in values.items() if value is not None}
                if known and known not in [other for *_, other in found]:
                    found.append((len(values) - len(known), -len(known), known))
    found.sort(key=lambda one: one[:2])
    return [known for *_, known in found[:_MOST]]


# -- calls ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Site:
    """A call in the file, the innermost function that contains it, and the class if that function
    is a method."""

    call: ast.Call
    function: Function | None
    owner: ast.ClassDef | None


@functools.lru_cache(maxsize=16)
def _read_calls(text: str) -> tuple[dict[str, list[_Site]], dict[str, _Bound]]:
    """Return the calls in a file, by the last part of the called name, and the names that the file
    assigns.

    ``super().__init__(…)`` and calls of subclasses that inherit the constructor also count as calls
    of the base class.
    """
    found: dict[str, list[_Site]] = {}
    inherited: list[tuple[str, str]] = []

    def visit(node: ast.AST, function: Function | None, owner: ast.ClassDef | None) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node
        elif isinstance(node, ast.ClassDef):
            function, owner = None, node
            if not any(
                isinstance(one, ast.FunctionDef) and one.name == "__init__" for one in node.body
            ):
                inherited.extend((node.name, _last_part(base)) for base in node.bases)
        elif isinstance(node, ast.Call):
            called = [_last_part(node.func)]
            if owner is not None and _is_super(node.func):
                called = [_last_part(base) for base in owner.bases]
            for name in called:
                found.setdefault(name, []).append(_Site(node, function, owner))
        for child in ast.iter_child_nodes(node):
            visit(child, function, owner)

    try:
        tree = ast.parse(text)
        visit(tree, None, None)
    except (SyntaxError, ValueError, RecursionError):
        return {}, {}
    for name, base in reversed(inherited):
        found.setdefault(base, []).extend(found.get(name, ()))
    return found, _assigned_bindings(tree.body)


def _is_super(called: ast.expr) -> bool:
    """Whether an expression is ``super().__init__``."""
    return (
        isinstance(called, ast.Attribute)
        and called.attr == "__init__"
        and isinstance(called.value, ast.Call)
        and _last_part(called.value.func) == "super"
    )


def _last_part(called: ast.expr) -> str:
    if isinstance(called, ast.Name):
        return called.id
    return called.attr if isinstance(called, ast.Attribute) else ""


def _call_arguments(call: ast.Call, parameters: AnySequence[str]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the name of a parameter and its argument for each argument of a call; stop at a starred
    argument."""
    plain = itertools.takewhile(lambda node: not isinstance(node, ast.Starred), call.args)
    yield from zip(parameters, plain)  # noqa: B905 - the other parameters may have defaults
    yield from ((one.arg, one.value) for one in call.keywords if one.arg is not None)


# -- values -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Frame:
    """One call of a function, in which the function's parameters have known values.

    ``given`` maps each parameter to the expression that the call passes, and to the outer call in
    which this expression is evaluated.
    """

    function: Function | None = None
    owner: ast.ClassDef | None = None
    given: Mapping[str, tuple[ast.expr, _Frame]] = field(default_factory=dict)
    depth: int = 0


_MODULE = _Frame()


@dataclass
class _ExpressionReader:
    sites: dict[str, list[_Site]]
    namespace: Namespace
    names: Mapping[str, _Bound]
    """Names assigned in the file's module-level code; empty for an imported file."""
    _open: set[tuple[ast.expr, _Frame]] = field(default_factory=set)
    """Expressions in evaluation, to detect a name defined by itself."""

    def frames(self, around: _Site, depth: int) -> Iterator[_Frame]:
        """Yield the calls of the function that contains a call, or one call with unknown arguments
        if the file has none.

        ``depth`` limits how many callers are followed.
        """
        function, owner = around.function, around.owner
        if function is None:
            yield _MODULE
            return
        calls: list[_Site] = []
        if depth < _DEPTH:
            constructor = owner is not None and function.name == "__init__"
            name = owner.name if constructor and owner is not None else function.name
            names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
            names = names[1:] if owner is not None else names
            calls = [one for one in self.sites.get(name, ()) if one.function is not function]
            for site in calls[:_MOST]:
                outer = next(self.frames(site, depth + 1))
                given = {one: (node, outer) for one, node in _call_arguments(site.call, names)}
                yield _Frame(function, owner, given, depth)
        if not calls:
            yield _Frame(function, owner, {}, depth)

    def value(self, node: ast.expr, frame: _Frame) -> Value | None:
        """Return the value of an expression inside the function call ``frame``; None if that needs
        execution of code."""
        if (node, frame) in self._open:
            return None
        self._open.add((node, frame))
        try:
            return self._evaluate_node(node, frame)
        finally:
            self._open.remove((node, frame))

    def _evaluate_node(self, node: ast.expr, frame: _Frame) -> Value | None:
        if isinstance(node, ast.Constant):
            return LiteralValue(node.value) if isinstance(node.value, _PLAIN) else None
        if isinstance(node, (ast.Tuple, ast.List)):
            items = self._evaluate_all(node.elts, frame)
            kind: Literal["list", "tuple"] = "list" if isinstance(node, ast.List) else "tuple"
            return None if items is None else Sequence(kind, items)
        if isinstance(node, ast.Dict):
            keys = self._evaluate_all([one for one in node.keys if one is not None], frame)
            items = self._evaluate_all(node.values, frame)
            if keys is None or items is None or len(keys) != len(items):
                return None
            return MappingValue(tuple(zip(keys, items, strict=True)))
        if isinstance(node, (ast.UnaryOp, ast.BinOp)):
            return self._evaluate_arithmetic(node, frame)
        if isinstance(node, ast.Subscript):
            return self._evaluate_item(node, frame)
        if isinstance(node, ast.Call):
            return self._evaluate_call(node, frame)
        if isinstance(node, ast.Name):
            return self._evaluate_name(node, frame)
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            return (
                self._evaluate_attribute(node.attr, frame)
                if own
                else self._resolve_dotted_name(node, frame)
            )
        return None

    def _evaluate_all(self, nodes: Iterable[ast.expr], frame: _Frame) -> tuple[Value, ...] | None:
        found = [self.value(node, frame) for node in nodes]
        return None if None in found else tuple(one for one in found if one is not None)

    def _evaluate_arithmetic(self, node: ast.UnaryOp | ast.BinOp, frame: _Frame) -> Value | None:
        if isinstance(node, ast.UnaryOp):
            operand = self.value(node.operand, frame)
            number = operand.value if isinstance(operand, LiteralValue) else None
            negative = isinstance(node.op, ast.USub) and isinstance(number, (int, float))
            return LiteralValue(-number) if negative else None  # type: ignore[operator]
        left, right = self.value(node.left, frame), self.value(node.right, frame)
        if not isinstance(right, LiteralValue) or not isinstance(right.value, (int, float)):
            return None
        if isinstance(left, Sequence) and isinstance(node.op, ast.Mult):
            return Sequence(left.kind, left.items * min(int(right.value), 64))
        if not isinstance(left, LiteralValue) or not isinstance(left.value, (int, float)):
            return None
        try:
            return LiteralValue(_OPERATORS[type(node.op)](left.value, right.value))
        except (KeyError, ArithmeticError):
            return None

    def _evaluate_item(self, node: ast.Subscript, frame: _Frame) -> Value | None:
        owner, key = self.value(node.value, frame), self.value(node.slice, frame)
        if isinstance(owner, MappingValue):
            return dict(owner.items).get(key) if key is not None else None
        if isinstance(owner, Sequence) and isinstance(key, LiteralValue) and type(key.value) is int:
            inside = -len(owner.items) <= key.value < len(owner.items)
            return owner.items[key.value] if inside else None
        return None

    def _evaluate_call(self, node: ast.Call, frame: _Frame) -> Value | None:
        called = self._resolve_dotted_name(node.func, frame)
        if not isinstance(called, Reference):
            return None
        if any(isinstance(one, ast.Starred) for one in node.args):
            return None
        placed = self._evaluate_all(node.args, frame)
        named = [(one.arg, self.value(one.value, frame)) for one in node.keywords if one.arg]
        if placed is None:
            return None
        if called.name == "dict" and not placed:
            return MappingValue(tuple((LiteralValue(k), v) for k, v in named if v is not None))
        return Reference(
            called.name, Arguments(placed, tuple((k, v) for k, v in named if v is not None))
        )

    def _evaluate_name(self, node: ast.Name, frame: _Frame) -> Value | None:
        if frame.function is not None and node.id in (bound := _function_bindings(frame.function)):
            found = bound[node.id]
            if isinstance(found, ast.expr):
                return self.value(found, frame)
            if found and node.id in frame.given:
                return self.value(*frame.given[node.id])
            default = _default_values(frame.function).get(node.id) if found else None
            return self.value(default, _MODULE) if default is not None else None
        return self._resolve_dotted_name(node, frame)

    def _evaluate_attribute(self, name: str, frame: _Frame) -> Value | None:
        """Return the value of ``self.name`` if the class assigns it exactly once; None
        otherwise."""
        if frame.owner is None or frame.depth > _DEPTH:
            return None
        kept = [
            (method, node.value)
            for method in frame.owner.body
            if isinstance(method, ast.FunctionDef)
            for node in ast.walk(method)
            if isinstance(node, ast.Assign)
            and any(isinstance(one, ast.Attribute) and one.attr == name for one in node.targets)
        ]
        if len(kept) != 1:
            return None
        method, value = kept[0]
        if method is frame.function:
            return self.value(value, frame)
        call = ast.Call(ast.Name("self"), [], [])
        around = next(self.frames(_Site(call, method, frame.owner), frame.depth + 1))
        return self.value(value, around)

    def _resolve_dotted_name(self, node: ast.expr, frame: _Frame) -> Value | None:
        """Return the constant, or a reference to the object, that a dotted name of the module
        means; else None.
        """
        name = dotted_name(node)
        root = name.partition(".")[0]
        if not name or (frame.function is not None and root in _function_bindings(frame.function)):
            return None
        bound = self.names.get(name)
        if isinstance(bound, ast.expr):
            return self.value(bound, _MODULE)
        try:
            found = look_up(name, self.namespace)
        except (ProbeError, AttributeError, ImportError):
            return None
        if isinstance(found, (*_PLAIN, list, tuple, dict)):
            try:
                return parse_value(repr(found))
            except NotationError:
                return None
        return Reference(name)


@functools.lru_cache(maxsize=512)
def _function_bindings(function: Function) -> dict[str, _Bound]:
    """Return the names that a function assigns, and its parameters, with their definitions."""
    arguments = function.args
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    found: dict[str, _Bound] = {one.arg: "parameter" for one in parameters}
    found.update((one.arg, None) for one in (arguments.vararg, arguments.kwarg) if one is not None)
    assigned = _assigned_bindings(function.body)
    found.update((name, None if name in found else value) for name, value in assigned.items())
    return found


def _assigned_bindings(body: Iterable[ast.stmt]) -> dict[str, _Bound]:
    """Return the names that statements assign, with their definitions, outside nested functions."""
    nodes = list(_own_nodes(body))
    simple: dict[int, ast.expr] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            simple.update((id(target), value) for target, value in assignment_pairs(node))
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            simple[id(node.target)] = node.value
    found: dict[str, _Bound] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found[node.id] = None if node.id in found else simple.get(id(node))
    return found


def assignment_pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each assigned name or attribute with its value, also for ``self.a, self.b = a, b``."""
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts)  # noqa: B905 - Python says so itself
        else:
            yield target, node.value


def _own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield from _own_nodes(ast.iter_child_nodes(node))


@functools.lru_cache(maxsize=512)
def _default_values(function: Function) -> dict[str, ast.expr]:
    arguments = function.args
    placed = [*arguments.posonlyargs, *arguments.args]
    found = dict(zip([one.arg for one in placed[::-1]], arguments.defaults[::-1]))  # noqa: B905
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found.update((one.arg, default) for one, default in named if default is not None)
    return found
