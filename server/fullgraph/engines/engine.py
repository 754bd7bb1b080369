"""The engine of one interpreter: starts, monitors and restarts it, and sends it requests."""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import enum
import itertools
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from fullgraph.engines.installation import packages_state
from fullgraph.engines.process import EngineProcess, boot_script, hide_environment_from
from fullgraph.engines.sentences import sentences
from fullgraph_engine.protocol import (
    VERSION,
    Allowed,
    Analyze,
    Analyzed,
    Cancel,
    Compare,
    Compared,
    Degraded,
    Event,
    Failed,
    IndexWritten,
    Log,
    Ready,
    Reproduce,
    Reproduced,
    ReproFound,
    ReproProgress,
    Restarted,
    SandboxLevel,
    SelfCheck,
    SelfChecked,
    Shutdown,
    Starting,
    Unusable,
)
from fullgraph_engine.protocol.facts import CODES, WORDS

LOOK_AGAIN, LONGEST_WAIT = 5.0, 300.0
"""Minimum and maximum seconds until a failed engine is started again for a new request; doubled
after each failed start.
"""

BACK_OFF = (0.5, 2.0, 8.0)
"""Seconds to wait before the first, second and third automatic restart; after a successful trace
the series begins again.
"""

CANCEL_GRACE = 5.0
"""Seconds after which the engine is killed if a cancelled request has not ended."""

OVERDUE_GRACE = 10.0
"""Maximum seconds by which a repro may exceed its time limit before it is cancelled."""

CLOSE_GRACE = 2.0

_FROM_OUTSIDE = tuple(-number for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP))
"""Exit statuses of a process that another process or the kernel killed, such as when memory ran
out.
"""

LOOK_AT_PROCESS = 1.0
"""Interval in seconds of the checks whether a signal has paused the engine process; the second
positive check kills it.
"""

SILENCE = 30.0
"""Maximum seconds from the start of the interpreter until it begins to execute the engine."""

LONG_IMPORT = 120.0
"""Seconds after which a long import of torch is reported; a network drive can cause one."""

USE_WSL = "Run fullgraph in WSL; VS Code opens a folder there with its WSL extension."
CHOOSE = "Set `fullgraph.interpreter` to Python 3.10 or newer with torch 2.8 or newer."


class EngineState(enum.Enum):
    """The state of an engine.

    ``UNUSABLE``: this interpreter cannot run an engine until the user changes something.
    ``CRASHED``: the engine exited unexpectedly; with ``EngineStatus.final`` it is restarted only by
    command.
    """

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    UNUSABLE = "unusable"
    CRASHED = "crashed"


@dataclass(frozen=True)
class EngineStatus:
    """The status of an engine, as shown to users; ``message`` explains it in a sentence."""

    state: EngineState
    message: str
    next_step: str = ""
    torch: str = ""
    """Version of torch; empty until the engine has imported it."""
    python: str = ""
    interpreter: str = ""
    pid: int = 0
    degraded: tuple[Degraded, ...] = ()
    untested: bool = False
    """True if fullgraph was not tested with a torch as new as this one."""
    sandbox: SandboxLevel = dataclasses.field(default_factory=SandboxLevel)
    """Mechanisms that protect the machine from user code; empty until the engine reports them."""
    quiet: bool = False
    """True if no notification should be shown, because the user knows the problem or it may be
    temporary.
    """
    final: bool = True
    """False if the status will change by itself, such as after a crash with an automatic
    restart.
    """


class _EngineFailure:
    """A failure after which the engine is only restarted by command, or after a change of its
    packages or a waiting time.
    """

    def __init__(self, interpreter: Path, before: _EngineFailure | None) -> None:
        self._interpreter = interpreter
        self._packages = packages_state(interpreter)
        self._at = time.monotonic()
        self._wait: float = LOOK_AGAIN
        if before is not None:
            self._wait = min(before._wait * 2, LONGEST_WAIT)

    def has_changed(self) -> bool:
        return packages_state(self._interpreter) != self._packages

    def may_be_over(self) -> bool:
        return time.monotonic() - self._at > self._wait or self.has_changed()


class EngineGone(Exception):
    """An error if the engine ended before it answered; contains the reason as a sentence and what
    the user can do.
    """

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(sentences(reason, next_step))
        self.reason = reason
        self.next_step = next_step


_Request = TypeVar("_Request", Analyze, Reproduce, Compare)

LAST = (Analyzed, Reproduced, Compared, Failed)


class PendingRequest(Generic[_Request]):
    """A request to the engine, which receives the engine's events for it; a last event arrives even
    if the engine dies.
    """

    def __init__(self, request: _Request, cancel: Callable[[PendingRequest[Any]], None]) -> None:
        self.request: _Request = request
        self._cancel_request = cancel
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._ended = False
        self._exhausted = False
        self.cancelled = False
        self.restarted = False
        """True if the engine died while it worked on the request, so that the request was sent
        again.
        """

    def cancel(self) -> None:
        """Cancel the engine's work on the request; its last event still arrives."""
        if not self.cancelled and not self._ended:
            self.cancelled = True
            self._cancel_request(self)

    def abandon(self) -> None:
        """End the request now with a last event, even if the engine is still working on it."""
        self.cancel()
        self.put_event(self.cancellation_event())

    def mark_sent(self) -> None:
        """Record that the request was sent to the engine process; called by ``Engine`` only."""

    def cancellation_event(self) -> Event:
        """Return the last event of a cancelled request that the engine cannot answer."""
        raise NotImplementedError

    @property
    def ended(self) -> bool:
        return self._ended

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._exhausted:
            raise StopAsyncIteration
        event = await self._events.get()
        self._exhausted = isinstance(event, LAST)
        return event

    def put_event(self, event: Event) -> None:
        """Add an event of the engine process to this request; called by ``Engine`` only."""
        if self._ended:
            return
        self._ended = isinstance(event, LAST)
        self._events.put_nowait(event)


class AnalysisRequest(PendingRequest[Analyze]):
    """A request to trace a text; its last event is ``Analyzed`` or ``Failed``. The event
    ``Restarted`` makes all earlier events invalid.
    """

    def restart(self) -> bool:
        """Prepare the request to be sent again after the engine died; return False if this happened
        before or the request is cancelled.
        """
        if self.restarted or self.cancelled:
            return False
        self.restarted = True
        self.put_event(Restarted(self.request.request))
        return True

    def cancellation_event(self) -> Event:
        return Analyzed(self.request.request, self.request.generation, 0.0, cancelled=True)


class ReproductionRequest(PendingRequest[Reproduce]):
    """A request for a repro (a short script that shows a finding); its last event is ``Reproduced``
    or ``Failed``.
    """

    def __init__(self, request: Reproduce, cancel: Callable[[PendingRequest[Any]], None]) -> None:
        super().__init__(request, cancel)
        self.found: ReproFound | None = None
        """Best script that the engine has sent so far, available even if the engine died later."""
        self.progress: ReproProgress | None = None
        self.overdue = False
        """True if the request was cancelled because it exceeded its time limit."""

    def cancellation_event(self) -> Event:
        known, found = self.progress, self.found
        return Reproduced(
            self.request.request,
            known.seconds if known is not None else 0.0,
            known.tried if known is not None else 0,
            verified=found is not None and found.verified,
            cancelled=True,
        )

    def mark_sent(self) -> None:
        seconds = self.request.seconds + OVERDUE_GRACE
        asyncio.get_running_loop().call_later(seconds, self._end_overdue)

    def _end_overdue(self) -> None:
        self.overdue = not self.ended and not self.cancelled
        self.cancel()

    def put_event(self, event: Event) -> None:
        if isinstance(event, ReproFound):
            self.found = event
        elif isinstance(event, ReproProgress):
            self.progress = event
        super().put_event(event)


class ComparisonRequest(PendingRequest[Compare]):
    """A request to compare two texts; its last event is ``Compared`` or ``Failed``."""

    def cancellation_event(self) -> Event:
        reason = "The comparison was cancelled."
        return Compared(self.request.request, "unverified", reason=reason, cancelled=True)


@dataclass(frozen=True)
class EngineListener:
    """The receiver of an engine's events. Without ``index`` the engine does not build an index of
    torch's operators.
    """

    status: Callable[[EngineStatus], None] = lambda status: None
    log: Callable[[Log], None] = lambda log: None
    index: Callable[[IndexWritten], None] | None = None


class AnyEngine(abc.ABC):
    """An engine that works on requests, in a child process or in a shared background process."""

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
        """Restart the engine by command: end all work and forget earlier crashes."""

    @abc.abstractmethod
    def reconsider(self) -> None:
        """Start a failed engine again if the cause of the failure may have been removed."""

    @abc.abstractmethod
    async def ready(self) -> EngineStatus:
        """Wait until the engine is ready, unusable, or crashed without an automatic restart; return
        this status.
        """

    def analyze(self, request: Analyze) -> AnalysisRequest:
        """Send a request to trace a text, under a new request number; return the object that
        receives its events.
        """
        number = next(self._requests)
        analysis = AnalysisRequest(
            dataclasses.replace(request, request=number), self._cancel_request
        )
        self._submit_request(analysis)
        return analysis

    def reproduce(self, request: Reproduce) -> ReproductionRequest:
        """Send a request for a repro, under a new request number; return the object that receives
        its events.
        """
        number = next(self._requests)
        reproduction = ReproductionRequest(
            dataclasses.replace(request, request=number), self._cancel_request
        )
        self._submit_request(reproduction)
        return reproduction

    def compare(self, request: Compare) -> ComparisonRequest:
        """Send a request to compare two texts, under a new request number; return the object that
        receives its events.
        """
        number = next(self._requests)
        comparison = ComparisonRequest(
            dataclasses.replace(request, request=number), self._cancel_request
        )
        self._submit_request(comparison)
        return comparison

    @abc.abstractmethod
    async def close(self, *, stay: bool = True) -> None:
        """End all work of this client and the engine process; with ``stay`` a shared process keeps
        running for other clients.
        """

    @abc.abstractmethod
    def kill(self) -> None:
        """End all work and the engine process immediately, without an event loop."""

    @abc.abstractmethod
    def _submit_request(self, asked: PendingRequest[Any]) -> None: ...

    @abc.abstractmethod
    def _cancel_request(self, asked: PendingRequest[Any]) -> None: ...


class Engine(AnyEngine):
    """A private engine: the child process of one interpreter. All methods run on the event loop
    that started it.

    Requests wait in this object during the import of torch, so that cancelling them is cheap. A
    dead engine is restarted after a growing delay, and its status reports this. Trace requests that
    were running are sent again one at a time, because one of them may have caused the crash.
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
        self._waiting: dict[int, PendingRequest[Any]] = {}
        self._sent: dict[int, PendingRequest[Any]] = {}
        self._checks: dict[int, asyncio.Future[SelfChecked]] = {}
        self._deaths = 0
        self._failed: _EngineFailure | None = None
        """Last failure; None unless the engine waits for a change of its packages or a restart
        command.
        """
        self._last_failure: _EngineFailure | None = None
        self._look: asyncio.TimerHandle | None = None
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
        """Wait until the engine is ready, unusable, or crashed without an automatic restart; return
        this status.
        """
        await self._settled.wait()
        return self._status

    def _submit_request(self, asked: PendingRequest[Any]) -> None:
        number, state = asked.request.request, self._status.state
        if self._status.final and state not in (EngineState.STARTING, EngineState.READY):
            asked.put_event(Failed(number, self._status.message, self._status.next_step))
        else:
            self._waiting[number] = asked
            self._send_waiting()

    def _send_waiting(self) -> None:
        process = self._process
        if self._status.state is not EngineState.READY or process is None:
            return
        # Send low-priority requests, which may take minutes, after all requests that may have
        # caused a crash.
        suspects: list[PendingRequest[Any]] = [
            asked
            for asked in self._waiting.values()
            if isinstance(asked, AnalysisRequest) and asked.restarted and not asked.request.nice
        ]
        if suspects and self._sent:
            return
        for asked in suspects[:1] or list(self._waiting.values()):
            del self._waiting[asked.request.request]
            self._send_request(process, asked)

    def _send_request(self, process: EngineProcess, asked: PendingRequest[Any]) -> None:
        self._sent[asked.request.request] = asked
        process.send(asked.request)
        asked.mark_sent()

    async def self_check(self) -> SelfChecked:
        """Return the engine's report about the hooks into torch that work with the installed
        version.

        Raises:
            EngineGone: The engine is unavailable.
        """
        status = await self.ready()
        if status.state is not EngineState.READY or self._process is None:
            raise EngineGone(status.message, status.next_step)
        number = next(self._requests)
        answer: asyncio.Future[SelfChecked] = asyncio.get_running_loop().create_future()
        self._checks[number] = answer
        self._process.send(SelfCheck(number))
        try:
            return await answer
        finally:
            self._checks.pop(number, None)

    async def restart(self) -> None:
        async with self._changing:
            await self._end_process()
            self._deaths = 0
            await self._spawn_process()

    async def close(self, *, stay: bool = True) -> None:
        """End the engine process and its children; ``stay`` is ignored, because other clients
        cannot use them.
        """
        async with self._changing:
            await self._end_process()
            self._fail_all("The engine was stopped.", "Try again.")
            self._set_status(EngineState.STOPPED, "The engine is not running.")

    def reconsider(self) -> None:
        """Restart a failed engine if packages of its interpreter have changed, or if its waiting
        time has passed.
        """
        if self._failed is not None and self._failed.may_be_over():
            self._try_again()

    def _look_again(self) -> None:
        """Restart a failed engine if packages of its interpreter have changed, such as after
        installing torch.
        """
        if self._failed is not None and self._failed.has_changed():
            self._try_again()
        else:
            self._look = asyncio.get_running_loop().call_later(LOOK_AGAIN, self._look_again)

    def _try_again(self) -> None:
        self._deaths, self._failed = 0, None
        # New requests wait until the restarted engine is ready.
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
            loop.call_later(LOOK_AT_PROCESS, self._end_stopped, self._process, False)
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
        self._fail_sent("The engine was restarted.", "Try again.")

    def _handle_event(self, process: EngineProcess, event: Event) -> None:
        if process is not self._process:
            # The event was sent by an earlier process that was replaced since.
            return
        if isinstance(event, Starting):
            if event.version != VERSION:
                self._give_up(
                    f"The engine speaks version {event.version} of the protocol, "
                    f"the server version {VERSION}.",
                    "Reinstall fullgraph and restart the editor.",
                )
                process.kill()
                return
            self._status = dataclasses.replace(self._status, python=event.python, pid=event.pid)
            self._set_status(EngineState.STARTING, f"Importing torch in {self.interpreter}.")
        elif isinstance(event, Ready):
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
        elif isinstance(event, SelfChecked):
            answer = self._checks.get(event.request)
            if answer is not None and not answer.done():
                answer.set_result(event)
        elif event.request in self._sent:
            asked = self._sent[event.request]
            if isinstance(event, LAST):
                del self._sent[event.request]
                if isinstance(event, (Analyzed, Reproduced, Compared)) and not event.cancelled:
                    self._deaths = 0
            asked.put_event(event)
            self._send_waiting()

    def _give_up(self, reason: str, next_step: str) -> None:
        """Mark the interpreter as unusable until the user changes something; ``reason`` and
        ``next_step`` are shown to the user.
        """
        self._set_status(EngineState.UNUSABLE, reason, next_step)
        self._fail_all(reason, next_step)

    def _end_silent(self, process: EngineProcess) -> None:
        if process is self._process and not self._status.python:
            self._give_up(
                f"{self.interpreter} has not started Python within {SILENCE:.0f} seconds.", CHOOSE
            )
            process.kill()

    def _end_stopped(self, process: EngineProcess, was_stopped: bool) -> None:
        """Kill an engine process that a signal such as SIGSTOP has paused, because it neither
        answers nor exits.

        ``was_stopped``: the previous check found it paused as well.
        """
        if process is not self._process:
            return
        is_stopped = process.is_stopped(starting=self._status.state is EngineState.STARTING)
        if is_stopped and was_stopped:
            process.kill()
        else:
            loop = asyncio.get_running_loop()
            loop.call_later(LOOK_AT_PROCESS, self._end_stopped, process, is_stopped)

    def _mention_long_import(self, process: EngineProcess) -> None:
        if process is self._process and self._status.state is EngineState.STARTING:
            self._set_status(
                EngineState.STARTING,
                f"{self.interpreter} has been importing torch for {LONG_IMPORT:.0f} seconds.",
                f"Wait for it, or find out what it does with `{self._import_command}`.",
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
                f"{self.interpreter} is no Python that the engine runs in: "
                f"it {_describe_exit(process)}.",
                CHOOSE,
            )
            return
        self._deaths += 1
        imported = bool(self._status.torch)
        # A crash during the import would happen again, unless the process was killed from outside.
        by_chance = imported or process.exit_status in _FROM_OUTSIDE
        if self._deaths > (len(self._back_off) if by_chance else 1):
            self._stay_dead(_describe_exit(process), imported, by_chance=by_chance)
            return
        message = f"The engine {_describe_exit(process)}."
        for number, asked in list(self._sent.items()):
            if isinstance(asked, AnalysisRequest) and asked.restart():
                self._waiting[number] = self._sent.pop(number)
        next_step = "It is started again by itself; the log has its last words."
        self._fail_sent(message, next_step)
        self._set_status(
            EngineState.CRASHED,
            message,
            next_step,
            final=False,
            quiet=self._deaths > 1 or not imported,
        )
        self._restart = asyncio.create_task(self._start_later(self._back_off[self._deaths - 1]))

    def _stay_dead(self, manner: str, imported: bool, *, by_chance: bool) -> None:
        """Report that the engine will not be restarted automatically, because it died too often or
        during the import of torch.
        """
        if by_chance:
            message = f"The engine {manner}."
            if not imported:
                message = f"The engine {manner} while it imported torch in {self.interpreter}."
            next_step = "Restart the engine by command; the log has its last words."
            self._set_status(EngineState.CRASHED, message, next_step)
            self._fail_all(message, next_step)
        else:
            self._give_up(
                f"The engine {manner} while it imported torch in {self.interpreter}.",
                f"Find out why with `{self._import_command}`, and reinstall torch.",
            )

    async def _start_later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._restart = None
        await self.start()

    # -- requests -----------------------------------------------------------------------------

    def _cancel_request(self, asked: PendingRequest[Any]) -> None:
        number = asked.request.request
        if self._waiting.pop(number, None) is not None:
            asked.put_event(asked.cancellation_event())
        elif number in self._sent and self._process is not None:
            process = self._process
            process.send(Cancel(number))
            asyncio.get_running_loop().call_later(CANCEL_GRACE, self._end_hung, process, asked)

    def _end_hung(self, process: EngineProcess, asked: PendingRequest[Any]) -> None:
        if not asked.ended and process is self._process:
            process.kill()

    def _fail_sent(self, reason: str, next_step: str) -> None:
        sent, self._sent = self._sent, {}
        for number, asked in sent.items():
            if asked.cancelled:
                asked.put_event(asked.cancellation_event())
            else:
                asked.put_event(Failed(number, reason, next_step))
        for answer in self._checks.values():
            if not answer.done():
                answer.set_exception(EngineGone(reason, next_step))

    def _fail_all(self, reason: str, next_step: str) -> None:
        self._fail_sent(reason, next_step)
        waiting, self._waiting = self._waiting, {}
        for number, asked in waiting.items():
            asked.put_event(Failed(number, reason, next_step))

    # -- status -------------------------------------------------------------------------------

    def _initial_status(self, state: EngineState, message: str) -> EngineStatus:
        # The status is not final, so that requests wait until the engine is started.
        return EngineStatus(state, message, interpreter=str(self.interpreter), final=False)

    def _note_failure(self, state: EngineState, final: bool) -> None:
        if self._look is not None:
            self._look.cancel()
        self._failed = None
        if final and state in (EngineState.UNUSABLE, EngineState.CRASHED):
            self._failed = self._last_failure = _EngineFailure(self.interpreter, self._last_failure)
            self._look = asyncio.get_running_loop().call_later(LOOK_AGAIN, self._look_again)
        elif state is EngineState.READY:
            self._last_failure = None

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
        self._note_failure(state, final)
        if state is EngineState.STARTING or not final:
            self._settled.clear()
        else:
            self._settled.set()
        self._listener.status(self._status)


def _describe_exit(process: EngineProcess) -> str:
    """Return how the engine process ended, to complete a sentence with the engine as its
    subject.
    """
    if process.broken:
        return f"said something that is not the protocol ({process.broken}) and was ended"
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
        return f"torch {event.torch} is ready, but does not show {', '.join(hidden)}."
    if event.untested:
        return (
            f"torch {event.torch} is ready. It is newer than any that fullgraph was tested with; "
            "a test program was seen completely."
        )
    return f"torch {event.torch} is ready."
