"""Events that an ``AnalysisUnit`` (one open file) reports to the session."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from fullgraph.session.settings import TraceOn
from fullgraph.store.runs import StoredRun
from fullgraph_engine.protocol import Event, Failed


class Reason(enum.Enum):
    """The reason why a file should be traced, ordered from the weakest (an edit) to the strongest
    (a command).
    """

    CHANGED = "changed"
    SAVED = "saved"
    OPENED = "opened"
    ASKED = "asked"
    """A command requested the trace, or something on which the results depend, other than the text,
    has changed."""


def is_due(reason: Reason, trace_on: TraceOn) -> bool:
    """Return whether the setting ``trace_on`` allows an automatic trace for this reason."""
    if reason is Reason.CHANGED:
        return trace_on == "change"
    return reason is Reason.ASKED or trace_on != "manual"


@dataclass(frozen=True)
class TraceDue:
    """A trace of the file is due. The session must answer at once by starting the run or refusing
    it.

    ``only``: names of the targets (functions and module classes) to trace; empty for all.
    """

    reason: Reason
    only: tuple[str, ...]


@dataclass(frozen=True)
class RunBegan:
    """A run that traces the text began; ``asked``: it was requested by command."""

    asked: bool


@dataclass(frozen=True)
class RunAsked:
    """A command requested the run after it had begun, and waits for its end."""


@dataclass(frozen=True)
class RunAdvanced:
    """The engine sent an event of the run in progress."""

    event: Event


@dataclass(frozen=True)
class RunEnded:
    """The run ended; ``failure`` explains an engine failure."""

    failure: Failed | None


@dataclass(frozen=True)
class ResultsChanged:
    """The displayed results changed; ``final``: the run has ended."""

    final: bool


@dataclass(frozen=True)
class ResultsToSave:
    """The results of the file are complete for its text, and ready to be saved to disk."""

    run: StoredRun


@dataclass(frozen=True)
class ForecastDue:
    """A forecast is due at ``when``, by the event loop's clock, or later.

    The session answers with ``AnalysisUnit.trace_forecast`` when nothing else is traced.
    """

    when: float


@dataclass(frozen=True)
class ForecastWithdrawn:
    """The file does not need the forecast that ``ForecastDue`` requested any more."""


@dataclass(frozen=True)
class ForecastEnded:
    """A forecast ended; ``failure`` explains an engine failure."""

    failure: Failed | None


UnitEvent = (
    TraceDue
    | RunBegan
    | RunAsked
    | RunAdvanced
    | RunEnded
    | ResultsChanged
    | ResultsToSave
    | ForecastDue
    | ForecastWithdrawn
    | ForecastEnded
)
