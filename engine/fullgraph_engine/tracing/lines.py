"""Which code of one file Dynamo comes to."""

from __future__ import annotations

import dis
import types
from typing import Any

from ..code_objects import implicit_none_indices, position_entries
from ..protocol import Position, Range
from ..torch_internals.frames import original_name
from .instructions import Instructions
from .recording import TracedLines
from .stacks import is_torch


class Lines:
    """The code of one file, as the symbolic interpreters of its functions come to it.

    What runs in eager mode behind a graph break that Dynamo cannot resume from is not seen:
    ``sys.settrace`` makes a trace take nearly twice the time.
    """

    def __init__(self, instructions: Instructions) -> None:
        self._file = instructions.file
        instructions.before(dis.opmap, self._reached)
        self._traced: set[_Place] = set()
        self._entered: set[_Place] = set()
        self._known: set[types.CodeType] = set()
        self._reads_mode = False

    def began(self, code: types.CodeType) -> None:
        """A symbolic interpreter of some code begins."""
        if code in self._known:
            return
        self._known.add(code)
        if not self._reads_mode and not is_torch(code.co_filename):
            self._reads_mode = mentions(code, "training")
        # A resume function has the code of its function, and other.
        if code.co_filename == self._file and original_name(code.co_name) == code.co_name:
            self._entered |= places_of(code)

    def _reached(self, _translator: Any, instruction: Any) -> None:
        positions = instruction.positions
        if positions is not None and positions.lineno is not None:
            self._traced.add(_place(*positions))
        elif instruction.starts_line:
            self._traced.add(_place(instruction.starts_line, None, None, None))

    def seen(self) -> TracedLines:
        lines = {line for line, *_ in self._traced}
        # On a line of which not each instruction has columns.
        without = {one for one in self._entered if one[2] < 0 and one[0] in lines}
        traced = self._traced & self._entered | without
        return TracedLines(
            frozenset(map(_range, traced)),
            frozenset(map(_range, self._entered)),
            self._reads_mode,
        )


_Place = tuple[int, int, int, int]
"""Lines from one and columns, as Python gives them; columns of -1 where there are none."""


def places_of(code: types.CodeType) -> set[_Place]:
    """Where the instructions of a function come from, without those of functions inside of it, and
    without what only begins it, which has no columns or no width. The same in any layout."""
    nones = implicit_none_indices(code)
    found = {
        _place(line, *rest)
        for at, (line, *rest) in enumerate(position_entries(code))
        if line and at not in nones
    }
    with_columns = {line for line, _, column, _ in found if column >= 0}
    if not with_columns:
        return {one for one in found if one[0] != code.co_firstlineno} or found
    wide = {one for one in found if one[2] >= 0 and (one[0], one[2]) != (one[1], one[3])}
    return wide | {one for one in found if one[0] not in with_columns}


def last_place(code: types.CodeType) -> Range:
    """Where the instruction of a function comes from that ends last; of several, the widest."""
    begin = _range(_place(code.co_firstlineno, None, None, None))
    places = map(_range, places_of(code))
    return max(places, key=lambda one: (one.end, -one.start.line, -one.start.byte), default=begin)


def _place(line: int, end_line: int | None, column: int | None, end_column: int | None) -> _Place:
    if end_line is None or column is None or end_column is None:
        return line, line, -1, -1
    return line, end_line, column, end_column


def _range(place: _Place) -> Range:
    line, end_line, column, end_column = place
    if column < 0:
        column = end_column = 0
    return Range(Position(line - 1, column), Position(end_line - 1, end_column))


def mentions(code: types.CodeType, name: str) -> bool:
    """Whether code, or a function inside of it, has an attribute or a string of this name."""
    return (
        name in code.co_names
        or name in code.co_consts
        or any(mentions(one, name) for one in code.co_consts if isinstance(one, types.CodeType))
    )
