"""Identification of runs.

A run traces or calls one target (a function, module class or call) for one purpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Part = Literal[
    "first",
    "second",
    "paths",
    "forecast",
    "export",
    "backend",
    "prepare",
    "measure",
    "numerics",
    "candidates",
    "cases",
    "behavior",
    "behavior-again",
]
"""Purpose of a run.

- ``first``: trace the target with the example inputs as given.
- ``second``: make dimensions dynamic, and search for dimensions that the code specializes.
- ``paths``: trace execution paths that the first run did not take.
- ``forecast``: call the target again with changed inputs to see what recompiles.
- ``export``: export it with ``torch.export``.
- ``backend``: compile its graphs with AOTAutograd and Inductor.
- ``prepare``: fill the caches that Inductor needs before its first compilation.
- ``measure``: measure the time of its calls.
- ``numerics``: compare compiled and eager results with float64.
- ``candidates``: write programs that may reproduce one of its findings.
- ``cases``: choose inputs with which two versions of the target are compared.
- ``behavior``, ``behavior-again``: observe its calls with the chosen inputs; the second time checks
  that it is deterministic.
"""


@dataclass(frozen=True, order=True)
class RunId:
    """Identification of one run: its target, the number of the target's example inputs from 0, and
    the purpose (part)."""

    target: str
    probe: int = 0
    part: Part = "first"

    def __str__(self) -> str:
        return f"{self.target}#{self.probe}"
