"""``if`` statements whose condition depends on the data of tensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.choices import NotConvertible
from fullgraph.fixes.rewrites.conditions import (
    Both,
    Condition,
    Conditions,
    Either,
    OfTensor,
    Plain,
    argument,
    asked_by,
)
from fullgraph.fixes.rewrites.early_returns import convert_returns
from fullgraph.fixes.rewrites.effects import watches
from fullgraph.fixes.rewrites.if_conversion import (
    Converter,
    Statement,
    add_comments,
    all_below,
    block,
    is_message,
    other_side,
    statements_of,
)
from fullgraph.fixes.rewrites.loop_exits import LEAVING, leaves, loop_around
from fullgraph.fixes.rewrites.names import code_of, descendants, find_all, names_bound, walk
from fullgraph.fixes.rewrites.placing import in_place_of, siblings
from fullgraph.fixes.rewrites.syntax import Syntax
from fullgraph.fixes.site import Site
from fullgraph_engine.protocol.behavior import Aspect

_REPAIRS = re.compile("nan_to_num|clamp|clip|clamp_min|clamp_max|masked_fill|where|relu")
CHOSEN: tuple[Aspect, ...] = ("random", "aliasing")
"""Aspects of behavior that may change if both sides of an ``if`` are computed: the other side may
draw random numbers, which shifts later ones, and the result is a new tensor.
"""
SAID: tuple[Aspect, ...] = ("stdout", "stderr", "warning", "log")
"""Aspects of behavior that change if printed or logged messages are removed."""


def branches(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of the ``if`` whose condition broke the graph."""
    node = asked_by(site)
    if not isinstance(node, cst.If):
        return
    for rewrite in _REWRITES:
        try:
            yield from rewrite(site, node)
        except NotConvertible:
            continue


def _skip_messages(site: Site, node: cst.If) -> Iterator[Candidate]:
    """Yield rewrites that skip a branch in compiled code which only prints or logs, or remove it.

    ``node`` is the ``if`` whose condition broke the graph.
    """
    small = _small_statements(*statements_of(node.body))
    said = [one for one in small if not _rewrite_once(site, node, one)]
    syntax = Syntax(site)
    quiet = all(is_message(one) or watches(syntax, one) for one in said)
    if node.orelse is not None or not said or not quiet:
        return
    yield Candidate(
        "eager-message",
        "Print the message only in eager mode",
        site.replaced([(node.test, eager_only(node.test))], imports=["torch"]),
        gives_up="Compiled code does not print the message.",
        is_same_eagerly=True,
    )
    if said != small:
        return
    yield Candidate(
        "drop-message",
        "Remove the message and its condition",
        site.replaced(in_place_of(site, node, [])),
        gives_up="The message is not printed.",
    )


def _rewrite_once(site: Site, node: cst.If, small: cst.CSTNode) -> bool:
    """Whether the statement ``small`` of a branch only records that the branch was executed.

    The statement stores a name or a number in a variable or attribute that only this ``if`` reads.
    """
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        place = small.targets[0].target
    elif isinstance(small, cst.AugAssign):
        place = small.target
    else:
        return False
    function = site.function
    noted = isinstance(place, (cst.Name, cst.Attribute)) and isinstance(function, cst.FunctionDef)
    if not noted or not isinstance(small.value, (cst.Name, cst.BaseNumber)):
        return False
    name = place.attr.value if isinstance(place, cst.Attribute) else code_of(place)
    stored = {id(one.target) for one in find_all(site.module, cst.AssignTarget)}
    here = {id(one) for one in descendants(node)}
    return all(
        id(one) in stored | here
        for one in descendants(site.module)
        if isinstance(one, type(place))
        and (one.attr.value if isinstance(one, cst.Attribute) else code_of(one)) == name
        and not isinstance(site.text.parent(one), (cst.NameItem, cst.Attribute))
    )


def eager_only(test: cst.BaseExpression) -> cst.BaseExpression:
    """Return a condition that is never evaluated in compiled code.

    It is ``test`` with ``not torch.compiler.is_compiling() and`` before it.
    """
    code = code_of(test)
    loose = isinstance(test, (cst.BooleanOperation, cst.IfExp, cst.NamedExpr, cst.Lambda))
    if not test.lpar and (loose or "\n" in code):
        code = f"({code})"
    return cst.parse_expression(f"not torch.compiler.is_compiling() and {code}")


def _small_statements(*lines: Statement) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []
    for line in lines:
        found += line.body if isinstance(line, cst.SimpleStatementLine) else [line]
    return found


def _one_call(site: Site, node: cst.If) -> Iterator[Candidate]:
    """Yield a rewrite of an ``if`` whose sides make the same call with other arguments.

    The rewrite makes the call once, and chooses the arguments by the condition.
    """
    condition = Conditions(site).read(node.test)
    then, other = statements_of(node.body), other_side(node)
    first, second = _only_call(then), _only_call(other)
    if first is None or second is None or not isinstance(condition, OfTensor):
        return
    if _is_hollow(then[0], first) != _is_hollow(other[0], second):
        return
    pairs = list(zip(first.args, second.args, strict=True))
    differs = [code_of(a.value) != code_of(b.value) for a, b in pairs]
    test = argument(condition.code)
    chosen = [
        f"torch.where({test}, {code_of(a.value)}, {code_of(b.value)})"
        if differ
        else code_of(a.value)
        for (a, b), differ in zip(pairs, differs, strict=True)
    ]
    args = [
        a.with_changes(value=cst.parse_expression(code))
        for (a, _), code in zip(pairs, chosen, strict=True)
    ]
    line = then[0].deep_replace(first, first.with_changes(args=args))
    assert isinstance(line, cst.SimpleStatementLine)
    yield Candidate(
        "one-call",
        "Choose the arguments with `torch.where`",
        site.replaced(in_place_of(site, node, all_below([line], node)), imports=["torch"]),
        gives_up="Both arguments are always computed, and the chosen value is a new tensor.",
        loses=("state-aliasing",),
    )


def _only_call(statements: Sequence[Statement]) -> cst.Call | None:
    """Return the call if a side of an ``if`` is only a call, perhaps with its result assigned.

    Return None for other sides.
    """
    if len(statements) != 1 or len(small := _small_statements(statements[0])) != 1:
        return None
    value = small[0].value if isinstance(small[0], (cst.Expr, cst.Assign)) else None
    return value if isinstance(value, cst.Call) else None


def _is_hollow(line: Statement, call: cst.Call) -> str:
    """Return the code of a statement without comments and without the argument values of ``call``.

    Two statements with equal results differ only in these argument values.
    """
    args = [one.with_changes(value=cst.Name("_")) for one in call.args]
    new = line.deep_replace(call, call.with_changes(args=args))
    assert isinstance(new, cst.SimpleStatementLine)
    return code_of(new.with_changes(leading_lines=[], trailing_whitespace=cst.TrailingWhitespace()))


def _by_where(site: Site, node: cst.If) -> Iterator[Candidate]:
    top = _top_level_if(site, node)
    for in_place, sized in ((False, False), (True, False), (False, True)):
        converter = Converter(site, in_place=in_place, sized=sized)
        new = converter.branch(top)
        if not new and not converter.dropped:
            return
        dropped = ", ".join(f"`{code}`" for code in converter.dropped)
        removed = f"{dropped} is removed. " if dropped else ""
        yield choose_result(
            "Compute both sides and choose with `torch.where`",
            site.replaced(in_place_of(site, top, new), imports=["torch"]),
            f"{removed}Both sides are always computed, even where one of them is invalid.",
            drops_messages=bool(dropped),
        )


def choose_result(
    title: str, text: str, gives_up: str, *, drops_messages: bool = False
) -> Candidate:
    """Return a candidate that computes several results and chooses one with ``torch.where``."""
    loses = (*CHOSEN, *SAID) if drops_messages else CHOSEN
    return Candidate("where", title, text, gives_up=gives_up, loses=loses, computes_more=True)


def _top_level_if(site: Site, node: cst.If) -> cst.If:
    """Return the outermost ``if`` of an ``elif`` chain whose condition depends on data of tensors.

    ``node`` is an ``if`` or ``elif`` in the chain.
    """
    conditions = Conditions(site)
    parent = site.text.parent(node)
    while isinstance(parent, cst.If) and parent.orelse is node and conditions.asks(parent.test):
        node, parent = parent, site.text.parent(parent)
    return node


def _early_return(site: Site, node: cst.If) -> Iterator[Candidate]:
    place = siblings(site, node)
    if place is None or not any(isinstance(one, cst.Return) for one in walk(node)):
        return
    body, index = place
    converter = Converter(site)
    new = convert_returns(converter, body[index:])
    changes = in_place_of(site, node, all_below(new, node))
    changes += [(one, cst.RemoveFromParent()) for one in body[index + 1 :]]
    title = "Compute both results and choose with `torch.where`"
    gives_up = "Both results are always computed, even where one of them is invalid."
    yield choose_result(title, site.replaced(changes, imports=["torch"]), gives_up)


def _skipped_rest(site: Site, node: cst.If) -> Iterator[Candidate]:
    """Yield a rewrite of ``if condition: continue`` in a loop: the statements after it are always
    computed.

    ``torch.where`` with the condition then chooses between their values and the old ones.
    """
    place = siblings(site, node)
    then = statements_of(node.body)
    if place is None or node.orelse is not None or not then:
        return
    last = _small_statements(then[-1])
    if len(then) != 1 or not isinstance(last[-1], cst.Continue) or len(last) != 1:
        return
    body, index = place
    rest = body[index + 1 :]
    turned = node.with_changes(
        test=cst.parse_expression(f"not ({code_of(node.test)})"), body=block(rest)
    )
    converter = Converter(site)
    new = converter.branch(turned, at=node)
    changes = in_place_of(site, node, new)
    changes += [(one, cst.RemoveFromParent()) for one in rest]
    title = "Compute the rest of the loop and choose with `torch.where`"
    gives_up = "The rest of the loop is always computed."
    yield choose_result(title, site.replaced(changes, imports=["torch"]), gives_up)


def _do_always(site: Site, node: cst.If) -> Iterator[Candidate]:
    """Yield a rewrite that executes a branch always, if it does nothing when the condition is
    false.

    Examples are ``nan_to_num``, ``clamp`` and an assignment to elements under a mask.
    """
    then = statements_of(node.body)
    if node.orelse is not None or leaves(*then):
        return
    works = _small_statements(*then)
    if not works or not all(_do_repairs(one) for one in works[-1:]):
        return
    new = _without_tensors(Conditions(site).read(node.test), then)
    yield Candidate(
        "always",
        "Always execute the branch",
        site.replaced(in_place_of(site, node, all_below(new, node))),
        gives_up=f"`{site.one_line(node.test)}` is not checked any more.",
    )


def _for_any(site: Site, node: cst.If) -> Iterator[Candidate]:
    """Yield a rewrite of ``if mask.any(): … else: …`` that always runs the first side.

    For an empty mask, the first side computes the same as the other one.
    """
    test = node.test
    asks = isinstance(test, cst.Call) and code_of(test.func).rpartition(".")[2] == "any"
    if not asks or not isinstance(node.orelse, cst.Else):
        return
    new = statements_of(node.body)
    other = " ".join(site.one_line(one) for one in statements_of(node.orelse.body))
    yield Candidate(
        "always",
        f"Remove the `else` of `{site.one_line(test)}`",
        site.replaced(in_place_of(site, node, all_below(new, node))),
        gives_up=f"`{other}` is never executed.",
        computes_more=True,
    )


def _drop_nothing(site: Site, node: cst.If) -> Iterator[Candidate]:
    """Yield a rewrite that removes a branch without any effect."""
    small = _small_statements(*statements_of(node.body))
    if node.orelse is None and all(isinstance(one, cst.Pass) for one in small):
        yield Candidate(
            "drop-nothing",
            "Remove a condition without effect",
            site.replaced(in_place_of(site, node, [])),
            gives_up=(
                f"`{site.one_line(node.test)}` is not evaluated any more; if it raises, the "
                "exception is lost."
            ),
        )


def _do_repairs(small: cst.CSTNode) -> bool:
    called: cst.CSTNode | None = None
    if isinstance(small, (cst.Assign, cst.Expr)):
        called = small.value
    if isinstance(small, cst.Assign) and _is_masked(small.targets[0].target):
        return True
    name = code_of(called.func).rpartition(".")[2] if isinstance(called, cst.Call) else ""
    return _REPAIRS.fullmatch(name.rstrip("_")) is not None


def _is_masked(target: cst.CSTNode) -> bool:
    """Whether an assignment target is the elements of a tensor that a mask (another tensor)
    selects.
    """
    if not isinstance(target, cst.Subscript) or len(target.slice) != 1:
        return False
    chosen = target.slice[0].slice
    return isinstance(chosen, cst.Index) and not isinstance(chosen.value, cst.BaseNumber)


def _without_tensors(condition: Condition, then: list[Statement]) -> list[Statement]:
    if isinstance(condition, OfTensor):
        return then
    if isinstance(condition, Either):
        raise NotConvertible
    parts = condition.parts if isinstance(condition, Both) else (condition,)
    plain = [part for part in parts if isinstance(part, Plain)]
    if any(isinstance(part, Either) for part in parts):
        raise NotConvertible
    test = cst.parse_expression(" and ".join(part.code for part in plain))
    return [cst.If(test=test, body=block(then))]


def _drop_shortcut(site: Site, node: cst.If) -> Iterator[Candidate]:
    """Yield a rewrite that removes a branch which only saves computation.

    Such a branch returns early, leaves the loop early, or sets a mask to None so that it is not
    applied.
    """
    then = statements_of(node.body)
    small = _small_statements(*then)
    if len(small) != 1:
        return
    leaves = isinstance(small[0], (cst.Break, cst.Continue)) or (
        isinstance(small[0], cst.Return) and small[0].value is not None
    )
    forgets = isinstance(small[0], cst.Assign) and code_of(small[0].value) == "None"
    if not (leaves or forgets):
        return
    if isinstance(small[0], cst.Break) and isinstance(loop_around(site, node), cst.While):
        return  # without the branch, the loop may never end
    condition = Conditions(site).read(node.test)
    if isinstance(condition, Either):
        plain = [part.code for part in condition.parts if isinstance(part, Plain)]
        if not plain:
            return
        changes = [(node.test, cst.parse_expression(" or ".join(plain)))]
        text = site.replaced(changes)
    else:
        new = other_side(node)
        text = site.replaced(in_place_of(site, node, all_below(new, node)))
    yield Candidate(
        "drop-shortcut",
        "Remove the branch that skips code",
        text,
        gives_up=f"`{site.one_line(small[0])}` is not always executed if "
        f"`{site.one_line(node.test)}` is true.",
    )


def _only_eager(site: Site, node: cst.If) -> Iterator[Candidate]:
    """Yield a rewrite that skips a branch in compiled code, if the branch does not produce a
    result.

    An example is a one-time initialization.
    """
    then = statements_of(node.body)
    small = _small_statements(*then)
    calls = all(isinstance(one, cst.Expr) and isinstance(one.value, cst.Call) for one in small)
    if node.orelse is not None or not calls or all(is_message(one) for one in small):
        return
    yield Candidate(
        "only-eager",
        "Execute the branch only in eager mode",
        site.replaced([(node.test, eager_only(node.test))], imports=["torch"]),
        gives_up="Compiled code never executes the branch. If later code needs its effects, call "
        "the code once uncompiled.",
    )


def _by_cond(site: Site, node: cst.If) -> Iterator[Candidate]:
    """Yield a rewrite of an ``if`` as a call of ``torch.cond``, with a function for each side."""
    top = _top_level_if(site, node)
    converter = Converter(site)
    condition = converter.conditions.read(top.test)
    if not isinstance(condition, OfTensor):
        raise NotConvertible
    outside = converter.outside(top)
    then = converter.inner(statements_of(top.body), outside)
    other = converter.inner(other_side(top), outside)
    if any(isinstance(one, (*LEAVING, cst.AugAssign)) for one in walk(*then, *other)):
        raise NotConvertible
    keys = converter.kept(top, then, other)
    if not keys or not all(key.isidentifier() for key in keys):
        raise NotConvertible
    listed = ", ".join(keys)
    # A variable without a value before the `if` is not passed to the functions, which both assign
    # it.
    operands = [key for key in keys if key in outside.before]
    given = f"({operands[0]},)" if len(operands) == 1 else f"({', '.join(operands)})"
    functions: list[Statement] = []
    names = []
    for side, wanted in ((then, "if_true"), (other, "if_false")):
        name = converter.fresh(wanted)
        names.append(name)
        bound = names_bound(*side)
        values = [key if key in bound else f"{key}.clone()" for key in keys]
        result = ", ".join(values)
        made = converter.statement(f"def {name}({', '.join(operands)}):\n    return {result}\n")
        assert isinstance(made, cst.FunctionDef)
        last = statements_of(made.body)[-1]
        functions.append(made.with_changes(body=block([*side, last])))
    call = f"{listed} = torch.cond({argument(condition.code)}, {', '.join(names)}, {given})"
    new = [*functions, converter.statement(call)]
    changes = in_place_of(site, top, [add_comments(new[0], top.leading_lines), *new[1:]])
    yield call_cond(site.replaced(changes, imports=["torch"]))


def call_cond(text: str) -> Candidate:
    """Return a candidate that calls ``torch.cond`` with functions for both sides."""
    title = "Convert both sides to functions for `torch.cond`"
    gives_up = "Both sides must return tensors of the same shape, dtype and device."
    return Candidate("cond", title, text, gives_up=gives_up)


_REWRITES = (
    _skip_messages,
    _one_call,
    _by_where,
    _early_return,
    _skipped_rest,
    _do_always,
    _for_any,
    _drop_nothing,
    _drop_shortcut,
    _by_cond,
    _only_eager,
)
