"""The calls of a finding in words."""

from __future__ import annotations

import pytest

from fullgraph.domain.calls import calls_clause, headline
from fullgraph_engine.protocol import Finding, Position, Range, RegionCalls, merge_calls
from fullgraph_engine.protocol.evidence import BreakEvidence, Evidence, RecompileEvidence
from fullgraph_engine.protocol.regions import MOST_CALLS

LINE = Range(Position(0, 0), Position(0, 1))
BREAK = BreakEvidence("a break")
RECOMPILE = RecompileEvidence("update", "/train.py", 0)


def finding(evidence: Evidence, *calls: RegionCalls) -> Finding:
    return Finding("a/code", "`update` was recompiled", LINE, evidence=evidence, calls=calls)


def numbers(*given: int) -> RegionCalls:
    return RegionCalls("Trainer.update", given)


@pytest.mark.parametrize(
    ("evidence", "calls", "ending", "clause"),
    [
        (BREAK, (), "", ""),
        (BREAK, (numbers(1),), "", ""),
        (BREAK, (numbers(1, 5),), "", ""),
        (BREAK, (numbers(5),), "", "in call 5 of `Trainer.update`"),
        (BREAK, (numbers(5, 6),), "", "in calls 5 and 6 of `Trainer.update`"),
        (BREAK, (numbers(5, 6, 7, 9),), "", "in calls 5 to 7 and 9 of `Trainer.update`"),
        (
            BREAK,
            (numbers(2, 4, 6, 8, 10),),
            "",
            "in calls 2, 4, 6, 8 and later ones of `Trainer.update`",
        ),
        (
            BREAK,
            (numbers(5), RegionCalls("f", (2,))),
            "",
            "in call 5 of `Trainer.update` and in call 2 of `f`",
        ),
        (BREAK, (numbers(5), RegionCalls("f", (1,))), "", ""),
        (RECOMPILE, (), "", ""),
        (RECOMPILE, (numbers(2),), ", in call 2", ""),
        (RECOMPILE, (numbers(2, 3, 4),), ", in call 2", "in calls 2 to 4 of `Trainer.update`"),
        (RECOMPILE, (RegionCalls("Net", (3,)),), ", in call 3 of `Net`", ""),
    ],
)
def test_calls_in_words(
    evidence: Evidence, calls: tuple[RegionCalls, ...], ending: str, clause: str
) -> None:
    found = finding(evidence, *calls)
    assert headline(found) == f"`update` was recompiled{ending}"
    assert calls_clause(found) == clause


def test_calls_merge_by_region() -> None:
    merged = merge_calls((numbers(3, 4), RegionCalls("f", (1,)), numbers(2, 3)))
    assert merged == (numbers(2, 3, 4), RegionCalls("f", (1,)))
    (many,) = merge_calls([numbers(*range(2, 400))])
    assert many.numbers == tuple(range(2, 2 + MOST_CALLS))
    assert calls_clause(finding(BREAK, many)).startswith("in calls 2 to 101 and later ones of")
