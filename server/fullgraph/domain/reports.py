"""What came of a target, as it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph_engine.protocol import TargetReport


@dataclass(frozen=True)
class ShownReport:
    """A report and whether it is of the text as it is now."""

    report: TargetReport
    current: bool
