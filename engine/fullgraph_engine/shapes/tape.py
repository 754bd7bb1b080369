"""Record what happens to every ShapeEnv that Dynamo makes while a block runs."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..protocol import Frame
from ..torch_internals import frames
from ..tracing import drive, stacks
from ..tracing.recording import Stack
from . import upstream
from .upstream import ShapeEnv, ShapeEnvEvent

LIMIT = 100_000
"""Events that are kept of one ShapeEnv."""


@dataclass(frozen=True)
class Operand:
    """A tensor that went into an operator. Sizes are as they were written at that time."""

    name: str
    sizes: tuple[str, ...]


@dataclass(frozen=True)
class Operator:
    """The call that was being traced when an event happened."""

    name: str
    operands: tuple[Operand, ...] = ()


class EventPlace:
    """Position in the user's program at which an event happened.

    Most positions are never shown, so this keeps code objects and resolves them on demand.
    """

    __slots__ = ("_callers", "_operator", "_raw", "_stack")

    def __init__(
        self, raw: stacks.RawStack = (), callers: Stack = (), node: _RawOperator | None = None
    ) -> None:
        self._raw = raw
        self._callers = callers
        self._stack: Stack | None = None
        self._operator: _RawOperator | Operator | None = node

    @property
    def stack(self) -> Stack:
        """User frames, outermost first."""
        if self._stack is None:
            self._stack = stacks.join_stacks(self._callers, stacks.convert_raw_stack(self._raw))
            self._raw = ()
        return self._stack

    @property
    def frame(self) -> Frame | None:
        """The innermost frame that is not torch's, or the innermost one."""
        own = [frame for frame in self.stack if not stacks.is_torch(frame.path)]
        frames = own or self.stack
        return frames[-1] if frames else None

    @property
    def operator(self) -> Operator | None:
        if isinstance(self._operator, _RawOperator):
            self._operator = self._operator.resolve()
        return self._operator


@dataclass(frozen=True)
class Refusal:
    """A call that raised instead of becoming an event; ``after`` events had happened."""

    after: int
    method: str
    expression: Any
    error: str
    message: str
    place: EventPlace


@dataclass(eq=False)
class Tape:
    """The events of one ShapeEnv, in order, with the place of each.

    ``note`` says in one sentence why the tape is not complete, and is empty if it is.
    """

    index: int
    events: list[ShapeEnvEvent] = field(default_factory=list)
    places: list[EventPlace] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    live: ShapeEnv | None = None
    note: str = ""

    @property
    def function(self) -> str:
        """The frame that Dynamo compiled with this ShapeEnv."""
        return str(self._about("co_name"))

    @property
    def path(self) -> str:
        return str(self._about("co_filename"))

    @property
    def line(self) -> int:
        """Zero-based first line of the function; -1 where it is not known."""
        line = self._about("co_firstlineno")
        return int(line) - 1 if isinstance(line, int) else -1

    def _about(self, name: str) -> object:
        about = (self.events[0].kwargs or {}).get("co_fields") if self.events else None
        return (about or {}).get(name, "")

    def method(self, index: int) -> str:
        """The name of the ShapeEnv method that an event called."""
        event = self.events[index]
        return str(event.name or event.f.__name__)


class _Reel(list[ShapeEnvEvent]):
    """Stands for ``ShapeEnv.events``: torch appends an event before it runs it, and takes it
    back if it raises."""

    def __init__(self, tape: Tape, callers: Stack, limit: int) -> None:
        super().__init__(tape.events)
        self._tape, self._callers, self._limit = tape, callers, limit
        self._last: tuple[Any, Any, Any] = (None, None, None)
        self._place = EventPlace(callers=callers)
        self._kept = True
        tape.events = self
        tape.places = [self._place] * len(self)

    def append(self, event: ShapeEnvEvent) -> None:
        tape = self._tape
        self._kept = len(self) < self._limit
        if not self._kept:
            tape.note = f"Only the first {self._limit:,} events of this ShapeEnv were kept."
            self._refused = event
            return
        super().append(event)
        tape.places.append(self._here())

    def pop(self, index: Any = -1) -> ShapeEnvEvent:
        if not self._kept:
            self._kept = True
            return self._refused
        event = super().pop(index)
        place = self._tape.places.pop()
        error = sys.exc_info()[1]
        about = (event.args or [None])[1:2]
        self._tape.refusals.append(
            Refusal(
                len(self),
                str(event.name or event.f.__name__),
                about[0] if about and hasattr(about[0], "free_symbols") else None,
                type(error).__name__,
                str(error),
                place,
            )
        )
        return event

    def _here(self) -> EventPlace:
        inner = frames.current_translator()
        if inner is None:
            return EventPlace(callers=self._callers)
        node = _node_under_way(inner)
        last, instruction = self._last, inner.current_instruction
        if inner is last[0] and instruction is last[1] and node is last[2]:
            return self._place  # most lines cause many events
        self._last = inner, instruction, node
        raw = stacks.raw_stack_of_translator(inner)
        self._place = EventPlace(raw, self._callers, _raw_operator(node))
        return self._place

    def close(self) -> None:
        """Forget what belongs to the tracer: it has graphs and fake tensors behind it."""
        self._last = (None, None, None)


def _node_under_way(translator: Any) -> Any:
    """The last node of the graph, if what it gives is still being worked out."""
    try:
        node = next(iter(reversed(translator.output.current_tracer.graph.nodes)))
    except (AttributeError, StopIteration):
        return None
    if node.op in ("placeholder", "output", "get_attr") or "example_value" in node.meta:
        return None
    return node


class _RawOperator:
    __slots__ = ("_operands", "_target")

    def __init__(self, target: Any, operands: tuple[tuple[str, Any], ...]) -> None:
        self._target, self._operands = target, operands

    def resolve(self) -> Operator:
        target = self._target
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        return Operator(
            name,
            tuple(
                Operand(operand, tuple(str(size) for size in sizes))
                for operand, sizes in self._operands
            ),
        )


def _raw_operator(node: Any) -> _RawOperator | None:
    if node is None:
        return None
    operands = []
    for argument in node.all_input_nodes:
        value = argument.meta.get("example_value")
        sizes = getattr(value, "shape", None)
        if sizes is None:
            continue
        grapharg = argument.meta.get("grapharg")
        source = getattr(grapharg, "source", None)
        name = upstream.name_of_source(source) if source is not None else str(argument.name)
        operands.append((name, tuple(_size(size) for size in sizes)))
    return _RawOperator(node.target, tuple(operands))


def _size(size: Any) -> Any:
    return size if isinstance(size, int) else upstream.expression_of(size)


class _Fakes:
    """Snapshots of the tensors that a ShapeEnv tracks, each converted once.

    torch's own takes all of them anew for every guard: with 500 parameters that costs more than
    everything else that recording does. A snapshot says what a tensor was when it was first
    seen, which is what guards on inputs are about.
    """

    def __init__(self, original: Callable[[Any], Any]) -> None:
        self._original = original
        self._known: dict[int, tuple[list[Any], list[Any]]] = {}

    def take(self, env: ShapeEnv) -> list[Any] | None:
        tracked = env.tracked_fakes
        if tracked is None:
            return None
        sources, taken = self._known.get(id(env), ([], []))
        if len(sources) == len(tracked) and (not tracked or sources[-1] is tracked[-1]):
            return taken
        by_identity = {
            id(source): snapshot for source, snapshot in zip(sources, taken, strict=True)
        }
        fresh = [item for item in tracked if id(item) not in by_identity]
        env.tracked_fakes = fresh
        try:
            converted = self._original(env)
        finally:
            env.tracked_fakes = tracked
        by_identity.update(zip(map(id, fresh), converted, strict=True))
        result = [by_identity[id(item)] for item in tracked]
        self._known[id(env)] = (list(tracked), result)
        return result

    def forget(self) -> None:
        self._known.clear()


_audiences: list[list[Tape]] = []
"""Those who record now, the outermost first: there is one recording for all."""


@contextlib.contextmanager
def record(
    *, limit: int = LIMIT, bottom: types.CodeType | None = drive.BOTTOM
) -> Iterator[list[Tape]]:
    """Every ShapeEnv that is made inside the block records its events; one tape for each.

    Nothing is validated and nothing needs z3. ``bottom`` is the code object of the function that
    starts the traced call: frames outside it are not the user's.

    Inside of another recording the same tapes are shared, with the limit of the outermost.
    """
    tapes: list[Tape] = []
    if _audiences:
        _audiences.append(tapes)
        try:
            yield tapes
        finally:
            _audiences.pop()
        return
    reels: list[_Reel] = []
    known = upstream.settings()
    init, snapshot = ShapeEnv.__init__, ShapeEnv._snapshot_tracked_fakes
    call_function = ShapeEnv._create_fx_call_function
    run_event = ShapeEnvEvent.run
    fakes = _Fakes(snapshot)

    def recording_init(
        self: ShapeEnv, *, should_record_events: bool | None = None, **kwargs: Any
    ) -> None:
        if should_record_events is not None:
            init(self, should_record_events=should_record_events, **kwargs)
            return
        init(self, should_record_events=True, **kwargs)
        tape = Tape(len(tapes), list(self.events), settings=known, live=self)
        reel = _Reel(tape, stacks.caller_stack(bottom), limit)
        self.events = reel
        for audience in _audiences:
            audience.append(tape)
        reels.append(reel)

    def take(self: ShapeEnv) -> list[Any] | None:
        return fakes.take(self)

    def without_nodes(self: ShapeEnv, op: Any, args: Any) -> Any:
        # Called for every operation on a size, and does nothing unless there is validation.
        if self._translation_validation_enabled:
            return call_function(self, op, args)
        return None, False

    def run(self: ShapeEnvEvent, shape_env: ShapeEnv | None = None) -> Any:
        # While an event is recorded it runs on the ShapeEnv that it is about: nothing has to be
        # exchanged, and Dynamo's own values go in instead of copies.
        args = self.args
        if shape_env is not None and shape_env.is_recording and args and args[0] is shape_env:
            return self.f(*args, **(self.kwargs or {}))
        return run_event(self, shape_env)

    ShapeEnvEvent.run = run  # type: ignore[method-assign]
    ShapeEnv.__init__ = recording_init  # type: ignore[method-assign]
    ShapeEnv._snapshot_tracked_fakes = take  # type: ignore[method-assign]
    ShapeEnv._create_fx_call_function = without_nodes  # type: ignore[method-assign]
    _audiences.append(tapes)
    try:
        with upstream.quiet():
            yield tapes
    finally:
        _audiences.pop()
        ShapeEnvEvent.run = run_event  # type: ignore[method-assign]
        ShapeEnv.__init__ = init  # type: ignore[method-assign]
        ShapeEnv._snapshot_tracked_fakes = snapshot  # type: ignore[method-assign]
        ShapeEnv._create_fx_call_function = call_function  # type: ignore[method-assign]
        fakes.forget()
        for reel in reels:
            reel.close()
        for tape in tapes:
            if tape.live is not None:
                # Dynamo does the same where a frame compiled; a failed one would keep its fakes.
                tape.live.tracked_fakes = None
                tape.live.should_record_events = False
