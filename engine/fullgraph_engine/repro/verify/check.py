"""What a plain script looks at to tell whether it shows a finding."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from ...protocol import Finding, evidence
from ..inputs import loading
from ..reduce.program import end_of_imports, is_text

_REASONS = "r for counts in torch._dynamo.utils.counters.values() for r in counts"
"""Dynamo counts a break under one title, and one that made it skip a function under another."""

LOOKED_FOR = "Looked for "
"""How the output of every script begins that came as far as its check."""

_VARYING = re.compile(r"[\d\"'`\[\](){}<>%=,:;\n\\]+")


@dataclass(frozen=True)
class Check:
    """``found`` is an expression, true where the finding shows. With ``error`` it is about the
    exception that the program ends with, whose ``repr`` has this name there. ``before`` are
    statements ahead of the program's calls, ``imports`` are what these need, ``what`` is what is
    looked for, in words."""

    what: str
    found: str
    error: bool = False
    before: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    @classmethod
    def of(cls, finding: Finding, times: int = 1) -> Check:
        """The check for a finding that is there so many times."""
        match finding.evidence:
            case evidence.BreakEvidence(title):
                return _of_break(title)
            case evidence.OperatorEvidence(name) | evidence.DefinitionEvidence(name):
                found = f'[{_REASONS} if "non-PT2-compliant" in r]'
                before = ("torch._dynamo.config.only_allow_pt2_compliant_ops = True",)
                return cls(f"operator {name} without pt2_compliant_tag", found, before=before)
            case evidence.RecompileEvidence() | evidence.ForecastEvidence():
                found = "[*torch._dynamo.utils.guard_failures.values()]"
                if times > 1:
                    frames = 'torch._dynamo.utils.counters["frames"]["total"]'
                    found = f"{frames} > {times} and {found}"
                return cls(f"recompile ({finding.code})", found)
            case evidence.SkipEvidence():
                found = 'not torch._dynamo.utils.counters["stats"]["calls_captured"] and ["none"]'
                return cls(f"a function that is not compiled ({finding.code})", found)
            case (
                evidence.SpecializationEvidence()
                | evidence.EqualityEvidence()
                | evidence.GuardEvidence()
            ):
                return cls(
                    "a dynamic dimension that gets specialized",
                    '"ConstraintViolationError" in error',
                    error=True,
                )
            case evidence.FailureEvidence(exception, _, title):
                return cls.of_error(exception, finding.message, title)
            case (
                evidence.ImportEvidence()
                | evidence.ExportEvidence()
                | evidence.CompilerCheckEvidence()
                | None
            ):
                return cls.of_error("", finding.message)

    @classmethod
    def of_error(cls, kind: str, message: str, title: str = "") -> Check:
        """By the class of the exception, and the longest parts that cannot vary of its message and
        of Dynamo's title of what is behind it."""
        part = _steady(message.partition(f"{kind}: ")[2])
        parts = [kind, *(each for each in (part, _steady(title)) if len(each) > 8)]
        found = " and ".join(f'"{_literal(each)}" in error' for each in parts)
        return cls(f"{kind}: {title or part}".rstrip(": "), found, error=True)


def _steady(words: str) -> str:
    return max((part.strip() for part in _VARYING.split(words)), key=len, default="")


def assembled(program: str, check: Check) -> str:
    """The program with its last calls inside of the check."""
    tree = ast.parse(program)
    split = len(tree.body)
    while split > 0 and isinstance(tree.body[split - 1], ast.Expr):
        split -= 1
    if split == len(tree.body) and split:
        split -= 1
    first = tree.body[split].lineno - 1 if split < len(tree.body) else 0
    lines = program.rstrip("\n").split("\n")
    head, act = lines[:first], lines[first:]
    loads = loading.loader(program)
    if loads:
        imports = tree.body[: end_of_imports(tree)]
        below = min(imports[-1].end_lineno or 0, first) if imports else 0
        head[below:below] = ["", *loads.split("\n"), ""]
    own = () if check.error else ("import sys",)
    for line in reversed((*own, *loading.imports(program), *check.imports)):
        if line not in map(str.strip, head):
            head.insert(_first(tree), line)
    while head and not head[-1].strip():
        head.pop()
    print_ = f'    print("{LOOKED_FOR}{_literal(check.what)}. Seen:", '
    if check.error:
        end = [
            "except BaseException as raised:",
            "    error = repr(raised)",
            f'{print_}error, sep="\\n")',
            f"    raise SystemExit({check.found})",
        ]
    else:
        end = [
            "finally:",
            f"    found = {check.found}",
            f'{print_}*(found or [sys.exc_info()[1]]), sep="\\n")',
            "    sys.exit(bool(found))",
        ]
    return "\n".join(
        [
            *head,
            "",
            *check.before,
            "try:",
            *(f"    {line}" if line.strip() else "" for line in act),
            *end,
            "",
        ]
    )


def _first(tree: ast.Module) -> int:
    """The line, zero-based, before which nothing may be put."""
    last = 0
    for node in tree.body:
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not future and not is_text(node):
            break
        last = node.end_lineno or last
    return last


def _of_break(kind: str) -> Check:
    found = f'[{_REASONS} if "{_literal(kind)}" in r]'
    return Check(f"graph break: {kind}", found)


def _literal(words: str) -> str:
    return words.replace("\\", "\\\\").replace('"', '\\"')
