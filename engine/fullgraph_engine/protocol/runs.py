"""Identification of the runs of targets."""

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
"""Job of a run.

- ``first``: trace the target as its probe calls it.
- ``second``: search for specialized dimensions.
- ``paths``: trace other paths, based on the results of "first", if they can lead elsewhere.
- ``forecast``: call it again to see what recompiles.
- ``export``: export it with ``torch.export``.
- ``measure``: measure the time of its calls.
- ``candidates``: write programs that may show one of its findings.
- ``cases``: choose inputs on which to compare its behavior.
- ``behavior``, ``behavior-again``: observe it on these, a second time to check that it is
  deterministic.
"""


@dataclass(frozen=True, order=True)
class RunId:
    """One run of a target with one of its probes, numbered from 0."""

    target: str
    probe: int = 0
    part: Part = "first"

    def __str__(self) -> str:
        return f"{self.target}#{self.probe}"
