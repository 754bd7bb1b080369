"""Bytecode with the source lines it belongs to."""

from __future__ import annotations

import dis
import linecache
import types
from collections.abc import Iterator
from typing import Any


def disassembly(code: types.CodeType) -> str:
    """What ``dis`` prints, with each source line before its instructions."""
    return "\n".join(_lines(code)) + "\n"


def instruction_count(code: types.CodeType) -> int:
    return sum(1 for _ in dis.get_instructions(code))


def _lines(code: types.CodeType) -> Iterator[str]:
    last: int | None = None
    for instruction in dis.get_instructions(code):
        line = _line_begun(instruction)
        if line is not None and line != last:
            last = line
            yield f"{line:>5}  {linecache.getline(code.co_filename, line).strip()}".rstrip()
        yield f"         {_instruction(instruction)}".rstrip()
    entries = getattr(dis.Bytecode(code), "exception_entries", ())
    if entries:
        yield "       exceptions"
    for entry in entries:
        lasti = " lasti" if entry.lasti else ""
        # The end of an entry is the last instruction in it.
        yield (
            f"         {entry.start} to {entry.end} -> {entry.target} [depth {entry.depth}]{lasti}"
        )


def _line_begun(instruction: dis.Instruction) -> int | None:
    begun: Any = instruction.starts_line
    # Since Python 3.13 it only says whether, and the number is elsewhere.
    if isinstance(begun, bool):
        return getattr(instruction, "line_number", None) if begun else None
    return begun  # type: ignore[no-any-return]


def _instruction(instruction: dis.Instruction) -> str:
    mark = ">>" if instruction.is_jump_target else "  "
    label = getattr(instruction, "label", None)
    if label is not None:
        mark = f"L{label}"
    text = f"{mark:>4} {instruction.offset:>5} {instruction.opname:<28}"
    if instruction.arg is not None:
        text += f" {instruction.arg:>3}"
        if instruction.argrepr:
            text += f" ({instruction.argrepr})"
    return text
