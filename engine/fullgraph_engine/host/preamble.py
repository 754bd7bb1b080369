"""Preambles: processes kept after they have executed the imports of a file, and forked for later
versions of the file.

With a preamble, an edit below the imports costs only the statements below them. A version of the
file uses a preamble if it begins with the same code, the files that the imports read are unchanged,
and no package was installed. A process cannot become a preamble if its imports start threads, or if
they are fast and the file is not being edited. Between edits, a preamble repeats the operator calls
of earlier runs, so that later runs find the results for fake tensors in torch's cache.

A check of many files keeps one process that has imported the modules that these files share, and
forks it for each of them, except for files that the modules themselves import.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from ..protocol import Analyze, SharedImports
from . import syntax, wire
from .lines import Line, LineReader
from .process_backends import ForkedProcessOwner, descriptors, packets, processes
from .process_backends.channels import ProcessEnds
from .process_backends.limits import MIB
from .wire import (
    ChildExited,
    ChildForked,
    ForkFailed,
    ForkGeneration,
    ImportAhead,
    LateImports,
    ModuleOrder,
    OperatorCalls,
    PreambleReady,
    PreambleStale,
    RepeatOperatorCalls,
)

WORTH_KEEPING = 0.05
"""Minimum seconds that a file's imports must have taken for their process to be kept."""
_MOST = 10
_MOST_MEMORY = 2048 * MIB
_MOST_AHEAD = 50_000
"""Maximum total length of the module names in one command to import modules in advance."""


class PreambleHost(Protocol):
    """The operations of the event loop that preambles (processes kept after a file's imports)
    use."""

    def watch(self, descriptor: int, ready: Callable[[], None]) -> None: ...
    def unwatch(self, descriptor: int) -> None: ...
    def close(self, descriptor: int) -> None: ...
    def remove(self, scratch: str) -> None: ...


class Preamble:
    """A process that may be kept after a file's imports, to be forked for later versions of the
    file.

    Until then it executes the first version of the file.
    """

    def __init__(
        self,
        request: Analyze,
        host: PreambleHost,
        shelf: Shelf,
        control: socket.socket,
        reports: int,
        scratch: str,
    ) -> None:
        self.request, self.scratch = request, scratch
        self.shared_imports = shared_imports_of(request)
        self.kept: PreambleReady | None = None
        self.pid = 0
        self.used = time.monotonic()
        self._host, self._shelf, self._control = host, shelf, control
        self._reports = LineReader(reports)
        self._doomed = False
        self._asked_ahead = False
        self._number = 0
        self._generations: dict[int, ForkedProcessOwner] = {}
        shelf.alive.append(self)
        host.watch(reports, self._read)

    def begin(self, pid: int, first: ForkedProcessOwner) -> None:
        self.pid = pid
        self._generations[0] = first

    def fits(self, request: Analyze) -> bool:
        """Whether ``request`` can be served by a fork of this process.

        Its text is compared with the text of the imports, without parsing it.
        """
        own = self.request
        if self.kept is None or self._doomed:
            return False
        if (own.roots, own.cwd) != (request.roots, request.cwd):
            return False
        # The engine's main process enforces the time limit of a run.
        if replace(own.limits, seconds=request.limits.seconds) != request.limits:
            return False
        if self.shared_imports.modules or shared_imports_of(request).modules:
            if not self.shares_imports(request):
                return False
        elif own.path != request.path or not self._begins(request):
            return False
        read = {file.path for file in self.kept.files}
        if _open_texts(own, read) != _open_texts(request, read):
            return False
        return all(file.is_unchanged() for file in self.kept.files)

    def _begins(self, request: Analyze) -> bool:
        """Whether the text of a request begins with the executed imports."""
        assert self.kept is not None
        imports = syntax.code_of(syntax.lines_of(self.request.text)[: self.kept.lines])
        return imports == syntax.code_of(syntax.lines_of(request.text))[: len(imports)]

    def shares_imports(self, request: Analyze) -> bool:
        """Whether this process imported, for several files, the modules that ``request`` lists."""
        shared = shared_imports_of(request)
        return bool(shared.modules) and self.shared_imports == shared

    def fork_generation(
        self, job: ModuleOrder, ends: ProcessEnds, generation: ForkedProcessOwner
    ) -> bool:
        """Fork the process kept after the imports, to execute another version of the file, as
        ``job`` describes.

        ``ends`` are the new process's channels; ``generation`` receives its pid and end. Return
        False if the kept process has ended.
        """
        self._number += 1
        command = wire.encode_message(ForkGeneration(self._number, gives_way=job.analyze.nice > 0))
        sent = self._send(command, ends.open_descriptors(), wire.encode_message(job))
        if sent:
            self._generations[self._number] = generation
            self.used = time.monotonic()
        return sent

    def _send(self, command: bytes, rights: list[int], content: bytes) -> bool:
        """Send a command to the process kept after a file's imports, with the descriptors
        ``rights`` and a file with ``content``.

        Return False if the process has ended.
        """
        paper = descriptors.in_memory("fullgraph-job")
        try:
            descriptors.write_all(paper, content)
            os.lseek(paper, 0, os.SEEK_SET)
            return packets.send_packet(self._control, command, [*rights, paper])
        finally:
            os.close(paper)

    def import_early(self, message: LateImports) -> None:
        """Make the process kept after the file's imports also import the modules in ``message``,
        which packages import after the user's module.

        Only the first call has an effect.
        """
        if self.kept is None or self._doomed or self._asked_ahead or self.shared_imports.modules:
            return
        self._asked_ahead = True
        size, names = 0, list[str]()
        for name in message.names:
            size += len(name) + 3
            if size > _MOST_AHEAD:
                break
            names.append(name)
        packets.send_packet(
            self._control, wire.encode_message(ImportAhead(tuple(names), message.seconds)), []
        )

    def repeat_calls(self, calls: OperatorCalls) -> None:
        """Make the process kept after the imports repeat operator calls of a trace while it is
        idle.

        This fills torch's fake tensor cache for later forks.
        """
        if self.kept is not None and not self._doomed and not self.shared_imports.modules:
            self._send(wire.encode_message(RepeatOperatorCalls()), [], calls.packed.encode())

    def discard(self) -> None:
        """Stop forking the process kept after the imports, and kill it when the processes forked
        from it have ended."""
        self._doomed = True
        if not self._generations and self.pid:
            processes.kill_trees([self.pid])

    def set_pid(self, pid: int) -> None:
        """Do nothing: the pid is already known from the fork."""

    def handle_end(self, code: int | None) -> None:
        """Close the channels of the process kept after the imports, which has ended together with
        all its forks."""
        self._doomed = True
        self._handle_lines(self._reports.drain())
        self._control.close()
        self._host.close(self._reports.descriptor)
        self._shelf.forget(self)
        self._shelf.alive.remove(self)
        if self.kept is not None:
            self._host.remove(self.scratch)
        for generation in list(self._generations.values()):
            generation.handle_end(code)
        self._generations.clear()

    def _read(self) -> None:
        self._handle_lines(self._reports.read())
        if self._reports.ended:
            self._host.unwatch(self._reports.descriptor)

    def _handle_lines(self, lines: list[Line]) -> None:
        for line in lines:
            message = wire.parse_message(line)
            if isinstance(message, PreambleReady) and self.kept is not None:
                self.kept = message  # a later report may list more files that the imports read
            elif isinstance(message, PreambleStale):
                self._shelf.drop(self)
            elif isinstance(message, PreambleReady):
                self.kept = message
                for generation in self._generations.values():
                    generation.set_pid(0)
                self._shelf.add(self)
            elif isinstance(message, ChildForked):
                if message.number in self._generations:
                    self._generations[message.number].set_pid(message.pid)
            elif isinstance(message, ForkFailed):
                refused = self._generations.pop(message.number, None)
                if refused is not None:
                    refused.handle_refusal(message.error)
            elif isinstance(message, ChildExited):
                ended = self._generations.pop(message.number, None)
                if ended is not None:
                    ended.handle_end(message.code)
                if self._doomed:
                    self.discard()


def shared_imports_of(request: Analyze) -> SharedImports:
    """Return the modules that one process imports for this request and others; empty if a process
    is kept for the file alone."""
    return SharedImports() if request.keep else request.shared_imports


def _open_texts(request: Analyze, paths: set[str]) -> dict[str, str]:
    """Return the unsaved editor texts of those files in ``paths`` that the imports have read, by
    path."""
    return {file.path: file.text for file in request.open_files if file.path in paths}


class Shelf:
    """A cache of a few preambles (processes kept after a file's imports), which drops the least
    recently used one first."""

    def __init__(self) -> None:
        self._kept: list[Preamble] = []
        self.alive: list[Preamble] = []
        """Processes that were kept after a file's imports, or may still be, and have not ended."""

    def uses_folder(self, scratch: str) -> bool:
        return any(one.kept is not None and one.scratch == scratch for one in self.alive)

    def find(self, request: Analyze) -> Preamble | None:
        for preamble in self._kept:
            if preamble.fits(request):
                return preamble
        return None

    def has_shared(self, request: Analyze) -> bool:
        """Whether a process imported the modules that ``request`` shares with other files, even if
        it cannot be forked for this one."""
        return any(one.shares_imports(request) for one in self._kept)

    def add(self, preamble: Preamble) -> None:
        for other in list(self._kept):
            same = other.request.path == preamble.request.path
            if same or other.shares_imports(preamble.request):
                self.drop(other)
        self._kept.append(preamble)
        self._kept.sort(key=lambda kept: kept.used)
        while len(self._kept) > _MOST or (len(self._kept) > 1 and self._memory() > _MOST_MEMORY):
            self.drop(self._kept[0])

    def drop(self, preamble: Preamble) -> None:
        self.forget(preamble)
        preamble.discard()

    def drop_oldest(self) -> bool:
        """End the least recently used preamble (a process kept after a file's imports).

        Return False if there is none.
        """
        if self._kept:
            self.drop(self._kept[0])
            return True
        return False

    def forget(self, preamble: Preamble) -> None:
        if preamble in self._kept:
            self._kept.remove(preamble)

    def _memory(self) -> int:
        now = processes.read_processes()
        shared = now.resident(os.getpid())
        return sum(max(now.resident(kept.pid) - shared, 0) for kept in self._kept)
