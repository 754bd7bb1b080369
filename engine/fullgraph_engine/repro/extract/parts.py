"""Functions made from parts of the user's code: an expression, statements, or a function."""

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
from ..emit.program import ProgramDraft
from ..emit.sources import home_of
from ..emit.unwritable import UnwritableValue
from .capture import CapturedFrame, FrameVariables
from .invocation import CallableUnit, CallInputs, Input

# -- one expression ---------------------------------------------------------------------------


def expression_unit(captured: CapturedFrame, outwards: int, program: ProgramDraft) -> CallableUnit:
    """Write a function with one operation of the user's code, with the operation's operands as
    parameters.

    By default, this is the innermost operation that the captured frame executes. A larger
    ``outwards`` selects an operation around it. For example, a graph break at the read of a
    submodule can also be shown at the call of the submodule.

    Raises:
        UnwritableValue: The expression is not an operation, or an operand cannot be evaluated or
            written.
    """
    if 0 not in captured.visits or not captured.layers:
        raise UnwritableValue("the line is not reached when the code runs without Dynamo")
    node = copy.deepcopy(_expression_at(captured, outwards))
    operands = _Operands(captured)
    match node:
        case ast.Call(func=ast.Attribute() as method):
            if isinstance(operands.value(method), torch.nn.Module):
                node.func = operands.pass_operand(method, method.attr)
            elif not operands.is_global(method):
                method.value = operands.pass_operand(method.value, "x")
            operands.pass_arguments(node)
        case ast.Call():
            operands.pass_arguments(node)
        case ast.Attribute() | ast.Starred():
            node.value = operands.pass_operand(node.value, "x")
        case ast.BinOp():
            node.left, node.right = (
                operands.pass_operand(node.left),
                operands.pass_operand(node.right),
            )
        case ast.UnaryOp():
            node.operand = operands.pass_operand(node.operand)
        case ast.Compare():
            node.left = operands.pass_operand(node.left)
            node.comparators = [operands.pass_operand(each) for each in node.comparators]
        case ast.Subscript():
            node.value = operands.pass_operand(node.value, "x")
            if not any(isinstance(each, ast.Slice) for each in ast.walk(node.slice)):
                node.slice = operands.pass_operand(node.slice, "key")
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            # After a graph break the comprehension may run in its own frame, which receives an
            # iterator.
            first = node.generators[0]
            first.iter = operands.pass_operand(first.iter, "x")
        case _:
            raise UnwritableValue("the expression is not a single operation")
    used = [name for name in _read_names(node) if name not in operands.names]
    inputs = list(operands.inputs)
    inputs += [
        Input(captured.variables_at(0)[name], name)
        for name in used
        if name in captured.variables_at(0)
    ]
    given = CallInputs(tuple(inputs), captured.variables_at(0).grad)
    return CallableUnit(_add_function([ast.Return(node)], inputs, captured, program), (given,))


def _expression_at(captured: CapturedFrame, outwards: int) -> ast.expr:
    frame = captured.frame
    start, end = (frame.line + 1, frame.byte), (frame.end_line + 1, frame.end_byte)
    around: list[ast.expr] = []
    for node in ast.walk(captured.layers[0].node):  # ast.walk visits outer nodes first
        if not isinstance(node, ast.expr):
            continue
        first, last = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        if first <= start and end <= last:
            around.append(node)
            if (first, last) == (start, end):
                break
    else:
        raise UnwritableValue("the code at the finding is not an expression")
    if outwards >= len(around):
        raise UnwritableValue("no larger expression contains it")
    return around[-1 - outwards]


class _Operands:
    """A converter that replaces an operation's operands by parameters, and knows their values."""

    def __init__(self, captured: CapturedFrame) -> None:
        self._point = captured
        self.names: set[str] = set()
        self.inputs: list[Input] = []

    def pass_arguments(self, node: ast.Call) -> None:
        """Replace the arguments of a call by parameters of the new function."""
        node.args = [
            each if isinstance(each, ast.Starred) else self.pass_operand(each) for each in node.args
        ]
        for keyword in node.keywords:
            if keyword.arg is not None:
                keyword.value = self.pass_operand(keyword.value, keyword.arg)

    def is_global(self, node: ast.expr) -> bool:
        """Whether a dotted name starts at a module or class, like ``torch.relu``."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self._point.variables_at(0):
            return False
        value = self._point.globals.get(node.id)
        return isinstance(value, (types.ModuleType, type))

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression, evaluated with the captured variables, without
        Dynamo.
        """
        try:
            code = compile(ast.Expression(node), self._point.frame.path, "eval")
            with dynamo.config.patch(disable=True):
                return eval(code, self._point.globals, dict(self._point.variables_at(0)))
        except Exception as error:
            raise UnwritableValue(f"an operand cannot be evaluated: {error}") from None

    def pass_operand(self, node: ast.expr, name: str = "") -> ast.expr:
        """Return the expression that replaces an operand in the new function, usually a new
        parameter.

        Constants and names of modules, functions and classes are returned unchanged.
        """
        if isinstance(node, (ast.Constant, ast.Lambda)) or self.is_global(node):
            return node
        if isinstance(node, ast.Name) and node.id not in self._point.variables_at(0):
            return node
        value = self.value(node)
        name = node.id if isinstance(node, ast.Name) else name or "a"
        while name in self.names or name in self._point.globals or hasattr(builtins, name):
            name += "_"
        self.names.add(name)
        self.inputs.append(Input(value, name))
        return ast.copy_location(ast.Name(name, ast.Load()), node)


# -- one statement ----------------------------------------------------------------------------


def statement_unit(
    captured: CapturedFrame,
    depth: int,
    program: ProgramDraft,
    *,
    empty: bool = False,
    most: int = 1,
) -> CallableUnit:
    """Write a function with one statement of the user's code; the variables it reads are
    parameters.

    ``depth`` selects a statement around the frame's line; 0 is the innermost. ``empty`` removes the
    bodies of a compound statement. ``most`` is the maximum number of calls, taken from the last
    executions of the statement.

    Raises:
        UnwritableValue: The statement cannot stand alone, or a value cannot be written.
    """
    several = _last_visits(captured.visits.get(depth, ()), most)
    node = copy.deepcopy(captured.layers[depth].node)
    if empty:
        if not isinstance(node, (ast.If, ast.While, ast.For, ast.With)):
            raise UnwritableValue("the statement has no body")
        node.body = [ast.Pass()]
        if not isinstance(node, ast.With):
            node.orelse = []
    return _unit_of_statements([node], several, captured, program)


def window_unit(
    captured: CapturedFrame, depth: int, ahead: int, program: ProgramDraft, *, most: int = 1
) -> CallableUnit:
    """Write a function with the last statements of a block of the user's code.

    ``depth`` selects a statement around the frame's line; the function begins ``ahead`` statements
    before it. ``most`` is the maximum number of calls, as in :func:`statement_unit`.

    Raises:
        UnwritableValue: The statements cannot stand alone, or a value cannot be written.
    """
    several = _last_visits(captured.before.get((depth, ahead), ()), most)
    nodes = copy.deepcopy(list(captured.layers[depth].statements_from(ahead)))
    return _unit_of_statements(nodes, several, captured, program)


def _last_visits(visits: Sequence[FrameVariables], most: int) -> list[FrameVariables]:
    if not visits:
        raise UnwritableValue("the statement is not reached when the code runs without Dynamo")
    return list(visits)[-most:]


def body_unit(captured: CapturedFrame, program: ProgramDraft, *, most: int) -> CallableUnit:
    """Write a function with the body of the user's function, and its last calls.

    Attributes and closure variables that the body reads become parameters. ``most`` is the
    maximum number of calls.

    Raises:
        UnwritableValue: The code cannot stand alone, or a value cannot be written.
    """
    definition = copy.deepcopy(captured.definition)
    if isinstance(definition, ast.Lambda):
        nodes: list[ast.stmt] = [ast.Return(definition.body)]
    else:
        nodes = definition.body
    return _unit_of_statements(nodes, _last_visits(captured.entries, most), captured, program)


def _unit_of_statements(
    nodes: list[ast.stmt],
    several: Sequence[FrameVariables],
    captured: CapturedFrame,
    program: ProgramDraft,
) -> CallableUnit:
    """Write a function whose body is ``nodes``, statements of the user's code.

    The variables that they read become parameters. The function is called once for each item of
    ``several``, with these values of the variables.
    """
    variables = several[0]
    whole = ast.Module(nodes, [])
    refused = _standalone_obstacle(whole)
    if refused:
        raise UnwritableValue(f"a statement with {refused} cannot be moved to another function")
    bound = {each.id for each in _name_nodes(whole) if isinstance(each.ctx, ast.Store)}
    steady = FrameVariables(
        {name: value for name, value in variables.items() if len(nodes) == 1 or name not in bound}
    )
    flat = _AttributeFlattener(
        steady, whole, {each.id for each in _name_nodes(whole)} | set(variables)
    )
    whole = flat.visit(whole)
    used = _read_names(whole)
    passed = [name for name in used if name in variables and name not in flat.paths]
    calls = tuple(
        CallInputs(
            (
                *(Input(flat.value(name, each), name) for name in flat.paths),
                *(Input(_variable_value(each, name), name) for name in passed),
            ),
            each.grad,
        )
        for each in several
    )
    return CallableUnit(_add_function(whole.body, calls[0].inputs, captured, program), calls)


def _add_function(
    body: Sequence[ast.stmt],
    parameters: Sequence[Input],
    captured: CapturedFrame,
    program: ProgramDraft,
) -> str:
    """Add a function with this body and these parameters to the generated program; return its
    name.
    """
    names = ", ".join(each.name for each in parameters)
    text = "\n".join(f"    {line}" for each in body for line in ast.unparse(each).split("\n"))
    node = ast.parse(f"def f({names}):\n{text}").body[0]
    assert isinstance(node, ast.FunctionDef)
    return add_function(program, home_of(captured.globals, captured.frame.path), node)


def _variable_value(variables: FrameVariables, name: str) -> Any:
    if name not in variables:
        raise UnwritableValue(f"`{name}` has a value in some of the calls only")
    return variables[name]


def _standalone_obstacle(node: ast.AST) -> str:
    """Return a phrase that says why a statement cannot be moved to another function, or ""."""
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


def _name_nodes(node: ast.AST) -> list[ast.Name]:
    return [each for each in ast.walk(node) if isinstance(each, ast.Name)]


def _read_names(node: ast.AST) -> list[str]:
    """Return the names of variables that a statement reads, in order.

    Names that the statement binds before it reads them are included: a loop may read the value of
    the previous iteration.
    """
    read = [use.node.id for use in uses(node) if not isinstance(use.node.ctx, ast.Store)]
    read += [
        each.target.id
        for each in ast.walk(node)
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name)
    ]
    return list(dict.fromkeys(read))


_PLAIN = (torch.Tensor, torch.nn.Module, int, float, bool, str, type(None), list, tuple, dict)


class _AttributeFlattener(ast.NodeTransformer):
    """A transformer that turns ``self.norm.weight`` into a variable ``weight``.

    The generated program then does not need the object ``self``. ``paths`` maps the new variables
    to the names that lead to their values.
    """

    def __init__(self, variables: FrameVariables, whole: ast.AST, taken: set[str]) -> None:
        """Store the variables; ``whole`` is all the code to transform, ``taken`` are the names in
        use.
        """
        self.paths: dict[str, tuple[str, ...]] = {}
        self._stored = {
            ast.unparse(each)
            for each in ast.walk(whole)
            if isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Load)
        }
        self._variables, self._taken = variables, set(taken)
        self._known: dict[tuple[str, ...], str] = {}

    def value(self, name: str, variables: FrameVariables) -> Any:
        """Return the value that a flattened name such as ``weight`` has among the given
        variables.
        """
        root, *parts = self.paths[name]
        value = _variable_value(variables, root)
        try:
            for part in parts:
                value = getattr(value, part)
        except Exception as error:  # user objects may raise anything
            raise UnwritableValue(f"`{name}` does not exist in every call: {error}") from None
        return value

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        is_read = isinstance(node.ctx, ast.Load) and ast.unparse(node) not in self._stored
        path = self._attribute_path(node) if is_read else None
        if path is None:
            return self.generic_visit(node)
        if path not in self._known:
            name = node.attr
            while name in self._taken:
                name += "_"
            self._taken.add(name)
            self._known[path], self.paths[name] = name, path
        return ast.copy_location(ast.Name(self._known[path], ast.Load()), node)

    def _attribute_path(self, node: ast.Attribute) -> tuple[str, ...] | None:
        """Return the names in an attribute chain such as ``self.a.b``.

        None if the value of the chain cannot be passed to a function without its owner, or if
        reading it would execute a property.
        """
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
            except Exception:  # user objects may raise anything
                return None
        return (at.id, *parts) if _is_plain(value) else None


def _is_plain(value: Any) -> bool:
    """Whether a value can be passed as an argument without the object that owns it."""
    return isinstance(value, _PLAIN) or type(value).__module__ == "numpy"


_BUILT_IN = (int, float, str, list, tuple, dict, set, type(None), torch.dtype, torch.device)


# -- a function -------------------------------------------------------------------------------


def function_unit(captured: CapturedFrame, program: ProgramDraft) -> CallableUnit:
    """Write the user's function that the frame executes, with the arguments of its last call.

    Raises:
        UnwritableValue: The function was not called, or a value cannot be written.
    """
    return _unit_of_function(captured, [captured.entered], program)


def calls_unit(captured: CapturedFrame, program: ProgramDraft, *, most: int) -> CallableUnit:
    """Write the user's function that the frame executes, and its last ``most`` calls.

    Raises:
        UnwritableValue: The function was not called, or a value cannot be written.
    """
    return _unit_of_function(captured, _last_visits(captured.entries, most), program)


def _unit_of_function(
    captured: CapturedFrame, several: Sequence[FrameVariables], program: ProgramDraft
) -> CallableUnit:
    code = captured.code
    if code is None:
        raise UnwritableValue("the function is not called when the code runs without Dynamo")
    calls = tuple(CallInputs(tuple(_call_inputs(code, each)), each.grad) for each in several)
    name = _method_name(calls[0].inputs, code)
    if name is None:
        return CallableUnit(program.refer_to(_function_with_code(captured, code)), calls)
    owner = calls[0].inputs[0].value
    if all(given.inputs[0].value is owner for given in calls):
        is_module = name == "forward" and isinstance(owner, torch.nn.Module)
        entry = program.expression(owner if is_module else getattr(owner, name))
        return CallableUnit(
            entry, tuple(replace(given, inputs=given.inputs[1:]) for given in calls)
        )
    for given in calls:
        # Write the instances before their class, because they decide which members the class keeps.
        owner = given.inputs[0].value
        program.variable_for(owner, program.expression(owner, "owner"), "owner")
    return CallableUnit(f"{program.refer_to(type(owner))}.{name}", calls)


def _call_inputs(code: types.CodeType, entered: FrameVariables) -> list[Input]:
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


def _method_name(inputs: Sequence[Input], code: types.CodeType) -> str | None:
    """Return the method name of a function whose first argument is its object; else None.

    ``inputs`` are the arguments of a call, and ``code`` is the function's code.
    """
    if not inputs or inputs[0].keyword:
        return None
    for name in (code.co_name, "forward"):
        try:
            found = inspect.getattr_static(type(inputs[0].value), name, None)
        except Exception:  # user objects may raise anything
            return None
        if isinstance(found, types.FunctionType) and _has_code(found, code):
            return name
    return None


def _function_with_code(captured: CapturedFrame, code: types.CodeType) -> types.FunctionType:
    """Return the user's function with this code object; a lambda or closure is rebuilt."""
    known = unwrap_compiled(captured.globals.get(code.co_name))
    if isinstance(known, types.FunctionType) and _has_code(known, code):
        return known
    cells = tuple(types.CellType(captured.cells.get(name)) for name in code.co_freevars)
    return types.FunctionType(code, captured.globals, code.co_name, None, cells or None)


def _has_code(function: types.FunctionType, code: types.CodeType) -> bool:
    own: Any = inspect.unwrap(function)
    return getattr(own, "__code__", None) is code or function.__code__ is code
