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

from fullgraph.engines import Analysis, Engine
from fullgraph.operators import Seen
from fullgraph.session.documents import Change, Document
from fullgraph.session.findings import FileFinding, merge
from fullgraph.session.guards import guard_findings
from fullgraph.session.indices import Extended
from fullgraph.session.positions import TextPositions
from fullgraph.session.request import may_have_targets
from fullgraph.session.results import Results, ShownReport
from fullgraph.session.scheduling import Schedule
from fullgraph.session.seen import SeenByTarget, seen_in
from fullgraph.session.settings import Settings
from fullgraph.session.shapes import ShapesByTarget, all_shapes
from fullgraph_engine.protocol import Analyse, Analysed, Event, Failed, Log, TargetStarted
from fullgraph_engine.protocol.shapes import PlaceShapes

LONGEST_PARSE = 100_000
"""Characters up to which a text is parsed here, on the loop; the engine parses longer ones."""


class Reason(enum.Enum):
    """Why a file is to be traced, the weakest first."""

    CHANGED = "changed"
    SAVED = "saved"
    OPENED = "opened"
    ASKED = "asked"
    """By command, or because something else changed that results depend on."""


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

    def engine(self, unit: Unit) -> Engine | None: ...

    def request(self, unit: Unit, only: tuple[str, ...]) -> Analyse: ...

    def run_began(self, unit: Unit) -> None: ...

    def run_advanced(self, unit: Unit, event: Event) -> None: ...

    def run_ended(self, unit: Unit, failure: Failed | None) -> None: ...

    def results_changed(self, unit: Unit, *, final: bool) -> None: ...


@dataclass(frozen=True)
class _Complete:
    """The last run that went through, to be shown again when an edit is taken back."""

    basis: object
    forecast: bool
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
    def __init__(self, document: Document, surroundings: Surroundings) -> None:
        self.document = document
        self.results = Results()
        self.schedule = Schedule(self._begin)
        self._surroundings = surroundings
        self._run: _Run | None = None
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
        self.unparsed = False
        """The text has a syntax error, so nothing was traced after the last edit or save."""

    # -- what the editor does -----------------------------------------------------------------

    def open(self) -> None:
        self._want(Reason.OPENED)

    def change(self, changes: Sequence[Change], version: int) -> None:
        edits = self.document.change(changes, version)
        if not edits:
            return
        self.results.edited(edits, self.document.name)
        self._surroundings.results_changed(self, final=False)
        self._want(Reason.CHANGED)

    def save(self) -> None:
        self._want(Reason.SAVED)

    def refresh(self) -> None:
        """Something that the results depend on has changed, though not this text."""
        self._complete = None
        self._want(Reason.OPENED)

    def analyse(self, only: tuple[str, ...] = ()) -> asyncio.Future[Ending]:
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
        self.schedule.withdraw()
        if self._run is None:
            self._tell(Ending(self.document.generation, False, "Cancelled."))

    def close(self) -> None:
        self._closed = True
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

    def findings(self) -> tuple[FileFinding, ...]:
        found = merge(self.results.findings(), self._surroundings.settings(self))
        if not self.guards_shown:
            return found
        shown = (shown.report for shown in self.reports())
        return (*found, *guard_findings(sorted(self.guards_shown), self.results.guards, shown))

    def reports(self) -> tuple[ShownReport, ...]:
        return self.results.reports()

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
            if self._known(forecast=False):
                # The edit was taken back.
                self.schedule.withdraw()
                self._restore()
            elif trace_on == "change":
                self.schedule.edited()
            else:
                # What runs is of a text that is gone.
                self.cancel()
        elif reason is Reason.ASKED or trace_on != "manual":
            forecast = self._surroundings.settings(self).forecast
            if self._known(forecast=forecast):
                self._restore()
            elif self._run is not None and self._run.covers(self._basis(), forecast=forecast):
                self._only = ()
            else:
                self.schedule.now()

    def _basis(self, only: tuple[str, ...] | None = None) -> object:
        """All that the results follow from, as far as is known here."""
        settings = self._surroundings.settings(self)
        return (
            self.document.hash,
            self._only if only is None else only,
            settings.tracing(),
            settings.forecast,
        )

    def _known(self, *, forecast: bool) -> bool:
        complete = self._complete
        if complete is None or complete.basis != self._basis():
            return False
        return complete.forecast or not forecast

    def _restore(self) -> None:
        assert self._complete is not None
        self.results = self._complete.results.snapshot()
        self.unparsed = False
        self._surroundings.results_changed(self, final=True)
        self._tell(Ending(self.document.generation, True))

    def _begin(self) -> _Run | None:
        reason, only = self._reason, self._only
        self._reason, self._only = Reason.CHANGED, ()
        refusal = self._surroundings.permits(self, reason)
        if refusal:
            self._tell(Ending(self.document.generation, False, refusal))
            return None
        if not may_have_targets(self.document.text):
            # No reason to start an engine, whose import of torch takes seconds.
            self.results.begin()
            self.results.complete()
            self._surroundings.results_changed(self, final=True)
            self._tell(Ending(self.document.generation, True))
            return None
        engine = self._surroundings.engine(self)
        if engine is None:
            self._tell(Ending(self.document.generation, False, "There is no engine."))
            return None
        # While typing, a text that does not parse is on its way to one that does. When it is
        # opened or saved so, the engine says where it is broken, as ``check`` does.
        self.unparsed = reason is Reason.CHANGED and not _parses(
            self.document.text, engine.status.python
        )
        if self.unparsed:
            self._surroundings.results_changed(self, final=True)
            self._tell(Ending(self.document.generation, False, "The text has a syntax error."))
            return None
        request = self._surroundings.request(self, only)
        forecast = self._surroundings.settings(self).forecast
        if reason is not Reason.CHANGED:
            request = dataclasses.replace(request, forecast=forecast)
        analysis = engine.analyse(request)
        self.results.begin(only, forecast=request.forecast, keep_forecast=forecast)
        self._run = _Run(self, analysis, self._basis(only), asked=reason is Reason.ASKED)
        self._surroundings.run_began(self)
        return self._run

    def take(self, event: Event) -> None:
        """An event of the run that goes on."""
        if isinstance(event, (Log, TargetStarted)):
            self._surroundings.run_advanced(self, event)
            return
        changed = self.results.apply(event)
        self._surroundings.run_advanced(self, event)
        if changed and not self._closed:
            self._surroundings.results_changed(self, final=False)

    def run_ended(self, run: _Run, last: Analysed | Failed, seconds: float) -> None:
        """The run said its last word."""
        self._run = None
        # Before the results of the run are settled.
        unparsed = not run.obsolete and self.results.unparsed
        completed = isinstance(last, Analysed) and not last.cancelled and not run.obsolete
        if completed:
            self.results.complete()
            if not run.only:
                self._complete = _Complete(run.basis, run.forecast, self.results.snapshot())
        elif not run.obsolete:
            self.results.interrupted()
        failure = last if isinstance(last, Failed) else None
        self.unparsed = unparsed
        if not self._closed:
            self._surroundings.results_changed(self, final=True)
        self._surroundings.run_ended(self, failure)
        if not self.schedule.pending:
            reason = failure.reason if failure else "" if completed else "Cancelled."
            self._tell(Ending(run.generation, completed, reason))
        # A forecast takes much longer than the trace that the pause after an edit goes by.
        self.schedule.ended(seconds if completed and not run.forecast else None)

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
        self.forecast = analysis.request.forecast
        self.obsolete = False
        """Ended by us: what still comes is of a text or a wish that is gone."""
        self._task = asyncio.create_task(self._follow())

    def covers(self, basis: object, *, forecast: bool) -> bool:
        return not self.obsolete and self.basis == basis and (self.forecast or not forecast)

    def cancel(self) -> None:
        if not self.obsolete:
            self.obsolete = True
            self._unit.results.interrupted()
            self._analysis.cancel()

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async for event in self._analysis:
            if isinstance(event, (Analysed, Failed)):
                self._unit.run_ended(self, event, loop.time() - begun)
            elif not self.obsolete:
                self._unit.take(event)


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
