"""Everything Dynamo did in one run, as plain data.

Filled by :mod:`.recorder`, read by ``findings``. Nothing here refers to torch, so a recording
can be pickled, compared and kept after the process that made it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ..protocol import Frame, Range, SeenKind
from ..protocol.evidence import BreakOutcome, Phase, Resolution
from ..protocol.shapes import ShapeRole, ShapeSeen

Stack = tuple[Frame, ...]
"""User frames, outermost first."""


@dataclass(frozen=True)
class Cause:
    """One link of a chain of breaks, in Dynamo's words."""

    kind: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""


@dataclass(frozen=True)
class Break:
    """One graph break. ``causes`` starts with the break itself and ends with what it led to.

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
    """How many frames the tracer was in: 1 where the compiled function itself broke."""
    operator: str = ""
    """The higher order operator that was being traced: ``torch.cond``."""
    hook: str = ""
    """The function of a library that a module called as a hook, if one led here."""
    ops: int = 0
    """Operators that the tracer had in its graph."""

    @property
    def kind(self) -> str:
        return self.causes[0].kind


@dataclass(frozen=True)
class Skip:
    """A frame that Dynamo did not trace, and why.

    ``resumed``: the frame is what is left of the function behind a break.
    """

    path: str
    function: str
    line: int
    reason: str
    callers: Stack = ()
    resumed: bool = False


@dataclass(frozen=True)
class Op:
    """One node of a graph that calls something, with the user code that created it."""

    name: str
    target: str
    result: str
    stack: Stack


@dataclass(frozen=True)
class Graph:
    """One graph that reached the backend. Sizes by node name: symbolic, and with hints."""

    frame: int
    ops: tuple[Op, ...]
    sizes: dict[str, tuple[tuple[str, ...], tuple[int, ...]]]
    code: str = ""


@dataclass(frozen=True)
class Guard:
    """A leaf of the tree of guards: ``kind`` is its class (``EQUALS_MATCH``), ``source`` the value
    that it is checked on, of type ``type``, and ``expressions`` what is checked.

    ``source`` is empty where a guard is about no value, or about several.
    """

    frame: int
    kind: str
    source: str
    expressions: tuple[str, ...]
    stack: Stack = ()
    type: str = ""


@dataclass(frozen=True)
class GuardedCode:
    """A compiled frame that has guards, and how many. ``last`` is where its last code comes from.

    ``resumed``: it is what is left of a function behind a break.
    """

    frame: int
    last: Range
    guards: int
    resumed: bool


@dataclass(frozen=True)
class Write:
    """A value that was there before and that a frame has changed.

    ``target`` is its source, or ``len(source)``. ``value`` is its new value in Python's words,
    empty where that is no constant.
    """

    frame: int
    target: str
    value: str


@dataclass(frozen=True)
class Symbol:
    """A symbolic size that a ShapeEnv created; ``hint`` is None for an unbacked one.

    ``letter`` is what the probe calls it, if it does.
    """

    frame: int
    name: str
    source: str
    hint: int | None
    stack: Stack = ()
    letter: str = ""


@dataclass(frozen=True)
class Specialization:
    """A symbol that became a constant."""

    frame: int
    symbol: str
    source: str
    value: str
    reason: str
    stack: Stack


@dataclass(frozen=True)
class Limit:
    """A symbol, ``size`` in this run, that a condition limits to sizes from ``low`` to ``high``,
    both included."""

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
    """A symbol that came to be an expression of others, by which it was replaced."""

    frame: int
    symbol: str
    value: str
    stack: Stack


@dataclass(frozen=True)
class RuntimeAssert:
    """A condition on unbacked symbols that is checked when the graph runs."""

    frame: int
    expression: str
    message: str
    stack: Stack


GuardFamily = Literal["size", "tensor", "value", "type", "identity", "structure", "mode", "other"]
"""What a guard is about: a size, another property of a tensor, a Python value, its type, which
object it is, a length or keys, grad mode and the like."""


@dataclass(frozen=True)
class FailedGuard:
    """A guard of the compilation ``compiled`` that does not hold for the values of a call.

    ``source`` is the value it is about, ``detail`` the part of a tensor that differs (``size 0``,
    ``dtype``) or of the global state; ``was`` and ``now`` are empty where they cannot be said.
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
    """A frame was traced again because guards of earlier compilations failed.

    ``reasons`` are Dynamo's words, one for each earlier compilation; ``failures`` all guards that
    failed, those of the latest compilation first. ``limit`` names the setting that allows no more
    compilations, with its value. From then on the frame runs without Dynamo, or
    raises because of ``raised``: ``fullgraph=True`` or a setting of ``torch._dynamo.config``.
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
    """A call of an operator and whether it carries the ``pt2_compliant_tag``."""

    frame: int
    name: str
    compliant: bool
    resolution: Resolution
    stack: Stack


@dataclass(frozen=True)
class CompilerCheck:
    """A call of ``torch.compiler.is_compiling``, or of a ``function`` like it, that Dynamo
    evaluated to ``value``."""

    function: str
    value: bool
    stack: Stack


@dataclass(frozen=True)
class Failure:
    """An exception that left the traced call, or that Dynamo suppressed on the way.

    ``phase`` is who raised it: the tracer, the code that ran between graphs, or the same code
    without Dynamo at all (then it is the program that is wrong).
    """

    phase: Phase
    kind: str
    message: str
    stack: Stack
    causes: tuple[Cause, ...] = ()
    """The break that it was at first, where Dynamo made an error of one, and what that led to."""
    operator: str = ""
    """The higher order operator that was being traced: ``torch.cond``."""

    @property
    def in_graph(self) -> bool:
        """Whether it was raised by a captured graph, which does not know the user's lines.

        A graph module may cut off its own code from what passes through it.
        """
        return any(
            frame.path.startswith("<eval_with_key>") or frame.path.endswith("fx/graph_module.py")
            for frame in self.stack
        )


@dataclass(frozen=True)
class TracedFrame:
    """One compilation of one code object, which ``code`` numbers. Lines are zero-based.

    ``resumed``: it is what is left of a function behind a break.
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
    """Wall time, of which the recorder takes a part."""
    code: int = -1


@dataclass(frozen=True)
class ChosenValue:
    """A value that a fake tensor did not have and the run took from its oracle.

    ``answer`` is the value itself where it is a truth or a number.
    """

    operator: str
    value: str
    stack: Stack
    answer: bool | int | float | None = None


@dataclass(frozen=True)
class TracedLines:
    """Of the functions of one file that Dynamo entered: where their instructions come from, and
    those of them that it came to.

    ``reads_mode``: code outside torch reads whether a module is in training mode.
    """

    traced: frozenset[Range] = frozenset()
    entered: frozenset[Range] = frozenset()
    reads_mode: bool = False


@dataclass(frozen=True)
class Receiver:
    """What stood left of the dot where an attribute was loaded.

    ``line`` and ``byte`` are where the attribute ends, zero-based: no other one ends there.
    """

    attribute: str
    line: int
    byte: int
    kind: SeenKind


@dataclass(frozen=True)
class Local:
    """What a local variable was. ``line`` is the zero-based first line of its function."""

    function: str
    line: int
    name: str
    kind: SeenKind


@dataclass(frozen=True)
class ShapedPlace:
    """The distinct values of one place of the code, zero-based.

    ``function_line`` is the first line of the function. ``start`` and ``end``, each a line and a
    byte, are None where the interpreter tells no columns. What they enclose depends on the role:
    a name, a return statement or an expression; parameters have only their name.
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
    """Values between the last two, where there were very many distinct ones."""


@dataclass
class Recording:
    """In the order in which things happened."""

    frames: list[TracedFrame] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    """Of a run with very many not all."""
    guarded: list[GuardedCode] = field(default_factory=list)
    entries: dict[int, int] = field(default_factory=dict)
    """How often the code of a frame was run after it was compiled, where that is known."""
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
    """In the file that was to be watched; each once for each kind of value that it was."""
    shapes: list[ShapedPlace] = field(default_factory=list)
    shapes_left_out: int = 0
    """Values that were too many."""
    lines: TracedLines = TracedLines()
    failure: Failure | None = None
    losses: list[str] = field(default_factory=list)
    """Mistakes of the recorder, each in a few words: something may be missing."""
    seconds: float = 0.0

    @property
    def guard_count(self) -> int:
        return sum(code.guards for code in self.guarded)

    @property
    def op_count(self) -> int:
        return sum(len(graph.ops) for graph in self.graphs)
