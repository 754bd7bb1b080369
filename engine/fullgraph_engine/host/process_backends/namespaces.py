"""Isolate processes with Linux namespaces: processes, network, shared memory and mounts.

The engine's main process puts all processes that it starts into one pid, IPC and network namespace.
It stays outside the pid namespace, so it sees their pids and can signal them. The first process in
that namespace only adopts orphans. When it ends, which it does with the main process, the kernel
ends all others. Each module process has its own mounts: everything but the temporary folder is
read-only, and ``/dev/shm`` is empty.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import signal
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from . import descriptors, processes

PID, NETWORK, IPC = 0x20000000, 0x40000000, 0x08000000
_USER, _MOUNTS = 0x10000000, 0x00020000
ALL = PID | NETWORK | IPC

_RDONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _ATTR_RDONLY = 442, -100, 0x8000, 1
"""Number of the system call mount_setattr and constants for it, which are equal on x86_64 and
aarch64."""

_CAPABILITIES, _SYS_ADMIN, _DAC_READ_SEARCH = 0x20080522, 21, 2
_PR_CAP_AMBIENT, _RAISE = 47, 2
SHARED_MEMORY = "/dev/shm"

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


class _KernelRefusal(Exception):
    """Raised when the kernel denies a system call; ``lack`` is a clause that explains this to the
    user."""

    def __init__(self, call: str) -> None:
        self.number = ctypes.get_errno()
        name = errno.errorcode.get(self.number, str(self.number))
        self.lack = f"the system refuses {call} ({name})"
        super().__init__(self.lack)


# -- in the parent --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entered:
    """The Linux namespaces that a process has entered.

    ``held`` has flags from ``PID``, ``NETWORK`` and ``IPC``. ``user``: a user namespace was
    necessary to enter them. ``lack`` is a clause on why a namespace is missing; empty if all were
    entered.
    """

    held: int = 0
    user: bool = False
    lack: str = ""


def enter_namespaces(kinds: int = ALL) -> Entered:
    """Enter new Linux namespaces of the given kinds, and return the ones that could be entered.

    First try to enter all kinds together, then each kind alone. Each attempt is made without a user
    namespace and, if that fails, with one. A failure may leave this process unusable. So call this
    in a temporary process, then call :func:`reenter_namespaces` with the result.
    """
    if _libc is None:
        return Entered(lack="only Linux has namespaces")
    lack = ""
    for user in (False, True):
        try:
            reenter_namespaces(Entered(kinds, user))
        except (OSError, _KernelRefusal) as error:
            lack = getattr(error, "lack", str(error))
        else:
            return Entered(kinds, user)
    entered = Entered(lack=lack)
    for kind in (kind for kind in (PID, IPC, NETWORK) if kind & kinds):
        for user in (entered.user,) if entered.held else (False, True):
            try:
                reenter_namespaces(Entered(kind, user and not entered.held))
            except (OSError, _KernelRefusal):
                continue
            entered = replace(entered, held=entered.held | kind, user=user)
            break
    return entered


def reenter_namespaces(entered: Entered) -> None:
    """Enter new namespaces of the kinds in ``entered``, which another process has entered
    successfully.

    In a user namespace, the user and group ids stay the same.

    Raises:
        OSError, _KernelRefusal: the kernel does not permit it.
    """
    if _libc is None or not entered.held:
        return
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(entered.held | (_USER if entered.user else 0)) != 0:
        raise _KernelRefusal("new namespaces")
    if entered.user:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
                file.write(text)
        _keep_for_programs()


def _keep_for_programs() -> None:
    """Keep the capability to mount file systems in programs that this process starts later."""
    only = 1 << _SYS_ADMIN
    _set_capabilities(only, only)
    assert _libc is not None
    _libc.prctl(_PR_CAP_AMBIENT, _RAISE, _SYS_ADMIN, 0, 0)


def start_collector() -> int:
    """Start the first process of the pid namespace that was entered; return its pid.

    It only adopts orphans. When it ends, the kernel kills all other processes of the namespace.

    Raises:
        OSError: the system lacks resources for another process.
    """
    parent = os.getpid()
    reading, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            processes.die_with(parent)
            os.write(ready, b"!")  # the write raises if the parent process has already ended
            _collect_orphans()
        finally:
            os._exit(0)
    os.close(ready)
    os.read(reading, 1)
    os.close(reading)
    return pid


def _collect_orphans() -> None:
    descriptors.close_all(descriptors.list_open())
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
    while True:
        for _ in processes.collect_ended():
            continue
        signal.sigwait((signal.SIGCHLD,))


# -- before user code -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Mounts:
    """The result of making file systems read-only: clauses on why files are still writable, and why
    ``/dev/shm`` is still shared.

    Both are empty on success.
    """

    read_only: str = ""
    shared_memory: str = ""
    private: tuple[str, ...] = ()
    """Folders that this process may write to; the changes are visible only to it and are discarded
    with it."""


def restrict_mounts(
    root: str, shared_memory: int, allowed: tuple[str, ...] = (), private: tuple[str, ...] = ()
) -> Mounts:
    """Make all file systems read-only for this process and its forks, except ``root`` and the
    ``allowed`` folders.

    ``/dev/shm`` becomes empty, with ``shared_memory`` MiB. The process gets a writable view of each
    ``private`` folder: changes stay in memory, at most ``shared_memory`` MiB, and are discarded
    with the process. Kernels without overlays do not provide such views.
    """
    if _libc is None:
        return Mounts("only Linux has mount namespaces", "only Linux has mount namespaces")
    try:
        if _libc.unshare(_MOUNTS) != 0:
            raise _KernelRefusal("a mount namespace")
        _mount_filesystem("none", "/", "", _PRIVATE | _RECURSIVE)
        _mount_filesystem(root, root, "", _BIND)
        allowed = tuple(one for one in allowed if _is_bound(one))
        private = _overlay_folders(private, root, shared_memory)
    except _KernelRefusal as error:
        return Mounts(error.lack, error.lack)
    found = Mounts(
        private=private,
        shared_memory=_describe_lack(
            lambda: _mount_filesystem(
                "tmpfs", SHARED_MEMORY, "tmpfs", _NOSUID | _NODEV, f"size={shared_memory}m"
            )
        ),
    )
    writable = (root,) if found.shared_memory else (root, SHARED_MEMORY)
    try:
        _set_read_only("/", below=True)
    except _KernelRefusal as error:
        found = replace(found, read_only=error.lack)
    else:
        covered = tuple(f"{folder}/" for folder in private)
        for path in (*private, *(one for one in writable if not one.startswith(covered))):
            _set_writable(path)
        for path in allowed:
            _describe_lack(functools.partial(_set_writable, path))
    if _proc_is_of_others() and not _has_mounts_below_proc():
        flags = _RDONLY | _NOSUID | _NODEV | _NOEXEC
        _describe_lack(lambda: _mount_filesystem("proc", "/proc", "proc", flags))
    _reenter_folder()
    return found


def _overlay_folders(folders: tuple[str, ...], root: str, size: int) -> tuple[str, ...]:
    """Mount a writable in-memory layer over each folder; return the folders where this
    succeeded."""
    wanted = [one for one in folders if not _holds_mounts(one, root)]
    outermost = [one for one in wanted if not any(one.startswith(f"{other}/") for other in wanted)]
    if not outermost:
        return ()
    # Mount an overlay over the folder that contains ``root`` last, because it hides the overlays'
    # layers from later mounts.
    outermost.sort(key=lambda one: root.startswith(f"{one}/"))
    layers = f"{root}/private"
    found: list[str] = []
    try:
        os.makedirs(layers, exist_ok=True)  # noqa: PTH103
        _mount_filesystem("tmpfs", layers, "tmpfs", _NOSUID | _NODEV, f"size={size}m")
        for number, folder in enumerate(outermost):
            upper, work = f"{layers}/upper{number}", f"{layers}/work{number}"
            os.mkdir(upper)  # noqa: PTH102
            os.mkdir(work)  # noqa: PTH102
            options = f"lowerdir={folder},upperdir={upper},workdir={work}"
            if any(character in folder for character in ",:\\"):
                continue
            for extra in ("", ",userxattr"):
                mount = functools.partial(
                    _mount_filesystem, "overlay", folder, "overlay", 0, options + extra
                )
                if not _describe_lack(mount):
                    found.append(folder)
                    break
    except (OSError, _KernelRefusal):
        pass
    return tuple(found)


def _holds_mounts(folder: str, root: str) -> bool:
    """Whether file systems are mounted in a folder; an overlay would hide them.

    Mounts in the engine's own folder ``root`` do not count.
    """
    try:
        with open("/proc/self/mountinfo", "rb") as mounts:  # noqa: PTH123
            places = [line.split()[4].decode(errors="replace") for line in mounts]
        return any(one.startswith(f"{folder}/") and one != root for one in places)
    except OSError:
        return True


def _is_bound(folder: str) -> bool:
    """Mount a folder onto itself, so that it can have other options. Return False if it is
    read-only or the mount fails."""
    try:
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return False
        _mount_filesystem(folder, folder, "", _BIND | _RECURSIVE)
    except (OSError, _KernelRefusal):
        return False
    return True


def drop_capabilities() -> None:
    """Drop all capabilities of this process, except that root may still read every file."""
    if _libc is not None:
        kept = 1 << _DAC_READ_SEARCH if os.geteuid() == 0 else 0
        _set_capabilities(kept & _permitted_capabilities(), 0)


def _describe_lack(call: Callable[[], None]) -> str:
    try:
        call()
    except _KernelRefusal as error:
        return error.lack
    return ""


def _mount_filesystem(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    assert _libc is not None
    words = [word.encode() or None for word in (source, target, kind, options)]
    if _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]) != 0:
        raise _KernelRefusal(f"a mount at {target}")


def _set_read_only(path: str, *, below: bool) -> None:
    _set_attributes(path, _ATTR_RDONLY, 0, below=below)


def _set_writable(path: str) -> None:
    _set_attributes(path, 0, _ATTR_RDONLY, below=False)


def _set_attributes(path: str, added: int, removed: int, *, below: bool) -> None:
    assert _libc is not None
    attributes = struct.pack("QQQQ", added, removed, 0, 0)
    flags = _AT_RECURSIVE if below else 0
    arguments = (_AT_FDCWD, path.encode(), flags, attributes, len(attributes))
    if _libc.syscall(_MOUNT_SETATTR, *arguments) != 0:
        raise _KernelRefusal("read-only mounts")


def _reenter_folder() -> None:
    """Change to the current working folder again, by its path, because a new mount may hide the old
    one."""
    try:
        os.chdir(os.getcwd())  # noqa: PTH109
    except OSError:
        return


def _proc_is_of_others() -> bool:
    """Whether ``/proc`` belongs to a different pid namespace than this process, so that it lists
    other processes."""
    try:
        with open("/proc/self/status", "rb") as status:  # noqa: PTH123
            return any(line.startswith(b"NSpid:") and len(line.split()) > 2 for line in status)
    except OSError:
        return False


def _has_mounts_below_proc() -> bool:
    """Whether something is mounted below ``/proc``, as in containers. A new mount of ``/proc``
    would expose what it hides."""
    try:
        with open("/proc/self/mountinfo", "rb") as mounts:  # noqa: PTH123
            below = [line.split()[4] for line in mounts]
    except OSError:
        return True
    known = (b"/proc/sys/fs/binfmt_misc",)
    return any(path.startswith(b"/proc/") and path not in known for path in below)


# -- capabilities ---------------------------------------------------------------------------------


def _permitted_capabilities() -> int:
    assert _libc is not None
    header = struct.pack("Ii", _CAPABILITIES, 0)
    data = ctypes.create_string_buffer(24)
    if _libc.capget(header, data) != 0:
        return 0
    _, low, _, _, high, _ = struct.unpack("6I", data.raw)
    return int(low) | int(high) << 32


def _set_capabilities(permitted: int, inheritable: int) -> None:
    assert _libc is not None
    header = struct.pack("Ii", _CAPABILITIES, 0)
    words = []
    for shift in (0, 32):
        part, kept = permitted >> shift & 0xFFFFFFFF, inheritable >> shift & 0xFFFFFFFF
        words += [part, part, kept]
    if _libc.capset(header, struct.pack("6I", *words)) != 0:
        raise _KernelRefusal("fewer capabilities")
