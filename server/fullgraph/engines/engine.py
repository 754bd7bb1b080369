"""The engine of one interpreter: started, spoken to, watched and restarted."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import itertools
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from fullgraph.engines.process import EngineProcess, boot_script
from fullgraph_engine.protocol import (
    VERSION,
    Analyse,
    Analysed,
    Cancel,
    Event,
    Failed,
    IndexWritten,
    Log,
    Ready,
    SelfCheck,
    SelfChecked,
    Shutdown,
    Starting,
    Unusable,
)

BACK_OFF = (0.5, 2.0, 8.0)
"""Seconds before each restart; an analysis that succeeds begins anew, after the last it stays."""

CANCEL_GRACE = 5.0
"""Seconds within which a cancelled request must have ended; else the engine hangs."""

CLOSE_GRACE = 2.0


class EngineState(enum.Enum):
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
    python: str = ""
    interpreter: str = ""
    pid: int = 0
    degraded: tuple[str, ...] = ()
    repeated: bool = False
    """The same trouble was reported before, and nothing went well since."""
    final: bool = True
    """False for a crash after which the engine will be started again by itself."""


class EngineGone(Exception):
    """The engine ended before it answered. One sentence, and the next step."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(f"{reason} {next_step}".strip())
        self.reason = reason
        self.next_step = next_step


class Analysis:
    """The events of one request; the last is ``Analysed`` or ``Failed``, always."""

    def __init__(self, request: Analyse, cancel: Callable[[Analysis], None]) -> None:
        self.request = request
        self._cancel = cancel
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._ended = False
        self._exhausted = False
        self.cancelled = False

    def cancel(self) -> None:
        """End the work behind it. The last event still comes."""
        if not self.cancelled and not self._ended:
            self.cancelled = True
            self._cancel(self)

    @property
    def ended(self) -> bool:
        return self._ended

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._exhausted:
            raise StopAsyncIteration
        event = await self._events.get()
        self._exhausted = isinstance(event, (Analysed, Failed))
        return event

    def put(self, event: Event) -> None:
        """For the engine alone."""
        if self._ended:
            return
        self._ended = isinstance(event, (Analysed, Failed))
        self._events.put_nowait(event)


class Engine:
    """One engine host per interpreter. Everything happens on the loop that started it.

    Requests made while torch is being imported wait here, so that cancelling them costs nothing.
    An engine that dies is started again after a pause that grows; ``on_status`` says so.
    """

    def __init__(
        self,
        interpreter: Path,
        *,
        on_status: Callable[[EngineStatus], None],
        on_log: Callable[[Log], None],
        on_index: Callable[[IndexWritten], None] | None = None,
        cwd: Path | None = None,
        boot: Path | None = None,
        back_off: tuple[float, ...] = BACK_OFF,
    ) -> None:
        self.interpreter = interpreter
        self._on_status = on_status
        self._on_log = on_log
        self._on_index = on_index
        self._cwd = cwd
        self._boot = boot
        self._back_off = back_off
        self._process: EngineProcess | None = None
        self._status = self._describe(EngineState.STOPPED, "The engine is not running.")
        self._settled = asyncio.Event()
        self._requests = itertools.count(1)
        self._waiting: dict[int, Analysis] = {}
        self._sent: dict[int, Analysis] = {}
        self._checks: dict[int, asyncio.Future[SelfChecked]] = {}
        self._deaths = 0
        self._restart: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()

    @property
    def status(self) -> EngineStatus:
        return self._status

    async def start(self) -> None:
        """Spawn the process; returns before torch is imported."""
        async with self._changing:
            if self._process is None:
                await self._spawn()

    async def ready(self) -> EngineStatus:
        """The status once it is certain: ready, unusable, or crashed for good."""
        await self._settled.wait()
        return self._status

    def analyse(self, request: Analyse) -> Analysis:
        """Trace a text. ``request.request`` is filled in here."""
        number = next(self._requests)
        analysis = Analysis(dataclasses.replace(request, request=number), self._cancel)
        state = self._status.state
        if state is EngineState.READY and self._process is not None:
            self._sent[number] = analysis
            self._process.send(analysis.request)
        elif self._status.final and state is not EngineState.STARTING:
            analysis.put(Failed(number, self._status.message, self._status.next_step))
        else:
            self._waiting[number] = analysis
        return analysis

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
        """Start afresh: forget crashes, end what runs."""
        async with self._changing:
            await self._end()
            self._deaths = 0
            await self._spawn()

    async def close(self) -> None:
        """End the process and everything it started."""
        async with self._changing:
            await self._end()
            self._fail_all("The engine was stopped.", "")
            self._become(EngineState.STOPPED, "The engine is not running.")

    def kill(self) -> None:
        """As ``close``, for a server that has no time to wait."""
        if self._process is not None:
            self._process.kill()

    # -- the process --------------------------------------------------------------------------

    async def _spawn(self) -> None:
        self._become(EngineState.STARTING, "Starting Python.")
        try:
            self._process = EngineProcess(
                self.interpreter,
                boot=self._boot or boot_script(),
                cwd=self._cwd,
                on_event=self._received,
                on_output=lambda text: self._on_log(Log(0, "engine", text)),
                on_death=self._died,
                # Making one is work for a processor that a short life may need otherwise.
                index=self._on_index is not None,
            )
            await self._process.start()
        except OSError as error:
            self._process = None
            reason = (
                str(error)
                if error.errno is None
                else f"The interpreter {self.interpreter} could not be started: {error.strerror}."
            )
            next_step = "Set `fullgraph.interpreter` to a Python that has torch."
            self._become(EngineState.UNUSABLE, reason, next_step)
            self._fail_all(reason, next_step)

    async def _end(self) -> None:
        if self._restart is not None:
            self._restart.cancel()
            self._restart = None
        process, self._process = self._process, None
        if process is not None:
            process.send(Shutdown())
            await process.close(CLOSE_GRACE)
        self._fail_sent("The engine was restarted.", "")

    def _received(self, process: EngineProcess, event: Event) -> None:
        if process is not self._process:
            # Said before it was ended, read after.
            return
        if isinstance(event, Starting):
            if event.version != VERSION:
                self._refuse(
                    f"The engine speaks version {event.version} of the protocol, "
                    f"the server version {VERSION}.",
                    "Reinstall fullgraph and restart the editor.",
                )
                return
            self._status = dataclasses.replace(self._status, python=event.python, pid=event.pid)
            self._become(EngineState.STARTING, f"Importing torch in {self.interpreter}.")
        elif isinstance(event, Ready):
            self._status = dataclasses.replace(
                self._status, torch=event.torch, degraded=event.degraded
            )
            self._become(EngineState.READY, f"torch {event.torch} is ready.")
            waiting, self._waiting = self._waiting, {}
            for number, analysis in waiting.items():
                self._sent[number] = analysis
                if self._process is not None:
                    self._process.send(analysis.request)
        elif isinstance(event, Unusable):
            self._become(EngineState.UNUSABLE, event.reason, event.next_step)
            self._fail_all(event.reason, event.next_step)
        elif isinstance(event, IndexWritten):
            if self._on_index is not None:
                self._on_index(event)
        elif isinstance(event, Log):
            self._on_log(event)
        elif isinstance(event, SelfChecked):
            answer = self._checks.get(event.request)
            if answer is not None and not answer.done():
                answer.set_result(event)
        elif event.request in self._sent:
            analysis = self._sent[event.request]
            if isinstance(event, (Analysed, Failed)):
                del self._sent[event.request]
                if isinstance(event, Analysed) and not event.cancelled:
                    self._deaths = 0
            analysis.put(event)

    def _refuse(self, reason: str, next_step: str) -> None:
        self._become(EngineState.UNUSABLE, reason, next_step)
        self._fail_all(reason, next_step)
        if self._process is not None:
            self._process.kill()

    def _died(self, process: EngineProcess) -> None:
        if process is not self._process:
            return
        self._process = None
        if self._status.state is EngineState.UNUSABLE:
            return
        self._deaths += 1
        message = f"The engine {_manner(process)}."
        again = self._deaths <= len(self._back_off)
        next_step = (
            "It is started again by itself; the log has its last words."
            if again
            else "Restart the engine by command; the log has its last words."
        )
        self._fail_sent(message, next_step)
        self._become(
            EngineState.CRASHED,
            message,
            next_step,
            final=not again,
            repeated=1 < self._deaths <= len(self._back_off),
        )
        if again:
            self._restart = asyncio.create_task(self._later(self._back_off[self._deaths - 1]))
        else:
            self._fail_all(message, next_step)

    async def _later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._restart = None
        await self.start()

    # -- requests -----------------------------------------------------------------------------

    def _cancel(self, analysis: Analysis) -> None:
        number = analysis.request.request
        if self._waiting.pop(number, None) is not None:
            analysis.put(Analysed(number, analysis.request.generation, 0.0, cancelled=True))
        elif number in self._sent and self._process is not None:
            process = self._process
            process.send(Cancel(number))
            asyncio.get_running_loop().call_later(CANCEL_GRACE, self._end_hung, process, analysis)

    def _end_hung(self, process: EngineProcess, analysis: Analysis) -> None:
        if not analysis.ended and process is self._process:
            process.kill()

    def _fail_sent(self, reason: str, next_step: str) -> None:
        sent, self._sent = self._sent, {}
        for number, analysis in sent.items():
            if analysis.cancelled:
                analysis.put(Analysed(number, analysis.request.generation, 0.0, cancelled=True))
            else:
                analysis.put(Failed(number, reason, next_step))
        for answer in self._checks.values():
            if not answer.done():
                answer.set_exception(EngineGone(reason, next_step))

    def _fail_all(self, reason: str, next_step: str) -> None:
        self._fail_sent(reason, next_step)
        waiting, self._waiting = self._waiting, {}
        for number, analysis in waiting.items():
            analysis.put(Failed(number, reason, next_step))

    # -- the status ---------------------------------------------------------------------------

    def _describe(self, state: EngineState, message: str) -> EngineStatus:
        # Not final: what is asked before the start waits for it.
        return EngineStatus(state, message, interpreter=str(self.interpreter), final=False)

    def _become(
        self,
        state: EngineState,
        message: str,
        next_step: str = "",
        *,
        final: bool = True,
        repeated: bool = False,
    ) -> None:
        self._status = dataclasses.replace(
            self._status,
            state=state,
            message=message,
            next_step=next_step,
            final=final,
            repeated=repeated,
        )
        if state is EngineState.STARTING or not final:
            self._settled.clear()
        else:
            self._settled.set()
        self._on_status(self._status)


def _manner(process: EngineProcess) -> str:
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
