"""Forecasts of recompiles: which later calls of a target (a function or module class) will
recompile it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from .places import Range

ForecastKind = Literal["size", "value", "flag", "mode", "call"]
"""Kind of difference between calls in a forecast. ``size``: a size. ``value``: a Python value.
``flag``: an argument with two values. ``mode``: training mode. ``call``: no difference, only a
repeated call."""

Verdict = Literal["stays", "once", "conditional", "always"]
"""Effect that a change of an input has on later calls of a target.

``stays``: they never recompile. ``once``: they recompile once, and the result fits all further
values (flags: once per value). ``conditional``: they recompile when a condition changes.
``always``: they recompile for each new value.
"""


@dataclass(frozen=True)
class ForecastRow:
    """The effect of changing one input, or a group of inputs, between calls of a target.

    ``name`` is in the user's words (``x.shape[0], mask.shape[0]``). ``first`` is its value in the
    example call, and ``tried`` are its values in the later calls. ``reasons`` say which guards
    failed, each in a clause. ``range`` is the source range of the code that caused the first
    failed guard, or that specializes the size.
    """

    kind: ForecastKind
    name: str
    first: str
    tried: tuple[str, ...]
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    range: Union[Range, None] = None
