"""Wall time of the steps by which findings are fixed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Step = Literal["trace", "candidates", "retrace", "compare", "compile"]
"""Step of fixing a finding: trace the file, make rewrites, trace or run the rewritten file, compare
its behavior in eager mode, and compile it."""

STEPS: tuple[Step, ...] = ("trace", "candidates", "retrace", "compare", "compile")


@dataclass
class StepTimes:
    """Wall time in seconds of each step. The times of steps that run in parallel are added up."""

    seconds: dict[Step, float] = field(default_factory=lambda: dict.fromkeys(STEPS, 0.0))

    @contextlib.contextmanager
    def measure(self, step: Step) -> Iterator[None]:
        """Add the wall time of the ``with`` block to a step."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] += time.monotonic() - began

    @property
    def words(self) -> str:
        """One line with the seconds of each step."""
        return " · ".join(f"{step} {self.seconds[step]:.1f} s" for step in STEPS)
