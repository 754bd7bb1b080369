"""Progress of runs that take long enough to ask oneself what goes on."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fullgraph.render.documents import TITLES
from fullgraph.session.unit import Unit
from fullgraph_engine.protocol import Event, TargetDone, TargetsFound, TargetStarted
from fullgraph_engine.protocol.documents import DocumentKind

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

PATIENCE = 0.3
"""Seconds that a run may take before it is shown; most end sooner."""

_PAUSE = 0.1


class Progress:
    """One token for each run that is shown, made when it is needed and dropped at its end."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._tokens = itertools.count(1)
        self._bars: dict[Unit, _Bar] = {}
        self._readings: dict[_Bar, Callable[[], None]] = {}

    def began(self, unit: Unit) -> None:
        token = f"fullgraph/{next(self._tokens)}"
        name = unit.document.name.rsplit("/", 1)[-1]
        self._bars[unit] = _Bar(self._server, f"Tracing {name}", token)

    def advanced(self, unit: Unit, event: Event) -> None:
        if (bar := self._bars.get(unit)) is not None:
            bar.advance(event)

    def ended(self, unit: Unit) -> None:
        if (bar := self._bars.pop(unit, None)) is not None:
            bar.end()

    def reading(
        self, target: str, kind: DocumentKind, cancel: Callable[[], None]
    ) -> Callable[[], None]:
        """A document is being written; what is returned is to be called when it is."""
        if not self._server.session.client.work_done_progress:
            return lambda: None
        token = f"fullgraph/{next(self._tokens)}"
        bar = _Bar(self._server, f"Writing down {TITLES[kind]} of {target}", token)
        self._readings[bar] = cancel

        def end() -> None:
            del self._readings[bar]
            bar.end()

        return end

    def cancel(self, token: int | str) -> None:
        """The user pressed the button."""
        for unit, bar in list(self._bars.items()):
            if bar.token == token:
                unit.cancel()
        for reading, end in list(self._readings.items()):
            if reading.token == token:
                end()


class _Bar:
    def __init__(self, server: Server, title: str, token: str) -> None:
        self.token = token
        self._server = server
        self._title = title
        self._targets = 0
        self._done: set[str] = set()
        self._shown = False
        self._last = 0.0
        self._task = asyncio.create_task(self._show())

    async def _show(self) -> None:
        await asyncio.sleep(PATIENCE)
        params = types.WorkDoneProgressCreateParams(token=self.token)
        try:
            await self._server.protocol.ask(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params)
        except JsonRpcException:
            return
        self._shown = True
        status = self._server.session.status
        waiting = status.state.value == "starting"
        self._send(
            types.WorkDoneProgressBegin(
                title=self._title,
                cancellable=True,
                message="importing torch" if waiting else None,
                percentage=self._percentage(),
            )
        )

    def advance(self, event: Event) -> None:
        if isinstance(event, TargetsFound):
            self._targets = len(event.targets)
        elif isinstance(event, TargetDone):
            self._done.add(event.report.name)
        elif isinstance(event, TargetStarted):
            self._report(event.name)

    def _report(self, name: str) -> None:
        now = asyncio.get_running_loop().time()
        if not self._shown or now - self._last < _PAUSE:
            return
        self._last = now
        self._send(types.WorkDoneProgressReport(message=name, percentage=self._percentage()))

    def end(self) -> None:
        self._task.cancel()
        if self._shown:
            self._send(types.WorkDoneProgressEnd())

    def _percentage(self) -> int:
        return min(99, 100 * len(self._done) // self._targets) if self._targets else 0

    def _send(
        self,
        value: types.WorkDoneProgressBegin
        | types.WorkDoneProgressReport
        | types.WorkDoneProgressEnd,
    ) -> None:
        self._server.say(types.PROGRESS, types.ProgressParams(token=self.token, value=value))
