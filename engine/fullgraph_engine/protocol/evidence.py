"""What a finding rests on: one dataclass for each kind of fact.

Whoever words a finding, tells it from another one or reproduces it reads these, and not its texts.
The first field of each, ``kind``, tells them apart on the pipe and in JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

BreakOutcome = Literal["resumed", "rest-skipped", "frame-skipped", "raised"]
"""What Dynamo did behind a graph break: it went on in a new graph, ran the rest of the function or
all of it in eager mode, or raised."""
Resolution = Literal["overload", "single overload", "resolved packet"]
"""How the overload of a custom operator was chosen: the code names it, it is the only one, or by
the arguments."""
Phase = Literal["tracer", "eager"]
"""Who raised: the tracer, or the code between graphs, as it does without Dynamo."""


@dataclass(frozen=True)
class BreakEvidence:
    """``title`` is Dynamo's own, ``gb_type`` in its registry of graph breaks."""

    title: str
    outcome: BreakOutcome = "resumed"
    kind: Literal["break"] = "break"


@dataclass(frozen=True)
class SkipEvidence:
    """A frame that Dynamo left to eager mode; ``reason`` is in its words."""

    reason: str
    kind: Literal["skip"] = "skip"


@dataclass(frozen=True)
class OperatorEvidence:
    """A custom operator without ``pt2_compliant_tag``, by its name with the namespace."""

    operator: str
    resolution: Resolution = "overload"
    kind: Literal["operator"] = "operator"


@dataclass(frozen=True)
class DefinitionEvidence:
    """What the file says of an operator that it defines."""

    operator: str
    kind: Literal["definition"] = "definition"


@dataclass(frozen=True)
class SpecializationEvidence:
    """A dynamic dimension that got one size. ``source`` is the tensor's, in Dynamo's spelling;
    ``tried`` says that nobody had asked for the dimension to be dynamic."""

    symbol: str
    source: str
    value: str
    tried: bool = False
    kind: Literal["specialization"] = "specialization"


@dataclass(frozen=True)
class EqualityEvidence:
    """A dynamic dimension that has to be equal to another one, or to an expression of them."""

    symbol: str
    value: str
    kind: Literal["equality"] = "equality"


@dataclass(frozen=True)
class GuardEvidence:
    """A guard that the code itself breaks; ``expression`` for one without a source."""

    source: str = ""
    expression: str = ""
    kind: Literal["guard"] = "guard"


@dataclass(frozen=True)
class GuardFrame:
    """A frame of the stack of a guard; ``line`` is zero-based."""

    path: str
    line: int
    function: str


@dataclass(frozen=True)
class GuardFailure:
    """A guard that did not hold in a later call. ``compiled`` numbers the compiled code that has
    it, ``words`` says what changed, from what it ``was`` to what it is ``now``."""

    compiled: str
    kind: str
    source: str
    expression: str
    words: str
    was: str = ""
    now: str = ""
    stack: tuple[GuardFrame, ...] = ()


@dataclass(frozen=True)
class RecompileEvidence:
    """A function that was recompiled. ``detail`` is the part of a tensor that differs and its
    axis; ``limit`` is set if it was compiled too often and runs in eager mode since."""

    function: str
    path: str
    line: int
    guards: tuple[GuardFailure, ...] = ()
    detail: str = ""
    reasons: tuple[str, ...] = ()
    limit: str = ""
    kind: Literal["recompile"] = "recompile"


@dataclass(frozen=True)
class ForecastEvidence:
    """A function that later calls recompile. ``changed`` are the inputs that differ between these
    calls, ``first`` and ``tried`` what they were; all are empty where every call recompiles."""

    guards: tuple[GuardFailure, ...] = ()
    changed: tuple[str, ...] = ()
    first: str = ""
    tried: tuple[str, ...] = ()
    kind: Literal["forecast"] = "forecast"


@dataclass(frozen=True)
class FailureEvidence:
    """An exception that ended a run. ``title`` is Dynamo's title of what it could not do."""

    exception: str
    phase: Phase = "eager"
    title: str = ""
    kind: Literal["failure"] = "failure"


@dataclass(frozen=True)
class CompilerCheckEvidence:
    """A call of ``function`` that Dynamo evaluated to true, and that decides a condition."""

    function: str
    kind: Literal["compiler-check"] = "compiler-check"


@dataclass(frozen=True)
class ImportEvidence:
    """The module that could not be imported."""

    module: str
    kind: Literal["import"] = "import"


ExportProblem = Literal[
    "data-dependent",
    "constraint",
    "missing-fake-kernel",
    "mismatched-fake-kernel",
    "opcheck",
    "failed",
    "strict",
    "dynamic-shapes",
]
"""What ``torch.export`` refuses, in the kinds of its draft mode; how it ended; or what sizes it
takes as dynamic."""


@dataclass(frozen=True)
class TensorForm:
    """``dtype`` is its name in torch, ``float32``."""

    dtype: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class OperatorCall:
    """Dtypes and sizes of one call of an operator, ``("f32", (4, 8))`` for each tensor; None for
    other arguments. ``several``: it returned a tuple. ``lists`` are, of each input, the tensors in
    it; nothing where none is a list."""

    inputs: tuple[Union[TensorForm, None], ...]
    outputs: tuple[TensorForm, ...]
    several: bool = False
    lists: tuple[tuple[TensorForm, ...], ...] = ()


@dataclass(frozen=True)
class ExportEvidence:
    """What ``torch.export`` says of a target. ``expression`` is in its symbols. ``check`` is what
    has to hold: in names of the function it is in, so that it can be decided there, or for a
    constraint in names of the target's inputs. ``calls`` are those of an operator that has no fake
    kernel, with real tensors of several sizes."""

    problem: ExportProblem
    expression: str = ""
    check: str = ""
    operator: str = ""
    shapes: str = ""
    calls: tuple[OperatorCall, ...] = ()
    kind: Literal["export"] = "export"


Evidence = Union[
    BreakEvidence,
    SkipEvidence,
    OperatorEvidence,
    DefinitionEvidence,
    SpecializationEvidence,
    EqualityEvidence,
    GuardEvidence,
    RecompileEvidence,
    ForecastEvidence,
    FailureEvidence,
    CompilerCheckEvidence,
    ImportEvidence,
    ExportEvidence,
]
