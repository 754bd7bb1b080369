"""Edits of a syntax tree that can be combined.

An edit replaces nodes of one tree. Its replacements may contain nodes of the same tree, to which
the other edits are applied. For example, if one edit replaces ``c`` by ``b`` and another replaces
this ``b`` by ``a``, both together replace ``c`` by ``a``. The original tree is not modified.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

Replacement = Union[ast.AST, tuple[ast.AST, ...], None]
"""Replacement of a node: another node, several nodes in a list, or None to remove the node."""


@dataclass(frozen=True, eq=False)
class TreeEdit:
    """A change to a syntax tree: replacements of some nodes.

    Changes are compared by identity.
    """

    changes: Mapping[ast.AST, Replacement]


class Conflict(Exception):
    """Raised if two edits replace the same node by different nodes."""


class Incomplete(Exception):
    """Raised if an edit removes a node that its parent requires."""


def apply_edits(tree: ast.Module, edits: Iterable[TreeEdit]) -> ast.Module:
    """Return a new tree with all edits applied.

    Raises Conflict if edits disagree, Incomplete if a required node is removed, or RecursionError.
    """
    changes: dict[ast.AST, Replacement] = {}
    for edit in edits:
        for node, replacement in edit.changes.items():
            if changes.setdefault(node, replacement) is not replacement:
                raise Conflict
    return ast.fix_missing_locations(_Rebuild(changes).rebuild_module(tree))


class _Rebuild:
    def __init__(self, changes: Mapping[ast.AST, Replacement]) -> None:
        self._changes = changes
        self._under_way: set[ast.AST] = set()

    def rebuild_module(self, tree: ast.Module) -> ast.Module:
        made = ast.Module(body=list(self._rebuild_each(tree.body)), type_ignores=[])
        if len(made.body) > 1:
            made.body = [part for part in made.body if not isinstance(part, ast.Pass)]
        return made

    def _rebuild_each(self, nodes: Iterable[Any]) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.AST):
                yield from self._rebuild_in_list(node)
            else:
                yield node

    def _rebuild_in_list(self, node: ast.AST) -> Sequence[ast.AST]:
        """Return the edited nodes that replace one node in a list of nodes; empty if it is
        removed.
        """
        if node not in self._changes or node in self._under_way:
            made = self._copy_node(node)
            return () if made is None else made if isinstance(made, tuple) else (made,)
        replacement = self._changes[node]
        if replacement is None:
            return ()
        self._under_way.add(node)
        try:
            parts = replacement if isinstance(replacement, tuple) else (replacement,)
            return tuple(self._rebuild_each(parts))
        finally:
            self._under_way.discard(node)

    def _rebuild_one(self, node: ast.AST) -> ast.AST | None:
        made = self._rebuild_in_list(node)
        if len(made) > 1:
            raise Incomplete
        return made[0] if made else None

    def _copy_node(self, node: ast.AST) -> Replacement:
        if isinstance(node, ast.arguments):
            return self._copy_arguments(node)
        if isinstance(node, ast.Dict):
            return self._copy_dict(node)
        if isinstance(node, (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)):
            return node
        fields: dict[str, Any] = {}
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                fields[name] = list(self._rebuild_each(value))
            elif isinstance(value, ast.AST):
                fields[name] = self._rebuild_one(value)
            else:
                fields[name] = value
        if isinstance(node, ast.Compare):
            kept = [n for n in node.comparators if not self._is_removed(n)]
            fields["ops"] = [
                o for n, o in zip(node.comparators, node.ops, strict=True) if n in kept
            ]
        return _normalize_node(type(node)(**fields))

    def _is_removed(self, node: ast.AST) -> bool:
        return node in self._changes and self._changes[node] is None

    def _copy_arguments(self, node: ast.arguments) -> ast.arguments:
        positional = [*node.posonlyargs, *node.args]
        defaults = [None] * (len(positional) - len(node.defaults)) + list(node.defaults)
        made = ast.arguments(
            posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None,
            defaults=[],
        )  # fmt: skip
        for argument, default in zip(positional, defaults, strict=True):
            new = self._rebuild_one(argument)
            if not isinstance(new, ast.arg):
                continue
            (made.posonlyargs if argument in node.posonlyargs else made.args).append(new)
            value = self._rebuild_one(default) if default is not None else None
            if isinstance(value, ast.expr):
                made.defaults.append(value)
            elif made.defaults:
                raise Incomplete  # a parameter without a default would follow a parameter with one
        for argument, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
            new = self._rebuild_one(argument)
            if isinstance(new, ast.arg):
                made.kwonlyargs.append(new)
                value = self._rebuild_one(default) if default is not None else None
                made.kw_defaults.append(value if isinstance(value, ast.expr) else None)
        for name in ("vararg", "kwarg"):
            argument = getattr(node, name)
            setattr(made, name, None if argument is None else self._rebuild_one(argument))
        return made

    def _copy_dict(self, node: ast.Dict) -> ast.Dict:
        made = ast.Dict(keys=[], values=[])
        for key, value in zip(node.keys, node.values, strict=True):
            new = self._rebuild_one(value)
            new_key = None if key is None else self._rebuild_one(key)
            if isinstance(new, ast.expr) and (key is None or isinstance(new_key, ast.expr)):
                made.values.append(new)
                made.keys.append(new_key if isinstance(new_key, ast.expr) else None)
        return made


def _normalize_node(node: Any) -> Replacement:
    """Return an edited node; if removed children made it invalid, return a valid replacement.

    For example, an empty block gets a ``pass``.
    """
    match node:
        case ast.Try() if not node.handlers and not node.finalbody:
            return (*node.body, *node.orelse)
        case ast.Delete() if not node.targets:
            return None
        case ast.Match() if not node.cases:
            return None
        case ast.Assign() if node.value is None:
            return None
        case ast.Assign() if not node.targets:
            return ast.Expr(value=node.value)
        case ast.AnnAssign() if node.annotation is None:
            if node.value is None:
                return None
            return ast.Assign(targets=[node.target], value=node.value)
        case ast.Expr() if node.value is None:
            return None
        case ast.BoolOp() if len(node.values) == 1:
            return _require_node(node.values[0])
        case ast.Compare() if not node.comparators:
            return _require_node(node.left)
        case ast.JoinedStr() if not node.values:
            return ast.Constant(value="")
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)) and not node.names:
        return None
    body = getattr(node, "body", None)
    if isinstance(node, (ast.With, ast.AsyncWith)) and not node.items:
        return tuple(node.body)
    if isinstance(body, list):
        node.body = _fill_body(body)
    for name in ("orelse", "finalbody"):
        if isinstance(getattr(node, name, None), list):
            setattr(node, name, _fill_body(getattr(node, name), optional=True))
    return _require_node(node)


def _fill_body(body: list[Any], optional: bool = False) -> list[Any]:
    kept = [part for part in body if not isinstance(part, ast.Pass)]
    return kept if kept or optional else [ast.Pass()]


def _require_node(node: Any) -> ast.AST:
    if not isinstance(node, ast.AST):
        raise Incomplete
    return node
