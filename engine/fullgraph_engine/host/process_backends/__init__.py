"""Start, connect, limit and end worker processes, with one back end per way of starting them.

Everything that depends on the operating system is in this package: forks, sockets that pass
descriptors, ``/proc``, resource limits, in-memory files and signals. The rest of the engine uses
:class:`ProcessBackend`. ``forking`` is fast, and needs a system where forking after importing torch
is safe. ``spawning`` starts a new interpreter for every process and works everywhere.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from .channels import Channels

if TYPE_CHECKING:
    from ...protocol import ProbeInfo
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

BackendName = Literal["fork", "spawn"]


class ProcessOwner(Protocol):
    """A receiver of the pid and the end of one process."""

    def set_pid(self, pid: int) -> None:
        """Record the pid of the process; 0 while it is unknown."""

    def handle_end(self, code: int | None) -> None:
        """Record that the process has ended.

        ``code`` is as in ``subprocess``: negative for a signal. It is None if unknown.
        """


class ForkedProcessOwner(ProcessOwner, Protocol):
    """A receiver of the pid and the end of a process that another process forks on command, or of
    the failure to fork it."""

    def handle_refusal(self, error: int) -> None:
        """Record that the fork failed because the system lacks resources; ``error`` is the
        errno."""


@dataclass(frozen=True)
class LaunchedProcess:
    """A process that was started or requested; ``pid`` is 0 until its owner receives it.

    ``begun`` is false for a process that first imports torch and then reports its start.
    ``taken_over`` is true for a module process that itself continues as a run.
    """

    channels: Channels
    pid: int = 0
    begun: bool = True
    taken_over: bool = False


class RunSource(Protocol):
    """A process that starts runs on command, such as a module process."""

    @property
    def channels(self) -> Channels: ...

    def launch(
        self, command: LaunchRun, probe: ProbeInfo, owner: ForkedProcessOwner
    ) -> LaunchedProcess | None:
        """Start a run of the target in ``command`` with the inputs ``probe``. Return None if this
        process has ended.

        Raises:
            OSError: the system lacks resources for another process.
        """

    def close(self) -> None:
        """Stop sending commands to the process, so that it ends."""


class EnclosingProcess(RunSource, Protocol):
    """A process that executes callers of targets and keeps a snapshot of itself at each call. The
    snapshots fork the runs."""

    def handle_message(self, message: ChildForked | ForkFailed | ChildExited) -> None:
        """Pass the start or end of a run, which a snapshot reported, to the run's owner."""


class ModuleProcess(RunSource, Protocol):
    """A process that executes a user's file as a module and then starts the runs of its targets."""

    @property
    def pid(self) -> int: ...
    @property
    def begun(self) -> bool:
        """Whether the process is ready; False while a new interpreter still imports torch."""

    @property
    def source(self) -> int:
        """Pid of the saved process, with imports executed, that this process is forked from; 0 if
        the engine's main process forked it."""

    def launch_enclosing(
        self, command: LaunchEnclosingRun, owner: ForkedProcessOwner
    ) -> EnclosingProcess | None:
        """Start a process that executes callers of targets and keeps a snapshot at each call.
        Return None if this process has ended or cannot fork.

        Raises:
            OSError: the system lacks resources for another process.
        """

    def handle_message(
        self, message: ChildForked | ForkFailed | ChildExited | LateImports | RunsPlanned
    ) -> None:
        """Use a message of the process about its forked runs, late imports or planned runs."""

    def discard_source(self) -> None:
        """End the saved process that this process was forked from, because it has executed other
        imports than the file has."""

    def repeat_calls(self, calls: OperatorCalls) -> None:
        """Send the operator results of a run to the saved process, so that processes forked from it
        later reuse them."""


class ProcessBackend(Protocol):
    """A way to start processes that execute a module or perform another order: ``fork`` or
    ``spawn``."""

    @property
    def name(self) -> BackendName: ...

    def execute_module(
        self, job: ModuleOrder, owner: ForkedProcessOwner, *, keep: bool
    ) -> ModuleProcess:
        """Start a process that executes a user's file. ``keep``: whether it may be kept after the
        imports, for later versions of the file.

        Raises:
            OSError: the system lacks resources for another process.
        """

    def perform_order(self, order: Order, owner: ProcessOwner) -> LaunchedProcess:
        """Start a process for an order other than a ``ModuleOrder``.

        Raises:
            OSError: the system lacks resources for another process.
        """

    def prepare(self, waiting: int | None) -> None:
        """Start processes in advance for ``waiting`` runs; None means that no request is active and
        the next one is expected."""

    def make_room(self) -> bool:
        """End an idle process to free resources. Return False if there is none."""

    def uses_folder(self, scratch: str) -> bool:
        """Whether a saved process still uses the folder ``scratch``; that process's end removes the
        folder."""


def choose_backend(wanted: str) -> BackendName:
    """Return the back end to use for an option: "fork", "spawn" or "auto" (fork where it is safe).

    macOS has ``fork``, but its system libraries may crash in the child (bpo-33725).
    """
    return "fork" if wanted != "spawn" and can_fork() else "spawn"


def can_fork() -> bool:
    """Whether the ``forking`` back end works on this system; it needs Linux."""
    return sys.platform.startswith("linux")
