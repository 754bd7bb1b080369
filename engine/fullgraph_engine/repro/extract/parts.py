"""Parts of the user's code as programs: one expression or statement of a function, or all of it."""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import types
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ...scopes import uses
from ...targets.probes import unwrap_compiled
from ...torch_internals import dynamo
from ..emit.definitions import add_function
from ..emit.program import Draft
from ..emit.sources import home_of
from ..emit.unwritable import Unwritable
from .capture import Point, Variables
from .invocation import CallInputs, Input, Unit

# -- one expression ---------------------------------------------------------------------------


def of_expression(point: Point, outwards: int, draft: Draft) -> Unit:
    """A function of nothing but the operation at the point; its operands are passed to it.

    With ``outwards`` it is one that uses its result: what arises where a module is read from its
    owner needs no owner where the module is called.

    Raises:
        Unwritable: it is no operation, or an operand has no value or no expression.
    """
    if 0 not in point.visits or not point.layers:
        raise Unwritable("the line is not reached when the code runs without Dynamo")
    node = copy.deepcopy(_expression_at(point, outwards))
    operands = _Operands(point)
    match node:
        case ast.Call(func=ast.Attribute() as method):
            if isinstance(operands.value(method), torch.nn.Module):
                node.func = operands.passed(method, method.attr)
            elif not operands.is_global(method):
                method.value = operands.passed(method.value, "x")
            operands.all_of(node)
        case ast.Call():
            operands.all_of(node)
        case ast.Attribute() | ast.Starred():
            node.value = operands.passed(node.value, "x")
        case ast.BinOp():
            node.left, node.right = operands.passed(node.left), operands.passed(node.right)
        case ast.UnaryOp():
            node.operand = operands.passed(node.operand)
        case ast.Compare():
            node.left = operands.passed(node.left)
            node.comparators = [operands.passed(each) for each in node.comparators]
        case ast.Subscript():
            node.value = operands.passed(node.value, "x")
            if not any(isinstance(each, ast.Slice) for each in ast.walk(node.slice)):
                node.slice = operands.passed(node.slice, "key")
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            # Behind a break it may be a frame of its own, which is given an iterator.
            first = node.generators[0]
            first.iter = operands.passed(first.iter, "x")
        case _:
            raise Unwritable("it is no single operation")
    used = [name for name in _used(node) if name not in operands.names]
    inputs = list(operands.inputs)
    inputs += [Input(point.at(0)[name], name) for name in used if name in point.at(0)]
    given = CallInputs(tuple(inputs), point.at(0).grad)
    return Unit(_added([ast.Return(node)], inputs, point, draft), (given,))


def _expression_at(point: Point, outwards: int) -> ast.expr:
    frame = point.frame
    start, end = (frame.line + 1, frame.byte), (frame.end_line + 1, frame.end_byte)
    around: list[ast.expr] = []
    for node in ast.walk(point.layers[0].node):  # it goes inwards
        if not isinstance(node, ast.expr):
            continue
        first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        if first <= start and end <= last:
            around.append(node)
            if (first, last) == (start, end):
                break
    else:
        raise Unwritable("it is no expression")
    if outwards >= len(around):
        raise Unwritable("nothing uses it")
    return around[-1 - outwards]


class _Operands:
    """Turns sub-expressions into parameters, with the values that they have at a point."""

    def __init__(self, point: Point) -> None:
        self._point = point
        self.names: set[str] = set()
        self.inputs: list[Input] = []

    def all_of(self, node: ast.Call) -> None:
        """Pass everything that a call is given."""
        node.args = [
            each if isinstance(each, ast.Starred) else self.passed(each) for each in node.args
        ]
        for keyword in node.keywords:
            if keyword.arg is not None:
                keyword.value = self.passed(keyword.value, keyword.arg)

    def is_global(self, node: ast.expr) -> bool:
        """Whether it leads to something of a module or a class: ``torch.nn.functional.relu``."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self._point.at(0):
            return False
        value = self._point.globals.get(node.id)
        return isinstance(value, (types.ModuleType, type))

    def value(self, node: ast.expr) -> Any:
        """What an operand is, without Dynamo."""
        try:
            code = compile(ast.Expression(node), self._point.frame.path, "eval")
            with dynamo.config.patch(disable=True):
                return eval(code, self._point.globals, dict(self._point.at(0)))
        except Exception as error:
            raise Unwritable(f"an operand cannot be evaluated: {error}") from None

    def passed(self, node: ast.expr, name: str = "") -> ast.expr:
        """The parameter that stands for an operand; constants and globals stay as they are."""
        if isinstance(node, (ast.Constant, ast.Lambda)) or self.is_global(node):
            return node
        if isinstance(node, ast.Name) and node.id not in self._point.at(0):
            return node
        value = self.value(node)
        name = node.id if isinstance(node, ast.Name) else name or "a"
        while name in self.names or name in self._point.globals or hasattr(builtins, name):
            name += "_"
        self.names.add(name)
        self.inputs.append(Input(value, name))
        return ast.copy_location(ast.Name(name, ast.Load()), node)


# -- one statement ----------------------------------------------------------------------------


def of_statement(
    point: Point, depth: int, draft: Draft, *, empty: bool = False, most: int = 1
) -> Unit:
    """A function of nothing but one statement; what it uses of the old function is passed to it.

    ``empty``: of a compound statement only what decides, with nothing to do in it. ``most``: of how
    many of the last times that it was reached there is a call.

    Raises:
        Unwritable: it cannot stand alone, or a value has no expression.
    """
    several = _reached(point.visits.get(depth, ()), most)
    node = copy.deepcopy(point.layers[depth].node)
    if empty:
        if not isinstance(node, (ast.If, ast.While, ast.For, ast.With)):
            raise Unwritable("there is nothing in it")
        node.body = [ast.Pass()]
        if not isinstance(node, ast.With):
            node.orelse = []
    return _function_of([node], several, point, draft)


def of_window(point: Point, depth: int, ahead: int, draft: Draft, *, most: int = 1) -> Unit:
    """A function of some statements ahead of one, itself, and what follows in its block.

    ``most`` as for :func:`of_statement`.

    Raises:
        Unwritable: they cannot stand alone, or a value has no expression.
    """
    several = _reached(point.before.get((depth, ahead), ()), most)
    nodes = copy.deepcopy(list(point.layers[depth].onwards(ahead)))
    return _function_of(nodes, several, point, draft)


def _reached(visits: Sequence[Variables], most: int) -> list[Variables]:
    if not visits:
        raise Unwritable("it is not reached when the code runs without Dynamo")
    return list(visits)[-most:]


def of_body(point: Point, draft: Draft, *, most: int) -> Unit:
    """A function that does what the one of a point does, for the last calls of that.

    What these find in different objects or in the scopes around it is passed to it.

    Raises:
        Unwritable: the code cannot stand alone, or a value has no expression.
    """
    definition = copy.deepcopy(point.definition)
    if isinstance(definition, ast.Lambda):
        nodes: list[ast.stmt] = [ast.Return(definition.body)]
    else:
        nodes = definition.body
    return _function_of(nodes, _reached(point.entries, most), point, draft)


def _function_of(
    nodes: list[ast.stmt], several: Sequence[Variables], point: Point, draft: Draft
) -> Unit:
    """A function of some statements, and a call of it for each set of variables."""
    variables = several[0]
    whole = ast.Module(nodes, [])
    refused = _cannot_stand_alone(whole)
    if refused:
        raise Unwritable(f"{refused} cannot stand alone")
    bound = {each.id for each in _names(whole) if isinstance(each.ctx, ast.Store)}
    steady = Variables(
        {name: value for name, value in variables.items() if len(nodes) == 1 or name not in bound}
    )
    flat = _Flattened(steady, whole, {each.id for each in _names(whole)} | set(variables))
    whole = flat.visit(whole)
    used = _used(whole)
    passed = [name for name in used if name in variables and name not in flat.paths]
    calls = tuple(
        CallInputs(
            (
                *(Input(flat.value(name, each), name) for name in flat.paths),
                *(Input(_value(each, name), name) for name in passed),
            ),
            each.grad,
        )
        for each in several
    )
    return Unit(_added(whole.body, calls[0].inputs, point, draft), calls)


def _added(
    body: Sequence[ast.stmt], parameters: Sequence[Input], point: Point, draft: Draft
) -> str:
    """Add a function of some of the code of a point; its name."""
    names = ", ".join(each.name for each in parameters)
    text = "\n".join(f"    {line}" for each in body for line in ast.unparse(each).split("\n"))
    node = ast.parse(f"def f({names}):\n{text}").body[0]
    assert isinstance(node, ast.FunctionDef)
    return add_function(draft, home_of(point.globals, point.frame.path), node)


def _value(variables: Variables, name: str) -> Any:
    if name not in variables:
        raise Unwritable(f"`{name}` has a value in some of the calls only")
    return variables[name]


def _cannot_stand_alone(node: ast.AST) -> str:
    """What keeps a statement from being the body of another function; empty if nothing does."""
    for each in ast.walk(node):
        if isinstance(each, (ast.Yield, ast.YieldFrom, ast.Await, ast.Nonlocal, ast.Global)):
            return f"`{type(each).__name__.lower()}`"
        if isinstance(each, ast.Name) and each.id in ("super", "__class__", "locals", "vars"):
            return f"`{each.id}`"
    loops = [each for each in ast.walk(node) if isinstance(each, (ast.For, ast.While))]
    inside = {id(inner) for loop in loops for inner in ast.walk(loop)}
    for each in ast.walk(node):
        if isinstance(each, (ast.Break, ast.Continue)) and id(each) not in inside:
            return f"`{type(each).__name__.lower()}`"
    return ""


def _names(node: ast.AST) -> list[ast.Name]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Name)]


def _used(node: ast.AST) -> list[str]:
    """Return the names of variables that statements read, in order.

    This includes names that the statements bind first: a loop may read the value that it bound in
    the round before.
    """
    read = [use.node.id for use in uses(node) if not isinstance(use.node.ctx, ast.Store)]
    read += [
        each.target.id
        for each in ast.walk(node)
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
    ]
    return list(dict.fromkeys(read))


_PLAIN = (torch.Tensor, torch.nn.Module, int, float, bool, str, type(None), list, tuple, dict)


class _Flattened(ast.NodeTransformer):
    """``self.norm.weight`` becomes a variable ``weight``: its owner is then not needed.

    ``paths``: the new variables, each with how it is reached.
    """

    def __init__(self, variables: Variables, whole: ast.AST, taken: set[str]) -> None:
        """``whole``: all of the code, which may give attributes another value."""
        self.paths: dict[str, tuple[str, ...]] = {}
        self._stored = {
            ast.unparse(each)
            for each in ast.walk(whole)
            if isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Load)
        }
        self._variables, self._taken = variables, set(taken)
        self._known: dict[tuple[str, ...], str] = {}

    def value(self, name: str, variables: Variables) -> Any:
        """What a new variable is where the others have these values."""
        root, *parts = self.paths[name]
        value = _value(variables, root)
        try:
            for part in parts:
                value = getattr(value, part)
        except Exception as error:  # an object of the user's
            raise Unwritable(f"`{name}` is not there in every call: {error}") from None
        return value

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        is_read = isinstance(node.ctx, ast.Load) and ast.unparse(node) not in self._stored
        path = self._path(node) if is_read else None
        if path is None:
            return self.generic_visit(node)
        if path not in self._known:
            name = node.attr
            while name in self._taken:
                name += "_"
            self._taken.add(name)
            self._known[path], self.paths[name] = name, path
        return ast.copy_location(ast.Name(self._known[path], ast.Load()), node)

    def _path(self, node: ast.Attribute) -> tuple[str, ...] | None:
        """The names of a chain that leads to a plain value; None where it does not."""
        parts: list[str] = []
        at: ast.expr = node
        while isinstance(at, ast.Attribute):
            parts.insert(0, at.attr)
            at = at.value
        if not isinstance(at, ast.Name) or at.id not in self._variables:
            return None
        value = self._variables[at.id]
        for part in parts:
            if isinstance(value, (torch.Tensor, types.ModuleType, type, *_BUILT_IN)):
                return None
            try:
                if isinstance(inspect.getattr_static(type(value), part, None), property):
                    return None
                value = getattr(value, part)
            except Exception:  # an object of the user's
                return None
        return (at.id, *parts) if _is_plain(value) else None


def _is_plain(value: Any) -> bool:
    """Whether it may be passed as it is, so that nobody has to own it."""
    return isinstance(value, _PLAIN) or type(value).__module__ == "numpy"


_BUILT_IN = (int, float, str, list, tuple, dict, set, type(None), torch.dtype, torch.device)


# -- a function -------------------------------------------------------------------------------


def of_function(point: Point, draft: Draft) -> Unit:
    """The function of a point, with what it was entered with the last time.

    Raises:
        Unwritable: it was not reached, or a value has no expression.
    """
    return _function(point, [point.entered], draft)


def of_calls(point: Point, draft: Draft, *, most: int) -> Unit:
    """The function of a point, with its last calls.

    Raises:
        Unwritable: it was not reached, or a value has no expression.
    """
    return _function(point, _reached(point.entries, most), draft)


def _function(point: Point, several: Sequence[Variables], draft: Draft) -> Unit:
    code = point.code
    if code is None:
        raise Unwritable("the function is not called when the code runs without Dynamo")
    calls = tuple(CallInputs(tuple(_inputs(code, each)), each.grad) for each in several)
    name = _method(calls[0].inputs, code)
    if name is None:
        return Unit(draft.refer(_defined(point, code)), calls)
    owner = calls[0].inputs[0].value
    if all(given.inputs[0].value is owner for given in calls):
        is_module = name == "forward" and isinstance(owner, torch.nn.Module)
        entry = draft.expression(owner if is_module else getattr(owner, name))
        return Unit(entry, tuple(replace(given, inputs=given.inputs[1:]) for given in calls))
    for given in calls:
        # Before their class is referred to: they say what is needed of it.
        draft.named(given.inputs[0].value, "owner")
    return Unit(f"{draft.refer(type(owner))}.{name}", calls)


def _inputs(code: types.CodeType, entered: Variables) -> list[Input]:
    names = code.co_varnames
    count, keywords = code.co_argcount, code.co_kwonlyargcount
    found = [Input(entered[name], name) for name in names[:count] if name in entered]
    at = count + keywords
    if code.co_flags & inspect.CO_VARARGS:
        found += [Input(value, f"x{n}") for n, value in enumerate(entered.get(names[at], ()))]
        at += 1
    found += [
        Input(entered[name], name, keyword=True)
        for name in names[count : count + keywords]
        if name in entered
    ]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        extra = entered.get(names[at], {})
        found += [Input(value, name, keyword=True) for name, value in extra.items()]
    return found


def _method(inputs: Sequence[Input], code: types.CodeType) -> str | None:
    """Under which name a code object is a method of the first argument's class."""
    if not inputs or inputs[0].keyword:
        return None
    for name in (code.co_name, "forward"):
        try:
            found = inspect.getattr_static(type(inputs[0].value), name, None)
        except Exception:  # an object of the user's
            return None
        if isinstance(found, types.FunctionType) and _is(found, code):
            return name
    return None


def _defined(point: Point, code: types.CodeType) -> types.FunctionType:
    """A function with this code, the user's own if it has a name."""
    known = unwrap_compiled(point.globals.get(code.co_name))
    if isinstance(known, types.FunctionType) and _is(known, code):
        return known
    cells = tuple(types.CellType(point.cells.get(name)) for name in code.co_freevars)
    return types.FunctionType(code, point.globals, code.co_name, None, cells or None)


def _is(function: types.FunctionType, code: types.CodeType) -> bool:
    own: Any = inspect.unwrap(function)
    return getattr(own, "__code__", None) is code or function.__code__ is code
