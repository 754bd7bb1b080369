"""What will be recompiled when a target is called with something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from .places import Range

ForecastKind = Literal["size", "value", "flag", "mode", "call"]
"""What is another one: sizes, a Python value, an argument with two values, training or not, or
nothing at all."""

Verdict = Literal["stays", "once", "conditional", "always"]
"""Never recompiled; once, and then good for all others (flags: once for each value); where a
condition on it changes; for every other one."""


@dataclass(frozen=True)
class ForecastRow:
    """One thing that was changed from call to call.

    ``name`` is in the user's words (``x.shape[0], mask.shape[0]``), ``first`` its value in the
    probe and ``tried`` those of the calls after it. ``reasons`` say which guards failed, each in a
    clause; ``range`` is where the first of them, or what pins the size, stands in the file.
    """

    kind: ForecastKind
    name: str
    first: str
    tried: tuple[str, ...]
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    range: Union[Range, None] = None
