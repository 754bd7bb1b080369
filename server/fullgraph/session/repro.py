"""Select the finding for a repro (a short script that shows it), and wait for the engine to make
the script.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from fullgraph.domain import codes
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.repro import ReductionState, ReproOutcome
from fullgraph.engines import ReproductionRequest, sentences
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import (
    Analyze,
    Failed,
    Reproduce,
    Reproduced,
    ReproFound,
    ReproProgress,
    TargetInfo,
    Wanted,
)
from fullgraph_engine.protocol.repro import Backend

_REPRODUCIBLE = (
    "graph-break",
    "frame-skipped",
    "op",
    "guard/specialized-dimension",
    "guard/mutated",
    "recompile",
    "trace/compile-error",
    "backend/error",
)
"""Finding codes caused by ``torch.compile`` in code that runs without errors in eager mode."""

_OTHERS = ("frame-skipped/no-ops",)


def is_reproducible(code: str) -> bool:
    """Return whether a script could reproduce findings with this code."""
    if any(codes.matches_selector(code, other) for other in _OTHERS):
        return False
    return any(codes.matches_selector(code, selector) for selector in _REPRODUCIBLE)


def rank_by_severity(findings: Iterable[FileFinding]) -> tuple[FileFinding, ...]:
    """Return findings, the most severe first; findings of equal severity keep their order."""
    return tuple(sorted(findings, key=lambda item: item.severity.number))


def findings_on_line(findings: Iterable[FileFinding], line: int) -> tuple[FileFinding, ...]:
    """Return the findings that begin on a zero-based line. Without any, return the findings that
    begin above the line and include it."""
    there = [
        item
        for item in findings
        if item.finding.range.start.line <= line <= item.finding.range.end.line
    ]
    begin = [item for item in there if item.finding.range.start.line == line]
    return tuple(begin or there)


def wanted_of_target(target: TargetInfo, backend: Backend, *, accuracy: bool = False) -> Wanted:
    """Return the description of a repro without a finding: compiling a target with ``backend``
    fails.

    With ``accuracy``: compiling changes the target's results.
    """
    return Wanted("", target.range, target.name, backend=backend, accuracy=accuracy)


def reproduce_request(analyze: Analyze, wanted: Wanted, settings: Settings) -> Reproduce:
    """Return the engine request that makes a repro (a short script); ``analyze`` is the trace
    request that reported the finding.
    """
    wanted = dataclasses.replace(wanted, data=settings.repro_data)
    analyze = dataclasses.replace(analyze, only=(wanted.target,))
    return Reproduce(0, analyze, wanted, settings.repro_time_budget)


async def follow_reproduction(
    reproduction: ReproductionRequest, report: Callable[[ReductionState], None]
) -> ReproOutcome:
    """Wait until the engine has made a repro, and return the outcome; ``report`` receives each
    state of the reduction.
    """
    state = ReductionState()
    async for event in reproduction:
        if isinstance(event, ReproProgress):
            state.update(event)
            report(state)
        elif isinstance(event, ReproFound):
            state.first_lines = state.first_lines or event.lines
        elif isinstance(event, (Reproduced, Failed)):
            return _build_outcome(reproduction, state, event)
    return _build_outcome(reproduction, state, reproduction.cancellation_event())


def _build_outcome(
    reproduction: ReproductionRequest, state: ReductionState, end: object
) -> ReproOutcome:
    found, last = reproduction.found, state.last
    outcome = ReproOutcome(
        reproduction.request.wanted,
        found,
        first_lines=state.first_lines,
        tried=last.tried if last is not None else 0,
        seconds=last.seconds if last is not None else 0.0,
        cancelled=reproduction.cancelled and not reproduction.overdue,
    )
    if isinstance(end, Failed):
        reason = sentences(end.reason, end.next_step)
        outcome = dataclasses.replace(outcome, reason=reason, failed=True)
    elif isinstance(end, Reproduced):
        outcome = dataclasses.replace(
            outcome,
            reason="" if reproduction.overdue else end.reason,
            tried=end.tried,
            seconds=end.seconds,
            cancelled=outcome.cancelled,
        )
    if outcome.verified:
        return outcome if not outcome.failed else dataclasses.replace(outcome, reason="")
    if not outcome.reason:
        outcome = dataclasses.replace(outcome, reason=_explain_missing_script(outcome))
    return outcome


def _explain_missing_script(outcome: ReproOutcome) -> str:
    """Return a sentence why a verified script is missing, for cases in which the engine does not
    explain it.
    """
    if outcome.cancelled and outcome.found is None:
        return "Making the repro was cancelled before a script that shows the finding was found."
    if outcome.cancelled:
        return "Making the repro was cancelled before the script was run in a fresh Python."
    if outcome.found is None:
        return "No script that shows the finding was found in time; raise the time limit."
    return "There was no time left to run the script in a fresh Python; raise the time limit."
