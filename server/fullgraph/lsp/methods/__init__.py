"""Handlers of LSP messages.

A module has the handler ``handle`` of one method, ``METHOD``. The module ``short_messages`` has the
handlers of a few lines. Plain functions return before the next message is read, which keeps texts,
findings and requests in order. Only methods that wait for the client or for a trace are coroutines.
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

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.methods import (
    code_action,
    code_lens,
    completion,
    completion_resolve,
    file_summary,
    hover,
    initialize,
    initialized,
    inlay_hint,
    inlay_hint_resolve,
    semantic_tokens,
    short_messages,
    signature_help,
    trace,
)

_MODULES = (
    initialize,
    initialized,
    code_action,
    code_lens,
    hover,
    completion,
    completion_resolve,
    signature_help,
    inlay_hint,
    inlay_hint_resolve,
    semantic_tokens,
    trace,
    file_summary,
)


SLOW = 0.1
"""Maximum seconds for which a handler may block the event loop; the log has a warning if it
takes longer."""

logger = logging.getLogger(__name__)


def bind_handlers(context: ServerContext) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield (method, function) for each LSP method; the function handles the parameters of a
    message."""
    for module in _MODULES:
        yield module.METHOD, _bind_handler(module.METHOD, module.handle, context)
    for method, handle in short_messages.HANDLERS.items():
        yield method, _bind_handler(method, handle, context)


def _bind_handler(
    method: str, handle: Callable[[ServerContext, Any], Any], context: ServerContext
) -> Callable[[Any], Any]:
    # pygls only recognizes real ``async`` functions, so a partial, or one wrapper for both kinds of
    # handlers, does not work.
    if inspect.iscoroutinefunction(handle):

        async def handle_async(params: Any) -> Any:
            return await _TimedCoroutine(method, handle(context, params))

        return handle_async

    def handle_sync(params: Any) -> Any:
        with _warn_if_slow(method):
            return handle(context, params)

    return handle_sync


@contextmanager
def _warn_if_slow(method: str) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    finally:
        spent = time.perf_counter() - began
        if spent > SLOW:
            logger.warning("%s blocked the event loop for %.0f ms.", method, 1000 * spent)


@dataclass(frozen=True)
class _TimedCoroutine:
    """An awaitable that runs a coroutine and measures each of its steps separately, to warn if one
    blocks."""

    method: str
    work: Coroutine[Any, Any, Any]

    def __await__(self) -> Generator[Any, Any, Any]:
        turns = self.work.__await__()
        step: Callable[[], Any] = partial(next, turns)
        while True:
            try:
                with _warn_if_slow(self.method):
                    waited_for = step()
            except StopIteration as end:
                return end.value
            try:
                value = yield waited_for
            except BaseException as error:
                step = partial(turns.throw, error)
            else:
                step = partial(turns.send, value)
