"""What the warm parent does for its analyses, its repros and its process back end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from ..protocol import Event
from ..protocol.facts import Degraded
from .found import FoundProbes
from .lines import LineReader
from .pipeline import Pipeline
from .process_backends import Launched, ProcessBackend
from .process_backends.channels import ProcessEnds
from .programs import ProgramProcesses
from .speculation import ExpectedPaths
from .wire import Order


class Services(Protocol):
    """The event loop of the parent process, as the requests that it serves use it."""

    pipeline: Pipeline
    scratch: str
    """The folder of the engine, in which each request has one."""
    degraded: tuple[Degraded, ...]
    """Facts that this torch does not show."""
    found: FoundProbes
    """Probes that earlier requests found."""
    expected_paths: ExpectedPaths
    """Further paths that earlier requests traced."""
    programs: ProgramProcesses
    """Runs of programs that go on or have ended."""
    backend: ProcessBackend

    # -- events -------------------------------------------------------------------------------

    def send(self, event: Event) -> None:
        """Queue an event for the server; output of user code is dropped while too much waits."""

    def forward(self, line: bytes) -> None:
        """Queue a line that is an event already."""

    def finished(self, request: int) -> None:
        """A request has sent its last event."""

    # -- descriptors --------------------------------------------------------------------------

    def watch(self, descriptor: int, ready: Callable[[], None]) -> None:
        """Call ``ready`` whenever there is something to read."""

    def unwatch(self, descriptor: int) -> None:
        """Stop watching a descriptor; it need not have been watched."""

    def close(self, descriptor: int) -> None:
        """Stop watching a descriptor and close it."""

    def reports_of(self, launched: Launched, ready: Callable[[], None]) -> LineReader:
        """Watch what a process reports that prints nothing and needs no black box."""

    def own_descriptors(self) -> set[int]:
        """Those that no other process inherits."""

    # -- processes ----------------------------------------------------------------------------

    def perform(self, order: Order, given: ProcessEnds) -> NoReturn:
        """Carry out an order, in a process that was forked for it."""

    def adopt(self, pid: int, ended: Callable[[int | None], None]) -> None:
        """Wait for a child of this process; ``ended`` gets its exit code."""

    def kill_strangers(self, parents: dict[int, int]) -> None:
        """End what user code has left behind. ``parents``: of each process, its parent."""

    def clean_up(self, ended: Sequence[int], scratch: str) -> None:
        """Once these processes are gone, end what they have left behind, and remove a folder if
        nothing is kept there."""

    def remove(self, scratch: str) -> None:
        """Remove a folder, as far as that is possible."""
