"""Trace a file for its findings, and judge a rewrite by the findings before and after it."""

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
from fullgraph.domain.findings import keep_latest, undecided_condition
from fullgraph.results import Results, collect_results
from fullgraph_engine.protocol import (
    Analyze,
    Compare,
    Event,
    Finding,
    SeenValue,
    TargetReport,
)
from fullgraph_engine.protocol.evidence import BreakEvidence

BUSY_STRETCH = 8.0
"""Maximum factor by which time limits grow while other programs keep the machine busy."""


class Asked(Protocol):
    """A running request to the engine; iterate over its events up to the last one."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    def cancel(self) -> None: ...


class Tracer(Protocol):
    """Interface of :class:`fullgraph.engines.Engine` with the methods that fixes need."""

    def analyze(self, request: Analyze) -> Asked: ...

    def compare(self, request: Compare) -> Asked: ...


async def events(asked: Asked) -> AsyncIterator[Event]:
    """Yield the events of a request. If the caller stops early, the request is cancelled."""
    try:
        async for event in asked:
            yield event
    except (asyncio.CancelledError, GeneratorExit):
        asked.cancel()
        raise


@dataclass(frozen=True)
class Traced:
    """The findings and reports from tracing some functions of a file."""

    text: str
    findings: tuple[Finding, ...] = ()
    reports: tuple[TargetReport, ...] = ()
    problem: str = ""
    """Sentence that explains why the engine could not trace the file; empty otherwise."""
    seen: tuple[SeenValue, ...] = ()
    """Kinds of values that the trace saw in the file."""

    @classmethod
    def from_results(cls, text: str, results: Results) -> Traced:
        """Return the findings and reports in the results of tracing ``text``."""
        return cls(
            text,
            keep_latest(results.findings()),
            tuple(shown.report for shown in results.reports()),
            results.failure.reason if results.failure is not None else "",
            tuple(value for target in results.seen.values() for value in target.values),
        )

    def of_run(self, finding: Finding) -> Finding | None:
        """Return this trace's version of ``finding``, which another trace of the same source
        reported; None without one.
        """
        return next((one for one in self.findings if same(one, finding)), None)

    def of(self, targets: Collection[str]) -> Traced:
        """Return a trace's results for the functions ``targets`` only, with the findings from
        executing the module.
        """
        findings = tuple(one for one in self.findings if one.target in ("", *targets))
        reports = tuple(one for one in self.reports if one.name in targets)
        return dataclasses.replace(self, findings=findings, reports=reports)

    def joined(self, other: Traced) -> Traced:
        """Return these results combined with ``other``, results for other functions of the same
        source.
        """
        return dataclasses.replace(
            self,
            findings=(*self.findings, *other.findings),
            reports=(*self.reports, *other.reports),
            problem=self.problem or other.problem,
        )

    def complete(self, before: Traced) -> bool:
        """Whether this trace covers all functions of the trace ``before``, and all of its own
        without a failure.

        Only then does the absence of a finding show that it was fixed.
        """
        names = {report.name for report in self.reports}
        return (
            not self.problem
            and all(report.name in names for report in before.reports)
            and all(report.status == "traced" for report in self.reports)
        )

    @property
    def speaks_against(self) -> bool:
        """Whether this trace has a finding that would be a reason to refuse a rewrite which adds
        it.
        """
        return any(is_serious(one) or one.code.startswith("recompile") for one in self.findings)


async def trace_file(tracer: Tracer, request: Analyze) -> Traced:
    """Trace the file of a request with the engine; return the findings and reports."""
    results = await collect_results(events(tracer.analyze(request)))
    return Traced.from_results(request.text, results)


def same(one: Finding, other: Finding) -> bool:
    """Whether two findings in one file are the same graph break, perhaps reported by different
    runs.
    """
    return (one.code, one.message, one.range) == (other.code, other.message, other.range)


def is_alike(one: Finding, other: Finding) -> bool:
    """Whether two findings are of the same kind, perhaps at different places."""
    return (one.code, _finding_words(one)) == (other.code, _finding_words(other))


@dataclass(frozen=True)
class Judgment:
    """The effect of a rewrite on the findings of the traced functions, from traces before and after
    it.
    """

    gone: bool
    """True if the rewritten code does not have the finding any more, and each function was traced
    without failure.
    """
    ended: tuple[Finding, ...] = ()
    """Findings of any severity that the original code has and the rewritten code does not."""
    appeared: tuple[Finding, ...] = ()
    """Findings that only the rewritten code has, with at least the severity of a warning."""
    revealed: tuple[Finding, ...] = ()
    """Findings in code that Dynamo did not trace because of the removed finding: later graph
    breaks, and sizes that became constants."""
    problem: str = ""
    """Sentence that explains why the effect of the rewrite is unknown; empty if it is known."""

    @property
    def better(self) -> bool:
        return self.gone and not self.appeared and not self.problem

    @property
    def instead(self) -> tuple[Finding, ...]:
        """Findings that replaced the removed one, if all new ones are of one kind; else empty.

        They are other graph breaks, or sizes that became constants.
        """
        if self.problem or not self.gone or not self.appeared:
            return ()
        # Dynamo may report one condition twice: for a function and for its inlined call.
        first, *others = {one.range: one for one in self.appeared}.values()
        undecided = bool(undecided_condition(first))
        of_one_kind = all(
            is_alike(one, first) or (undecided and undecided_condition(one)) for one in others
        )
        can_be_fixed = _is_break(first) or first.code in _CONSTANT_SIZES
        return (first, *others) if of_one_kind and can_be_fixed else ()

    @property
    def why(self) -> str:
        """Sentence that explains why the rewritten code is not better; empty if it is better."""
        if self.problem:
            return self.problem
        if self.appeared:
            new = self.appeared[0]
            line = new.range.start.line + 1
            return f"A new finding appears on line {line} of the changed text: {new.message}."
        return "" if self.gone else "The finding is still there."


def _only_of_program(before: Traced, after: Traced) -> str:
    """Return the name of a function that only the trace ``before`` compiled, by running the whole
    program.

    Its findings after the rewrite are unknown. The result is empty if there is none.
    """
    traced_names = {one.name for one in after.reports if one.status == "traced"}
    missing = (one for one in before.reports if one.region and one.name not in traced_names)
    return next((one.name for one in missing), "")


def judge_rewrite(before: Traced, after: Traced, finding: Finding) -> Judgment:
    """Return the effect of a rewrite on ``finding`` and on other findings.

    ``before`` and ``after`` are traces of the original and the rewritten code, with the same
    functions and inputs.
    """
    if not after.complete(before):
        region = _only_of_program(before, after)
        if region:
            return Judgment(
                False,
                problem=f"Only a running program calls {region}, so the effect on it is unknown: "
                "write a probe comment with inputs above it, such as `# fullgraph: x=f32[8, 16]`.",
            )
        failed = next((report for report in after.reports if report.status != "traced"), None)
        words = after.problem or (failed.error if failed is not None else "")
        if not words:
            return Judgment(False, problem="The changed code was not traced to its end.")
        return Judgment(False, problem=f"The trace of the changed code ended early: {words}")
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
        if new[key] <= old[key] or not is_serious(one) or one.code.startswith("recompile"):
            continue
        opened = line != _CHANGED and (hides or line in untraced)
        # Code that ran in eager mode is compiled now, and one of its sizes becomes a constant.
        sized = one.code.startswith("guard/") and (opened or line == finding.range.start.line)
        # A graph break at this line in the original shows that the line has a problem without
        # export, too.
        known = one.code.startswith("export/") and line in broken
        (revealed if known or sized or (opened and _is_break(one)) else appeared).append(one)
    ended = tuple(
        one
        for one in _distinct_places(before)
        if new[_finding_key(one, kept)] < old[_finding_key(one, kept)]
    )
    # Equal lines that follow each other count as one place.
    was = before.text.split("\n")
    gone = _finding_place(finding, was) in (_finding_place(one, was) for one in ended)
    more = len(_recompiles(after)) - len(_recompiles(before))
    # A function that recompiles for another reason is not better.
    more += gone and finding.code.startswith("recompile")
    if more > 0:
        appeared += _recompiles(after)[-more:]
    return Judgment(gone, ended, tuple(appeared), tuple(revealed))


_CONSTANT_SIZES = (
    "guard/specialized-dimension",
    "guard/limited-dimension",
    "recompile/every-size",
    "recompile/size",
)


_CHANGED = -1
_Key = tuple[str, str, int]
"""Key by which findings of the original and of the rewritten code are matched.

It consists of the code, the title or message, and the line in the original. For lines that the
rewrite changed, the line is ``_CHANGED``.
"""


_MODULE_FAILS: _Key = "trace", "", _CHANGED
"""Key of every exception that a statement at module level raises.

All of them have the same key, because the next statement may raise after the first is fixed.
"""


def _is_of_module(finding: Finding) -> bool:
    return not finding.target and finding.code.startswith("trace/")


def _finding_key(finding: Finding, kept: Collection[int]) -> _Key:
    if _is_of_module(finding):
        return _MODULE_FAILS
    line = finding.range.start.line
    return finding.code, _finding_words(finding), line if line in kept else _CHANGED


def _finding_words(finding: Finding) -> str:
    """Return the text by which findings are compared: the title of a graph break, else the message.

    A graph break's message may change after the removal of an earlier graph break in the function.
    """
    evidence = finding.evidence
    return evidence.title if isinstance(evidence, BreakEvidence) else finding.message


def _finding_place(finding: Finding, lines: Sequence[str]) -> tuple[str, str, int]:
    """Return code, title or message, and line of a finding, which identify it in a version of the
    file.

    For a finding in a group of equal lines, return the first line of the group. ``lines`` are the
    lines of the file.
    """
    number = finding.range.start.line
    while 0 < number < len(lines) and lines[number] == lines[number - 1]:
        number -= 1
    return finding.code, _finding_words(finding), number


def _distinct_places(traced: Traced) -> tuple[Finding, ...]:
    """Return each finding of a trace once, although several runs may have reported it."""
    return tuple({(one.code, one.message, one.range): one for one in traced.findings}.values())


def is_serious(finding: Finding) -> bool:
    """Whether the default severity of a finding's code is at least a warning."""
    return codes.effective_severity(finding.code, {}).reaches(Severity.WARNING)


def _is_break(finding: Finding) -> bool:
    return finding.code.startswith(("graph-break", "frame-skipped"))


def _hides_code(finding: Finding) -> bool:
    """Whether Dynamo ran the code after the finding in eager mode, without tracing it."""
    evidence = finding.evidence
    return not isinstance(evidence, BreakEvidence) or evidence.outcome != "resumed"


def _recompiles(traced: Traced) -> list[Finding]:
    return [one for one in _distinct_places(traced) if one.code.startswith("recompile")]


def _unchanged_lines(before: str, after: str) -> dict[int, int]:
    """Map unchanged lines of the text ``after`` to their line numbers in ``before``."""
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    return {
        block.b + offset: block.a + offset
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }
