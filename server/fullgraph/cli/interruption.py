"""Convert SIGINT and SIGTERM to the cancellation of the current task."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """Raised if a signal ended the work; ``status`` is the exit status that shells expect."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.status = 128 + number


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine until it ends or a signal arrives; cleanup code of the coroutine runs in any
    case.

    Raises:
        Interrupted: A signal arrived.
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
