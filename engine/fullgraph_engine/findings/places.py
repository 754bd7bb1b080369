"""Source ranges of findings: each is shown at the innermost stack frame in the edited file."""

from __future__ import annotations

import ast
import contextlib
import linecache
from dataclasses import dataclass, replace
from functools import cached_property

from .. import texts
from ..protocol import Frame, Position, Range, Related, node_range, place_words
from ..targets.names import FunctionNames
from ..targets.source import Function, PerStatement, name_range, parse_module

Stack = tuple[Frame, ...]


@dataclass(frozen=True)
class FindingPlace:
    """A source range in the edited file at which a finding is shown.

    It also has the library frames called from there, and the frames above it.
    """

    range: Range
    stack: Stack
    deeper: Stack
    callers: Stack


class SourceText:
    """The text of the edited file, with functions that convert stack frames to source ranges in
    it."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self._lines = tuple(line.encode() for line in text.split("\n"))
        self.tree: ast.Module | None = None
        with contextlib.suppress(SyntaxError):
            self.tree = parse_module(text)
        self._parts = PerStatement(self.tree, lambda part: _Part(part, self._lines))
        self._nodes_by_range = PerStatement(self.tree, _nodes_by_range)

    def locate(self, stack: Stack, fallback: Range) -> FindingPlace:
        """Return the place in this file for a finding with a stack: its innermost frame in the
        file. Return ``fallback`` if no frame is in the file.
        """
        stack = texts.shorten_stack(stack)
        shown = tuple(with_text(frame) for frame in stack)
        for index in range(len(stack) - 1, -1, -1):
            if stack[index].path == self.path:
                return FindingPlace(
                    self.range_of(stack[index]), shown, shown[index + 1 :], shown[:index]
                )
        return FindingPlace(fallback, shown, shown, ())

    def line_with(self, *parts: str) -> Range:
        """Return the first line of the file that contains all ``parts``, else the file's first
        line.
        """
        wanted = [part.encode() for part in parts]
        numbers = (n for n, line in enumerate(self._lines) if all(one in line for one in wanted))
        number = next(numbers, 0)
        line = self._lines[number].rstrip()
        return Range(Position(number, len(line) - len(line.lstrip())), Position(number, len(line)))

    def innermost(self, stack: Stack) -> Frame | None:
        """Return the most deeply nested frame of a stack in this file; None if there is none."""
        return next((frame for frame in reversed(stack) if frame.path == self.path), None)

    def range_of(self, frame: Frame) -> Range:
        """Return the source range of a frame: by its column positions, else the statement on its
        line, else the line."""
        known = frame.end_byte >= 0 and (frame.end_line, frame.end_byte) > (frame.line, frame.byte)
        # Some stacks of torch lack the last line of a range.
        if known and frame.end_byte <= self._line_length(frame.end_line):
            exact = Range(
                Position(frame.line, frame.byte), Position(frame.end_line, frame.end_byte)
            )
            return self._parts.part_at(frame.line).decides(exact)
        return self.header(frame.line)

    def _line_length(self, line: int) -> int:
        return len(self._lines[line]) if line < len(self._lines) else 0

    def text_of(self, range_: Range) -> str:
        """Return the source text on the first line of a range."""
        start, end = range_.start, range_.end
        raw = self._lines[start.line] if start.line < len(self._lines) else b""
        last = end.byte if end.line == start.line else len(raw)
        return raw[start.byte : last].decode(errors="replace")

    def function(self, path: str, name: str, line: int) -> str:
        """Return the qualified name of the function called ``name`` that contains a zero-based
        line. If ``path`` is another file, return ``name`` itself.
        """
        return self._names.name_at(name, line) if path == self.path else name

    def code_of(self, range_: Range) -> str:
        """Return the code in a range as one line with normalized layout, so that reformatting does
        not change it."""
        node = self._nodes_by_range.part_at(range_.start.line).get(range_)
        return _code_words(node) if node is not None else "".join(self.text_of(range_).split())

    def occurrences(self, place: Range, function: str) -> int:
        """Return how many expressions or statements with the same code precede ``place`` in a
        function.

        ``function`` is its qualified name. Comments and docstrings do not count.
        """
        node, name = (
            self._nodes_by_range.part_at(place.start.line).get(place),
            function.rpartition(".")[2],
        )
        if node is None:
            return 0
        code, start = _code_words(node), node_range(node).start
        return len(
            {
                where.start
                for nodes in self._nodes_by_range.parts_of(self._names.lines_of(function))
                for one in nodes.values()
                if (where := node_range(one)).start < start
                and type(one) is type(node)
                and self.function(self.path, name, where.start.line) == function
                and _code_words(one) == code
            }
        )

    @cached_property
    def _names(self) -> FunctionNames:
        return FunctionNames(self.tree)

    def header(self, line: int) -> Range:
        """Return the range of the ``def`` line of the function that begins at a zero-based line,
        perhaps with a decorator."""
        return self._parts.part_at(line).header(line) or self.line_range(line)

    def value_on(self, line: int) -> Range:
        """Return the range of the condition or value of the statement at a line, such as ``x > 0``
        in ``if x > 0:``.

        Without one, return the range of the statement.
        """
        return self._parts.part_at(line).value_on(line) or self.line_range(line)

    def receiver(self, attribute: str, end: Position) -> Range | None:
        """Return the range of ``x.y`` in an attribute ``x.y.z`` whose name ends at ``end``; None if
        no such attribute ends there.

        ``attribute`` is the name ``z``.
        """
        node = self._parts.part_at(end.line).attribute_ends.get(end)
        if node is None or not attribute.endswith(node.attr):
            return None  # the compiler renames ``__x`` to ``_Class__x``
        line = self._lines[end.line] if end.line < len(self._lines) else b""
        # Before Python 3.12 the positions inside of f-strings were often wrong.
        return node_range(node.value) if line[: end.byte].endswith(node.attr.encode()) else None

    def name_of(self, node: Function) -> Range:
        return name_range(node, self._lines)

    def line_range(self, line: int) -> Range:
        """Return the range of a line without its indentation and trailing space."""
        raw = self._lines[line] if 0 <= line < len(self._lines) else b""
        start = len(raw) - len(raw.lstrip())
        return Range(Position(line, start), Position(line, max(len(raw.rstrip()), start)))


class _Part:
    """An index of source ranges for one module-level statement, or for several that share a
    line."""

    def __init__(self, part: ast.Module, lines: tuple[bytes, ...]) -> None:
        self._lines = lines
        self._statements: dict[int, Range] = {}
        self._headers: dict[Range, Range] = {}
        self._conditions: dict[int, Range] = {}
        self._definitions: dict[int, int] = {}
        self._attributes: list[ast.Attribute] = []
        for node in ast.walk(part):
            if isinstance(node, ast.Attribute):
                self._attributes.append(node)
            elif isinstance(node, ast.stmt):
                self._note_statement(node)
                self._note_header(node)
            elif isinstance(node, ast.IfExp):
                self._headers[node_range(node)] = node_range(node.test)

    def decides(self, range_: Range) -> Range:
        """Return the range of the condition of an ``if`` or loop with the range ``range_``;
        ``range_`` itself for other code.

        It is used for jump instructions, which have the range of the whole statement.
        """
        return self._headers.get(range_, range_)

    def header(self, line: int) -> Range | None:
        return self._statements.get(self._definitions.get(line, line))

    def value_on(self, line: int) -> Range | None:
        return self._conditions.get(line) or self.header(line)

    @cached_property
    def attribute_ends(self) -> dict[Position, ast.Attribute]:
        return {node_range(node).end: node for node in self._attributes}

    def _note_header(self, node: ast.stmt) -> None:
        """Record the range of the first line of a compound statement, since some instructions have
        the whole statement as their range."""
        header: ast.expr
        match node:
            case ast.If(test=header) | ast.While(test=header) | ast.Assert(test=header):
                pass
            case ast.For(iter=header) | ast.AsyncFor(iter=header) | ast.Match(subject=header):
                pass
            case ast.With(items=[ast.withitem(context_expr=header), *_]):
                pass
            case ast.Return(value=ast.expr() as header) | ast.Assign(value=header):
                self._conditions.setdefault(node.lineno - 1, node_range(header))
                return
            case _:
                return
        self._headers[node_range(node)] = node_range(header)
        self._conditions.setdefault(node.lineno - 1, node_range(header))

    def _note_statement(self, node: ast.stmt) -> None:
        first = node.lineno - 1
        start = Position(first, node.col_offset)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            # Record only the header, because the statements in the body have their own entries.
            self._statements.setdefault(first, Range(start, self._colon_position(node)))
            # A code object begins with its first decorator.
            for decorator in node.decorator_list:
                self._definitions[decorator.lineno - 1] = first
            return
        end = Position((node.end_lineno or node.lineno) - 1, node.end_col_offset or 0)
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
            end = self._colon_position(node)
        for line in range(first, end.line + 1):
            known = self._statements.get(line)
            # A later node of the walk is deeper; the smallest statement on a line wins.
            if known is None or known.start.line <= start.line:
                self._statements[line] = Range(start, end)

    def _colon_position(self, node: ast.stmt) -> Position:
        """Return the position of the colon that ends the header of a compound statement."""
        ends = [Position(node.lineno - 1, node.col_offset)]
        for name in _HEADERS:
            value = getattr(node, name, None)
            for part in value if isinstance(value, list) else [value]:
                inner = ast.walk(part) if isinstance(part, ast.AST) else ()
                ends += [node_range(one).end for one in inner if isinstance(one, _PLACED)]
        place = max(ends)
        for number in range(place.line, len(self._lines)):
            begin = place.byte if number == place.line else 0
            code = self._lines[number][begin:].partition(b"#")[0]
            if (at := code.find(b":")) >= 0:
                return Position(number, begin + at + 1)
        return place


def _nodes_by_range(part: ast.Module) -> dict[Range, ast.stmt | ast.expr]:
    """Return expressions and statements by source range; the outermost of several with the same
    range.

    Ranges of bytecode instructions are included: since Python 3.11 the instruction of a multi-line
    attribute, or of a call to it, begins with the attribute's name.
    """
    found: dict[Range, ast.stmt | ast.expr] = {}
    for node in ast.walk(part):
        if not isinstance(node, (ast.stmt, ast.expr)):
            continue
        found.setdefault(node_range(node), node)
        attribute = node.func if isinstance(node, ast.Call) else node
        if isinstance(attribute, ast.Attribute) and attribute.lineno != attribute.end_lineno:
            end = node_range(attribute).end
            name = Position(end.line, end.byte - len(attribute.attr))
            found.setdefault(Range(name, node_range(node).end), node)
    return found


_HEADERS = (
    *("args", "returns", "type_params", "bases", "keywords"),
    *("test", "target", "iter", "items", "subject"),
)
"""Fields of ``ast`` nodes for the code before the colon of a compound statement."""


_PLACED = (ast.expr, ast.arg, ast.keyword)


def _code_words(node: ast.AST) -> str:
    return ast.unparse(node).partition("\n")[0]


def with_text(frame: Frame) -> Frame:
    """Return the frame with the text of its source line, from the executed version of the file."""
    if frame.text:
        return frame
    return replace(frame, text=linecache.getline(frame.path, frame.line + 1).strip("\n"))


def related_to(place: FindingPlace) -> tuple[Related, ...]:
    """Return locations that explain a finding: library frames called from its place, then its
    callers, nearest first, at most eight of each."""
    related = []
    for frame, words in (
        *((frame, f"in `{frame.function}`, reached from here") for frame in place.deeper[-8:]),
        *((frame, f"called from `{frame.function}`") for frame in reversed(place.callers[-8:])),
    ):
        start = Position(frame.line, frame.byte)
        end = Position(frame.end_line, frame.end_byte) if frame.end_byte >= 0 else start
        related.append(Related(frame.path, Range(start, end), words))
    return tuple(related)


def finding_identity(code: str, where: Range) -> str:
    """Return a text that identifies findings with this code, such as ``graph-break/GB0059``, at
    this source range.
    """
    return f"{code}@{place_words(where)}"
