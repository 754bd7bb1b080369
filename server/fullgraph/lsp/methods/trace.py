"""``fullgraph/trace``: what a run did, for clients that draw it."""

from __future__ import annotations

from typing import Any

from fullgraph.lsp.context import Context
from fullgraph.lsp.server_capabilities import TRACE
from fullgraph.lsp.trace_content import trace_content

METHOD = TRACE


async def handle(context: Context, params: Any) -> dict[str, Any] | None:
    """Of the target that is named, else of the one at or above a line, else of the first.

    It may have several runs, one for each probe: ``run`` says which, from 0.
    """
    keys = ("uri", "target", "line", "run")
    uri, name, line, run = (getattr(params, key, None) for key in keys)
    # Before that nothing is being traced, though something soon will be.
    await context.session.configured()
    unit = context.unit(uri) if isinstance(uri, str) else None
    if unit is None:
        return None
    target = name if isinstance(name, str) else None
    at = line if isinstance(line, int) else None
    return trace_content(unit, target, at, run if isinstance(run, int) else 0)
