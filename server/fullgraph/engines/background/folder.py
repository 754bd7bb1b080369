"""The folder with the sockets of background engines, inaccessible to other users."""

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
"""Maximum bytes of a socket address that every system supports."""

_LOCK_SECONDS = 5.0
"""Maximum seconds to wait for the lock of the folder; other processes normally hold it only while
they create a socket.
"""
_SUFFIX = ".sock"


class BackgroundUnavailable(Exception):
    """An error that means that background engines cannot be used; the message explains why in one
    sentence.
    """


def private_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder for sockets, created if missing: ``$XDG_RUNTIME_DIR/fullgraph``, or a
    folder of this user in the temporary folder.

    Raises:
        BackgroundUnavailable: Other users can access the folders.
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
    """Create a folder for this user only, or check that only this user can open or replace an
    existing one.

    Raises:
        BackgroundUnavailable: The folder is not private.
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
        raise BackgroundUnavailable(f"{folder} exists, but is not a folder; remove it.")
    if own.st_uid != os.geteuid() or own.st_mode & 0o077:
        raise BackgroundUnavailable(
            f"Other users may open the folder {folder}; remove it, or run `chmod 700` on it."
        )
    replaceable = above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX
    if above.st_uid not in (0, os.geteuid()) or replaceable:
        raise BackgroundUnavailable(
            f"Other users may replace the folder {folder}; make the "
            "folder above it writable only by you."
        )


def socket_path(folder: Path, name: str) -> Path:
    """Return the socket path of the background engine with this name, which is a hash of its launch
    parameters.

    Raises:
        BackgroundUnavailable: The path is too long for a socket.
    """
    path = folder / (name + _SUFFIX)
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise BackgroundUnavailable(f"The path {path} is too long for a Unix socket.")
    return path


def list_sockets(folder: Path) -> list[Path]:
    """Return the paths of all background engines' sockets, including sockets of ended processes."""
    return sorted(folder.glob(f"*{_SUFFIX}"))


def same_user(connection: socket.socket) -> bool:
    """Return whether the process at the other end of a socket connection belongs to this user; True
    if the system cannot tell.
    """
    peer = getattr(socket, "SO_PEERCRED", None)
    if peer is None:
        return True
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, peer, size))
    return bool(user == os.geteuid())


def listen_at(path: Path) -> socket.socket | None:
    """Return a new socket that listens at a path; None if another process listens there. The socket
    file of a killed process is replaced.

    Raises:
        BackgroundUnavailable: The folder is not private, or its lock is blocked.
        OSError: The socket cannot be created.
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
    """Return whether a process listens at the path, even if it does not answer."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # the queue of waiting connections is full
        except OSError:
            return False
    return True


def socket_inode(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the socket file, which distinguish it from a later one at the same
    path; None if it is missing.
    """
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def remove_socket(path: Path, own: tuple[int, int] | None) -> None:
    """Remove a socket file, unless its device and inode differ from ``own`` because another process
    has replaced it."""
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
