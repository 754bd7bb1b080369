"""Names that source binds in its scope, and names that it takes from outside."""

from __future__ import annotations

import ast

import pytest

from fullgraph_engine.host import syntax
from fullgraph_engine.scopes import bound_names, free_names, nodes_of_scope


@pytest.mark.parametrize(
    ("code", "bound"),
    [
        ("a, (b, *c) = d", "a b c"),
        ("a: int", "a"),
        ("a.b = c[0] = 1", ""),
        ("import a.b, c.d as e", "a e"),
        ("from a import b as c, d", "c d"),
        ("from a import *", ""),
        ("for a in b:\n    c = 1\nelse:\n    d = 1", "a c d"),
        ("with a as b, c as (d, e): pass", "b d e"),
        ("try: a = 1\nexcept E as b: c = 1", "a b c"),
        ("match a:\n    case [b, *c, {'k': d, **e}] as f: pass", "b c d e f"),
        ("del a", "a"),
        ("[a for a in (b := c)]", "b"),
        ("[(a := b) for c in d]", "a"),
        ("lambda a=(b := 1): (c := 2)", "b"),
        ("def f(a, b=(c := 1)) -> (d := 2):\n    e = 1", "f c d"),
        ("@(a := g)\nclass C((b := B), metaclass=(c := M)):\n    d = 1", "C a b c"),
        ("global a\na = b = 1", "b"),
    ],
)
def test_names_bound_in_the_own_scope(code: str, bound: str) -> None:
    assert bound_names(ast.parse(code).body) == set(bound.split())


@pytest.mark.parametrize(
    ("code", "free"),
    [
        ("a = b + b", "b"),
        ("def f(a, b=c):\n    return a + b + d", "c d"),
        ("def f():\n    a = 1\n    def g():\n        return a + b\n    return g", "b"),
        ("def f():\n    global a\n    a = 1\n    return a", "a"),
        ("class C:\n    a = b\n    def f(self):\n        return a", "a b"),
        ("[a + c for a in b if a]", "b c"),
        ("lambda a: a + b", "b"),
    ],
)
def test_names_taken_from_outside(code: str, free: str) -> None:
    assert free_names(ast.parse(code).body[0]) == set(free.split())


def test_ignored_imports_do_not_bind() -> None:
    (statement,) = ast.parse("import a").body
    assert bound_names([statement], {id(statement)}) == set()


def test_bodies_of_functions_and_classes_are_other_scopes() -> None:
    tree = ast.parse("def f():\n    return 1\n\nclass C:\n    x = 2\n")
    assert not [node for node in nodes_of_scope(tree.body) if isinstance(node, ast.Constant)]


def test_names_that_a_statement_leaves_with_a_value() -> None:
    (statement,) = ast.parse("try:\n    b = [x for x in a]\n    del c\nexcept E as e: d = 1").body
    assert syntax.bound_names(statement) == ["b", "d"]
