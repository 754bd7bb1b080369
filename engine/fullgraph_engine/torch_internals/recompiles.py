"""Private names with which Dynamo reports that it recompiles a frame, or that it stops to.

| torch | first argument of ``get_and_maybe_log_recompilation_reasons`` |
|---|---|
| since 2.13 | a list of cache entries |
| up to 2.12 | the first entry of a linked list (``next``) |

From 2.9 to 2.11 Dynamo calls it a second time with ``skip_logging``, for modules only.
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
    "recompiles", "frames that are recompiled too often", _CF, "exceeds_recompile_limit"
)

INTERNALS = (REASONS, LIMIT)


def cache_entries(given: Any) -> list[Any]:
    """Return the cache entries of a frame as a list, from the first argument of :data:`REASONS`."""
    return list(given) if isinstance(given, list) else list(_walk_linked_entries(given))


def _walk_linked_entries(entry: Any) -> Iterator[Any]:
    while entry is not None:
        yield entry
        entry = getattr(entry, "next", None)


def is_module_check(kwargs: dict[str, Any]) -> bool:
    """Whether a call of :data:`REASONS` is the second one, for modules, and must not be
    reported."""
    return bool(kwargs.get("skip_logging", False))
