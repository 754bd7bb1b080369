"""A number or truth value made of a tensor, which only decides where the code goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.branches import branches
from fullgraph.fixes.rewrites.checks import checks
from fullgraph.fixes.rewrites.conditions import Conditions, asked_by
from fullgraph.fixes.rewrites.names import descendants, names_bound, walk
from fullgraph.fixes.rewrites.ternaries import ternaries
from fullgraph.fixes.site import Site, Text
from fullgraph_engine.protocol import Finding, Range

_DEPENDING = (cst.If, cst.IfExp, cst.Assert)
_MANY = 8
"""More places that depend on one value are left alone."""


def decisions(site: Site) -> Iterator[Candidate]:
    """``ok = bool(x.all())``: the value stays a tensor, and what depends on it is rewritten."""
    line, function = site.statement, site.function
    if not isinstance(line, cst.SimpleStatementLine) or asked_by(site) is not None:
        return
    small = line.body[0]
    if not isinstance(small, cst.Assign) or not isinstance(function, cst.FunctionDef):
        return
    names = list(names_bound(small))
    value = Conditions(site).value(small.value)
    if len(names) != 1 or not names[0].isidentifier() or value == site.code(small.value):
        return
    text = site.replaced([(small.value, cst.parse_expression(value))])
    gives_up: dict[str, None] = {}
    for _ in range(_MANY):
        finding = _next(text, site.finding, function.name.value, names[0])
        if finding is None:
            break
        here = Site(Text(text), finding)
        made = (one for rewrite in (checks, branches, ternaries) for one in rewrite(here))
        first = next(made, None)
        if first is None:
            return
        text, gives_up[first.gives_up] = first.text, None
    if gives_up and _next(text, site.finding, function.name.value, names[0]) is None:
        yield Candidate(
            "where",
            f"Keep `{names[0]}` a tensor, also where it decides",
            text,
            gives_up=" ".join(filter(None, gives_up)),
        )


def _next(text: str, finding: Finding, function: str, name: str) -> Finding | None:
    """The next condition in a function that a name decides, as if it had broken the graph."""
    parsed = Text(text)
    for node in _nodes(parsed.module, function):
        if not isinstance(node, _DEPENDING):
            continue
        reads = {one.value for one in walk(node.test) if isinstance(one, cst.Name)}
        span = parsed.span(node.test)
        if name in reads and "is_compiling" not in reads and span is not None:
            data = text.encode()
            ends = [len(data[:byte].decode()) for byte in span]
            positions = TextPositions(text)
            range_ = Range(positions.position_at(ends[0]), positions.position_at(ends[1]))
            return replace(finding, range=range_)
    return None


def _nodes(module: cst.Module, function: str) -> Iterator[cst.CSTNode]:
    for node in descendants(module):
        if isinstance(node, cst.FunctionDef) and node.name.value == function:
            yield from descendants(node)
