"""Waiting in a process that holds user code: fork when told to, report who ended and how."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable

from . import descriptors, processes, wire
from .wire import Downward, Exited, Forked

# Bound now: user code may replace them later in the same process.
_fork, _waitpid, _exit, _poll = os.fork, os.waitpid, os._exit, select.poll
_getpid, _setsid = os.getpid, os.setsid
_WITHOUT_PIDFD = 20
_pidfd_open = getattr(os, "pidfd_open", None)


class Nursery:
    """``forking`` is called with True before a fork and with False after it, on both sides."""

    def __init__(
        self, control: socket.socket, report: int, forking: Callable[[bool], None]
    ) -> None:
        self._control, self._report, self._forking = control, report, forking
        self._children: dict[int, tuple[int, int]] = {}
        """By pid: the number that it was asked for by, and a descriptor that tells its end."""

    def wait(self, aside: Callable[[], None] | None = None) -> tuple[Downward, list[int]]:
        """Serve until the parent goes. Returns only in a child, with what it was forked for.

        ``aside`` is called once, when there are children and no more are asked for: what it does
        keeps nobody waiting, but is done before the end of a child is told.
        """
        followed = False
        while True:
            poll = _poll()
            poll.register(self._control.fileno(), select.POLLIN)
            for _, ended in self._children.values():
                if ended >= 0:
                    poll.register(ended, select.POLLIN)
            blind = any(ended < 0 for _, ended in self._children.values())
            now = aside is not None and followed
            timeout = 0 if now else _WITHOUT_PIDFD if blind else None
            ready = {found for found, _ in poll.poll(timeout)}
            if aside is not None and now and self._control.fileno() not in ready:
                aside()
                aside = None
            self._reap()
            if self._control.fileno() not in ready:
                continue
            packet = wire.receive(self._control)
            if packet is None:
                _exit(0)
            if self.fork(*packet):
                return packet
            followed = True

    def fork(self, command: Downward, given: list[int]) -> bool:
        """Fork a child for a command; True in the child, which owns the given descriptors."""
        parent = _getpid()
        descriptors.flush()
        self._forking(True)
        try:
            pid = _fork()
        finally:
            self._forking(False)
        if pid == 0:
            self._disown()
            _setsid()
            processes.die_with(parent)
            return True
        descriptors.close_all(given)
        try:
            ended = _pidfd_open(pid) if _pidfd_open is not None else -1
        except OSError:
            ended = -1
        self._children[pid] = (command.number, ended)
        self._tell(Forked(command.number, pid))
        return False

    def _reap(self) -> None:
        for pid, (number, ended) in list(self._children.items()):
            try:
                found, status = _waitpid(pid, os.WNOHANG)
            except OSError:  # a thread of the user's waits for any child
                found, status = pid, -1
            if found == 0:
                continue
            del self._children[pid]
            if ended >= 0:
                descriptors.close_all([ended])
            self._tell(Exited(number, status))

    def _tell(self, message: Forked | Exited) -> None:
        try:
            wire.report(self._report, message)
        except wire.Lost:
            _exit(0)

    def _disown(self) -> None:
        """In a child: close what belongs to the process that it was forked from."""
        descriptors.close_all([ended for _, ended in self._children.values() if ended >= 0])
        self._children.clear()
        descriptors.close_all([self._control.detach(), self._report])
