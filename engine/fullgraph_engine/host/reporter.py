"""Send the results of an analysis to the server, without repetitions. Some are sent only when their
run has ended.

A run is a process that traces one target (a function or module class) with one set of inputs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .. import texts
from ..protocol import (
    Analyze,
    CalledAgain,
    Compilation,
    Coverage,
    DocumentsWritten,
    Event,
    Finding,
    FindingFound,
    ForecastFound,
    GuardsFound,
    Log,
    Measured,
    NumericsJudged,
    PathReport,
    ProbeInfo,
    Range,
    RunId,
    RunLost,
    ShapesFound,
    Status,
    TargetDone,
    TargetReport,
    TargetsFound,
    TargetStarted,
    Timings,
    TracePath,
    TraceStepsFound,
    ValuesSeen,
    hide_unseen_counts,
    place_words,
)
from ..protocol.evidence import BackendEvidence
from ..protocol.files import FilesRead
from ..protocol.paths import PathStatus
from . import frames, syntax
from .attempts import ADDING, Attempt, RunEnd, RunResult
from .blackbox import LastWords
from .services import Services
from .wire import (
    PACKAGES,
    BackendTried,
    CandidatesMade,
    CasesChosen,
    PlannedRun,
    RunDone,
    Upward,
)

_FORWARDED = (
    FindingFound,
    ForecastFound,
    DocumentsWritten,
    CandidatesMade,
    CasesChosen,
    BackendTried,
    Measured,
    NumericsJudged,
    FilesRead,
    Timings,
    Log,
)
"""Messages of a run that the server receives at once."""

_HELD_BACK = (ValuesSeen, ShapesFound, GuardsFound, TraceStepsFound)
"""Messages of a run that the server receives when the run ends. If the run is repeated, for example
with real tensors, only the messages of the last attempt are forwarded."""


class Reporter:
    """A sender of the results of one analysis to the server.

    It skips messages that the server already has, for example when the user's file is executed
    again and has the same findings.
    """

    def __init__(self, request: Analyze, host: Services) -> None:
        self._request, self._host = request, host
        self._targets: TargetsFound | None = None
        self._sent: set[bytes] = set()
        """Encoded messages that the server has, so that they are not sent again."""
        self._started: set[int] = set()
        """Numbers of the targets whose tracing was reported to the server as started."""
        self._reported: set[tuple[str, Range]] = set()
        """Names and ranges of the targets for which the server has received a report."""
        self._lines: list[str] = []

    # -- messages of processes ----------------------------------------------------------------

    def forward(self, line: bytes) -> None:
        self._host.forward(line + b"\n")

    def forward_once(self, line: bytes, message: Event) -> None:
        """Forward a message of the process that executes the user's file, unless it was forwarded
        before.

        ``line`` is the message in encoded form.
        """
        if isinstance(message, TargetsFound):
            self._targets = message
        if line in self._sent:
            return
        self._sent.add(line)
        if isinstance(message, TargetDone):
            self._send_report(message.report)
        else:
            self.forward(line)

    def take_run_message(
        self, result: RunResult, line: bytes, message: Upward | Event | None
    ) -> None:
        """Forward a message of a run to the server, or store it in ``result`` until the run ends.

        ``line`` is the message in encoded form. Messages that a run may not send are ignored, since
        user code can write to the same pipe.
        """
        if isinstance(message, _HELD_BACK):
            result.seen.append(line)
        elif isinstance(message, _FORWARDED):
            result.forecast_sent |= isinstance(message, ForecastFound)
            if result.attempt.part == "paths":
                if line in self._sent:
                    return  # an earlier attempt of this run has sent the same message
                self._sent.add(line)
            if isinstance(message, FindingFound):
                result.findings[message.finding.identity] = message.finding
            self.forward(line)

    # -- runs ---------------------------------------------------------------------------------

    def report_start(self, planned: PlannedRun) -> None:
        """Report that tracing of a target has begun; do nothing if this was already reported for an
        earlier run of the target."""
        if planned.target not in self._started:
            self._started.add(planned.target)
            self._host.send(TargetStarted(self._request.request, planned.info.name))

    def report_run(self, end: RunEnd, before: RunResult | None) -> None:
        """Report the result of a run that traced a target.

        ``before`` is the earlier attempt with the other kind of tensors (fake or real), which this
        run replaces, or None.
        """
        result = end.result
        for line in result.seen or (before.seen if before is not None else ()):
            self.forward(line)
        report = result.numbered_report
        if report is None:
            self._report_crash(end)
            return
        if before is not None and report.status in ("traced", "no-probe"):
            for identity, finding in before.findings.items():
                if identity and identity not in result.findings:
                    self._send_finding(replace(finding, count=0))
        self._send_report(report)

    def _report_crash(self, end: RunEnd) -> None:
        attempt, words = end.result.attempt, end.words
        planned = attempt.plan
        where = self._find_place(words) or words.place or planned.info.range
        code = "trace/timeout" if end.late else "trace/crashed"
        self._send_finding(
            Finding(
                code=code,
                message=f"Tracing `{planned.info.name}` stopped here: {end.cause}",
                range=where,
                target=planned.info.name,
                stack=words.stack,
                mode=attempt.trace_mode,
                identity=f"{code}@{place_words(where)}",
                run=RunId(planned.info.name, planned.probe),
            )
        )
        status: Status = "timeout" if end.late else "crashed"
        report = _failed_report(attempt, status, end.cause, end.seconds)
        self._send_report(replace(report, repeats=end.repeats))

    def report_observation(self, result: RunResult) -> None:
        """Send the report of a run that only executed or measured a target, without tracing it."""
        if result.done is not None:
            probe = result.attempt.plan.probe
            self._send_report(replace(result.done.report, probe_number=probe))

    def report_unstarted(self, attempt: Attempt, error: str) -> None:
        """Report a run whose process could not be started because of ``error``.

        For a forecast, send a note; for runs from which the server expects a report of the target,
        send the status "crashed".
        """
        if attempt.part in ADDING:
            self.report_lost_run(attempt)
        if attempt.part == "forecast":
            self.report_missing_forecast(attempt.plan, f"{error}.")
        if attempt.makes_report:
            self._send_report(_failed_report(attempt, "crashed", error))

    def report_skipped(self, planned: PlannedRun) -> None:
        """Report that a target (a function or module class) is not traced, because the time limit
        of the file is reached."""
        info = planned.info
        self._send_report(TargetReport(info.name, info.kind, info.range, "skipped"))

    def report_within(self, planned: PlannedRun, caller: TargetReport) -> None:
        """Report that a target is not traced separately, because the trace of ``caller``, another
        target, includes it."""
        info, body = planned.info, planned.body
        places = caller.coverage.unpack_ranges() if caller.coverage is not None else ((), ())
        traced, others = (
            [one for one in side if body.start.line <= one.start.line <= body.end.line]
            for side in places
        )
        report = TargetReport(info.name, info.kind, info.range, "traced", caller.mode)
        probe = ProbeInfo("harvest", "", source=f"as called by {caller.name}")
        coverage = Coverage.from_ranges(traced, others)
        self._send_report(replace(report, probe=probe, coverage=coverage, within=caller.name))

    def report_lost_target(self, attempt: Attempt, cause: str) -> None:
        """Send a finding that a target (a function or module class) could not be traced.

        ``cause`` is a clause with the reason.
        """
        target = attempt.plan.info
        self._send_finding(
            Finding(
                code="trace/crashed",
                message=f"`{target.name}` could not be traced: {cause}",
                range=target.range,
                target=target.name,
                mode=attempt.trace_mode,
                identity=f"trace/crashed@{place_words(target.range)}",
                run=RunId(target.name, attempt.plan.probe),
            )
        )

    def report_lost_run(self, attempt: Attempt) -> None:
        """Report that a run was lost before it completed, so that some of its findings may be
        missing."""
        run = RunId(attempt.plan.info.name, attempt.plan.probe, attempt.part)
        self._host.send(RunLost(self._request.request, run))

    def report_missing_forecast(self, planned: PlannedRun, note: str) -> None:
        target = planned.info.name
        run = RunId(target, planned.probe, "forecast")
        self._host.send(ForecastFound(self._request.request, target, run, note=note))

    def report_paths(self, first: RunResult, done: RunDone) -> None:
        """Send the report of a target's first run again, with the coverage and the alternative
        execution paths that ``done`` found."""
        report = first.numbered_report
        if report is None or done.paths is None:
            return
        for identity in done.paths.narrowed:
            finding = first.findings.get(identity)
            if finding is not None:
                path = TracePath(training=done.paths.mode)
                self._send_finding(replace(finding, path=path))
        self._report_again(first, coverage=done.report.coverage, paths=done.report.paths)

    def report_missing_paths(self, first: RunResult, status: PathStatus, reason: str) -> None:
        """Send the report of a target's first run again, with the ``reason`` why its alternative
        execution paths are missing or incomplete."""
        self._report_again(first, paths=(PathReport("along other paths", status, reason),))

    def report_compilation(self, first: RunResult, compilation: Compilation) -> None:
        """Send the report of a target's first run again, with the result of compiling it."""
        self._report_again(first, compilation=compilation)

    def report_missing_compilation(self, first: RunResult, attempt: Attempt, reason: str) -> None:
        """Report that the compilation of a target with AOTAutograd and Inductor did not end.

        ``reason`` is a clause. The findings of the target's trace remain valid.
        """
        self.report_lost_run(attempt)
        target = attempt.plan.info
        words = f"{texts.capitalize_first(reason).rstrip('.')}."
        self._report_again(
            first, compilation=Compilation(self._request.compiler, "not-computed", reason=words)
        )
        self._send_finding(
            Finding(
                code="backend/incomplete",
                message=f"AOTAutograd and Inductor did not finish compiling `{target.name}`: "
                f"{reason}",
                range=target.range,
                target=target.name,
                mode=attempt.trace_mode,
                identity=f"backend/incomplete@{place_words(target.range)}",
                run=RunId(target.name, attempt.plan.probe, attempt.part),
                evidence=BackendEvidence("incomplete"),
            )
        )

    def _report_again(self, first: RunResult, **changes: Any) -> None:
        """Send the report of a target's first run again, with the fields in ``changes`` replaced.

        The changes are stored, so that a further call keeps them.
        """
        if first.done is None:
            return
        first.done = replace(first.done, report=replace(first.done.report, **changes))
        report = first.numbered_report
        assert report is not None
        self._send_report(report)

    def report_equal_calls(self, planned: PlannedRun, sources: tuple[str, ...]) -> None:
        """Report that a target is not traced again, because its callers pass the same arguments as
        in an earlier analysis.

        ``sources`` describes each call for the user.
        """
        info = planned.info
        self._reported.add((info.name, info.range))
        self._host.send(CalledAgain(self._request.request, info.name, sources))

    # -- the module process -------------------------------------------------------------------

    def report_statement_end(self, words: LastWords, cause: str, *, late: bool) -> None:
        """Send a finding at the top-level statement during which the process that executes the file
        ended.

        ``words`` has its last stack, ``cause`` is a clause that explains the end, and ``late`` is
        true if the time limit was exceeded.
        """
        where = self._find_place(words) or frames.line_range(words.line or 0, self._text_lines())
        code = "trace/timeout" if late else "trace/crashed"
        self._send_finding(
            Finding(
                code=code,
                message=f"Executing the file stopped here: {cause}",
                range=where,
                stack=words.stack,
                notes=_restart_notes(words.statement),
                mode="real",
                identity=f"{code}@{place_words(where)}",
            )
        )

    def report_silent(
        self,
        error: str = "The process that executed the file ended without a result",
        status: Status = "crashed",
    ) -> None:
        """Send a report with ``status`` and ``error`` for each target without a report.

        Otherwise the editor would show the target as free of graph breaks.
        """
        for target in self._targets.targets if self._targets is not None else ():
            known = target.name in self._request.without
            if not known and (target.name, target.range) not in self._reported:
                place = target.name, target.kind, target.range
                self._send_report(TargetReport(*place, status, mode="real", error=error))

    # -- sending ------------------------------------------------------------------------------

    def _send_finding(self, finding: Finding) -> None:
        self._host.send(FindingFound(self._request.request, finding))

    def _send_report(self, report: TargetReport) -> None:
        self._reported.add((report.name, report.range))
        self._host.send(
            TargetDone(self._request.request, hide_unseen_counts(report, self._host.degraded))
        )

    def _find_place(self, words: LastWords) -> Range | None:
        """Return the range of the innermost frame of the last stack in the analyzed file; None
        without such a frame."""
        frame = frames.innermost_frame(words.stack, self._request.path)
        return None if frame is None else frames.range_of(frame, self._text_lines())

    def _text_lines(self) -> list[str]:
        if not self._lines:
            self._lines = syntax.lines_of(self._request.text)
        return self._lines


def _failed_report(
    attempt: Attempt, status: Status, error: str, seconds: float = 0.0
) -> TargetReport:
    planned = attempt.plan
    return TargetReport(
        name=planned.info.name,
        kind=planned.info.kind,
        range=planned.info.range,
        status=status,
        mode=attempt.trace_mode,
        probe=planned.probe_info,
        seconds=seconds,
        error=error,
        probe_number=planned.probe,
    )


def _restart_notes(statement: int | None) -> tuple[str, ...]:
    """Return a note that the file is executed again without top-level statement ``statement``,
    which ended the process; empty if it is None."""
    if statement is None:
        return ()
    if statement == PACKAGES:
        return ("fullgraph executes the file again without importing its parent packages.",)
    return ("fullgraph executes the file again without this statement.",)
