"""Where the sockets of background engines are: a folder that no other user can open."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

LONGEST_PATH = 100
"""Bytes: the address of a Unix socket holds no more on any system."""

_LOCK_SECONDS = 5.0
"""The lock is held for as long as it takes to connect and to bind."""
_SUFFIX = ".sock"


class BackgroundUnavailable(Exception):
    """No background engine can be used. One sentence."""


def private_folder(environment: Mapping[str, str]) -> Path:
    """``$XDG_RUNTIME_DIR/fullgraph``, else a folder of the user's in the temporary one; it is made
    where it is missing.

    Raises:
        Unavailable: none of them belongs to this user alone.
    """
    above = environment.get("XDG_RUNTIME_DIR", "")
    candidates = [Path(above, "fullgraph")] if os.path.isabs(above) else []  # noqa: PTH117
    candidates.append(Path(tempfile.gettempdir(), f"fullgraph-{os.geteuid()}"))
    problem = ""
    for candidate in candidates:
        try:
            check_private(candidate)
            return candidate
        except BackgroundUnavailable as error:
            problem = problem or str(error)
    raise BackgroundUnavailable(problem)


def check_private(folder: Path) -> None:
    """Make a folder, or see that it is a folder of this user that no other can open or replace.

    Raises:
        Unavailable: it is not.
    """
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(0o700)
        own, above = folder.lstat(), folder.parent.stat()
    except OSError as error:
        raise BackgroundUnavailable(
            f"The folder {folder} cannot be used: {error.strerror}."
        ) from None
    if not stat.S_ISDIR(own.st_mode):
        raise BackgroundUnavailable(f"{folder} is no folder; remove it.")
    if own.st_uid != os.geteuid() or own.st_mode & 0o077:
        raise BackgroundUnavailable(
            f"Other users may open the folder {folder}; remove it, or run `chmod 700` on it."
        )
    replaceable = above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX
    if above.st_uid not in (0, os.geteuid()) or replaceable:
        raise BackgroundUnavailable(f"Other users may replace the folder {folder}.")


def socket_path(folder: Path, name: str) -> Path:
    """Of the process of that name.

    Raises:
        Unavailable: the path is too long for a socket.
    """
    path = folder / (name + _SUFFIX)
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise BackgroundUnavailable(f"The path {path} is too long for a Unix socket.")
    return path


def list_sockets(folder: Path) -> list[Path]:
    """Those of all processes, also of some that have ended."""
    return sorted(folder.glob(f"*{_SUFFIX}"))


def same_user(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's, where the system says whose it is."""
    peer = getattr(socket, "SO_PEERCRED", None)
    if peer is None:
        return True
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, peer, size))
    return bool(user == os.geteuid())


def listen_at(path: Path) -> socket.socket | None:
    """A socket that listens at a path; None if another process does. What a process has left there
    that was killed is replaced.

    Raises:
        Unavailable: the folder is not private, or is locked by a process that hangs.
        OSError: there can be no socket.
    """
    check_private(path.parent)
    with _lock_folder(path.parent):
        if is_served(path):
            return None
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        try:
            listening.bind(str(path))
            path.chmod(0o600)
            listening.listen()
            listening.setblocking(False)
        except BaseException:
            listening.close()
            raise
        return listening


def is_served(path: Path) -> bool:
    """Whether a process listens there, even one that does not answer."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # so many wait to be accepted
        except OSError:
            return False
    return True


def socket_inode(path: Path) -> tuple[int, int] | None:
    """What tells the socket there from a later one; None where there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def remove_socket(path: Path, own: tuple[int, int] | None) -> None:
    """Remove a socket, unless it is another one by now."""
    with contextlib.suppress(OSError, BackgroundUnavailable), _lock_folder(path.parent):
        if socket_inode(path) == own:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise BackgroundUnavailable(f"Another process keeps {folder} locked.") from None
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)
