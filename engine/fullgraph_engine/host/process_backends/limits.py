"""What a process may use: what the kernel enforces, and how the parent is allowed to interrupt."""

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
"""Resident memory at which a process is ended, as a multiple of its limit."""
_TIME_IS_UP = (signal.SIGALRM, signal.SIGPROF)
_LAST_WORDS = 64 * MIB
_GENERATIONS = 4
"""A preamble, a module process, an enclosing run and its run: each may have so much more than the
one that it was forked from."""
_setrlimit, _getrlimit = resource.setrlimit, resource.getrlimit
_signal, _sigmask = signal.signal, signal.pthread_sigmask
_setitimer, _valid = signal.setitimer, frozenset(signal.valid_signals())

# Real-time signals: SIGALRM and SIGUSR1 are what programs use themselves.
_LINUX = sys.platform.startswith("linux")
INTERRUPT: int = signal.SIGRTMAX - 5 if _LINUX else signal.SIGUSR2
"""The parent's word that time is up: say where you are."""
LAST_WORD: int = signal.SIGRTMAX - 6 if _LINUX else signal.SIGUSR1
"""Its word that this process is to end for another reason: say where you are."""


def data_size() -> int:
    """Bytes that count against RLIMIT_DATA already; 0 where that cannot be known."""
    try:
        with open("/proc/self/status", "rb") as status:  # noqa: PTH123
            for line in status:
                if line.startswith(b"VmData:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def apply(memory: int, *, forks: bool = False) -> None:
    """Let this process allocate ``memory`` MiB more than it has, write files of that size, and
    leave no core file. What it ``forks`` may set limits of its own, if it does.

    RLIMIT_DATA and not RLIMIT_AS: libraries reserve address space that they never touch.
    """
    _lower(resource.RLIMIT_CORE, 0, 0)
    _lower(resource.RLIMIT_FSIZE, memory * MIB, memory * MIB)
    held = data_size()
    if held:
        most = held + memory * MIB
        more = (_GENERATIONS - 1) * memory * MIB if forks else _LAST_WORDS
        _lower(resource.RLIMIT_DATA, most, most + more)


def lift() -> None:
    """Let a process that ran out of memory have some to say so."""
    _, hard = _getrlimit(resource.RLIMIT_DATA)
    _setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _lower(kind: int, soft: int, hard: int) -> None:
    _, most = _getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    _setrlimit(kind, (soft, hard))


def reset_signals(interrupted: Callable[[int, FrameType | None], None]) -> None:
    """Undo whatever signal handlers, masks and timers there are, and listen for the parent:
    ``interrupted`` gets ``INTERRUPT`` or ``LAST_WORD``."""
    _setitimer(signal.ITIMER_REAL, 0)
    for number in _valid - _FIXED:
        _signal(number, signal.SIG_IGN)  # forgets those that are waiting
    _sigmask(signal.SIG_SETMASK, ())
    for number in _valid - _FIXED - _IGNORED:
        _signal(number, signal.SIG_DFL)
    _signal(signal.SIGINT, signal.default_int_handler)
    _signal(INTERRUPT, interrupted)
    _signal(LAST_WORD, interrupted)
    signal.set_wakeup_fd(-1)


# As the interpreter has them: a write to a closed pipe or a full disk is an exception.
_IGNORED = frozenset((signal.SIGPIPE, signal.SIGXFSZ))
_FIXED = frozenset((signal.SIGKILL, signal.SIGSTOP))


def end_within(used: float | None, passed: float) -> None:
    """Have this process ended by a signal after so many seconds of its processor time, or of time.

    By itself: the sandbox lets no process end another.
    """
    for number in _TIME_IS_UP:
        _signal(number, signal.SIG_DFL)
    if used is not None:
        _setitimer(signal.ITIMER_PROF, max(used, 0.01))
    _setitimer(signal.ITIMER_REAL, max(passed, 0.01))


def ran_out_of_time(code: int | None) -> bool:
    """Whether that is how a process ended."""
    return code in [-number for number in _TIME_IS_UP]


def ignore_interrupts() -> None:
    """An interrupt from the terminal is for the server; a closed pipe is an error of a write."""
    for name in ("SIGINT", "SIGPIPE"):
        if hasattr(signal, name):
            _signal(getattr(signal, name), signal.SIG_IGN)


def end_after(seconds: int) -> None:
    """Have this process end if it takes longer, whatever it is doing then."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=os.open(os.devnull, os.O_WRONLY))


def give_way(niceness: int) -> None:
    """Let other processes go first, as far as the system knows how."""
    if hasattr(os, "nice"):
        os.nice(niceness)
