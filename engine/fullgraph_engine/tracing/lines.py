"""Which lines of one file Dynamo comes to."""

from __future__ import annotations

import types

from ..torch_internals.frames import original_name
from .recording import TracedLines
from .stacks import is_torch


class Lines:
    """The lines of ``file``, as the symbolic interpreters of its functions come to them.

    What runs in eager mode behind a graph break that Dynamo cannot resume from is not seen:
    ``sys.settrace`` makes a trace take nearly twice the time.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._traced: set[int] = set()
        self._entered: set[int] = set()
        self._known: set[types.CodeType] = set()
        self._reads_mode = False

    def began(self, code: types.CodeType) -> None:
        """A symbolic interpreter of some code begins."""
        if code in self._known:
            return
        self._known.add(code)
        if not self._reads_mode and not is_torch(code.co_filename):
            self._reads_mode = mentions(code, "training")
        # A resume function has the lines of its function, and others.
        if code.co_filename == self._file and original_name(code.co_name) == code.co_name:
            own = lines_of(code)
            self._entered |= own
            if own == {code.co_firstlineno - 1}:
                self._traced |= own

    def reached(self, code: types.CodeType, line: int) -> None:
        """``line`` is counted from one."""
        if code.co_filename == self._file:
            self._traced.add(line - 1)

    def seen(self) -> TracedLines:
        return TracedLines(
            frozenset(self._traced & self._entered), frozenset(self._entered), self._reads_mode
        )


def lines_of(code: types.CodeType) -> set[int]:
    """The lines of a function that have instructions, zero-based, without those of functions
    inside of it; its first one only where there is no other."""
    first = code.co_firstlineno
    lines = {line for _, _, line in code.co_lines() if line}
    return {line - 1 for line in lines - {first} or {first}}


def mentions(code: types.CodeType, name: str) -> bool:
    """Whether code, or a function inside of it, has an attribute or a string of this name."""
    return (
        name in code.co_names
        or name in code.co_consts
        or any(mentions(one, name) for one in code.co_consts if isinstance(one, types.CodeType))
    )
