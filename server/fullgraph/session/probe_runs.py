"""Which probe comment of a text says the probe of which run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from fullgraph.domain.positions import TextPositions
from fullgraph.probes import ProbeComment, comment_on, comments_of
from fullgraph.session.results import ShownReport


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
