"""Repros through the engine's client: whatever happens, there is an end, and the best is kept."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fullgraph.domain.repro import ReductionState, ReproOutcome
from fullgraph.engines import Engine, ReproductionRequest
from fullgraph.session.repro import follow_reproduction
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Position,
    Range,
    Reproduce,
    ReproProgress,
    Wanted,
)

STUB = Path(__file__).with_name("stub_engine.py")
PLACE = Range(Position(1, 4), Position(1, 9))
WANTED = Wanted("graph-break/GB0059", PLACE, "Net", message="Call to print")


@pytest.fixture
async def start() -> AsyncIterator[Callable[..., Any]]:
    made: list[Engine] = []

    async def begin(*, ready: bool = True) -> Engine:
        made.append(
            Engine(
                Path(sys.executable),
                boot=STUB,
                back_off=(0.01, 0.01),
            )
        )
        await made[-1].start()
        if ready:
            await made[-1].ready()
        return made[-1]

    yield begin
    for engine in made:
        await engine.close()


def asked(steps: str) -> Reproduce:
    return Reproduce(0, Analyze(0, "1:abc", "/model.py", f"# repro: {steps}\n"), WANTED)


async def outcome(
    reproduction: ReproductionRequest, when: Callable[[ReductionState], None] | None = None
) -> Any:
    return await follow_reproduction(reproduction, when or (lambda state: None))


async def test_progress_and_the_last_script(start: Callable[..., Any]) -> None:
    engine = await start()
    reproduction = engine.reproduce(asked("143 12 verified"))
    seen: list[ReproProgress | None] = []
    ended: ReproOutcome = await outcome(reproduction, lambda state: seen.append(state.last))
    assert [last.lines for last in seen if last is not None] == [0, 143, 12]
    assert ended.verified and ended.found is not None and ended.found.lines == 12
    assert (ended.first_lines, ended.tried, ended.reason) == (143, 20, "")
    assert [event async for event in reproduction] == []


async def test_a_request_from_before_torch_is_there(start: Callable[..., Any]) -> None:
    engine = await start(ready=False)
    waiting, withdrawn = engine.reproduce(asked("12 verified")), engine.reproduce(asked("12"))
    withdrawn.cancel()
    ended = await outcome(withdrawn)
    assert ended.cancelled and ended.found is None
    assert "before a script that shows the finding was found" in ended.reason
    assert (await outcome(waiting)).verified


async def test_cancelled_it_ends_with_the_best(start: Callable[..., Any]) -> None:
    engine = await start()
    reproduction = engine.reproduce(asked("143 12 wait"))

    def enough(state: ReductionState) -> None:
        if state.last is not None and state.last.lines == 12:
            reproduction.cancel()

    ended = await outcome(reproduction, enough)
    assert ended.cancelled and not ended.verified and not ended.failed
    assert ended.found is not None and ended.found.lines == 12
    assert (
        ended.reason
        == "Making the repro was cancelled before the script was run in a fresh Python."
    )


async def test_the_engine_dies_over_it(start: Callable[..., Any]) -> None:
    engine = await start()
    ended = await outcome(engine.reproduce(asked("143 12 die")))
    assert ended.failed and not ended.verified and "SIGKILL" in ended.reason
    assert ended.found is not None and ended.found.lines == 12 and ended.tried == 20
    # What was verified before needs no excuse.
    ended = await outcome(engine.reproduce(asked("12 verified die")))
    assert ended.failed and ended.verified and ended.reason == ""
    ended = await outcome(engine.reproduce(asked("die")))
    assert ended.failed and ended.found is None and ended.reason


async def test_one_that_does_not_hear_a_cancel_is_killed(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fullgraph.engines.requests.CANCEL_GRACE", 0.1)
    engine = await start()
    reproduction = engine.reproduce(asked("12 deaf"))

    def enough(state: ReductionState) -> None:
        if state.last is not None and state.last.lines:
            reproduction.cancel()

    ended = await outcome(reproduction, enough)
    assert ended.cancelled and ended.found is not None
    analysis = engine.analyze(Analyze(0, "1:abc", "/model.py", ""))
    assert isinstance([event async for event in analysis][-1], Analyzed)


async def test_nobody_need_wait_for_the_engine(start: Callable[..., Any]) -> None:
    engine = await start()
    reproduction = engine.reproduce(asked("12 deaf"))

    def enough(state: ReductionState) -> None:
        if state.last is not None and state.last.lines:
            reproduction.abandon()

    ended = await outcome(reproduction, enough)
    assert ended.cancelled and not ended.failed


async def test_one_that_does_not_end_in_time_is_ended(
    start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fullgraph.engines.requests.OVERDUE_GRACE", 0.1)
    engine = await start()
    request = dataclasses.replace(asked("12 wait"), seconds=0.1)
    ended = await outcome(engine.reproduce(request))
    assert not ended.cancelled and ended.found is not None
    assert ended.reason == (
        "There was no time left to run the script in a fresh Python; raise the time limit."
    )
