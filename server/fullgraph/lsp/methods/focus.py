"""``fullgraph/focused``: the editor's window received the focus."""

from __future__ import annotations

from typing import Any

from fullgraph.lsp.context import Context
from fullgraph.lsp.server_capabilities import FOCUSED

METHOD = FOCUSED


def handle(context: Context, params: Any) -> None:
    context.session.focused()
