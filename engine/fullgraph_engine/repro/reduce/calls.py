"""Passes of the reducer that remove or inline parameters, variables and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...scopes import nodes_of_scope, parameters
from .callees import Callees, argument_for
from .edits import Replacement, TreeEdit
from .program import ParsedProgram
from .syntax_index import FUNCTIONS, Function, SyntaxIndex


def drop_unread_parameters(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that remove parameters that their function does not read, and their
    arguments.
    """
    yield list(_parameter_edits(program, read=False))


def inline_fixed_parameters(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace a parameter by the constant or global that all calls pass for
    it.
    """
    yield list(_parameter_edits(program, read=True))


def _parameter_edits(program: ParsedProgram, read: bool) -> Iterator[TreeEdit]:
    index = program.index
    callees = Callees(index)
    for function in ast.walk(program.tree):
        if not isinstance(function, FUNCTIONS):
            continue
        first = {argument.arg for argument in function.args.args[:1]} & {"self", "cls", "ctx"}
        for parameter in parameters(function.args):
            if parameter.arg in first:
                continue
            uses = index.uses_in(function, parameter.arg)
            if bool(uses) is not read:
                continue
            try:
                given = [
                    argument_for(call, function, offset, parameter.arg)
                    for call, offset in callees.sites.get(function, ())
                ]
            except LookupError:
                continue
            changes: dict[ast.AST, Replacement] = {parameter: None}
            changes.update((node, None) for node in given if node is not None)
            if read:
                default = _default_value(function, parameter)
                values = [
                    node.value if isinstance(node, ast.keyword) else node or default
                    for node in given
                ] or [default]
                value = values[0]
                if not isinstance(value, ast.expr) or not _are_equal(values):
                    continue
                if not _is_same_everywhere(value, index):
                    continue
                if any(not isinstance(use.ctx, ast.Load) for use in uses):
                    start = function.body[0]
                    bound = ast.Assign(
                        targets=[ast.Name(id=parameter.arg, ctx=ast.Store())], value=value
                    )
                    changes[start] = (bound, start)
                else:
                    changes.update((use, value) for use in uses)
            yield TreeEdit(changes)


def _are_equal(values: Sequence[ast.AST | None]) -> bool:
    return len({ast.dump(value) if value is not None else "" for value in values}) == 1


def _is_same_everywhere(value: ast.expr, index: SyntaxIndex) -> bool:
    """Whether the expression ``value`` reads only module-level names, so that any function can use
    it.
    """
    return all(
        index.home_scope(node) is index.tree and node.id not in ("self", "cls")
        for node in ast.walk(value)
        if isinstance(node, ast.Name)
    ) and not any(isinstance(node, (ast.Lambda, ast.comprehension)) for node in ast.walk(value))


def _default_value(function: Function, parameter: ast.arg) -> ast.expr | None:
    positional = [*function.args.posonlyargs, *function.args.args]
    if parameter in positional:
        index = positional.index(parameter) - len(positional) + len(function.args.defaults)
        return function.args.defaults[index] if index >= 0 else None
    if parameter in function.args.kwonlyargs:
        return function.args.kw_defaults[function.args.kwonlyargs.index(parameter)]
    return None


def unpack_starred(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace ``f(*[a, b])`` by ``f(a, b)``."""
    edits: list[TreeEdit] = []
    for node in ast.walk(program.tree):
        match node:
            case ast.Starred(value=ast.List() | ast.Tuple() as several):
                edits.append(TreeEdit({node: tuple(several.elts)}))
            case ast.keyword(arg=None, value=ast.Dict() as several) if all(
                isinstance(key, ast.Constant) and isinstance(key.value, str) for key in several.keys
            ):
                given = [
                    ast.keyword(arg=key.value, value=value)
                    for key, value in zip(several.keys, several.values, strict=True)
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                ]
                edits.append(TreeEdit({node: tuple(given)}))
    yield edits


def inline_variables(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace variables by their value.

    The variable must be read only once, or its value must be a name or a constant.
    """
    index = program.index
    edits: list[TreeEdit] = []
    for node in ast.walk(program.tree):
        match node:
            case ast.Assign(targets=[ast.Name() as target]):
                uses = index.reads_of_binding(target)
                simple = isinstance(node.value, (ast.Name, ast.Constant))
                if uses and (simple or len(uses) == 1):
                    edits.append(TreeEdit({node: None, **dict.fromkeys(uses, node.value)}))
    yield edits


def inline_functions(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace the only call of a function by its body."""
    for edit in _inline_edits(program, expressions=False):
        yield (edit,)


def inline_expressions(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace the only call of a function by the expression that it returns."""
    yield [*_inline_edits(program, expressions=True)]


def _inline_edits(program: ParsedProgram, *, expressions: bool) -> Iterator[TreeEdit]:
    """Yield edits that inline functions with one call.

    With ``expressions``, the functions only return an expression; otherwise they do more.
    """
    for function, sites in Callees(program.index).sites.items():
        is_expression = len(function.body) == 1 and isinstance(function.body[0], ast.Return)
        if len(sites) == 1 and is_expression is expressions:
            edit = _inline_edit(function, *sites[0], program.index)
            if edit is not None:
                yield edit


def _inline_edit(
    function: Function, call: ast.Call, offset: int, index: SyntaxIndex
) -> TreeEdit | None:
    if (
        not _is_call_by_name(call)
        or function.name == "__init__"
        or _is_within(call, function, index)
    ):
        return None
    if function.args.vararg or function.args.kwarg:
        return None
    last = function.body[-1]
    returns = [node for node in nodes_of_scope(function.body) if isinstance(node, ast.Return)]
    if returns not in ([], [last]):
        return None
    if any(
        isinstance(node, (ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal))
        for node in nodes_of_scope(function.body)
    ):
        return None
    site = index.statement(call)
    scope = index.scopes[call]
    changes: dict[ast.AST, Replacement] = {function: None}
    before: list[ast.stmt] = []
    taken = index.names_in(scope) | set(index.defined) | index.imported
    renamed: dict[str, str] = {}
    for name in sorted(index.names_in(function)):
        new = name
        while new in taken:
            new += "_"
        renamed[name] = new
    substituted: set[str] = set()
    for position, parameter in enumerate(parameters(function.args)):
        uses = index.uses_in(function, parameter.arg)
        if position < offset:
            # ``self.method(...)`` passes the same ``self``.
            if not _is_call_on_self(call) and uses:
                return None
            substituted.add(parameter.arg)
            continue
        try:
            given = argument_for(call, function, offset, parameter.arg)
        except LookupError:
            return None
        value = given.value if isinstance(given, ast.keyword) else given
        if value is None:
            value = _default_value(function, parameter)
        if not isinstance(value, ast.expr):
            return None
        stored = any(not isinstance(use.ctx, ast.Load) for use in uses)
        if not stored and (isinstance(value, (ast.Name, ast.Constant)) or len(uses) <= 1):
            changes.update((use, value) for use in uses)
            substituted.add(parameter.arg)
        elif isinstance(value, ast.Name) and value.id == parameter.arg:
            renamed[parameter.arg] = parameter.arg
        else:
            target = ast.Name(id=renamed[parameter.arg], ctx=ast.Store())
            before.append(ast.Assign(targets=[target], value=value))
    for name, new in renamed.items():
        if name not in substituted and name != new:
            for use in index.uses_in(function, name):
                changes[use] = ast.Name(id=new, ctx=use.ctx)
    body = function.body[:-1] if returns else function.body
    result = last.value if isinstance(last, ast.Return) else None
    statements: list[ast.stmt] = [*before, *body]
    if isinstance(site, ast.Expr) and site.value is call and result is None:
        changes[site] = tuple(statements)
    else:
        changes[call] = result or ast.Constant(value=None)
        if statements:
            changes[site] = (*statements, site)
    return TreeEdit(changes)


def _is_call_by_name(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) or _is_call_on_self(call)


def _is_call_on_self(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id="self")):
            return True
    return False


def _is_within(node: ast.AST, function: ast.AST, index: SyntaxIndex) -> bool:
    inner: ast.AST | None = node
    while inner is not None:
        if inner is function:
            return True
        inner = index.parents.get(inner)
    return False
