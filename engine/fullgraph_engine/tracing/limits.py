"""Find sizes that a guard limits to a range, so that sizes outside it recompile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]

from ..torch_internals.shapes import symbol_hints

_FACTORS = (2, 3, 4)
"""Factors by which the traced size is multiplied.

A guard counts as a limit only if it fails for all multiplied sizes.
"""
_MAX_DISTANCE = 256
"""Maximum distance from the traced size at which a bound is searched."""


@dataclass(frozen=True)
class SizeBounds:
    """The sizes from ``low`` to ``high``, both included, for which a guard on a symbol holds.

    ``size`` is the symbol's size in this run. ``location`` is the code location (``SLoc``) of the
    guard.
    """

    symbol: Any
    condition: str
    size: int
    low: int
    high: int
    location: str


def find_bounds(shape_env: Any) -> Iterator[SizeBounds]:
    """Yield the range of sizes that each symbol may have, from the first guard that limits it.

    Symbols without a hint are left out. Only equations between an expression of one symbol and a
    number are examined, such as ``Eq(s0//6, 1)``. sympy could not solve them for the symbol because
    they contain a floor, as in pooling, windows and chunks of a fixed size.
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
        if size >= 2 and (bounds := _search_bounds(condition, symbol, size)) is not None:
            limited.add(symbol)
            place = str(getattr(guard, "sloc", ""))
            yield SizeBounds(symbol, _condition_text(condition), size, *bounds, place)


def _search_bounds(condition: Any, symbol: Any, size: int) -> tuple[int, int] | None:
    """Return the smallest and the largest size for which ``condition`` is true; None if unlimited.

    ``size`` is the size of ``symbol`` in this run; the search starts there.
    """

    def holds(value: int) -> bool:
        return condition.xreplace({symbol: sympy.Integer(value)}) is sympy.true

    if not holds(size) or any(holds(factor * size) for factor in _FACTORS):
        return None
    low = high = size
    while high - size < _MAX_DISTANCE and holds(high + 1):
        high += 1
    while low > 2 and size - low < _MAX_DISTANCE and holds(low - 1):
        low -= 1
    return low, high


def _condition_text(condition: Any) -> str:
    expression = re.sub(r"\(\(([^()]*)\)\)", r"(\1)", str(condition.lhs))
    if re.fullmatch(r"\((?:[^()]|\([^()]*\))*\)", expression):
        expression = expression[1:-1]
    return f"{expression} == {condition.rhs}"
