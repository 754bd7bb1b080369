"""Rewrites of operations whose result size depends on data, to operations with a fixed result
size."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.domain.findings import undecided_condition
from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import descendants
from fullgraph.fixes.rewrites.syntax import (
    Syntax,
    bound_variables,
    names_in,
    reads,
    same,
    targets,
)
from fullgraph.fixes.site import Change, Replacing, Site

_NEUTRAL = {
    "sum": "0",
    "nansum": "0",
    "count_nonzero": "0",
    "norm": "0",
    "prod": "1",
    "max": 'float("-inf")',
    "amax": 'float("-inf")',
    "logsumexp": 'float("-inf")',
    "min": 'float("inf")',
    "amin": 'float("inf")',
    "any": "False",
    "all": "True",
}
"""Code of the number that replaces elements outside of a mask, by the name of a reduction. The
number does not change the reduction's result: 0 for ``sum``.
"""

_SYMBOLIC_SHAPES = "torch.fx.experimental.symbolic_shapes"
_UNDECIDED = (
    "Compiled code does not check the condition if it depends on tensor data, and assumes that it "
    "is {}."
)
CAPTURE = "torch._dynamo.config.capture_dynamic_output_shape_ops = True"


def masked_reduction(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of reductions over elements that a mask selects.

    ``x[mask].sum()`` becomes ``x.masked_fill(~mask, 0).sum()``.
    """
    syntax = Syntax(site)
    for node in syntax.here:
        selected = _selection(syntax, node)
        if selected is None:
            continue
        tensor, mask = selected
        reduction = syntax.text.parent(node)
        call = syntax.text.parent(reduction) if reduction is not None else None
        if isinstance(call, cst.Call):
            name = ""
            if isinstance(reduction, cst.Attribute) and call.func is reduction and not call.args:
                name = reduction.attr.value
            elif isinstance(reduction, cst.Arg) and len(call.args) == 1:
                module, _, function = syntax.called(call).rpartition(".")
                name = function if f"{module}.".startswith("torch.") else ""
            code = _reduction_code(syntax, tensor, mask, name)
            if code is not None:
                yield _reduce_whole(syntax.replaced(call, code))
                return
        yield from _through_variable(syntax, node, tensor, mask)


def _reduce_whole(text: str) -> Candidate:
    title = "Reduce the whole tensor, with masked elements replaced"
    return Candidate("mask-reduction", title, text)


def _through_variable(
    syntax: Syntax, node: cst.BaseExpression, tensor: cst.BaseExpression, mask: cst.BaseExpression
) -> Iterator[Candidate]:
    """Yield rewrites of reductions of a variable that only holds elements selected by a mask.

    ``node`` is the assigned expression, ``tensor[mask]``.
    """
    small = syntax.small
    if small is None or not isinstance(small.node, cst.Assign) or small.node.value is not node:
        return
    names = bound_variables(small.node.targets[0].target) if len(small.node.targets) == 1 else None
    if not names or len(names) != 1 or syntax.function is None:
        return
    if not isinstance(small.block, cst.SimpleStatementLine) or len(small.block.body) != 1:
        return
    changes: list[tuple[cst.CSTNode, Change]] = [(small.block, cst.RemoveFromParent())]
    for use in reads(syntax.function.body, names[0]):
        if any(use is one for one in descendants(small.node)):
            continue
        attribute = syntax.text.parent(use)
        call = syntax.text.parent(attribute) if attribute is not None else None
        if not isinstance(attribute, cst.Attribute) or not isinstance(call, cst.Call) or call.args:
            return
        code = _reduction_code(syntax, tensor, mask, attribute.attr.value)
        if code is None:
            return
        changes.append((call, syntax.fitted(call, code)))
    if len(changes) > 1:
        yield _reduce_whole(syntax.site.replaced(changes))


def _selection(
    syntax: Syntax, node: cst.CSTNode
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return the tensor and the mask of ``x[mask]`` or ``x.masked_select(mask)``.

    The result is None for other expressions.
    """
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and not isinstance(index.value, cst.BaseNumber):
            return node.value, index.value
    if isinstance(node, cst.Call):
        given = [arg.value for arg in node.args]
        if syntax.called(node) == "torch.masked_select" and len(given) == 2:
            return given[0], given[1]
        if (
            isinstance(node.func, cst.Attribute)
            and node.func.attr.value == "masked_select"
            and len(given) == 1
        ):
            return node.func.value, given[0]
    return None


def _reduction_code(
    syntax: Syntax, tensor: cst.BaseExpression, mask: cst.BaseExpression, reduction: str
) -> str | None:
    """Return code that reduces the elements of a tensor that a mask selects, without selecting
    them.

    ``reduction`` is the name of the method, such as "sum"; None if it is unknown.
    """
    of, where = syntax.operand(tensor), syntax.operand(mask)
    if reduction == "mean":
        return f"{of}.masked_fill(~{where}, 0).sum() / {where}.sum()"
    if reduction == "numel":
        return f"{where}.sum()"
    if reduction not in _NEUTRAL:
        return None
    return f"{of}.masked_fill(~{where}, {_NEUTRAL[reduction]}).{reduction}()"


def masked_loss(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite of ``cross_entropy(x[mask], y[mask])`` with a fixed result size.

    Elements that the mask leaves out get a class index that the loss ignores.
    """
    syntax = Syntax(site)
    for call in syntax.calls("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss"):
        if len(call.args) < 2 or any(arg.keyword is not None for arg in call.args[:2]):
            continue
        scores = _selection(syntax, call.args[0].value)
        labels = _selection(syntax, call.args[1].value)
        if scores is None or labels is None or not same(scores[1], labels[1]):
            continue
        where = site.code(labels[1])
        changes: list[tuple[cst.CSTNode, Change]] = [
            (
                call.args[0].value,
                syntax.expression(f"{syntax.operand(scores[0])}.flatten(0, -2)"),
            ),
            (
                call.args[1].value,
                syntax.expression(f"torch.where({where}, {site.code(labels[0])}, -100).flatten()"),
            ),
        ]
        yield Candidate(
            "ignore-masked",
            "Let the loss ignore elements that the mask leaves out",
            site.replaced(changes, imports=syntax.lacking("torch")),
        )
    for node in syntax.here:
        # A loss without class indexes becomes the mean over the elements that the mask selects.
        if not isinstance(node, cst.Call) or not syntax.called(node).endswith(
            ("_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
        ):
            continue
        selections = [_selection(syntax, arg.value) for arg in node.args if arg.keyword is None]
        masks = [one[1] for one in selections if one is not None]
        if len(masks) < 2 or not all(same(masks[0], mask) for mask in masks):
            continue
        plain = [
            cst.Arg(one[0]) if one is not None else arg
            for one, arg in zip(selections, node.args, strict=False)
        ]
        kept = [arg for arg in node.args if arg.keyword is not None]
        if any(arg.keyword is not None and arg.keyword.value == "reduction" for arg in kept):
            continue
        arguments = ", ".join(
            site.code(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in (*plain, *kept)
        )
        where = syntax.operand(masks[0])
        code = (
            f'{site.code(node.func)}({arguments}, reduction="none")'
            f".masked_fill(~{where}, 0).sum() / {where}.sum()"
        )
        yield Candidate(
            "mask-loss",
            "Average the loss over elements that the mask selects",
            syntax.replaced(node, code),
        )
        return


def masked_assignment(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of ``x[mask] = f(y[mask])`` and ``x[mask] += v`` with ``torch.where``."""
    syntax = Syntax(site)
    small = syntax.small
    if small is None or not isinstance(small.node, (cst.Assign, cst.AugAssign)):
        return
    left = targets(small.node)
    if len(left) != 1:
        return
    selected = _selection(syntax, left[0])
    if selected is None or isinstance(left[0], cst.Call):
        return
    tensor, mask = selected
    changes: list[tuple[cst.CSTNode, Change]] = []
    for node in descendants(small.node.value):
        inner = _selection(syntax, node)
        if inner is not None and same(inner[1], mask):
            changes.append((node, inner[0]))
    value = small.node.value.visit(Replacing(changes))
    assert isinstance(value, cst.BaseExpression)
    of, where = site.code(tensor), site.code(mask)
    right = site.code(value)
    if isinstance(small.node, cst.AugAssign):
        operator = site.code(small.node.operator).strip().removesuffix("=")
        number = isinstance(value, cst.BaseNumber)
        operand = site.code(value) if number else syntax.operand(value)
        right = f"{syntax.operand(tensor)} {operator} {operand}"
    statement = syntax.module.config_for_parsing
    new = cst.parse_statement(f"{of}[...] = torch.where({where}, {right}, {of})", statement)
    assert isinstance(new, cst.SimpleStatementLine)
    yield Candidate(
        "where-assignment",
        "Assign with `torch.where`",
        site.replaced([(small.node, new.body[0])], imports=syntax.lacking("torch")),
    )


def _listed_condition(syntax: Syntax, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the condition in ``nonzero(condition)`` or ``where(condition)``; None for other
    expressions."""
    if not isinstance(node, cst.Call):
        return None
    name = syntax.called(node)
    given = [arg.value for arg in node.args if not _is_default(arg)]
    if name in ("torch.nonzero", "torch.where", "torch.argwhere") and len(given) == 1:
        return given[0]
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in ("nonzero", "argwhere"):
        return node.func.value if not given else None
    return None


def _is_default(arg: cst.Arg) -> bool:
    """Whether an argument is ``as_tuple=False``, which is the default."""
    named = arg.keyword is not None and arg.keyword.value == "as_tuple"
    return named and isinstance(arg.value, cst.Name) and arg.value.value == "False"


def _is_dynamic(syntax: Syntax, node: cst.CSTNode) -> bool:
    """Whether the size of an expression's value depends on the data of tensors, as for
    ``x[mask]``.
    """
    if _listed_condition(syntax, node) is not None or syntax.called(node) in (
        "torch.unique",
        "torch.bincount",
    ):
        return True
    selected = _selection(syntax, node)
    return selected is not None and not isinstance(selected[1], cst.SimpleString)


def padded_places(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of ``nonzero`` as ``nonzero_static`` with the maximum result size.

    Missing indexes are -1.
    """
    syntax = Syntax(site)
    for node in syntax.here:
        condition = _listed_condition(syntax, node)
        if condition is None or syntax.called(node) == "torch.where":
            continue
        of = syntax.operand(condition)
        code = f"torch.nonzero_static({site.code(condition)}, size={of}.numel())"
        yield Candidate(
            "nonzero-static",
            "Return a fixed number of indices with `nonzero_static`",
            syntax.replaced(node, code, torch=True),
            gives_up=(
                "If fewer elements are nonzero, the remaining indices are -1, and later code must "
                "skip them."
            ),
            suggestion=True,
        )
        return


def assumed_conditions(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of a condition on a size or number that depends on tensor data, such as
    ``len(x[mask]) == 0``, with ``guard_or_false`` and ``guard_or_true``.

    Both functions return the condition if its value is known, as in eager mode. Otherwise they
    return False or True.
    """
    if not undecided_condition(site.finding):
        return
    syntax = Syntax(site)
    test = next((one for one in syntax.around if isinstance(one, cst.Comparison)), None)
    if test is None:
        return
    for assumed in ("false", "true"):
        name = f"guard_or_{assumed}"
        required = f"{_SYMBOLIC_SHAPES}:{name}"
        if name in names_in(syntax.module) and not site.imports(required):
            continue
        call = cst.Call(cst.Name(name), [cst.Arg(test.with_changes(lpar=[], rpar=[]))])
        yield Candidate(
            f"guard-or-{assumed}",
            f"Compile the branch where the condition is {assumed}, with `{name}`",
            site.replaced([(test, call)], imports=[required]),
            gives_up=_UNDECIDED.format(assumed),
        )


def capture_sizes(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that sets Dynamo to capture data-dependent sizes as symbols."""
    title = getattr(site.finding.evidence, "title", "").lower()
    syntax = Syntax(site)
    # Dynamo's message for a break in a loop only mentions the loop, so also look for dynamic sizes.
    in_loop = "loop" in title and any(_is_dynamic(syntax, node) for node in syntax.here)
    if not in_loop and "dynamic shape" not in title and "data-dependent output" not in title:
        return
    text = syntax.with_setting(CAPTURE)
    if text is not None:
        yield Candidate(
            "capture-dynamic-outputs",
            "Set `capture_dynamic_output_shape_ops`",
            text,
            preserves=True,
            gives_up=(
                "The setting applies to the whole program: data-dependent sizes "
                "become symbols without a value, and code that needs the value raises an error."
            ),
        )
