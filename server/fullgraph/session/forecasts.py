"""Forecasts of recompiles for each target, with ranges that move with edits of the text."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fullgraph.incremental.moves import LineLost
from fullgraph.incremental.relocation import Relocation
from fullgraph.session.edit_tracking import AppliedEdit, move_finding
from fullgraph_engine.protocol import Finding, ForecastFound, ForecastRow


@dataclass(frozen=True)
class TargetForecast:
    """The forecast of one target's recompiles; ``told`` has one event for each probe (the inputs of
    one trace).
    """

    told: tuple[ForecastFound, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for made in self.told for finding in made.findings)

    @property
    def rows(self) -> tuple[ForecastRow, ...]:
        return tuple(dict.fromkeys(row for made in self.told for row in made.rows))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(made.note for made in self.told if made.note))

    def with_event(self, made: ForecastFound) -> TargetForecast:
        others = (other for other in self.told if other.run != made.run)
        return TargetForecast((*others, made))

    def apply_edit(self, edit: AppliedEdit, path: str) -> TargetForecast:
        """Return the forecast with ranges moved by an edit, without findings that the edit
        touched.
        """
        return TargetForecast(tuple(_apply_edit_to_event(made, edit, path) for made in self.told))


class Forecasts:
    """The latest forecast of each target; it stays visible until its update arrives."""

    def __init__(self) -> None:
        self.by_target: Mapping[str, TargetForecast] = {}
        self.fresh: frozenset[str] = frozenset()
        """Names of the targets whose forecast belongs to their last trace."""

    def mark_outdated(self, stays: Callable[[str], bool] = lambda name: False) -> None:
        """Mark forecasts as outdated, except for targets for which ``stays`` returns True because
        they are not traced again.
        """
        self.fresh = frozenset(filter(stays, self.fresh))

    def add_forecast(self, made: ForecastFound) -> None:
        known = self.by_target.get(made.target)
        if known is None or made.target not in self.fresh:
            known = TargetForecast(())
        self.by_target = {**self.by_target, made.target: known.with_event(made)}
        self.fresh |= {made.target}

    def drop_outdated(self) -> bool:
        """Drop the forecasts marked as outdated; return whether there were any."""
        before = self.by_target
        self.keep_targets(self.fresh)
        return before is not self.by_target

    def keep_targets(self, names: Iterable[str]) -> None:
        """Drop the forecasts of all targets except for these."""
        kept = set(names)
        if not kept.issuperset(self.by_target):
            self.by_target = {name: one for name, one in self.by_target.items() if name in kept}

    def apply_edits(self, edits: Iterable[AppliedEdit], path: str) -> None:
        self.mark_outdated()
        for edit in edits:
            self.by_target = {
                name: one.apply_edit(edit, path) for name, one in self.by_target.items()
            }

    def apply_relocation(self, move: Relocation) -> None:
        """Move the ranges of forecasts to another text; drop forecasts with a range that does not
        exist there.
        """
        moved: dict[str, TargetForecast] = {}
        for name, one in self.by_target.items():
            with contextlib.suppress(LineLost):
                moved[name] = TargetForecast(move.relocate_value(one.told))
        self.by_target, self.fresh = moved, self.fresh & moved.keys()

    def adopt_targets(self, other: Forecasts, names: frozenset[str]) -> None:
        """Copy the forecasts of the targets in ``names`` from ``other``."""
        own = {name: one for name, one in self.by_target.items() if name not in names}
        others = {name: one for name, one in other.by_target.items() if name in names}
        self.by_target = {**own, **others}
        self.fresh = (self.fresh - names) | (other.fresh & names)

    def copy(self) -> Forecasts:
        """Return a copy of the forecasts that later edits and runs do not change."""
        copy = Forecasts()
        copy.by_target, copy.fresh = self.by_target, self.fresh
        return copy


def _apply_edit_to_event(made: ForecastFound, edit: AppliedEdit, path: str) -> ForecastFound:
    return dataclasses.replace(
        made,
        rows=tuple(
            dataclasses.replace(row, range=edit.shift_range(row.range)) if row.range else row
            for row in made.rows
        ),
        findings=tuple(
            moved for finding in made.findings if (moved := move_finding(finding, edit, path))
        ),
    )
