"""Rewrites of functions that return numbers read from tensors: they return the tensors, and their
callers read the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.compile_sites import compiled_calls
from fullgraph.fixes.rewrites.names import code_of, find_all
from fullgraph.fixes.rewrites.syntax import Syntax
from fullgraph.fixes.site import Change, Site
from fullgraph_engine.protocol.evidence import BreakEvidence

_READ = m.Call(func=m.Attribute(attr=m.Name("item")), args=[])


@dataclass(frozen=True)
class _Returned:
    """A number in the value that a function returns, which the function reads from a tensor.

    ``path`` leads to it: indices of tuples, and source code of keys of dictionaries.
    """

    read: cst.Call
    path: tuple[int | str, ...]


def returned_numbers(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite of ``return {"loss": loss.item()}``: the function returns the tensor, and the
    calls of the function in the file read the number.
    """
    syntax, function = Syntax(site), site.function
    if not isinstance(site.finding.evidence, BreakEvidence):
        return
    if not isinstance(function, cst.FunctionDef):
        return
    found = list(_find_numbers(function))
    calls = [one.node for one in compiled_calls(syntax, function.name.value)]
    here = {id(one) for one in syntax.here}
    if not calls or not any(id(one.read) in here for one in found):
        return
    changes: list[tuple[cst.CSTNode, Change]] = []
    for one in found:
        tensor = cst.ensure_type(one.read.func, cst.Attribute).value
        changes.append((one.read, cst.parse_expression(f"{syntax.operand(tensor)}.detach()")))
    for call in calls:
        read = _reading(syntax, call, [one.path for one in dict.fromkeys(found)])
        if read is None:
            return
        changes += read
    yield Candidate(
        "tensors-returned",
        "Return tensors, and read them with `.item()` in the caller",
        site.replaced(changes),
        gives_up=f"`{function.name.value}` returns tensors: callers in other files have to read "
        "them with `.item()`.",
        loses=("result", "aliasing", "warning"),
        returns_tensors=True,
    )


def _find_numbers(function: cst.FunctionDef) -> Iterator[_Returned]:
    """Yield each number that a ``return`` statement of the function reads from a tensor."""
    for one in find_all(function.body, cst.Return):
        if one.value is not None:
            yield from _in_value(one.value, ())


def _in_value(value: cst.BaseExpression, path: tuple[int | str, ...]) -> Iterator[_Returned]:
    if isinstance(value, cst.Call) and m.matches(value, _READ):
        yield _Returned(value, path)
    elif isinstance(value, cst.Tuple):
        for number, element in enumerate(value.elements):
            yield from _in_value(element.value, (*path, number))
    elif isinstance(value, cst.Dict):
        for entry in value.elements:
            if isinstance(entry, cst.DictElement):
                yield from _in_value(entry.value, (*path, code_of(entry.key)))


def _reading(
    syntax: Syntax, call: cst.Call, paths: Sequence[tuple[int | str, ...]]
) -> list[tuple[cst.CSTNode, Change]] | None:
    """Return the changes that add ``.item()`` to the numbers in a result, after a call of the
    function.

    ``paths`` lead to the numbers in the result. None if the call is not in an assignment that gives
    each number a place, such as a variable.
    """
    paths = list(dict.fromkeys(paths))
    if paths == [()]:
        return [(call, cst.parse_expression(f"{code_of(call)}.item()"))]
    assign = syntax.text.parent(call)
    line = syntax.text.parent(assign) if assign is not None else None
    if isinstance(assign, cst.Expr):
        return []  # the caller does not use the result
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return None
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    new: list[cst.BaseStatement] = []
    for path in paths:
        place = _place(assign.targets[0].target, path)
        if place is None:
            return None
        new.append(cst.parse_statement(f"{place} = {place}.item()"))
    return [(line, cst.FlattenSentinel([line, *new]))]


def _place(target: cst.BaseExpression, path: tuple[int | str, ...]) -> str | None:
    """Return the code that accesses a number in a result, such as ``losses["total"]`` after
    ``losses = f(x)``.

    ``target`` is the assignment target. None if the number is in a tuple, which cannot be changed.
    """
    while path and isinstance(target, cst.Tuple) and isinstance(path[0], int):
        target, path = target.elements[path[0]].value, path[1:]
    if not isinstance(target, cst.Name) or any(isinstance(part, int) for part in path):
        return None
    return target.value + "".join(f"[{part}]" for part in path)
