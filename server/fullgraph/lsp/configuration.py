"""The client's settings, asked for by folder."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

SECTION = "fullgraph"
PATIENCE = 5.0
"""Seconds after which a client that does not answer is taken to have set nothing."""


async def fetch(server: Server) -> None:
    """Ask for the settings and put them in force."""
    if not server.session.client.configuration:
        server.session.configure({"": server.sent_settings})
        return
    scopes = ["", *server.session.folders]
    params = types.ConfigurationParams(
        [types.ConfigurationItem(scope_uri=scope or None, section=SECTION) for scope in scopes]
    )
    answers: Any = None
    try:
        answers = await asyncio.wait_for(
            server.protocol.ask(types.WORKSPACE_CONFIGURATION, params), PATIENCE
        )
    except (JsonRpcException, asyncio.TimeoutError) as error:
        why = str(error) or f"no answer within {PATIENCE:.0f} seconds"
        server.log(
            f"The settings of the editor could not be read ({why}); those of the project are used."
        )
    raw = [_plain(answer) for answer in answers] if isinstance(answers, (list, tuple)) else []
    server.session.configure(dict(zip(scopes, raw, strict=False)))


def take(server: Server, settings: Any) -> None:
    """A client that cannot be asked sent its settings of itself."""
    server.sent_settings = _plain(settings)
    server.session.configure({"": server.sent_settings})


def _plain(value: Any) -> Any:
    """pygls gives some objects as named tuples."""
    if hasattr(value, "_asdict"):
        return {key: _plain(item) for key, item in value._asdict().items()}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
