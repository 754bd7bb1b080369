"""Manage file descriptors: the engine's own and the standard streams of user code."""

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
"""Number of file descriptors, at the end of the descriptor table, that the engine reserves for
itself."""

_F_GETPATH, _LONGEST_PATH = 50, 1024
"""Constants of macOS for looking up a descriptor's path: the command of fcntl (sys/fcntl.h), and
the maximum path length (sys/param.h)."""

_LINUX = sys.platform.startswith("linux")
_close, _dup2, _open, _poll = os.close, os.dup2, os.open, select.poll
_write, _unlink, _rmtree = os.write, os.unlink, shutil.rmtree


def list_open() -> set[int]:
    """Return the numbers of all open file descriptors of this process."""
    folder = "/proc/self/fd" if _LINUX else "/dev/fd"
    return {int(name) for name in os.listdir(folder)}  # noqa: PTH208 - also in a hurry


def move_to_end(descriptor: int) -> int:
    """Move a descriptor to the end of the descriptor table, with close-on-exec set; return its new
    number.

    So ``os.closerange(3, 1000)``, which daemons and some tests call, does not close it.
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
    """Return the path of a folder that is open as the descriptor ``folder``."""
    if _LINUX:
        return f"/proc/self/fd/{folder}"
    found = fcntl.fcntl(folder, _F_GETPATH, bytes(_LONGEST_PATH))
    return os.fsdecode(found.rstrip(b"\0"))


def held_by_files(folder: str) -> int:
    """Return the bytes that all files below a folder occupy on disk; folders that cannot be read do
    not count."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512  # noqa: PTH118
            except OSError:
                continue
    return total


def remove_path(path: str) -> None:
    """Remove a file or a folder with its contents, ignoring errors."""
    try:
        _unlink(path)
    except OSError:
        _rmtree(path, ignore_errors=True)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all data to a descriptor, in several steps if a pipe accepts only a part at once."""
    view = memoryview(data)
    while view:
        view = view[_write(descriptor, view) :]


def is_readable(descriptor: int, milliseconds: int = 0) -> bool:
    """Whether a descriptor has data or has reached its end; wait at most ``milliseconds`` for
    this."""
    poll = _poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(milliseconds))


def close_all(descriptors: Iterable[int]) -> None:
    """Close file descriptors, ignoring errors."""
    for descriptor in descriptors:
        try:
            _close(descriptor)
        except OSError:
            continue


def in_memory(name: str) -> int:
    """Create an in-memory file with close-on-exec set; return its descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)  # noqa: PTH108
    return descriptor


@dataclass(frozen=True)
class Inheritance:
    """File descriptors prepared for a new program: options for ``Popen``, and the numbers that the
    descriptors have in the program."""

    numbers: tuple[int, ...]
    popen: dict[str, Any]


def prepare_inheritance(descriptors: Iterable[int]) -> Inheritance:
    """Prepare descriptors for inheritance by a program to be started with ``Popen``; return the
    options for ``Popen``.

    The program gets its own session, so that interrupts from the terminal do not reach it.
    """
    given = tuple(descriptors)
    return Inheritance(given, {"pass_fds": given, "start_new_session": True})


def adopt_inherited(numbers: Iterable[int]) -> list[int]:
    """Return the descriptors that this program inherited; ``numbers`` were passed to it by
    :func:`prepare_inheritance`."""
    return list(numbers)


def fill_standard() -> None:
    """Open descriptors 0 to 2 on the null device if they are closed, so that the engine's pipes do
    not get these numbers."""
    while (descriptor := _open(os.devnull, os.O_RDWR)) <= 2:
        pass
    _close(descriptor)


def attach_streams(stdout: int, stderr: int) -> None:
    """Use these descriptors as standard output and error, and an empty standard input.

    The stream objects are new too. So user code's changes to ``sys.stdout`` before the fork, and
    text in its buffer, do not affect this process.
    """
    null = _open(os.devnull, os.O_RDONLY)
    for descriptor, standard in ((null, 0), (stdout, 1), (stderr, 2)):
        _dup2(descriptor, standard)
    close_all({null, stdout, stderr} - {0, 1, 2})
    sys.stdin = sys.__stdin__ = _open_text(0, "r")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _open_text(1, "w")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _open_text(2, "w")  # type: ignore[misc]


def detach_streams() -> None:
    """Discard what this process prints from now on, and close its former output, so that its reader
    sees the end."""
    attach_streams(_open(os.devnull, os.O_WRONLY), _open(os.devnull, os.O_WRONLY))


def flush_streams() -> None:
    """Flush standard output and error; ignore any exception of a user-defined stream object."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # a user-defined stream may raise anything
            continue


def _open_text(descriptor: int, mode: str) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, mode, closefd=False)
    buffered = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffered, encoding="utf-8", errors="backslashreplace", line_buffering=mode == "w"
    )
