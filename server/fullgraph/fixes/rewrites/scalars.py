"""Rewrites of code that reads Python numbers from tensors.

The numbers stay tensors, or become symbols.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import descendants
from fullgraph.fixes.rewrites.syntax import (
    Syntax,
    arguments,
    assigned_value,
    bound_variables,
    callee,
    dotted_name,
    reads,
    targets,
    words,
)
from fullgraph.fixes.site import Change, Site
from fullgraph_engine.protocol.behavior import Aspect

_FUNCTIONS = {
    name: name
    for name in words(
        """
    sqrt exp log log2 log10 log1p expm1 exp2 sin cos tan asin acos atan sinh cosh tanh asinh
    acosh atanh floor ceil trunc isnan isinf isfinite erf erfc lgamma pow square sign maximum
    minimum sum mean
    """
    )
} | {
    "fabs": "abs",
    "abs": "abs",
    "absolute": "abs",
    "power": "pow",
    "clip": "clamp",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "degrees": "rad2deg",
    "radians": "deg2rad",
}
"""Functions of ``math`` and ``numpy`` by name, with the name of the same function in torch."""
_CONSTANT = words(
    """
    detach argmax argmin long int bool size numel any all count_nonzero eq ne lt le gt ge sign
    floor ceil round isnan isinf isfinite data nonzero bincount
    """
)
"""Methods of a tensor whose results do not have a gradient."""
_CASTS = {"float": ".float()", "int": ".long()", "bool": ".bool()"}
_READS = ("item", "tolist")

CAPTURE = "torch._dynamo.config.capture_scalar_outputs = True"
_CAPTURE_GIVES_UP = (
    "The setting applies to the whole program: numbers read from tensors "
    "become symbols without a value, and conditions and loops that need the value raise an error."
)


def tensor_arithmetic(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that compute with a tensor itself instead of a number read from it."""
    syntax = Syntax(site)
    root = _root(syntax)
    if root is None or _is_condition(syntax, root):
        # A condition on a tensor would break the graph as well.
        return
    texts = []
    for detached in (True, False):
        code = _Tensors(syntax, detached).code(root)
        texts.append(syntax.replaced(root, code, torch="torch." in code))
    # A condition on a tensor would break the graph, like the number.
    loses: tuple[Aspect, ...] = ("warning",)
    yield Candidate("keep-tensor", "Keep the value as a tensor", texts[0], loses=loses)
    if texts[1] != texts[0]:
        yield Candidate(
            "keep-tensor",
            "Keep the value as a tensor, with its gradient",
            texts[1],
            gives_up="Gradients now also flow through this value.",
            loses=loses,
        )


def _is_condition(syntax: Syntax, node: cst.CSTNode) -> bool:
    """Whether an expression is in the condition of a statement."""
    statement = syntax.text.around(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement))
    return isinstance(statement, (cst.If, cst.While, cst.Assert))


def _root(syntax: Syntax) -> cst.BaseExpression | None:
    """Return the outermost expression, around the finding, that converts data of a tensor to a
    number.
    """
    found: cst.BaseExpression | None = None
    for node in syntax.here:
        if found is not None and not any(one is found for one in descendants(node)):
            # This node does not contain the conversion found last.
            continue
        if isinstance(node, cst.Call) and (_is_read(node) or _is_conversion(syntax, node)):
            found = node
    return found


def _is_read(node: cst.CSTNode) -> bool:
    """Whether a node reads numbers from a tensor by a call of ``.item()`` or ``.tolist()``."""
    return (
        isinstance(node, cst.Call)
        and not node.args
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value in _READS
    )


def _is_conversion(syntax: Syntax, call: cst.Call) -> bool:
    """Whether a call converts its only argument to a number, such as ``float(x)``."""
    name = syntax.called(call)
    if name in _CASTS:
        return arguments(call) is not None and len(call.args) == 1
    module, _, function = name.rpartition(".")
    if module in ("math", "numpy"):
        return function in _FUNCTIONS and arguments(call) is not None
    if name in ("torch.tensor", "torch.as_tensor", "round"):
        return bool(call.args) and any(_is_read(node) for node in descendants(call))
    return False


class _Tensors:
    """A converter of expressions: tensors replace the numbers that the code reads from them."""

    def __init__(self, syntax: Syntax, detached: bool) -> None:
        self._syntax = syntax
        self._detached = detached

    def code(self, node: cst.CSTNode) -> str:
        changed = self.node(node)
        return self._syntax.site.code(changed)

    def node(self, node: cst.CSTNode) -> cst.BaseExpression:
        """Return an expression in which tensors replace the numbers read from them."""
        if isinstance(node, cst.Call):
            changed = self._call(node)
            if changed is not None:
                return self._syntax.expression(changed)
        new = node.visit(_Inside(self, node))
        assert isinstance(new, cst.BaseExpression)
        return new

    def _call(self, call: cst.Call) -> str | None:
        syntax = self._syntax
        if _is_read(call):
            assert isinstance(call.func, cst.Attribute)
            return self._tensor(call.func.value)
        name = syntax.called(call)
        if not _is_conversion(syntax, call):
            return None
        value = call.args[0].value
        if name in _CASTS:
            cast = _CASTS[name]
            inner = self._tensor(value)
            return inner if inner.endswith(cast) else f"{inner}{cast}"
        if name == "round":
            decimals = "".join(f", decimals={syntax.site.code(arg.value)}" for arg in call.args[1:])
            return f"torch.round({self.code(value)}{decimals})"
        if name in ("torch.tensor", "torch.as_tensor"):
            return self._constructed_tensor(call)
        function = _FUNCTIONS[name.rpartition(".")[2]]
        given = ", ".join(self.code(arg.value) for arg in call.args)
        code = f"{syntax.spelled('torch.' + function)}({given})"
        is_read = any(_is_read(node) for node in descendants(call))
        return f"{code}.detach()" if self._detached and not is_read else code

    def _constructed_tensor(self, call: cst.Call) -> str:
        """Return code for the tensor that ``torch.tensor(number)`` creates, without reading the
        number.

        For a list of numbers, the code stacks their tensors.
        """
        value, *options = call.args
        if isinstance(value.value, (cst.List, cst.Tuple)):
            inner = f"torch.stack({self.code(value.value)})"
        else:
            inner = self._syntax.operand(self.node(value.value))
        given = ", ".join(
            self._syntax.site.code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT))
            for arg in options
            if arg.keyword is not None and arg.keyword.value in ("dtype", "device")
        )
        return f"{inner}.to({given})" if given else inner

    def _tensor(self, value: cst.BaseExpression) -> str:
        """Return the code of the tensor from which a number is read, for example by ``x.item()``.

        The read may be nested in other calls.
        """
        syntax = self._syntax
        while (
            isinstance(value, cst.Call)
            and isinstance(value.func, cst.Attribute)
            and value.func.attr.value in ("cpu", "numpy", "item")
            and not value.args
        ):
            value = value.func.value
        code = syntax.operand(self.node(value))
        inside = any(_is_read(node) for node in descendants(value))
        if self._detached and not inside and not _without_gradient(syntax, value):
            return f"{code}.detach()"
        return code


class _Inside(cst.CSTTransformer):
    """A transformer that replaces calls inside an expression, outermost calls first."""

    def __init__(self, tensors: _Tensors, root: cst.CSTNode) -> None:
        super().__init__()
        self._tensors = tensors
        self._root = root

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node is self._root or not isinstance(node, cst.Call)

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        if original_node is not self._root and isinstance(original_node, cst.Call):
            return self._tensors.node(original_node)
        return updated_node


def _without_gradient(syntax: Syntax, value: cst.BaseExpression) -> bool:
    """Whether a value does not have a gradient, judging by the last method called or the function's
    decorator.
    """
    node: cst.BaseExpression = value
    while True:
        if isinstance(node, cst.Comparison):
            return True
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value in _CONSTANT:
                return True
            node = node.func.value
        elif isinstance(node, cst.Attribute):
            if node.attr.value in _CONSTANT:
                return True
            node = node.value
        elif isinstance(node, cst.Subscript):
            node = node.value
        else:
            break
    decorators = syntax.function.decorators if syntax.function is not None else ()
    names = [dotted_name(callee(one.decorator)) for one in decorators]
    return any("no_grad" in name or "inference" in name for name in names)


def tensor_index(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of ``x[t]`` and ``x[t.item()]`` that do not read the number in the tensor
    ``t``.
    """
    syntax = Syntax(site)
    if not _of_scalars(site):
        return
    for node in syntax.here:
        if not isinstance(node, cst.Subscript) or len(node.slice) != 1:
            continue
        index = node.slice[0].slice
        if not isinstance(index, cst.Index) or isinstance(index.value, cst.BaseNumber):
            continue
        tensor = syntax.expression(_Tensors(syntax, False).code(index.value))
        code = f"{syntax.operand(node.value)}[{syntax.operand(tensor)}.unsqueeze(0)].squeeze(0)"
        yield Candidate("index-by-tensor", "Index with the tensor", syntax.replaced(node, code))
        return


def comparisons(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of comparisons such as ``torch.equal`` whose result stays a tensor."""
    syntax = Syntax(site)
    for call in syntax.calls("torch.equal", "torch.allclose", "torch.is_nonzero", "torch._assert"):
        name = syntax.called(call)
        given = [site.code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in call.args]
        if name == "torch._assert":
            asserted = syntax.replaced(call.func, syntax.spelled("torch._assert_async"))
            yield Candidate(
                "assert-async",
                "Check the condition on the device",
                asserted,
                gives_up="A failed check raises RuntimeError instead of AssertionError.",
            )
            continue
        operands = [syntax.operand(arg.value) for arg in call.args]
        if name == "torch.is_nonzero" and len(given) == 1:
            code = f"{operands[0]} != 0"
        elif name == "torch.equal" and len(given) == 2:
            code = f"({operands[0]} == {operands[1]}).all()"
        elif name == "torch.allclose":
            code = f"{syntax.spelled('torch.isclose')}({', '.join(given)}).all()"
        else:
            continue
        compared = syntax.replaced(call, code)
        yield Candidate("compare-as-tensor", "Keep the result as a tensor", compared)
        symbol = f"{code}.item()" if name != "torch.is_nonzero" else f"({code}).item()"
        if name == "torch.equal":
            if not all(dotted_name(arg.value) for arg in call.args):
                continue  # the new code would evaluate both expressions twice
            if operands[0] != operands[1]:
                symbol = f"{operands[0]}.shape == {operands[1]}.shape and {symbol}"
        read: tuple[cst.CSTNode, Change] = (call, syntax.fitted(call, symbol))
        captured = syntax.with_setting(CAPTURE, [read])
        yield Candidate(
            "compare-as-symbol",
            "Compare tensors and read the result with `.item()`"
            + (", and set `capture_scalar_outputs`" if captured is not None else ""),
            captured if captured is not None else site.replaced([read]),
            gives_up=_CAPTURE_GIVES_UP if captured is not None else "",
        )


_SIZED = words(
    """
    torch.arange torch.zeros torch.ones torch.empty torch.full torch.rand torch.randn torch.eye
    torch.linspace torch.randperm torch.randint
    """
)


def _of_scalars(site: Site) -> bool:
    """Whether Dynamo's message for the finding says that it could not read a number from a
    tensor.
    """
    title = getattr(site.finding.evidence, "title", "")
    if "item()" in title or "scalar_dense" in site.finding.context:
        return True
    # For a break in a loop, Dynamo's message only mentions the loop.
    return "loop" in title and any(_is_read(node) for node in Syntax(site).here)


def capture_numbers(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that sets Dynamo to capture numbers from tensors as symbols."""
    syntax = Syntax(site)
    reading = [node for node in syntax.here if _is_read(node) or syntax.called(node) in _CASTS]
    if not reading and not _of_scalars(site):
        return
    text = syntax.with_setting(CAPTURE)
    if text is None:
        return
    yield Candidate(
        "capture-scalars",
        "Set `capture_scalar_outputs`",
        text,
        preserves=True,
        gives_up=_CAPTURE_GIVES_UP,
    )
    changes = _sizes_read(syntax)
    if changes:
        text = syntax.with_setting(CAPTURE, changes)
        assert text is not None
        yield Candidate(
            "capture-scalars",
            "Read the size as a number, and set `capture_scalar_outputs`",
            text,
            gives_up=_CAPTURE_GIVES_UP,
        )
    checks = _size_checks(syntax)
    small = syntax.small
    if checks and small is not None and isinstance(small.block, cst.SimpleStatementLine):
        lines = [cst.parse_statement(check, site.module.config_for_parsing) for check in checks]
        text = syntax.with_setting(
            CAPTURE, [(small.block, cst.FlattenSentinel([small.block, *lines]))]
        )
        assert text is not None
        yield Candidate(
            "capture-scalars",
            "Set `capture_scalar_outputs`, and check the bounds of this size",
            text,
            gives_up=f"{_CAPTURE_GIVES_UP} A size out of bounds is an error now.",
        )


def _sizes_read(syntax: Syntax) -> list[tuple[cst.CSTNode, Change]]:
    """Return changes that add ``.item()`` to tensors used as sizes."""
    for call in syntax.calls(*_SIZED):
        return [
            (arg.value, syntax.expression(f"{syntax.operand(arg.value)}.item()"))
            for arg in call.args
            if arg.keyword is None
            and not arg.star
            and not isinstance(arg.value, (cst.BaseNumber, cst.UnaryOperation))
            and not _is_read(arg.value)
        ]
    return []


def _size_checks(syntax: Syntax) -> list[str]:
    """Return the code of ``torch._check`` calls for a variable that holds a size.

    They check that the size is not negative, and at most the size of each tensor sliced up to it.
    """
    small = syntax.small
    value = assigned_value(small.node) if small is not None else None
    if small is None or value is None or syntax.function is None or len(targets(small.node)) != 1:
        return []
    names = bound_variables(targets(small.node)[0])
    if not names or len(names) != 1:
        return []
    name = names[0]
    checks = []
    for use in reads(syntax.function.body, name):
        piece = syntax.text.parent(use)
        element = syntax.text.parent(piece) if isinstance(piece, cst.Slice) else None
        sliced = syntax.text.parent(element) if element is not None else None
        if (
            isinstance(piece, cst.Slice)
            and piece.upper is use
            and isinstance(sliced, cst.Subscript)
        ):
            axis = next(n for n, one in enumerate(sliced.slice) if one is element)
            if isinstance(sliced.value, cst.Name):
                checks.append(f"torch._check({name} <= {sliced.value.value}.shape[{axis}])")
    return [f"torch._check({name} >= 0)", *dict.fromkeys(checks)] if checks else []
