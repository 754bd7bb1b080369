"""One module for each method of the protocol.

Each has ``METHOD`` and ``handle``. Those that are plain functions run to their end before the next
message is read, so texts, findings and requests keep their order; only a command that waits for a
run is a coroutine.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from fullgraph.lsp.context import Context
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
    focus,
    hover,
    initialize,
    initialized,
    inlay_hint,
    inlay_hint_resolve,
    open_text,
    pull_diagnostics,
    save_text,
    semantic_tokens,
    set_trace,
    shutdown,
    signature_help,
    text_document_content,
    trace,
    trust,
)

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
    semantic_tokens,
    execute_command,
    focus,
    text_document_content,
    trace,
    cancel_progress,
    change_configuration,
    change_folders,
    change_watched_files,
    trust,
)


SLOW = 0.1
"""Seconds of the loop after which a handler is logged: nothing else is answered meanwhile."""

logger = logging.getLogger(__name__)


def handlers(context: Context) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Each method with what handles its parameters."""
    for module in _MODULES:
        yield module.METHOD, _bound(module.METHOD, module.handle, context)


def _bound(
    method: str, handle: Callable[[Context, Any], Any], context: Context
) -> Callable[[Any], Any]:
    # Neither a partial nor pygls's own binding: it looks for ``async`` on what it is given.
    if inspect.iscoroutinefunction(handle):

        async def later(params: Any) -> Any:
            return await _Timed(method, handle(context, params))

        return later

    def now(params: Any) -> Any:
        with _timed(method):
            return handle(context, params)

    return now


@contextmanager
def _timed(method: str) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        spent = time.perf_counter() - began
        if spent > SLOW:
            logger.warning("%s held the loop for %.0f ms.", method, 1000 * spent)


@dataclass(frozen=True)
class _Timed:
    """A coroutine, each turn of which is timed on its own."""

    method: str
    work: Coroutine[Any, Any, Any]

    def __await__(self) -> Generator[Any, Any, Any]:
        turns = self.work.__await__()
        step: Callable[[], Any] = partial(next, turns)
        while True:
            try:
                with _timed(self.method):
                    waited_for = step()
            except StopIteration as end:
                return end.value
            try:
                value = yield waited_for
            except BaseException as error:
                step = partial(turns.throw, error)
            else:
                step = partial(turns.send, value)
