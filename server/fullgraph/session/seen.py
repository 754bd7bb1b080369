"""Kinds of values that the last runs saw in expressions and locals, with ranges that move with
edits of the text.

Values are stored by line, because most edits stay within one line and affect only its values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fullgraph.domain.positions import TextPositions
from fullgraph.incremental.relocation import Relocation
from fullgraph.operators import Seen, SeenSpan
from fullgraph.session.edit_tracking import AppliedEdit
from fullgraph_engine.protocol import Position, Range, SeenKind, SeenValue

_Short = tuple[int, int, SeenKind]
"""First byte and end byte of an expression on one line, and its kind."""
_Local = tuple[str, str]
"""Qualified name of a function and name of a local variable in it."""


@dataclass(frozen=True)
class SeenByTarget:
    """The kinds of values that the runs of one target saw in each expression and local, such as
    tensor or module.
    """

    short: Mapping[int, tuple[_Short, ...]]
    long: tuple[tuple[Range, SeenKind], ...]
    """Expressions that span several lines, with their kinds."""
    locals: frozenset[tuple[_Local, SeenKind]]
    functions: frozenset[tuple[str, Range]]
    """Functions that contain the locals: qualified name, and range of the name in the text."""

    @classmethod
    def from_values(cls, values: Iterable[SeenValue]) -> SeenByTarget:
        spans, locals_, functions = [], set(), set()
        for value in values:
            if value.name:
                locals_.add(((value.function, value.name), value.kind))
                functions.add((value.function, value.range))
            else:
                spans.append((value.range, value.kind))
        return cls(*_by_line(spans), frozenset(locals_), frozenset(functions))

    def merge_with(self, other: SeenByTarget) -> SeenByTarget:
        """Return the kinds of values in either object, such as from two runs of a target with
        different inputs.
        """
        short = dict(self.short)
        for line, spans in other.short.items():
            short[line] = tuple(sorted({*short.get(line, ()), *spans}))
        return SeenByTarget(
            short,
            tuple(sorted({*self.long, *other.long})),
            self.locals | other.locals,
            self.functions | other.functions,
        )

    def apply_edit(self, edit: AppliedEdit) -> SeenByTarget:
        """Return the values with ranges moved by an edit, without values that the edit touches."""
        functions = frozenset(
            (name, range_)
            for name, old in self.functions
            if (range_ := edit.shift_range(old)) is not None
        )
        locals_ = self.locals
        if len(functions) < len(self.functions):
            left = {name for name, _ in functions}
            locals_ = frozenset(item for item in locals_ if item[0][0] in left)
        long = tuple(
            (range_, kind)
            for old, kind in self.long
            if (range_ := edit.shift_range(old)) is not None
        )
        return SeenByTarget(self._moved_short(edit), long, locals_, functions)

    def apply_relocation(self, move: Relocation) -> SeenByTarget:
        spans = [
            (Range(Position(line, start), Position(line, end)), kind)
            for line, short in self.short.items()
            for start, end, kind in short
        ]
        short, long = _by_line(
            (move.move_range(range_, "expression"), kind) for range_, kind in (*spans, *self.long)
        )
        functions = frozenset(
            (name, move.move_range(range_, "expression")) for name, range_ in self.functions
        )
        return SeenByTarget(short, long, self.locals, functions)

    def _moved_short(self, edit: AppliedEdit) -> Mapping[int, tuple[_Short, ...]]:
        first, last, shift = edit.start.line, edit.end.line, edit.lines
        if shift:
            short = {
                line if line < first else line + shift: spans
                for line, spans in self.short.items()
                if line < first or line > last
            }
        else:
            short = {line: spans for line, spans in self.short.items() if not first <= line <= last}
        for line in range(first, last + 1):
            for start, end, kind in self.short.get(line, ()):
                range_ = edit.shift_range(Range(Position(line, start), Position(line, end)))
                if range_ is not None:
                    span = (range_.start.byte, range_.end.byte, kind)
                    line_now = range_.start.line
                    short[line_now] = (*short.get(line_now, ()), span)
        return short


def _by_line(
    values: Iterable[tuple[Range, SeenKind]],
) -> tuple[dict[int, tuple[_Short, ...]], tuple[tuple[Range, SeenKind], ...]]:
    """Split values into values of one-line expressions, by line, and values of longer ones in the
    order of the text.
    """
    short: dict[int, list[_Short]] = {}
    long = []
    for range_, kind in sorted(values):
        start, end = range_.start, range_.end
        if start.line == end.line:
            short.setdefault(start.line, []).append((start.byte, end.byte, kind))
        else:
            long.append((range_, kind))
    return {line: tuple(spans) for line, spans in short.items()}, tuple(long)


def seen_in(text: TextPositions, targets: Iterable[SeenByTarget]) -> Seen:
    """Return the kinds of values of expressions and locals, if the runs of all targets saw the same
    kind, by offsets in the current text.
    """
    spans: dict[tuple[int, int], SeenKind | None] = {}
    locals_: dict[_Local, SeenKind | None] = {}
    for target in targets:
        for line, short in target.short.items():
            begin, ascii_ = text.start(line), text.line(line).isascii()
            for start, end, kind in short:
                if ascii_:  # true for most lines; this branch is several times faster
                    where = begin + start, begin + end
                else:
                    first, last = Position(line, start), Position(line, end)
                    where = text.offset(first), text.offset(last)
                if spans.setdefault(where, kind) != kind:
                    spans[where] = None
        for range_, kind in target.long:
            where = text.offset(range_.start), text.offset(range_.end)
            if spans.setdefault(where, kind) != kind:
                spans[where] = None
        for local, kind in target.locals:
            if locals_.setdefault(local, kind) != kind:
                locals_[local] = None
    return Seen(
        tuple(SeenSpan(*where, kind) for where, kind in spans.items() if kind is not None),
        {local: kind for local, kind in locals_.items() if kind is not None},
    )
