"""The result of tracing a function, as the user sees it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fullgraph_engine.protocol import TargetReport


@dataclass(frozen=True)
class ShownReport:
    """The result of tracing a function with one set of inputs.

    ``current`` is false if the text was edited since.
    """

    report: TargetReport
    current: bool


def reports_by_target(reports: Iterable[ShownReport]) -> dict[str, list[ShownReport]]:
    """Group reports by the name of the function or module class."""
    found: dict[str, list[ShownReport]] = {}
    for shown in reports:
        found.setdefault(shown.report.name, []).append(shown)
    return found
