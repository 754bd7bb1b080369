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
    """A receiver of the events of one process."""

    def set_pid(self, pid: int) -> None:
        """Record the pid of the process; 0 while it is unknown."""

    def handle_end(self, code: int | None) -> None:
        """Handle the end of the process.

        ``code`` is as in ``subprocess``: negative for a signal. It is None if unknown.
        """


class ForkedProcessOwner(ProcessOwner, Protocol):
    """A receiver of the events of a process that another process forks on request."""

    def handle_refusal(self, error: int) -> None:
        """Handle a shortage of resources that prevented the fork; ``error`` is an errno."""


@dataclass(frozen=True)
class LaunchedProcess:
    """A started process; ``pid`` is 0 until its owner receives it.

    ``begun`` is false for a process that first imports torch and then reports its start.
    ``taken_over`` is true for the process that executed the module and continues as a run.
    """

    channels: Channels
    pid: int = 0
    begun: bool = True
    taken_over: bool = False


class RunSource(Protocol):
    """A process that can start runs."""

    @property
    def channels(self) -> Channels: ...

    def launch(
        self, command: LaunchRun, probe: ProbeInfo, owner: ForkedProcessOwner
    ) -> LaunchedProcess | None:
        """Start a run of a target with this probe; None if the process has ended.

        Raises:
            OSError: the system lacks resources for another process.
        """

    def close(self) -> None:
        """Stop sending commands."""


class EnclosingProcess(RunSource, Protocol):
    """A process for an enclosing run, whose snapshots fork the runs of their targets."""

    def handle_message(self, message: ChildForked | ForkFailed | ChildExited) -> None:
        """Handle a message from a snapshot about one of its runs."""


class ModuleProcess(RunSource, Protocol):
    """A process that executes a text and then starts runs of its targets."""

    @property
    def pid(self) -> int: ...
    @property
    def begun(self) -> bool:
        """Whether the process is ready, as in ``LaunchedProcess``."""

    @property
    def source(self) -> int:
        """Pid of the preamble that the process is forked from; 0 if the parent process forked
        it."""

    def launch_enclosing(
        self, command: LaunchEnclosingRun, owner: ForkedProcessOwner
    ) -> EnclosingProcess | None:
        """Start an enclosing run that leaves snapshots; None if the process has ended or cannot
        fork.

        Raises:
            OSError: the system lacks resources for another process.
        """

    def handle_message(
        self, message: ChildForked | ForkFailed | ChildExited | LateImports | RunsPlanned
    ) -> None:
        """Handle a message from the process about its runs or imports."""

    def discard_source(self) -> None:
        """Discard the preamble that the process was forked from, because it does not fit the
        text."""

    def repeat_calls(self, calls: OperatorCalls) -> None:
        """Pass the operator results of a run to the preamble, for processes forked from it
        later."""


class ProcessBackend(Protocol):
    """A way to start processes that execute a text or an order: ``fork`` or ``spawn``."""

    @property
    def name(self) -> BackendName: ...

    def execute_module(
        self, job: ModuleOrder, owner: ForkedProcessOwner, *, keep: bool
    ) -> ModuleProcess:
        """Start a process that executes a text. ``keep``: whether it may stay as a preamble.

        Raises:
            OSError: the system lacks resources for another process.
        """

    def perform_order(self, order: Order, owner: ProcessOwner) -> LaunchedProcess:
        """Start a process for any other order.

        Raises:
            OSError: the system lacks resources for another process.
        """

    def prepare(self, waiting: int | None) -> None:
        """Prepare processes for this number of runs; None without requests, to prepare for the next
        one."""

    def make_room(self) -> bool:
        """End an idle process to free resources; False if there is none."""

    def uses_folder(self, scratch: str) -> bool:
        """Whether a preamble uses a scratch folder, and removes it when it ends."""


def choose_backend(wanted: str) -> BackendName:
    """Return the back end for an option: "fork", "spawn" or "auto".

    macOS has ``fork``, but its system libraries may crash in the child (bpo-33725).
    """
    return "fork" if wanted != "spawn" and can_fork() else "spawn"


def can_fork() -> bool:
    """Whether the ``forking`` back end works on this system; it needs Linux."""
    return sys.platform.startswith("linux")
