"""The record of everything that Dynamo did in one run, as plain data.

:mod:`.recorder` fills a recording, and ``findings`` reads it. A recording does not refer to objects
of torch, so it can be pickled, compared, and kept after its process has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..protocol import Frame, Range, SeenKind
from ..protocol.evidence import BreakOutcome, Phase, Resolution
from ..protocol.shapes import ShapeRole, ShapeSeen

Stack = tuple[Frame, ...]
"""Frames of the user's code, outermost first."""


@dataclass(frozen=True)
class Cause:
    """One error in the chain of errors that led to a graph break, with Dynamo's texts."""

    kind: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    condition: str = ""
    """Condition that Dynamo could not decide because it depends on tensor data, as Dynamo writes it
    (``Eq(u0, 0)``); empty for other errors."""


@dataclass(frozen=True)
class Break:
    """One graph break. ``causes`` starts with the break itself and ends with the last consequence.

    ``id`` is the number in ``graph_break_registry.json`` (``GB0059``), or empty.
    """

    frame: int
    id: str
    causes: tuple[Cause, ...]
    message: str
    outcome: BreakOutcome
    stack: Stack
    href: str = ""
    inlined: int = 1
    """Number of nested functions that Dynamo was tracing: 1 if the compiled function itself
    broke."""
    operator: str = ""
    """Higher-order operator, such as ``torch.cond``, whose function Dynamo was tracing at the
    break, or empty."""
    hook: str = ""
    """Library function, called by a module as a hook, inside which the break happened; empty if
    there was none.
    """
    ops: int = 0
    """Number of operators in the graph at the time of the break."""

    @property
    def kind(self) -> str:
        return self.causes[0].kind


@dataclass(frozen=True)
class Skip:
    """A frame that Dynamo did not trace, and the reason.

    ``resumed`` is true if the frame continues a function after a graph break.
    """

    path: str
    function: str
    line: int
    reason: str
    callers: Stack = ()
    resumed: bool = False


@dataclass(frozen=True)
class Op:
    """One call node of a graph (an operator, function or module call), with the user's code that
    created it.
    """

    name: str
    target: str
    result: str
    stack: Stack


@dataclass(frozen=True)
class Graph:
    """Graph that the backend received from Dynamo.

    ``sizes`` contains, by node name, the sizes of the node's tensor in symbols and as hints.
    """

    frame: int
    ops: tuple[Op, ...]
    sizes: dict[str, tuple[tuple[str, ...], tuple[int, ...]]]
    code: str = ""


@dataclass(frozen=True)
class Guard:
    """A leaf of the guard tree.

    ``kind`` is its class (``EQUALS_MATCH``), ``source`` the expression of the guarded value,
    ``type`` the type of that value, and ``expressions`` the checked conditions. ``source`` is empty
    if the guard concerns no value or several.
    """

    frame: int
    kind: str
    source: str
    expressions: tuple[str, ...]
    stack: Stack = ()
    type: str = ""


@dataclass(frozen=True)
class GuardedCode:
    """A compiled frame with the number of its guards and the source range of its instruction that
    ends last.

    ``resumed`` is true if the frame continues a function after a graph break.
    """

    frame: int
    last: Range
    guards: int
    resumed: bool


@dataclass(frozen=True)
class Write:
    """A change that the compiled code of a frame makes to a value that existed before, such as a
    global.

    ``target`` is Dynamo's name of the value, or ``len(source)``. ``value`` is the ``repr`` of the
    new value, empty for a new value other than a constant.
    """

    frame: int
    target: str
    value: str


@dataclass(frozen=True)
class Symbol:
    """A symbolic size that a ShapeEnv created; ``hint`` is None if it is unbacked.

    ``letter`` is the user's name of the size in the example inputs (``b`` in ``f32[b, 4]``), or
    empty.
    """

    frame: int
    name: str
    source: str
    hint: int | None
    stack: Stack = ()
    letter: str = ""


@dataclass(frozen=True)
class Specialization:
    """A symbol that Dynamo specialized to a constant, with Dynamo's reason."""

    frame: int
    symbol: str
    source: str
    value: str
    reason: str
    stack: Stack


@dataclass(frozen=True)
class Limit:
    """A symbolic size that a condition limits to the range from ``low`` to ``high``, both included.

    ``size`` is the symbol's size in this run.
    """

    frame: int
    symbol: str
    source: str
    condition: str
    size: int
    low: int
    high: int
    stack: Stack


@dataclass(frozen=True)
class Equality:
    """A symbol that Dynamo replaced by an expression of other symbols."""

    frame: int
    symbol: str
    value: str
    stack: Stack


@dataclass(frozen=True)
class RuntimeAssert:
    """A condition on unbacked symbols, checked at run time by the compiled graph."""

    frame: int
    expression: str
    message: str
    stack: Stack


GuardFamily = Literal["size", "tensor", "value", "type", "identity", "structure", "mode", "other"]
"""Property that a guard checks: a size, another tensor property, a Python value, its type, its
identity, a length or keys, or a global mode such as grad mode."""


@dataclass(frozen=True)
class FailedGuard:
    """A guard of the compilation ``compiled`` that is false for the values of a later call.

    ``source`` is the expression of the guarded value. ``detail`` is the differing property of a
    tensor (``size 0``, ``dtype``) or of the global state. ``was`` and ``now`` are the expected and
    the actual value; each is empty if it does not have a short form.
    """

    compiled: str
    family: GuardFamily
    kind: str
    source: str
    expression: str
    detail: str = ""
    was: str = ""
    now: str = ""
    stack: Stack = ()


@dataclass(frozen=True)
class Recompile:
    """A new trace of a frame because guards of earlier compilations failed.

    ``reasons`` are Dynamo's messages, one per earlier compilation. ``failures`` are all failed
    guards, beginning with the latest compilation. ``limit`` is the setting, with its value, that
    prevents more compilations; from then on the frame runs without Dynamo, or raises because of
    ``raised``: ``fullgraph=True`` or a setting of ``torch._dynamo.config``.
    """

    function: str
    path: str
    line: int
    reasons: tuple[str, ...]
    failures: tuple[FailedGuard, ...] = ()
    stack: Stack = ()
    limit: str = ""
    raised: str = ""


@dataclass(frozen=True)
class CustomOp:
    """A call of a custom operator, and whether the operator has the ``pt2_compliant_tag``."""

    frame: int
    name: str
    compliant: bool
    resolution: Resolution
    stack: Stack


@dataclass(frozen=True)
class CompilerCheck:
    """A call that asks whether code is compiled, such as ``torch.compiler.is_compiling()``.

    Dynamo evaluated the call of ``function`` to ``value``.
    """

    function: str
    value: bool
    stack: Stack


@dataclass(frozen=True)
class Failure:
    """An exception that left the traced call, or that Dynamo suppressed.

    ``phase`` states what raised it: the tracer, the code that ran between graphs, or the code
    without Dynamo, which means that the program itself is wrong.
    """

    phase: Phase
    kind: str
    message: str
    stack: Stack
    causes: tuple[Cause, ...] = ()
    """Errors that led to the graph break, if Dynamo turned a graph break into this exception."""
    operator: str = ""
    """Higher-order operator, such as ``torch.cond``, whose function Dynamo was tracing, or
    empty."""

    @property
    def in_graph(self) -> bool:
        """Whether a captured graph raised the exception, so that the stack lacks the user's lines.

        The stack may also lack the graph's generated code, because a graph module can remove it.
        """
        return any(
            frame.path.startswith("<eval_with_key>") or frame.path.endswith("fx/graph_module.py")
            for frame in self.stack
        )


@dataclass(frozen=True)
class TracedFrame:
    """One compilation of one code object by Dynamo. Lines are zero-based.

    ``code`` is the number of the code object in this run. ``resumed`` is true if the frame
    continues a function after a graph break.
    """

    id: int
    compile_id: str
    function: str
    path: str
    line: int
    outcome: Literal["compiled", "skipped", "failed"]
    reason: str = ""
    resumed: bool = False
    seconds: float = 0.0
    """Wall time of the compilation in seconds, including the recorder's work."""
    code: int = -1


@dataclass(frozen=True)
class ChosenValue:
    """A value that the program read from a fake tensor without data, so that the engine chose one.

    ``answer`` is the chosen value if it is a bool or a number.
    """

    operator: str
    value: str
    stack: Stack
    answer: bool | int | float | None = None


@dataclass(frozen=True)
class TracedLines:
    """Source ranges of the instructions of one file that Dynamo traced.

    ``entered`` has all instructions of the functions that Dynamo entered, ``traced`` the
    instructions that it reached. ``reads_mode`` is true if code outside torch reads the training
    mode of a module.
    """

    traced: frozenset[Range] = frozenset()
    entered: frozenset[Range] = frozenset()
    reads_mode: bool = False


@dataclass(frozen=True)
class Receiver:
    """The kind of the object left of the dot in an attribute access: tensor, module or other.

    ``line`` and ``byte`` are the zero-based end position of the attribute, which identifies the
    access.
    """

    attribute: str
    line: int
    byte: int
    kind: SeenKind


@dataclass(frozen=True)
class Local:
    """The kind of a local variable's value: tensor, module or other.

    ``line`` is the zero-based first line of its function.
    """

    function: str
    line: int
    name: str
    kind: SeenKind


@dataclass(frozen=True)
class ShapedPlace:
    """The distinct values that a run saw at one source range.

    ``function_line`` is the line on which the function around the range begins. Positions are
    zero-based. ``start`` and ``end`` are pairs of a line and a byte, or None if Python does not
    record columns. Depending on ``role``, the range encloses a name, a return statement or an
    expression; a parameter has only its name.
    """

    role: ShapeRole
    function: str
    function_line: int
    name: str
    line: int
    start: tuple[int, int] | None
    end: tuple[int, int] | None
    values: tuple[ShapeSeen, ...]
    left_out: int = 0
    """Number of distinct values that were dropped before the last one because there were too
    many."""


@dataclass
class Recording:
    """Everything that Dynamo did in one run (a traced call of a function or module), in order."""

    frames: list[TracedFrame] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    """Guards of the run, at most ``guards.MAX_GUARDS`` of them."""
    guarded: list[GuardedCode] = field(default_factory=list)
    entries: dict[int, int] = field(default_factory=dict)
    """Number of calls of each frame's compiled code, by the number of the frame."""
    writes: list[Write] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    specializations: list[Specialization] = field(default_factory=list)
    equalities: list[Equality] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    asserts: list[RuntimeAssert] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)
    custom_ops: list[CustomOp] = field(default_factory=list)
    compiler_checks: list[CompilerCheck] = field(default_factory=list)
    chosen: list[ChosenValue] = field(default_factory=list)
    seen: list[Receiver | Local] = field(default_factory=list)
    """Kinds of values (tensor, module or other) in the analyzed file, at each source position."""
    shapes: list[ShapedPlace] = field(default_factory=list)
    shapes_left_out: int = 0
    """Number of values dropped because a frame had more than ``shapes_seen.MAX_ENTRIES``."""
    lines: TracedLines = TracedLines()
    failure: Failure | None = None
    losses: list[str] = field(default_factory=list)
    """Errors of the recorder, each in a few words; the recording may be incomplete."""
    seconds: float = 0.0

    @property
    def guard_count(self) -> int:
        return sum(code.guards for code in self.guarded)

    @property
    def op_count(self) -> int:
        return sum(len(graph.ops) for graph in self.graphs)
