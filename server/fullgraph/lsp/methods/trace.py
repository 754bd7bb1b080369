"""``fullgraph/trace``: the steps of a trace, for clients that display them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fullgraph.domain.findings import FileFinding
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.server_capabilities import TRACE
from fullgraph.lsp.trace_content import trace_content

if TYPE_CHECKING:
    from fullgraph.fixes.verification import Fix

METHOD = TRACE


async def handle(context: ServerContext, params: Any) -> dict[str, Any] | None:
    """Return the trace of one function: the named function, else the function at or above a line,
    else the first function of the file.

    A function has one run for each set of inputs. ``run`` is the index of the run; ``probe`` is the
    number of its inputs.
    """
    name = getattr(params, "target", None)
    line, run, probe = (_int_parameter(params, key) for key in ("line", "run", "probe"))
    unit = await context.find_configured(params)
    if unit is None:
        return None

    def find_fixes(item: FileFinding) -> tuple[Fix, ...]:
        return context.fixes.find_fixes(unit, item)

    target = name if isinstance(name, str) else None
    return trace_content(unit, target, line, run, probe, find_fixes=find_fixes)


def _int_parameter(params: Any, key: str) -> int | None:
    value = getattr(params, key, None)
    return value if isinstance(value, int) else None
