"""Comparison of the findings of two programs.

A smaller program is interesting only if it shows the finding of the original: the same code, for
the same reason, at the same kind of syntax node. Names, numbers and lines may differ, because the
reducer changes them.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import re
from dataclasses import dataclass

from ...protocol import Finding, Frame, evidence
from ...targets.source import last_name
from ...tracing.stacks import is_machinery, is_torch

_GROUPS = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}|<[^<>]*>|0x[0-9a-fA-F]+")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORD = re.compile(r"[A-Za-z_]\w*")
_TRUTHS = frozenset({"True", "False", "None", "self"})


@dataclass(frozen=True)
class FindingSignature:
    """The properties of a finding that do not depend on names and sizes.

    ``kind`` is Dynamo's title of a graph break, the class of an exception, or both, or the property
    of a tensor that changed. ``reason`` has the words of the explanation that Dynamo calls context,
    in order. ``construct`` is the class of the syntax node at the finding, and ``callee`` the name
    of the function called there; both are empty if unknown.
    """

    code: str
    kind: str
    reason: tuple[str, ...]
    construct: str
    callee: str

    @classmethod
    def from_finding(cls, finding: Finding) -> FindingSignature:
        construct, callee = _construct_and_callee(innermost_user_frame(finding))
        return cls(finding.code, _finding_kind(finding), _reason_words(finding), construct, callee)

    def is_equal_to(self, other: FindingSignature, own: frozenset[str]) -> bool:
        """Whether both signatures are equal; ``own`` are names that either program defines.

        These names are not compared, because the reducer may change them.
        """
        return (
            self._has_same_title(other)
            and self._has_same_construct(other, own)
            and _foreign_words(self.reason, own) == _foreign_words(other.reason, own)
        )

    def is_similar_to(self, other: FindingSignature, own: frozenset[str]) -> bool:
        """Whether both signatures are equal except for the syntax node or the details of the
        reason.

        ``own`` are names that either program defines. For example, a break where a submodule is
        read moves to its call when the submodule becomes an argument.
        """
        if not self._has_same_title(other):
            return False
        reasons = _foreign_words(self.reason, own), _foreign_words(other.reason, own)
        return self._has_same_construct(other, own) or (reasons[0] == reasons[1] != ())

    def _has_same_title(self, other: FindingSignature) -> bool:
        return (self.code, self.kind) == (other.code, other.kind)

    def _has_same_construct(self, other: FindingSignature, own: frozenset[str]) -> bool:
        if self.construct and other.construct and self.construct != other.construct:
            return False
        names = {self.callee, other.callee} - {""}
        return len(names) < 2 or bool(names & own)


def innermost_user_frame(finding: Finding) -> Frame | None:
    """Return the innermost frame of a finding outside torch, or the last if all are torch's."""
    for frame in reversed(finding.stack):
        if not is_torch(frame.path) and not is_machinery(frame.path):
            return frame
    return finding.stack[-1] if finding.stack else None


def own_names(text: str) -> frozenset[str]:
    """Return the names of variables, functions, classes and attributes that a program binds."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found.add(node.attr)
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
    return frozenset(found - set(dir(builtins)))


def _finding_kind(finding: Finding) -> str:
    match finding.evidence:
        case evidence.RecompileEvidence(detail=detail):
            return detail.partition(" ")[0]
        case evidence.BreakEvidence(title):
            return title
        case evidence.FailureEvidence(exception, _, title):
            return ": ".join(filter(None, (title, exception)))
        case _:
            return ""


def _reason_words(finding: Finding) -> tuple[str, ...]:
    """Return the words of Dynamo's context for a break, or of an exception's message.

    For a recompile they name the property of the tensor that changed.
    """
    words = finding.context or finding.explanation
    match finding.evidence:
        case evidence.OperatorEvidence(operator) | evidence.DefinitionEvidence(operator):
            return (operator,)
        case (
            evidence.SpecializationEvidence()
            | evidence.EqualityEvidence()
            | evidence.GuardEvidence()
            | evidence.SkipEvidence()
        ):
            return ()
        case evidence.RecompileEvidence(detail=detail):
            words = detail or words
        case evidence.FailureEvidence() | evidence.ImportEvidence():
            words = finding.message
        case evidence.BreakEvidence() | evidence.ForecastEvidence() | None:
            pass
    words = words.split("\n")[0]
    while True:
        shorter = _GROUPS.sub(" ", words)
        if shorter == words:
            break
        words = shorter
    words = _QUOTED.sub(" ", words)
    return tuple(word for word in _WORD.findall(words) if word not in _TRUTHS)


def _foreign_words(words: tuple[str, ...], own: frozenset[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in own)


def _construct_and_callee(frame: Frame | None) -> tuple[str, str]:
    if frame is None or frame.end_byte < 0:
        return "", ""
    lines = [linecache.getline(frame.path, n + 1) for n in range(frame.line, frame.end_line + 1)]
    raw = [line.encode() for line in lines]
    if not raw or not raw[-1]:
        return "", ""
    raw[-1] = raw[-1][: frame.end_byte]
    raw[0] = raw[0][frame.byte :]
    segment = b"".join(raw).decode(errors="replace").strip()
    try:
        # Parentheses allow an expression to span several lines.
        node: ast.AST = ast.parse(f"({segment}\n)", mode="eval").body
    except (SyntaxError, ValueError):
        try:
            node = ast.parse(segment).body[0]
        except (SyntaxError, ValueError, IndexError):
            return "", ""
    if isinstance(node, (ast.Name, ast.Attribute, ast.Constant)):
        return "value", ""  # a smaller program may replace a name or attribute by a constant
    return type(node).__name__, last_name(node.func) if isinstance(node, ast.Call) else ""
