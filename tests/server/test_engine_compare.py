"""Comparisons through the engine's client: whatever happens, there is an end."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fullgraph.engines import ComparisonRequest, Engine
from fullgraph_engine.protocol import Analyze, Compare, Compared, Event, Failed

STUB = Path(__file__).with_name("stub_engine.py")


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine(
        Path(sys.executable),
        boot=STUB,
        back_off=(0.01, 0.01),
    )
    await made.start()
    yield made
    await made.close()


def asked(behavior: str) -> Compare:
    analyze = Analyze(0, "1:abc", "/model.py", "class Net: ...\n")
    return Compare(0, analyze, "Net", f"class Net: ...  # behavior: {behavior}\n")


async def last(comparison: ComparisonRequest) -> Event:
    return [event async for event in comparison][-1]


async def test_what_came_of_it(engine: Engine) -> None:
    ended = await last(engine.compare(asked("exact")))
    assert isinstance(ended, Compared) and (ended.outcome, ended.exact) == ("same", True)
    ended = await last(engine.compare(asked("differs: The result is a list.")))
    assert isinstance(ended, Compared) and ended.outcome == "differs"
    assert ended.reason == "The result is a list."


async def test_it_is_cancelled(engine: Engine) -> None:
    await engine.ready()
    comparison = engine.compare(asked("wait"))
    comparison.cancel()
    ended = await last(comparison)
    assert isinstance(ended, Compared) and ended.cancelled


async def test_it_is_cancelled_before_torch_is_there(engine: Engine) -> None:
    comparison = engine.compare(asked("exact"))
    comparison.cancel()
    ended = await last(comparison)
    assert isinstance(ended, Compared) and ended.cancelled and ended.outcome == "unverified"


async def test_one_that_does_not_hear_a_cancel_is_killed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fullgraph.engines.requests.CANCEL_GRACE", 0.1)
    await engine.ready()
    comparison = engine.compare(asked("deaf"))
    comparison.cancel()
    ended = await last(comparison)
    assert isinstance(ended, Compared) and ended.cancelled


async def test_the_engine_dies_over_it(engine: Engine) -> None:
    ended = await last(engine.compare(asked("die")))
    assert isinstance(ended, Failed) and "SIGKILL" in ended.reason
