"""The engine's main process: it imports torch once, starts the processes that execute user code,
and forwards their events to the server."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import platform
import selectors
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from .. import protocol
from ..protocol import (
    Allowed,
    Analyze,
    Cancel,
    Compare,
    Event,
    Failed,
    Log,
    Prioritize,
    ProtocolError,
    Ready,
    Reproduce,
    SelfCheck,
    SelfChecked,
    Shutdown,
    Unusable,
    from_plain,
)
from ..protocol.facts import Degraded
from ..protocol.scratch import find_scratch, scratch_prefix
from ..torch_internals import releases
from . import caches, credentials, orders, process_backends, proofs
from .found import FoundProbes
from .index_builder import Inventory
from .lines import LineReader
from .permissions import Permissions
from .pipeline import EnginePipeline, Pipeline
from .process_backends import (
    LaunchedProcess,
    ProcessBackend,
    confinement,
    descriptors,
    huge_pages,
    limits,
    processes,
)
from .process_backends.channels import ProcessEnds
from .process_backends.confinement import Confinement
from .process_backends.forking import Forking
from .process_backends.spare import Starter
from .process_backends.spawning import Spares, Spawning
from .programs import ProgramProcesses
from .real_pipeline import choose_pipeline
from .requests import Requests
from .speculation import ExpectedPaths
from .wire import Order

_TICK = 0.25
_REST = 0.03
"""Number of seconds between the end of an analysis and the removal of its files and remaining
processes. The kernel uses the time to free the memory of its processes."""
_MOST_WAITING = 8 << 20
"""Maximum number of bytes that wait for the server to read them. Beyond it, the output of user code
is dropped."""


def serve(
    read: int,
    write: int,
    *,
    user_path: list[str],
    pipeline: str = "",
    yaml: str = "",
    indexed: bool = False,
    processes: str = "auto",
    allowed: str = "{}",
    without: Sequence[str] = (),
) -> int:
    """Serve the requests that arrive on the descriptor ``read`` until it is closed; return the exit
    status of the engine.

    Events are written to ``write``. ``user_path`` is the interpreter's own ``sys.path``.
    ``pipeline`` is empty for the engine's own packages, and names a substitute in tests. ``yaml``
    is a folder that contains PyYAML. ``indexed``: do not build the operator index, because it
    exists already or is not wanted. ``processes``: "fork", "spawn" or "auto". ``allowed``:
    permissions of user code, as JSON. ``without``: sandbox layers to leave out where processes are
    forked.
    """
    may = from_plain(Allowed, json.loads(allowed))
    confinement.leave_out(without)
    descriptors.fill_standard()
    limits.ignore_interrupts()
    read, write = descriptors.move_to_end(read), descriptors.move_to_end(write)
    # Threads do not survive a fork. numpy starts a thread pool when torch imports it, unless
    # limited here.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    left = confinement.is_left_out("credentials")
    hidden = frozenset[str]() if left else credentials.remove_secrets(may.variables)
    caches.make_caches(may)
    _remove_abandoned()
    scratch = tempfile.mkdtemp(prefix=scratch_prefix(os.getpid()))
    try:
        confined = confinement.begin_confinement(scratch, may)
        permissions = Permissions(may, tuple(sorted(hidden)))
        start = EngineOptions(
            pipeline, user_path, None if indexed else yaml, processes, confined, permissions
        )
        return _serve_requests(read, write, start, scratch)
    except CollectorEnded:
        shutil.rmtree(scratch, ignore_errors=True)
        # Whatever killed the first process of the namespace may have targeted the engine too. The
        # server starts another engine.
        os.kill(os.getpid(), signal.SIGKILL)
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class CollectorEnded(Exception):
    """Raised when the first process of the engine's pid namespace has ended.

    Linux then cannot start processes in this namespace.
    """


@dataclass(frozen=True)
class EngineOptions:
    """The options of an engine, as passed to :func:`serve`.

    ``yaml`` is None if the operator index is not wanted.
    """

    pipeline: str
    user_path: list[str]
    yaml: str | None
    processes: str
    confinement: Confinement
    permissions: Permissions


def _serve_requests(read: int, write: int, start: EngineOptions, scratch: str) -> int:
    started = time.monotonic()
    processes.die_with_server()
    spares = Spares(Starter(start.pipeline, start.permissions))
    # Imported modules stay in memory. Garbage collection during imports would take a tenth of the
    # startup time and free little.
    gc.disable()
    inventory = Inventory(write, scratch)
    forks = process_backends.can_fork() and start.processes != "spawn"
    try:
        stages = choose_pipeline(start.pipeline)
        if process_backends.choose_backend(start.processes) == "spawn":
            spares.add()  # this process imports torch at the same time
        if start.yaml is not None:
            inventory.begin(stages.make_operators(start.yaml), start.yaml, fork=forks)
        unusable, version = _check_torch(stages)
        if unusable is None:
            stages.warm_up()
            degraded = proofs.degraded_facts(stages, forks=forks)
    except BrokenPipeError:
        return 0
    except Exception as error:
        unusable = Unusable(
            f"The engine cannot start with {sys.executable}: {_describe_error(error)}.",
            "Reinstall torch there, or report this with the output of `fullgraph doctor`.",
        )
    if start.confinement.collector_has_ended():
        raise CollectorEnded
    if unusable is not None:
        os.write(write, protocol.encode(unusable))
        inventory.abandon()
        spares.end()
        return 1
    inventory.take_over_writing()
    host = EngineLoop(read, write, stages, start, version, inventory, spares, scratch, degraded)
    seconds = round(time.monotonic() - started, 3)
    untested = releases.is_untested(version)
    host.send(Ready(version, seconds, degraded, untested, start.confinement.level))
    gc.freeze()
    gc.enable()
    if forks:
        huge_pages.gather_pages()
    return host.run()


def _check_torch(stages: EnginePipeline) -> tuple[Unusable | None, str]:
    command = shlex.quote(sys.executable)
    try:
        version = stages.torch_version()
    except ModuleNotFoundError as error:
        if error.name != "torch":
            return _broken_torch(error), ""
        return Unusable(
            f"No torch in {sys.executable}.",
            f"Install it with `{command} -m pip install torch`, or choose an interpreter "
            "that has it.",
        ), ""
    except (Exception, SystemExit) as error:
        return _broken_torch(error), ""
    oldest = releases.release_text(releases.OLDEST)
    if releases.is_too_old(version):
        return Unusable(
            f"torch {version} in {sys.executable} is older than {oldest}, which fullgraph needs.",
            f"Upgrade it with `{command} -m pip install -U torch`, or choose another interpreter.",
        ), version
    return None, version


def _broken_torch(error: BaseException) -> Unusable:
    command = shlex.quote(sys.executable)
    return Unusable(
        f"torch in {sys.executable} cannot be imported: {_describe_error(error)}.",
        f"Find out why with `{command} -c 'import torch'`, and reinstall torch.",
    )


def _describe_error(error: BaseException) -> str:
    """Return the type and message of an exception, without a full stop, for use within a
    sentence."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": .")


def _remove_abandoned() -> None:
    """Remove the temporary folders of earlier engines that were killed before they could remove
    them."""
    for owner, folder in find_scratch():
        if not processes.process_exists(owner):
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class _Leftovers:
    """The processes and temporary folder of a finished analysis that remain to be removed."""

    pids: frozenset[int]
    """Pids of the analysis's killed processes, which must end before its folder is removed."""
    scratch: str


class EngineLoop:
    """The event loop of the engine's main process, which serves the requests of the server.

    It never executes user code and never waits for another process.
    """

    def __init__(
        self,
        read: int,
        write: int,
        pipeline: Pipeline,
        start: EngineOptions,
        torch: str,
        inventory: Inventory,
        spares: Spares,
        scratch: str,
        degraded: tuple[Degraded, ...] = (),
    ) -> None:
        self.pipeline, self.degraded = pipeline, degraded
        self.adopting = processes.adopt_orphans()
        self.scratch, self._inventory = scratch, inventory
        processes.hold_reserve()
        self._user_path, self._torch = start.user_path, torch
        self._permissions = start.permissions
        self._input, self._write = LineReader(read), write
        os.set_blocking(write, False)
        self._waiting = bytearray()
        self._requests = Requests(self)
        self._left: list[_Leftovers] = []
        self._clean_at = math.inf
        self.found = FoundProbes()
        self.expected_paths = ExpectedPaths()
        self.programs = ProgramProcesses()
        self._children: dict[int, Callable[[int | None], None]] = {}
        self._collector = start.confinement.collector
        if self._collector:
            self.watch_child(self._collector, self._collector_ended)
        self._own = {read, write} | inventory.open_descriptors()
        self._spares = spares
        self.backend = self._make_backend(start)
        self._selector = selectors.DefaultSelector()
        self._wake = processes.wake_on_end()
        self.watch(self._wake, self._child_ended)
        self.watch(read, self._read_requests)

    def _make_backend(self, start: EngineOptions) -> ProcessBackend:
        if process_backends.choose_backend(start.processes) == "fork":
            return Forking(self)
        return Spawning(self, self._spares)

    # -- for the analyses ---------------------------------------------------------------------

    def send(self, event: Event) -> None:
        """Queue an event for the server. Output of user code is dropped if the queue is too
        long."""
        if isinstance(event, Log) and len(self._waiting) > _MOST_WAITING:
            return
        self.forward(protocol.encode(event))

    def forward(self, line: bytes) -> None:
        """Queue an event for the server; ``line`` is the event in encoded form."""
        self._waiting += line
        self._flush()

    def watch(self, descriptor: int, ready: Callable[[], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, ready)

    def unwatch(self, descriptor: int) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(descriptor)

    def close(self, descriptor: int) -> None:
        """Stop watching a descriptor and close it."""
        self.unwatch(descriptor)
        os.close(descriptor)

    def watch_reports(self, launched: LaunchedProcess, ready: Callable[[], None]) -> LineReader:
        """Watch the messages that a process sends; return a reader for them.

        ``ready`` is called when messages arrive. This method closes unneeded descriptors: for the
        output streams of ``launched``, and for the file in which it records its last stack.
        """
        ours = launched.channels
        descriptors.close_all((ours.stdout, ours.stderr, ours.box))
        self.watch(ours.reports, ready)
        return LineReader(ours.reports)

    def own_descriptors(self) -> set[int]:
        """Return the descriptors that only the engine's main process uses, which forked processes
        must close."""
        return self._own

    def perform_order(self, order: Order, ends: ProcessEnds) -> NoReturn:
        """Perform an order, such as executing a file, in the current process, which was forked for
        it, and exit.

        ``ends`` are its channels to the main process.
        """
        rights = self._permissions
        orders.perform_order(order, ends, self.pipeline, self._user_path, rights, forks=True)

    def watch_child(self, pid: int, ended: Callable[[int | None], None]) -> None:
        """Register a forked process; ``ended`` is called with its exit code, or None if the code is
        unknown."""
        self._children[pid] = ended

    def remove_request(self, request: int) -> None:
        self._requests.remove(request)

    def clean_up(self, ended: Sequence[int], scratch: str) -> None:
        self._left.append(_Leftovers(frozenset(ended), scratch))
        self._clean_at = min(self._clean_at, time.monotonic() + _REST)

    def _clean_leftovers(self) -> None:
        if time.monotonic() < self._clean_at:
            return
        parents = processes.read_processes().parents
        self.kill_strangers(parents)
        waits = [one for one in self._left if not one.pids.isdisjoint(parents)]
        for one in self._left:
            if one not in waits and not self.backend.uses_folder(one.scratch):
                self.remove(one.scratch)
        self._left = waits
        self._clean_at = time.monotonic() + _REST if waits else math.inf

    def remove(self, scratch: str) -> None:
        shutil.rmtree(scratch, ignore_errors=True)

    # -- the loop -----------------------------------------------------------------------------

    def run(self) -> int:
        try:
            self._inventory.join_loop(self)
            self._reap_children()  # children that ended before the loop began
            while not self._input.ended:
                for key, mask in self._selector.select(self._select_timeout()):
                    if key.fd == self._write:
                        self._flush()
                    elif mask:
                        # An earlier callback of this iteration may have stopped watching the
                        # descriptor.
                        with contextlib.suppress(KeyError):
                            self._selector.get_key(key.fd).data()
                self._tick()
        except (BrokenPipeError, SystemExit):
            pass  # the server is gone
        finally:
            self._end()
        return 0

    def _select_timeout(self) -> float | None:
        survey = self._inventory.due(bool(self._requests))
        due = min(self._clean_at, self._requests.next_deadline())
        pauses = [max(due - time.monotonic(), 0.0)]
        pauses += [_TICK] if self._requests else []
        pauses += [survey] if survey is not None else []
        nearest = min(pauses)
        return nearest if nearest < math.inf else None

    def _tick(self) -> None:
        self._requests.begin_next()
        self._inventory.turn(bool(self._requests))
        self.backend.prepare(self._requests.waiting)
        self._requests.tick()
        self._clean_leftovers()

    def _end(self) -> None:
        parents = processes.read_processes().parents
        processes.kill_trees([*self._children, *self._find_strangers(parents)])
        processes.wait_for_all()

    def _flush(self) -> None:
        try:
            while self._waiting:
                del self._waiting[: os.write(self._write, self._waiting[: 1 << 20])]
        except BlockingIOError:
            with contextlib.suppress(KeyError):
                self._selector.register(self._write, selectors.EVENT_WRITE)
        else:
            with contextlib.suppress(KeyError):
                self._selector.unregister(self._write)

    # -- children -----------------------------------------------------------------------------

    def _child_ended(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake, 4096):
                pass
        self._reap_children()

    def _reap_children(self) -> None:
        for pid, code in processes.collect_ended():
            ended = self._children.pop(pid, None)
            if ended is not None:
                ended(code)

    def kill_strangers(self, parents: dict[int, int]) -> None:
        """Kill processes that user code started and left behind, which the system has made children
        of the engine.

        ``parents`` maps each pid to its parent's pid.
        """
        strangers = self._find_strangers(parents)
        if strangers:
            processes.kill_trees(strangers)

    def _find_strangers(self, parents: dict[int, int]) -> list[int]:
        # Orphaned processes become children of the engine or of the namespace's first process.
        above = [os.getpid()] if self.adopting else []
        above += [self._collector] if self._collector else []
        return [pid for pid, up in parents.items() if up in above and pid not in self._children]

    def _collector_ended(self, code: int | None) -> None:
        raise CollectorEnded

    # -- requests -----------------------------------------------------------------------------

    def _read_requests(self) -> None:
        for line in self._input.read():
            try:
                request = protocol.decode(line)
            except ProtocolError as error:
                self.send(Log(0, "engine", f"The engine received an invalid request: {error}\n"))
                continue
            self._handle_request(request)

    def _handle_request(self, request: protocol.Message) -> None:
        if isinstance(request, (Analyze, Reproduce, Compare)):
            self._requests.admit(request)
        elif isinstance(request, Cancel):
            self._requests.cancel(request.request)
        elif isinstance(request, Prioritize):
            self._requests.prioritize(request)
        elif isinstance(request, SelfCheck):
            self._run_self_check(request)
        elif isinstance(request, Shutdown):
            raise SystemExit

    def _run_self_check(self, request: SelfCheck) -> None:
        try:
            hooks = self.pipeline.self_check()
        except Exception as error:
            self.send(Failed(request.request, f"The self-check failed: {_describe_error(error)}."))
            return
        version = platform.python_version()
        self.send(SelfChecked(request.request, self._torch, version, hooks))
