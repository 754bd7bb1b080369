"""Engines of the session (processes that trace files), one per interpreter and set of permissions,
and the indices of torch's operators that they report.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullgraph.engines import (
    AnyEngine,
    EarlyEngine,
    EngineListener,
    EngineState,
    EngineStatus,
    Interpreter,
    shared_or_own,
)
from fullgraph.operators.index import OperatorIndex
from fullgraph.session.indices import Indices
from fullgraph_engine.protocol import Allowed, Log


@dataclass(frozen=True)
class EngineKey:
    """The key of an engine: its interpreter and the permissions of the user code."""

    interpreter: Path
    allowed: Allowed


class EnginePool:
    """The engines of one session, started on demand, and the latest status of each.

    ``status_changed`` receives the key of an engine, its status and the previous status.
    ``recovered`` receives the key of an engine that became ready after a failure. ``log`` receives
    output of user code and notes about the engines.
    """

    def __init__(
        self,
        status_changed: Callable[[EngineKey, EngineStatus, EngineStatus | None], None],
        recovered: Callable[[EngineKey], None],
        log: Callable[[str], None],
        *,
        boot: Path | None = None,
        early: EarlyEngine | None = None,
    ) -> None:
        self._status_changed = status_changed
        self._recovered = recovered
        self._log = log
        self._warnings = WarningLog()
        self._boot = boot
        self._early = early
        """Engine that was started before any file was open; used for the first file with the same
        interpreter and settings.
        """
        self._engines: dict[EngineKey, AnyEngine] = {}
        self._statuses: dict[EngineKey, EngineStatus] = {}
        self._reasons: dict[Path, str] = {}
        self._failed: set[EngineKey] = set()
        """Keys of the engines that failed and have not become ready again."""
        self._indices = Indices(log)
        self._tasks: set[asyncio.Task[None]] = set()

    def get_engine(
        self, interpreter: Interpreter, processes: str, allowed: Allowed, keep: float
    ) -> AnyEngine:
        """Return the engine that runs in an interpreter; start it if needed.

        ``processes`` is the setting that selects how the engine starts processes, ``allowed`` the
        permissions of user code. ``keep``: seconds that an engine shared by commands and editors
        stays after its last client; 0 for an engine of this window alone.
        """
        key = EngineKey(interpreter.path, allowed)
        engine = self._engines.get(key)
        if engine is None:
            return self._start_engine(interpreter, processes, key, keep)
        engine.processes = processes
        engine.reconsider()
        return engine

    def _start_engine(
        self, interpreter: Interpreter, processes: str, key: EngineKey, keep: float
    ) -> AnyEngine:
        path = interpreter.path
        self._reasons[path] = interpreter.why
        self._log(f"Tracing with {path}: {interpreter.why}.")
        listener = EngineListener(
            lambda status: self._store_status(key, status),
            self.log_output,
            lambda event: self._in_background(self._indices.load_index(path, event)),
        )
        early, self._early = self._early, None
        fits = early is not None and (early.engine.processes, early.keep) == (processes, keep)
        wanted = early is not None and EngineKey(early.engine.interpreter, early.engine.allowed)
        if early is not None and fits and wanted == key:
            self._engines[key] = early.engine
            early.attach_listener(listener)
            return early.engine
        if early is not None:
            self._in_background(early.engine.close(stay=False))
        engine = shared_or_own(
            listener,
            path,
            keep=keep,
            boot=self._boot,
            processes=processes,
            allowed=key.allowed,
            on_note=self._log,
        )
        self._engines[key] = engine
        self._in_background(engine.start())
        return engine

    def _store_status(self, key: EngineKey, status: EngineStatus) -> None:
        before, self._statuses[key] = self._statuses.get(key), status
        if status.final and status.state in (EngineState.UNUSABLE, EngineState.CRASHED):
            self._failed.add(key)
        if key in self._engines:
            self._status_changed(key, status, before)
        if status.state is EngineState.READY and key in self._failed:
            self._failed.remove(key)
            self._recovered(key)

    def log_output(self, log: Log) -> None:
        """Log the output of user code, without warnings that were logged before."""
        text = self._warnings.without_known(log.text).rstrip("\n")
        if text:
            self._log(text)

    # -- status of engines --------------------------------------------------------------------

    def find_index(self, interpreter: Path) -> OperatorIndex | None:
        """Return the operator index of the torch in ``interpreter``; None until its engine has
        reported the index.
        """
        return self._indices.find_index(interpreter)

    def find_status(self, key: EngineKey) -> EngineStatus | None:
        """Return the latest status of the engine with this key; None before its first status."""
        return self._statuses.get(key)

    def explain_choice(self, interpreter: str) -> str:
        """Return a text about how ``interpreter`` was found, and which interpreters were tried
        before it.
        """
        return self._reasons.get(Path(interpreter), "")

    def all_statuses(self) -> tuple[EngineStatus, ...]:
        return tuple(engine.status for engine in self._engines.values())

    # -- shutdown -----------------------------------------------------------------------------

    def keep_only(self, keys: Iterable[EngineKey]) -> None:
        """Close all engines except for the ones with these keys."""
        keys = set(keys)
        interpreters = {key.interpreter for key in keys}
        for key in self._engines.keys() - keys:
            engine = self._engines.pop(key)
            self._statuses.pop(key, None)
            if key.interpreter not in interpreters:
                self._indices.forget_index(key.interpreter)
            self._in_background(engine.close())

    async def restart_all(self) -> None:
        """Restart every engine."""
        await asyncio.gather(*(engine.restart() for engine in self._engines.values()))

    async def close_all(self) -> None:
        """Close all engines."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(
            *(engine.close() for engine in self._all_engines()), return_exceptions=True
        )

    def _all_engines(self) -> tuple[AnyEngine, ...]:
        early = (self._early.engine,) if self._early is not None else ()
        return (*self._engines.values(), *early)

    def _in_background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_PYTHON = re.compile(r"^\S.*:\d+: \w*Warning: .*$")
_TORCH = re.compile(r"^W\d{4} [\d:.]+ \d+ (?P<said>.*)$")

MOST_KNOWN = 1000
"""Maximum number of warnings to remember, so that repetitions are recognized."""


class WarningLog:
    """A filter that removes warnings from output if the same warning was logged before."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def without_known(self, text: str) -> str:
        """Return output without warnings that were logged before, and without the lines of code
        printed below them.
        """
        kept = []
        dropping = False
        for line in text.split("\n"):
            if (said := _warning_key(line)) is not None:
                dropping = said in self._known
                if len(self._known) < MOST_KNOWN:
                    self._known.add(said)
            elif not line.startswith("  "):
                dropping = False
            if not dropping:
                kept.append(line)
        return "\n".join(kept)


def _warning_key(line: str) -> str | None:
    """Return the warning in a line of output, without time and process number; None for lines
    without a warning.
    """
    if _PYTHON.match(line):
        return line
    match = _TORCH.match(line)
    return match["said"] if match else None
