"""What work on demand, such as a document or a repro, needs of the session."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from fullgraph.engines import Engine
from fullgraph.session.analysis_unit import Reason, Unit
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Analyze


class Services(Protocol):
    """What documents and repros use of the session."""

    async def configured(self) -> None:
        """Wait for the editor's settings, without which nothing may be executed."""

    def settings(self, unit: Unit) -> Settings: ...

    def project(self, unit: Unit) -> Path: ...

    def permits(self, unit: Unit, reason: Reason) -> str:
        """Why the unit may not be traced now, in a sentence; empty if it may."""

    def engine(self, unit: Unit) -> Engine | str:
        """The engine of the unit's interpreter, or why there is none, in a sentence."""

    def request(self, unit: Unit, only: tuple[str, ...]) -> Analyze: ...


def engine_on_demand(services: Services, unit: Unit) -> Engine | str:
    """The engine for what the user asked for, or why it may not be had, in a sentence."""
    return services.permits(unit, Reason.ASKED) or services.engine(unit)
