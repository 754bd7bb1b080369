"""What ``torch.export`` cannot decide, said by ``torch._check`` in front of the statement."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.placing import siblings
from fullgraph.fixes.rewrites.syntax import Syntax, names_in
from fullgraph.fixes.site import Change, Site
from fullgraph_engine.protocol.evidence import ExportEvidence


def checked(site: Site) -> Iterator[Candidate]:
    """``torch._check`` of what has to hold, before the statement that needs it."""
    evidence = site.finding.evidence
    if not isinstance(evidence, ExportEvidence) or not evidence.check:
        return
    syntax = Syntax(site)
    # The names of the check are those of the function: not of what is nested in an expression.
    if _has_one_value(evidence.check) or not isinstance(site.function, cst.FunctionDef):
        return
    condition = syntax.expression(evidence.check)
    if site.enclosing((cst.BaseComp,)) is not None and _binds(site, names_in(condition)):
        return
    call = cst.Call(
        cst.ensure_type(syntax.expression(syntax.spelled("torch._check")), cst.Attribute),
        [cst.Arg(condition)],
    )
    changes = _before(site, cst.Expr(call))
    if changes is None:
        return
    spelled = f"`torch._check({evidence.check})`"
    imports = () if syntax.spelled("torch") != "torch" else syntax.lacking("torch")
    yield Candidate(
        "check",
        f"State what always holds by {spelled}",
        site.replaced(changes, imports=imports),
        gives_up=f"It raises where `{evidence.check}` is not true.",
        restricts=True,
    )


def _has_one_value(check: str) -> bool:
    """Whether an expression is equal to a number: then the size is a constant, that of the probe."""
    tree = ast.parse(check, mode="eval").body
    if not isinstance(tree, ast.Compare) or not isinstance(tree.ops[0], ast.Eq):
        return False
    sides = tree.left, *tree.comparators
    return any(all(not isinstance(one, ast.Name) for one in ast.walk(side)) for side in sides)


def _binds(site: Site, names: set[str]) -> bool:
    """Whether a comprehension around the finding has one of these names for itself."""
    here = site.expression
    for above in (here, *site.text.ancestors(here)) if here is not None else ():
        if isinstance(above, cst.BaseStatement):
            break
        if isinstance(above, cst.BaseComp):
            part: cst.CompFor | None = above.for_in
            while part is not None:
                if names & names_in(part.target):
                    return True
                part = part.inner_for_in
    return False


def _before(site: Site, new: cst.Expr) -> Sequence[tuple[cst.CSTNode, Change]] | None:
    """The changes that put a statement before the one of the finding, whose comments stay with it;
    None where there is no such place, as before an ``elif``."""
    node = site.statement
    if node is None or isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        return None
    small = Syntax(site).statement
    if small is not None and (
        isinstance(small.block, cst.SimpleStatementSuite) or len(small.block.body) > 1
    ):
        return [(small.node, cst.FlattenSentinel([new, small.node]))]
    if siblings(site, node) is None:
        return None
    lines = list(node.leading_lines)
    comment = next((at for at, line in enumerate(lines) if line.comment is not None), len(lines))
    first = cst.SimpleStatementLine([new], leading_lines=lines[:comment])
    return [(node, cst.FlattenSentinel([first, node.with_changes(leading_lines=lines[comment:])]))]
