"""Code that chooses between two values by a boolean tensor, also between tuples, lists and
dictionaries."""

from __future__ import annotations

from collections.abc import Sequence, Set

import libcst as cst

from fullgraph.fixes.rewrites.conditions import argument
from fullgraph.fixes.rewrites.names import code_of, descendants
from fullgraph.fixes.site import Transforming

_NO_TENSORS = (
    cst.Set,
    cst.BaseString,
    cst.Lambda,
    cst.ListComp,
    cst.DictComp,
    cst.SetComp,
    cst.GeneratorExp,
)


class NotConvertible(Exception):
    """Raised if code cannot be rewritten to compute both sides and choose between the results."""


def choice(code: str, first: str, second: str) -> str:
    """Return code that chooses ``first`` where the boolean tensor ``code`` is true, else
    ``second``.

    All three are source code. Tuples, lists and dictionaries of the same form are chosen element
    by element.

    Raises:
        NotConvertible: The values are neither tensors nor containers of the same form.
    """
    if first == second:
        return first
    one, two = (cst.parse_expression(f"({side})") for side in (first, second))
    if isinstance(one, (cst.Tuple, cst.List)) and isinstance(two, type(one)):
        parts = _choose_each(code, _element_values(one.elements), _element_values(two.elements))
        if isinstance(one, cst.List):
            return f"[{', '.join(parts)}]"
        return ", ".join(parts) if len(parts) > 1 else f"({parts[0]},)"
    if isinstance(one, cst.Dict) and isinstance(two, cst.Dict):
        keys = [code_of(item.key) for item in one.elements if isinstance(item, cst.DictElement)]
        others = [code_of(item.key) for item in two.elements if isinstance(item, cst.DictElement)]
        if keys != others or len(keys) != len(one.elements):
            raise NotConvertible("different keys")
        parts = _choose_each(code, _element_values(one.elements), _element_values(two.elements))
        pairs = (f"{key}: {part}" for key, part in zip(keys, parts, strict=True))
        return f"{{{', '.join(pairs)}}}"
    for node in (one, two):
        containers = (cst.Tuple, cst.List, cst.Dict)
        if isinstance(node, (*_NO_TENSORS, *containers)) or code_of(node) in ("(None)", "None"):
            raise NotConvertible("not a tensor")
    condition = argument(code)
    first, second = _guard_divisors(condition, first, second)
    return f"torch.where({condition}, {first}, {second})"


_DIVISIONS = (cst.Divide, cst.FloorDivide, cst.Modulo)


def _guard_divisors(condition: str, first: str, second: str) -> tuple[str, str]:
    """Replace the divisors of each side by 1 where the other side is chosen, if the condition
    compares them with a number. Return the code of both sides.

    A division by zero on the other side would make the gradients NaN.
    """
    divisors: set[str] = set()
    for node in descendants(cst.parse_expression(condition)):
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            sides = (node.left, node.comparisons[0].comparator)
            if any(isinstance(side, cst.BaseNumber) for side in sides):
                divisors |= {_bare(side) for side in sides if not isinstance(side, cst.BaseNumber)}
    return (
        _replace_divisors(first, divisors, f"torch.where({condition}, {{}}, 1)"),
        _replace_divisors(second, divisors, f"torch.where({condition}, 1, {{}})"),
    )


def _replace_divisors(code: str, divisors: Set[str], pattern: str) -> str:
    """Return the code of an expression in which ``pattern`` replaces each divisor that ``divisors``
    contains; ``{}`` in the pattern stands for the divisor."""
    if not divisors:
        return code

    def guard(_: cst.CSTNode, new: cst.CSTNode) -> cst.CSTNode:
        if not isinstance(new, cst.BinaryOperation) or not isinstance(new.operator, _DIVISIONS):
            return new
        divisor = _bare(new.right)
        if divisor not in divisors:
            return new
        return new.with_changes(right=cst.parse_expression(pattern.replace("{}", divisor)))

    changed = cst.parse_expression(code).visit(Transforming(guard))
    assert isinstance(changed, cst.BaseExpression)
    return code_of(changed)


def _bare(node: cst.BaseExpression) -> str:
    """Return the code of an expression without parentheses around it."""
    return code_of(node.with_changes(lpar=(), rpar=()))


def _element_values(elements: Sequence[cst.BaseElement | cst.BaseDictElement]) -> list[str]:
    if any(isinstance(one, (cst.StarredElement, cst.StarredDictElement)) for one in elements):
        raise NotConvertible("a star")
    return [code_of(one.value) for one in elements]


def _choose_each(code: str, first: list[str], second: list[str]) -> list[str]:
    if len(first) != len(second) or not first:
        raise NotConvertible("different lengths")
    pairs = zip(first, second, strict=True)
    parts = [choice(code, one, two) for one, two in pairs]
    # A nested tuple does not have parentheses.
    return [
        f"({part})" if isinstance(cst.parse_expression(f"({part})"), cst.Tuple) else part
        for part in parts
    ]
