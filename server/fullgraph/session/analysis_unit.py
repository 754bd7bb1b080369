"""One open Python file: its text, when it is traced, and its results."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from fullgraph.incremental.text_maps import AppliedEdit
from fullgraph.results import Results
from fullgraph.session.documents import Document, TextChange
from fullgraph.session.file_traces import FileTraces
from fullgraph.session.indices import ExtendedIndex
from fullgraph.session.request import TraceInputs
from fullgraph.session.runs import RunEnding, RunWaiters
from fullgraph.session.scheduling import Schedule
from fullgraph.session.unit_events import (
    Reason,
    ResultsChanged,
    RunAsked,
    TraceDue,
    UnitEvent,
    is_due,
)
from fullgraph.session.unit_forecasts import UnitForecasts
from fullgraph.session.unit_view import UnitView
from fullgraph.store.runs import StoredRun, TraceBasis
from fullgraph_engine.protocol import Degraded


class AnalysisUnit:
    """An open Python file with its analysis, called "unit" in other names. It decides when the file
    is traced.

    ``traces`` has the run in progress and the results, ``forecasts`` the forecasts of recompiles,
    and ``view`` the findings and values to show in the editor. The session calls methods of this
    class and of its three parts; they report back to it with ``UnitEvent``s.
    """

    def __init__(
        self,
        document: Document,
        inputs: TraceInputs,
        emit: Callable[[AnalysisUnit, UnitEvent], None],
    ) -> None:
        self.document = document
        self.inputs = inputs
        """Current settings, recorded classes and other open files; the session updates them before
        each call.
        """
        self._emit: Callable[[UnitEvent], None] = partial(emit, self)
        self.schedule = Schedule(self._report_due)
        self._waiters = RunWaiters()
        self.traces = FileTraces(self, document, self.schedule, self._waiters, self._emit)
        self.forecasts = UnitForecasts(self, self._emit)
        self.view = UnitView(self)
        self.extended = ExtendedIndex()
        """Operator index extended by the operators that this file registers."""
        self._reason = Reason.CHANGED
        self._only: tuple[str, ...] = ()
        """Names of the targets (functions and module classes of the file) that the next run traces;
        empty for all.
        """
        self._asked = False
        """True if the current or next run exists only because a command requested it, so that the
        run is cancelled when the request is withdrawn.
        """
        self._closed = False
        self._looked_at = 0, 0
        """First and last line of the range that the user looked at last."""

    @property
    def results(self) -> Results:
        """Latest results of tracing the file, with source ranges in the current text."""
        return self.traces.shown.current

    @property
    def degraded(self) -> tuple[Degraded, ...]:
        """Kinds of findings, such as graph breaks, that the installed release of torch cannot show
        here, as reported with the latest complete results."""
        complete = self.traces.complete
        return complete.status.degraded if complete is not None else ()

    @property
    def busy(self) -> bool:
        """Whether a run that traces the file is in progress."""
        return self.traces.run is not None

    @property
    def waiting(self) -> bool:
        """Whether a run that traces the file is scheduled and has not started."""
        return self.schedule.pending

    @property
    def is_idle(self) -> bool:
        """Whether the file is open, and no run that traces it is in progress or scheduled."""
        return not (self._closed or self.busy or self.waiting)

    # -- editor events ------------------------------------------------------------------------

    def open(self, stored: StoredRun | None = None) -> None:
        """Begin to analyze the opened file: show stored results of its text if there are any, else
        trace it.

        ``stored`` is the run that an earlier session saved to disk; None if there is none.
        """
        if stored is not None:
            self.traces.add_stored(stored)
        self._request_trace(Reason.OPENED)

    def change(self, changes: Sequence[TextChange], version: int) -> None:
        edits = self.document.apply_changes(changes, version)
        if not edits:
            return
        self.forecasts.edited = asyncio.get_running_loop().time()
        self.forecasts.end()
        self._apply_edits(edits)

    def look_at(self, first: int, last: int) -> None:
        """Trace the targets near the lines ``first`` to ``last`` first, because the user looks at
        them.

        A range of all lines is ignored: it does not show where the user looks.
        """
        is_all = first == 0 and last >= len(self.document.positions.lines) - 1
        if is_all or (first, last) == self._looked_at:
            return
        self._looked_at = first, last
        if not first <= self.document.focus <= last:
            self.document.focus = (first + last) // 2
        if self.traces.run is not None:
            self.traces.run.prioritize(first, last)

    def save(self) -> None:
        self.traces.store.drop_outdated()
        self._request_trace(Reason.SAVED)
        self.traces.save_latest()

    def refresh(self) -> None:
        """Schedule a trace because something other than the text has changed."""
        self.traces.store.clear()
        self.forecasts.end()
        self._request_trace(Reason.OPENED)

    def reconsider(self) -> None:
        """Schedule a trace if another file or a setting that the latest results depend on has
        changed.
        """
        self.traces.store.drop_outdated()
        if not self.traces.store.is_latest(self.current_basis()):
            self.forecasts.end()
            self._request_trace(Reason.OPENED)

    def compare_imports(self) -> None:
        """Schedule a trace if an open file that this one imports was edited while the last run was
        in progress.
        """
        complete = self.traces.complete
        if complete is not None and not complete.differs_in_text_only(self.current_basis()):
            self._request_trace(Reason.OPENED)

    def analyze(self, only: tuple[str, ...] = ()) -> asyncio.Future[RunEnding]:
        """Trace the targets named in ``only`` (empty for all) now, even if their results are known.

        The returned future resolves when the run ends. Targets of a current or scheduled run are
        traced as well, because other callers wait for them.
        """
        ending = self._waiters.add()
        self.traces.store.clear()
        ahead = self._ahead
        if ahead is None:
            self._asked, self._only = True, only
        else:
            self._only = tuple(dict.fromkeys((*ahead, *only))) if ahead and only else ()
        self._request_trace(Reason.ASKED)
        return ending

    def withdraw_request(self, ending: asyncio.Future[RunEnding]) -> None:
        """Withdraw a request of ``analyze``, which returned the future ``ending``; cancel the run
        if no other request needs it.
        """
        self._waiters.remove(ending)
        if self._asked and not self._waiters:
            self.cancel()

    def cancel(self) -> None:
        self.forecasts.end()
        self.schedule.withdraw()
        self._only = ()
        if not self.busy:
            self._waiters.resolve(RunEnding(self.document.generation, False, "Cancelled."))

    def close(self) -> None:
        self._closed = True
        if self.traces.run is not None:
            self.traces.save_partial_results(self.traces.run)
        self.forecasts.end()
        self.schedule.close()
        if not self.busy:
            closed = RunEnding(self.document.generation, False, "The file was closed.")
            self._waiters.resolve(closed)

    # -- the schedule -------------------------------------------------------------------------

    def current_basis(self, only: tuple[str, ...] | None = None) -> TraceBasis:
        only = self._only if only is None else only
        inputs, document = self.inputs, self.document
        settings = (inputs.settings.tracing_key(), inputs.recorded)
        return TraceBasis(document.text, only, settings, inputs.open_files, document.positions)

    def results_completed(self) -> None:
        self.forecasts.update()

    @property
    def _ahead(self) -> tuple[str, ...] | None:
        """Return the names of the targets of the current or scheduled run, empty for all; None
        without a run.
        """
        if self.schedule.pending:
            return self._only
        run = self.traces.run
        return run.only if run is not None and not run.obsolete else None

    def _request_trace(self, reason: Reason) -> None:
        """Schedule a trace of the text for a reason other than an edit."""
        if not self._is_due(reason) or self.traces.restore_known():
            return
        run = self.traces.run
        if run is not None and run.covers(self.current_basis()):
            self._only = ()
            if reason is Reason.ASKED:
                self._emit(RunAsked())
        else:
            self.schedule.request_now()

    def _apply_edits(self, edits: Sequence[AppliedEdit]) -> None:
        """Move the displayed results to the edited text, and schedule a trace if the edit may
        change them.
        """
        due = self._is_due(Reason.CHANGED)
        if self.traces.restore_known():
            return  # the results are valid for the edited text
        if not self.traces.continue_run():
            self.traces.shown.stop_following()
            # The current run traces an outdated text.
            if due:
                self.schedule.request_after_edit()
            else:
                self.cancel()
            self.results.apply_edits(edits, self.document.name)
        self._emit(ResultsChanged(final=False))

    def _is_due(self, reason: Reason) -> bool:
        """Return whether the settings allow an automatic trace for this reason.

        Of several reasons since the last run, the strongest is stored for the next run.
        """
        order = list(Reason)
        if not self.schedule.pending or order.index(reason) > order.index(self._reason):
            self._reason = reason
        due = is_due(reason, self.inputs.settings.trace_on)
        if due and reason is not Reason.ASKED:
            self._asked, self._only = False, ()
        return due

    def _report_due(self) -> None:
        due = TraceDue(self._reason, self._only)
        self._reason, self._only = Reason.CHANGED, ()
        self.forecasts.end()
        self._emit(due)
