"""What further calls of targets would recompile, moved with the text."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fullgraph.incremental.moves import LineLost
from fullgraph.incremental.relocation import Relocation
from fullgraph.session.edit_tracking import Edit, move_finding
from fullgraph_engine.protocol import Finding, ForecastFound, ForecastRow


@dataclass(frozen=True)
class Forecast:
    """Of one target; ``told`` by its runs, one for each probe."""

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

    def with_(self, made: ForecastFound) -> Forecast:
        others = (other for other in self.told if other.run != made.run)
        return Forecast((*others, made))

    def moved(self, edit: Edit, path: str) -> Forecast:
        """After an edit: of what it touched nothing is known any more."""
        return Forecast(tuple(_moved(made, edit, path) for made in self.told))


class Forecasts:
    """The latest forecast of each target.

    One that is made again stays as it is until the new one is told.
    """

    def __init__(self) -> None:
        self.by_target: Mapping[str, Forecast] = {}
        self.fresh: frozenset[str] = frozenset()
        """Targets whose forecast is of what was last traced of them."""

    def outdate(self, stays: Callable[[str], bool] = lambda name: False) -> None:
        """All targets are traced again but those that stay as they are."""
        self.fresh = frozenset(filter(stays, self.fresh))

    def take(self, made: ForecastFound) -> None:
        known = self.by_target.get(made.target)
        if known is None or made.target not in self.fresh:
            known = Forecast(())
        self.by_target = {**self.by_target, made.target: known.with_(made)}
        self.fresh |= {made.target}

    def settle(self) -> bool:
        """All that were to be made are: others are gone. Says whether there were any."""
        before = self.by_target
        self.keep(self.fresh)
        return before is not self.by_target

    def keep(self, names: Iterable[str]) -> None:
        """Forget targets of other names."""
        kept = set(names)
        if not kept.issuperset(self.by_target):
            self.by_target = {name: one for name, one in self.by_target.items() if name in kept}

    def edited(self, edits: Iterable[Edit], path: str) -> None:
        self.outdate()
        for edit in edits:
            self.by_target = {name: one.moved(edit, path) for name, one in self.by_target.items()}

    def relocated(self, move: Relocation) -> None:
        """Move with lines that are the same; what cannot is forgotten, and made again."""
        moved: dict[str, Forecast] = {}
        for name, one in self.by_target.items():
            with contextlib.suppress(LineLost):
                moved[name] = Forecast(move.of(one.told))
        self.by_target, self.fresh = moved, self.fresh & moved.keys()

    def adopt(self, other: Forecasts, names: frozenset[str]) -> None:
        """Take what another one has of some targets."""
        own = {name: one for name, one in self.by_target.items() if name not in names}
        others = {name: one for name, one in other.by_target.items() if name in names}
        self.by_target = {**own, **others}
        self.fresh = (self.fresh - names) | (other.fresh & names)

    def copy(self) -> Forecasts:
        """One that later edits and runs leave as it is."""
        copy = Forecasts()
        copy.by_target, copy.fresh = self.by_target, self.fresh
        return copy


def _moved(made: ForecastFound, edit: Edit, path: str) -> ForecastFound:
    return dataclasses.replace(
        made,
        rows=tuple(
            dataclasses.replace(row, range=edit.moved(row.range)) if row.range else row
            for row in made.rows
        ),
        findings=tuple(
            moved for finding in made.findings if (moved := move_finding(finding, edit, path))
        ),
    )
