"""Loops whose number of iterations depends on the data of tensors."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.branches import CHOSEN, SAID
from fullgraph.fixes.rewrites.choices import NotConvertible
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
    Outside,
    Statement,
    above,
    all_below,
    below,
    block,
    statements_of,
)
from fullgraph.fixes.rewrites.names import code_of, names_bound, renamed, walk
from fullgraph.fixes.rewrites.placing import in_place_of, siblings
from fullgraph.fixes.site import Replacing, Site

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
    then = statements_of(node.body)
    loop = next((one for one in site.text.ancestors(node) if isinstance(one, _LOOPS)), None)
    if not isinstance(loop, cst.For) or loop.orelse is not None or siblings(site, loop) is None:
        return
    last = then[-1].body if isinstance(then[-1], cst.SimpleStatementLine) else ()
    if node.orelse is not None or len(last) != 1 or not isinstance(last[0], cst.Break):
        return
    body = statements_of(loop.body)
    if sum(isinstance(one, _LEAVING) for one in walk(*body)) != 1:
        return
    converter = Converter(site)
    condition = converter.conditions.read(node.test)
    outside = converter.outside(loop)
    bound = names_bound(*body)
    late = [key for key in bound if key not in outside.before and key in outside.read]
    if not isinstance(condition, OfTensor) or not all(key.isidentifier() for key in late):
        return
    # A first value is kept as it is: nothing was there before it.
    converter.optional |= {*late, *(key for key in bound if _starts_as_none(site, key))}
    own = Outside(read={*outside.read, *bound}, before={*outside.before, *late})
    done = converter.fresh("done")
    new = _stopped(converter, body, node, condition, done, own)
    first = [converter.statement(f"{key} = None") for key in late]
    first.append(converter.statement(f"{done} = torch.tensor(False)"))
    changed = loop.with_changes(body=block(new), leading_lines=[])
    start = [above(first[0], loop.leading_lines), *first[1:]]
    dropped = ", ".join(f"`{code}`" for code in converter.dropped)
    yield Candidate(
        "where",
        "Run all iterations, and keep what was there at the `break`",
        site.replaced(in_place_of(site, loop, [*start, changed]), imports=["torch"]),
        gives_up=(f"{dropped} is removed. " if dropped else "")
        + f"All iterations are computed, also after `{code_of(node.test)}`.",
        loses=(*CHOSEN, *SAID) if dropped else CHOSEN,
        computes_more=True,
    )


_LOOPS = (cst.For, cst.While, cst.FunctionDef, cst.Lambda)


def _stopped(
    converter: Converter,
    statements: list[Statement],
    node: cst.If,
    condition: OfTensor,
    done: str,
    own: Outside,
) -> list[Statement]:
    """Statements that change nothing once a tensor is true, which the condition of a ``break`` in
    them makes so.

    Raises:
        NotConvertible: it is in something else than plain conditions.
    """
    going = OfTensor(f"~{done}")
    for index, one in enumerate(statements):
        if all(inner is not node for inner in walk(one)):
            continue
        if one is node:
            last = OfTensor(f"({going.code} & {condition.code})")
            middle = [
                *converter.lower(last, statements_of(node.body)[:-1], [], own),
                below(converter.statement(f"{done} = {done} | {condition.code}"), node),
            ]
        elif isinstance(one, cst.If) and one.orelse is None:
            inside = _stopped(converter, statements_of(one.body), node, condition, done, own)
            middle = [one.with_changes(body=block(inside))]
        else:
            raise NotConvertible("a break in a block")
        before, after = statements[:index], statements[index + 1 :]
        return [
            *converter.lower(going, before, [], own),
            *middle,
            *converter.lower(going, after, [], own),
        ]
    raise NotConvertible("no break")


def _starts_as_none(site: Site, name: str) -> bool:
    """Whether the function around the finding assigns None to a variable."""
    function = site.function
    return function is not None and any(
        isinstance(one, cst.Assign) and code_of(one.value) == "None" and name in names_bound(one)
        for one in walk(function.body)
    )


def _without_return(site: Site, node: cst.If) -> Iterator[Candidate]:
    """``return`` in a loop: all iterations are computed, and the first result is chosen."""
    function = site.function
    loops = []
    for one in site.text.ancestors(node):
        if one is function:
            break
        if isinstance(one, cst.For):
            loops.append(one)
    loop = loops[-1] if loops else None
    outer = siblings(site, loop) if loop is not None else None
    if loop is None or outer is None or siblings(site, node) is None or node.orelse is not None:
        return
    then, (around, place) = statements_of(node.body), outer
    first, rest = _returned(then[-1]), around[place + 1 :]
    last = _returned(rest[-1]) if rest else None
    if first is None or last is None:
        return
    if sum(isinstance(one, _LEAVING) for one in walk(loop, *rest)) != 2:
        return
    converter = Converter(site)
    condition = converter.conditions.read(node.test)
    tensors, plain = _split(condition)
    if not tensors:
        return
    own = list(names_bound(*then[:-1]))
    steps, names = converter.side(then[:-1], own) if own else (then[:-1], {})
    value = code_of(renamed(first, names))
    if isinstance(first, cst.Tuple) and not first.lpar:
        value = f"({value})"
    met, result = converter.fresh("returned"), converter.fresh("result")
    chosen, later = converter.fresh("condition"), converter.fresh("value")
    noted: list[Statement] = [
        *steps,
        converter.statement(f"{met}.append(({argument(' & '.join(tensors))}, {value}))"),
    ]
    if plain:
        test = cst.parse_expression(" and ".join(plain))
        noted = [cst.If(test=test, body=block(noted))]
    noted[0] = below(noted[0], node)
    choice = f"torch.where({chosen}, {later}, {result})"
    if isinstance(first, cst.Tuple) or isinstance(last, cst.Tuple):
        pair = converter.fresh("a"), converter.fresh("b")
        each = f"torch.where({chosen}, {pair[0]}, {pair[1]})"
        choice = f"tuple({each} for {', '.join(pair)} in zip({later}, {result}))"
    changed = loop.visit(Replacing([(node, cst.FlattenSentinel(noted))]))
    assert isinstance(changed, cst.For)
    changed = changed.with_changes(leading_lines=[])
    behind = [
        converter.statement(f"{result} = {code_of(last)}"),
        converter.statement(
            f"for {chosen}, {later} in reversed({met}):\n    {result} = {choice}\n"
        ),
        converter.statement(f"return {result}"),
    ]
    start = above(converter.statement(f"{met} = []"), loop.leading_lines)
    changes = in_place_of(site, loop, [start, changed])
    changes += in_place_of(site, rest[-1], all_below(behind, rest[-1]))
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
