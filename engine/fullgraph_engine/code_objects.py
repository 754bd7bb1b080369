"""What code objects and their instructions tell, as far as that differs between Pythons.

Since 3.11 instructions have columns, exceptions a table, and code its qualified name. Since 3.12
``LOAD_ATTR`` loads methods as well. Since 3.13 an instruction of its own asks for a truth, jumps go
to labels, and ``dis`` has the number of a line elsewhere.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

HAS_COLUMNS = sys.version_info >= (3, 11)
"""Whether it is known which expression an instruction comes from."""

_METHOD_FLAG = sys.version_info >= (3, 12)
_TRUTH = dis.opmap.get("TO_BOOL")
_NONE_JUMPS = {number for name, number in dis.opmap.items() if name.endswith("_NONE")}


class Position(NamedTuple):
    """Lines are counted from one, columns in bytes."""

    lineno: int
    end_lineno: int
    col_offset: int
    end_col_offset: int


def positions(code: types.CodeType) -> Iterator[Position]:
    """Where its instructions come from, those with columns."""
    return filter(None, map(_position, entries(code)))


def position(code: types.CodeType, offset: int) -> Position | None:
    """Where the instruction at an offset comes from; None without columns."""
    if offset < 0:
        return None
    if not HAS_COLUMNS:
        return None
    behind = islice(entries(code), offset // 2, None)
    place = _position(next(behind, None))
    if place is None and code.co_code[offset] == _TRUTH:
        # Dynamo writes it without columns, in front of the jump that has them.
        place = next(filter(None, map(_position, behind)), None)
    return place


_Entry = tuple[int | None, int | None, int | None, int | None]


def entries(code: types.CodeType) -> Iterator[_Entry]:
    """Lines and columns of its instructions: the first and the last line, the first column and the
    one behind the last."""
    if sys.version_info >= (3, 11):
        return code.co_positions()
    return ((line, line, None, None) for _, _, line in code.co_lines())


def compared_nones(code: types.CodeType) -> set[int]:
    """Which of its entries stand for the ``None`` of a comparison that a jump makes by itself. They
    are there only if it has a line of its own."""
    if not HAS_COLUMNS:
        return set()
    units = code.co_code[::2]
    found = set()
    for at, unit in enumerate(units):
        if unit in _NONE_JUMPS:
            before = at - 1
            while units[before] == dis.EXTENDED_ARG:
                before -= 1
            if units[before] == dis.opmap["NOP"]:
                found.add(before)
    return found


def _position(entry: _Entry | None) -> Position | None:
    line, end_line, column, end_column = entry or (None,) * 4
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return Position(line, end_line, column, end_column)


def qualified_name(frame: types.FrameType) -> str:
    """``Net.forward`` of a frame; before 3.11 by the object that the method belongs to."""
    code = frame.f_code
    known: str | None = getattr(code, "co_qualname", None)
    if known is not None:
        return known
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    method = getattr(type(first), code.co_name, None) if first is not None else None
    if getattr(method, "__code__", None) is not code:
        return code.co_name
    return str(getattr(method, "__qualname__", code.co_name))


def loads_method(instruction: Any) -> bool:
    """Whether what a ``LOAD_ATTR`` loads is a method and its object, for a call."""
    return _METHOD_FLAG and instruction.opname == "LOAD_ATTR" and bool(instruction.arg & 1)


def line_begun(instruction: dis.Instruction) -> int | None:
    """The line of which an instruction is the first one."""
    begun: Any = instruction.starts_line
    if isinstance(begun, bool):  # it only says whether
        return getattr(instruction, "line_number", None) if begun else None
    return begun  # type: ignore[no-any-return]


def label(instruction: dis.Instruction) -> str:
    """What marks an instruction that others jump to; empty for the rest."""
    number = getattr(instruction, "label", None)
    if number is not None:
        return f"L{number}"
    return ">>" if instruction.is_jump_target else ""


def exception_entries(code: types.CodeType) -> list[Any]:
    """Which instructions lead where when they raise."""
    return list(getattr(dis.Bytecode(code), "exception_entries", ()))
