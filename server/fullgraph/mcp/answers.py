"""The answers of the tools, from which the output schemas of the tools are generated.

A field with its default value is left out of the answer. Locations (``at``) are
``path:line:column``, counted from 1; ``source`` is the text of that line.
"""

from __future__ import annotations

from dataclasses import dataclass


class Refused(Exception):
    """Raised if a tool cannot answer; the message is one sentence with the cause and what to do."""


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


@dataclass(frozen=True)
class VerifiedFix:
    """An edit that removes findings, verified by a trace and by comparing results and gradients.

    ``grade`` is ``safe`` (can be applied as it is), ``unsafe`` (``doubt`` says what may differ) or
    ``suggestion`` (adapt it first). If several edits are applied, ``at`` is a place in the text
    after the edits before this one.
    """

    title: str
    grade: str
    at: str
    code: str
    evidence: str
    doubt: str = ""
    removes: tuple[str, ...] = ()
    diff: str = ""


@dataclass(frozen=True)
class UnfixedFinding:
    """A finding for which no edit was found, and why."""

    at: str
    code: str
    message: str
    why: str


@dataclass(frozen=True)
class FixAnswer:
    """Verified edits. ``diff`` is a unified diff that makes all edits of ``applied`` to the
    analyzed text; ``fixed_hash`` is the hash of the text after it.

    Nothing was written. Each of ``alternatives`` is an edit with a worse grade than the call
    allows, or another edit for the same finding. Its diff starts from the text after ``diff`` if
    the call was for the whole file, else from the analyzed text.
    """

    path: str
    hash: str
    summary: str
    fixed_hash: str = ""
    diff: str = ""
    applied: tuple[VerifiedFix, ...] = ()
    alternatives: tuple[VerifiedFix, ...] = ()
    unfixed: tuple[UnfixedFinding, ...] = ()
    notes: tuple[str, ...] = ()
    cursor: str = ""


@dataclass(frozen=True)
class ChangedFinding:
    """A finding of the text before or after a change. ``change`` is ``gone``, ``new``,
    ``changed``, ``remains`` or ``unknown`` (a text was not traced; ``why`` is the reason).

    ``at`` is a place in the new text, for a finding that is gone in the old text.
    """

    change: str
    code: str
    severity: str
    at: str
    message: str
    source: str = ""
    why: str = ""


@dataclass(frozen=True)
class ComparedBehavior:
    """Whether a function returns the same results and gradients in both texts.

    ``outcome`` is ``same``, ``differs`` or ``unverified``, ``tests`` the number of compared calls.
    ``compiled`` is the outcome for compiled code, empty if it was not compared.
    """

    target: str
    outcome: str
    tests: int
    exact: bool = False
    reason: str = ""
    compiled: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerifyAnswer:
    """The effect of an edit on findings, results and gradients.

    ``hash`` is of the text before the edit, ``changed_hash`` of the text after it.
    """

    path: str
    hash: str
    changed_hash: str
    verdict: str
    findings: tuple[ChangedFinding, ...] = ()
    behavior: tuple[ComparedBehavior, ...] = ()
    targets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cursor: str = ""


@dataclass(frozen=True)
class CompareAnswer:
    """The findings and traces that differ between a git revision and the text now, or between two
    Pythons."""

    path: str
    hash: str
    summary: str
    findings: tuple[ChangedFinding, ...] = ()
    targets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    cursor: str = ""


@dataclass(frozen=True)
class ReproAnswer:
    """A short script that shows one finding. ``verified``: a fresh Python process ran the script
    and the finding appeared.
    """

    path: str
    hash: str
    finding: str
    script: str = ""
    verified: bool = False
    summary: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorAnswer:
    """The documentation of a torch name: schemas of its overloads, fake kernel, decomposition and
    tags."""

    name: str
    text: str
    torch: str = ""
    notes: tuple[str, ...] = ()
    cursor: str = ""
