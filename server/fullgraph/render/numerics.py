"""Format verdicts on compiled results as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fullgraph.domain.phrases import amount
from fullgraph.render.paint import PLAIN, Paint, Style

if TYPE_CHECKING:
    from fullgraph.fixes.numerics import JudgedTarget


def numerics_text(judged: Iterable[JudgedTarget], paint: Paint = PLAIN) -> str:
    """Format one line for each function: whether compiled results are right, and the errors."""
    return "\n".join(
        paint(Style.STRONG, target.target)
        + paint(Style.DIM, f" ({target.inputs}), numerics")
        + f": {numerics_verdict(target)}"
        for target in judged
    )


def numerics_verdict(target: JudgedTarget) -> str:
    """Describe in one line whether Inductor's results are right."""
    verdict = target.verdict
    if verdict.outcome == "unknown":
        return f"not compared. {verdict.reason}"
    if verdict.outcome == "wrong":
        return "compiled results are wrong, see the error above"
    calls = amount(verdict.calls, "call")
    if verdict.outcome == "equal":
        return f"compiled and eager results are bitwise equal in {calls}"
    if verdict.eager_error is None or verdict.compiled_error is None:
        return (
            f"compiled and eager results differ only by rounding in {calls}; there are no float64 "
            "results to compare with, for example because the code draws random numbers or returns "
            "integers"
        )
    if verdict.eager_error == verdict.compiled_error == 0:
        return (
            f"not a bug, only rounding: in {calls}, results differ only where rounding decides, "
            "for example which of two almost equal numbers is larger"
        )
    return (
        f"not a bug, only rounding: in {calls}, compiled results differ from float64 by up to "
        f"{verdict.compiled_error:.1e} of the largest element, eager results by "
        f"{verdict.eager_error:.1e}"
    )


def numerics_json(target: JudgedTarget) -> dict[str, Any]:
    """Convert a verdict to JSON data; errors are null without float64 results."""
    verdict = target.verdict
    return {
        "target": target.target,
        "inputs": target.inputs,
        "outcome": verdict.outcome,
        "calls": verdict.calls,
        "eagerError": verdict.eager_error,
        "compiledError": verdict.compiled_error,
        "verdict": numerics_verdict(target),
    }
