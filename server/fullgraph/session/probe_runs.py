"""Match probe comments (``# fullgraph:`` comments with inputs for a target) to runs, and move
findings about wrong inputs to the comment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fullgraph.domain.codes import EAGER_ERROR
from fullgraph.domain.positions import TextPositions
from fullgraph.domain.reports import ShownReport, reports_by_target
from fullgraph.probes import ProbeComment, comment_on, comments_of
from fullgraph_engine.protocol import Finding, Fix, Range, Related, RunId, TextEdit

_MISFIT = "probe/invalid"
_HINT = "The target runs with another probe. Change the sizes or dtypes in this probe."
_EITHER = "The code runs with other inputs: change the probe, or the line that raises."


def comments_of_runs(
    positions: TextPositions, runs: Sequence[ShownReport]
) -> dict[int, ProbeComment]:
    """Return the comments that contain the example inputs of one target's runs, by the number of
    the inputs.
    """
    said = [one for one in runs if one.report.probe and one.report.probe.origin == "comment"]
    found: dict[int, ProbeComment] = {}
    above = comments_of(positions, said[0].report.range.start.line) if said else ()
    for number, shown in enumerate(said):
        probe = shown.report.probe
        comment = above[number] if len(above) == len(said) else None
        if shown.current and probe is not None:
            # The comment may be on any line of a class statement before its body.
            line = probe.source.removeprefix("line ")
            comment = comment_on(positions, int(line) - 1) if line.isdecimal() else comment
        if comment is not None:
            found[shown.report.probe_number] = comment
    return found


def run_of_comment(
    positions: TextPositions, runs: Iterable[ShownReport], comment: ProbeComment
) -> ShownReport | None:
    """Return the report of the run whose inputs are in ``comment``, among ``runs`` of all targets;
    None without one.
    """
    for its in reports_by_target(runs).values():
        comments = comments_of_runs(positions, its)
        for shown in its:
            said = comments.get(shown.report.probe_number)
            if said is not None and said.line == comment.line:
                return shown
    return None


def place_probe_findings(
    findings: Iterable[Finding], runs: Sequence[ShownReport], positions: TextPositions, path: str
) -> tuple[Finding, ...]:
    """Return the findings of the file at ``path``, with findings about wrong inputs moved to the
    comment with the inputs.

    If the target was traced with other inputs, code that raises is reported as caused by wrong
    inputs, and the graph break there is dropped.
    """
    findings = tuple(findings)
    probes = _Probes.from_runs(runs, positions)
    raised = {
        _finding_place(one)
        for one in findings
        if one.code == EAGER_ERROR and probes.find_misfit(one)
    }
    return tuple(
        probes.place_finding(one, positions, path)
        for one in findings
        if not (one.code.startswith("graph-break/") and _finding_place(one) in raised)
    )


def _finding_place(finding: Finding) -> tuple[str, RunId | None, Range]:
    return finding.target, finding.run, finding.range


@dataclass(frozen=True)
class _Misfit:
    """A comment with example inputs that do not work for its target; ``fits`` is a comment with
    inputs that work, or empty.
    """

    comment: ProbeComment
    fits: str


@dataclass(frozen=True)
class _Probes:
    """The comments with example inputs, and their working replacements, by target name and number
    of the inputs. The names of traced targets are also stored."""

    comments: Mapping[tuple[str, int], ProbeComment]
    fits: Mapping[tuple[str, int], str]
    traced: frozenset[str]

    @classmethod
    def from_runs(cls, runs: Sequence[ShownReport], positions: TextPositions) -> _Probes:
        comments = {
            (name, number): comment
            for name, its in reports_by_target(runs).items()
            for number, comment in comments_of_runs(positions, its).items()
        }
        reports = [shown.report for shown in runs]
        fits = {
            (one.name, one.probe_number): one.probe.comment
            for one in reports
            if one.probe is not None and one.probe.origin == "comment"
        }
        return cls(comments, fits, frozenset(one.name for one in reports if one.status == "traced"))

    def find_misfit(self, finding: Finding) -> _Misfit | None:
        """Return the comment whose wrong inputs caused a finding; None if the code of the target
        caused it.
        """
        if finding.run is None or finding.code not in (EAGER_ERROR, _MISFIT):
            return None
        key = finding.target, finding.run.probe
        comment, fits = self.comments.get(key), self.fits.get(key, "")
        if comment is None or not (fits or finding.target in self.traced):
            return None
        return _Misfit(comment, fits)

    def place_finding(self, finding: Finding, positions: TextPositions, path: str) -> Finding:
        """Return the finding; if wrong inputs caused it, moved to their comment and with a fix for
        them.
        """
        misfit = self.find_misfit(finding)
        if misfit is None:
            return finding
        place = misfit.comment.range(positions)
        if finding.code == EAGER_ERROR:
            finding = _misfit_finding(finding, place, path, _EITHER if misfit.fits else _HINT)
        if misfit.fits:
            fix = Fix(f"Change the probe to: {misfit.fits}", (TextEdit(place, misfit.fits),))
            finding = dataclasses.replace(finding, fixes=(fix,))
        return finding


def _misfit_finding(finding: Finding, place: Range, path: str, hint: str) -> Finding:
    words = finding.message.partition("torch.compile: ")[2] or finding.message
    return dataclasses.replace(
        finding,
        code=_MISFIT,
        message=f"These inputs do not fit: {words}",
        range=place,
        hints=(hint,),
        related=(Related(path, finding.range, "raised here"), *finding.related),
        identity=f"{finding.identity} {finding.run}",
    )
