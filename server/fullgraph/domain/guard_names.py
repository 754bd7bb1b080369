"""Describe in words the other names of a value whose change caused a recompile. For example, a
caller uses another variable for it."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.domain.phrases import amount
from fullgraph_engine.protocol import Finding

_MOST = 3
"""Maximum number of names of a value listed in one message."""


def other_names(finding: Finding) -> Iterator[str]:
    """Yield a clause for each further name of the value whose change caused a recompile.

    An example is ``"in `evaluate`, `y` was 1, now 2"``. Of more than ``_MOST`` names, the rest is
    only counted.
    """
    first, others = finding.names[:1], finding.names[1:]
    for name in others[:_MOST]:
        elsewhere = name.function != first[0].function
        yield f"in `{name.function}`, {name.words}" if elsewhere else name.words
    if len(others) > _MOST:
        yield amount(len(others) - _MOST, "further name")
