"""The forecasts of recompiles of one open file: when the engine is asked for them, and their
results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fullgraph.engines import AnyEngine
from fullgraph.results import Results
from fullgraph.session.file_traces import FileTraces
from fullgraph.session.request import TraceInputs, forecast_request
from fullgraph.session.runs import ForecastRun
from fullgraph.session.scheduling import REST
from fullgraph.session.unit_events import (
    ForecastDue,
    ForecastEnded,
    ForecastWithdrawn,
    ResultsChanged,
    UnitEvent,
)
from fullgraph_engine.protocol import Analyze, Analyzed, Failed, ForecastFound


class ForecastFile(Protocol):
    """The interface through which ``UnitForecasts`` uses the open file."""

    inputs: TraceInputs
    traces: FileTraces

    @property
    def results(self) -> Results:
        """Latest results, with source ranges in the current text."""

    @property
    def is_idle(self) -> bool:
        """Whether the file is open, and no run is in progress or waits."""


class UnitForecasts:
    """The forecasts of recompiles of one file: which further calls will recompile each traced
    target.

    They are requested once the user stops typing.
    """

    def __init__(self, file: ForecastFile, emit: Callable[[UnitEvent], None]) -> None:
        self._file, self._emit = file, emit
        self._run: ForecastRun | None = None
        self.edited = 0.0
        """Time of the last edit of the file, on the event loop's clock."""

    def update(self) -> None:
        """Schedule forecasts for traced targets that do not have one; cancel all if the setting is
        off.
        """
        if not self._file.inputs.settings.forecast:
            self.end()
        elif not self._file.is_idle or self._run is not None:
            return
        elif self._file.results.targets_without_forecast():
            self._emit(ForecastDue(self.edited + REST))
        else:
            self._drop_outdated()

    @property
    def due(self) -> tuple[str, ...]:
        """Names of the traced targets that need a forecast; empty while the file is being
        traced.
        """
        return self._file.results.targets_without_forecast() if self._file.is_idle else ()

    def begin(self, engine: AnyEngine, request: Analyze) -> None:
        """Start the forecast that the event ``ForecastDue`` requested: send ``request`` to
        ``engine``.
        """
        self._run = ForecastRun(self, engine.analyze(forecast_request(request)))

    def end(self) -> None:
        """Cancel the forecast in progress, or withdraw the scheduled one."""
        self._emit(ForecastWithdrawn())
        run, self._run = self._run, None
        if run is not None:
            run.cancel()

    def take_forecast(self, event: ForecastFound) -> None:
        self._file.results.apply_event(event)
        self._file.traces.update_latest()
        self._emit(ResultsChanged(final=False))

    def forecast_ended(self, forecast: ForecastRun, last: Analyzed | Failed) -> None:
        if forecast is self._run:
            self._run = None
            if isinstance(last, Analyzed) and not last.cancelled:
                self._drop_outdated()
        self._emit(ForecastEnded(last if isinstance(last, Failed) else None))

    def _drop_outdated(self) -> None:
        """Drop forecasts that the ended forecast request did not renew."""
        if self._file.results.forecasts.drop_outdated():
            self._file.traces.update_latest()
            self._emit(ResultsChanged(final=True))
