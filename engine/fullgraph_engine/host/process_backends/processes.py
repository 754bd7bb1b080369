"""Adopt, find, measure and end processes, together with their descendants."""

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
_USER_TICKS, _SYSTEM_TICKS, _THREADS = 11, 12, 17
"""Indices of the processor time in user and kernel mode, and of the number of threads, among the
fields of ``/proc/<pid>/stat``, where the process state has index 0."""
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_LOOK_EVERY = 1.0
_PS_SECONDS = 5.0

# Save these functions at import, because user code may replace them later in this process.
_kill, _getppid, _exit, _listdir, _getpid = os.kill, os.getppid, os._exit, os.listdir, os.getpid
_sleep = time.sleep
_prctl = ctypes.CDLL(None).prctl if _LINUX else None


def adopt_orphans() -> bool:
    """Make this process the parent of any descendant whose own parent ends, even if it called
    ``setsid``."""
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def die_with(parent: int) -> None:
    """Make the system kill this process when the process ``parent``, which created it, ends."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    else:
        threading.Thread(target=watch_parent, args=(parent,), daemon=True).start()
    # In a pid namespace, 0 stands for a parent outside of it; the namespace ends with that parent.
    if _getppid() not in (parent, 0):  # the parent ended before the call above
        _exit(0)


def die_with_server() -> None:
    """Make the kernel kill the engine's main process when the server ends, even while a signal has
    stopped the engine.

    Otherwise the engine would end only when it reads that its pipe is closed, and a stopped process
    reads nothing.
    """
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def watch_parent(parent: int) -> None:
    """End this process as soon as its parent process has ended.

    It polls for a change of parent, for systems where the kernel cannot signal this. The function
    returns only by ending the process.
    """
    while _getppid() in (parent, 0):
        _sleep(_LOOK_EVERY)
    _kill(_getpid(), signal.SIGKILL)


class _Reserve:
    """A spare file descriptor, which is closed to make one available when the process table must be
    read.

    Without it, an engine without free descriptors could neither measure nor end its processes.
    """

    def __init__(self) -> None:
        self._descriptor = -1

    def hold(self) -> None:
        """Open the spare descriptor, so that closing it later makes one available."""
        self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            self.hold()


_reserve = _Reserve()


class ProcessTable(Protocol):
    """The processes of this machine at one time, without zombies, with their parents."""

    parents: dict[int, int]
    stopped: set[int]
    """Pids of processes that a signal has stopped."""

    def resident(self, pid: int) -> int:
        """Return the resident bytes of a process, including shared pages; 0 if it has ended."""


def read_processes() -> ProcessTable:
    """Read the current processes of this machine: from ``/proc`` on Linux, from ``ps``
    elsewhere."""
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
    """Whether a process has ended or is ending; always False where the system does not show it (all
    but Linux)."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return True
    flags = int(stat[stat.rindex(b")") + 2 :].split(None, 7)[6])
    return bool(flags & _PF_EXITING)


def _state_and_parent(stat: bytes) -> tuple[bytes, int]:
    """Return the state and the parent's pid from a ``/proc/<pid>/stat``."""
    # The command in parentheses may contain spaces and parentheses.
    fields = stat[stat.rindex(b")") + 2 :].split(None, _THREADS + 1)
    state, parent, threads = fields[0], int(fields[1]), int(fields[_THREADS])
    # A process whose main thread has ended is not a zombie while other threads run.
    return (b"S" if state == b"Z" and threads > 1 else state), parent


class FromPs:
    """A process table read from the ``ps`` command, for systems without ``/proc``."""

    def __init__(self) -> None:
        self.parents: dict[int, int] = {}
        self.stopped: set[int] = set()
        self._resident: dict[int, int] = {}
        try:
            # Each column is a separate option, because the rest after an equals sign is a heading.
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


def find_descendants(root: int, parents: dict[int, int]) -> list[int]:
    """Return the pids of all descendants of ``root``, without ``root``. ``parents`` maps each pid
    to its parent's pid."""
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


def kill_trees(roots: Iterable[int]) -> None:
    """Kill processes and all their descendants, provided that they are descendants of this process.

    Other processes are spared, because user code may have forged a pid. The search repeats until it
    finds no new process, because a process may fork during the search. On systems other than Linux,
    orphans are found only through their process group.
    """
    roots = tuple(roots)
    seen: set[int] = set()
    for _ in range(20):
        table = read_processes().parents
        own = set(find_descendants(_getpid(), table)).intersection(roots)
        found = own.union(*(find_descendants(root, table) for root in own)) - seen
        if not found:
            return
        seen |= found
        for pid in found:
            signal_process(pid, signal.SIGKILL)
            if not _LINUX:
                _signal_group(pid)


def kill_process(pid: int) -> None:
    """Kill a process, but not its children. Do nothing unless it is a descendant of this
    process."""
    if is_below(pid):
        signal_process(pid, signal.SIGKILL)


def interrupt_process(pid: int, *, late: bool) -> None:
    """Signal a descendant to record its stack.

    ``late``: its time limit is reached, so it should also stop; otherwise it is about to be killed.
    """
    if is_below(pid):
        signal_process(pid, INTERRUPT if late else LAST_WORD)


def is_below(pid: int) -> bool:
    """Whether a process is a descendant of this one; only descendants may be signaled."""
    if not _LINUX:
        return pid in find_descendants(_getpid(), read_processes().parents)
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
    """Send the signal ``number`` to a process.

    Do nothing if it does not exist, belongs to another user, or has a pid of 0 or 1.
    """
    if pid <= 1:  # kill(2) interprets 0 as its own process group
        return
    try:
        _kill(pid, number)
    except OSError:
        return


def process_exists(pid: int) -> bool:
    """Whether a process exists, including processes of other users."""
    try:
        _kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def was_killed(code: int | None) -> bool:
    """Whether an exit code (negative for a signal) means SIGKILL, which the kernel sends when
    memory runs out."""
    return code == -signal.SIGKILL


def signal_name(code: int) -> str:
    """Return the name of a signal, such as ``SIGSEGV``, from the negative exit code of the process
    that it ended."""
    with contextlib.suppress(ValueError):
        return signal.strsignal(-code) or f"signal {-code}"
    return f"signal {-code}"


def describe_exit(code: int | None) -> str:
    """Return a verb phrase such as ``exited with status 1`` for an exit code, which is negative for
    a signal and None if unknown."""
    if code is None:
        return "exited for an unknown reason"
    if code < 0:
        return f"crashed ({signal_name(code)})"
    return f"exited with status {code}"


def hold_reserve() -> None:
    """Open a spare file descriptor, which is closed to make one available when the process table
    must be read.

    Without it, an engine without free descriptors could not measure its processes.

    Raises:
        OSError: all descriptors are in use.
    """
    _reserve.hold()


def give_way(pid: int) -> None:
    """Give all processes in the session of a process the same niceness as that process.

    Some kernels schedule each session as a group. There, the niceness of a process only counts
    within its session.
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
class ProcessorTime:
    """Processor time of one process, without its children: seconds used, and seconds that its main
    thread waited for a processor (None if unknown)."""

    used: float = 0.0
    waited: float | None = None


def read_processor_time(pid: int) -> ProcessorTime | None:
    """Return the processor time of a process; None if it has ended or the system does not provide
    it."""
    folder = _PROC / str(pid)
    try:
        stat = (folder / "stat").read_bytes()
        fields = stat[stat.rindex(b")") + 2 :].split(None, _SYSTEM_TICKS + 1)
        used = (int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])) / _TICKS_PER_SECOND
    except (OSError, ValueError, IndexError):
        return None
    try:
        waited: float | None = int((folder / "schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):  # the kernel was built without scheduler statistics
        waited = None
    return ProcessorTime(used, waited)


@dataclass(frozen=True)
class Usage:
    """The number of processes in a tree of processes, and their memory."""

    processes: int
    memory: int
    """Sum of the resident bytes of all processes; pages shared by several processes count for
    each."""

    def beyond(self, shared: int) -> int:
        """Return the bytes of memory of all processes, minus ``shared`` bytes for each process, the
        size of the pages that forks share."""
        return self.memory - self.processes * shared


def measure_usage(root: int, now: ProcessTable) -> Usage:
    """Count the process ``root`` and its descendants, and sum their resident bytes."""
    pids = [root, *find_descendants(root, now.parents)]
    return Usage(len(pids), sum(now.resident(pid) for pid in pids))


def held_by_removed_files(pids: Iterable[int], folder: str) -> int:
    """Return the bytes of deleted files that processes hold open on the disk of ``folder``.

    Files that this process cannot inspect are left out.
    """
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


def count_threads() -> int:
    """Return the number of threads of this process, including those not created by Python."""
    count = 1
    for _ in range(25):
        try:
            count = len(_listdir("/proc/self/task"))
        except OSError:
            return 1
        if count == 1:
            break
        # The kernel may still list a joined thread for a moment.
        _sleep(0.002)
    return count


# -- children of this process ---------------------------------------------------------------------


def wake_on_end() -> int:
    """Return a descriptor that becomes readable whenever a child process ends."""
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    return wake


def collect_ended() -> Iterator[tuple[int, int]]:
    """Yield the pid and exit code of each child process that ended since the last call."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def wait_for_all() -> None:
    """Wait until all child processes have ended."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
