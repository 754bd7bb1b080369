"""Private names with which Dynamo reports that it recompiles a frame, or that it stops to
recompile.

| torch | first argument of ``get_and_maybe_log_recompilation_reasons`` |
|---|---|
| since 2.13 | a list of cache entries |
| up to 2.12 | the first entry of a linked list (``next``) |

From 2.9 to 2.11 Dynamo calls this function a second time with ``skip_logging``, for modules only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .binding import internal

_CF = "torch._dynamo.convert_frame"

REASONS = internal(
    "recompiles", "recompiles with reasons", _CF, "get_and_maybe_log_recompilation_reasons"
)
LIMIT = internal(
    "recompiles", "functions that reach the recompile limit", _CF, "exceeds_recompile_limit"
)

INTERNALS = (REASONS, LIMIT)


def cache_entries(given: Any) -> list[Any]:
    """Return the cache entries (earlier compilations) of a frame as a list.

    ``given`` is the first argument of :data:`REASONS`, whose form depends on the release of torch.
    """
    return list(given) if isinstance(given, list) else list(_walk_linked_entries(given))


def _walk_linked_entries(entry: Any) -> Iterator[Any]:
    while entry is not None:
        yield entry
        entry = getattr(entry, "next", None)


def is_module_check(kwargs: dict[str, Any]) -> bool:
    """Whether keyword arguments belong to Dynamo's second :data:`REASONS` call, for modules.

    This call must not be reported as a recompile.
    """
    return bool(kwargs.get("skip_logging", False))
