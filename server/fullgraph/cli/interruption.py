"""Run a coroutine that SIGINT and SIGTERM cancel, instead of ending the process."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

from fullgraph.cli.exit_status import Interrupted

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_delayed: list[int] = []
"""Signals that arrived in a block of :func:`delay_signals`, while no coroutine ran."""


@contextlib.contextmanager
def delay_signals() -> Iterator[None]:
    """Deliver SIGINT and SIGTERM at the end of the block, so that it writes its output completely.

    A coroutine that :func:`run` runs in the block is still cancelled.
    """

    def delay(number: int, frame: FrameType | None) -> None:
        _delayed.append(number)

    before = {number: signal.signal(number, delay) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        received = _delayed[:]
        _delayed.clear()
        if received:
            signal.raise_signal(received[0])


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine ``work`` and return its result; SIGINT and SIGTERM cancel it.

    A cancelled coroutine still runs its cleanup code. If it still returns a result, this result is
    returned and no error is raised.

    Raises:
        Interrupted: A signal cancelled the coroutine.
    """
    import asyncio  # takes long to import, and signals are delayed before

    return asyncio.run(_run_with_signals(work))


async def _run_with_signals(work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        task.cancel()

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, int(number))
    if _delayed:
        stop(_delayed.pop())
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise Interrupted(received[0]) from None
        raise
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
