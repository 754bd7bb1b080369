"""The requests of the server: start them, queue them if too many run, and cancel them."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from typing import Union

from ..protocol import Analyze, Analyzed, Compare, Failed, Prioritize, Reproduce
from .analysis import Analysis
from .comparison import ComparisonSession
from .program_run import ProgramRun, may_have_program
from .reproduction import ReproSession
from .services import Services

_LEAST_AT_ONCE = 2
"""Minimum number of concurrent analyses, so that a file that hangs does not delay the others."""

Session = Union[Analysis, ProgramRun, ReproSession, ComparisonSession]
"""State of one running request of the server."""


class Requests:
    """The requests of the server: the running ones, by number, and a queue of analyses that wait
    for others to end."""

    def __init__(self, host: Services) -> None:
        self._host = host
        self._sessions: dict[int, Session] = {}
        self._queue: list[tuple[Analyze, float]] = []
        """Requests that wait for their start, and the times at which they arrived."""

    def __bool__(self) -> bool:
        """Whether a request of the server is running."""
        return bool(self._sessions)

    @property
    def waiting(self) -> int | None:
        """Number of traces that wait for a process, for all requests; None if no request is
        running."""
        waiting = [one.waiting for one in self._sessions.values()]
        return sum(waiting) if waiting else None

    def next_deadline(self) -> float:
        return min((one.next_deadline() for one in self._sessions.values()), default=float("inf"))

    def tick(self) -> None:
        """Let each running request handle ended processes and deadlines."""
        for session in list(self._sessions.values()):
            session.tick(time.monotonic())

    def remove(self, number: int) -> None:
        self._sessions.pop(number, None)

    def admit(self, request: Analyze | Reproduce | Compare) -> None:
        """Start a request, or queue it if too many analyses are running.

        Only analyses at normal priority are queued. Analyses at low priority (``nice``) start at
        once because they do not delay others. Reproductions and comparisons start at once because a
        user waits for them.
        """
        number = request.request
        if number in self._sessions or any(one.request == number for one, _ in self._queue):
            self._host.send(Failed(number, f"Request {number} is running already."))
        elif isinstance(request, Analyze) and not request.nice:
            self._queue.append((request, time.monotonic()))
            self.begin_next()
        else:
            self._begin(request)

    def begin_next(self) -> None:
        """Start queued requests while the limit allows, newest first, since the user most likely
        looks at the latest one."""
        for request, came in self._queue[::-1]:
            begun = [one.request for one in self._sessions.values()]
            counted = sum(
                isinstance(one, Analyze) and not one.nice and one.client == request.client
                for one in begun
            )
            if counted < max(_LEAST_AT_ONCE, request.jobs):
                self._queue.remove((request, came))
                self._begin(request, time.monotonic() - came)

    def cancel(self, number: int) -> None:
        for queued in self._queue:
            request, _ = queued
            if request.request == number:
                self._queue.remove(queued)
                self._host.send(Analyzed(number, request.generation, 0.0, cancelled=True))
                return
        if (session := self._sessions.get(number)) is not None:
            session.cancel()

    def prioritize(self, message: Prioritize) -> None:
        """Trace the targets near the lines of ``message`` first, in the request that ``message``
        names."""
        for at, (request, came) in enumerate(self._queue):
            if request.request == message.request:
                self._queue[at] = replace(request, focus=message.first), came
        session = self._sessions.get(message.request)
        if isinstance(session, (Analysis, ProgramRun)):
            session.prioritize(message.first, message.last)

    def _begin(self, request: Analyze | Reproduce | Compare, waited: float = 0.0) -> None:
        try:
            session = self._make_session(request, waited)
        except OSError as error:
            reason = f"The engine could not create a working folder: {error.strerror or error}."
            next_step = "Free some space, then try again."
            self._host.send(Failed(request.request, reason, next_step))
            return
        self._sessions[request.request] = session
        session.begin()

    def _make_session(self, request: Analyze | Reproduce | Compare, waited: float) -> Session:
        scratch = tempfile.mkdtemp(dir=self._host.scratch)
        if isinstance(request, Reproduce):
            return ReproSession(request, self._host, scratch)
        if isinstance(request, Compare):
            return ComparisonSession(request, self._host, scratch)
        if may_have_program(request):
            return ProgramRun(request, self._host, scratch, waited)
        return Analysis(request, self._host, scratch, waited)
