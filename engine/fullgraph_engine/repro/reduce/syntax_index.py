"""An index of a syntax tree: parents, scopes, and the reads that see an assigned value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Union

from ...scopes import parameters

Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

BODIES = ("body", "orelse", "finalbody")


def blocks_of(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements directly in a node, such as ``body`` and ``orelse``."""
    for name in BODIES:
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for name in ("handlers", "cases"):
        for part in getattr(node, name, ()):
            yield part.body


def blocks_by_depth(tree: ast.Module) -> list[list[list[ast.stmt]]]:
    """Return the blocks of statements at each depth of nesting, in the order of the text."""
    levels: list[list[list[ast.stmt]]] = []
    level = [tree.body] if tree.body else []
    while level:
        levels.append(level)
        level = [block for outer in level for part in outer for block in blocks_of(part) if block]
    return levels


def walk_evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes in it, outer ones first, roughly in the order of evaluation."""
    yield node
    match node:
        case ast.Assign():
            yield from walk_evaluated(node.value)
            for target in node.targets:
                yield from walk_evaluated(target)
        case ast.AugAssign():
            yield from walk_evaluated(node.value)
            yield from walk_evaluated(node.target)
        case ast.AnnAssign() if node.value is not None:
            yield from walk_evaluated(node.value)
            yield from walk_evaluated(node.target)
            yield from walk_evaluated(node.annotation)
        case ast.For() | ast.AsyncFor():
            yield from walk_evaluated(node.iter)
            yield from walk_evaluated(node.target)
            for statement in (*node.body, *node.orelse):
                yield from walk_evaluated(statement)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            for generator in node.generators:
                yield from walk_evaluated(generator)
            yield from walk_evaluated(node.elt)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from walk_evaluated(child)


@dataclass
class SyntaxIndex:
    """An index of the parent and the enclosing function or module of every node."""

    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    scopes: dict[ast.AST, ast.AST] = field(default_factory=dict)
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    imported: set[str] = field(default_factory=set)
    _own: dict[ast.AST, set[str]] = field(default_factory=dict)
    _uses: dict[tuple[ast.AST, str], list[ast.Name]] = field(default_factory=dict)

    @classmethod
    def from_tree(cls, tree: ast.Module) -> SyntaxIndex:
        made = cls(tree)
        made._own[tree] = set()
        made._index_children(tree, tree)
        for node in walk_evaluated(tree):
            if isinstance(node, ast.Name):
                made._uses.setdefault((made.home_scope(node), node.id), []).append(node)
        return made

    def _index_children(self, node: ast.AST, scope: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.expr_context, ast.operator)):
                continue
            self.parents[child] = node
            self.scopes[child] = scope
            inner = scope
            match child:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.defined[child.name] = child
                    inner = child
                    self._own[child] = {argument.arg for argument in parameters(child.args)}
                case ast.ClassDef():
                    self.defined[child.name] = child
                case ast.alias():
                    self.imported.add(child.asname or child.name.partition(".")[0])
                case ast.Name(ctx=ast.Store()):
                    self._own[scope].add(child.id)
            self._index_children(child, inner)

    def home_scope(self, node: ast.Name) -> ast.AST:
        """Return the function or module that owns a variable."""
        scope = self.scopes[node]
        while node.id not in self._own[scope] and scope is not self.tree:
            scope = self.scopes[scope]
        return scope

    def uses(self, node: ast.Name) -> list[ast.Name]:
        """Return all reads and assignments of the variable of ``node``, in the order of
        evaluation.
        """
        return self._uses[self.home_scope(node), node.id]

    def uses_in(self, scope: ast.AST, name: str) -> list[ast.Name]:
        """Return all reads and assignments of the variable ``name`` of a function or module."""
        return self._uses.get((scope, name), [])

    def names_in(self, scope: ast.AST) -> set[str]:
        """Return the names of the variables of a function or of the module."""
        return self._own[scope]

    def reads_of_binding(self, target: ast.Name) -> list[ast.Name]:
        """Return the reads that may see the value which this assignment gives to a variable.

        Execution is assumed to follow the order of the text.
        """
        uses = self.uses(target)
        stores = [use for use in uses if not isinstance(use.ctx, ast.Load)]
        if len(stores) == 1 and not self.is_parameter(target):
            return [use for use in uses if use is not target]
        found: list[ast.Name] = []
        for use in uses[uses.index(target) + 1 :]:
            if not isinstance(use.ctx, ast.Load):
                break
            found.append(use)
        return found

    def is_parameter(self, node: ast.Name) -> bool:
        home = self.home_scope(node)
        return isinstance(home, FUNCTIONS) and any(
            argument.arg == node.id for argument in parameters(home.args)
        )

    def bound_before(self, target: ast.Name) -> bool:
        """Whether a variable already has a value before the assignment to ``target``."""
        if self.is_parameter(target):
            return True
        for use in self.uses(target):
            if use is target:
                return False
            if isinstance(use.ctx, ast.Store):
                return True
        return False

    def statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class around a node, or None."""
        inner: ast.AST | None = self.parents.get(node)
        while inner is not None and not isinstance(inner, ast.ClassDef):
            inner = self.parents.get(inner)
        return inner

    def is_value(self, node: ast.AST) -> bool:
        """Whether a node reads a variable other than a module, function or class."""
        return (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and node.id not in self.imported
            and node.id not in self.defined
            and node.id not in ("self", "cls")
            and not self._is_called(node)
            and node.id in self._own[self.home_scope(node)]
        )

    def _is_called(self, node: ast.AST) -> bool:
        parent = self.parents[node]
        return isinstance(parent, ast.Call) and parent.func is node

    def value_in(self, node: ast.AST) -> ast.Name | None:
        """Return the first variable that an expression reads, or None."""
        for inner in walk_evaluated(node):
            if self.is_value(inner):
                assert isinstance(inner, ast.Name)
                return inner
        return None
