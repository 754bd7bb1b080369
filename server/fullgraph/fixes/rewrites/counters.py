"""Attributes that a call reads and changes, so that the next call recompiles."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.syntax import Syntax
from fullgraph.fixes.site import Change, Site
from fullgraph_engine.protocol.evidence import GuardEvidence

_ATTRIBUTE = re.compile(r"^L\['self'\]\.(?P<name>\w+)$")


def counters(site: Site) -> Iterator[Candidate]:
    """Count only when not compiling, where nothing else reads it; else count in a tensor."""
    evidence = site.finding.evidence
    found = _ATTRIBUTE.match(evidence.source) if isinstance(evidence, GuardEvidence) else None
    syntax = Syntax(site)
    small, function = syntax.statement, site.function
    if found is None or small is None or not isinstance(function, cst.FunctionDef):
        return
    name = found["name"]
    attribute = m.Attribute(value=m.Name("self"), attr=m.Name(name))
    if len(m.findall(function, attribute)) == len(m.findall(small.node, attribute)):
        yield Candidate(
            "not-when-compiling",
            f"Change `self.{name}` only when not compiling",
            syntax.guarded([small.node]),
            gives_up=f"The compiled code does not change `self.{name}`.",
        )
    yield from _in_a_tensor(site, name)


def _in_a_tensor(site: Site, name: str) -> Iterator[Candidate]:
    """``self.step = 0`` in the constructor becomes a buffer."""
    of_class = site.enclosing((cst.ClassDef,))
    if of_class is None:
        return
    initial = m.Assign(
        targets=[m.AssignTarget(m.Attribute(value=m.Name("self"), attr=m.Name(name)))],
        value=m.OneOf(m.Integer(), m.Float()),
    )
    constructor = m.FunctionDef(name=m.Name("__init__"))
    changes: list[tuple[cst.CSTNode, Change]] = []
    for one in m.findall(of_class, constructor):
        for assign in m.findall(one, initial):
            number = site.code(cst.ensure_type(assign, cst.Assign).value)
            call = f'self.register_buffer("{name}", torch.tensor({number}))'
            changes.append((assign, cst.Expr(cst.parse_expression(call))))
    if len(changes) == 1:
        yield Candidate(
            "counter-in-a-tensor",
            f"Make a buffer of `self.{name}`",
            site.replaced(changes, imports=["torch"]),
            gives_up=f"`self.{name}` is a tensor then, and a part of the state of the module.",
            suggestion=True,
        )
