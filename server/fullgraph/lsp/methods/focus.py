"""``fullgraph/focused``: the editor's window received the focus."""

from __future__ import annotations

from typing import Any

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.server_capabilities import FOCUSED

METHOD = FOCUSED


def handle(context: ServerContext, params: Any) -> None:
    context.session.engines.retry_failed()
