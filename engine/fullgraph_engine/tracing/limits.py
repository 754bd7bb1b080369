"""Sizes that compiled code takes only within bounds, because of a condition on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]

from ..torch_internals.shapes import symbol_hints

_FURTHER = (2, 3, 4)
"""Multiples of a size that a condition does not hold for, if it limits the size."""
_MOST = 256
"""Steps in which a bound is looked for."""


@dataclass(frozen=True)
class Bounds:
    """From ``low`` to ``high``, both included, a guard of a ShapeEnv holds for a symbol, which was
    ``size``. ``place`` says where the ShapeEnv was."""

    symbol: Any
    condition: str
    size: int
    low: int
    high: int
    place: str


def of_guards(shape_env: Any) -> Iterator[Bounds]:
    """The bounds of each symbol that had a value, by the first guard that limits it.

    Only an equation of an expression of one symbol with a number is looked at, such as
    ``Eq(s0//6, 1)``: what is not solved for the symbol has a floor in it, as pooling, windows and
    parts of a fixed size have.
    """
    tried: set[Any] = set()
    limited: set[Any] = set()
    for guard in getattr(shape_env, "guards", ()):
        condition = guard.expr
        symbols = condition.free_symbols
        if not condition.is_Equality or len(symbols) != 1 or not condition.rhs.is_number:
            continue
        (symbol,) = symbols
        if condition in tried or symbol in limited:
            continue
        tried.add(condition)
        size = int(symbol_hints(shape_env).get(symbol, 0))
        if size >= 2 and (bounds := _bounds(condition, symbol, size)) is not None:
            limited.add(symbol)
            place = str(getattr(guard, "sloc", ""))
            yield Bounds(symbol, _words(condition), size, *bounds, place)


def _bounds(condition: Any, symbol: Any, size: int) -> tuple[int, int] | None:
    """Between which sizes a condition holds; None where it limits none."""

    def holds(value: int) -> bool:
        return condition.xreplace({symbol: sympy.Integer(value)}) is sympy.true

    if not holds(size) or any(holds(factor * size) for factor in _FURTHER):
        return None
    low = high = size
    while high - size < _MOST and holds(high + 1):
        high += 1
    while low > 2 and size - low < _MOST and holds(low - 1):
        low -= 1
    return low, high


def _words(condition: Any) -> str:
    left = re.sub(r"\(\(([^()]*)\)\)", r"(\1)", str(condition.lhs))
    if re.fullmatch(r"\((?:[^()]|\([^()]*\))*\)", left):
        left = left[1:-1]
    return f"{left} == {condition.rhs}"
