"""Worker processes: started, connected, limited and ended, differently on each system.

Everything that only some systems have (forks, sockets that pass descriptors, ``/proc``, resource
limits, files in memory, signals) is in this package. The rest of the engine knows
:class:`ProcessBackend`: ``forking`` is fast and needs a system where a process that has imported
torch may fork; ``spawning`` starts every process afresh and works everywhere else.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from .channels import Channels

if TYPE_CHECKING:
    from ...protocol import ProbeInfo
    from ..wire import (
        Enclose,
        Exited,
        Followed,
        Forked,
        Job,
        Launch,
        NotForked,
        OperatorCalls,
        Order,
        Planned,
    )

BackendName = Literal["fork", "spawn"]


class Owner(Protocol):
    """Who wants to know of a process."""

    def became(self, pid: int) -> None:
        """Its process is this one now; 0 while that is not known."""

    def ended(self, code: int | None) -> None:
        """As ``subprocess`` has it: negative for a signal. None if nobody knows."""


class ForkedOwner(Owner, Protocol):
    """Who wants to know of a process that another one is to fork."""

    def refused(self, error: int) -> None:
        """There was no room for it: it never was. ``error`` is an errno."""


@dataclass(frozen=True)
class Launched:
    """A process. ``pid`` is 0 until its owner is told.

    ``begun`` is false of one that has to get ready first, and says so; ``taken_over`` is true of
    the one that executed the module and now goes on as a run.
    """

    channels: Channels
    pid: int = 0
    begun: bool = True
    taken_over: bool = False


class RunSource(Protocol):
    """A process that gives runs."""

    @property
    def channels(self) -> Channels: ...

    def launch(self, command: Launch, probe: ProbeInfo, owner: ForkedOwner) -> Launched | None:
        """A new run, of a target with this probe; None if the process is gone.

        Raises:
            OSError: there is no room for another process.
        """

    def close(self) -> None:
        """No more commands follow."""


class EnclosingProcess(RunSource, Protocol):
    """Does an enclosing run; its snapshots give the runs of what they were taken of."""

    def heard(self, message: Forked | NotForked | Exited) -> None:
        """What the snapshots say of their runs."""


class ModuleProcess(RunSource, Protocol):
    """Has executed a text, or is doing so, and can give runs of it."""

    @property
    def pid(self) -> int: ...
    @property
    def begun(self) -> bool:
        """As ``Launched`` has it."""

    @property
    def source(self) -> int:
        """The process that it is forked off; 0 if that is none but the parent."""

    def enclose(self, command: Enclose, owner: ForkedOwner) -> EnclosingProcess | None:
        """An enclosing run that leaves snapshots; None if the process is gone, or cannot fork.

        Raises:
            OSError: there is no room for another process.
        """

    def heard(self, message: Forked | NotForked | Exited | Followed | Planned) -> None:
        """What the process says of its runs, or of its imports."""

    def outdated(self) -> None:
        """The process that it was started from cannot serve this text."""

    def remember(self, calls: OperatorCalls) -> None:
        """Have those that are started from the same process know what a run has worked out."""


class ProcessBackend(Protocol):
    """Starts processes that execute a text or carry out an order: by ``fork`` or by ``spawn``."""

    @property
    def name(self) -> BackendName: ...

    def execute(self, job: Job, owner: ForkedOwner, *, keep: bool) -> ModuleProcess:
        """Start a process that executes a text. ``keep``: it may stay for later texts.

        Raises:
            OSError: there is no room for another process.
        """

    def perform(self, order: Order, owner: Owner) -> Launched:
        """Start a process for something else than to execute a text. Raises as ``execute``."""

    def prepare(self, waiting: int | None) -> None:
        """Have processes get ready for so many runs; None while nothing is asked for, which they
        do for the next time."""

    def make_room(self) -> bool:
        """End something that is only kept for the next time; False if there is nothing."""

    def keeps(self, scratch: str) -> bool:
        """Whether a process goes on using a scratch folder, and removes it at its end."""


def chosen(wanted: str) -> BackendName:
    """``wanted`` is "fork", "spawn" or "auto".

    macOS has ``fork``, but its system libraries may crash in the child (bpo-33725).
    """
    return "fork" if wanted != "spawn" and can_fork() else "spawn"


def can_fork() -> bool:
    """Whether the ``forking`` back end works on this system; only Linux has all that it needs."""
    return sys.platform.startswith("linux")
