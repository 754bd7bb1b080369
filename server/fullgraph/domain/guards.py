"""A guard in words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fullgraph_engine.protocol.guards import FoundGuard
from fullgraph_engine.protocol.sources import condition_in_user_words, in_user_words

_MARKS = "DIMENSION_DYNAMIC_MARKING_GUARD"


_LONGEST = 300


def kind_slug(kind: str) -> str:
    """``TENSOR_MATCH`` as the last part of a code: ``tensor-match``."""
    return re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-") or "other"


def sentences(guard: FoundGuard) -> Iterator[str]:
    """What a guard checks, in the user's words."""
    if guard.kind == _MARKS and guard.source:
        # Five conditions on attributes that only Dynamo knows.
        yield f"{in_user_words(guard.source)} has the same dimensions marked as dynamic"
        return
    for expression in guard.expressions:
        words = condition_in_user_words(expression).replace("\n", " ")
        yield words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
