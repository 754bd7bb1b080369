"""Static detection of names whose read would raise NameError.

A name counts as bound if any execution path may bind it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

from ...scopes import bound_names, names_bound_by, nodes_of_scope, parameters

_BUILT_IN = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__builtins__"}
_IN_A_CLASS = frozenset({"__class__", "__qualname__", "__module__"})


def find_unbound_names(tree: ast.Module) -> frozenset[str]:
    """Return the names read before any binding; empty if a star import hides bindings."""
    if any(isinstance(node, ast.alias) and node.name == "*" for node in ast.walk(tree)):
        return frozenset()
    elsewhere = set(_global_names(tree))  # functions may bind these at any time
    module = _BindingScope(None, bound_names(tree.body) | elsewhere)
    module.sure |= elsewhere
    walk = _UnboundNameWalk(module)
    walk.visit_statements(tree.body)
    walk.visit_function_bodies()
    return frozenset(walk.missing)


def _global_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names


class _BindingScope:
    """A scope, such as a function.

    ``names`` are all names it binds; ``sure`` are names whose binding may have run so far.
    """

    def __init__(
        self, outer: _BindingScope | None, names: set[str], is_class: bool = False
    ) -> None:
        self.outer = outer
        self.names = names
        self.sure: set[str] = set()
        self.is_class = is_class

    def binds(self, name: str) -> bool:
        if name in self.names:
            return name in self.sure or (self.is_class and self._is_bound_outside(name))
        return self._is_bound_outside(name)

    def _is_bound_outside(self, name: str) -> bool:
        """Whether an enclosing scope binds a name at any time."""
        scope = self.outer
        while scope is not None:
            if not scope.is_class and name in scope.names:
                return True
            scope = scope.outer
        return name in _BUILT_IN or name in _IN_A_CLASS


class _UnboundNameWalk:
    def __init__(self, scope: _BindingScope) -> None:
        self._scope = scope
        self.missing: set[str] = set()
        self._waiting: list[
            tuple[_BindingScope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]
        ] = []

    def visit_statements(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._visit(statement)

    def visit_function_bodies(self) -> None:
        """Visit the bodies of functions, after all code around them."""
        while self._waiting:
            outer, node = self._waiting.pop()
            body = [node.body] if isinstance(node, ast.Lambda) else node.body
            own = {argument.arg for argument in parameters(node.args)}
            names = bound_names(body) | own
            before, self._scope = self._scope, _BindingScope(outer, names)
            self._scope.sure |= own
            for part in body:
                self._visit(part)
            self._scope = before

    def _visit(self, node: ast.AST) -> None:
        match node:
            case ast.Name(ctx=ast.Load() | ast.Del()):
                if not self._scope.binds(node.id):
                    self.missing.add(node.id)
            case ast.Name():
                self._scope.sure.add(node.id)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                for part in nodes_of_scope([node]):
                    if part is not node and isinstance(part, ast.Name):
                        self._visit(part)
                self._waiting.append((self._scope, node))
                if not isinstance(node, ast.Lambda):
                    self._scope.sure.add(node.name)
            case ast.ClassDef():
                for part in [*node.decorator_list, *node.bases, *node.keywords]:
                    self._visit(part)
                before, self._scope = (
                    self._scope,
                    _BindingScope(self._scope, bound_names(node.body), is_class=True),
                )
                self.visit_statements(node.body)
                self._scope = before
                self._scope.sure.add(node.name)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                self._visit_comprehension(node)
            case ast.Assign():
                self._visit(node.value)
                for target in node.targets:
                    self._visit(target)
            case ast.AugAssign():
                self._visit(node.value)
                if isinstance(node.target, ast.Name) and not self._scope.binds(node.target.id):
                    self.missing.add(node.target.id)
                self._visit(node.target)
            case ast.AnnAssign():
                if node.value is not None:
                    self._visit(node.value)
                    self._visit(node.target)
                self._visit(node.annotation)
            case ast.NamedExpr():
                self._visit(node.value)
                self._visit(node.target)
            case ast.For() | ast.AsyncFor():
                self._visit(node.iter)
                self._visit(node.target)
                self._scope.sure |= bound_names(node.body)
                self.visit_statements(node.body)
                self.visit_statements(node.orelse)
            case ast.While():
                self._scope.sure |= bound_names(node.body)
                self._visit_children(node)
            case ast.alias():
                self._scope.sure.update(names_bound_by(node))
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar() | ast.MatchMapping():
                self._scope.sure.update(names_bound_by(node))
                self._visit_children(node)
            case _:
                self._visit_children(node)

    def _visit_children(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self._visit(child)

    def _visit_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        self._visit(node.generators[0].iter)
        targets = bound_names(generator.target for generator in node.generators)
        scope = _BindingScope(self._scope, targets)
        # The comprehension sees only bindings that may have run so far.
        around, self._scope = self._scope, scope
        scope.outer = _ScopeSnapshot(around)
        for position, generator in enumerate(node.generators):
            if position:
                self._visit(generator.iter)
            self._visit(generator.target)
            for condition in generator.ifs:
                self._visit(condition)
        if isinstance(node, ast.DictComp):
            self._visit(node.key)
            self._visit(node.value)
        else:
            self._visit(node.elt)
        self._scope = around
        around.sure |= {
            inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)
        }


class _ScopeSnapshot(_BindingScope):
    """A copy of the current state of a scope, for a comprehension in the scope."""

    def __init__(self, of: _BindingScope) -> None:
        super().__init__(of.outer, set(of.names) & of.sure if not of.is_class else set())
        self.is_class = of.is_class
