"""Forecasts of recompiles, when a target is called with other arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from .places import Range

ForecastKind = Literal["size", "value", "flag", "mode", "call"]
"""Kind of a change: sizes, a Python value, an argument with two values, training mode, or a
repeated call without a change.
"""

Verdict = Literal["stays", "once", "conditional", "always"]
"""Effect of a change. ``stays``: never recompiled. ``once``: recompiled once, then valid for all
others (flags: once per value). ``conditional``: recompiled when a condition changes. ``always``:
recompiled for each new value.
"""


@dataclass(frozen=True)
class ForecastRow:
    """One thing that was changed between calls.

    ``name`` is in the user's words (``x.shape[0], mask.shape[0]``). ``first`` is its value in the
    probe, and ``tried`` are its values in the later calls. ``reasons`` say which guards failed,
    each in a clause. ``range`` is the place of the first of them, or of what specializes the size.
    """

    kind: ForecastKind
    name: str
    first: str
    tried: tuple[str, ...]
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    range: Union[Range, None] = None
