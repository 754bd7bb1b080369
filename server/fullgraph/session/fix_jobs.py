"""Verify fixes (edits that remove a graph break) for open files in the background, while no file is
traced.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fullgraph import fixes
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.phrases import amount
from fullgraph.fixes.fixable import fixable
from fullgraph.fixes.metering import MeteredTracer, ProcessorMeter
from fullgraph.incremental import (
    KnownTarget,
    ParsedText,
    align_versions,
    find_unaffected,
    parse_text,
)
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.request import NICE
from fullgraph.session.scheduling import REST, Turns
from fullgraph.session.session import Session
from fullgraph.store.runs import LONGEST_PARSE
from fullgraph_engine.protocol import Analyze, Finding, Range

if TYPE_CHECKING:
    from fullgraph.engines import AnyEngine
    from fullgraph.fixes.verification import Fix

logger = logging.getLogger(__name__)
_T = TypeVar("_T")

CPU_SECONDS = 240.0
"""Maximum seconds of processor time for verifying the fixes of one text; the remaining findings
then do not get a fix.
"""

WALL_SECONDS = 3600.0
"""Maximum seconds of wall time for verifying the fixes of one text, because user code may wait
without using a processor.
"""

_TIME_LIMIT = "The time limit for fixes of this file was reached."

_MOST_TEXTS = 6
"""Number of texts of a file whose fixes are kept, so that undo can restore them."""


class ProgressBar(Protocol):
    """The display of a job's progress; it does nothing if the client does not show progress."""

    def report(self, words: str, percentage: int) -> None: ...

    def end(self, words: str = "") -> None: ...


@dataclass(frozen=True)
class SearchState:
    """The state of the search for fixes of one file: whether it is in progress, and the number of
    findings with and without a fix so far.
    """

    is_searching: bool = False
    fixed: int = 0
    unfixed: int = 0


@dataclass(eq=False)
class _FixAttempt:
    """The fixes found for one text, by the id of the finding that they fix; an empty tuple for a
    finding that cannot be fixed.
    """

    basis: tuple[str, object]
    text: str
    targets: tuple[KnownTarget, ...]
    """Traced functions and module classes of the text, with their results."""
    fixes: dict[str, tuple[Fix, ...]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Sentences that explain why a finding is without a fix, by the id of the finding."""
    places: dict[str, Range] = field(default_factory=dict)
    """Source ranges of the findings with an entry in ``fixes``, by the id of the finding."""
    together: Fix | None = None
    """One fix that combines all safe fixes of the text; None if there is none."""
    is_complete: bool = False
    """True if the search for fixes has ended for each finding."""
    meter: ProcessorMeter = field(default_factory=ProcessorMeter)
    task: asyncio.Task[None] | None = None
    preferred: frozenset[str] = frozenset()
    """Ids of the findings at the cursor, whose fixes are verified first."""
    current: str = ""
    """Id of the finding whose fixes are verified now; empty between findings."""
    demanded: frozenset[str] | None = None
    """Ids of the findings whose fixes are verified now, if a function with these findings is
    measured; None for all findings."""

    @cached_property
    def parsed(self) -> ParsedText | None:
        """Statements of the text; None if it is too long or cannot be parsed."""
        return parse_text(self.text, LONGEST_PARSE)

    def add_fixes(self, item: FileFinding, found: tuple[Fix, ...], reason: str = "") -> None:
        """Store the fixes ``found`` for the finding ``item``, or the reason for their absence.

        New fixes make the combination of all fixes outdated, so it is discarded.
        """
        self.fixes[item.id], self.places[item.id] = found, item.finding.range
        self.reasons[item.id] = reason
        if found:
            self.together = None

    def find_fixes(self, item: FileFinding) -> tuple[Fix, ...]:
        """Return the verified fixes of the finding ``item``. If it does not have any, return the
        fixes of other findings that also remove it."""
        own = self.fixes.get(item.id)
        if own:
            return own
        others = (fix for found in self.fixes.values() for fix in found)
        return tuple(fix for fix in others if _removes(fix, item))

    def state(self, items: Collection[FileFinding]) -> SearchState:
        """Return whether a search is in progress, and the numbers of findings in ``items`` with and
        without a fix."""
        fixed = sum(bool(self.find_fixes(item)) for item in items)
        unfixed = sum(item.id in self.fixes for item in items if not self.find_fixes(item))
        return SearchState(self.task is not None, fixed, unfixed)

    @property
    def is_spent(self) -> bool:
        """Whether the time limit for this text's fixes is reached."""
        return self.meter.cpu >= CPU_SECONDS or self.meter.wall >= WALL_SECONDS

    def stop(self) -> None:
        """Cancel the search; the fixes verified so far are kept."""
        if self.task is not None:
            self.task.cancel()


@dataclass(frozen=True)
class FoundFixes:
    """The verified fixes of some functions: ``fixes`` has the best fix of each finding that can be
    fixed. ``findings`` are all their findings, as the runs reported them.
    """

    findings: tuple[Finding, ...]
    fixes: tuple[Fix, ...]


class FixJobs:
    """A queue that verifies fixes for graph breaks, one file at a time, and stores the verified
    fixes.

    An edit cancels the work on the old text. Verified fixes are kept for their text, and moved to
    the new text if the edit cannot affect their functions.
    """

    def __init__(
        self,
        session: Session,
        show_progress: Callable[[str], ProgressBar],
        search_changed: Callable[[AnalysisUnit], None],
    ) -> None:
        """Store the session and its callbacks.

        ``show_progress`` is called with the name of a file when the work on it begins, and returns
        the progress bar. ``search_changed`` is called with the file when the search for its fixes
        begins or ends, and after each finding.
        """
        self._session, self._search_changed = session, search_changed
        self._show_progress = show_progress
        self._tried: dict[str, OrderedDict[tuple[str, object], _FixAttempt]] = {}
        """Attempts for the latest texts of each file, the latest last. The first key is the file's
        URI, the second is the key from ``_fix_basis`` (text and tracing settings)."""
        self._turns: Turns[AnalysisUnit] = Turns(session.files.is_busy, self._begin_attempt)
        self._is_reserved = False
        """True while a function is measured: then only :meth:`wait_for_fixes` begins a search."""
        self._changed = asyncio.Event()
        """Set at each change of an attempt, to wake :meth:`wait_for_fixes`."""

    def update_findings(self, unit: AnalysisUnit, *, final: bool) -> None:
        """Schedule the verification of fixes, or cancel it, after findings of a file changed;
        ``final``: the run has ended.
        """
        self._changed.set()
        basis = _fix_basis(unit)
        attempts = self._tried.get(unit.document.uri, OrderedDict())
        for attempt in attempts.values():
            if attempt.basis != basis:
                attempt.stop()
        if basis not in attempts:
            self._turns.withdraw(unit)
        if not final or unit.busy or unit.waiting or self._is_reserved:
            return
        if self._session.workspace.settings(unit.document).fixes != "background":
            return
        attempt = self._attempt_for(unit)
        if not attempt.is_complete and attempt.task is None:
            self._turns.request_turn(unit, asyncio.get_running_loop().time() + REST)

    def run_ended(self) -> None:
        """Start to verify the fixes of the next file when a run has ended and no file is being
        traced.
        """
        self._changed.set()
        self._turns.begin_next()

    def forget_unit(self, unit: AnalysisUnit) -> None:
        self._changed.set()
        self._turns.withdraw(unit)
        for attempt in self._tried.pop(unit.document.uri, OrderedDict()).values():
            attempt.stop()

    def close(self) -> None:
        for attempts in self._tried.values():
            for attempt in attempts.values():
                attempt.stop()

    # -- for measurements ---------------------------------------------------------------------

    @contextlib.contextmanager
    def reserve(self, unit: AnalysisUnit) -> Iterator[None]:
        """Let only :meth:`wait_for_fixes` search while a function of ``unit`` is measured: other
        searches would slow the measurement. Interrupted searches continue afterwards.
        """
        self._is_reserved = True
        for uri, attempts in self._tried.items():
            for attempt in attempts.values():
                attempt.demanded = frozenset()
                if uri != unit.document.uri:
                    attempt.stop()
        for one in self._session.files.units.values():
            self._turns.withdraw(one)
        try:
            yield
        finally:
            self._is_reserved = False
            for attempts in self._tried.values():
                for attempt in attempts.values():
                    attempt.demanded = None
            for one in self._session.files.units.values():
                self.update_findings(one, final=True)

    async def wait_for_fixes(
        self, unit: AnalysisUnit, targets: Collection[str], tell: Callable[[str], None]
    ) -> FoundFixes | None:
        """Return the best fix of each graph break that the functions ``targets`` reach, when the
        search for them has ended; None if the text was edited meanwhile.

        It starts the search, or continues the search in the background. ``tell`` is called with
        progress messages.
        """
        basis = _fix_basis(unit)
        while (
            _fix_basis(unit) == basis and self._session.files.units.get(unit.document.uri) is unit
        ):
            self._changed.clear()
            if unit.busy or unit.waiting:
                await self._changed.wait()
                continue
            attempt = self._attempt_for(unit)
            items = [item for item in unit.view.findings() if _slows(item, targets)]
            left = {
                item.id
                for item in items
                if item.id not in attempt.fixes and not attempt.find_fixes(item)
            }
            attempt.demanded = frozenset(left)
            if not left or (attempt.current and attempt.current not in left):
                attempt.stop()
            if not left or attempt.is_complete or not self._search_now(unit, attempt):
                best = [attempt.find_fixes(item)[:1] for item in items]
                applicable = (fix for found in best for fix in found if fix.grade != "suggestion")
                distinct = {fix.candidate.text: fix for fix in applicable}
                findings = tuple(one for item in items for one in item.run_findings)
                return FoundFixes(findings, tuple(distinct.values()))
            tell(f"looking for fixes, {amount(len(left), 'finding')} left")
            await self._changed.wait()
        return None

    def _search_now(self, unit: AnalysisUnit, attempt: _FixAttempt) -> bool:
        """Begin the search for the fixes of ``attempt`` now, without a pause; return False if it
        cannot begin."""
        if attempt.task is None:
            self._turns.withdraw(unit)
            self._turns.request_turn(unit, asyncio.get_running_loop().time())
        return attempt.task is not None or self._turns.has_turn(unit)

    # -- for code actions ---------------------------------------------------------------------

    def find_fixes(self, unit: AnalysisUnit, item: FileFinding) -> tuple[Fix, ...]:
        """Return the verified fixes of a finding in the current text, the best first."""
        known = self._current_attempt(unit)
        return known.find_fixes(item) if known is not None else ()

    def find_combined_fix(self, unit: AnalysisUnit) -> Fix | None:
        """Return the combination of all safe fixes in the current text into one; None if there is
        none.
        """
        known = self._current_attempt(unit)
        return known.together if known is not None else None

    def is_searching(self, unit: AnalysisUnit, item: FileFinding) -> bool:
        """Whether the search for fixes of a finding is in progress or has not begun."""
        if not fixable(item.finding):
            return False
        known = self._current_attempt(unit)
        if known is None or known.is_complete or item.id in known.fixes:
            return False
        return known.task is not None or self._turns.has_turn(unit)

    def explain_absence(self, unit: AnalysisUnit, item: FileFinding) -> str:
        """Return a sentence that explains why a finding is without a fix; empty if it has one, or
        if the search has not ended.
        """
        known = self._current_attempt(unit)
        if known is None or not fixable(item.finding) or known.find_fixes(item):
            return ""
        if item.id in known.fixes:
            return known.reasons.get(item.id, "")
        return _TIME_LIMIT if known.is_complete else ""

    def find_state(self, unit: AnalysisUnit) -> SearchState:
        """Return the state of the search for fixes of the current text."""
        known = self._current_attempt(unit)
        items = [item for item in unit.view.findings() if fixable(item.finding)]
        return known.state(items) if known is not None else SearchState()

    def prefer(self, unit: AnalysisUnit, items: Collection[FileFinding]) -> None:
        """Verify the fixes of ``items`` next, because these findings are at the cursor."""
        known = self._current_attempt(unit)
        if known is not None and items:
            known.preferred = frozenset(item.id for item in items)

    # -- attempts -----------------------------------------------------------------------------

    def _current_attempt(self, unit: AnalysisUnit) -> _FixAttempt | None:
        attempts = self._tried.get(unit.document.uri)
        return attempts.get(_fix_basis(unit)) if attempts is not None else None

    def _attempt_for(self, unit: AnalysisUnit) -> _FixAttempt:
        """Return the fixes known for the current text.

        On the first call for a text, fixes of the previous text are copied if the edits since then
        cannot affect them.
        """
        attempts = self._tried.setdefault(unit.document.uri, OrderedDict())
        basis = _fix_basis(unit)
        known = attempts.get(basis)
        if known is None:
            known = _FixAttempt(basis, unit.document.text, unit.results.targets)
            before = next(reversed(attempts.values()), None)
            if before is not None and before.fixes and before.basis[1] == basis[1]:
                _move_fixes(before, known, unit.view.findings())
            attempts[basis] = known
        attempts.move_to_end(basis)
        while len(attempts) > _MOST_TEXTS:
            attempts.popitem(last=False)
        return known

    def _begin_attempt(self, unit: AnalysisUnit) -> bool:
        known = self._current_attempt(unit)
        if known is None or known.task is not None or unit.busy or unit.waiting:
            return False
        wanted = {item.id: item for item in unit.view.findings() if fixable(item.finding)}
        safe = any(found and found[0].grade == "safe" for found in known.fixes.values())
        if wanted.keys() <= known.fixes.keys() and not (safe and known.together is None):
            known.is_complete = True
            return False
        engine = self._session.engines.engine_on_demand(unit)
        if isinstance(engine, str):
            return False
        # Names of the targets traced with real tensors; the verification of their fixes can skip
        # fake tensors.
        real = tuple(one.report.name for one in unit.view.reports() if one.report.mode == "real")
        request = dataclasses.replace(
            self._session.files.build_request(unit, ()), nice=NICE, real=real
        )
        # Try the findings nearest to the last edit first.
        focus = unit.document.focus
        order = sorted(wanted, key=lambda key: abs(wanted[key].finding.range.start.line - focus))
        nearest = {key: wanted[key] for key in order}
        bar = self._show_progress(unit.document.name.rsplit("/", 1)[-1])

        def report_searched() -> None:
            self._changed.set()
            self._search_changed(unit)

        search = _FixSearch(known, engine, request, nearest, bar, report_searched)
        known.task = asyncio.create_task(search.run())

        def end_turn(task: asyncio.Task[None]) -> None:
            known.task, known.current = None, ""
            self._changed.set()
            state = known.state(nearest.values())
            bar.end(f"fixes for {state.fixed} of {amount(len(nearest), 'finding')}")
            if not task.cancelled():
                self._search_changed(unit)
            if not task.cancelled() and (error := task.exception()) is not None:
                known.is_complete = True
                logger.error("Verifying fixes of %s failed", request.path, exc_info=error)
            self._turns.turn_ended(unit)

        known.task.add_done_callback(end_turn)
        self._search_changed(unit)
        return True


class _FixSearch:
    """The search for fixes of the findings in one text."""

    def __init__(
        self,
        attempt: _FixAttempt,
        engine: AnyEngine,
        request: Analyze,
        wanted: Mapping[str, FileFinding],
        bar: ProgressBar,
        on_searched: Callable[[], None],
    ) -> None:
        self._attempt, self._request = attempt, request
        self._wanted, self._bar = wanted, bar
        self._on_searched = on_searched
        self._tracer = MeteredTracer(
            engine, attempt.meter, on_request=self._report_check, on_measured=self._stop_if_spent
        )
        self._now: FileFinding | None = None
        """The finding whose fixes are verified now."""
        self._checks = 0
        """Number of checks that the search has requested from the engine for the current finding.
        """
        self._work: asyncio.Task[Any] | None = None
        self._is_stopped = False
        """True if the time limit has ended the search."""
        self._again: set[str] = set()
        """Ids of the findings to try a second time, because the machine was busy at the first."""

    async def run(self) -> None:
        """Search until every finding has its fixes or the time limit is reached; then the fixes
        verified so far are kept.

        If the user waits for the measured speed of a function with its fixes, the search ends when
        the findings of this function have their fixes.
        """
        await fixes.load()
        from fullgraph.fixes.verification import Verifier

        attempt, verifier = self._attempt, Verifier(self._tracer, self._request)
        while (item := self._next_finding()) is not None and not attempt.is_spent:
            before = dataclasses.replace(attempt.meter)
            self._now, self._checks, attempt.current = item, 0, item.id
            search = await self._within_limits(verifier.fixes(item.run_findings[0], item.targets))
            busy = attempt.meter.since(before).is_busy
            if search is not None and not search.fixes and busy and item.id not in self._again:
                self._again.add(item.id)
            else:
                found = search.fixes if search is not None else ()
                attempt.add_fixes(item, found, search.why_unfixed if search else _TIME_LIMIT)
                self._on_searched()
        if attempt.demanded is not None and not attempt.is_spent:
            return
        best = [fixes[0] for fixes in attempt.fixes.values() if fixes]
        safe = [fix for fix in best if fix.grade == "safe"]
        if attempt.together is None and not attempt.is_spent:
            self._now = None
            attempt.together = await self._within_limits(verifier.together(safe))
        attempt.is_complete = True

    def _next_finding(self) -> FileFinding | None:
        """Return the next finding to search fixes for: findings at the cursor first, then findings
        without any fix yet, and findings whose first search failed last. Recompiles come after the
        others, because each check of their fixes runs the whole program."""
        attempt, wanted = self._attempt, self._wanted
        left = [key for key in wanted if key not in attempt.fixes]
        removed = {key for key in left if attempt.find_fixes(wanted[key])}
        if attempt.demanded is not None:
            left = [key for key in left if key in attempt.demanded - removed]

        def rank(key: str) -> tuple[bool, bool, bool, bool]:
            is_slow = wanted[key].finding.code.startswith("recompile")
            return key in self._again, key not in attempt.preferred, key in removed, is_slow

        return wanted[min(left, key=rank)] if left else None

    async def _within_limits(self, work: Coroutine[Any, Any, _T]) -> _T | None:
        """Await ``work``, which verifies fixes; return its result, or None if the time limit was
        reached first.
        """
        self._work = task = asyncio.create_task(work)
        try:
            return await task
        except asyncio.CancelledError:
            if self._is_stopped:
                return None
            raise

    def _stop_if_spent(self) -> None:
        if self._attempt.is_spent and self._work is not None:
            self._is_stopped = True
            self._work.cancel()

    def _report_check(self) -> None:
        """Show the line of the current finding and the number of its checks in the progress bar."""
        self._checks += 1
        total, item = len(self._wanted), self._now
        done = sum(key in self._attempt.fixes for key in self._wanted)
        if item is None:
            self._bar.report("all together", 99)
            return
        place = f"line {item.finding.range.start.line + 1}"
        number = f" ({done + 1} of {total})" if total > 1 else ""
        part = 1 - 0.9**self._checks
        self._bar.report(f"{place}{number}, check {self._checks}", int(100 * (done + part) / total))


def _removes(fix: Fix, item: FileFinding) -> bool:
    """Whether a fix removes a finding, according to a trace of the changed text."""
    from fullgraph.fixes.tracing import same

    return any(same(ended, one) for ended in fix.findings for one in item.run_findings)


def _slows(item: FileFinding, targets: Collection[str]) -> bool:
    """Whether a finding is a graph break or skipped frame that slows a call of a function in
    ``targets``, and that a fix may remove."""
    finding = item.finding
    is_break = finding.code.startswith(("graph-break", "frame-skipped"))
    called = finding.path is None and not set(targets).isdisjoint(item.targets)
    return is_break and called and fixable(finding)


def _fix_basis(unit: AnalysisUnit) -> tuple[str, object]:
    """Return a key for a file's verified fixes, from its text and tracing settings; they are valid
    while it is unchanged.
    """
    return unit.document.hash, unit.inputs.settings.tracing_key()


def _move_fixes(before: _FixAttempt, now: _FixAttempt, items: Collection[FileFinding]) -> None:
    """Copy fixes from ``before`` to ``now``, the attempt for a later text.

    A fix of a finding in ``items`` (of the later text) is copied if its functions and lines are
    unchanged.
    """
    from fullgraph.fixes.moving import changed_lines, move_fix, move_range

    unaffected = _unaffected_targets(before, now)
    changed = changed_lines(before.text, now.text)
    for item in items:
        found, place = before.fixes.get(item.id), before.places.get(item.id)
        if found is None or place is None or not unaffected.issuperset(item.targets):
            continue
        moved = [one for fix in found if (one := move_fix(fix, changed, now.text)) is not None]
        if len(moved) == len(found) and move_range(place, changed) == item.finding.range:
            now.add_fixes(item, tuple(moved), before.reasons.get(item.id, ""))
    together = before.together
    if together is not None and now.fixes.keys() == before.fixes.keys():
        now.together = move_fix(together, changed, now.text)


def _unaffected_targets(before: _FixAttempt, now: _FixAttempt) -> frozenset[str]:
    """Return the names of the targets for which traces of both texts would give the same
    results."""
    old, new = before.parsed, now.parsed
    if old is None or new is None:
        return frozenset()
    change = align_versions(old, new)
    return find_unaffected(old, new, change, before.targets) if change is not None else frozenset()
