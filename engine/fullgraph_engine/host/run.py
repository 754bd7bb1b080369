"""A run: a process that traces one target (a function or module class) with one set of inputs."""

from __future__ import annotations

import os
import random
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, NoReturn

from .. import placeholder, texts
from ..documents import DocumentRequest
from ..protocol import (
    Analyze,
    DocumentsWritten,
    Event,
    Finding,
    FindingFound,
    ForecastFound,
    GuardsFound,
    Log,
    Measured,
    NumericsJudged,
    RunId,
    ShapesFound,
    TargetReport,
    Timings,
    TraceMode,
    TraceStepsFound,
    ValuesSeen,
    place_words,
)
from ..protocol.documents import DocumentPart
from ..protocol.files import FilesRead
from ..protocol.timings import DynamoTime, FrameTime
from ..protocol.trace_steps import MOST_STEPS
from ..stopwatch import Stopwatch
from ..targets import Tracee
from . import blackbox, exits, frames, sandbox, syntax, wire
from .pipeline import JudgedNumerics, Outcome, RunPipeline
from .process_backends import confinement, descriptors, limits
from .process_backends.branches import Branches, Replay, silence_output
from .process_backends.channels import ProcessEnds
from .reads import Reads
from .wire import (
    BackendTried,
    BranchAnswer,
    BranchBegun,
    CandidatesMade,
    CasesChosen,
    LaunchRun,
    OperatorCalls,
    RunDone,
    StageBegun,
    Upward,
)

_exit, _monotonic = os._exit, time.monotonic
LOST, BROKEN = 97, 98
"""Exit statuses of a run: ``LOST`` if user code closed the pipe to the engine's main process,
``BROKEN`` if the engine's own code failed."""
_MOST_FINDINGS = 2000
_LAST = 0.1
"""Fraction of the time for forecasting recompiles, or for tracing alternative paths, reserved for
reporting the results."""
_EXTRACTING = 0.5
"""Fraction of the remaining time of a ``Reproduce`` request that may be used to write programs; the
rest is for minimizing one."""
GRACE = 0.15
"""Number of seconds between the main process's signal at a time limit and the moment at which the
interpreter writes the stacks itself."""


@dataclass
class Run:
    """The state of one run, which traces a target (a function or module class) with one set of
    inputs.

    ``forking`` is called with True before a fork and with False after it, in both processes; None
    where forking is not allowed. ``differs``: the inputs are not the ones that were planned,
    because executing the file again gave different ones.
    """

    launch: LaunchRun
    analyze: Analyze
    pipeline: RunPipeline
    tracee: Tracee
    forking: Callable[[bool], None] | None
    refusals: sandbox.Sandbox
    reads: Reads | None = None
    """Recorder of the files that user code reads; None if the server does not need them."""
    differs: bool = False
    watch: Stopwatch = field(default_factory=lambda: Stopwatch("process"))
    report: int = -1
    box: int = -1
    emitted: dict[str, Finding] = field(default_factory=dict)
    frames: tuple[FrameTime, ...] = ()
    dynamo: tuple[DynamoTime, ...] = ()
    cache_misses: int | None = None

    @property
    def id(self) -> RunId:
        return RunId(self.tracee.target.name, self.launch.probe, self.launch.part)

    def trace_and_report(self, ends: ProcessEnds) -> None:
        """Trace, measure or execute the target, as the request demands, and send the result to the
        main process over ``ends``."""
        self.watch = Stopwatch("process", self.launch.began)
        self.prepare_process(ends)
        if self.forking is not None:
            self.pipeline.note_operator_calls()
        else:
            self.send(StageBegun("run", self.launch.seconds))
        started = _monotonic()
        self.watch.enter_phase("findings")
        try:
            if self.differs:
                done = RunDone(self.changed_probe_report(), None)
            elif self.launch.part == "candidates":
                done = self.extract()
            elif self.launch.part in ("cases", "behavior", "behavior-again"):
                done = self.run_behavior()
            elif self.launch.part == "prepare":
                self.pipeline.prepare_compiler(self.refusals.let_start)
                done = self.untraced_result()
            elif self.launch.part == "measure":
                done = self.measure()
            elif self.launch.part == "numerics":
                done = self.judge_numerics()
            else:
                done = self.trace()
        except wire.ParentUnreachable:
            raise
        except BaseException as error:
            if isinstance(error, MemoryError):
                limits.lift_memory_limit()
            done = RunDone(self.report_failure(error, round(_monotonic() - started, 4)), None)
        missing = placeholder.find_raised_error(done.report.error or done.needs_real or "")
        if missing is not None:
            done = RunDone(replace(done.report, error=str(missing)), None)
        descriptors.flush_streams()
        if self.reads is not None:
            self.send(FilesRead.from_files(self.analyze.request, self.reads.new_states()))
        self.report_calls()
        if self.analyze.timings:
            phases, mode = self.watch.phase_times(), done.report.mode
            seconds = sum(one.seconds for one in phases)
            request = self.analyze.request
            self.send(
                Timings(
                    request,
                    self.id,
                    seconds,
                    phases,
                    self.frames,
                    self.dynamo,
                    mode,
                    self.cache_misses,
                )
            )
        self.send(done)

    def prepare_process(self, ends: ProcessEnds) -> None:
        """Attach the descriptors ``ends`` to this process, and set its signal handlers and
        limits."""
        ends.raise_all()
        self.report, self.box = ends.report, ends.box
        settle_process(ends, self.handle_interrupt, self.launch.memory, self.launch.seconds + GRACE)

    def handle_interrupt(self, number: int, frame: FrameType | None) -> None:
        try:
            stack = self.pipeline.user_stack(frame)
        except Exception:  # the interrupt may arrive in the middle of any operation
            stack = ()
        blackbox.at_stack(self.box, stack or frames.of_stack(frame))

    # -- sending messages ---------------------------------------------------------------------

    def send(self, event: Event | Upward) -> None:
        wire.write_message(self.report, event)

    def report_calls(self) -> None:
        if calls := self.pipeline.operator_calls():
            self.send(OperatorCalls(calls))

    def report_branch(self, message: BranchBegun | BranchAnswer) -> None:
        if isinstance(message, BranchAnswer):
            self.report_calls()  # the process ends after this message
        self.send(message)

    def emit(self, finding: Finding) -> None:
        finding = frames.drop_scratch_paths(finding, self.refusals.root)
        emitted = self.emitted
        if emitted.get(finding.identity) == finding and finding.identity:
            return
        if len(emitted) >= _MOST_FINDINGS and finding.identity not in emitted:
            return
        if finding.code.startswith("trace/") and placeholder.find_raised_error(finding.message):
            # This error comes from a placeholder, whose failed statement was already reported.
            return
        if f"({placeholder.Placeholder.__name__})" in finding.context:
            return  # Dynamo traced into a placeholder, whose failed statement was already reported
        if finding.code == "trace/eager-error":
            error = finding.message
            if self.refusals.is_explained(error):
                message = f"Refused while this code was traced: {error.partition(': ')[2]}"
                finding = replace(finding, code="trace/sandboxed", message=message)
            finding = self.refusals.explain_refusal(finding, error)
        if finding.code.startswith("graph-break/"):
            blackbox.at_place(self.box, finding.range)
        emitted[finding.identity or str(len(emitted))] = finding
        if self.launch.part != "forecast":  # in a forecast, one event contains all findings
            self.send(FindingFound(self.analyze.request, finding))

    def make_commission(self) -> DocumentRequest:
        """Return which documents (captured graphs, bytecode, ShapeEnv events) the run must write,
        and how to send them."""
        request = self.analyze
        saved = {one.number: one.archive for one in request.compare_events if one.run == self.id}
        return DocumentRequest(request.documents, self.report_document, request.save_events, saved)

    def report_document(self, attempt: str, part: DocumentPart) -> None:
        number, target = self.analyze.request, self.tracee.target.name
        attempt = f"{self.launch.mode} {attempt}"
        self.send(DocumentsWritten(number, target, self.id, attempt, (part,)))

    def forecast_recompiles(self, forecast: Any) -> None:
        number, target = self.analyze.request, self.tracee.target.name
        rows, found = tuple(forecast.rows), tuple(self.emitted.values())
        note, seconds = forecast.note, forecast.seconds
        self.send(ForecastFound(number, target, self.id, rows, found, note, seconds))

    # -- performing the run's purpose (part) --------------------------------------------------

    def trace(self) -> RunDone:
        launch = self.launch
        options: dict[str, Any] = {"watch": self.watch}
        if self.analyze.documents:
            options["documents"] = self.make_commission()
        if launch.part == "backend":
            options["compiler"] = self.analyze.compiler
        if launch.part in ("forecast", "paths"):
            descriptors.flush_streams()
            silence_output()
            until = _monotonic() + (1 - _LAST) * launch.seconds
            branch: Branches | Replay
            if self.forking is not None and not launch.speculative:
                branch = Branches(self.forking, until, launch.answers)
            else:
                branch = Replay(launch.answers, self.report_branch, until, last=launch.last)
            options["branch"] = branch
            if launch.part == "forecast":
                options["forecast_recompiles"] = self.forecast_recompiles
                options["forecast_rows"] = self.analyze.forecast_rows
            else:
                options["known"] = launch.known
        outcome = self.pipeline.run_target(self.tracee, launch.part, self.emit, self.id, **options)
        self.watch.enter_phase("sending")
        for finding in outcome.findings:
            self.emit(finding)
        self.report_observations(outcome)
        self.frames, self.dynamo = outcome.frame_times, outcome.dynamo_times
        self.cache_misses = outcome.cache_misses
        return RunDone(
            outcome.report,
            outcome.needs_real,
            outcome.further,
            outcome.raised,
            outcome.known,
            outcome.paths,
            outcome.unfound,
        )

    def report_observations(self, outcome: Outcome) -> None:
        """Send the values, shapes, guards and trace steps in ``outcome`` to the engine's main
        process."""
        number, target = self.analyze.request, self.tracee.target.name
        probe = self.launch.probe
        if outcome.values:
            self.send(ValuesSeen.from_values(number, target, outcome.values))
        if outcome.shapes:
            self.send(
                ShapesFound.from_places(number, target, outcome.shapes, outcome.shapes_note, probe)
            )
        if outcome.guards:
            self.send(
                GuardsFound.from_frames(number, target, outcome.guards, outcome.guards_note, probe)
            )
        if outcome.steps:
            steps = tuple(outcome.steps[:MOST_STEPS])
            left_out = len(outcome.steps) - len(steps)
            self.send(TraceStepsFound(number, target, steps, left_out, probe))

    def extract(self) -> RunDone:
        """Write short programs that may show the requested finding, and send them to the parent
        process, which tries them.

        Return a report on the target, as each run does.
        """
        assert self.analyze.wanted is not None
        until = self.launch.began + _EXTRACTING * self.launch.seconds
        extracted = self.pipeline.write_candidates(self.tracee, self.analyze.wanted, until)
        if extracted.needs_real is None:
            self.send(CandidatesMade(extracted.packed, extracted.reason))
        target, probe = self.tracee.target, self.tracee.probe
        report = TargetReport(target.name, target.kind, target.range, "traced", probe=probe.info)
        return RunDone(report, extracted.needs_real)

    def run_behavior(self) -> RunDone:
        """Choose inputs for comparing two versions of the target, or call the target with inputs
        chosen before.

        Return the result of the run.
        """
        order, part, probe = self.analyze.observe, self.launch.part, self.launch.probe
        assert order is not None
        if part == "cases":
            chosen = self.pipeline.choose_cases(self.tracee, order)
            self.send(CasesChosen(probe, chosen.packed, chosen.reason))
        elif order.compiled_by is not None:
            let_start = self.refusals.let_start
            tried = self.pipeline.try_backend(self.tracee, order, probe, let_start)
            self.send(BackendTried(tried.outcome, tried.reason))
        else:
            self.pipeline.record_behavior(self.tracee, order, part, probe)
        return self.untraced_result()

    def measure(self) -> RunDone:
        """Measure the time of the target's calls, send the measurement and return the result of the
        run."""
        found = self.pipeline.measure(self.tracee, self.refusals.let_start)
        self.send(Measured(self.analyze.request, self.tracee.target.name, self.id, found))
        return self.untraced_result()

    def judge_numerics(self) -> RunDone:
        """Compare compiled and eager results with float64, and send the verdict and the finding
        about a wrong result; return the result of the run."""
        judged = self.pipeline.judge_numerics(self.tracee, self.refusals.let_start)
        self.send(
            NumericsJudged(self.analyze.request, self.tracee.target.name, self.id, judged.verdict)
        )
        if judged.verdict.outcome == "wrong":
            self.emit(self.wrong_result(judged))
        return self.untraced_result()

    def wrong_result(self, judged: JudgedNumerics) -> Finding:
        """Return the finding that compiled code computes a wrong result, at the line of the
        operation that causes it; at the target if it is not known."""
        operation, target, path = judged.operation, self.tracee.target, self.analyze.path
        stack = frames.add_source_lines(judged.stack)
        here = frames.innermost_frame(stack, path)
        where = target.range
        if here is not None:
            where = frames.range_of(here, syntax.lines_of(self.analyze.text))
        message, explanation = "Compiled by Inductor, this gives a wrong result", ""
        if judged.is_captured_wrong:
            message = "Dynamo captures another computation, so that compiled results are wrong"
            explanation = ' The same happens with `torch.compile(…, backend="eager")`.'
        elif operation:
            message += f" from the operation `{operation}` on"
        return Finding(
            code="numerics/wrong-result",
            message=message,
            range=where,
            target=target.name,
            explanation=judged.verdict.reason + explanation,
            stack=stack,
            mode="real",
            identity=f"numerics/wrong-result@{place_words(where)}",
            run=self.id,
        )

    def untraced_result(self) -> RunDone:
        """Return the result of a run that called or measured the target without tracing it."""
        target, info = self.tracee.target, self.tracee.probe.info
        report = TargetReport(target.name, target.kind, target.range, "traced", "real", info)
        return RunDone(report, None)

    def changed_probe_report(self) -> TargetReport:
        """Return a report that the target was not traced, because a second execution of the file
        gave it other inputs than the first."""
        target, probe = self.tracee.target, self.tracee.probe
        reason = (
            f"Executing the file again gave `{target.name}` other inputs than before; write a "
            "probe comment for `{target.name}`."
        )
        return TargetReport(
            target.name, target.kind, target.range, "failed", probe=probe.info, error=reason
        )

    def report_failure(self, error: BaseException, seconds: float) -> TargetReport:
        """Send a finding for an exception from user code or from a bug in fullgraph, and return the
        target's report."""
        target = self.tracee.target
        mode: TraceMode = "fake" if self.tracee.fake else "real"
        stack = frames.of_traceback(error.__traceback__)
        here = frames.innermost_frame(stack, self.analyze.path)
        said = texts.type_and_message(error)
        if here is None:
            code, where = "trace/incomplete", target.range
            reason = f"fullgraph itself failed on this target: {said}"
            self.send(Log(self.analyze.request, "engine", texts.format_traceback(error)))
        else:
            lines = syntax.lines_of(self.analyze.text)
            code, where = "trace/eager-error", frames.range_of(here, lines)
            reason = f"The code raises here: {said}"
        self.emit(
            Finding(
                code=code,
                message=reason,
                range=where,
                target=target.name,
                stack=stack,
                mode=mode,
                identity=f"{code}@{place_words(where)}",
                run=self.id,
            )
        )
        return TargetReport(
            name=target.name,
            kind=target.kind,
            range=target.range,
            status="failed",
            mode=mode,
            probe=self.tracee.probe.info,
            seconds=seconds,
            error=reason,
        )


def settle_process(
    ends: ProcessEnds,
    interrupted: Callable[[int, FrameType | None], None],
    memory: int,
    seconds: float | None = None,
    *,
    forks: bool = False,
) -> None:
    """Connect a new run's process to the output channels ``ends``, and set its signal handlers and
    limits.

    ``interrupted`` handles the main process's signals. After ``seconds``, if given, the interpreter
    writes the stacks. ``memory`` is in MiB. ``forks``: processes forked later may raise these
    limits for themselves.
    """
    descriptors.attach_streams(ends.stdout, ends.stderr)
    limits.reset_signals(interrupted)
    blackbox.enable_fault_dump(ends.box)
    if seconds is not None:
        blackbox.dump_at(ends.box, seconds)
    limits.apply_limits(memory, forks=forks)
    confinement.isolate_process()
    exits.restore_exit()
    # Use the same random numbers after every edit, so that findings are reproducible.
    random.seed(0)
    placeholder.raised_errors.clear()


def exit_after(
    work: Callable[[], None], report: int, request: int, *, lost: Collection[int] = ()
) -> NoReturn:
    """Call ``work`` and end this process; log exceptions of the engine's code.

    ``report`` is the descriptor of the log. ``lost`` are the error numbers with which sending
    results raises ``OSError`` after user code has closed the pipe.
    """
    status = BROKEN
    try:
        work()
        status = 0
    except wire.ParentUnreachable:
        status = LOST
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in lost:
            status = LOST
        try:
            wire.write_message(report, Log(request, "engine", traceback.format_exc()))
        except BaseException:
            _exit(status)
    finally:
        _exit(status)


def main(run: Run, ends: ProcessEnds) -> NoReturn:
    """Perform the run (a trace of one target) and exit, even if user code has registered exit
    handlers or started threads."""
    status = BROKEN
    try:
        run.trace_and_report(ends)
        status = 0
    except wire.ParentUnreachable:
        status = LOST
    finally:
        _exit(status)
