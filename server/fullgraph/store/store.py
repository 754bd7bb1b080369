"""The results of recent runs of one file, and the decision which of them are valid for a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fullgraph.results import Results
from fullgraph.store.runs import Reused, StoredRun, TraceBasis

_MOST_EARLIER = 5
"""Number of runs before the latest whose results are kept, so that undo can restore them."""


class ResultStore:
    """The results of recent runs of the file ``path``: the latest, and a few before it.

    Runs that earlier sessions stored on disk are added like runs of this session.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.latest: StoredRun | None = None
        self._earlier: list[StoredRun] = []
        """Complete runs before the latest one, the most recent first."""

    def add(self, run: StoredRun) -> None:
        """Add a complete run as the latest, and drop earlier runs with the same inputs."""
        earlier = [one for one in self._runs() if one.basis != run.basis and one.results.is_settled]
        self.latest, self._earlier = run, earlier[:_MOST_EARLIER]

    def clear(self) -> None:
        """Drop all runs, because their results may be wrong."""
        self.latest, self._earlier = None, []

    def drop_outdated(self) -> None:
        """Drop the latest run if a file that it read has changed on disk."""
        if self.latest is not None and not self.latest.files.is_current():
            self.latest = None

    def update_latest(self, now: TraceBasis, results: Results) -> bool:
        """Replace the results of the latest run by ``results``, whose source ranges are in the text
        of ``now``.

        Return False without effect if that text has other code than the latest run traced.
        """
        if self.latest is not None and self.is_latest(now):
            self.latest = replace(self.latest, basis=now, results=results.snapshot())
            return True
        return False

    def is_latest(self, now: TraceBasis) -> bool:
        """Return whether a run with the inputs ``now`` would give the same results as the latest
        run.
        """
        return self.latest is not None and self.latest.find_all(now, self._path) is not None

    def find_all(self, now: TraceBasis) -> Results | None:
        """Return complete results for the inputs ``now``, from a run of the same code; None without
        such a run.

        Source ranges are in the text of ``now``. The run becomes the latest.
        """
        for run in self._runs():
            results = run.find_all(now, self._path)
            # An edit of the text does not change the files that the latest run read.
            if results is not None and (run is self.latest or run.files.is_current()):
                if run is not self.latest:
                    self.add(run)
                return results
        return None

    def find(self, now: TraceBasis) -> Reused | None:
        """Return all stored results that apply to the inputs ``now`` (text, settings, other open
        files); None without any.

        The results of each target come from the most recent run whose results the edits since then
        cannot affect. If they cover all targets, they are stored as the latest run.
        """
        results = self.find_all(now)
        if results is not None and self.latest is not None and self.latest.files.is_current():
            return Reused(results, results.placed, (), True, ())
        known: Reused | None = None
        for run in self._runs():
            found = run.find_unaffected(now, self._path) if not now.only else None
            if found is not None and found.is_complete:
                self.add(replace(run, basis=now, results=found.results))
                return found
            if found is not None:
                known = known.add(found) if known is not None else found
        return known

    def _runs(self) -> Iterator[StoredRun]:
        yield from [self.latest, *self._earlier] if self.latest is not None else self._earlier
