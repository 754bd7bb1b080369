"""Fork children on command in a process that contains user code, and report how the children
end."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .. import wire
from ..wire import (
    ChildExited,
    ChildForked,
    ForkFailed,
    ForkGeneration,
    ImportAhead,
    LaunchEnclosingRun,
    LaunchRun,
    RepeatOperatorCalls,
)
from . import descriptors, packets, processes
from .channels import ProcessEnds

# Save these functions at import, because user code may replace them later in this process.
_fork, _waitpid, _exit, _poll = os.fork, os.waitpid, os._exit, select.poll
_getpid, _setsid = os.getpid, os.setsid
_WITHOUT_PIDFD = 20
_REST = 100
"""Milliseconds without commands after which background work starts. The kernel uses the time to
free the memory of ended processes."""
_LEAST_ENDS = 4
"""Minimum number of file descriptors that arrive with a complete command. Fewer arrive if this
process has too many open."""
_pidfd_open = getattr(os, "pidfd_open", None)

Forks = LaunchRun | LaunchEnclosingRun | ForkGeneration
"""A command for which a process forks a child."""


@dataclass(frozen=True)
class _Child:
    number: int
    """Number of the command that requested this child."""
    ended: int
    """Descriptor that becomes readable when the child ends; -1 if the system has none."""
    gives_way: bool


class ForkServer:
    """A loop that waits for commands of the engine's main process and forks a child for each.

    ``forking`` is called with True before a fork and with False after it, in both processes.
    """

    forks = True

    def __init__(self, control: int, report: int, forking: Callable[[bool], None]) -> None:
        self._control, self._report = socket.socket(fileno=control), report
        self._forking = forking
        self.onward: socket.socket | None = None
        """Socket for commands to the snapshots of later calls. It leads to the process that
        continues the user's code. None if this process is not a snapshot (a copy of the process
        that waits at a call)."""
        self.is_own: Callable[[Forks], bool] = lambda _: True
        self._children: dict[int, _Child] = {}
        """Forked children whose end was not reported yet, by pid."""

    def wait(
        self,
        aside: Callable[[], None] | None = None,
        ahead: Callable[[ImportAhead], None] = lambda _: None,
        repeat: Callable[[bytes], Iterator[None]] = lambda _: iter(()),
    ) -> tuple[Forks, ProcessEnds]:
        """Fork a child for each command until the engine's main process ends. Return only in a
        child, with its command and channels.

        ``ahead`` is called for a command to import modules in advance. ``repeat`` is called with
        operator calls to repeat; its iterator advances one step at a time while the server is idle
        and only low-priority children run. ``aside`` is called once, when the first children exist
        and no command waits, but before the end of a child is reported.
        """
        followed = False
        rested = False
        repeating: list[Iterator[None]] = []
        while True:
            poll = _poll()
            poll.register(self._control.fileno(), select.POLLIN)
            children = self._children.values()
            for child in children:
                if child.ended >= 0:
                    poll.register(child.ended, select.POLLIN)
            blind = any(child.ended < 0 for child in children)
            now = aside is not None and followed
            idle = bool(repeating) and all(child.gives_way for child in children)
            rest = (0 if rested else _REST) if idle else _WITHOUT_PIDFD if blind else None
            timeout = 0 if now else rest
            try:
                ready = {found for found, _ in poll.poll(timeout)}
            except OSError as error:  # user code may have lowered the limit of descriptors
                raise wire.ParentUnreachable from error
            if aside is not None and now and self._control.fileno() not in ready:
                aside()
                aside = None
            self._reap()
            rested = idle and not ready
            if self._control.fileno() not in ready:
                if rested and next(repeating[0], self) is self:
                    del repeating[0]
                continue
            packet = packets.receive_packet(self._control)
            if packet is None:
                _exit(0)
            command = wire.decode_message(packet[0])
            if isinstance(command, ImportAhead):
                ahead(command)
                continue
            if isinstance(command, RepeatOperatorCalls):
                for paper in packet[1]:
                    with open(paper, "rb") as file:  # noqa: PTH123
                        repeating.append(repeat(file.read()))
                continue
            if len(packet[1]) < _LEAST_ENDS:
                raise wire.ParentUnreachable  # the process has too many open descriptors
            ends = ProcessEnds(*packet[1])
            if not self.is_own(command):
                onward = self.onward
                if onward is None or not packets.send_packet(onward, packet[0], packet[1]):
                    self._report_child(ChildExited(command.number, None))
                ends.close()
                continue
            try:
                if self.fork(command, ends):
                    return command, ends
            except OSError as error:
                ends.close()
                self._report_child(ForkFailed(command.number, error.errno or 0))
            followed = True

    def fork(self, command: Forks, ends: ProcessEnds | None = None) -> bool:
        """Fork a child for a command. Return True in the child, and False in the parent.

        The child uses the channels ``ends``; if None, the channels that arrived with the command.
        """
        parent = _getpid()
        descriptors.flush_streams()
        self._forking(True)
        try:
            pid = _fork()
        finally:
            self._forking(False)
        if pid == 0:
            _setsid()
            processes.die_with(parent)
            # The kernel adds this process's pid to the message.
            self._report_child(ChildForked(command.number))
            self._disown()
            return True
        if ends is not None:
            ends.close()
        try:
            ended = _pidfd_open(pid) if _pidfd_open is not None else -1
        except OSError:
            ended = -1
        gives_way = isinstance(command, ForkGeneration) and command.gives_way
        self._children[pid] = _Child(command.number, ended, gives_way)
        return False

    def _reap(self) -> None:
        for pid, child in list(self._children.items()):
            try:
                found, status = _waitpid(pid, os.WNOHANG)
                code = os.waitstatus_to_exitcode(status)
            except OSError:  # a thread of user code has waited for this child
                found, code = pid, None
            if found == 0:
                continue
            del self._children[pid]
            if child.ended >= 0:
                descriptors.close_all([child.ended])
            self._report_child(ChildExited(child.number, code))

    def _report_child(self, message: ChildForked | ForkFailed | ChildExited) -> None:
        try:
            wire.write_message(self._report, message)
        except wire.ParentUnreachable:
            _exit(0)

    def _disown(self) -> None:
        """Close descriptors in a forked child that only its parent needs."""
        open_ones = [child.ended for child in self._children.values() if child.ended >= 0]
        descriptors.close_all(open_ones)
        self._children.clear()
        descriptors.close_all([self._control.detach(), self._report])
        if self.onward is not None:
            self.onward.close()


def fork_worker(work: Callable[[int], None]) -> tuple[int, int]:
    """Fork a process that calls ``work`` with a descriptor for reports, and then ends. Return its
    pid and the descriptor that receives the reports.

    Raises:
        OSError: the system lacks resources for another process.
    """
    report, theirs = os.pipe()
    parent = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        descriptors.close_all([report, theirs])
        raise
    if pid == 0:
        try:
            os.close(report)
            os.setsid()
            processes.die_with(parent)
            signal.set_wakeup_fd(-1)
            work(theirs)
        finally:
            os._exit(0)
    os.close(theirs)
    return pid, report
