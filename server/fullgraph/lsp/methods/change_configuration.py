"""``workspace/didChangeConfiguration``: the client's settings changed."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import Context

METHOD = types.WORKSPACE_DID_CHANGE_CONFIGURATION


def handle(context: Context, params: types.DidChangeConfigurationParams) -> None:
    if context.configuration.may_be_asked:
        # These clients only send a hint, often with empty settings.
        context.configuration.ask()
    else:
        context.configuration.take(params.settings)
