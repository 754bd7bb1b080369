"""One open Python file: its text, its results, and the run that makes new ones."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import enum
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fullgraph.domain.findings import FileFinding
from fullgraph.domain.positions import TextPositions
from fullgraph.engines import Analysis, Engine, sentences
from fullgraph.operators import Seen
from fullgraph.session.documents import Change, Document
from fullgraph.session.findings import merge
from fullgraph.session.forecasts import Forecast
from fullgraph.session.guards import guard_findings
from fullgraph.session.ignores import kept
from fullgraph.session.indices import Extended
from fullgraph.session.request import forecast_request, may_have_targets
from fullgraph.session.results import Results, ShownReport
from fullgraph.session.scheduling import REST, Schedule
from fullgraph.session.seen import SeenByTarget, seen_in
from fullgraph.session.settings import Settings, TraceOn
from fullgraph.session.shapes import ShapesByTarget, all_shapes
from fullgraph.session.untraced import untraced_findings
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Event,
    Failed,
    Finding,
    FindingFound,
    ForecastFound,
    Importing,
    Log,
    Position,
    Range,
    RecordedClass,
    TargetDone,
    TargetStarted,
)
from fullgraph_engine.protocol.shapes import PlaceShapes

LONGEST_TRACED = 1_000_000
"""Characters up to which a text is traced by itself. Five times as many take gigabytes."""

LONGEST_PARSE = 100_000
"""Characters up to which a text is parsed here, on the loop; the engine parses longer ones."""

TOO_LONG = "trace/too-long"


class Reason(enum.Enum):
    """Why a file is to be traced, the weakest first."""

    CHANGED = "changed"
    SAVED = "saved"
    OPENED = "opened"
    ASKED = "asked"
    """By command, or because something else changed that results depend on."""


def is_due(reason: Reason, trace_on: TraceOn) -> bool:
    """Whether the setting leaves it to us to trace for this reason."""
    if reason is Reason.CHANGED:
        return trace_on == "change"
    return reason is Reason.ASKED or trace_on != "manual"


@dataclass(frozen=True)
class Ending:
    """How a run ended, for whoever asked for it."""

    generation: str
    completed: bool
    reason: str = ""


class Surroundings(Protocol):
    """What a unit needs of the session."""

    def settings(self, unit: Unit) -> Settings: ...

    def permits(self, unit: Unit, reason: Reason) -> str:
        """Why the unit may not be traced now, in a sentence; empty if it may."""

    def refused(self, unit: Unit, why: str) -> None:
        """It was not traced, because it may not be."""

    def engine(self, unit: Unit) -> Engine | str:
        """The engine of the unit's interpreter, or why there is none, in a sentence."""

    def recorded(self, unit: Unit) -> tuple[RecordedClass, ...]:
        """What is recorded of the text's classes now."""

    def request(self, unit: Unit, only: tuple[str, ...]) -> Analyze: ...

    def run_began(self, unit: Unit) -> None: ...

    def run_advanced(self, unit: Unit, event: Event) -> None: ...

    def run_ended(self, unit: Unit, failure: Failed | None) -> None: ...

    def forecast_due(self, unit: Unit, when: float) -> None:
        """Have the unit take its turn, at this time of the loop or later."""

    def forecast_withdrawn(self, unit: Unit) -> None: ...

    def forecast_ended(self, unit: Unit, failure: Failed | None) -> None: ...

    def results_changed(self, unit: Unit, *, final: bool) -> None: ...


@dataclass(frozen=True)
class _Complete:
    """The last run that went through, to be shown again when an edit is taken back."""

    basis: object
    results: Results


@dataclass(frozen=True)
class _SeenNow:
    """What was seen, for as long as neither the text nor the results are other ones."""

    positions: TextPositions
    targets: Mapping[str, SeenByTarget]
    seen: Seen


@dataclass(frozen=True)
class _ShapesNow:
    """What values were, for as long as the results are no other ones."""

    targets: Mapping[str, ShapesByTarget]
    places: tuple[PlaceShapes, ...]


class Unit:
    """Traces one open file after its edits and saves, and holds its text and results."""

    def __init__(self, document: Document, surroundings: Surroundings) -> None:
        self.document = document
        self.results = Results()
        self.schedule = Schedule(self._begin)
        self._surroundings = surroundings
        self._run: _Run | None = None
        self._engine: Engine | None = None
        """What the results come from."""
        self._forecast: _Forecast | None = None
        self._edited = 0.0
        """When the text was last edited, by the loop's clock."""
        self._reason = Reason.CHANGED
        self._only: tuple[str, ...] = ()
        self._complete: _Complete | None = None
        self._seen: _SeenNow | None = None
        self._shapes: _ShapesNow | None = None
        self._waiters: list[asyncio.Future[Ending]] = []
        self._closed = False
        self.extended = Extended()
        """The index with the operators that this file registered."""
        self.guards_shown: set[str] = set()
        """Targets all of whose guards are shown as diagnostics."""
        self.untraced_shown: set[str] = set()
        """Targets whose lines that were never traced are faded."""
        self.unparsed = False
        """The text has a syntax error, so nothing was traced after the last edit or save."""

    # -- what the editor does -----------------------------------------------------------------

    def open(self) -> None:
        self._want(Reason.OPENED)

    def change(self, changes: Sequence[Change], version: int) -> None:
        edits = self.document.change(changes, version)
        if not edits:
            return
        self._edited = asyncio.get_running_loop().time()
        self._end_forecast()
        self.results.edited(edits, self.document.name)
        self._surroundings.results_changed(self, final=False)
        self._want(Reason.CHANGED)

    def save(self) -> None:
        self._want(Reason.SAVED)

    def refresh(self) -> None:
        """Something that the results depend on has changed, though not this text."""
        self._complete = None
        self._end_forecast()
        self._want(Reason.OPENED)

    def reconsider(self) -> None:
        """Something that the results may depend on has changed."""
        if not self._known():
            self._end_forecast()
            self._want(Reason.OPENED)

    def analyze(self, only: tuple[str, ...] = ()) -> asyncio.Future[Ending]:
        """Trace now, whatever is known; the future says how the run ended."""
        ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._waiters.append(ending)
        self._complete = None
        self._only = only
        self._want(Reason.ASKED)
        return ending

    def unask(self, ending: asyncio.Future[Ending]) -> None:
        """Whoever asked does not want it any more; then nobody may."""
        if ending in self._waiters:
            self._waiters.remove(ending)
        if self._run is not None and self._run.asked and not self._waiters:
            self._run.cancel()

    def cancel(self) -> None:
        self._end_forecast()
        self.schedule.withdraw()
        if self._run is None:
            self._tell(Ending(self.document.generation, False, "Cancelled."))

    def close(self) -> None:
        self._closed = True
        self._end_forecast()
        self.schedule.close()
        if self._run is None:
            self._tell(Ending(self.document.generation, False, "The file was closed."))

    # -- what is shown ------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self._run is not None

    @property
    def waiting(self) -> bool:
        """A run is due."""
        return self.schedule.pending

    @property
    def traced(self) -> bool:
        """A run went through, of this text or of one before, though it may have found nothing."""
        return self._complete is not None

    def found(self) -> tuple[FileFinding, ...]:
        """All findings, also those that a comment of the text hides."""
        settings = self._surroundings.settings(self)
        findings = self.results.findings(foretold=settings.forecast)
        found = merge(findings, settings, self.results.names)
        if not (self.guards_shown or self.untraced_shown):
            return found
        reports = [shown.report for shown in self.reports()]
        return (
            *found,
            *guard_findings(sorted(self.guards_shown), self.results.guards, reports),
            *untraced_findings(sorted(self.untraced_shown), reports, self.document.positions),
        )

    def findings(self) -> tuple[FileFinding, ...]:
        """What is shown in the text."""
        return kept(self.found(), self.document.positions)

    def reports(self) -> tuple[ShownReport, ...]:
        return self.results.reports()

    def forecast(self, target: str) -> Forecast | None:
        """What further calls of a target would recompile; None where that is not known."""
        if not self._surroundings.settings(self).forecast:
            return None
        return self.results.forecasts.by_target.get(target)

    def seen(self) -> Seen:
        """What the last runs saw of expressions and locals, in the text as it is now."""
        positions, targets = self.document.positions, self.results.seen
        known = self._seen
        if known is None or known.positions is not positions or known.targets is not targets:
            seen = seen_in(positions, targets.values())
            known = self._seen = _SeenNow(positions, targets, seen)
        return known.seen

    def shapes(self) -> tuple[PlaceShapes, ...]:
        """What values were when the text was last traced, in its order."""
        targets, known = self.results.shapes, self._shapes
        if known is None or known.targets is not targets:
            known = self._shapes = _ShapesNow(targets, all_shapes(targets.values()))
        return known.places

    @property
    def shapes_note(self) -> str:
        """What the last runs left out, in a sentence; empty if nothing."""
        return next((found.note for found in self.results.shapes.values() if found.note), "")

    def values_left_out(self, target: str) -> str:
        """What the last run of one target left out, in a sentence; empty if nothing."""
        found = self.results.shapes.get(target)
        return found.note if found is not None else ""

    # -- runs ---------------------------------------------------------------------------------

    def _want(self, reason: Reason) -> None:
        order = list(Reason)
        if not self.schedule.pending or order.index(reason) > order.index(self._reason):
            self._reason = reason
        if reason is not Reason.ASKED and self._reason is not Reason.ASKED:
            self._only = ()
        trace_on = self._surroundings.settings(self).trace_on
        if reason is Reason.CHANGED:
            if self._known():
                # The edit was taken back.
                self.schedule.withdraw()
                self._restore()
            elif is_due(reason, trace_on):
                self.schedule.edited()
            else:
                # What runs is of a text that is gone.
                self.cancel()
        elif is_due(reason, trace_on):
            if self._known():
                self._restore()
            elif self._run is not None and self._run.covers(self._basis()):
                self._only = ()
            else:
                self.schedule.now()

    def _basis(self, only: tuple[str, ...] | None = None) -> object:
        """All that the results follow from, as far as is known here."""
        settings, recorded = self._surroundings.settings(self), self._surroundings.recorded(self)
        only = self._only if only is None else only
        return self.document.hash, only, settings.tracing(), recorded

    def _known(self) -> bool:
        return self._complete is not None and self._complete.basis == self._basis()

    def _restore(self) -> None:
        assert self._complete is not None
        self.results = self._complete.results.snapshot()
        self.unparsed = False
        self._surroundings.results_changed(self, final=True)
        self._tell(Ending(self.document.generation, True))
        self.want_forecast()

    def _begin(self) -> _Run | None:
        reason, only = self._reason, self._only
        self._reason, self._only = Reason.CHANGED, ()
        self._end_forecast()
        refusal = self._surroundings.permits(self, reason)
        if refusal:
            self._surroundings.refused(self, refusal)
            if reason is Reason.OPENED:
                # Nobody will look whether what is known is still so.
                self._forget()
            self._tell(Ending(self.document.generation, False, refusal))
            return None
        if not may_have_targets(self.document.text):
            # No reason to start an engine, whose import of torch takes seconds.
            self.results.begin()
            self.results.complete()
            self._surroundings.results_changed(self, final=True)
            self._tell(Ending(self.document.generation, True))
            return None
        if len(self.document.text) > LONGEST_TRACED and reason is not Reason.ASKED:
            self._leave_untraced(reason)
            return None
        engine = self._surroundings.engine(self)
        if engine is not self._engine:
            # What another torch did is not what this one does.
            self._forget()
        if isinstance(engine, str):
            self._tell(Ending(self.document.generation, False, engine))
            return None
        self._engine = engine
        # While typing, a text that does not parse is on its way to one that does. When it is
        # opened or saved so, the engine says where it is broken, as ``check`` does.
        self.unparsed = reason is Reason.CHANGED and not _parses(
            self.document.text, engine.status.python
        )
        if self.unparsed:
            self._surroundings.results_changed(self, final=True)
            self._tell(Ending(self.document.generation, False, "The text has a syntax error."))
            return None
        # First: what changes from here on is not of this run.
        basis = self._basis(only)
        analysis = engine.analyze(self._surroundings.request(self, only))
        self.results.begin(only)
        self._run = _Run(self, analysis, basis, asked=reason is Reason.ASKED)
        self._surroundings.run_began(self)
        if self.results.empty:
            # That there will be something is all that there is to show.
            self._surroundings.results_changed(self, final=False)
        return self._run

    def _leave_untraced(self, reason: Reason) -> None:
        """Say at its beginning that the text is too long."""
        message = (
            f"This file has {len(self.document.text):,} characters; "
            f"with more than {LONGEST_TRACED:,} it is traced only on command"
        )
        # What was asked for stays, and moves with the text.
        if self._engine is None or reason is Reason.OPENED:
            self._engine = None
            place = Range(Position(0, 0), self.document.positions.line_end(0))
            self.results.begin()
            self.results.apply(FindingFound(0, Finding(TOO_LONG, message, place)))
            self.results.complete()
            self._surroundings.results_changed(self, final=True)
        self._tell(Ending(self.document.generation, False, f"{message}."))

    def _forget(self) -> None:
        """Show nothing of what is known."""
        self._engine, self._complete = None, None
        if not self.results.empty:
            self.results = Results()
            self._surroundings.results_changed(self, final=True)

    def take(self, event: Event) -> None:
        """An event of the run that goes on."""
        if isinstance(event, (Importing, Log, TargetStarted)):
            self._surroundings.run_advanced(self, event)
            return
        changed = self.results.apply(event)
        self._surroundings.run_advanced(self, event)
        if changed and not self._closed:
            self._surroundings.results_changed(self, final=False)

    def run_ended(self, run: _Run, last: Analyzed | Failed, seconds: float) -> None:
        """The run said its last word."""
        self._run = None
        # Before the results of the run are settled.
        unparsed = not run.obsolete and self.results.unparsed
        completed = isinstance(last, Analyzed) and not last.cancelled and not run.obsolete
        if completed:
            self.results.complete()
            if not run.only:
                self._complete = _Complete(run.basis, self.results.snapshot())
        elif not run.obsolete:
            self.results.interrupted()
        failure = last if isinstance(last, Failed) else None
        self.unparsed = unparsed
        if failure is not None and self._engine is not None and not self._engine.status.torch:
            self._forget()
        if not self._closed:
            self._surroundings.results_changed(self, final=True)
        self._surroundings.run_ended(self, failure)
        if not self.schedule.pending:
            if failure is not None:
                reason = sentences(failure.reason, failure.next_step)
            else:
                reason = "" if completed else "Cancelled."
            self._tell(Ending(run.generation, completed, reason))
        self.schedule.ended(seconds if completed else None)
        if completed:
            self.want_forecast()

    # -- forecasts ----------------------------------------------------------------------------

    def want_forecast(self) -> None:
        """What recompiles is found out after the trace, while the text rests."""
        if not self._surroundings.settings(self).forecast:
            self._end_forecast()
        elif self._closed or self.busy or self.waiting or self._forecast is not None:
            return
        elif self.results.unforetold():
            self._surroundings.forecast_due(self, self._edited + REST)
        else:
            self._foretold()

    def take_turn(self) -> bool:
        targets = self.results.unforetold()
        if self._closed or self.busy or self.waiting or not targets:
            return False
        engine = self._surroundings.engine(self)
        if self._surroundings.permits(self, Reason.ASKED) or isinstance(engine, str):
            return False
        request = forecast_request(self._surroundings.request(self, targets))
        self._forecast = _Forecast(self, engine.analyze(request))
        return True

    def take_forecast(self, event: ForecastFound) -> None:
        self.results.apply(event)
        self._remember()
        self._surroundings.results_changed(self, final=False)

    def forecast_ended(self, forecast: _Forecast, last: Analyzed | Failed) -> None:
        """It said its last word."""
        if forecast is self._forecast:
            self._forecast = None
            if isinstance(last, Analyzed) and not last.cancelled:
                self._foretold()
        self._surroundings.forecast_ended(self, last if isinstance(last, Failed) else None)

    def _foretold(self) -> None:
        """What was not foretold again is gone."""
        if self.results.forecasts.settle():
            self._remember()
            self._surroundings.results_changed(self, final=True)

    def _remember(self) -> None:
        """Should an edit be taken back, its forecasts are not made again."""
        if self._complete is not None and self._complete.basis == self._basis(()):
            self._complete = dataclasses.replace(self._complete, results=self.results.snapshot())

    def _end_forecast(self) -> None:
        self._surroundings.forecast_withdrawn(self)
        forecast, self._forecast = self._forecast, None
        if forecast is not None:
            forecast.cancel()

    def _tell(self, ending: Ending) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(ending)


class _Run:
    """Takes the events of one analysis into its unit until the last."""

    def __init__(self, unit: Unit, analysis: Analysis, basis: object, *, asked: bool) -> None:
        self._unit = unit
        self._analysis = analysis
        self.basis = basis
        self.asked = asked
        self.generation = analysis.request.generation
        self.only = analysis.request.only
        self.obsolete = False
        """Ended by us: what still comes is of a text or a wish that is gone."""
        self._task = asyncio.create_task(self._follow())

    def covers(self, basis: object) -> bool:
        return not self.obsolete and self.basis == basis

    def cancel(self) -> None:
        if not self.obsolete:
            self.obsolete = True
            self._unit.results.interrupted()
            self._analysis.cancel()

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        # Nobody waits for other paths: they are no reason to trace an edit later.
        waited: float | None = None
        async for event in self._analysis:
            if isinstance(event, (Analyzed, Failed)):
                ended = loop.time() if waited is None else waited
                self._unit.run_ended(self, event, ended - begun)
                continue
            if waited is None and _is_of_other_paths(event):
                waited = loop.time()
            if not self.obsolete:
                self._unit.take(event)


class _Forecast:
    """Takes the forecasts of one analysis into its unit, and nothing else that it says."""

    def __init__(self, unit: Unit, analysis: Analysis) -> None:
        self._unit = unit
        self._analysis = analysis
        self._obsolete = False
        self._task = asyncio.create_task(self._follow())

    def cancel(self) -> None:
        self._obsolete = True
        self._analysis.cancel()

    async def _follow(self) -> None:
        async for event in self._analysis:
            if isinstance(event, (Analyzed, Failed)):
                self._unit.forecast_ended(self, event)
            elif isinstance(event, ForecastFound) and not self._obsolete:
                self._unit.take_forecast(event)


def _is_of_other_paths(event: Event) -> bool:
    if isinstance(event, FindingFound):
        return event.finding.run is not None and event.finding.run.part == "paths"
    return isinstance(event, TargetDone) and bool(event.report.paths)


def _parses(text: str, python: str) -> bool:
    if len(text) > LONGEST_PARSE:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # A newer Python than ours may know the syntax; then the engine has to say.
        return _newer(python)
    return True


def _newer(python: str) -> bool:
    import sys

    try:
        major, minor = (int(part) for part in python.split(".")[:2])
    except ValueError:
        return False
    return (major, minor) > sys.version_info[:2]
