"""Sizes, strings and tensors made smaller."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .edits import Edit
from .program import Program

_FACTORIES = frozenset({"randn", "rand", "zeros", "empty", "randint", "full", "normal", "arange"})
_SIZES = (1, 2)


def numbers(program: Program) -> Iterator[Sequence[Edit]]:
    """Every number at once, then the same number everywhere, then each by itself."""
    whole: dict[int, list[ast.Constant]] = {}
    parts: list[ast.Constant] = []
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, bool):
                continue
            if isinstance(node.value, int):
                whole.setdefault(node.value, []).append(node)
            elif isinstance(node.value, float):
                parts.append(node)
    for small in _SIZES:
        edits = [
            _all(nodes, small)
            for number, nodes in sorted(whole.items(), reverse=True)
            if number > small
        ]
        yield edits
        for nodes in whole.values():
            if len(nodes) > 1:
                yield [_all([node], small) for node in nodes if node.value != small]
    for number, nodes in sorted(whole.items(), reverse=True):
        for smaller in (4, 8, number // 2):
            if 2 < smaller < number:
                yield (_all(nodes, smaller),)
    yield [Edit({node: ast.Constant(value=1.0)}) for node in parts if node.value not in (0.0, 1.0)]


def _all(nodes: Sequence[ast.Constant], number: int) -> Edit:
    return Edit({node: ast.Constant(value=number) for node in nodes})


def strings(program: Program) -> Iterator[Sequence[Edit]]:
    """Texts made empty; the ones that name something, such as a backend, mostly stay."""
    edits: list[Edit] = []
    inside = {
        value
        for node in ast.walk(program.tree)
        if isinstance(node, ast.JoinedStr)
        for value in node.values
    }
    for node in ast.walk(program.tree):
        match node:
            case ast.JoinedStr():
                edits.append(Edit({node: ast.Constant(value="")}))
            case ast.Constant(value=str(text)) if text and text != "eager" and node not in inside:
                edits.append(Edit({node: ast.Constant(value="")}))
    yield edits


def tensors(program: Program) -> Iterator[Sequence[Edit]]:
    """Tensors of any contents as tensors of ones, and in fewer dimensions."""
    simpler: list[Edit] = []
    flat: list[Edit] = []
    for node in ast.walk(program.tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch") as torch, attr=name)):
                if name in _FACTORIES:
                    size = _size(name, node.args)
                    ones = ast.Attribute(value=torch, attr="ones", ctx=ast.Load())
                    if size is not None:
                        simpler.append(
                            Edit({node: ast.Call(func=ones, args=size, keywords=node.keywords)})
                        )
                if name in _FACTORIES | {"ones"} and (len(node.args) > 1 or node.keywords):
                    ones = ast.Attribute(value=torch, attr="ones", ctx=ast.Load())
                    one = ast.Call(func=ones, args=[ast.Constant(value=1)], keywords=[])
                    flat.append(Edit({node: one}))
    yield flat
    yield simpler


def _size(name: str, args: list[ast.expr]) -> list[ast.expr] | None:
    if name == "randint":
        return args[-1:] if len(args) > 1 else None
    if name == "full":
        return args[:1]
    return list(args)
