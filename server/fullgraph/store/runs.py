"""The results of one run (a trace of a file) with their inputs, and whether they are valid for
another text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fullgraph.domain.positions import TextPositions
from fullgraph.engines import EngineStatus
from fullgraph.incremental import (
    ParsedText,
    align_versions,
    find_unaffected,
    may_be_same_code,
    parse_text,
    same_code,
    unless_called_otherwise,
)
from fullgraph.incremental.moves import Moves
from fullgraph.incremental.text_maps import CodeMap
from fullgraph.results import Results
from fullgraph.store.files import FilesRecorder, is_on_disk
from fullgraph_engine.protocol import Analyze, GivenCalls, OpenFile

LONGEST_PARSE = 100_000
"""Maximum length in characters of a text to parse on the event loop; only the engine parses longer
texts.
"""


@dataclass(frozen=True)
class TraceBasis:
    """The inputs of a run that decide whether its results are still valid.

    They are the text, the names of the targets to trace (``only``, empty for all), the settings and
    the texts of other open files. Files on disk are recorded separately.
    """

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
        return parse_text(self.text, LONGEST_PARSE)

    @cached_property
    def lines(self) -> Sequence[str]:
        """Lines of the text without their ends."""
        return (self.positions or TextPositions(self.text)).lines

    def is_as(self, now: TraceBasis) -> bool:
        """Whether ``now`` equals these inputs (text, targets, settings and other open files), so
        that a run would repeat the results."""
        same_text = (self.text, self.only) == (now.text, now.only)
        return same_text and self.differs_in_text_only(now)

    def differs_in_text_only(self, now: TraceBasis, reads: frozenset[str] | None = None) -> bool:
        """Return whether ``now`` has the same settings and the same texts of other open files; the
        texts of the file may differ.

        An open file that was saved with its recorded text counts as unchanged. ``reads`` limits the
        comparison to the paths of files that the run has read.
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
        """Return the mapping of source ranges from this text to a text with these lines, if only
        comments and layout differ.

        None if the code differs or the text cannot be parsed.
        """
        may_be = may_be_same_code(self.lines, lines)  # this comparison does not parse the text
        return same_code(self.parsed, lines) if may_be and self.parsed is not None else None


@dataclass(frozen=True)
class StoredRun:
    """The results of a run that traced all targets, with source ranges in the text of ``basis``,
    the run's inputs.

    ``files`` are the files that the results depend on; ``status`` is the status of the engine that
    traced them.
    """

    basis: TraceBasis
    results: Results
    files: FilesRecorder
    status: EngineStatus
    is_complete: bool = True
    """False if results of some targets are missing."""
    is_interrupted: bool = False
    """True if the run was interrupted, so that findings of its targets may be missing. The results
    are only shown until the next run."""
    time_limit: float = 0.0
    """Time limit in seconds for the file, if targets without complete results reached this limit or
    the limit of a trace; else 0."""

    def differs_in_text_only(self, now: TraceBasis) -> bool:
        """Whether the inputs ``now`` differ from the inputs of this run at most in the text."""
        return self.basis.differs_in_text_only(now, self.files.reads or frozenset())

    @property
    def is_lasting(self) -> bool:
        """Whether a later session can use the results: a repetition of the run would give the same
        ones.
        """
        known = not self.results.names or self.files.reads is not None
        is_valid = self.results.is_settled or self.time_limit > 0
        return known and is_valid and self.files.is_lasting

    def drop_over_limit(self) -> StoredRun:
        """Return this run without the targets that reached a time limit."""
        if not self.time_limit:
            return self
        results = self.results.without_unsettled()
        return dataclasses.replace(self, results=results, is_complete=False, time_limit=0.0)

    def has_all_of(self, run: StoredRun) -> bool:
        """Return whether ``run``, an interrupted run, has the same text as this run and no
        additional results.
        """
        counts = [len(one.results.findings()) + len(one.results.reports()) for one in (self, run)]
        more = self.is_complete or counts[0] >= counts[1]
        return more and self.basis.text == run.basis.text

    def find_all(self, now: TraceBasis, path: str) -> Results | None:
        """Return the results if the code of ``now`` is the same, with source ranges in its text;
        else None.

        ``now`` are the inputs of the run that the results would replace, and ``path`` is the file.
        Files on disk are not compared, because an edit of the text does not change them.
        """
        same_text = self.basis.text == now.text
        moves = self.basis.moves_to(now.lines) if not same_text else None
        if now.only or not (same_text or moves) or not self.differs_in_text_only(now):
            return None
        if moves is None:
            return self.results.snapshot()
        results = self.results.relocate_to(CodeMap(moves, now.lines), path)
        return results if results.placed == self.results.placed else None

    def find_unaffected(self, now: TraceBasis, path: str) -> Reused | None:
        """Return the results of the targets that the edits since this run cannot affect; None
        without such targets.

        ``now`` are the current inputs, whose text may have other code; ``path`` is the file.
        """
        if self.results.note or not self.differs_in_text_only(now) or not self.files.is_current():
            return None
        before, after = self.basis.parsed, now.parsed
        if before is None or after is None:
            return None
        change = align_versions(before, after)
        if change is None:
            return None
        known = self.results.targets
        targets = find_unaffected(before, after, change, known)
        called = unless_called_otherwise(before, after, change, known) - targets
        if not targets and not called:
            return None
        results = self.results.relocate_to(CodeMap(change.moves, after.lines), path, called)
        placed = self.results.placed
        # Findings about the whole file may also have ranges that the new text does not have.
        complete = change.is_same and targets | {""} >= placed <= results.placed
        calls = tuple(
            one.calls
            for one in known
            if one.calls is not None and one.name in called & results.placed
        )
        return Reused(results, targets & results.placed, calls, complete, (self,))


@dataclass(frozen=True)
class Reused:
    """Results of earlier ``runs`` that an edit cannot affect, with source ranges in the new text.

    ``targets`` are the names of the targets with such results. Results of targets in ``calls`` are
    valid only if other code still calls these targets with the same inputs. ``is_complete``: all
    targets have such results, so nothing has to be traced.
    """

    results: Results
    targets: frozenset[str]
    calls: tuple[GivenCalls, ...]
    is_complete: bool
    runs: tuple[StoredRun, ...]

    def add(self, other: Reused) -> Reused:
        """Return these results combined with ``other``, results of an older run, for further
        targets.
        """
        further = other.targets - self.targets
        if not further:
            return self
        results = self.results.snapshot()
        results.adopt_targets(other.results, further)
        calls = tuple(one for one in self.calls if one.target not in further)
        runs = (*self.runs, *other.runs)
        return Reused(results, self.targets | further, calls, False, runs)


def begin_run(
    results: Results, request: Analyze, reused: Reused | None
) -> tuple[Analyze, FilesRecorder]:
    """Begin a run in ``results`` that traces only targets without reusable results.

    Return the request for the engine, restricted to these targets, and a recorder for the files
    that the results will depend on.
    """
    if reused is None:
        results.begin_run(request.only)
        return request, FilesRecorder()
    results.adopt_targets(reused.results, reused.targets)
    results.begin_run((), reused.targets, reused.results)
    without = tuple(sorted(reused.targets))
    request = dataclasses.replace(request, without=without, given=reused.calls)
    return request, FilesRecorder(run.files for run in reused.runs)
