"""The engine of one interpreter: started, spoken to, watched and restarted."""

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
"""Seconds from a failure until the engine is tried again when a text asks for it, which double."""

BACK_OFF = (0.5, 2.0, 8.0)
"""Seconds before each restart; an analysis that succeeds begins anew, after the last it stays."""

CANCEL_GRACE = 5.0
"""Seconds within which a cancelled request must have ended; else the engine hangs."""

OVERDUE_GRACE = 10.0
"""Seconds by which a repro may take longer than it was given; then it is cancelled."""

CLOSE_GRACE = 2.0

_FROM_OUTSIDE = tuple(-number for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP))
"""Exit statuses of a process that something else has ended, such as the kernel without memory."""

LOOK_AT_PROCESS = 1.0
"""Seconds between two looks at whether the process is stopped; it is ended after the second."""

SILENCE = 30.0
"""Seconds within which an interpreter must have begun to execute the engine."""

LONG_IMPORT = 120.0
"""Seconds after which an import of torch is worth a word; it may be one over a slow network."""

USE_WSL = "Run fullgraph in WSL; VS Code opens a folder there with its WSL extension."
CHOOSE = "Set `fullgraph.interpreter` to Python 3.10 or newer with torch 2.8 or newer."


class EngineState(enum.Enum):
    """What an engine is doing.

    ``UNUSABLE``: this interpreter runs no engine until the user changes something. ``CRASHED``: the
    engine exited by itself; ``EngineStatus.final``: it is not restarted without a command.
    """

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    UNUSABLE = "unusable"
    CRASHED = "crashed"


@dataclass(frozen=True)
class EngineStatus:
    """What a user may want to know of an engine; ``message`` is a sentence."""

    state: EngineState
    message: str
    next_step: str = ""
    torch: str = ""
    """Its version, as soon as it has been imported."""
    python: str = ""
    interpreter: str = ""
    pid: int = 0
    degraded: tuple[Degraded, ...] = ()
    untested: bool = False
    """Its torch is newer than any that fullgraph was tested with."""
    sandbox: SandboxLevel = dataclasses.field(default_factory=SandboxLevel)
    """What its user code is kept from the rest of the machine by; no layers until it is known."""
    quiet: bool = False
    """No news for a user: it was reported before, or may be over by itself soon."""
    final: bool = True
    """False for a crash after which the engine will be started again by itself."""


class _EngineFailure:
    """An engine that is not started again by itself, since ``at`` by the monotonic clock."""

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
    """The engine ended before it answered. One sentence, and the next step."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(sentences(reason, next_step))
        self.reason = reason
        self.next_step = next_step


_Request = TypeVar("_Request", Analyze, Reproduce, Compare)

LAST = (Analyzed, Reproduced, Compared, Failed)


class PendingRequest(Generic[_Request]):
    """The events of one request; the last ends it, and always comes."""

    def __init__(self, request: _Request, cancel: Callable[[PendingRequest[Any]], None]) -> None:
        self.request: _Request = request
        self._cancel_request = cancel
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._ended = False
        self._exhausted = False
        self.cancelled = False
        self.restarted = False
        """The engine died over it, and it is sent once more."""

    def cancel(self) -> None:
        """End the work behind it. The last event still comes."""
        if not self.cancelled and not self._ended:
            self.cancelled = True
            self._cancel_request(self)

    def abandon(self) -> None:
        """End it now, whatever the engine still does for it."""
        self.cancel()
        self.put_event(self.cancellation_event())

    def mark_sent(self) -> None:
        """The engine has it, for the engine alone."""

    def cancellation_event(self) -> Event:
        """The last event of a cancelled request, where the engine cannot say it."""
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
        """For the engine alone."""
        if self._ended:
            return
        self._ended = isinstance(event, LAST)
        self._events.put_nowait(event)


class AnalysisRequest(PendingRequest[Analyze]):
    """The last event is ``Analyzed`` or ``Failed``. After ``Restarted`` it begins anew."""

    def restart(self) -> bool:
        """Have it made once more; False if that has been done, or nobody waits for it."""
        if self.restarted or self.cancelled:
            return False
        self.restarted = True
        self.put_event(Restarted(self.request.request))
        return True

    def cancellation_event(self) -> Event:
        return Analyzed(self.request.request, self.request.generation, 0.0, cancelled=True)


class ReproductionRequest(PendingRequest[Reproduce]):
    """The last event is ``Reproduced`` or ``Failed``; what was found until then is kept."""

    def __init__(self, request: Reproduce, cancel: Callable[[PendingRequest[Any]], None]) -> None:
        super().__init__(request, cancel)
        self.found: ReproFound | None = None
        """The best script so far, also where the engine died over a better one."""
        self.progress: ReproProgress | None = None
        self.overdue = False
        """It was cancelled because it did not end in time by itself."""

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
    """The last event is ``Compared`` or ``Failed``."""

    def cancellation_event(self) -> Event:
        reason = "The comparison was cancelled."
        return Compared(self.request.request, "unverified", reason=reason, cancelled=True)


@dataclass(frozen=True)
class EngineListener:
    """Whoever hears what an engine says. Without ``index`` no operator index is made for it."""

    status: Callable[[EngineStatus], None] = lambda status: None
    log: Callable[[Log], None] = lambda log: None
    index: Callable[[IndexWritten], None] | None = None


class AnyEngine(abc.ABC):
    """What works on requests, in a process of ours or in one that stays for later ones."""

    def __init__(self, interpreter: Path, processes: str, allowed: Allowed) -> None:
        self.interpreter = interpreter
        self.processes = processes
        """How it starts others, from its own next start on: a setting's value."""
        self.allowed = allowed
        """What its user code may do beyond what every run may."""
        self._requests = itertools.count(1)

    @property
    @abc.abstractmethod
    def status(self) -> EngineStatus:
        """What it said last."""

    @abc.abstractmethod
    async def start(self) -> None:
        """Have a process work on requests; returns before torch is imported."""

    @abc.abstractmethod
    async def restart(self) -> None:
        """Start afresh: forget crashes, end what runs."""

    @abc.abstractmethod
    def reconsider(self) -> None:
        """Start an engine again that would not start by itself, if that may help by now."""

    @abc.abstractmethod
    async def ready(self) -> EngineStatus:
        """The status once it is certain: ready, unusable, or crashed for good."""

    def analyze(self, request: Analyze) -> AnalysisRequest:
        """Trace a text. ``request.request`` is filled in here."""
        number = next(self._requests)
        analysis = AnalysisRequest(
            dataclasses.replace(request, request=number), self._cancel_request
        )
        self._submit_request(analysis)
        return analysis

    def reproduce(self, request: Reproduce) -> ReproductionRequest:
        """Make a small script of a finding. ``request.request`` is filled in here."""
        number = next(self._requests)
        reproduction = ReproductionRequest(
            dataclasses.replace(request, request=number), self._cancel_request
        )
        self._submit_request(reproduction)
        return reproduction

    def compare(self, request: Compare) -> ComparisonRequest:
        """Execute a text and a changed one. ``request.request`` is filled in here."""
        number = next(self._requests)
        comparison = ComparisonRequest(
            dataclasses.replace(request, request=number), self._cancel_request
        )
        self._submit_request(comparison)
        return comparison

    @abc.abstractmethod
    async def close(self, *, stay: bool = True) -> None:
        """End what it works on, and the process unless that is to ``stay`` for others."""

    @abc.abstractmethod
    def kill(self) -> None:
        """As ``close``, for those who have no time to wait."""

    @abc.abstractmethod
    def _submit_request(self, asked: PendingRequest[Any]) -> None: ...

    @abc.abstractmethod
    def _cancel_request(self, asked: PendingRequest[Any]) -> None: ...


class Engine(AnyEngine):
    """One engine host per interpreter. Everything happens on the loop that started it.

    Requests made while torch is being imported wait here, so that cancelling them costs nothing.
    An engine that dies is started again after a pause that grows; its status says so. Analyses
    that it died over are made once more, one at a time: one of them may be what it dies of.
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
        """It is not started again by itself, but may be when something has changed."""
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
        """The status once it is certain: ready, unusable, or crashed for good."""
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
        # What gives way to others may take minutes, and is sent when none of these is left.
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
        """Which hooks this torch has.

        Raises:
            EngineGone: there is no engine to ask.
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
        """End the process and everything it started: it is nobody else's."""
        async with self._changing:
            await self._end_process()
            self._fail_all("The engine was stopped.", "Try again.")
            self._set_status(EngineState.STOPPED, "The engine is not running.")

    def reconsider(self) -> None:
        """It may help once its interpreter's packages have changed, or some time has passed, which
        doubles each time."""
        if self._failed is not None and self._failed.may_be_over():
            self._try_again()

    def _look_again(self) -> None:
        """Torch may have been installed, or put right, while nobody does anything here."""
        if self._failed is not None and self._failed.has_changed():
            self._try_again()
        else:
            self._look = asyncio.get_running_loop().call_later(LOOK_AGAIN, self._look_again)

    def _try_again(self) -> None:
        self._deaths, self._failed = 0, None
        # What is asked from now on waits for it.
        self._status = dataclasses.replace(self._status, state=EngineState.STARTING, final=False)
        self._restart = asyncio.create_task(self._start_over())

    async def _start_over(self) -> None:
        self._restart = None
        async with self._changing:
            await self._end_process()
            await self._spawn_process()

    def kill(self) -> None:
        """As ``close``, for a server that has no time to wait."""
        if self._process is not None:
            self._process.kill()

    # -- the process --------------------------------------------------------------------------

    async def _spawn_process(self) -> None:
        if sys.platform.startswith("win"):
            self._give_up("The engine of fullgraph does not run on Windows.", USE_WSL)
            return
        # Nothing is known yet of what starts now: torch may have been removed meanwhile.
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
                # Making one is work for a processor that a short life may need otherwise.
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
            # Said before it was ended, read after.
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
        """This interpreter is of no use before somebody has done something about it."""
        self._set_status(EngineState.UNUSABLE, reason, next_step)
        self._fail_all(reason, next_step)

    def _end_silent(self, process: EngineProcess) -> None:
        if process is self._process and not self._status.python:
            self._give_up(
                f"{self.interpreter} has not started Python within {SILENCE:.0f} seconds.", CHOOSE
            )
            process.kill()

    def _end_stopped(self, process: EngineProcess, was_stopped: bool) -> None:
        """One that a signal has stopped answers nothing, and would not even end with the server."""
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
        # What an import does it does again; but it may have been ended from outside.
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
        """It died too often to be started again by itself."""
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

    # -- the status ---------------------------------------------------------------------------

    def _initial_status(self, state: EngineState, message: str) -> EngineStatus:
        # Not final: what is asked before the start waits for it.
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
    """How it ended, as the rest of a sentence."""
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
