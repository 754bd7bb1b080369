"""Loops whose number of iterations depends on the data of tensors."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.conditions import (
    Both,
    Conditions,
    OfTensor,
    Plain,
    argument,
    asked_by,
    operand,
)
from fullgraph.fixes.rewrites.if_conversion import (
    Converter,
    NotConvertible,
    Outside,
    Statement,
    above,
    below,
    block,
    statements_of,
)
from fullgraph.fixes.rewrites.names import code_of, names_bound, walk
from fullgraph.fixes.rewrites.placing import in_place_of, siblings
from fullgraph.fixes.site import Site

_LEAVING = (cst.Return, cst.Raise, cst.Break, cst.Continue)
_BOUND = 100
"""Iterations of a snippet that a person has to adapt."""


def loops(site: Site) -> Iterator[Candidate]:
    """Rewrites of the loop whose condition, or whose ``break``, broke the graph."""
    node = asked_by(site)
    rewrites = (
        (_while_loop, _bounded)
        if isinstance(node, cst.While)
        else (_without_break,)
        if isinstance(node, cst.If)
        else ()
    )
    for rewrite in rewrites:
        try:
            yield from rewrite(site, node)  # type: ignore[arg-type]
        except NotConvertible:
            continue


def _while_loop(site: Site, node: cst.While) -> Iterator[Candidate]:
    body, code = _parts(site, node)
    converter = Converter(site)
    before = converter.outside(node).before
    bound = list(names_bound(*body))
    carried = [key for key in bound if key in before]
    if not carried or not all(key.isidentifier() for key in bound):
        raise NotConvertible("changes more than names")
    listed = ", ".join(carried)
    given = f"({listed},)" if len(carried) == 1 else f"({listed})"
    goes_on, step = converter.fresh("goes_on"), converter.fresh("step")
    made = converter.statement(f"def {step}({listed}):\n    return {given}\n")
    assert isinstance(made, cst.FunctionDef)
    last = statements_of(made.body)[-1]
    functions: list[Statement] = [
        converter.statement(f"def {goes_on}({listed}):\n    return {code}\n"),
        made.with_changes(body=block([*body, last])),
    ]
    target = f"({listed},)" if len(carried) == 1 else listed
    for function in ("torch.while_loop", "torch._higher_order_ops.while_loop"):
        call = converter.statement(f"{target} = {function}({goes_on}, {step}, {given})")
        new = [above(functions[0], node.leading_lines), *functions[1:], call]
        yield Candidate(
            "while-loop",
            f"Make the loop a `{function}`",
            site.replaced(in_place_of(site, node, new), imports=["torch"]),
            gives_up="Each iteration has to keep the shapes and dtypes. Gradients need a torch "
            "whose `while_loop` has them.",
        )


def _bounded(site: Site, node: cst.While) -> Iterator[Candidate]:
    body, code = _parts(site, node)
    converter = Converter(site)
    active = converter.fresh("active")
    outside = converter.outside(node)
    own = Outside(read={*outside.read, *names_bound(*body)}, before=outside.before)
    steps = converter.lower(OfTensor(active), body, [], own)
    first = converter.statement(f"{active} = {code}")
    made = converter.statement(f"for _ in range({_BOUND}):\n    pass\n")
    new = below(made.with_changes(body=block([first, *steps])), node)
    yield Candidate(
        "bounded-loop",
        "Loop a fixed number of times",
        site.replaced(in_place_of(site, node, [new]), imports=["torch"]),
        gives_up=f"It always runs {_BOUND} iterations, and never more: choose the bound.",
        suggestion=True,
    )


def _parts(site: Site, node: cst.While) -> tuple[list[Statement], str]:
    """The body of a loop, and its condition as the code of a tensor."""
    body = statements_of(node.body)
    if node.orelse is not None or any(isinstance(one, _LEAVING) for one in walk(*body)):
        raise NotConvertible("leaves the loop")
    condition = Conditions(site).read(node.test)
    if isinstance(condition, OfTensor):
        return body, argument(condition.code)
    if not isinstance(condition, Both):
        raise NotConvertible("not a condition on tensors")
    tensors = [part.code for part in condition.parts if isinstance(part, OfTensor)]
    plain = [operand(part.code) for part in condition.parts if isinstance(part, Plain)]
    if len(tensors) + len(plain) != len(condition.parts):
        raise NotConvertible("a condition of many parts")
    return body, " & ".join([*tensors, *plain])


def _without_break(site: Site, node: cst.If) -> Iterator[Candidate]:
    """``break``: the later iterations change nothing."""
    place, then = siblings(site, node), statements_of(node.body)
    loop = site.text.parent(site.text.parent(node) or node)
    if place is None or not isinstance(loop, cst.For) or loop.orelse is not None:
        return
    body, index = place
    last = then[-1].body if isinstance(then[-1], cst.SimpleStatementLine) else ()
    if node.orelse is not None or len(last) != 1 or not isinstance(last[0], cst.Break):
        return
    before, after = body[:index], body[index + 1 :]
    if any(isinstance(one, _LEAVING) for one in walk(*before, *then[:-1], *after)):
        return
    converter = Converter(site)
    condition = converter.conditions.read(node.test)
    outside = converter.outside(loop)
    late = [key for key in names_bound(*body) if key not in outside.before and key in outside.read]
    if not isinstance(condition, OfTensor) or late:
        return
    done = converter.fresh("done")
    going = OfTensor(f"~{done}")
    own = Outside(read={*outside.read, *names_bound(*body)}, before=outside.before)
    ends = f"{done} = {done} | {condition.code}"
    new: list[Statement] = [
        *converter.lower(going, before, [], own),
        *converter.lower(OfTensor(f"({going.code} & {condition.code})"), then[:-1], [], own),
        below(converter.statement(ends), node),
        *converter.lower(going, after, [], own),
    ]
    start = above(converter.statement(f"{done} = torch.tensor(False)"), loop.leading_lines)
    changed = loop.with_changes(body=block(new), leading_lines=[])
    yield Candidate(
        "where",
        "Run all iterations, and keep what was there at the `break`",
        site.replaced(in_place_of(site, loop, [start, changed]), imports=["torch"]),
        gives_up=f"All iterations are computed, also after `{code_of(node.test)}`.",
    )
