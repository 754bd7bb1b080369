"""Requests to an engine in progress: a run that traces a file, and a forecast of its recompiles."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

from fullgraph.engines import AnalysisRequest
from fullgraph.incremental.text_maps import CodeMap
from fullgraph.results import Results
from fullgraph.store.files import FilesRecorder
from fullgraph.store.runs import TraceBasis
from fullgraph_engine.protocol import (
    Analyzed,
    Event,
    Failed,
    FindingFound,
    ForecastFound,
    Importing,
    Log,
    TargetDone,
    TargetStarted,
)

logger = logging.getLogger(__name__)

_REPORT = "Edit the file to trace it again, and report this error with the language server's log."

_SAVE_SECONDS = 1.0
"""Minimum seconds between two saves of a run's partial results; doubles with the length of the run.
"""


class RunOwner(Protocol):
    """The interface through which a run of a file (one request to trace it) reports its events."""

    def apply_event(self, event: Event) -> None:
        """Apply an event of the run; the last event goes to ``run_ended`` instead."""

    def interrupt_run(self) -> None:
        """Keep the run's results so far, because the run is being cancelled."""

    def save_partial_results(self, run: UnitRun) -> None:
        """Save the results so far of an unfinished run to disk."""

    def run_ended(self, run: UnitRun, last: Analyzed | Failed, seconds: float) -> None:
        """Handle the end of a run; ``last`` is its last event and ``seconds`` its duration."""


class ForecastOwner(Protocol):
    """The interface through which a forecast (of calls that will recompile a target) reports its
    results.
    """

    def take_forecast(self, event: ForecastFound) -> None:
        """Store the forecast of one target's recompiles and show its findings."""

    def forecast_ended(self, forecast: ForecastRun, last: Analyzed | Failed) -> None:
        """Handle the end of a forecast, whose last event is ``last``."""


@dataclass(frozen=True)
class RunEnding:
    """The end of a run, for callers of ``AnalysisUnit.analyze`` that wait for it."""

    generation: str
    completed: bool
    reason: str = ""


class RunWaiters:
    """The callers that requested a run and wait for its end."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[RunEnding]] = []

    def __bool__(self) -> bool:
        return bool(self._waiters)

    def add(self) -> asyncio.Future[RunEnding]:
        """Add a caller; the future resolves when the run ends."""
        waiter: asyncio.Future[RunEnding] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def remove(self, waiter: asyncio.Future[RunEnding]) -> None:
        """Remove a caller that does not need the run any more."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def resolve(self, ending: RunEnding) -> None:
        """Report the end of the run to all callers that wait for it."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(ending)


class ShownResults:
    """The results of one file as the editor shows them: with source ranges in the current text.

    A run may continue after edits of comments and layout; its results refer to the text that it
    traces, and are moved to the current text here.
    """

    def __init__(self) -> None:
        self.traced = Results()
        """The results with source ranges in the text that the current run traces."""
        self._place: tuple[CodeMap, str] | None = None
        """Mapping of source ranges to the current text, and the file's path; None if the current
        run traces the current text.
        """
        self._moved: Results | None = None
        """Cache of the results with source ranges in the current text; None after an event changed
        the results.
        """

    @property
    def current(self) -> Results:
        """The results with source ranges in the current text."""
        if self._place is None:
            return self.traced
        if self._moved is None:
            self._moved = self.traced.relocate_to(*self._place)
        return self._moved

    @property
    def is_whole(self) -> bool:
        """Whether no result was lost when the source ranges were moved to the current text."""
        return self.current.placed == self.traced.placed

    def replace(self, results: Results) -> None:
        """Display ``results``, whose source ranges are in the current text, instead of the previous
        ones.
        """
        self.traced, self._place, self._moved = results, None, None

    def follow_text(self, code_map: CodeMap, path: str) -> bool:
        """Show the current run's results, including later ones, in another text with the same code.

        ``code_map`` maps source ranges to that text; ``path`` is the file. Return False if a range
        does not exist there.
        """
        moved = self.traced.relocate_to(code_map, path)
        if moved.placed != self.traced.placed:
            return False
        self._place, self._moved = (code_map, path), moved
        return True

    def stop_following(self) -> None:
        """Keep the results with source ranges in the current text, because the run will not report
        more."""
        self.replace(self.current)

    def apply_event(self, event: Event) -> bool:
        """Apply an event of the current run; return whether the displayed results changed."""
        if isinstance(event, (Importing, Log, TargetStarted)):
            return False
        self._moved = None
        return self.traced.apply_event(event)

    def complete_run(self) -> Results:
        """Complete the run, and return a copy of its results for the text that it traced."""
        self.traced.complete_run()
        self._moved = None
        return self.traced.snapshot()


class UnitRun:
    """A run of one file: a request to trace it, whose events are passed to a ``RunOwner``,
    including the last.
    """

    def __init__(
        self,
        owner: RunOwner,
        analysis: AnalysisRequest,
        basis: TraceBasis,
        files: FilesRecorder,
    ) -> None:
        self._owner = owner
        self._analysis = analysis
        self.basis = self.now = basis
        """Inputs of the run: text, targets and settings. ``basis`` has the traced text; ``now`` has
        the current text, which has the same code."""
        self.files = files
        self.generation = analysis.request.generation
        self.only = analysis.request.only
        self.obsolete = False
        """True if the run was cancelled, so that further events of its request are discarded."""
        self._task = asyncio.create_task(self._follow_events())

    @property
    def is_partial(self) -> bool:
        """Whether the run traces only some targets, so that results of other targets come from an
        earlier run.
        """
        request = self._analysis.request
        return bool(request.only or request.without or request.given)

    def covers(self, basis: TraceBasis) -> bool:
        """Whether a new run with the inputs ``basis`` would give the same results as this run."""
        return not self.obsolete and self.now.is_as(basis) and self.files.is_current()

    def prioritize(self, first: int, last: int) -> None:
        """Trace the targets nearest to the lines ``first`` to ``last`` of the current text
        first.
        """
        # Edits of comments may have moved the lines, but only by a few.
        if not self.obsolete:
            self._analysis.prioritize(first, last)

    def cancel(self) -> None:
        """Cancel the run in the engine, and discard further events of its request."""
        if not self.obsolete:
            self.obsolete = True
            self._owner.interrupt_run()
            self._analysis.cancel()

    async def _follow_events(self) -> None:
        try:
            await self._take_events()
        except Exception as error:
            # Without a last event the file would be shown as being traced forever.
            request = self._analysis.request
            logger.exception("An event of a run of %s could not be processed", request.path)
            self._analysis.cancel()
            reason = f"An event of the run could not be processed ({type(error).__name__}: {error})"
            failed = Failed(request.request, reason, _REPORT)
            self._owner.run_ended(self, failed, 0.0)

    async def _take_events(self) -> None:
        loop = asyncio.get_running_loop()
        begun = next_save = loop.time()
        # The time for alternative execution paths and for compilers does not count, because it must
        # not lengthen the delay after an edit.
        later_begun: float | None = None
        async for event in self._analysis:
            self.files.record_event(event)
            if isinstance(event, (Analyzed, Failed)):
                ended = loop.time() if later_begun is None else later_begun
                self._owner.run_ended(self, event, ended - begun)
                continue
            if later_begun is None and _is_of_later_part(event):
                later_begun = loop.time()
            if self.obsolete:
                continue
            self._owner.apply_event(event)
            if isinstance(event, TargetDone) and loop.time() >= next_save:
                self._owner.save_partial_results(self)
                next_save = loop.time() + max(_SAVE_SECONDS, loop.time() - begun)


class ForecastRun:
    """A request to forecast which calls will recompile the targets of a file.

    It passes each forecast and the last event to a ``ForecastOwner``.
    """

    def __init__(self, owner: ForecastOwner, analysis: AnalysisRequest) -> None:
        self._owner = owner
        self._analysis = analysis
        self._obsolete = False
        self._task = asyncio.create_task(self._follow_events())

    def cancel(self) -> None:
        """Cancel the forecast in the engine, and discard further events of its request."""
        self._obsolete = True
        self._analysis.cancel()

    async def _follow_events(self) -> None:
        async for event in self._analysis:
            if isinstance(event, (Analyzed, Failed)):
                self._owner.forecast_ended(self, event)
            elif isinstance(event, ForecastFound) and not self._obsolete:
                self._owner.take_forecast(event)


def _is_of_later_part(event: Event) -> bool:
    """Whether an event comes from tracing alternative execution paths, or from compiling graphs."""
    if isinstance(event, FindingFound):
        return event.finding.run is not None and event.finding.run.part in ("paths", "backend")
    if not isinstance(event, TargetDone):
        return False
    return bool(event.report.paths) or event.report.compilation is not None
