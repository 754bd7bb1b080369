"""The check at the end of a script that decides whether the script shows its finding."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from ...protocol import Finding, evidence
from ..inputs import loading
from ..reduce.program import end_of_imports, is_text

_REASONS = "r for counts in torch._dynamo.utils.counters.values() for r in counts"
"""Generator expression, in source text, for the titles of all graph breaks in Dynamo's counters.

Dynamo counts graph breaks in one counter, and breaks that skip a function in another.
"""

LOOKED_FOR = "Looked for "
"""First words of the output of every script that reaches its check."""

_VARYING = re.compile(r"[\d\"'`\[\](){}<>%=,:;\n\\]+")


@dataclass(frozen=True)
class ScriptCheck:
    """A condition that holds if a script shows its finding, for the end of the script.

    ``what`` describes the finding in words. ``found`` is the condition as a Python expression. With
    ``error`` it tests the exception that ends the program, whose ``repr`` is in the variable
    ``error``. ``before`` are statements to run before the program's calls, and ``imports`` are
    their imports.
    """

    what: str
    found: str
    error: bool = False
    before: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    @classmethod
    def for_finding(cls, finding: Finding, times: int = 1) -> ScriptCheck:
        """Return a check that one run shows the finding at least ``times`` times."""
        match finding.evidence:
            case evidence.BreakEvidence(title):
                return _graph_break_check(title)
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
                return cls.for_error(exception, finding.message, title)
            case (
                evidence.ImportEvidence()
                | evidence.ExportEvidence()
                | evidence.BackendEvidence()
                | evidence.CompilerCheckEvidence()
                | None
            ):
                return cls.for_error("", finding.message)

    @classmethod
    def for_error(cls, kind: str, message: str, title: str = "") -> ScriptCheck:
        """Return a check for an exception by its class name ``kind`` and its message.

        Of the message, and of Dynamo's ``title``, it compares only the longest substring without
        numbers or quotes, because those vary.
        """
        part = _longest_fixed_part(message.partition(f"{kind}: ")[2])
        parts = [kind, *(each for each in (part, _longest_fixed_part(title)) if len(each) > 8)]
        found = " and ".join(f'"{_escape_quotes(each)}" in error' for each in parts)
        return cls(f"{kind}: {title or part}".rstrip(": "), found, error=True)


def _longest_fixed_part(words: str) -> str:
    return max((part.strip() for part in _VARYING.split(words)), key=len, default="")


def assemble_check(program: str, check: ScriptCheck) -> str:
    """Return the program with its last calls inside the statements of the check."""
    tree = ast.parse(program)
    split = len(tree.body)
    while split > 0 and isinstance(tree.body[split - 1], ast.Expr):
        split -= 1
    if split == len(tree.body) and split:
        split -= 1
    first = tree.body[split].lineno - 1 if split < len(tree.body) else 0
    lines = program.rstrip("\n").split("\n")
    head, calls = lines[:first], lines[first:]
    loads = loading.loader_text(program)
    if loads:
        imports = tree.body[: end_of_imports(tree)]
        below = min(imports[-1].end_lineno or 0, first) if imports else 0
        head[below:below] = ["", *loads.split("\n"), ""]
    own = () if check.error else ("import sys",)
    for line in reversed((*own, *loading.loader_imports(program), *check.imports)):
        if line not in map(str.strip, head):
            head.insert(_first_free_line(tree), line)
    while head and not head[-1].strip():
        head.pop()
    print_ = f'    print("{LOOKED_FOR}{_escape_quotes(check.what)}. Seen:", '
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
            *(f"    {line}" if line.strip() else "" for line in calls),
            *end,
            "",
        ]
    )


def _first_free_line(tree: ast.Module) -> int:
    """Return the zero-based line below the docstring and the ``__future__`` imports."""
    last = 0
    for node in tree.body:
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not future and not is_text(node):
            break
        last = node.end_lineno or last
    return last


def _graph_break_check(kind: str) -> ScriptCheck:
    found = f'[{_REASONS} if "{_escape_quotes(kind)}" in r]'
    return ScriptCheck(f"graph break: {kind}", found)


def _escape_quotes(words: str) -> str:
    return words.replace("\\", "\\\\").replace('"', '\\"')
