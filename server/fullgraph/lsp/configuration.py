"""The client's settings, asked for by folder."""

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
"""Seconds after which a client that does not answer is taken to have nothing new to say."""


class Configuration:
    """What the client last said is set, put in force as soon as it says so."""

    def __init__(
        self, connection: Connection, session: Session, changed: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._session = session
        self._changed = changed
        self._said: dict[str, Any] = {}
        """By folder, and under the empty name what is set for none."""
        self._asked = 0
        self._answered = 0
        """The latest question that has an answer."""

    @property
    def may_be_asked(self) -> bool:
        return self._session.client.configuration

    def ask(self) -> None:
        """Settings may be others than those that the client spoke of last."""
        if self.may_be_asked:
            self._connection.in_background(self._ask())
        else:
            self._configure()

    def take(self, settings: Any) -> None:
        """A client that cannot be asked sent its settings of itself."""
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
            # Whoever changed them has asked again.
            return
        # A client may need longer for one answer than for the next.
        if isinstance(answers, (list, tuple)) and question > self._answered:
            self._answered = question
            self._said = dict(zip(scopes, map(_plain, answers), strict=False))
        self._configure()


def _plain(value: Any) -> Any:
    """pygls gives some objects as named tuples."""
    if hasattr(value, "_asdict"):
        return {key: _plain(item) for key, item in value._asdict().items()}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
