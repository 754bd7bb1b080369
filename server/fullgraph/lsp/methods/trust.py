"""``fullgraph/trust``: the user granted or withdrew trust in this workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fullgraph.lsp.server_capabilities import TRUST

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = TRUST


def handle(server: Server, params: Any) -> None:
    trusted = getattr(params, "trusted", False) is True
    server.session.trust(trusted)
    if not trusted:
        server.repros.jobs.cancel()
