"""Verify fixes for open files in the background, while no file is traced."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fullgraph import fixes
from fullgraph.domain.findings import FileFinding
from fullgraph.fixes.fixable import fixable
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.request import NICE
from fullgraph.session.scheduling import REST, Turns
from fullgraph.session.session import Session
from fullgraph_engine.protocol import Analyze

if TYPE_CHECKING:
    from fullgraph.engines import AnyEngine
    from fullgraph.fixes.verification import Fix

SECONDS = 120.0
"""Time limit in seconds for verifying the fixes of one file; later findings do not get a fix."""


@dataclass
class _FixAttempt:
    """The fixes verified for one text, by the id of their finding."""

    basis: object
    fixes: dict[str, tuple[Fix, ...]] = field(default_factory=dict)
    together: Fix | None = None
    """Combination of all safe fixes into one; None if there is none."""
    task: asyncio.Task[None] | None = None


class FixJobs:
    """A queue that verifies fixes for graph breaks, one file at a time, and stores the verified
    fixes.

    An edit cancels the work on the old text, because a fix is valid for one exact text.
    """

    def __init__(
        self, session: Session, fixes_found: Callable[[AnalysisUnit], None] = lambda _: None
    ) -> None:
        """``fixes_found`` is called with the file when fixes of it were verified."""
        self._session, self._fixes_found = session, fixes_found
        self._tried: dict[str, _FixAttempt] = {}
        self._turns: Turns[AnalysisUnit] = Turns(session.files.is_busy, self._begin_attempt)

    def update_findings(self, unit: AnalysisUnit, *, final: bool) -> None:
        """Schedule the verification of fixes, or cancel it, after findings of a file changed;
        ``final``: the run has ended.
        """
        known = self._tried.get(unit.document.uri)
        if known is not None and known.basis != _fix_basis(unit):
            self._forget_attempt(unit)
            known = None
        if not final or known is not None or unit.busy or unit.waiting:
            return
        if self._session.workspace.settings(unit.document).fixes == "background":
            self._turns.request_turn(unit, asyncio.get_running_loop().time() + REST)

    def run_ended(self) -> None:
        """Start to verify the fixes of the next file if no file is traced any more; called when a
        run has ended.
        """
        self._turns.begin_next()

    def forget_unit(self, unit: AnalysisUnit) -> None:
        self._forget_attempt(unit)

    def close(self) -> None:
        for known in self._tried.values():
            if known.task is not None:
                known.task.cancel()

    def find_fixes(self, unit: AnalysisUnit, item: FileFinding) -> tuple[Fix, ...]:
        """Return the verified fixes of a finding in the current text, the best first."""
        known = self._current_attempt(unit)
        return known.fixes.get(item.id, ()) if known is not None else ()

    def find_combined_fix(self, unit: AnalysisUnit) -> Fix | None:
        """Return the combination of all safe fixes in the current text into one; None if there is
        none.
        """
        known = self._current_attempt(unit)
        return known.together if known is not None else None

    def _current_attempt(self, unit: AnalysisUnit) -> _FixAttempt | None:
        known = self._tried.get(unit.document.uri)
        return known if known is not None and known.basis == _fix_basis(unit) else None

    def _forget_attempt(self, unit: AnalysisUnit) -> None:
        self._turns.withdraw(unit)
        known = self._tried.pop(unit.document.uri, None)
        if known is not None and known.task is not None:
            known.task.cancel()

    def _begin_attempt(self, unit: AnalysisUnit) -> bool:
        wanted = {item.id: item for item in unit.view.findings() if fixable(item.finding)}
        if not wanted or unit.busy or unit.waiting:
            return False
        engine = self._session.engines.engine_on_demand(unit)
        if isinstance(engine, str):
            return False
        # Targets that were traced with real tensors, for which the verification can skip fake
        # tensors.
        real = tuple(one.report.name for one in unit.view.reports() if one.report.mode == "real")
        request = dataclasses.replace(
            self._session.files.build_request(unit, ()), nice=NICE, real=real
        )
        known = _FixAttempt(_fix_basis(unit))
        self._tried[unit.document.uri] = known
        # Try the findings nearest to the last edit first.
        focus = unit.document.focus
        order = sorted(wanted, key=lambda key: abs(wanted[key].finding.range.start.line - focus))
        nearest = {key: wanted[key] for key in order}
        known.task = asyncio.create_task(self._try_fixes(unit, known, engine, request, nearest))
        known.task.add_done_callback(lambda _: self._turns.turn_ended(unit))
        return True

    async def _try_fixes(
        self,
        unit: AnalysisUnit,
        known: _FixAttempt,
        engine: AnyEngine,
        request: Analyze,
        wanted: Mapping[str, FileFinding],
    ) -> None:
        async def try_all() -> None:
            await fixes.load()
            from fullgraph.fixes.verification import Verifier

            verifier = Verifier(engine, request)
            for key, item in wanted.items():
                search = await verifier.fixes(item.run_findings[0], item.targets)
                known.fixes[key] = search.fixes
                if search.fixes:
                    self._fixes_found(unit)
            best = [fixes[0] for fixes in known.fixes.values() if fixes]
            known.together = await verifier.together([fix for fix in best if fix.grade == "safe"])

        # If the time limit is reached, keep the fixes verified so far.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(try_all(), SECONDS)


def _fix_basis(unit: AnalysisUnit) -> object:
    """Return what a verified fix depends on: the text and the tracing settings."""
    return unit.document.hash, unit.inputs.settings.tracing_key()
