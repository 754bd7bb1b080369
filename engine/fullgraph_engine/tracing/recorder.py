"""Writes down what Dynamo does, as :mod:`.hooks` tell it."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

from ..protocol.evidence import BreakOutcome, Resolution
from ..torch_internals import breaks, dynamo, frames, graphs
from ..torch_internals.shapes import deferred_asserts, source_of_symbol
from . import causes, failed_guards, guards, limits, nodes, stacks
from .instructions import Instructions
from .lines import Lines
from .observer import Witness
from .recording import (
    Break,
    Cause,
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
from .shapes_seen import Shapes
from .values import Values

_active: Recorder | None = None

_SUPPRESSED = ("an error was suppressed", "compilation failed with exception-directed")
"""How Dynamo's reasons for a skipped frame begin where an error is behind them."""


def active() -> Recorder | None:
    """The recorder of the run in progress."""
    return _active


@contextlib.contextmanager
def undisturbed(recorder: Recorder) -> Iterator[None]:
    """What goes wrong while writing something down must not change what Dynamo does."""
    try:
        yield
    except Exception as error:
        recorder.lose(error)


class Recorder:
    """Collects one :class:`Recording`.

    ``on_break`` is called at once for every graph break. ``bottom`` is the code object of the
    function that starts the traced call: frames outside it are not the user's. ``file`` is the
    one whose values are to be told.
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
        self.instructions = Instructions(file, self.lose)
        self.values = Values(self.instructions)
        self.shapes = Shapes(self.instructions)
        self.lines = Lines(self.instructions)
        self.guards = guards.Guards(self.recording)
        self.bottom = bottom
        self.on_break = on_break
        self._open: list[int] = []
        self._frames = 0
        self._codes: list[types.CodeType] = []
        self._assert_stacks: dict[tuple[int, str], Stack] = {}
        self._last_unlogged: BaseException | None = None
        self._last_skip = ""

    @contextlib.contextmanager
    def listen(self) -> Iterator[Recording]:
        """Record everything until the block ends. Recorders do not nest."""
        global _active
        previous, _active = _active, self
        try:
            yield self.recording
        finally:
            _active = previous
            self.finish()

    def finish(self) -> None:
        """Copy values, shapes and lines into the recording."""
        with undisturbed(self):
            self.recording.seen = self.values.seen()
        with undisturbed(self):
            failure = self.recording.failure
            failed = failure is not None and failure.phase == "tracer"
            self.recording.shapes = self.shapes.seen(failed)
            self.recording.shapes_left_out = self.shapes.left_out
        with undisturbed(self):
            self.recording.lines = self.lines.seen()

    def lose(self, error: Exception) -> None:
        """Note a mistake of ours."""
        loss = f"{type(error).__name__}: {error}"
        if loss not in self.recording.losses:
            self.recording.losses.append(loss)

    # -- what the hooks report ----------------------------------------------------------------

    @property
    def frame(self) -> int:
        return self._open[-1] if self._open else -1

    def enter_frame(self, code: types.CodeType) -> int:
        self._frames += 1
        self._open.append(self._frames - 1)
        if self.witness is not None:
            with undisturbed(self):
                self.witness.on_frame_entered(self.frame, code)
        return self._frames - 1

    def number_of(self, code: types.CodeType) -> int:
        """Which code object it is, of those that were compiled. Equal ones are several."""
        for number, known in enumerate(self._codes):
            if known is code:
                return number
        self._codes.append(code)
        return len(self._codes) - 1

    def leave_frame(self, frame: TracedFrame) -> None:
        self._open.pop()
        self.recording.frames.append(frame)
        with undisturbed(self):
            self.shapes.leave(frame.id, self.frame, frame.outcome)
        if self.witness is not None:
            with undisturbed(self):
                self.witness.on_frame_left(frame)

    def saw_unsupported(self, error: BaseException) -> None:
        self._last_unlogged = error

    def broke(self, error: BaseException, outcome: BreakOutcome, traced: Stack) -> None:
        """A graph break that Dynamo acted on. ``traced`` is the stack inside the tracer."""
        if getattr(error, "_fullgraph_recorded", False):
            return
        with contextlib.suppress(AttributeError):
            error._fullgraph_recorded = True  # type: ignore[attr-defined]
        if stacks.in_engine(traced):
            return
        chain = causes.of_error(error)
        number = breaks.registry().get(chain[0].kind, "")
        record = Break(
            # Some errors are noticed only when their frame was left already.
            frame=self.frame if self._open else self._frames - 1,
            id=number,
            causes=chain,
            message=str(getattr(error, "msg", error)),
            outcome=outcome,
            stack=stacks.join(stacks.above(self.bottom), traced),
            href=breaks.link(number),
            inlined=len(traced),
            operator=str(getattr(error, "_hop_name", "")),
            hook=stacks.hook_on(self.bottom, traced),
            ops=nodes.count(frames.translator()),
        )
        self.recording.breaks.append(record)
        if self.witness is not None:
            self.witness.on_graph_break(record)
        if self.on_break is not None:
            self.on_break(record)

    def broke_unreported(self) -> None:
        """Dynamo takes up an earlier instruction, since it cannot resume from the last break."""
        error = self._last_unlogged
        if error is not None:
            self.broke(error, "rest-skipped", getattr(error, "_fullgraph_stack", ()))

    def saw_skip(self, reason: str) -> None:
        """Dynamo has decided to skip the frame at work."""
        self._last_skip = reason
        breaks = self.recording.breaks
        if frames.is_after_break(reason) and breaks and breaks[-1].frame == self.frame:
            words = reason.partition("\n")[0]
            chain = (*breaks[-1].causes, Cause("graph break in loop", words))
            breaks[-1] = dataclasses.replace(breaks[-1], outcome="frame-skipped", causes=chain)
            if self.on_break is not None:
                self.on_break(breaks[-1])

    def _unspoken_reason(self, error: BaseException | None) -> str:
        """Why a frame was skipped, of which torch up to 2.12 does not report the reason."""
        if self._last_skip:
            return f"Dynamo decided to skip the frame while tracing: {self._last_skip}"
        return "an error was suppressed during compilation" if error is not None else ""

    def skipped(self, reason: str, code: types.CodeType) -> None:
        error, self._last_unlogged = self._last_unlogged, None
        told = frames.is_after_break(self._last_skip)
        reason = reason or self._unspoken_reason(error)
        self._last_skip = ""
        if told or not reason:
            return  # torch up to 2.12 does not say why, and did not look at the frame
        last = self.recording.recompiles[-1] if self.recording.recompiles else None
        if last is not None and last.limit and _is_code_of(last, code):
            return  # it is told as the end of too many recompiles
        if reason.startswith(_SUPPRESSED) and error is not None:
            if getattr(error, "_fullgraph_recorded", False):
                return
            if hasattr(error, "compile_id") and hasattr(error, "real_stack"):
                # Breaks raised outside the symbolic interpreter; by the same signs Dynamo logs
                # them.
                # Or inside it, up to torch 2.10: where it could not resume.
                traced = getattr(error, "_fullgraph_stack", ()) or (
                    stacks.frame_of(code, None, None),
                )
                self.broke(error, "frame-skipped", traced)
                return
            # No break, as there was no graph yet (a generator cannot be compiled by itself).
            first = causes.of_error(error)[0]
            reason = f"{first.kind}: {first.explanation}" if first.explanation else first.kind
        if stacks.is_torch(code.co_filename):
            return  # hundreds a run, and none of them the user's
        name = frames.original_name(code.co_name)
        skip = Skip(
            code.co_filename,
            name,
            code.co_firstlineno - 1,
            reason,
            stacks.above(self.bottom),
            resumed=name != code.co_name,
        )
        self.recording.skips.append(skip)
        if self.witness is not None:
            self.witness.on_frame_skipped(skip)

    def captured(self, output: Any, module: Any) -> None:
        """A graph on its way to the backend."""
        shape_env = graphs.shape_env_of(output)
        graph = Graph(self.frame, *nodes.ops_of(module))
        self.recording.graphs.append(graph)
        self.shapes.captured(len(self.recording.graphs))
        if self.witness is not None:
            with undisturbed(self):
                self.witness.on_graph_captured(graph, module)
        self._limits(shape_env)
        for item in deferred_asserts(shape_env):
            words = str(item.expr)
            stack = self._assert_stacks.get((id(shape_env), words), ())
            self.recording.asserts.append(RuntimeAssert(self.frame, words, str(item.msg), stack))

    def _limits(self, shape_env: Any) -> None:
        for one in limits.of_guards(shape_env):
            symbol, source = str(one.symbol), source_of_symbol(shape_env, one.symbol)
            stack = self.guards.stack_at(one.place)
            self.recording.limits.append(
                Limit(self.frame, symbol, source, one.condition, one.size, one.low, one.high, stack)
            )

    def deferred(self, shape_env: Any, before: set[int]) -> None:
        """A condition was put off: only now it is known which line it comes from."""
        for item in deferred_asserts(shape_env):
            if id(item) not in before:
                self._assert_stacks[id(shape_env), str(item.expr)] = self.here()

    def created(self, symbol: str, source: str, hint: int | None) -> None:
        letter = self.shapes.created(symbol, source, hint)
        made = Symbol(self.frame, symbol, source, hint, self.here(), letter)
        self.recording.symbols.append(made)

    def specialized(self, shape_env: Any, symbol: Any, value: str, reason: str) -> None:
        source = source_of_symbol(shape_env, symbol)
        self.recording.specializations.append(
            Specialization(self.frame, str(symbol), source, value, reason, self.here())
        )

    def equated(self, symbol: Any, value: Any) -> None:
        self.recording.equalities.append(Equality(self.frame, str(symbol), str(value), self.here()))

    def here(self) -> Stack:
        return stacks.join(stacks.above(self.bottom), stacks.of_translator(frames.translator()))

    def guarded(self, code: types.CodeType, tree: Any) -> None:
        """The tree of guards of the frame at work is complete."""
        before = len(self.recording.guards)
        self.guards.built(self.frame, code, tree)
        failed_guards.remember(tree, self.recording.guards[before:])

    def recompiled(self, frame: Any, cache_entries: Any, reasons: Any) -> None:
        """None of the compilations of a frame's code fits its values."""
        code = frame.f_code
        latest_first = sorted(cache_entries, key=_compilation, reverse=True)
        self.recording.recompiles.append(
            Recompile(
                frames.original_name(code.co_name),
                code.co_filename,
                code.co_firstlineno - 1,
                tuple(str(reason) for reason in reasons),
                tuple(
                    failed
                    for entry in latest_first
                    for failed in failed_guards.of_entry(entry, frame.f_locals)
                ),
                stacks.above(self.bottom),
            )
        )

    def reached_limit(self, setting: str) -> None:
        """The code that was to be recompiled has been compiled too often."""
        limit = f"{setting} = {getattr(dynamo.config, setting)}"
        recompiles = self.recording.recompiles
        recompiles[-1] = dataclasses.replace(recompiles[-1], limit=limit)

    def called_custom(
        self, op: Any, compliant: bool, resolution: Resolution, translator: Any
    ) -> None:
        """An operator that is not torch's own."""
        stack = stacks.join(stacks.above(self.bottom), stacks.of_translator(translator))
        self.recording.custom_ops.append(
            CustomOp(self.frame, str(op), compliant, resolution, stack)
        )

    def began(self, translator: Any) -> None:
        """A new symbolic interpreter."""
        self.lines.began(translator.f_code)
        if self.instructions.attend(translator):
            self.values.parameters(translator)
            if translator.symbolic_locals:  # those of a frame come later
                self.shapes.parameters(translator)

    def began_frame(self, translator: Any) -> None:
        """The symbolic interpreter of a frame is complete."""
        if translator.f_code.co_filename == self.instructions.file:
            self.shapes.parameters(translator)


def _is_code_of(recompile: Recompile, code: types.CodeType) -> bool:
    line = code.co_firstlineno - 1
    return (recompile.path, recompile.line) == (code.co_filename, line)


def _compilation(entry: Any) -> tuple[int, ...]:
    """The numbers of a compile id, ``0/2_1``."""
    return tuple(int(part) for part in re.findall(r"\d+", str(getattr(entry, "compile_id", ""))))
