"""Process trees: keeping descendants together, finding them, ending them, measuring them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .limits import INTERRUPT, LAST_WORD

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PF_EXITING = 0x4
_LINUX = sys.platform.startswith("linux")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_THREADS = 17
"""Which field of ``stat`` is the number of threads, counted from the state on."""
_PROC = Path("/proc")
_LOOK_EVERY = 1.0
_PS_SECONDS = 5.0

# Bound now: a process that ran user code may find these replaced.
_kill, _getppid, _exit, _listdir, _getpid = os.kill, os.getppid, os._exit, os.listdir, os.getpid
_sleep = time.sleep
_prctl = ctypes.CDLL(None).prctl if _LINUX else None


def adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent died, also after ``setsid``."""
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def die_with(parent: int) -> None:
    """Have this process end when ``parent``, its creator, does."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    else:
        threading.Thread(target=watch_parent, args=(parent,), daemon=True).start()
    # To a process in a pid namespace, 0 is one outside of it, with which the namespace ends.
    if _getppid() not in (parent, 0):  # it ended before the line above
        _exit(0)


def die_with_server() -> None:
    """Have the parent of all others end when its creator does, should it be stopped by then.

    Otherwise it notices that its pipe was closed.
    """
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def watch_parent(parent: int) -> None:
    """End this process once its parent is another one; for systems that do not do it themselves."""
    while _getppid() in (parent, 0):
        _sleep(_LOOK_EVERY)
    _kill(_getpid(), signal.SIGKILL)


class _Reserve:
    """A descriptor that is given up while another one is needed to find out what goes on.

    Without it, a parent that has none left could neither measure its processes nor end them.
    """

    def __init__(self) -> None:
        self._descriptor = -1

    def hold(self) -> None:
        """Have it from now on."""
        self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            self.hold()


_reserve = _Reserve()


class Snapshot(Protocol):
    """The processes of this machine, zombies left out, at one time."""

    parents: dict[int, int]
    stopped: set[int]
    """Those that a signal has stopped."""

    def resident(self, pid: int) -> int:
        """Bytes of memory that a process has, shared pages included; 0 if it is gone."""


def snapshot() -> Snapshot:
    """The processes of this machine now: from ``/proc`` on Linux, from ``ps`` elsewhere."""
    return _FromProc() if _LINUX else FromPs()


class _FromProc:
    def __init__(self) -> None:
        self.parents: dict[int, int] = {}
        self.stopped: set[int] = set()
        with _reserve:
            self._read()

    def _read(self) -> None:
        for name in _listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                stat = (_PROC / name / "stat").read_bytes()
            except OSError:
                continue
            state, parent = _state_and_parent(stat)
            if state not in b"ZX":
                self.parents[int(name)] = parent
            if state == b"T":
                self.stopped.add(int(name))

    def resident(self, pid: int) -> int:
        try:
            return int((_PROC / str(pid) / "statm").read_bytes().split()[1]) * _PAGE
        except (OSError, IndexError, ValueError):
            return 0


def is_exiting(pid: int) -> bool:
    """Whether a process has ended or is about to; for Linux alone."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return True
    flags = int(stat[stat.rindex(b")") + 2 :].split(None, 7)[6])
    return bool(flags & _PF_EXITING)


def _state_and_parent(stat: bytes) -> tuple[bytes, int]:
    """Of a ``/proc/<pid>/stat``."""
    # The command between the parentheses may itself hold spaces and parentheses.
    fields = stat[stat.rindex(b")") + 2 :].split(None, _THREADS + 1)
    state, parent, threads = fields[0], int(fields[1]), int(fields[_THREADS])
    # Where only the main thread has ended, the process is no zombie yet.
    return (b"S" if state == b"Z" and threads > 1 else state), parent


class FromPs:
    """By ``ps``, which POSIX has with these columns, memory apart, which macOS has in KiB."""

    def __init__(self) -> None:
        self.parents: dict[int, int] = {}
        self.stopped: set[int] = set()
        self._resident: dict[int, int] = {}
        try:
            # Each in an option of its own: what follows an equals sign is a heading.
            columns = [
                part for name in ("pid", "ppid", "state", "rss") for part in ("-o", f"{name}=")
            ]
            command = ["ps", "-A", *columns]
            listed = subprocess.run(command, capture_output=True, timeout=_PS_SECONDS).stdout
        except (OSError, subprocess.TimeoutExpired):
            return
        for line in listed.splitlines():
            pid, parent, state, kib = line.split()[:4]
            if not state.startswith(b"Z"):
                self.parents[int(pid)] = int(parent)
                self._resident[int(pid)] = int(kib) << 10
            if state.startswith(b"T"):
                self.stopped.add(int(pid))

    def resident(self, pid: int) -> int:
        return self._resident.get(pid, 0)


def descendants(root: int, parents: dict[int, int]) -> list[int]:
    """All processes below ``root``, which is not one of them."""
    below: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        below.setdefault(parent, []).append(pid)
    found: list[int] = []
    queue = list(below.get(root, ()))
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue.extend(below.get(pid, ()))
    return found


def kill(roots: Iterable[int]) -> None:
    """Kill processes and all their descendants, if they are descendants of this process.

    A pid may come from a process that executes user code, and be anybody's. Repeated until nothing
    new turns up: a process may fork while its children are being listed. Elsewhere than on Linux
    one whose parent has ended is found only in the process group.
    """
    roots = tuple(roots)
    seen: set[int] = set()
    for _ in range(20):
        table = snapshot().parents
        own = set(descendants(_getpid(), table)).intersection(roots)
        found = own.union(*(descendants(root, table) for root in own)) - seen
        if not found:
            return
        seen |= found
        for pid in found:
            signal_process(pid, signal.SIGKILL)
            if not _LINUX:
                _signal_group(pid)


def end(pid: int) -> None:
    """Kill one descendant of this process, without looking for what it has started."""
    if is_below(pid):
        signal_process(pid, signal.SIGKILL)


def interrupt(pid: int, *, late: bool) -> None:
    """Ask a descendant of this process where it is, as its time is up (``late``) or as it is to
    end for another reason."""
    if is_below(pid):
        signal_process(pid, INTERRUPT if late else LAST_WORD)


def is_below(pid: int) -> bool:
    """Whether a process is a descendant of this one, which alone may be sent signals."""
    if not _LINUX:
        return pid in descendants(_getpid(), snapshot().parents)
    own = _getpid()
    with _reserve:
        while pid > 1 and pid != own:
            try:
                stat = (_PROC / str(pid) / "stat").read_bytes()
            except OSError:
                return False
            _, pid = _state_and_parent(stat)
    return pid == own


def signal_process(pid: int, number: int) -> None:
    """Send a signal; ignore processes that are gone or another user's, and numbers up to 1."""
    if pid <= 1:  # to kill(2), 0 is our own process group
        return
    try:
        _kill(pid, number)
    except OSError:
        return


def exists(pid: int) -> bool:
    """Whether there is such a process, also if it is somebody else's."""
    try:
        _kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def was_killed(code: int | None) -> bool:
    """Whether a process was ended by SIGKILL, as the kernel does when memory runs out."""
    return code == -signal.SIGKILL


def signal_name(code: int) -> str:
    """What a process was ended by, from its negative exit code."""
    with contextlib.suppress(ValueError):
        return signal.strsignal(-code) or f"signal {-code}"
    return f"signal {-code}"


def ending(code: int | None) -> str:
    """How a process ended, from its exit code: a verb and what goes with it."""
    if code is None:
        return "exited for an unknown reason"
    if code < 0:
        return f"crashed ({signal_name(code)})"
    return f"exited with status {code}"


def hold_reserve() -> None:
    """Keep a descriptor for ``snapshot``, which is then sure of one.

    Raises:
        OSError: there is none left.
    """
    _reserve.hold()


def give_way(pid: int) -> None:
    """Have the kernel prefer others to a process that has made itself nice.

    Where it groups processes by session, niceness counts only within the group.
    """
    try:
        nice = os.getpriority(os.PRIO_PROCESS, pid)
        (_PROC / str(pid) / "autogroup").write_text(str(nice))
    except OSError:
        return


def _signal_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        return


@dataclass(frozen=True)
class Usage:
    """What a process and its descendants hold."""

    processes: int
    memory: int
    """Resident bytes, shared pages counted once for each process that maps them."""

    def beyond(self, shared: int) -> int:
        """Resident bytes, without the ``shared`` ones that each process has from its source."""
        return self.memory - self.processes * shared


def usage(root: int, now: Snapshot) -> Usage:
    """The number of processes and the resident bytes of ``root`` with all of its descendants."""
    pids = [root, *descendants(root, now.parents)]
    return Usage(len(pids), sum(now.resident(pid) for pid in pids))


def held_by_removed_files(pids: Iterable[int], folder: str) -> int:
    """Bytes on the disk of ``folder`` of files that processes have open and that have no name any
    more, as far as they can be seen."""
    try:
        disk = Path(folder).stat().st_dev
    except OSError:
        return 0
    found: dict[int, int] = {}
    with _reserve:
        for pid in pids:
            for path in _open_files(pid):
                try:
                    seen = Path(path).stat()
                except OSError:
                    continue
                if seen.st_nlink == 0 and seen.st_dev == disk:
                    found[seen.st_ino] = seen.st_blocks * 512
    return sum(found.values())


def _open_files(pid: int) -> list[str]:
    folder = f"/proc/{pid}/fd"
    try:
        return [f"{folder}/{name}" for name in _listdir(folder)]
    except OSError:
        return []


def threads() -> int:
    """How many threads this process has, also those that Python does not know."""
    count = 1
    for _ in range(25):
        try:
            count = len(_listdir("/proc/self/task"))
        except OSError:
            return 1
        if count == 1:
            break
        # The kernel may still list one that has just been joined.
        _sleep(0.002)
    return count


# -- children of the parent -----------------------------------------------------------------------


def wake_on_end() -> int:
    """A descriptor that can be read from when a child of this process has ended."""
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    return wake


def ended() -> Iterator[tuple[int, int]]:
    """The children that have ended since somebody asked, with their exit codes."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def wait_for_all() -> None:
    """Wait until there is no child any more."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
