"""Remember which targets had further execution paths, by file, to trace these in advance after an
edit.

The first question about the paths usually survives an edit: how the target behaves in its other
mode (training or evaluation). An idle processor can answer the question while the target's first
run is still going.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol import Mode
from .found import CacheByFile


@dataclass(frozen=True)
class Expected:
    """The mode (fake or real tensors) in which a target's further execution paths were traced, and
    the encoded state of its first run."""

    mode: Mode
    known: str


ExpectedPaths = CacheByFile[tuple[str, int], Expected]
"""Cache, by file, of the targets that had further execution paths; keys are the target's name and
the number of its inputs."""
