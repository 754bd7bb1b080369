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
    """Facts about a trace, such as guards, that the installed torch cannot show."""
    found: FoundProbes
    """Results of searches for example inputs of functions and module classes, from earlier
    requests."""
    expected_paths: ExpectedPaths
    """Targets (functions and module classes of files) that had alternative execution paths in
    earlier requests."""
    programs: ProgramProcesses
    """Runs of user programs, in progress or finished; requests about the same program share
    them."""
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
        """Watch the messages that a process sends; return a reader for them.

        ``ready`` is called when messages arrive. This method closes unneeded descriptors: for the
        output streams of ``launched``, and for the file in which it records its last stack.
        """

    def own_descriptors(self) -> set[int]:
        """Return the descriptors that only the engine's main process uses, which forked processes
        must close."""

    # -- processes ----------------------------------------------------------------------------

    def perform_order(self, order: Order, ends: ProcessEnds) -> NoReturn:
        """Perform an order, such as executing a file, in the current process, which was forked for
        it, and exit.

        ``ends`` are its channels to the main process.
        """

    def watch_child(self, pid: int, ended: Callable[[int | None], None]) -> None:
        """Register a child process; ``ended`` is called with its exit code, or None if the code is
        unknown."""

    def kill_strangers(self, parents: dict[int, int]) -> None:
        """Kill processes that user code started and left behind.

        ``parents`` maps each pid to its parent's pid.
        """

    def clean_up(self, ended: Sequence[int], scratch: str) -> None:
        """Clean up after the processes ``ended``: kill processes that they left behind, and remove
        the folder ``scratch``.

        The folder stays if a process kept for later versions of a file uses it.
        """

    def remove(self, scratch: str) -> None:
        """Remove a folder, ignoring errors."""
