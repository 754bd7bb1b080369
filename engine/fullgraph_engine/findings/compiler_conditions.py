"""Conditions on ``torch.compiler.is_compiling()``, and the code that they exclude from the compiled
or the eager version.

Dynamo evaluates the function while it traces, so the compiled code has one branch of a condition on
it. Without ``torch.compile`` the function returns False, and the other branch runs.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..protocol import Finding, Frame, Range, Related, node_range
from ..protocol.evidence import CompilerCheckEvidence
from ..targets.source import last_name
from ..tracing.recording import CompilerCheck, Stack
from .conditions import block_range, skipped_statements, statement_blocks
from .places import SourceText, finding_identity, related_to, with_text

CODE = "compile/different-code"

_NAMES = ("is_compiling", "is_dynamo_compiling", "is_exporting")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
_LONGEST = 40
"""Maximum number of characters of code quoted in a sentence; longer code is described by its
lines."""


@dataclass(frozen=True)
class _Choice:
    """A condition that depends on ``is_compiling()``, and the ranges that it excludes from one
    version.

    ``compiled`` is the range that runs only when compiled, ``uncompiled`` the range that runs only
    in eager mode. None stands for a version without code of its own.
    """

    condition: Range
    compiled: Range | None
    uncompiled: Range | None


class CompilerConditions:
    """The conditions of one file that depend on ``torch.compiler.is_compiling()``."""

    def __init__(self, source: SourceText) -> None:
        self._source = source

    def finding(self, check: CompilerCheck, tool: str) -> Finding | None:
        """Return the finding that a call of ``is_compiling()`` excludes code from tracing.

        ``check`` is the recorded call. ``tool`` is the function that traces the code, such as
        ``torch.compile``. Return None if no condition in this file depends on the call.
        """
        # If the check returns False, Dynamo traces the same branch that runs without Dynamo.
        choice = self._find_choice(check.stack) if check.value else None
        if choice is None or choice.compiled is choice.uncompiled is None:
            return None
        place = self._source.locate(check.stack, choice.condition)
        cut = [
            (code, words)
            for code, words in (
                (choice.uncompiled, f"only without `{tool}`"),
                (choice.compiled, f"only with `{tool}`"),
            )
            if code is not None
        ]
        related = (Related(self._source.path, code, f"runs {words}") for code, words in cut)
        return Finding(
            code=CODE,
            message=f"`{check.function}()` is true under `{tool}`, so another branch is taken",
            range=choice.condition,
            explanation=" ".join(f"{self._code_subject(code)} {words}." for code, words in cut),
            stack=place.stack,
            related=(*related, *related_to(place)),
            identity=finding_identity(CODE, choice.condition),
            evidence=CompilerCheckEvidence(check.function),
        )

    def _code_subject(self, code: Range) -> str:
        """Return the beginning of a sentence about code: ``Lines 3 to 5 run``, ``Line 3 runs``, or
        the code if it is short."""
        first, last = code.start.line + 1, code.end.line + 1
        if first != last:
            return f"Lines {first} to {last} run"
        text = self._source.text_of(code)
        if self._source.line_range(first - 1) == code or len(text) > _LONGEST:
            return f"Line {first} runs"
        return f"`{text}` runs"

    def _find_choice(self, stack: Stack) -> _Choice | None:
        """Return the condition decided by a call of ``is_compiling()`` with this stack.

        If a function of the file returns the result of the call, the condition may be in its
        caller. Return None if no condition of the file depends on the call.
        """
        is_check = True
        for frame in reversed(stack):
            if frame.path != self._source.path:
                if not with_text(frame).text.lstrip().startswith("return "):
                    return None
            else:
                call = self._call_at(frame, is_check)
                if call is None:
                    return None
                if not isinstance(self._parents.get(call), ast.Return):
                    return self._decided_by(call)
            is_check = False
        return None

    # -- the syntax tree ------------------------------------------------------------------------

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        tree = self._source.tree
        return {
            child: node
            for node in (ast.walk(tree) if tree is not None else ())
            for child in ast.iter_child_nodes(node)
        }

    @cached_property
    def _calls(self) -> list[ast.Call]:
        return [node for node in self._parents if isinstance(node, ast.Call)]

    def _call_at(self, frame: Frame, is_check: bool) -> ast.Call | None:
        """Return the syntax node of the call that a frame executes; None if it is not found.

        Without column positions, the call must be the only one on its line. For ``is_check``, it
        must be the only one with a name such as ``is_compiling``.
        """
        if frame.end_byte >= 0:
            end = self._source.range_of(frame).end
            return next((one for one in self._calls if node_range(one).end == end), None)
        here = [
            one for one in self._calls if one.lineno - 1 <= frame.line <= node_range(one).end.line
        ]
        if is_check:
            here = [one for one in here if last_name(one.func) in _NAMES]
        return here[0] if len(here) == 1 else None

    def _decided_by(self, call: ast.expr) -> _Choice | None:
        parent = self._parents.get(call)
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            return self._decided_by_variable(parent, parent.targets[0].id)
        return self._decided_at(call)

    def _decided_by_variable(self, assigned: ast.Assign, name: str) -> _Choice | None:
        """Return the first condition that depends on the variable ``name``, if ``assigned`` is the
        function's only assignment to it; otherwise None.
        """
        function: ast.AST = assigned
        while not isinstance(function, _FUNCTIONS):
            function = self._parents[function]
        uses = [one for one in ast.walk(function) if isinstance(one, ast.Name) and one.id == name]
        if sum(isinstance(one.ctx, ast.Store) for one in uses) != 1:
            return None
        loads = (one for one in uses if isinstance(one.ctx, ast.Load))
        return next((found for one in loads if (found := self._decided_at(one))), None)

    def _decided_at(self, flag: ast.expr) -> _Choice | None:
        """Return the condition that contains the expression ``flag``, which is true only in
        compiled code; None if no condition contains it.
        """
        short_circuit: _Choice | None = None
        top, parent = flag, self._parents.get(flag)
        while isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
            if isinstance(parent, ast.BoolOp) and short_circuit is None:
                short_circuit = _operand_choice(parent, top, flag)
            top, parent = parent, self._parents.get(parent)
        if isinstance(parent, (ast.If, ast.While, ast.IfExp)) and parent.test is top:
            return self._of_branches(parent, flag)
        return short_circuit

    def _of_branches(self, node: ast.If | ast.While | ast.IfExp, flag: ast.expr) -> _Choice | None:
        compiled, uncompiled = (
            _truth_of_test(node.test, flag, True),
            _truth_of_test(node.test, flag, False),
        )
        if compiled is uncompiled:
            return None
        if isinstance(node, ast.IfExp):
            then, otherwise = node_range(node.body), node_range(node.orelse)
            return _Choice(
                node_range(node.test),
                _exclusive_branch(compiled, uncompiled, then, otherwise),
                _exclusive_branch(uncompiled, compiled, then, otherwise),
            )
        rest = node.orelse or skipped_statements(node.body, self._following_statements(node))
        block, other = block_range(node.body), block_range(rest)
        return _Choice(
            node_range(node.test),
            _exclusive_branch(compiled, uncompiled, block, other),
            _exclusive_branch(uncompiled, compiled, block, other),
        )

    def _following_statements(self, node: ast.stmt) -> Sequence[ast.stmt]:
        """Return the statements after ``node`` in the same block."""
        for block in statement_blocks(self._parents[node]):
            if node in block:
                return block[block.index(node) + 1 :]
        return ()


def _exclusive_branch(
    here: bool | None, there: bool | None, then: Range | None, otherwise: Range | None
) -> Range | None:
    """Return the branch of an ``if`` that only one of two versions of the code can run.

    ``here`` is the value of the test in this version, and ``there`` its value in the other version;
    None means unknown. ``then`` and ``otherwise`` are the branches. Return None if the other
    version may run the same branches.
    """
    if there is False and here is not False:
        return then
    if there is True and here is not True:
        return otherwise
    return None


def _truth_of_test(test: ast.expr, flag: ast.expr, value: bool) -> bool | None:
    """Return the truth value of a test whose part ``flag`` is ``value``; None if it depends on
    other parts."""
    if test is flag:
        return value
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth_of_test(test.operand, flag, value)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        decides = isinstance(test.op, ast.Or)
        parts = [_truth_of_test(one, flag, value) for one in test.values]
        if decides in parts:
            return decides
        return None if None in parts else not decides
    return None


def _operand_choice(node: ast.BoolOp, operand: ast.expr, flag: ast.expr) -> _Choice | None:
    """Return the code after ``operand`` in ``and`` or ``or``, if compiled code or eager code skips
    it; None if both versions evaluate it.

    For example, compiled code never evaluates ``check(x)`` in ``is_compiling() or check(x)``.
    ``flag`` is part of the operand, and true only in compiled code.
    """
    later = node.values[node.values.index(operand) + 1 :]
    stops = isinstance(node.op, ast.Or)
    if not later or _truth_of_test(operand, flag, True) is _truth_of_test(operand, flag, False):
        return None
    code = Range(node_range(later[0]).start, node_range(later[-1]).end)
    is_cut = _truth_of_test(operand, flag, True) is stops
    return _Choice(node_range(operand), None if is_cut else code, code if is_cut else None)
