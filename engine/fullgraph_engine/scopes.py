"""Find the names that a piece of Python syntax binds in its scope, and names that it uses from
outside."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
BINDING_NODES = (
    *(ast.Name, ast.alias, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping),
)
"""Classes of the nodes for which :func:`names_bound_by` may return names."""


@dataclass(frozen=True)
class Use:
    """A mention, in a piece of syntax, of a name bound outside the piece.

    ``eager``: Python looks up the name when it executes the piece, not when it calls a function in
    the piece. ``hidden`` has the names that inner scopes at this point redefine.
    """

    node: ast.Name
    eager: bool
    hidden: frozenset[str]


@dataclass(frozen=True)
class _Scope:
    names: frozenset[str]
    outside: frozenset[str]
    """Names declared ``global`` or ``nonlocal`` in the scope."""
    is_class: bool


def names_bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that a syntax node itself binds or deletes; its child nodes are not included.

    Parameters and ``from module import *`` are left out.
    """
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()):
            yield node.id
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.alias():
            if node.name != "*":
                yield node.asname or node.name.partition(".")[0]
        case ast.ExceptHandler(name=str(name)):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name


def nodes_of_scope(nodes: Iterable[ast.AST], ignored: Collection[int] = ()) -> Iterator[ast.AST]:
    """Yield every syntax node that Python evaluates in the scope of the given nodes, outer ones
    first.

    A function or a class counts as itself with its decorators, defaults, annotations and bases,
    without its body. A target of ``:=`` in a comprehension belongs to the scope around it.
    ``ignored`` has the ids of nodes to leave out.
    """
    for node in nodes:
        if id(node) in ignored:
            continue
        yield node
        if isinstance(node, COMPREHENSIONS):
            yield from nodes_of_scope([node.generators[0].iter], ignored)
            yield from (one.target for one in ast.walk(node) if isinstance(one, ast.NamedExpr))
        else:
            yield from nodes_of_scope(_evaluated_children(node), ignored)


def _evaluated_children(node: ast.AST) -> Iterable[ast.AST]:
    """Return the child nodes that Python evaluates in the same scope as the node."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        returns = [node.returns] if node.returns is not None else []
        return [*node.decorator_list, *_evaluated_parts(node.args), *returns]
    if isinstance(node, ast.Lambda):
        return _evaluated_parts(node.args)
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    return ast.iter_child_nodes(node)


def _evaluated_parts(arguments: ast.arguments) -> Iterator[ast.expr]:
    """Yield the defaults and annotations of parameters."""
    yield from arguments.defaults
    yield from (default for default in arguments.kw_defaults if default is not None)
    yield from (arg.annotation for arg in parameters(arguments) if arg.annotation is not None)


def bound_names(nodes: Iterable[ast.AST], ignored: Collection[int] = ()) -> set[str]:
    """Return the names that syntax nodes bind in their own scope.

    ``ignored`` has the ids of import statements to leave out.
    """
    return set(_scope(nodes, ignored, is_class=False).names)


def parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    """Yield all parameters in the order in which a signature lists them."""
    yield from arguments.posonlyargs
    yield from arguments.args
    if arguments.vararg:
        yield arguments.vararg
    yield from arguments.kwonlyargs
    if arguments.kwarg:
        yield arguments.kwarg


def free_names(tree: ast.AST) -> set[str]:
    """Return the names that a piece of syntax reads but does not bind itself."""
    return {use.node.id for use in uses(tree) if isinstance(use.node.ctx, ast.Load)}


def uses(tree: ast.AST, ignored: Collection[int] = ()) -> Iterator[Use]:
    """Yield all uses of names from outside in a statement or expression of the module level.

    The names that the statement itself binds at the module level count as names from outside.
    ``ignored`` has the ids of import statements whose names count as names from outside.
    """
    yield from _visit(tree, (), True, frozenset(ignored))


def _visit(
    node: ast.AST, scopes: tuple[_Scope, ...], eager: bool, ignored: frozenset[int]
) -> Iterator[Use]:
    if isinstance(node, ast.Name):
        if _is_outer(node.id, scopes):
            yield Use(node, eager, _hidden_names(scopes))
        return
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        if not isinstance(node, ast.Lambda):
            for decorator in node.decorator_list:
                yield from _visit(decorator, scopes, eager, ignored)
        arguments = node.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                yield from _visit(default, scopes, eager, ignored)
        every = list(parameters(arguments))
        header = _with_type_parameters(node, scopes)
        yield from _type_parameters(node, header, ignored)
        for parameter in every:
            if parameter.annotation is not None:
                yield from _visit(parameter.annotation, header, eager, ignored)
        if not isinstance(node, ast.Lambda) and node.returns is not None:
            yield from _visit(node.returns, header, eager, ignored)
        body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
        inner = _scope(body, ignored, is_class=False, also=[p.arg for p in every])
        for child in body:
            yield from _visit(child, (*header, inner), False, ignored)
        return
    if isinstance(node, ast.ClassDef):
        for decorator in node.decorator_list:
            yield from _visit(decorator, scopes, eager, ignored)
        header = _with_type_parameters(node, scopes)
        yield from _type_parameters(node, header, ignored)
        for expression in (*node.bases, *node.keywords):
            yield from _visit(expression, header, eager, ignored)
        inner = _scope(node.body, ignored, is_class=True)
        for child in node.body:
            yield from _visit(child, (*header, inner), eager, ignored)
        return
    if type(node).__name__ == "TypeAlias":
        for child in ast.iter_child_nodes(node):
            yield from _visit(child, _with_type_parameters(node, scopes), False, ignored)
        return
    if isinstance(node, COMPREHENSIONS):
        yield from _visit_comprehension(node, scopes, eager, ignored)
        return
    for child in ast.iter_child_nodes(node):
        yield from _visit(child, scopes, eager, ignored)


def _visit_comprehension(
    node: Comprehension, scopes: tuple[_Scope, ...], eager: bool, ignored: frozenset[int]
) -> Iterator[Use]:
    yield from _visit(node.generators[0].iter, scopes, eager, ignored)
    targets = [generator.target for generator in node.generators]
    within = (*scopes, _scope(targets, ignored, is_class=False))
    parts: list[ast.AST]
    parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    for index, generator in enumerate(node.generators):
        parts += generator.ifs if index == 0 else [generator.iter, *generator.ifs]
    for part in parts:
        yield from _visit(part, within, eager, ignored)


def _scope(
    nodes: Iterable[ast.AST], ignored: Collection[int], *, is_class: bool, also: Iterable[str] = ()
) -> _Scope:
    names, outside = set(also), set[str]()
    for node in nodes_of_scope(nodes, ignored):
        if isinstance(node, BINDING_NODES):
            names.update(names_bound_by(node))
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            outside.update(node.names)
    return _Scope(frozenset(names - outside), frozenset(outside), is_class)


def _with_type_parameters(node: ast.AST, scopes: tuple[_Scope, ...]) -> tuple[_Scope, ...]:
    """Return the scopes for the header of a definition with type parameters.

    In Python 3.12 the header of ``def f[T](x: T)`` knows ``T``.
    """
    names = frozenset(parameter.name for parameter in getattr(node, "type_params", []))
    if not names:
        return scopes
    # A header in a class still sees the names of the class, as only the innermost scope does.
    at = len(scopes) - bool(scopes and scopes[-1].is_class)
    return (*scopes[:at], _Scope(names, frozenset(), False), *scopes[at:])


def _type_parameters(
    node: ast.AST, header: tuple[_Scope, ...], ignored: frozenset[int]
) -> Iterator[Use]:
    """Yield the uses of names in bounds and defaults of type parameters, which Python evaluates
    late."""
    for parameter in getattr(node, "type_params", []):
        yield from _visit(parameter, header, False, ignored)


def _is_outer(name: str, scopes: tuple[_Scope, ...]) -> bool:
    for depth in range(len(scopes) - 1, -1, -1):
        scope = scopes[depth]
        if scope.is_class and depth != len(scopes) - 1:
            continue
        if name in scope.names:
            return False
        if name in scope.outside and not any(name in other.names for other in scopes[:depth]):
            return True
    return True


def _hidden_names(scopes: tuple[_Scope, ...]) -> frozenset[str]:
    names: frozenset[str] = frozenset()
    for depth, scope in enumerate(scopes):
        if not scope.is_class or depth == len(scopes) - 1:
            names |= scope.names
    return names
