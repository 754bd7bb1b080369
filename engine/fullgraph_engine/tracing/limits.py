"""Sizes that compiled code takes only within bounds, because of a condition on them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]

_FURTHER = (2, 3, 4)
"""Multiples of a size that a condition does not hold for, if it limits the size."""
_MOST = 256
"""Steps in which a bound is looked for."""


@dataclass(frozen=True)
class Bounds:
    """From ``low`` to ``high``, both included, a guard of a ShapeEnv holds for a symbol. ``place``
    says where the ShapeEnv was."""

    symbol: Any
    condition: str
    low: int
    high: int
    place: str


def of_guards(shape_env: Any, hints: Mapping[str, int]) -> Iterator[Bounds]:
    """The bounds of each symbol with a hint, by the first guard that limits it.

    Only an equation of an expression of one symbol with a number is looked at, such as
    ``Eq(s0//6, 1)``: what is not solved for the symbol has a floor in it, as pooling, windows and
    parts of a fixed size have.
    """
    told: set[Any] = set()
    for guard in getattr(shape_env, "guards", ()):
        condition = guard.expr
        symbols = condition.free_symbols
        if not condition.is_Equality or len(symbols) != 1 or not condition.rhs.is_number:
            continue
        (symbol,) = symbols
        hint = hints.get(str(symbol))
        if hint is None or hint < 2 or condition in told or symbol in told:
            continue
        told.add(condition)

        def holds(size: int, condition: Any = condition, symbol: Any = symbol) -> bool:
            return condition.xreplace({symbol: sympy.Integer(size)}) is sympy.true

        if not holds(hint) or any(holds(factor * hint) for factor in _FURTHER):
            continue
        told.add(symbol)
        low = high = hint
        while high - hint < _MOST and holds(high + 1):
            high += 1
        while low > 2 and hint - low < _MOST and holds(low - 1):
            low -= 1
        yield Bounds(symbol, _words(condition), low, high, str(getattr(guard, "sloc", "")))


def _words(condition: Any) -> str:
    left = re.sub(r"\(\(([^()]*)\)\)", r"(\1)", str(condition.lhs))
    if re.fullmatch(r"\((?:[^()]|\([^()]*\))*\)", left):
        left = left[1:-1]
    return f"{left} == {condition.rhs}"
