"""Loops of which the text alone says that they do not end: not worth a run until the time is up."""

from __future__ import annotations

import ast

from ...scopes import nodes_of_scope

_LEAVING = (ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await)


def has_endless_loop(tree: ast.Module) -> bool:
    """Whether the text of any ``while`` loop shows that it does not end."""
    return any(isinstance(node, ast.While) and _never_ends(node) for node in ast.walk(tree))


def _never_ends(loop: ast.While) -> bool:
    """Nothing leaves the loop, and nothing in it can change its condition.

    A call may end everything, so a loop for ever is taken for one only if it does nothing at all;
    one whose condition calls something is not judged.
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
