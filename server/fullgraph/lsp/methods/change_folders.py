"""``workspace/didChangeWorkspaceFolders``: the user added or removed folders."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext

METHOD = types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS


def handle(context: ServerContext, params: types.DidChangeWorkspaceFoldersParams) -> None:
    context.session.change_folders(
        [folder.uri for folder in params.event.added],
        [folder.uri for folder in params.event.removed],
    )
    context.configuration.request_settings()
