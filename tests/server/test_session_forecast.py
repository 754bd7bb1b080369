"""What further calls found stays while runs that make none go on, and moves with the text."""

from __future__ import annotations

from fullgraph.session.motion import Edit
from fullgraph.session.results import Results
from fullgraph_engine.protocol import (
    Finding,
    FindingFound,
    ForecastFound,
    Position,
    Range,
    TargetDone,
    TargetReport,
)

NAME = Range(Position(0, 4), Position(0, 5))


def found(code: str, line: int, run: str) -> FindingFound:
    place = Range(Position(line, 0), Position(line, 4))
    return FindingFound(1, Finding(code, "words", place, "f", identity=f"{code}{line}", run=run))


DONE = TargetDone(1, TargetReport("f", "function", NAME, "traced"))
EVERY = found("recompile/every-size", 3, "f#0~")
FORETOLD = ForecastFound(1, "f", "f#0~", ())


def forecast_once() -> Results:
    results = Results()
    results.begin(forecast=True, keep_forecast=True)
    for event in (found("graph-break/GB1", 2, "f#0"), DONE, EVERY, FORETOLD):
        results.apply(event)
    results.complete()
    return results


def codes(results: Results) -> list[tuple[str, int]]:
    return sorted((one.code, one.range.start.line) for one in results.findings())


def test_a_run_without_a_forecast_keeps_the_last_one() -> None:
    results = forecast_once()
    results.begin(forecast=False, keep_forecast=True)
    results.apply(DONE)
    assert codes(results) == [("recompile/every-size", 3)]
    results.complete()
    assert codes(results) == [("recompile/every-size", 3)]


def test_it_moves_with_the_text() -> None:
    results = forecast_once()
    results.edited([Edit(Position(1, 0), Position(1, 0), Position(2, 0))], "f.py")
    results.begin(forecast=False, keep_forecast=True)
    results.apply(DONE)
    results.complete()
    assert codes(results) == [("recompile/every-size", 4)]


def test_a_new_forecast_replaces_it() -> None:
    results = forecast_once()
    results.begin(forecast=True, keep_forecast=True)
    results.apply(DONE)
    assert codes(results) == [("recompile/every-size", 3)], "it must not flicker"
    results.apply(FORETOLD)
    assert codes(results) == []


def test_a_forecast_that_never_came_leaves_nothing() -> None:
    results = forecast_once()
    results.begin(forecast=True, keep_forecast=True)
    results.apply(DONE)
    results.complete()
    assert codes(results) == []


def test_it_goes_when_nobody_wants_forecasts() -> None:
    results = forecast_once()
    results.begin(forecast=False, keep_forecast=False)
    results.apply(DONE)
    assert codes(results) == []
