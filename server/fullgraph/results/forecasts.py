"""Forecasts of recompiles for each target."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fullgraph.incremental.moves import LineLost
from fullgraph.incremental.relocation import Relocation
from fullgraph.results.located import Located
from fullgraph_engine.protocol import Finding, ForecastFound, ForecastRow


@dataclass(frozen=True)
class TargetForecast:
    """The forecast of one target: which further calls will recompile it.

    ``events`` are the events of the engine with the forecast, one for each set of example inputs.
    """

    events: tuple[ForecastFound, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for made in self.events for finding in made.findings)

    @property
    def rows(self) -> tuple[ForecastRow, ...]:
        return tuple(dict.fromkeys(row for made in self.events for row in made.rows))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(made.note for made in self.events if made.note))

    def with_event(self, made: ForecastFound) -> TargetForecast:
        others = (other for other in self.events if other.run != made.run)
        return TargetForecast((*others, made))


class Forecasts:
    """The latest forecast of each target; a forecast stays visible until the next one arrives."""

    def __init__(self) -> None:
        self._by_target: Mapping[str, Located[TargetForecast]] = {}
        self.fresh: frozenset[str] = frozenset()
        """Names of the targets whose forecast belongs to their last trace."""

    def mark_outdated(self, stays: Callable[[str], bool] = lambda name: False) -> None:
        """Mark forecasts as outdated, because their targets are traced again.

        ``stays`` returns True for the name of a target if it is not traced again; its forecast
        stays valid.
        """
        self.fresh = frozenset(filter(stays, self.fresh))

    def add_forecast(self, made: ForecastFound) -> None:
        known = self.find(made.target)
        if known is None or made.target not in self.fresh:
            known = TargetForecast(())
        self._by_target = {**self._by_target, made.target: Located.wrap(known.with_event(made))}
        self.fresh |= {made.target}

    def find(self, target: str) -> TargetForecast | None:
        """Return the forecast of a target, with ranges in the current text; None without one."""
        known = self._by_target.get(target)
        return known.current if known is not None else None

    def list_events(self) -> tuple[ForecastFound, ...]:
        """Return the events of all forecasts, with ranges in the current text."""
        return tuple(event for one in self._by_target.values() for event in one.current.events)

    def drop_outdated(self) -> bool:
        """Drop the forecasts marked as outdated; return whether there were any."""
        before = self._by_target
        self.keep_targets(self.fresh)
        return before is not self._by_target

    def keep_targets(self, names: Iterable[str]) -> None:
        """Drop the forecasts of all targets except for these."""
        kept = set(names)
        if not kept.issuperset(self._by_target):
            self._by_target = {name: one for name, one in self._by_target.items() if name in kept}

    def follow(self, relocations: Sequence[Relocation]) -> None:
        """Move the ranges of all forecasts to an edited text, and mark the forecasts as
        outdated.
        """
        self.mark_outdated()
        self._by_target = {
            name: one.relocate_later(relocations) for name, one in self._by_target.items()
        }

    def relocate(self, relocation: Relocation) -> None:
        """Move the ranges of forecasts to another text; drop forecasts with a range that does not
        exist there.
        """
        moved: dict[str, Located[TargetForecast]] = {}
        for name, one in self._by_target.items():
            with contextlib.suppress(LineLost):
                moved[name] = one.relocate_now(relocation)
        self._by_target, self.fresh = moved, self.fresh & moved.keys()

    def adopt_targets(self, other: Forecasts, names: frozenset[str]) -> None:
        """Copy the forecasts of the targets in ``names`` from ``other``."""
        own = {name: one for name, one in self._by_target.items() if name not in names}
        others = {name: one for name, one in other._by_target.items() if name in names}
        self._by_target = {**own, **others}
        self.fresh = (self.fresh - names) | (other.fresh & names)

    def copy(self) -> Forecasts:
        """Return a copy of the forecasts that later edits and runs do not change."""
        copy = Forecasts()
        copy._by_target, copy.fresh = self._by_target, self.fresh
        return copy
