"""Which run of which target something belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Part = Literal[
    "first",
    "second",
    "paths",
    "forecast",
    "export",
    "measure",
    "candidates",
    "cases",
    "behavior",
    "behavior-again",
]
"""What a run does with its target: trace it as its probe gives it, look for dimensions that are
specialized, trace the other paths that it can take, call it again to see what recompiles, put it
through ``torch.export``, take the time of its calls, write programs that may show one of its
findings, choose inputs to compare its behavior on, or observe it on these, twice to see whether it
is deterministic. "paths" go on from what "first" has found, and are traced only where they can lead
elsewhere."""


@dataclass(frozen=True, order=True)
class RunId:
    """One run of a target with one of its probes, whose number is counted from 0."""

    target: str
    probe: int = 0
    part: Part = "first"

    def __str__(self) -> str:
        return f"{self.target}#{self.probe}"
