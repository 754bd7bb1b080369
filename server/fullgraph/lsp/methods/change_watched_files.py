"""``workspace/didChangeWatchedFiles``: ``pyproject.toml``, a recording of a program's run, or a
Python file changed on disk."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext
from fullgraph_engine.protocol.recorded import FILE

METHOD = types.WORKSPACE_DID_CHANGE_WATCHED_FILES


def handle(context: ServerContext, params: types.DidChangeWatchedFilesParams) -> None:
    if any(change.uri.endswith("/pyproject.toml") for change in params.changes):
        context.session.apply_settings()
    if any(change.uri.endswith(f"/{FILE}") for change in params.changes):
        context.session.files.reconsider_all()
    context.session.files.reconsider_changed(
        [c.uri for c in params.changes if c.uri.endswith(".py")]
    )
