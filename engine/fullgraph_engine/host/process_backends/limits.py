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
"""Factor on the memory limit of a process. A process with more resident memory than the product is
ended."""
_TIME_IS_UP = (signal.SIGALRM, signal.SIGPROF)
_LAST_WORDS = 64 * MIB
_GENERATIONS = 4
"""Maximum depth of forks: a process kept after the imports, the process that executes the file, an
enclosing run (a run of callers), and a run forked from it. Each may use its own limit beyond the
memory of its parent."""
_setrlimit, _getrlimit = resource.setrlimit, resource.getrlimit
_signal, _sigmask = signal.signal, signal.pthread_sigmask
_setitimer, _valid = signal.setitimer, frozenset(signal.valid_signals())

# Real-time signals, because programs use SIGALRM and SIGUSR1 themselves.
_LINUX = sys.platform.startswith("linux")
INTERRUPT: int = signal.SIGRTMAX - 5 if _LINUX else signal.SIGUSR2
"""Signal from the engine's main process: record the stack and stop, because the time limit is
reached."""
LAST_WORD: int = signal.SIGRTMAX - 6 if _LINUX else signal.SIGUSR1
"""Signal from the engine's main process: record the stack, because the process is about to be
killed."""


def data_size() -> int:
    """Return the bytes of this process that already count against RLIMIT_DATA; 0 if unknown."""
    try:
        with open("/proc/self/status", "rb") as status:  # noqa: PTH123
            for line in status:
                if line.startswith(b"VmData:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def apply_limits(memory: int, *, forks: bool = False) -> None:
    """Limit the additional memory and the size of each file to ``memory`` MiB, and disable core
    dumps.

    With ``forks``, processes forked from this one may raise these limits for themselves.
    RLIMIT_DATA is used instead of RLIMIT_AS because libraries reserve address space without using
    it.
    """
    _lower_limit(resource.RLIMIT_CORE, 0, 0)
    _lower_limit(resource.RLIMIT_FSIZE, memory * MIB, memory * MIB)
    held = data_size()
    if held:
        most = held + memory * MIB
        more = (_GENERATIONS - 1) * memory * MIB if forks else _LAST_WORDS
        _lower_limit(resource.RLIMIT_DATA, most, most + more)


def lift_memory_limit() -> None:
    """Raise the memory limit to its maximum, so that a process out of memory can report this."""
    _, hard = _getrlimit(resource.RLIMIT_DATA)
    _setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _lower_limit(kind: int, soft: int, hard: int) -> None:
    _, most = _getrlimit(kind)
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    _setrlimit(kind, (soft, hard))


def reset_signals(interrupted: Callable[[int, FrameType | None], None]) -> None:
    """Reset signal handlers, masks and timers, and handle the signals of the engine's main process.

    ``interrupted`` is called with the signal, ``INTERRUPT`` or ``LAST_WORD``, and the current
    frame.
    """
    _setitimer(signal.ITIMER_REAL, 0)
    for number in _valid - _FIXED:
        _signal(number, signal.SIG_IGN)  # ignoring a signal discards pending ones
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
    """Make signals end this process after ``used`` seconds of processor time (None: unlimited) or
    ``passed`` seconds of elapsed time.

    The process limits itself, because the sandbox prevents its parent from killing it.
    """
    for number in _TIME_IS_UP:
        _signal(number, signal.SIG_DFL)
    if used is not None:
        _setitimer(signal.ITIMER_PROF, max(used, 0.01))
    _setitimer(signal.ITIMER_REAL, max(passed, 0.01))


def ran_out_of_time(code: int | None) -> bool:
    """Whether a process with exit code ``code`` ended because of a limit from ``end_within``."""
    return code in [-number for number in _TIME_IS_UP]


def ignore_interrupts() -> None:
    """Ignore the terminal's interrupt signal, which the server handles, and signals for closed
    pipes."""
    for name in ("SIGINT", "SIGPIPE"):
        if hasattr(signal, name):
            _signal(getattr(signal, name), signal.SIG_IGN)


def end_after(seconds: int) -> None:
    """End this process after ``seconds``, by a timer that works even while C code runs."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=os.open(os.devnull, os.O_WRONLY))


def give_way(niceness: int) -> None:
    """Lower the priority of this process: increase its niceness by ``niceness``, where the system
    supports it."""
    if hasattr(os, "nice"):
        os.nice(niceness)
