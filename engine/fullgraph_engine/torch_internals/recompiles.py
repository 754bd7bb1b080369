"""Where Dynamo says that it compiles a frame again, and that it does not any more.

| torch | what ``get_and_maybe_log_recompilation_reasons`` takes first |
|---|---|
| since 2.13 | a list of cache entries |
| up to 2.12 | the first entry, with the others behind its ``next`` |

From 2.9 to 2.11 it is called a second time, with ``skip_logging``, about modules only.
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


def entries(given: Any) -> list[Any]:
    """The cache entries of a frame, from the first argument of :data:`REASONS`."""
    return list(given) if isinstance(given, list) else list(_linked(given))


def _linked(entry: Any) -> Iterator[Any]:
    while entry is not None:
        yield entry
        entry = getattr(entry, "next", None)


def is_about_modules(kwargs: dict[str, Any]) -> bool:
    """Whether a call of :data:`REASONS` is the second one, of which nothing is to be reported."""
    return bool(kwargs.get("skip_logging", False))
