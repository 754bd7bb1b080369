"""``initialized``: the client is ready to be asked for its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from fullgraph.lsp.virtual_documents import SCHEME
from fullgraph_engine.protocol.recorded import FILE

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.INITIALIZED

_WATCH = "fullgraph/files"
_CONFIGURATION = "fullgraph/configuration"
_CONTENT = "fullgraph/content"


def handle(server: Server, params: types.InitializedParams) -> None:
    client = server.session.client
    registrations = []
    if client.configuration_registration:
        registrations.append(
            types.Registration(
                _CONFIGURATION,
                types.WORKSPACE_DID_CHANGE_CONFIGURATION,
                {"section": "fullgraph"},
            )
        )
    if client.file_watch_registration:
        registrations.append(
            types.Registration(
                _WATCH,
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                {"watchers": [{"globPattern": f"**/{name}"} for name in ("pyproject.toml", FILE)]},
            )
        )
    if client.text_document_content:
        registrations.append(
            types.Registration(
                _CONTENT, types.WORKSPACE_TEXT_DOCUMENT_CONTENT, {"schemes": [SCHEME]}
            )
        )
    if registrations:
        server.request(types.CLIENT_REGISTER_CAPABILITY, types.RegistrationParams(registrations))
    server.configuration.ask()
