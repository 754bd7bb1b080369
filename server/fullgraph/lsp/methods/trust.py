"""``fullgraph/trust``: the user granted or withdrew trust in this workspace."""

from __future__ import annotations

from typing import Any

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.server_capabilities import TRUST

METHOD = TRUST


def handle(context: ServerContext, params: Any) -> None:
    trusted = getattr(params, "trusted", False) is True
    context.session.trust(trusted)
    if not trusted:
        context.repros.jobs.cancel()
