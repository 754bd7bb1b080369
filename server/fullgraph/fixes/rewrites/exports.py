"""Rewrites that add ``torch._check`` for conditions which ``torch.export`` cannot decide."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import code_of
from fullgraph.fixes.rewrites.placing import insert_before, is_bound_around
from fullgraph.fixes.rewrites.syntax import Syntax, names_in
from fullgraph.fixes.site import Site
from fullgraph_engine.protocol.evidence import ExportEvidence


def add_checks(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that adds ``torch._check`` of a condition that ``torch.export`` cannot
    decide.

    The check comes before the statement that needs the condition.
    """
    evidence = site.finding.evidence
    if not isinstance(evidence, ExportEvidence) or evidence.problem != "data-dependent":
        return
    if not evidence.check:
        return
    syntax = Syntax(site)
    # The check uses names of the function, so a nested expression must not bind them.
    if _has_one_value(evidence.check) or not isinstance(site.function, cst.FunctionDef):
        return
    condition = syntax.expression(evidence.check)
    if site.expression is not None and is_bound_around(site, site.expression, names_in(condition)):
        return
    call = cst.Call(
        cst.ensure_type(syntax.expression(syntax.spelled("torch._check")), cst.Attribute),
        [cst.Arg(condition)],
    )
    here = site.expression or site.statement
    changes = insert_before(site, here, [cst.Expr(call)]) if here is not None else None
    if changes is None:
        return
    spelled = f"`torch._check({evidence.check})`"
    yield Candidate(
        "check",
        f"State the condition with {spelled}",
        site.replaced(changes, imports=syntax.imports_for(code_of(call.func))),
        gives_up=f"The code raises an error if `{evidence.check}` is false.",
        restricts=True,
    )


def _has_one_value(check: str) -> bool:
    """Whether the condition ``check`` compares an expression with a constant by ``==``. Checking it
    would make a size a constant.
    """
    tree = ast.parse(check, mode="eval").body
    if not isinstance(tree, ast.Compare) or not isinstance(tree.ops[0], ast.Eq):
        return False
    sides = tree.left, *tree.comparators
    return any(all(not isinstance(one, ast.Name) for one in ast.walk(side)) for side in sides)
