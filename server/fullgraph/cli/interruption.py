"""Run a coroutine that SIGINT and SIGTERM cancel, instead of ending the process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from fullgraph.cli.exit_status import Interrupted

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine ``work`` and return its result; SIGINT and SIGTERM cancel it.

    A cancelled coroutine still runs its cleanup code. If it still returns a result, this result is
    returned and no error is raised.

    Raises:
        Interrupted: A signal cancelled the coroutine.
    """
    return asyncio.run(_run_with_signals(work))


async def _run_with_signals(work: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, int(number))
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise Interrupted(received[0]) from None
        raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
