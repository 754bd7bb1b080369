"""``window/workDoneProgress/cancel``: the user ended a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

METHOD = types.WINDOW_WORK_DONE_PROGRESS_CANCEL


def handle(server: Server, params: types.WorkDoneProgressCancelParams) -> None:
    server.bars.cancel(params.token)
