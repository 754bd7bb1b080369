"""The operations of the event loop that requests and process back ends use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

from ..protocol import Event
from ..protocol.facts import Degraded
from .found import FoundProbes
from .lines import LineReader
from .process_backends import LaunchedProcess, ProcessBackend
from .process_backends.channels import ProcessEnds
from .programs import ProgramProcesses
from .speculation import ExpectedPaths
from .wire import Order


class Services(Protocol):
    """The event loop of the engine's main process, as requests see it."""

    scratch: str
    """Path of the engine's folder, which contains a folder for each request."""
    degraded: tuple[Degraded, ...]
    """Kinds of information that the installed torch version cannot provide."""
    found: FoundProbes
    """Inputs for targets that searches of earlier requests found."""
    expected_paths: ExpectedPaths
    """Targets that had further execution paths in earlier requests."""
    programs: ProgramProcesses
    """Runs of user programs, in progress or finished, for reuse by several requests."""
    backend: ProcessBackend

    # -- events -------------------------------------------------------------------------------

    def send(self, event: Event) -> None:
        """Queue an event for the server; output of user code is dropped if the queue is too
        long."""

    def forward(self, line: bytes) -> None:
        """Queue an encoded event for the server."""

    def remove_request(self, request: int) -> None:
        """Forget a request after its last event was sent."""

    # -- descriptors --------------------------------------------------------------------------

    def watch(self, descriptor: int, ready: Callable[[], None]) -> None:
        """Call ``ready`` whenever a descriptor is readable."""

    def unwatch(self, descriptor: int) -> None:
        """Stop watching a descriptor, if it is watched."""

    def close(self, descriptor: int) -> None:
        """Stop watching a descriptor and close it."""

    def watch_reports(self, launched: LaunchedProcess, ready: Callable[[], None]) -> LineReader:
        """Return a reader for the messages of a process; ``ready`` is called when some arrive.
        Close its output and its file for the last stack."""

    def own_descriptors(self) -> set[int]:
        """Return the descriptors of the engine that forked processes must close."""

    # -- processes ----------------------------------------------------------------------------

    def perform_order(self, order: Order, ends: ProcessEnds) -> NoReturn:
        """Perform an order in the current process, which was forked for it, and exit."""

    def watch_child(self, pid: int, ended: Callable[[int | None], None]) -> None:
        """Register a child process; ``ended`` is called with its exit code, or None if the code is
        unknown."""

    def kill_strangers(self, parents: dict[int, int]) -> None:
        """End processes that user code left behind. ``parents`` maps each pid to its parent."""

    def clean_up(self, ended: Sequence[int], scratch: str) -> None:
        """After the processes ``ended`` have ended, kill processes that they left behind. Remove
        the folder ``scratch`` unless a saved process uses it."""

    def remove(self, scratch: str) -> None:
        """Remove a folder, ignoring errors."""
