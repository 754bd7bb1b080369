"""The answers of the tools, from which the output schemas of the tools are generated.

A field with its default value is left out of the answer. Locations (``at``) are
``path:line:column``, counted from 1; ``source`` is the text of that line.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ListedFinding:
    """A finding, such as a graph break. ``also`` are further places with the same cause."""

    id: str
    code: str
    severity: str
    at: str
    source: str
    message: str
    cost: str = ""
    cause: str = ""
    targets: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class ListedTarget:
    """A function or module class of the file, and how its trace ended."""

    name: str
    at: str
    result: str


@dataclass(frozen=True)
class CheckAnswer:
    """The findings of a file, the one to change first at the top."""

    path: str
    hash: str
    summary: str
    change_first: str = ""
    findings: tuple[ListedFinding, ...] = ()
    targets: tuple[ListedTarget, ...] = ()
    notes: tuple[str, ...] = ()
    cursor: str = ""


@dataclass(frozen=True)
class StackFrame:
    """A call on the way to a finding, the most recent one last."""

    at: str
    function: str
    source: str = ""


@dataclass(frozen=True)
class ExplainAnswer:
    """One finding in detail, or the documentation of a finding code.

    ``values`` are the values that the trace saw on the lines of the finding, ``guards`` the
    conditions of compiled code that these lines caused.
    """

    about: str
    path: str = ""
    hash: str = ""
    finding: ListedFinding | None = None
    reason: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    causes: tuple[str, ...] = ()
    stack: tuple[StackFrame, ...] = ()
    values: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    documentation: str = ""
    cursor: str = ""


@dataclass(frozen=True)
class GraphAnswer:
    """A document about what torch.compile made of targets."""

    path: str
    hash: str
    kind: str
    text: str
    notes: tuple[str, ...] = ()
    cursor: str = ""
