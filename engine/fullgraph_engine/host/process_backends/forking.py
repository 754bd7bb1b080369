"""Back end with forks: the engine's main process forks a process per user file, which forks the
runs of its targets."""

from __future__ import annotations

import os
import signal
import socket
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import wire
from ..preamble import Preamble, Shelf
from ..services import Services
from ..wire import (
    ChildExited,
    ChildForked,
    ForkFailed,
    LateImports,
    LaunchEnclosingRun,
    LaunchRun,
    ModuleOrder,
    OperatorCalls,
    Order,
    RunsPlanned,
)
from . import (
    BackendName,
    ForkedProcessOwner,
    LaunchedProcess,
    ProcessOwner,
    channels,
    descriptors,
    packets,
    processes,
)
from .channels import Channels, ProcessEnds

if TYPE_CHECKING:
    from ...protocol import ProbeInfo


_MOST_PATHS = 100


class Forking:
    """The back end that forks the engine's main process, which has imported torch and has a single
    thread."""

    name: BackendName = "fork"

    def __init__(self, host: Services) -> None:
        self.host = host
        self.shelf = Shelf()
        # Children inherit the descriptors that are open now, which belong to torch or the
        # interpreter. They close descriptors that the engine opens later.
        self._inherited = descriptors.list_open() - host.own_descriptors()
        self._paths = deque[str](maxlen=_MOST_PATHS)
        """Paths of the files that were executed recently."""

    def execute_module(
        self, job: ModuleOrder, owner: ForkedProcessOwner, *, keep: bool
    ) -> ForkedModule:
        path = job.analyze.path
        if path in self._paths:
            job = replace(job, edited=True)
        else:
            self._paths.append(path)
        ours, ends = channels.open_channels()
        module = ForkedModule(self, ours, owner)
        try:
            module.begin(job, ends, keep=keep)
        except OSError:
            module.close()
            ours.close()
            raise
        finally:
            ends.close()
        return module

    def perform_order(self, order: Order, owner: ProcessOwner) -> LaunchedProcess:
        ours, ends = channels.open_channels()
        try:
            return LaunchedProcess(ours, self.fork(order, ends, owner))
        except OSError:
            ours.close()
            raise
        finally:
            ends.close()

    def prepare(self, waiting: int | None) -> None:
        """Do nothing: a fork is fast, so no process is started in advance."""

    def make_room(self) -> bool:
        return self.shelf.drop_oldest()

    def uses_folder(self, scratch: str) -> bool:
        return self.shelf.uses_folder(scratch)

    def fork(self, order: Order, ends: ProcessEnds, owner: ProcessOwner) -> int:
        """Fork a child of the engine's main process that performs ``order`` (such as executing a
        file) and exits; return its pid."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                processes.die_with(parent)
                descriptors.close_all(
                    descriptors.list_open()
                    - self._inherited
                    - {0, 1, 2}
                    - set(ends.open_descriptors())
                )
                signal.set_wakeup_fd(-1)
                self.host.perform_order(order, ends)
            finally:
                os._exit(1)
        self.host.watch_child(pid, owner.handle_end)
        return pid


class ForkedSource:
    """A handle, in the engine's main process, of a process that forks runs on command."""

    def __init__(self, ours: Channels, control: socket.socket | None = None) -> None:
        self.channels = ours
        self._control = control
        self._runs: dict[int, ForkedProcessOwner] = {}

    def launch(
        self, command: LaunchRun, probe: ProbeInfo, owner: ForkedProcessOwner
    ) -> LaunchedProcess | None:
        ours, ends = channels.open_channels()
        if not self._send(command, ends, owner):
            ours.close()
            return None
        return LaunchedProcess(ours)

    def _send(
        self, command: LaunchRun | LaunchEnclosingRun, ends: ProcessEnds, owner: ForkedProcessOwner
    ) -> bool:
        control, rights = self._control, ends.open_descriptors()
        sent = control is not None and packets.send_packet(
            control, wire.encode_message(command), rights
        )
        ends.close()
        if sent:
            self._runs[command.number] = owner
        return sent

    def handle_message(self, message: ChildForked | ForkFailed | ChildExited) -> None:
        owner = self._runs.get(message.number)
        if owner is None:
            return
        if isinstance(message, ChildForked):
            owner.set_pid(message.pid)
            return
        del self._runs[message.number]
        if isinstance(message, ForkFailed):
            owner.handle_refusal(message.error)
        else:
            owner.handle_end(message.code)

    def close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None


class ForkedModule(ForkedSource):
    """A handle, in the engine's main process, of a process that executes a user's file and forks
    runs on command.

    It also refers to the process kept after the file's imports that this one was forked from, if
    there is one.
    """

    def __init__(self, backend: Forking, ours: Channels, owner: ForkedProcessOwner) -> None:
        super().__init__(ours)
        self.pid, self.begun = 0, True
        self._backend, self._owner = backend, owner
        self._preamble: Preamble | None = None
        """Process kept after the file's imports that this process is forked from, or may become;
        None without one."""

    def begin(self, job: ModuleOrder, ends: ProcessEnds, *, keep: bool) -> None:
        backend, owner = self._backend, self._owner
        self._control, ends.control = packets.control_pair()
        if not keep:
            self.pid = backend.fork(job, ends, owner)
            return
        kept = backend.shelf.find(job.analyze)
        if kept is not None and kept.fork_generation(job, ends, owner):
            self._preamble = kept
            return
        if backend.shelf.has_shared(job.analyze):
            self.pid = backend.fork(job, ends, owner)
            return
        ours, ends.keep_control = packets.control_pair()
        reports, ends.keep_report = packets.report_channel()
        fresh = Preamble(job.analyze, backend.host, backend.shelf, ours, reports, job.scratch)
        self._preamble = fresh
        self.pid = backend.fork(job, ends, fresh)
        fresh.begin(self.pid, owner)

    @property
    def source(self) -> int:
        return self._preamble.pid if self._preamble is not None else 0

    def launch_enclosing(
        self, command: LaunchEnclosingRun, owner: ForkedProcessOwner
    ) -> ForkedSource | None:
        ours, ends = channels.open_channels()
        try:
            control, ends.control = packets.control_pair()
        except OSError:
            ours.close()
            ends.close()
            raise
        if not self._send(command, ends, owner):
            ours.close()
            control.close()
            return None
        return ForkedSource(ours, control)

    def handle_message(
        self, message: ChildForked | ForkFailed | ChildExited | LateImports | RunsPlanned
    ) -> None:
        if isinstance(message, LateImports) and self._preamble is not None:
            self._preamble.import_early(message)
        if isinstance(message, (ChildForked, ForkFailed, ChildExited)):
            super().handle_message(message)

    def discard_source(self) -> None:
        # A process with shared imports is unfit only for the files that it imported.
        if self._preamble is not None and not self._preamble.shared_imports.modules:
            self._backend.shelf.drop(self._preamble)

    def repeat_calls(self, calls: OperatorCalls) -> None:
        if self._preamble is not None:
            self._preamble.repeat_calls(calls)
