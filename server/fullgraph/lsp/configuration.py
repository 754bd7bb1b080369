"""The client's settings, requested for each workspace folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fullgraph.lsp.connection import ClientConnection
from fullgraph.session.session import Session

SECTION = "fullgraph"
PATIENCE = 5.0
"""Seconds to wait for the client's settings before the previous settings are used."""


class Configuration:
    """The settings that the client sent last. Changes are applied to the session (the analysis of
    the open files) immediately."""

    def __init__(
        self, connection: ClientConnection, session: Session, on_change: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._session = session
        self._on_change = on_change
        self._settings: dict[str, Any] = {}
        """Settings by workspace folder; the empty key has the settings for files outside of all
        folders."""
        self._last_request = 0
        self._last_answered = 0
        """Number of the latest request for settings that the client answered."""

    @property
    def can_request(self) -> bool:
        return self._session.client.configuration

    def request_settings(self) -> None:
        """Request the settings from the client, because they may have changed."""
        if self.can_request:
            self._connection.run_in_background(self._fetch_settings())
        else:
            self._apply_settings()

    def accept_settings(self, settings: Any) -> None:
        """Apply settings that a client pushed because it cannot answer requests for them."""
        self._settings = {"": _plain_data(settings)}
        self._apply_settings()

    def _apply_settings(self) -> None:
        self._session.configure(self._settings)
        self._on_change()

    async def _fetch_settings(self) -> None:
        self._last_request += 1
        request_number = self._last_request
        folders = self._session.workspace.folders
        scopes = ["", *folders]
        params = types.ConfigurationParams(
            [types.ConfigurationItem(scope_uri=scope or None, section=SECTION) for scope in scopes]
        )
        answers: Any = None
        try:
            answers = await asyncio.wait_for(
                self._connection.request(types.WORKSPACE_CONFIGURATION, params), PATIENCE
            )
        except (JsonRpcException, asyncio.TimeoutError) as error:
            why = str(error) or f"no answer within {PATIENCE:.0f} seconds"
            used = (
                "the editor's earlier settings" if self._settings else "the settings of the project"
            )
            self._connection.log(f"Cannot read the settings of the editor ({why}); {used} apply.")
        if folders != self._session.workspace.folders:
            # The workspace folders changed meanwhile; the handler of that change has requested the
            # settings again.
            return
        # Answers can arrive in another order than their requests; ignore an outdated one.
        if isinstance(answers, (list, tuple)) and request_number > self._last_answered:
            self._last_answered = request_number
            self._settings = dict(zip(scopes, map(_plain_data, answers), strict=False))
        self._apply_settings()


def _plain_data(value: Any) -> Any:
    """Convert the named tuples that pygls makes of JSON objects to dictionaries."""
    if hasattr(value, "_asdict"):
        return {key: _plain_data(item) for key, item in value._asdict().items()}
    if isinstance(value, dict):
        return {key: _plain_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_data(item) for item in value]
    return value
