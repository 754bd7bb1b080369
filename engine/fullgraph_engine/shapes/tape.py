"""Record the events of every ShapeEnv that Dynamo creates inside a ``with`` block."""

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
"""Maximum number of events recorded per ShapeEnv."""


@dataclass(frozen=True)
class Operand:
    """A tensor argument of an operator call, with its sizes as they were at the time of the
    call.
    """

    name: str
    sizes: tuple[str, ...]


@dataclass(frozen=True)
class TracedOperator:
    """The operator call that Dynamo was tracing when a ShapeEnv event happened."""

    name: str
    operands: tuple[Operand, ...] = ()


class EventPlace:
    """The location in the user's program at which a ShapeEnv event happened.

    Most locations are never looked up, so only code objects and instruction positions are stored;
    they are converted to frames on first use.
    """

    __slots__ = ("_callers", "_operator", "_raw", "_stack")

    def __init__(
        self,
        raw: stacks.RawStack = (),
        callers: Stack = (),
        node: _RawOperator | None = None,
    ) -> None:
        self._raw = raw
        self._callers = callers
        self._stack: Stack | None = None
        self._operator: _RawOperator | TracedOperator | None = node

    @property
    def stack(self) -> Stack:
        """User frames at the event, outermost first."""
        if self._stack is None:
            self._stack = stacks.join_stacks(self._callers, stacks.convert_raw_stack(self._raw))
            self._raw = ()
        return self._stack

    @property
    def frame(self) -> Frame | None:
        """The innermost user frame outside torch; if all frames are torch's, the innermost
        frame."""
        own = [frame for frame in self.stack if not stacks.is_torch(frame.path)]
        frames = own or self.stack
        return frames[-1] if frames else None

    @property
    def operator(self) -> TracedOperator | None:
        if isinstance(self._operator, _RawOperator):
            self._operator = self._operator.resolve()
        known: TracedOperator | None = self._operator
        return known


@dataclass(frozen=True)
class FailedEvent:
    """A call of a ShapeEnv method that raised an exception; ``after`` is the number of events
    before it."""

    after: int
    method: str
    expression: Any
    error: str
    message: str
    place: EventPlace


@dataclass(eq=False)
class Tape:
    """The recorded events of one ShapeEnv, in order, each with its location in the user's program.

    ``note`` says in one sentence why the recording is incomplete; empty if it is complete.
    """

    index: int
    events: list[ShapeEnvEvent] = field(default_factory=list)
    places: list[EventPlace] = field(default_factory=list)
    failed_events: list[FailedEvent] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    live: ShapeEnv | None = None
    note: str = ""

    @property
    def function(self) -> str:
        """Name of the function that Dynamo compiled with this ShapeEnv."""
        return str(self._code_field("co_name"))

    @property
    def path(self) -> str:
        return str(self._code_field("co_filename"))

    @property
    def line(self) -> int:
        """Zero-based first line of the function that Dynamo compiled; -1 if unknown."""
        line = self._code_field("co_firstlineno")
        return int(line) - 1 if isinstance(line, int) else -1

    def _code_field(self, name: str) -> object:
        code_fields = (self.events[0].kwargs or {}).get("co_fields") if self.events else None
        return (code_fields or {}).get(name, "")

    def method_name(self, index: int) -> str:
        """Return the name of the ShapeEnv method whose call is the event with this index."""
        event = self.events[index]
        return str(event.name or event.f.__name__)

    def format_arguments(self, index: int, format_value: Callable[[Any], str]) -> list[str]:
        """Format the arguments of the event with this index, without its ShapeEnv and symbolic
        context. ``format_value`` formats one argument.
        """
        event = self.events[index]
        named = [
            f"{name}={format_value(value)}"
            for name, value in (event.kwargs or {}).items()
            if name != "symbolic_context"
        ]
        return [*map(format_value, (event.args or [])[1:]), *named]


class _EventList(list[ShapeEnvEvent]):
    """A list that replaces ``ShapeEnv.events``, and also records where in the user's program events
    happen.

    Torch appends an event before it runs the event, and pops it again if the event raises.
    """

    def __init__(self, tape: Tape, callers: Stack, limit: int) -> None:
        super().__init__(tape.events)
        self._tape, self._callers, self._limit = tape, callers, limit
        self._last: tuple[Any, Any, Any] = (None, None, None)
        self._place = EventPlace(callers=callers)
        self._is_recorded = True
        tape.events = self
        tape.places = [self._place] * len(self)

    def append(self, event: ShapeEnvEvent) -> None:
        tape = self._tape
        self._is_recorded = len(self) < self._limit
        if not self._is_recorded:
            tape.note = f"Only the first {self._limit:,} events of this ShapeEnv were kept."
            self._unrecorded = event
            return
        super().append(event)
        tape.places.append(self._current_place())

    def pop(self, index: Any = -1) -> ShapeEnvEvent:
        if not self._is_recorded:
            self._is_recorded = True
            return self._unrecorded
        event = super().pop(index)
        place = self._tape.places.pop()
        error = sys.exc_info()[1]
        argument = (event.args or [None])[1:2]
        self._tape.failed_events.append(
            FailedEvent(
                len(self),
                str(event.name or event.f.__name__),
                argument[0] if argument and hasattr(argument[0], "free_symbols") else None,
                type(error).__name__,
                str(error),
                place,
            )
        )
        return event

    def _current_place(self) -> EventPlace:
        inner = frames.current_translator()
        if inner is None:
            return EventPlace(callers=self._callers)
        node = _pending_node(inner)
        last, instruction = self._last, inner.current_instruction
        if inner is last[0] and instruction is last[1] and node is last[2]:
            return self._place  # reuse the last place, because most lines cause many events
        self._last = inner, instruction, node
        raw = stacks.raw_stack_of_translator(inner)
        self._place = EventPlace(raw, self._callers, _raw_operator(node))
        return self._place

    def close(self) -> None:
        """Release references to the last symbolic interpreter and graph node.

        They would keep graphs and fake tensors alive.
        """
        self._last = (None, None, None)


def _pending_node(translator: Any) -> Any:
    """Return the last node of the graph if Dynamo is still computing its value, else None."""
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

    def resolve(self) -> TracedOperator:
        target = self._target
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        return TracedOperator(
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
        operands.append((name, tuple(_size_expression(size) for size in sizes)))
    return _RawOperator(node.target, tuple(operands))


def _size_expression(size: Any) -> Any:
    return size if isinstance(size, int) else upstream.expression_of(size)


class _FakeSnapshots:
    """Descriptions of the tensors that a ShapeEnv tracks, each made once.

    Torch's own method describes all of them again for every guard. With 500 parameters, that takes
    longer than the rest of recording. A tensor is described when it is first tracked, because
    guards on inputs refer to its state at that time.
    """

    def __init__(self, original: Callable[[Any], Any]) -> None:
        self._original = original
        self._known: dict[int, tuple[list[Any], list[Any]]] = {}

    def take_snapshots(self, env: ShapeEnv) -> list[Any] | None:
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

    def clear(self) -> None:
        self._known.clear()


_active_recordings: list[list[Tape]] = []
"""Lists of recordings that :func:`record_tapes` is filling now, outermost first; all share one set
of patches.
"""


@contextlib.contextmanager
def record_tapes(
    *, limit: int = LIMIT, bottom: types.CodeType | None = drive.BOTTOM
) -> Iterator[list[Tape]]:
    """Record the events of every ShapeEnv created inside the ``with`` block, with one :class:`Tape`
    for each.

    Nothing is validated, and z3 is not needed. ``bottom`` is the code object of the function that
    starts the traced call: frames outside it do not belong to the user. A nested recording shares
    the tapes of the outer one, with the limit of the outermost.
    """
    tapes: list[Tape] = []
    if _active_recordings:
        _active_recordings.append(tapes)
        try:
            yield tapes
        finally:
            _active_recordings.pop()
        return
    event_lists: list[_EventList] = []
    settings = upstream.read_settings()
    init, snapshot = ShapeEnv.__init__, ShapeEnv._snapshot_tracked_fakes
    call_function = ShapeEnv._create_fx_call_function
    run_event = ShapeEnvEvent.run
    fakes = _FakeSnapshots(snapshot)

    def recording_init(
        self: ShapeEnv, *, should_record_events: bool | None = None, **kwargs: Any
    ) -> None:
        if should_record_events is not None:
            init(self, should_record_events=should_record_events, **kwargs)
            return
        init(self, should_record_events=True, **kwargs)
        tape = Tape(len(tapes), list(self.events), settings=settings, live=self)
        event_list = _EventList(tape, stacks.caller_stack(bottom), limit)
        self.events = event_list
        for recording_tapes in _active_recordings:
            recording_tapes.append(tape)
        event_lists.append(event_list)

    def take_snapshots(self: ShapeEnv) -> list[Any] | None:
        return fakes.take_snapshots(self)

    def skip_nodes(self: ShapeEnv, op: Any, args: Any) -> Any:
        # Torch calls this for every operation on a size; it matters only for translation
        # validation.
        if self._translation_validation_enabled:
            return call_function(self, op, args)
        return None, False

    def run_recorded(self: ShapeEnvEvent, shape_env: ShapeEnv | None = None) -> Any:
        # The recorded event runs on the live ShapeEnv itself, so no ShapeEnv has to be substituted
        # in its arguments, and Dynamo's own values are used instead of copies.
        args = self.args
        if shape_env is not None and shape_env.is_recording and args and args[0] is shape_env:
            return self.f(*args, **(self.kwargs or {}))
        return run_event(self, shape_env)

    ShapeEnvEvent.run = run_recorded  # type: ignore[method-assign]
    ShapeEnv.__init__ = recording_init  # type: ignore[method-assign]
    ShapeEnv._snapshot_tracked_fakes = take_snapshots  # type: ignore[method-assign]
    ShapeEnv._create_fx_call_function = skip_nodes  # type: ignore[method-assign]
    _active_recordings.append(tapes)
    try:
        with upstream.suppress_event_errors():
            yield tapes
    finally:
        _active_recordings.pop()
        ShapeEnvEvent.run = run_event  # type: ignore[method-assign]
        ShapeEnv.__init__ = init  # type: ignore[method-assign]
        ShapeEnv._snapshot_tracked_fakes = snapshot  # type: ignore[method-assign]
        ShapeEnv._create_fx_call_function = call_function  # type: ignore[method-assign]
        fakes.clear()
        for event_list in event_lists:
            event_list.close()
        for tape in tapes:
            if tape.live is not None:
                # Dynamo clears this itself only if the frame compiled. Otherwise the fake tensors
                # would be kept.
                tape.live.tracked_fakes = None
                tape.live.should_record_events = False
