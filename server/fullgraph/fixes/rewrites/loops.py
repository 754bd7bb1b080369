"""Loops whose number of iterations depends on the data of tensors."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.branches import CHOSEN
from fullgraph.fixes.rewrites.conditions import (
    Both,
    Condition,
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
from fullgraph.fixes.rewrites.names import code_of, names_bound, renamed, walk
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
        else (_without_break, _without_return)
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
        loses=CHOSEN,
        computes_more=True,
    )


def _without_return(site: Site, node: cst.If) -> Iterator[Candidate]:
    """``return`` in a loop: all iterations are computed, and the first result is chosen."""
    inner = siblings(site, node)
    loop = site.text.parent(site.text.parent(node) or node)
    outer = siblings(site, loop) if isinstance(loop, cst.For) else None
    if inner is None or outer is None or not isinstance(loop, cst.For) or loop.orelse is not None:
        return
    then, (body, index), (around, place) = statements_of(node.body), inner, outer
    first, rest = _returned(then[-1]), around[place + 1 :]
    last = _returned(rest[-1]) if rest else None
    others = [*body[:index], *then[:-1], *body[index + 1 :], *rest[:-1]]
    if node.orelse is not None or first is None or last is None:
        return
    if any(isinstance(one, _LEAVING) for one in walk(*others)):
        return
    converter = Converter(site)
    condition = converter.conditions.read(node.test)
    tensors, plain = _split(condition)
    if not tensors:
        return
    own = list(names_bound(*then[:-1]))
    steps, names = converter.side(then[:-1], own) if own else (then[:-1], {})
    value = code_of(renamed(first, names))
    met, result = converter.fresh("returned"), converter.fresh("result")
    chosen, later = converter.fresh("condition"), converter.fresh("value")
    noted: list[Statement] = [
        *steps,
        converter.statement(f"{met}.append(({argument(' & '.join(tensors))}, {value}))"),
    ]
    if plain:
        test = cst.parse_expression(" and ".join(plain))
        noted = [cst.If(test=test, body=block(noted))]
    new: list[Statement] = [*body[:index], below(noted[0], node), *noted[1:], *body[index + 1 :]]
    choice = f"torch.where({chosen}, {later}, {result})"
    if isinstance(first, cst.Tuple) or isinstance(last, cst.Tuple):
        pair = converter.fresh("one"), converter.fresh("other")
        each = f"torch.where({chosen}, {pair[0]}, {pair[1]})"
        choice = f"tuple({each} for {', '.join(pair)} in zip({later}, {result}))"
    changed = loop.with_changes(body=block(new), leading_lines=[])
    behind = [
        converter.statement(f"{result} = {code_of(last)}"),
        converter.statement(
            f"for {chosen}, {later} in reversed({met}):\n    {result} = {choice}\n"
        ),
        converter.statement(f"return {result}"),
    ]
    start = above(converter.statement(f"{met} = []"), loop.leading_lines)
    changes = in_place_of(site, loop, [start, changed])
    changes += in_place_of(site, rest[-1], [below(behind[0], rest[-1]), *behind[1:]])
    yield Candidate(
        "where",
        "Run all iterations, and choose the first result that is returned",
        site.replaced(changes, imports=["torch"]),
        gives_up=f"All iterations are computed, also after `{code_of(node.test)}`.",
        loses=CHOSEN,
        computes_more=True,
    )


def _returned(line: Statement) -> cst.BaseExpression | None:
    """The value that a line returns; None for any other line, and for no value."""
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    value = small.value if isinstance(small, cst.Return) else None
    return None if value is None or code_of(value) == "None" else value


def _split(condition: Condition) -> tuple[list[str], list[str]]:
    """The tensors and the plain conditions that have to hold together; no tensors for others."""
    parts = condition.parts if isinstance(condition, Both) else (condition,)
    tensors = [part.code for part in parts if isinstance(part, OfTensor)]
    plain = [operand(part.code) for part in parts if isinstance(part, Plain)]
    return (tensors, plain) if len(tensors) + len(plain) == len(parts) else ([], [])
