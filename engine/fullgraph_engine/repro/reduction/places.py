"""Where things are in a tree: parents, scopes, and which reads an assignment reaches."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Union

from .unbound import parameters

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

BODIES = ("body", "orelse", "finalbody")


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements directly in a node."""
    for name in BODIES:
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for name in ("handlers", "cases"):
        for part in getattr(node, name, ()):
            yield part.body


def by_depth(tree: ast.Module) -> list[list[ast.stmt]]:
    """The statements of each depth, in the order of the text."""
    levels: list[list[ast.stmt]] = []
    level = list(tree.body)
    while level:
        levels.append(level)
        level = [inner for outer in level for block in blocks(outer) for inner in block]
    return levels


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes, outer ones first, in the order in which they are evaluated, roughly."""
    yield node
    match node:
        case ast.Assign():
            yield from walk(node.value)
            for target in node.targets:
                yield from walk(target)
        case ast.AugAssign():
            yield from walk(node.value)
            yield from walk(node.target)
        case ast.AnnAssign() if node.value is not None:
            yield from walk(node.value)
            yield from walk(node.target)
            yield from walk(node.annotation)
        case ast.For() | ast.AsyncFor():
            yield from walk(node.iter)
            yield from walk(node.target)
            for statement in (*node.body, *node.orelse):
                yield from walk(statement)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            for generator in node.generators:
                yield from walk(generator)
            yield from walk(node.elt)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from walk(child)


@dataclass
class Places:
    """``parents`` of all nodes; ``scopes``: the function or module around each."""

    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    scopes: dict[ast.AST, ast.AST] = field(default_factory=dict)
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)
    _names: dict[tuple[ast.AST, str], list[ast.Name]] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: ast.Module) -> Places:
        made = cls(tree)
        made._enter(tree, tree)
        return made

    def _enter(self, node: ast.AST, scope: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.expr_context, ast.operator)):
                self.parents[child] = node
                self.scopes[child] = scope
            if isinstance(child, DEFINITIONS):
                self.defined[child.name] = child
            if isinstance(child, ast.alias):
                self.imported.add(child.asname or child.name.partition(".")[0])
            self._enter(child, child if isinstance(child, FUNCTIONS) else scope)

    def names(self, scope: ast.AST, name: str) -> list[ast.Name]:
        """All uses of a name in a scope and those within it, in the order of evaluation."""
        if (scope, "") not in self._names:
            self._names[scope, ""] = []
            for node in walk(scope):
                if isinstance(node, ast.Name):
                    self._names.setdefault((scope, node.id), []).append(node)
        return self._names.get((scope, name), [])

    def reached(self, target: ast.Name) -> list[ast.Name]:
        """The reads that see what is bound here, taking the text as the order of execution."""
        scope = self.scopes[target]
        uses = self.names(scope, target.id)
        if target not in uses:
            return []
        statement = self.statement(target)
        found: list[ast.Name] = []
        for use in uses[uses.index(target) + 1 :]:
            if isinstance(use.ctx, ast.Load):
                found.append(use)
            elif isinstance(self.parents[use], ast.AugAssign) and self.parents[use] != statement:
                return found
            elif self.scopes[use] is scope:
                break
        return found

    def bound_before(self, target: ast.Name) -> bool:
        """Whether the name has a value already when this binds it."""
        scope = self.scopes[target]
        if isinstance(scope, FUNCTIONS) and any(
            argument.arg == target.id for argument in parameters(scope.args)
        ):
            return True
        for use in self.names(scope, target.id):
            if use is target:
                return False
            if isinstance(use.ctx, ast.Store):
                return True
        return False

    def statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def is_value(self, node: ast.AST) -> bool:
        """Whether this reads a variable that stands for a value: no module, function or class."""
        return (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and node.id not in self.imported
            and node.id not in self.defined
            and node.id not in ("self", "cls")
            and not (isinstance(self.parents.get(node), ast.Call) and self._called(node))
            and (self._local(node) or bool(self._stored_globally(node.id)))
        )

    def _called(self, node: ast.AST) -> bool:
        parent = self.parents[node]
        return isinstance(parent, ast.Call) and parent.func is node

    def _local(self, node: ast.Name) -> bool:
        scope = self.scopes[node]
        while isinstance(scope, FUNCTIONS):
            if any(argument.arg == node.id for argument in parameters(scope.args)):
                return True
            if any(isinstance(use.ctx, ast.Store) for use in self.names(scope, node.id)):
                return True
            scope = self.scopes[scope]
        return False

    def _stored_globally(self, name: str) -> Sequence[ast.Name]:
        return [use for use in self.names(self.tree, name) if isinstance(use.ctx, ast.Store)]

    def value_in(self, node: ast.AST) -> ast.Name | None:
        """The first variable read in an expression."""
        for inner in walk(node):
            if self.is_value(inner):
                assert isinstance(inner, ast.Name)
                return inner
        return None
