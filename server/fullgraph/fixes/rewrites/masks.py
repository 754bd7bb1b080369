"""Rewrites of code that selects elements by a mask, so that their number depends on data.

The rewritten code computes all elements, and the mask chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.choices import NotConvertible
from fullgraph.fixes.rewrites.conditions import asked_by, operand
from fullgraph.fixes.rewrites.if_conversion import (
    Statement,
    all_below,
    statements_of,
)
from fullgraph.fixes.rewrites.names import code_of, walk
from fullgraph.fixes.rewrites.placing import in_place_of
from fullgraph.fixes.rewrites.syntax import Syntax
from fullgraph.fixes.site import Site, Transforming

_NEUTRAL = {"sum": "0", "prod": "1", "max": "-torch.inf", "min": "torch.inf"}
_NEUTRAL |= {"amax": _NEUTRAL["max"], "amin": _NEUTRAL["min"]}
"""Number that replaces the elements a mask leaves out, by the reduction's name; it does not change
the result.
"""
_GIVES_UP = "All elements are computed, also those that the mask leaves out."


def masks(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of the statement whose mask broke the graph, and of the ``if`` around it."""
    asked = asked_by(site)
    if isinstance(asked, cst.If) and asked.orelse is None:
        for mask in _asked_masks(asked.test):
            yield from _rewrite_assignment(site, asked, statements_of(asked.body), mask)
        return
    chosen = _masked_selection(site.expression)
    if chosen is None:
        return
    whole, mask = chosen
    yield from _rewrite_reduction(site, whole, mask)
    line = site.statement
    if isinstance(line, cst.SimpleStatementLine):
        yield from _rewrite_assignment(site, line, [line], mask)


def boolean_masks(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that converts the condition of ``torch.where`` to booleans, if tracing fails
    because it has another dtype. Eager mode accepts ``uint8``."""
    if "predicate to be bool" not in site.finding.message:
        return
    syntax = Syntax(site)
    for call in syntax.here:
        if not isinstance(call, cst.Call) or code_of(call.func).rpartition(".")[2] != "where":
            continue
        named = [one.value for one in call.args if one.keyword and one.keyword.value == "condition"]
        condition = (named or [one.value for one in call.args])[0]
        code = f"{syntax.operand(condition)}.bool()"
        yield Candidate(
            "boolean-mask",
            "Convert the condition to booleans",
            site.replaced([(condition, syntax.expression(code))]),
            preserves=True,
            loses=("warning",),
            gives_up="The warning about the deprecated dtype disappears.",
        )
        return


def _asked_masks(test: cst.BaseExpression) -> list[str]:
    """Return the masks, as source code, if a condition asks whether they select any element."""
    found = []
    for node in walk(test):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value not in ("any", "sum"):
                continue
            direct = code_of(node.func.value) != "torch"
            if direct or node.args:
                found.append(code_of(node.func.value if direct else node.args[0].value))
    return found


def _masked_selection(node: cst.CSTNode | None) -> tuple[cst.BaseExpression, str] | None:
    """Return the tensor and the mask of ``x[mask]`` or ``x.masked_select(mask)``; None for other
    nodes.
    """
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        return (node.value, code_of(index.value)) if isinstance(index, cst.Index) else None
    if isinstance(node, cst.Call) and node.args:
        called = code_of(node.func)
        if called == "torch.masked_select" and len(node.args) == 2:
            return node.args[0].value, code_of(node.args[1].value)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "masked_select":
            return node.func.value, code_of(node.args[0].value)
    return None


def _rewrite_reduction(site: Site, whole: cst.BaseExpression, mask: str) -> Iterator[Candidate]:
    """Yield rewrites of a reduction (like ``sum``) of the elements that a mask selects.

    ``whole`` is the expression to replace.
    """
    node = site.expression
    attribute = site.text.parent(node) if node is not None else None
    call = site.text.parent(attribute) if isinstance(attribute, cst.Attribute) else None
    if not isinstance(call, cst.Call) or not isinstance(attribute, cst.Attribute) or call.args:
        return
    name, tensor, chosen = attribute.attr.value, code_of(whole), operand(mask)
    if name == "mean":
        code = f"(torch.where({mask}, {tensor}, 0).sum() / {chosen}.sum())"
    elif name == "any":
        code = f"({operand(tensor)} & {chosen}).any()"
    elif name == "all":
        code = f"({operand(tensor)} | ~{chosen}).all()"
    elif name == "numel":
        code = f"torch.count_nonzero({mask})"
    elif name in _NEUTRAL:
        code = f"torch.where({mask}, {tensor}, {_NEUTRAL[name]}).{name}()"
    else:
        return
    yield Candidate(
        "mask-reduction",
        "Reduce all elements, with masked ones replaced",
        site.replaced([(call, cst.parse_expression(code))], imports=["torch"]),
        gives_up=_GIVES_UP,
    )


def _rewrite_assignment(
    site: Site, place: Statement, statements: Sequence[Statement], mask: str
) -> Iterator[Candidate]:
    """Yield rewrites that replace the statement ``place``, which assigns to the elements that a
    mask selects.

    ``statements`` are the statements to rewrite, and ``mask`` the code of the mask.
    """
    for test in (mask, f"{operand(mask)}.unsqueeze(-1)"):
        try:
            new = [_for_all(one, mask, test) for one in statements]
        except NotConvertible:
            return
        if place is not statements[0]:
            new = all_below(new, place)
        yield Candidate(
            "mask",
            "Compute all elements and choose with the mask",
            site.replaced(in_place_of(site, place, new), imports=["torch"]),
            gives_up=_GIVES_UP,
        )


def _for_all(line: Statement, mask: str, test: str) -> Statement:
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        raise NotConvertible("not one assignment")
    small = line.body[0]
    if not isinstance(small, (cst.Assign, cst.AugAssign)):
        raise NotConvertible("not an assignment")
    target = small.target if isinstance(small, cst.AugAssign) else small.targets[0].target
    chosen = _masked_selection(target)
    scattered = _scatter_arguments(small.value, mask) if isinstance(small, cst.Assign) else None
    if chosen is not None and chosen[1] == mask:
        old = code_of(chosen[0])
        value = code_of(_without_mask(small.value, mask))
        if isinstance(small, cst.AugAssign):
            value = f"{old} {code_of(small.operator).strip().rstrip('=')} {operand(value)}"
        stored = old
    elif scattered is not None:
        old, value = code_of(scattered[0]), code_of(_without_mask(scattered[1], mask))
        stored = code_of(target)
    else:
        raise NotConvertible("does not assign what the mask chooses")
    new = cst.parse_statement(f"{stored} = torch.where({test}, {value}, {old})")
    return new.with_changes(
        leading_lines=line.leading_lines, trailing_whitespace=line.trailing_whitespace
    )


def _scatter_arguments(
    node: cst.BaseExpression, mask: str
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return the tensor and the values of ``x.masked_scatter(mask, values)``; None for other
    expressions.
    """
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    values = [argument.value for argument in node.args]
    same = len(values) == 2 and code_of(values[0]) == mask
    scatters = same and node.func.attr.value == "masked_scatter"
    return (node.func.value, values[1]) if scatters else None


def _without_mask(node: cst.BaseExpression, mask: str) -> cst.BaseExpression:
    def select_all(old: cst.CSTNode, new: cst.CSTNode) -> cst.CSTNode:
        before, after = _masked_selection(old), _masked_selection(new)
        is_masked = before is not None and before[1] == mask
        return after[0] if is_masked and after is not None else new

    new = node.visit(Transforming(select_all))
    assert isinstance(new, cst.BaseExpression)
    return new
