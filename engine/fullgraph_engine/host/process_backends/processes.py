"""Process trees: keeping descendants together, finding them, ending them, measuring them."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .limits import INTERRUPT

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform.startswith("linux")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")

# Bound now: a process that ran user code may find these replaced.
_kill, _getppid, _exit, _listdir, _getpid = os.kill, os.getppid, os._exit, os.listdir, os.getpid
_sleep = time.sleep
_prctl = ctypes.CDLL(None).prctl if _LINUX else None


def adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent died, also after ``setsid``."""
    return _prctl is not None and _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def die_with(parent: int) -> None:
    """Have the kernel kill this process when ``parent``, its creator, ends."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if _getppid() != parent:  # it ended before the line above
        _exit(0)


def parents() -> dict[int, int]:
    """The parent of every process, zombies left out; empty where there is no ``/proc``."""
    found: dict[int, int] = {}
    if not _LINUX:
        return found
    for name in _listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            stat = (_PROC / name / "stat").read_bytes()
        except OSError:
            continue
        # The command between the parentheses may itself hold spaces and parentheses.
        state, parent = stat[stat.rindex(b")") + 2 :].split(None, 2)[:2]
        if state not in b"ZX":
            found[int(name)] = int(parent)
    return found


def descendants(root: int, table: dict[int, int]) -> list[int]:
    """All processes below ``root``, which is not one of them."""
    below: dict[int, list[int]] = {}
    for pid, parent in table.items():
        below.setdefault(parent, []).append(pid)
    found: list[int] = []
    queue = list(below.get(root, ()))
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue.extend(below.get(pid, ()))
    return found


def kill(roots: Iterable[int]) -> None:
    """Kill processes and all their descendants.

    Repeated until nothing new turns up: a process may fork while its children are being listed.
    Where there is no ``/proc`` the process groups have to do.
    """
    roots = tuple(roots)
    seen: set[int] = set()
    for _ in range(20):
        table = parents()
        found = {pid for root in roots for pid in descendants(root, table)} | set(roots)
        found -= seen
        if not found:
            return
        seen |= found
        for pid in found:
            signal_process(pid, signal.SIGKILL)
            if not _LINUX:
                _signal_group(pid)


def end(pid: int) -> None:
    """Kill one process, without looking for what it has started."""
    signal_process(pid, signal.SIGKILL)


def interrupt(pid: int) -> None:
    """Ask a process where it is."""
    signal_process(pid, INTERRUPT)


def signal_process(pid: int, number: int) -> None:
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
    return code == -signal.SIGKILL


def signal_name(code: int) -> str:
    """What a process was ended by, from its negative exit code."""
    return signal.strsignal(-code) or f"signal {-code}"


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


def usage(root: int, table: dict[int, int]) -> Usage:
    pids = [root, *descendants(root, table)]
    return Usage(len(pids), sum(resident(pid) for pid in pids))


def resident(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "statm").read_bytes().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0


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
