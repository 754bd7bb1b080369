"""What further paths of a target were to be traced, by file, to begin with it before it is known.

The first question of these paths is most often the same after an edit: what the target does in its
other mode. A processor that has nothing else to do works on it while the first run goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..protocol import Mode
from .found import ByFile


@dataclass(frozen=True)
class Expected:
    """With which tensors the paths of a target were traced, and what was known to begin with."""

    mode: Mode
    known: str


ExpectedPaths = ByFile[tuple[str, int], Expected]
"""By target, and number of the probe."""
