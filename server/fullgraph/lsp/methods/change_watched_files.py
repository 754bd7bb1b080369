"""``workspace/didChangeWatchedFiles``: manifests and recordings are watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from fullgraph_engine.protocol.recorded import FILE

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.WORKSPACE_DID_CHANGE_WATCHED_FILES


def handle(server: Server, params: types.DidChangeWatchedFilesParams) -> None:
    if any(change.uri.endswith("/pyproject.toml") for change in params.changes):
        server.session.manifest_changed()
    if any(change.uri.endswith(f"/{FILE}") for change in params.changes):
        server.session.recording_changed()
