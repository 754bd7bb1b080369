"""``workspace/didChangeConfiguration``"""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import Context

METHOD = types.WORKSPACE_DID_CHANGE_CONFIGURATION


def handle(context: Context, params: types.DidChangeConfigurationParams) -> None:
    if context.configuration.may_be_asked:
        # The notification of such clients is a hint; what they send along is often nothing.
        context.configuration.ask()
    else:
        context.configuration.take(params.settings)
