"""Changes of a syntax tree that replace a statement by several, or add statements before it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from fullgraph.fixes.rewrites.if_conversion import Statement, block
from fullgraph.fixes.rewrites.syntax import names_in
from fullgraph.fixes.site import Change, Site


def siblings(site: Site, node: cst.CSTNode) -> tuple[list[Statement], int] | None:
    """Return the statements of the block that contains the statement ``node``, and its index in the
    block.

    None for an ``elif``, and for a statement on the same line as its ``if``.
    """
    parent = site.text.parent(node)
    if not isinstance(parent, (cst.IndentedBlock, cst.Module)):
        return None
    body: list[Statement] = list(parent.body)  # type: ignore[arg-type]
    return body, next(i for i, one in enumerate(body) if one is node)


def in_place_of(
    site: Site, node: Statement, new: Sequence[Statement]
) -> list[tuple[cst.CSTNode, Change]]:
    """Return the changes of the syntax tree that replace the statement ``node`` by the statements
    ``new``.

    If the statement is an ``elif``, the statements become the body of an ``else``.
    """
    parent = site.text.parent(node)
    if isinstance(parent, cst.If):
        change: Change = cst.Else(body=block(new)) if new else cst.RemoveFromParent()
        return [(node, change)]
    alone = isinstance(parent, cst.IndentedBlock) and len(parent.body) == 1
    if not new:
        empty = cst.SimpleStatementLine([cst.Pass()])
        return [(node, empty if alone else cst.RemoveFromParent())]
    return [(node, cst.FlattenSentinel(new))]


def insert_before(
    site: Site,
    node: cst.CSTNode,
    new: Sequence[cst.BaseSmallStatement | cst.BaseCompoundStatement],
) -> Sequence[tuple[cst.CSTNode, Change]] | None:
    """Return the changes that add the statements ``new`` before the statement that contains
    ``node``.

    Comments stay above that statement. The result is None where no statement can be added, as
    before an ``elif``.
    """
    small: cst.BaseSmallStatement | None = None
    for one in (node, *site.text.ancestors(node)):
        if isinstance(one, cst.BaseSmallStatement):
            small = one
        several = isinstance(one, cst.SimpleStatementLine) and len(one.body) > 1
        if small is not None and (several or isinstance(one, cst.SimpleStatementSuite)):
            if any(isinstance(each, cst.BaseCompoundStatement) for each in new):
                return None
            return [(small, cst.FlattenSentinel([*new, small]))]
        if isinstance(one, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            if isinstance(one, (cst.FunctionDef, cst.ClassDef)) or siblings(site, one) is None:
                return None
            lines = list(one.leading_lines)
            comments = (at for at, line in enumerate(lines) if line.comment is not None)
            comment = next(comments, len(lines))
            made = [
                cst.SimpleStatementLine([each])
                if isinstance(each, cst.BaseSmallStatement)
                else each
                for each in new
            ]
            made[0] = made[0].with_changes(leading_lines=lines[:comment])
            below = one.with_changes(leading_lines=lines[comment:])
            return [(one, cst.FlattenSentinel([*made, below]))]
    return None


def is_bound_around(site: Site, node: cst.CSTNode, names: set[str]) -> bool:
    """Whether a comprehension or lambda around an expression assigns one of the names, so that
    statements before the expression cannot use them."""
    for above in (node, *site.text.ancestors(node)):
        if isinstance(above, cst.BaseStatement):
            break
        if isinstance(above, cst.Lambda) and names & names_in(above.params):
            return True
        if isinstance(above, cst.BaseComp):
            part: cst.CompFor | None = above.for_in
            while part is not None:
                if names & names_in(part.target):
                    return True
                part = part.inner_for_in
    return False
