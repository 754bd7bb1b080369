"""The result of tracing a function, as the user sees it."""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph_engine.protocol import TargetReport


@dataclass(frozen=True)
class ShownReport:
    """The result of tracing a function with one set of inputs.

    ``current`` is false if the text was edited since.
    """

    report: TargetReport
    current: bool
