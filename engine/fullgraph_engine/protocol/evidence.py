"""Evidence of findings: one dataclass for each kind of fact.

Code that words, distinguishes or reproduces findings reads evidence, not their texts. ``kind``,
which is the first field on the pipe and in JSON, identifies the type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

BreakOutcome = Literal["resumed", "rest-skipped", "frame-skipped", "raised"]
"""Consequence of a graph break: Dynamo continued in a new graph, ran the rest of the function or
the whole function in eager mode, or raised.
"""
Resolution = Literal["overload", "single overload", "resolved packet"]
"""Way in which the overload of a custom operator was chosen: the code names it, the operator has
only one, or the arguments select it.
"""
Phase = Literal["tracer", "eager"]
"""Origin of an exception: the tracer, or eager code, which raises it without Dynamo as well."""


@dataclass(frozen=True)
class BreakEvidence:
    """A graph break; ``title`` is Dynamo's name for it, as ``gb_type`` in its registry."""

    title: str
    outcome: BreakOutcome = "resumed"
    kind: Literal["break"] = "break"


@dataclass(frozen=True)
class SkipEvidence:
    """A frame that Dynamo left to eager mode; ``reason`` is Dynamo's text."""

    reason: str
    kind: Literal["skip"] = "skip"


@dataclass(frozen=True)
class OperatorEvidence:
    """A custom operator without ``pt2_compliant_tag``; ``operator`` includes the namespace."""

    operator: str
    resolution: Resolution = "overload"
    kind: Literal["operator"] = "operator"


@dataclass(frozen=True)
class DefinitionEvidence:
    """An operator's definition in the analyzed file."""

    operator: str
    kind: Literal["definition"] = "definition"


@dataclass(frozen=True)
class SpecializationEvidence:
    """A dynamic dimension that was specialized to one size.

    ``source`` is the tensor's source in Dynamo's notation. ``tried`` is true if only the engine,
    not the user, made the dimension dynamic.
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
    """A guard that the traced code itself invalidates; ``expression`` replaces a missing source."""

    source: str = ""
    expression: str = ""
    kind: Literal["guard"] = "guard"


@dataclass(frozen=True)
class GuardFrame:
    """One frame in the stack of a guard; ``line`` is zero-based."""

    path: str
    line: int
    function: str


@dataclass(frozen=True)
class GuardFailure:
    """A guard that failed in a later call.

    ``compiled`` is the id of the compiled code with the guard. ``words`` describes the change, from
    ``was`` to ``now``.
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
    """A function that was recompiled.

    ``detail`` is the property of a tensor that differs, with its axis. ``limit`` is the recompile
    limit that the function reached, after which it runs in eager mode; empty if it did not.
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
    """A function that later calls will recompile.

    ``changed`` are the inputs that differ between the calls. ``first`` and ``tried`` are their
    values. All are empty if every call recompiles.
    """

    guards: tuple[GuardFailure, ...] = ()
    changed: tuple[str, ...] = ()
    first: str = ""
    tried: tuple[str, ...] = ()
    kind: Literal["forecast"] = "forecast"


@dataclass(frozen=True)
class FailureEvidence:
    """An exception that ended a run; ``title`` is Dynamo's title of the unsupported operation."""

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
"""Kind of an export problem, as in the draft mode of ``torch.export``; how the export failed; or
which sizes may be dynamic.
"""


@dataclass(frozen=True)
class TensorForm:
    """Dtype and sizes of a tensor; ``dtype`` is its name in torch, such as ``float32``."""

    dtype: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class OperatorCall:
    """Dtypes and sizes of one call of an operator.

    ``inputs`` has one item per argument, None for other values than tensors. ``several``: the call
    returned a tuple. ``lists`` has the tensors in each list argument; it is empty without such an
    argument.
    """

    inputs: tuple[Union[TensorForm, None], ...]
    outputs: tuple[TensorForm, ...]
    several: bool = False
    lists: tuple[tuple[TensorForm, ...], ...] = ()


@dataclass(frozen=True)
class ExportEvidence:
    """The result of ``torch.export`` for a target.

    ``expression`` uses symbols of the export. ``check`` is the condition that must hold: in names
    of the function where it is decided, or for a constraint in names of the target's inputs.
    ``calls`` are calls of an operator without a fake kernel, with real tensors of several sizes.
    """

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
