"""Evidence of findings: structured facts, with one dataclass for each kind.

Code that describes, compares or reproduces findings reads evidence instead of parsing texts.
``kind``, the first field in JSON, identifies the dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

BreakOutcome = Literal["resumed", "rest-skipped", "frame-skipped", "raised"]
"""Consequence of a graph break.

``resumed``: Dynamo continued in a new graph. ``rest-skipped``: it ran the rest of the function in
eager mode. ``frame-skipped``: it ran the whole function in eager mode. ``raised``: it raised an
exception.
"""
_CONSEQUENCES: dict[BreakOutcome, str] = {
    "rest-skipped": "Dynamo cannot resume here and runs the rest of the function in eager mode.",
    "frame-skipped": "Dynamo skips the whole function and runs it in eager mode.",
}
Resolution = Literal["overload", "single overload", "resolved packet"]
"""Way in which the overload of a custom operator was chosen: the code names it, the operator has
only one, or the arguments select it.
"""
Phase = Literal["tracer", "eager"]
"""Origin of an exception: Dynamo's tracer, or user code that raises it without Dynamo too."""


MISSING_NEXT = "Missing tp_iternext"
"""Dynamo's name for a graph break at an iterator that it cannot read."""


@dataclass(frozen=True)
class BreakEvidence:
    """A graph break; ``title`` is Dynamo's name for the type of break (``gb_type`` in its
    registry)."""

    title: str
    outcome: BreakOutcome = "resumed"
    strict: str = ""
    """Argument or function that turns the break into an error, such as ``fullgraph=True``; empty if
    it is not an error."""
    condition: str = ""
    """Condition that Dynamo could not decide because it depends on tensor data, as Dynamo writes it
    (``Eq(u0, 0)``); empty for other breaks."""
    kind: Literal["break"] = "break"

    @property
    def consequence(self) -> str:
        """Sentence for the user about what Dynamo did after the break; empty if it continued in a
        new graph."""
        if self.outcome == "raised":
            under = f" under `{self.strict}`" if self.strict else ""
            return f"The graph break is an error{under}."
        return _CONSEQUENCES.get(self.outcome, "")


@dataclass(frozen=True)
class SkipEvidence:
    """A function call that Dynamo did not trace, so that it runs in eager mode; ``reason`` is
    Dynamo's text."""

    reason: str
    kind: Literal["skip"] = "skip"


@dataclass(frozen=True)
class OperatorEvidence:
    """A call of a custom operator without ``pt2_compliant_tag``; ``operator`` includes the
    namespace."""

    operator: str
    resolution: Resolution = "overload"
    kind: Literal["operator"] = "operator"


@dataclass(frozen=True)
class DefinitionEvidence:
    """The definition of a custom operator in the analyzed file; ``operator`` is the operator's
    name."""

    operator: str
    kind: Literal["definition"] = "definition"


@dataclass(frozen=True)
class SpecializationEvidence:
    """A dynamic dimension that Dynamo specialized to one size, ``value``.

    ``source`` is Dynamo's name for the tensor or its size, such as ``L['x'].size()[0]``. ``tried``
    is true if the engine made the dimension dynamic to test it, and false if the user did.
    """

    symbol: str
    source: str
    value: str
    tried: bool = False
    kind: Literal["specialization"] = "specialization"


@dataclass(frozen=True)
class EqualityEvidence:
    """A dynamic dimension that must equal another dimension, or an expression of dimensions."""

    symbol: str
    value: str
    kind: Literal["equality"] = "equality"


@dataclass(frozen=True)
class GuardEvidence:
    """A guard on a value that the traced code itself changes, so that the next call recompiles.

    ``source`` is Dynamo's name for the value. If it is empty, ``expression`` is the condition of
    the guard.
    """

    source: str = ""
    expression: str = ""
    kind: Literal["guard"] = "guard"


@dataclass(frozen=True)
class GuardFrame:
    """One frame in the user's stack at which Dynamo created a guard; ``line`` is zero-based."""

    path: str
    line: int
    function: str


@dataclass(frozen=True)
class GuardFailure:
    """A guard that failed in a later call and thereby caused a recompile.

    ``compiled`` is the compile id of the code that the guard protects. ``words`` is a clause on the
    change of the value, from ``was`` to ``now``. ``stack`` are the user's frames where Dynamo
    created the guard.
    """

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
    """A function that Dynamo recompiled.

    ``detail`` is the property of a tensor that differs, such as ``size 0``. ``reasons`` are
    Dynamo's messages. ``limit`` is the recompile limit that the function reached, after which it
    runs without Dynamo; empty if it did not reach one.
    """

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
    """A function that recompiled when the engine called it again with changed inputs, as later
    calls of the user would.

    ``changed`` are the inputs that differed. ``first`` is their value in the first call, and
    ``tried`` are their values in later calls. All three are empty if every call recompiles,
    whatever the inputs.
    """

    guards: tuple[GuardFailure, ...] = ()
    changed: tuple[str, ...] = ()
    first: str = ""
    tried: tuple[str, ...] = ()
    kind: Literal["forecast"] = "forecast"


@dataclass(frozen=True)
class FailureEvidence:
    """An exception that ended the trace of a target; ``title`` is Dynamo's title of an unsupported
    operation, or empty."""

    exception: str
    phase: Phase = "eager"
    title: str = ""
    kind: Literal["failure"] = "failure"


@dataclass(frozen=True)
class CompilerCheckEvidence:
    """A condition on a call of ``function``, which returns true only while Dynamo traces, such as
    ``torch.compiler.is_compiling``."""

    function: str
    kind: Literal["compiler-check"] = "compiler-check"


@dataclass(frozen=True)
class ImportEvidence:
    """A module that could not be imported."""

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
"""Kind of a problem with ``torch.export``.

The first five are problems that draft export reports. ``failed`` and ``strict``: the export raised,
or raised only in strict mode. ``dynamic-shapes``: not a problem, but the list of sizes that may be
dynamic.
"""


@dataclass(frozen=True)
class TensorForm:
    """Dtype and sizes of a tensor; ``dtype`` is its name in torch, such as ``float32``."""

    dtype: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class OperatorCall:
    """Dtypes and sizes of the tensors in one call of an operator.

    ``inputs`` has one item per argument, None for arguments other than tensors. ``several``: the
    call returned a tuple. ``lists`` has the tensors of each argument with a list; it is empty
    without list arguments.
    """

    inputs: tuple[Union[TensorForm, None], ...]
    outputs: tuple[TensorForm, ...]
    several: bool = False
    lists: tuple[tuple[TensorForm, ...], ...] = ()


@dataclass(frozen=True)
class ExportEvidence:
    """A result of ``torch.export`` for a target (a function or module class).

    ``expression`` is a condition in symbols of the export. ``check`` is the condition that must
    hold, in variable names of the function that decides it, or for a constraint in names of the
    target's inputs. ``shapes`` is source code of ``dynamic_shapes``. ``calls`` are calls of an
    operator without a fake kernel, with real tensors of several sizes.
    """

    problem: ExportProblem
    expression: str = ""
    check: str = ""
    operator: str = ""
    shapes: str = ""
    calls: tuple[OperatorCall, ...] = ()
    kind: Literal["export"] = "export"


BackendProblem = Literal[
    "error",
    "fallback",
    "donated-buffer",
    "mutated-input",
    "repeated-block",
    "no-compiler",
    "incomplete",
]
"""Kind of a finding about AOTAutograd and Inductor; ``incomplete``: the compilation did not end."""


@dataclass(frozen=True)
class BackendEvidence:
    """A problem that AOTAutograd or Inductor has with a graph of Dynamo.

    ``stage`` is the part of the compiler, ``exception`` the type of its error. ``operators`` are
    names without overload, such as ``aten.linalg_eig``, for which Inductor calls PyTorch's kernel.
    ``backward``: the problem is in the backward graph. ``class_name`` is the qualified name of a
    module class whose objects a graph repeats. ``container`` is the attribute of the compiled
    module that contains all objects of the class, such as ``encoder.layers``; empty if several do.
    """

    problem: BackendProblem
    stage: Literal["", "AOTAutograd", "Inductor", "execution"] = ""
    exception: str = ""
    operators: tuple[str, ...] = ()
    backward: bool = False
    class_name: str = ""
    container: str = ""
    kind: Literal["backend"] = "backend"

    @property
    def backend(self) -> Literal["aot_eager", "inductor"]:
        """Name of the backend of ``torch.compile`` that shows the problem."""
        return "inductor" if self.stage == "Inductor" else "aot_eager"


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
    BackendEvidence,
]
