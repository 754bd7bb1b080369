"""Processes by fork: the warm parent forks module processes, and these fork their own runs."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

from .. import wire
from ..preamble import Preamble, Shelf
from ..wire import Exited, Followed, Forked, Job, Launch, Order, Planned
from . import BackendName, Launched, Owner, channels, descriptors, packets, processes
from .channels import Channels, Given

if TYPE_CHECKING:
    from ...protocol import ProbeInfo
    from ..loop import Host


class Forking:
    """For a parent that has torch imported and no thread but its own."""

    name: BackendName = "fork"

    def __init__(self, host: Host) -> None:
        self.host = host
        self.shelf = Shelf()
        # What is open now belongs to torch or the interpreter and is inherited; what the parent
        # opens from here on, children close.
        self._inherited = descriptors.listed() - host.own_descriptors()

    def execute(self, job: Job, owner: Owner, *, keep: bool) -> ForkedModule:
        ours, given = channels.opened()
        module = ForkedModule(self, ours, owner)
        try:
            module.begin(job, given, keep=keep)
        except OSError:
            module.close()
            ours.close()
            raise
        finally:
            given.close()
        return module

    def perform(self, order: Order, owner: Owner) -> Launched:
        ours, given = channels.opened()
        try:
            return Launched(ours, self.fork(order, given, owner))
        except OSError:
            ours.close()
            raise
        finally:
            given.close()

    def prepare(self, waiting: int | None) -> None:
        """A fork takes no time."""

    def keeps(self, scratch: str) -> bool:
        return self.shelf.keeps(scratch)

    def fork(self, order: Order, given: Given, owner: Owner) -> int:
        """A child of the parent itself that does what was ordered."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                processes.die_with(parent)
                descriptors.close_all(
                    descriptors.listed() - self._inherited - {0, 1, 2} - set(given.opened())
                )
                signal.set_wakeup_fd(-1)
                self.host.perform(order, given)
            finally:
                os._exit(1)
        self.host.adopt(pid, owner.ended)
        return pid


class ForkedModule:
    """A module process in the eyes of the parent, with what it needs to have runs forked."""

    def __init__(self, backend: Forking, ours: Channels, owner: Owner) -> None:
        self.channels, self.pid, self.begun = ours, 0, True
        self._backend, self._owner = backend, owner
        self._control: socket.socket | None = None
        self._preamble: Preamble | None = None
        """The one that this process is forked off, or becomes."""
        self._runs: dict[int, Owner] = {}

    def begin(self, job: Job, given: Given, *, keep: bool) -> None:
        backend, owner = self._backend, self._owner
        self._control, given.control = packets.pair()
        if not keep:
            self.pid = backend.fork(job, given, owner)
            return
        kept = backend.shelf.find(job.analyse)
        if kept is not None and kept.proceed(job, given, owner):
            self._preamble = kept
            return
        ours, given.keep_control = packets.pair()
        reports, given.keep_report = os.pipe()
        fresh = Preamble(job.analyse, backend.host, backend.shelf, ours, reports, job.scratch)
        self._preamble = fresh
        self.pid = backend.fork(job, given, fresh)
        fresh.begin(self.pid, owner)

    def launch(self, command: Launch, probe: ProbeInfo, owner: Owner) -> Launched | None:
        ours, given = channels.opened()
        control, rights = self._control, given.opened()
        sent = control is not None and packets.send(control, wire.encode(command), rights)
        given.close()
        if not sent:
            ours.close()
            return None
        self._runs[command.number] = owner
        return Launched(ours)

    def heard(self, message: Forked | Exited | Followed | Planned) -> None:
        if isinstance(message, Followed) and self._preamble is not None:
            self._preamble.followed(message)
        if isinstance(message, (Followed, Planned)):
            return
        owner = self._runs.get(message.number)
        if owner is None:
            return
        if isinstance(message, Forked):
            owner.became(message.pid)
        else:
            del self._runs[message.number]
            owner.ended(message.code)

    def outdated(self) -> None:
        if self._preamble is not None:
            self._backend.shelf.drop(self._preamble)

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
