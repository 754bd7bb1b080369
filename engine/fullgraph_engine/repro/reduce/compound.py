"""Passes of the reducer that replace compound statements by statements inside them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .edits import Replacement, TreeEdit
from .program import ParsedProgram


def unwrap_blocks(program: ParsedProgram) -> Iterator[Sequence[TreeEdit]]:
    """Propose edits that replace compound statements by a block in them, such as the body of an
    ``if``.

    The first group of edits replaces all by their first block; other blocks are tried later.
    """
    first: list[TreeEdit] = []
    others: list[TreeEdit] = []
    for node in ast.walk(program.tree):
        choices = list(_block_choices(node))
        first.extend(TreeEdit({node: choice}) for choice in choices[:1])
        others.extend(TreeEdit({node: choice}) for choice in choices[1:])
    yield first
    for edit in others:
        yield (edit,)
    items = (_only_item(node) for node in ast.walk(program.tree))
    yield [item for item in items if item is not None]


def _only_item(node: ast.AST) -> TreeEdit | None:
    """Return an edit that replaces a comprehension by a list of its first item; None for other
    nodes.
    """
    match node:
        case ast.ListComp(elt=elt, generators=[ast.comprehension(target=ast.Name() as target)]):
            changes: dict[ast.AST, Replacement] = {
                node: ast.List(elts=[elt], ctx=ast.Load()),
            }
            uses = [
                use for use in ast.walk(elt) if isinstance(use, ast.Name) and use.id == target.id
            ]
            first = next(_first_items(node.generators[0].iter), None)
            if uses and first is None:
                return None
            if first is not None:
                changes.update((use, first) for use in uses)
            return TreeEdit(changes)
        case ast.Subscript(value=ast.List(elts=elts) | ast.Tuple(elts=elts)):
            match node.slice:
                case ast.Constant(value=int(index)) if 0 <= index < len(elts):
                    return TreeEdit({node: elts[index]})
    return None


def _block_choices(node: ast.AST) -> Iterator[Replacement]:
    match node:
        case ast.If():
            yield tuple(node.body)
            if node.orelse:
                yield tuple(node.orelse)
                alone = ast.If(test=node.test, body=node.body, orelse=[])
                yield alone
        case ast.For():
            yield tuple(node.body)
            for first in _first_items(node.iter):
                yield (ast.Assign(targets=[node.target], value=first), *node.body)
        case ast.While() | ast.With() | ast.AsyncWith():
            yield tuple(node.body)
        case ast.Try():
            yield (*node.body, *node.orelse, *node.finalbody)
            for handler in node.handlers:
                yield tuple(handler.body)
            if node.finalbody and node.handlers:
                yield ast.Try(
                    body=node.body, handlers=node.handlers, orelse=node.orelse, finalbody=[]
                )
        case ast.Match():
            for case in node.cases:
                yield tuple(case.body)
        case ast.With(items=[_, _, *_]):
            for item in node.items:
                yield ast.With(items=[item], body=node.body)


def _first_items(iterable: ast.expr) -> Iterator[ast.expr]:
    """Yield expressions for the first item of the iterable of a loop."""
    match iterable:
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
            yield first
        case ast.Call(func=ast.Name(id="range"), args=[start, _, *_]):
            yield start
        case ast.Call(func=ast.Name(id="range")):
            yield ast.Constant(value=0)
        case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]):
            for first in _first_items(inner):
                yield ast.Tuple(elts=[ast.Constant(value=0), first], ctx=ast.Load())
        case ast.Call(func=ast.Name(id="zip" | "reversed"), args=[_, *_] as inners):
            firsts = [next(_first_items(inner), None) for inner in inners]
            known = [first for first in firsts if first is not None]
            if len(known) == len(firsts):
                yield ast.Tuple(elts=known, ctx=ast.Load()) if len(known) > 1 else known[0]
        case ast.Name() | ast.Attribute():
            yield ast.Subscript(value=iterable, slice=ast.Constant(value=0), ctx=ast.Load())
        case ast.Call(func=ast.Attribute(value=inner, attr="items")):
            everything = ast.Call(
                func=ast.Name(id="list", ctx=ast.Load()), args=[iterable], keywords=[]
            )
            yield ast.Subscript(value=everything, slice=ast.Constant(value=0), ctx=ast.Load())
