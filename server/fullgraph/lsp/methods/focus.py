"""``fullgraph/focused``: the user came back to the editor's window."""

from __future__ import annotations

from typing import Any

from fullgraph.lsp.context import Context
from fullgraph.lsp.server_capabilities import FOCUSED

METHOD = FOCUSED


def handle(context: Context, params: Any) -> None:
    context.session.focused()
