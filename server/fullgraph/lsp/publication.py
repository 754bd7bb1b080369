"""How findings reach the client: pushed or pulled, never both."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from lsprotocol import types

from fullgraph.lsp.connection import Connection
from fullgraph.lsp.diagnostics import Diagnostics, result_id
from fullgraph.lsp.server_capabilities import CHANGED
from fullgraph.session.analysis_unit import Unit
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.session import Session

PAUSE = 0.05
"""Seconds between two publications while findings stream in."""

REFRESH_PAUSE = 0.2
"""Between two requests to pull again, each of which makes a client pull every open file."""

_REST = 4
"""How many times as long as it took to make diagnostics is left to everything else."""


class Publication:
    """Publishes the first change at once and what follows closely in one."""

    def __init__(self, connection: Connection, session: Session) -> None:
        self._connection = connection
        self._session = session
        self._cost = 0.0
        self._due: dict[str, Unit] = {}
        self._resting: asyncio.TimerHandle | None = None
        self._published: dict[str, tuple[int, str]] = {}
        self.diagnostics = Diagnostics(session)

    @property
    def _client(self) -> ClientCapabilities:
        return self._session.client

    def changed(self, unit: Unit, *, final: bool) -> None:
        """The findings of a file may have changed; ``final`` are not held back."""
        self._due[unit.document.uri] = unit
        if final and self._client.inlay_hint_refresh:
            self._connection.request_in_background(types.WORKSPACE_INLAY_HINT_REFRESH, None)
        if final or self._resting is None:
            self._flush(final=final)

    def closed(self, uri: str) -> None:
        """A file that is closed has no findings."""
        self._due.pop(uri, None)
        if self._published.pop(uri, None) is not None:
            self._connection.notify(
                types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, types.PublishDiagnosticsParams(uri, [])
            )

    def report(self, unit: Unit | None, previous: str | None) -> Any:
        """The answer to a pull."""
        items = self._items(unit) if unit is not None else []
        identity = result_id(items)
        if identity == previous:
            return {"kind": "unchanged", "resultId": identity}
        return {"kind": "full", "resultId": identity, "items": items}

    def _items(self, unit: Unit) -> list[dict[str, Any]]:
        began = time.perf_counter()
        made = self.diagnostics.of(unit, self._session.documents())
        items = [self._connection.plain(item) for item in made]
        self._cost = time.perf_counter() - began
        return items

    def _flush(self, *, final: bool = False) -> None:
        if self._resting is not None:
            self._resting.cancel()
        least = REFRESH_PAUSE if self._client.pull_diagnostics else PAUSE
        pause = max(least, _REST * self._cost)
        self._resting = asyncio.get_running_loop().call_later(pause, self._rested)
        due, self._due = self._due, {}
        if self._client.changed:
            for uri in due:
                self._connection.notify(CHANGED, {"uri": uri, "final": final})
        if self._client.pull_diagnostics:
            self._connection.request_in_background(types.WORKSPACE_DIAGNOSTIC_REFRESH, None)
        else:
            for unit in due.values():
                self._push(unit)
        if self._client.code_lens_refresh:
            self._connection.request_in_background(types.WORKSPACE_CODE_LENS_REFRESH, None)

    def _rested(self) -> None:
        self._resting = None
        if self._due:
            self._flush()

    def _push(self, unit: Unit) -> None:
        document = unit.document
        items = self._items(unit)
        state = document.version, result_id(items)
        last = self._published.get(document.uri)
        # Before the first run has ended, no findings means that nothing is known.
        if last == state or (last is None and not items and (unit.busy or unit.waiting)):
            return
        self._published[document.uri] = state
        params: dict[str, Any] = {"uri": document.uri, "diagnostics": items}
        if self._client.diagnostic_version:
            params["version"] = document.version
        self._connection.notify(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)
