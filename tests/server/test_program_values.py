"""Values of a program before and after a rewrite."""

from __future__ import annotations

import pytest

from fullgraph.fixes.program_values import compare_values
from fullgraph_engine.protocol import BehaviorOutcome, ObservedValue

OWN = ObservedValue("result", "result 1 of f", "f32[2]", "1")


def further_value(
    call: str, words: str = "f32[1]", digest: str = "2", number: int = 0
) -> ObservedValue:
    return ObservedValue(
        "result", f"result of a further call of f[{number}]", words, digest, (), call
    )


def raised_error(call: str) -> ObservedValue:
    return ObservedValue("outcome", "result of a further call of f", "ValueError", "", (), call)


@pytest.mark.parametrize(
    ("before", "after", "outcome", "reason"),
    [
        ((further_value("a"),), (further_value("a"),), "same", ""),
        (
            (further_value("a"),),
            (further_value("a", digest="3"),),
            "differs",
            "has different values",
        ),
        (
            (further_value("a"),),
            (further_value("a", "f64[1]"),),
            "differs",
            "is f64[1] instead of f32[1]",
        ),
        (
            (further_value("a"),),
            (raised_error("a"),),
            "differs",
            "the changed code raises ValueError",
        ),
        (
            (further_value("a"),),
            (further_value("a"), further_value("a", number=1)),
            "differs",
            "other values",
        ),
        ((raised_error("a"),), (further_value("a"),), "same", ""),
        ((further_value("a"),), (further_value("b", digest="3"),), "same", ""),
    ],
)
def test_further_calls_with_equal_arguments_must_agree(
    before: tuple[ObservedValue, ...],
    after: tuple[ObservedValue, ...],
    outcome: BehaviorOutcome,
    reason: str,
) -> None:
    compared = compare_values((OWN, *before), (OWN, *after), ())
    assert compared.outcome == outcome
    assert reason in compared.reason
