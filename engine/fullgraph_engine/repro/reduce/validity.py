"""Checks for candidate programs that need not run: endless loops and names without a binding."""

from __future__ import annotations

import ast
import builtins

from ...scopes import bound_names, nodes_of_scope, uses

_LEAVING = (ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await)


def has_endless_loop(tree: ast.Module) -> bool:
    """Whether the text of any ``while`` loop shows that the loop never ends."""
    return any(isinstance(node, ast.While) and _never_ends(node) for node in ast.walk(tree))


def _never_ends(loop: ast.While) -> bool:
    """Whether a loop certainly never ends: nothing leaves it, and nothing in it changes its
    condition.

    A ``while True`` loop with a call does not count, because the call may end the process. Loops
    whose condition contains a call, an attribute or a subscript do not count either.
    """
    inside = list(nodes_of_scope(loop.body))
    if any(isinstance(node, _LEAVING) for node in inside):
        return False
    if isinstance(loop.test, ast.Constant):
        return bool(loop.test.value) and not any(isinstance(node, ast.Call) for node in inside)
    if any(isinstance(node, (ast.Call, ast.Attribute, ast.Subscript, ast.NamedExpr))
           for node in ast.walk(loop.test)):  # fmt: skip
        return False
    read = {node.id for node in ast.walk(loop.test) if isinstance(node, ast.Name)}
    written = {
        node.id
        for node in inside
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    return not read & written and bool(read)


_BUILT_IN = frozenset(dir(builtins)) | {"__file__", "__name__", "__class__"}


def find_unbound_names(tree: ast.Module) -> frozenset[str]:
    """Return the names read before any binding; empty if a star import hides bindings."""
    if any(isinstance(node, ast.alias) and node.name == "*" for node in ast.walk(tree)):
        return frozenset()
    so_far = set(_BUILT_IN)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            so_far.update(node.names)  # functions may bind these at any time
    at_the_end = so_far | bound_names(tree.body)
    missing: set[str] = set()
    for statement in tree.body:
        own = bound_names([statement])
        if not isinstance(statement, ast.Assign):
            so_far |= own
        missing |= {
            use.node.id
            for use in uses(statement)
            if isinstance(use.node.ctx, ast.Load)
            and use.node.id not in (so_far if use.eager else at_the_end)
        }
        so_far |= own
    return frozenset(missing)
