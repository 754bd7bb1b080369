"""Set resource limits and signal handlers of processes that execute user code."""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
from collections.abc import Callable
from types import FrameType

MIB = 1 << 20
MEMORY_SLACK = 1.25
"""Ratio of the resident memory at which a process is ended to its memory limit."""
_TIME_IS_UP = (signal.SIGALRM, signal.SIGPROF)
_LAST_WORDS = 64 * MIB
_GENERATIONS = 4
"""Maximum depth of forks: a preamble, a module process, an enclosing run and its run. Each may use
its own limit beyond the memory of its parent."""
_setrlimit, _getrlimit = resource.setrlimit, resource.getrlimit
_signal, _sigmask = signal.signal, signal.pthread_sigmask
_setitimer, _valid = signal.setitimer, frozenset(signal.valid_signals())

# Real-time signals, because programs use SIGALRM and SIGUSR1 themselves.
_LINUX = sys.platform.startswith("linux")
INTERRUPT: int = signal.SIGRTMAX - 5 if _LINUX else signal.SIGUSR2
"""Signal from the parent process: the time is up, so report the stack."""
LAST_WORD: int = signal.SIGRTMAX - 6 if _LINUX else signal.SIGUSR1
"""Signal from the parent process: the process is about to be killed, so report the stack."""


def data_size() -> int:
    """Return the bytes that count against RLIMIT_DATA already; 0 if unknown."""
    try:
        with open("/proc/self/status", "rb") as status:  # noqa: PTH123
            for line in status:
                if line.startswith(b"VmData:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def apply_limits(memory: int, *, forks: bool = False) -> None:
    """Limit further memory and the size of files to ``memory`` MiB each, and disable core dumps.

    With ``forks``, its children may raise these limits for themselves. RLIMIT_DATA is used instead
    of RLIMIT_AS because libraries reserve address space without using it.
    """
    _lower_limit(resource.RLIMIT_CORE, 0, 0)
    _lower_limit(resource.RLIMIT_FSIZE, memory * MIB, memory * MIB)
    held = data_size()
    if held:
        most = held + memory * MIB
        more = (_GENERATIONS - 1) * memory * MIB if forks else _LAST_WORDS
        _lower_limit(resource.RLIMIT_DATA, most, most + more)


def lift_memory_limit() -> None:
    """Raise the memory limit, so that a process out of memory can report this."""
    _, hard = _getrlimit(resource.RLIMIT_DATA)
    _setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _lower_limit(kind: int, soft: int, hard: int) -> None:
    _, most = _getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    _setrlimit(kind, (soft, hard))


def reset_signals(interrupted: Callable[[int, FrameType | None], None]) -> None:
    """Reset signal handlers, masks and timers, and handle interrupts from the parent process.

    ``interrupted`` is called with ``INTERRUPT`` or ``LAST_WORD``.
    """
    _setitimer(signal.ITIMER_REAL, 0)
    for number in _valid - _FIXED:
        _signal(number, signal.SIG_IGN)  # this discards pending signals
    _sigmask(signal.SIG_SETMASK, ())
    for number in _valid - _FIXED - _IGNORED:
        _signal(number, signal.SIG_DFL)
    _signal(signal.SIGINT, signal.default_int_handler)
    _signal(INTERRUPT, interrupted)
    _signal(LAST_WORD, interrupted)
    signal.set_wakeup_fd(-1)


# Python ignores these: writing to a closed pipe or a full disk raises an exception.
_IGNORED = frozenset((signal.SIGPIPE, signal.SIGXFSZ))
_FIXED = frozenset((signal.SIGKILL, signal.SIGSTOP))


def end_within(used: float | None, passed: float) -> None:
    """Let signals end this process after seconds of processor time (``used``) and of elapsed time.

    The process limits itself, because the sandbox prevents it from being killed.
    """
    for number in _TIME_IS_UP:
        _signal(number, signal.SIG_DFL)
    if used is not None:
        _setitimer(signal.ITIMER_PROF, max(used, 0.01))
    _setitimer(signal.ITIMER_REAL, max(passed, 0.01))


def ran_out_of_time(code: int | None) -> bool:
    """Whether a process ended because of ``end_within``."""
    return code in [-number for number in _TIME_IS_UP]


def ignore_interrupts() -> None:
    """Ignore terminal interrupts, which the server handles, and signals for closed pipes."""
    for name in ("SIGINT", "SIGPIPE"):
        if hasattr(signal, name):
            _signal(getattr(signal, name), signal.SIG_IGN)


def end_after(seconds: int) -> None:
    """Let a signal end this process after a time, whatever it is doing."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=os.open(os.devnull, os.O_WRONLY))


def give_way(niceness: int) -> None:
    """Lower the priority of this process, as far as the system supports it."""
    if hasattr(os, "nice"):
        os.nice(niceness)
