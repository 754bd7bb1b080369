"""Publish findings to the client, by pushing diagnostics or by asking the client to pull them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from lsprotocol import types

from fullgraph.lsp.connection import ClientConnection
from fullgraph.lsp.diagnostics import DiagnosticBuilder, result_id
from fullgraph.lsp.server_capabilities import CHANGED
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.session import Session

PAUSE = 0.05
"""Minimum seconds between two pushes of diagnostics while a trace reports findings."""

REFRESH_PAUSE = 0.2
"""Minimum seconds between two requests that ask the client to pull; each makes the client pull
every open file."""

LENS_PAUSE = 3.0
"""Minimum seconds between two requests to refresh lenses while a trace reports findings. VS Code
waits for a pause between these requests, of a quarter of a second or more, before it pulls lenses.
"""

_PAUSE_FACTOR = 4
"""Ratio of the pause after a publication to the seconds that building its diagnostics took."""


class Publication:
    """Publishes findings to one client: the first change immediately, changes that follow within a
    pause together."""

    def __init__(self, connection: ClientConnection, session: Session) -> None:
        self._connection = connection
        self._session = session
        self._build_seconds = 0.0
        self._due: dict[str, AnalysisUnit] = {}
        self._pause_timer: asyncio.TimerHandle | None = None
        self._lens_timer: asyncio.TimerHandle | None = None
        self._are_lenses_due = False
        self._published: dict[str, tuple[int, str]] = {}
        self.diagnostics = DiagnosticBuilder(session)

    @property
    def _client(self) -> ClientCapabilities:
        return self._session.client

    def publish_changes(self, unit: AnalysisUnit, *, final: bool) -> None:
        """Publish the findings of a file; unless ``final`` (its trace has ended), wait for the end
        of the current pause."""
        self._due[unit.document.uri] = unit
        if final and self._client.inlay_hint_refresh:
            self._connection.request_in_background(types.WORKSPACE_INLAY_HINT_REFRESH, None)
        if final or self._pause_timer is None:
            self._publish_due(final=final)

    def notify_changed(self, unit: AnalysisUnit) -> None:
        """Notify a client with a trace view: fixes of a file were found."""
        if self._client.changed:
            self._connection.notify(CHANGED, {"uri": unit.document.uri, "final": False})

    def clear_file(self, uri: str) -> None:
        """Clear the diagnostics of a closed file."""
        self._due.pop(uri, None)
        if self._published.pop(uri, None) is not None:
            self._connection.notify(
                types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, types.PublishDiagnosticsParams(uri, [])
            )

    def answer_pull(self, unit: AnalysisUnit | None, previous: str | None) -> Any:
        """Answer a request of the client to pull diagnostics; ``previous`` is the result id of the
        client's last answer.

        ``unit`` is the open file, None if it is not open.
        """
        items = self._build_items(unit) if unit is not None else []
        identity = result_id(items)
        if identity == previous:
            return {"kind": "unchanged", "resultId": identity}
        return {"kind": "full", "resultId": identity, "items": items}

    def _build_items(self, unit: AnalysisUnit) -> list[dict[str, Any]]:
        began = time.perf_counter()
        build = self.diagnostics.for_finding
        diagnostics = [build(item, unit.document) for item in unit.view.findings()]
        items = [self._connection.to_json_data(item) for item in diagnostics]
        self._build_seconds = time.perf_counter() - began
        return items

    def _publish_due(self, *, final: bool = False) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
        least = REFRESH_PAUSE if self._client.pull_diagnostics else PAUSE
        pause = max(least, _PAUSE_FACTOR * self._build_seconds)
        self._pause_timer = asyncio.get_running_loop().call_later(pause, self._end_pause)
        due, self._due = self._due, {}
        if self._client.changed:
            for uri in due:
                self._connection.notify(CHANGED, {"uri": uri, "final": final})
        if self._client.pull_diagnostics:
            self._connection.request_in_background(types.WORKSPACE_DIAGNOSTIC_REFRESH, None)
        else:
            for unit in due.values():
                self._push_file(unit)
        if self._client.code_lens_refresh:
            self._refresh_lenses(final=final)

    def _refresh_lenses(self, *, final: bool) -> None:
        """Request a refresh of lenses: now if the trace has ended, else after the current pause."""
        if self._lens_timer is not None and not final:
            self._are_lenses_due = True
            return
        if self._lens_timer is not None:
            self._lens_timer.cancel()
        self._are_lenses_due = False
        self._lens_timer = asyncio.get_running_loop().call_later(LENS_PAUSE, self._end_lens_pause)
        self._connection.request_in_background(types.WORKSPACE_CODE_LENS_REFRESH, None)

    def _end_lens_pause(self) -> None:
        self._lens_timer = None
        if self._are_lenses_due:
            self._refresh_lenses(final=False)

    def _end_pause(self) -> None:
        self._pause_timer = None
        if self._due:
            self._publish_due()

    def _push_file(self, unit: AnalysisUnit) -> None:
        document = unit.document
        items = self._build_items(unit)
        state = document.version, result_id(items)
        last = self._published.get(document.uri)
        # Before the end of the first trace, an empty list would claim that the file is free of
        # findings.
        if last == state or (last is None and not items and (unit.busy or unit.waiting)):
            return
        self._published[document.uri] = state
        params: dict[str, Any] = {"uri": document.uri, "diagnostics": items}
        if self._client.diagnostic_version:
            params["version"] = document.version
        self._connection.notify(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, params)
