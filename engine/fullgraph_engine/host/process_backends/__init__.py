"""Start, connect, limit and end the processes that execute user code, with one back end per way of
starting them.

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
    """An object that receives the pid and the end of one process."""

    def set_pid(self, pid: int) -> None:
        """Record the pid of the process; a pid of 0 means that it is unknown."""

    def handle_end(self, code: int | None) -> None:
        """Handle the end of the process with exit code ``code``: negative for a signal, None if
        unknown."""


class ForkedProcessOwner(ProcessOwner, Protocol):
    """An object that receives the pid and the end of a process that another process forks on
    command, or the failure of the fork."""

    def handle_refusal(self, error: int) -> None:
        """Handle a failed fork of the process, for lack of resources; ``error`` is the errno."""


@dataclass(frozen=True)
class LaunchedProcess:
    """A process that was just started, or that another process was asked to fork.

    ``pid`` is 0 until the other process has reported it. ``begun`` is false for a process that
    first imports torch and then reports its start. ``taken_over`` is true if the process that
    executed the user's file performs the run itself.
    """

    channels: Channels
    pid: int = 0
    begun: bool = True
    taken_over: bool = False


class RunSource(Protocol):
    """A process that forks runs on command; each run traces one target (a function or module
    class)."""

    @property
    def channels(self) -> Channels: ...

    def launch(
        self, command: LaunchRun, probe: ProbeInfo, owner: ForkedProcessOwner
    ) -> LaunchedProcess | None:
        """Start the run that ``command`` describes, with the inputs ``probe``; ``owner`` receives
        its pid and end.

        Return None if this process has ended.

        Raises:
            OSError: the system lacks resources for another process.
        """

    def close(self) -> None:
        """Close the channel for commands to the process that starts runs, so that it ends."""


class EnclosingProcess(RunSource, Protocol):
    """A process that executes callers of targets, and forks a waiting copy of itself (a snapshot)
    at each call of a target.

    Runs that trace a call are forked from its snapshot.
    """

    def handle_message(self, message: ChildForked | ForkFailed | ChildExited) -> None:
        """Report the start or the end of a run to the run's owner.

        ``message`` comes from the waiting copy of this process (snapshot) that forked the run.
        """


class ModuleProcess(RunSource, Protocol):
    """A process that executes a user's file as a module, and then starts the runs that trace its
    targets."""

    @property
    def pid(self) -> int: ...
    @property
    def begun(self) -> bool:
        """Whether the process executes the file already; False while a new interpreter still
        imports torch."""

    @property
    def source(self) -> int:
        """Pid of the kept process (kept after the file's imports) that forked this process; 0 if
        the engine's main process forked it."""

    def launch_enclosing(
        self, command: LaunchEnclosingRun, owner: ForkedProcessOwner
    ) -> EnclosingProcess | None:
        """Start a process that executes callers of targets, and forks a waiting copy of itself at
        each call of a target.

        Return None if this process has ended or cannot fork.

        Raises:
            OSError: the system lacks resources for another process.
        """

    def handle_message(
        self, message: ChildForked | ForkFailed | ChildExited | LateImports | RunsPlanned
    ) -> None:
        """Handle a message of the process about runs that it forked, its imports, or the runs that
        it can launch."""

    def discard_source(self) -> None:
        """End the kept process that this process was forked from, because the file's imports have
        changed."""

    def repeat_calls(self, calls: OperatorCalls) -> None:
        """Make the process kept after the imports repeat operator calls of a run, to fill torch's
        fake tensor cache for later forks."""


class ProcessBackend(Protocol):
    """A way to start processes that execute a user's file or perform another order: by fork, or as
    new interpreters."""

    @property
    def name(self) -> BackendName: ...

    def execute_module(
        self, job: ModuleOrder, owner: ForkedProcessOwner, *, keep: bool
    ) -> ModuleProcess:
        """Start a process that executes a user's file, as ``job`` describes; ``owner`` receives its
        pid and end.

        ``keep``: it may be kept after the imports, for later versions of the file.

        Raises:
            OSError: the system lacks resources for another process.
        """

    def perform_order(self, order: Order, owner: ProcessOwner) -> LaunchedProcess:
        """Start a process for another order than executing a user's file, such as a minimization.

        Raises:
            OSError: the system lacks resources for another process.
        """

    def prepare(self, waiting: int | None) -> None:
        """Start interpreters in advance for ``waiting`` runs. If ``waiting`` is None, no request is
        active, and interpreters are started for the next one."""

    def make_room(self) -> bool:
        """End a process that waits for work, to free resources. Return False if there is none."""

    def uses_folder(self, scratch: str) -> bool:
        """Whether a process kept for later versions of a file still uses the temporary folder
        ``scratch``.

        The back end then removes the folder when that process ends.
        """


def choose_backend(wanted: str) -> BackendName:
    """Return the back end to use, "fork" or "spawn", for the option ``wanted``: "fork", "spawn" or
    "auto".

    With "auto", it is "fork" where forking is safe. macOS has ``fork``, but its system libraries
    may crash in the child (bpo-33725).
    """
    return "fork" if wanted != "spawn" and can_fork() else "spawn"


def can_fork() -> bool:
    """Whether the ``forking`` back end works on this system; it needs Linux."""
    return sys.platform.startswith("linux")
