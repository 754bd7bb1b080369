"""One of two values by the data of a tensor, also of values that are made of several."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from fullgraph.fixes.rewrites.conditions import argument
from fullgraph.fixes.rewrites.names import code_of

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
    """The code has no form without a jump that is known here."""


def choice(code: str, first: str, second: str) -> str:
    """The code of ``first`` where a tensor is true, else of ``second``; tuples, lists and
    dictionaries of the same form are chosen from element by element.

    Raises:
        NotConvertible: one of them is no tensor, and they are not alike.
    """
    if first == second:
        return first
    one, two = (cst.parse_expression(f"({side})") for side in (first, second))
    if isinstance(one, (cst.Tuple, cst.List)) and isinstance(two, type(one)):
        parts = _each(code, _values(one.elements), _values(two.elements))
        if isinstance(one, cst.List):
            return f"[{', '.join(parts)}]"
        return ", ".join(parts) if len(parts) > 1 else f"({parts[0]},)"
    if isinstance(one, cst.Dict) and isinstance(two, cst.Dict):
        keys = [code_of(item.key) for item in one.elements if isinstance(item, cst.DictElement)]
        others = [code_of(item.key) for item in two.elements if isinstance(item, cst.DictElement)]
        if keys != others or len(keys) != len(one.elements):
            raise NotConvertible("different keys")
        parts = _each(code, _values(one.elements), _values(two.elements))
        pairs = (f"{key}: {part}" for key, part in zip(keys, parts, strict=True))
        return f"{{{', '.join(pairs)}}}"
    for node in (one, two):
        containers = (cst.Tuple, cst.List, cst.Dict)
        if isinstance(node, (*_NO_TENSORS, *containers)) or code_of(node) in ("(None)", "None"):
            raise NotConvertible("not a tensor")
    return f"torch.where({argument(code)}, {first}, {second})"


def _values(elements: Sequence[cst.BaseElement | cst.BaseDictElement]) -> list[str]:
    if any(isinstance(one, (cst.StarredElement, cst.StarredDictElement)) for one in elements):
        raise NotConvertible("a star")
    return [code_of(one.value) for one in elements]


def _each(code: str, first: list[str], second: list[str]) -> list[str]:
    if len(first) != len(second) or not first:
        raise NotConvertible("different lengths")
    pairs = zip(first, second, strict=True)
    parts = [choice(code, one, two) for one, two in pairs]
    # A tuple in it has no parentheses of its own.
    return [
        f"({part})" if isinstance(cst.parse_expression(f"({part})"), cst.Tuple) else part
        for part in parts
    ]
