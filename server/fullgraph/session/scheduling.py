"""Schedule the traces of a file: at most one run executes at a time, and at most one more waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")

LEAST_DELAY = 0.1
MOST_DELAY = 1.0
FIRST_DELAY = 0.3
"""Delay in seconds between an edit and a file's first run; later delays depend on the duration of
its runs.
"""

FRACTION = 0.25
"""Delay between an edit and the next run, as a fraction of the duration of recent runs."""


REST = 1.5
"""Delay in seconds after the last edit before work starts that takes much longer than a trace."""


class Cancelable(Protocol):
    """A run that can be cancelled and reports its end."""

    def cancel(self) -> None:
        """Cancel the run; it still reports its end."""


class Schedule:
    """A schedule of the runs that trace one file: one run at a time, after a delay.

    An edit cancels the current run and restarts the delay of the next. ``report_due`` is called
    from the event loop when a run is due. This function may start the run, and then calls
    ``run_started``; after the end of the run, ``run_ended`` must be called.
    """

    def __init__(self, report_due: Callable[[], None]) -> None:
        self._report_due = report_due
        self._running: Cancelable | None = None
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._seconds: deque[float] = deque(maxlen=5)
        self._closed = False
        self.at_rest = False
        """True if runs execute a program, so that they start only after a pause in typing."""

    @property
    def running(self) -> bool:
        return self._running is not None

    @property
    def pending(self) -> bool:
        return self._due is not None

    @property
    def delay(self) -> float:
        """Seconds to wait after an edit, from the duration of recent runs."""
        if self.at_rest:
            return REST
        if not self._seconds:
            return FIRST_DELAY
        mean = sum(self._seconds) / len(self._seconds)
        return min(max(FRACTION * mean, LEAST_DELAY), MOST_DELAY)

    def request_after_edit(self) -> None:
        """Schedule a run after the delay, because the text changed."""
        self._request_run(self.delay)

    def request_now(self) -> None:
        """Schedule a run without delay, or as soon as the current run has ended."""
        self._request_run(0.0)

    def withdraw(self) -> None:
        """Cancel the run in progress and the scheduled run."""
        self._due = None
        self._stop_timer()
        if self._running is not None:
            self._running.cancel()

    def close(self) -> None:
        self._closed = True
        self.withdraw()

    def run_started(self, run: Cancelable) -> None:
        """Handle the start of a run that was due."""
        self._running = run

    def run_ended(self, seconds: float | None) -> None:
        """Handle the end of the current run; ``seconds`` is its duration, None if it did not
        complete.
        """
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
            # The next run starts when the current run ends; its delay counts from the edit.
            self._running.cancel()
        else:
            self._start_timer()

    def _start_timer(self) -> None:
        if self._due is None or self._closed:
            return
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_at(self._due, self._time_reached)

    def _time_reached(self) -> None:
        self._timer = None
        self._due = None
        self._report_due()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Turns(Generic[T]):
    """A queue of files for slow work: one file at a time, after a pause in typing and while nothing
    is traced.

    ``begin`` starts the work for a file and returns True, or False if there is nothing to do.
    ``turn_ended`` must be called once when the work ends.
    """

    def __init__(self, busy: Callable[[], bool], begin: Callable[[T], bool]) -> None:
        self._busy = busy
        self._begin = begin
        self._due: dict[T, float] = {}
        self._running: T | None = None
        self._timer: asyncio.TimerHandle | None = None

    def request_turn(self, text: T, when: float) -> None:
        """Add the file ``text`` to the queue; its work starts at ``when`` (seconds on the event
        loop's clock) or later.

        If the file is in the queue already, its first ``when`` stays valid.
        """
        self._due.setdefault(text, when)
        self.begin_next()

    def withdraw(self, text: T) -> None:
        """Remove a file from the queue; work in progress is not cancelled."""
        self._due.pop(text, None)

    def has_turn(self, text: T) -> bool:
        """Whether a file waits in the queue."""
        return text in self._due

    def turn_ended(self, text: T) -> None:
        if self._running is text:
            self._running = None
        self.begin_next()

    def begin_next(self) -> None:
        """Begin the work for the next due file, unless a trace or the work for another file is in
        progress.
        """
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
