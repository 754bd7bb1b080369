"""One engine for each interpreter that traces an open text, with its operator index."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fullgraph.engines import (
    EarlyEngine,
    Engine,
    EngineListener,
    EngineState,
    EngineStatus,
    Interpreter,
)
from fullgraph.operators.index import OperatorIndex
from fullgraph.session.indices import Indices
from fullgraph_engine.protocol import Log


class EnginePool:
    """Starts engines when they are asked for, and keeps what they said last.

    ``status_changed`` is called with an interpreter, its engine's state and the one before;
    ``recovered`` with one whose engine is ready after it could not be used; ``log`` with what
    users' programs print and what is remarkable here.
    """

    def __init__(
        self,
        status_changed: Callable[[Path, EngineStatus, EngineStatus | None], None],
        recovered: Callable[[Path], None],
        log: Callable[[str], None],
        *,
        boot: Path | None = None,
        early: EarlyEngine | None = None,
    ) -> None:
        self._status_changed = status_changed
        self._recovered = recovered
        self._log = log
        self._boot = boot
        self._early = early
        """Until some text needs an engine: it is this one, or not of the right interpreter."""
        self._engines: dict[Path, Engine] = {}
        self._statuses: dict[Path, EngineStatus] = {}
        self._reasons: dict[Path, str] = {}
        self._failed: set[Path] = set()
        """Interpreters whose engines could not be used, and were not ready since."""
        self._indices = Indices(log)
        self._tasks: set[asyncio.Task[None]] = set()

    def engine(self, interpreter: Interpreter, processes: str) -> Engine:
        """The engine of an interpreter, started if there is none yet."""
        engine = self._engines.get(interpreter.path)
        if engine is None:
            return self._started(interpreter, processes)
        engine.processes = processes
        engine.reconsider()
        return engine

    def _started(self, interpreter: Interpreter, processes: str) -> Engine:
        path = interpreter.path
        self._reasons[path] = interpreter.why
        self._log(f"Tracing with {path}: {interpreter.why}.")
        listener = EngineListener(
            lambda status: self._status(path, status),
            self.log,
            lambda event: self._in_background(self._indices.read(path, event)),
        )
        early, self._early = self._early, None
        fits = early is not None and early.engine.processes == processes
        if early is not None and fits and early.engine.interpreter == path:
            self._engines[path] = early.engine
            early.hear(listener)
            return early.engine
        if early is not None:
            self._in_background(early.engine.close())
        engine = self._engines[path] = listener.engine(path, self._boot, processes)
        self._in_background(engine.start())
        return engine

    def _status(self, path: Path, status: EngineStatus) -> None:
        before, self._statuses[path] = self._statuses.get(path), status
        if status.final and status.state in (EngineState.UNUSABLE, EngineState.CRASHED):
            self._failed.add(path)
        if path in self._engines:
            self._status_changed(path, status, before)
        if status.state is EngineState.READY and path in self._failed:
            self._failed.remove(path)
            self._recovered(path)

    def log(self, log: Log) -> None:
        """What a user's program printed."""
        self._log(log.text.rstrip("\n"))

    # -- what is known of them ----------------------------------------------------------------

    def index(self, interpreter: Path) -> OperatorIndex | None:
        """The operators of an interpreter's torch; None before they are known."""
        return self._indices.of(interpreter)

    def status(self, interpreter: Path) -> EngineStatus | None:
        """What its engine said last; None before it said anything."""
        return self._statuses.get(interpreter)

    def why(self, interpreter: str) -> str:
        """How an interpreter that traces was found, and which were passed over."""
        return self._reasons.get(Path(interpreter), "")

    def statuses(self) -> tuple[EngineStatus, ...]:
        return tuple(engine.status for engine in self._engines.values())

    # -- ending them --------------------------------------------------------------------------

    def keep(self, interpreters: Iterable[Path]) -> None:
        """End the engines of all other interpreters: no text needs them any more."""
        for path in self._engines.keys() - set(interpreters):
            engine = self._engines.pop(path)
            self._statuses.pop(path, None)
            self._indices.forget(path)
            self._in_background(engine.close())

    async def restart(self) -> None:
        """Start every engine afresh."""
        await asyncio.gather(*(engine.restart() for engine in self._engines.values()))

    async def close(self) -> None:
        """End all of them."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*(engine.close() for engine in self._all()), return_exceptions=True)

    def kill(self) -> None:
        """End them at once, where there is no loop any more to wait on."""
        for engine in self._all():
            engine.kill()

    def _all(self) -> tuple[Engine, ...]:
        early = (self._early.engine,) if self._early is not None else ()
        return (*self._engines.values(), *early)

    def _in_background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
