"""A target's report as the user sees it."""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph_engine.protocol import TargetReport


@dataclass(frozen=True)
class ShownReport:
    """A target's report, and whether it describes the current text."""

    report: TargetReport
    current: bool
