"""Keep sizes dynamic that a line has made constants of."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import code_of
from fullgraph.fixes.site import Change, Site
from fullgraph_engine.protocol.evidence import ForecastEvidence, SpecializationEvidence

_SIZE = re.compile(r"^L\['(?P<name>\w+)'\]\.size\(\)\[(?P<axis>\d+)\]$")
_VALUE = re.compile(r"(?P<size>L\['\w+'\]\.size\(\)\[\d+\]) == (?P<value>\d+)")
_MOST_PLACES = 6
"""Constants of one function that are tried one by one."""
_RESHAPES = ("view", "reshape", "expand", "unflatten", "broadcast_to")
_OTHERS_RAISE = "Sizes for which the original raises are computed."


@dataclass(frozen=True)
class _Size:
    """The size that became a constant, as the function can write it."""

    name: str
    axis: int
    value: int

    @property
    def code(self) -> str:
        return f"{self.name}.shape[{self.axis}]"

    @property
    def node(self) -> cst.BaseExpression:
        return cst.parse_expression(self.code)


def sizes(site: Site) -> Iterator[Candidate]:
    """Write the size where its value is written, or do rows at once instead of one by one."""
    size = _size(site)
    function = site.function
    if size is None or not isinstance(function, cst.FunctionDef):
        return
    if not _is_parameter(function, size.name):
        return
    yield from _rows(site, function, size)
    yield from _filled(site, function)
    yield from _chunks(site)
    yield from _summed(site, function, size)
    yield from _constants(site, function, size)
    yield from _inferred(site)
    yield from _functions(site, size)
    yield from _attributes(site, size)
    yield from _parts_of_attributes(site, size)


def _size(site: Site) -> _Size | None:
    evidence = site.finding.evidence
    if isinstance(evidence, SpecializationEvidence):
        found = _SIZE.match(evidence.source)
        if found is not None and evidence.value.isdigit():
            return _Size(found["name"], int(found["axis"]), int(evidence.value))
    if isinstance(evidence, ForecastEvidence):
        for guard in evidence.guards:
            value = _VALUE.search(guard.expression)
            found = _SIZE.match(value["size"]) if value is not None else None
            if value is not None and found is not None:
                return _Size(found["name"], int(found["axis"]), int(value["value"]))
    return None


def _is_parameter(function: cst.FunctionDef, name: str) -> bool:
    """Whether the function is given it, and does not give the name to something else."""
    params = function.params
    given = (*params.posonly_params, *params.params, *params.kwonly_params)
    if all(param.name.value != name for param in given):
        return False
    rebound = m.findall(function.body, m.AssignTarget(target=m.Name(name)))
    return not rebound


def _candidate(
    site: Site, title: str, changes: Sequence[tuple[cst.CSTNode, Change]], name: str
) -> Candidate:
    return Candidate(name, title, site.replaced(changes), gives_up=_OTHERS_RAISE, extends=True)


# -- constants ------------------------------------------------------------------------------------


def _constants(site: Site, function: cst.FunctionDef, size: _Size) -> Iterator[Candidate]:
    """``view(4, -1)`` becomes ``view(x.shape[0], -1)``, ``reshape(24)`` becomes ``reshape(-1)``."""
    numbers: list[cst.Integer] = m.findall(function.body, m.Integer())  # type: ignore[assignment]
    exact = [
        number
        for number in numbers
        if number.evaluated_value == size.value and not _is_index(site, number)
    ]
    here = site.statement
    inside = m.findall(here, m.Integer()) if here is not None else ()
    exact.sort(key=lambda number: not any(number is one for one in inside))
    for number in exact[:_MOST_PLACES]:
        title = f"Write `{size.code}` for {size.value}"
        yield _candidate(site, title, [(number, size.node)], "size-of-input")
    if 1 < len(exact) <= _MOST_PLACES:
        title = f"Write `{size.code}` for each {size.value}"
        yield _candidate(site, title, [(each, size.node) for each in exact], "size-of-input")
    for number in numbers:
        value = number.evaluated_value
        call = _reshape_of(site, number)
        if call is None or value % size.value or not value:
            continue
        if value != size.value:
            product = cst.parse_expression(f"{value // size.value} * {size.code}")
            title = f"Write `{value // size.value} * {size.code}` for {value}"
            yield _candidate(site, title, [(number, product)], "size-of-input")


def _is_index(site: Site, number: cst.Integer) -> bool:
    """In ``x[4]`` or ``dim=4`` it is no size; in a comparison it is what the code is about."""
    parent = site.text.parent(number)
    if isinstance(parent, (cst.ComparisonTarget, cst.Comparison)):
        return True
    if isinstance(parent, cst.Arg) and parent.keyword is not None:
        return parent.keyword.value in ("dim", "axis")
    return isinstance(parent, cst.Index)


def _reshape_of(site: Site, number: cst.CSTNode) -> cst.Call | None:
    """The call of ``view`` or the like that a number is an argument of."""
    for above in itertools.islice(site.text.ancestors(number), 4):
        if isinstance(above, cst.Call):
            func = above.func
            named = isinstance(func, cst.Attribute) and func.attr.value in _RESHAPES
            return above if named else None
    return None


def _attributes(site: Site, size: _Size) -> Iterator[Candidate]:
    """``view(self.batch, -1)`` becomes ``view(x.shape[0], -1)``."""
    here = site.statement
    if here is None:
        return
    for call in m.findall(here, m.Call()):
        assert isinstance(call, cst.Call)
        values = [arg.value for arg in call.args]
        values += [
            element.value
            for value in values
            if isinstance(value, (cst.Tuple, cst.List))
            for element in value.elements
        ]
        for value in values:
            if m.matches(value, m.Attribute(value=m.Name("self"))):
                title = f"Write `{size.code}` for `{site.code(value)}`"
                yield _candidate(site, title, [(value, size.node)], "size-of-input")


def _parts_of_attributes(site: Site, size: _Size) -> Iterator[Candidate]:
    """``x + self.positions`` becomes ``x + self.positions[: x.shape[0]]``."""
    here = site.statement
    if here is None or isinstance(here, cst.BaseCompoundStatement):
        return
    for attribute in m.findall(here, m.Attribute(value=m.Name("self"))):
        assert isinstance(attribute, cst.Attribute)
        parent = site.text.parent(attribute)
        if isinstance(parent, cst.Call) and parent.func is attribute:
            continue
        if isinstance(parent, (cst.Attribute, cst.AssignTarget)):
            continue
        until = f": {size.code}"
        axis = ":, " * size.axis + until
        for index in dict.fromkeys((axis, until, f"{until}, {until}", f"..., {until}, {until}")):
            sliced = cst.parse_expression(f"{site.code(attribute)}[{index}]")
            title = f"Take as much of `{site.code(attribute)}` as `{size.name}` has"
            yield _candidate(site, title, [(attribute, sliced)], "slice-parameter")


def _inferred(site: Site) -> Iterator[Candidate]:
    """``reshape(2, 2, 6)`` becomes ``reshape(-1, 2, 6)``: one size follows from the others."""
    here = site.statement
    for call in m.findall(here, m.Call(func=m.Attribute())) if here is not None else ():
        assert isinstance(call, cst.Call)
        name = cst.ensure_type(call.func, cst.Attribute).attr.value
        if name not in _INFERRED:
            continue
        values = [arg.value for arg in call.args[1 if name == "unflatten" else 0 :]]
        if len(values) == 1 and isinstance(values[0], (cst.Tuple, cst.List)):
            values = [element.value for element in values[0].elements]
        if any(code_of(value) == "-1" for value in values):
            continue
        for value in values:
            if isinstance(value, cst.Integer):
                title = f"Have {code_of(value)} follow from the other sizes"
                yield _candidate(
                    site, title, [(value, cst.parse_expression("-1"))], "inferred-size"
                )


_INFERRED = ("view", "reshape", "unflatten")


def _functions(site: Site, size: _Size) -> Iterator[Candidate]:
    """``math.log(x.shape[0])``, which is computed when compiling, as an operation of tensors."""
    here = site.statement
    for call in m.findall(here, m.Call(func=m.Attribute(m.Name("math")))) if here else ():
        assert isinstance(call, cst.Call)
        name = cst.ensure_type(call.func, cst.Attribute).attr.value
        if name in _OF_TENSORS and len(call.args) == 1 and size.name in code_of(call):
            of = f"torch.scalar_tensor({code_of(call.args[0].value)}, dtype=torch.float64)"
            changes = [(call, cst.parse_expression(f"torch.{name}({of})"))]
            yield Candidate(
                "math-of-size",
                f"Compute this by `torch.{name}`",
                site.replaced(changes, imports=["torch"]),
                gives_up="It is a tensor in place of a number.",
                extends=True,
            )


_OF_TENSORS = (
    *("log", "log2", "log10", "log1p", "exp", "sin", "cos", "tan", "tanh", "sinh", "cosh"),
    *("asin", "acos", "atan", "erf", "lgamma"),
)
"""Functions of ``math`` that torch has under the same name and Dynamo does not keep symbolic."""


# -- loops over rows ------------------------------------------------------------------------------


def _rows(site: Site, function: cst.FunctionDef, size: _Size) -> Iterator[Candidate]:
    """``torch.stack([f(row) for row in x])`` becomes ``torch.vmap(lambda row: f(row))(x)``."""
    if size.axis:
        return
    for stacked in m.findall(function.body, _STACK):
        assert isinstance(stacked, cst.Call)
        if not stacked.args or [site.code(arg) for arg in stacked.args[1:]] not in _FIRST:
            continue
        made = stacked.args[0].value
        if isinstance(made, (cst.ListComp, cst.GeneratorExp)):
            rows = _rows_of(made.for_in, size)
            if rows is not None:
                new = cst.parse_expression(_mapped(rows, made.elt, size))
                yield _vmap(site, size, [(stacked, new)])
        elif isinstance(made, cst.Name):
            yield from _appended(site, function, stacked, made.value, size)


_STACK = m.Call(func=m.Attribute(value=m.Name("torch"), attr=m.Name("stack")))


_FIRST: tuple[list[str], ...] = ([], ["0"], ["dim=0"])
"""Further arguments with which rows are stacked as they came."""


@dataclass(frozen=True)
class _Row:
    """What stands for a row: a name, or ``x[i]`` with the name of an index. ``enumerate`` gives
    both."""

    name: str
    source: str
    index: str = ""


def _rows_of(for_in: cst.CompFor, size: _Size) -> _Row | None:
    if for_in.inner_for_in is not None or for_in.ifs or not isinstance(for_in.target, cst.Name):
        return None
    return _row(for_in.target.value, for_in.iter, size)


def _row(name: str, iterated: cst.BaseExpression, size: _Size) -> _Row | None:
    code = code_of(iterated)
    tensor = re.escape(size.name)
    if re.fullmatch(rf"{tensor}(\.unbind\((0|dim=0)?\))?|torch\.unbind\({tensor}\)", code):
        return _Row(name, size.name)
    if re.fullmatch(rf"range\((len\({tensor}\)|{tensor}\.(shape\[0\]|size\(0\)))\)", code):
        return _Row("row", size.name, index=name)
    return None


def _mapped(row: _Row, body: cst.BaseExpression, size: _Size) -> str:
    """What ``body`` is for each row, at once; with the numbers of the rows if it needs them."""
    names, sources = row.name, row.source
    code = code_of(body)
    if row.index:
        code = code.replace(f"{row.source}[{row.index}]", row.name)
        if re.search(rf"\b{row.index}\b", code):
            numbers = f"torch.arange({size.code}, device={size.name}.device)"
            names, sources = f"{row.index}, {names}", f"{numbers}, {sources}"
    return f"torch.vmap(lambda {names}: {code})({sources})"


def _vmap(site: Site, size: _Size, changes: Sequence[tuple[cst.CSTNode, Change]]) -> Candidate:
    title = f"Compute all rows of `{size.name}` at once with `torch.vmap`"
    return Candidate("vmap", title, site.replaced(changes, imports=["torch"]), extends=True)


def _appended(
    site: Site, function: cst.FunctionDef, stacked: cst.Call, name: str, size: _Size
) -> Iterator[Candidate]:
    """A loop that only appends to the list that is stacked."""
    for loop in m.findall(function.body, m.For(target=m.Name(), orelse=None)):
        assert isinstance(loop, cst.For)
        assert isinstance(loop.target, cst.Name)
        row = _row(loop.target.value, loop.iter, size)
        body = loop.body.body
        append = m.SimpleStatementLine(
            [m.Expr(m.Call(m.Attribute(m.Name(name), m.Name("append")), [m.Arg()]))]
        )
        if row is None or len(body) != 1 or not m.matches(body[0], append):
            continue
        value = cst.ensure_type(m.findall(body[0], m.Call())[0], cst.Call).args[0].value
        empty = m.findall(
            function.body,
            m.SimpleStatementLine([m.Assign([m.AssignTarget(m.Name(name))], m.List([]))]),
        )
        removed: list[tuple[cst.CSTNode, Change]] = [
            (one, cst.RemoveFromParent()) for one in (*empty, loop)
        ]
        new = cst.parse_expression(_mapped(row, value, size))
        yield _vmap(site, size, [*removed, (stacked, new)])


def _summed(site: Site, function: cst.FunctionDef, size: _Size) -> Iterator[Candidate]:
    """``for row in x: total = total + f(row)`` becomes one sum over ``torch.vmap`` of ``f``."""
    if size.axis:
        return
    for loop in m.findall(function.body, m.For(orelse=None)):
        assert isinstance(loop, cst.For)
        body = loop.body.body
        if len(body) != 1 or not isinstance(body[0], cst.SimpleStatementLine):
            continue
        added = _added(body[0])
        row = _row_of(loop, size)
        if added is None or row is None or added[0] in (row.name, row.index):
            continue
        total, value = added
        if re.search(rf"\b{re.escape(total)}\b", code_of(value)):
            continue
        new = cst.parse_statement(f"{total} = {total} + {_mapped(row, value, size)}.sum(0)")
        assert isinstance(new, cst.SimpleStatementLine)
        new = new.with_changes(leading_lines=loop.leading_lines)
        title = f"Add all rows of `{size.name}` at once with `torch.vmap`"
        changed = site.replaced([(loop, new)], imports=["torch"])
        yield Candidate("vmap", title, changed, extends=True)


def _row_of(loop: cst.For, size: _Size) -> _Row | None:
    """What stands for a row in a loop, also in one over ``enumerate``."""
    if isinstance(loop.target, cst.Name):
        return _row(loop.target.value, loop.iter, size)
    pair = m.Tuple([m.Element(m.Name()), m.Element(m.Name())])
    if not m.matches(loop.target, pair) or code_of(loop.iter) != f"enumerate({size.name})":
        return None
    index, name = cst.ensure_type(loop.target, cst.Tuple).elements
    return _Row(code_of(name.value), size.name, code_of(index.value))


def _added(line: cst.SimpleStatementLine) -> tuple[str, cst.BaseExpression] | None:
    """The variable that a statement adds something to, and what."""
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


# -- other ways to write it -----------------------------------------------------------------------


def _filled(site: Site, function: cst.FunctionDef) -> Iterator[Candidate]:
    """``torch.tensor([c] * n)`` becomes ``torch.full((n,), c)``, also through a variable."""
    repeated = m.BinaryOperation(
        left=m.List([m.Element()]), operator=m.Multiply(), right=m.DoNotCare()
    )
    for product in m.findall(function.body, repeated):
        assert isinstance(product, cst.BinaryOperation)
        assert isinstance(product.left, cst.List)
        value, count = site.code(product.left.elements[0].value), site.code(product.right)
        full = f"torch.full(({count},), {value})"
        names = [
            target.value
            for assign in m.findall(function.body, m.Assign())
            if isinstance(assign, cst.Assign) and assign.value is product
            for target in (assign.targets[0].target,)
            if isinstance(target, cst.Name)
        ]
        for call in m.findall(
            function.body, m.Call(func=m.Attribute(m.Name("torch"), m.Name("tensor")))
        ):
            assert isinstance(call, cst.Call)
            given = call.args[0].value if call.args else None
            through = isinstance(given, cst.Name) and given.value in names
            if given is product:
                new = cst.parse_expression(full)
                yield _candidate(site, "Fill a tensor instead of a list", [(call, new)], "full")
            elif through:
                changes = [(product, cst.parse_expression(full)), (call, given)]
                yield _candidate(site, "Fill a tensor instead of a list", changes, "full")  # type: ignore[arg-type]


def _chunks(site: Site) -> Iterator[Candidate]:
    """``x.split([2, 2])`` becomes ``x.chunk(2)``: parts of one size."""
    expression = site.expression
    if not m.matches(expression, m.Call(func=m.Attribute(attr=m.Name("split")))):  # type: ignore[arg-type]
        return
    call = cst.ensure_type(expression, cst.Call)
    given = call.args[0].value if call.args else None
    if not isinstance(given, (cst.List, cst.Tuple)):
        return
    parts = {site.code(element.value) for element in given.elements}
    if len(parts) != 1:
        return
    func = cst.ensure_type(call.func, cst.Attribute)
    args = [cst.Arg(cst.Integer(str(len(given.elements)))), *call.args[1:]]
    new = call.with_changes(func=func.with_changes(attr=cst.Name("chunk")), args=args)
    yield _candidate(site, "Split into equal parts with `chunk`", [(call, new)], "chunk")
