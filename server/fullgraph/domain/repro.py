"""A repro: how its reduction goes on, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph_engine.protocol import ReproFound, ReproProgress, Wanted


@dataclass(frozen=True)
class ReproOutcome:
    """What is there at the end. ``reason`` says in sentences why there is no verified script.

    ``first_lines`` are those of the first program that showed the finding, 0 if there was none.
    """

    wanted: Wanted
    found: ReproFound | None = None
    reason: str = ""
    first_lines: int = 0
    tried: int = 0
    seconds: float = 0.0
    cancelled: bool = False
    failed: bool = False
    """The engine could not go on: it died, or could not begin."""

    @property
    def verified(self) -> bool:
        return self.found is not None and self.found.verified


@dataclass
class ReductionState:
    """How a reduction goes on: what its last progress says, beside where it began."""

    first_lines: int = 0
    last: ReproProgress | None = None

    def take(self, progress: ReproProgress) -> None:
        self.last = progress
        if not self.first_lines:
            self.first_lines = progress.lines
