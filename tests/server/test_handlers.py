"""Handlers that hold the loop are named in the log."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from fullgraph.lsp import methods
from fullgraph.lsp.context import ServerContext

CONTEXT: Any = None
"""These handlers make no use of it."""


@pytest.fixture
def slow(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> pytest.LogCaptureFixture:
    """Every turn is too long; the log of what was."""
    monkeypatch.setattr(methods, "SLOW", -1.0)
    caplog.set_level(logging.WARNING, logger=methods.logger.name)
    return caplog


def test_a_slow_handler_is_logged_with_its_method(slow: pytest.LogCaptureFixture) -> None:
    handler = methods._bind_handler(
        "textDocument/hover", lambda context, params: params + 1, CONTEXT
    )
    assert handler(1) == 2
    assert [record.args[0] for record in slow.records if isinstance(record.args, tuple)] == [
        "textDocument/hover"
    ]


def test_each_turn_of_a_coroutine_is_timed_and_its_value_and_errors_pass(
    slow: pytest.LogCaptureFixture,
) -> None:
    async def handle(context: ServerContext, params: Any) -> Any:
        await asyncio.sleep(0)
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0)
        except asyncio.TimeoutError:
            return params
        raise AssertionError("the wait has to end")

    handler = methods._bind_handler("workspace/executeCommand", handle, CONTEXT)
    assert asyncio.run(handler(3)) == 3
    assert len(slow.records) > 1


def test_a_cancelled_handler_ends() -> None:
    async def handle(context: ServerContext, params: Any) -> None:
        await asyncio.Event().wait()

    async def cancelled() -> None:
        task = asyncio.create_task(methods._bind_handler("m", handle, CONTEXT)(None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
