"""``fullgraph/trace``: the steps of a trace, for clients that display them."""

from __future__ import annotations

from typing import Any

from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.server_capabilities import TRACE
from fullgraph.lsp.trace_content import trace_content

METHOD = TRACE


async def handle(context: ServerContext, params: Any) -> dict[str, Any] | None:
    """Return the trace of a function: by name, else at or above a line, else of the first function.

    A function has one run for each set of inputs. ``run`` is the index of the run; ``probe`` is the
    number of its inputs.
    """
    uri, name = getattr(params, "uri", None), getattr(params, "target", None)
    line, run, probe = (_int_parameter(params, key) for key in ("line", "run", "probe"))
    # Before the session has its settings, nothing is traced yet.
    await context.session.permission.configured.wait()
    unit = context.find_unit(uri) if isinstance(uri, str) else None
    if unit is None:
        return None
    return trace_content(unit, name if isinstance(name, str) else None, line, run, probe)


def _int_parameter(params: Any, key: str) -> int | None:
    value = getattr(params, key, None)
    return value if isinstance(value, int) else None
