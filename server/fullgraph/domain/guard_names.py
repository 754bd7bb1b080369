"""Further names of the value that a finding is about, in words."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.domain.phrases import amount
from fullgraph_engine.protocol import Finding

_MOST = 3
"""Names that are listed with what changed."""


def other_names(finding: Finding) -> Iterator[str]:
    """A clause for each name but the first, such as ``"in `evaluate`, `y` was 1, now 2"``."""
    first, others = finding.names[:1], finding.names[1:]
    for name in others[:_MOST]:
        elsewhere = name.function != first[0].function
        yield f"in `{name.function}`, {name.words}" if elsewhere else name.words
    if len(others) > _MOST:
        yield amount(len(others) - _MOST, "further name")
