"""Rewrites of loops whose number of iterations depends on the data of tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.branches import choose_result
from fullgraph.fixes.rewrites.choices import NotConvertible
from fullgraph.fixes.rewrites.conditions import (
    Both,
    Conditions,
    argument,
    asked_by,
    operand,
)
from fullgraph.fixes.rewrites.if_conversion import (
    Converter,
    Statement,
    add_comments,
    all_below,
    block,
    statements_of,
)
from fullgraph.fixes.rewrites.loop_exits import (
    LEAVING,
    Loop,
    RunningOn,
    leaves,
    loop_around,
    split,
)
from fullgraph.fixes.rewrites.names import code_of, names_bound, rename_variables, walk
from fullgraph.fixes.rewrites.placing import in_place_of, siblings
from fullgraph.fixes.site import Replacing, Site

_BOUND = 100
"""Number of iterations in a suggested ``for`` loop, which the user has to adapt."""
_ALWAYS = f"The loop always runs {_BOUND} iterations: choose a number that is large enough."


def loops(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of the loop whose condition or ``break`` broke the graph."""
    node = asked_by(site)
    rewrites = (
        (_while_loop, _running_on)
        if isinstance(node, cst.While)
        else (_running_on, _without_return)
        if isinstance(node, cst.If)
        else ()
    )
    for rewrite in rewrites:
        try:
            yield from rewrite(site, node)  # type: ignore[arg-type]
        except NotConvertible:
            continue


def _while_loop(site: Site, node: cst.While) -> Iterator[Candidate]:
    body, code = _body_and_condition(site, node)
    converter = Converter(site)
    before = converter.outside(node).before
    bound = list(names_bound(*body))
    carried = [key for key in bound if key in before]
    if not carried or not all(key.isidentifier() for key in bound):
        raise NotConvertible("changes more than names")
    yield from _by_while_loop(site, node, converter, carried, code, body)


def _body_and_condition(site: Site, node: cst.While) -> tuple[list[Statement], str]:
    """Return the body of a ``while`` loop, and its condition as code of a boolean tensor."""
    body = statements_of(node.body)
    if node.orelse is not None or leaves(*body):
        raise NotConvertible("leaves the loop")
    condition = Conditions(site).read(node.test)
    tensors, plain = split(condition, Both)
    if not tensors:
        raise NotConvertible("not a condition on tensors")
    return body, argument(" & ".join([*tensors, *plain]))


def _running_on(site: Site, node: cst.If | cst.While) -> Iterator[Candidate]:
    """Yield rewrites of a loop with ``break`` or ``continue`` that run all its iterations.

    Skipped iterations change nothing. ``node`` is the ``if`` or ``while`` whose condition broke the
    graph.
    """
    asked = node if isinstance(node, cst.If) else None
    loop = loop_around(site, node) if isinstance(node, cst.If) else node
    if loop is None or loop.orelse is not None or siblings(site, loop) is None:
        return
    if asked is not None and not leaves(asked):
        return
    running = RunningOn(site, loop, asked)
    converter, (first, *others) = running.converter, running.first
    start = [add_comments(first, loop.leading_lines), *others]
    body = running.body
    if running.tensors:
        body = [running.noted(f"~{operand(running.tensors)}"), *body]
    changed: Statement = loop.with_changes(body=block(body), leading_lines=[])
    if isinstance(changed, cst.While):
        test = cst.parse_expression(running.plain or "True")
        changed = changed.with_changes(test=test)
    if not running.ends:
        made = converter.statement(f"for _ in range({_BOUND}):\n    pass\n")
        changed = made.with_changes(body=block(body))
    dropped = ", ".join(f"`{code}`" for code in converter.dropped)
    removed = f"{dropped} is removed. " if dropped else ""
    text = site.replaced(in_place_of(site, loop, [*start, changed]), imports=["torch"])
    if not running.ends:
        if leaves(loop.body):
            yield from _rewrite_step(site, loop, asked)
        yield Candidate(
            "bounded-loop",
            "Loop a fixed number of times",
            text,
            gives_up=f"{removed}{_ALWAYS}",
            suggestion=True,
        )
        return
    yield choose_result(
        "Run all iterations, and ignore those after the end of the loop",
        text,
        f"{removed}All iterations are computed, even after `{code_of(node.test)}` would end the "
        "loop.",
        drops_messages=bool(dropped),
    )


def _rewrite_step(site: Site, loop: Loop, asked: cst.If | None) -> Iterator[Candidate]:
    """Yield rewrites of a loop as ``while_loop``.

    The loop must end only by data of tensors, and must not create variables for later code.
    ``asked`` is the ``if`` whose condition broke the graph, or None.
    """
    try:
        running = RunningOn(site, loop, asked, step=True)
    except NotConvertible:
        return
    if running.late or not all(key.isidentifier() for key in running.carried):
        return
    goes_on = f"~{running.done}"
    if running.tensors:
        goes_on = f"{goes_on} & {operand(running.tensors)}"
    converter, carried = running.converter, [running.done, *running.carried]
    yield from _by_while_loop(site, loop, converter, carried, goes_on, running.body, running.first)


def _by_while_loop(
    site: Site,
    loop: Loop,
    converter: Converter,
    carried: Sequence[str],
    condition: str,
    body: Sequence[Statement],
    first: Sequence[Statement] = (),
) -> Iterator[Candidate]:
    """Yield a rewrite of a loop as a call of ``while_loop``.

    ``condition`` and ``body`` become functions. ``carried`` are the variables passed between
    iterations. ``first`` are statements to insert before the loop.
    """
    listed = ", ".join(carried)
    given = f"({listed},)" if len(carried) == 1 else f"({listed})"
    goes_on, step = converter.fresh("goes_on"), converter.fresh("step")
    made = converter.statement(f"def {step}({listed}):\n    return {given}\n")
    assert isinstance(made, cst.FunctionDef)
    last = statements_of(made.body)[-1]
    functions: list[Statement] = [
        *first,
        converter.statement(f"def {goes_on}({listed}):\n    return {condition}\n"),
        made.with_changes(body=block([*body, last])),
    ]
    target = f"({listed},)" if len(carried) == 1 else listed
    for function in ("torch.while_loop", "torch._higher_order_ops.while_loop"):
        call = converter.statement(f"{target} = {function}({goes_on}, {step}, {given})")
        new = [add_comments(functions[0], loop.leading_lines), *functions[1:], call]
        yield Candidate(
            "while-loop",
            f"Make the loop a `{function}`",
            site.replaced(in_place_of(site, loop, new), imports=["torch"]),
            gives_up="Each iteration must keep the shapes and dtypes. Gradients need a torch "
            "whose `while_loop` supports them.",
        )


def _without_return(site: Site, node: cst.If) -> Iterator[Candidate]:
    """Yield a rewrite of a loop with ``return`` that runs all iterations and chooses the first
    result.
    """
    around = site.text.ancestors(node, until=site.function)
    loops = [one for one in around if isinstance(one, cst.For)]
    loop = loops[-1] if loops else None
    outer = siblings(site, loop) if loop is not None else None
    if loop is None or outer is None or siblings(site, node) is None or node.orelse is not None:
        return
    then, (body, place) = statements_of(node.body), outer
    first, rest = _returned_value(then[-1]), body[place + 1 :]
    last = _returned_value(rest[-1]) if rest else None
    if first is None or last is None:
        return
    if sum(isinstance(one, LEAVING) for one in walk(loop, *rest)) != 2:
        return
    converter = Converter(site)
    condition = converter.conditions.read(node.test)
    tensors, plain = split(condition, Both)
    if not tensors:
        return
    own = list(names_bound(*then[:-1]))
    steps, names = converter.side(then[:-1], own) if own else (then[:-1], {})
    value = code_of(rename_variables(first, names))
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
    choice = f"torch.where({chosen}, {later}, {result})"
    if isinstance(first, cst.Tuple) or isinstance(last, cst.Tuple):
        pair = converter.fresh("a"), converter.fresh("b")
        each = f"torch.where({chosen}, {pair[0]}, {pair[1]})"
        choice = f"tuple({each} for {', '.join(pair)} in zip({later}, {result}))"
    changed = loop.visit(Replacing([(node, cst.FlattenSentinel(all_below(noted, node)))]))
    assert isinstance(changed, cst.For)
    changed = changed.with_changes(leading_lines=[])
    behind = [
        converter.statement(f"{result} = {code_of(last)}"),
        converter.statement(
            f"for {chosen}, {later} in reversed({met}):\n    {result} = {choice}\n"
        ),
        converter.statement(f"return {result}"),
    ]
    start = add_comments(converter.statement(f"{met} = []"), loop.leading_lines)
    changes = in_place_of(site, loop, [start, changed])
    changes += in_place_of(site, rest[-1], all_below(behind, rest[-1]))
    yield choose_result(
        "Run all iterations, and then choose the result of the first that would return",
        site.replaced(changes, imports=["torch"]),
        f"All iterations are computed, even after `{code_of(node.test)}` would end the loop.",
    )


def _returned_value(line: Statement) -> cst.BaseExpression | None:
    """Return the value of a ``return`` statement; None for other statements and for ``return
    None``.
    """
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    value = small.value if isinstance(small, cst.Return) else None
    return None if value is None or code_of(value) == "None" else value
