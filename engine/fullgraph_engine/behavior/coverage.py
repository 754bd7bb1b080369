"""Coverage of a call: lines of a file that the call executes, and sides of conditions that it
takes.

A side is the destination of a conditional jump, identified by its position in the source text. So
code that the compiler duplicates, such as ``finally`` blocks and loop conditions, counts once.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .. import code_objects

_CONDITIONAL = "_IF_"
_COMPILER_CHECKS = (
    *("is_compiling", "is_dynamo_compiling", "is_exporting"),
    *("is_scripting", "is_tracing"),
)
"""Functions of torch that return False in eager mode, by the last part of their dotted name."""
_HIDDEN_CONDITIONS = ("CHECK_EXC_MATCH", "WITH_EXCEPT_START", "CHECK_EG_MATCH")
"""Instructions before a conditional jump that Python adds for ``except`` and ``with``, although the
source text does not contain a condition.
"""


class BranchSide(NamedTuple):
    """One side of a condition.

    It consists of the condition's zero-based line, and the source position of the code that runs
    next.
    """

    line: int
    to_line: int
    to_column: int
    to_opcode: int
    """Opcode of the instruction at the destination.

    The opcode distinguishes a failing ``assert`` from the end of the function, which can have the
    same position.
    """


@dataclass
class ReachedCode:
    """Lines (zero-based) that calls executed, and the sides of conditions that they took."""

    lines: set[int] = field(default_factory=set)
    sides: set[BranchSide] = field(default_factory=set)

    def update(self, other: ReachedCode) -> None:
        self.lines |= other.lines
        self.sides |= other.sides

    def lacks(self, other: ReachedCode) -> bool:
        """Whether ``other`` contains an executed line or a branch side that this object lacks."""
        return not (other.lines <= self.lines and other.sides <= self.sides)


@dataclass(frozen=True)
class RequiredCoverage:
    """Lines and branch sides that test calls must execute before a comparison counts as
    complete.
    """

    lines: frozenset[int] = frozenset()
    sides: frozenset[BranchSide] = frozenset()
    of_settings: frozenset[BranchSide] = frozenset()
    """Sides of conditions that depend only on attributes of ``self`` that a constructor assigned.

    Other inputs do not change which side is taken, so test calls need not take the other side.
    """

    def missing_lines(self, reached: ReachedCode) -> tuple[int, ...]:
        """Return the zero-based lines that test calls must still execute.

        Either the line was not executed, or its condition did not take both sides.
        """
        lines = self.lines - reached.lines
        untaken = {side.line for side in self.sides - reached.sides}
        return tuple(sorted(lines | untaken))

    def has_other_settings(self, reached: ReachedCode) -> bool:
        """Whether test calls took only one side of a condition on settings: attributes of ``self``
        that only constructors assign.
        """
        return not self.of_settings <= reached.sides


def required_coverage(text: str, path: str, lines: frozenset[int]) -> RequiredCoverage:
    """Return the lines of functions, and the sides of conditions, that test calls must execute.

    ``lines`` are the zero-based lines of the source ``text`` to consider; ``path`` is its file.

    Raises:
        SyntaxError, ValueError: The source is not valid Python.
    """
    found: set[int] = set()
    sides: set[BranchSide] = set()
    tree = ast.parse(text, path)
    of_settings = _lines_decided_by_settings(tree)
    lines = _extend_to_statements(tree, lines)
    compiler_conditions, only_compiled = _compiler_lines(tree)
    lines -= only_compiled
    for code in _function_codes(compile(tree, path, "exec", dont_inherit=True)):
        code_lines = {line - 1 for _, _, line in code.co_lines() if line}
        # The line of a ``def`` counts only if the body is on the same line.
        body = (code_lines - {code.co_firstlineno - 1}) or code_lines
        found |= body & lines
        if body & lines:
            sides |= {
                side
                for destinations in _branch_sides(code).values()
                for side in destinations.values()
                if side.line in lines - compiler_conditions
            }
    settings_sides = frozenset(side for side in sides if side.line in of_settings)
    return RequiredCoverage(frozenset(found), frozenset(sides) - settings_sides, settings_sides)


def _lines_decided_by_settings(tree: ast.Module) -> frozenset[int]:
    """Return lines whose conditions depend only on attributes that constructors assigned."""
    settings = _SettingsAttributes(tree)
    decided_by_settings: dict[int, bool] = {}
    for node in ast.walk(tree):
        tests: list[ast.expr] = []
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            tests = [node.test]
        elif isinstance(node, ast.comprehension):
            tests = node.ifs
        elif isinstance(node, ast.BoolOp) or (isinstance(node, ast.Compare) and node.ops[1:]):
            tests = [node]
        elif isinstance(node, ast.Match):
            tests = [node.subject, *(case.guard for case in node.cases if case.guard is not None)]
        for test in tests:
            is_settled = settings.decides(test)
            for line in range(test.lineno - 1, test.end_lineno or test.lineno):
                decided_by_settings[line] = decided_by_settings.get(line, True) and is_settled
    return frozenset(line for line, is_settled in decided_by_settings.items() if is_settled)


class _SettingsAttributes:
    """Finds the attributes of ``self`` that only constructors in a file assign (settings)."""

    def __init__(self, tree: ast.Module) -> None:
        self._changing = {
            node.attr
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef) and function.name != "__init__"
            for node in ast.walk(function)
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        }

    def decides(self, test: ast.expr) -> bool:
        """Whether the result of the condition ``test`` depends only on settings: attributes of
        ``self`` that only constructors assign.

        The condition may test if an attribute is None, equals a string, or is of a class. A test of
        an attribute's truth does not count, because the attribute may be a tensor.
        """
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self.decides(inner)
            case ast.BoolOp(values=values):
                return all(map(self.decides, values))
            case ast.Compare(
                left=value, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]
            ):
                return self._is_setting(value)
            case ast.Compare(
                left=value, ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=str())]
            ):
                return self._is_setting(value)
            case ast.Call(func=ast.Name(id="isinstance"), args=[value, _]):
                return self._is_setting(value)
        return False

    def _is_setting(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute) and node.attr not in self._changing:
            node = node.value
            if isinstance(node, ast.Name):
                return node.id == "self"
        return False


def _compiler_lines(tree: ast.Module) -> tuple[set[int], set[int]]:
    """Return lines that behave differently under a compiler, as two sets.

    The first set has the lines of conditions that check whether the compiler is running: eager code
    takes only one side. The second has lines that run only while compiling.
    """
    conditions: set[int] = set()
    only_compiled: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(map(_registers_fake, node.decorator_list)):
            only_compiled.update(range(node.body[0].lineno - 1, node.end_lineno or node.lineno))
        if not isinstance(node, (ast.If, ast.IfExp)) or not _asks_for_compiler(node.test):
            continue
        conditions.update(range(node.test.lineno - 1, node.test.end_lineno or node.test.lineno))
        value = _eager_value(node.test)
        if isinstance(node, ast.If) and value is not None:
            for statement in node.orelse if value else node.body:
                last = statement.end_lineno or statement.lineno
                only_compiled.update(range(statement.lineno - 1, last))
    return conditions, only_compiled


def _registers_fake(decorator: ast.expr) -> bool:
    """Whether a decorator registers a fake kernel, which torch calls only with fake tensors."""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(named, ast.Attribute) and named.attr == "register_fake"


def _asks_for_compiler(test: ast.expr) -> bool:
    """Whether a condition calls ``torch.compiler.is_compiling()`` or a similar function."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _asks_for_compiler(inner)
        case ast.BoolOp(values=values):
            return any(map(_asks_for_compiler, values))
    return _eager_value(test) is not None


def _eager_value(test: ast.expr) -> bool | None:
    """Return the value of a condition in eager mode if it depends only on whether a compiler runs,
    else None.
    """
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            value = _eager_value(inner)
            return None if value is None else not value
        case ast.BoolOp(op=operator, values=operands):
            values = [_eager_value(one) for one in operands]
            decisive = isinstance(operator, ast.Or)
            if decisive in values:
                return decisive
            return None if None in values else not decisive
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return False if name in _COMPILER_CHECKS else None
    return None


def _extend_to_statements(tree: ast.Module, lines: frozenset[int]) -> frozenset[int]:
    """Extend a set of lines to whole simple statements and to whole headers of compound statements.

    For a function whose header is among the lines, the first line of its body is added as well.
    """
    found = set(lines)
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        first, last = node.lineno, node.end_lineno or node.lineno
        if body:
            decorators = getattr(node, "decorator_list", [])
            first = min([first, *(statement.lineno for statement in decorators)])
            last = max(body[0].lineno - 1, node.lineno)
        own = set(range(first - 1, last))
        if not own & lines:
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            begins = (
                node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            )
            found.update(statement.lineno - 1 for statement in begins[:1])
        elif not isinstance(node, ast.ClassDef):
            found |= own
    return frozenset(found)


def numeric_constants(text: str, path: str) -> list[float]:
    """Return the distinct numbers written in the functions of a file, in order of appearance."""
    numbers: dict[float, None] = {}
    for code in _function_codes(compile(text, path, "exec", dont_inherit=True)):
        for value in code.co_consts:
            if type(value) in (int, float):
                numbers[float(value)] = None
    return list(numbers)


def _function_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code objects of functions, lambdas and comprehensions inside a code object."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            if const.co_flags & 0x2:  # CO_NEWLOCALS: not a class body
                yield const
            yield from _function_codes(const)


def _branch_sides(code: types.CodeType) -> dict[int, dict[int, BranchSide]]:
    """Map each conditional jump of a code object to its sides.

    The outer key is the offset of the jump, or of its EXTENDED_ARG prefix. The inner key is the
    offset of the instruction that runs next.
    """
    found: dict[int, dict[int, BranchSide]] = {}
    instructions = list(dis.get_instructions(code))
    line = code.co_firstlineno
    before, prefix = "", None
    for number, instruction in enumerate(instructions):
        line = code_objects.starting_line(instruction) or line
        if instruction.opname == "EXTENDED_ARG":
            # An instruction with a large argument has an EXTENDED_ARG prefix, and the trace event
            # may have the prefix's offset.
            prefix = instruction.offset if prefix is None else prefix
            continue
        conditional = _CONDITIONAL in instruction.opname and "EXC" not in instruction.opname
        if conditional and before not in _HIDDEN_CONDITIONS and number + 1 < len(instructions):
            position = code_objects.position_at(code, instruction.offset)
            row = (position.lineno if position is not None else line) - 1
            ways = {instruction.argval, instructions[number + 1].offset}
            found[instruction.offset] = {offset: _side_at(code, row, offset) for offset in ways}
            if prefix is not None:
                found[prefix] = found[instruction.offset]
        before, prefix = instruction.opname, None
    return found


def _side_at(code: types.CodeType, row: int, offset: int) -> BranchSide:
    position = code_objects.position_at(code, offset)
    if position is not None:
        return BranchSide(row, position.lineno - 1, position.col_offset, code.co_code[offset])
    line = next((n for start, end, n in code.co_lines() if start <= offset < end and n), 0)
    return BranchSide(row, line - 1, -1, code.co_code[offset])


class CoverageTracer:
    """A tracer that records the executed lines of one file and the sides of conditions taken."""

    def __init__(self, path: str, lines: frozenset[int]) -> None:
        self._path, self._lines = path, lines
        self._codes: dict[types.CodeType, dict[int, dict[int, BranchSide]]] = {}
        self.reached = ReachedCode()

    @contextlib.contextmanager
    def trace(self) -> Iterator[ReachedCode]:
        """Trace the code in the ``with`` block and yield its coverage, which is complete at the
        end.

        The coverage is then also added to ``reached``.
        """
        total, self.reached = self.reached, ReachedCode()
        before = sys.gettrace()
        sys.settrace(self._trace_call)
        try:
            yield self.reached
        finally:
            sys.settrace(before)
            total.update(self.reached)
            self.reached = total

    def _trace_call(self, frame: types.FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename != self._path:
            return None
        if code not in self._codes:
            near = {line - 1 for _, _, line in code.co_lines() if line} & self._lines
            self._codes[code] = _branch_sides(code) if near else {}
        jumps = self._codes[code]
        if jumps:
            frame.f_trace_opcodes = True
        return _FrameTracer(self.reached, jumps).trace_event


class _FrameTracer:
    """A trace function (for ``sys.settrace``) of one Python frame."""

    def __init__(self, reached: ReachedCode, jumps: dict[int, dict[int, BranchSide]]) -> None:
        self._reached, self._branch_sides = reached, jumps
        self._destinations: dict[int, BranchSide] | None = None

    def trace_event(self, frame: types.FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._reached.lines.add(frame.f_lineno - 1)
        elif event == "opcode":
            if self._destinations is not None:
                side = self._destinations.get(frame.f_lasti)
                if side is not None:
                    self._reached.sides.add(side)
            self._destinations = self._branch_sides.get(frame.f_lasti)
        return self.trace_event
