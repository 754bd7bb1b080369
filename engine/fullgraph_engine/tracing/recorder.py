"""Record what Dynamo does, from the events that :mod:`.hooks` pass on."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

from .. import texts
from ..protocol.evidence import BreakOutcome, Resolution
from ..torch_internals import breaks, dynamo, frames, graphs
from ..torch_internals.exceptions import RecompileLimitError
from ..torch_internals.shapes import deferred_asserts, source_of_symbol
from . import causes, failed_guards, guards, limits, nodes, stacks
from .instructions import InstructionListeners
from .lines import LineRecorder
from .observer import Witness
from .recording import (
    Break,
    Cause,
    CompilerCheck,
    CustomOp,
    Equality,
    Graph,
    Limit,
    Recompile,
    Recording,
    RuntimeAssert,
    Skip,
    Specialization,
    Stack,
    Symbol,
    TracedFrame,
)
from .shapes_seen import ShapeRecorder
from .values import ValueRecorder

_active_recorder: Recorder | None = None
_FAILS_AT_LIMIT = "fail_on_recompile_limit_hit"
"""Name of the setting of ``torch._dynamo.config`` that makes Dynamo raise at the recompile
limit.
"""


_SUPPRESSED = ("an error was suppressed", "compilation failed with exception-directed")
"""Beginnings of Dynamo's reasons for skipping a frame because it suppressed an error."""


def active_recorder() -> Recorder | None:
    """Return the recorder of the run in progress, or None."""
    return _active_recorder


@contextlib.contextmanager
def suppress_errors(recorder: Recorder) -> Iterator[None]:
    """Suppress an exception raised in the ``with`` block, and record that the recording may be
    incomplete.

    Dynamo does not see the exception.
    """
    try:
        yield
    except Exception as error:
        recorder.record_loss(error)


class Recorder:
    """A recorder that fills one :class:`Recording` with what Dynamo does.

    ``on_break`` is called immediately for every graph break. ``bottom`` is the code object of the
    function that starts the traced call: frames outside it are not the user's. Values and shapes
    are recorded for the code of ``file``.
    """

    def __init__(
        self,
        bottom: types.CodeType | None = None,
        on_break: Callable[[Break], None] | None = None,
        file: str = "",
        witness: Witness | None = None,
    ) -> None:
        self.witness = witness
        self.recording = Recording()
        self.instructions = InstructionListeners(file, self.record_loss)
        self.values = ValueRecorder(self.instructions)
        self.shapes = ShapeRecorder(self.instructions)
        self.lines = LineRecorder(self.instructions)
        self.guards = guards.GuardRecorder(self.recording)
        self.bottom = bottom
        self.on_break = on_break
        self._open_frames: list[int] = []
        self._frame_count = 0
        self._codes: list[types.CodeType] = []
        self._assert_stacks: dict[tuple[int, str], Stack] = {}
        self._last_unlogged: BaseException | None = None
        self._last_skip = ""

    @contextlib.contextmanager
    def listen(self) -> Iterator[Recording]:
        """Record what Dynamo does until the ``with`` block ends. Only one recorder can be active in
        a process.
        """
        global _active_recorder
        previous, _active_recorder = _active_recorder, self
        try:
            yield self.recording
        finally:
            _active_recorder = previous
            self.collect_results()

    def collect_results(self) -> None:
        """Copy the values, shapes and executed lines that the hooks collected into the
        recording."""
        with suppress_errors(self):
            self.recording.seen = self.values.collect()
        with suppress_errors(self):
            failure = self.recording.failure
            failed = failure is not None and failure.phase == "tracer"
            self.recording.shapes = self.shapes.collect(failed)
            self.recording.shapes_left_out = self.shapes.left_out
        with suppress_errors(self):
            self.recording.lines = self.lines.collect()

    def record_loss(self, error: Exception) -> None:
        """Record an internal error of the recorder, because the recording may now be incomplete."""
        loss = f"{type(error).__name__}: {error}"
        if loss not in self.recording.losses:
            self.recording.losses.append(loss)

    # -- events from the hooks ----------------------------------------------------------------

    @property
    def frame(self) -> int:
        return self._open_frames[-1] if self._open_frames else -1

    def enter_frame(self, code: types.CodeType) -> int:
        self._frame_count += 1
        self._open_frames.append(self._frame_count - 1)
        if self.witness is not None:
            with suppress_errors(self):
                self.witness.enter_frame(self.frame, code)
        return self._frame_count - 1

    def code_number(self, code: types.CodeType) -> int:
        """Return the number of a compiled code object in this run.

        Code objects are compared by identity, because equal code objects are compiled separately.
        """
        for number, known in enumerate(self._codes):
            if known is code:
                return number
        self._codes.append(code)
        return len(self._codes) - 1

    def leave_frame(self, frame: TracedFrame) -> None:
        self._open_frames.pop()
        self.recording.frames.append(frame)
        with suppress_errors(self):
            self.shapes.leave_frame(frame.id, self.frame, frame.outcome)
        if self.witness is not None:
            with suppress_errors(self):
                self.witness.leave_frame(frame)

    def note_unsupported(self, error: BaseException) -> None:
        self._last_unlogged = error

    def record_break(self, error: BaseException, outcome: BreakOutcome, traced: Stack) -> None:
        """Record a graph break that Dynamo acted on; ``error`` is its exception.

        ``outcome`` says how Dynamo continued. ``traced`` is the stack of the user functions that
        Dynamo was tracing.
        """
        if getattr(error, "_fullgraph_recorded", False):
            return
        with contextlib.suppress(AttributeError):
            error._fullgraph_recorded = True  # type: ignore[attr-defined]
        if stacks.is_in_engine(traced):
            return
        chain = causes.cause_chain(error)
        number = breaks.break_numbers().get(chain[0].kind, "")
        record = Break(
            # Dynamo reports some errors only after it left their frame.
            frame=self.frame if self._open_frames else self._frame_count - 1,
            id=number,
            causes=chain,
            message=texts.plain(str(getattr(error, "msg", error))),
            outcome=outcome,
            stack=stacks.join_stacks(stacks.caller_stack(self.bottom), traced),
            href=breaks.break_page_url(number),
            inlined=len(traced),
            operator=str(getattr(error, "_hop_name", "")),
            hook=stacks.find_module_hook(self.bottom, traced),
            ops=nodes.count_calls(frames.current_translator()),
        )
        self.recording.breaks.append(record)
        if self.witness is not None:
            self.witness.observe_break(record)
        if self.on_break is not None:
            self.on_break(record)

    def record_unresumable_break(self) -> None:
        """Record the latest graph break as one at which Dynamo cannot resume.

        Dynamo then ends the graph at an earlier instruction and runs the rest of the frame in eager
        mode.
        """
        error = self._last_unlogged
        if error is not None:
            self.record_break(error, "rest-skipped", getattr(error, "_fullgraph_stack", ()))

    def note_skip_reason(self, reason: str) -> None:
        """Store Dynamo's reason for skipping the current frame, until the skip is recorded."""
        self._last_skip = reason
        breaks = self.recording.breaks
        if frames.is_skip_after_break(reason) and breaks and breaks[-1].frame == self.frame:
            first_line = reason.partition("\n")[0]
            chain = (*breaks[-1].causes, Cause("graph break in loop", first_line))
            breaks[-1] = dataclasses.replace(breaks[-1], outcome="frame-skipped", causes=chain)
            if self.on_break is not None:
                self.on_break(breaks[-1])

    def _unreported_reason(self, error: BaseException | None) -> str:
        """Return Dynamo's reason for skipping a frame. Torch up to 2.12 does not report it.

        ``error`` is the exception of the compilation, if any.
        """
        if self._last_skip:
            return f"Dynamo decided to skip the frame while tracing: {self._last_skip}"
        return "an error was suppressed during compilation" if error is not None else ""

    def record_skip(self, reason: str, code: types.CodeType) -> None:
        error, self._last_unlogged = self._last_unlogged, None
        already_recorded = frames.is_skip_after_break(self._last_skip)
        reason = texts.plain(reason or self._unreported_reason(error))
        self._last_skip = ""
        if already_recorded or not reason:
            return  # torch up to 2.12 does not state a reason and did not trace the frame
        last = self.recording.recompiles[-1] if self.recording.recompiles else None
        if last is not None and last.limit and _is_code_of(last, code):
            return  # already recorded as the recompile limit
        if reason.startswith(_SUPPRESSED) and error is not None:
            if getattr(error, "_fullgraph_recorded", False):
                return
            if hasattr(error, "compile_id") and hasattr(error, "real_stack"):
                # These attributes mark a graph break raised outside the symbolic interpreter;
                # Dynamo uses them to decide whether to log it. Up to torch 2.10, breaks after which
                # Dynamo cannot resume have them too.

                traced = getattr(error, "_fullgraph_stack", ()) or (
                    stacks.make_frame(code, None, None),
                )
                self.record_break(error, "frame-skipped", traced)
                return
            # This is not a graph break, because Dynamo had not started a graph. For example, a
            # generator cannot be compiled by itself.
            first = causes.cause_chain(error)[0]
            reason = f"{first.kind}: {first.explanation}" if first.explanation else first.kind
        if stacks.is_torch(code.co_filename):
            return  # torch's own functions cause hundreds of skips per run
        name = frames.original_name(code.co_name)
        skip = Skip(
            code.co_filename,
            name,
            code.co_firstlineno - 1,
            reason,
            stacks.caller_stack(self.bottom),
            resumed=name != code.co_name,
        )
        self.recording.skips.append(skip)
        if self.witness is not None:
            self.witness.observe_skip(skip)

    def record_graph(self, output: Any, module: Any) -> None:
        """Record a captured graph before the backend gets it.

        ``output`` is Dynamo's ``OutputGraph``, and ``module`` the ``torch.fx.GraphModule``.
        """
        shape_env = graphs.find_shape_env(output)
        graph = Graph(self.frame, *nodes.list_ops(module))
        self.recording.graphs.append(graph)
        self.shapes.set_graph(len(self.recording.graphs))
        if self.witness is not None:
            with suppress_errors(self):
                self.witness.capture_graph(graph, module)
        self._record_limits(shape_env)
        for item in deferred_asserts(shape_env):
            expression = str(item.expr)
            stack = self._assert_stacks.get((id(shape_env), expression), ())
            self.recording.asserts.append(
                RuntimeAssert(self.frame, expression, str(item.msg), stack)
            )

    def _record_limits(self, shape_env: Any) -> None:
        for bounds in limits.find_bounds(shape_env):
            symbol, source = str(bounds.symbol), source_of_symbol(shape_env, bounds.symbol)
            stack = self.guards.find_stack(bounds.location)
            self.recording.limits.append(
                Limit(
                    self.frame,
                    symbol,
                    source,
                    bounds.condition,
                    bounds.size,
                    bounds.low,
                    bounds.high,
                    stack,
                )
            )

    def record_deferred_asserts(self, shape_env: Any, before: set[int]) -> None:
        """Record the current user stack for the runtime assertions that a ShapeEnv has just
        deferred.

        ``before`` has the ``id`` of each assertion that existed earlier.
        """
        for item in deferred_asserts(shape_env):
            if id(item) not in before:
                self._assert_stacks[id(shape_env), str(item.expr)] = self.current_stack()

    def record_symbol(self, symbol: str, source: str, hint: int | None) -> None:
        letter = self.shapes.note_symbol(symbol, source, hint)
        created = Symbol(self.frame, symbol, source, hint, self.current_stack(), letter)
        self.recording.symbols.append(created)

    def record_specialization(self, shape_env: Any, symbol: Any, value: str, reason: str) -> None:
        source = source_of_symbol(shape_env, symbol)
        self.recording.specializations.append(
            Specialization(self.frame, str(symbol), source, value, reason, self.current_stack())
        )

    def record_equality(self, symbol: Any, value: Any) -> None:
        self.recording.equalities.append(
            Equality(self.frame, str(symbol), str(value), self.current_stack())
        )

    def current_stack(self) -> Stack:
        return stacks.join_stacks(
            stacks.caller_stack(self.bottom),
            stacks.stack_of_translator(frames.current_translator()),
        )

    def record_guards(self, code: types.CodeType, tree: Any) -> None:
        """Record the guard tree of the current frame, after Dynamo has finished it."""
        before = len(self.recording.guards)
        self.guards.record_tree(self.frame, code, tree)
        failed_guards.store_guards(tree, self.recording.guards[before:])

    def record_recompile(self, frame: Any, cache_entries: Any, reasons: Any) -> None:
        """Record a recompile: no earlier compilation of a frame's code fits the values of the call.

        ``cache_entries`` are the earlier compilations, and ``reasons`` Dynamo's messages.
        """
        code = frame.f_code
        latest_first = sorted(cache_entries, key=_compile_id_numbers, reverse=True)
        self.recording.recompiles.append(
            Recompile(
                frames.original_name(code.co_name),
                code.co_filename,
                code.co_firstlineno - 1,
                tuple(texts.plain(str(reason)) for reason in reasons),
                tuple(
                    failed
                    for entry in latest_first
                    for failed in failed_guards.find_failed_guards(entry, frame.f_locals)
                ),
                stacks.caller_stack(self.bottom),
            )
        )

    def record_recompile_limit(self, setting: str) -> None:
        """Record that the last recompiled code reached the recompile limit that ``setting`` names.

        Dynamo will not compile it again.
        """
        limit = f"{setting} = {getattr(dynamo.config, setting)}"
        recompiles = self.recording.recompiles
        recompiles[-1] = dataclasses.replace(recompiles[-1], limit=limit)

    def record_limit_error(self, error: BaseException) -> None:
        """Record that a call raises because a frame's code reached the recompile limit."""
        last = self.recording.recompiles[-1] if self.recording.recompiles else None
        if last is None or not last.limit or not isinstance(error, RecompileLimitError):
            return
        by_setting = getattr(dynamo.config, _FAILS_AT_LIMIT, False)
        reason = _FAILS_AT_LIMIT if by_setting else "fullgraph=True"
        self.recording.recompiles[-1] = dataclasses.replace(last, raised=reason)
        error._fullgraph_recorded = True  # type: ignore[attr-defined]

    def record_custom_op(
        self, op: Any, compliant: bool, resolution: Resolution, translator: Any
    ) -> None:
        """Record a call of a custom operator; ``compliant`` states whether it has
        ``pt2_compliant_tag``."""
        stack = stacks.join_stacks(
            stacks.caller_stack(self.bottom), stacks.stack_of_translator(translator)
        )
        self.recording.custom_ops.append(
            CustomOp(self.frame, str(op), compliant, resolution, stack)
        )

    def attach_interpreter(self, translator: Any) -> None:
        """Start to record the values of the code that a new symbolic interpreter of Dynamo
        (``translator``) runs.
        """
        self.lines.note_code(translator.f_code)
        if self.instructions.attach(translator):
            self.values.record_parameters(translator)
            if translator.symbolic_locals:  # the locals of a frame are not complete yet
                self.shapes.record_parameters(translator)

    def record_compiler_check(self, function: str, value: bool) -> None:
        """Record that traced code called ``function`` to ask whether it is compiled, with the
        result ``value``."""
        self.recording.compiler_checks.append(CompilerCheck(function, value, self.current_stack()))

    def record_frame_parameters(self, translator: Any) -> None:
        """Record the parameter values of a frame whose symbolic interpreter is fully
        initialized."""
        if translator.f_code.co_filename == self.instructions.file:
            self.shapes.record_parameters(translator)


def _is_code_of(recompile: Recompile, code: types.CodeType) -> bool:
    line = code.co_firstlineno - 1
    return (recompile.path, recompile.line) == (code.co_filename, line)


def _compile_id_numbers(entry: Any) -> tuple[int, ...]:
    """Return the numbers of a cache entry's compile id, such as ``(0, 2, 1)`` for ``0/2_1``."""
    return tuple(int(part) for part in re.findall(r"\d+", str(getattr(entry, "compile_id", ""))))
