"""Tracing a text for its findings, and judging a rewrite by the findings before and after."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from fullgraph.domain import codes
from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import keep_latest
from fullgraph_engine.protocol import (
    Analyze,
    Event,
    Failed,
    Finding,
    FindingFound,
    ForecastFound,
    Restarted,
    TargetDone,
    TargetReport,
)
from fullgraph_engine.protocol.evidence import BreakEvidence


class Asked(Protocol):
    """The events of a request, until the last."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    def cancel(self) -> None: ...


class Tracer(Protocol):
    """The part of :class:`fullgraph.engines.Engine` that tracing uses."""

    def analyze(self, request: Analyze) -> Asked: ...


async def events(asked: Asked) -> AsyncIterator[Event]:
    """Yield the events of a request, and cancel the request where the reader stops early."""
    try:
        async for event in asked:
            yield event
    except (asyncio.CancelledError, GeneratorExit):
        asked.cancel()
        raise


@dataclass(frozen=True)
class Traced:
    """The findings and reports of some targets of a text."""

    text: str
    findings: tuple[Finding, ...] = ()
    reports: tuple[TargetReport, ...] = ()
    problem: str = ""
    """Why the engine could not work on it, in a sentence."""

    def of_run(self, finding: Finding) -> Finding | None:
        """The finding as a run of this text has it; None if none has."""
        return next((one for one in self.findings if same(one, finding)), None)

    def of(self, targets: Collection[str]) -> Traced:
        """Return the findings and reports of some targets, and of executing the module."""
        findings = tuple(one for one in self.findings if one.target in ("", *targets))
        reports = tuple(one for one in self.reports if one.name in targets)
        return dataclasses.replace(self, findings=findings, reports=reports)

    def joined(self, other: Traced) -> Traced:
        """Return this result joined with the result for other targets of the same text."""
        return dataclasses.replace(
            self,
            findings=(*self.findings, *other.findings),
            reports=(*self.reports, *other.reports),
            problem=self.problem or other.problem,
        )

    def complete(self, before: Traced) -> bool:
        """Whether each target was traced to the end that ``before`` has, where both have asked for
        that: then it is a good sign that a finding is missing."""
        names = {report.name for report in self.reports}
        return (
            not self.problem
            and all(report.name in names for report in before.reports)
            and all(report.status == "traced" for report in self.reports)
        )

    @property
    def speaks_against(self) -> bool:
        """Whether it has findings that would speak against a change, were they new."""
        return any(_is_serious(one) or one.code.startswith("recompile") for one in self.findings)


async def traced(tracer: Tracer, request: Analyze) -> Traced:
    """Trace a text."""
    findings: list[Finding] = []
    reports: dict[tuple[str, int], TargetReport] = {}
    problem = ""
    async for event in events(tracer.analyze(request)):
        if isinstance(event, FindingFound):
            findings.append(event.finding)
        elif isinstance(event, ForecastFound):
            findings += event.findings
        elif isinstance(event, TargetDone):
            reports[event.report.name, event.report.probe_number] = event.report
        elif isinstance(event, Restarted):
            findings.clear()
            reports.clear()
        elif isinstance(event, Failed):
            problem = event.reason
    return Traced(request.text, keep_latest(findings), tuple(reports.values()), problem)


def same(one: Finding, other: Finding) -> bool:
    """Whether two findings of one text are the same break, reached in whatever run."""
    return (one.code, one.message, one.range) == (other.code, other.message, other.range)


@dataclass(frozen=True)
class Judgment:
    """The effect of a rewrite on the findings of its targets, for a finding that it should end."""

    gone: bool
    """The finding is not there any more, and every target was traced to the end."""
    ended: tuple[Finding, ...] = ()
    """Findings of any severity that the original has and the changed text does not have."""
    appeared: tuple[Finding, ...] = ()
    """New ones of at least the severity of a warning, which the rewrite has brought."""
    revealed: tuple[Finding, ...] = ()
    """Later breaks, and sizes that became constants, in code that Dynamo did not trace because of
    the finding."""
    problem: str = ""
    """Reason why the effect is unknown."""

    @property
    def better(self) -> bool:
        return self.gone and not self.appeared and not self.problem

    @property
    def instead(self) -> Finding | None:
        """The only break, or constant size, that appeared while the finding ended; None for other
        outcomes."""
        if self.problem or not self.gone or len(self.appeared) != 1:
            return None
        one = self.appeared[0]
        return one if _is_break(one) or one.code in _CONSTANT_SIZES else None

    @property
    def why(self) -> str:
        """Why it is not, as a sentence; empty if it is better."""
        if self.problem:
            return self.problem
        if self.appeared:
            new = self.appeared[0]
            line = new.range.start.line + 1
            return f"It brings another finding, on line {line} of the changed text: {new.message}."
        return "" if self.gone else "The finding is still there."


def _only_of_program(before: Traced, after: Traced) -> str:
    """Return the name of a program's region that is not traced outside of the program; empty if
    there is none."""
    traced_names = {one.name for one in after.reports if one.status == "traced"}
    missing = (one for one in before.reports if one.region and one.name not in traced_names)
    return next((one.name for one in missing), "")


def judged(before: Traced, after: Traced, finding: Finding) -> Judgment:
    """Return the effect of a change of the text; both texts were traced in the same way."""
    if not after.complete(before):
        region = _only_of_program(before, after)
        if region:
            return Judgment(
                False,
                problem=f"Only the run of a program calls {region}, and rewrites are traced "
                "without it: move the code into a function with a probe comment, as "
                "`# fullgraph: x=f32[8, 16]`.",
            )
        failed = next((report for report in after.reports if report.status != "traced"), None)
        words = after.problem or (failed.error if failed is not None else "") or "it was not traced"
        return Judgment(False, problem=f"The changed code is not traced to the end: {words}")
    lines = _unchanged_lines(before.text, after.text)
    kept = set(lines.values())
    old = Counter(_finding_key(one, kept) for one in _distinct_places(before))
    new: Counter[_Key] = Counter()
    appeared: list[Finding] = []
    revealed: list[Finding] = []
    untraced = {line for report in before.reports for line in report.untraced}
    hides = _hides_code(finding)
    broken = {one.range.start.line for one in _distinct_places(before) if _is_break(one)}
    for one in _distinct_places(after):
        line = lines.get(one.range.start.line, _CHANGED)
        key = _MODULE_FAILS if _is_of_module(one) else (one.code, _finding_words(one), line)
        new[key] += 1
        if new[key] <= old[key] or not _is_serious(one) or one.code.startswith("recompile"):
            continue
        opened = line != _CHANGED and (hides or line in untraced)
        # A size that code which ran in eager mode before makes a constant.
        sized = one.code.startswith("guard/") and (opened or line == finding.range.start.line)
        # A break there is not a matter of export only.
        known = one.code.startswith("export/") and line in broken
        (revealed if known or sized or (opened and _is_break(one)) else appeared).append(one)
    ended = tuple(
        one
        for one in _distinct_places(before)
        if new[_finding_key(one, kept)] < old[_finding_key(one, kept)]
    )
    # Which one of equal lines is missing is a guess.
    was = before.text.split("\n")
    gone = _finding_place(finding, was) in (_finding_place(one, was) for one in ended)
    more = len(_recompiles(after)) - len(_recompiles(before))
    # A recompile for another reason is not better.
    more += gone and finding.code.startswith("recompile")
    if more > 0:
        appeared += _recompiles(after)[-more:]
    return Judgment(gone, ended, tuple(appeared), tuple(revealed))


_CONSTANT_SIZES = (
    "guard/specialised-dimension",
    "guard/limited-dimension",
    "recompile/every-size",
)


_CHANGED = -1
_Key = tuple[str, str, int]
"""Code, what it is, and line of the original text; ``_CHANGED`` for any line that was changed."""


_MODULE_FAILS: _Key = "trace", "", _CHANGED
"""Key of every statement at module level that raises: after one is fixed, the next one raises."""


def _is_of_module(finding: Finding) -> bool:
    return not finding.target and finding.code.startswith("trace/")


def _finding_key(finding: Finding, kept: Collection[int]) -> _Key:
    if _is_of_module(finding):
        return _MODULE_FAILS
    line = finding.range.start.line
    return finding.code, _finding_words(finding), line if line in kept else _CHANGED


def _finding_words(finding: Finding) -> str:
    """Return the title of a break, or the message.

    A break may lose more of its function once an earlier break does not split the function any
    more.
    """
    evidence = finding.evidence
    return evidence.title if isinstance(evidence, BreakEvidence) else finding.message


def _finding_place(finding: Finding, lines: Sequence[str]) -> tuple[str, str, int]:
    """Code, what it is, and its line: of equal lines that follow one another, the first."""
    number = finding.range.start.line
    while 0 < number < len(lines) and lines[number] == lines[number - 1]:
        number -= 1
    return finding.code, _finding_words(finding), number


def _distinct_places(traced: Traced) -> tuple[Finding, ...]:
    """Each finding once, however many runs reached it."""
    return tuple({(one.code, one.message, one.range): one for one in traced.findings}.values())


def _is_serious(finding: Finding) -> bool:
    return codes.effective_severity(finding.code, {}).reaches(Severity.WARNING)


def _is_break(finding: Finding) -> bool:
    return finding.code.startswith(("graph-break", "frame-skipped"))


def _hides_code(finding: Finding) -> bool:
    """Whether Dynamo left code behind the finding to eager mode."""
    evidence = finding.evidence
    return not isinstance(evidence, BreakEvidence) or evidence.outcome != "resumed"


def _recompiles(traced: Traced) -> list[Finding]:
    return [one for one in _distinct_places(traced) if one.code.startswith("recompile")]


def _unchanged_lines(before: str, after: str) -> dict[int, int]:
    """Return the unchanged lines: numbers in the new text, with numbers in the old text."""
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    return {
        block.b + offset: block.a + offset
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }
