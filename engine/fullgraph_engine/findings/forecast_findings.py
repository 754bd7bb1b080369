"""Findings for targets that recompile on every call, from a forecast (experimental calls with
changed inputs)."""

from __future__ import annotations

from ..protocol import Finding
from ..protocol.evidence import ForecastEvidence
from ..tracing.recording import FailedGuard, Recompile
from .call_changes import CallChange
from .places import FindingPlace, SourceText, finding_identity, related_to
from .recompiles import (
    GUIDE,
    describe_change,
    guard_evidence,
    guarded_value_name,
    latest_failures,
    related_guards,
)

SETTLING = 3
"""Maximum number of calls with unchanged inputs before the experiments; they end when a call does
not recompile."""

_SIZE_HINTS = (
    "Take the size from `x.shape` where it is used, and avoid `int(...)`, `range(...)` and Python "
    "branches on it.",
    "If only a few sizes occur, pad the inputs to them.",
)
_VALUE_HINTS = ("Pass the value as a tensor, or pass the same value in all calls.",)


def every_value_finding(
    change_: CallChange,
    why: list[tuple[Recompile, FailedGuard]],
    place: FindingPlace,
    source: SourceText,
    *,
    pinned: bool,
) -> Finding:
    """Return the finding that each new value of an input recompiles the target.

    ``change_`` is the experiment with the input, and ``why`` the recompiles with their failed
    guards. ``place`` is where to report. ``pinned``: a line of the code specialized a size that
    would otherwise be dynamic.
    """
    recompile, failed = why[0]
    of_size = change_.kind == "size"
    code = "recompile/every-size" if of_size else "recompile/value"
    calls = " and ".join((", ".join(change_.tried[:-1]), change_.tried[-1]))
    explanation = (
        f"The code was called with {change_.first}, then with {calls}, and recompiled each time."
    )
    if of_size and pinned:
        explanation += " Dynamo made the size dynamic, but this line needs the size as a number."
    return Finding(
        code=code,
        message=f"Each new value of `{change_.name}` recompiles `{recompile.function}`",
        range=place.range,
        explanation=explanation,
        hints=_SIZE_HINTS if of_size else _VALUE_HINTS,
        context=failed.expression.replace("FakeTensor", "Tensor"),
        href=GUIDE,
        stack=place.stack,
        related=(*related_guards([one for _, one in why[1:]], source), *related_to(place)),
        identity=f"{finding_identity(code, place.range)} {change_.name}",
        evidence=ForecastEvidence(
            tuple(guard_evidence(one) for _, one in why),
            tuple(change_.name.split(", ")),
            change_.first,
            change_.tried,
        ),
    )


def every_call_finding(
    recompile: Recompile, failed: FailedGuard, place: FindingPlace, source: SourceText
) -> Finding:
    """Return the finding that each call recompiles, even with unchanged inputs.

    ``recompile`` is one of the recompiles, and ``failed`` the guard that fails each time. ``place``
    is where to report.
    """
    code = "recompile/every-call"
    others = [one for one in latest_failures(recompile) if one is not failed]
    return Finding(
        code=code,
        message=f"Every call recompiles `{recompile.function}`: {describe_change(failed)}",
        range=place.range,
        explanation=(
            f"The code was called {SETTLING + 1} times with the same inputs, and compiled each "
            "time."
        ),
        hints=("Keep values that change between calls in a tensor, or outside the compiled code.",),
        context=failed.expression.replace("FakeTensor", "Tensor"),
        href=GUIDE,
        stack=place.stack,
        related=(*related_guards(others, source), *related_to(place)),
        identity=f"{finding_identity(code, place.range)} {guarded_value_name(failed)}",
        evidence=ForecastEvidence(tuple(map(guard_evidence, latest_failures(recompile)))),
    )
