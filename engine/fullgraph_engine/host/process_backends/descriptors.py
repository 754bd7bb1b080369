"""File descriptors: where a process keeps its own ones, and what it gives user code as 0 to 2."""

from __future__ import annotations

import fcntl
import io
import os
import resource
import select
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_ROOM = 24
"""Descriptors at the very end of the table are left for the engine."""

_F_GETPATH, _LONGEST_PATH = 50, 1024
"""sys/fcntl.h and sys/param.h of macOS."""

_LINUX = sys.platform.startswith("linux")
_close, _dup2, _open, _poll = os.close, os.dup2, os.open, select.poll
_write, _unlink, _rmtree = os.write, os.unlink, shutil.rmtree


def listed() -> set[int]:
    """All open descriptors of this process."""
    folder = "/proc/self/fd" if _LINUX else "/dev/fd"
    return {int(name) for name in os.listdir(folder)}  # noqa: PTH208 - also in a hurry


def raised(descriptor: int) -> int:
    """Move a descriptor to the end of the table, closed on exec.

    ``os.closerange(3, 1000)``, which daemons and careless tests do, then leaves it alone.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    top = 4096 if soft == resource.RLIM_INFINITY else min(soft, 4096)
    try:
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, max(top - _ROOM, 3))
    except OSError:
        return descriptor
    _close(descriptor)
    return moved


def path_of(folder: int) -> str:
    """Where an open folder is."""
    if _LINUX:
        return f"/proc/self/fd/{folder}"
    found = fcntl.fcntl(folder, _F_GETPATH, bytes(_LONGEST_PATH))
    return os.fsdecode(found.rstrip(b"\0"))


def held_by_files(folder: str) -> int:
    """Bytes on the disk of all files below a folder, as far as they can be seen."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512  # noqa: PTH118
            except OSError:
                continue
    return total


def remove(path: str) -> None:
    """Remove a file, or a folder with all that is in it, as far as that is possible."""
    try:
        _unlink(path)
    except OSError:
        _rmtree(path, ignore_errors=True)


def write_all(descriptor: int, data: bytes) -> None:
    """A pipe takes no more at once than it has room for."""
    view = memoryview(data)
    while view:
        view = view[_write(descriptor, view) :]


def readable(descriptor: int, milliseconds: int = 0) -> bool:
    """Whether there is something to read, or the end, within that time."""
    poll = _poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(milliseconds))


def close_all(descriptors: Iterable[int]) -> None:
    """Close descriptors, except those that cannot be closed."""
    for descriptor in descriptors:
        try:
            _close(descriptor)
        except OSError:
            continue


def in_memory(name: str) -> int:
    """A new descriptor of a file without a place, closed on exec."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)  # noqa: PTH108
    return descriptor


@dataclass(frozen=True)
class Inheritance:
    """How a new process gets descriptors: the options to start it with, and what they are there."""

    numbers: tuple[int, ...]
    popen: dict[str, Any]


def inheritance(descriptors: Iterable[int]) -> Inheritance:
    """For a program that leads a session of its own, so that an interrupt does not reach it."""
    given = tuple(descriptors)
    return Inheritance(given, {"pass_fds": given, "start_new_session": True})


def inherited(numbers: Iterable[int]) -> list[int]:
    """In that program: its descriptors."""
    return list(numbers)


def fill_standard() -> None:
    """Make sure that 0 to 2 are open, so that no pipe of ours becomes one of them."""
    while (descriptor := _open(os.devnull, os.O_RDWR)) <= 2:
        pass
    _close(descriptor)


def attach(stdout: int, stderr: int) -> None:
    """Make these the standard streams of this process, with an empty standard input.

    New stream objects, too: what user code did to ``sys.stdout`` in the process that this one
    was forked from, or left in its buffer, is not repeated.
    """
    null = _open(os.devnull, os.O_RDONLY)
    for descriptor, standard in ((null, 0), (stdout, 1), (stderr, 2)):
        _dup2(descriptor, standard)
    close_all({null, stdout, stderr} - {0, 1, 2})
    sys.stdin = sys.__stdin__ = _text(0, "r")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _text(1, "w")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text(2, "w")  # type: ignore[misc]


def detach() -> None:
    """Give up the standard streams: whoever reads them sees their end."""
    attach(_open(os.devnull, os.O_WRONLY), _open(os.devnull, os.O_WRONLY))


def flush() -> None:
    """Flush standard output and error; ignore whatever a stream object of the user's raises."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # a stream of the user's own may raise anything
            continue


def _text(descriptor: int, mode: str) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, mode, closefd=False)
    buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffered, encoding="utf-8", errors="backslashreplace", line_buffering=mode == "w"
    )
