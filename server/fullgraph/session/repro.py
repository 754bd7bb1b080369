"""Small scripts that show one finding: which finding is meant, and what became of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fullgraph.engines import Reproduction, sentences
from fullgraph.render import codes
from fullgraph.session.findings import FileFinding
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
    "guard/specialised-dimension",
    "guard/mutated",
    "recompile",
    "trace/compile-error",
)
"""What ``torch.compile`` does with code that runs well without it."""

_OTHERS = ("frame-skipped/no-ops",)


def reproducible(code: str) -> bool:
    """Whether a finding of this kind is something that a script of its own could show."""
    if any(codes.fits(code, other) for other in _OTHERS):
        return False
    return any(codes.fits(code, selector) for selector in _REPRODUCIBLE)


def ranked(findings: Iterable[FileFinding]) -> tuple[FileFinding, ...]:
    """The most severe first; among those the first in the text."""
    return tuple(sorted(findings, key=lambda item: item.severity.number))


def on_line(findings: Iterable[FileFinding], line: int) -> tuple[FileFinding, ...]:
    """Those that a zero-based line has a part in; those that begin on it win over longer ones."""
    there = [
        item
        for item in findings
        if item.finding.range.start.line <= line <= item.finding.range.end.line
    ]
    begin = [item for item in there if item.finding.range.start.line == line]
    return tuple(begin or there)


def wanted_of_target(target: TargetInfo, backend: Backend, *, accuracy: bool = False) -> Wanted:
    """That compiling the graphs of a target fails, or gives other numbers."""
    return Wanted("", target.range, target.name, backend=backend, accuracy=accuracy)


def reproduce_request(analyze: Analyze, wanted: Wanted, settings: Settings) -> Reproduce:
    """``analyze`` is the request that the finding is of."""
    wanted = dataclasses.replace(wanted, data=settings.repro_data)
    analyze = dataclasses.replace(analyze, only=(wanted.target,))
    return Reproduce(0, analyze, wanted, settings.repro_time_budget)


@dataclass(frozen=True)
class Outcome:
    """What is there at the end. ``reason`` says in sentences why there is no verified script.

    ``first_lines`` are those of the first program that showed the finding, 0 if there was none.
    """

    wanted: Wanted
    found: ReproFound | None = None
    reason: str = ""
    first_lines: int = 0
    tried: int = 0
    seconds: float = 0.0
    cancelled: bool = False
    failed: bool = False
    """The engine could not go on: it died, or could not begin."""

    @property
    def verified(self) -> bool:
        return self.found is not None and self.found.verified


@dataclass
class Course:
    """How a reduction goes on: what its last progress says, beside where it began."""

    first_lines: int = 0
    last: ReproProgress | None = None

    def take(self, progress: ReproProgress) -> None:
        self.last = progress
        if not self.first_lines:
            self.first_lines = progress.lines


async def followed(reproduction: Reproduction, tell: Callable[[Course], None]) -> Outcome:
    """Follow a reproduction to its end. To end it early, cancel the reproduction."""
    course = Course()
    async for event in reproduction:
        if isinstance(event, ReproProgress):
            course.take(event)
            tell(course)
        elif isinstance(event, ReproFound):
            course.first_lines = course.first_lines or event.lines
        elif isinstance(event, (Reproduced, Failed)):
            return _outcome(reproduction, course, event)
    return _outcome(reproduction, course, reproduction.broken_off())


def _outcome(reproduction: Reproduction, course: Course, end: object) -> Outcome:
    found, last = reproduction.found, course.last
    outcome = Outcome(
        reproduction.request.wanted,
        found,
        first_lines=course.first_lines,
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
            reason=end.reason,
            tried=end.tried,
            seconds=end.seconds,
            cancelled=outcome.cancelled,
        )
    if outcome.verified:
        return outcome if not outcome.failed else dataclasses.replace(outcome, reason="")
    if not outcome.reason:
        outcome = dataclasses.replace(outcome, reason=_unsaid(outcome))
    return outcome


def _unsaid(outcome: Outcome) -> str:
    """Why there is no verified script, where the engine does not say."""
    if outcome.cancelled and outcome.found is None:
        return "It was cancelled before a program was found that shows the finding."
    if outcome.cancelled:
        return "It was cancelled before the script was run in a fresh Python."
    if outcome.found is None:
        return "No program was found that shows the finding; allow it more time."
    return "The script was not run in a fresh Python; allow it more time."
