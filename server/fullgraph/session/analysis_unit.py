"""One open Python file: its text, its results, and the run that updates them."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from fullgraph.domain.causes import group_by_cause
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import TextPositions
from fullgraph.domain.reports import ShownReport
from fullgraph.engines import AnyEngine, sentences
from fullgraph.incremental.text_maps import AppliedEdit, CodeMap
from fullgraph.kept import KeptResults, ResultRecorder
from fullgraph.operators import Seen
from fullgraph.results.file_results import Results
from fullgraph.results.forecasts import TargetForecast
from fullgraph.results.guards import guard_findings
from fullgraph.results.seen import SeenByTarget, seen_in
from fullgraph.results.shapes import ShapesByTarget, all_shapes
from fullgraph.session.documents import Document, TextChange, is_on_disk
from fullgraph.session.findings import merge_findings
from fullgraph.session.history import LONGEST_PARSE, CompleteRun, History, TraceBasis
from fullgraph.session.ignores import remove_ignored
from fullgraph.session.indices import ExtendedIndex
from fullgraph.session.probe_runs import place_probe_findings
from fullgraph.session.request import forecast_request, may_have_targets
from fullgraph.session.runs import ForecastRun, MovedResults, UnitRun
from fullgraph.session.scheduling import REST, Schedule
from fullgraph.session.settings import Settings
from fullgraph.session.unit_events import (
    ForecastDue,
    ForecastEnded,
    ForecastWithdrawn,
    Reason,
    ResultsChanged,
    ResultsSettled,
    RunAdvanced,
    RunAsked,
    RunBegan,
    RunEnded,
    TraceDue,
    UnitEvent,
    is_due,
)
from fullgraph.session.untraced import untraced_findings
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    CalledAgain,
    Event,
    Failed,
    Finding,
    FindingFound,
    ForecastFound,
    Importing,
    Log,
    OpenFile,
    Position,
    Range,
    RecordedClass,
    TargetStarted,
    Timings,
)
from fullgraph_engine.protocol.files import FileState, file_state
from fullgraph_engine.protocol.shapes import PlaceShapes

LONGEST_TRACED = 1_000_000
"""Maximum length in characters of a file to trace automatically; a file of five times this length
needs gigabytes of memory.
"""

logger = logging.getLogger(__name__)

TOO_LONG = "trace/too-long"
INTERRUPTED = "trace/interrupted"


@dataclass(frozen=True)
class RunEnding:
    """The end of a run, as reported to the callers of ``analyze`` that wait for it."""

    generation: str
    completed: bool
    reason: str = ""


@dataclass(frozen=True)
class TraceInputs:
    """Everything that a trace of a file depends on other than its text: settings, recorded classes
    and other open files.
    """

    settings: Settings
    recorded: tuple[RecordedClass, ...]
    """Classes of this file whose real inputs ``fullgraph record`` recorded."""
    open_files: tuple[OpenFile, ...] = ()
    """Other open files whose text differs from the file on disk."""
    folder: str = ""
    """Folder that paths in findings are relative to."""


@dataclass(frozen=True)
class RunTimings:
    """Timings of the last run that was not cancelled and did not fail, with its text; empty before
    the first.
    """

    text: str = ""
    timings: tuple[Timings, ...] = ()


@dataclass(frozen=True)
class _SeenNow:
    """Cache of the kinds of values that traces saw in the current text; valid while text and
    results are unchanged.
    """

    positions: TextPositions
    targets: Mapping[str, SeenByTarget]
    seen: Seen


@dataclass(frozen=True)
class _ShapesNow:
    """Cache of the shapes that traces saw, in the order of the text; valid while the results are
    unchanged.
    """

    targets: Mapping[str, ShapesByTarget]
    places: tuple[PlaceShapes, ...]


class AnalysisUnit:
    """One open file of the editor, with its latest results; schedules its traces and handles events
    of the current run.

    The session calls methods of this class; the unit reports back with ``UnitEvent``s.
    """

    def __init__(
        self,
        document: Document,
        inputs: TraceInputs,
        emit: Callable[[AnalysisUnit, UnitEvent], None],
    ) -> None:
        self.document = document
        self._results = Results()
        self._moving: MovedResults | None = None
        """Results moved to the current text while the current run traces an earlier text that
        differs only in layout; else None.
        """
        self.schedule = Schedule(self._begin_run)
        self.inputs = inputs
        """Current settings, recorded classes and other open files; the session updates them before
        each call.
        """
        self._emit = emit
        self._run: UnitRun | None = None
        self._engine: AnyEngine | None = None
        """Engine that produced the results."""
        self.from_cache = False
        """True if the results were loaded from disk and the engine has not confirmed them yet."""
        self._forecast: ForecastRun | None = None
        self._edited = 0.0
        """Time of the last edit, on the event loop's clock."""
        self._reason = Reason.CHANGED
        self._only: tuple[str, ...] = ()
        """Names of the targets that the next run traces; empty for all."""
        self._asked = False
        """True if the current or next run was requested by command and is not needed otherwise."""
        self.timings = RunTimings()
        self._history = History()
        self._seen: _SeenNow | None = None
        self._shapes: _ShapesNow | None = None
        self._waiters: list[asyncio.Future[RunEnding]] = []
        self._closed = False
        self.extended = ExtendedIndex()
        """Operator index extended by the operators that this file registers."""
        self.guards_shown: set[str] = set()
        """Names of the targets for which the user wants all guards shown as diagnostics."""
        self.untraced_shown: set[str] = set()
        """Names of the targets for which the user inverted the setting that fades untraced
        lines.
        """
        self.unparsed = False
        """True if the text was not traced after the last edit or save, because it has a syntax
        error.
        """
        self.importable = document.text
        """Text that other files import: the last one without a syntax error."""
        self._on_disk: tuple[tuple[FileState, str], bool] | None = None
        """Cached result of comparing ``importable`` with the file on disk, with the file's state
        and the text that were compared.
        """

    @property
    def results(self) -> Results:
        """Latest results, with source ranges in the current text."""
        return self._results if self._moving is None else self._moving.results

    @results.setter
    def results(self, results: Results) -> None:
        self._results, self._moving = results, None

    # -- editor events ------------------------------------------------------------------------

    def open(self) -> None:
        self._request_trace(Reason.OPENED)

    def show_kept(self, kept: KeptResults) -> None:
        """Show results that an earlier session stored on disk, until the text is traced."""
        if not self.results.empty or self._history.latest is not None:
            return
        known = Results()
        for event in kept.events:
            known.apply_event(event)
        self.results.adopt_targets(known, known.placed)
        self.from_cache = True
        self._emit_event(ResultsChanged(final=False))

    def change(self, changes: Sequence[TextChange], version: int) -> None:
        edits = self.document.apply_changes(changes, version)
        if not edits:
            return
        self._edited = asyncio.get_running_loop().time()
        self._end_forecast()
        self._request_trace(Reason.CHANGED, edits)

    @property
    def unsaved(self) -> OpenFile | None:
        """The text that other files import, if it differs from the file on disk; else None."""
        path = self.document.path
        if path is None:
            return None
        compared = file_state(str(path)), self.importable
        if self._on_disk is None or self._on_disk[0] != compared:
            self._on_disk = compared, is_on_disk(path, self.importable)
        return None if self._on_disk[1] else OpenFile(self.document.name, self.importable)

    @property
    def reads(self) -> frozenset[str] | None:
        """Paths of the files that the last complete run read; None if unknown."""
        return self._history.latest.recorder.reads if self._history.latest is not None else None

    def depends_on(self, paths: Set[str]) -> bool:
        """Whether the last complete run or the current run read, or looked for, one of the
        files."""
        runs = (one.recorder for one in (self._history.latest, self._run) if one is not None)
        return any(not paths.isdisjoint(recorder.reads or ()) for recorder in runs)

    def save(self) -> None:
        self._history.drop_outdated()
        self._request_trace(Reason.SAVED)
        complete = self._history.latest
        if (
            complete is not None
            and complete.basis.text != self.document.text
            and self._update_latest()
        ):
            self._save_results()

    def refresh(self) -> None:
        """Schedule a trace because something other than the text has changed."""
        self._history.clear()
        self._end_forecast()
        self._request_trace(Reason.OPENED)

    def reconsider(self) -> None:
        """Schedule a trace if a file or setting that the latest results depend on has changed."""
        self._history.drop_outdated()
        if self._find_latest(self._current_basis()) is None:
            self._end_forecast()
            self._request_trace(Reason.OPENED)

    def compare_imports(self) -> None:
        """Schedule a trace if an open file that this one imports was edited during the run."""
        complete, now = self._history.latest, self._current_basis()
        if complete is not None and not complete.differs_in_text_only(now):
            self._request_trace(Reason.OPENED)

    def analyze(self, only: tuple[str, ...] = ()) -> asyncio.Future[RunEnding]:
        """Trace the targets ``only`` (empty for all) now, even if results are known; the returned
        future resolves when the run ends.

        Targets of a current or waiting run are traced as well, because other callers wait for them.
        """
        ending: asyncio.Future[RunEnding] = asyncio.get_running_loop().create_future()
        self._waiters.append(ending)
        self._history.clear()
        ahead = self._ahead
        if ahead is None:
            self._asked, self._only = True, only
        else:
            self._only = tuple(dict.fromkeys((*ahead, *only))) if ahead and only else ()
        self._request_trace(Reason.ASKED)
        return ending

    def withdraw_request(self, ending: asyncio.Future[RunEnding]) -> None:
        """Withdraw the request for which ``analyze`` returned this future; cancel the run if no
        other request needs it.
        """
        if ending in self._waiters:
            self._waiters.remove(ending)
        if self._asked and not self._waiters:
            self.cancel()

    def cancel(self) -> None:
        self._end_forecast()
        self.schedule.withdraw()
        self._only = ()
        if self._run is None:
            self._resolve_waiters(RunEnding(self.document.generation, False, "Cancelled."))

    def close(self) -> None:
        self._closed = True
        if self._run is not None:
            self.settle_so_far(self._run)
        self._end_forecast()
        self.schedule.close()
        if self._run is None:
            self._resolve_waiters(
                RunEnding(self.document.generation, False, "The file was closed.")
            )

    # -- displayed results --------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self._run is not None

    @property
    def waiting(self) -> bool:
        """Whether a run is scheduled and has not started."""
        return self.schedule.pending

    @property
    def traced(self) -> bool:
        """Whether a run of this text or of an earlier one has completed."""
        return self._history.latest is not None

    def all_findings(self) -> tuple[FileFinding, ...]:
        """Return all findings, including findings hidden by an ignore comment."""
        settings = self.inputs.settings
        positions, name = self.document.positions, self.document.name
        findings = place_probe_findings(
            self.results.findings(foretold=settings.forecast), self.reports(), positions, name
        )
        found = merge_findings(findings, settings, self.results.names, self.inputs.folder)
        reports = [shown.report for shown in self.reports()]
        faded = self.faded
        if not (self.guards_shown or faded):
            return found
        return (
            *found,
            *guard_findings(sorted(self.guards_shown), self.results.guards, reports),
            *untraced_findings(sorted(faded), reports, positions),
        )

    def findings(self) -> tuple[FileFinding, ...]:
        """Return the findings shown in the editor."""
        return group_by_cause(remove_ignored(self.all_findings(), self.document.positions))

    @property
    def faded(self) -> set[str]:
        """Names of the targets whose lines that no trace reached are faded."""
        if not self.inputs.settings.untraced_faded:
            return self.untraced_shown
        return self.untraced_shown ^ {shown.report.name for shown in self.reports()}

    def reports(self) -> tuple[ShownReport, ...]:
        return self.results.reports()

    def find_forecast(self, target: str) -> TargetForecast | None:
        """Return the forecast of recompiles for a target; None if unknown."""
        if not self.inputs.settings.forecast:
            return None
        return self.results.forecasts.find(target)

    def seen_values(self) -> Seen:
        """Return the kinds of values that the last runs saw in expressions and locals, by offsets
        in the current text.
        """
        positions, targets = self.document.positions, self.results.seen
        known = self._seen
        if known is None or known.positions is not positions or known.targets != targets:
            seen = seen_in(positions, targets.values())
            known = self._seen = _SeenNow(positions, targets, seen)
        return known.seen

    def seen_shapes(self) -> tuple[PlaceShapes, ...]:
        """Return the shapes of values that the last runs saw, in the order of the text."""
        targets, known = self.results.shapes, self._shapes
        if known is None or known.targets != targets:
            known = self._shapes = _ShapesNow(targets, all_shapes(targets.values()))
        return known.places

    @property
    def shapes_note(self) -> str:
        """Sentence for the user about values that the last runs did not report, such as too many;
        empty if none.
        """
        return next((found.note for found in self.results.shapes.values() if found.note), "")

    def values_left_out(self, target: str) -> str:
        """Return a sentence for the user about values that the last run of a target did not report;
        empty if none.
        """
        found = self.results.target_details(target).shapes
        return found.current.note if found is not None else ""

    # -- runs ---------------------------------------------------------------------------------

    @property
    def _ahead(self) -> tuple[str, ...] | None:
        """Names of the targets of the current or waiting run, empty for all; None without a run."""
        if self.schedule.pending:
            return self._only
        return self._run.only if self._run is not None and not self._run.obsolete else None

    def _request_trace(self, reason: Reason, edits: Sequence[AppliedEdit] = ()) -> None:
        order = list(Reason)
        if not self.schedule.pending or order.index(reason) > order.index(self._reason):
            self._reason = reason
        due = is_due(reason, self.inputs.settings.trace_on)
        if due and reason is not Reason.ASKED:
            self._asked, self._only = False, ()
        if reason is Reason.CHANGED:
            if self._restore_known():
                return  # the results are valid for the edited text
            if self._continue_run():
                self._emit_event(ResultsChanged(final=False))
                return
            self._stop_moving()
            # The current run traces an outdated text.
            if due:
                self.schedule.request_after_edit()
            else:
                self.cancel()
            self.results.apply_edits(edits, self.document.name)
            self._emit_event(ResultsChanged(final=False))
        elif due:
            if self._restore_known():
                pass
            elif self._run is not None and self._run.covers(self._current_basis()):
                self._only = ()
                if reason is Reason.ASKED:
                    self._emit_event(RunAsked())
            else:
                self.schedule.request_now()

    def _continue_run(self) -> bool:
        """Continue the current run if an edit changed only comments or layout; return whether the
        run continues.

        The run's results are moved to their source ranges in the new text.
        """
        run = self._run
        if run is None or run.obsolete or self.schedule.pending:
            return False
        now, lines = self._current_basis(run.only), self.document.positions.lines
        if not run.basis.differs_in_text_only(now):
            return False
        moves = run.basis.moves_to(lines)
        if moves is None:
            return False
        told = self._moving.told if self._moving is not None else self._results
        moving = MovedResults(told, CodeMap(moves, lines), self.document.name)
        if not moving.is_whole:
            return False
        self._moving, run.now = moving, now
        self.importable = now.text
        return True

    def _current_basis(self, only: tuple[str, ...] | None = None) -> TraceBasis:
        only = self._only if only is None else only
        inputs = self.inputs
        settings = (inputs.settings.tracing_key(), inputs.recorded)
        return TraceBasis(self.document.text, only, settings, inputs.open_files)

    def _find_latest(self, basis: TraceBasis) -> Results | None:
        """Return the results of the last complete run if the text in ``basis`` has the same code;
        else None.
        """
        lines = self.document.positions.lines
        return self._history.find_latest(basis, self.document.name, lines)

    def _restore_known(self) -> bool:
        """Show the results of an earlier run of the current text; return whether there were any."""
        latest = self._history.latest
        known = self._history.find(
            self._current_basis(), self.document.name, self.document.positions.lines
        )
        if known is None:
            return False
        self.schedule.withdraw()
        self._restore_results(known)
        if self._history.latest is not latest:
            self._save_results()
        return True

    def _restore_results(self, known: Results) -> None:
        self.results = known
        self.importable = self.document.text
        self.unparsed = False
        self._emit_event(ResultsChanged(final=True))
        self._resolve_waiters(RunEnding(self.document.generation, True))
        self.want_forecast()

    def _begin_run(self) -> UnitRun | None:
        due = TraceDue(self._reason, self._only)
        self._reason, self._only = Reason.CHANGED, ()
        self._end_forecast()
        self._emit_event(due)
        return self._run

    def settle_without_engine(self, due: TraceDue) -> bool:
        """Finish the due trace without an engine if possible, because an engine's import of torch
        takes seconds.

        Return whether it is finished.
        """
        if not may_have_targets(self.document.text):
            if _has_valid_syntax(self.document.text, ""):
                self.importable = self.document.text
            self.results.begin_run()
            self.results.complete_run()
            self._emit_event(ResultsChanged(final=True))
            self._resolve_waiters(RunEnding(self.document.generation, True))
            return True
        if len(self.document.text) > LONGEST_TRACED and due.reason is not Reason.ASKED:
            self._settle_too_long(due.reason)
            return True
        return False

    def leave_untraced(self, why: str, *, forget: bool) -> None:
        """Skip the due trace; ``why`` explains the reason in a sentence, and ``forget`` discards
        the old results.
        """
        if forget:
            self._forget_results()
        self._resolve_waiters(RunEnding(self.document.generation, False, why))

    def begin_trace(self, due: TraceDue, engine: AnyEngine, request: Analyze) -> None:
        """Start the run that the event ``TraceDue`` requested: send ``request`` to ``engine``."""
        if engine is not self._engine and (self._engine is not None or not self.from_cache):
            # Results of another torch do not apply to this engine.
            self._forget_results()
        self._engine = engine
        # Record the inputs of the run first, so that later changes do not count as part of it.
        basis = self._current_basis(due.only)
        # An incomplete text is common while typing, so it is not sent. After open or save, the
        # engine reports the syntax error, as ``check`` does.
        self.unparsed = (
            due.reason is Reason.CHANGED
            and basis.parsed is None
            and not _has_valid_syntax(basis.text, engine.status.python)
        )
        if self.unparsed:
            self._emit_event(ResultsChanged(final=True))
            self._resolve_waiters(
                RunEnding(self.document.generation, False, "The text has a syntax error.")
            )
            return
        self.importable = self.document.text
        before = self._history.latest
        reused = None if due.only else self._history.reuse(basis, self.document.name)
        if before is None or reused is None:
            kept, recorder = frozenset[str](), ResultRecorder()
        elif reused.is_complete:
            self._history.latest = CompleteRun(basis, reused.results, before.recorder)
            self._restore_results(reused.results.snapshot())
            return
        else:
            kept, recorder = reused.targets, ResultRecorder(before.recorder)
            self.results.adopt_targets(reused.results, kept)
            request = dataclasses.replace(request, without=tuple(sorted(kept)), given=reused.calls)
        # Ask for timings in every run, because they add only one event.
        analysis = engine.analyze(dataclasses.replace(request, timings=True))
        self.results.begin_run(due.only, kept)
        self._run = UnitRun(self, analysis, basis, recorder, reused)
        self._emit_event(RunBegan(due.reason is Reason.ASKED))
        if self.results.empty:
            # Report the start of the run, even before it has results.
            self._emit_event(ResultsChanged(final=False))

    def _settle_too_long(self, reason: Reason) -> None:
        """Report on the first line that the text is too long to be traced automatically."""
        message = (
            f"This file has {len(self.document.text):,} characters; "
            f"with more than {LONGEST_TRACED:,} it is traced only on command"
        )
        # Results of a trace by command stay visible, and their ranges move with edits of the text.
        if self._engine is None or reason is Reason.OPENED:
            self._engine = None
            self.results.begin_run()
            self._report_on_file(TOO_LONG, message)
            self.results.complete_run()
            self._emit_event(ResultsChanged(final=True))
        self._resolve_waiters(RunEnding(self.document.generation, False, f"{message}."))

    def _forget_results(self) -> None:
        """Discard all results of the file, including results of earlier runs."""
        self._engine = None
        self._history.clear()
        if not self.results.empty:
            self.results = Results()
            self._emit_event(ResultsChanged(final=True))

    def apply_event(self, event: Event) -> None:
        """Apply an event of the current run to the results, and report changes of the displayed
        results.
        """
        told = isinstance(event, (Importing, Log, TargetStarted))
        results = self._results if self._moving is None else self._moving.told
        if isinstance(event, CalledAgain) and self._run is not None and self._run.reused:
            results.adopt_called(self._run.reused.results, event.target, event.sources)
            changed = True
        else:
            changed = not told and results.apply_event(event)
        if self._moving is not None:
            self._moving = self._moving.copy_for_events()
        self._emit_event(RunAdvanced(event))
        if changed and not self._closed:
            self._emit_event(ResultsChanged(final=False))

    def run_ended(self, run: UnitRun, last: Analyzed | Failed, seconds: float) -> None:
        """Finish the run after its last event."""
        self._run = None
        # Read this before the run is completed below, which changes it.
        unparsed = not run.obsolete and self.results.unparsed
        completed = isinstance(last, Analyzed) and not last.cancelled and not run.obsolete
        if completed:
            self.from_cache = False
            self.timings = RunTimings(run.basis.text, tuple(run.timings))
            self._take_over(run)
        elif not run.obsolete:
            self.interrupt_run()
        failure = last if isinstance(last, Failed) else None
        self.unparsed = unparsed
        if failure is not None and self._engine is not None:
            if not self._engine.status.torch:
                self._forget_results()
            elif not (unparsed or run.obsolete):
                self._show_failure(failure)
        if not self._closed:
            self._emit_event(ResultsChanged(final=True))
        # A cancelled run is not reported as a failure.
        self._emit_event(RunEnded(None if run.obsolete else failure))
        if not self.schedule.pending:
            if failure is not None:
                reason = sentences(failure.reason, failure.next_step)
            else:
                reason = "" if completed else "Cancelled."
            self._resolve_waiters(RunEnding(run.generation, completed, reason))
        self.schedule.run_ended(seconds if completed else None)
        if completed:
            self.want_forecast()

    def _take_over(self, run: UnitRun) -> None:
        """Store the results of a completed run as the latest results, with ranges in the current
        text.
        """
        moving = self._moving
        results = self._results if moving is None else moving.told
        results.complete_run()
        self.schedule.at_rest = results.ran_program
        if not run.only:
            self._history.add(CompleteRun(run.basis, results.snapshot(), run.recorder))
        if moving is not None:
            moving = moving.copy_for_events()
            self.results = moving.results
            if not moving.is_whole:
                self.schedule.request_after_edit()
                return
            self._update_latest()
        if not run.only:
            self._save_results()

    def _save_results(self) -> None:
        """Ask the session to save the latest results to disk."""
        if self._history.latest is None or self._engine is None:
            return
        events = self._history.latest.results.list_events(self.document.generation)
        kept = self._history.latest.recorder.build_results(self._engine.status, events)
        if kept is not None:
            self._emit_event(ResultsSettled(kept))

    def settle_so_far(self, run: UnitRun) -> None:
        """Ask the session to save the results so far, in case the run never ends."""
        if run.obsolete or run.is_partial or self._engine is None:
            return
        kept = run.recorder.partial_results(self._engine.status)
        if kept is not None:
            self._emit_event(ResultsSettled(kept))

    def interrupt_run(self) -> None:
        """Keep the results that arrived before the run was cancelled, and stop moving further ones
        to the current text.
        """
        self._stop_moving()
        self.results.interrupt_run()

    def _stop_moving(self) -> None:
        self.results = self.results

    def _show_failure(self, failure: Failed) -> None:
        """Add a finding that says that the file was not traced, so that it does not seem to be free
        of problems.
        """
        message = f"This file was not traced: {failure.reason.rstrip('.')}"
        self._report_on_file(INTERRUPTED, message, failure.next_step)

    def _report_on_file(self, code: str, message: str, *hints: str) -> None:
        """Add a finding about the whole file on its first line."""
        place = Range(Position(0, 0), self.document.positions.line_end(0))
        self.results.apply_event(FindingFound(0, Finding(code, message, place, hints=hints)))

    # -- forecasts ----------------------------------------------------------------------------

    def want_forecast(self) -> None:
        """Schedule forecasts of recompiles for traced targets, once the user stops typing."""
        if not self.inputs.settings.forecast:
            self._end_forecast()
        elif self._closed or self.busy or self.waiting or self._forecast is not None:
            return
        elif self.results.targets_without_forecast():
            self._emit_event(ForecastDue(self._edited + REST))
        else:
            self._finish_forecast()

    @property
    def forecasts_due(self) -> tuple[str, ...]:
        """Names of the targets that need a forecast of recompiles and have been traced; empty while
        the file is being traced.
        """
        if self._closed or self.busy or self.waiting:
            return ()
        return self.results.targets_without_forecast()

    def trace_forecast(self, engine: AnyEngine, request: Analyze) -> None:
        """Start the forecast that the event ``ForecastDue`` requested: send ``request`` to
        ``engine``.
        """
        self._forecast = ForecastRun(self, engine.analyze(forecast_request(request)))

    def take_forecast(self, event: ForecastFound) -> None:
        self.results.apply_event(event)
        self._update_latest()
        self._emit_event(ResultsChanged(final=False))

    def forecast_ended(self, forecast: ForecastRun, last: Analyzed | Failed) -> None:
        """Finish a forecast of recompiles after its last event."""
        if forecast is self._forecast:
            self._forecast = None
            if isinstance(last, Analyzed) and not last.cancelled:
                self._finish_forecast()
        self._emit_event(ForecastEnded(last if isinstance(last, Failed) else None))

    def _finish_forecast(self) -> None:
        """Drop forecasts of recompiles that the ended forecast request did not renew."""
        if self.results.forecasts.drop_outdated():
            self._update_latest()
            self._emit_event(ResultsChanged(final=True))

    def _update_latest(self) -> bool:
        """Replace the stored results of the latest complete run by the current ones, so that undo
        can restore them.

        Return whether the results belong to the latest complete run.
        """
        complete = self._history.latest
        if complete is None or self.busy or self.waiting:
            return False
        basis = self._current_basis(())
        if self._find_latest(basis) is None:
            return False
        recorder = complete.recorder
        self._history.latest = CompleteRun(basis, self.results.snapshot(), recorder)
        return True

    def _end_forecast(self) -> None:
        self._emit_event(ForecastWithdrawn())
        forecast, self._forecast = self._forecast, None
        if forecast is not None:
            forecast.cancel()

    def _emit_event(self, event: UnitEvent) -> None:
        self._emit(self, event)

    def _resolve_waiters(self, ending: RunEnding) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(ending)


def _has_valid_syntax(text: str, python: str) -> bool:
    if len(text) > LONGEST_PARSE:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # This Python cannot parse the text, but the interpreter of the engine may support newer
        # syntax.
        return _is_newer_python(python)
    return True


def _is_newer_python(python: str) -> bool:
    import sys

    try:
        major, minor = (int(part) for part in python.split(".")[:2])
    except ValueError:
        return False
    return (major, minor) > sys.version_info[:2]
