"""Forecasts of recompiles: which calls of a target with other arguments will recompile it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from .places import Range

ForecastKind = Literal["size", "value", "flag", "mode", "call"]
"""Kind of a change between calls: sizes, a Python value, an argument with two values, training
mode, or a repeated call without a change."""

Verdict = Literal["stays", "once", "conditional", "always"]
"""Effect that a change of an input has on later calls.

``stays``: they are never recompiled. ``once``: they are recompiled once, and the result fits all
further values (flags: once per value). ``conditional``: they are recompiled when a condition
changes. ``always``: they are recompiled for each new value.
"""


@dataclass(frozen=True)
class ForecastRow:
    """One input, or group of inputs, that the forecast changed between calls of a target.

    ``name`` is in the user's words (``x.shape[0], mask.shape[0]``). ``first`` is its value in the
    example call, and ``tried`` are its values in the later calls. ``reasons`` say which guards
    failed, each in a clause. ``range`` is the source range that caused the first failed guard, or
    of the code that specializes the size.
    """

    kind: ForecastKind
    name: str
    first: str
    tried: tuple[str, ...]
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    range: Union[Range, None] = None
