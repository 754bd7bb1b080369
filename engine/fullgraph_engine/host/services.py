"""Interface of the event loop for requests and for the process back end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from ..protocol import Event
from ..protocol.facts import Degraded
from .found import FoundProbes
from .lines import LineReader
from .pipeline import Pipeline
from .process_backends import LaunchedProcess, ProcessBackend
from .process_backends.channels import ProcessEnds
from .programs import ProgramProcesses
from .speculation import ExpectedPaths
from .wire import Order


class Services(Protocol):
    """The event loop of the parent process, as seen by requests."""

    pipeline: Pipeline
    scratch: str
    """Path of the engine's folder, which contains a folder for each request."""
    degraded: tuple[Degraded, ...]
    """Facts that this torch cannot show."""
    found: FoundProbes
    """Probes that earlier requests found."""
    expected_paths: ExpectedPaths
    """Further paths that earlier requests traced."""
    programs: ProgramProcesses
    """Runs of programs, running or finished."""
    backend: ProcessBackend

    # -- events -------------------------------------------------------------------------------

    def send(self, event: Event) -> None:
        """Queue an event for the server; output of user code is dropped if the queue is too
        long."""

    def forward(self, line: bytes) -> None:
        """Queue an encoded event for the server."""

    def remove_request(self, request: int) -> None:
        """Remove a request after its last event."""

    # -- descriptors --------------------------------------------------------------------------

    def watch(self, descriptor: int, ready: Callable[[], None]) -> None:
        """Call ``ready`` whenever a descriptor is readable."""

    def unwatch(self, descriptor: int) -> None:
        """Stop watching a descriptor, if it is watched."""

    def close(self, descriptor: int) -> None:
        """Stop watching a descriptor and close it."""

    def watch_reports(self, launched: LaunchedProcess, ready: Callable[[], None]) -> LineReader:
        """Watch the reports of a process, and close its output and black box."""

    def own_descriptors(self) -> set[int]:
        """Return the descriptors that other processes must not inherit."""

    # -- processes ----------------------------------------------------------------------------

    def perform_order(self, order: Order, ends: ProcessEnds) -> NoReturn:
        """Execute an order, in a process that was forked for it."""

    def watch_child(self, pid: int, ended: Callable[[int | None], None]) -> None:
        """Wait for a child of this process; ``ended`` is called with its exit code."""

    def kill_strangers(self, parents: dict[int, int]) -> None:
        """End processes that user code left behind. ``parents`` maps each pid to its parent."""

    def clean_up(self, ended: Sequence[int], scratch: str) -> None:
        """After these processes have ended, end what they left behind, and remove the scratch
        folder unless a preamble uses it."""

    def remove(self, scratch: str) -> None:
        """Remove a folder, ignoring errors."""
