"""Disassembly of bytecode with its source lines."""

from __future__ import annotations

import dis
import linecache
import types
from collections.abc import Iterator

from ..code_objects import exception_entries, jump_label, starting_line


def disassemble(code: types.CodeType) -> str:
    """Return the output of ``dis`` for a code object; each source line is above its
    instructions.
    """
    return "\n".join(_disassembly_lines(code)) + "\n"


def instruction_count(code: types.CodeType) -> int:
    """Count the instructions of a code object, without inline caches and nested functions."""
    return sum(1 for _ in dis.get_instructions(code))


def _disassembly_lines(code: types.CodeType) -> Iterator[str]:
    last: int | None = None
    for instruction in dis.get_instructions(code):
        line = starting_line(instruction)
        if line is not None and line != last:
            last = line
            yield f"{line:>5}  {linecache.getline(code.co_filename, line).strip()}".rstrip()
        yield f"         {_format_instruction(instruction)}".rstrip()
    entries = exception_entries(code)
    if entries:
        yield "       exceptions"
    for entry in entries:
        lasti = " lasti" if entry.lasti else ""
        # The ``end`` of an exception table entry is the offset of its last instruction.
        yield (
            f"         {entry.start} to {entry.end} -> {entry.target} [depth {entry.depth}]{lasti}"
        )


def _format_instruction(instruction: dis.Instruction) -> str:
    text = f"{jump_label(instruction):>4} {instruction.offset:>5} {instruction.opname:<28}"
    if instruction.arg is not None:
        text += f" {instruction.arg:>3}"
        if instruction.argrepr:
            text += f" ({instruction.argrepr})"
    return text
