"""Requests to an engine: waiting until torch is imported, or sent to the engine's process."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar

from fullgraph.engines.process import EngineProcess
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Cancel,
    Compare,
    Compared,
    Event,
    Failed,
    Prioritize,
    Reproduce,
    Reproduced,
    ReproFound,
    ReproProgress,
    Restarted,
    SelfCheck,
    SelfChecked,
)

CANCEL_GRACE = 5.0
"""Seconds after which the engine is killed if a cancelled request has not ended."""

OVERDUE_GRACE = 10.0
"""Maximum seconds by which a repro may exceed its time limit before it is cancelled."""

_Request = TypeVar("_Request", Analyze, Reproduce, Compare, SelfCheck)

LAST = (Analyzed, Reproduced, Compared, SelfChecked, Failed)
"""Types of the last events of requests."""


class PendingRequest(Generic[_Request]):
    """A request to the engine, and the receiver of the engine's events for it.

    A last event arrives in any case, even if the engine process dies.
    """

    def __init__(self, request: _Request, cancel: Callable[[PendingRequest[Any]], None]) -> None:
        self.request: _Request = request
        self._cancel_request = cancel
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._ended = False
        self._exhausted = False
        self.cancelled = False
        self.restarted = False
        """True if the engine died while it worked on the request, so that the request was sent
        again.
        """

    def cancel(self) -> None:
        """Cancel the engine's work on the request; its last event still arrives."""
        if not self.cancelled and not self._ended:
            self.cancelled = True
            self._cancel_request(self)

    def abandon(self) -> None:
        """End the request now with a last event, even if the engine is still working on it."""
        self.cancel()
        self.put_event(self.cancellation_event())

    def mark_sent(self) -> None:
        """Record that the request was sent to the engine process; called by ``Engine`` only."""

    def cancellation_event(self) -> Event:
        """Return the last event of a cancelled request that the engine cannot answer."""
        raise NotImplementedError

    @property
    def ended(self) -> bool:
        return self._ended

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._exhausted:
            raise StopAsyncIteration
        event = await self._events.get()
        self._exhausted = isinstance(event, LAST)
        return event

    def put_event(self, event: Event) -> None:
        """Add an event of the engine process to this request; called by ``Engine`` only."""
        if self._ended:
            return
        self._ended = isinstance(event, LAST)
        self._events.put_nowait(event)


class AnalysisRequest(PendingRequest[Analyze]):
    """A request to trace a text; its last event is ``Analyzed`` or ``Failed``.

    After an event ``Restarted``, all earlier events are invalid, because the request was sent again
    to a new process.
    """

    def __init__(
        self,
        request: Analyze,
        cancel: Callable[[PendingRequest[Any]], None],
        prioritize: Callable[[AnalysisRequest, Prioritize], None] = lambda asked, message: None,
    ) -> None:
        super().__init__(request, cancel)
        self._send_priority = prioritize

    def prioritize(self, first: int, last: int) -> None:
        """Trace the targets (functions and module classes) nearest to the lines ``first`` to
        ``last`` first.
        """
        if not self.cancelled and not self._ended:
            # Also store the line in the request, which may be sent later or again.
            self.request = dataclasses.replace(self.request, focus=first)
            self._send_priority(self, Prioritize(self.request.request, first, last))

    def restart(self) -> bool:
        """Prepare the request to be sent again after the engine died; return False if this happened
        before or the request is cancelled.
        """
        if self.restarted or self.cancelled:
            return False
        self.restarted = True
        self.put_event(Restarted(self.request.request))
        return True

    def put_event(self, event: Event) -> None:
        self.restarted = self.restarted or isinstance(event, Restarted)
        super().put_event(event)

    def cancellation_event(self) -> Event:
        return Analyzed(self.request.request, self.request.generation, 0.0, cancelled=True)


class ReproductionRequest(PendingRequest[Reproduce]):
    """A request for a repro (a short script that shows a finding); its last event is ``Reproduced``
    or ``Failed``.
    """

    def __init__(self, request: Reproduce, cancel: Callable[[PendingRequest[Any]], None]) -> None:
        super().__init__(request, cancel)
        self.found: ReproFound | None = None
        """Best script that the engine has sent so far, available even if the engine died later."""
        self.progress: ReproProgress | None = None
        self.overdue = False
        """True if the request was cancelled because it exceeded its time limit."""

    def cancellation_event(self) -> Event:
        known, found = self.progress, self.found
        return Reproduced(
            self.request.request,
            known.seconds if known is not None else 0.0,
            known.tried if known is not None else 0,
            verified=found is not None and found.verified,
            cancelled=True,
        )

    def mark_sent(self) -> None:
        seconds = self.request.seconds + OVERDUE_GRACE
        asyncio.get_running_loop().call_later(seconds, self._end_overdue)

    def _end_overdue(self) -> None:
        self.overdue = not self.ended and not self.cancelled
        self.cancel()

    def put_event(self, event: Event) -> None:
        if isinstance(event, ReproFound):
            self.found = event
        elif isinstance(event, ReproProgress):
            self.progress = event
        super().put_event(event)


class ComparisonRequest(PendingRequest[Compare]):
    """A request to compare two texts; its last event is ``Compared`` or ``Failed``."""

    def cancellation_event(self) -> Event:
        reason = "The comparison was cancelled."
        return Compared(self.request.request, "unverified", reason=reason, cancelled=True)


class SelfCheckRequest(PendingRequest[SelfCheck]):
    """A request for the engine's report on its hooks into torch; its last event is ``SelfChecked``
    or ``Failed``.
    """


class RequestQueue:
    """The requests of an engine: they wait until its process is ready, and receive the events of
    the process.

    After a crash, trace requests that the process worked on are sent again, one at a time, because
    one of them may have caused the crash.
    """

    def __init__(self) -> None:
        self._waiting: dict[int, PendingRequest[Any]] = {}
        self._sent: dict[int, PendingRequest[Any]] = {}

    def add(self, request: PendingRequest[Any]) -> None:
        self._waiting[request.request.request] = request

    def send_waiting(self, process: EngineProcess) -> None:
        """Send the waiting requests to a process that is ready."""
        # Send low-priority requests, which may take minutes, after all requests that may have
        # caused a crash.
        suspects: list[PendingRequest[Any]] = [
            request
            for request in self._waiting.values()
            if isinstance(request, AnalysisRequest)
            and request.restarted
            and not request.request.nice
        ]
        if suspects and self._sent:
            return
        for request in suspects[:1] or list(self._waiting.values()):
            number = request.request.request
            self._sent[number] = self._waiting.pop(number)
            process.send(request.request)
            request.mark_sent()

    def cancel(self, request: PendingRequest[Any], process: EngineProcess | None) -> None:
        """Cancel a request; a process that does not end its work in time is killed."""
        number = request.request.request
        if self._waiting.pop(number, None) is not None:
            request.put_event(request.cancellation_event())
        elif number in self._sent and process is not None:
            process.send(Cancel(number))
            asyncio.get_running_loop().call_later(CANCEL_GRACE, _kill_hung, process, request)

    def prioritize(self, message: Prioritize, process: EngineProcess | None) -> None:
        """Send the process the lines that the user looks at, if it works on the request."""
        if message.request in self._sent and process is not None:
            process.send(message)

    def take_event(self, number: int, event: Event) -> bool:
        """Pass an event of the process to the request with this number; return whether it
        completes the request.
        """
        request = self._sent.get(number)
        if request is None:
            return False
        if isinstance(event, LAST):
            del self._sent[number]
        request.put_event(event)
        return isinstance(event, (Analyzed, Reproduced, Compared)) and not event.cancelled

    def retry_traces(self) -> None:
        """Queue the trace requests of a crashed process again; each request is retried only
        once."""
        for number, request in list(self._sent.items()):
            if isinstance(request, AnalysisRequest) and request.restart():
                self._waiting[number] = self._sent.pop(number)

    def fail_sent(self, reason: str, next_step: str) -> None:
        """End the requests that the process worked on; ``reason`` and ``next_step`` are sentences
        for the user.
        """
        sent, self._sent = self._sent, {}
        for number, request in sent.items():
            failed = Failed(number, reason, next_step)
            request.put_event(request.cancellation_event() if request.cancelled else failed)

    def fail_all(self, reason: str, next_step: str) -> None:
        """End all requests, waiting and sent, with a failure; ``reason`` and ``next_step`` are
        sentences for the user.
        """
        self.fail_sent(reason, next_step)
        waiting, self._waiting = self._waiting, {}
        for number, request in waiting.items():
            request.put_event(Failed(number, reason, next_step))


def _kill_hung(process: EngineProcess, request: PendingRequest[Any]) -> None:
    if not request.ended:
        process.kill()
