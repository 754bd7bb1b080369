"""The engine of one interpreter: starts, monitors and restarts it, and sends it requests."""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import itertools
import shlex
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fullgraph.engines.process import EngineProcess, boot_script, hide_environment_from
from fullgraph.engines.requests import (
    AnalysisRequest,
    ComparisonRequest,
    PendingRequest,
    ReproductionRequest,
    RequestQueue,
    SelfCheckRequest,
)
from fullgraph.engines.sentences import sentences
from fullgraph.engines.status import EngineState, EngineStatus, FailureWatch
from fullgraph_engine.protocol import (
    VERSION,
    Allowed,
    Analyze,
    Compare,
    Event,
    Failed,
    IndexWritten,
    Log,
    Prioritize,
    Ready,
    Reproduce,
    SelfCheck,
    SelfChecked,
    Shutdown,
    Starting,
    Unusable,
)
from fullgraph_engine.protocol.facts import CODES, WORDS

BACK_OFF = (0.5, 2.0, 8.0)
"""Seconds to wait before the first, second and third automatic restart; after a successful trace
the series begins again.
"""

CLOSE_GRACE = 2.0

_FROM_OUTSIDE = tuple(-number for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP))
"""Exit statuses of a process that another process or the kernel killed, such as when memory ran
out.
"""

SILENCE = 30.0
"""Maximum seconds from the start of the interpreter until it begins to execute the engine."""

LONG_IMPORT = 120.0
"""Seconds after which a long import of torch is reported; a network drive can cause one."""

USE_WSL = "Run fullgraph in WSL; VS Code opens a folder there with its WSL extension."
CHOOSE = "Set `fullgraph.interpreter` to Python 3.10 or newer with torch 2.8 or newer."


_Numbered = TypeVar("_Numbered", Analyze, Reproduce, Compare)
_Pending = TypeVar("_Pending", bound=PendingRequest[Any])


class EngineGone(Exception):
    """An error if the engine ended before it answered a request.

    It contains the reason as a sentence, and what the user can do.
    """

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(sentences(reason, next_step))
        self.reason = reason
        self.next_step = next_step


@dataclass(frozen=True)
class EngineListener:
    """The interface that receives an engine's status changes, output and operator index.

    Without ``index``, the engine does not build an index of torch's operators.
    """

    status: Callable[[EngineStatus], None] = lambda status: None
    log: Callable[[Log], None] = lambda log: None
    index: Callable[[IndexWritten], None] | None = None


class AnyEngine(abc.ABC):
    """Base class of engines, which trace files with the torch of an interpreter.

    The engine is a child process of this process, or a background process shared with other
    clients.
    """

    def __init__(self, interpreter: Path, processes: str, allowed: Allowed) -> None:
        self.interpreter = interpreter
        self.processes = processes
        """Value of the setting that selects how the engine starts processes; applied when the
        engine starts the next time.
        """
        self.allowed = allowed
        """Permissions of user code beyond the default sandbox."""
        self._requests = itertools.count(1)

    @property
    @abc.abstractmethod
    def status(self) -> EngineStatus:
        """The latest status of the engine."""

    @abc.abstractmethod
    async def start(self) -> None:
        """Start the engine process; return before torch is imported."""

    @abc.abstractmethod
    async def restart(self) -> None:
        """End all work, forget earlier crashes, and start the engine process again."""

    @abc.abstractmethod
    def reconsider(self) -> None:
        """Start a failed engine again if the cause of its failure may have been removed, such as a
        missing torch.
        """

    @abc.abstractmethod
    async def ready(self) -> EngineStatus:
        """Wait until the engine has imported torch or has failed for good; return its status.

        The status is ready, unusable, or crashed without an automatic restart.
        """

    def analyze(self, request: Analyze) -> AnalysisRequest:
        """Send a request to trace a text; return the object that receives its events."""
        number, prioritize = self._number(request), self._prioritize_request
        return self._submit(AnalysisRequest(number, self._cancel_request, prioritize))

    def reproduce(self, request: Reproduce) -> ReproductionRequest:
        """Send a request for a repro, a short script that shows a finding; return the object that
        receives its events.
        """
        return self._submit(ReproductionRequest(self._number(request), self._cancel_request))

    def compare(self, request: Compare) -> ComparisonRequest:
        """Send a request to compare the behavior of two texts; return the object that receives its
        events.
        """
        return self._submit(ComparisonRequest(self._number(request), self._cancel_request))

    def _number(self, request: _Numbered) -> _Numbered:
        return dataclasses.replace(request, request=next(self._requests))

    def _submit(self, request: _Pending) -> _Pending:
        self._submit_request(request)
        return request

    @abc.abstractmethod
    async def close(self, *, stay: bool = True) -> None:
        """End all requests of this client, and the engine process.

        With ``stay``, a process shared with other clients keeps running.
        """

    @abc.abstractmethod
    def kill(self) -> None:
        """End all requests and kill the engine process immediately, without an event loop."""

    @abc.abstractmethod
    def _submit_request(self, asked: PendingRequest[Any]) -> None: ...

    @abc.abstractmethod
    def _cancel_request(self, asked: PendingRequest[Any]) -> None: ...

    @abc.abstractmethod
    def _prioritize_request(self, asked: AnalysisRequest, message: Prioritize) -> None: ...


class Engine(AnyEngine):
    """A private engine: a child process of the server, in one interpreter. All methods run on the
    event loop that started it.

    Requests wait in this object during the import of torch, so that cancelling them is cheap. An
    engine process that dies is restarted after a growing delay, and the status reports the restart.
    Trace requests that were running are sent again one at a time, because one of them may have
    caused the crash.
    """

    def __init__(
        self,
        interpreter: Path,
        listener: EngineListener = EngineListener(),
        *,
        cwd: Path | None = None,
        boot: Path | None = None,
        processes: str = "auto",
        allowed: Allowed = Allowed(),  # noqa: B008 - it is frozen
        back_off: tuple[float, ...] = BACK_OFF,
    ) -> None:
        super().__init__(interpreter, processes, allowed)
        self._listener = listener
        self._cwd = cwd
        self._boot = boot
        self._back_off = back_off
        self._process: EngineProcess | None = None
        self._status = self._initial_status(EngineState.STOPPED, "The engine is not running.")
        self._settled = asyncio.Event()
        self._queue = RequestQueue()
        self._deaths = 0
        self._failure = FailureWatch(interpreter, self._try_again)
        self._restart: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()

    @property
    def status(self) -> EngineStatus:
        return self._status

    async def start(self) -> None:
        async with self._changing:
            if self._process is None:
                await self._spawn_process()

    async def ready(self) -> EngineStatus:
        """Wait until the engine has imported torch or has failed for good; return its status.

        The status is ready, unusable, or crashed without an automatic restart.
        """
        await self._settled.wait()
        return self._status

    def _submit_request(self, asked: PendingRequest[Any]) -> None:
        status = self._status
        if status.final and status.state not in (EngineState.STARTING, EngineState.READY):
            number = asked.request.request
            asked.put_event(Failed(number, status.message, status.next_step))
        else:
            self._queue.add(asked)
            self._send_waiting()

    def _cancel_request(self, asked: PendingRequest[Any]) -> None:
        self._queue.cancel(asked, self._process)

    def _prioritize_request(self, asked: AnalysisRequest, message: Prioritize) -> None:
        self._queue.prioritize(message, self._process)

    def _send_waiting(self) -> None:
        if self._status.state is EngineState.READY and self._process is not None:
            self._queue.send_waiting(self._process)

    async def self_check(self) -> SelfChecked:
        """Return the engine's report on which of its hooks into torch work with the installed
        version.

        Raises:
            EngineGone: The engine is unavailable.
        """
        check = SelfCheck(next(self._requests))
        async for event in self._submit(SelfCheckRequest(check, self._cancel_request)):
            if isinstance(event, Failed):
                raise EngineGone(event.reason, event.next_step)
            if isinstance(event, SelfChecked):
                return event
        raise AssertionError("a request ends with its last event")

    async def restart(self) -> None:
        async with self._changing:
            await self._end_process()
            self._deaths = 0
            await self._spawn_process()

    async def close(self, *, stay: bool = True) -> None:
        """End the engine process and its children.

        ``stay`` is ignored, because a private engine does not have other clients.
        """
        async with self._changing:
            await self._end_process()
            self._queue.fail_all("The engine was stopped.", "Try again.")
            self._set_status(EngineState.STOPPED, "The engine is not running.")

    def reconsider(self) -> None:
        self._failure.reconsider()

    def _try_again(self) -> None:
        self._deaths = 0
        self._failure.stop()
        # ``final=False`` makes new requests wait until the restarted engine is ready.
        self._status = dataclasses.replace(self._status, state=EngineState.STARTING, final=False)
        self._restart = asyncio.create_task(self._start_over())

    async def _start_over(self) -> None:
        self._restart = None
        async with self._changing:
            await self._end_process()
            await self._spawn_process()

    def kill(self) -> None:
        """Kill the engine process immediately, because the server exits."""
        if self._process is not None:
            self._process.kill()

    # -- the process --------------------------------------------------------------------------

    async def _spawn_process(self) -> None:
        if sys.platform.startswith("win"):
            self._give_up("The engine of fullgraph does not run on Windows.", USE_WSL)
            return
        # Forget the old status: torch may have been removed in the meantime.
        self._status = self._initial_status(EngineState.STARTING, "")
        self._set_status(EngineState.STARTING, "Starting Python.")
        try:
            self._process = EngineProcess(
                self.interpreter,
                boot=self._boot or boot_script(),
                cwd=self._cwd,
                on_event=self._handle_event,
                on_output=lambda text: self._listener.log(Log(0, "engine", text)),
                on_death=self._handle_death,
                # Building an operator index costs CPU time that a short-lived engine needs for its
                # work.
                index=self._listener.index is not None,
                processes=self.processes,
                allowed=self.allowed,
            )
            await self._process.start()
            loop = asyncio.get_running_loop()
            loop.call_later(SILENCE, self._end_silent, self._process)
            loop.call_later(LONG_IMPORT, self._mention_long_import, self._process)
        except OSError as error:
            self._process = None
            reason = (
                str(error)
                if error.errno is None
                else f"The interpreter {self.interpreter} could not be started: {error.strerror}."
            )
            self._give_up(reason, CHOOSE)

    async def _end_process(self) -> None:
        if self._restart is not None:
            self._restart.cancel()
            self._restart = None
        process, self._process = self._process, None
        if process is not None:
            process.send(Shutdown())
            await process.close(CLOSE_GRACE)
        self._queue.fail_sent("The engine was restarted.", "Try again.")

    def _handle_event(self, process: EngineProcess, event: Event) -> None:
        if process is not self._process:
            # The event comes from an earlier process, which has been replaced.
            return
        if isinstance(event, Starting):
            if event.version != VERSION:
                self._give_up(
                    f"The engine uses version {event.version} of the protocol, and "
                    f"the server version {VERSION}.",
                    "Reinstall fullgraph and restart the editor.",
                )
                process.kill()
                return
            self._status = dataclasses.replace(self._status, python=event.python, pid=event.pid)
            self._set_status(EngineState.STARTING, f"Importing torch in {self.interpreter}.")
        elif isinstance(event, Ready):
            process.starting = False
            hide_environment_from(event.sandbox)
            self._status = dataclasses.replace(
                self._status,
                torch=event.torch,
                degraded=event.degraded,
                untested=event.untested,
                sandbox=event.sandbox,
            )
            self._set_status(EngineState.READY, _ready_message(event))
            self._send_waiting()
        elif isinstance(event, Unusable):
            self._give_up(event.reason, event.next_step)
        elif isinstance(event, IndexWritten):
            if self._listener.index is not None:
                self._listener.index(event)
        elif isinstance(event, Log):
            self._listener.log(event)
        else:
            if self._queue.take_event(event.request, event):
                self._deaths = 0
            self._send_waiting()

    def _give_up(self, reason: str, next_step: str) -> None:
        """Mark the interpreter as unusable until the user changes something; ``reason`` and
        ``next_step`` are shown to the user.
        """
        self._set_status(EngineState.UNUSABLE, reason, next_step)
        self._queue.fail_all(reason, next_step)

    def _end_silent(self, process: EngineProcess) -> None:
        if process is self._process and not self._status.python:
            self._give_up(f"{self.interpreter} did not start within {SILENCE:.0f} seconds.", CHOOSE)
            process.kill()

    def _mention_long_import(self, process: EngineProcess) -> None:
        if process is self._process and self._status.state is EngineState.STARTING:
            self._set_status(
                EngineState.STARTING,
                f"{self.interpreter} has been importing torch for {LONG_IMPORT:.0f} seconds.",
                f"Wait for the import, or find out why it is slow with `{self._import_command}`.",
            )

    @property
    def _import_command(self) -> str:
        return f"{shlex.quote(str(self.interpreter))} -c 'import torch'"

    def _handle_death(self, process: EngineProcess) -> None:
        if process is not self._process:
            return
        self._process = None
        if self._status.state is EngineState.UNUSABLE:
            return
        if not self._status.python and process.exit_status not in _FROM_OUTSIDE:
            self._give_up(
                f"{self.interpreter} cannot run the engine: it {_describe_exit(process)}.",
                CHOOSE,
            )
            return
        self._deaths += 1
        imported = bool(self._status.torch)
        # A crash during the import of torch would probably happen again, so restart only once,
        # unless the process was killed from outside.
        by_chance = imported or process.exit_status in _FROM_OUTSIDE
        if self._deaths > (len(self._back_off) if by_chance else 1):
            self._stay_dead(_describe_exit(process), imported, by_chance=by_chance)
            return
        message = f"The engine {_describe_exit(process)}."
        self._queue.retry_traces()
        next_step = "It restarts automatically; the log has its last output."
        self._queue.fail_sent(message, next_step)
        self._set_status(
            EngineState.CRASHED,
            message,
            next_step,
            final=False,
            quiet=self._deaths > 1 or not imported,
        )
        self._restart = asyncio.create_task(self._start_later(self._back_off[self._deaths - 1]))

    def _stay_dead(self, manner: str, imported: bool, *, by_chance: bool) -> None:
        """Report that the engine will not be restarted automatically.

        ``manner`` says how the process ended; ``imported``: torch had been imported before.
        ``by_chance``: something other than the engine may have ended it.
        """
        if by_chance:
            message = f"The engine {manner}."
            if not imported:
                message = f"The engine {manner} while it imported torch in {self.interpreter}."
            next_step = (
                "Restart the engine with the command of your editor; the log has its last output."
            )
            self._set_status(EngineState.CRASHED, message, next_step)
            self._queue.fail_all(message, next_step)
        else:
            self._give_up(
                f"The engine {manner} while it imported torch in {self.interpreter}.",
                f"Find out why with `{self._import_command}`, and reinstall torch.",
            )

    async def _start_later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._restart = None
        await self.start()

    # -- status -------------------------------------------------------------------------------

    def _initial_status(self, state: EngineState, message: str) -> EngineStatus:
        # ``final=False`` makes requests wait until the engine is started.
        return EngineStatus(state, message, interpreter=str(self.interpreter), final=False)

    def _set_status(
        self,
        state: EngineState,
        message: str,
        next_step: str = "",
        *,
        final: bool = True,
        quiet: bool = False,
    ) -> None:
        self._status = dataclasses.replace(
            self._status,
            state=state,
            message=message,
            next_step=next_step,
            final=final,
            quiet=quiet,
        )
        self._failure.update(self._status)
        if state is EngineState.STARTING or not final:
            self._settled.clear()
        else:
            self._settled.set()
        self._listener.status(self._status)


def _describe_exit(process: EngineProcess) -> str:
    """Return a clause on how the engine process ended, for a sentence whose subject is the
    engine."""
    if process.broken:
        return f"sent an invalid message ({process.broken}) and was killed"
    status = process.exit_status
    if status is None:
        return "ended"
    if status < 0:
        try:
            return f"was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"was killed by signal {-status}"
    last = process.last_words.rsplit("\n", 1)[-1].strip().rstrip(".")
    return f"exited unexpectedly with status {status}" + (f" ({last})" if last else "")


def _ready_message(event: Ready) -> str:
    hidden = [WORDS[one.fact] for one in event.degraded if one.fact in CODES]
    if hidden:
        words = ", ".join(hidden)
        return f"torch {event.torch} is ready, but fullgraph cannot detect {words} with it."
    if event.untested:
        return (
            f"torch {event.torch} is ready. It is newer than the versions that fullgraph was "
            "tested with, but a self-check with a test program passed."
        )
    return f"torch {event.torch} is ready."
