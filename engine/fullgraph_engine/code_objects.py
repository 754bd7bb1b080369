"""Access to code objects and instructions that hides the differences between Python versions.

Since 3.11, instructions have columns, exceptions have a table, and code objects have a qualified
name. Since 3.12, ``LOAD_ATTR`` also loads methods. Since 3.13, ``TO_BOOL`` is an instruction, jumps
go to labels, and ``dis`` stores line numbers in another attribute.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

HAS_COLUMNS = sys.version_info >= (3, 11)
"""True if instructions have column positions, which lead to their expressions."""

_METHOD_FLAG = sys.version_info >= (3, 12)
_TRUTH = dis.opmap.get("TO_BOOL")
_NONE_JUMPS = {number for name, number in dis.opmap.items() if name.endswith("_NONE")}


class InstructionPosition(NamedTuple):
    """Source range of an instruction: one-based lines, column offsets in bytes."""

    lineno: int
    end_lineno: int
    col_offset: int
    end_col_offset: int


def instruction_positions(code: types.CodeType) -> Iterator[InstructionPosition]:
    """Yield the source positions of the instructions with columns."""
    return filter(None, map(_to_position, position_entries(code)))


def position_at(code: types.CodeType, offset: int) -> InstructionPosition | None:
    """Return the source position of the instruction at a byte offset; None without columns."""
    if offset < 0:
        return None
    if not HAS_COLUMNS:
        return None
    following = islice(position_entries(code), offset // 2, None)
    found = _to_position(next(following, None))
    if found is None and code.co_code[offset] == _TRUTH:
        # Dynamo writes TO_BOOL without columns before a jump with columns.
        found = next(filter(None, map(_to_position, following)), None)
    return found


_PositionEntry = tuple[int | None, int | None, int | None, int | None]


def position_entries(code: types.CodeType) -> Iterator[_PositionEntry]:
    """Return line and column entries of all instructions: first line, last line, first column, and
    the column after the last one. Columns are None before Python 3.11.
    """
    if sys.version_info >= (3, 11):
        return code.co_positions()
    return ((line, line, None, None) for _, _, line in code.co_lines())


def implicit_none_indices(code: types.CodeType) -> set[int]:
    """Return indices of NOP instructions that the compiler leaves for the ``None`` in ``is None``
    comparisons.

    It merges such a comparison into the jump. It leaves a NOP for the ``None`` only if the ``None``
    is on a line of its own.
    """
    if not HAS_COLUMNS:
        return set()
    units = code.co_code[::2]
    indices = set()
    for index, unit in enumerate(units):
        if unit in _NONE_JUMPS:
            before = index - 1
            while units[before] == dis.EXTENDED_ARG:
                before -= 1
            if units[before] == dis.opmap["NOP"]:
                indices.add(before)
    return indices


def _to_position(entry: _PositionEntry | None) -> InstructionPosition | None:
    line, end_line, column, end_column = entry or (None,) * 4
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return InstructionPosition(line, end_line, column, end_column)


def qualified_name(frame: types.FrameType) -> str:
    """Return the qualified name of a frame's function, such as ``Net.forward``.

    Before Python 3.11 it is looked up on the class of the first argument.
    """
    code = frame.f_code
    name: str | None = getattr(code, "co_qualname", None)
    if name is not None:
        return name
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    method = getattr(type(first), code.co_name, None) if first is not None else None
    if getattr(method, "__code__", None) is not code:
        return code.co_name
    return str(getattr(method, "__qualname__", code.co_name))


def loads_method(instruction: Any) -> bool:
    """Whether a ``LOAD_ATTR`` instruction loads a method together with its object, for a call."""
    return _METHOD_FLAG and instruction.opname == "LOAD_ATTR" and bool(instruction.arg & 1)


def starting_line(instruction: dis.Instruction) -> int | None:
    """Return the source line that begins at this instruction, or None."""
    starts: Any = instruction.starts_line
    if isinstance(starts, bool):  # Since Python 3.13, starts_line is a flag.
        return getattr(instruction, "line_number", None) if starts else None
    return starts  # type: ignore[no-any-return]


def jump_label(instruction: dis.Instruction) -> str:
    """Return the marker that ``dis`` prints for a jump target (``L3`` or ``>>``); empty for other
    instructions."""
    number = getattr(instruction, "label", None)
    if number is not None:
        return f"L{number}"
    return ">>" if instruction.is_jump_target else ""


def exception_entries(code: types.CodeType) -> list[Any]:
    """Return the exception table of a code object: instruction ranges, each with its handler."""
    return list(getattr(dis.Bytecode(code), "exception_entries", ()))
