"""Complete runs of a file, and the decision which of their results are valid for the current text.

One question decides whether code is traced again: is a result still valid? :meth:`History.find`
answers it for the whole text, and :meth:`History.reuse` for each target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fullgraph.domain.positions import TextPositions
from fullgraph.incremental import (
    ParsedText,
    align_statements,
    find_unaffected,
    may_be_same_code,
    same_code,
    unless_called_otherwise,
)
from fullgraph.incremental.moves import Moves
from fullgraph.incremental.text_maps import CodeMap
from fullgraph.kept import SETTLED, ResultRecorder
from fullgraph.results.file_results import Results
from fullgraph.session.documents import is_on_disk
from fullgraph_engine.protocol import GivenCalls, OpenFile
from fullgraph_engine.protocol.comments import RUN

LONGEST_PARSE = 100_000
"""Maximum length in characters of a text to parse on the event loop; only the engine parses longer
texts.
"""

_MOST_EARLIER = 5
"""Number of earlier complete runs kept so that undo can restore their results."""


@dataclass(frozen=True)
class TraceBasis:
    """The inputs of a run that the server knows: the text, the targets to trace (empty for all),
    the settings and the texts of other open files."""

    text: str
    only: tuple[str, ...]
    settings: object
    open_files: tuple[OpenFile, ...]
    positions: TextPositions | None = field(default=None, compare=False, repr=False)
    """Lines of the text, if they are already known."""

    @cached_property
    def parsed(self) -> ParsedText | None:
        """Statements of the text; None if it is too long, or its syntax is newer than this
        Python's."""
        if len(self.text) > LONGEST_PARSE:
            return None
        try:
            return ParsedText(self.text)
        except SyntaxError:
            return None

    @cached_property
    def lines(self) -> Sequence[str]:
        """Lines of the text without their ends."""
        return (self.positions or TextPositions(self.text)).lines

    def is_as(self, now: TraceBasis) -> bool:
        """Whether a run with the inputs ``now`` would give the same results as a run with these
        inputs.
        """
        same_text = (self.text, self.only) == (now.text, now.only)
        return same_text and self.differs_in_text_only(now)

    def differs_in_text_only(self, now: TraceBasis, reads: frozenset[str] | None = None) -> bool:
        """Return whether ``now`` has the same settings, and the same texts of other open files,
        apart from files since saved with this text.

        ``reads`` limits the comparison to the paths of files that the run has read.
        """
        old, new = (
            {one.path: one.text for one in basis.open_files if reads is None or one.path in reads}
            for basis in (self, now)
        )
        same = self.settings == now.settings and new.items() <= old.items()
        return same and all(
            is_on_disk(Path(path), text) for path, text in old.items() - new.items()
        )

    def moves_to(self, lines: Sequence[str]) -> Moves | None:
        """Return the mapping of source ranges from this text to a text with these lines; None if
        more than comments and layout differs, or the text cannot be parsed.
        """
        if not may_be_same_code(self.lines, lines) or self.parsed is None:
            return None
        return same_code(self.parsed, lines)


@dataclass(frozen=True)
class CompleteRun:
    """A run of all targets that was not interrupted, with its inputs ``basis``; the results have
    source ranges in the text of ``basis``.
    """

    basis: TraceBasis
    results: Results
    recorder: ResultRecorder

    def differs_in_text_only(self, now: TraceBasis) -> bool:
        """Whether the inputs ``now`` differ from the inputs of this run at most in the text."""
        return self.basis.differs_in_text_only(now, self.recorder.reads or frozenset())

    @property
    def is_settled(self) -> bool:
        """Whether tracing each target again would give the same status (traced, without inputs, or
        failed with an exception).
        """
        return all(shown.report.status in SETTLED for shown in self.results.reports())


@dataclass(frozen=True)
class Reused:
    """Results of an earlier run that an edit cannot affect, with source ranges in the new text.

    ``targets`` are the names of the targets with such results. Results of targets in ``calls`` are
    valid only if other code still calls these targets with the same inputs. With ``is_complete``
    nothing has to be traced.
    """

    results: Results
    targets: frozenset[str]
    calls: tuple[GivenCalls, ...]
    is_complete: bool


class History:
    """The last complete run of the file ``path``, and a few before it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.latest: CompleteRun | None = None
        self._earlier: list[CompleteRun] = []
        """Complete runs before the latest one, the most recent first."""

    def add(self, run: CompleteRun) -> None:
        """Add a run as the latest, and drop earlier runs with the same inputs."""
        known = [self.latest, *self._earlier] if self.latest is not None else self._earlier
        earlier = [one for one in known if one.basis != run.basis and one.is_settled]
        self.latest, self._earlier = run, earlier[:_MOST_EARLIER]

    def clear(self) -> None:
        """Drop all runs, because their results may be wrong."""
        self.latest, self._earlier = None, []

    def drop_outdated(self) -> None:
        """Drop the latest run if a file that it read has changed on disk."""
        if self.latest is not None and not self.latest.recorder.is_current():
            self.latest = None

    def update_latest(self, now: TraceBasis, results: Results) -> bool:
        """Replace the results of the latest run by results of a text with the same code; return
        False if the text has other code.
        """
        run = self.latest
        if run is None or self.find_latest(now) is None:
            return False
        self.latest = CompleteRun(now, results.snapshot(), run.recorder)
        return True

    def find(self, now: TraceBasis) -> Results | None:
        """Return the results of a stored run that a run with the inputs ``now`` would only repeat,
        with source ranges in the text of ``now``.

        The stored run becomes the latest. Return None if there is none.
        """
        known = self.find_latest(now)
        if known is not None:
            return known
        if now.only:
            return None
        for run in self._earlier:
            same_text = run.basis.text == now.text and run.differs_in_text_only(now)
            if same_text and run.recorder.is_current():
                self.add(run)
                return run.results.snapshot()
        return None

    def find_latest(self, now: TraceBasis) -> Results | None:
        """Return the results of the latest run, with source ranges in the text of ``now``, if that
        text has the same code; else None.

        Files on disk are not compared, because an edit of the text does not change them.
        """
        run = self.latest
        if run is None or now.only or not run.differs_in_text_only(now):
            return None
        if run.basis.text == now.text:
            return run.results.snapshot()
        moves = run.basis.moves_to(now.lines)
        if moves is None:
            return None
        results = run.results.relocate_to(CodeMap(moves, now.lines), self._path)
        return results if results.placed == run.results.placed else None

    def reuse(self, now: TraceBasis) -> Reused | None:
        """Return the latest run's results, as far as they are still valid for the inputs ``now``;
        None if none of them are.
        """
        run = self.latest
        if run is None or run.results.note or not run.differs_in_text_only(now):
            return None
        if not run.recorder.is_current():
            return None
        before, after = run.basis.parsed, now.parsed
        if before is None or after is None:
            return None
        if RUN.findall(run.basis.text) != RUN.findall(now.text):
            return None
        try:
            change = align_statements(before, after)
        except SyntaxError:
            return None
        known = run.results.targets
        targets = find_unaffected(before, after, change, known)
        called = unless_called_otherwise(before, after, change, known) - targets
        if not targets and not called:
            return None
        results = run.results.relocate_to(CodeMap(change.moves, after.lines), self._path, called)
        placed = run.results.placed
        # Findings about the whole file may also have ranges that the new text does not have.
        complete = change.is_same and targets | {""} >= placed <= results.placed
        calls = tuple(
            one.calls
            for one in known
            if one.calls is not None and one.name in called & results.placed
        )
        return Reused(results, targets & results.placed, calls, complete)
