"""The client's settings, requested for each workspace folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fullgraph.lsp.connection import Connection
from fullgraph.session.session import Session

SECTION = "fullgraph"
PATIENCE = 5.0
"""Seconds to wait for the client's settings before the previous settings are used."""


class Configuration:
    """The settings that the client sent last. Changes are applied to the session immediately."""

    def __init__(
        self, connection: Connection, session: Session, changed: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._session = session
        self._changed = changed
        self._said: dict[str, Any] = {}
        """Settings by folder; the empty name has the settings outside of all folders."""
        self._asked = 0
        self._answered = 0
        """Number of the latest request that the client answered."""

    @property
    def may_be_asked(self) -> bool:
        return self._session.client.configuration

    def ask(self) -> None:
        """Request the settings from the client, because they may have changed."""
        if self.may_be_asked:
            self._connection.in_background(self._ask())
        else:
            self._configure()

    def take(self, settings: Any) -> None:
        """Apply settings that a client pushed because it cannot answer requests for them."""
        self._said = {"": _plain(settings)}
        self._configure()

    def _configure(self) -> None:
        self._session.configure(self._said)
        self._changed()

    async def _ask(self) -> None:
        self._asked += 1
        question = self._asked
        folders = self._session.folders
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
            used = "those that it gave before" if self._said else "those of the project"
            self._connection.log(
                f"The settings of the editor could not be read ({why}); {used} count."
            )
        if folders != self._session.folders:
            # The handler that changed the folders has sent its own request.
            return
        # Answers can arrive out of order; ignore one that is older than the last.
        if isinstance(answers, (list, tuple)) and question > self._answered:
            self._answered = question
            self._said = dict(zip(scopes, map(_plain, answers), strict=False))
        self._configure()


def _plain(value: Any) -> Any:
    """Convert the named tuples that pygls makes of JSON objects to dictionaries."""
    if hasattr(value, "_asdict"):
        return {key: _plain(item) for key, item in value._asdict().items()}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
