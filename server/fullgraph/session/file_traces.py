"""The traces of one open file: the run in progress, the results of complete runs, and the results
that the editor shows."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Protocol

from fullgraph.engines import AnyEngine, sentences
from fullgraph.incremental.statements import parse_quietly
from fullgraph.incremental.text_maps import CodeMap
from fullgraph.results import Results
from fullgraph.session.documents import Document, ImportableText
from fullgraph.session.request import may_have_targets
from fullgraph.session.runs import RunEnding, RunWaiters, ShownResults, UnitRun
from fullgraph.session.scheduling import Schedule
from fullgraph.session.unit_events import (
    Reason,
    ResultsChanged,
    ResultsToSave,
    RunAdvanced,
    RunBegan,
    RunEnded,
    TraceDue,
    UnitEvent,
)
from fullgraph.store.runs import LONGEST_PARSE, StoredRun, TraceBasis, begin_run
from fullgraph.store.store import ResultStore
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Event,
    Failed,
    Finding,
    FindingFound,
    Position,
    Range,
    Timings,
)

LONGEST_TRACED = 1_000_000
"""Maximum length in characters of a file to trace automatically; a file of five times this length
needs gigabytes of memory.
"""

TOO_LONG = "trace/too-long"
INTERRUPTED = "trace/interrupted"


@dataclass(frozen=True)
class RunTimings:
    """Timings of the last run that completed, and the text that it traced; empty before the
    first.
    """

    text: str = ""
    timings: tuple[Timings, ...] = ()


class TracesOwner(Protocol):
    """The interface through which ``FileTraces`` uses the open file that its traces belong to."""

    def current_basis(self, only: tuple[str, ...] | None = None) -> TraceBasis:
        """Return the inputs of a trace of the current text, which decide whether stored results are
        valid.

        ``only`` are the names of the targets to trace, empty for all; None for the targets of the
        next run.
        """

    def results_completed(self) -> None:
        """Handle that complete results of the current text are available."""


class FileTraces:
    """The traces of one open file: starts runs at the session's request, applies their events to
    the displayed results, and stores results that later texts can reuse.
    """

    def __init__(
        self,
        owner: TracesOwner,
        document: Document,
        schedule: Schedule,
        waiters: RunWaiters,
        emit: Callable[[UnitEvent], None],
    ) -> None:
        self._owner = owner
        self._document = document
        self._schedule = schedule
        self._waiters = waiters
        self._emit = emit
        self.store = ResultStore(document.name)
        self._engine: AnyEngine | None = None
        """Engine that produced the results."""
        self.shown = ShownResults()
        self.run: UnitRun | None = None
        """The run in progress; None without one."""
        self.importable = ImportableText(document)
        """The text that other files import: the latest text without a syntax error."""
        self.from_cache = False
        """True if the results were loaded from disk and the engine has not confirmed them yet."""
        self.unparsed = False
        """True if the text was not traced after the last edit or save, because it has a syntax
        error.
        """
        self.timings = RunTimings()

    @property
    def complete(self) -> StoredRun | None:
        """The latest run that was not interrupted, of this text or an earlier one; None if no such
        run exists.
        """
        return self.store.latest

    @property
    def reads(self) -> frozenset[str] | None:
        """Paths of the files that the last complete run read; None if unknown."""
        return self.complete.files.reads if self.complete is not None else None

    def depends_on(self, paths: Set[str]) -> bool:
        """Return whether the last complete run or the current run read, or looked for, one of the
        files in ``paths``.
        """
        runs = (one.files for one in (self.complete, self.run) if one is not None)
        return any(not paths.isdisjoint(files.reads or ()) for files in runs)

    # -- earlier results ----------------------------------------------------------------------

    def add_stored(self, run: StoredRun) -> None:
        """Add the results of a run that an earlier session saved to disk.

        If that run was interrupted, its results are shown only until the text is traced.
        """
        if run.is_complete:
            self.store.add(run)
            return
        known = run.find_all(self._owner.current_basis(), self._document.name)
        if known is not None:
            self.shown.current.adopt_targets(known, known.placed)
            self.from_cache = True
            self._emit(ResultsChanged(final=False))

    def restore_known(self) -> bool:
        """Show the results of an earlier run if they are valid for the current text; return whether
        they are.
        """
        latest = self.complete
        known = self.store.find_all(self._owner.current_basis())
        if known is None:
            return False
        self._schedule.withdraw()
        self._restore(known)
        if self.complete is not latest:
            self._save_results()
        return True

    def update_latest(self) -> bool:
        """Store the displayed results, so that undo can restore them.

        Return False without effect if the text's code differs from the code that the latest
        complete run traced.
        """
        if self.run is not None or self._schedule.pending:
            return False
        return self.store.update_latest(self._owner.current_basis(()), self.shown.current)

    def save_latest(self) -> None:
        """Save the results to disk with the text that the user saved, if its code equals the code
        that the latest run traced.
        """
        if (
            self.complete is not None
            and self.complete.basis.text != self._document.text
            and self.update_latest()
        ):
            self._save_results()

    def _restore(self, known: Results) -> None:
        self.shown.replace(known)
        self.importable.update()
        self.from_cache = self.unparsed = False
        self._schedule.at_rest = _ran_program(known)
        self._report_complete()
        self._owner.results_completed()

    def _report_complete(self) -> None:
        """Report to the owner that the displayed results are complete for the current text."""
        self._emit(ResultsChanged(final=True))
        self._waiters.resolve(RunEnding(self._document.generation, True))

    # -- the start of a run -------------------------------------------------------------------

    def finish_without_engine(self, due: TraceDue) -> bool:
        """Finish the requested trace with stored results or without results, if it does not need an
        engine.

        Importing torch in an engine takes seconds. Return whether the trace is finished.
        """
        text = self._document.text
        if not may_have_targets(text):
            if _has_valid_syntax(text, ""):
                self.importable.update()
            self.shown.current.begin_run()
            self.shown.current.complete_run()
            self._report_complete()
            return True
        if len(text) > LONGEST_TRACED and due.reason is not Reason.ASKED:
            self._report_too_long(due.reason)
            return True
        return False

    def leave_untraced(self, why: str, *, forget: bool) -> None:
        """Finish the requested trace without running it; the sentence ``why`` is the reason.

        ``forget`` discards the results of earlier runs.
        """
        if forget:
            self._forget_results()
        self._waiters.resolve(RunEnding(self._document.generation, False, why))

    def begin(self, due: TraceDue, engine: AnyEngine, request: Analyze) -> None:
        """Start the run that ``due`` requests, by sending ``request`` to ``engine``."""
        stored = self._engine is None and (self.from_cache or self.complete is not None)
        if engine is not self._engine and not stored:
            # Results of another torch do not apply to this engine.
            self._forget_results()
        self._engine = engine
        # Record the inputs of the run first, so that later changes do not count as part of it.
        basis = self._owner.current_basis(due.only)
        # An incomplete text is common while typing, so it is not sent. After open or save, the
        # engine reports the syntax error, as ``check`` does.
        self.unparsed = (
            due.reason is Reason.CHANGED
            and basis.parsed is None
            and not _has_valid_syntax(basis.text, engine.status.python)
        )
        if self.unparsed:
            self._emit(ResultsChanged(final=True))
            self.leave_untraced("The text has a syntax error.", forget=False)
            return
        self.importable.update()
        reused = self.store.find(basis)
        if reused is not None and reused.is_complete:
            self._restore(reused.results.snapshot())
            return
        results = self.shown.current
        request, files = begin_run(results, request, reused)
        # Request timings in every run, because they add only one event.
        analysis = engine.analyze(dataclasses.replace(request, timings=True))
        self.run = UnitRun(self, analysis, basis, files)
        self._schedule.run_started(self.run)
        self._emit(RunBegan(due.reason is Reason.ASKED))
        if results.empty:
            # Report the start of the run, even before it has results.
            self._emit(ResultsChanged(final=False))

    def _report_too_long(self, reason: Reason) -> None:
        """Report on the first line that the text is too long to be traced automatically."""
        message = (
            f"Traced only on command: {len(self._document.text):,} characters are more than "
            f"{LONGEST_TRACED:,}"
        )
        # Results of a trace by command stay visible, and their ranges move with edits of the text.
        if self._engine is None or reason is Reason.OPENED:
            self._engine = None
            self.store.clear()
            results = self.shown.current
            results.begin_run()
            results.apply_event(_file_finding(self._document, TOO_LONG, message))
            results.complete_run()
            self._emit(ResultsChanged(final=True))
        self.leave_untraced(f"{message}.", forget=False)

    def _forget_results(self) -> None:
        """Discard all results of the file, including results of earlier runs."""
        self._engine = None
        self.store.clear()
        if not self.shown.current.empty:
            self.shown.replace(Results())
            self._emit(ResultsChanged(final=True))

    # -- the run in progress ------------------------------------------------------------------

    def continue_run(self) -> bool:
        """Let the current run continue after an edit that changed only comments or layout, and move
        its results to the new text.

        Return False if the edit changed code, so that the run has to be cancelled.
        """
        run = self.run
        if run is None or run.obsolete or self._schedule.pending:
            return False
        now = self._owner.current_basis(run.only)
        if not run.basis.differs_in_text_only(now):
            return False
        moves = run.basis.moves_to(now.lines)
        if moves is None:
            return False
        if not self.shown.follow_text(CodeMap(moves, now.lines), self._document.name):
            return False
        run.now = now
        self.importable.update()
        return True

    def apply_event(self, event: Event) -> None:
        changed = self.shown.apply_event(event)
        self._emit(RunAdvanced(event))
        if changed:
            self._emit(ResultsChanged(final=False))

    def interrupt_run(self) -> None:
        """Keep the results that arrived before the run was cancelled; later results are not
        shown.
        """
        self.shown.stop_following()
        self.shown.current.interrupt_run()

    def run_ended(self, run: UnitRun, last: Analyzed | Failed, seconds: float) -> None:
        self.run = None
        # Read this first: ``_take_over`` below changes the results.
        unparsed = not run.obsolete and self.shown.current.unparsed
        completed = isinstance(last, Analyzed) and not last.cancelled and not run.obsolete
        if completed:
            self.from_cache = False
            self.timings = RunTimings(run.basis.text, tuple(self.shown.traced.timings))
            self._take_over(run)
        elif not run.obsolete:
            self.interrupt_run()
        failure = last if isinstance(last, Failed) else None
        self.unparsed = unparsed
        if failure is not None and self._engine is not None:
            if not self._engine.status.torch:
                self._forget_results()
            elif not (unparsed or run.obsolete):
                # The run failed. Without a finding about this, the file would seem to be free of
                # problems.
                words = f"This file was not traced: {failure.reason.rstrip('.')}"
                finding = _file_finding(self._document, INTERRUPTED, words, failure.next_step)
                self.shown.current.apply_event(finding)
        self._emit(ResultsChanged(final=True))
        # A cancelled run is not reported as a failure.
        self._emit(RunEnded(None if run.obsolete else failure))
        if not self._schedule.pending:
            reason = "" if completed else "Cancelled."
            if failure is not None:
                reason = sentences(failure.reason, failure.next_step)
            self._waiters.resolve(RunEnding(run.generation, completed, reason))
        self._schedule.run_ended(seconds if completed else None)
        if completed:
            self._owner.results_completed()

    def _take_over(self, run: UnitRun) -> None:
        """Store the results of the completed run as the latest results, with source ranges in the
        current text.
        """
        results = self.shown.complete_run()
        self._schedule.at_rest = _ran_program(results)
        if not run.only and self._engine is not None:
            self.store.add(StoredRun(run.basis, results, run.files, self._engine.status))
        moved = run.now is not run.basis
        whole = self.shown.is_whole
        self.shown.stop_following()
        if moved and not whole:
            self._schedule.request_after_edit()
            return
        if moved:
            self.update_latest()
        if not run.only:
            self._save_results()

    # -- results on disk ----------------------------------------------------------------------

    def _save_results(self) -> None:
        """Report to the session that the latest results are ready to be saved to disk."""
        if self.complete is not None:
            self._emit(ResultsToSave(self.complete))

    def save_partial_results(self, run: UnitRun) -> None:
        if run.obsolete or run.is_partial or self._engine is None:
            return
        results, status = self.shown.traced.without_earlier(), self._engine.status
        if not results.empty:
            so_far = StoredRun(
                run.basis,
                results,
                run.files.copy(),
                status,
                is_complete=False,
                is_interrupted=True,
            )
            self._emit(ResultsToSave(so_far))


def _file_finding(document: Document, code: str, message: str, *hints: str) -> FindingFound:
    """Return the event that reports a finding about the whole file, placed on its first line."""
    place = Range(Position(0, 0), document.positions.line_end(0))
    return FindingFound(0, Finding(code, message, place, hints=hints))


def _has_valid_syntax(text: str, python: str) -> bool:
    """Return whether ``text`` is valid Python.

    ``python`` is the version of the engine's Python, which may accept newer syntax than the
    server's; empty if unknown.
    """
    if len(text) > LONGEST_PARSE:
        return True
    try:
        parse_quietly(text)
    except SyntaxError:
        # This Python cannot parse the text, but the interpreter of the engine may support newer
        # syntax.
        return _is_newer_python(python)
    return True


def _is_newer_python(python: str) -> bool:
    try:
        major, minor = (int(part) for part in python.split(".")[:2])
    except ValueError:
        return False
    return (major, minor) > sys.version_info[:2]


def _ran_program(results: Results) -> bool:
    """Whether a program that imports the file was executed for these results."""
    return any(shown.report.compiled is not None for shown in results.reports())
