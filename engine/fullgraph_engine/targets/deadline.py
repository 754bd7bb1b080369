"""Deadlines that end code in this process by raising an exception from a timer."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

_AGAIN = 2.0
"""Seconds until the timer raises the exception again, because user code may have swallowed the
first one."""


@contextlib.contextmanager
def limit_seconds(
    late: type[BaseException], seconds: float, processor: float | None = None
) -> Iterator[None]:
    """Raise the exception ``late`` inside the ``with`` block after ``seconds`` of wall time or
    ``processor`` seconds of CPU time.

    The exception is raised repeatedly, because a destructor or a broad ``except`` may swallow it.
    Deadlines can be nested; the outer one keeps counting.
    """
    able = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not able:
        yield
        return

    raising, quiet_until = True, 0.0

    def raise_late(*_: Any) -> None:
        # If both timers expire during one long call, a second exception would interrupt the
        # handling of the first.
        nonlocal quiet_until
        if raising and time.monotonic() >= quiet_until:
            quiet_until = time.monotonic() + _AGAIN / 2
            raise late

    timers = [(signal.SIGALRM, signal.ITIMER_REAL, seconds, time.monotonic)]
    if processor is not None:
        timers.append((signal.SIGPROF, signal.ITIMER_PROF, processor, time.process_time))
    put_back = contextlib.ExitStack()
    try:
        try:
            for number, timer, most, clock in timers:
                before = signal.signal(number, raise_late)
                left, interval = signal.setitimer(timer, max(most, 0.01), _AGAIN)
                put_back.callback(_restart_timer, timer, left, interval, clock, clock())
                # A thread of torch may still receive the timer's signal, which by default ends the
                # process.
                ignored = before in (None, signal.SIG_DFL)
                put_back.callback(signal.signal, number, signal.SIG_IGN if ignored else before)
                put_back.callback(signal.setitimer, timer, 0)
            yield
        finally:
            raising = False
    finally:
        # The timer may have expired in the line above. An exception here would leave it running.
        raising = False
        put_back.close()


@contextlib.contextmanager
def pause_deadlines() -> Iterator[None]:
    """Suspend all deadlines during the ``with`` block.

    A process forked in the block keeps the remaining time.
    """
    timers = [
        (timer, signal.getitimer(timer)) for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF)
    ]
    yield
    for timer, (left, interval) in timers:
        if left:
            signal.setitimer(timer, left, interval)


def _restart_timer(
    timer: int, left: float, interval: float, clock: Callable[[], float], began: float
) -> None:
    """Restart a timer that had ``left`` seconds at the time ``began``, with the seconds that remain
    now.

    ``clock`` returns the present time, and ``interval`` is the period of the timer.
    """
    if left:
        signal.setitimer(timer, max(left - (clock() - began), 0.001), interval)
