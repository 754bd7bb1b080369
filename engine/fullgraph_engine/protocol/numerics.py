"""The judgment whether Inductor's code computes the right numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

NumericsOutcome = Literal["equal", "rounding", "wrong", "unknown"]
"""Judgment of compiled results: bitwise equal to eager results, different only by rounding, wrong,
or not judged."""


@dataclass(frozen=True)
class NumericsVerdict:
    """Comparison of the results and gradients of one target, compiled by Inductor and in eager
    mode, with the same call in float64.

    ``eager_error`` and ``compiled_error`` are the largest deviations from float64, as a share of
    the largest element of the tensor; None if float64 results are missing. ``calls`` is the number
    of calls that were compared. ``reason`` is a sentence that says what is wrong, or why there is
    no judgment.
    """

    outcome: NumericsOutcome
    calls: int = 0
    eager_error: Union[float, None] = None
    compiled_error: Union[float, None] = None
    reason: str = ""
