"""Record which instructions of one file Dynamo traces."""

from __future__ import annotations

import dis
import types
from typing import Any

from ..code_objects import implicit_none_indices, position_entries
from ..protocol import Position, Range
from ..torch_internals.frames import original_name
from .instructions import InstructionListeners
from .recording import TracedLines
from .stacks import is_torch


class LineRecorder:
    """A recorder of the instructions of one file that Dynamo interprets.

    Code that runs without Dynamo after a graph break is not recorded: ``sys.settrace`` would nearly
    double the time of a trace.
    """

    def __init__(self, instructions: InstructionListeners) -> None:
        self._file = instructions.file
        instructions.listen_before(dis.opmap, self._note_instruction)
        self._traced: set[_CodePlace] = set()
        self._entered: set[_CodePlace] = set()
        self._known_codes: set[types.CodeType] = set()
        self._reads_mode = False

    def note_code(self, code: types.CodeType) -> None:
        """Record the instructions of a code object that Dynamo starts to interpret, and whether it
        reads the training mode.
        """
        if code in self._known_codes:
            return
        self._known_codes.add(code)
        if not self._reads_mode and not is_torch(code.co_filename):
            self._reads_mode = mentions_name(code, "training")
        # Skip resume functions: they repeat code of the original function and add other code.
        if code.co_filename == self._file and original_name(code.co_name) == code.co_name:
            self._entered |= instruction_places(code)

    def _note_instruction(self, _translator: Any, instruction: Any) -> None:
        positions = instruction.positions
        if positions is not None and positions.lineno is not None:
            self._traced.add(_make_place(*positions))
        elif instruction.starts_line:
            self._traced.add(_make_place(instruction.starts_line, None, None, None))

    def collect(self) -> TracedLines:
        lines = {line for line, *_ in self._traced}
        # Also include instructions without columns on a line that was reached.
        without_columns = {place for place in self._entered if place[2] < 0 and place[0] in lines}
        traced = self._traced & self._entered | without_columns
        return TracedLines(
            frozenset(map(_place_range, traced)),
            frozenset(map(_place_range, self._entered)),
            self._reads_mode,
        )


_CodePlace = tuple[int, int, int, int]
"""Source range of an instruction: (first line, last line, first column, last column).

Lines are counted from 1; columns are in bytes, and -1 if unknown.
"""


def instruction_places(code: types.CodeType) -> set[_CodePlace]:
    """Return the source ranges of a function's instructions; nested functions are not included.

    Instructions that only set up the function are left out: they lack columns or have an empty
    range. The result is the same for code that is reformatted into fewer or more lines.
    """
    compared_to_none = implicit_none_indices(code)
    found = {
        _make_place(line, *rest)
        for number, (line, *rest) in enumerate(position_entries(code))
        if line and number not in compared_to_none
    }
    with_columns = {line for line, _, column, _ in found if column >= 0}
    if not with_columns:
        return {place for place in found if place[0] != code.co_firstlineno} or found
    wide = {
        place for place in found if place[2] >= 0 and (place[0], place[2]) != (place[1], place[3])
    }
    return wide | {place for place in found if place[0] not in with_columns}


def last_instruction_range(code: types.CodeType) -> Range:
    """Return the source range of a function's instruction that ends last in the file.

    If several ranges end there, return the widest one.
    """
    first_line = _place_range(_make_place(code.co_firstlineno, None, None, None))
    places = map(_place_range, instruction_places(code))
    return max(
        places, key=lambda span: (span.end, -span.start.line, -span.start.byte), default=first_line
    )


def _make_place(
    line: int, end_line: int | None, column: int | None, end_column: int | None
) -> _CodePlace:
    if end_line is None or column is None or end_column is None:
        return line, line, -1, -1
    return line, end_line, column, end_column


def _place_range(place: _CodePlace) -> Range:
    line, end_line, column, end_column = place
    if column < 0:
        column = end_column = 0
    return Range(Position(line - 1, column), Position(end_line - 1, end_column))


def mentions_name(code: types.CodeType, name: str) -> bool:
    """Whether a code object or a nested one contains an attribute or a string of this name."""
    return (
        name in code.co_names
        or name in code.co_consts
        or any(
            mentions_name(constant, name)
            for constant in code.co_consts
            if isinstance(constant, types.CodeType)
        )
    )
