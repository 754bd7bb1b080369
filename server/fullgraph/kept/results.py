"""Select the results of a file to store on disk: findings, reports of targets and forecasts of
recompiles.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from fullgraph.engines import EngineStatus
from fullgraph_engine.protocol import (
    Analyzed,
    Event,
    FilesRead,
    FindingFound,
    ForecastFound,
    Restarted,
    Status,
    TargetDone,
    TargetsFound,
)
from fullgraph_engine.protocol.files import OPEN, FileState

SETTLED: tuple[Status, ...] = ("traced", "no-probe", "failed")
"""Statuses of traces that would be the same if the trace were repeated: traced, without inputs, or
failed with an exception.
"""

KEPT = (TargetsFound, FindingFound, TargetDone, ForecastFound, Analyzed)


@dataclass(frozen=True)
class KeptResults:
    """The results of one file in the form in which they are stored: ``events`` of the engine in
    order, the engine's ``status``, and the ``files`` that the results depend on.
    """

    status: EngineStatus
    events: tuple[Event, ...]
    files: tuple[FileState, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the events include the last event of the run, so that the results are
        complete.
        """
        return bool(self.events) and isinstance(self.events[-1], Analyzed)


class ResultRecorder:
    """A recorder for the events of one request, which selects the ones to store.

    ``before``: recorder of an earlier request whose results are partly reused.
    """

    def __init__(self, before: ResultRecorder | None = None) -> None:
        self._began = time.time_ns()
        self._events: list[Event] = []
        self._files: dict[str, FileState] = dict(before._files) if before is not None else {}
        self._told_files: bool = before is not None and before._told_files
        self._good: bool = before is None or before._good

    def record_event(self, event: Event) -> None:
        if isinstance(event, Restarted):
            self._events.clear()
            self._good = True
        elif isinstance(event, FilesRead):
            self._told_files = True
            for file in event.unpack_files():
                self._good = self._good and self._files.setdefault(file.path, file) == file
        elif isinstance(event, KEPT):
            self._events.append(event)
            if isinstance(event, TargetDone):
                self._good = self._good and event.report.status in SETTLED

    @property
    def reads(self) -> frozenset[str] | None:
        """Paths of the files that the results depend on; None if the engine did not report them."""
        return frozenset(self._files) if self._told_files else None

    def is_current(self) -> bool:
        """Return whether all files that the results depend on are unchanged."""
        return all(file.is_unchanged() for file in self._files.values())

    def build_results(
        self, status: EngineStatus, events: Sequence[Event] | None = None
    ) -> KeptResults | None:
        """Return the results to store, with ``events`` instead of the recorded ones if given.
        Return None if a repetition might differ: a run hit a time or memory limit, or a file
        changed."""
        last = self._events[-1] if self._events else None
        if not isinstance(last, Analyzed) or last.cancelled or not self._may_be_kept:
            return None
        return self._make_results(status, self._events if events is None else events)

    def partial_results(self, status: EngineStatus) -> KeptResults | None:
        """Return the results that arrived so far, in case the request never ends.

        Return None if there are none yet, if a repetition might differ, or if a file changed.
        """
        found = any(isinstance(event, (FindingFound, TargetDone)) for event in self._events)
        return self._make_results(status, self._events) if found and self._may_be_kept else None

    @property
    def _may_be_kept(self) -> bool:
        targets = any(isinstance(e, TargetsFound) and e.targets for e in self._events)
        if not self._good or (targets and not self._told_files):
            return False
        # The text of an open file is lost when the editor closes it.
        states = [file.modified for file in self._files.values()]
        return not any(state >= self._began or state == OPEN for state in states)

    def _make_results(self, status: EngineStatus, events: Sequence[Event]) -> KeptResults:
        return KeptResults(status, tuple(events), tuple(self._files.values()))
