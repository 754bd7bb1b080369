"""``workspace/didChangeWorkspaceFolders``"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS


def handle(server: Server, params: types.DidChangeWorkspaceFoldersParams) -> None:
    server.session.change_folders(
        [folder.uri for folder in params.event.added],
        [folder.uri for folder in params.event.removed],
    )
    server.configuration.ask()
