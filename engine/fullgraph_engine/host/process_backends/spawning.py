"""Back end without forks: each process is an interpreter started in advance (a spare) that executes
the user's file itself.

It costs one execution of the file per run, and memory per spare. As with forks, runs do not affect
each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import wire
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
    RepeatedExecution,
    RunsPlanned,
)
from . import BackendName, ForkedProcessOwner, LaunchedProcess, ProcessOwner, processes
from .spare import Spare, Starter

if TYPE_CHECKING:
    from ...protocol import ProbeInfo


_IDLE = 2
"""Number of spares (interpreters with torch imported) that wait while no request is active; the
next edit most likely needs them at once."""


class Spares:
    """A pool of spares: interpreters that were started in advance, have imported torch and wait for
    an order."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter
        self._idle: deque[Spare] = deque()

    def __len__(self) -> int:
        return len(self._idle)

    def __iter__(self) -> Iterator[Spare]:
        return iter(self._idle)

    def forking(self, call: Callable[[bool], None]) -> None:
        """Set the callback that gets True before an interpreter is started and False after it."""
        self._starter.forking = call

    def add(self) -> Spare:
        spare = self._starter.start()
        self._idle.append(spare)
        return spare

    def take(self) -> Spare:
        """Remove and return the oldest waiting interpreter, which is the most likely to have
        imported torch already."""
        return self._idle.popleft() if self._idle else self._starter.start()

    def forget(self, spare: Spare) -> None:
        """Remove an interpreter that ended before it received an order."""
        if spare in self._idle:
            self._idle.remove(spare)
            spare.discard()

    def end(self) -> bool:
        """Kill all waiting interpreters. Return False if there were none."""
        there_were = bool(self._idle)
        while self._idle:
            spare = self._idle.popleft()
            processes.kill_process(spare.pid)
            spare.discard()
        return there_were


class Spawning:
    """The back end that uses a new interpreter for each execution of a user's file, and for each
    run."""

    name: BackendName = "spawn"

    def __init__(self, host: Services, spares: Spares) -> None:
        self.host, self._spares = host, spares
        self._most = 1
        self._broken = False
        """True if an interpreter ended while it started. Until the next request, no more are
        started in advance."""
        for spare in spares:
            self._keep_spare(spare)

    def execute_module(
        self, job: ModuleOrder, owner: ForkedProcessOwner, *, keep: bool
    ) -> SpawnedModule:
        self._most = max(self._most, job.analyze.jobs)
        self._broken = False
        return SpawnedModule(self, job, owner)

    def perform_order(self, order: Order, owner: ProcessOwner) -> LaunchedProcess:
        spare = self.start_ordered(order, order.scratch, owner)
        spare.close()
        return LaunchedProcess(spare.channels, spare.pid, begun=False)

    def start_ordered(self, order: Order, folder: str, owner: ProcessOwner) -> Spare:
        """Send an order to a waiting interpreter, and return the interpreter.

        ``folder`` contains the order until the interpreter has read it; ``owner`` receives its pid
        and end.
        """
        spare = self._spares.take()
        try:
            spare.send_order(order, folder)
        except OSError:
            spare.close()  # the waiting interpreter ends when its pipe for commands is closed
            spare.channels.close()
            raise
        self.host.watch_child(spare.pid, owner.handle_end)
        return spare

    def prepare(self, waiting: int | None) -> None:
        """Start interpreters in advance for ``waiting`` runs, at most as many as run concurrently;
        None means for the next request."""
        most = min(_IDLE if waiting is None else waiting, self._most)
        while len(self._spares) < most and not self._broken:
            try:
                self._keep_spare(self._spares.add())
            except OSError:  # a request that needs a spare interpreter will report the error
                self._broken = True

    def _keep_spare(self, spare: Spare) -> None:
        self.host.watch_child(spare.pid, lambda code: self._handle_lost(spare))

    def _handle_lost(self, spare: Spare) -> None:
        self._broken = True
        self._spares.forget(spare)

    def make_room(self) -> bool:
        self._broken = True
        return self._spares.end()

    def uses_folder(self, scratch: str) -> bool:
        return False


class SpawnedModule:
    """An interpreter that executes the user's file and then continues as its first run.

    For each other run, another interpreter executes the file again.
    """

    def __init__(self, backend: Spawning, job: ModuleOrder, owner: ProcessOwner) -> None:
        self._backend, self._job = backend, job
        self._late: int | None = None
        self._spare: Spare | None = backend.start_ordered(job, job.scratch, owner)
        self.channels, self.pid, self.begun = self._spare.channels, self._spare.pid, False
        self.source = 0

    def launch(
        self, command: LaunchRun, probe: ProbeInfo, owner: ForkedProcessOwner
    ) -> LaunchedProcess | None:
        spare, self._spare = self._spare, None
        if spare is not None:
            self._backend.host.watch_child(spare.pid, owner.handle_end)
            spare.write_line(wire.encode_message(command))
            spare.close()
            return LaunchedProcess(spare.channels, spare.pid, taken_over=True)
        job = replace(self._job, again=RepeatedExecution(command, self._late, probe))
        spare = self._backend.start_ordered(job, job.scratch, owner)
        spare.close()
        return LaunchedProcess(spare.channels, spare.pid, begun=False)

    def launch_enclosing(self, command: LaunchEnclosingRun, owner: ForkedProcessOwner) -> None:
        """Return None: without forks, callers of targets cannot be executed once for several
        targets."""

    def handle_message(
        self, message: ChildForked | ForkFailed | ChildExited | LateImports | RunsPlanned
    ) -> None:
        if isinstance(message, RunsPlanned):
            self._late = message.late

    def discard_source(self) -> None:
        """Do nothing: without forks, no process is saved after its imports."""

    def repeat_calls(self, calls: OperatorCalls) -> None:
        """Do nothing: without forks, no process is kept whose fake tensor cache could be filled."""

    def close(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._spare = None
