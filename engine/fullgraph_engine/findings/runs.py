"""One run of a target (a function or module class): make the call, trace it, and derive
findings."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from .. import devices, exporting, texts, tracing
from ..documents import DocumentRequest
from ..documents.writer import DocumentWriter
from ..protocol import (
    Finding,
    FoundProbe,
    Part,
    ProbeInfo,
    ProbeOrigin,
    Range,
    RunId,
    SeenValue,
    Status,
    TargetReport,
    TracedPaths,
    TracePath,
)
from ..protocol.compilation import Compilation, CompilerCheck
from ..protocol.coverage import Coverage
from ..protocol.guards import GuardedFrame
from ..protocol.shapes import PlaceShapes
from ..protocol.timings import DynamoTime, FrameTime
from ..protocol.trace_steps import TraceStep
from ..stopwatch import Stopwatch
from ..targets import Call, NoProbe, NotCalled, ProbeError, Tracee, missing_probe, searched
from ..targets.synthesis import optional
from ..torch_internals import dynamo, fake_cache
from ..torch_internals.trees import pytree
from ..tracing import modes
from ..tracing.recording import (
    Break,
    Failure,
    Recording,
    TracedFrame,
    TracedLines,
)
from ..tracing.tensors import RunTensorMode
from ..tracing.variations import Inputs, replace_arguments
from . import (
    breaks,
    dimensions,
    explanations,
    exports,
    failures,
    guards,
    shapes,
    trace_steps,
    value_guards,
    values,
)
from .batch_sizes import BatchSizes
from .compiled_target import TargetCompiler
from .forecast import Branch, Forecaster, ForecastResult, WorkAnswer
from .ledger import Ledger
from .paths import (
    AskedValue,
    ExamplePath,
    Explorer,
    Policy,
    Traveled,
    alter_call,
    call_flags,
    recorded_answers,
)
from .places import SourceText
from .recording_findings import RecordingFindings

T = TypeVar("T")

OTHER_BRANCHES = 4
"""Maximum number of times that a target that raised with fake tensors is traced again, each time
with another value read from a tensor."""


@dataclass
class RunOutcome:
    """The result of tracing a target once with one set of inputs.

    ``needs_real`` is the reason to repeat the run with real tensors, empty if fake tensors
    sufficed.
    """

    report: TargetReport
    findings: list[Finding] = field(default_factory=list)
    needs_real: str | None = None
    values: tuple[SeenValue, ...] = ()
    shapes: tuple[PlaceShapes, ...] = ()
    shapes_note: str = ""
    guards: tuple[GuardedFrame, ...] = ()
    guards_note: str = ""
    steps: tuple[TraceStep, ...] = ()
    further: int = 0
    """Number of other calls of the target, with other dtypes, ranks or flags of the inputs, that
    should be traced too."""
    raised: bool = False
    """True if real tensors are needed because fake tensors raised, False if because the code reads
    values.
    """
    known: str = ""
    """Packed facts about the traced path, for a later run that traces alternative execution paths;
    empty if there are none."""
    paths: TracedPaths | None = None
    unfound: FoundProbe | None = None
    """Failed search for the inputs of the target; None if it succeeded or was not needed."""
    frame_times: tuple[FrameTime, ...] = ()
    dynamo_times: tuple[DynamoTime, ...] = ()
    cache_misses: int = 0

    def add_recording(self, recording: Recording, source: SourceText, fallback: Range) -> None:
        """Add the values, shapes, guards and graphs of a recording.

        ``fallback`` is the range of breaks outside of the file.
        """
        self.values = values.seen_values(recording, source)
        places = shapes.seen_shapes(recording, source)
        self.shapes, self.shapes_note = shapes.limit_places(places, recording)
        self.guards = guards.guarded_frames(recording, source)
        self.guards_note = guards.omission_note(recording)
        self.steps = trace_steps.steps_of_recording(recording, source, fallback)

    def add_frame_times(self, frames: Sequence[TracedFrame]) -> None:
        """Add the compile times of frames, in the order in which Dynamo finished them."""
        self.frame_times = tuple(
            FrameTime(one.function, one.path, one.line, one.outcome, round(one.seconds, 6))
            for one in frames
        )


def run_target(
    tracee: Tracee,
    part: Part,
    emit: Callable[[Finding], None],
    run: RunId | None = None,
    *,
    documents: DocumentRequest | None = None,
    branch: Branch | None = None,
    forecast_recompiles: Callable[[ForecastResult], None] | None = None,
    forecast_rows: bool = True,
    known: str = "",
    compiler: CompilerCheck = "off",
    watch: Stopwatch | None = None,
) -> RunOutcome:
    """Trace a target with its example inputs and report findings; return the result.

    ``part`` selects the purpose of the run. "first" traces the call and reports most findings.
    "second" makes batch dimensions dynamic, and only reports dimensions that the code specializes.
    "forecast" finds recompiles in later calls, and passes its result to ``forecast_recompiles``;
    without ``forecast_rows`` it skips changes that cannot become findings. "paths" traces
    alternative execution paths; ``known`` is the text from the result of "first". "backend"
    compiles the graphs with ``compiler``. Parts may run in parallel processes.

    ``branch`` evaluates functions in forked processes; "forecast" and "paths" need it. Findings go
    to ``emit`` as they arise, and again when their count grows. With the mode "auto" the run uses
    fake tensors and may stop early with ``needs_real``; with "fake" it never does.
    """
    started = time.perf_counter()
    times, misses = dynamo.phase_counts(), fake_cache.count_misses()
    tracing.want_cuda_for(tracee.text)
    ledger = Ledger(tracee, run or RunId(tracee.target.name), emit)
    attempt = _TargetRun(tracee, ledger)
    if watch is not None:
        attempt.watch = watch
    if documents is not None:
        attempt.writer = DocumentWriter(documents, tracee.path, tracee.text)

    needs_real: str | None = None
    try:
        if dynamo.config.disable:
            if part == "first":
                attempt.leave_disabled()
        elif part == "first":
            attempt.trace_first()
            attempt.look_for_inputs()
        elif part == "second":
            attempt.trace_second()
        elif part == "export":
            attempt.export()
        elif part == "backend":
            attempt.compile_graphs(compiler)
        elif part == "paths":
            if branch is not None and known:
                attempt.explore(branch, ExamplePath.from_text(known))
        elif branch is not None and forecast_recompiles is not None:
            made = attempt.forecast(branch, forecast_rows)
            if attempt.auto_failure is None:
                forecast_recompiles(made)
    except tracing.ValueNeeded as need:
        needs_real = _needs_value(need)
    if attempt.auto_failure is not None:
        needs_real = attempt.auto_failure
    report = attempt.report(time.perf_counter() - started)
    ledger.finish()
    further = attempt.count_further() if part == "first" and needs_real is None else 0
    outcome = RunOutcome(
        report,
        ledger.findings,
        needs_real,
        further=further,
        raised=attempt.auto_failure is not None,
        known=attempt.pack_example_path() if part == "first" else "",
        paths=attempt.paths,
        unfound=searched.unfound.get(tracee.target.name) if attempt.without_probe else None,
        dynamo_times=dynamo.phase_times_since(times),
        cache_misses=fake_cache.count_misses() - misses,
    )
    outcome.add_frame_times(attempt.all_frames)
    if attempt.recording is not None:
        outcome.add_recording(attempt.recording, attempt.source, tracee.target.range)
    return outcome


def _needs_value(need: tracing.ValueNeeded) -> str:
    return f"`{need}` needs a value that a fake tensor does not have"


class _TargetRun:
    """The state of one run of a target: its call, its traces and their results."""

    def __init__(self, tracee: Tracee, ledger: Ledger) -> None:
        self.tracee, self.target, self.ledger = tracee, tracee.target, ledger
        self.fake, self.auto = tracee.fake, tracee.mode == "auto"
        self.source = SourceText(tracee.path, tracee.text)
        self.info: ProbeInfo = tracee.probe.info
        self.recording: Recording | None = None
        self.error: str | None = None
        self.auto_failure: str | None = None
        self.finished = False
        self.without_probe = False
        """True if no call to trace could be built, because the target's inputs are unknown."""
        self.uncalled = False
        """True if the code that uses the target was executed, but did not call it."""
        self.writer: DocumentWriter | None = None
        self.lines: TracedLines | None = None
        self.paths = TracedPaths()
        self.compilation: Compilation | None = None
        self.watch = Stopwatch("findings")
        self._call: Call | None = None
        self._training = False
        self._read = False
        """True if code read values of real tensors, as by ``item()``."""
        self.all_frames: list[TracedFrame] = []
        """Frames that Dynamo compiled in all traces of this run."""
        self._truths: list[int] = []
        self._doubtful = False
        self._raises = False
        """True if the target raises without Dynamo too, or if the inputs do not fit its
        signature."""
        self.names_sizes = explanations.may_apply(tracee.text)
        self.findings = RecordingFindings(self.source, self.target, ledger)

    @contextlib.contextmanager
    def _tensor_mode(self) -> Iterator[RunTensorMode | None]:
        """Activate a new fake tensor mode in the ``with`` block; yield None, without a mode, for
        real tensors."""
        with tracing.tensor_mode(self.fake) as mode:
            if mode is not None:
                mode.restart()
                mode.prefer_real = False
            yield mode

    # -- the first and the second trace ----------------------------------------------------------

    def trace_first(self) -> None:
        """Trace the call with the example inputs as given."""
        with tracing.tensor_mode(self.fake) as mode:
            turned: frozenset[int] = frozenset()
            for left in range(OTHER_BRANCHES, -1, -1):
                self.ledger.begin()
                if mode is not None:
                    mode.restart(turned)
                    mode.real_follows = self.auto
                    self._truths = mode.bool_choices
                built = self._build_call()
                if built is None:
                    return
                call = built
                if mode is not None and call.comment:
                    mode.restart(turned)  # Ignore values that were read only to build the call
                self.uncalled = call.uncalled
                # Collect this before the call, which may change its inputs.
                training = bool(getattr(call.function, "training", False))
                self._doubtful = call.is_doubtful
                recording = self._trace_call(call, mode)
                if recording.failure is None or mode is None or not mode.bool_choices or not left:
                    break
                # A value chosen for a fake tensor caused the exception, which does not show a bug:
                # invert the last choice that was not inverted yet.
                untried = [number for number in mode.bool_choices if number not in turned]
                if not untried:
                    break
                turned = frozenset(n for n in turned if n < untried[-1]) | {untried[-1]}
                dynamo.reset()
            while recording.failure is not None:
                wrong = self._misleading_failure(call)
                if wrong is None:
                    break
                other = self._instead_of(call, wrong)
                if other is None:
                    return
                call, training = other, bool(getattr(other.function, "training", False))
                recording = self._trace_call(call, mode)
            self.recording, self._call = recording, call
            self._training = training
            self.lines = recording.lines
            self._read = mode is None or mode.has_read_kept_value
            self.findings.report(recording)
            if recording.failure is None:
                self.finished = True
            else:
                self._report_failure(recording.failure, call)
            self.findings.explain(recording)

    def look_for_inputs(self) -> None:
        """If the call raises with the user's own inputs, search for inputs with which it does not,
        to suggest them."""
        if not self._raises:
            return
        with self._tensor_mode(), self.watch.count_as("inputs"):
            comment = self.tracee.find_replacement(built=self._call is not None)
        self.info = dataclasses.replace(self.info, comment=comment)

    def _misleading_failure(self, call: Call) -> Failure | None:
        """Return the exception that a call raises without Dynamo, if its inputs were only observed
        in code that may be outdated.

        Return None if it does not raise, or if the inputs are reliable.
        """
        if not call.is_doubtful or (self.auto and call.fits_real_tensors()):
            return None
        return _eager_failure(call)

    def _instead_of(self, call: Call, wrong: Failure) -> Call | None:
        """Return a call with inputs from another source, after a call with unreliable inputs raised
        ``wrong`` without Dynamo.

        Without another source, return None and report that the target's inputs are unknown.
        """
        self.ledger.begin()
        dynamo.reset()
        self.uncalled = True
        place = ", ".join(filter(None, (call.source, call.context.words)))
        subject = f"{self.target.name}, {place}," if place else self.target.name
        words = f"{subject} raises {_one_line(wrong)}."
        try:
            if call.otherwise is not None:
                return call.otherwise()
        except ProbeError as error:
            words = f"{words} {texts.error_message(error)}"
        self._report_without(NoProbe(words))
        return None

    def _trace_call(self, call: Call, mode: Any) -> Recording:
        inputs = call.inputs or self.info.inputs
        self.info = dataclasses.replace(
            self.info, inputs=inputs, same_as=call.same_as, context=call.context.words
        )
        if call.source:
            origin: ProbeOrigin = "synthesis" if call.source == "synthesis" else "harvest"
            self.info = dataclasses.replace(
                self.info,
                origin=origin,
                init=call.init,
                source=call.source,
                comment=call.comment,
                unusual=call.unusual,
                shortened=call.shortened,
            )
        elif call.shortened:
            self.info = dataclasses.replace(self.info, init=call.init, shortened=call.shortened)
        self.findings.given = value_guards.CalledWith.from_call(
            call.function, call.args, call.kwargs
        )
        self.findings.asked_dynamic = bool(call.all_dynamic)
        if mode is not None:
            mode.prefer_real = self.auto and call.fits_real_tensors()
            mode.has_read_kept_value = False
        wanted = self.findings.asked_dynamic or self.names_sizes
        with self._document_writer() as witness, self.findings.record_tapes(wanted):
            self.watch.enter_phase("trace")
            recording = tracing.trace(
                call.function,
                call.args,
                call.kwargs,
                dynamic=[(wish.tensor, wish.dim) for wish in call.all_dynamic],
                symbols=[wish.symbol for wish in call.all_dynamic],
                on_break=self._saw_break,
                file=self.source.path,
                witness=witness,
                enter=call.context.enter,
                then=call.then,
            )
            self.watch.enter_phase("findings")
        self.all_frames += recording.frames
        return recording

    def _document_writer(
        self, *, sizes_only: bool = False
    ) -> AbstractContextManager[DocumentWriter | None]:
        if self.writer is None:
            return contextlib.nullcontext()
        return self.writer.write_attempt(sizes_only=sizes_only)

    def trace_second(self) -> None:
        """Trace the call again with dynamic batch dimensions, and report dimensions that the code
        specializes."""
        with self._tensor_mode():
            try:
                call = self.tracee.call()
            except BaseException:
                return
            varied = wishes = batch_dimensions(call)
            if call.dynamic or not wishes or call.unusual:
                return
            sizes = BatchSizes(call, wishes)
            recording = self._trace_varied(call, wishes)
            if dimensions.has_specialized_size(recording):
                with call.context.enter():
                    trial = sizes.try_sizes()
                if trial.verdict == "fixed":
                    return  # a parameter or another input fixes the batch size; the code does not
                if len(trial.dimensions) not in (0, len(wishes)):
                    # In other inputs, the batch is in another dimension or missing.
                    dynamo.reset()
                    call = self.tracee.call()
                    varied = sizes.find_tensors(call, trial.dimensions)
                    recording = self._trace_varied(call, varied)
                self.findings.retraced_raises = trial.verdict == "constant"
            failure = recording.failure
            if failure is not None and failure.kind == "ConstraintViolationError":
                return  # the target's first run reports that the file requests dynamic sizes
            axes = frozenset(dim for _, dim in varied)
            self.findings.report_specialized(recording, tried=True, axes=axes)
            self.findings.explain(recording)

    def _trace_varied(self, call: Call, batch: list[tuple[torch.Tensor, int]]) -> Recording:
        """Trace a call with dynamic dimensions, given in ``batch`` as pairs of an input tensor and
        a dimension number."""
        with (
            self._document_writer(sizes_only=True),
            self.findings.record_tapes(),
            call.context.enter(),
        ):
            self.watch.enter_phase("trace")
            recording = tracing.trace(call.function, call.args, call.kwargs, dynamic=batch)
            self.watch.enter_phase("findings")
        self.all_frames += recording.frames
        return recording

    def export(self) -> None:
        """Export the call with ``torch.export`` and report problems.

        In mode "auto", request a repetition with real tensors instead, if memory and devices
        suffice for them.
        """
        with self._tensor_mode():
            call = self._call_unless_real("torch.export reports more with real tensors")
            if call is None:
                return
            with call.context.enter():
                made = exporting.export_target(call, real=not self.fake)
            if made.failure is not None and _eager_failure(call) is not None:
                return  # the eager call fails too, so the failure does not concern the export
            checked = () if self.fake else exporting.check_operators(call, self.tracee.text)
            for finding in exports.export_findings(made, checked, self.source, self.target.range):
                self.ledger.add(finding)

    def _call_unless_real(self, reason: str) -> Call | None:
        """Build the target's call; None if that raises, because the first trace reports the
        exception.

        Also None in mode "auto" if memory and devices suffice for real tensors: then request a
        repetition with them, because of ``reason``.

        Raises:
            ValueNeeded: The code needs the value of a fake tensor.
        """
        try:
            call = self.tracee.call()
        except tracing.ValueNeeded:
            raise
        except BaseException:
            return None
        if self.auto and call.fits_real_tensors():
            self.auto_failure = reason
            return None
        return call

    def compile_graphs(self, compiler: CompilerCheck) -> None:
        """Compile the graphs of the call with AOTAutograd and Inductor, and report problems.

        In mode "auto", request a repetition with real tensors instead, if memory and devices
        suffice for them.
        """
        with self._tensor_mode() as mode:
            call = self._call_unless_real("compilers choose strides and kernels by real tensors")
            if call is None:
                return
            restart = mode.restart if mode is not None else _do_nothing
            made = TargetCompiler(self.tracee, self.source, compiler, restart).run(call)
            self.compilation, self.finished = made.result, True
            for finding in made.findings:
                self.ledger.add(finding)

    def forecast(self, branch: Branch, rows: bool) -> ForecastResult:
        """Call the target again with other sizes and values, and report which calls recompile.

        ``branch`` runs each experiment in a forked process. Without ``rows``, changes that cannot
        become findings are skipped.
        """
        with self._tensor_mode() as mode:
            begin = mode.restart if mode is not None else _do_nothing
            try:
                call = self.tracee.call()
            except tracing.ValueNeeded:
                raise
            except BaseException as error:
                words = _one_line(tracing.failure_of(error))
                return ForecastResult(
                    note=f"The function, module or example inputs could not be created: {words}"
                )
            real = self.auto and call.fits_real_tensors()
            if mode is not None:
                mode.prefer_real = real

            def run_apart(work: Callable[[], T], seconds: float, name: str) -> WorkAnswer[T]:
                def run_chosen() -> T:
                    # Other sizes may require more values of fake tensors. Choose them: an exact
                    # value would require another run with real tensors.
                    if mode is not None:
                        mode.prefer_real = False
                    return work()

                return branch(run_chosen, seconds, name)

            if call.unusual:
                return ForecastResult(
                    note="Other inputs were not tried, because the guessed inputs are unusual "
                    f"({call.unusual})."
                )
            batch = batch_dimensions(call)
            range_ = self.target.range
            with call.context.enter():
                made = Forecaster(call, self.source, range_, run_apart, begin, batch, rows).run()
            if made.raised and real:
                self.auto_failure = "the trace with fake tensors raised"
                return made
            for finding in made.findings:
                self.ledger.add(finding)
            return made

    def pack_example_path(self) -> str:
        """Return facts about the traced path as text, for a run that traces alternative execution
        paths; empty if there are none."""
        recording, call = self.recording, self._call
        if recording is None or call is None or self.auto_failure is not None:
            return ""
        module: Any = call.function
        matters = modes.can_mode_matter(module, mode_read_elsewhere=recording.lines.reads_mode)
        example = ExamplePath(
            dataclasses.replace(recording.lines, reads_mode=False),
            training=self._training if matters else None,
            identities=frozenset(finding.identity for finding in self.ledger.findings),
        )
        if self.finished:
            example = dataclasses.replace(
                example,
                asked=self._read or bool(recording.chosen),
                complete=not self._read,
                answers=tuple(recorded_answers(recording, self.source)),
                flags=tuple(call_flags(call)),
            )
        # Exploration needs the flags only if the trace finished. It needs the mode even after an
        # exception, which may occur in one mode only.
        explorer = Explorer(self.source, example)
        if example.asked and not example.complete and not explorer.could_answer(recording):
            example = dataclasses.replace(example, asked=False)
            explorer = Explorer(self.source, example)
        return example.to_text() if explorer.begin() else ""

    def explore(self, branch: Branch, example: ExamplePath) -> None:
        """Trace alternative execution paths, and report findings that the path of the example
        inputs does not have.

        ``branch`` runs each path in a forked process. ``example`` is the path of the example
        inputs.
        """
        if not self.fake:
            # Real tensors have their own values, so none were chosen.
            example = dataclasses.replace(example, asked=False)
        explorer = Explorer(self.source, example)
        explorer.run(self._travel_path, self._find_value, branch, self.ledger.add)
        self.paths, self.lines, self.finished = explorer.traced, explorer.lines, True
        if self.auto and explorer.could_be_real:
            self.auto_failure = "the traces with fake tensors raised"

    def _travel_path(self, path: TracePath, turned: frozenset[Range]) -> Traveled:
        """Trace one execution path and return the result; call it in a separate process.

        ``turned`` are the source ranges where truth values read from tensors are inverted.
        """
        ledger = Ledger(self.tracee, RunId(self.tracee.target.name, 0, "paths"), lambda _: None)
        attempt = _TargetRun(self.tracee, ledger)
        attempt.auto = False
        policy = Policy(path.answers, turned, self.source)
        with self._tensor_mode() as mode:
            if mode is not None:
                mode.override_choice = policy
            try:
                call = alter_call(self.tracee.call(), path)
            except BaseException as error:
                return Traveled(failure=_one_line(tracing.failure_of(error)))
            if mode is not None:
                # The inputs contain arbitrary data.
                mode.drop_values((call.args, call.kwargs))
                policy.asked.clear()
            could_be_real = call.fits_real_tensors()
            recording = attempt._trace_call(call, mode)
            failure = recording.failure
            if failure is None:
                attempt.findings.report(recording)
                attempt.findings.explain(recording)
                ledger.finish()
        return Traveled(
            tuple(ledger.findings),
            recording.lines,
            tuple(AskedValue(place, answer) for place, answer in policy.asked.items()),
            "" if failure is None else f"it raised {_one_line(failure)}",
            could_be_real,
        )

    def _find_value(self, name: str) -> str:
        """Return a value for an optional argument, as text such as ``f32[4]``; empty if none was
        found.

        Call it in a separate process, because the tried calls may change the module.
        """
        with self._tensor_mode():
            try:
                call = self.tracee.call()
            except BaseException:
                return ""

            inputs = Inputs(call.function, call.args, call.kwargs)

            def attempt(value: object) -> None:
                args, kwargs, _ = inputs.make_arguments()
                args, kwargs = replace_arguments(call.function, args, kwargs, {name: value})
                tracing.call_eagerly(call.function, args, kwargs)

            tensors = [one.value for one in inputs.leaves if isinstance(one.value, torch.Tensor)]
            return optional.find_fitting_value(call.function, name, tensors, attempt)

    def leave_disabled(self) -> None:
        """Report that a setting disables Dynamo, since a result without findings would suggest a
        target without problems."""
        finding = failures.disabled_finding(self.source)
        self.error = finding.message
        self.ledger.add(finding)

    def _build_call(self) -> Call | None:
        try:
            with self.watch.count_as("inputs"):
                return self.tracee.call()
        except tracing.ValueNeeded as need:
            if not self.auto:
                raise
            # The call itself depends on the mode, so the other execution paths need it too.
            self.auto_failure = _needs_value(need)
            return None
        except NoProbe as error:
            self._report_without(error)
            return None
        except ProbeError as error:
            self.error = texts.error_message(error)
            self.ledger.add(
                failures.probe_finding(self.error, _place_in_probe(self.tracee, error.about))
            )
            self._raises = True
            return None
        except BaseException as error:
            self._report_failure(tracing.failure_of(error), None)
            return None

    def _report_without(self, error: NoProbe) -> None:
        """Report that the target's inputs are unknown; or, if real tensors may help to observe
        them, that real tensors are needed."""
        if self.auto and isinstance(error, NotCalled) and error.may_use_real:
            self.auto_failure = texts.error_message(error)
            return
        self.without_probe = True
        self.uncalled |= error.uncalled
        self.error = texts.error_message(error)
        self.ledger.add(missing_probe(self.target, self.tracee.text, self.error))

    def count_further(self) -> int:
        """Return the number of other calls of the target, with other dtypes, ranks or flags of the
        inputs, to trace in further runs."""
        if self.without_probe or self.uncalled:
            return 0
        with self._tensor_mode():
            return self.tracee.probe.count_further(self.tracee.namespace)

    # -- reports ----------------------------------------------------------------------------------

    def _saw_break(self, record: Break) -> None:
        # An exception caused by a chosen value, or by inputs that may be outdated, starts another
        # attempt.
        finding = breaks.break_finding(record, self.source, self.target.range)
        self.ledger.add_break(finding, record, sure=not self._truths and not self._doubtful)

    def _report_failure(self, failure: Failure, call: Call | None) -> None:
        self.error = _one_line(failure)
        could_be_real = call is None or call.fits_real_tensors()
        if self.auto and could_be_real and not devices.is_missing_gpu_error(failure.message):
            # Real tensors will show whether the program or only its fake tensors failed.
            self.auto_failure = f"the trace with fake tensors ended with {self.error}"
            return
        if call is not None and (failure.phase == "tracer" or failure.in_graph):
            # The program's own exception explains more than Dynamo's.
            eager = _eager_failure(call)
            # An operator without a fake implementation fails on fake tensors only.
            if eager is not None and not (self.fake and failures.lacks_fake(eager)):
                failure = eager
            self.error = _one_line(failure)
        elif call is not None and not self.fake and _eager_failure(call) is None:
            # Code after a graph break raises, but not without Dynamo.
            failure = dataclasses.replace(failure, phase="tracer")
        chosen = len(self.recording.chosen) if self.recording is not None else 0
        finding = failures.failure_finding(
            failure, self.source, self.target.range, fake=self.fake, chosen=chosen
        )
        if self.recording is not None:
            finding = self.findings.explain_failure(finding, self.recording)
        if call is not None and call.guess_note:
            finding = dataclasses.replace(finding, notes=(*finding.notes, call.guess_note))
        self.ledger.add(finding)
        self._raises = finding.code == failures.RAISES

    def report(self, seconds: float) -> TargetReport:
        recording = self.recording
        status: Status = "traced" if self.finished else "failed"
        if self.without_probe:
            status = "no-probe"
        return TargetReport(
            name=self.target.name,
            kind=self.target.kind,
            range=self.target.range,
            status=status,
            mode="fake" if self.fake else "real",
            probe=None if self.without_probe else self.info,
            graphs=len(recording.graphs) if recording else 0,
            ops=recording.op_count if recording else 0,
            breaks=self.ledger.count("graph-break/"),
            skips=self.ledger.count("frame-skipped/"),
            guards=recording.guard_count if recording else 0,
            recompiles=len(recording.recompiles) if recording else 0,
            seconds=round(seconds, 4),
            error=self.error,
            chosen=len(recording.chosen) if recording else 0,
            coverage=self._coverage,
            paths=self.paths.reports,
            uncalled=self.uncalled,
            compilation=self.compilation,
        )

    @property
    def _coverage(self) -> Coverage | None:
        if self.lines is None:
            return None
        return Coverage.from_ranges(self.lines.traced, self.lines.entered)


def _place_in_probe(tracee: Tracee, word: str) -> Range:
    """Return the range of the last ``word`` in the user's comment with example inputs; of the whole
    comment if ``word`` is empty.

    Without such a comment, return the range of the target's name.
    """
    written = tracee.probe.written
    if written is None:
        return tracee.target.range
    *_, last = [None, *re.finditer(rf"\b{re.escape(word)}\b", written.comment.text)]
    return written.comment.span(*last.span()) if word and last else written.comment.range


def _eager_failure(call: Call) -> Failure | None:
    """Return the exception that a call raises without Dynamo; None if it does not raise."""
    try:
        with call.context.enter():
            tracing.call_eagerly(call.function, call.args, call.kwargs)
        for one in call.then:
            with one.enter():
                tracing.call_eagerly(one.function, one.args, one.kwargs)
    except tracing.ValueNeeded:
        return None
    except BaseException as error:
        return tracing.failure_of(error)
    return None


def _do_nothing() -> None:
    pass


def _one_line(failure: Failure) -> str:
    first_line = failure.message.split("\n")[0]
    return f"{failure.kind}: {first_line}" if first_line else failure.kind


def batch_dimensions(call: Call) -> list[tuple[torch.Tensor, int]]:
    """Return the inputs' first dimensions, as (tensor, 0), whose size equals the first size of the
    first tensor.

    Sizes 0 and 1 are left out: Dynamo always specializes them, whatever the code does.
    """
    tensors = [
        leaf
        for leaf in pytree.tree_leaves((call.args, call.kwargs))
        if isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and type(leaf.shape[0]) is int
    ]
    if not tensors or tensors[0].shape[0] < 2:
        return []
    return [(tensor, 0) for tensor in tensors if tensor.shape[0] == tensors[0].shape[0]]
