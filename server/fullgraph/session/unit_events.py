"""What a unit reports to the session, which answers with commands."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from fullgraph.kept import KeptResults
from fullgraph.session.settings import TraceOn
from fullgraph_engine.protocol import Event, Failed


class Reason(enum.Enum):
    """Why a file is to be traced, the weakest first."""

    CHANGED = "changed"
    SAVED = "saved"
    OPENED = "opened"
    ASKED = "asked"
    """By command, or because something else changed that results depend on."""


def is_due(reason: Reason, trace_on: TraceOn) -> bool:
    """Whether the setting leaves it to us to trace for this reason."""
    if reason is Reason.CHANGED:
        return trace_on == "change"
    return reason is Reason.ASKED or trace_on != "manual"


@dataclass(frozen=True)
class TraceDue:
    """It is time to trace the text. Answered at once by ``Unit.trace`` or ``Unit.leave_untraced``.

    ``only``: names of targets; empty for all.
    """

    reason: Reason
    only: tuple[str, ...]


@dataclass(frozen=True)
class RunBegan:
    """A run of the text began; ``asked``: by command."""

    asked: bool


@dataclass(frozen=True)
class RunAsked:
    """Somebody asked for the run that goes on, and now waits for it."""


@dataclass(frozen=True)
class RunAdvanced:
    """The engine sent an event of the run."""

    event: Event


@dataclass(frozen=True)
class RunEnded:
    """The run ended; ``failure`` says why the engine could not do it."""

    failure: Failed | None


@dataclass(frozen=True)
class ResultsChanged:
    """What is shown of the text changed; ``final``: nothing more is about to come."""

    final: bool


@dataclass(frozen=True)
class ResultsSettled:
    """The text was traced, completely or in part, or saved as it was: ``kept`` is for the next time
    that it is opened."""

    kept: KeptResults


@dataclass(frozen=True)
class ForecastDue:
    """The unit has a forecast to make, at ``when`` by the loop's clock or later.

    Answered by ``Unit.trace_forecast`` when its turn has come.
    """

    when: float


@dataclass(frozen=True)
class ForecastWithdrawn:
    """It has no forecast to make any more."""


@dataclass(frozen=True)
class ForecastEnded:
    """A forecast that was begun ended; ``failure`` says why the engine could not make it."""

    failure: Failed | None


UnitEvent = (
    TraceDue
    | RunBegan
    | RunAsked
    | RunAdvanced
    | RunEnded
    | ResultsChanged
    | ResultsSettled
    | ForecastDue
    | ForecastWithdrawn
    | ForecastEnded
)
