"""Which names of a piece of syntax are not its own, and whether it needs them at once."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True)
class Use:
    """A mention of a name that is bound outside.

    ``eager``: it is looked up when the piece is executed, not when a function of it is called.
    ``hidden`` are the names that mean something else at this place.
    """

    node: ast.Name
    eager: bool
    hidden: frozenset[str]


@dataclass(frozen=True)
class _Scope:
    names: frozenset[str]
    outside: frozenset[str]
    """Declared ``global`` or ``nonlocal``."""
    is_class: bool


def uses(tree: ast.AST, ignored: Collection[int] = ()) -> Iterator[Use]:
    """All of them in a statement or an expression at the top level of a module.

    ``ignored`` are imports, by ``id``, which are taken not to bind.
    """
    yield from _visit(tree, (), True, frozenset(ignored))


def outer_names(tree: ast.AST) -> set[str]:
    """The names that a piece of syntax takes from outside."""
    return {use.node.id for use in uses(tree) if isinstance(use.node.ctx, ast.Load)}


def bound(nodes: Iterable[ast.AST], ignored: Collection[int] = ()) -> set[str]:
    """The names that statements bind in the scope in which they stand."""
    found: set[str] = set()
    outside: set[str] = set()
    for node in nodes:
        _bind(node, found, outside, ignored)
    return found - outside


def _visit(
    node: ast.AST, scopes: tuple[_Scope, ...], eager: bool, ignored: frozenset[int]
) -> Iterator[Use]:
    if isinstance(node, ast.Name):
        if _is_outer(node.id, scopes):
            yield Use(node, eager, _hidden(scopes))
        return
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        if not isinstance(node, ast.Lambda):
            for decorator in node.decorator_list:
                yield from _visit(decorator, scopes, eager, ignored)
        arguments = node.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                yield from _visit(default, scopes, eager, ignored)
        every = parameters(arguments)
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
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        yield from _comprehension(node, scopes, eager, ignored)
        return
    for child in ast.iter_child_nodes(node):
        yield from _visit(child, scopes, eager, ignored)


def _comprehension(
    node: Comprehension, scopes: tuple[_Scope, ...], eager: bool, ignored: frozenset[int]
) -> Iterator[Use]:
    yield from _visit(node.generators[0].iter, scopes, eager, ignored)
    names: set[str] = set()
    for generator in node.generators:
        _bind(generator.target, names, set(), ignored)
    within = (*scopes, _Scope(frozenset(names), frozenset(), False))
    parts: list[ast.AST]
    parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    for index, generator in enumerate(node.generators):
        parts += generator.ifs if index == 0 else [generator.iter, *generator.ifs]
    for part in parts:
        yield from _visit(part, within, eager, ignored)


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """All parameters, ``*args`` and ``**kwargs`` behind all others."""
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return every + [arg for arg in (arguments.vararg, arguments.kwarg) if arg is not None]


def _scope(
    body: Iterable[ast.AST], ignored: Collection[int], *, is_class: bool, also: Iterable[str] = ()
) -> _Scope:
    names: set[str] = set(also)
    outside: set[str] = set()
    for node in body:
        _bind(node, names, outside, ignored)
    return _Scope(frozenset(names - outside), frozenset(outside), is_class)


def _with_type_parameters(node: ast.AST, scopes: tuple[_Scope, ...]) -> tuple[_Scope, ...]:
    """Those of Python 3.12, which the header of a definition knows: ``def f[T](x: T)``."""
    names = frozenset(parameter.name for parameter in getattr(node, "type_params", []))
    if not names:
        return scopes
    # A header in a class still sees the names of the class, as only the innermost scope does.
    at = len(scopes) - bool(scopes and scopes[-1].is_class)
    return (*scopes[:at], _Scope(names, frozenset(), False), *scopes[at:])


def _type_parameters(
    node: ast.AST, header: tuple[_Scope, ...], ignored: frozenset[int]
) -> Iterator[Use]:
    """What their bounds and defaults mention, which is looked up when somebody asks for it."""
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


def _hidden(scopes: tuple[_Scope, ...]) -> frozenset[str]:
    names: frozenset[str] = frozenset()
    for depth, scope in enumerate(scopes):
        if not scope.is_class or depth == len(scopes) - 1:
            names |= scope.names
    return names


def _bind(node: ast.AST, names: set[str], outside: set[str], ignored: Collection[int]) -> None:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        names.add(node.name)
        header: list[ast.AST] = [*node.decorator_list]
        if isinstance(node, ast.ClassDef):
            header += [*node.bases, *node.keywords]
        for child in header:
            _bind(child, names, outside, ignored)
    elif isinstance(node, ast.Lambda):
        pass
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                _bind(inner.target, names, outside, ignored)
    elif isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            names.add(node.id)
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        if id(node) not in ignored:
            for alias in node.names:
                name = alias.asname or alias.name
                names.add(name.partition(".")[0] if isinstance(node, ast.Import) else name)
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        outside.update(node.names)
    else:
        if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        if isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
        for child in ast.iter_child_nodes(node):
            _bind(child, names, outside, ignored)
