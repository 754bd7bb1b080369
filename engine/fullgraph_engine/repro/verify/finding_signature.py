"""When two findings of two programs are the same thing.

A smaller program is of interest only if it shows what the first one showed: the same code, for the
same reason, at the same construct. Names, numbers and lines may differ, because those are what is
made smaller.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import re
from dataclasses import dataclass

from ...protocol import Finding, Frame, evidence
from ...tracing.stacks import is_machinery, is_torch

_GROUPS = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}|<[^<>]*>|0x[0-9a-fA-F]+")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORD = re.compile(r"[A-Za-z_]\w*")
_TRUTHS = frozenset({"True", "False", "None", "self"})


@dataclass(frozen=True)
class FindingSignature:
    """What a finding is about, without what names and sizes happen to be.

    ``kind`` is Dynamo's title of a break, the class of an exception or both, or what of a tensor
    is not as it was; ``reason`` the words of its context in order; ``construct`` the class of the
    syntax node where it arises and ``callee`` what is called there, both empty where they are not
    known.
    """

    code: str
    kind: str
    reason: tuple[str, ...]
    construct: str
    callee: str

    @classmethod
    def of(cls, finding: Finding) -> FindingSignature:
        construct, callee = _construct(innermost(finding))
        return cls(finding.code, _kind(finding), _reason(finding), construct, callee)

    def equals(self, other: FindingSignature, own: frozenset[str]) -> bool:
        """``own``: the names that either program has given to things itself."""
        return (
            self._is_titled_as(other)
            and self._stands_as(other, own)
            and _known(self.reason, own) == _known(other.reason, own)
        )

    def resembles(self, other: FindingSignature, own: frozenset[str]) -> bool:
        """The same but for its construct, or for the details of its reason.

        What arises where a module is read from its owner arises at its call if it is an argument.
        """
        if not self._is_titled_as(other):
            return False
        reasons = _known(self.reason, own), _known(other.reason, own)
        return self._stands_as(other, own) or (reasons[0] == reasons[1] != ())

    def _is_titled_as(self, other: FindingSignature) -> bool:
        return (self.code, self.kind) == (other.code, other.kind)

    def _stands_as(self, other: FindingSignature, own: frozenset[str]) -> bool:
        if self.construct and other.construct and self.construct != other.construct:
            return False
        names = {self.callee, other.callee} - {""}
        return len(names) < 2 or bool(names & own)


def innermost(finding: Finding) -> Frame | None:
    """The frame in which it arises, torch's own left out as long as there is another."""
    for frame in reversed(finding.stack):
        if not is_torch(frame.path) and not is_machinery(frame.path):
            return frame
    return finding.stack[-1] if finding.stack else None


def own_names(text: str) -> frozenset[str]:
    """The names that a program binds: variables, functions, classes, parameters, attributes."""
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


def _kind(finding: Finding) -> str:
    match finding.evidence:
        case evidence.RecompileEvidence(detail=detail):
            return detail.partition(" ")[0]
        case evidence.BreakEvidence(title):
            return title
        case evidence.FailureEvidence(exception, _, title):
            return ": ".join(filter(None, (title, exception)))
        case _:
            return ""


def _reason(finding: Finding) -> tuple[str, ...]:
    """The words of Dynamo's context; of an exception those of its message, of a tensor that made
    code recompile what differs in it."""
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


def _known(words: tuple[str, ...], own: frozenset[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in own)


def _construct(frame: Frame | None) -> tuple[str, str]:
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
        # In parentheses an expression may go over several lines.
        node: ast.AST = ast.parse(f"({segment}\n)", mode="eval").body
    except (SyntaxError, ValueError):
        try:
            node = ast.parse(segment).body[0]
        except (SyntaxError, ValueError, IndexError):
            return "", ""
    if isinstance(node, (ast.Name, ast.Attribute, ast.Constant)):
        return "value", ""  # each may stand for the other in a smaller program
    return type(node).__name__, _callee(node)


def _callee(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    called = node.func
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""
