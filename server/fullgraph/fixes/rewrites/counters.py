"""Rewrites of attributes that each call reads and changes, so that the next call recompiles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.branches import eager_only
from fullgraph.fixes.rewrites.conditions import operand
from fullgraph.fixes.rewrites.names import find_all
from fullgraph.fixes.rewrites.syntax import Syntax
from fullgraph.fixes.site import Change, Site
from fullgraph_engine.protocol.evidence import (
    ForecastEvidence,
    GuardEvidence,
    RecompileEvidence,
    SpecializationEvidence,
)

_ATTRIBUTE = re.compile(r"^L\['self'\]\.(?P<name>\w+)$")


_CHANGING = ("append", "extend", "add", "update", "insert", "setdefault")
"""Methods that change their container."""


def counters(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of a counter that each call changes, so that calls do not recompile.

    If nothing else reads it, compiled code skips it; else the count is kept in a tensor.
    """
    evidence = site.finding.evidence
    syntax = Syntax(site)
    small, function = syntax.statement, site.function
    of_size = isinstance(evidence, (SpecializationEvidence, ForecastEvidence))
    of_guard = isinstance(evidence, (GuardEvidence, RecompileEvidence))
    if not (of_guard or of_size) or small is None:
        return
    changed = _changed_place(small.node)
    if of_size and not isinstance(changed, cst.Attribute):
        return
    if changed is None or not isinstance(function, cst.FunctionDef):
        return
    words = site.code(changed)
    yield from _first_time(site, function, changed)
    is_unread = _count_mentions(function.body, changed) == _count_mentions(small.node, changed)
    if is_unread and not _is_read_elsewhere(site.module, small.node, changed):
        yield Candidate(
            "not-when-compiling",
            f"Change `{words}` only when not compiling",
            syntax.guarded([small.node]),
            gives_up=f"The compiled code does not change `{words}`.",
            is_same_eagerly=True,
        )
    source = evidence.source if isinstance(evidence, GuardEvidence) else ""
    found = _ATTRIBUTE.match(source)
    if found is not None:
        yield from _in_a_tensor(site, found["name"])


def _changed_place(node: cst.BaseSmallStatement) -> cst.BaseExpression | None:
    """Return the code whose value a statement changes: an assignment target, or the container of a
    method call.

    None for other statements.
    """
    if isinstance(node, cst.AugAssign):
        return node.target
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        return node.targets[0].target
    call = node.value if isinstance(node, cst.Expr) else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
        return call.func.value if call.func.attr.value in _CHANGING else None
    return None


def _count_mentions(node: cst.CSTNode, expression: cst.BaseExpression) -> int:
    """Return how often ``expression`` occurs in ``node``, not counting ``global`` statements."""

    def is_it(one: Any) -> bool:
        return isinstance(one, cst.CSTNode) and one.deep_equals(expression)

    declared = m.findall(node, m.NameItem(name=m.MatchIfTrue(is_it)))
    return len(m.findall(node, m.MatchIfTrue(is_it))) - len(declared)


def _is_read_elsewhere(
    module: cst.Module, statement: cst.BaseSmallStatement, changed: cst.BaseExpression
) -> bool:
    """Whether the module reads an attribute outside of ``statement``, which changes it."""
    if not isinstance(changed, cst.Attribute):
        return False
    same = m.Attribute(attr=m.Name(changed.attr.value))
    assigned = m.findall(module, m.AssignTarget(same))
    targets = [cst.ensure_type(one, cst.AssignTarget).target for one in assigned]
    here = m.findall(statement, same)
    return len(m.findall(module, same)) > len(targets) + len(here)


def _first_time(
    site: Site, function: cst.FunctionDef, changed: cst.BaseExpression
) -> Iterator[Candidate]:
    """Yield a rewrite that skips ``if self.first: self.first = False`` in compiled code.

    ``changed`` is the attribute. Yield nothing if the function uses it outside of this ``if``.
    """
    branch = site.enclosing((cst.If,))
    if branch is None or branch.orelse is not None:
        return
    if _count_mentions(function.body, changed) != _count_mentions(branch, changed):
        return
    yield Candidate(
        "not-when-compiling",
        f"Execute code that depends on `{site.code(changed)}` only when not compiling",
        site.replaced([(branch.test, eager_only(branch.test))], imports=["torch"]),
        gives_up="Compiled code does not execute the branch.",
    )


def _in_a_tensor(site: Site, name: str) -> Iterator[Candidate]:
    """Yield rewrites that keep a count in a tensor: ``self.step = 0`` becomes a buffer.

    ``name`` is the name of the attribute. The second rewrite also replaces ``self.step += 1`` by
    ``self.step = self.step + 1``. Compiled code may compute the gradients from the buffer after
    the call, so they are wrong if the call changes it in place.
    """
    initial = m.Assign(
        targets=[m.AssignTarget(m.Attribute(value=m.Name("self"), attr=m.Name(name)))],
        value=m.OneOf(m.Integer(), m.Float()),
    )
    changes: list[tuple[cst.CSTNode, Change]] = []
    for one in site.constructors:
        for assign in find_all(one, cst.Assign, initial):
            number = site.code(assign.value)
            kind = ", dtype=torch.float64" if isinstance(assign.value, cst.Float) else ""
            made = f"torch.tensor({number}{kind})"
            call = f'self.register_buffer("{name}", {made}, persistent=False)'
            changes.append((assign, cst.Expr(cst.parse_expression(call))))
    if len(changes) != 1:
        return
    for how, new in (("", []), (", and assign its new values", _assignment_changes(site, name))):
        yield Candidate(
            "counter-in-a-tensor",
            f"Turn `self.{name}` into a buffer{how}",
            site.replaced([*changes, *new], imports=["torch"]),
            gives_up=f"`self.{name}` becomes a tensor, which moves with the module.",
            loses=("state",),
        )


def _assignment_changes(site: Site, name: str) -> list[tuple[cst.CSTNode, Change]]:
    """Return the changes of ``self.step += 1`` to ``self.step = self.step + 1`` in the class.

    ``name`` is the name of the attribute.
    """
    of_class = site.enclosing((cst.ClassDef,))
    attribute = m.AugAssign(m.Attribute(m.Name("self"), m.Name(name)))
    changes: list[tuple[cst.CSTNode, Change]] = []
    for one in find_all(of_class, cst.AugAssign, attribute) if of_class is not None else ():
        place, sign = site.code(one.target), site.code(one.operator).strip().rstrip("=")
        value = cst.parse_expression(f"{place} {sign} {operand(site.code(one.value))}")
        changes.append((one, cst.Assign([cst.AssignTarget(one.target)], value)))
    return changes
