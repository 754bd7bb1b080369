"""Rewrites of loops over the rows of a tensor as operations on all rows at once.

If the number of rows is a dynamic size, a loop over them would make it a constant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.constants import Size
from fullgraph.fixes.rewrites.if_conversion import Statement, add_comments, block, statements_of
from fullgraph.fixes.rewrites.names import (
    code_of,
    find_all,
    names_bound,
    names_read_first,
    walk,
)
from fullgraph.fixes.rewrites.syntax import names_in, reads
from fullgraph.fixes.site import Change, Replacing, Site

_Changes = Sequence[tuple[cst.CSTNode, Change]]
_STATEMENTS = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
_LEAVING = (cst.Return, cst.Raise, cst.Break, cst.Continue, cst.Yield, cst.Await)


@dataclass
class _Mapped:
    """The loop variables that hold one row of a tensor in each iteration.

    The variable ``names[i]`` holds a row of the tensor ``sources[i]``, along the dimension
    ``axes[i]``.
    """

    names: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    axes: list[int] = field(default_factory=list)
    zipped: bool = False
    """True if the loop accepts tensors of different lengths, as ``zip`` does."""

    def add(self, name: str, source: str, axis: int) -> None:
        self.names.append(name)
        self.sources.append(source)
        self.axes.append(axis)

    def call(self, function: str, out: int = 0) -> str:
        """Return the code that calls ``torch.vmap`` of a function on the tensors.

        ``function`` is the code of the function for one row. ``out`` is the dimension of rows in
        the result.
        """
        axes = self.axes[0] if len(set(self.axes)) == 1 else tuple(self.axes)
        options = f", in_dims={axes}" if any(self.axes) else ""
        options += f", out_dims={out}" if out else ""
        return f"torch.vmap({function}{options})({', '.join(self.sources)})"

    def of(self, value: str, out: int = 0) -> str:
        return self.call(f"lambda {', '.join(self.names)}: {value}", out)


def rows(site: Site, function: cst.FunctionDef, size: Size) -> Iterator[Candidate]:
    """Yield rewrites of a function's loops over rows, whose number is the dynamic size ``size``.

    ``torch.stack([f(row) for row in x])`` becomes ``torch.vmap(lambda row: f(row))(x)``.
    """
    for call in find_all(function.body, cst.Call):
        yield from _rewrite_comprehension(site, function, call, size)
    for loop in find_all(function.body, cst.For, m.For(orelse=None)):
        yield from _rewrite_loop(site, function, loop, size)
        yield from _by_scan(site, function, loop, size)


def _by_vmap(site: Site, size: Size, mapped: _Mapped, changes: _Changes) -> Candidate:
    zipped = mapped.zipped
    return Candidate(
        "vmap",
        f"Compute all rows of `{size.name}` at once with `torch.vmap`",
        site.replaced(changes, imports=["torch"]),
        gives_up="All tensors must have the same length." if zipped else "",
        extends=True,
        computes_more=zipped,
    )


# -- loops over rows ------------------------------------------------------------------------------


def _rows_of(
    function: cst.FunctionDef,
    target: cst.BaseExpression,
    iterated: cst.BaseExpression,
    body: Sequence[cst.CSTNode],
    size: Size,
) -> tuple[_Mapped, list[cst.CSTNode]] | None:
    """Return the loop variables that hold rows of tensors, and the new loop body. In the new body,
    the variables replace indexing such as ``x[i]``.

    ``iterated`` is the expression that the loop iterates over, ``target`` its loop variable. None
    for loops over something other than rows.
    """
    names, code = [code_of(target)], code_of(iterated)
    if isinstance(target, cst.Tuple):
        names = [code_of(element.value) for element in target.elements]
    if not all(name.isidentifier() for name in names):
        return None
    mapped = _Mapped()
    if m.matches(iterated, m.Call(m.Name("zip"))):
        given = [_unbound_source(arg.value) for arg in cst.ensure_type(iterated, cst.Call).args]
        given = [one for one in given if one]
        if size.axis or size.name not in given or len(given) != len(names):
            return None
        mapped.zipped = True
        for name, source in zip(names, given, strict=True):
            mapped.add(name, source, 0)
        return mapped, list(body)
    if code == f"enumerate({size.name})" and len(names) == 2 and not size.axis:
        used = any(reads(one, names[0]) for one in body)
        if used:
            mapped.add(names[0], _numbers(size), 0)
        mapped.add(names[1], size.name, 0)
        return mapped, list(body)
    if len(names) != 1:
        return None
    if _unbound_source(iterated) == size.name and not size.axis:
        mapped.add(names[0], size.name, 0)
        return mapped, list(body)
    if not _counts(function, iterated, size):
        return None
    return _by_number(names[0], body, size)


def _unbound_source(node: cst.BaseExpression) -> str:
    """Return the name of the tensor whose rows an expression iterates over; empty if it is not a
    tensor's rows.
    """
    match = re.fullmatch(r"(\w+)(\.unbind\((0|dim=0)?\))?|torch\.unbind\((\w+)\)", code_of(node))
    return (match[1] or match[4]) if match else ""


def _counts(function: cst.FunctionDef, iterated: cst.BaseExpression, size: Size) -> bool:
    """Whether an expression is ``range`` of the dynamic size, or a variable with that value."""
    match = re.fullmatch(r"range\((.+)\)", code_of(iterated))
    if match is None:
        return False
    spelled = {f"{size.name}.{form}" for form in (f"shape[{size.axis}]", f"size({size.axis})")}
    spelled |= {f"len({size.name})"} if size.axis == 0 else set()
    if match[1] in spelled:
        return True
    if not match[1].isidentifier():
        return False
    found = []
    for assign in find_all(function.body, cst.Assign):
        target, value = assign.targets[0].target, code_of(assign.value)
        if code_of(target) == match[1]:
            found.append(value in spelled)
        elif isinstance(target, cst.Tuple) and match[1] in names_in(target):
            names = [code_of(element.value) for element in target.elements]
            whole = value in (f"{size.name}.shape", f"{size.name}.size()")
            found.append(whole and names.index(match[1]) == size.axis)
    return found == [True]


def _numbers(size: Size) -> str:
    return f"torch.arange({size.code}, device={size.name}.device)"


def _by_number(
    index: str, body: Sequence[cst.CSTNode], size: Size
) -> tuple[_Mapped, list[cst.CSTNode]] | None:
    """Replace ``x[i]`` and ``x[:, i]`` in a loop body by a variable for the row.

    ``index`` is the name ``i``. None if the body uses the index in other ways.
    """
    taken: dict[tuple[str, int], list[cst.Subscript]] = {}
    bound = set(names_bound(*body))
    for one in body:
        for node in find_all(one, cst.Subscript):
            if isinstance(node.value, cst.Name):
                axis = _axis(node, index)
                if axis is not None and node.value.value not in bound:
                    taken.setdefault((node.value.value, axis), []).append(node)
    mapped = _Mapped()
    changes: list[tuple[cst.CSTNode, Change]] = []
    known = set().union(*map(names_in, body))
    for (source, axis), places in taken.items():
        name = "row" if len(taken) == 1 else f"{source}_row"
        if name in known:
            return None
        mapped.add(name, source, axis)
        changes += [(place, cst.Name(name)) for place in places]
    new = [one.visit(Replacing(changes)) for one in body]
    if not mapped.sources or not all(isinstance(one, cst.CSTNode) for one in new):
        return None
    mapped.zipped = len(taken) > 1
    nodes = [one for one in new if isinstance(one, cst.CSTNode)]
    if any(reads(one, index) for one in nodes):
        mapped.names.insert(0, index)
        mapped.sources.insert(0, _numbers(size))
        mapped.axes.insert(0, 0)
    return mapped, nodes


def _axis(node: cst.Subscript, index: str) -> int | None:
    """Return the indexed dimension: 1 for ``x[:, i]``, where ``index`` is ``i``.

    None if the subscript does anything else.
    """
    slices = [code_of(element.slice) for element in node.slice]
    if slices.count(index) != 1 or any(one not in (":", index) for one in slices):
        return None
    return slices.index(index)


# -- results of loops -----------------------------------------------------------------------------


def _dimension(args: Sequence[cst.Arg]) -> int | None:
    """Return the dimension along which ``torch.stack`` or ``torch.cat`` joins its inputs; None if
    unknown.

    ``args`` are the arguments after the inputs; without any, the dimension is 0.
    """
    codes = [code_of(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in args]
    match = re.fullmatch(r"(?:(?:dim|axis) ?= ?)?(\d)", codes[0]) if len(codes) == 1 else None
    return 0 if not codes else int(match[1]) if match is not None else None


def _joined_code(mapped: _Mapped, call: cst.Call, function: str) -> str | None:
    """Return code that computes all rows, to replace a ``torch.stack`` or ``torch.cat`` of rows.

    ``function`` is the code of the function for one row. None if ``call`` is another call.
    """
    name, out = code_of(call.func), _dimension(call.args[1:])
    if name not in ("torch.stack", "torch.cat", "torch.concat") or out is None:
        return None
    whole = mapped.call(function, out)
    return whole if name == "torch.stack" else f"{whole}.flatten({out}, {out + 1})"


def _rewrite_comprehension(
    site: Site, function: cst.FunctionDef, call: cst.Call, size: Size
) -> Iterator[Candidate]:
    made = call.args[0].value if call.args else None
    removed: list[tuple[cst.CSTNode, Change]] = []
    if isinstance(made, cst.Name) and len(reads(function.body, made.value)) == 2:
        target = m.AssignTarget(m.Name(made.value))
        line = m.SimpleStatementLine([m.Assign([target], m.ListComp())])
        for assign in m.findall(function.body, line):
            removed = [(assign, cst.RemoveFromParent())]
            made = cst.ensure_type(
                cst.ensure_type(assign, cst.SimpleStatementLine).body[0], cst.Assign
            ).value
    if not isinstance(made, (cst.ListComp, cst.GeneratorExp)):
        return
    loop = made.for_in
    if loop.inner_for_in is not None or loop.ifs:
        return
    name = code_of(call.func)
    found = _rows_of(function, loop.target, loop.iter, [made.elt], size)
    if found is not None:
        mapped, (value,) = found
        of_row = f"lambda {', '.join(mapped.names)}: {code_of(value)}"
        new = f"{mapped.call(of_row)}.sum(0)" if name == "sum" and len(call.args) == 1 else None
        new = new or _joined_code(mapped, call, of_row)
        if new is not None:
            yield _by_vmap(site, size, mapped, [*removed, (call, cst.parse_expression(new))])
    yield from _in_chunks(site, call, made, size, removed)


def _in_chunks(
    site: Site, call: cst.Call, made: cst.ListComp | cst.GeneratorExp, size: Size, removed: _Changes
) -> Iterator[Candidate]:
    """Yield a rewrite that computes a function on a whole tensor instead of on slices of it.

    ``cat([f(x[:, i : i + 4]) for i in range(0, n, 4)], dim=1)`` becomes ``f(x)``. ``made`` is the
    comprehension; ``removed`` are changes that remove its variable.
    """
    loop = made.for_in
    counted = m.Call(m.Name("range"), [m.Arg(m.Integer("0")), m.Arg(), m.Arg()])
    if code_of(call.func) not in ("torch.cat", "torch.concat") or not m.matches(loop.iter, counted):
        return
    index = code_of(loop.target)
    step = code_of(cst.ensure_type(loop.iter, cst.Call).args[2].value)
    part = f"{':,' * size.axis}{index}:{index}+{step}"
    changes: list[tuple[cst.CSTNode, Change]] = [
        (node, node.value)
        for node in find_all(made.elt, cst.Subscript)
        if code_of(node.value) == size.name
        if "".join(code_of(node).split()) == f"{size.name}[{part}]"
    ]
    whole = made.elt.visit(Replacing(changes))
    if not changes or not isinstance(whole, cst.BaseExpression) or reads(whole, index):
        return
    yield Candidate(
        "whole",
        f"Compute all of `{size.name}` at once",
        site.replaced([*removed, (call, whole)]),
        gives_up="The new code needs more memory than the computation in parts.",
        extends=True,
    )


def _rewrite_loop(
    site: Site, function: cst.FunctionDef, loop: cst.For, size: Size
) -> Iterator[Candidate]:
    """Yield rewrites of a loop over rows that collects results.

    It ends with ``results.append(…)``, ``out[i] = …`` or ``total += …``.
    """
    *before, last = statements_of(loop.body)
    if not isinstance(last, cst.SimpleStatementLine) or len(last.body) != 1:
        return
    if any(isinstance(one, _LEAVING) for one in walk(*before)) or not _are_own(
        function, loop, before
    ):
        return
    small = last.body[0]
    appended = _appended_value(small)
    index = code_of(loop.target)
    value = appended[1] if appended is not None else _assigned_value(small)
    if value is None:
        return
    found = _rows_of(function, loop.target, loop.iter, [*before, value], size)
    if found is None:
        return
    mapped, (*steps, result) = found
    first, of_row = _as_function(function, mapped, steps, code_of(result))
    if appended is not None:
        yield from _rewrite_list(site, function, loop, appended[0], mapped, first, of_row, size)
        return
    added = _added_value(last)
    new = ""
    if added is not None and not any(reads(one, added[0]) for one in (*before, value)):
        new = f"{added[0]} = {added[0]} + {mapped.call(of_row)}.sum(0)"
    elif isinstance(small, cst.Assign) and len(small.targets) == 1:
        target = small.targets[0].target
        written = isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name)
        axis = _axis(target, index) if written and isinstance(target, cst.Subscript) else None
        name = code_of(target.value) if isinstance(target, cst.Subscript) else ""
        if axis is not None and not any(reads(one, name) for one in (*before, value)):
            new = f"{name}[:] = {mapped.call(of_row, axis)}"
    if new:
        yield _by_vmap(
            site, size, mapped, [(loop, _in_place(loop, [*first, cst.parse_statement(new)]))]
        )


def _are_own(function: cst.FunctionDef, loop: cst.For, body: Sequence[Statement]) -> bool:
    """Whether each iteration of a loop uses only its own values of the variables that the body
    assigns.

    The body then assigns the variables before it reads them, and code outside of the loop does not
    read them.
    """
    bound = set(names_bound(*body))
    if not all(name.isidentifier() for name in bound):
        return False
    return not names_read_first(*body) & bound and all(
        len(reads(function.body, name)) == len(reads(loop, name)) for name in bound
    )


def _as_function(
    function: cst.FunctionDef, mapped: _Mapped, steps: Sequence[cst.CSTNode], result: str
) -> tuple[list[Statement], str]:
    """Return the computation for one row as a function: (statements that define it, code of the
    function).

    ``mapped`` has the parameters, ``steps`` the body, and ``result`` the code of the returned
    value. If ``steps`` is empty, the function is a ``lambda``, without definition.
    """
    if not steps:
        return [], f"lambda {', '.join(mapped.names)}: {result}"
    name = _fresh_name(function, "of_row")
    return [_define_function(name, mapped.names, steps, result)], name


def _define_function(
    name: str, parameters: Sequence[str], steps: Sequence[cst.CSTNode], result: str
) -> cst.FunctionDef:
    made = cst.parse_statement(f"def {name}({', '.join(parameters)}):\n    return {result}\n")
    assert isinstance(made, cst.FunctionDef)
    body = [one for one in steps if isinstance(one, _STATEMENTS)]
    return made.with_changes(body=block([*body, *statements_of(made.body)]))


def _fresh_name(function: cst.FunctionDef, name: str) -> str:
    while name in names_in(function):
        name += "_"
    return name


def _in_place(loop: cst.For, new: Sequence[cst.CSTNode]) -> cst.FlattenSentinel[cst.CSTNode]:
    first, *rest = (one for one in new if isinstance(one, _STATEMENTS))
    return cst.FlattenSentinel([add_comments(first, loop.leading_lines), *rest])


def _rewrite_list(
    site: Site,
    function: cst.FunctionDef,
    loop: cst.For,
    name: str,
    mapped: _Mapped,
    first: list[Statement],
    of_row: str,
    size: Size,
) -> Iterator[Candidate]:
    """Yield rewrites of a loop that appends results to a list, which later code stacks once.

    ``name`` is the name of the list. ``of_row`` is the code of the function for one row. The
    statements ``first`` define this function.
    """
    with_name = m.Call(args=[m.Arg(m.Name(name)), m.ZeroOrMore()])
    stacked = [*find_all(function.body, cst.Call, with_name)]
    empty = m.findall(
        function.body,
        m.SimpleStatementLine([m.Assign([m.AssignTarget(m.Name(name))], m.List([]))]),
    )
    if len(stacked) != 1 or len(empty) != 1 or len(reads(function.body, name)) != 3:
        return
    whole = _joined_code(mapped, stacked[0], of_row)
    if whole is None:
        return
    instead = _in_place(loop, first) if first else cst.RemoveFromParent()
    yield _by_vmap(
        site,
        size,
        mapped,
        [
            (empty[0], cst.RemoveFromParent()),
            (loop, instead),
            (stacked[0], cst.parse_expression(whole)),
        ],
    )


def _appended_value(small: cst.BaseSmallStatement) -> tuple[str, cst.BaseExpression] | None:
    """Return the list to which a statement appends, and the value; None for other statements."""
    call = m.Expr(m.Call(m.Attribute(m.Name(), m.Name("append")), [m.Arg()]))
    if not m.matches(small, call):
        return None
    made = cst.ensure_type(cst.ensure_type(small, cst.Expr).value, cst.Call)
    return code_of(cst.ensure_type(made.func, cst.Attribute).value), made.args[0].value


def _assigned_value(small: cst.BaseSmallStatement) -> cst.BaseExpression | None:
    """Return the value that a statement adds (``+=``) or assigns to an element; None for other
    statements.
    """
    added = _added_value(cst.SimpleStatementLine([small]))
    if added is not None:
        return added[1]
    return small.value if isinstance(small, cst.Assign) else None


def _added_value(line: cst.SimpleStatementLine) -> tuple[str, cst.BaseExpression] | None:
    """Return the variable to which a statement adds a value, and the value; None for other
    statements.
    """
    node = line.body[0] if len(line.body) == 1 else None
    if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
        return (node.target.value, node.value) if isinstance(node.operator, cst.AddAssign) else None
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return None
    target, value = node.targets[0].target, node.value
    is_sum = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add)
    if not isinstance(target, cst.Name) or not is_sum:
        return None
    assert isinstance(value, cst.BinaryOperation)
    if code_of(value.left) == target.value:
        return target.value, value.right
    return (target.value, value.left) if code_of(value.right) == target.value else None


# -- loops in which a row depends on earlier rows -------------------------------------------------


def _by_scan(
    site: Site, function: cst.FunctionDef, loop: cst.For, size: Size
) -> Iterator[Candidate]:
    """Yield a rewrite of a loop over rows with variables that change from row to row.

    It becomes a call of ``scan``.
    """
    body = statements_of(loop.body)
    bound = list(names_bound(*body))
    if any(isinstance(one, _LEAVING) for one in walk(*body)):
        return
    if not all(name.isidentifier() for name in bound):
        return
    read = names_read_first(*body)
    carried = [name for name in bound if name in read]
    others = [name for name in bound if name not in read]
    inside = [len(reads(function.body, name)) == len(reads(loop, name)) for name in others]
    found = _rows_of(function, loop.target, loop.iter, body, size)
    if found is None or not carried or not all(inside) or len(set(found[0].axes)) != 1:
        return
    mapped, steps = found
    name = _fresh_name(function, "step")
    state = carried[0] if len(carried) == 1 else f"({', '.join(carried)})"
    given = mapped.names[0] if len(mapped.names) == 1 else f"({', '.join(mapped.names)})"
    sources = mapped.sources[0] if len(mapped.names) == 1 else f"({', '.join(mapped.sources)})"
    first = [f"{state} = carried\n"] if len(carried) > 1 else []
    first += [f"{given} = rows\n"] if len(mapped.names) > 1 else []
    params = (
        state if len(carried) == 1 else "carried",
        given if len(mapped.names) == 1 else "rows",
    )
    inner = [cst.parse_statement(line) for line in first]
    made = _define_function(name, params, [*inner, *steps], f"{state}, {carried[0]}.clone()")
    scan = "torch._higher_order_ops.scan"
    dim = f", dim={mapped.axes[0]}" if mapped.axes[0] else ""
    call = cst.parse_statement(f"{state}, _ = {scan}({name}, {state}, {sources}{dim})\n")
    yield Candidate(
        "scan",
        f"Iterate over the rows of `{size.name}` with `scan`",
        site.replaced([(loop, _in_place(loop, [made, call]))], imports=["torch"]),
        gives_up="`scan` is a prototype in torch, and raises an error if there are no rows.",
        extends=True,
        computes_more=True,
    )
