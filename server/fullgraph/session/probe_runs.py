"""Which probe comment of a text says the probe of which run, and what is wrong with it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence

from fullgraph.domain.positions import TextPositions
from fullgraph.domain.reports import ShownReport
from fullgraph.probes import ProbeComment, comment_on, comments_of
from fullgraph_engine.protocol import Finding, Fix, Range, Related, TextEdit

_RAISES = "trace/eager-error"
_MISFIT = "probe/invalid"
_HINT = "Another probe of this target was traced, so change the sizes or dtypes of this one."
_EITHER = "The code runs with other inputs: change the probe, or the line that raises."


def comments_of_runs(
    positions: TextPositions, runs: Sequence[ShownReport]
) -> dict[int, ProbeComment]:
    """The comments that say the probes of one target, by the numbers of these."""
    said = [one for one in runs if one.report.probe and one.report.probe.origin == "comment"]
    found: dict[int, ProbeComment] = {}
    above = comments_of(positions, said[0].report.range.start.line) if said else ()
    for number, shown in enumerate(said):
        probe = shown.report.probe
        comment = above[number] if len(above) == len(said) else None
        if shown.current and probe is not None:
            # It may be anywhere in the head of a class.
            line = probe.source.removeprefix("line ")
            comment = comment_on(positions, int(line) - 1) if line.isdecimal() else comment
        if comment is not None:
            found[shown.report.probe_number] = comment
    return found


def run_of_comment(
    positions: TextPositions, runs: Iterable[ShownReport], comment: ProbeComment
) -> ShownReport | None:
    """The run with the probe of a comment, of the runs of all targets."""
    by_target: dict[str, list[ShownReport]] = defaultdict(list)
    for shown in runs:
        by_target[shown.report.name].append(shown)
    for its in by_target.values():
        comments = comments_of_runs(positions, its)
        for shown in its:
            said = comments.get(shown.report.probe_number)
            if said is not None and said.line == comment.line:
                return shown
    return None


def on_probes(
    findings: Iterable[Finding], runs: Sequence[ShownReport], positions: TextPositions, path: str
) -> tuple[Finding, ...]:
    """The findings of a file at ``path``, with those about inputs at the comment that says them.

    Where a target was traced with another probe, or runs with inputs that were found by trying,
    code that raises is no error of the code.
    """
    reports: dict[str, list[ShownReport]] = defaultdict(list)
    for shown in runs:
        reports[shown.report.name].append(shown)
    works = {shown.report.name for shown in runs if shown.report.status == "traced"}
    comments = {name: comments_of_runs(positions, its) for name, its in reports.items()}
    fitting = {
        (one.report.name, one.report.probe_number): one.report.probe.comment
        for one in runs
        if one.report.probe is not None and one.report.probe.origin == "comment"
    }

    def placed(finding: Finding) -> Finding:
        if finding.run is None or finding.code not in (_RAISES, _MISFIT):
            return finding
        comment = comments[finding.target].get(finding.run.probe)
        other = fitting.get((finding.target, finding.run.probe), "")
        if comment is None or not (other or finding.target in works):
            return finding
        if finding.code == _RAISES:
            hint = _EITHER if other else _HINT
            finding = _on_probe(finding, comment.range(positions), path, hint)
        if other:
            edit = TextEdit(comment.range(positions), other)
            fix = Fix(f"Change the probe to: {other}", (edit,))
            finding = dataclasses.replace(finding, fixes=(fix,))
        return finding

    return tuple(map(placed, findings))


def _on_probe(finding: Finding, range_: Range, path: str, hint: str) -> Finding:
    words = finding.message.partition("torch.compile: ")[2] or finding.message
    return dataclasses.replace(
        finding,
        code=_MISFIT,
        message=f"These inputs do not fit: {words}",
        range=range_,
        hints=(hint,),
        related=(Related(path, finding.range, "raised here"), *finding.related),
        identity=f"{finding.identity} {finding.run}",
    )
