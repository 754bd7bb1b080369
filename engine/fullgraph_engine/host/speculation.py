"""Remember the further paths of targets by file, to start tracing them early after an edit.

The first question of these paths usually survives an edit: how the target behaves in its other mode
(training or evaluation). An idle processor can answer the question while the first run is still
going.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol import Mode
from .found import CacheByFile


@dataclass(frozen=True)
class Expected:
    """The mode in which further paths of a target were traced, and the state they started from."""

    mode: Mode
    known: str


ExpectedPaths = CacheByFile[tuple[str, int], Expected]
"""Cache of expected paths by target name and probe number."""
