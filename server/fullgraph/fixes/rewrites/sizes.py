"""Rewrites that keep sizes dynamic although a line of code makes them constants."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.conditions import operand
from fullgraph.fixes.rewrites.constants import SIZE, Size, constants
from fullgraph.fixes.rewrites.names import code_of, descendants, find_all, named_parameters
from fullgraph.fixes.rewrites.numpy_numbers import OF_MATH
from fullgraph.fixes.rewrites.rows import rows
from fullgraph.fixes.rewrites.syntax import Syntax, names_in
from fullgraph.fixes.site import Change, Site
from fullgraph_engine.protocol.evidence import ForecastEvidence, SpecializationEvidence

_SIZE = re.compile(r"^L\['(?P<name>\w+)'\]\.size\(\)\[(?P<axis>\d+)\]$")
_MOST_PLACES = 6
"""Maximum number of constants of a function for which a rewrite is tried. Each rewrite replaces one
of them.
"""
_RESHAPES = ("view", "reshape", "expand", "unflatten", "broadcast_to")
_OTHERS_RAISE = "The new code accepts sizes for which the original raises an error."


def sizes(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that keep a size dynamic.

    They replace constants by the size that they equal, or compute all rows of a tensor at once
    instead of in a loop.
    """
    size = _size(site)
    function = site.function
    if not isinstance(function, cst.FunctionDef):
        return
    if _is_of_number(site, function):
        yield from _rewrite_functions(site)
    if size is None or size.name not in named_parameters(function):
        return
    yield from rows(site, function, size)
    yield from _rewrite_filled(site, function)
    yield from _rewrite_split(site, function, size)
    yield from _constants(site, function, size)
    yield from _infer_size(site)
    yield from _rewrite_linspace(site)
    yield from _rewrite_diagonals(site, function)
    yield from _rewrite_upsample(site, function, size)
    yield from _rewrite_functions(site)
    yield from _rewrite_attributes(site, size)
    yield from _parts_of_attributes(site, size)


def _size(site: Site) -> Size | None:
    evidence = site.finding.evidence
    if isinstance(evidence, SpecializationEvidence):
        found = _SIZE.match(evidence.source)
        if found is not None and evidence.value.isdigit():
            return Size(found["name"], int(found["axis"]), int(evidence.value))
    if isinstance(evidence, ForecastEvidence):
        for changed in evidence.changed:
            found = SIZE.fullmatch(changed)
            if found is not None and evidence.first.isdigit():
                return Size(found["name"], int(found["axis"]), int(evidence.first))
    return None


def _is_of_number(site: Site, function: cst.FunctionDef) -> bool:
    """Whether the finding says that each new value of a number argument recompiles the function."""
    evidence = site.finding.evidence
    changed = evidence.changed if isinstance(evidence, ForecastEvidence) else ()
    return any(name in named_parameters(function) for name in changed)


def _candidate(
    site: Site, title: str, changes: Sequence[tuple[cst.CSTNode, Change]], name: str
) -> Candidate:
    return Candidate(name, title, site.replaced(changes), gives_up=_OTHERS_RAISE, extends=True)


# -- constants ------------------------------------------------------------------------------------


def _constants(site: Site, function: cst.FunctionDef, size: Size) -> Iterator[Candidate]:
    """Yield rewrites that replace constants in a function by the size that they equal.

    ``view(4, -1)`` becomes ``view(x.shape[0], -1)``, ``reshape(24)`` becomes ``reshape(-1)``. A
    constant may also be a variable, ``self.batch`` or ``config["batch"]``.
    """
    known = [
        (node, value) for node, value in constants(site, function) if not _is_index(site, node)
    ]
    exact = [node for node, value in known if value == size.value]
    here = site.statement
    inside = {id(one) for one in descendants(here)} if here is not None else set()
    exact.sort(key=lambda node: id(node) not in inside)
    for node in exact[:_MOST_PLACES]:
        title = f"Write `{size.code}` for {_in_words(node)}"
        yield _candidate(site, title, [(node, size.node)], "size-of-input")
    if 1 < len(exact) <= _MOST_PLACES:
        title = f"Write `{size.code}` for each {size.value}"
        yield _candidate(site, title, [(each, size.node) for each in exact], "size-of-input")
    for node, value in known:
        call = _reshape_of(site, node)
        if call is None or value % size.value or not value:
            continue
        if value != size.value:
            product = cst.parse_expression(f"{value // size.value} * {size.code}")
            title = f"Write `{value // size.value} * {size.code}` for {_in_words(node)}"
            yield _candidate(site, title, [(node, product)], "size-of-input")


def _in_words(node: cst.BaseExpression) -> str:
    code = code_of(node)
    return code if isinstance(node, cst.Integer) else f"`{code}`"


def _rewrite_linspace(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite of ``linspace(0, 1, n)``, which makes ``n`` a constant, as ``arange``."""
    here = site.statement
    linspace = m.Call(func=m.Attribute(m.Name("torch"), m.Name("linspace")))
    for call in find_all(here, cst.Call, linspace) if here is not None else ():
        if len(call.args) < 3 or any(arg.keyword for arg in call.args[:3]):
            continue
        start, end, steps = (code_of(arg.value) for arg in call.args[:3])
        rest = "".join(f", {code_of(arg.with_changes(comma=_NO_COMMA))}" for arg in call.args[3:])
        step = f"({operand(end)} - {operand(start)}) / max({operand(steps)} - 1, 1)"
        new = cst.parse_expression(f"({operand(start)} + torch.arange({steps}{rest}) * ({step}))")
        yield _candidate(site, "Compute the range with `torch.arange`", [(call, new)], "arange")


_NO_COMMA = cst.MaybeSentinel.DEFAULT


def _rewrite_diagonals(site: Site, function: cst.FunctionDef) -> Iterator[Candidate]:
    """Yield a rewrite of ``torch.diag(x, n)``, whose offset ``n`` must be a constant.

    It becomes the diagonal of ``x[:, n:]``, and ``torch.diag(x, -n)`` the diagonal of ``x[n:]``,
    everywhere in the function.
    """
    changes: list[tuple[cst.CSTNode, Change]] = []
    for call in descendants(function.body):
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            continue
        given = [one.value for one in call.args if one.keyword is None and not one.star]
        if call.func.attr.value not in ("diag", "diagonal") or len(given) != len(call.args):
            continue
        is_function = code_of(call.func.value) == "torch"
        if not is_function:
            given.insert(0, call.func.value)
        if len(given) != 2 or not names_in(given[1]):
            continue
        matrix, offset = operand(code_of(given[0])), given[1]
        if isinstance(offset, cst.UnaryOperation) and isinstance(offset.operator, cst.Minus):
            part = f"{matrix}[{_slice_from(offset.expression)}]"
        else:
            part = f"{matrix}[:, {_slice_from(offset)}]"
        name = call.func.attr.value
        new = f"torch.{name}({part})" if is_function else f"{part}.{name}()"
        changes.append((call, cst.parse_expression(new)))
    if changes:
        title = "Take the diagonal of a part of the matrix"
        yield Candidate("diagonal-of-part", title, site.replaced(changes))


def _slice_from(start: cst.BaseExpression) -> str:
    """Return the code of a slice with this start, as formatters write it."""
    code = code_of(start)
    return f"{code}:" if isinstance(start, (cst.Name, cst.Attribute)) else f"{code} :"


def _rewrite_upsample(site: Site, function: cst.FunctionDef, size: Size) -> Iterator[Candidate]:
    """Yield a rewrite of ``self.up(x)``, an ``Upsample`` to a size set in the constructor.

    It becomes ``interpolate`` to the size of another input.
    """
    of_class = site.enclosing((cst.ClassDef,))
    if of_class is None or size.axis < 2:
        return
    syntax = Syntax(site)
    made: dict[str, list[cst.Arg]] = {}
    for assign in find_all(of_class, cst.Assign, m.Assign(value=m.Call())):
        layer = cst.ensure_type(assign.value, cst.Call)
        if syntax.called(layer).endswith("nn.Upsample") and all(arg.keyword for arg in layer.args):
            made[code_of(assign.targets[0].target)] = list(layer.args)
    for call in find_all(function.body, cst.Call, m.Call(args=[m.Arg(keyword=None, star="")])):
        options = made.get(code_of(call.func), [])
        names = [arg.keyword.value if arg.keyword else "" for arg in options]
        if "size" not in names or "scale_factor" in names:
            continue
        rest = "".join(
            f", {code_of(arg.with_changes(comma=_NO_COMMA))}"
            for arg, name in zip(options, names, strict=True)
            if name != "size"
        )
        given = f"{code_of(call.args[0].value)}, size={size.name}.shape[2:]{rest}"
        new = cst.parse_expression(f"torch.nn.functional.interpolate({given})")
        title = f"Interpolate to the size of `{size.name}`"
        changed = site.replaced([(call, new)], imports=["torch"])
        yield Candidate("interpolate", title, changed, extends=True)


def _is_index(site: Site, number: cst.BaseExpression) -> bool:
    """Whether a constant number is used as an index, as in ``x[4]`` or ``dim=4``, or is compared
    with a size.
    """
    parent = site.text.parent(number)
    if isinstance(parent, (cst.ComparisonTarget, cst.Comparison)):
        return True
    if isinstance(parent, cst.Arg) and parent.keyword is not None:
        return parent.keyword.value in ("dim", "axis")
    return isinstance(parent, cst.Index)


def _reshape_of(site: Site, number: cst.CSTNode) -> cst.Call | None:
    """Return the call of a method such as ``view`` with the node ``number`` as an argument.

    None if there is none.
    """
    for above in itertools.islice(site.text.ancestors(number), 4):
        if isinstance(above, cst.Call):
            func = above.func
            named = isinstance(func, cst.Attribute) and func.attr.value in _RESHAPES
            return above if named else None
    return None


def _rewrite_attributes(site: Site, size: Size) -> Iterator[Candidate]:
    """Yield rewrites that replace an attribute by the size that it equals.

    ``view(self.batch, -1)`` becomes ``view(x.shape[0], -1)``.
    """
    here = site.statement
    if here is None:
        return
    for call in find_all(here, cst.Call):
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


def _parts_of_attributes(site: Site, size: Size) -> Iterator[Candidate]:
    """Yield rewrites that slice a parameter of the module to the size of an input.

    ``x + self.positions`` becomes ``x + self.positions[: x.shape[0]]``.
    """
    here = site.statement
    if here is None or isinstance(here, cst.BaseCompoundStatement):
        return
    for attribute in find_all(here, cst.Attribute, m.Attribute(value=m.Name("self"))):
        parent = site.text.parent(attribute)
        if isinstance(parent, cst.Call) and parent.func is attribute:
            continue
        if isinstance(parent, (cst.Attribute, cst.AssignTarget)):
            continue
        code, until = site.code(attribute), f": {size.code}"
        axis = ":, " * size.axis + until
        parts = dict.fromkeys((axis, until, f"{until}, {until}", f"..., {until}, {until}"))
        # If the input has full length, a slice such as `p[:n]` guards on `n == p.shape[0]`, which
        # makes `n` a constant. Indexing by `arange` does not.
        numbers = f"torch.arange({size.code}, device={size.name}.device)"
        taken = [f"{code}[{index}]" for index in parts]
        taken += [f"{code}[{':, ' * size.axis}{numbers}]"] if size.axis else []
        taken += [f"{code}[{numbers}]", f"{code}[..., {numbers}, :][..., {numbers}]"]
        for sliced in dict.fromkeys(taken):
            title = f"Slice `{code}` to the size of `{size.name}`"
            changes = [(attribute, cst.parse_expression(sliced))]
            yield _candidate(site, title, changes, "slice-parameter")


def _infer_size(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that replaces a size of ``reshape(2, 2, 6)`` by ``-1``.

    The size then follows from the other sizes.
    """
    here = site.statement
    for call in find_all(here, cst.Call, m.Call(func=m.Attribute())) if here is not None else ():
        name = cst.ensure_type(call.func, cst.Attribute).attr.value
        if name not in _INFERRED:
            continue
        values = [arg.value for arg in call.args[1 if name == "unflatten" else 0 :]]
        if len(values) == 1 and isinstance(values[0], (cst.Tuple, cst.List)):
            values = [element.value for element in values[0].elements]
        if any(code_of(value) == "-1" for value in values):
            continue
        for value in values:
            if not isinstance(value, (cst.UnaryOperation, cst.StarredElement)):
                title = f"Infer {_in_words(value)} from the other sizes"
                yield _candidate(
                    site, title, [(value, cst.parse_expression("-1"))], "inferred-size"
                )


_INFERRED = ("view", "reshape", "unflatten")


def _rewrite_functions(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of functions such as ``math.log(x.shape[0])``, which make the size a constant.

    ``math.log`` becomes a tensor operation, and ``np.sqrt`` becomes ``math.sqrt``.
    """
    syntax = Syntax(site)
    here = site.statement
    for call in find_all(here, cst.Call) if here else ():
        package, _, name = syntax.called(call).rpartition(".")
        if package == "numpy" and name in _OF_MATH and len(call.args) == 1:
            changed = call.with_changes(func=cst.parse_expression(f"math.{_OF_MATH[name]}"))
            yield Candidate(
                "math-of-size",
                f"Compute this with `math.{_OF_MATH[name]}`",
                site.replaced([(call, changed)], imports=["math"]),
                gives_up="The result is a Python number instead of a NumPy number.",
                extends=True,
            )
    for call in find_all(here, cst.Call, m.Call(func=m.Attribute(m.Name("math")))) if here else ():
        function = cst.ensure_type(call.func, cst.Attribute).attr.value
        if function in _OF_TENSORS and len(call.args) == 1 and names_in(call.args[0].value):
            of = f"torch.scalar_tensor({code_of(call.args[0].value)}, dtype=torch.float64)"
            changes = [(call, cst.parse_expression(f"torch.{function}({of})"))]
            yield Candidate(
                "math-of-size",
                f"Compute this with `torch.{function}`",
                site.replaced(changes, imports=["torch"]),
                gives_up="The result is a tensor instead of a number.",
                extends=True,
            )


_OF_TENSORS = (
    *("log", "log2", "log10", "log1p", "exp", "sin", "cos", "tan", "tanh", "sinh", "cosh"),
    *("asin", "acos", "atan", "erf", "lgamma"),
)
"""Functions of ``math`` that torch has under the same name; Dynamo makes their results
constants.
"""
_OF_MATH = {**{name: name for name in OF_MATH}, "product": "prod"}
"""Functions of ``numpy`` by name, with their name in ``math``.

Dynamo keeps the results of some ``math`` functions symbolic.
"""


# -- functions that make sizes constants ----------------------------------------------------------


def _rewrite_filled(site: Site, function: cst.FunctionDef) -> Iterator[Candidate]:
    """Yield rewrites of ``torch.tensor([c] * n)`` as ``torch.full((n,), c)``, also through a
    variable.
    """
    for product in m.findall(function.body, m.BinaryOperation() | m.ListComp()):
        assert isinstance(product, (cst.BinaryOperation, cst.ListComp))
        repeated = _repeated_value(product)
        if repeated is None:
            continue
        value, count = map(code_of, repeated)
        full = f"torch.full(({count},), {value})"
        names = [
            target.value
            for assign in find_all(function.body, cst.Assign)
            if assign.value is product
            for target in (assign.targets[0].target,)
            if isinstance(target, cst.Name)
        ]
        for call in find_all(
            function.body, cst.Call, m.Call(func=m.Attribute(m.Name("torch"), m.Name("tensor")))
        ):
            given = call.args[0].value if call.args else None
            through = isinstance(given, cst.Name) and given.value in names
            if given is product:
                new = cst.parse_expression(full)
                yield _candidate(site, "Fill a tensor instead of a list", [(call, new)], "full")
            elif through:
                changes = [(product, cst.parse_expression(full)), (call, given)]
                yield _candidate(site, "Fill a tensor instead of a list", changes, "full")  # type: ignore[arg-type]


def _repeated_value(
    made: cst.BinaryOperation | cst.ListComp,
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return the value ``c`` and the count ``n`` of ``[c] * n`` or ``[c for _ in range(n)]``."""
    if isinstance(made, cst.ListComp):
        loop = made.for_in
        if not m.matches(loop, m.CompFor(iter=m.Call(m.Name("range"), [m.Arg()]), ifs=[])):
            return None
        if loop.inner_for_in is not None or names_in(loop.target) & names_in(made.elt):
            return None
        return made.elt, cst.ensure_type(loop.iter, cst.Call).args[0].value
    if not m.matches(made, m.BinaryOperation(m.List([m.Element()]), m.Multiply())):
        return None
    return cst.ensure_type(made.left, cst.List).elements[0].value, made.right


def _rewrite_split(site: Site, function: cst.FunctionDef, size: Size) -> Iterator[Candidate]:
    """Yield rewrites of ``x.split([2, 2])`` as ``x.chunk(2)``.

    In a split into other sizes, such as ``[2, 6]``, one size becomes the remainder.
    """
    here = site.statement
    for call in (
        find_all(here, cst.Call, m.Call(func=m.Attribute(attr=m.Name("split")))) if here else ()
    ):
        func = cst.ensure_type(call.func, cst.Attribute)
        first = 1 if code_of(func.value) == "torch" else 0
        given = call.args[first].value if len(call.args) > first else None
        if not isinstance(given, (cst.List, cst.Tuple)):
            continue
        codes = [site.code(element.value) for element in given.elements]
        if len(set(codes)) == 1:
            new = _chunk_call(call, func, first, len(codes))
            yield _candidate(site, "Split into equal parts with `chunk`", [(call, new)], "chunk")
            continue
        known = {id(node): value for node, value in constants(site, function)}
        pairs = list(zip(given.elements, codes, strict=True))
        # Try the largest size first, because it usually changes between calls.
        pairs.sort(key=lambda pair: -known.get(id(pair[0].value), 0))
        for element, code in pairs:
            others = "".join(f" - {operand(other)}" for other in _without_code(codes, code))
            rest = cst.parse_expression(size.code + others)
            title = f"Compute {_in_words(element.value)} from the other sizes"
            yield _candidate(site, title, [(element.value, rest)], "size-of-input")


def _without_code(codes: list[str], code: str) -> list[str]:
    at = codes.index(code)
    return [*codes[:at], *codes[at + 1 :]]


def _chunk_call(call: cst.Call, func: cst.Attribute, place: int, count: int) -> cst.Call:
    """Return the call of ``chunk`` that replaces a ``split`` into ``count`` equal sizes.

    ``place`` is the index of the argument with the sizes.
    """
    args = list(call.args)
    args[place] = args[place].with_changes(
        value=cst.Integer(str(count)), keyword=None, equal=cst.MaybeSentinel.DEFAULT
    )
    return call.with_changes(func=func.with_changes(attr=cst.Name("chunk")), args=args)
