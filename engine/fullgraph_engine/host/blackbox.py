"""Record what a process is executing, so that the engine's main process can read it after a crash.

The record is an in-memory file shared with one process. A segmentation fault or a kill does not
lose what was written, and writing never blocks as a pipe might.
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
    """The last position that a process recorded before it ended.

    ``statement`` and ``line`` are the index and the zero-based line of the top-level statement
    being executed; for an import of the parent packages, they are ``wire.PACKAGES`` and 0. Both are
    None before and after the statements.
    """

    statement: int | None
    line: int | None
    stack: tuple[Frame, ...]
    place: Range | None
    """Source range of the last diagnostic that the process reported before it ended; None without
    one."""
    fatal: str
    """Name of the fatal error, such as ``Segmentation fault``, as the interpreter wrote it; empty
    without one."""


def enable_fault_dump(descriptor: int) -> None:
    """Make the interpreter write the stack to ``descriptor`` when the process gets a fatal signal,
    such as a segmentation fault."""
    faulthandler.disable()  # otherwise the handlers would not be installed again after a reset
    faulthandler.enable(descriptor, all_threads=True)


def dump_at(descriptor: int, seconds: float) -> None:
    """Make the interpreter write the stacks of all threads to ``descriptor`` after ``seconds``,
    even if C code never returns."""
    faulthandler.dump_traceback_later(max(seconds, 0.05), repeat=False, file=descriptor)


def undo_dump() -> None:
    """Cancel the dump of the stacks that ``dump_at`` scheduled in this process, if there is one."""
    faulthandler.cancel_dump_traceback_later()


def at_statement(descriptor: int, index: int, line: int) -> None:
    """Record which top-level statement of the user's file begins, by index and zero-based line, for
    a reader after a crash.

    The index is ``wire.PACKAGES`` while the parent packages of the module are imported.
    """
    _append_line(descriptor, b"%b%d %d\n" % (_STATEMENT, index, line))


def after_statements(descriptor: int) -> None:
    """Record that all top-level statements of the user's file are finished, for a reader after a
    crash."""
    _append_line(descriptor, _STATEMENT + b"\n")


def at_stack(descriptor: int, stack: tuple[Frame, ...]) -> None:
    """Record a stack with column positions in ``descriptor``, for a reader after a crash.

    The reader prefers it to the stack that the interpreter dumps without columns.
    """
    _append_line(descriptor, _STACK + _dumps(to_plain(stack)).encode() + b"\n")


def at_place(descriptor: int, place: Range) -> None:
    """Record the source range of the diagnostic that was just reported, for a reader after a
    crash."""
    _append_line(descriptor, _PLACE + _dumps(to_plain(place)).encode() + b"\n")


def read_last_words(descriptor: int, path: str) -> LastWords:
    """Return the last position that a process recorded before it ended. ``descriptor`` is the
    in-memory file with the process's record.

    If the record has stacks of several threads, use the stack that contains a frame of the file
    ``path``.
    """
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
            stack = tuple(_decode_line(tuple[Frame, ...], line[1:]) or stack)
        elif line.startswith(_PLACE):
            place = _decode_line(Range, line[1:]) or place
        elif line.startswith(b"Fatal Python error: "):
            fatal = line[20:].decode("utf-8", "replace")
        elif _THREAD.match(line):
            threads.append((line.startswith(b"Current"), []))
        elif threads and (found := _FRAME.match(line)):
            name = _unescape_name(found[1])
            function = _unescape_name(found[3])
            threads[-1][1].insert(0, Frame(name, function, int(found[2]) - 1))
    if not stack:
        # faulthandler lists the newest thread first, so the last thread that is not the current one
        # is the main thread.
        ordered = [frames for current, frames in threads if current]
        ordered += [frames for current, frames in reversed(threads) if not current]
        in_file = [frames for frames in ordered if any(frame.path == path for frame in frames)]
        stack = tuple((in_file or ordered or [[]])[0])
    return LastWords(statement, where, stack, place, fatal)


def _append_line(descriptor: int, line: bytes) -> None:
    try:
        _write(descriptor, line)
    except OSError as error:  # user code closed the descriptor
        raise wire.ParentUnreachable from error


def _decode_line(kind: Any, line: bytes) -> Any:
    try:
        return from_plain(kind, json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None  # user code may write to this descriptor too


def _unescape_name(name: bytes) -> str:
    """Decode a name that faulthandler wrote with backslash escapes for non-ASCII characters."""
    if b"\\" not in name:
        return name.decode("ascii", "replace")
    return name.decode("unicode_escape", "replace")
