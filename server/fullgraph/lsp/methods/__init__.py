"""One module for each method of the protocol.

Each has ``METHOD`` and ``handle``. Those that are plain functions run to their end before the next
message is read, so texts, findings and requests keep their order; only a command that waits for a
run is a coroutine.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fullgraph.lsp.methods import (
    cancel_progress,
    change_configuration,
    change_folders,
    change_text,
    change_watched_files,
    close_text,
    code_action,
    code_lens,
    completion,
    completion_resolve,
    execute_command,
    exit,
    hover,
    initialize,
    initialized,
    inlay_hint,
    inlay_hint_resolve,
    open_text,
    pull_diagnostics,
    save_text,
    set_trace,
    shutdown,
    signature_help,
    text_document_content,
    trace,
    trust,
)

if TYPE_CHECKING:
    from fullgraph.lsp.server import Server

_MODULES = (
    initialize,
    initialized,
    shutdown,
    exit,
    set_trace,
    open_text,
    change_text,
    save_text,
    close_text,
    pull_diagnostics,
    code_action,
    code_lens,
    hover,
    completion,
    completion_resolve,
    signature_help,
    inlay_hint,
    inlay_hint_resolve,
    execute_command,
    text_document_content,
    trace,
    cancel_progress,
    change_configuration,
    change_folders,
    change_watched_files,
    trust,
)


def register(server: Server) -> None:
    for module in _MODULES:
        server.feature(module.METHOD)(_bound(module.handle, server))


def _bound(handle: Callable[..., Any], server: Server) -> Callable[[Any], Any]:
    # Neither a partial nor pygls's own binding: it looks for ``async`` on what it is given.
    if inspect.iscoroutinefunction(handle):

        async def later(params: Any) -> Any:
            return await handle(server, params)

        return later

    def now(params: Any) -> Any:
        return handle(server, params)

    return now
