"""Engines that stay alive between tool calls, lent to one call at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any, TypeVar

from fullgraph.cli.file_settings import FileSettings
from fullgraph.cli.project import engine_for, engine_key
from fullgraph.engines import (
    AnalysisRequest,
    AnyEngine,
    ComparisonRequest,
    EngineState,
    EngineStatus,
    ReproductionRequest,
)
from fullgraph.engines.requests import PendingRequest
from fullgraph_engine.protocol import Analyze, Compare, Reproduce

_Pending = TypeVar("_Pending", bound=PendingRequest[Any])

RETRACED = (
    "The engine process ended during this call; it was restarted and the code was traced again."
)
"""Remark in the answer of a call whose engine process died."""


class LentEngine:
    """An engine for one tool call; killing or closing it only cancels the requests of this call.

    It implements :class:`fullgraph.cli.check.CheckEngine`.
    """

    def __init__(self, engine: AnyEngine, changing: asyncio.Lock) -> None:
        self._engine = engine
        self._changing = changing
        self._requests: list[PendingRequest[Any]] = []

    @property
    def restarted(self) -> bool:
        """Whether the engine process died while it traced a file for this call."""
        return any(getattr(request, "restarted", False) for request in self._requests)

    async def start(self) -> None:
        async with self._changing:
            status = self._engine.status
            if status.final and status.state in (EngineState.CRASHED, EngineState.UNUSABLE):
                # If the engine failed for good in an earlier call, start it again, so that this
                # call does not fail too.
                await self._engine.restart()
            else:
                await self._engine.start()

    async def ready(self) -> EngineStatus:
        return await self._engine.ready()

    def analyze(self, request: Analyze) -> AnalysisRequest:
        return self._note_request(self._engine.analyze(request))

    def compare(self, request: Compare) -> ComparisonRequest:
        return self._note_request(self._engine.compare(request))

    def reproduce(self, request: Reproduce) -> ReproductionRequest:
        return self._note_request(self._engine.reproduce(request))

    def _note_request(self, request: _Pending) -> _Pending:
        self._requests.append(request)
        return request

    async def close(self) -> None:
        self.kill()

    def kill(self) -> None:
        for request in self._requests:
            request.cancel()


class EnginePool:
    """The engines of a server, one for each interpreter and set of permissions."""

    def __init__(self) -> None:
        self._engines: dict[Hashable, tuple[AnyEngine, asyncio.Lock]] = {}

    def lend(self, own: FileSettings) -> LentEngine:
        """Return the engine for the settings of a file, for one tool call.

        Raises:
            EngineUnusable: No interpreter was found.
        """
        key = engine_key(own.settings, own.project), own.project.root
        if key not in self._engines:
            self._engines[key] = engine_for(own.settings, own.project), asyncio.Lock()
        return LentEngine(*self._engines[key])

    def kill(self) -> None:
        """Kill the engine processes of this server immediately, and leave shared engines."""
        for engine, _ in self._engines.values():
            engine.kill()

    async def close(self) -> None:
        """Stop the engine processes of this server, and leave shared engines."""
        self.kill()
        for engine, _ in self._engines.values():
            await engine.close()
        self._engines.clear()
