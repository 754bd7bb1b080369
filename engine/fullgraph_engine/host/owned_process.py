"""A process that an analysis has started, as the engine's main process sees it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from .supervision import WatchedProcess


@dataclass(frozen=True)
class ProcessEnd:
    """The end of a process with an exit code (None if unknown), or its failed start with the errno
    ``error``."""

    process: OwnedProcess
    code: int | None
    error: int = 0


class OwnedProcess:
    """A process that an analysis has requested. The back end that starts processes reports its pid
    and its end to this object.

    The end is appended to the queue ``ends``, so that the analysis handles it after the current
    call of the back end has returned.
    """

    watched: WatchedProcess
    """The process as the supervisor, which enforces limits, knows it; set when the process was
    started."""

    def __init__(self, ends: deque[ProcessEnd]) -> None:
        self._ends = ends

    def set_pid(self, pid: int) -> None:
        self.watched.pid = pid

    def handle_end(self, code: int | None) -> None:
        self._ends.append(ProcessEnd(self, code))

    def handle_refusal(self, error: int) -> None:
        self._ends.append(ProcessEnd(self, None, error))
