"""When a file is traced: one run that goes on, and at most one that waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")

LEAST_DELAY = 0.1
MOST_DELAY = 1.0
FIRST_DELAY = 0.3
"""Before anything is known of how long a run of this file takes."""

FRACTION = 0.25
"""Of the time of a run that typing may pause before the text is traced."""


REST = 1.5
"""Seconds after an edit before anything is made of a text that takes much longer than a trace."""


class Cancelable(Protocol):
    """Something that goes on, can be ended, and then is ended."""

    def cancel(self) -> None:
        """End it soon. It still calls back when it has ended."""


class Schedule:
    """Decides when ``begin`` is called for one file.

    An edit kills the run that goes on and starts the clock of the next; a further edit starts it
    anew. ``begin`` returns the run it started, or None if there was nothing to do; whoever runs
    calls ``ended`` once.
    """

    def __init__(self, begin: Callable[[], Cancelable | None]) -> None:
        self._begin = begin
        self._running: Cancelable | None = None
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._seconds: deque[float] = deque(maxlen=5)
        self._closed = False
        self.at_rest = False
        """Begin only when the text has rested, because the run takes as long as a program."""

    @property
    def running(self) -> bool:
        return self._running is not None

    @property
    def pending(self) -> bool:
        return self._due is not None

    @property
    def delay(self) -> float:
        """How long after an edit the text is traced: a share of what recent runs took."""
        if self.at_rest:
            return REST
        if not self._seconds:
            return FIRST_DELAY
        mean = sum(self._seconds) / len(self._seconds)
        return min(max(FRACTION * mean, LEAST_DELAY), MOST_DELAY)

    def request_after_edit(self) -> None:
        """The text changed."""
        self._request_run(self.delay)

    def request_now(self) -> None:
        """Trace without delay: saved, opened, or asked for."""
        self._request_run(0.0)

    def withdraw(self) -> None:
        """Forget what waits and end what runs."""
        self._due = None
        self._stop_timer()
        if self._running is not None:
            self._running.cancel()

    def close(self) -> None:
        self._closed = True
        self.withdraw()

    def run_ended(self, seconds: float | None) -> None:
        """The run has ended; ``seconds`` if it went through to its end."""
        self._running = None
        if seconds is not None:
            self._seconds.append(seconds)
        self._start_timer()

    def _request_run(self, delay: float) -> None:
        if self._closed:
            return
        self._due = asyncio.get_running_loop().time() + delay
        self._stop_timer()
        if self._running is not None:
            # Its end arms the next. The delay has been counting from the edit all the while.
            self._running.cancel()
        else:
            self._start_timer()

    def _start_timer(self) -> None:
        if self._due is None or self._closed:
            return
        self._stop_timer()
        loop = asyncio.get_running_loop()
        if self._due <= loop.time():
            self._start_run()
        else:
            self._timer = loop.call_at(self._due, self._start_run)

    def _start_run(self) -> None:
        self._timer = None
        self._due = None
        self._running = self._begin()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Turns(Generic[T]):
    """Whose turn it is: one text at a time, when it has rested and nothing is traced.

    ``begin`` returns False if there is nothing to do; else somebody calls ``ended`` once.
    """

    def __init__(self, busy: Callable[[], bool], begin: Callable[[T], bool]) -> None:
        self._busy = busy
        self._begin = begin
        self._due: dict[T, float] = {}
        self._running: T | None = None
        self._timer: asyncio.TimerHandle | None = None

    def request_turn(self, text: T, when: float) -> None:
        """A turn for a text, not before ``when``; what it was promised before stays."""
        self._due.setdefault(text, when)
        self.begin_next()

    def withdraw(self, text: T) -> None:
        """It wants none any more. What it has begun is for itself to end."""
        self._due.pop(text, None)

    def turn_ended(self, text: T) -> None:
        if self._running is text:
            self._running = None
        self.begin_next()

    def begin_next(self) -> None:
        """Something may have ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        while self._due and self._running is None and not self._busy():
            text, due = min(self._due.items(), key=lambda item: item[1])
            if due > loop.time():
                self._timer = loop.call_at(due, self.begin_next)
                return
            del self._due[text]
            if self._begin(text):
                self._running = text
