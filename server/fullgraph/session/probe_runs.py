"""Which probe comment of a text says the probe of which run, and what is wrong with it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fullgraph.domain.positions import TextPositions
from fullgraph.domain.reports import ShownReport
from fullgraph.probes import ProbeComment, comment_on, comments_of
from fullgraph_engine.protocol import Finding, Related

_RAISES = "trace/eager-error"
_MISFIT = "probe/invalid"
_HINT = "Another probe of this target was traced, so change the sizes or dtypes of this one."


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

    Where a target was traced with another probe, code that raises is no error of the code.
    """
    reports: dict[str, list[ShownReport]] = defaultdict(list)
    for shown in runs:
        reports[shown.report.name].append(shown)
    works = {shown.report.name for shown in runs if shown.report.status == "traced"}
    comments = {name: comments_of_runs(positions, its) for name, its in reports.items()}
    return tuple(
        _on_probe(finding, comments[finding.target], positions, path)
        if finding.code == _RAISES and finding.target in works
        else finding
        for finding in findings
    )


def _on_probe(
    finding: Finding, comments: Mapping[int, ProbeComment], positions: TextPositions, path: str
) -> Finding:
    comment = comments.get(finding.run.probe) if finding.run is not None else None
    if comment is None:
        return finding
    words = finding.message.partition("torch.compile: ")[2] or finding.message
    return dataclasses.replace(
        finding,
        code=_MISFIT,
        message=f"These inputs do not fit: {words}",
        range=comment.range(positions),
        hints=(_HINT,),
        related=(Related(path, finding.range, "raised here"), *finding.related),
        identity=f"{finding.identity} {finding.run}",
    )
