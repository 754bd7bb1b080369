"""Static detection of endless loops, so that programs do not run until their time limit."""

from __future__ import annotations

import ast

from ...scopes import nodes_of_scope

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
