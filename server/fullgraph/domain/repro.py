"""Progress and outcome of reducing a program to a repro: a small script that shows the same
finding."""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph_engine.protocol import ReproFound, ReproProgress, Wanted


@dataclass(frozen=True)
class ReproOutcome:
    """Outcome of reducing a program to a repro: a small script that shows the same finding.

    ``reason`` explains in sentences why a verified script is missing. ``first_lines`` counts the
    lines of the first program that reproduced the finding; 0 without such a program. ``tried``
    counts the programs that were run.
    """

    wanted: Wanted
    found: ReproFound | None = None
    reason: str = ""
    first_lines: int = 0
    tried: int = 0
    seconds: float = 0.0
    cancelled: bool = False
    failed: bool = False
    """True if the engine (the process that runs user code) died or could not start the
    reduction."""

    @property
    def verified(self) -> bool:
        return self.found is not None and self.found.verified


@dataclass
class ReductionState:
    """Progress of reducing a program: its first line count, and the latest progress event.

    ``first_lines`` is 0 until a program has reproduced the finding.
    """

    first_lines: int = 0
    last: ReproProgress | None = None

    def update(self, progress: ReproProgress) -> None:
        self.last = progress
        if not self.first_lines:
            self.first_lines = progress.lines
