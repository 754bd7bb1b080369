"""``window/workDoneProgress/cancel``: the user cancelled a trace or another job by its progress
bar."""

from __future__ import annotations

from lsprotocol import types

from fullgraph.lsp.context import ServerContext

METHOD = types.WINDOW_WORK_DONE_PROGRESS_CANCEL


def handle(context: ServerContext, params: types.WorkDoneProgressCancelParams) -> None:
    context.progress.cancel(params.token)
