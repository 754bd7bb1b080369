"""Describe guards (conditions on which compiled code depends) in words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fullgraph_engine.protocol.guards import FoundGuard
from fullgraph_engine.protocol.sources import condition_in_user_words, in_user_words

_MARKS = "DIMENSION_DYNAMIC_MARKING_GUARD"


_LONGEST = 300


def kind_slug(kind: str) -> str:
    """Convert Dynamo's class of a guard to the last part of a finding code.

    ``TENSOR_MATCH`` becomes ``tensor-match``.
    """
    return re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-") or "other"


def guard_sentences(guard: FoundGuard) -> Iterator[str]:
    """Yield a sentence for each condition that a guard checks, in terms of the user's code."""
    if guard.kind == _MARKS and guard.source:
        # A guard on the dimensions that ``mark_dynamic`` marked consists of five conditions on
        # internal attributes, so describe it as a whole.
        yield f"{in_user_words(guard.source)} has the same dimensions marked as dynamic as before"
        return
    for expression in guard.expressions:
        words = condition_in_user_words(expression).replace("\n", " ")
        yield words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
