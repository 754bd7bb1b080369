"""``initialized``: register for notifications and request the client's settings."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.virtual_documents import SCHEME
from fullgraph_engine.protocol.recorded import FILE

METHOD = types.INITIALIZED

_WATCH = "fullgraph/files"
_WATCHED = ("pyproject.toml", FILE, "*.py")
_CONFIGURATION = "fullgraph/configuration"
_CONTENT = "fullgraph/content"


def handle(context: ServerContext, params: types.InitializedParams) -> None:
    client = context.client
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
                {"watchers": [{"globPattern": f"**/{name}"} for name in _WATCHED]},
            )
        )
    if client.text_document_content:
        registrations.append(
            types.Registration(
                _CONTENT, types.WORKSPACE_TEXT_DOCUMENT_CONTENT, {"schemes": [SCHEME]}
            )
        )
    if registrations:
        context.connection.request_in_background(
            types.CLIENT_REGISTER_CAPABILITY, types.RegistrationParams(registrations)
        )
    context.configuration.request_settings()
