"""Back end without forks: each process is a waiting interpreter (a spare) that executes the module
itself.

It costs one execution of the module per run, and memory per spare. As with forks, runs do not
affect each other.
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
"""Number of spare interpreters that wait while no request is active; the next edit most likely
needs them at once."""


class Spares:
    """A pool of spares: interpreters with torch imported, which wait for an order."""

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
        """Remove and return the oldest spare, which has had the most time to start."""
        return self._idle.popleft() if self._idle else self._starter.start()

    def forget(self, spare: Spare) -> None:
        """Remove a spare that ended before it received an order."""
        if spare in self._idle:
            self._idle.remove(spare)
            spare.discard()

    def end(self) -> bool:
        """Kill all waiting spares. Return False if there were none."""
        there_were = bool(self._idle)
        while self._idle:
            spare = self._idle.popleft()
            processes.kill_process(spare.pid)
            spare.discard()
        return there_were


class Spawning:
    """The back end that starts a new interpreter for each module process and each run."""

    name: BackendName = "spawn"

    def __init__(self, host: Services, spares: Spares) -> None:
        self.host, self._spares = host, spares
        self._most = 1
        self._broken = False
        """True if a spare ended during its startup. Until the next request, no more spares are
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
        """Send an order to a waiting spare and return it; ``folder`` contains the order until the
        spare has read it."""
        spare = self._spares.take()
        try:
            spare.send_order(order, folder)
        except OSError:
            spare.close()  # the spare then ends
            spare.channels.close()
            raise
        self.host.watch_child(spare.pid, owner.handle_end)
        return spare

    def prepare(self, waiting: int | None) -> None:
        """Start spares for ``waiting`` runs (None: for the next request), at most one per
        concurrent run."""
        most = min(_IDLE if waiting is None else waiting, self._most)
        while len(self._spares) < most and not self._broken:
            try:
                self._keep_spare(self._spares.add())
            except OSError:  # the request that needs a spare reports the error
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
    """A spare interpreter that executes the module and then becomes its first run. Other spares
    repeat the execution for the other runs."""

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
        """Return None, since an enclosing run needs forks."""

    def handle_message(
        self, message: ChildForked | ForkFailed | ChildExited | LateImports | RunsPlanned
    ) -> None:
        if isinstance(message, RunsPlanned):
            self._late = message.late

    def discard_source(self) -> None:
        """Do nothing: without forks, no process is saved after its imports."""

    def repeat_calls(self, calls: OperatorCalls) -> None:
        """Do nothing: without forks, no process is saved that could reuse the operator results."""

    def close(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._spare = None
