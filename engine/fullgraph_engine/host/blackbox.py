"""What a process last said about where it is, readable after its death.

A file in memory that the host shares with one process: a segmentation fault, a kill, or the end
of the process lose nothing that was written to it, and writing never blocks as a pipe might.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
from dataclasses import dataclass
from typing import Any

from ..protocol import Frame, Range, from_plain, to_plain
from . import wire

_write, _dumps = os.write, json.dumps
_MOST = 1 << 20
_STATEMENT, _STACK, _PLACE = b"@", b"#", b"~"
_PROGRESS = re.compile(rb"^@(?:(-?\d{1,9}) (\d{1,9}))?$")
_THREAD = re.compile(rb"^(Current thread|Thread) 0x")
_FRAME = re.compile(rb'^  File "(.*)", line (\d{1,9}) in (.*)$')


@dataclass(frozen=True)
class LastWords:
    """``statement`` and ``line`` are the index and the zero-based line of the top-level statement
    that was being executed, or ``wire.PACKAGES`` and 0; None before and after that."""

    statement: int | None
    line: int | None
    stack: tuple[Frame, ...]
    place: Range | None
    """Where the last finding was: eager execution went on from there."""
    fatal: str
    """The interpreter's own name for what happened: ``Segmentation fault``; or empty."""


def attend(descriptor: int) -> None:
    """Let the interpreter write the stack here when the process gets a fatal signal."""
    faulthandler.disable()  # else the handlers would not be installed anew after a reset
    faulthandler.enable(descriptor, all_threads=True)


def dump_at(descriptor: int, seconds: float) -> None:
    """Write the stacks of all threads after so long, even if C code never returns."""
    faulthandler.dump_traceback_later(max(seconds, 0.05), repeat=False, file=descriptor)


def undo_dump() -> None:
    """Cancel the dump that ``dump_at`` scheduled in this process, if there is one."""
    faulthandler.cancel_dump_traceback_later()


def at_statement(descriptor: int, index: int, line: int) -> None:
    """Record the index and the zero-based line of the top-level statement that begins.

    The index is ``wire.PACKAGES`` while the packages above the module are imported.
    """
    _note(descriptor, b"%b%d %d\n" % (_STATEMENT, index, line))


def after_statements(descriptor: int) -> None:
    """Record that no top-level statement is being executed any more."""
    _note(descriptor, _STATEMENT + b"\n")


def at_stack(descriptor: int, stack: tuple[Frame, ...]) -> None:
    """A stack with columns, from the process itself; preferred over the interpreter's."""
    _note(descriptor, _STACK + _dumps(to_plain(stack)).encode() + b"\n")


def at_place(descriptor: int, place: Range) -> None:
    """Record the range of the last finding."""
    _note(descriptor, _PLACE + _dumps(to_plain(place)).encode() + b"\n")


def read(descriptor: int, path: str) -> LastWords:
    """What was written; of several threads the one that was in ``path`` is chosen."""
    try:
        size = os.fstat(descriptor).st_size
        data = os.pread(descriptor, _MOST, max(0, size - _MOST))
    except OSError:
        data = b""
    statement: int | None = None
    where: int | None = None
    stack: tuple[Frame, ...] = ()
    place: Range | None = None
    fatal = ""
    threads: list[tuple[bool, list[Frame]]] = []
    for line in data.splitlines():
        if found := _PROGRESS.match(line):
            statement = int(found[1]) if found[1] else None
            where = int(found[2]) if found[2] else None
            stack = ()
        elif line.startswith(_STACK):
            stack = tuple(_loaded(tuple[Frame, ...], line[1:]) or stack)
        elif line.startswith(_PLACE):
            place = _loaded(Range, line[1:]) or place
        elif line.startswith(b"Fatal Python error: "):
            fatal = line[20:].decode("utf-8", "replace")
        elif _THREAD.match(line):
            threads.append((line.startswith(b"Current"), []))
        elif threads and (found := _FRAME.match(line)):
            name = _unescape(found[1])
            function = _unescape(found[3])
            threads[-1][1].insert(0, Frame(name, function, int(found[2]) - 1))
    if not stack:
        # The interpreter lists the newest thread first: of the others, the last is the main one.
        ordered = [frames for current, frames in threads if current]
        ordered += [frames for current, frames in reversed(threads) if not current]
        in_file = [frames for frames in ordered if any(frame.path == path for frame in frames)]
        stack = tuple((in_file or ordered or [[]])[0])
    return LastWords(statement, where, stack, place, fatal)


def _note(descriptor: int, line: bytes) -> None:
    try:
        _write(descriptor, line)
    except OSError as error:  # user code has closed it
        raise wire.Lost from error


def _loaded(kind: Any, line: bytes) -> Any:
    try:
        return from_plain(kind, json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None  # user code may write there as well


def _unescape(name: bytes) -> str:
    """faulthandler writes what is not ASCII as backslash escapes."""
    if b"\\" not in name:
        return name.decode("ascii", "replace")
    return name.decode("unicode_escape", "replace")
